"""How far the vnodes are, as literals. Each key is reached or remains, and none is both."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable
from typing import Any

import pytest

from support.macros import Macros

KEYS = [(number, shard) for number in range(1, 9) for shard in (1, 2, 3)]
NULL_KEYS = [(None, 1), (2, None), (None, None)]


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
def select(
    macros: Macros, sqlite: sqlite3.Connection, keys: list[dict[str, str]]
) -> Callable[..., list[Any]]:
    """The keys that a predicate over these places selects."""
    sqlite.execute("create table lake.up (id, shard)")
    sqlite.executemany("insert into lake.up values (?, ?)", KEYS + NULL_KEYS)

    def select(name: str, places: list[dict[str, Any]]) -> list[Any]:
        predicate = macros.call(name, places, keys, 4)
        return list(sqlite.execute(f"select id, shard from lake.up where {predicate}"))

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


def test_what_remains_is_told_by_bounds_that_prune_files(macros: Macros) -> None:
    keys = [{"name": "id", "upstream": "id", "type": "int", "position": "id"}]
    vnode = "cast(pmod(xxhash64(cast(`id` as int)), 4) as int)"
    places = [
        {"vnodes": [0], "finished": False, "position": ["5"]},
        {"vnodes": [1, 2, 3], "finished": False, "position": ["9"]},
    ]

    assert macros.call("remaining_predicate", places, keys, 4) == (
        f"({vnode} in (0) and `id` > 5) or ({vnode} in (1, 2, 3) and `id` > 9) or ((`id` is null))"
    )


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
    macros: Macros, relations: Any, make_state: Any
) -> None:
    rows = [
        {"vnodes": [2, 0], "finished": False, "position": ["3", "2"]},
        {"vnodes": [1], "finished": True},
        {"vnodes": [3], "finished": False},
    ]
    macros.stub("run_json", lambda step, sql, mv: rows)

    places = macros.call("read_places", relations, make_state(uniform=False))

    assert places == [place([0, 2], (3, 2)), place([1], finished=True), place([3])]


def test_positions_of_another_barrier_are_none(
    macros: Macros, relations: Any, make_state: Any
) -> None:
    """They are asked for by the epoch, and then not all vnodes have one."""
    macros.stub("run_json", lambda step, sql, mv: [])
    assert macros.call("read_places", relations, make_state(uniform=False)) is None


def test_positions_are_asked_for_by_the_columns_of_the_progress_table(
    render: Any, relations: Any
) -> None:
    keys = [{"name": "id", "upstream": "epoch", "type": "int", "position": "pk_epoch"}]

    sql = render("get_places_sql", relations, keys, 7)

    assert sql == (
        "select to_json(named_struct('vnodes', collect_list(vnode), 'finished', finished, "
        "'position', position)) from ( select vnode, backfill_finished as finished, "
        "if(backfill_finished, null, if(`pk_epoch` is null, null, "
        "array(concat(cast(`pk_epoch` as string), '')))) as position "
        "from lake.mv__progress where epoch = 7 ) group by finished, position"
    )


@pytest.mark.parametrize("name", PLACES)
def test_each_key_is_reached_or_remains_where_positions_go_down(
    macros: Macros, sqlite: Any, descending: Any, vnode_of: Callable[..., int], name: str
) -> None:
    sqlite.execute("create table lake.up (id, shard)")
    sqlite.executemany("insert into lake.up values (?, ?)", KEYS)

    def select(predicate: str) -> list[Any]:
        where = macros.call(predicate, PLACES[name], descending, 4)
        return list(sqlite.execute(f"select id, shard from lake.up where {where}"))

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
