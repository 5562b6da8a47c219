"""An MV is copied together with its state."""

from __future__ import annotations

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest

from support.macros import Config, Macros, Table

Clone = Callable[..., list[str]]


@pytest.fixture
def clone(macros: Macros, make_state: Any, make_plan: Any) -> Clone:
    """Clone `prod.mv` as `lake.mv` while the tables `there` exist. Return the sent statements."""
    config = Config(materialized="backfilled_mv")
    node = {
        "unique_id": "model.p.mv", "resource_type": "model", "package_name": "p", "name": "mv",
        "alias": "mv", "schema": "lake", "config": config,
    }  # fmt: skip
    macros.context["graph"] = SimpleNamespace(nodes={"model.p.mv": node})
    columns = dict.fromkeys(["vnode", "epoch", "last", "unwritten", "id", "shard"], "string")

    def clone(
        *there: str,
        source: str = "prod.mv",
        schemas: tuple[str, ...] = ("lake", "prod"),
        versions: Any = (5, 40, 5),
        properties: Any = None,
        state: Any = None,
        file_format: str = "delta",
        original: Any = None,
        foreign: Any = None,
        **arguments: Any,
    ) -> list[str]:
        config["file_format"] = file_format
        macros.statements.clear()
        macros.results = [[["CREATE TABLE x\nUSING iceberg\nPARTITIONED BY (days(at))\n"]]]
        macros.tables = {
            **{f"prod.{n}": Table(columns=columns) for n in ("mv", "mv__progress", "mv__barriers")},
            **{f"lake.{n}": Table(properties={"dbt_backfill.id": "b2"}) for n in there},
        }
        macros.tables["prod.mv"].properties = original or {}
        if "mv" in there:
            macros.tables["lake.mv"].properties = properties or {}
        macros.stub("read_schemas", lambda: schemas)
        left = iter(versions)
        macros.stub("read_version", lambda original, table: str(next(left)))
        observed = make_state(committed=make_plan(epoch=2), **(state or {}))
        macros.stub("observe_existing", lambda original, existing: {"state": observed})
        macros.stub("observe_mv", lambda original, state: {**state, "foreign_write": foreign})
        macros.call("clone_backfill", "mv", source, **arguments)
        return [" ".join(statement.sql.split()) for statement in macros.statements]

    return clone


def test_a_schema_is_made_for_the_clone_once_there_is_something_to_copy(
    macros: Macros, clone: Clone, make_plan: Any, refused: Any
) -> None:
    made: list[str] = []
    macros.context["adapter"].create_schema = lambda relation: made.append(relation.schema)
    clone()
    with refused("its barrier 3 has begun but is not committed"):
        clone(schemas=("prod",), state={"planned": make_plan()})
    assert made == []

    clone(schemas=("prod",))
    assert made == ["lake"]


def test_where_the_format_has_no_clone_the_copy_has_the_layout_of_the_original(
    clone: Clone,
) -> None:
    """The copy also has the properties of the original, if Spark shows their values."""
    original = {
        "write.merge.mode": "merge-on-read",
        "current-snapshot-id": "9",
        "write.metadata.metrics.column.url": "*********(redacted)",
    }
    _, copy, *_ = clone(file_format="iceberg", original=original)

    assert "using iceberg PARTITIONED BY (days(at))" in copy
    assert "'write.merge.mode' = 'merge-on-read'" in copy
    assert "current-snapshot-id" not in copy and "write.metadata" not in copy
    assert copy.endswith("from prod.mv version as of 40")


def test_a_schema_alone_means_the_table_of_the_same_name(clone: Clone) -> None:
    assert "shallow clone prod.mv" in clone(source="prod")[0]


def test_an_original_that_does_not_stand_still_is_not_copied(
    macros: Macros, clone: Clone, make_plan: Any, refused: Any
) -> None:
    with refused("a run changed the state of prod.mv while clone_backfill was reading this state"):
        clone(versions=(5, 40, 6))
    with refused("its barrier 3 has begun but is not committed. Let a run of its model com"):
        clone(state={"planned": make_plan()})
    with refused("its barrier 3 has begun but is not committed"):
        clone(state={"dirty": True})
    with refused("prod.mv has a write that none of its barriers made (UPDATE in version 7)"):
        clone(foreign={"text": "UPDATE in version 7"})
    assert macros.statements == []


UNFINISHED = {"dbt_backfill.id": "b2", "dbt_backfill.clone": "prod.mv"}


def test_an_operation_that_was_broken_off_is_repeated(macros: Macros, clone: Clone) -> None:
    """Tables without a complete state are created again. Everything else is kept."""
    drop, *made = clone("mv", properties=UNFINISHED)
    assert drop.endswith("drop table if exists lake.mv")
    assert len(made) == 4

    [finish] = clone("mv", "mv__progress", properties=UNFINISHED)
    assert "'dbt_backfill.clone' = ''" in finish


def test_a_clone_of_another_mv_is_not_finished_as_one_of_this(
    macros: Macros, clone: Clone, refused: Any
) -> None:
    with refused("lake.mv is an unfinished clone of other.mv. Run clone_backfill with that "):
        clone("mv", "mv__progress", properties={**UNFINISHED, "dbt_backfill.clone": "other.mv"})
    assert macros.statements == []


def test_nothing_is_dropped_that_is_not_named(macros: Macros, clone: Clone, refused: Any) -> None:
    ours = {"dbt_backfill.id": "b2"}
    with refused("lake.mv exists, but is not a clone of an MV. Drop or rename that table."):
        clone("mv")
    with refused("lake.mv exists, but has no state. Add replace: true to drop that table first."):
        clone("mv", properties=ours)
    with refused("lake.mv__progress exists, so the model already has a state. Drop the MV "):
        clone("mv", "mv__progress", properties=ours, replace=True)
    with refused("lake.mv__progress exists, so the model already has a state. Drop the MV "):
        clone("mv__progress")
    assert macros.statements == []

    assert clone("mv", properties=ours, replace=True)[0].endswith("drop table if exists lake.mv")


@pytest.mark.parametrize(
    ("given", "told"),
    [
        ({"source": "lake.mv"}, 'source is "lake.mv". Set it to another MV with its schema, such'),
        ({"source": " "}, 'source is " ". Set it to the MV to copy, with its schema, such as prod'),
        ({"replace": 1}, "replace is 1. Set it to true or false"),
        ({"target": "x"}, "clone_backfill has no argument 'target'. Correct or remove it. The ar"),
    ],
)
def test_arguments_that_mean_nothing_are_refused(
    clone: Clone, refused: Any, given: Any, told: str
) -> None:
    with refused(told):
        clone(**given)


def test_without_an_original_nothing_is_copied(macros: Macros, clone: Clone, refused: Any) -> None:
    why = "does not exist, but clone_backfill needs an MV and its state. Set source"
    with refused(f"prod.other {why}"):
        clone(source="prod.other")
    with refused(f"nowhere.mv {why}"):
        clone(source="nowhere.mv")
