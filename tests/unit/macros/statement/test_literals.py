"""Values from users and from data reach SQL through one macro."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from support.macros import Macros

# The escapes in our string literals, and the characters that Spark makes of them.
ESCAPES = {"\\\\": "\\", "\\'": "'", "\\u0024": "$"}


@pytest.fixture(scope="module")
def macros() -> Macros:
    return Macros()


def _read_by_spark(literal: str) -> str:
    assert re.fullmatch(r"'(?:[^'\\]|\\.)*'", literal, re.DOTALL), literal
    return re.sub(r"\\(?:u0024|.)", lambda found: ESCAPES[found.group()], literal[1:-1])


@given(st.text(st.sampled_from("ab'\\${}\"`;-\n\té日") | st.characters(exclude_categories=["Cs"])))
def test_a_string_literal_is_read_as_the_text_it_was_made_of(macros: Macros, text: str) -> None:
    assert _read_by_spark(macros.call("string_literal", text)) == text


@given(st.text("${}ab'\\"))
def test_spark_finds_no_variable_to_substitute_in_a_string_literal(
    macros: Macros, text: str
) -> None:
    assert "$" not in macros.call("string_literal", text)


@pytest.mark.parametrize(("value", "literal"), [(17, "'17'"), (None, "null"), ("", "''")])
def test_a_string_literal_of_what_is_not_a_text(
    macros: Macros, value: object, literal: str
) -> None:
    assert macros.call("string_literal", value) == literal


@pytest.mark.parametrize(
    ("texts", "literal"),
    [
        (None, "null"),
        ([], "array()"),
        (["a", "it's"], "array('a', 'it\\'s')"),
        ([None], "array(null)"),
    ],
)
def test_a_list_is_an_array_of_literals(
    macros: Macros, texts: list[str] | None, literal: str
) -> None:
    assert macros.call("string_array_literal", texts) == literal


@pytest.mark.parametrize(
    ("name", "quoted"), [("id", "`id`"), ("time hour", "`time hour`"), ("a`b``", "`a``b`````")]
)
def test_an_identifier_is_quoted_and_its_backticks_doubled(
    macros: Macros, name: str, quoted: str
) -> None:
    assert macros.call("identifier", name) == quoted


def test_identifiers_are_listed_each_with_its_prefix(macros: Macros) -> None:
    assert macros.call("identifiers", ["a", "b`"], "mv.") == "mv.`a`, mv.`b```"
    assert macros.call("identifiers", []) == ""


@pytest.mark.parametrize(
    ("type_", "sql"),
    [
        ("timestamp", "timestamp_ltz"),
        ("timestamp_ntz", "timestamp_ntz"),
        ("decimal(5,1)", "decimal(5,1)"),
        ("array<timestamp>", "array<timestamp_ltz>"),
        ("map<timestamp,timestamp>", "map<timestamp_ltz,timestamp_ltz>"),
        (
            "struct<timestamp:int,`timestamp,timestamp`:timestamp,my_timestamp:array<timestamp>>",
            "struct<timestamp:int,`timestamp,timestamp`:timestamp_ltz,"
            "my_timestamp:array<timestamp_ltz>>",
        ),
    ],
)
def test_a_timestamp_in_a_type_has_its_zone_whatever_the_session_says(
    macros: Macros, type_: str, sql: str
) -> None:
    assert macros.call("type_sql", type_) == sql


def test_columns_are_defined_by_their_names_and_types(macros: Macros) -> None:
    columns = [{"name": "a", "type": "int"}, {"name": "b`", "type": "timestamp"}]

    assert macros.call("column_definitions", columns) == "`a` int, `b``` timestamp_ltz"
    assert macros.call("column_definitions", columns[:1]) == "`a` int"
