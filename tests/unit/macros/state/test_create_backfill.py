"""The tables of an MV are created, without a barrier."""

from __future__ import annotations

import json
from typing import Any

import pytest

from support.macros import Macros

MEANWHILE = (
    "another run has created its tables meanwhile, for another query. "
    "Let one deployment of the model run, and run again."
)


def test_an_mv_is_created_in_one_script(create: Any) -> None:
    _, sql = create("k", "shard")

    assert sql.endswith(
        " begin declare created_id string; declare standing string; declare is_ours boolean; "
        "declare create_mv string; create create ['k', 'shard']; "
        "select to_json(struct(created_id, is_ours)); end"
    )


def test_an_mv_that_was_created_is_not_missing_any_more(create: Any) -> None:
    state, _ = create("k", "shard")

    assert not state["missing"]


def test_tables_that_another_run_made_for_another_query_are_refused(
    create: Any, macros: Macros, refused: Any
) -> None:
    made = json.dumps({"created_id": "b0", "is_ours": False})
    macros.stub("run_json", lambda step, sql: [json.loads(made)])

    with refused(MEANWHILE):
        create("k")


@pytest.mark.parametrize("replaces", [None, "b0"])
def test_an_mv_of_the_run_whose_state_was_put_away_is_refused(
    macros: Macros, backfill: Any, make_state: Any, make_plan: Any, refused: Any, replaces: Any
) -> None:
    """That run was alive, and has created its MV. Else nobody asks."""
    asked: list[Any] = []
    found = {"dbt_backfill.id": "b0"}
    macros.stub("read_table_properties", lambda relation: asked.append(relation) or found)
    state = make_state(committed=make_plan(epoch=0, kind="create", replaces=replaces))

    if replaces is None:
        macros.call("check_created", backfill, state, "b1")
        assert asked == []
    else:
        with refused(MEANWHILE):
            macros.call("check_created", backfill, state, "b1")
        found["dbt_backfill.id"] = "b1"
        macros.call("check_created", backfill, state, "b1")
