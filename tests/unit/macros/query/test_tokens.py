"""The pieces of a query's text."""

from __future__ import annotations

from typing import Any

import pytest

from support.macros import Macros


def _kinds(macros: Macros, query: str, upstream: Any = None) -> list[tuple[str, str]]:
    tokens = macros.call("tokens", query, upstream)
    assert "".join(token["text"] for token in tokens) == query
    return [(token["kind"], token["text"]) for token in tokens if token["text"].strip()]


def test_the_upstream_is_a_token_of_its_own(macros: Macros, up: Any) -> None:
    assert _kinds(macros, "select a from lake.up where b", up) == [
        ("code", "select a from "),
        ("upstream", "lake.up"),
        ("code", " where b"),
    ]


@pytest.mark.parametrize(
    "string",
    [
        "'a from lake.up'",
        '"a from lake.up"',
        r"'it\'s lake.up'",
        "'it''s lake.up'",
        "'-- lake.up'",
        "'/* lake.up'",
        "'two\nlines lake.up'",
        r"'\\'",
    ],
)
def test_the_text_of_a_string_is_not_code(macros: Macros, up: Any, string: str) -> None:
    kinds = _kinds(macros, f"select {string} from x", up)

    assert {kind for kind, _ in kinds[1:-1]} == {"string"}
    assert kinds[0] == ("code", "select ") and kinds[-1] == ("code", " from x")


@pytest.mark.parametrize(
    "comment",
    ["-- lake.up 'quoted", "/* lake.up 'quoted */", "/* two\nlines lake.up ` */", "/**/"],
)
def test_the_text_of_a_comment_is_not_code(macros: Macros, up: Any, comment: str) -> None:
    kinds = _kinds(macros, f"select a {comment}\nfrom x", up)

    assert kinds == [("code", "select a "), ("comment", comment), ("code", "\nfrom x")]


def test_a_comment_ends_at_its_first_end(macros: Macros, up: Any) -> None:
    kinds = _kinds(macros, "from /* a */ lake.up /* b */", up)

    assert [kind for kind, _ in kinds] == ["code", "comment", "upstream", "comment"]


@pytest.mark.parametrize("name", ["`a from lake.up`", "`it``s lake.up`", "`'`", "`--`"])
def test_the_name_of_a_column_in_backticks_is_not_code(macros: Macros, up: Any, name: str) -> None:
    kinds = _kinds(macros, f"select {name} from x", up)

    assert kinds == [("code", "select "), ("quoted", name), ("code", " from x")]


def test_a_quote_in_backticks_or_a_comment_opens_no_string(macros: Macros, up: Any) -> None:
    kinds = _kinds(macros, "select `it's` -- it's\nfrom lake.up", up)

    assert [kind for kind, _ in kinds] == ["code", "quoted", "comment", "code", "upstream"]


@pytest.mark.parametrize(
    "name",
    [
        "lake.up",
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
    assert ("upstream", name) in _kinds(macros, f"select * from {name} where true", up)


@pytest.mark.parametrize(
    "name",
    [
        "lake.up2",
        "lake.up_2",
        "my_lake.up",
        "other.lake.up",
        "`other`.lake.up",
        "lake.backup",
        "`x lake`.up",
        "up",
        "lakeXup",
    ],
)
def test_another_table_whose_name_contains_the_upstreams_is_not_the_upstream(
    macros: Macros, up: Any, name: str
) -> None:
    assert "upstream" not in dict(_kinds(macros, f"select * from {name} where true", up))


@pytest.mark.parametrize("name", ["lake.`up 2`", "`lake.up`"])
def test_another_name_in_backticks_is_not_the_upstream(macros: Macros, up: Any, name: str) -> None:
    assert "upstream" not in dict(_kinds(macros, f"select * from {name}", up))


def test_a_comment_may_hold_a_comment(macros: Macros, up: Any) -> None:
    """Spark nests bracketed comments."""
    kinds = _kinds(macros, "from /* a /* b */ isn't */ lake.up", up)

    assert [kind for kind, _ in kinds] == ["code", "comment", "upstream"]


def test_a_raw_string_may_end_in_a_backslash(macros: Macros, up: Any) -> None:
    r"""Spark's r'…' has no escapes: r'\' is one backslash."""
    kinds = _kinds(macros, "select r'C:\\' from lake.up where x = 'y'", up)

    assert "upstream" in dict(kinds)


def test_a_query_without_an_upstream_to_look_for_has_none(macros: Macros) -> None:
    assert "upstream" not in dict(_kinds(macros, "select * from lake.up"))


@pytest.mark.parametrize(
    "query",
    [
        "select a from lake.up",
        "select a from -- the table\n lake.up as u",
        "select a from x, lake.up where b",
        "select a from x as y, /* all */ lake.up",
        "select a from x join lake.up on x.a = up.a",
        "select a from x left join (lake.up) using (a)",
        "select a from (lake.up join x)",
        "select a from ((select * from lake.up)) as x",
        "with x as (select * from lake.up) select a from x",
        "with x(a, b) as (table lake.up) select a from x",
        "table lake.up",
        "from lake.up select a",
        "select extract(year from b) as y from lake.up",
        "select a is distinct from b as c from lake.up",
        "select f(a, b), c from f(1, 2) as x, lake.up",
    ],
)
def test_the_upstream_is_where_a_table_is_read(macros: Macros, up: Any, query: str) -> None:
    assert [text for kind, text in _kinds(macros, query, up) if kind == "upstream"] == ["lake.up"]


@pytest.mark.parametrize(
    "query",
    [
        "select lake.up from x",
        "select a, lake.up from x",
        "select (lake.up) from x",
        "select a from x where lake.up = 1",
        "select a from x where b in (1, lake.up)",
        "select a from x group by a, lake.up",
        "select a from x where a is distinct from lake.up",
        "select a from x where a is not distinct from lake.up",
        "select extract(year from lake.up) from x",
        "select trim(both 'x' from lake.up) from x",
        "select a from x order by a, lake.up",
        "select a from x join y on x.a = lake.up",
        "select a from lake.up.files",
    ],
)
def test_a_struct_called_like_the_schema_is_not_the_upstream(
    macros: Macros, up: Any, query: str
) -> None:
    assert {kind for kind, _ in _kinds(macros, query, up)} <= {"code", "string"}


@pytest.mark.parametrize("column", ["lake.up.a", "`lake`.`up`.`a`", "lake.up . a", "lake.up.*"])
def test_the_name_in_front_of_a_column_is_a_qualifier(macros: Macros, up: Any, column: str) -> None:
    kinds = [kind for kind, _ in _kinds(macros, f"select {column} from lake.up", up)]

    assert kinds.count("qualifier") == 1 and kinds.count("upstream") == 1
