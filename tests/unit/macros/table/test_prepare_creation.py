"""What is refused before the tables are created."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from support.macros import Macros


def no_questions(macros: Macros) -> None:
    """The session and the catalog, which a first run asks about, are as they should be."""
    for name in ("check_settings", "check_idempotent_writes", "check_table_overrides"):
        macros.stub(name, lambda *arguments: None)


# -- creation ---------------------------------------------------------------------------------


@pytest.fixture
def create(macros: Macros, backfill: Any) -> Any:
    """Creates an MV for the state of one about to be created; returns it and the statement."""
    macros.context["model"] = SimpleNamespace(name="mv", unique_id="model.p.mv")
    no_questions(macros)
    macros.stub(
        "get_create_statements",
        lambda relations, plan, columns: f"create {plan['kind']} {[c['name'] for c in columns]};",
    )

    def create(*columns: str) -> Any:
        names = [{"name": name, "type": "int"} for name in columns]
        macros.stub("get_query_columns", lambda query: names)
        state = macros.call("get_missing_state", backfill)
        state = macros.call("create_backfill", backfill, state)
        (statement,) = macros.statements
        return state, " ".join(statement.sql.split())

    return create


@pytest.mark.parametrize("columns", [("k", "v", "v"), ("k", "v", "V")])
def test_a_query_with_two_columns_of_one_name_is_refused_before_anything_is_created(
    create: Any, refused: Any, macros: Macros, columns: tuple[str, ...]
) -> None:
    with refused("its query returns the column 'v' twice. Give the columns different names."):
        create(*columns)
    assert macros.statements == []


@pytest.mark.parametrize(
    "config", [{"partition_by": ["k", "day"]}, {"clustered_by": "day"}, {"partition_by": "day"}]
)
def test_a_column_of_a_clause_that_the_query_does_not_return_is_refused(
    create: Any, refused: Any, macros: Macros, config: dict[str, Any]
) -> None:
    macros.config.update(config)
    with refused(f"{next(iter(config))} names the column 'day', which its query does not return. "):
        create("k", "v")
    assert macros.statements == []


def test_columns_of_clauses_may_be_in_other_case_and_transformed(
    create: Any, macros: Macros
) -> None:
    macros.config.update(partition_by=["K", "days(at)"])
    create("k", "at")


def test_a_column_that_delta_cannot_merge_changes_into_is_refused_before_anything_is_created(
    create: Any, refused: Any, macros: Macros
) -> None:
    with refused("its query returns the column 'a`b', and Delta cannot merge changes into such a "):
        create("k", "a`b")
    assert macros.statements == []


@pytest.mark.parametrize(
    "config",
    [{"file_format": "iceberg"}, {"tblproperties": {"delta.enableChangeDataFeed": "false"}}],
)
def test_such_a_column_is_fine_in_a_table_without_that_feed(
    create: Any, macros: Macros, config: dict[str, Any]
) -> None:
    macros.config.update(config)
    _, sql = create("k", "a`b")

    assert "create ['k', 'a`b']" in sql
