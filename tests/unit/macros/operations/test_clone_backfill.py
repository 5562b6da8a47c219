"""An MV is copied with its state."""

from __future__ import annotations

import re
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest
from dbt.adapters.spark.relation import SparkRelation

from support.macros import Config, Macros

Clone = Callable[..., list[str]]
STATE_COLUMNS = ["vnode", "epoch", "last", "unwritten", "id", "shard"]


def table(name: str, schema: str = "lake") -> SparkRelation:
    return SparkRelation.create(schema=schema, identifier=name, type="table")


@pytest.fixture
def clone(macros: Macros, verified: Any, make_state: Any, make_plan: Any) -> Clone:
    """Clones `prod.mv` as `lake.mv`, of which `there` exists; returns what is sent."""
    config = Config(materialized="backfilled_mv")
    node = SimpleNamespace(name="mv", unique_id="model.p.mv", config=config, version=None)
    macros.stub("find_backfilled_mv", lambda model, operation: node)
    macros.stub("get_operated", lambda node: verified)
    committed = make_plan(epoch=2, mv_snapshot_id="7", mv_root_id="1", mv_reset_id="r")

    def clone(
        *there: str,
        source: str = "prod.mv",
        schemas: tuple[str, ...] = ("lake", "prod"),
        versions: Any = (5, 40, 5),
        properties: Any = None,
        of_state: str = "b2",
        state: Any = None,
        file_format: str = "delta",
        **arguments: Any,
    ) -> list[str]:
        verified["options"]["file_format"] = file_format
        macros.stub("read_schemas", lambda: schemas)
        left = iter(versions)
        macros.stub("read_version", lambda original, table: str(next(left)))
        originals = {"mv", "mv__progress", "mv__barriers"}
        macros.stub(
            "find_table",
            lambda relation: (
                relation
                if relation.identifier in (originals if relation.schema == "prod" else there)
                else None
            ),
        )
        macros.stub(
            "read_table_properties",
            lambda relation: (
                {
                    "write.merge.mode": "merge-on-read",
                    "current-snapshot-id": "9",
                    "write.metadata.metrics.column.url": "*********(redacted)",
                }
                if relation.schema == "prod"
                else {"dbt_backfill.id": of_state}
                if relation.identifier == "mv__progress"
                else properties or {}
            ),
        )
        observed = make_state(committed=committed, **(state or {}))
        macros.stub("observe_existing", lambda original, existing: {"state": observed})
        macros.stub("read_progress_columns", lambda relations: dict.fromkeys(STATE_COLUMNS, ""))
        macros.results = [[["CREATE TABLE x\nUSING iceberg\nPARTITIONED BY (days(at))\n"]]] * 9
        macros.call("clone_backfill", "mv", source, **arguments)
        return [" ".join(statement.sql.split()) for statement in macros.statements]

    return clone


def test_the_state_comes_after_its_mv_and_all_of_it_is_of_one_barrier(
    macros: Macros, clone: Clone
) -> None:
    mv, state, history, finish = clone()

    assert "create table if not exists lake.mv shallow clone prod.mv version as of 40" in mv
    assert "create table if not exists lake.mv__barriers using delta" in history
    assert "where epoch <= 2" in history
    assert "create table if not exists lake.mv__progress using delta" in state
    assert state.endswith("from prod.mv__progress version as of 5")
    assert "'dbt_backfill.clone' = ''" in finish
    assert macros.logged == [
        "mv: lake.mv is a clone of prod.mv with its state, at the barrier 2 (40.0 %). The next run "
        "goes on from there"
    ]


def test_the_copy_has_an_id_of_its_own(clone: Clone) -> None:
    mv, state, history, _ = clone()
    [id] = re.findall(r"'dbt_backfill.id' = '(\w+)'", mv)

    assert id != "b1"
    assert f"'{id}' as backfill_id" in history
    assert f"'dbt_backfill.id' = '{id}'" in state
    assert f'"backfill_id": "{id}"' in state
    assert "'dbt_backfill.mv' = 'lake.mv'" in mv and "'dbt_backfill.clone' = 'prod.mv'" in mv


