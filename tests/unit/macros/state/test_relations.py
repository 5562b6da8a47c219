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


# -- the columns of the position --------------------------------------------------------------


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
        ("plan", "pk_plan"),
        ("Last", "pk_Last"),
        ("backfill_id", "backfill_id"),
    ],
)
def test_a_position_has_the_upstreams_name_unless_the_progress_table_has_it(
    macros: Macros, upstream: str, column: str
) -> None:
    assert macros.call("get_position_column", upstream, "int") == column


def test_every_column_of_the_progress_table_is_kept_from_the_key(macros: Macros) -> None:
    columns = macros.call("progress_columns")

    assert len(columns) == 11
    assert [macros.call("get_position_column", column, "int") for column in columns] == [
        f"pk_{column}" for column in columns
    ]


@pytest.mark.parametrize(
    ("upstream", "type", "present", "column"),
    [
        ("id", "bigint", {"id": "bigint"}, "id"),  # that of before is taken again
        ("ID", "bigint", {"id": "bigint"}, "ID"),
        ("id", "string", {"id": "bigint"}, "pk_id"),
        ("Id", "string", {"id": "bigint"}, "pk_Id"),
        ("id", "string", {"id": "bigint", "pk_id": "string"}, "pk_id"),
        ("id", "date", {"id": "bigint", "pk_id": "string"}, "pk2_id"),
        ("id", "bigint", {"id": "bigint", "pk_id": "string", "pk2_id": "date"}, "id"),
        ("id", "int", {"id": "bigint", "pk_id": "string", "pk2_id": "date"}, "pk3_id"),
        ("id", "decimal(9,2)", {"id": "decimal(9,0)"}, "pk_id"),
        ("epoch", "int", {"epoch": "bigint", "pk_epoch": "date"}, "pk2_epoch"),
        ("plan", "string", {"plan": "string"}, "pk_plan"),  # its own, though of that type
    ],
)
def test_a_key_of_another_type_takes_another_column(
    macros: Macros, upstream: str, type: str, present: dict[str, str], column: str
) -> None:
    """The table is never replaced, and no column changes its type."""
    assert macros.call("get_position_column", upstream, type, present) == column


@pytest.mark.parametrize(
    ("key", "positions"),
    [
        (["epoch", "pk_epoch"], ["pk_epoch", "pk_pk_epoch"]),
        (["PK_Epoch", "epoch"], ["PK_Epoch", "pk2_epoch"]),
    ],
)
def test_no_two_columns_of_a_key_have_one_position(
    macros: Macros, key: list[str], positions: list[str]
) -> None:
    taken: list[str] = []
    for column in key:
        taken.append(macros.call("get_position_column", column, "int", {}, taken).lower())

    assert taken == [position.lower() for position in positions]
    columns = [{"name": "k", "upstream": column, "type": "int"} for column in key]
    placed = macros.call("keep_positions", columns, None)
    assert [column["position"] for column in placed] == positions


def test_the_columns_that_the_progress_table_has_are_told_by_names_in_lower_case(
    macros: Macros, relations: dict[str, Any]
) -> None:
    columns = [{"name": "Epoch", "type": "bigint"}, {"name": "T H", "type": "date"}]
    macros.stub("get_table_columns", lambda relation: columns)

    assert macros.call("read_progress_columns", relations) == {"epoch": "bigint", "t h": "date"}


def test_columns_are_named_as_each_table_has_them(macros: Macros) -> None:
    keys = [
        {"name": "k", "upstream": "epoch", "position": "pk_epoch"},
        {"name": "t h", "upstream": "th", "position": "pk2_th"},
    ]

    assert macros.call("mv_columns", keys, "mv.") == ["mv.`k`", "mv.`t h`"]
    assert macros.call("upstream_columns", keys) == ["`epoch`", "`th`"]
    assert macros.call("position_columns", keys, "p.") == ["p.`pk_epoch`", "p.`pk2_th`"]


# -- the progress table -----------------------------------------------------------------------


def test_the_progress_table_has_these_columns_whatever_the_key_is(macros: Macros) -> None:
    """A state that was made by an earlier release has them too: a change is another format."""
    assert macros.call("progress_columns") == {
        "vnode": "int",
        "epoch": "bigint",
        "backfill_finished": "boolean",
        "row_count": "bigint",
        "upstream_version": "string",
        "dirty": "boolean",
        "plan_id": "string",
        "plan_kind": "string",
        "plan": "string",
        "last": "string",
        "unwritten": "array<string>",
    }
    assert macros.call("state_format") == "2"
