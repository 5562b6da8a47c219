"""What the next barrier is to do."""

from __future__ import annotations

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest

from support.macros import Macros

LOG = [
    {"version": version, "committed_at": f"2024-05-01 10:{version}:00", "operation": "WRITE",
     "parameters": ""} for version in [17, 16, 15]
]  # fmt: skip


@pytest.fixture
def choose(
    macros: Macros, backfill: Any, learned: Any, options: Any, make_state: Callable[..., Any]
) -> Callable[..., Any]:
    """The plan after the epoch 2 at version 16, uniform and half done; the upstream is at 17."""
    macros.context["model"] = SimpleNamespace(name="mv", unique_id="model.p.mv")
    macros.context["explained"] = []
    macros.stub(
        "learn_query",
        lambda backfill, nothing, version: macros.context["explained"].append(version) or learned,
    )
    macros.stub("find_change", lambda *_: {"rebuild": None, "columns": None})
    macros.stub(
        "get_plan_with_range",
        lambda backfill, state, plan, windows: {
            "plan": {**plan, "range_high": ["9"]}, "most_rows": 12
        },
    )  # fmt: skip

    def choose(
        version: int = 17,
        rebuild: str | None = None,
        set: dict[str, Any] | None = None,
        observed: dict[str, Any] | None = None,
        **state: Any,
    ) -> Any:
        options.update(set or {})
        log = [entry for entry in LOG if entry["version"] <= version]
        kept = {"delta.deletedFileRetentionDuration": "interval 36500 days"}
        upstream = {
            "version": str(version), "id": "u1", "log": log, "complete": True, "properties": kept,
        }  # fmt: skip
        made = make_state(**state)
        observed = {**upstream, **(observed or {})}
        nothing = macros.call("new_learned")
        choice = macros.call("choose_plan", backfill, made, observed, nothing, rebuild)
        plan = choice and choice["plan"]
        bounds_known = plan and (_has_range(plan) or plan.get("fill_high") == ["7", "8"])
        assert plan is None or choice["most_rows"] == (12 if bounds_known else None)
        assert plan is None or choice["learned"]["explained"]
        macros.context["has_changes"] = (
            plan and plan["kind"] == "advance" and macros.call("has_changes", made, plan)
        )
        return plan

    return choose


@pytest.fixture
def has_changes(macros: Macros) -> Callable[[], bool]:
    """Whether the plan that was chosen last merges changes."""
    return lambda: bool(macros.context["has_changes"])


def _has_range(plan: dict[str, Any]) -> bool:
    return plan.get("range_high") == ["9"]


def _version(plan: dict[str, Any], role: str = "upstream") -> str | None:
    """At which version a plan reads a source."""
    (source,) = [source for source in plan["sources"] if source["role"] == role]
    version: str | None = source["version"]
    return version


FINISHED = {"finished": True, "any_finished": True}
NEW = {"position": None, "upstream_version": None, "row_count": 0}


def test_a_barrier_reads_the_newest_version_and_the_next_range(choose: Any, macros: Macros) -> None:
    plan = choose()

    assert macros.context["explained"] == ["17"]

    assert (plan["kind"], plan["epoch"], _version(plan)) == ("advance", 3, "17")
    assert _has_range(plan)


def test_a_barrier_reads_the_next_range_where_nothing_changed(
    choose: Any, has_changes: Any
) -> None:
    plan = choose(version=16)

    assert (plan["kind"], _has_range(plan)) == ("advance", True)
    assert not has_changes()


@pytest.mark.parametrize(
    ("was", "now", "why"),
    [
        ([], ["gross"], "the upstream has got the column 'gross', which its query reads in place"),
        (["gross"], None, "its query no longer reads the upstream's column 'gross' in place of"),
    ],
)
@pytest.mark.parametrize("dirty", [False, True])
def test_names_that_mean_something_else_are_a_gap_of_all_rows(
    choose: Any,
    macros: Macros,
    learned: Any,
    make_plan: Any,
    was: Any,
    now: Any,
    why: str,
    dirty: bool,
) -> None:
    """Also where only what plans could touch that were given up would be put right."""
    learned["alias_columns"] = now
    plan = choose(committed=make_plan(epoch=2, alias_columns=was), dirty=dirty)

    assert plan["kind"] == "reanchor" and plan.get("touched") is None
    assert plan["reason"].startswith("the last plan was abandoned" if dirty else why)
    assert plan["alias_columns"] == now
    same = choose(committed=make_plan(epoch=2, alias_columns=now or []), dirty=False)
    assert same["kind"] == "advance"


