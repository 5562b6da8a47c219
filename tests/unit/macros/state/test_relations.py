"""The three tables of an MV and the names of their columns."""

from __future__ import annotations

from typing import Any

import pytest

from support.macros import Macros


def test_the_state_stands_beside_the_mv(relations: dict[str, Any]) -> None:
    assert {name: relation.render() for name, relation in relations.items()} == {
        "mv": "lake.mv",
        "progress": "lake.mv__progress",
        "barriers": "lake.mv__barriers",
    }


def test_which_tables_exist_is_told_by_name(macros: Macros, relations: dict[str, Any]) -> None:
    macros.stub(
        "load_table",
        lambda relation: relation if relation.identifier != "mv__progress" else None,
    )

    existing = macros.call("get_existing_relations", relations)

    assert existing == {"mv": relations["mv"], "progress": None, "barriers": relations["barriers"]}


@pytest.mark.parametrize(
    ("upstream", "column"),
    [
        ("id", "id"),
        ("time hour", "time hour"),
        ("epoch", "pk_epoch"),
        ("Row_Count", "pk_Row_Count"),
        ("vnode", "pk_vnode"),
        ("backfill_finished", "pk_backfill_finished"),
        ("upstream_version", "pk_upstream_version"),
        ("dirty", "pk_dirty"),
        ("backfill_id", "pk_backfill_id"),
    ],
)
def test_a_position_has_the_upstreams_name_unless_the_progress_table_has_it(
    macros: Macros, upstream: str, column: str
) -> None:
    assert macros.call("position_column", upstream) == column


def test_every_column_of_the_progress_table_is_kept_from_the_key(
    macros: Macros, keys: list[dict[str, str]]
) -> None:
    sql = macros.call("get_not_started_sql", [], 4, 0, "'b'")
    columns = [line.rsplit(" as ", 1)[1].strip(",") for line in sql.splitlines() if " as " in line]

    assert len(columns) == 7
    assert [macros.call("position_column", column) for column in columns] == [
        f"pk_{column}" for column in columns
    ]


def test_columns_are_named_as_each_table_has_them(macros: Macros) -> None:
    keys = [{"name": "k", "upstream": "epoch"}, {"name": "t h", "upstream": "th"}]

    assert macros.call("mv_columns", keys, "mv.") == ["mv.`k`", "mv.`t h`"]
    assert macros.call("upstream_columns", keys) == ["`epoch`", "`th`"]
    assert macros.call("position_columns", keys, "p.") == ["p.`pk_epoch`", "p.`th`"]
