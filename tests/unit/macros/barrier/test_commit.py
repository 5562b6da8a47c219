"""Step 5: what a barrier of each kind sets in the progress table."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Callable
from typing import Any

import pytest

from support.macros import Macros

Row = dict[str, Any]

# vnode, id, shard, backfill_finished, row_count, epoch, upstream_version, dirty
PROGRESS = [
    (0, 1, 2, 0, 10, 2, "16", 1),
    (1, None, None, 0, 0, 2, "16", 1),
    (2, 9, 9, 1, 30, 2, "16", 1),
    (3, 1, 2, 0, 10, 2, "16", 1),
]
COLUMNS = ["vnode", "id", "shard", "backfill_finished", "row_count", "epoch", "upstream_version",
           "dirty"]  # fmt: skip


@pytest.fixture
def commit(macros: Macros, sqlite: sqlite3.Connection) -> Callable[[Any], list[Row]]:
    """The progress table after the commit of a plan, by the expressions that the MERGE sets."""

    def commit(plan: dict[str, Any]) -> list[Row]:
        sqlite.execute(f"create table progress ({', '.join(COLUMNS)})")
        sqlite.executemany("insert into progress values (?, ?, ?, ?, ?, ?, ?, ?)", PROGRESS)
        sqlite.execute("create table plan (epoch, upstream_version, vnode_row_counts)")
        counts = "json:" + json.dumps(plan.get("vnode_row_counts", {}))
        sqlite.execute(
            "insert into plan values (?, ?, ?)",
            (plan["epoch"], plan.get("upstream_version"), counts),
        )
        columns = {f"progress.`{name}`": f"progress.`{name}`" for name in COLUMNS}
        for column, value in macros.call("_committed_columns", plan).items():
            name = column.strip("`")
            assert f"progress.`{name}`" in columns
            columns[f"progress.`{name}`"] = value.replace(
                "plan.vnode_row_counts[progress.vnode]",
                "element_at(plan.vnode_row_counts, progress.vnode)",
            )
        values = ", ".join(columns.values())
        rows = sqlite.execute(f"select {values} from progress, plan").fetchall()
        return [dict(zip(COLUMNS, row, strict=True)) for row in rows]

    return commit


def _column(rows: list[Row], *names: str) -> list[Any]:
    return [row[names[0]] if len(names) == 1 else tuple(row[n] for n in names) for row in rows]


def test_an_advance_moves_every_vnode_to_the_end_of_the_range(
    commit: Callable[..., Any], make_plan: Callable[..., Any]
) -> None:
    rows = commit(make_plan(vnode_row_counts={"0": 3, "1": 4}))

    assert _column(rows, "id", "shard") == [(5, 6)] * 4
    assert _column(rows, "row_count") == [13, 4, 30, 10]
    assert _column(rows, "backfill_finished") == [0, 0, 1, 0]
    assert _column(rows, "upstream_version", "dirty") == [("17", 0)] * 4


def test_an_advance_of_selected_vnodes_leaves_the_others(
    commit: Callable[..., Any], make_plan: Callable[..., Any]
) -> None:
    rows = commit(make_plan(vnodes=[1, 3], vnode_row_counts={"1": 4}))

    assert _column(rows, "id", "shard") == [(1, 2), (5, 6), (9, 9), (5, 6)]
    assert _column(rows, "row_count") == [10, 4, 30, 10]
    assert _column(rows, "upstream_version") == ["17"] * 4


def test_a_vnode_beyond_the_end_of_the_range_stays_where_it_is(
    commit: Callable[..., Any], make_plan: Callable[..., Any]
) -> None:
    """Where positions differ, a range begins at the lowest of them and may end below others."""
    rows = commit(make_plan(vnodes=[0, 1, 2, 3], range_low=None, range_high=["1", "1"]))

    assert _column(rows, "id", "shard") == [(1, 2), (1, 1), (9, 9), (1, 2)]


def test_the_last_range_finishes_every_vnode_and_keeps_its_position(
    commit: Callable[..., Any], make_plan: Callable[..., Any]
) -> None:
    rows = commit(make_plan(last_range=True, range_high=["1", "2"], vnode_row_counts={"1": 4}))

    assert _column(rows, "backfill_finished") == [1, 1, 1, 1]
    assert _column(rows, "id", "shard") == [row[1:3] for row in PROGRESS]
    assert _column(rows, "row_count") == [10, 4, 30, 10]


def test_the_last_range_of_selected_vnodes_finishes_only_these(
    commit: Callable[..., Any], make_plan: Callable[..., Any]
) -> None:
    rows = commit(make_plan(last_range=True, vnodes=[1, 3]))

    assert _column(rows, "backfill_finished") == [0, 1, 1, 1]


def test_an_empty_range_moves_too(
    commit: Callable[..., Any], make_plan: Callable[..., Any]
) -> None:
    """The position moves over keys that were deleted."""
    rows = commit(make_plan(range_row_count=0, vnode_row_counts=None))

    assert _column(rows, "id", "shard") == [(5, 6)] * 4
    assert _column(rows, "row_count") == [10, 0, 30, 10]


@pytest.mark.parametrize("kind", ["advance", "reanchor"])
def test_a_barrier_without_a_range_moves_the_version_only(
    commit: Callable[..., Any], make_plan: Callable[..., Any], kind: str
) -> None:
    rows = commit(make_plan(kind=kind, range_row_count=None, vnode_row_counts=None))

    assert [tuple(row.values())[:5] for row in rows] == [row[:5] for row in PROGRESS]
    assert _column(rows, "upstream_version", "dirty") == [("17", 0)] * 4


def test_a_reset_begins_anew(commit: Callable[..., Any], make_plan: Callable[..., Any]) -> None:
    rows = commit(make_plan(kind="reset", upstream_version=None))

    assert [tuple(row.values())[1:5] for row in rows] == [(None, None, 0, 0)] * 4
    assert _column(rows, "upstream_version", "dirty") == [(None, 0)] * 4


def test_a_reset_gives_a_position_the_type_of_its_column(
    macros: Macros, make_plan: Callable[..., Any]
) -> None:
    columns = macros.call("_committed_columns", make_plan(kind="reset"))

    assert (columns["`id`"], columns["`shard`"]) == ("cast(null as bigint)", "cast(null as int)")


def test_an_abandoned_plan_moves_nothing_and_leaves_the_mv_dirty(
    macros: Macros, make_plan: Callable[..., Any]
) -> None:
    plan = make_plan(kind="abandon", last_range=True)

    assert macros.call("_committed_columns", plan) == {"dirty": "true"}


def test_a_position_goes_to_the_column_of_the_progress_table(
    macros: Macros, make_plan: Callable[..., Any]
) -> None:
    plan = make_plan(upstream_key=["epoch"], unique_key=["k"], key_types=["int"], range_high=["5"])
    columns = macros.call("_committed_columns", plan)

    assert columns["`pk_epoch`"] == "if(true, 5, progress.`pk_epoch`)"
    assert "epoch" not in columns


# -- the statement ----------------------------------------------------------------------------


def test_the_progress_moves_only_from_the_epoch_before_and_for_this_very_plan(
    render: Callable[..., str], backfill: Any, make_plan: Callable[..., Any]
) -> None:
    sql = render("get_commit_sql", backfill, make_plan())

    assert sql.startswith(
        "merge into lake.mv__progress as progress using ( "
        "select epoch, upstream_version, vnode_row_counts from lake.mv__barriers "
        "where epoch = 3 and plan_id = 'p3' and kind = 'advance' ) as plan "
        "on progress.epoch = plan.epoch - 1 when matched then update set "
    )
    assert sql.endswith(", epoch = plan.epoch")
    assert "`id` = if(true, 5, progress.`id`), `shard` = if(true, 6, progress.`shard`), " in sql


def test_a_reset_for_the_same_key_updates_the_progress_table(
    render: Callable[..., str], backfill: Any, make_plan: Callable[..., Any]
) -> None:
    sql = render("get_commit_sql", backfill, make_plan(kind="reset"))

    assert sql.startswith("merge into lake.mv__progress")
    assert "and kind = 'reset'" in sql


@pytest.mark.parametrize(
    "changes",
    [
        {"upstream_key": ["shard", "id"]},
        {"key_types": ["bigint", "bigint"]},
        {"vnode_count": 8},
    ],
)
def test_a_reset_for_another_key_replaces_the_progress_table_if_the_fence_lets_pass(
    render: Callable[..., str],
    backfill: Any,
    make_plan: Callable[..., Any],
    changes: dict[str, Any],
) -> None:
    plan = make_plan(kind="reset", **changes)
    sql = render("get_commit_sql", backfill, plan)

    assert sql.startswith("create or replace table lake.mv__progress using delta tblproperties (")
    assert f"from range(0, {plan['vnode_count']}, 1, 1)" in sql
    assert "cast(3 as bigint) as epoch" in sql and "cast('b1' as string) as backfill_id" in sql
    assert sql.endswith("where " + render("get_fence", backfill, plan))


def test_a_reset_after_one_that_was_given_up_replaces_the_progress_table(
    render: Callable[..., str], backfill: Any, make_plan: Callable[..., Any]
) -> None:
    """Which has the key and vnodes of the plan before that one."""
    backfill["committed"] = make_plan(kind="abandon", upstream_version=None, vnode_count=8)
    sql = render("get_commit_sql", backfill, make_plan(kind="reset", vnode_count=8))

    assert sql.startswith("create or replace table lake.mv__progress")


def test_on_iceberg_the_progress_table_loses_its_position_before_it_gets_another(
    macros: Macros, render: Callable[..., str], backfill: Any, make_plan: Callable[..., Any]
) -> None:
    """A Hive metastore takes new columns behind the old ones, but no new types in their places."""
    macros.stub("get_file_format", lambda: "iceberg")
    plan = make_plan(kind="reset", vnode_count=8)
    narrowed, replaced = render("get_commit_sql", backfill, plan).split("; create ")
    fence = render("get_fence", backfill, plan)

    columns = "vnode, backfill_finished, row_count, epoch, upstream_version, dirty, backfill_id"
    assert narrowed.startswith("create or replace table lake.mv__progress using iceberg ")
    assert narrowed.endswith(f"as select {columns} from lake.mv__progress where {fence}")
    assert replaced.startswith("or replace table lake.mv__progress using iceberg ")
    assert replaced.endswith(f"where {fence}")


def test_an_advance_never_replaces_the_progress_table(
    render: Callable[..., str], backfill: Any, make_plan: Callable[..., Any]
) -> None:
    sql = render("get_commit_sql", backfill, make_plan(vnode_count=8))

    assert sql.startswith("merge into lake.mv__progress")


@pytest.fixture
def commit_barrier(macros: Macros, backfill: Any, make_plan: Callable[..., Any]) -> Any:
    """Commits the plan p3 of epoch 3; Spark answers with the state that stands afterwards."""

    def commit_barrier(
        epoch: int, plan_id: str, plan: Any = None, dirty: bool = False, **arguments: Any
    ) -> Any:
        state = {"epoch": epoch, "dirty": dirty, "committed": {"plan_id": plan_id}}
        macros.results = [[[json.dumps(state)]]]
        return macros.call("commit_barrier", backfill, make_plan(**(plan or {})), **arguments)

    return commit_barrier


def test_a_commit_returns_the_state_that_stands_then(commit_barrier: Any) -> None:
    assert commit_barrier(3, "p3")["epoch"] == 3


def test_a_run_that_others_overtook_with_its_own_plan_goes_on(commit_barrier: Any) -> None:
    """Another run executed the same plan, and the next one: nothing is lost."""
    assert commit_barrier(4, "p4")["epoch"] == 4


@pytest.mark.parametrize(
    ("epoch", "plan_id", "dirty"), [(2, "p2", False), (3, "another", False), (3, "p3", True)]
)
def test_a_run_whose_plan_did_not_become_the_epoch_stops(
    commit_barrier: Any, refused: Any, epoch: int, plan_id: str, dirty: bool
) -> None:
    """Another run went back, was first with another plan, or gave this one up."""
    with refused(
        "another run went on while this one executed the barrier 3. Nothing is lost; run again to "
        "continue."
    ):
        commit_barrier(epoch, plan_id, dirty=dirty)


def test_a_plan_that_is_given_up_is_committed_as_such(commit_barrier: Any) -> None:
    assert commit_barrier(3, "p3", plan={"kind": "abandon"}, dirty=True)["epoch"] == 3


def test_what_is_known_by_then_is_noted_once_in_this_very_plan(
    macros: Macros, commit_barrier: Any
) -> None:
    commit_barrier(3, "p3", counts={"changed": 5, "deleted": 2})
    sql = " ".join(macros.statements[0].sql.split())

    assert (
        "using ( select 3 as epoch, 5 as changed, 2 as deleted ) as committed "
        "on barriers.epoch = committed.epoch and barriers.epoch = 3 and barriers.plan_id = 'p3' "
    ) in sql
    assert (
        "when matched and barriers.committed_at is null then update set "
        "committed_at = current_timestamp(), changed_row_count = committed.changed, "
        "deleted_row_count = committed.deleted;"
    ) in sql


def test_the_snapshot_of_an_iceberg_mv_is_noted(macros: Macros, commit_barrier: Any) -> None:
    macros.config["file_format"] = "iceberg"
    commit_barrier(3, "p3")

    sql = " ".join(macros.statements[0].sql.split())

    newest = "(select max(cast(snapshot_id as string)) from lake.mv.refs where name = 'main')"
    assert f"0 as deleted, {newest} as snapshot ) as committed" in sql
    assert "mv_snapshot_id = committed.snapshot, deleted_row_count = committed.deleted;" in sql


def test_counts_may_be_asked_of_spark(macros: Macros, commit_barrier: Any) -> None:
    """Of the snapshot that an Iceberg MERGE made."""
    commit_barrier(3, "p3", counts={"changed": "(select 1)", "deleted": "(select 2)"})

    sql = " ".join(macros.statements[0].sql.split())
    assert "(select 1) as changed, (select 2) as deleted" in sql


def test_counts_are_zero_where_nothing_was_merged(macros: Macros, commit_barrier: Any) -> None:
    commit_barrier(3, "p3")

    sql = " ".join(macros.statements[0].sql.split())
    assert "0 as changed, 0 as deleted" in sql


def test_every_stage_of_the_barrier_is_dropped_with_the_commit(
    macros: Macros, commit_barrier: Any, backfill: Any
) -> None:
    """Also that of a plan that did not stand: its rows are cached."""
    backfill["stages"] = ["`first`", "`second`"]
    commit_barrier(3, "p3")
    sql = " ".join(macros.statements[0].sql.split())

    handler = "declare exit handler for sqlexception begin end;"  # another session has none
    dropped = [
        f"begin {handler} uncache table if exists {name}; drop view {name}; end; "
        for name in backfill["stages"]
    ]
    assert "deleted_row_count = committed.deleted; " + "".join(dropped) in sql


def test_a_barrier_without_a_stage_drops_none(macros: Macros, commit_barrier: Any) -> None:
    commit_barrier(3, "p3")

    assert "uncache" not in macros.statements[0].sql


@pytest.mark.parametrize(
    ("file_format", "epoch", "is_compacted"),
    [("delta", 49, False), ("delta", 50, True), ("delta", 100, True), ("iceberg", 50, False)],
)
def test_the_files_of_fifty_barriers_are_made_one(
    macros: Macros, commit_barrier: Any, file_format: str, epoch: int, is_compacted: bool
) -> None:
    macros.config["file_format"] = file_format
    commit_barrier(epoch, "p3", plan={"epoch": epoch})
    sql = " ".join(macros.statements[0].sql.split())

    assert ("; execute immediate 'optimize lake.mv__barriers'; select " in sql) is is_compacted
