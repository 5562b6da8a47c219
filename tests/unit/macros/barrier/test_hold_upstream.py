"""A tag keeps the upstream's version while the mode `snapshot` reads it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from support.macros import Macros

HELD = {"dbt_backfill_b1": 7}  # the existing tags, and the snapshot of each


def plan(version: str | None = "7", **other: Any) -> dict[str, Any]:
    """Return a plan that reads this version of the upstream, or that reads none if it is None."""
    source = {"role": "upstream", "relation": "lake.up", "kind": "iceberg"}
    return {
        "kind": "advance",
        "backfill_mode": "snapshot",
        "backfill_id": "b1",
        "sources": [source if version is None else {**source, "version": version}],
        "last_range": False,
        **other,
    }


@pytest.mark.parametrize(
    ("kind", "state", "planned", "holds"),
    [
        ("iceberg", {}, {}, True),
        # The mode changes to snapshot.
        (
            "iceberg",
            {"upstream_version": "7", "committed": {"backfill_mode": "arrangement"}},
            {},
            True,
        ),
        ("delta", {}, {}, False),
        ("iceberg", {}, {"kind": "reset"}, False),  # a reset reads nothing
        ("iceberg", {}, {"last_range": True}, False),  # no later range reads this version
        ("iceberg", {"upstream_version": "7"}, {}, False),  # the version is already held
        ("iceberg", {}, {"version": "0"}, False),  # there is no snapshot
        ("iceberg", {"finished": True}, {}, False),
    ],
)
def test_the_barrier_that_begins_to_read_a_version_holds_it(
    macros: Macros, kind: str, state: dict[str, Any], planned: dict[str, Any], holds: bool
) -> None:
    before = {"committed": {"backfill_mode": "snapshot"}, **state}
    backfill = {"upstream": {"kind": kind}, "options": {"backfill_mode": "snapshot"}}
    held = macros.call("before_steps", backfill, before, plan(**planned))

    assert (bool(held), len(macros.statements)) == (holds, holds)


@pytest.mark.parametrize(
    ("kind", "tags", "last", "lets_go"),
    [
        ("iceberg", HELD, plan(backfill_mode="arrangement"), True),
        # The first barrier that reads another version drops the tag. After a crash of
        # that run, a later barrier drops the tag.
        ("iceberg", HELD, plan("9"), True),
        ("iceberg", HELD, plan(None), True),  # a reset
        ("iceberg", HELD, plan("7"), False),
        ("iceberg", {}, plan("9"), False),
        ("iceberg", {"dbt_backfill_b2": 7}, plan("9"), False),  # the tag of another MV
    ],
)
def test_the_first_barrier_that_leaves_the_version_or_the_mode_lets_it_go(
    macros: Macros, kind: str, tags: dict[str, int], last: dict[str, Any], lets_go: bool
) -> None:
    macros.call("after_commit", {"upstream": {"kind": kind}}, {"holds": tags}, {}, last)

    assert len(macros.statements) == lets_go


@pytest.fixture
def release(
    macros: Macros, backfill: Any, options: Any, make_state: Any, make_plan: Any, make_source: Any
) -> Callable[..., list[str]]:
    """Call release_staged in a run that has read all rows. Return the statements that it sends.

    `has_staged`: the run itself has staged the last rows; otherwise an earlier run has.
    """
    macros.context["adapter"].cache_dropped = lambda relation: ""
    backfill["upstream"]["kind"] = "postgres"

    def release(
        file_format: str = "delta", properties: Any = None, type: str | None = "table",
        has_staged: bool = True, listed: bool = True,
    ) -> list[str]:  # fmt: skip
        options["file_format"] = file_format
        there = None if type is None else backfill["staged"].incorporate(type=type)
        macros.stub("load_table", lambda relation: there if listed else None)
        macros.stub("find_table", lambda relation: there)
        macros.stub("read_table_properties", lambda relation: properties or {})
        sources = [make_source(), *([make_source(role="stage")] if has_staged else [])]
        state = make_state(finished=True)
        macros.call("release_staged", backfill, state, make_plan(sources=sources))
        return [statement.sql.split("*/")[1].strip() for statement in macros.statements]

    return release


OURS = {"dbt_backfill.format": "2"}


@pytest.mark.parametrize(
    ("file_format", "gc", "end"),
    [("iceberg", "true", " purge"), ("iceberg", "false", ""), ("delta", None, "")],
)
@pytest.mark.parametrize(("has_staged", "listed"), [(True, False), (False, True)])
def test_staged_rows_go_with_their_files_where_the_table_lets_them(
    release: Callable[..., list[str]], file_format: str, gc: str | None, end: str,
    has_staged: bool, listed: bool,
) -> None:  # fmt: skip
    sent = release(file_format, {**OURS, "gc.enabled": gc}, has_staged=has_staged, listed=listed)
    assert sent == [f"drop table if exists lake.mv__staged{end}"]


@pytest.mark.parametrize("file_format", ["delta", "iceberg"])
@pytest.mark.parametrize(
    ("properties", "type"), [({"owner": "somebody"}, "table"), (OURS, "view"), (OURS, None)]
)
def test_a_table_of_others_stays_and_one_that_is_gone_is_not_asked(
    release: Callable[..., list[str]], file_format: str, properties: Any, type: str | None
) -> None:
    for has_staged in (True, False):
        assert release(file_format, properties, type, has_staged) == []
