"""The tables of an MV, its view, and the names of their columns."""

from __future__ import annotations

from typing import Any

from support.macros import Macros


def test_the_state_stands_beside_the_mv(relations: dict[str, Any]) -> None:
    assert {name: relation.render() for name, relation in relations.items()} == {
        "mv": "lake.mv",
        "progress": "lake.mv__progress",
        "barriers": "lake.mv__barriers",
        "controls": "lake.mv__controls",
        "staged": "lake.mv__staged",
        "replica": "lake.mv__replica",
        "live": "lake.mv__live",
    }


def test_which_tables_exist_is_told_by_name(macros: Macros, relations: dict[str, Any]) -> None:
    macros.stub(
        "load_table",
        lambda relation: relation if relation.identifier != "mv__progress" else None,
    )

    existing = macros.call("get_existing_relations", relations)

    assert existing == {"mv": relations["mv"], "progress": None, "barriers": relations["barriers"]}


def test_the_columns_that_the_progress_table_has_are_told_by_names_in_lower_case(
    macros: Macros, relations: dict[str, Any]
) -> None:
    columns = [{"name": "Epoch", "type": "bigint"}, {"name": "T H", "type": "date"}]
    macros.stub("get_table_columns", lambda relation: columns)

    assert macros.call("read_progress_columns", relations) == {"epoch": "bigint", "t h": "date"}


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
