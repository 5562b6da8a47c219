"""Positions are rendered by Spark as texts of SQL literals."""

from __future__ import annotations

import re

import pytest

from support.macros import Macros


@pytest.mark.parametrize(
    "type_",
    [
        "tinyint",
        "smallint",
        "int",
        "bigint",
        "string",
        "date",
        "timestamp",
        "timestamp_ntz",
        "boolean",
        "binary",
        "decimal(38,18)",
    ],
)
def test_a_type_with_an_order_and_an_exact_text_can_be_a_key(macros: Macros, type_: str) -> None:
    assert macros.call("is_key_type", type_) is True


@pytest.mark.parametrize(
    "type_",
    [
        "float",
        "double",
        "string collate UTF8_LCASE",
        "array<int>",
        "struct<a:int>",
        "map<string,int>",
        "interval day to second",
        "variant",
        "time(6)",
        "decimal",
        "bigint unsigned",
        "",
    ],
)
def test_any_other_type_cannot_be_a_key(macros: Macros, type_: str) -> None:
    assert macros.call("is_key_type", type_) is False


@pytest.mark.parametrize(
    ("type_", "expression"),
    [
        ("bigint", "concat(cast(c as string), 'L')"),
        ("int", "concat(cast(c as string), '')"),
        ("smallint", "concat(cast(c as string), 'S')"),
        ("tinyint", "concat(cast(c as string), 'Y')"),
        ("decimal(10,2)", "concat('cast(\\'', cast(c as string), '\\' as decimal(10,2))')"),
        ("boolean", "concat(cast(c as string), '')"),
        ("timestamp_ntz", "concat('cast(\\'', cast(c as string), '\\' as timestamp_ntz)')"),
        ("binary", "concat('X\\'', hex(c), '\\'')"),
        ("date", "concat('date_from_unix_date(', unix_date(c), ')')"),
        ("timestamp", "concat('timestamp_micros(', unix_micros(c), 'L)')"),
    ],
)
def test_a_literal_names_its_type(macros: Macros, type_: str, expression: str) -> None:
    assert macros.call("literal_expression", "c", type_) == expression


@pytest.mark.parametrize("type_", ["date", "timestamp"])
def test_the_text_of_a_point_in_time_does_not_depend_on_the_time_zone(
    macros: Macros, type_: str
) -> None:
    """A cast to string would: the session that reads the position may have another zone."""
    assert "cast(" not in macros.call("literal_expression", "c", type_)


def test_a_string_goes_as_it_is_only_if_no_character_in_it_means_something_to_spark(
    macros: Macros,
) -> None:
    expression = macros.call("literal_expression", "c", "string")
    pattern = re.search(r"rlike '(.*?)', concat", expression)
    assert pattern
    plain = re.compile(pattern.group(1).replace("\\\\", "\\"))

    refused = {chr(code) for code in range(256) if not plain.fullmatch(chr(code))}
    expected = {chr(code) for code in [*range(32), *range(127, 256)]} | {"'", "\\", "$"}

    assert refused == expected
    assert not plain.fullmatch("日本") and not plain.fullmatch("\N{GRINNING FACE}")
    assert plain.fullmatch("") and plain.fullmatch('UA 12, [a] & b%_;--"`')


def test_any_other_string_goes_as_hex(macros: Macros) -> None:
    assert macros.call("literal_expression", "c", "string").endswith(
        ", concat('\\'', c, '\\''), concat('cast(X\\'', hex(cast(c as binary)), '\\' as string)'))"
    )


def test_a_key_is_an_array_of_its_columns_literals_in_their_order(
    macros: Macros, keys: list[dict[str, str]]
) -> None:
    assert macros.call("literals_expression", keys, "low.") == (
        "if(low.`id` is null, null, array("
        "concat(cast(low.`id` as string), 'L'), concat(cast(low.`shard` as string), '')))"
    )