def test_there_is_nothing_to_do_once_the_backfill_has_finished_and_nothing_changed(
    choose: Any, macros: Macros
) -> None:
    assert choose(version=16, **FINISHED) is None
    assert macros.context["explained"] == []


def test_changes_go_on_once_the_backfill_has_finished(choose: Any, has_changes: Any) -> None:
    plan = choose(**FINISHED)

    assert plan["kind"] == "advance"
    assert not _has_range(plan)
    assert has_changes()


def test_after_a_reset_that_was_given_up_comes_another_one(
    choose: Any, make_plan: Callable[..., Any], make_source: Any
) -> None:
    """The MV may be an empty one of the other columns."""
    given_up = make_plan(epoch=2, kind="abandon", sources=[make_source(version=None)])
    plan = choose(version=16, committed=given_up, dirty=True)

    assert (plan["kind"], plan["reason"]) == ("reset", "a rebuild was given up")


def test_a_rate_limit_of_zero_pauses_the_backfill(choose: Any) -> None:
    assert choose(version=16, set={"backfill_rate_limit": 0}) is None


def test_changes_go_on_while_the_backfill_is_paused(choose: Any, has_changes: Any) -> None:
    plan = choose(set={"backfill_rate_limit": 0})

    assert _version(plan) == "17" and not _has_range(plan)
    assert has_changes()


def test_an_mv_that_is_paused_before_its_first_range_has_nothing_to_do(choose: Any) -> None:
    assert choose(set={"backfill_rate_limit": 0}, **NEW) is None


def test_the_first_barrier_reads_no_changes(choose: Any, has_changes: Any) -> None:
    plan = choose(**NEW)

    assert (plan["kind"], _version(plan), _has_range(plan)) == ("advance", "17", True)
    assert not has_changes()


@pytest.mark.parametrize(
    "state", [{"uniform": False}, {"any_finished": True}], ids=["some moved", "some finished"]
)
def test_changes_are_read_as_soon_as_any_vnode_has_moved(
    choose: Any, macros: Macros, has_changes: Any, state: Any
) -> None:
    macros.results = [[['{"moving": [1]}']]]
    choose(position=None, **state)

    assert has_changes()


def test_there_is_nothing_to_do_once_the_selected_vnodes_have_finished(
    choose: Any, macros: Macros
) -> None:
    """Else `barriers_per_run='all'` would not end."""
    macros.results = [[['{"moving": []}']]]
    state = {"uniform": False, "any_finished": True, "position": None}

    assert choose(version=16, set={"backfill_vnodes": [0]}, **state) is None


def test_the_mode_snapshot_stays_at_its_first_version_until_all_vnodes_have_finished(
    choose: Any, has_changes: Any
) -> None:
    mode = {"backfill_mode": "snapshot"}

    assert _version(choose(set=mode)) == "16"
    assert not has_changes()
    assert _version(choose(set=mode, **FINISHED)) == "17"
    assert _version(choose(set=mode, **NEW)) == "17"


def test_the_mode_snapshot_cannot_stay_at_a_version_that_can_no_longer_be_read(
    choose: Any, macros: Macros
) -> None:
    mode = {"backfill_mode": "snapshot"}
    macros.stub("find_upstream_gap", lambda upstream, observed, committed: None)
    macros.stub(
        "is_upstream_readable", lambda upstream, observed, source: source["version"] != "16"
    )
    plan = choose(set=mode)

    assert (plan["kind"], _version(plan)) == ("reanchor", "17")
    assert plan["reason"] == "the version 16 of the snapshot can no longer be read"
    assert choose(set=mode, **FINISHED)["kind"] == "advance"
    assert choose(set={"backfill_mode": "arrangement"})["kind"] == "advance"