def test_what_only_the_original_was_left_at_is_not_noted_of_the_copy(clone: Clone) -> None:
    state = clone()[1]

    assert "mv_snapshot_id" not in state and "mv_root_id" not in state
    assert "select `vnode`, `epoch`, if(vnode = 0, " in state
    assert "cast(null as array<string>) as unwritten, `id`, `shard` from" in state


def test_rows_are_copied_where_the_format_has_no_clone(clone: Clone) -> None:
    mv = clone(file_format="iceberg")[1]

    assert "create table if not exists lake.mv using iceberg PARTITIONED BY (days(at))" in mv
    assert "'write.merge.mode' = 'merge-on-read'" in mv and "current-snapshot-id" not in mv
    assert "write.metadata" not in mv  # Spark does not show its value
    assert mv.endswith("as select * from prod.mv version as of 40")


def test_a_schema_is_made_for_the_clone_once_there_is_something_to_copy(
    macros: Macros, clone: Clone, make_plan: Any, refused: Any
) -> None:
    made: list[str] = []
    macros.context["adapter"].create_schema = lambda relation: made.append(relation.schema)
    clone()
    with refused("its barrier 3 has begun and is not committed"):
        clone(schemas=("prod",), state={"planned": make_plan()})
    assert made == []

    clone(schemas=("prod",))
    assert made == ["lake"]


def test_a_schema_alone_means_the_table_of_the_same_name(clone: Clone) -> None:
    assert "shallow clone prod.mv" in clone(source="prod")[0]


def test_an_original_that_does_not_stand_still_is_not_copied(
    macros: Macros, clone: Clone, make_plan: Any, refused: Any
) -> None:
    with refused("a run of prod.mv went on while it was looked at. Copy it while no barrier runs"):
        clone(versions=(5, 40, 6))
    with refused("its barrier 3 has begun and is not committed. Copy prod.mv once a run has"):
        clone(state={"planned": make_plan()})
    with refused("its barrier 3 has begun and is not committed"):
        clone(state={"dirty": True})
    assert macros.statements == []


UNFINISHED = {"dbt_backfill.id": "b2", "dbt_backfill.clone": "prod.mv"}


def test_an_operation_that_was_broken_off_is_repeated(macros: Macros, clone: Clone) -> None:
    """What has no state yet is made anew, and the rest is kept."""
    drop, *made = clone("mv", properties=UNFINISHED)
    assert drop.endswith("drop table if exists lake.mv")
    assert len(made) == 4

    macros.statements.clear()
    [finish] = clone("mv", "mv__progress", properties=UNFINISHED)
    assert "'dbt_backfill.clone' = ''" in finish


def test_nothing_is_dropped_that_is_not_named(macros: Macros, clone: Clone, refused: Any) -> None:
    ours = {"dbt_backfill.id": "b2"}
    with refused("lake.mv exists, and is no clone of an MV. Drop or rename it."):
        clone("mv")
    with refused("lake.mv exists, without a state. Add replace: true to drop it before."):
        clone("mv", properties=ours)
    with refused("lake.mv__progress exists: there is an MV with its own state, or what is left of"):
        clone("mv", "mv__progress", properties=ours, replace=True)
    with refused("lake.mv__progress exists: there is an MV with its own state, or what is left of"):
        clone("mv__progress")
    assert macros.statements == []

    assert clone("mv", properties=ours, replace=True)[0].endswith("drop table if exists lake.mv")


@pytest.mark.parametrize(
    ("given", "told"),
    [
        ({"source": "lake.mv"}, 'source is "lake.mv". Set it to another MV with its schema, such'),
        ({"source": " "}, 'source is " ". Set it to the MV to copy, with its schema, such as prod'),
        ({"replace": 1}, "replace is 1. Set it to true or false"),
        ({"target": "x"}, "clone_backfill has no argument 'target'. Its arguments are model, sour"),
    ],
)
def test_arguments_that_mean_nothing_are_refused(
    clone: Clone, refused: Any, given: Any, told: str
) -> None:
    with refused(told):
        clone(**given)


def test_without_an_original_nothing_is_copied(macros: Macros, clone: Clone, refused: Any) -> None:
    why = "does not exist, so there is no MV with its state to copy. Name one"
    with refused(f"prod.other {why}"):
        clone(source="prod.other")
    with refused(f"nowhere.mv {why}"):
        clone(source="nowhere.mv")
