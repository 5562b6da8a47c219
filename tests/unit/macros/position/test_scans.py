"""The rows of the upstream that a step reads, compared with the definition `pk <= current_pos`.

Null keys have no position in this order. A scan reads them only to refuse them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from itertools import pairwise, product
from typing import Any

import pytest

from support.duck import Duck
from support.macros import Macros

Key = tuple[int | None, int | None]
VNODES = 4
KEYS: list[Key] = list(product(range(8), range(3)))
NULL_KEYS: list[Key] = [(None, 1), (3, None), (None, None)]

# The position of each vnode: a key, None for NotStarted, or "end" for a finished vnode.
POSITIONS: list[Any] = [(3, 1), None, "end", (5, 0)]


def _in_order(rows: Iterable[Any], with_null_keys: bool) -> list[Key]:
    keys = list(rows)
    null_keys = [key for key in NULL_KEYS for _ in range(keys.count(key))]
    return sorted(key for key in keys if None not in key) + (null_keys if with_null_keys else [])


@pytest.fixture
def lake(make_lake: Any) -> Duck:
    made: Duck = make_lake(KEYS + NULL_KEYS, POSITIONS)
    return made


@pytest.fixture
def prefix(
    macros: Macros,
    lake: Duck,
    relations: dict[str, Any],
    keys: list[dict[str, str]],
    make_state: Callable[..., Any],
) -> Callable[..., list[Key]]:
    """Return the keys that the prefix scan of a state reads.

    Null keys are only included on request.
    """

    def prefix(with_null_keys: bool = False, **state: Any) -> list[Key]:
        sql = macros.call(
            "get_prefix_scan_sql", "lake.up", make_state(**state), relations, keys, with_null_keys
        )
        return _in_order(lake.rows(sql), with_null_keys)

    return prefix


@pytest.fixture
def range_(
    macros: Macros,
    lake: Duck,
    relations: dict[str, Any],
    keys: list[dict[str, str]],
    make_plan: Callable[..., Any],
    make_state: Callable[..., Any],
) -> Callable[..., list[Key]]:
    """Return the keys that the range scan of a plan reads.

    Null keys are only included on request.
    """

    def range_(with_null_keys: bool = False, uniform: bool = True, **plan: Any) -> list[Key]:
        state = make_state(uniform=uniform)
        sql = macros.call(
            "get_range_scan_sql",
            "lake.up",
            make_plan(**plan),
            state,
            relations,
            keys,
            with_null_keys,
        )
        return _in_order(lake.rows(sql), with_null_keys)

    return range_


# -- the prefix -------------------------------------------------------------------------------


def test_the_prefix_of_one_position_is_all_keys_up_to_it(prefix: Callable[..., Any]) -> None:
    assert prefix(position=["3", "1"]) == [key for key in KEYS if key <= (3, 1)]


def test_nothing_is_in_the_prefix_before_the_backfill_has_started(
    prefix: Callable[..., Any],
) -> None:
    assert prefix(position=None) == []


def test_the_whole_upstream_is_in_the_prefix_of_a_finished_backfill(
    prefix: Callable[..., Any],
) -> None:
    read = prefix(with_null_keys=True, position=None, finished=True, any_finished=True)

    assert read == KEYS + NULL_KEYS


def test_each_vnode_has_its_own_prefix_where_positions_differ(
    prefix: Callable[..., Any], vnode_of: Callable[..., int]
) -> None:
    expected = [
        key
        for key in KEYS
        for position in [POSITIONS[vnode_of(key, VNODES)]]
        if position == "end" or (position is not None and key <= position)
    ]

    assert {POSITIONS[vnode_of(key, VNODES)] for key in KEYS} == set(POSITIONS)
    assert prefix(uniform=False, position=None) == expected


@pytest.mark.parametrize("position", [["3", "1"], None])
def test_null_keys_are_read_along_where_they_are_to_be_counted(
    prefix: Callable[..., Any], position: list[str] | None
) -> None:
    with_nulls = prefix(with_null_keys=True, position=position)

    assert with_nulls == prefix(position=position) + NULL_KEYS


def test_null_keys_are_read_along_where_positions_differ_too(prefix: Callable[..., Any]) -> None:
    with_nulls = prefix(with_null_keys=True, uniform=False, position=None)

    assert [key for key in with_nulls if None in key] == NULL_KEYS


def test_the_data_is_not_hashed_while_all_vnodes_agree(
    macros: Macros, relations: Any, keys: Any, make_state: Callable[..., Any]
) -> None:
    sql = macros.call("get_prefix_scan_sql", "lake.up", make_state(), relations, keys)

    assert "hash" not in sql and "join" not in sql


def test_the_columns_of_a_joined_progress_table_stay_out_of_the_scan(
    macros: Macros, lake: Duck, relations: Any, keys: Any, make_state: Any
) -> None:
    sql = macros.call("get_prefix_scan_sql", "lake.up", make_state(uniform=False), relations, keys)

    assert {tuple(row) for row in lake.records(sql)} == {("id", "shard")}


# -- the range --------------------------------------------------------------------------------


def test_a_range_is_open_below_and_closed_above(range_: Callable[..., Any]) -> None:
    read = range_(range_low=["1", "2"], range_high=["5", "1"])

    assert read == [key for key in KEYS if (1, 2) < key <= (5, 1)]


def test_the_first_range_begins_at_the_start(range_: Callable[..., Any]) -> None:
    assert range_(range_low=None, range_high=["2", "0"]) == [k for k in KEYS if k <= (2, 0)]


def test_the_last_range_is_open_above(range_: Callable[..., Any]) -> None:
    """If range_high has a key, this key is only the next position."""
    read = range_(range_low=["5", "1"], range_high=["5", "1"], last_range=True)

    assert read == [key for key in KEYS if key > (5, 1)]


def test_a_range_that_is_first_and_last_is_everything_with_a_key(
    range_: Callable[..., Any],
) -> None:
    read = range_(with_null_keys=True, range_low=None, range_high=None, last_range=True)

    assert read == KEYS + NULL_KEYS


def test_null_keys_of_a_range_are_read_along_where_they_are_to_be_counted(
    range_: Callable[..., Any],
) -> None:
    bounds = {"range_low": ["1", "2"], "range_high": ["5", "1"]}

    assert range_(with_null_keys=True, **bounds) == range_(**bounds) + NULL_KEYS


def test_ranges_that_follow_each_other_read_every_key_once(range_: Callable[..., Any]) -> None:
    bounds = [None, ["0", "2"], ["4", "0"], ["4", "1"], None]
    read = [
        key
        for low, high in pairwise(bounds)
        for key in range_(range_low=low, range_high=high, last_range=high is None)
    ]

    assert read == KEYS


@pytest.mark.parametrize("last_range", [False, True])
@pytest.mark.parametrize("vnodes", [[0, 1, 3], [0], [1], [3, 0]])
def test_selected_vnodes_are_read_each_from_its_own_position(
    range_: Callable[..., Any],
    vnode_of: Callable[..., int],
    vnodes: list[int],
    last_range: bool,
) -> None:
    started = [POSITIONS[vnode] for vnode in vnodes]
    low = None if None in started else [str(value) for value in min(started)]
    expected = [
        key
        for key in KEYS
        for vnode in [vnode_of(key, VNODES)]
        if vnode in vnodes
        and (POSITIONS[vnode] is None or key > POSITIONS[vnode])
        and (last_range or key <= (6, 1))
    ]

    read = range_(
        uniform=False, vnodes=vnodes, range_low=low, range_high=["6", "1"], last_range=last_range
    )

    assert read == expected != []


def test_selected_vnodes_that_agree_are_read_from_their_one_position(
    range_: Callable[..., Any], vnode_of: Callable[..., int]
) -> None:
    """The scan must not read the progress table, which has other positions in this test."""
    read = range_(vnodes=[1, 2], range_low=["1", "2"], range_high=["5", "1"])

    expected = [k for k in KEYS if (1, 2) < k <= (5, 1) and vnode_of(k, VNODES) in [1, 2]]
    assert read == expected != []


@pytest.mark.parametrize("uniform", [True, False])
def test_a_null_key_is_looked_for_in_the_selected_vnodes_only(
    range_: Callable[..., Any], vnode_of: Callable[..., int], uniform: bool
) -> None:
    read = range_(
        with_null_keys=True,
        uniform=uniform,
        vnodes=[0, 1],
        range_low=None,
        range_high=["6", "1"],
    )

    expected = [key for key in NULL_KEYS if vnode_of(key, VNODES) in [0, 1]]
    assert [key for key in read if None in key] == expected
