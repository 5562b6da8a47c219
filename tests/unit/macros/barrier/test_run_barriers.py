"""The barriers of a run, and what becomes of a plan that an earlier run left."""

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
    """Runs barriers of the given kinds; when they are used up there is nothing left to do."""
    macros.context["rebuilds"] = []
    macros.context["reported"] = []
    macros.stub("find_query_change", lambda backfill, state, learned: None)
    macros.stub(
        "report_barrier",
        lambda backfill, barrier, allowance: macros.context["reported"].append(
            barrier["plan"]["kind"]
        ),
    )
    macros.stub("create_backfill", lambda backfill, state: {**state, "missing": False})
    macros.stub("release_replica", lambda backfill, state: None)
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
        begun_anew: int | None = None,
        found_anew: str | None = None,
        deployed: int | None = None,
        **state: Any,
    ) -> Any:
        options["barriers_per_run"] = barriers_per_run
        left = list(kinds)
        asked_in_vain: list[Any] = []

        def run_barrier(
            backfill: Any, state: Any, learned: Any, rebuild: Any, next: Any, last: bool = False
        ) -> Any:
            assert learned == state["epoch"]  # what the barrier before it has learned
            if not left:
                assert not asked_in_vain, "asked again after there was nothing left to do"
                return asked_in_vain.append(state)
            macros.context["rebuilds"].append(rebuild)
            macros.context["lasts"].append(last)
            macros.context["limits"].append(backfill["options"]["backfill_rate_limit"])
            more = macros.context["settings"].get(state["epoch"] + 1, state["controls"])
            plan = make_plan(kind=left.pop(0), epoch=state["epoch"] + 1, range_row_count=rows)
            counts = {"changed": 2, "deleted": 1} if plan["kind"] == "advance" else {}
            noted = {"begun_anew": True} if plan["epoch"] == begun_anew else {}
            noted |= {"query_hash": "other"} if plan["epoch"] == deployed else {}
            after = make_state(
                epoch=plan["epoch"], finished=not left, committed={**plan, **noted}
            ) | {"written": state["written"], "controls": more}
            return {
                "plan": plan, "state": after, "counts": counts, "learned": plan["epoch"],
                "seconds": 4.0,
                "range_seconds": 4.0,
            }  # fmt: skip

        macros.stub("run_barrier", run_barrier)
        found = {"written": None, "controls": {}, **make_state(**state)}
        observed = {"state": found, "begun_anew": found_anew, "learned": found["epoch"]}
        result = macros.call("run_barriers", backfill, observed, rebuild)
        return {**result, "left": left}

    return run


def test_a_run_is_one_barrier_unless_more_are_asked_for(run: Any) -> None:
    result = run("advance", "advance", "advance", barriers_per_run=1)

    assert len(result["left"]) == 2
    assert (result["message"], result["barriers"]) == ("BARRIER 3 (40.0 %)", 1)


def test_every_barrier_is_reported(run: Any, macros: Macros) -> None:
    run("abandon", "reanchor", "advance", barriers_per_run=2)

    assert macros.context["reported"] == ["abandon", "reanchor", "advance"]


def test_a_run_has_as_many_barriers_as_are_asked_for_and_adds_up_their_counts(run: Any) -> None:
    result = run("advance", "advance", "advance", barriers_per_run=2)

    assert len(result["left"]) == 1
    assert result["barriers"] == 2
    assert (result["rows_backfilled"], result["changed"], result["deleted"]) == (10, 4, 2)
    assert (result["plan"]["epoch"], result["state"]["epoch"]) == (4, 4)


def test_a_run_ends_once_there_is_nothing_left_to_do(run: Any) -> None:
    result = run("advance", "advance", barriers_per_run=None)

    assert result["message"] == "BARRIERS 3 to 4 (100.0 %), CAUGHT UP"
    assert (result["barriers"], result["plan"]["epoch"]) == (2, 4)


def test_a_run_of_all_barriers_does_not_follow_an_upstream_for_ever(run: Any) -> None:
    """Once nothing is left to read, changes that come during a barrier are the next run's."""
    result = run(*["advance"] * 5, rows=None)

    assert (result["barriers"], len(result["left"])) == (2, 3)
    assert result["message"] == "BARRIERS 3 to 4 (40.0 %)"


def test_a_run_without_anything_to_do_says_so(run: Any) -> None:
    result = run(finished=True)
    assert (result["message"], result["barriers"], result["plan"]) == ("CAUGHT UP", 0, None)
    assert run(finished=False)["message"] == "PAUSED (40.0 %)"


