"""Which edits of a model are none of its query, and what Spark is asked then."""

from __future__ import annotations

from typing import Any

import pytest

from support.macros import Macros

QUERY = """with named as (select id, upper(name) as name, 'a, b' as t from `up`),
    kept as (select * from named where name <> 'X')
select id as k, name, t from kept"""

PLAN = (
    "== Parsed Logical Plan ==\n'Project\n\n== Analyzed Logical Plan ==\n{columns}\nProject\n\n"
    "== Optimized Logical Plan ==\n{optimized}\n\n== Physical Plan ==\n*(1) Project"
)


def _words(macros: Macros, query: str) -> Any:
    return macros.call("get_query_words", query)


@pytest.mark.parametrize(
    "query",
    [
        QUERY.replace("\n", "  -- one\n") + ";",
        QUERY.replace("select", "SELECT").replace("upper", "Upper"),
        QUERY.replace(", upper(name)", ",/* the name */upper( name )"),
        "with kept as (select * from named where name <> 'X'), named as (select id, upper(name) as "
        "name, 'a, b' as t from `up`) select id as k, name, t from kept",
    ],
)
def test_the_words_of_a_query_that_is_written_otherwise(macros: Macros, query: str) -> None:
    assert _words(macros, query) == _words(macros, QUERY)


@pytest.mark.parametrize(
    "query",
    [
        QUERY.replace("'X'", "'x'"),
        QUERY.replace("`up`", "`Up`"),
        QUERY.replace("select id as k, name", "select name, id as k"),
        QUERY.replace("'a, b' as t", "'a', 'b' as t"),
        QUERY.replace("kept as (", "kept (k, n, t) as ("),
        QUERY.replace("id, upper(name) as name", "upper(name) as name, id"),
    ],
)
def test_any_other_edit_gives_other_words(macros: Macros, query: str) -> None:
    assert _words(macros, query) != _words(macros, QUERY)


def test_a_common_table_expression_may_name_its_columns(macros: Macros) -> None:
    query = "with b (x, y) as (select 1, (2)), a as (select 1) select * from b, a"

    assert _words(macros, query) == [
        "a as ( select 1 )",
        "b ( x , y ) as ( select 1 , ( 2 ) )",
        "select * from b , a",
    ]


@pytest.fixture
def is_same(macros: Macros, backfill: Any, make_plan: Any) -> Any:
    def is_same(query: str, *plans: tuple[str, str]) -> bool:
        macros.results = [[[PLAN.format(columns=c, optimized=o)]] for c, o in plans]
        other = {**backfill, "query": query, "query_hash": "h2"}
        same = macros.call("is_same_query", other, make_plan(query=QUERY))
        assert not macros.results
        return bool(same)

    return is_same


COSMETIC = QUERY.replace("\n", " -- why\n")


def test_an_edit_of_the_meaning_is_told_without_spark(is_same: Any, macros: Macros) -> None:
    assert not is_same(QUERY.replace("'X'", "'Y'"))
    assert macros.statements == []


def test_plans_are_the_same_but_for_the_ids_of_their_expressions(
    is_same: Any, macros: Macros
) -> None:
    plan = "Project [id#{0} AS k#{1}L, name#{2}]\n+- Relation lake.up[id#{0},name#{2}] parquet"
    one, other = plan.format(12, 30, 7), plan.format(112, 113, 114)

    assert is_same(COSMETIC, ("k: int", one), ("k: int", other))
    assert (
        "select * from ( with `up` as ( select * from lake.up limit 2147483647 ) select * from ("
        in " ".join(macros.statements[0].sql.split())
    )
    assert not is_same(COSMETIC, ("k: int", one), ("k: int", plan.format(12, 30, 30)))
    assert not is_same(COSMETIC, ("k: int", one), ("k: bigint", other))


def test_a_query_that_does_not_run_is_another_one(is_same: Any, macros: Macros) -> None:
    error = [["== Analyzed Logical Plan ==\norg.apache.spark.sql: gone\n\n== Physical Plan =="]]
    macros.results = [error]

    assert (
        macros.call("explain_comparably", {"upstream": {"relation": macros.relation}}, "q") is None
    )


def test_a_plan_that_spark_shortens_is_asked_for_once_more(macros: Macros) -> None:
    macros.results = [[["id: int, ... 3 more fields"]], [], [["the whole"]]]

    assert macros.call("run_explain", "compare", "explain extended select 1") == "the whole"
    assert "maxToStringFields" in macros.statements[1].sql