def test_the_mode_no_shuffle_is_refused_where_vnodes_differ(choose: Any, refused: Any) -> None:
    with refused(
        "its vnodes have different positions, and backfill_mode 'no_shuffle' keeps one position. "
        "Go on with backfill_mode 'arrangement', or rebuild the MV once with --full-refresh."
    ):
        choose(set={"backfill_mode": "no_shuffle"}, uniform=False, position=None)


def test_a_vnode_that_the_mv_has_not_is_refused(choose: Any, refused: Any) -> None:
    """It has 4; vnode_count may be another number by now. A range of no vnode would never end."""
    assert _has_range(choose(set={"backfill_vnodes": [3], "vnode_count": 8}))
    with refused("backfill_vnodes names vnode 4, and it has 4 vnodes. Vnodes are numbered from 0"):
        choose(set={"backfill_vnodes": [3, 4], "vnode_count": 8})


def test_the_mode_no_shuffle_goes_on_while_vnodes_agree(choose: Any) -> None:
    assert _has_range(choose(set={"backfill_mode": "no_shuffle"}))


def test_a_full_refresh_brings_differing_vnodes_back_to_one_position(choose: Any) -> None:
    mode = {"backfill_mode": "no_shuffle"}

    assert choose(set=mode, rebuild="full refresh", uniform=False)["kind"] == "reset"


def test_a_rebuild_is_a_reset_that_tells_why(choose: Any, macros: Macros) -> None:
    plan = choose(rebuild="full refresh", **FINISHED)

    assert (plan["kind"], plan["reason"]) == ("reset", "full refresh")
    assert _version(plan) is None
    assert macros.context["explained"] == ["17"]


def test_a_changed_query_is_a_reset(choose: Any, macros: Macros) -> None:
    """Found only now, by explaining it: the type of a key changed, say."""
    macros.stub("find_change", lambda *_: {"rebuild": "the type of id changed", "fills": None})

    assert choose()["kind"] == "reset"


GAPS = {
    "an abandoned plan": ({"dirty": True}, {}, "the last plan was abandoned"),
    "another table": ({}, {"id": "u2"}, "the upstream is another table than at the last barrier"),
    "a shortened log": (
        {},
        {"complete": False},
        "the log of the upstream no longer reaches back to version 16",
    ),
}


@pytest.mark.parametrize(("state", "observed", "reason"), GAPS.values(), ids=GAPS)
def test_a_gap_of_the_feed_is_a_reanchor_at_the_newest_version(
    choose: Any, state: Any, observed: Any, reason: str
) -> None:
    plan = choose(observed=observed, **state)

    assert (plan["kind"], plan["reason"], _version(plan)) == ("reanchor", reason, "17")
    assert not _has_range(plan)


@pytest.mark.parametrize(("state", "observed", "reason"), GAPS.values(), ids=GAPS)
def test_a_gap_is_closed_also_where_there_is_nothing_else_to_do(
    choose: Any, state: Any, observed: Any, reason: str
) -> None:
    assert choose(observed=observed, **FINISHED, **state)["kind"] == "reanchor"


@pytest.mark.parametrize(("state", "observed", "reason"), GAPS.values(), ids=GAPS)
def test_a_gap_is_refused_where_the_model_says_so(
    choose: Any, refused: Any, state: Any, observed: Any, reason: str
) -> None:
    with refused(
        "its next barrier would compare all 1,040 rows read so far with its query, because "
        f"{reason}. Set on_gap='reanchor' to let it, on_gap='sweep' to do so in slices, or rebuild "
        "the MV with --full-refresh."
    ):
        choose(set={"on_gap": "fail"}, observed=observed, row_count=1040, **state)


def test_what_a_plan_that_was_given_up_could_touch_is_no_gap(choose: Any, macros: Macros) -> None:
    macros.stub("find_touched", lambda *_: [])

    assert choose(set={"on_gap": "fail"}, dirty=True)["touched"] == []


