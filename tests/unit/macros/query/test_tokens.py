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
    kinds = _kinds(macros, "/* a */ lake.up /* b */", up)

    assert [kind for kind, _ in kinds] == ["comment", "upstream", "comment"]


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
    kinds = _kinds(macros, "/* a /* b */ isn't */ lake.up", up)

    assert [kind for kind, _ in kinds] == ["comment", "upstream"]


def test_a_raw_string_may_end_in_a_backslash(macros: Macros, up: Any) -> None:
    r"""Spark's r'…' has no escapes: r'\' is one backslash."""
    kinds = _kinds(macros, "select r'C:\\' from lake.up where x = 'y'", up)

    assert "upstream" in dict(kinds)


def test_a_query_without_an_upstream_to_look_for_has_none(macros: Macros) -> None:
    assert "upstream" not in dict(_kinds(macros, "select * from lake.up"))
