"""The next barrier: a table of situations, and the plan that is chosen in each of them."""

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
FEED = {"role": "feed", "version": "7", "definition": "the feed"}


@pytest.fixture
def choose(
    macros: Macros, backfill: Any, analysis: Any, options: Any, make_state: Any, make_plan: Any,
    make_source: Any,
) -> Callable[..., Any]:  # fmt: skip
    """Return the plan that is chosen after epoch 2, which has read version 16.

    The upstream is at version 17. All vnodes have the same position in the middle. `feed` is the
    current version of a change table, whose version 7 was read. `columns` are the columns that
    differ from the committed query. `touched` are the ranges that abandoned plans may have written.
    Besides its own entries, the returned plan has `version`, `feed`, `has_range` and `has_changes`.
    """
    macros.context["model"] = SimpleNamespace(name="mv", unique_id="model.p.mv")
    macros.stub("analyze_query", lambda *_, **__: analysis)
    macros.stub(
        "get_plan_with_range",
        lambda backfill, state, plan, windows: {
            "plan": {**plan, "range_high": ["9"]}, "most_rows": 12
        },
    )  # fmt: skip

    def choose(
        version: int = 17,
        rebuild: str | None = None,
        set: Any = None,
        observed: Any = None,
        committed: Any = None,
        feed: int | None = None,
        columns: Any = None,
        change: str | None = None,
        moving: list[int] | None = None,
        **state: Any,
    ) -> Any:
        options.update(set or {})
        if columns:
            backfill["query_hash"] = "h2"
            macros.stub("read_table_properties", lambda _: {})
            for check in ("check_new_columns", "check_altered_columns", "check_query_at"):
                macros.stub(check, lambda *_: None)
        macros.stub("find_change", lambda *_: {"rebuild": change, "columns": columns})
        if "touched" in state:
            touched = state.pop("touched")
            macros.stub("find_touched_ranges", lambda *_: touched)
        read = [make_source(version="16")] if columns or feed or committed else None
        upstream = {
            "version": str(version), "id": "u1", "complete": True,
            "log": [entry for entry in LOG if entry["version"] <= version],
            "properties": {"delta.deletedFileRetentionDuration": "interval 36500 days"},
        }  # fmt: skip
        if feed:
            relation = backfill["mv"].incorporate(path={"identifier": "changes"})
            backfill["feed"] = {"relation": relation, "kind": "delta"}
            macros.stub("describe_change_table", lambda feed: "the feed")
            macros.answer("upstream_gap", lambda *_: None)
            macros.answer("upstream_readable", lambda *_: True)
            upstream["feed"] = {"version": str(feed), "id": "f1", "committed_at": "noon"}
            read = [make_source(version="16"), make_source(**FEED)]
        if read or committed:
            given = {"sources": read, **(committed or {})}
            if given.pop("read_nothing", False):
                given["sources"] = [make_source(version=None)]
            state["committed"] = make_plan(epoch=2, **given)
        macros.results = [[[f'{{"moving": {moving}}}']]] if moving is not None else []
        made = make_state(**state)
        seen = {**upstream, **(observed or {})}
        choice = macros.call("choose_plan", backfill, made, seen, analysis, rebuild)
        if choice is None:
            return None
        plan = choice["plan"]
        has_range = plan.get("range_high") == ["9"]
        has_slice = plan.get("fill_high") == ["7", "8"]
        assert choice.get("most_rows") == (12 if has_range or has_slice else None)
        has_changes = plan["kind"] == "advance" and macros.call("has_changes", made, plan)
        versions = {source["role"]: source["version"] for source in plan["sources"]}
        return {
            "drops": None, "fills": None, "touched": None, **plan, "version": versions["upstream"],
            "feed": versions.get("feed"), "moves_position": has_range,
            "has_changes": bool(has_changes),
        }  # fmt: skip

    return choose


