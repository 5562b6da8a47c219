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
    macros.stub("find_query_change", lambda backfill, state: None)
    macros.stub(
        "report_barrier",
        lambda backfill, barrier: macros.context["reported"].append(barrier["plan"]["kind"]),
    )
    macros.stub("create_backfill", lambda backfill, state: state.update(missing=False))
    macros.context["lasts"] = []
    macros.context["written"] = []

    def write_history(backfill: Any, state: Any) -> None:
        macros.context["written"].append(state["epoch"])
        backfill["written"] = state["epoch"]

    macros.stub("write_history", write_history)

    def run(
        *kinds: str,
        barriers_per_run: int | None = None,
        rebuild: str | None = None,
        rows: int | None = 5,
        begun_anew: int | None = None,
        **state: Any,
    ) -> Any:
        options["barriers_per_run"] = barriers_per_run
        left = list(kinds)
        asked_in_vain: list[Any] = []

        def run_barrier(backfill: Any, state: Any, rebuild: Any, last: bool = False) -> Any:
            if not left:
                assert not asked_in_vain, "asked again after there was nothing left to do"
                return asked_in_vain.append(state)
            macros.context["rebuilds"].append(rebuild)
            macros.context["lasts"].append(last)
            plan = make_plan(kind=left.pop(0), epoch=state["epoch"] + 1, range_row_count=rows)
            counts = {"changed": 2, "deleted": 1} if plan["kind"] == "advance" else {}
            noted = {"begun_anew": True} if plan["epoch"] == begun_anew else {}
            after = make_state(epoch=plan["epoch"], finished=not left, committed={**plan, **noted})
            return {"plan": plan, "state": after, "counts": counts}

        macros.stub("observe_state", lambda backfill: make_state(**state))
        macros.stub("run_barrier", run_barrier)
        result = macros.call("run_barriers", backfill, rebuild)
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
    macros.stub("find_query_change", lambda backfill, state: "its query changed")
    run("reset", "advance", barriers_per_run=1)

    assert macros.context["rebuilds"] == ["its query changed", None]


def test_an_mv_that_is_about_to_be_created_needs_no_full_refresh(run: Any, macros: Macros) -> None:
    run("advance", barriers_per_run=1, rebuild="full refresh", missing=True)

    assert macros.context["rebuilds"] == [None]


def test_an_mv_is_created_also_where_no_barrier_is_run(run: Any) -> None:
    """A rate limit of 0 from the start."""
    assert run(missing=True)["state"]["missing"] is False


def test_an_mv_that_was_begun_anew_is_reset_though_nobody_asked_for_it(
    run: Any, macros: Macros, backfill: Any
) -> None:
    backfill["begun_anew"] = "lake.mv was begun anew, as by a full refresh that came late"
    run("reset", "advance", barriers_per_run=1)

    assert macros.context["rebuilds"] == [backfill["begun_anew"], None]


@pytest.mark.parametrize("query_changed", [None, "its query changed"])
def test_a_full_refresh_or_a_changed_query_says_why_an_mv_that_was_begun_anew_is_reset(
    run: Any, macros: Macros, backfill: Any, query_changed: str | None
) -> None:
    backfill["begun_anew"] = "it was begun anew"
    macros.stub("find_query_change", lambda backfill, state: query_changed)
    rebuild = None if query_changed else "full refresh"
    run("reset", "advance", barriers_per_run=1, rebuild=rebuild)

    assert macros.context["rebuilds"][0] == (query_changed or rebuild)


def test_an_mv_that_a_barrier_finds_begun_anew_is_reset_by_the_next_one(
    run: Any, macros: Macros
) -> None:
    """In the same run: a full refresh that came late has emptied it in the middle."""
    result = run("advance", "reset", "advance", barriers_per_run=1, begun_anew=3)

    reason = "it was begun anew by a full refresh that came late"
    assert macros.context["rebuilds"] == [None, reason, None]
    assert result["barriers"] == 3


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
    run: Any, macros: Macros, backfill: Any, since: int | None, barriers: int, written: list[int]
) -> None:
    """What is kept until then would make every commit dearer."""
    backfill["written"] = since
    run(*["advance"] * barriers, barriers_per_run=barriers)

    assert macros.context["written"] == written