def test_where_nothing_was_read_a_gap_is_a_reset_whatever_the_model_says(choose: Any) -> None:
    started = {"position": None, "row_count": 0}

    assert choose(set={"on_gap": "fail"}, observed={"id": "u2"}, **started)["kind"] == "reset"


@pytest.mark.parametrize("mode", ["arrangement", "snapshot"])
def test_a_gap_is_closed_at_the_newest_version_in_every_mode(choose: Any, mode: str) -> None:
    plan = choose(observed={"id": "u2"}, set={"backfill_mode": mode})

    assert _version(plan) == "17"


def test_an_mv_that_has_nothing_yet_is_just_emptied_at_a_gap(choose: Any) -> None:
    """The run that planned the first range died, and its version was vacuumed."""
    plan = choose(dirty=True, position=None, upstream_version=None)

    assert (plan["kind"], plan["reason"]) == ("reset", "the last plan was abandoned")


# -- a query that returns other columns ---------------------------------------------------------

FILLS = [{"name": "x", "type": "int"}]
CAUGHT_UP = {**FINISHED, "version": 16}


@pytest.fixture
def widened(otherwise: Any) -> Any:
    """The choice of a model whose query returns a column more than the committed one."""
    return otherwise(fills=FILLS)


@pytest.fixture
def otherwise(choose: Any, macros: Macros, backfill: Any) -> Any:
    """The same of one whose query returns these columns otherwise."""

    def otherwise(fills: Any = (), drops: Any = ()) -> Any:
        columns = {"fills": list(fills), "drops": list(drops)}
        macros.stub("find_change", lambda *_: {"rebuild": None, "columns": columns})
        macros.stub("read_table_properties", lambda _: {})
        macros.stub("check_new_columns", lambda *_: None)
        macros.stub("check_altered_columns", lambda *_: None)
        macros.stub("check_query_at", lambda *_: None)
        backfill["query_hash"] = "h2"
        return choose

    return otherwise


def test_new_columns_are_filled_also_where_there_is_nothing_else_to_do(widened: Any) -> None:
    plan = widened(set={"backfill_rate_limit": None}, **CAUGHT_UP)

    assert (plan["kind"], plan["fills"], plan["last_fill"]) == ("fill", FILLS, True)
    assert (plan["range_low"], plan["range_high"], plan["fill_low"]) == (
        ["1", "2"],
        ["1", "2"],
        None,
    )


def test_an_edit_without_a_meaning_is_no_barrier_of_its_own(choose: Any, backfill: Any) -> None:
    backfill["query_hash"] = "h2"

    assert choose(**CAUGHT_UP) is None


def test_a_fill_goes_on_before_the_ranges_of_the_snapshot(choose: Any, make_plan: Any) -> None:
    committed = make_plan(epoch=2, kind="fill", fills=FILLS, fill_high=["0", "1"])
    plan = choose(committed=committed)

    assert (plan["kind"], plan["fill_low"], plan["fill_high"]) == ("fill", ["0", "1"], ["7", "8"])
    assert plan["kind"] == choose(committed=committed, set={"backfill_rate_limit": 0})["kind"]
    assert choose(committed=dict(committed, last_fill=True))["kind"] == "advance"


def test_a_fill_that_is_paused_waits_for_changes(
    choose: Any, make_plan: Any, make_source: Any
) -> None:
    sources = [make_source(version="16")]
    committed = make_plan(epoch=2, kind="fill", fills=FILLS, fill_high=["0", "1"], sources=sources)

    assert choose(version=16, committed=committed, set={"backfill_rate_limit": 0}) is None


@pytest.mark.parametrize(("on_gap", "kind"), [("reanchor", "reanchor"), ("sweep", "sweep")])
def test_what_compares_all_rows_fills_the_columns_too(widened: Any, on_gap: str, kind: str) -> None:
    plan = widened(set={"on_gap": on_gap}, observed={"id": "u2"})

    assert (plan["kind"], plan["fills"], plan["last_fill"]) == (kind, FILLS, True)


