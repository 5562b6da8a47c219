"""Edits of a model that change the meaning of its query, and edits that do not."""

from __future__ import annotations

import pytest

from support.macros import Macros

QUERY = "select a, 'x  y' as b from `up` where c > 1"


def _same(macros: Macros, query: str, other: str = QUERY) -> bool:
    return bool(macros.call("get_words", query) == macros.call("get_words", other))


@pytest.mark.parametrize(
    ("query", "other"),
    [
        ("select a,\n    'x  y' as b\nfrom `up`\nwhere c > 1\n", QUERY),
        ("\n\n  select a,\t'x  y'  as b from `up` where c > 1  ", QUERY),
        ("select a, -- the a\n'x  y' as b from `up` where c > 1", QUERY),
        ("select a, 'x  y' as b /* b */ from `up` where c > 1", QUERY),
        ("select a, 'x  y' as b from `up`\n-- the filter\nwhere c > 1", QUERY),
        (f"-- the header\n{QUERY}", QUERY),
        (f"{QUERY} -- the end", QUERY),
        ("select a -- one\nfrom `up`", "select a -- two\nfrom `up`"),
        ("select a /* one */ from `up`", "select a /* 'two */ from `up`"),
        ("select a/**/b from `up`", "select a b from `up`"),
    ],
)
def test_layout_and_comments_change_nothing(macros: Macros, query: str, other: str) -> None:
    assert _same(macros, query, other)


@pytest.mark.parametrize(
    "query",
    [
        "select a, 'x y' as b from `up` where c > 1",  # white space in a string
        "select a, 'X  y' as b from `up` where c > 1",
        "select a, 'x  y' as b from `u p` where c > 1",
        "select a, 'x  y' as b from `up` where c > 2",
        "select a, 'x  y' as b from `up` -- where c > 1",
        "select a, 'x  y -- z' as b from `up` where c > 1",
        "select a, 'x  y' as b from `up` where c > 1 and d",
        "selecta, 'x  y' as b from `up` where c > 1",
    ],
)
def test_any_other_edit_is_another_query(macros: Macros, query: str) -> None:
    assert not _same(macros, query)
