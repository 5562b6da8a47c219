"""Step 3: the last state of each changed key, and the MERGE of these."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from support.macros import Macros

# -- the MERGE ----------------------------------------------------------------------------------

LOW_TO_HIGH = (
    "((mv.`k` >= 1 and (mv.`k` > 1 or (mv.`k` = 1 and mv.`shard` >= 2))) "
    "and (mv.`k` <= 4 and (mv.`k` < 4 or (mv.`k` = 4 and mv.`shard` <= 0))))"
)
OLD_TO_NEW = (
    "((mv.`k` >= 1 and (mv.`k` > 1 or (mv.`k` = 1 and mv.`shard` >= 2))) "
    "and (mv.`k` <= 5 and (mv.`k` < 5 or (mv.`k` = 5 and mv.`shard` <= 6))))"
)
KEYS = "mv.`k` = changes.`k` and mv.`shard` = changes.`shard`"
STAGE = {
    "name": "`stage__rows`", "low": ["1", "2"], "high": ["4", "0"], "upserts": 2, "drops": 1
}  # fmt: skip


@pytest.fixture
def merge(
    macros: Macros,
    backfill: Any,
    make_plan: Callable[..., Any],
    make_state: Any,
    sent: Any,
    work: Any,
) -> Callable[..., str]:
    """The MERGE of staged changes, and of a range where the plan has both `at_once`."""

    def merge(at_once: bool = False, **plan: Any) -> str:
        made = make_plan(at_once=at_once, **plan)
        if at_once:
            macros.call("run_changes_and_range", backfill, make_state(), made, work, STAGE)
        else:
            macros.call("run_changes", backfill, made, work, STAGE)
        return str(sent()[-1])

    return merge


def test_what_is_merged_is_what_was_staged(merge: Any) -> None:
    assert (
        "merge into lake.mv as mv using ( select * from ( select * from `stage__rows` ) where "
    ) in merge()


@pytest.mark.parametrize("at_once", [False, True])
def test_a_key_that_the_query_no_longer_returns_is_deleted(merge: Any, at_once: bool) -> None:
    assert merge(at_once).endswith(
        "when matched and not changes.__bf_dropped then update set * "
        "when matched then delete "
        "when not matched and not changes.__bf_dropped then insert *"
    )


def test_the_target_is_bounded_by_the_changed_keys_as_literals(merge: Any) -> None:
    on = merge().split(" as changes on ")[1].split(" when ")[0]

    assert on == f"{KEYS} and {LOW_TO_HIGH}"


@pytest.mark.parametrize("at_once", [False, True])
def test_the_changes_are_fenced_in_the_source(
    merge: Any, render: Any, backfill: Any, make_plan: Any, at_once: bool
) -> None:
    """A fence beside a range is one for both."""
    source = merge(at_once).split(" as changes on ")[0]
    fence = render("get_fence", backfill, make_plan())

    assert source.endswith(f") where {fence} )")
    assert source.count(fence) == 1


def test_changes_and_a_range_are_the_source_of_one_merge(
    merge: Any, render: Any, backfill: Any, make_plan: Any, make_state: Any
) -> None:
    """With the columns of a stage: a row of the range has its own key, and is never dropped."""
    range_rows = render("get_range_rows_sql", backfill, make_state(), make_plan())

    assert (
        "using ( select * from ( select * from `stage__rows` union all "
        "select * except (`k`, `shard`), `k`, `shard`, false as __bf_dropped "
        f"from ( {range_rows} ) ) where "
    ) in merge(at_once=True)


def test_the_target_of_both_is_bounded_by_what_either_may_touch(merge: Any) -> None:
    on = merge(at_once=True).split(" as changes on ")[1].split(" when ")[0]

    assert on == f"{KEYS} and ({LOW_TO_HIGH} or {OLD_TO_NEW})"


def test_the_target_of_both_is_bounded_by_the_range_whichever_way_it_goes(
    merge: Any, descending: Any
) -> None:
    down = {"key": descending, "range_low": ["5", "6"], "range_high": ["1", "2"]}

    def on(**plan: Any) -> str:
        return str(merge(at_once=True, **plan).split(" as changes on ")[1].split(" when ")[0])

    assert on(**down) == f"{KEYS} and ({LOW_TO_HIGH} or {OLD_TO_NEW})"
    to_the_end = f"(mv.`k` <={OLD_TO_NEW.split('(mv.`k` <=')[1]}"
    assert on(**down, last_range=True) == f"{KEYS} and ({LOW_TO_HIGH} or ({to_the_end})"


def test_changes_and_the_last_range_are_not_bounded_above(merge: Any) -> None:
    on = merge(at_once=True, last_range=True).split(" as changes on ")[1].split(" when ")[0]

    assert on == f"{KEYS} and ({LOW_TO_HIGH} or {OLD_TO_NEW.split(' and (mv.`k` <=')[0]}))"


def test_keys_without_bounds_are_looked_for_everywhere(
    macros: Macros, make_plan: Callable[..., Any]
) -> None:
    staged = {"low": None, "high": None}

    assert macros.call("staged_predicate", make_plan(), staged) == "(true)"
    assert macros.call("at_once_predicate", make_plan(), staged).startswith("((true) or (")


def test_both_are_bounded_by_no_more_than_two_columns(
    macros: Macros, make_plan: Callable[..., Any], keys: Any
) -> None:
    """Spark's time for such a condition grows with the power of their number."""
    wide = [*keys, {"name": "last", "upstream": "last", "type": "int", "position": "last"}]
    plan = make_plan(key=wide, range_low=["1", "2", "3"], range_high=["5", "6", "7"])
    staged = {"low": ["1", "2", "3"], "high": ["4", "0", "9"]}

    bounds = macros.call("at_once_predicate", plan, staged)
    assert bounds == f"({LOW_TO_HIGH} or {OLD_TO_NEW})"