def test_a_barrier_is_told_that_it_is_the_last_one(run: Any, macros: Macros) -> None:
    run("reset", "advance", "advance", barriers_per_run=2)

    assert macros.context["lasts"] == [False, False, True]


def test_no_barrier_is_known_to_be_the_last_one_of_all(run: Any, macros: Macros) -> None:
    run("advance", "advance", barriers_per_run=None)

    assert macros.context["lasts"] == [False, False]


# -- a plan that an earlier run left ----------------------------------------------------------


@pytest.fixture
def adopt(
    macros: Macros, backfill: Any, make_state: Any, make_plan: Any, make_source: Any
) -> Callable[..., Any]:
    """What becomes of a plan: itself, or why it is abandoned.

    `version` is that of the upstream which it reads, `feed` that of a change table, from 8 on.
    """
    asked: list[tuple[Any, Any]] = []
    macros.context["asked"] = asked
    macros.stub(
        "mark_abandoned",
        lambda backfill, plan, reason: None if macros.context.get("gone") else reason,
    )

    def adopt(
        readable: bool = True,
        rebuild: str | None = None,
        gap: str | None = None,
        dirty: bool = False,
        version: str | None = "17",
        feed: str | None = None,
        **plan: Any,
    ) -> Any:
        def is_readable(upstream: Any, observed: Any, source: Any) -> bool:
            asked.append((source["version"], source["id"]))
            return readable

        def sources(version: str | None, feed: str | None) -> list[Any]:
            events = [make_source(role="feed", relation="lake.events", version=feed)]
            return [make_source(version=version), *(events if feed else [])]

        macros.stub("is_upstream_readable", is_readable)
        macros.stub("find_feed_gap", lambda backfill, observed, committed: gap)
        plan = {"sources": sources(version, feed), **plan}
        planned = make_plan(planned_at="2024-05-01T10:00:00", **plan)
        observed = {"version": 17}
        committed = make_plan(epoch=2, sources=sources("16", feed and "8"))
        state = make_state(dirty=dirty, committed=committed)
        adopted = macros.call("adopt_plan", backfill, state, observed, planned, rebuild)
        return "adopted" if adopted == planned else adopted

    return adopt


def test_a_plan_is_adopted_word_for_word(adopt: Any, macros: Macros) -> None:
    assert adopt() == "adopted"
    assert macros.context["asked"] == [("17", "u1")]


def test_a_plan_whose_version_cannot_be_read_is_abandoned(adopt: Any) -> None:
    assert adopt(readable=False) == "version 17 of the upstream can no longer be read"


def test_a_plan_whose_changes_cannot_be_read_is_abandoned(adopt: Any) -> None:
    assert adopt(gap="the feed was switched") == "the feed was switched"


def test_a_plan_that_another_run_has_committed_is_not_abandoned(
    adopt: Any, macros: Macros, refused: Any
) -> None:
    macros.context["gone"] = True
    with refused("another run went on while this one executed the barrier 3. Nothing is lost"):
        adopt(readable=False)


@pytest.mark.parametrize("plan", [{"version": "16"}, {"kind": "reanchor"}])
def test_a_plan_without_changes_needs_no_feed(adopt: Any, plan: dict[str, str]) -> None:
    assert adopt(gap="the feed was switched", **plan) == "adopted"


def test_new_events_of_a_change_table_are_changes_too(adopt: Any) -> None:
    plan = {"version": "16", "feed": "9"}

    assert adopt(gap="the change feed went back", **plan) == "the change feed went back"


def test_without_new_events_a_change_table_has_no_changes_though_the_upstream_moved(
    adopt: Any,
) -> None:
    plan = {"version": "17", "feed": "8"}

    assert adopt(gap="the change feed went back", **plan) == "adopted"


def test_a_plan_is_abandoned_where_the_mv_is_rebuilt_anyway(adopt: Any) -> None:
    assert adopt(rebuild="full refresh") == "full refresh"


