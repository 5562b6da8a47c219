"""The columns of a key, as each table has them."""

from __future__ import annotations

from support.macros import Macros


def test_columns_are_named_as_each_table_has_them(macros: Macros) -> None:
    keys = [
        {"name": "k", "upstream": "epoch", "position": "pk_epoch"},
        {"name": "t h", "upstream": "th", "position": "pk2_th"},
    ]

    assert macros.call("mv_columns", keys, "mv.") == ["mv.`k`", "mv.`t h`"]
    assert macros.call("upstream_columns", keys) == ["`epoch`", "`th`"]
    assert macros.call("position_columns", keys, "p.") == ["p.`pk_epoch`", "p.`pk2_th`"]