FINISHED = {"finished": True, "any_finished": True}
CAUGHT_UP = {**FINISHED, "version": 16}
NEW = {"position": None, "upstream_version": None, "row_count": 0}
NOTHING_READ = {"position": None, "row_count": 0}
PAUSED = {"set": {"backfill_rate_limit": 0}}
SNAPSHOT = {"set": {"backfill_mode": "snapshot"}}
SWEEP = {"set": {"on_gap": "sweep"}}
OTHER_TABLE = {"observed": {"id": "u2"}}
FILLS = [{"name": "x", "type": "int"}]
WIDENED = {"columns": {"fills": FILLS, "drops": []}}
NARROWED = {"columns": {"fills": [], "drops": ["x"]}}
FILLING = {"kind": "fill", "fills": FILLS, "fill_high": ["0", "1"]}
ADVANCE, REANCHOR, RESET = {"kind": "advance"}, {"kind": "reanchor"}, {"kind": "reset"}
ONLY_CHANGES = {**ADVANCE, "moves_position": False, "has_changes": True}
ONLY_A_RANGE = {**ADVANCE, "moves_position": True, "has_changes": False}
FILLED = {"fills": FILLS, "last_fill": True}

Choices = dict[str, tuple[dict[str, Any], dict[str, Any] | None]]

