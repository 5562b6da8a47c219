"""A plan that can no longer be executed."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest

from support.macros import Macros

Standing = Callable[..., Any]


@pytest.fixture
def abandon(macros: Macros, backfill: Any, make_plan: Any, make_state: Any) -> Standing:
    """Call run_mark_abandoned for plan p3 while the progress table has the plan `stands`. Return
    the result.
    """

    def abandon(stands: dict[str, Any] | None) -> Any:
        macros.results = [[[json.dumps({"plan": stands})]]]
        return macros.call("run_mark_abandoned", backfill, make_state(), make_plan(), "it's gone")

    return abandon


def test_a_plan_that_is_given_up_is_told_as_it_then_stands(abandon: Standing) -> None:
    stands = {"plan_id": "p3", "kind": "abandon", "reason": "another run's"}

    assert abandon(stands) == stands


@pytest.mark.parametrize(
    "stands",
    [None, {"plan_id": "p4", "kind": "abandon"}, {"plan_id": "p3", "kind": "advance"}],
    ids=["committed", "another plan", "not marked"],
)
def test_none_is_given_up_where_another_run_has_gone_on(abandon: Standing, stands: Any) -> None:
    assert abandon(stands) is None


@pytest.fixture
def mark(
    progress: Any, backfill: Any, make_plan: Any, make_state: Any, macros: Macros
) -> Callable[[], int]:
    """Give up plan p3. Return the number of rows of the progress table that are changed."""

    def mark() -> int:
        macros.results = [[['{"plan": null}']]]
        return int(progress.move("run_mark_abandoned", backfill, make_state(), make_plan(), "gone"))

    return mark


def test_every_row_says_that_its_plan_was_given_up_and_nothing_else_changes(
    mark: Any, progress: Any, with_plan: Any, make_plan: Any
) -> None:
    progress.fill(**with_plan())

    assert mark() == 2
    rows = progress.read("epoch", "plan_id", "plan_kind", "dirty")
    assert rows == [(2, "p3", "abandon", False)] * 2
    plan, none = progress.read("plan")
    assert json.loads(plan) == make_plan(kind="abandon", reason="gone") and none is None


def test_a_plan_is_given_up_once(mark: Any, progress: Any, with_plan: Any) -> None:
    progress.fill(**with_plan())

    assert (mark(), mark()) == (2, 0)


def test_the_vnodes_that_were_before_a_plan_that_is_given_up_are_those_after_it(
    progress: Any, backfill: Any, make_plan: Any, make_state: Any, macros: Macros
) -> None:
    plan = make_plan(vnode_count=8)
    for count in (4, 8):
        progress.fill(plan_id="p3", plan_kind="advance", plan=json.dumps(plan))
        state = make_state(committed=make_plan(vnode_count=count))
        macros.results = [[['{"plan": null}']]]
        progress.move("run_mark_abandoned", backfill, state, plan, "gone")
        assert json.loads(progress.read("plan")[0])["vnode_count"] == count


@pytest.mark.parametrize(
    "state", [{"epoch": 3}, {"epoch": 1}, {"plan_id": "p9"}, {"plan_id": None, "plan_kind": None}]
)
def test_only_the_plan_of_the_next_epoch_can_be_given_up(
    mark: Any, progress: Any, with_plan: Any, state: dict[str, Any]
) -> None:
    progress.fill(**{**with_plan(), **state})

    assert mark() == 0


@pytest.mark.parametrize(
    "types",
    [{}, {"k": "bigint"}, {"k": "map<string,int>", "shard": "int"}],
    ids=["no column", "a key of before", "what cannot be compared"],
)
def test_nothing_is_on_its_way_to_an_mv_that_has_another_key(
    macros: Macros, backfill: Any, make_plan: Any, types: dict[str, str]
) -> None:
    backfill["options"]["file_format"] = "iceberg"
    macros.results = [list(types.items())]
    macros.call("run_stopping", backfill, make_plan(kind="abandon", epoch=3))

    assert [statement.name for statement in macros.statements] == [
        "dbt_backfill_describe the query"
    ]


# -- which ranges a given-up plan may have written ----------------------------------------------


@pytest.fixture
def noted(macros: Macros, make_plan: Any) -> Any:
    """Return the record of given-up plans that is stored if a plan is given up after the plan
    `committed`.
    """

    def noted(committed: dict[str, Any], **plan: Any) -> Any:
        return macros.call("add_given_up", make_plan(epoch=2, **committed), make_plan(**plan))

    return noted


def test_the_first_plan_that_is_given_up_is_noted_with_the_barrier_before_it(
    noted: Any, make_plan: Any, make_source: Any
) -> None:
    sources = [make_source(version="16")]
    assert noted({"sources": sources}, kind="abandon") == {
        "since": {"epoch": 2, "sources": sources, "key": make_plan()["key"]},
        "plans": [
            {
                "epoch": 3,
                "sources": [make_source()],
                "range_low": ["1", "2"],
                "range_high": ["5", "6"],
                "last_range": False,
                "touched": None,
            }
        ],
    }


@pytest.mark.parametrize("kind", ["advance", "reanchor", "reset"])
def test_a_barrier_that_was_executed_begins_the_note_anew(noted: Any, kind: str) -> None:
    found = noted({"kind": kind, "given_up": {"since": "long ago", "plans": [1]}}, kind="abandon")

    assert found["since"]["epoch"] == 2 and len(found["plans"]) == 1


def test_the_plans_since_the_last_executed_barrier_are_noted_newest_first(noted: Any) -> None:
    earlier = {"since": {"epoch": 1}, "plans": [{"epoch": 2}]}
    found = noted({"kind": "abandon", "given_up": earlier}, kind="abandon")

    assert found["since"] == {"epoch": 1}
    assert [plan["epoch"] for plan in found["plans"]] == [3, 2]


def test_a_plan_of_a_reanchor_is_noted_with_what_it_was_limited_to(noted: Any) -> None:
    assert noted({}, kind="reanchor", touched=[["9", "9"]])["plans"][0]["touched"] == [["9", "9"]]


def test_a_reset_that_is_given_up_notes_nothing_for_another_one_follows(
    noted: Any, make_source: Any
) -> None:
    assert noted({}, kind="abandon", sources=[make_source(version=None, id=None)]) is None


@pytest.mark.parametrize(("before", "is_noted"), [(19, True), (20, False)])
def test_too_many_plans_that_were_given_up_are_not_looked_at(
    noted: Any, before: int, is_noted: bool
) -> None:
    earlier = {"since": {"epoch": 1}, "plans": [{"epoch": 2}] * before}

    found = noted({"kind": "abandon", "given_up": earlier})
    assert (found is not None) is is_noted


def test_what_is_not_told_once_is_not_told_by_the_next_one(noted: Any) -> None:
    assert noted({"kind": "abandon"}) is None


@pytest.fixture
def touched(
    macros: Macros, backfill: Any, make_state: Any, make_plan: Any, make_source: Any
) -> Any:
    """Return the upper ends of the ranges that these given-up plans may have written.

    [] stands for a range without an upper end.
    """

    def touched(
        *plans: dict[str, Any],
        gap: str | None = None,
        continues: bool = True,
        forgets: bool = False,
        noted: bool = True,
        sweeps: bool = False,
        **state: Any,
    ) -> Any:
        macros.stub("find_feed_gap", lambda *_: gap)
        macros.answer("continues_upstream", lambda *_: continues)
        macros.answer("forgets_keys", lambda *_: forgets)
        backfill["upstream"]["kind"] = "iceberg"
        given_up = {
            "since": {"epoch": 1, "sources": [make_source(version="16")]},
            "plans": [make_plan(kind="abandon", **plan) for plan in plans],
        }
        committed = make_plan(
            epoch=2, kind="abandon", given_up=given_up if noted else None, sweeps=sweeps
        )
        state = {"dirty": True, "committed": committed, **state}
        return macros.call("find_touched_ranges", backfill, make_state(**state), {})

    return touched


def test_a_plan_could_touch_its_range(touched: Any) -> None:
    assert touched({}) == [["5", "6"]]
    assert touched({"range_high": ["1", "2"]}) == []  # a plan without a range
    assert touched({"last_range": True}) == [[]]  # a range without an upper end
    assert touched({}, {"range_high": ["8", "8"]}, {}) == [["5", "6"], ["8", "8"]]
    assert touched({}, {"last_range": True}) == [[]]


def test_in_a_sweep_nothing_that_a_plan_could_touch_above_the_position_is_promised(
    touched: Any,
) -> None:
    assert touched({}, {"range_high": None}, sweeps=True) == []


def test_a_limited_reanchor_that_was_given_up_could_touch_what_the_plans_before_it_could(
    touched: Any,
) -> None:
    assert touched({"range_high": ["1", "2"], "touched": [["9", "9"]]}) == [["9", "9"]]


def test_all_may_be_touched_where_the_feed_does_not_tell(touched: Any, backfill: Any) -> None:
    assert touched({}, gap="vacuumed") is None
    assert touched({}, continues=False) is None
    assert touched({}, uniform=False) is None
    assert touched({}, upstream_version="15") is None
    assert touched({}, noted=False) is None
    backfill["feed"] = {"kind": "delta"}
    assert touched({}) is None


def test_all_may_be_touched_where_a_key_may_have_come_with_the_plan_and_gone(
    touched: Any, make_source: Any
) -> None:
    assert touched({}, forgets=True) is None
    assert touched({"sources": [make_source(version="16")]}, forgets=True) == [["5", "6"]]


def test_nothing_was_touched_where_nothing_was_given_up(touched: Any) -> None:
    assert touched({}, dirty=False) is None


MARKED = {"epoch": 3, "plan_id": "p3", "kind": "abandon"}


@pytest.fixture
def give_up(
    macros: Macros,
    backfill: Any,
    make_plan: Callable[..., Any],
    stored: Callable[..., str],
) -> Callable[..., Any]:
    failed = "merge the range of the barrier 3"

    def give_up(marked: Any = MARKED, **now: Any) -> Any:
        found = stored(**{"planned": make_plan(), **now})
        macros.results = [[[found]], [[json.dumps({"plan": marked})]]]
        return macros.call("give_up_plan", backfill, make_plan(), failed)

    return give_up


def test_a_failed_plan_is_marked_and_what_is_on_its_way_is_stopped(
    give_up: Callable[..., Any], macros: Macros
) -> None:
    assert give_up() == MARKED
    _, mark, stop = macros.statements
    assert (
        '"reason": "it could not merge the range of the barrier 3, and the upstream has a '
        'later version than 17"'
    ) in mark.sql
    assert stop.name == "dbt_backfill_stop what is on its way in the barrier 3"


@pytest.mark.parametrize(
    "now",
    [
        {"epoch": 3},
        {"planned": None},
        {"planned": {"plan_id": "p9", "kind": "advance"}},
        {"planned": {"plan_id": "p3", "kind": "abandon"}},
    ],
    ids=["committed", "and none planned", "another planned", "given up"],
)
def test_a_plan_that_failed_because_another_run_went_on_is_not_given_up(
    give_up: Callable[..., Any], refused: Any, macros: Macros, now: Any
) -> None:
    with refused("another run changed the state while this run executed the barrier 3. Nothing"):
        give_up(**now)
    assert len(macros.statements) == 1


def test_a_plan_that_is_committed_before_it_can_be_marked_is_not_given_up(
    give_up: Callable[..., Any], refused: Any, macros: Macros
) -> None:
    with refused("another run changed the state while this run executed the barrier 3. Nothing"):
        give_up(marked=None)
    assert len(macros.statements) == 2  # the MV is not written
