"""Step 3 of a barrier: the last state of each changed key is staged."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from typing import Any

import pytest

from support.duck import Duck
from support.macros import Macros


def test_the_latest_version_of_a_key_wins_and_within_one_the_row_that_is_there(
    macros: Macros, duck: Duck, keys: Any
) -> None:
    columns = {"id": "bigint", "shard": "int", "name": "string"}
    events = [
        (1, 1, "before", 5, False), (1, 1, "after", 5, True),  # an update
        (2, 1, "gone", 5, False),  # a delete
        (3, 1, "came", 5, True), (3, 1, "came", 6, False),  # inserted, and deleted again
        (4, 1, "new", 6, True),
        (4, 2, "first", 5, True), (4, 2, "first", 6, False), (4, 2, "second", 6, True),
    ]  # fmt: skip
    duck.create("events", {**columns, "__bf_version": "int", "__bf_is_upsert": "boolean"}, events)
    changes = {"checks_before": True}
    view = macros.call("get_last_states_view_sql", "states", "select * from events", keys, changes)
    duck.execute(view)

    flags = "name, __bf_deleted, __bf_inserted, __bf_unclear, __bf_before.name"
    found = {(k, s): row for k, s, *row in duck.rows(f"select id, shard, {flags} from states")}
    assert found == {
        (1, 1): ["after", False, False, False, "before"],
        (2, 1): ["gone", True, False, False, "gone"],
        (3, 1): ["came", True, True, False, None],
        (4, 1): ["new", False, True, False, None],
        (4, 2): ["second", False, True, False, None],
    }


# The events of one key in their order: +x inserts the row x, and -x deletes it.
@pytest.mark.parametrize(
    ("events", "unclear"),
    [
        ("+a", False),  # an insert
        ("-a", False),  # a delete, or an UPDATE that gave the row another key
        ("-a +b", False),  # an update
        ("-a +b -b +c -c", False),  # updates, then a delete
        ("+a -a", False),  # inserted and deleted in between
        ("+a -a +b", False),
        ("-a +b -b +a", False),  # changed, and changed back
        ("+a +b", True),  # the key appears twice
        ("-a +b -b +c +d", True),
        ("-a -b", True),  # the key appeared twice
        ("-a +b -b +c -c -d", True),
        ("+new -old", True),  # it appeared twice for a while, then the older row was deleted
        ("-a +b +c -b", True),
        ("+b +c -a -b", True),
        ("+a +b -x -a", True),
    ],
)
def test_events_that_are_no_chain_of_states_are_unclear(
    macros: Macros, duck: Duck, keys: Any, events: str, unclear: bool
) -> None:
    columns = {"id": "bigint", "shard": "int", "name": "string"}
    duck.create(
        "events",
        {**columns, "__bf_version": "int", "__bf_is_upsert": "boolean"},
        [(1, 1, event[1:], at, event[0] == "+") for at, event in enumerate(events.split())],
    )
    view = macros.call("get_last_states_view_sql", "states", "select * from events", keys, {})
    duck.execute(view)

    assert duck.rows("select __bf_unclear from states") == [(unclear,)]


@pytest.mark.parametrize(
    ("events", "unclear"),
    [
        ("+a", False),
        ("-a", False),
        ("-a +b", False),
        ("+a +b", True),
        ("-a -b", True),
        ("-a +b -c +d", True),  # one UPDATE of both rows of a key
    ],
)
def test_more_events_of_a_key_than_one_commit_has_are_unclear(
    macros: Macros, duck: Duck, keys: Any, events: str, unclear: bool
) -> None:
    columns = {"id": "bigint", "shard": "int", "name": "string"}
    duck.create(
        "events",
        {**columns, "__bf_version": "int", "__bf_is_upsert": "boolean"},
        [(1, 1, event[1:], 0, event[0] == "+") for event in events.split()],
    )
    changes = {"one_commit": True}
    view = macros.call("get_last_states_view_sql", "states", "select * from events", keys, changes)
    duck.execute(view)

    assert duck.rows("select __bf_unclear from states") == [(unclear,)]


@pytest.mark.parametrize(("feed", "null_keys"), [(None, 1), ({"kind": "delta"}, 2)])
def test_a_stage_is_counted_and_bounded(
    macros: Macros, duck: Duck, backfill: Any, make_state: Any, make_plan: Any, changes: Any,
    feed: Any, null_keys: int,
) -> None:  # fmt: skip
    """In a change table, a delete without a key does not report which row was deleted."""
    backfill["feed"] = feed
    flags = ["__bf_deleted", "__bf_unclear", "__bf_inserted", "__bf_before"]
    rows = [
        (2, 9, False, True, False, None), (2, 1, True, False, False, True),
        (7, 3, False, False, False, None), (None, 9, False, True, True, None),
        (8, None, True, False, False, True),
    ]  # fmt: skip
    states = macros.call("get_stage_names", backfill, make_plan())["states"].strip("`")
    duck.create(states, {"id": "bigint", "shard": "int", **dict.fromkeys(flags, "boolean")}, rows)
    stage = macros.call("get_stage", backfill, make_state(), make_plan(), changes)
    [summary] = [sql for sql in stage["statements"] if sql.startswith("set staged = ")]
    [(found,)] = duck.rows(summary.removeprefix("set staged = ")[1:-1])

    counts = {"count": 3, "null_keys": null_keys, "altered_keys": 0, "suspects": 2, "inserts": 5}
    assert found == {**counts, "low": ["2L", "1"], "high": ["7L", "3"]}
    duck.execute(f"delete from {states}")
    [(found,)] = duck.rows(summary.removeprefix("set staged = ")[1:-1])
    assert (found["low"], found["high"]) == (None, None)


@pytest.mark.parametrize(
    ("types", "may"),
    [
        (["int", "bigint", "boolean", "decimal(10,2)"], False),
        (["bigint", "string"], True),
        (["date"], True),
        (["timestamp_ntz"], True),
        (["char(3)"], True),
    ],
)
def test_of_texts_and_times_a_feed_may_list_other_keys(
    macros: Macros, types: list[str], may: bool
) -> None:
    keys = [{"upstream": "id", "type": type} for type in types]

    altered = macros.call("altered_key_predicate", {"alters_values": True}, keys)
    assert (altered is not None) is may
    assert macros.call("altered_key_predicate", {}, keys) is None


@pytest.mark.parametrize(("altered_keys", "bound"), [(0, ["7"]), (1, None)])
def test_keys_that_the_feed_may_tell_otherwise_are_between_no_bounds(
    macros: Macros, backfill: Any, make_plan: Any, altered_keys: int, bound: list[str] | None
) -> None:
    staged = {"altered_keys": altered_keys, "low": ["7"], "high": ["7"]}
    result = {"staged": staged, "merged": {"upserts": 1, "drops": 0}}
    own = macros.call("describe_stage", backfill, make_plan(), result)

    assert (own["low"], own["high"], own["altered_keys"]) == (bound, bound, altered_keys)


STAGED = {"count": 3, "null_keys": 0, "suspects": 0}
MERGED = {"upserts": 2, "drops": 1}


@pytest.fixture
def changes(
    macros: Macros, backfill: Any, observed: Any, analysis: Any, make_state: Any, make_plan: Any
) -> dict[str, Any]:
    """Return the changes between the upstream's versions 16 and 17."""
    arguments = (backfill, make_state(), observed, analysis, make_plan())
    changes: dict[str, Any] = macros.call("get_changes", *arguments)
    return changes