CHOICES: Choices = {
    # -- an advance --
    "changes and the next range": (
        {}, {**ADVANCE, "epoch": 3, "version": "17", "moves_position": True, "has_changes": True}
    ),
    "nothing changed": ({"version": 16}, ONLY_A_RANGE),
    "changes once all was read": (FINISHED, ONLY_CHANGES),
    "all was read, and nothing changed": (CAUGHT_UP, None),
    "changes while it is paused": (PAUSED, {**ONLY_CHANGES, "version": "17"}),
    "paused, and nothing changed": ({**PAUSED, "version": 16}, None),
    "paused before the first range": ({**PAUSED, **NEW}, None),
    "the first barrier": (NEW, {**ONLY_A_RANGE, "version": "17"}),
    # Changes are read as soon as any vnode has moved.
    "some vnodes moved": ({"position": None, "uniform": False, "moving": [1]},
                          {**ADVANCE, "has_changes": True}),
    "some vnodes finished": ({"position": None, "any_finished": True, "moving": [1]},
                             {**ADVANCE, "has_changes": True}),
    # With a plan here, a run with `barriers_per_run='all'` would never end.
    "the chosen vnodes have finished": (
        {"version": 16, "set": {"backfill_vnodes": [0]}, "uniform": False, "any_finished": True,
         "position": None, "moving": []}, None
    ),
    "the vnodes agree, in the mode no_shuffle": (
        {"set": {"backfill_mode": "no_shuffle"}}, {**ADVANCE, "moves_position": True}
    ),
    "a vnode that the config does not have": (
        {"set": {"backfill_vnodes": [3], "vnode_count": 2}}, {**ADVANCE, "moves_position": True}
    ),
    # -- the mode snapshot stays at its first version until all vnodes have finished --
    "snapshot": (SNAPSHOT, {**ONLY_A_RANGE, "version": "16"}),
    "snapshot, finished": ({**SNAPSHOT, **FINISHED}, {**ADVANCE, "version": "17"}),
    "snapshot, new": ({**SNAPSHOT, **NEW}, {**ADVANCE, "version": "17"}),
    "snapshot, over a gap": ({**SNAPSHOT, **OTHER_TABLE}, {**REANCHOR, "version": "17"}),
    # -- a rebuild --
    "a full refresh": (
        {"rebuild": "full refresh", **FINISHED},
        {**RESET, "reason": "full refresh", "version": None},
    ),
    "a full refresh brings vnodes to one position": (
        {"rebuild": "full refresh", "uniform": False, "set": {"backfill_mode": "no_shuffle"}}, RESET
    ),
    "the query changed": ({"change": "the type of id changed"}, RESET),
    # The reset that was given up may have emptied the MV and changed its columns.
    "a reset was given up": (
        {"version": 16, "dirty": True, "committed": {"kind": "abandon", "read_nothing": True}},
        {**RESET, "reason": "a rebuild was given up"},
    ),
    "a table is to be replaced": (
        {"committed": {"kind": "replace"}, "position": None, "upstream_version": None},
        {**RESET, "reason": "another table had replaced it"},
    ),
    "a table is to be replaced by a full refresh": (
        {"committed": {"kind": "replace"}, "rebuild": "full refresh"},
        {**RESET, "reason": "full refresh"},
    ),
    # -- a gap --
    "what was given up could touch nothing": (
        {"dirty": True, "touched": [], "set": {"on_gap": "fail"}}, {**REANCHOR, "touched": []}
    ),
    # The run that planned the first range has died, and a VACUUM has deleted the plan's version.
    "a gap, and nothing was read": (
        {"dirty": True, "position": None, "upstream_version": None},
        {**RESET, "reason": "the last plan was abandoned"},
    ),
    "the same, whatever the model says": (
        {**OTHER_TABLE, **NOTHING_READ, "set": {"on_gap": "fail"}}, RESET
    ),
    # During a sweep no row above the position is exact, so one barrier cannot compare all rows.
    "a gap in a sweep": ({**OTHER_TABLE, "committed": {"sweeps": True}}, {"kind": "sweep"}),
    "a gap in a sweep, with on_gap": (
        {**OTHER_TABLE, **SWEEP, "committed": {"sweeps": True}}, {"kind": "sweep"}
    ),
    # A sweep that has repaired no row yet keeps all rows of the MV, although none must be exact.
    **{
        f"a gap in a sweep that has come to nothing yet, {how} {on_gap}": (
            {**OTHER_TABLE, "position": None, "set": {"on_gap": on_gap}, **state},
            {"kind": "sweep", "fills": None},
        )
        for on_gap in ("reanchor", "sweep", "fail")
        for how, state in {
            "and": {"committed": {"kind": "sweep"}},
            "given up,": {"committed": {"kind": "abandon", "sweeps": True}, "dirty": True},
        }.items()
    },
    # -- a query that returns other columns --
    "new columns, and nothing else to do": (
        {**WIDENED, **CAUGHT_UP, "set": {"backfill_rate_limit": None}},
        {"kind": "fill", **FILLED, "fill_low": None, "range_low": ["1", "2"],
         "range_high": ["1", "2"]},
    ),
    # The fill continues before the backfill reads further ranges.
    "a fill goes on": (
        {"committed": FILLING}, {"kind": "fill", "fill_low": ["0", "1"], "fill_high": ["7", "8"]}
    ),
    "a fill is paused": ({**PAUSED, "committed": FILLING}, {"kind": "fill"}),
    "a fill is paused, and nothing changed": (
        {**PAUSED, "version": 16, "committed": FILLING}, None
    ),
    "a fill has ended": ({"committed": {**FILLING, "last_fill": True}}, ADVANCE),
    "new columns over a gap": ({**WIDENED, **OTHER_TABLE}, {**REANCHOR, **FILLED}),
    "new columns over a gap, with on_gap": (
        {**WIDENED, **OTHER_TABLE, **SWEEP}, {"kind": "sweep", **FILLED}
    ),
    # The re-anchor compares all rows, not only the rows that the slice may have written.
    "a slice was given up": (
        {"dirty": True, "touched": [],
         "committed": {"kind": "abandon", "fills": FILLS, "fill_low": ["0", "1"]}},
        {**REANCHOR, "touched": None, "fill_low": ["0", "1"], "last_fill": True},
    ),
    "new columns, and nothing was read": (
        {**WIDENED, **NOTHING_READ}, {**RESET, "reason": "its query returns other columns"}
    ),
    # The sweep keeps the existing rows of the MV.
    "new columns at the begin of a sweep": (
        {**WIDENED, "position": None, "committed": {"kind": "sweep"}}, {"kind": "sweep", **FILLED}
    ),
    "columns are dropped": ({**NARROWED}, {**ADVANCE, "drops": ["x"], "moves_position": True}),
    "columns are dropped, and nothing else to do": (
        {**NARROWED, **CAUGHT_UP},
        {**ADVANCE, "drops": ["x"], "last_range": False, "range_low": ["1", "2"],
         "range_high": ["1", "2"]},
    ),
    # The bounds of a fill cannot be used for ranges after the fill has ended.
    "columns are dropped that were being filled, paused": (
        {**NARROWED, **PAUSED, "committed": FILLING}, {**ADVANCE, "next_bounds": []}
    ),
    "columns are dropped that were being filled, finished": (
        {**NARROWED, **CAUGHT_UP, "committed": FILLING}, {**ADVANCE, "last_range": False}
    ),
    # Even if it is unknown whether the columns were dropped, only the touched ranges are compared.
    "a plan that drops was given up": (
        {"dirty": True, "touched": [["5", "6"]], "committed": {"kind": "abandon", "drops": ["y"]}},
        {**REANCHOR, "drops": ["y"], "touched": [["5", "6"]], "fills": None},
    ),
    "what it drops is returned again": (
        {**WIDENED, "dirty": True, "committed": {"kind": "abandon", "drops": ["X", "y"]}},
        {**REANCHOR, "fills": FILLS, "drops": ["y"]},
    ),
    # -- a change table of the user's own --
    "it has events": (
        {"feed": 8, "version": 16, **FINISHED},
        {**ADVANCE, "feed": "8", "version": "16", "has_changes": True},
    ),
    "it has none, whatever happened upstream": ({"feed": 7, **FINISHED}, None),
    "it has events for a snapshot": (
        {"feed": 8, "version": 16, **SNAPSHOT}, {"feed": "7", "has_changes": False}
    ),
    "it has events for a snapshot that is finished": (
        {"feed": 8, "version": 16, **SNAPSHOT, **FINISHED}, {"feed": "8"}
    ),
    "it has events for a snapshot that is paused": (
        {"feed": 8, "version": 16, "set": {"backfill_mode": "snapshot", "backfill_rate_limit": 0}},
        None,
    ),
}  # fmt: skip