@pytest.mark.parametrize("kind", ["reset", "abandon"])
def test_a_run_goes_on_after_a_reset_and_an_abandoned_plan(run: Any, kind: str) -> None:
    """After a full refresh the same run backfills; what it committed is counted all the same."""
    result = run(kind, "advance", "advance", barriers_per_run=1)

    assert len(result["left"]) == 1
    assert (result["barriers"], result["plan"]["kind"]) == (2, "advance")
    assert result["message"] == "BARRIERS 3 to 4 (40.0 %)"


def test_a_run_that_only_empties_the_table_does_not_say_that_nothing_was_done(run: Any) -> None:
    """A full refresh at a rate limit of 0."""
    result = run("reset", barriers_per_run=1, rebuild="full refresh")

    assert result["message"] == "BARRIER 3 (100.0 %), CAUGHT UP"
    assert (result["barriers"], result["plan"]["kind"]) == (1, "reset")


def test_a_reanchor_counts_as_a_barrier(run: Any) -> None:
    result = run("reanchor", "advance", barriers_per_run=1)

    assert len(result["left"]) == 1
    assert (result["rows_backfilled"], result["changed"], result["deleted"]) == (0, 0, 0)


def test_an_advance_that_another_run_had_planned_is_not_the_rebuild(
    run: Any, macros: Macros
) -> None:
    result = run("advance", "reset", "advance", barriers_per_run=1, rebuild="full refresh")

    assert macros.context["rebuilds"] == ["full refresh", "full refresh", None]
    assert (result["barriers"], result["plan"]["epoch"]) == (3, 5)


def test_an_mv_is_rebuilt_once_in_a_run(run: Any, macros: Macros) -> None:
    run("abandon", "reset", "advance", barriers_per_run=1, rebuild="full refresh")

    assert macros.context["rebuilds"] == ["full refresh", "full refresh", None]


def test_a_changed_query_is_a_rebuild_where_the_user_said_so(run: Any, macros: Macros) -> None:
    macros.stub("find_query_change", lambda *_: "its query changed")
    run("reset", "advance", barriers_per_run=1)

    assert macros.context["rebuilds"] == ["its query changed", None]


def test_an_mv_that_is_about_to_be_created_needs_no_full_refresh(run: Any, macros: Macros) -> None:
    run("advance", barriers_per_run=1, rebuild="full refresh", missing=True)

    assert macros.context["rebuilds"] == [None]


def test_a_run_tells_whether_it_has_replaced_the_mv(run: Any) -> None:
    """Its comments have to be written again."""
    assert run("reset", "advance", barriers_per_run=1)["replaced"] is True
    assert run("abandon", "reanchor", "advance", barriers_per_run=2)["replaced"] is False


def test_an_mv_is_created_also_where_no_barrier_is_run(run: Any) -> None:
    """A rate limit of 0 from the start."""
    assert run(missing=True)["state"]["missing"] is False


def test_an_mv_that_was_begun_anew_is_reset_though_nobody_asked_for_it(
    run: Any, macros: Macros
) -> None:
    reason = "lake.mv was begun anew, as by a full refresh that came late"
    run("reset", "advance", barriers_per_run=1, found_anew=reason)

    assert macros.context["rebuilds"] == [reason, None]


@pytest.mark.parametrize("query_changed", [None, "its query changed"])
def test_a_full_refresh_or_a_changed_query_says_why_an_mv_that_was_begun_anew_is_reset(
    run: Any, macros: Macros, query_changed: str | None
) -> None:
    macros.stub("find_query_change", lambda *_: query_changed)
    rebuild = None if query_changed else "full refresh"
    run("reset", "advance", barriers_per_run=1, rebuild=rebuild, found_anew="it was begun anew")

    assert macros.context["rebuilds"][0] == (query_changed or rebuild)


def test_an_mv_that_a_barrier_finds_begun_anew_is_reset_by_the_next_one(
    run: Any, macros: Macros
) -> None:
    """In the same run: a full refresh that came late has emptied it in the middle."""
    result = run("advance", "reset", "advance", barriers_per_run=1, begun_anew=3)

    reason = "it was begun anew by a full refresh that came late"
    assert macros.context["rebuilds"] == [None, reason, None]
    assert result["barriers"] == 3


def test_a_full_refresh_keeps_its_reason_where_the_one_before_it_was_given_up(
    run: Any, macros: Macros
) -> None:
    """That one may have emptied the MV."""
    run("abandon", "reset", "advance", barriers_per_run=1, begun_anew=3, rebuild="full refresh")

    assert macros.context["rebuilds"] == ["full refresh", "full refresh", None]


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
    """What is kept until then would make every commit dearer."""
    run(*["advance"] * barriers, barriers_per_run=barriers, written=since)

    assert macros.context["written"] == written