@pytest.mark.parametrize(
    ("at_once", "step"),
    [(False, "merge the changes of"), (True, "merge the changes and the range of")],
)
def test_the_rows_that_were_merged_are_counted(
    macros: Macros,
    backfill: Any,
    make_plan: Callable[..., Any],
    merge: Any,
    at_once: bool,
    step: str,
) -> None:
    asked: list[Any] = []
    macros.stub("get_merge_counts", lambda *given: asked.append(given) or {"changed": 8})
    macros.results = [[["result"]]]

    assert merge(at_once).startswith(f"/* lake.mv: {step} the barrier 3 */")
    assert asked[0][:3] == (backfill, make_plan(at_once=at_once), STAGE)
    assert asked[0][3]["result"] == [["result"]]


# -- get_changes --------------------------------------------------------------------------------


@pytest.fixture
def changes(
    macros: Macros,
    backfill: Any,
    learned: Any,
    make_state: Callable[..., Any],
    make_plan: Callable[..., Any],
    followed: Any,
) -> Callable[..., Any]:
    """What is asked for the changes of a plan, with the table in front."""
    for macro in ["get_upstream_changes", "get_change_table_events"]:
        macros.stub(
            macro,
            lambda table, *given: {
                "events": "<events>", "asked": (table["relation"].identifier, *given)
            },
        )  # fmt: skip

    def changes(feed: Any = None, known: Any = None, **state: Any) -> Any:
        backfill["feed"] = feed
        state = make_state(**{"committed": make_plan(sources=followed()), **state})
        plan = make_plan(sources=followed("9"))
        columns = ["id"] if feed else None
        known = {**learned, "feed_columns": columns, "drops_rows": False, **(known or {})}
        changes = macros.call("get_changes", backfill, state, OBSERVED, known, plan)
        assert changes["drops_rows"] is False
        return changes["asked"], " ".join(changes["events"].split())

    return changes


OBSERVED = {"version": "17", "feed": {"version": "9"}}
VIEW = "`lake__mv__changes__3__p3__00000000000000000000000000000000__events`"


def test_changes_are_those_of_the_upstream_since_the_committed_version(
    changes: Callable[..., Any], keys: Any
) -> None:
    assert changes() == (("up", OBSERVED, "16", "17", keys, VIEW), "<events>")


def test_changes_are_the_events_of_a_change_table_since_the_committed_ones(
    changes: Callable[..., Any], feed: Any, keys: Any
) -> None:
    asked = ("changes", {"version": "9"}, "7", "9", keys, ["id"], VIEW)
    assert changes(feed) == (asked, "<events>")


@pytest.mark.parametrize(
    ("version", "with_feed", "selected"),
    [("17", False, "`id`, `a``b`"), ("17", True, "`id`"), ("16", False, None), (None, False, None)],
)
def test_changes_have_the_columns_that_the_upstream_has_at_the_version_of_the_plan(
    changes: Callable[..., Any], feed: Any, version: str | None, with_feed: bool, selected: Any
) -> None:
    known = {"version": version, "upstream_columns": ["id", "a`b"]}
    _, events = changes(feed if with_feed else None, known)

    whole = f"select {selected}, __bf_version, __bf_is_upsert from ( <events> )"
    assert events == (whole if selected else "<events>")


def test_after_a_plan_was_given_up_events_are_read_from_the_last_executed_barrier_on(
    changes: Callable[..., Any], feed: Any, keys: Any, make_plan: Any, followed: Any
) -> None:
    """The one that was given up may have merged none of those up to its version."""
    given_up = {"since": {"epoch": 1, "sources": followed("5")}, "plans": []}
    committed = make_plan(kind="abandon", sources=followed("7"), given_up=given_up)

    assert changes(feed, dirty=True, committed=committed)[0][2:4] == ("5", "9")


@pytest.mark.parametrize(
    ("asked", "plan", "state"),
    [
        (True, {}, {}),
        (False, {"sweeps": True}, {}),
        (False, {"kind": "fill"}, {}),
        (False, {}, {"dirty": True}),
    ],
)
def test_a_change_may_leave_a_row_as_it_was_where_that_row_is_exact(
    macros: Macros,
    backfill: Any,
    learned: Any,
    make_state: Callable[..., Any],
    make_plan: Callable[..., Any],
    asked: bool,
    plan: dict[str, Any],
    state: dict[str, Any],
) -> None:
    read = [{"name": "id", "type": "int"}]
    known = {**learned, "read_columns": read}
    for tells in (True, False):
        macros.stub(
            "get_upstream_changes", lambda *_, tells=tells: {"events": "", "tells_before": tells}
        )
        changes = macros.call(
            "get_changes", backfill, make_state(**state), OBSERVED, known, make_plan(**plan)
        )
        assert changes["read_columns"] == (read if asked and tells else None)
