"""The optimized plan shows which columns of the upstream carry the key."""

from __future__ import annotations

from typing import Any

import pytest

from support.macros import Macros

RELATION = "Relation spark_catalog.lake.up[id#10L,shard#11,th#12,name a, b#13,v#14] parquet"


def _lineage(
    macros: Macros,
    keys: list[str],
    unique_key: list[str],
    types: list[str],
    upstream_key: list[str] | None = None,
    relation: str = RELATION,
    below: tuple[str, ...] = (),
) -> list[tuple[str, str, str]]:
    """Return the lineage of these key columns. Spark prints them before the query's own columns."""
    entries = [f"{key} AS __bf_key_{n}#{90 + n}" for n, key in enumerate(keys, start=1)]
    projection = f"Project [{', '.join([*entries, 'x#80 AS y#81'])}]"
    lines = [projection, "+- GlobalLimit 2147483647", "   +- LocalLimit 2147483647"]
    lines += [f"   +- Project [{entries}]" for entries in below]
    explained = {"optimized": [*lines, f"      +- {relation}"], "key_types": types}
    found = macros.call("key_lineage", explained, unique_key, upstream_key)
    return [(key["name"], key["upstream"], key["type"]) for key in found]


def test_a_key_that_keeps_its_name_is_that_column(macros: Macros) -> None:
    keys = _lineage(macros, ["id#10L"], ["id"], ["bigint"])

    assert keys == [("id", "id", "bigint")]


def test_a_renamed_key_is_the_column_behind_the_name(macros: Macros) -> None:
    assert _lineage(macros, ["id#10L"], ["k"], ["bigint"]) == [("k", "id", "bigint")]


def test_the_key_has_the_order_of_unique_key(macros: Macros) -> None:
    keys = ["shard#11", "id#10L", "th#12"]

    assert _lineage(macros, keys, ["s", "id", "t"], ["int", "bigint", "timestamp"]) == [
        ("s", "shard", "int"),
        ("id", "id", "bigint"),
        ("t", "th", "timestamp"),
    ]


def test_columns_that_swap_their_names_are_not_confused(macros: Macros) -> None:
    keys = _lineage(macros, ["shard#11", "id#10L"], ["id", "shard"], ["int", "bigint"])

    assert keys == [("id", "shard", "int"), ("shard", "id", "bigint")]


def test_a_column_with_a_comma_in_its_name_is_found(macros: Macros) -> None:
    keys = ["name a, b#13", "id#10L"]

    assert _lineage(macros, keys, ["k", "i"], ["string", "bigint"]) == [
        ("k", "name a, b", "string"),
        ("i", "id", "bigint"),
    ]


@pytest.mark.parametrize(
    "key",
    [
        "cast(id#10L as int)",
        "(id#10L + 1)",
        "-id#10L",
        "7",
        "s#9.id",
        "coalesce(id#10L, 0)",
        "a text, id#10L",
    ],
)
def test_a_key_that_is_an_expression_is_refused(macros: Macros, key: str, refused: Any) -> None:
    with refused(
        "the column 'id' of unique_key is an expression, not a column of the upstream. Select the "
        "primary key of the upstream unchanged (another name is fine), "
        "and name it in unique_key. A surrogate key can be a column beside it, with its own "
        "unique test."
    ):
        _lineage(macros, [key], ["id"], ["bigint"])


def test_a_second_key_column_that_is_an_expression_is_refused_by_its_name(
    macros: Macros, refused: Any
) -> None:
    with refused("the column 's' of unique_key is an expression, not"):
        _lineage(macros, ["id#10L", "(shard#11 + 1)"], ["id", "s"], ["bigint", "int"])


