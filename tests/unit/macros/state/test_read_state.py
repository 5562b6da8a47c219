"""Reading the committed barrier and the planned barrier."""

from __future__ import annotations

import json
from collections.abc import Callable
from itertools import zip_longest
from typing import Any

import pytest

from support.duck import Duck
from support.macros import Macros


def test_the_state_is_read_in_one_statement(
    macros: Macros, relations: Any, make_state: Callable[..., Any], stored: Callable[..., str]
) -> None:
    macros.results = [[[stored()]]]
    state = macros.call("read_state", relations, {})

    expected = {
        **make_state(),
        "written": None,  # the history was not read
        "committed": {**make_state()["committed"], "range_high": ["1", "2"]},
    }
    assert {name: state[name] for name in expected} == expected
    assert len(macros.statements) == 1


# -- what the state says of all vnodes --------------------------------------------------------


ROW = {"epoch": 2, "row_count": 1, "upstream_version": "16", "backfill_finished": False,
       "dirty": False, "id": 7}  # fmt: skip


@pytest.mark.parametrize(
    ("changes", "told"),
    [
        # Vnodes agree even if their counts differ. Only the first vnode has the barriers.
        ([{"row_count": 5, "last": '{"epoch": 2}', "plan": '{"epoch": 3}'}],
         {"uniform": True, "row_count": 7, "rows": 3, "finished": False, "dirty": False}),
        ([{"id": 8}], {"uniform": False}),
        ([{"id": None}], {"uniform": False}),
        ([{"dirty": True}], {"dirty": True}),
        ([{"backfill_finished": True}],
         {"finished": False, "any_finished": True, "uniform": False}),
        ([{"backfill_finished": True, "id": n} for n in (1, 2, 3)],
         {"finished": True, "uniform": True}),
        ([{"epoch": 1}], {"epoch": 1, "last_epoch": 2}),
    ],
)  # fmt: skip
def test_the_state_is_that_of_all_vnodes(
    macros: Macros, duck: Duck, relations: Any, changes: list[Any], told: dict[str, Any]
) -> None:
    columns = {**macros.call("progress_columns"), "id": "bigint"}
    rows = [{**ROW, "vnode": vnode} for vnode in range(3)]
    rows = [row | change for row, change in zip_longest(rows, changes, fillvalue={})]
    duck.create("lake.mv__progress", columns, [[row.get(n) for n in columns] for row in rows])
    sql = macros.call("get_state_sql", relations)
    [state] = duck.records("select * " + sql[sql.index("from (") :])

    assert {name: state[name] for name in told} == told
    assert [state["last"], state["plan"]] == [changes[0].get("last"), changes[0].get("plan")]


# -- what the statement returned --------------------------------------------------------------


@pytest.fixture
def parse(macros: Macros) -> Callable[..., Any]:
    """Parse the state of a row whose last barrier has the range (low, high]."""
    last = {"epoch": 2, "kind": "advance", "range_low": ["1"], "range_high": ["5"]}

    def parse(**read: Any) -> Any:
        row = {"epoch": 2, "dirty": False, "uniform": True, "last": json.dumps(last)}
        return macros.call("parse_state", {**row, **read})

    return parse


def test_the_last_barrier_and_the_next_one_are_read_from_their_json(
    parse: Callable[..., Any], make_plan: Callable[..., Any]
) -> None:
    last = {**make_plan(epoch=2), "committed_at": "noon", "changed_row_count": 3}
    state = parse(last=json.dumps(last), plan=json.dumps(make_plan()))

    assert (state["committed"], state["planned"]) == (last, make_plan())
    assert parse()["planned"] is None
    assert parse(last=None)["committed"] is None


@pytest.mark.parametrize(
    ("read", "position"),
    [
        ({}, ["5"]),
        ({"dirty": True}, ["1"]),  # the range of a plan that was given up was not read
        ({"uniform": False}, None),
        ({"uniform": False, "dirty": True}, None),
        ({"last": None}, None),
        ({"last": '{"epoch": 0, "kind": "create"}'}, None),
    ],
    ids=["committed", "given up", "vnodes differ", "given up and differ", "damaged", "first"],
)
def test_the_position_is_where_the_range_of_the_committed_plan_ends(
    parse: Callable[..., Any], read: dict[str, Any], position: list[str] | None
) -> None:
    assert parse(**read)["position"] == position


@pytest.mark.parametrize(
    ("state", "started"),
    [
        ({"position": None}, False),
        ({"position": None, "finished": True, "any_finished": True}, True),  # the upstream is empty
        ({}, True),
        ({"position": None, "uniform": False}, True),
    ],
    ids=["not started", "empty", "position", "positions"],
)
def test_something_was_backfilled_if_any_vnode_has_a_position_or_is_finished(
    macros: Macros, make_state: Callable[..., Any], state: Any, started: bool
) -> None:
    assert macros.call("has_started", make_state(**state)) is started
