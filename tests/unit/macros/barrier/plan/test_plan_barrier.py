"""Step 2 of a barrier: one script stages the changes, checks the keys, creates the tables and
stores the plan.

If a check fails, the barrier is planned again.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest
from dbt_common.exceptions import CompilationError

from support.duck import Duck
from support.macros import Macros

OURS = {"plan_id": "p3", "kind": "advance", "backfill_id": "b1"}
THEIRS = {**OURS, "plan_id": "theirs"}
REANCHOR = {"plan_id": "p4", "kind": "reanchor", "backfill_id": "b1"}
CHECKED = {"row_count": 9, "null_keys": 0, "duplicates": False, "upstream_row_count": 77}
STAGED = {"count": 3, "null_keys": 0, "suspects": 0}
MERGED = {"upserts": 2, "drops": 1}


@pytest.fixture
def planned(make_plan: Callable[..., Any]) -> Callable[..., Any]:
    """Return a plan of this run with a range, before the rows of the range are counted."""

    def planned(**changes: Any) -> Any:
        plan = make_plan(range_row_count=None, vnode_row_counts=None)
        return {"vnodes": None, **plan, **changes}

    return planned


NEW = {"position": None, "upstream_version": None, "missing": True}


# -- which keys are checked ----------------------------------------------------------------------


@pytest.mark.parametrize(
    ("plan", "checked"),
    [
        ({}, [2, 3, 4, 5]),
        ({"last_range": True}, [2, 3, 4, 5, 6]),
        ({"range_high": ["1", "2"]}, None),  # this plan has no range
        ({"kind": "reanchor"}, [0, 1]),  # all rows that were read are read again
        ({"kind": "reanchor", "touched": [["5", "6"]]}, None),
        ({"kind": "reset"}, None),
    ],
    ids=["a range", "the last range", "no range", "re-anchor", "a limited one", "reset"],
)
def test_the_keys_that_are_read_are_checked_together_with_null_ones(
    macros: Macros, duck: Duck, backfill: Any, make_state: Any, planned: Callable[..., Any],
    plan: dict[str, Any], checked: list[int] | None,
) -> None:  # fmt: skip
    made = planned(**plan)
    rows = [(number, 2) for number in range(7)] + [(None, 1), (9, None)]
    duck.create("lake.up@17", {"id": "bigint", "shard": "int"}, rows)
    scan = macros.call("get_checked_scan", backfill, make_state(), made)

    if checked is None:
        assert scan is None
    else:
        found = set(duck.rows(scan))
        assert found == {(number, 2) for number in checked} | {(None, 1), (9, None)}


# -- how the plan is stored ---------------------------------------------------------------------


@pytest.fixture
def store(progress: Any, backfill: Any, make_plan: Any) -> Callable[..., int]:
    """Store a plan. Return how many rows of the progress table are changed."""

    def store(**plan: Any) -> int:
        made = make_plan(**plan)
        return int(progress.move("get_store_plan_statements", backfill, made, planned=made))

    return store


def test_every_row_has_the_id_and_kind_of_the_plan_and_one_the_plan_itself(
    store: Any, progress: Any, make_plan: Any
) -> None:
    progress.fill()

    assert store() == 2
    assert progress.read("epoch", "plan_id", "plan_kind") == [(2, "p3", "advance")] * 2
    plan, none = progress.read("plan")
    assert json.loads(plan) == make_plan() and none is None


def test_a_plan_is_stored_only_if_its_epoch_has_none(
    store: Any, progress: Any, with_plan: Any
) -> None:
    progress.fill(**with_plan(plan_id="theirs"))

    assert store() == 0
    assert progress.read("plan_id") == ["theirs"] * 2


def test_a_plan_that_is_sent_again_is_stored_once(store: Any, progress: Any) -> None:
    progress.fill()

    assert (store(), store()) == (2, 0)


@pytest.mark.parametrize("epoch", [1, 3])
def test_a_plan_is_stored_only_for_the_next_epoch(store: Any, progress: Any, epoch: int) -> None:
    progress.fill(epoch=epoch)

    assert store() == 0


def test_a_plan_that_was_given_up_is_never_overwritten(
    store: Any, progress: Any, with_plan: Any
) -> None:
    progress.fill(**with_plan(kind="abandon"))

    assert store(plan_id="p4") == 0


# -- what the script counts ---------------------------------------------------------------------


@pytest.mark.parametrize(
    ("rows", "upserts", "drops", "at_once"),
    [
        (5, 2, 1, True),
        (5, 0, 1, True),
        (0, 2, 1, False),  # no range
        (5, 0, 0, False),  # no changes
        (100_000, 99_999, 1, True),
        (100_001, 1, 1, False),
        (1, 99_999, 2, False),
    ],
)
def test_changes_and_a_range_are_merged_at_once_where_both_are_there_and_small(
    macros: Macros, planned: Any, duck: Duck, rows: int, upserts: int, drops: int, at_once: bool
) -> None:
    """The plan records that both are merged in one statement, so that a run that adopts the plan
    does the same.
    """
    counted = macros.call("get_counted_plan", planned(), staged=True, overlaid=False)["counted"]
    merged = {"upserts": upserts, "drops": drops}

    found = duck.rows(f"select {counted['at_once']}", checked={"row_count": rows}, merged=merged)
    assert found == [(at_once,)]


# -- what happens after the script --------------------------------------------------------------


def stored_by(script: str) -> Any:
    """Return the plan that a script stores, without the numbers that the script counts."""
    [text] = re.findall(r"set planned = concat\('(.*?),', substr", script)
    return json.loads(text.replace("\\'", "'").replace("\\\\", "\\") + "}")


@pytest.fixture
def stood() -> dict[str, Any]:
    """Return the dict in which `plan_barrier` leaves its last result."""
    return {}


@pytest.fixture
def plan_barrier(
    macros: Macros,
    backfill: Any,
    observed: Any,
    analysis: Any,
    make_state: Callable[..., Any],
    planned: Callable[..., Any],
    stood: dict[str, Any],
) -> Callable[..., Any]:
    """Call plan_barrier for plan p3. Return the current plan and the sent scripts.

    The scripts return the given results. A later statement finds that the keys `duplicates` exist
    twice.
    """
    macros.context["model"] = SimpleNamespace(name="mv", unique_id="model.p.mv")
    macros.stub("check_model_of_plan", lambda *checked: stood.update(checked=checked))

    def plan_barrier(
        *results: Any, most_rows: int | None = None, duplicates: Any = None,
        sources: Any = None, replica: Any = None, **state: Any,
    ) -> tuple[Any, list[str]]:  # fmt: skip
        answers = [[[json.dumps(result)]] for result in results]
        if duplicates is not None:
            answers.insert(1, [[json.dumps({"key": key})] for key in duplicates])
        macros.results = list(answers)
        plan = planned(sources=sources) if sources else planned()
        choice = {"plan": plan, "most_rows": most_rows, "analysis": analysis, "copy": replica}
        arguments = (backfill, make_state(**state), observed, choice, [])
        stood.update(macros.call("plan_barrier", *arguments))
        scripts = [" ".join(statement.sql.split()) for statement in macros.statements]
        return stood["plan"], [sql for sql in scripts if ": plan the barrier 3 */ begin " in sql]

    return plan_barrier


def test_the_plan_of_this_run_stands_with_what_it_staged(
    plan_barrier: Callable[..., Any], stood: Any
) -> None:
    result = {"plan": OURS, "staged": STAGED, "merged": MERGED, "checked": CHECKED}
    stands, scripts = plan_barrier(result)

    assert stands == OURS
    assert len(scripts) == 1
    assert (stood["staged"]["count"], stood["staged"]["upserts"]) == (3, 2)
    assert stood["views"][0] == stood["staged"]["name"]
    assert f"cache table {stood['staged']['name']};" in scripts[0]


def _assert_noted(stood: Any, script: str) -> None:
    """Check that the script has created these views.

    The commit drops them even if they are not merged.
    """
    assert stood["views"]
    for name in stood["views"]:
        assert f"cache table {name};" in script


def test_the_plan_of_another_run_stands_without_what_was_staged_for_ours(
    plan_barrier: Callable[..., Any], stood: Any
) -> None:
    stands, scripts = plan_barrier({"plan": THEIRS, "staged": STAGED, "checked": CHECKED})

    assert stands == THEIRS
    assert len(scripts) == 1
    assert stood["staged"] is None
    _assert_noted(stood, scripts[0])


def test_the_plan_of_another_run_has_to_be_one_of_this_model(
    plan_barrier: Callable[..., Any], stood: Any, make_state: Callable[..., Any]
) -> None:
    plan_barrier({"plan": OURS, "checked": CHECKED})
    plan_barrier({"plan": {**THEIRS, "kind": "abandon"}, "checked": CHECKED})
    assert "checked" not in stood

    plan_barrier({"plan": THEIRS, "staged": STAGED, "checked": CHECKED})
    _, settings, plan, views = stood["checked"]
    assert (settings, plan, views) == (make_state()["settings"], THEIRS, stood["views"])


@pytest.mark.parametrize("kind", ["advance", "abandon", "rescale"])
def test_the_plan_of_an_earlier_mv_is_left_to_the_next_run(
    plan_barrier: Callable[..., Any], stood: Any, refused: Any, kind: str
) -> None:
    """A late script of an MV that was dropped has stored it. It may have the same query."""
    late = {**THEIRS, "kind": kind, "epoch": 3, "backfill_id": "b0"}
    with refused("another run changed the state while this run executed the barrier 3. Nothing"):
        plan_barrier({"plan": late, "checked": CHECKED})
    assert "checked" not in stood


def test_a_plan_without_changes_stands_without_a_stage(
    plan_barrier: Callable[..., Any], stood: Any, make_plan: Any
) -> None:
    plan_barrier({"plan": OURS, "checked": CHECKED}, committed=make_plan(epoch=2))

    assert stood["staged"] is None
    assert stood["views"] == []


def test_tables_that_another_run_has_created_without_a_plan_are_left_to_the_next_run(
    plan_barrier: Callable[..., Any], refused: Any, macros: Macros
) -> None:
    """The other run was called with `--empty`, so it has created the tables but planned nothing."""
    macros.stub("get_create_statements", lambda relations, plan, columns, first: "CREATE;")
    with refused("another run created the tables of the MV at the same time. Nothing is lost"):
        plan_barrier({"plan": None, "checked": CHECKED}, **NEW)


@pytest.fixture
def bounds(macros: Macros) -> list[Any]:
    """Return the list of bounds that passes over the keys find. Each pass removes the first."""
    found: list[Any] = []
    macros.stub(
        "find_bounds",
        lambda backfill, state, plan: {"range_high": found.pop(0), "last_range": False},
    )
    return found


MANY = {"checked": {**CHECKED, "row_count": 13}}


def test_bounds_are_found_again_where_too_many_rows_came_into_the_range(
    plan_barrier: Callable[..., Any], bounds: list[Any]
) -> None:
    bounds.append(["3", "3"])
    stands, scripts = plan_barrier(MANY, {"plan": OURS, "checked": CHECKED}, most_rows=12)

    assert stands == OURS and bounds == []
    assert [sql.count('["5", "6"]') for sql in scripts] == [1, 0]
    assert [sql.count('["3", "3"]') for sql in scripts] == [0, 1]


def test_bounds_that_were_just_found_are_not_found_again(
    plan_barrier: Callable[..., Any], bounds: list[Any]
) -> None:
    """If a sample has given inaccurate bounds, another sample would not be better."""
    bounds.append(["3", "3"])
    _, scripts = plan_barrier(MANY, {"plan": OURS}, most_rows=12)

    assert ["checked.row_count <= 12" in sql for sql in scripts] == [True, False]


def test_the_stages_of_a_plan_that_was_planned_again_are_noted(
    plan_barrier: Callable[..., Any], bounds: list[Any], stood: Any
) -> None:
    bounds.append(["3", "3"])
    staged = {"staged": STAGED, "merged": MERGED}
    plan_barrier({**staged, **MANY}, {"plan": OURS, **staged}, most_rows=12)

    assert stood["staged"]["name"] in stood["views"]
    assert len(stood["views"]) == 8 and len(set(stood["views"])) == 4


def test_a_range_is_read_from_the_upstream_where_its_copy_is_gone(
    macros: Macros, plan_barrier: Callable[..., Any], stood: Any
) -> None:
    """Another run may have dropped the copy to create its own copy."""
    dropped: list[Any] = []
    macros.context["adapter"].cache_dropped = dropped.append
    shown = json.dumps({"version": "17", "columns": ["id", "shard"]})
    copy = {"relation": "lake.mv__replica", "kind": "delta", "version": "4", "definition": shown}
    stands, scripts = plan_barrier({"copy_is_gone": True}, {"plan": OURS}, replica=copy)

    assert stands == OURS and stood["source"] is None
    assert [relation.render() for relation in dropped] == ["lake.mv__replica"]
    assert ["mv__replica version as of 4" in sql for sql in scripts] == [True, False]
    assert ["declare exit handler for sqlstate '42P01'" in sql for sql in scripts] == [True, False]
    assert "the copy of its upstream is gone" in macros.logged[0]


def test_changes_without_a_key_are_a_reanchor(plan_barrier: Callable[..., Any], stood: Any) -> None:
    stands, scripts = plan_barrier(
        {"staged": {**STAGED, "null_keys": 1}, "checked": {**CHECKED, "duplicates": True}},
        {"plan": REANCHOR, "checked": CHECKED},
    )

    assert stands["kind"] == "reanchor"
    planned = stored_by(scripts[1])
    assert planned["kind"] == "reanchor"
    assert "the feed has 1 rows with a null in the key" in planned["reason"]
    [source] = planned["sources"]
    assert (source["role"], source["relation"], source["version"]) == ("upstream", "lake.up", "17")
    assert "staged" not in scripts[1]
    assert stood["staged"] is None
    _assert_noted(stood, scripts[0])


def test_a_reanchor_knows_what_the_copy_was_for_that_the_plan_had(
    plan_barrier: Callable[..., Any], make_source: Callable[..., Any]
) -> None:
    copy = {"role": "replica", "relation": "lake.mv__replica", "definition": "noted"}
    _, scripts = plan_barrier(
        {"staged": {**STAGED, "null_keys": 1}, "checked": CHECKED},
        {"plan": REANCHOR, "checked": CHECKED},
        sources=[make_source(), make_source(**copy)],
    )

    [_, source] = stored_by(scripts[1])["sources"]
    assert (source["role"], source["definition"]) == ("replica", "noted")
    assert "version" not in source


def test_a_changed_key_that_stands_twice_in_the_version_is_refused(
    plan_barrier: Callable[..., Any], refused: Any, macros: Macros
) -> None:
    with refused(
        "the key id, shard is not unique in lake.up, in version 17; duplicate keys: (1L, 2). "
        "Delete the duplicates, or name in unique_key the columns that are unique."
    ):
        plan_barrier({"staged": STAGED, "reread": {"count": 3, "twice": [["1L", "2"]]}})
    assert "drop view `mv__changes__" in macros.statements[-1].sql


def test_changes_that_are_gone_are_a_reanchor(plan_barrier: Callable[..., Any], stood: Any) -> None:
    stands, scripts = plan_barrier(
        {"lost": True, "checked": CHECKED},
        {"plan": REANCHOR, "checked": CHECKED},
    )

    assert stands["kind"] == "reanchor"
    gone = "the changes since version 16 can no longer be read"
    assert stored_by(scripts[1])["reason"] == gone
    assert stored_by(scripts[1])["sources"][0]["version"] == "17"
    assert stood["staged"] is None
    _assert_noted(stood, scripts[0])


def test_changes_that_are_gone_are_refused_where_the_model_says_so(
    plan_barrier: Callable[..., Any], refused: Any, options: Any, macros: Macros
) -> None:
    options["on_gap"] = "fail"

    with refused(
        "its next barrier would compare its query with all 40 rows read so far, because the "
        "changes since version 16 can no longer be read. "
        "Set on_gap='reanchor' to allow that, on_gap='sweep' to compare them in slices, or "
        "rebuild the MV with --full-refresh."
    ):
        plan_barrier({"lost": True, "checked": CHECKED})
    assert "drop view `mv__changes__" in macros.statements[-1].sql


def test_a_plan_of_another_run_that_was_committed_meanwhile_is_not_planned_over(
    plan_barrier: Callable[..., Any], refused: Any
) -> None:
    with refused("another run changed the state while this run executed the barrier 3. Nothing"):
        plan_barrier({"plan": None, "staged": STAGED, "merged": MERGED, "checked": CHECKED})


def test_a_plan_that_was_given_up_meanwhile_stands(plan_barrier: Callable[..., Any]) -> None:
    given_up = {**THEIRS, "kind": "abandon"}

    assert plan_barrier({"plan": given_up, "checked": CHECKED})[0] == given_up


def test_a_barrier_that_cannot_be_planned_in_four_attempts_is_left_to_the_next_run(
    plan_barrier: Callable[..., Any], refused: Any, macros: Macros
) -> None:
    gone = {"lost": True, "checked": CHECKED}
    with refused(
        "its barrier 3 could not be planned: four times in a row, its changes, its range or a copy "
        "of its upstream could not be used. Nothing is lost; run again to continue."
    ):
        plan_barrier(*[gone] * 5)
    scripts = [statement.name for statement in macros.statements]
    assert scripts == ["dbt_backfill_plan the barrier 3"] * 4 + [
        "dbt_backfill_drop the staged changes"
    ]


@pytest.mark.parametrize(("count", "rows"), [(1, "1 row with a null"), (2, "2 rows with a null")])
def test_null_keys_are_refused(
    plan_barrier: Callable[..., Any], refused: Any, count: int, rows: str
) -> None:
    with refused(
        f"lake.up has {rows} in id, shard, in version 17. Give these rows a key or delete them; a "
        "primary key is never null."
    ):
        plan_barrier({"checked": {**CHECKED, "null_keys": count}})


DUPLICATES = {"checked": {**CHECKED, "duplicates": True}}


def test_duplicate_keys_are_refused_with_examples(
    plan_barrier: Callable[..., Any], refused: Any
) -> None:
    with refused(
        "the key id, shard is not unique in lake.up, in version 17; duplicate keys: (1L, 2), "
        "(3L, 4). Delete the duplicates, or name in unique_key the columns that are unique."
    ):
        plan_barrier(DUPLICATES, duplicates=[["1L", "2"], ["3L", "4"]])


@pytest.mark.parametrize("checked", [DUPLICATES, {"checked": {**CHECKED, "null_keys": 1}}])
@pytest.mark.parametrize(("version", "is_pinned"), [("16", True), ("17", False)])
def test_a_snapshot_with_wrong_keys_is_left_by_a_rebuild(
    plan_barrier: Callable[..., Any],
    options: Any,
    make_source: Any,
    checked: Any,
    version: str,
    is_pinned: bool,
) -> None:
    """Rows that are corrected upstream are not in the snapshot that the next run reads."""
    options["backfill_mode"] = "snapshot"
    with pytest.raises(CompilationError) as raised:
        plan_barrier(checked, duplicates=[["1L", "2"]], sources=[make_source(version=version)])

    way_out = "Then rebuild the MV with --full-refresh, or set another backfill_mode"
    assert (way_out in str(raised.value.msg)) is is_pinned


def test_keys_are_not_compared_where_the_model_says_so(
    plan_barrier: Callable[..., Any], options: Any
) -> None:
    options["check_key"] = False
    _, [script] = plan_barrier({"plan": OURS, "checked": CHECKED})

    assert "group by hash" not in script


def test_two_keys_with_one_hash_are_not_duplicates(plan_barrier: Callable[..., Any]) -> None:
    """Two keys may have the same hash, so the next attempt compares the keys themselves."""
    stands, scripts = plan_barrier(DUPLICATES, {"plan": OURS, "checked": CHECKED}, duplicates=[])

    assert stands == OURS
    assert ["group by hash" in sql for sql in scripts] == [True, False]
