"""The vnode of a row must never change while the MV exists."""

from __future__ import annotations

from support.macros import Macros


def test_a_vnode_is_the_hash_of_the_whole_key_modulo_the_vnode_count(
    macros: Macros, keys: list[dict[str, str]]
) -> None:
    assert macros.call("vnode_expression", keys, 256) == (
        "cast(pmod(xxhash64(cast(`id` as bigint), cast(`shard` as int)), 256) as int)"
    )


def test_a_widened_column_keeps_its_vnode_because_it_is_cast_to_the_recorded_type(
    macros: Macros,
) -> None:
    recorded = [{"name": "k", "upstream": "k", "type": "int"}]

    assert "cast(source.`k` as int)" in macros.call("vnode_expression", recorded, 4, "source.")