@pytest.mark.parametrize(("given", "chosen"), CHOICES.values(), ids=CHOICES)
def test_it_is_chosen_by_what_stands_and_what_happened(
    choose: Any, given: dict[str, Any], chosen: dict[str, Any] | None
) -> None:
    plan = choose(**given)

    assert (plan and {name: plan[name] for name in chosen or plan}) == chosen


@pytest.mark.parametrize("touched", [None, []], ids=["committed", "given up"])
@pytest.mark.parametrize(
    ("recorded", "changed"),
    [
        ('{"id": "int", "n": "int", "gone": "int"}', True),
        ('{"id": "int", "n": "bigint"}', False),
        # The plan was made when the query did not read the column n, or without a record of types.
        ('{"id": "int"}', False),
        (None, False),
    ],
)
def test_another_type_of_a_column_that_the_query_reads_is_a_gap(
    choose: Any, analysis: Any, make_source: Any, make_plan: Any, recorded: str | None,
    changed: bool, touched: list[Any] | None,
) -> None:  # fmt: skip
    analysis["types"] = '{"id": "int", "n": "bigint"}'
    read = [make_source(version="16", definition=recorded)]
    committed: dict[str, Any] = {"sources": read}
    if touched is not None:
        given_up = {"since": make_plan(sources=read), "plans": []}
        committed = {"kind": "abandon", "given_up": given_up, "sources": [make_source()]}
    state = {} if touched is None else {"touched": touched, "dirty": True}
    plan = choose(committed=committed, **state)

    reason = "the type of the column n of the upstream changed from int to bigint"
    if touched is not None:
        assert plan["kind"] == "reanchor" and plan["touched"] == (None if changed else [])
    else:
        assert (plan["kind"], plan["reason"]) == (
            ("reanchor", reason) if changed else ("advance", None)
        )


