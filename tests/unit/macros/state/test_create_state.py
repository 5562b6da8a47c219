"""The state of an MV before its first barrier."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from support.macros import Macros


def test_every_vnode_has_not_started(render: Callable[..., str], keys: Any) -> None:
    assert render("get_not_started_sql", keys, 256, 5, "'b1'") == (
        "select cast(id as int) as vnode, "
        "false as backfill_finished, cast(0 as bigint) as row_count, cast(5 as bigint) as epoch, "
        "cast(null as string) as upstream_version, false as dirty, "
        "cast('b1' as string) as backfill_id, "
        "cast(null as bigint) as `id`, cast(null as int) as `shard` from range(0, 256, 1, 1)"
    )


@pytest.fixture
def statements(
    macros: Macros, render: Callable[..., str], relations: Any, make_plan: Callable[..., Any]
) -> list[str]:
    """The statements that create the state of epoch 0 for a run whose id is b1."""
    macros.stub(
        "get_create_mv_sql",
        lambda mv, columns, backfill_id: f"create table if not exists {mv} '{backfill_id}'",
    )
    plan = make_plan(epoch=0, kind="create", vnode_row_counts=None)
    return [
        part.strip() for part in render("get_create_statements", relations, plan, []).split(";")
    ]


def test_tables_are_created_in_the_order_barriers_progress_mv(statements: list[str]) -> None:
    barriers, _, progress, mv, execute, end = statements

    assert barriers.startswith("create table if not exists lake.mv__barriers using delta ")
    assert progress.startswith("create table if not exists lake.mv__progress using delta ")
    assert "create table if not exists lake.mv " in mv
    assert (execute, end) == ("execute immediate create_mv", "")


def test_each_step_of_the_creation_can_be_repeated(statements: list[str]) -> None:
    """A run that died may have left any of the tables."""
    sql = " ".join(statements)

    assert sql.count("create table") == sql.count("create table if not exists") == 3


def test_the_first_plan_is_that_of_the_epoch_0(statements: list[str]) -> None:
    assert (
        "as select cast(0 as bigint) as epoch, cast('p3' as string) as plan_id, " in statements[0]
    )
    assert "cast('create' as string) as kind" in statements[0]


def test_the_progress_table_begins_with_every_vnode_at_the_epoch_0(statements: list[str]) -> None:
    assert "cast(0 as bigint) as epoch" in statements[2]
    assert statements[2].endswith("from range(0, 4, 1, 1)")


def test_the_id_that_stands_already_is_taken_over(statements: list[str]) -> None:
    """Another run, alive or dead, created the barriers table first."""
    _, standing, progress, mv, *_ = statements

    assert standing == (
        "set (created_id, standing) = ( "
        "select min(backfill_id), max(to_json(struct(*))) filter (where epoch = 1) "
        "from lake.mv__barriers where epoch <= 1 )"
    )
    assert "cast(created_id as string) as backfill_id" in progress
    assert mv == (
        "set create_mv = replace( 'create table if not exists lake.mv \\'b1\\'', 'b1', created_id )"
    )


def test_the_plan_of_the_first_barrier_is_created_with_the_table(
    render: Callable[..., str], relations: Any, make_plan: Callable[..., Any], macros: Macros
) -> None:
    macros.stub("get_create_mv_sql", lambda mv, columns, backfill_id: "")
    creation = make_plan(epoch=0, plan_id="p0", kind="create", vnode_row_counts=None)
    sql = render("get_create_statements", relations, creation, [], make_plan(epoch=1))

    rows = sql.split(";")[0].split(" as select ", 1)[1].split(" union all select ")
    assert [row.split(" as epoch, ")[0] for row in rows] == [
        "cast(0 as bigint)",
        "cast(1 as bigint)",
    ]


@pytest.mark.parametrize("file_format", ["delta", "iceberg"])
def test_what_another_model_has_begun_is_put_away_by_its_id(
    macros: Macros,
    render: Callable[..., str],
    relations: Any,
    make_plan: Callable[..., Any],
    file_format: str,
) -> None:
    macros.config["file_format"] = file_format
    macros.stub("get_create_mv_sql", lambda mv, columns, backfill_id: "create")
    plan = make_plan(epoch=0, kind="create", vnode_row_counts=None, replaces="b0")
    before, rest = render("get_create_statements", relations, plan, []).split("end if;")

    assert before.startswith(
        "if ( select count(*) from lake.mv__barriers where backfill_id = 'b0' ) > 0 then "
    )
    word = "create or replace table" if file_format == "delta" else "drop table if exists"
    # Its id stands in the barriers: they go last.
    assert before.index(f"{word} lake.mv__progress") < before.index(f"{word} lake.mv__barriers")
    assert rest.strip().startswith("create table if not exists lake.mv__barriers")
