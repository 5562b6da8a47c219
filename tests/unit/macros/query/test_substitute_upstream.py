"""The model's query with another relation in its upstream's place."""

from __future__ import annotations

from typing import Any

import pytest

from support.macros import Macros


@pytest.mark.parametrize(
    ("query", "substituted"),
    [
        ("select a from lake.up", "select a from `up`"),
        ("select a from `lake`.`up`", "select a from `up`"),
        ("select a from spark_catalog.lake.up as u", "select a from `up` as u"),
        ("select lake.up.a from lake.up", "select `up`.a from `up`"),
        ("select up.a from lake.up", "select up.a from `up`"),
        ("select lake.up, lake.up.a from lake.up", "select lake.up, `up`.a from `up`"),
        ("select 'lake.up' as t from lake.up", "select 'lake.up' as t from `up`"),
        ("-- reads lake.up\nselect a from lake.up", "-- reads lake.up\nselect a from `up`"),
        (
            "with up as (select * from lake.up) select * from up",
            "with up as (select * from `up`) select * from up",
        ),
        ("select a from lake.up;", "select a from `up`"),
        ("\n  select a from lake.up ;\n", "select a from `up` "),
        ("select a from lake.up -- the end", "select a from `up` -- the end"),
    ],
)
def test_the_name_of_the_upstream_is_replaced_and_nothing_else(
    macros: Macros, up: Any, query: str, substituted: str
) -> None:
    assert macros.call("substitute_upstream", query, up) == substituted


@pytest.mark.parametrize(
    "query", ["select 1", "select * from up", "select 'lake.up'", "-- lake.up"]
)
def test_a_query_that_does_not_name_its_upstream_is_refused(
    macros: Macros, up: Any, refused: Any, query: str
) -> None:
    with refused("its query does not read lake.up by that name. Read the upstream by "):
        macros.call("substitute_upstream", query, up)


@pytest.mark.parametrize(
    "clause",
    [
        "version as of 7",
        "\nVERSION AS OF 7",
        "for version as of 7",
        "timestamp as of '2024-05-01'",
        "for system_version as of 7",
        "for system_time as of '2024-05-01'",
        "/* the first */ -- one\n version as of 7",
    ],
)
def test_an_upstream_at_a_fixed_version_is_refused(
    macros: Macros, up: Any, refused: Any, clause: str
) -> None:
    with refused(
        "its query reads the upstream at a fixed version, which never changes. Remove the AS OF "
        "clause; each barrier reads the version that it needs."
    ):
        macros.call("substitute_upstream", f"select a from lake.up {clause} where b", up)


@pytest.mark.parametrize(
    "clause",
    ["with ('versionAsOf' = '1')", "\nWITH('branch' = 'b') as u", "with /* b */ ('a' 1)"],
)
def test_an_upstream_with_options_is_refused(
    macros: Macros, up: Any, refused: Any, clause: str
) -> None:
    with refused(
        "its query reads the upstream with options, which barriers read it without. Remove the "
        "WITH clause behind its name."
    ):
        macros.call("substitute_upstream", f"select a from lake.up {clause}", up)


def test_the_substituted_query_reads_a_scan(macros: Macros, up: Any) -> None:
    query = macros.call("substitute_upstream", "select lake.up.a from lake.up", up)
    sql = macros.call("get_query_sql", query, up, "select * from lake.up version as of 7")

    assert " ".join(sql.split()) == (
        "with `up` as ( select * from lake.up version as of 7 ) "
        "select * from ( select `up`.a from `up` )"
    )


@pytest.mark.parametrize(
    "query",
    [
        "select id, `up` from lake.up",
        "select id, up.`up` as u from lake.up where `up`.a = 1",
        "select u.id, u.`up`, extract(year from `up`) as y from lake.up as u",
        "with `up` as (select a as `up` from lake.up) select `up` from `up`",
        "from lake.up as u select `up`, `up`.a",
    ],
)
def test_the_upstreams_whole_name_is_put_back_where_it_is_read_alone(
    macros: Macros, up: Any, query: str
) -> None:
    substituted = macros.call("substitute_upstream", query, up)

    assert macros.call("get_query_by_name", substituted, up) == query


def test_a_query_that_ends_in_a_comment_does_not_swallow_what_follows(
    macros: Macros, up: Any
) -> None:
    sql = macros.call("get_query_sql", "select a from `up` -- the end", up, "select 1")

    assert sql.splitlines()[-1].strip() == ")"


def test_an_import_cte_called_like_the_table_reads_the_scan(
    macros: Macros, up: Any, sqlite: Any
) -> None:
    """The inner one of two CTEs of one name counts, and it reads the outer one."""
    sqlite.execute("create table lake.up as select 1 as a union all select 2")
    query = macros.call(
        "substitute_upstream", "with u as (select * from lake.up) select * from u", up
    )
    sql = macros.call("get_query_sql", query, up, "select * from lake.up where a = 2")

    assert sqlite.execute(sql).fetchall() == [(2,)]


def qualifiers(macros: Macros, up: Any, query: str, *columns: str) -> None:
    macros.call("check_qualifiers", query, up, [{"name": name} for name in columns])


@pytest.mark.parametrize(
    ("query", "columns"),
    [
        ("select lake.up.a from lake.up", ["a"]),
        ("select lake.up from lake.up", ["a", "lake"]),
        ("select u.lake.up.a from lake.up as u", ["lake"]),
        ("select 'lake' as a, lake.up.b from lake.up -- lake", ["a", "lake_"]),
    ],
)
def test_a_name_that_can_only_mean_the_upstream_is_let_pass(
    macros: Macros, up: Any, query: str, columns: list[str]
) -> None:
    qualifiers(macros, up, query, *columns)


@pytest.mark.parametrize(
    ("query", "columns"),
    [
        ("select lake.up.a from lake.up", ["a", "Lake"]),
        ("select lake.up.a from lake.up as lake", ["a"]),
        ("with `lake` as (select * from lake.up) select lake.up.a from lake", ["a"]),
    ],
)
def test_a_name_that_may_mean_the_upstream_or_a_struct_is_refused(
    macros: Macros, up: Any, refused: Any, query: str, columns: list[str]
) -> None:
    with refused(
        "its query has 'lake.up.', and 'lake' is both the schema of the upstream and the name of a "
        "column or alias. Give the upstream an alias in FROM"
    ):
        qualifiers(macros, up, query, *columns)
