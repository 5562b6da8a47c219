"""The state of an MV before its first barrier."""

from __future__ import annotations

import re
import sqlite3
from collections.abc import Callable
from typing import Any

import pytest

from support.macros import Macros


@pytest.fixture
def creation(make_plan: Callable[..., Any], make_source: Callable[..., Any]) -> dict[str, Any]:
    """The plan of the epoch 0, as a run makes it whose id is b1."""
    source = make_source(id=None, version=None, committed_at=None)
    return dict(
        make_plan(
            epoch=0, plan_id="p0", kind="create", sources=[source], upstream_row_count=None,
            range_low=None, range_high=None, vnode_row_counts=None, range_row_count=None,
            next_bounds=None, bounds_complete=None, settings=None,
        )
    )  # fmt: skip


@pytest.fixture
def first(make_plan: Callable[..., Any]) -> dict[str, Any]:
    return dict(make_plan(epoch=1, plan_id="p1"))


# -- its rows ---------------------------------------------------------------------------------


@pytest.fixture
def rows(
    macros: Macros, sqlite: sqlite3.Connection, creation: Any
) -> Callable[..., list[dict[str, Any]]]:
    """The rows of a new progress table; a plan is shown by its epoch."""

    def rows(plan: Any = None) -> list[dict[str, Any]]:
        macros.stub("get_plan_json_sql", lambda plan: f"'JSON of {plan['epoch']}'")
        sql = macros.call("get_not_started_sql", creation, plan)
        sql = re.sub(r"cast\((.*) as [\w<>(),]+\) as", r"\1 as", sql)
        vnodes = "(select 0 as id union all select 1 union all select 2 union all select 3)"
        sql = sql.replace("range(0, 4, 1, 1)", vnodes)
        cursor = sqlite.execute(sql)
        names = [column[0] for column in cursor.description]
        return [dict(zip(names, row, strict=True)) for row in cursor]

    return rows


def test_every_vnode_has_not_started(rows: Callable[..., Any]) -> None:
    assert [row["vnode"] for row in rows()] == [0, 1, 2, 3]
    for row in rows():
        started = {name: row[name] for name in ["epoch", "backfill_finished", "row_count", "dirty"]}
        assert started == {"epoch": 0, "backfill_finished": 0, "row_count": 0, "dirty": 0}
        assert [row[name] for name in ["upstream_version", "id", "shard"]] == [None] * 3


def test_the_barrier_that_was_committed_last_is_the_creation(rows: Callable[..., Any]) -> None:
    assert [row["last"] for row in rows()] == ["JSON of 0", None, None, None]
    assert {row["unwritten"] for row in rows()} == {None}


def test_nothing_is_planned_unless_there_is_a_first_barrier(rows: Callable[..., Any]) -> None:
    for row in rows():
        assert [row[name] for name in ["plan_id", "plan_kind", "plan"]] == [None] * 3


def test_the_plan_of_the_first_barrier_is_created_with_the_table(
    rows: Callable[..., Any], first: Any
) -> None:
    """So that of two first runs at once one plans it."""
    created = rows(first)

    assert [row["last"] for row in created] == ["JSON of 0", None, None, None]
    assert [row["plan"] for row in created] == ["JSON of 1", None, None, None]
    assert {(row["plan_id"], row["plan_kind"]) for row in created} == {("p1", "advance")}


def test_the_columns_have_their_types_from_the_start(
    macros: Macros, render: Callable[..., str], creation: Any, first: Any
) -> None:
    macros.stub("get_plan_json_sql", lambda plan: "JSON")
    fixed = macros.call("progress_columns")
    expected = [(type_, name) for name, type_ in fixed.items()]

    for plan in [None, first]:
        sql = render("get_not_started_sql", creation, plan)
        columns = re.findall(r" as ([\w<>]+)\) as (\S+?),? ", sql)
        assert columns == [*expected, ("bigint", "`id`"), ("int", "`shard`")]
        assert sql.endswith("cast(null as int) as `shard` from range(0, 4, 1, 1)")


def test_the_position_stands_in_the_columns_of_the_plans_key(
    render: Callable[..., str], creation: Any
) -> None:
    creation["key"] = [{"name": "k", "upstream": "epoch", "type": "date", "position": "pk_epoch"}]

    assert render("get_not_started_sql", creation).endswith(
        "as unwritten, cast(null as date) as `pk_epoch` from range(0, 4, 1, 1)"
    )


# -- the statements ---------------------------------------------------------------------------


@pytest.fixture
def create(
    macros: Macros, render: Callable[..., str], relations: Any, creation: Any
) -> Callable[..., str]:
    macros.stub(
        "get_create_mv_sql",
        lambda mv, columns, backfill_id: f"create table if not exists {mv} '{backfill_id}'",
    )
    return lambda first=None: render("get_create_statements", relations, creation, [], first)


