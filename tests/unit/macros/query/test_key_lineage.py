"""Which columns of the upstream carry the key, read off the optimized plan."""

from __future__ import annotations

from typing import Any

import pytest

from support.macros import Macros

RELATION = "Relation spark_catalog.lake.up[id#10L,shard#11,th#12,name a, b#13,v#14] parquet"


def _lineage(
    macros: Macros,
    projection: str,
    unique_key: list[str],
    types: list[str],
    upstream_key: list[str] | None = None,
    relation: str = RELATION,
) -> list[tuple[str, str, str]]:
    explained = {"optimized": [projection, f"+- {relation}"], "key_types": types}
    keys = macros.call("key_lineage", explained, unique_key, upstream_key)
    return [(key["name"], key["upstream"], key["type"]) for key in keys]


def test_a_key_that_keeps_its_name_is_that_column(macros: Macros) -> None:
    keys = _lineage(macros, "Project [id#10L, id#10L, v#14]", ["id"], ["bigint"])

    assert keys == [("id", "id", "bigint")]


def test_a_renamed_key_is_the_column_behind_the_name(macros: Macros) -> None:
    projection = "Project [id#10L AS k#20L, id#10L AS k#20L, v#14]"

    assert _lineage(macros, projection, ["k"], ["bigint"]) == [("k", "id", "bigint")]


def test_the_key_has_the_order_of_unique_key(macros: Macros) -> None:
    projection = "Project [shard#11 AS s#21, id#10L, th#12 AS t#22, shard#11 AS s#21, id#10L]"

    assert _lineage(macros, projection, ["s", "id", "t"], ["int", "bigint", "timestamp"]) == [
        ("s", "shard", "int"),
        ("id", "id", "bigint"),
        ("t", "th", "timestamp"),
    ]


def test_columns_that_swap_their_names_are_not_confused(macros: Macros) -> None:
    projection = "Project [shard#11 AS id#30, id#10L AS shard#31L, v#14]"
    keys = _lineage(macros, projection, ["id", "shard"], ["int", "bigint"])

    assert keys == [("id", "shard", "int"), ("shard", "id", "bigint")]


def test_a_key_that_is_the_whole_query_is_found(macros: Macros) -> None:
    assert _lineage(macros, "Project [id#10L, shard#11]", ["id", "shard"], ["bigint", "int"])


def test_a_column_with_a_comma_in_its_name_is_found(macros: Macros) -> None:
    projection = "Project [name a, b#13 AS k#20, name a, b#13 AS k#20]"

    assert _lineage(macros, projection, ["k"], ["string"]) == [("k", "name a, b", "string")]


@pytest.mark.parametrize(
    "projection",
    [
        "Project [cast(id#10L as int) AS id#20, cast(id#10L as int) AS id#20]",
        "Project [(id#10L + 1) AS id#20L, (id#10L + 1) AS id#20L]",
        "Project [-id#10L AS id#20L, -id#10L AS id#20L]",
        "Project [7 AS id#20, 7 AS id#20]",
        "Project [s#9.id AS id#20L, s#9.id AS id#20L]",
        "Project [coalesce(id#10L, 0) AS id#20L, coalesce(id#10L, 0) AS id#20L]",
        "LocalRelation [id#20L, id#20L]",
    ],
)
def test_a_key_that_is_an_expression_is_refused(
    macros: Macros, projection: str, refused: Any
) -> None:
    with refused(
        "'id' of unique_key is not a column of the upstream but an expression. Select the "
        "primary key of the upstream unchanged (another name is fine)."
    ):
        _lineage(macros, projection, ["id"], ["bigint"])


def test_a_second_key_column_that_is_an_expression_is_refused_by_its_name(
    macros: Macros, refused: Any
) -> None:
    with refused("'s' of unique_key is not a column of the upstream"):
        _lineage(
            macros,
            "Project [id#10L, (shard#11 + 1) AS s#3, id#10L]",
            ["id", "s"],
            ["bigint", "int"],
        )


def test_a_column_of_another_relation_is_refused(macros: Macros, refused: Any) -> None:
    """An attribute of that name and another id is not the upstream's column."""
    with refused("'id' of unique_key is not a column of the upstream"):
        _lineage(macros, "Project [id#99L, id#99L]", ["id"], ["bigint"])


def test_a_name_in_a_string_literal_is_not_a_relation(macros: Macros, refused: Any) -> None:
    explained = {
        "optimized": [
            "Project [x#1, x#1]",
            "+- Filter (v#14 = Relation a[x#1,y#2])",
            f"+- {RELATION}",
        ],
        "key_types": ["int"],
    }

    with refused("'x' of unique_key is not a column of the upstream"):
        macros.call("key_lineage", explained, ["x"], None)


@pytest.mark.parametrize(
    "relation",
    [
        RELATION,
        "RelationV2[id#10L, shard#11] spark_catalog.lake.up",
        "HiveTableRelation [`spark_catalog`.`lake`.`up`, Data Cols: [id#10L, shard#11]]",
    ],
)
def test_the_column_is_found_in_any_kind_of_relation(macros: Macros, relation: str) -> None:
    keys = _lineage(macros, "Project [id#10L, v#14]", ["id"], ["bigint"], relation=relation)

    assert keys == [("id", "id", "bigint")]


def test_a_declared_upstream_key_that_is_right_is_accepted(macros: Macros) -> None:
    projection = "Project [id#10L AS k#20L, shard#11, v#14]"
    keys = _lineage(macros, projection, ["k", "shard"], ["bigint", "int"], ["id", "shard"])

    assert [key[1] for key in keys] == ["id", "shard"]


def test_a_declared_upstream_key_that_is_wrong_is_refused(macros: Macros, refused: Any) -> None:
    with refused(
        "upstream_key says that 'k' carries 'shard', and the query takes it from 'id'. Correct "
        "upstream_key, or leave it out."
    ):
        _lineage(macros, "Project [id#10L AS k#20L, v#14]", ["k"], ["bigint"], ["shard"])


def test_a_key_that_carries_one_column_twice_is_refused(macros: Macros, refused: Any) -> None:
    with refused("two columns of unique_key carry 'id' of the upstream. Name each column of "):
        _lineage(
            macros, "Project [id#10L AS a#20L, id#10L AS b#21L]", ["a", "b"], ["bigint", "bigint"]
        )


PADDED = "static_invoke(CharVarcharCodegenUtils.readSidePadding(code#14, 3)) AS "


@pytest.mark.parametrize(
    "plan",
    [
        ["Project [code#15, code#15]", f"+- Project [id#10L, {PADDED}code#15]"],
        ["Project [code#15 AS k#16, code#15 AS k#16]", f"+- Project [{PADDED}code#15]"],
        [f"Project [{PADDED}k#15, {PADDED}k#16]"],
    ],
)
def test_a_key_of_char_is_refused_as_what_it_is(
    macros: Macros, refused: Any, plan: list[str]
) -> None:
    column = "k" if "k#" in plan[0] else "code"
    explained = {"optimized": [*plan, f"   +- {RELATION}"], "key_types": ["string"]}
    with refused(f"'{column}' of unique_key has the type char(n), of which no positions can be "):
        macros.call("key_lineage", explained, [column], None)


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
    assert _lineage(macros, "Project [id#10L, v#14]", ["id"], [type_]) == [("id", "id", type_)]


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
        f"'id' of unique_key has the type {type_}, of which no positions can be made. Use a key of "
    ):
        _lineage(macros, "Project [id#10L, v#14]", ["id"], [type_])