def test_after_a_slice_that_was_given_up_all_rows_are_compared(
    choose: Any, macros: Macros, make_plan: Any
) -> None:
    macros.stub("find_touched", lambda *_: pytest.fail("asked"))
    committed = make_plan(epoch=2, kind="abandon", fills=FILLS, fill_low=["0", "1"])
    plan = choose(dirty=True, committed=committed)

    assert (plan["kind"], plan["fill_low"], plan["last_fill"]) == ("reanchor", ["0", "1"], True)


def test_where_nothing_was_read_the_mv_is_just_emptied(widened: Any) -> None:
    plan = widened(position=None, row_count=0)

    assert (plan["kind"], plan["reason"]) == ("reset", "its query returns other columns")


def test_where_a_sweep_has_come_to_nothing_yet_it_begins_anew(widened: Any, make_plan: Any) -> None:
    """The MV has rows of before, which are kept."""
    plan = widened(position=None, committed=make_plan(epoch=2, kind="sweep"))

    assert (plan["kind"], plan["fills"], plan["last_fill"]) == ("sweep", FILLS, True)


def test_a_sweep_that_has_come_to_nothing_yet_begins_anew_at_a_gap(
    choose: Any, make_plan: Any
) -> None:
    """And keeps the rows of before, of which nothing is promised."""
    plan = choose(observed={"id": "u2"}, position=None, committed=make_plan(epoch=2, kind="sweep"))

    assert plan["kind"] == "sweep" and "fills" not in plan


# -- a change table of the user's own -----------------------------------------------------------


@pytest.fixture
def feed(
    macros: Macros,
    backfill: Any,
    make_plan: Callable[..., Any],
    make_source: Callable[..., Any],
    choose: Any,
) -> Callable[..., Any]:
    """The plan where the change table is at `version`, and was read up to 7."""
    relation = backfill["mv"].incorporate(path={"identifier": "changes"})
    backfill["feed"] = {"relation": relation, "kind": "delta"}
    macros.stub("describe_change_table", lambda feed: "the feed")
    macros.stub("find_change_table_gap", lambda feed, observed, committed: None)

    def feed(version: int, upstream: int = 16, **arguments: Any) -> Any:
        observed = {"feed": {"version": str(version), "id": "f1", "committed_at": "noon"}}
        followed = make_source(role="feed", version="7", definition="the feed")
        committed = make_plan(epoch=2, sources=[make_source(version="16"), followed])
        return choose(upstream, observed=observed, committed=committed, **arguments)

    return feed


def test_events_of_a_change_table_are_changes(feed: Any, has_changes: Any) -> None:
    plan = feed(8, **FINISHED)

    assert (_version(plan, "feed"), _version(plan)) == ("8", "16")
    assert has_changes()


def test_there_is_nothing_to_do_until_a_change_table_has_events(feed: Any) -> None:
    """Whatever happened to the upstream."""
    assert feed(7, upstream=17, **FINISHED) is None


def test_the_mode_snapshot_takes_no_events_until_all_vnodes_have_finished(
    feed: Any, has_changes: Any
) -> None:
    mode = {"backfill_mode": "snapshot"}

    assert _version(feed(8, set=mode), "feed") == "7"
    assert not has_changes()
    assert feed(8, set={**mode, "backfill_rate_limit": 0}) is None
    assert _version(feed(8, set=mode, **FINISHED), "feed") == "8"


@pytest.mark.parametrize(
    ("state", "observed", "tried"),
    [
        ({}, {}, []),
        ({"upstream_version": None, "position": None}, {}, ["17"]),
        ({}, {"id": "u2"}, ["17"]),  # a re-anchor
    ],
    ids=["next", "first", "gap"],
)
def test_the_query_is_tried_on_the_version_where_its_columns_may_be_others(
    macros: Macros, choose: Any, state: Any, observed: Any, tried: list[str]
) -> None:
    asked: list[str] = []
    macros.stub(
        "check_query_at", lambda backfill, observed, learned, version: asked.append(version)
    )
    choose(observed=observed, **state)

    assert asked == tried