def test_an_edit_without_a_meaning_is_no_barrier_of_its_own(choose: Any, backfill: Any) -> None:
    backfill["query_hash"] = "h2"

    assert choose(**CAUGHT_UP) is None


# -- a gap, and the option on_gap -----------------------------------------------------------------

GAPS = {
    "an abandoned plan": ({"dirty": True}, "the last plan was abandoned"),
    "another table": (OTHER_TABLE, "the upstream is another table than at the last barrier"),
    "a shortened log": (
        {"observed": {"complete": False}},
        "the log of the upstream no longer reaches back to version 16",
    ),
}


@pytest.mark.parametrize("also", [{}, FINISHED], ids=["half", "finished"])
@pytest.mark.parametrize("on_gap", ["reanchor", "sweep"])
@pytest.mark.parametrize(("gap", "reason"), GAPS.values(), ids=GAPS)
def test_a_gap_of_the_feed_is_closed_at_the_newest_version(
    choose: Any, gap: Any, reason: str, on_gap: str, also: Any
) -> None:
    plan = choose(set={"on_gap": on_gap}, **gap, **also)

    assert (plan["kind"], plan["reason"], plan["version"]) == (on_gap, reason, "17")
    assert not plan["moves_position"]


@pytest.mark.parametrize(("gap", "reason"), GAPS.values(), ids=GAPS)
def test_a_gap_is_refused_where_the_model_says_so(
    choose: Any, refused: Any, gap: Any, reason: str
) -> None:
    with refused(
        "its next barrier would compare its query with all 1,040 rows read so far, because "
        f"{reason}. Set on_gap='reanchor' to allow that, on_gap='sweep' to compare them in "
        "slices, or rebuild the MV with --full-refresh."
    ):
        choose(set={"on_gap": "fail"}, row_count=1040, **gap)


def test_a_snapshot_cannot_stay_at_a_version_that_can_no_longer_be_read(
    choose: Any, macros: Macros
) -> None:
    macros.answer("upstream_gap", lambda *_: None)
    macros.answer("upstream_readable", lambda observed, source: source["version"] != "16")
    plan = choose(**SNAPSHOT)

    assert (plan["kind"], plan["version"]) == ("reanchor", "17")
    assert plan["reason"] == "the version 16 of the snapshot can no longer be read"
    assert choose(**SNAPSHOT, **FINISHED)["kind"] == "advance"
    assert choose(set={"backfill_mode": "arrangement"})["kind"] == "advance"


# -- what is refused before any row is read -------------------------------------------------------


def test_the_mode_no_shuffle_is_refused_where_vnodes_differ(choose: Any, refused: Any) -> None:
    with refused(
        "its vnodes have different positions, but backfill_mode 'no_shuffle' allows only one "
        "position. Set backfill_mode to 'arrangement', or rebuild the MV with --full-refresh."
    ):
        choose(set={"backfill_mode": "no_shuffle"}, uniform=False, position=None)


def test_a_vnode_that_the_mv_has_not_is_refused(choose: Any, refused: Any) -> None:
    """A range of a vnode that the MV does not have would never end."""
    with refused("the option backfill_vnodes contains vnode 4, but the MV has 4 vnodes. Use "):
        choose(set={"backfill_vnodes": [3, 4], "vnode_count": 8})


@pytest.mark.parametrize(
    ("given", "tried"),
    [({}, []), (NEW, ["17"]), (OTHER_TABLE, ["17"])],
    ids=["next", "first", "gap"],
)
def test_the_query_is_tried_on_the_version_where_its_columns_may_be_others(
    macros: Macros, choose: Any, given: Any, tried: list[str]
) -> None:
    asked: list[str] = []
    macros.stub("check_query_at", lambda *given: asked.append(given[-1]))
    choose(**given)

    assert asked == tried
