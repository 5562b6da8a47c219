"""The constraints of a contract become constraints of a Delta table."""

from __future__ import annotations

import json
from types import SimpleNamespace
from typing import Any

import pytest

from support.macros import Macros

KEPT = {"not_null_id": "`id` is not null", "low": "id < 9"}


@pytest.fixture(autouse=True)
def contract(macros: Macros) -> None:
    """Give the model a contract with three constraints, of which Delta enforces two."""
    macros.config["contract"] = SimpleNamespace(enforced=True)
    not_null, unique = {"type": "not_null"}, {"type": "unique"}
    macros.context["model"] = SimpleNamespace(
        name="mv",
        columns={"id": SimpleNamespace(constraints=[not_null, unique])},
        constraints=[SimpleNamespace(type="check", name="Low", expression=" id < 9 ")],
    )


@pytest.fixture
def apply(macros: Macros, backfill: Any) -> Any:
    def apply(properties: dict[str, str], broken: int = 0) -> list[str]:
        macros.results = [[[json.dumps({"count": broken})]]] * 2
        macros.call("apply_constraints", backfill, properties)
        sent = [statement.sql.partition(" alter table lake.mv ") for statement in macros.statements]
        return [altered.strip() for _, _, altered in sent if altered]

    return apply


def properties_of(constraints: dict[str, str]) -> dict[str, str]:
    noted = "[" + ", ".join(f'"{name}"' for name in constraints) + "]"
    return {
        **{f"delta.constraints.{name}": check for name, check in constraints.items()},
        "dbt_backfill.constraints": noted,
    }


def test_a_delta_table_is_created_with_them(macros: Macros) -> None:
    properties = macros.call("mv_table_properties", ["id"], "b1")

    assert properties.items() >= properties_of(KEPT).items()


@pytest.mark.parametrize("config", [{"file_format": "iceberg"}, {"contract": None}])
def test_there_are_none_elsewhere(macros: Macros, config: dict[str, Any]) -> None:
    macros.config.update(config)
    assert macros.call("get_constraints") == {}


def test_nothing_is_written_where_the_table_has_them(apply: Any) -> None:
    assert apply(properties_of(KEPT)) == []


def test_a_changed_contract_changes_ours_and_leaves_those_of_others(apply: Any) -> None:
    was = {"not_null_id": "`id` is not null", "low": "id < 5", "gone": "id <> 3"}
    theirs = {"delta.constraints.theirs": "id > 0"}

    assert apply(properties_of(was) | theirs) == [
        "drop constraint if exists `low`",
        "drop constraint if exists `gone`",
        "add constraint `low` check (id < 9)",
        "set tblproperties ('dbt_backfill.constraints' = '[\"not_null_id\", \"low\"]')",
    ]


def test_a_constraint_that_rows_do_not_fulfil_is_refused(
    macros: Macros, apply: Any, refused: Any
) -> None:
    with refused(
        "its contract has the new constraint (`id` is not null), but 2 rows of the MV do not fulfil"
    ):
        apply({}, broken=2)
    assert not any("alter table" in statement.sql for statement in macros.statements)


def test_a_constraint_that_spark_cannot_evaluate_is_refused(macros: Macros, refused: Any) -> None:
    macros.results = [[["org.apache.spark.sql.AnalysisException: no `low`. SQLSTATE: 42703"]]]
    with refused("Spark cannot evaluate the constraints of its contract: no `low`. Correct the "):
        macros.call("check_constraints", "select 1 as id")
    [statement] = macros.statements
    assert statement.sql.rstrip().endswith("where (`id` is not null) and (id < 9)")


def test_on_iceberg_it_is_said_that_there_are_none(macros: Macros) -> None:
    warned: list[str] = []
    macros.config["file_format"] = "iceberg"
    macros.context["exceptions"].warn = warned.append
    macros.call("check_constraints", "select 1 as id")

    assert "the constraints of its contract are not applied, because Iceberg" in warned[0]