def test_a_barrier_is_told_that_it_is_the_last_one(run: Any, macros: Macros) -> None:
    run("reset", "advance", "advance", barriers_per_run=2)

    assert macros.context["lasts"] == [False, False, True]


def test_no_barrier_is_known_to_be_the_last_one_of_all(run: Any, macros: Macros) -> None:
    run("advance", "advance", barriers_per_run=None)

    assert macros.context["lasts"] == [False, False]


# -- one barrier ------------------------------------------------------------------------------


@pytest.fixture
def barrier(
    macros: Macros,
    backfill: Any,
    learned: Any,
    make_state: Callable[..., Any],
    make_plan: Callable[..., Any],
) -> Callable[..., Any]:
    """Runs one barrier for which p3 is chosen; returns it with what was asked along the way."""
    asked: dict[str, Any] = {}

    def observe_upstream(backfill: Any, state: Any, since: Any) -> dict[str, Any]:
        asked["since"] = since
        return {"version": 17}

    def execute_plan(backfill: Any, state: Any, plan: Any, work: Any) -> dict[str, Any]:
        asked["work"] = work
        return {"failed": None, "counts": {"changed": 1}}

    def commit_barrier(
        backfill: Any, state: Any, plan: Any, counts: Any, ends: bool, views: Any, left_at: Any
    ) -> Any:
        asked["before"] = state["committed"]
        asked["committed"] = (plan["plan_id"], counts, views)
        asked["ends"] = ends
        noted = {"changed_row_count": 5, "deleted_row_count": 2}
        return {"epoch": 3, "committed": noted}

    macros.stub("observe_upstream", observe_upstream)
    macros.stub(
        "choose_plan",
        lambda backfill, state, observed, nothing, rebuild, next: {
            "plan": make_plan(), "most_rows": None, "learned": learned
        },
    )  # fmt: skip
    macros.stub("execute_plan", execute_plan)
    macros.stub("commit_barrier", commit_barrier)
    macros.stub(
        "prepare_creation", lambda backfill: asked["steps"].append("prepare") or ["columns"]
    )
    macros.stub("choose_replica", lambda *given: asked["steps"].append("copy") or given[2])
    macros.stub("get_changes", lambda *_: {"events": "select"})
    macros.stub("get_stage_views", lambda backfill, plan, changes: [f"`{plan['plan_id']}`"])
    macros.stub(
        "adopt_plan",
        lambda backfill, state, observed, plan, rebuild: {"plan": plan, "guarded": True},
    )

    def barrier(standing: str = "p3", last: bool = False, **state: Any) -> Any:
        def plan_barrier(
            backfill: Any, state: Any, observed: Any, choice: Any, columns: Any
        ) -> Any:
            plan = choice["plan"]
            asked["columns"] = columns
            asked["steps"].append("plan")
            is_ours = standing == plan["plan_id"]
            staged = {"name": "`p3`", "count": 1} if is_ours else None
            return {"plan": {**plan, "plan_id": standing}, "staged": staged, "views": ["`p3`"]}

        asked["steps"] = []
        macros.stub("plan_barrier", plan_barrier)
        nothing = macros.call("new_learned")
        return (
            macros.call("run_barrier", backfill, make_state(**state), nothing, None, None, last),
            asked,
        )

    return barrier


def test_a_barrier_executes_and_commits_the_plan_that_it_inserted(barrier: Any) -> None:
    result, asked = barrier()

    assert result["plan"]["plan_id"] == "p3" and result["state"]["epoch"] == 3
    assert asked["committed"] == ("p3", {"changed": 1}, ["`p3`"])
    assert (asked["work"]["guarded"], asked["work"]["staged"]["count"]) == (False, 1)
    assert result["learned"]["explained"]


def test_a_barrier_tells_the_counts_that_were_committed(barrier: Any, macros: Macros) -> None:
    """What Iceberg counts is known only then."""
    assert barrier()[0]["counts"] == {"changed": 5, "deleted": 2}

    macros.stub("execute_plan", lambda *_: {"failed": None, "counts": {}})
    assert barrier()[0]["counts"] == {}


def test_counts_that_the_format_does_not_tell_are_left_out(barrier: Any, macros: Macros) -> None:
    macros.stub("commit_barrier", lambda *_: {"epoch": 3, "committed": {}})

    assert barrier()[0]["counts"] == {}


