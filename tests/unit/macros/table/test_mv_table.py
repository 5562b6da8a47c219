"""Statements that create and empty the MV."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from support.macros import Macros

RESET = {"backfill_id": "b1", "plan_id": "p3"}
COLUMNS = [{"name": "k", "type": "bigint"}, {"name": "t h", "type": "decimal(5,1)"}]


@pytest.fixture(autouse=True)
def dbt_spark(macros: Macros) -> None:
    """dbt-spark's clauses, as they stand in a statement."""
    macros.context.update(
        options_clause=lambda: "options (o)",
        partition_cols=lambda label: f"{label} (p)",
        clustered_cols=lambda label: f"{label} (c) into 8 buckets",
    )


def test_the_mv_is_created_empty_with_the_columns_of_the_query(
    render: Callable[..., str], relations: Any
) -> None:
    assert render("get_create_mv_sql", relations["mv"], COLUMNS, "b1") == (
        "create table if not exists lake.mv ( `k` bigint, `t h` decimal(5,1) ) using delta "
        "tblproperties ( 'delta.enableChangeDataFeed' = 'true', "
        "'delta.enableDeletionVectors' = 'true', 'delta.columnMapping.mode' = 'name', "
        "'delta.isolationLevel' = 'Serializable', 'delta.appendOnly' = 'false', "
        "'dbt_backfill.id' = 'b1', 'dbt_backfill.format' = '2', 'dbt_backfill.mv' = 'lake.mv' ) "
        "options (o) partitioned by (p)"
    )


def test_the_names_of_fields_count_as_those_of_columns(
    render: Callable[..., str], relations: Any
) -> None:
    columns = [{"name": "k", "type": "struct<a:int,`t h`:int>"}]

    assert "'delta.columnMapping.mode' = 'name'" in render(
        "mv_clauses", relations["mv"], columns, "b1"
    )


def test_the_mv_is_emptied_by_replacing_it_only_if_the_fence_lets_pass(
    render: Callable[..., str], relations: Any
) -> None:
    sql = render("get_replace_mv_sql", relations["mv"], COLUMNS[:1], RESET, "(select F)")

    assert sql.startswith("create or replace table lake.mv using delta tblproperties (")
    assert sql.endswith(
        "as select cast(null as bigint) as `k` from (select (select F) as fenced) where not fenced"
    )


def test_an_mv_has_the_same_clauses_when_it_is_replaced_as_when_it_was_created(
    render: Callable[..., str], relations: Any
) -> None:
    clauses = render("mv_clauses", relations["mv"], COLUMNS, "b1")

    assert clauses in render("get_create_mv_sql", relations["mv"], COLUMNS, "b1")
    assert clauses in render("get_replace_mv_sql", relations["mv"], COLUMNS, RESET, "F")


def test_an_iceberg_mv_knows_the_run_that_has_replaced_it_and_for_which_reset(
    macros: Macros, render: Callable[..., str], relations: Any
) -> None:
    """It may come late: Iceberg replaces a table whatever was committed since."""
    macros.config["file_format"] = "iceberg"

    assert "'dbt_backfill.reset' = ''" in render("mv_clauses", relations["mv"], COLUMNS, "b1")
    for replace in [
        render("get_replace_mv_sql", relations["mv"], COLUMNS, RESET, "F"),
        render("get_columnless_mv_sql", relations["mv"], RESET, "F"),
    ]:
        assert f"'dbt_backfill.reset' = 'p3 of {macros.context['invocation_id']}'" in replace


@pytest.mark.parametrize(
    ("config", "clause"),
    [
        ({}, ""),
        ({"clustered_by": "a"}, "cluster by (a)"),
        ({"clustered_by": ["a", "b"]}, "cluster by (a, b)"),
        ({"clustered_by": ["a"], "buckets": 8}, "clustered by (c) into 8 buckets"),
        ({"buckets": 8}, ""),
    ],
)
def test_clustered_by_is_liquid_clustering_unless_buckets_are_given(
    macros: Macros, render: Callable[..., str], config: dict[str, Any], clause: str
) -> None:
    macros.config.update(config)

    assert render("cluster_clause") == clause


def test_the_columns_of_a_query_are_asked_of_spark(macros: Macros) -> None:
    macros.results = [[["k", "bigint", None], ["t h", "decimal(5,1)", "a comment"]]]

    assert macros.call("get_query_columns", "\nselect 1 ;\n") == COLUMNS
    assert macros.statements[0].sql.rstrip().endswith("describe query\nselect 1")


def test_a_type_can_be_read_again_by_spark(macros: Macros) -> None:
    """Spark prints the names of fields as they are."""
    struct = "struct<order-id:int,p:decimal(5,1),a:array<struct<t h:map<int,string>,b.c:date>>>"
    macros.results = [[["k", struct, None]]]

    [column] = macros.call("get_query_columns", "select 1")
    assert column["type"] == (
        "struct<`order-id`:int,p:decimal(5,1),a:array<struct<`t h`:map<int,string>,`b.c`:date>>>"
    )


def test_a_type_that_spark_shortens_is_asked_for_whole(macros: Macros) -> None:
    macros.results = [[["k", "struct<a:int,... 2 more fields>", None]], [], [["k", "int", None]]]

    assert macros.call("get_query_columns", "select 1") == [{"name": "k", "type": "int"}]
    show_all = "execute immediate 'set spark.sql.debug.maxToStringFields = 100000'"
    assert macros.statements[1].sql.endswith(show_all)


def test_the_columns_of_a_table_are_asked_of_spark(macros: Macros, relations: Any) -> None:
    """dbt's listing ends before a column called `#`."""
    macros.results = [[["#", "bigint", None], ["t h", "decimal(5,1)", None]]]

    assert [column["name"] for column in macros.call("get_table_columns", relations["mv"])] == [
        "#",
        "t h",
    ]
    assert macros.statements[0].sql.rstrip().endswith("describe query\nselect * from lake.mv")
