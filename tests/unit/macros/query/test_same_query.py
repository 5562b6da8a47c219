"""Edits of a model that do not change its query, and the statements that find this out."""

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


def plain(macros: Macros, query: str) -> Any:
    return macros.call("get_words", query)


@pytest.mark.parametrize(
    "query",
    [
        QUERY.replace("\n", "  -- one\n") + ";",
        QUERY.replace(", upper(name)", ",/* the name */upper( name )"),
        QUERY.replace("name <> 'X'", "name<>'X' "),
        QUERY.replace("select * from named", "select*\n\tfrom named"),
    ],
)
def test_comments_and_white_space_make_no_other_query(macros: Macros, query: str) -> None:
    assert plain(macros, query) == plain(macros, QUERY)


@pytest.mark.parametrize(
    "query",
    [
        QUERY.replace("'X'", "'x'"),
        QUERY.replace("'a, b'", "'a,b'"),
        QUERY.replace("'a, b'", "'a, ''b'"),
        QUERY.replace("'a, b'", "'a, ' 'b'"),
        QUERY.replace("`up`", "`Up`"),
        QUERY.replace("select id as k", "SELECT id as k"),
        QUERY.replace("select id as k, name", "select name, id as k"),
        QUERY.replace("'a, b' as t", "'a', 'b' as t"),
        QUERY.replace("as name, 'a", "as na me, 'a"),
        QUERY.replace("id as k", "1 .5 as k"),
        QUERY.replace("kept as (", "kept (k, n, t) as ("),
    ],
)
def test_any_other_edit_makes_another_one(macros: Macros, query: str) -> None:
    assert plain(macros, query) != plain(macros, QUERY)


def test_texts_beside_each_other_are_not_one_text(macros: Macros) -> None:
    assert plain(macros, "select 'a' 'b'") != plain(macros, "select 'a''b'")
    assert plain(macros, "select 1 .5") != plain(macros, "select 1.5")
    assert plain(macros, "select 1e - 5") != plain(macros, "select 1e-5")


def test_a_comment_ends_where_spark_ends_it(macros: Macros) -> None:
    assert plain(macros, "select id, -- a \\\n a,\n b") == plain(macros, "select id, b")
    assert plain(macros, "select id -- x\r, a") == plain(macros, "select id, a")


def test_a_query_is_told_by_its_text(macros: Macros, backfill: Any, make_plan: Any) -> None:
    def is_same(query: str) -> bool:
        other = {**backfill, "query": query, "query_hash": "h2"}
        last = make_plan(query=QUERY)
        analysis = macros.call("new_analysis")
        why = macros.call("find_difference", other, last["settings"], analysis, last)
        assert why in (None, "its query changed")
        return why is None

    assert is_same(QUERY.replace("\n", " -- why\n"))
    assert not is_same(QUERY.replace("'X'", "'Y'"))
    assert macros.statements == []


# -- queries that keep their columns and get others ----------------------------------------------


def test_plans_are_the_same_but_for_the_ids_of_their_expressions(
    macros: Macros, backfill: Any
) -> None:
    plan = "Project [id#{0} AS k#{1}L, name#{2}]\n+- Relation lake.up[id#{0},name#{2}] parquet"
    one, other = plan.format(12, 30, 7), plan.format(112, 113, 114)

    def explained(columns: str, optimized: str) -> Any:
        macros.results = [[[PLAN.format(columns=columns, optimized=optimized)]]]
        return macros.call("explain_comparably", backfill, QUERY)

    assert explained("k: int", one) == explained("k: int", other)
    assert (
        "select * from ( with `up` as ( select * from lake.up limit 2147483647 ) select * from ("
        in " ".join(macros.statements[0].sql.split())
    )
    assert explained("k: int", one) != explained("k: int", plan.format(12, 30, 30))
    assert explained("k: int", one) != explained("k: bigint", other)


def test_a_query_that_does_not_run_is_another_one(macros: Macros) -> None:
    error = [["== Analyzed Logical Plan ==\norg.apache.spark.sql: gone\n\n== Physical Plan =="]]
    macros.results = [error]

    assert (
        macros.call("explain_comparably", {"upstream": {"relation": macros.relation}}, "q") is None
    )


def test_a_plan_that_spark_shortens_is_asked_for_once_more(macros: Macros) -> None:
    macros.results = [[["id: int, ... 3 more fields"]], [], [["the whole"]]]

    assert macros.call("run_explain", "compare", "select 1") == "the whole"
    assert "maxToStringFields" in macros.statements[1].sql
