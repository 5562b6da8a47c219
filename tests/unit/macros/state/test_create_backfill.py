"""The tables of an MV are created, without a barrier."""

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


def test_an_mv_is_created_in_one_script(create: Any) -> None:
    _, sql = create("k", "shard")

    assert sql.endswith(
        " begin declare created_id string; declare standing string; declare create_mv string; "
        "create create ['k', 'shard']; end"
    )


def test_an_mv_that_was_created_is_not_missing_any_more(create: Any, backfill: Any) -> None:
    state, _ = create("k", "shard")

    assert not state["missing"]
    assert backfill["created"]  # its comments have to be written
