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


def test_a_key_is_named_as_the_mv_names_it(macros: Macros) -> None:
    [key] = macros.call("get_mv_keys", [{"name": "k", "upstream": "epoch", "type": "int"}])

    assert key == {"name": "k", "upstream": "k", "type": "int"}
