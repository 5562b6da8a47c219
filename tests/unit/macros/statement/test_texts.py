"""Numbers in messages."""

from __future__ import annotations

import pytest

from support.macros import Macros


@pytest.mark.parametrize(
    ("number", "text"),
    [
        *((0, "0"), (12, "12"), (999, "999"), (1000, "1,000"), (-1000, "-1,000")),
        *((1234567, "1,234,567"), (10**19, "10,000,000,000,000,000,000")),
        *(("12.5", "12.5"), ("1234.5", "1,234.5"), ("123456.125", "123,456.125")),
    ],
)
def test_a_number_has_commas_between_its_thousands(
    macros: Macros, number: int | str, text: str
) -> None:
    assert macros.call("get_count_text", number) == text


def test_a_count_has_the_noun_in_its_number(macros: Macros) -> None:
    assert macros.call("get_count_text", 1, "row") == "1 row"
    assert macros.call("get_count_text", 12345, "row") == "12,345 rows"
