"""The profiles of the functional and exactness tests: a connection method and a table format."""

from __future__ import annotations

from dataclasses import dataclass

import pytest


@dataclass(frozen=True)
class Profile:
    """A connection method and a table format.

    `file_format` is the format of a table whose name has no catalog, and the default of models.
    """

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

with_views = pytest.mark.profiles(
    SESSION_DELTA.name, *THRIFT, reason="the Iceberg catalog of session-iceberg has no views"
)

at_home_on_iceberg = pytest.mark.home(
    "session-iceberg", reason="fastest here, and independent of the table format"
)


def home_of(item: pytest.Item) -> str:
    """Return the profile that always runs a test.

    It is session-delta, or the profile that the mark `home` names. If the mark `profiles` excludes
    that profile, return the first profile that the mark allows.
    """
    mark = item.get_closest_marker("home")
    home = str(mark.args[0]) if mark is not None else SESSION_DELTA.name
    if home not in PROFILES:
        raise pytest.UsageError(f"{item.nodeid}: no profile: {home}")
    allowed = profiles_of(item)
    return home if home in allowed else allowed[0]


def profiles_of(item: pytest.Item) -> list[str]:
    """Return the profiles on which `@pytest.mark.profiles(*names, reason=...)` allows a test."""
    allowed = list(PROFILES)
    for mark in item.iter_markers("profiles"):
        unknown = set(mark.args) - PROFILES.keys()
        if unknown or not mark.args:
            raise pytest.UsageError(f"{item.nodeid}: no profiles: {sorted(unknown)}")
        allowed = [name for name in allowed if name in mark.args]
    if not allowed:
        raise pytest.UsageError(f"{item.nodeid}: its marks leave no profile")
    return allowed


def is_run_on(item: pytest.Item, profile: str) -> bool:
    """Return true if the test's result on this profile may differ from that on its home profile."""
    return profile == home_of(item) or item.get_closest_marker("every_profile") is not None


def is_in_core(item: pytest.Item, profile: str) -> bool:
    """Return true if the mark `core` puts a test into the core on a profile.

    The mark applies to the profiles that it names, or to all profiles if it names none.
    """
    named = [mark.args for mark in item.iter_markers("core")]
    return profile in profiles_of(item) and any(not args or profile in args for args in named)


def is_always_in_core(item: pytest.Item, profile: str) -> bool:
    """True if the test's source puts it into the core, not only `tests/recorded/core.json`."""
    return is_in_core(item, profile) and not any(
        mark.kwargs.get("chosen") for mark in item.iter_markers("core")
    )


def skip_elsewhere(item: pytest.Item, profile: str) -> None:
    """Skip a test that `@pytest.mark.profiles(*names, reason=...)` limits to other profiles."""
    if profile in profiles_of(item):
        return
    for mark in item.iter_markers("profiles"):
        if profile not in mark.args:
            reason = mark.kwargs.get("reason", f"only on {', '.join(mark.args)}")
            item.add_marker(pytest.mark.skip(reason=reason))
