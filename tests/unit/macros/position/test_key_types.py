"""Spark renders a position as the text of a SQL literal."""

from __future__ import annotations

import re
from datetime import date, datetime
from decimal import Decimal
from typing import Any

import pytest

from support.duck import Duck
from support.macros import Macros


@pytest.mark.parametrize(
    ("type_", "values"),
    [
        ("bigint", [0, -(2**63) + 1, 2**63 - 1]),
        ("int", [0, -5, 2**31 - 1]),
        ("decimal(10,2)", [Decimal("-1.50"), Decimal("99999999.99")]),
        ("boolean", [True, False]),
        ("timestamp_ntz", [datetime(2024, 11, 3, 1, 30, 0, 1)]),
        ("binary", [b"", b"a'b"]),
        ("date", [date(1, 1, 1), date(1582, 10, 4), date(9999, 12, 31)]),
        ("string", ["", "UA 12", "it's", "${x}", 'a"`b', "two\nlines"]),
    ],
)
def test_the_text_of_a_position_is_read_back_as_the_same_value(
    macros: Macros, duck: Duck, type_: str, values: list[Any]
) -> None:
    duck.create("t", {"c": type_}, [(value,) for value in values])
    expression = macros.call("literal_expression", "c", type_)

    for literal, value in duck.rows(f"select {expression}, c from t"):
        assert duck.rows(f"select c from t where c = {literal}") == [(value,)]


@pytest.mark.parametrize("type_", ["date", "timestamp"])
def test_the_text_of_a_point_in_time_does_not_depend_on_the_time_zone(
    macros: Macros, type_: str
) -> None:
    """A cast to string depends on the session's time zone.

    The session that reads the position may have another one.
    """
    assert "cast(" not in macros.call("literal_expression", "c", type_)


def test_the_position_of_a_null_key_is_null(macros: Macros, duck: Duck, keys: Any) -> None:
    duck.create("t", {"id": "bigint", "shard": "int"}, [(7, 2), (None, 2)])
    expression = macros.call("literals_expression", keys)

    assert duck.rows(f"select {expression} from t") == [(["7L", "2"],), (None,)]


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
