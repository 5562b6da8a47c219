"""The MV gets the columns that a plan fills, and loses the columns that it drops."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from support.macros import Macros

FILLS = [{"name": "x", "type": "int"}, {"name": "y z", "type": "string"}]
WIDER = {"name": "n", "type": "bigint", "was": "int"}


@pytest.fixture
def alterations(macros: Macros, make_plan: Any) -> Callable[..., list[str]]:
    """Return the statements that a plan still needs if the MV has these columns."""

    def alterations(present: dict[str, str], **plan: Any) -> list[str]:
        macros.results = [list(present.items())]
        needed = macros.call("get_alterations", macros.relation, make_plan(**plan))
        return [" ".join(sql.split()) for sql in needed]

    return alterations


@pytest.mark.parametrize(
    ("present", "missing"),
    [
        (["k"], ["`x` int, `y z` string"]),
        (["k", "X"], ["`y z` string"]),
        (["k", "x", "y z"], []),
    ],
)
def test_only_columns_that_are_missing_are_added(
    alterations: Any, present: list[str], missing: list[str]
) -> None:
    needed = alterations(dict.fromkeys(present, "int"), fills=FILLS)

    assert needed == [f"alter table lake.mv add columns ({columns})" for columns in missing]


def test_only_columns_that_are_there_are_dropped(alterations: Any) -> None:
    present = {"k": "int", "X": "int", "y z": "string"}

    assert alterations(present, drops=["x", "gone", "y z"]) == [
        "alter table lake.mv drop column `x`",
        "alter table lake.mv drop column `y z`",
    ]


@pytest.mark.parametrize(("type_", "needed"), [("int", True), ("bigint", False)])
def test_a_column_is_widened_that_has_the_type_of_before(
    alterations: Any, type_: str, needed: bool
) -> None:
    wider = ["alter table lake.mv alter column `n` type bigint"]

    assert alterations({"k": "int", "N": type_}, fills=[WIDER]) == (wider if needed else [])
    assert alterations({"k": "int"}, fills=[WIDER]) == [
        "alter table lake.mv add columns (`n` bigint)"
    ]


def test_a_column_of_another_type_is_left_where_the_plan_widens_none(alterations: Any) -> None:
    """Iceberg stores a smallint as an int, so the two types always differ."""
    assert alterations({"s": "int"}, fills=[{"name": "s", "type": "smallint"}]) == []


def test_a_plan_without_other_columns_asks_for_none(
    macros: Macros, backfill: Any, make_plan: Any
) -> None:
    macros.call("run_alterations", backfill, make_plan())

    assert macros.statements == []


def test_a_delta_table_is_told_of_a_type_that_is_a_feature(
    macros: Macros, alterations: Any
) -> None:
    columns = [{"name": "at", "type": "timestamp_ntz"}]
    [feature, _] = alterations({"k": "int"}, fills=columns)

    assert "set tblproperties ( 'delta.feature.timestampNtz' = 'supported' )" in feature
    macros.config["file_format"] = "iceberg"
    assert len(alterations({"k": "int"}, fills=columns)) == 1


@pytest.mark.parametrize("works", [True, False])
def test_what_failed_is_sent_once_more_to_say_why(
    macros: Macros, backfill: Any, make_plan: Any, works: bool
) -> None:
    there, gone = [["k", "int"], ["gone", "int"]], [["k", "int"]]
    macros.results = [there, [], gone if works else there]
    macros.call("run_alterations", backfill, make_plan(drops=["gone"]))

    sent = [each.sql for each in macros.statements if "drop column" in each.sql]
    assert ["exit handler" in sql for sql in sent] == ([True] if works else [True, False])
