"""The lines from which `dbt-backfill report` makes a page, without answers from Spark."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from types import SimpleNamespace
from typing import Any

import pytest
from dbt_common.exceptions import CompilationError

from support.macros import Macros, Table


@pytest.fixture(autouse=True)
def invocation(macros: Macros) -> None:
    macros.context["project_name"] = "ours"
    macros.context["run_started_at"] = datetime(2026, 1, 1, tzinfo=UTC)


def node(name: str) -> dict[str, Any]:
    config = {"materialized": "backfilled_mv"}
    return {
        "unique_id": f"model.ours.{name}", "resource_type": "model", "package_name": "ours",
        "name": name, "alias": name, "schema": "lake", "config": config,
    }  # fmt: skip


def printed(macros: Macros) -> list[dict[str, Any]]:
    macros.call("backfill_report")
    return [json.loads(line) for line in macros.logged]


HEAD = {"project": "ours", "target": "test", "read_at": "2026-01-01T00:00:00+00:00"}


def test_a_project_without_a_state_asks_spark_nothing(macros: Macros) -> None:
    macros.context["graph"] = SimpleNamespace(nodes={"model.ours.orders": node("orders")})

    assert printed(macros) == [
        {**HEAD, "mvs": 1},
        {"model": "orders", "generation": None, "why": "it has not run yet"},
    ]
    assert macros.statements == []


def test_each_mv_has_its_own_rows(macros: Macros) -> None:
    nodes = {f"model.ours.{name}": node(name) for name in ("orders", "people")}
    macros.context["graph"] = SimpleNamespace(nodes=nodes)
    ours = Table(properties={"dbt_backfill.id": "b1", "dbt_backfill.format": "2"})
    for name in ("orders__progress", "orders__barriers", "orders__controls", "people__progress"):
        macros.tables[f"lake.{name}"] = ours
    names = ["lake.orders", "lake.people"]
    macros.results = [
        [[json.dumps({"relation": name, "model": name[5:]})] for name in names],
        [[json.dumps({"relation": name, "first_epoch": 1})] for name in names],
        [[json.dumps({"relation": "lake.people", "first_vnode": 0})]],
        [[json.dumps({"relation": "lake.orders", "control": "pause"})]],
    ]
    head, orders, people = printed(macros)

    assert head == {**HEAD, "mvs": 2}
    assert [len(orders[name]) for name in ("barriers", "vnodes", "controls")] == [1, 0, 1]
    assert [len(people[name]) for name in ("barriers", "vnodes", "controls")] == [1, 1, 0]
    barriers, controls = macros.statements[1].sql, macros.statements[3].sql
    assert "from lake.orders__barriers" in barriers and "people__barriers" not in barriers
    assert "from lake.orders__controls" in controls and "people__controls" not in controls


def test_while_dbt_parses_nothing_is_asked(macros: Macros) -> None:
    macros.context["execute"] = False
    assert macros.call("backfill_report") == ""
    assert (macros.logged, macros.statements) == ([], [])


def test_what_is_no_argument_is_refused(macros: Macros) -> None:
    with pytest.raises(CompilationError) as raised:
        macros.call("backfill_report", format="json")
    assert "has no argument 'format'" in str(raised.value.msg)