def test_a_planned_reset_is_adopted_by_a_full_refresh(adopt: Any) -> None:
    plan = {"kind": "reset", "version": None}

    assert adopt(rebuild="full refresh", **plan) == "adopted"
    assert adopt(readable=False, **plan) == "adopted"


@pytest.mark.parametrize(
    "other",
    [
        {"query_hash": "h0"},
        {"key": [{"name": "k", "upstream": "id", "type": "bigint", "position": "id"}]},
        {"vnode_count": 9},
        {"sources": [{"role": "upstream", "relation": "lake.old", "kind": "delta"}]},
    ],
)
def test_a_planned_reset_of_another_model_is_abandoned_by_a_full_refresh(
    adopt: Any, other: dict[str, Any]
) -> None:
    """It may be one that cannot be executed."""
    plan = {"kind": "reset", "version": None, **other}

    assert adopt(rebuild="full refresh", **plan) == "full refresh"
    assert adopt(**plan) == "adopted"


@pytest.mark.parametrize("rebuild", [None, "full refresh"])
def test_an_abandoned_plan_is_committed_as_such(adopt: Any, rebuild: str | None) -> None:
    assert adopt(readable=False, rebuild=rebuild, kind="abandon") == "adopted"


# -- the steps of a plan ----------------------------------------------------------------------


@pytest.fixture
def execute(
    macros: Macros, backfill: Any, make_state: Callable[..., Any], make_plan: Callable[..., Any]
) -> Callable[..., Any]:
    """The steps that a plan takes, and what they counted."""
    steps: list[str] = []
    macros.stub("run_reset", lambda backfill, plan: steps.append("reset"))
    macros.stub(
        "run_reanchor", lambda backfill, state, plan: steps.append("reanchor") or {"changed": 7}
    )
    macros.stub("run_range", lambda backfill, state, plan: steps.append("range"))
    macros.stub(
        "run_changes",
        lambda backfill, plan, staged: steps.append("changes") or {"changed": staged["upserts"]},
    )
    macros.stub(
        "run_changes_and_range",
        lambda backfill, state, plan, staged: steps.append("at once") or {"changed": 9},
    )
    macros.stub("run_removal", lambda backfill, plan: steps.append("removal"))
    macros.stub("run_abandon", lambda backfill, plan: steps.append("abandon"))

    def staged_rows(upserts: int, drops: int = 0) -> dict[str, int]:
        return {"count": 6, "upserts": upserts, "drops": drops}

    def execute(
        staged: int | None = None, drops: int = 0, changed: int = 6, plan: Any = None, **state: Any
    ) -> Any:
        macros.stub(
            "stage_changes",
            lambda backfill, state, plan: steps.append("stage") or staged_rows(changed),
        )
        backfill["staged"] = staged_rows(staged, drops) if staged is not None else None
        counts = macros.call(
            "execute_plan", backfill, make_state(**state), make_plan(**(plan or {}))
        )
        return list(steps), counts

    return execute


def test_changes_are_merged_before_the_range(execute: Any) -> None:
    assert execute() == (["stage", "changes", "range"], {"changed": 6})


def test_changes_that_were_staged_for_the_plan_are_not_staged_again(execute: Any) -> None:
    assert execute(staged=2) == (["changes", "range"], {"changed": 2})


def test_changes_and_a_range_are_one_step_where_the_plan_says_so(execute: Any) -> None:
    assert execute(plan={"at_once": True}) == (["stage", "at once"], {"changed": 9})


def test_a_range_alone_is_merged_as_one_though_the_plan_says_at_once(execute: Any) -> None:
    """Its changes were none when it was adopted."""
    assert execute(changed=0, plan={"at_once": True})[0] == ["stage", "range"]


def test_a_limited_reanchor_merges_changes_and_removes_what_is_above_the_position(
    execute: Any,
) -> None:
    plan = {"kind": "reanchor", "touched": [["5", "6"]], "range_row_count": None}

    assert execute(plan=plan) == (["stage", "changes", "removal"], {"changed": 6})
    assert execute(plan={**plan, "touched": []})[0][-2:] == ["stage", "changes"]