@pytest.mark.parametrize(
    "below",
    [
        ("x#1, id#10L AS k#20L, v#14",),
        ("k#20L", "id#10L AS j#19L, name a, b#13, j#19L AS k#20L"),
        ("j#19L AS k#20L, x#3", "name a, b#13 AS n#4, id#10L AS j#19L"),
    ],
)
def test_a_key_is_followed_through_the_projections_below(
    macros: Macros, below: tuple[str, ...]
) -> None:
    assert _lineage(macros, ["k#20L"], ["k"], ["bigint"], below=below) == [("k", "id", "bigint")]


@pytest.mark.parametrize(
    "entry",
    [
        "-id#10L AS k#20L",
        "(id#10L + 1) AS k#20L",
        "cast(th#12 as bigint) AS k#20L",
        "id#9 AS k#20L",
    ],
)
def test_a_key_that_is_an_expression_below_is_refused(
    macros: Macros, refused: Any, entry: str
) -> None:
    with refused("the column 'k' of unique_key is an expression"):
        _lineage(macros, ["k#20L"], ["k"], ["bigint"], below=(f"v#14, {entry}, id#10L",))


def test_a_column_of_another_relation_is_refused(macros: Macros, refused: Any) -> None:
    """An attribute with the same name but another id is not the upstream's column."""
    for key in ("id#99L", "id#11"):
        with refused("the column 'id' of unique_key is an expression, not"):
            _lineage(macros, [key], ["id"], ["bigint"])


@pytest.mark.parametrize(
    "relation",
    [
        RELATION,
        "RelationV2[id#10L, shard#11] spark_catalog.lake.up",
        "HiveTableRelation [`spark_catalog`.`lake`.`up`, Data Cols: [id#10L, shard#11]]",
    ],
)
def test_the_column_is_found_in_any_kind_of_relation(macros: Macros, relation: str) -> None:
    keys = _lineage(macros, ["id#10L"], ["id"], ["bigint"], relation=relation)

    assert keys == [("id", "id", "bigint")]


def test_a_declared_upstream_key_that_is_right_is_accepted(macros: Macros) -> None:
    keys = ["id#10L", "shard#11"]
    found = _lineage(macros, keys, ["k", "shard"], ["bigint", "int"], ["id", "shard"])

    assert [key[1] for key in found] == ["id", "shard"]


def test_a_declared_upstream_key_that_is_wrong_is_refused(macros: Macros, refused: Any) -> None:
    with refused(
        "upstream_key says that 'k' comes from 'shard', but in the query 'k' comes from 'id'. "
        "Correct or remove upstream_key."
    ):
        _lineage(macros, ["id#10L"], ["k"], ["bigint"], ["shard"])


def test_a_key_that_carries_one_column_twice_is_refused(macros: Macros, refused: Any) -> None:
    with refused("two columns of unique_key come from the column 'id' of the upstream. Name "):
        _lineage(macros, ["id#10L", "id#10L"], ["a", "b"], ["bigint", "bigint"])


PADDED = "static_invoke(CharVarcharCodegenUtils.readSidePadding(code#14, 3))"


@pytest.mark.parametrize(
    "plan",
    [
        ["Project [code#15 AS __bf_key_1#16]", f"+- Project [id#10L, {PADDED} AS code#15]"],
        [f"Project [{PADDED} AS __bf_key_1#16]"],
    ],
)
def test_a_key_of_char_is_refused_as_what_it_is(
    macros: Macros, refused: Any, plan: list[str]
) -> None:
    explained = {"optimized": [*plan, f"   +- {RELATION}"], "key_types": ["string"]}
    with refused("the column 'code' of unique_key has the type char(n), which a key cannot"):
        macros.call("key_lineage", explained, ["code"], None)


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
    assert _lineage(macros, ["id#10L"], ["id"], [type_]) == [("id", "id", type_)]


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
def test_any_other_type_cannot_be_a_key(macros: Macros, refused: Any, type_: str) -> None:
    with refused(
        f"the column 'id' of unique_key has the type {type_}, which a key cannot have. Use a "
    ):
        _lineage(macros, ["id#10L"], ["id"], [type_])
