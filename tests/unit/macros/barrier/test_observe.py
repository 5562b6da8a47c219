"""Step 1: which of the three tables there are, and whether they belong together."""

from __future__ import annotations

import json
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest
from dbt.adapters.spark.relation import SparkRelation

from support.macros import Macros

Observe = Callable[..., Any]


@pytest.fixture
def observe(macros: Macros, backfill: Any, make_state: Callable[..., Any]) -> Observe:
    """Observes what exists: any of m(v), p(rogress) and b(arriers)."""
    macros.context["model"] = SimpleNamespace(name="mv", unique_id="model.p.mv")

    def observe(
        exist: str = "mpb",
        properties: Any = None,
        type: str = "table",
        is_delta: bool = True,
        **state: Any,
    ) -> Any:
        names = {"m": "mv", "p": "mv__progress", "b": "mv__barriers"}
        existing = {names[letter] for letter in exist}
        macros.context["load_relation"] = lambda relation: (
            SparkRelation.create(
                schema="lake", identifier=relation.identifier, type=type, is_delta=is_delta
            )
            if relation.identifier in existing
            else None
        )
        ours = {"dbt_backfill.id": "b1"} if properties is None else properties
        macros.stub("read_delta_detail", lambda relation: {"id": "d1", "properties": ours})
        macros.results = [[[json.dumps(make_state(**state))]]]
        return macros.call("observe_state", backfill)

    return observe


def test_the_state_of_an_mv_is_read(observe: Observe) -> None:
    assert observe()["epoch"] == 2


@pytest.mark.parametrize("exist", ["", "b"])
def test_an_mv_that_is_not_there_yet_is_about_to_be_created(
    macros: Macros, observe: Observe, exist: str
) -> None:
    """The creation of the tables begins with the barriers table, and a run may have died then."""
    explained: list[Any] = []
    macros.stub("explain_backfill", explained.append)
    state = observe(exist)

    committed = state.pop("committed")
    assert state.pop("backfill_id") == committed["backfill_id"]
    assert state == {
        "missing": True,
        "epoch": 0,
        "uniform": True,
        "finished": False,
        "any_finished": False,
        "dirty": False,
        "row_count": 0,
    }
    assert (committed["kind"], committed["epoch"]) == ("create", 0)
    assert (committed["next_bounds"], committed["bounds_complete"]) == ([], False)
    assert len(explained) == 1
    assert macros.statements == []


def test_an_mv_whose_creation_was_broken_off_is_about_to_be_created(observe: Observe) -> None:
    assert observe("pb", epoch=0, last_epoch=0)["missing"]


@pytest.mark.parametrize(
    "state", [{"epoch": 1}, {"epoch": 0, "planned": {"epoch": 1}}], ids=["committed", "planned"]
)
def test_an_mv_that_is_gone_is_refused(observe: Observe, refused: Any, state: Any) -> None:
    with refused(
        "lake.mv does not exist, but its state does (lake.mv__progress, lake.mv__barriers). "
        "Restore the MV, or drop the two state tables to build it anew."
    ):
        observe("pb", **state)


@pytest.mark.parametrize(
    ("exist", "missing"),
    [
        ("mp", "lake.mv__barriers does not exist"),
        ("mb", "lake.mv__progress does not exist"),
        ("p", "lake.mv__barriers does not exist"),
        ("m", "lake.mv__progress and lake.mv__barriers do not exist"),
    ],
)
def test_a_state_that_is_not_whole_is_refused(
    observe: Observe, refused: Any, exist: str, missing: str
) -> None:
    with refused(
        f"its state is missing: {missing}. Restore what is missing, or drop what is left of "
        "lake.mv, lake.mv__progress and lake.mv__barriers to build it anew."
    ):
        observe(exist)


FOREIGN = (
    "lake.mv exists, and was not made by this materialization. Drop or rename it, or give the "
    "model another alias."
)