def test_nothing_is_merged_after_a_step_that_failed(
    execute: Any, macros: Macros, backfill: Any
) -> None:
    backfill["failed"] = "stage the changes"

    assert execute() == (["stage"], {})


def test_an_empty_set_of_changes_is_not_merged(execute: Any) -> None:
    assert execute(changed=0)[0] == ["stage", "range"]


def test_an_unchanged_upstream_has_no_changes(execute: Any, make_plan: Any) -> None:
    assert execute(committed=make_plan(epoch=2))[0] == ["range"]


@pytest.mark.parametrize(
    ("drops", "steps"), [(1, ["changes", "range"]), (0, ["range"])], ids=["some", "none"]
)
def test_keys_that_the_query_drops_are_changes_too(
    execute: Any, drops: int, steps: list[str]
) -> None:
    assert execute(staged=0, drops=drops)[0] == steps


def test_changes_that_a_plan_which_was_given_up_has_read_are_changes_still(
    macros: Macros, make_state: Any, make_plan: Any
) -> None:
    """By hand, say, where the upstream has not gone on: nobody knows what it has merged."""
    given_up = make_plan(epoch=2, kind="abandon")  # of version 17; the MV is at 16
    state = make_state(dirty=True, upstream_version="16", committed=given_up)
    plan = make_plan(kind="reanchor", touched=[["5", "6"]])

    assert macros.call("has_changes", state, plan)


def test_changes_after_a_plan_was_given_up_are_those_since_the_last_executed_barrier(
    macros: Macros, make_state: Any, make_plan: Any, make_source: Any
) -> None:
    """Nothing is known of them where it is not noted."""
    since = {"epoch": 1, "sources": [make_source(version="16")]}
    given_up = {"kind": "abandon", "given_up": {"since": since, "plans": []}}

    def start(**committed: Any) -> Any:
        state = make_state(dirty=True, committed=make_plan(**committed))
        return macros.call("get_feed_start", state)

    assert start(**given_up) == since
    assert start(kind="abandon") is None


@pytest.mark.parametrize(
    "state",
    [{"position": None}, {"position": None, "upstream_version": None}],
    ids=["not started", "new"],
)
def test_an_mv_that_has_not_started_has_no_changes(execute: Any, state: Any) -> None:
    assert execute(**state)[0] == ["range"]


@pytest.mark.parametrize(
    "state", [{"uniform": False}, {"any_finished": True, "finished": True}], ids=["some", "all"]
)
def test_an_mv_of_which_some_vnodes_have_started_has_changes(execute: Any, state: Any) -> None:
    assert execute(position=None, **state)[0][:2] == ["stage", "changes"]


@pytest.mark.parametrize("row_count", [0, None])
def test_a_range_without_rows_is_not_merged(execute: Any, row_count: int | None) -> None:
    assert "range" not in execute(plan={"range_row_count": row_count})[0]


def test_a_reanchor_is_the_only_step_of_its_barrier(execute: Any) -> None:
    assert execute(plan={"kind": "reanchor"}) == (["reanchor"], {"changed": 7})


def test_a_reset_is_the_only_step_of_its_barrier(execute: Any, backfill: Any) -> None:
    assert execute(plan={"kind": "reset"}) == (["reset"], {})
    assert backfill["created"]  # its comments have to be written again


def test_of_an_abandoned_plan_only_what_is_on_its_way_is_stopped(execute: Any) -> None:
    assert execute(plan={"kind": "abandon"}) == (["abandon"], {})


# -- one barrier ------------------------------------------------------------------------------