@pytest.fixture
def statements(create: Callable[..., str]) -> list[str]:
    """The statements that create the state of epoch 0 for a run whose id is b1."""
    return [part.strip() for part in create().split(";")]


def test_tables_are_created_in_the_order_progress_mv(statements: list[str]) -> None:
    progress, _, mv, execute, end_if, end = statements

    assert progress.startswith("create table if not exists lake.mv__progress using delta ")
    assert "create table if not exists lake.mv " in mv
    assert (execute, end_if, end) == ("if is_ours then execute immediate create_mv", "end if", "")


def test_each_step_of_the_creation_can_be_repeated(statements: list[str]) -> None:
    """A run that died may have left the progress table."""
    sql = " ".join(statements)

    assert sql.count("create table") == sql.count("create table if not exists") == 2
    assert "drop table" not in sql and "replace table" not in sql


def test_the_history_is_no_part_of_the_creation(statements: list[str]) -> None:
    assert "__barriers" not in " ".join(statements)


def test_both_plans_are_in_the_progress_table(
    create: Callable[..., str], render: Callable[..., str], creation: Any, first: Any
) -> None:
    progress = create(first).split("; set (created_id")[0]

    assert progress.endswith(" as " + render("get_not_started_sql", creation, first))
    # Of all entries only these are as the plan is stored, and not as the table has them.
    assert f"if(id = 0, {render('get_plan_json_sql', creation)}, null) as string) as last" in (
        progress
    )
    assert f"if(id = 0, {render('get_plan_json_sql', first)}, null) as string) as plan" in progress


def test_the_id_and_the_plan_that_stand_already_are_taken_over(statements: list[str]) -> None:
    """Another run, alive or dead, created the progress table first."""
    _, standing, mv, *_ = statements

    assert standing == (
        "set (created_id, standing, is_ours) = ( "
        "select get_json_object(last, '$.backfill_id'), if(epoch = 0, plan, null), "
        "get_json_object(last, '$.query_hash') = 'h1' "
        "and get_json_object(last, '$.query_columns') = 'k: bigint, shard: int' "
        "and (epoch > 0 or get_json_object(last, '$.kind') = 'create') "
        "from lake.mv__progress where vnode = 0 )"
    )
    assert mv == (
        "set create_mv = replace( 'create table if not exists lake.mv \\'b1\\'', 'b1', created_id )"
    )


def test_of_two_first_runs_the_one_that_comes_late_creates_no_mv_of_another_query(
    create: Callable[..., str],
) -> None:
    assert create().endswith("if is_ours then execute immediate create_mv; end if;")


def test_the_script_has_the_variables_of_the_statements(
    render: Callable[..., str], create: Callable[..., str]
) -> None:
    declared = re.findall(r"declare (\w+) \w+;", render("declare_creation"))

    assert declared == ["created_id", "standing", "is_ours", "create_mv"]
    for variable in declared:
        assert re.search(rf"\b{variable}\b", create())


@pytest.mark.parametrize("file_format", ["delta", "iceberg"])
def test_what_another_model_has_begun_is_put_away_by_its_id(
    macros: Macros, create: Callable[..., str], creation: Any, file_format: str
) -> None:
    macros.config["file_format"] = file_format
    creation["replaces"] = "b0"
    before, rest = create().split("end if;", 1)

    assert before.startswith(
        "if ( select count(*) from lake.mv__progress "
        "where get_json_object(last, '$.backfill_id') = 'b0' ) > 0 then "
    )
    word = "create or replace table" if file_format == "delta" else "drop table if exists"
    assert f"{word} lake.mv__progress" in before
    assert rest.strip().startswith("create table if not exists lake.mv__progress")


def test_a_delta_table_that_is_put_away_is_replaced_by_the_new_state(
    create: Callable[..., str], render: Callable[..., str], creation: Any, first: Any
) -> None:
    """In a location of the user's, dropping it would leave its files."""
    creation["replaces"] = "b0"
    before, rest = create(first).split("end if;", 1)
    new = "lake.mv__progress " + rest.split(" lake.mv__progress ", 1)[1].split("; set (")[0]

    assert before.strip().endswith(f"> 0 then create or replace table {new};")
    assert new.endswith(render("get_not_started_sql", creation, first))


def test_the_id_of_a_new_state_stands_in_its_properties_and_in_its_plan(
    statements: list[str],
) -> None:
    assert "'dbt_backfill.id' = 'b1'" in statements[0]
    assert "cast('b1' as string) as backfill_id" in statements[0]
