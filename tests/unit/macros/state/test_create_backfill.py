"""The tables of an MV are created without a barrier."""

from __future__ import annotations

from typing import Any

import pytest

from support.macros import Macros, Table

MEANWHILE = (
    "another run, with another query, created the tables of the MV at the same time. "
    "Run only one deployment of the model, and run again."
)


def test_tables_that_another_run_made_for_another_query_are_refused(
    create: Any, macros: Macros, refused: Any
) -> None:
    with refused(MEANWHILE):
        create("k", is_ours=False)


def test_of_two_first_runs_the_one_that_comes_late_creates_no_mv_of_another_query(
    create: Any,
) -> None:
    """The script of the late run checks that the state is its own before it creates the MV."""
    sql = " ".join(create("k").split())

    assert "if is_ours then execute immediate create_mv; end if;" in sql
    assert sql.count("execute immediate") == 1


@pytest.mark.parametrize(
    ("file_format", "word"),
    [("delta", "create or replace table"), ("iceberg", "drop table if exists")],
)
def test_what_another_model_has_begun_is_put_away_by_its_id(
    macros: Macros, backfill: Any, make_plan: Any, create: Any, file_format: str, word: str
) -> None:
    """On Delta, the new state replaces the old state. In a location of the user, DROP would leave
    the files.
    """
    create("k")
    macros.config["file_format"] = file_format
    plan = make_plan(
        epoch=0, kind="create", replaces="b0", vnode_row_counts=None, settings={"a": "b"}
    )
    sql = macros.call("get_create_statements", backfill, plan, [{"name": "k", "type": "int"}])
    before, _ = " ".join(sql.split()).split("end if;", 1)

    assert "get_json_object(last, '$.backfill_id') = 'b0'" in before
    assert f"{word} lake.mv__progress" in before


@pytest.mark.parametrize("replaces", [None, "b0"])
def test_an_mv_of_the_run_whose_state_was_put_away_is_refused(
    macros: Macros, backfill: Any, make_state: Any, make_plan: Any, refused: Any, replaces: Any
) -> None:
    """The run whose state was replaced was still at work and has created its MV."""
    state = make_state(committed=make_plan(epoch=0, kind="create", replaces=replaces))

    if replaces is None:
        for properties in ({}, {"dbt_backfill.id": "b0"}):
            macros.tables["lake.mv"] = Table(properties=properties)
            with refused("lake.mv was created by something else than this run, after dbt listed "):
                macros.call("check_created", backfill, state, "b1")
    else:
        macros.tables["lake.mv"] = Table(properties={"dbt_backfill.id": "b0"})
        with refused(MEANWHILE):
            macros.call("check_created", backfill, state, "b1")
    macros.tables["lake.mv"] = Table(properties={"dbt_backfill.id": "b1"})
    macros.call("check_created", backfill, state, "b1")
