"""Which columns of its upstream a query reads: rather one too many than one too few."""

from __future__ import annotations

import pytest

from support.macros import Macros

COLUMNS = ["id", "note", "Body", "a.b", "not_read"]


@pytest.mark.parametrize(
    ("query", "named"),
    [
        ("select id, upper(NOTE) as n from t", ["id", "note"]),
        ("select t.`body`, `a.b` from t", ["Body", "a.b"]),
        ("select * from t", COLUMNS),
        ("select id -- note, not_read\nfrom t /* body */", ["id"]),
        ("select id, notes, anote from t", ["id"]),
    ],
)
def test_columns_are_found_by_their_names(macros: Macros, query: str, named: list[str]) -> None:
    assert macros.call("get_named_columns", query, COLUMNS) == named
