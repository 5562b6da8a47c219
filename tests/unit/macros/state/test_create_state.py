"""The state of an MV before its first barrier."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from support.macros import Macros


def test_every_vnode_has_not_started(render: Callable[..., str], keys: Any) -> None:
    assert render("get_not_started_sql", keys, 256, 5, "'b1'") == (
        "select cast(id as int) as vnode, "
        "cast(null as bigint) as `id`, cast(null as int) as `shard`, "
        "false as backfill_finished, cast(0 as bigint) as row_count, cast(5 as bigint) as epoch, "
        "cast(null as string) as upstream_version, false as dirty, "
        "cast('b1' as string) as backfill_id from range(0, 256, 1, 1)"
    )


@pytest.fixture
def create(macros: Macros, relations: Any, make_plan: Callable[..., Any]) -> Any:
    """Creates the state of epoch 0; Spark answers with the id that stands in the barriers table."""
    macros.stub("get_create_mv_sql", lambda mv, columns, backfill_id: f"create mv {backfill_id}")

    def create(standing_id: str) -> Any:
        macros.results = [[[f'{{"backfill_id": "{standing_id}"}}']]]
        plan = make_plan(epoch=0, kind="create", backfill_id="b1")
        return macros.call("create_state", relations, plan, [])

    return create


def test_tables_are_created_in_the_order_barriers_progress_mv(macros: Macros, create: Any) -> None:
    create("b1")

    state, mv = (" ".join(statement.sql.split()) for statement in macros.statements)
    barriers = state.index("create table if not exists lake.mv__barriers")
    progress = state.index("create table if not exists lake.mv__progress")
    assert barriers < progress
    assert mv.endswith("create mv b1")


def test_each_step_of_the_creation_can_be_repeated(macros: Macros, create: Any) -> None:
    """A run that died may have left any of the tables."""
    create("b1")

    sql = macros.statements[0].sql
    assert "cast(0 as bigint) as epoch" in sql
    assert sql.count("create table") == sql.count("create table if not exists") == 2


def test_the_id_that_stands_already_is_taken_over(macros: Macros, create: Any) -> None:
    assert create("older") == "older"
    assert (
        "select to_json(named_struct('backfill_id', min(backfill_id))) "
        "from lake.mv__barriers where epoch = 0;"
    ) in " ".join(macros.statements[0].sql.split())
    assert macros.statements[1].sql.strip().endswith("create mv older")
    assert (
        "cast((select min(backfill_id) from lake.mv__barriers where epoch = 0) as string)"
        in macros.statements[0].sql
    )
