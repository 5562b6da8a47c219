"""The barriers of a run, and what a run does with a plan that an earlier run left."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from support.macros import Macros


@pytest.fixture
def run(
    macros: Macros,
    backfill: Any,
    options: Any,
    make_state: Callable[..., Any],
    make_plan: Callable[..., Any],
) -> Callable[..., Any]:
    """Run barriers of the given kinds, after which nothing is left to do."""
    macros.context["rebuilds"] = []
    macros.context["reported"] = []
    macros.stub(
        "report_barrier",
        lambda backfill, barrier, allowance: macros.context["reported"].append(
            barrier["plan"]["kind"]
        ),
    )
    macros.stub("create_backfill", lambda backfill, state: {**state, "missing": False})
    macros.stub("drop_own_replica", lambda backfill: None)
    macros.context["lasts"] = []
    macros.context["limits"] = []
    macros.context["settings"] = {}
    macros.context["written"] = []

    def write_history(backfill: Any, state: Any) -> Any:
        macros.context["written"].append(state["epoch"])
        return {**state, "written": state["epoch"]}

    macros.stub("write_history", write_history)

    def run(
        *kinds: str,
        barriers_per_run: int | None = None,
        rebuild: str | None = None,
        rows: int | None = 5,
        deployed: int | None = None,
        query_changed: str | None = None,
        **state: Any,
    ) -> Any:
        macros.stub("find_change", lambda *_: {"rebuild": query_changed, "columns": None})
        options["barriers_per_run"] = barriers_per_run
        left = list(kinds)
        asked_in_vain: list[Any] = []

        def run_barrier(
            backfill: Any, state: Any, analysis: Any, rebuild: Any, next: Any, last: bool = False
        ) -> Any:
            assert analysis == state["epoch"]  # what the previous barrier has found out
            if not left:
                assert not asked_in_vain, "asked again after there was nothing left to do"
                return asked_in_vain.append(state)
            macros.context["rebuilds"].append(rebuild)
            macros.context["lasts"].append(last)
            macros.context["limits"].append(backfill["options"]["backfill_rate_limit"])
            more = macros.context["settings"].get(state["epoch"] + 1, state["control"])
            plan = make_plan(kind=left.pop(0), epoch=state["epoch"] + 1, range_row_count=rows)
            counts = {"changed": 2, "deleted": 1} if plan["kind"] == "advance" else {}
            noted = {"query_hash": "other"} if plan["epoch"] == deployed else {}
            after = make_state(
                epoch=plan["epoch"], finished=not left, committed={**plan, **noted}
            ) | {"written": state["written"], "control": more}
            return {
                "plan": plan, "state": after, "counts": counts, "analysis": plan["epoch"],
                "seconds": 4.0,
                "seconds_without_copy": 4.0,
            }  # fmt: skip

        macros.stub("run_barrier", run_barrier)
        found = {"written": None, "control": {}, **make_state(**state)}
        observed = {"state": found, "analysis": found["epoch"]}
        result = macros.call("run_barriers", backfill, observed, rebuild)
        return {**result, "left": left}

    return run


ADVANCE3 = ["advance"] * 3
REFRESH = {"rebuild": "full refresh"}

# Each entry: the kinds of the barriers, the options of the run, and the expected result.
RUNS: dict[str, tuple[list[str], dict[str, Any], dict[str, Any]]] = {
    "one barrier": (
        ADVANCE3, {"barriers_per_run": 1}, {"barriers": 1, "message": "BARRIER 3 (40.0 %)"}
    ),
    "two, whose counts are added up": (
        ADVANCE3, {"barriers_per_run": 2},
        {"barriers": 2, "rows_backfilled": 10, "changed": 4, "deleted": 2,
         "message": "BARRIERS 3 to 4 (40.0 %)"},
    ),
    "all": (
        ["advance", "advance"], {},
        {"barriers": 2, "message": "BARRIERS 3 to 4 (100.0 %), CAUGHT UP"},
    ),
    # If nothing is left to read, the next run merges the changes that arrive during a barrier.
    "all, of an upstream that changes for ever": (
        ["advance"] * 5, {"rows": None}, {"barriers": 2, "message": "BARRIERS 3 to 4 (40.0 %)"}
    ),
    "nothing to do": (
        [], {"finished": True}, {"barriers": 0, "plan": None, "message": "CAUGHT UP"}
    ),
    "paused": ([], {"finished": False}, {"barriers": 0, "message": "PAUSED (40.0 %)"}),
    # After a full refresh, the same run also reads a range. Both barriers are counted.
    "a reset": (
        ["reset", "advance", "advance"], {"barriers_per_run": 1},
        {"barriers": 2, "message": "BARRIERS 3 to 4 (40.0 %)", "replaced": True},
    ),
    "a plan that was given up": (
        ["abandon", "advance", "advance"], {"barriers_per_run": 1},
        {"barriers": 2, "message": "BARRIERS 3 to 4 (40.0 %)", "replaced": False},
    ),
    "a full refresh at a rate limit of 0": (
        ["reset"], {"barriers_per_run": 1, **REFRESH},
        {"barriers": 1, "message": "BARRIER 3 (100.0 %), CAUGHT UP"},
    ),
    "a re-anchor counts": (
        ["reanchor", "advance"], {"barriers_per_run": 1},
        {"barriers": 1, "rows_backfilled": 0, "changed": 0, "deleted": 0, "replaced": False},
    ),
    # A run rebuilds an MV only once. An advance that another run had planned does not count as the
    # rebuild.
    "a full refresh": (
        ["reset", "advance"], {"barriers_per_run": 1, **REFRESH},
        {"rebuilds": ["full refresh", None]},
    ),
    "a full refresh after an advance": (
        ["advance", "reset", "advance"], {"barriers_per_run": 1, **REFRESH},
        {"barriers": 3, "rebuilds": ["full refresh", "full refresh", None]},
    ),
    "a full refresh of an MV that is about to be created": (
        ["advance"], {"barriers_per_run": 1, "missing": True, **REFRESH}, {"rebuilds": [None]}
    ),
    "a changed query": (
        ["reset", "advance"], {"barriers_per_run": 1, "query_changed": "its query changed"},
        {"rebuilds": ["its query changed", None]},
    ),
}  # fmt: skip


@pytest.mark.parametrize(("kinds", "given", "result"), RUNS.values(), ids=RUNS)
def test_a_run_has_these_barriers_and_says_so(
    run: Any, macros: Macros, kinds: list[str], given: Any, result: dict[str, Any]
) -> None:
    found = {**run(*kinds, **given), "rebuilds": macros.context["rebuilds"]}

    assert {name: found[name] for name in result} == result
    assert len(found["left"]) == len(kinds) - found["barriers"]
    assert macros.context["reported"] == kinds[: found["barriers"]]


def test_an_mv_is_created_also_where_no_barrier_is_run(run: Any) -> None:
    assert run(missing=True)["state"]["missing"] is False


# -- the history --------------------------------------------------------------------------------


def test_the_history_is_written_at_the_end_of_a_run(run: Any, macros: Macros) -> None:
    run("advance", "advance", barriers_per_run=2)

    assert macros.context["written"] == [4]


def test_a_run_that_does_nothing_writes_what_one_that_died_has_left(
    run: Any, macros: Macros
) -> None:
    run()

    assert macros.context["written"] == [2]


@pytest.mark.parametrize(
    ("since", "barriers", "written"),
    [(2, 19, [21]), (2, 20, [22, 22]), (None, 17, [19]), (None, 18, [20, 20]), (-1, 18, [20, 20])],
)
def test_the_history_of_a_long_run_is_written_every_twenty_barriers(
    run: Any, macros: Macros, since: int | None, barriers: int, written: list[int]
) -> None:
    """The progress table keeps barriers that the history does not have yet. They make every commit
    more expensive.
    """
    run(*["advance"] * barriers, barriers_per_run=barriers, written=since)

    assert macros.context["written"] == written


def test_a_barrier_is_told_that_it_is_the_last_one(run: Any, macros: Macros) -> None:
    run("reset", "advance", "advance", barriers_per_run=2)

    assert macros.context["lasts"] == [False, False, True]


def test_no_barrier_is_known_to_be_the_last_one_of_all(run: Any, macros: Macros) -> None:
    run("advance", "advance", barriers_per_run=None)

    assert macros.context["lasts"] == [False, False]


# -- one barrier ------------------------------------------------------------------------------


def test_a_run_ends_before_it_undoes_what_another_deployment_has_done(
    run: Any, refused: Any, macros: Macros
) -> None:
    assert run("advance", barriers_per_run=1, deployed=3)["barriers"] == 1
    with refused("another run changed the state while this run executed the barrier 3. Nothing"):
        run("advance", "advance", barriers_per_run=2, deployed=3)
    assert macros.context["reported"] == ["advance"] * 2


# -- controls and budgets ---------------------------------------------------------------------


def test_each_barrier_may_read_what_is_set_by_then(run: Any, macros: Macros) -> None:
    """A commit returns the state with the controls that were set during the barrier."""
    throttle = {"value": "7", "set_by": "alice", "set_at": "noon"}
    paused = {"value": "0", "set_by": "bob", "set_at": "one"}
    macros.context["settings"] |= {
        4: throttle,
        5: paused,
    }
    result = run(*["advance"] * 5, barriers_per_run=4)

    assert macros.context["limits"] == [10, 10, 7, 0]
    assert result["message"] == "BARRIERS 3 to 6 (40.0 %) · paused by bob since one"


def test_a_run_ends_once_its_budget_of_rows_is_spent(
    run: Any, macros: Macros, options: Any
) -> None:
    options["run_rows"] = 12
    result = run(*["advance"] * 5)

    # Each of these barriers has read 5 rows.
    assert macros.context["limits"] == [10, 7, 2]
    assert result["message"] == "BARRIERS 3 to 5 (40.0 %), BUDGET SPENT"


def test_a_run_whose_time_is_over_begins_no_further_barrier(run: Any, options: Any) -> None:
    options["run_minutes"] = 1e-9
    result = run(*["advance"] * 5)

    assert result["message"] == "BARRIER 3 (40.0 %), BUDGET SPENT"


def test_a_rebuild_is_done_whatever_time_it_takes(run: Any, options: Any) -> None:
    """Only this run knows that a full refresh was requested, because the request is not stored."""
    options["run_minutes"] = 1e-9
    result = run("advance", "reset", "advance", "advance", rebuild="full refresh")

    assert len(result["left"]) == 2
    assert result["message"] == "BARRIERS 3 to 4 (40.0 %), BUDGET SPENT"


@pytest.mark.parametrize(
    ("adapter", "asked", "taken"),
    [("spark_backfill", True, 3), ("spark_backfill", False, 0), ("spark", True, 0)],
)
def test_a_turn_is_taken_for_each_barrier_if_asked_and_where_there_are_turns(
    run: Any, macros: Macros, options: Any, adapter: str, asked: bool, taken: int
) -> None:
    turns: list[None] = []
    macros.context["adapter"].type = lambda: adapter
    macros.context["adapter"].take_turn = lambda: turns.append(None)
    macros.context["adapter"].set_line_if_stopped = lambda place: None
    options["take_turns"] = asked
    run("advance", "advance")  # the third time there is nothing left to do

    assert len(turns) == taken
