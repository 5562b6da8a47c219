"""The model's query, in which another relation replaces the upstream."""

from __future__ import annotations

from typing import Any

import pytest

from support.duck import Duck
from support.macros import Macros


@pytest.mark.parametrize(
    ("query", "substituted"),
    [
        ("select a from lake.up", "select a from `up`"),
        ("select a from `lake`.`up`", "select a from `up`"),
        ("select a from spark_catalog.lake.up as u", "select a from `up` as u"),
        ("select up.a from lake.up", "select up.a from `up`"),
        ("select 'lake.up' as t from lake.up", "select 'lake.up' as t from `up`"),
        ("-- reads lake.up\nselect a from lake.up", "-- reads lake.up\nselect a from `up`"),
        (
            "with up as (select * from lake.up) select * from up",
            "with up as (select * from `up`) select * from up",
        ),
        ("select a from lake.up;", "select a from `up`"),
        ("\n  select a from lake.up ;\n", "select a from `up`"),
        ("select a from lake.up -- the end", "select a from `up`"),
        ("select a from lake.up;;\n-- the end; \\", "select a from `up`"),
        (
            "select a from lake.up -- all\nwhere b <> ';' ; /* the end */ ;",
            "select a from `up` -- all\nwhere b <> ';'",
        ),
    ],
)
def test_the_name_of_the_upstream_is_replaced_and_nothing_else(
    macros: Macros, up: Any, query: str, substituted: str
) -> None:
    assert macros.call("substitute_upstream", query, up) == substituted


@pytest.mark.parametrize(
    "name",
    [
        "LAKE.Up",
        "`lake`.`up`",
        "lake.`up`",
        "lake . up",
        "spark_catalog.lake.up",
        "`spark_catalog`.`lake`.`up`",
        "spark_catalog.lake\n.up",
    ],
)
def test_the_upstream_is_found_however_its_name_is_written(
    macros: Macros, up: Any, name: str
) -> None:
    query = macros.call("substitute_upstream", f"select * from {name} where true", up)

    assert query == "select * from `up` where true"


@pytest.mark.parametrize(
    "query",
    [
        "select a from -- the table\n lake.up as u",
        "select a from x, lake.up where b",
        "select a from x as y, /* all */ lake.up",
        "select a from x join lake.up on x.a = up.a",
        "select a from x left join (lake.up) using (a)",
        "select a from (lake.up join x)",
        "select a from ((select * from lake.up)) as x",
        "with x(a, b) as (table lake.up) select a from x",
        "table lake.up",
        "from lake.up select a",
        "select extract(year from b) as y from lake.up",
        "select a is distinct from b as c from lake.up",
        "select f(a, b), c from f(1, 2) as x, lake.up",
        "select a from /* a /* b */ isn't */ lake.up",  # Spark nests bracketed comments
        "select r'C:\\' from lake.up where x = 'y'",  # Spark's r'…' has no escapes
        "select `it's` -- it's\nfrom lake.up",
    ],
)
def test_the_upstream_is_where_a_table_is_read(macros: Macros, up: Any, query: str) -> None:
    assert macros.call("substitute_upstream", query, up) == query.replace("lake.up", "`up`")


@pytest.mark.parametrize(
    "text",
    [
        "'a from lake.up'",
        '"a from lake.up"',
        r"'it\'s from lake.up'",
        "'it''s from lake.up'",
        "'-- from lake.up'",
        "'/* from lake.up'",
        "'two\nlines from lake.up'",
        r"'\\' as `from lake.up`",
        "1 -- from lake.up 'quoted",
        "1 /* from lake.up 'quoted */",
        "1 /* two\nlines from lake.up ` */",
        "`it``s from lake.up`",
        "`'`",
        "`--`",
    ],
)
def test_in_texts_comments_and_quoted_names_nothing_is_read(
    macros: Macros, up: Any, text: str
) -> None:
    query = macros.call("substitute_upstream", f"select {text}\nfrom lake.up", up)

    assert query == f"select {text}\nfrom `up`"


@pytest.mark.parametrize(
    "column", ["`lake`.`up`.`a`", "lake.up . a", "lake.up.*", "lake.up -- a\n.a"]
)
def test_the_name_in_front_of_a_column_is_refused(
    macros: Macros, up: Any, refused: Any, column: str
) -> None:
    """The name may be a field of a column that has the same name as the schema."""
    name = "`lake`.`up`" if column.startswith("`") else "lake.up"
    with refused(
        f"its query contains '{name}.', which is the full name of the upstream followed by "
        "a point. Give the upstream an alias in FROM, such as u, and write u. in front of its "
        "columns."
    ):
        macros.call("substitute_upstream", f"select {column} from lake.up", up)


@pytest.mark.parametrize(
    "query",
    [
        "select 1",
        "select 'lake.up'",
        "-- lake.up",
        *(
            f"select * from {table}"
            for table in (
                "up", "lake.up2", "lake.up_2", "my_lake.up", "other.lake.up", "`other`.lake.up",
                "lake.backup", "`x lake`.up", "lakeXup", "lake.`up 2`", "`lake.up`",
            )
        ),
    ],
)  # fmt: skip
def test_a_query_that_does_not_name_its_upstream_is_refused(
    macros: Macros, up: Any, refused: Any, query: str
) -> None:
    with refused("its query does not contain the name lake.up of its upstream. Read the "):
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
        "its query reads the upstream with options, but barriers read it without them. Remove the "
        "WITH clause behind its name."
    ):
        macros.call("substitute_upstream", f"select a from lake.up {clause}", up)


def test_an_import_cte_called_like_the_table_reads_the_scan(
    macros: Macros, up: Any, duck: Duck
) -> None:
    """If two nested CTEs have the same name, the query reads the inner CTE.

    The inner CTE reads the outer CTE.
    """
    duck.create("lake.up", {"a": "int"}, [(1,), (2,)])
    query = macros.call(
        "substitute_upstream", "with u as (select * from lake.up) select * from u", up
    )
    sql = macros.call("get_query_sql", query, up, "select * from lake.up where a = 2")

    assert duck.rows(sql) == [(2,)]