@pytest.mark.parametrize("exist", ["m", "mpb"])
@pytest.mark.parametrize(
    "table",
    [
        {"properties": {"delta.minReaderVersion": "1"}},
        {"is_delta": False},
    ],
    ids=["a table without our id", "a table of another format"],
)
def test_a_table_that_was_there_before_is_refused(
    observe: Observe, refused: Any, exist: str, table: dict[str, Any]
) -> None:
    with refused(FOREIGN):
        observe(exist, **table)


@pytest.mark.parametrize("exist", ["m", "mpb"])
def test_a_view_is_refused(observe: Observe, refused: Any, exist: str) -> None:
    with refused(FOREIGN):
        observe(exist, type="view", is_delta=False)


@pytest.mark.parametrize(
    "state",
    [
        {"backfill_id": "b2"},
        {"committed": {"backfill_id": "b2"}},
        {"committed": None},
    ],
    ids=["progress", "barriers", "no committed plan"],
)
def test_a_state_of_another_mv_is_refused(observe: Observe, refused: Any, state: Any) -> None:
    with refused(
        "its state tables lake.mv__progress and lake.mv__barriers belong to another MV. Restore "
        "the ones that were made with lake.mv, or drop all three to build it anew."
    ):
        observe(**state)


def test_an_mv_with_another_id_is_refused(observe: Observe, refused: Any) -> None:
    with refused("its state tables lake.mv__progress and lake.mv__barriers belong to another MV."):
        observe(properties={"dbt_backfill.id": "b2"})


@pytest.mark.parametrize(
    ("state", "damage"),
    [
        ({"rows": 3}, "it has 3 rows for 4 vnodes, of the epochs 2 to 2"),
        ({"rows": 5}, "it has 5 rows for 4 vnodes, of the epochs 2 to 2"),
        ({"last_epoch": 3}, "it has 4 rows for 4 vnodes, of the epochs 2 to 3"),
    ],
)
def test_a_damaged_progress_table_is_refused(
    observe: Observe, refused: Any, state: Any, damage: str
) -> None:
    with refused(
        f"lake.mv__progress is damaged: {damage}. Restore an earlier version of it, or drop it "
        "with lake.mv and lake.mv__barriers to build the MV anew."
    ):
        observe(**state)


# -- creation ---------------------------------------------------------------------------------


@pytest.fixture
def create(macros: Macros, backfill: Any) -> Any:
    """Creates an MV for the state of one about to be created; returns both and what was created."""
    macros.context["model"] = SimpleNamespace(name="mv", unique_id="model.p.mv")
    created: list[Any] = []
    macros.context["persist_constraints"] = lambda relation, model: created.append(relation)

    def create_state(relations: Any, plan: Any, columns: Any) -> str:
        created.append((plan["epoch"], columns))
        return "standing"

    macros.stub("create_state", create_state)

    def create(*columns: str) -> Any:
        names = [{"name": name, "type": "int"} for name in columns]
        macros.stub("get_query_columns", lambda query: names)
        state = macros.call("get_missing_state", backfill)
        macros.call("create_backfill", backfill, state)
        return state, created

    return create


def test_a_created_mv_has_the_id_that_stands(create: Any, backfill: Any) -> None:
    """An earlier run may have created the barriers table, with its id."""
    state, created = create("k", "shard")

    assert not state["missing"]
    assert state["backfill_id"] == state["committed"]["backfill_id"] == "standing"
    assert backfill["created"]
    assert created[0][0] == 0
    assert created[1] == backfill["mv"]  # its constraints


@pytest.mark.parametrize("columns", [("k", "v", "v"), ("k", "v", "V")])
def test_a_query_with_two_columns_of_one_name_is_refused_before_anything_is_created(
    create: Any, refused: Any, macros: Macros, columns: tuple[str, ...]
) -> None:
    macros.stub("create_state", lambda *_: pytest.fail("created"))
    with refused("its query returns the column 'v' twice. Give the columns different names."):
        create(*columns)