@pytest.fixture
def stage(macros: Macros, backfill: Any, make_plan: Any, changes: Any) -> Any:
    """Stage the changes of a plan that another run has made."""

    def stage(
        state: dict[str, Any], read: dict[str, Any] = changes, **plan: Any
    ) -> tuple[dict[str, Any], str]:
        macros.results = [[[json.dumps({"staged": STAGED, "merged": MERGED})]]]
        staged = macros.call("stage_changes", backfill, state, make_plan(**plan), read)
        return staged, " ".join(macros.statements[-1].sql.split())

    return stage


def test_a_stage_tells_that_no_key_was_read_again_where_none_was_in_doubt(
    stage: Any, make_state: Callable[..., Any]
) -> None:
    assert stage(make_state())[0]["reread"] == {"count": 0}


@pytest.mark.parametrize("result", [{"failed": True}, {"done": False, "failed": True}])
def test_changes_that_cannot_be_staged_are_noted_where_the_plan_may_be_given_up(
    macros: Macros, backfill: Any, make_state: Any, make_plan: Any, changes: Any, result: Any
) -> None:
    macros.results = [[[json.dumps(result)]]]

    staged = macros.call("stage_changes", backfill, make_state(), make_plan(), changes, True)
    assert staged == {"failed": "stage the changes"}
    script = " ".join(macros.statements[0].sql.split())
    assert "declare exit handler for sqlexception begin select " in script


def test_the_stage_of_a_stalled_run_is_not_taken_for_another(
    stage: Any, make_state: Callable[..., Any], macros: Macros
) -> None:
    first = stage(make_state())[0]["name"]
    second = stage(make_state(), plan_id="p9")[0]["name"]
    macros.context["invocation_id"] = "11111111-0000-0000-0000-000000000000"
    third = stage(make_state())[0]["name"]

    assert len({first, second, third}) == 3
    assert re.fullmatch(r"`mv__changes__[0-9a-f]{12}__rows`", first)


def test_the_stage_of_another_mv_of_this_name_has_another_name(
    macros: Macros, backfill: Any, make_plan: Any
) -> None:
    other = {**backfill, "mv": backfill["mv"].incorporate(path={"schema": "other"})}

    names = [macros.call("get_stage_names", each, make_plan()) for each in (backfill, other)]
    assert names[0]["states"] != names[1]["states"]
