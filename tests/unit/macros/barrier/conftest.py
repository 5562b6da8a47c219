"""The progress table, in which a barrier's fences and state changes are executed."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest

from support.duck import Duck, RaisedError
from support.macros import Macros

COLUMNS = {
    "vnode": "int",
    "epoch": "bigint",
    "backfill_finished": "boolean",
    "row_count": "bigint",
    "upstream_version": "string",
    "dirty": "boolean",
    "plan_id": "string",
    "plan_kind": "string",
    "plan": "string",
    "last": "string",
    "unwritten": "array<string>",
    "id": "bigint",
    "shard": "int",
}


class Progress:
    """The progress table of the MV, with the rows that a test gives it."""

    def __init__(self, macros: Macros, duck: Duck) -> None:
        self._macros, self._duck = macros, duck
        self._duck.create("lake.mv__progress", COLUMNS)

    def fill(self, *vnodes: dict[str, Any], **everywhere: Any) -> None:
        """Write the rows of the vnodes 0, 1, …, by default of two. The state is at epoch 2."""
        row = {"epoch": 2, "backfill_finished": False, "row_count": 0, "upstream_version": "16"}
        row |= {"dirty": False, **everywhere}
        rows = []
        for vnode, own in enumerate(vnodes or ({}, {})):
            values = {"vnode": vnode, **row, **own}
            if vnode:
                values |= {"plan": None, "last": None, "unwritten": None}
            rows.append([values.get(name) for name in COLUMNS])
        self._duck.create("lake.mv__progress", COLUMNS, rows)

    def read(self, *names: str) -> list[Any]:
        """Return these columns of the rows of all vnodes."""
        rows = self._duck.rows(f"select {', '.join(names)} from lake.mv__progress order by vnode")
        return [row[0] for row in rows] if len(names) == 1 else rows

    def unwritten(self) -> list[Any]:
        return [json.loads(barrier) for barrier in self.read("unwritten")[0]]

    def fence(self, fence: str) -> Any:
        """Evaluate a fence. Return true, or the error that the fence raises."""
        try:
            [(passes,)] = self._duck.rows(f"select {fence}")
        except RaisedError as error:
            return str(error)
        return passes

    def run(self, sql: str) -> int:
        """Execute a statement that was sent. Return how many rows it changes."""
        return self._duck.execute(sql)

    def move(self, transition: str, *arguments: Any, **values: Any) -> int:
        """Execute the statements of a macro that changes the state. Return how many rows they
        change.

        If the macro returns no text, its last sent statement is executed. `values` are SQL
        variables, as JSON.
        """
        sql = self._macros.call(transition, *arguments)
        if not isinstance(sql, str):
            sql = self._macros.statements[-1].sql
        return self._duck.execute(
            sql, **{name: json.dumps(value) for name, value in values.items()}
        )


@pytest.fixture
def progress(macros: Macros, duck: Duck) -> Progress:
    return Progress(macros, duck)


@pytest.fixture
def with_plan(make_plan: Callable[..., Any]) -> Callable[..., dict[str, Any]]:
    """Return the columns of the progress table while this plan exists."""

    def with_plan(**changes: Any) -> dict[str, Any]:
        plan = make_plan(**{"invocation_id": "run7", "planned_at": "noon", **changes})
        return {
            "plan_id": plan["plan_id"], "plan_kind": plan["kind"], "plan": json.dumps(plan)
        }  # fmt: skip

    return with_plan