@pytest.fixture
def barrier(
    macros: Macros, backfill: Any, make_state: Callable[..., Any], make_plan: Callable[..., Any]
) -> Callable[..., Any]:
    """Runs one barrier for which p3 is chosen; returns it with what was asked along the way."""
    asked: dict[str, Any] = {}

    def observe_upstream(backfill: Any, state: Any, since: Any) -> dict[str, Any]:
        asked["since"] = since
        return {"version": 17}

    def execute_plan(backfill: Any, state: Any, plan: Any) -> dict[str, int]:
        asked["staged"] = backfill["staged"]
        return {"changed": 1}

    def commit_barrier(backfill: Any, plan: Any, counts: Any, ends: bool) -> Any:
        asked["committed"] = (plan["plan_id"], counts, backfill["stages"])
        asked["ends"] = ends
        noted = {"changed_row_count": 5, "deleted_row_count": 2}
        return {"epoch": 3, "committed": noted}

    macros.stub("observe_upstream", observe_upstream)
    macros.stub("choose_plan", lambda backfill, state, observed, rebuild: make_plan())
    macros.stub("execute_plan", execute_plan)
    macros.stub("commit_barrier", commit_barrier)
    macros.stub("prepare_creation", lambda backfill: asked["steps"].append("prepare"))
    macros.stub("finish_creation", lambda backfill, state: asked["steps"].append("finish"))
    macros.stub("adopt_plan", lambda backfill, state, observed, plan, rebuild: plan)

    def barrier(standing: str = "p3", last: bool = False, **state: Any) -> Any:
        def plan_barrier(backfill: Any, state: Any, plan: Any) -> Any:
            asked["steps"].append("plan")
            is_ours = standing == plan["plan_id"]
            backfill["staged"] = {"name": "`s`", "count": 1} if is_ours else None
            backfill["stages"].append("`s`")
            return {**plan, "plan_id": standing}

        asked["steps"] = []
        macros.stub("plan_barrier", plan_barrier)
        return macros.call("run_barrier", backfill, make_state(**state), None, last), asked

    return barrier


def test_a_barrier_executes_and_commits_the_plan_that_it_inserted(barrier: Any) -> None:
    result, asked = barrier()

    assert result["plan"]["plan_id"] == "p3" and result["state"]["epoch"] == 3
    assert asked["committed"] == ("p3", {"changed": 1}, ["`s`"])


def test_a_barrier_tells_the_counts_that_were_committed(barrier: Any, macros: Macros) -> None:
    """What Iceberg counts is known only then."""
    assert barrier()[0]["counts"] == {"changed": 5, "deleted": 2}

    macros.stub("execute_plan", lambda backfill, state, plan: {})
    assert barrier()[0]["counts"] == {}


def test_counts_that_the_format_does_not_tell_are_left_out(barrier: Any, macros: Macros) -> None:
    macros.stub("commit_barrier", lambda *_: {"epoch": 3, "committed": {}})

    assert barrier()[0]["counts"] == {}


def test_a_barrier_executes_the_plan_of_another_run_that_was_first(barrier: Any) -> None:
    """What was staged for its own plan is not used for theirs, but dropped."""
    result, asked = barrier(standing="theirs")

    assert result["plan"]["plan_id"] == "theirs"
    assert asked["staged"] is None
    assert asked["committed"] == ("theirs", {"changed": 1}, ["`s`"])


def test_a_plan_that_stands_is_executed_and_none_is_chosen(
    barrier: Any, macros: Macros, backfill: Any, make_plan: Callable[..., Any]
) -> None:
    """What was staged in the barrier before is not used for it."""
    macros.stub("choose_plan", lambda *_: pytest.fail("chosen"))
    backfill.update(staged={"name": "`older`", "count": 1}, stages=["`older`"])
    committed = make_plan(epoch=2, plan_id="p2b")
    result, asked = barrier(planned=make_plan(plan_id="left"), committed=committed)

    assert result["plan"]["plan_id"] == "left"
    assert asked["staged"] is None
    assert backfill["committed"] == committed
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
    """What is refused leaves nothing behind."""
    assert barrier(missing=True)[1]["steps"] == ["prepare", "plan", "finish"]
    assert barrier()[1]["steps"] == ["plan"]


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
    barrier: Any, backfill: Any, make_plan: Any, last: bool, kind: str, ends: bool
) -> None:
    """And not once more after it."""
    backfill["written"] = 1
    _, asked = barrier(last=last, planned=make_plan(kind=kind))

    assert asked["ends"] is ends
    assert backfill["written"] == (3 if ends else 1)
