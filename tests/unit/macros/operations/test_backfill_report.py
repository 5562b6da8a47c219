"""The lines of which `dbt-backfill report` makes a page; what Spark says, tests/functional has."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from typing import Any

import pytest
from dbt_common.exceptions import CompilationError

from support.macros import Macros


@pytest.fixture(autouse=True)
def invocation(macros: Macros) -> None:
    macros.context["project_name"] = "ours"
    macros.context["run_started_at"] = datetime(2026, 1, 1, tzinfo=UTC)


def backfill(macros: Macros, model: str, why: str | None = None, **more: Any) -> dict[str, Any]:
    mv = macros.relation.incorporate(path={"identifier": model})
    found = {
        "model": model, "generation": None, "relations": macros.call("get_relations", mv),
        "why": why, "has_history": True, "has_controls": False, "ruled_by": mv.render(),
        "rate_limit": None,
    }  # fmt: skip
    return {**found, **more}


def printed(macros: Macros) -> list[dict[str, Any]]:
    macros.call("backfill_report")
    return [json.loads(line) for line in macros.logged]


HEAD = {"project": "ours", "target": "test", "read_at": "2026-01-01T00:00:00+00:00"}


def test_a_project_without_a_state_asks_spark_nothing(macros: Macros) -> None:
    found = [backfill(macros, "orders", "it has not run yet")]
    macros.stub("find_backfills", lambda models: found)

    assert printed(macros) == [
        {**HEAD, "mvs": 1},
        {"model": "orders", "generation": None, "why": "it has not run yet"},
    ]
    assert macros.statements == []


def test_each_mv_has_its_own_rows(macros: Macros) -> None:
    found = [
        backfill(macros, "orders", has_controls=True),
        backfill(macros, "people", has_history=False),
    ]
    macros.stub("find_backfills", lambda models: found)
    macros.stub("find_lags", lambda rows: rows)
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
