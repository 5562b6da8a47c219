"""The progress table in SQLite: the fences and transitions of a barrier are executed over it."""

from __future__ import annotations

import json
import re
import sqlite3
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import pytest

from support.macros import Macros

COLUMNS = [
    "vnode", "epoch", "backfill_finished", "row_count", "upstream_version", "dirty", "plan_id",
    "plan_kind", "plan", "last", "unwritten", "id", "shard",
]  # fmt: skip
NESTED = "json:"  # as in the SQLite of all tests


class Progress:
    """What Spark spells otherwise is put into SQLite's words; the rest is executed as it is."""

    def __init__(self, macros: Macros, sqlite: sqlite3.Connection) -> None:
        self._macros, self._sqlite = macros, sqlite
        self._guarded: list[str] = []
        self._errors: list[str] = []
        sqlite.execute(f"create table lake.mv__progress ({', '.join(COLUMNS)})")
        functions: dict[str, Callable[..., Any]] = {
            "array_append": lambda array, value: NESTED + json.dumps([*_list(array), value]),
            "barriers_after": _barriers_after,
            "get_json_object": lambda text, path: text and json.loads(text).get(path[2:]),
            "left_": lambda text, length: text and text[:length],
            "map_value": lambda text, key: json.loads(text).get(str(key)),
            "raise_error": self._raise_error,
        }
        for name, function in functions.items():
            sqlite.create_function(name, -1, function)

    def fill(self, *vnodes: dict[str, Any], **everywhere: Any) -> None:
        """Rows of the vnodes 0, 1, …, two unless there are more; the state is in the epoch 2."""
        row = {"epoch": 2, "backfill_finished": 0, "row_count": 0, "upstream_version": "16"}
        row |= {"dirty": 0, **everywhere}
        self._sqlite.execute("delete from lake.mv__progress")
        for vnode, own in enumerate(vnodes or ({}, {})):
            values = {"vnode": vnode, **row, **own}
            if vnode:
                values |= {"plan": None, "last": None, "unwritten": None}
            names, places = ", ".join(values), ", ".join("?" * len(values))
            self._sqlite.execute(
                f"insert into lake.mv__progress ({names}) values ({places})", list(values.values())
            )

    def read(self, *names: str) -> list[Any]:
        """These columns of every vnode."""
        rows = self._sqlite.execute(
            f"select {', '.join(names)} from lake.mv__progress order by vnode"
        ).fetchall()
        return [row[0] for row in rows] if len(names) == 1 else rows

    def unwritten(self) -> list[Any]:
        return [json.loads(barrier) for barrier in _list(self.read("unwritten")[0])]

    def fence(self, fence: str) -> Any:
        """What a fence gives: 1, or the error that it raises."""
        try:
            return self._sqlite.execute(f"select {fence}").fetchone()[0]
        except sqlite3.OperationalError:
            return self._errors[-1]

    def move(self, transition: str, *arguments: Any, **texts: Any) -> int:
        """Render a transition and send its statement; how many rows it has changed.

        `texts` are what the variables hold that it has literals of.
        """
        sent: list[str] = []
        self._macros.stub("get_guarded_update_sql", lambda *given: sent.append(given[1]) or "")
        self._macros.call(transition, *arguments)
        (sql,) = sent
        for name, text in texts.items():
            assert f"__bf_{name}__" in sql
            sql = sql.replace(f"__bf_{name}__", "'" + json.dumps(text).replace("'", "''") + "'")
        assert "__bf_" not in sql
        return self._sqlite.execute(_in_sqlite(sql)).rowcount

    def _raise_error(self, message: str | None) -> None:
        self._errors.append(str(message))
        raise ValueError


def _in_sqlite(sql: str) -> str:
    sql = sql.replace("left(", "left_(")
    sql = re.sub(
        r"filter\((.*?), barrier -> "
        r"cast\(get_json_object\(barrier, '\$\.epoch'\) as bigint\) > (-?\d+)\)",
        r"barriers_after(\1, \2)",
        sql,
    )
    return re.sub(
        r"from_json\(('.*?'), 'map<string, bigint>'\)\[(.*?)\]", r"map_value(\1, \2)", sql
    )


def _list(array: str | None) -> list[Any]:
    return json.loads(array.removeprefix(NESTED)) if array else []


def _barriers_after(barriers: str, epoch: int) -> str:
    kept: Iterable[str] = (text for text in _list(barriers) if text)
    return NESTED + json.dumps([text for text in kept if json.loads(text)["epoch"] > epoch])


@pytest.fixture
def progress(macros: Macros, sqlite: sqlite3.Connection) -> Progress:
    return Progress(macros, sqlite)


@pytest.fixture
def with_plan(make_plan: Callable[..., Any]) -> Callable[..., dict[str, Any]]:
    """The columns of the progress table while such a plan stands."""

    def with_plan(**changes: Any) -> dict[str, Any]:
        plan = make_plan(**{"invocation_id": "run7", "planned_at": "noon", **changes})
        return {
            "plan_id": plan["plan_id"], "plan_kind": plan["kind"], "plan": json.dumps(plan)
        }  # fmt: skip

    return with_plan


@pytest.fixture
def sent(macros: Macros) -> Callable[[], Sequence[str]]:
    """The statements that were sent, with one space for any white space."""
    return lambda: [" ".join(statement.sql.split()) for statement in macros.statements]