def test_a_barrier_executes_the_plan_of_another_run_that_was_first(barrier: Any) -> None:
    """What was staged for its own plan is not used for theirs, but dropped."""
    result, asked = barrier(standing="theirs")

    assert result["plan"]["plan_id"] == "theirs"
    assert (asked["work"]["guarded"], asked["work"]["staged"]) == (False, None)
    assert asked["committed"] == ("theirs", {"changed": 1}, ["`p3`", "`theirs`"])


def test_a_plan_that_stands_is_executed_and_none_is_chosen(
    barrier: Any, macros: Macros, backfill: Any, make_plan: Callable[..., Any]
) -> None:
    macros.stub("choose_plan", lambda *_: pytest.fail("chosen"))
    committed = make_plan(epoch=2, plan_id="p2b")
    result, asked = barrier(planned=make_plan(plan_id="left"), committed=committed)

    assert result["plan"]["plan_id"] == "left"
    assert (asked["work"]["guarded"], asked["work"]["staged"]) == (True, None)
    assert asked["before"] == committed
    assert asked["committed"] == ("left", {"changed": 1}, [])


def test_there_is_no_barrier_if_there_is_nothing_to_do(barrier: Any, macros: Macros) -> None:
    macros.stub("choose_plan", lambda *_: None)
    result, asked = barrier()

    assert result is None and "committed" not in asked


def test_the_upstream_is_read_since_the_committed_plan(barrier: Any) -> None:
    assert barrier()[1]["since"]["plan_id"] == "p2"


@pytest.mark.parametrize("state", [{"upstream_version": None}, {"dirty": True}])
def test_the_upstream_is_read_anew_where_no_version_is_committed(barrier: Any, state: Any) -> None:
    assert barrier(**state)[1]["since"] is None


def test_an_mv_is_created_only_with_the_plan_that_was_checked(barrier: Any) -> None:
    """What is refused leaves nothing behind, and no copy of the upstream was made for it."""
    assert barrier(missing=True)[1]["steps"] == ["prepare", "copy", "plan"]
    assert barrier(missing=True)[1]["columns"] == ["columns"]
    assert barrier()[1]["steps"] == ["copy", "plan"]


@pytest.mark.parametrize(
    ("last", "kind", "ends"),
    [
        (True, "advance", True),
        (True, "reanchor", True),
        (True, "reset", False),  # the run goes on after it
        (True, "abandon", False),
        (False, "advance", False),
    ],
)
def test_the_history_is_written_along_with_the_barrier_that_ends_the_run(
    barrier: Any, make_plan: Any, last: bool, kind: str, ends: bool
) -> None:
    _, asked = barrier(last=last, planned=make_plan(kind=kind))

    assert asked["ends"] is ends


def test_a_run_ends_before_it_undoes_what_another_deployment_has_done(
    run: Any, refused: Any, macros: Macros
) -> None:
    """Whose barrier came after its own; the one that it was asked for is done by then."""
    assert run("advance", barriers_per_run=1, deployed=3)["barriers"] == 1
    with refused("another run went on while this one executed the barrier 3. Nothing is lost"):
        run("advance", "advance", barriers_per_run=2, deployed=3)
    assert macros.context["reported"] == ["advance"] * 2


# -- controls and budgets ---------------------------------------------------------------------


def test_each_barrier_may_read_what_is_set_by_then(run: Any, macros: Macros) -> None:
    """The state that a commit returns has what was set meanwhile."""
    throttle = {"value": "7", "set_by": "alice", "set_at": "noon"}
    paused = {"value": "true", "set_by": "bob", "set_at": "one"}
    macros.context["settings"] |= {
        4: {"rate_limit": throttle},
        5: {"rate_limit": throttle, "pause": paused},
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
    """Only this run knows of a full refresh."""
    options["run_minutes"] = 1e-9
    result = run("advance", "reset", "advance", "advance", rebuild="full refresh")

    assert len(result["left"]) == 2
    assert result["message"] == "BARRIERS 3 to 4 (40.0 %), BUDGET SPENT"


def test_ranges_are_sized_by_what_the_last_one_took(run: Any, macros: Macros, options: Any) -> None:
    """Each of these barriers takes 4 s for 5 rows."""
    options["barrier_seconds"] = 20
    options["backfill_rate_limit"] = None
    macros.stub("read_measures", lambda *_: [])
    run(*["advance"] * 3, barriers_per_run=3)

    assert macros.context["limits"] == [10, 20, 20]  # four times as many rows at most


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
    macros.context["adapter"].note_place = lambda place: None
    options["take_turns"] = asked
    run("advance", "advance")  # and one more, for which there is nothing left to do

    assert len(turns) == taken
