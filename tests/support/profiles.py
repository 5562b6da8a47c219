"""What the functional and exactness tests run on: a connection method and a table format."""

from __future__ import annotations

from dataclasses import dataclass

import pytest


@dataclass(frozen=True)
class Profile:
    """`file_format` is what a table's plain name means, and the default of every model."""

    method: str
    file_format: str

    @property
    def name(self) -> str:
        return f"{self.method}-{self.file_format}"


SESSION_DELTA = Profile("session", "delta")

PROFILES = {
    profile.name: profile
    for profile in (
        SESSION_DELTA,
        Profile("session", "iceberg"),
        Profile("thrift", "delta"),
        Profile("thrift", "iceberg"),
    )
}


THRIFT = tuple(name for name, profile in PROFILES.items() if profile.method == "thrift")

any_connection = pytest.mark.profiles(
    "session-delta", "session-iceberg", reason="depends on the table format alone"
)

needs_a_server = pytest.mark.profiles(*THRIFT, reason="a session's metastore admits one process")

not_on_hadoop = pytest.mark.profiles(
    "session-delta",
    "thrift-delta",
    "thrift-iceberg",
    reason="Iceberg's Hadoop catalog cannot rename a table or place it elsewhere",
)

needs_tables_of_spark = pytest.mark.profiles(
    "session-delta",
    "thrift-delta",
    "thrift-iceberg",
    reason="Iceberg's Hadoop catalog has no views",
)


def depends_on_profile(item: pytest.Item, profile: Profile) -> bool:
    """Whether a test says something on a profile that it does not say on session-delta."""
    return profile == SESSION_DELTA or item.get_closest_marker("every_profile") is not None


def skip_elsewhere(item: pytest.Item, profile: Profile) -> None:
    """Skips a test that `@pytest.mark.profiles(*names, reason=...)` keeps to other profiles."""
    for mark in item.iter_markers("profiles"):
        unknown = set(mark.args) - PROFILES.keys()
        if unknown or not mark.args:
            raise pytest.UsageError(f"{item.nodeid}: no profiles: {sorted(unknown)}")
        if profile.name not in mark.args:
            reason = mark.kwargs.get("reason", f"only on {', '.join(mark.args)}")
            item.add_marker(pytest.mark.skip(reason=reason))
