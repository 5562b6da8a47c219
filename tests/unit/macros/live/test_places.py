"""How far the vnodes are, as literals. Each key is reached or remains, and none is both."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from support.duck import Duck
from support.macros import Macros

KEYS = [(number, shard) for number in range(1, 9) for shard in (1, 2, 3)]
NULL_KEYS = [(None, 1), (2, None), (None, None)]
KEY_TYPES = {"id": "bigint", "shard": "int"}


def place(
    vnodes: list[int] | None, position: tuple[int, int] | None = None, finished: bool = False
) -> dict[str, Any]:
    literals = None if position is None else [str(value) for value in position]
    return {"vnodes": vnodes, "finished": finished, "position": literals}


PLACES = {
    "not_started": [place(None)],
    "one_position": [place(None, (3, 2))],
    "finished": [place(None, finished=True)],
    "two_positions": [place([0, 2], (3, 2)), place([1, 3], (6, 1))],
    "some_finished": [place([0, 1], finished=True), place([2], (4, 4)), place([3])],
    "some_not_started": [place([0, 3], (2, 9)), place([1, 2])],
}


@pytest.fixture
def select(macros: Macros, duck: Duck, keys: list[dict[str, str]]) -> Callable[..., list[Any]]:
    """The keys that a predicate over these places selects."""
    duck.create("lake.up", KEY_TYPES, KEYS + NULL_KEYS)

    def select(name: str, places: list[dict[str, Any]]) -> list[Any]:
        predicate = macros.call(name, places, keys, 4)
        return duck.rows(f"select id, shard from lake.up where {predicate}")

    return select


@pytest.mark.parametrize("name", PLACES)
def test_each_key_is_reached_or_remains(
    select: Any, vnode_of: Callable[..., int], name: str
) -> None:
    def is_reached(key: tuple[int, int]) -> bool:
        for one in PLACES[name]:
            if one["vnodes"] is None or vnode_of(key, 4) in one["vnodes"]:
                position = tuple(map(int, one["position"] or ()))
                return bool(one["finished"] or (position and key <= position))
        raise AssertionError(key)

    reached = [key for key in select("reached_predicate", PLACES[name]) if None not in key]
    remaining = select("remaining_predicate", PLACES[name])

    assert reached == [key for key in KEYS if is_reached(key)]
    assert [key for key in remaining if None not in key] == [
        key for key in KEYS if not is_reached(key)
    ]
    if name != "finished":
        assert [key for key in remaining if None in key] == NULL_KEYS


# -- reading them -----------------------------------------------------------------------------


def test_one_position_is_known_without_a_question(
    macros: Macros, relations: Any, make_state: Any
) -> None:
    places = macros.call("read_places", relations, make_state(position=["1", "2"]))
    assert places == [place(None, (1, 2))]

    finished = make_state(position=["1", "2"], finished=True)
    assert macros.call("read_places", relations, finished) == [place(None, finished=True)]
    assert macros.statements == []


def test_different_positions_are_read_in_groups(
    macros: Macros, duck: Duck, relations: Any, make_state: Any, make_plan: Any
) -> None:
    """By the columns that the progress table has for them."""
    key = [{"name": "k", "upstream": "epoch", "type": "int", "position": "pk_epoch"}]
    columns = {"vnode": "int", "epoch": "int", "backfill_finished": "boolean", "pk_epoch": "int"}
    rows = [(2, 7, False, 3), (0, 7, False, 3), (1, 7, True, 9), (3, 7, False, None)]
    duck.create("lake.mv__progress", columns, rows)

    def read(epoch: int) -> Any:
        macros.results = [duck.rows(macros.call("get_places_sql", relations, key, epoch))]
        committed = make_plan(epoch=epoch, key=key)
        state = make_state(epoch=epoch, uniform=False, committed=committed)
        return macros.call("read_places", relations, state)

    reached = {"vnodes": [0, 2], "finished": False, "position": ["3"]}
    assert sorted(read(7), key=lambda one: one["vnodes"]) == [
        reached, place([1], finished=True), place([3])
    ]  # fmt: skip
    # Another barrier has been committed since.
    assert read(6) is None


@pytest.mark.parametrize("name", PLACES)
def test_each_key_is_reached_or_remains_where_positions_go_down(
    macros: Macros, duck: Duck, descending: Any, vnode_of: Callable[..., int], name: str
) -> None:
    duck.create("lake.up", KEY_TYPES, KEYS)

    def select(predicate: str) -> list[Any]:
        where = macros.call(predicate, PLACES[name], descending, 4)
        return duck.rows(f"select id, shard from lake.up where {where}")

    def is_reached(key: tuple[int, int]) -> bool:
        [one] = [
            one
            for one in PLACES[name]
            if one["vnodes"] is None or vnode_of(key, 4) in one["vnodes"]
        ]
        position = tuple(map(int, one["position"] or ()))
        return bool(one["finished"] or (position and key >= position))

    assert select("reached_predicate") == [key for key in KEYS if is_reached(key)]
    assert select("remaining_predicate") == [key for key in KEYS if not is_reached(key)]
