"""A descending backfill: the MV has the rows with `pk >= current_pos`.

test_scans.py compares the scans of an ascending backfill; here the comparison is reversed.
"""

from __future__ import annotations

from itertools import pairwise, product
from typing import Any

import pytest

from support.duck import Duck
from support.macros import Macros

Key = tuple[int, int]
VNODES = 4
KEYS: list[Key] = list(product(range(8), range(3)))
POSITIONS: list[Any] = [(3, 1), None, "end", (5, 0)]


def test_a_key_without_an_order_is_ascending(macros: Macros, keys: Any, descending: Any) -> None:
    assert not macros.call("is_descending", keys) and macros.call("is_descending", descending)


def test_only_a_descending_order_is_noted(macros: Macros, keys: Any, descending: Any) -> None:
    for key in (keys, descending):
        assert macros.call("with_order", key, "descending") == descending
        assert macros.call("with_order", key, "ascending") == keys


@pytest.mark.parametrize(("op", "turned"), [("<", ">"), ("<=", ">="), (">", "<"), (">=", "<=")])
def test_what_comes_before_is_greater_in_a_descending_order(
    macros: Macros, keys: Any, descending: Any, op: str, turned: str
) -> None:
    """The columns of a key are reversed together. The redundant bound, by which Spark skips files,
    is reversed too.
    """

    def predicate(key: Any) -> Any:
        return macros.call("ordered_predicate", key, ["a", "b"], op, ["1", "2"])

    assert predicate(keys) == macros.call("tuple_predicate", ["a", "b"], op, ["1", "2"])
    assert predicate(descending) == macros.call("tuple_predicate", ["a", "b"], turned, ["1", "2"])


# -- scans ----------------------------------------------------------------------------------------


@pytest.fixture
def lake(make_lake: Any) -> Duck:
    made: Duck = make_lake([*KEYS, (None, 1)], POSITIONS)
    return made


@pytest.fixture
def prefix(macros: Macros, lake: Any, relations: Any, descending: Any, make_state: Any) -> Any:
    def prefix(**state: Any) -> list[Key]:
        scan = macros.call(
            "get_prefix_scan_sql", "lake.up", make_state(**state), relations, descending
        )
        return sorted(lake.rows(scan))

    return prefix


@pytest.fixture
def range_(
    macros: Macros, lake: Any, relations: Any, descending: Any, make_state: Any, make_plan: Any
) -> Any:
    def range_(uniform: bool = True, **plan: Any) -> list[Key]:
        made = make_plan(key=descending, **plan)
        state = make_state(uniform=uniform)
        scan = macros.call("get_range_scan_sql", "lake.up", made, state, relations, descending)
        return sorted(key for key in lake.rows(scan) if None not in key)

    return range_


def test_the_prefix_is_all_keys_down_to_the_position(prefix: Any) -> None:
    assert prefix(position=["3", "1"]) == [key for key in KEYS if key >= (3, 1)]
    assert prefix(position=None) == []


def test_each_vnode_has_its_own_prefix_where_positions_differ(prefix: Any, vnode_of: Any) -> None:
    expected = [
        key
        for key in KEYS
        for position in [POSITIONS[vnode_of(key, VNODES)]]
        if position == "end" or (position is not None and key >= position)
    ]

    assert prefix(uniform=False, position=None) == expected


def test_ranges_that_follow_each_other_read_every_key_once(range_: Any) -> None:
    bounds = [None, ["6", "1"], ["4", "0"], ["3", "2"], None]
    ranges = [
        range_(range_low=low, range_high=high, last_range=high is None)
        for low, high in pairwise(bounds)
    ]

    assert ranges[0] == [key for key in KEYS if key >= (6, 1)]
    assert ranges[1] == [key for key in KEYS if (4, 0) <= key < (6, 1)]
    assert sorted(key for keys in ranges for key in keys) == KEYS


@pytest.mark.parametrize("last_range", [False, True])
@pytest.mark.parametrize("vnodes", [[0, 1, 3], [0], [3, 0]])
def test_selected_vnodes_are_read_each_from_its_own_position(
    range_: Any, vnode_of: Any, vnodes: list[int], last_range: bool
) -> None:
    started = [POSITIONS[vnode] for vnode in vnodes]
    low = None if None in started else [str(value) for value in max(started)]
    expected = [
        key
        for key in KEYS
        for vnode in [vnode_of(key, VNODES)]
        if vnode in vnodes
        and (POSITIONS[vnode] is None or key < POSITIONS[vnode])
        and (last_range or key >= (1, 1))
    ]

    read = range_(
        uniform=False, vnodes=vnodes, range_low=low, range_high=["1", "1"], last_range=last_range
    )

    assert read == expected != []