@pytest.mark.parametrize(("state", "observed", "reason"), GAPS.values(), ids=GAPS)
def test_a_gap_begins_a_sweep_where_the_model_says_so(
    choose: Any, state: Any, observed: Any, reason: str
) -> None:
    plan = choose(set={"on_gap": "sweep"}, observed=observed, **state)

    assert (plan["kind"], plan["reason"], _version(plan)) == ("sweep", reason, "17")


@pytest.mark.parametrize("on_gap", ["reanchor", "sweep"])
def test_a_gap_in_a_sweep_begins_it_anew_whatever_the_model_says(
    choose: Any, make_plan: Any, on_gap: str
) -> None:
    """There is nothing above the position that a whole comparison could go by."""
    committed = make_plan(epoch=2, sweeps=True)
    plan = choose(set={"on_gap": on_gap}, observed={"id": "u2"}, committed=committed)

    assert plan["kind"] == "sweep"


@pytest.mark.parametrize("on_gap", ["reanchor", "sweep", "fail"])
@pytest.mark.parametrize("committed", [{"kind": "sweep"}, {"kind": "abandon", "sweeps": True}])
def test_a_sweep_that_has_come_to_nothing_yet_begins_anew_and_empties_nothing(
    choose: Any, make_plan: Any, on_gap: str, committed: Any
) -> None:
    """The MV has all of its rows; that no vnode has started does not make it an empty one."""
    state = {"position": None, "dirty": committed["kind"] == "abandon"}
    committed = make_plan(epoch=2, **committed)
    plan = choose(set={"on_gap": on_gap}, observed={"id": "u2"}, committed=committed, **state)

    assert plan["kind"] == "sweep"


def test_a_table_that_is_to_be_replaced_is_emptied_by_whatever_run_comes_next(
    choose: Any, make_plan: Any
) -> None:
    created = make_plan(epoch=2, kind="replace")
    plan = choose(committed=created, position=None, upstream_version=None)

    assert (plan["kind"], plan["reason"]) == ("reset", "another table stood in its place")
    assert choose(committed=created, rebuild="full refresh")["reason"] == "full refresh"


def test_columns_are_dropped_by_an_advance_also_where_there_is_nothing_else_to_do(
    otherwise: Any,
) -> None:
    choose = otherwise(drops=["y"])

    alone = choose(**CAUGHT_UP)
    assert (alone["kind"], alone["drops"], alone["last_range"]) == ("advance", ["y"], False)
    assert alone["range_low"] == alone["range_high"]
    along = choose()
    assert (along["kind"], along["drops"], along["range_high"]) == ("advance", ["y"], ["9"])


def test_where_none_is_filled_any_more_the_slices_of_a_fill_are_no_ranges(
    otherwise: Any, make_plan: Any, make_source: Any
) -> None:
    """Those that were being filled are dropped."""
    sources = [make_source(version="16")]
    filling = make_plan(epoch=2, kind="fill", fills=FILLS, fill_high=["0", "1"], sources=sources)

    paused = otherwise(drops=["x"])(committed=filling, set={"backfill_rate_limit": 0})
    assert (paused["kind"], paused["next_bounds"]) == ("advance", [])
    finished = otherwise(drops=["x"])(committed=filling, **CAUGHT_UP)
    assert (finished["kind"], finished["last_range"]) == ("advance", False)


def test_what_was_to_be_dropped_by_a_plan_that_was_given_up_still_is(
    choose: Any, macros: Macros, make_plan: Any
) -> None:
    """It may have been, or not; that takes no comparison of all rows."""
    macros.stub("find_touched", lambda *_: [["5", "6"]])
    plan = choose(dirty=True, committed=make_plan(epoch=2, kind="abandon", drops=["y"]))

    assert (plan["kind"], plan["drops"], plan["touched"]) == ("reanchor", ["y"], [["5", "6"]])
    assert "fills" not in plan


def test_a_column_that_is_returned_again_is_not_dropped(otherwise: Any, make_plan: Any) -> None:
    given_up = make_plan(epoch=2, kind="abandon", drops=["X", "y"])
    plan = otherwise(fills=FILLS)(dirty=True, committed=given_up)

    assert (plan["kind"], plan["fills"], plan["drops"]) == ("reanchor", FILLS, ["y"])
