"""The progress of MVs: a select for a user's model, and the table that a run-operation prints."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest
from dbt_common.exceptions import CompilationError

from support.macros import Config as Options
from support.macros import Macros, Table

OURS = {"dbt_backfill.id": "b1", "dbt_backfill.format": "2"}
OPERATION = {"which": "run-operation", "macro": "dbt_backfill.backfill_progress"}


class Config(Options):
    """The config of a node. Its options are also attributes."""

    def __getattr__(self, name: str) -> Any:
        return self[name]


def node(name: str, materialized: str = "backfilled_mv") -> dict[str, Any]:
    return {
        "unique_id": f"model.ours.{name}",
        "package_name": "ours",
        "resource_type": "model",
        "name": name,
        "alias": name,
        "schema": "lake",
        "config": Config(materialized=materialized, backfill_rate_limit=10),
    }


@pytest.fixture
def project(macros: Macros) -> Callable[..., None]:
    """Return the models `orders`, `people` and `plain`. The tables have these properties."""

    def project(tables: dict[str, dict[str, str]]) -> None:
        nodes = [node("people"), node("orders"), node("plain", "table")]
        macros.context["graph"] = SimpleNamespace(
            nodes={each["unique_id"]: SimpleNamespace(**each, get=each.get) for each in nodes}
        )
        macros.tables = {
            f"lake.{name}": Table(properties=properties) for name, properties in tables.items()
        }

    return project


@pytest.fixture
def select(macros: Macros) -> Callable[..., str]:
    return lambda *args, **kwargs: " ".join(
        macros.call("backfill_progress", *args, **kwargs).split()
    )


@pytest.mark.parametrize("invocation", [{}, OPERATION])
@pytest.mark.parametrize("name", ["backfill_progress", "backfill_progress_by_vnode"])
def test_while_dbt_parses_nothing_is_asked_and_the_columns_are_there(
    macros: Macros, name: str, invocation: Any
) -> None:
    """dbt has no graph while it parses. A run-operation also begins with parsing the models."""
    macros.context["execute"] = False
    macros.context["invocation_args_dict"] = invocation
    sql = macros.call(name)

    assert sql.startswith("select cast(null as string) as model, ")
    assert sql.endswith(" from range(0)")
    assert macros.statements == []


def test_without_a_state_there_is_no_row_but_the_columns(
    macros: Macros, project: Any, select: Any
) -> None:
    project({})

    nulls = [
        f"cast(null as {type}) as {name}"
        for name, type in macros.call("progress_of_mv_columns").items()
    ]
    assert select() == f"select {', '.join(nulls)} from range(0)"


def test_every_mv_with_a_state_is_read_and_its_next_generation(project: Any, select: Any) -> None:
    """The select also reads the history and controls, if they exist. It does not read another
    writer's table with such a name.
    """
    project({
        "orders__progress": OURS, "orders__barriers": {}, "orders__controls": OURS,
        "orders__next__progress": {**OURS, "dbt_backfill.next_of": "b1"},
        "people__progress": OURS, "people__controls": {}, "people__next__progress": OURS,
    })  # fmt: skip

    assert set(re.findall(r"from (lake\.\w+)", select())) == {
        "lake.orders__progress", "lake.orders__barriers", "lake.orders__controls",
        "lake.orders__next__progress", "lake.people__progress",
    }  # fmt: skip


@pytest.mark.parametrize("models", ["orders", ["orders"], ["ours.orders"]])
def test_models_can_be_named(project: Any, select: Any, models: Any) -> None:
    project({"orders__progress": OURS, "people__progress": OURS})

    assert "lake.people" not in select(models)
    assert "lake.people" not in select(model=models)


@pytest.mark.parametrize("properties", [{}, {"dbt_backfill.id": "b1", "dbt_backfill.format": "1"}])
def test_a_table_that_is_no_state_of_this_format_is_left_out(
    project: Any, select: Any, properties: dict[str, str]
) -> None:
    project({"orders__progress": properties, "people__progress": OURS})

    assert "lake.orders" not in select()


def test_what_is_no_argument_is_refused(macros: Macros, project: Any) -> None:
    project({})
    for arguments, fact in [
        ({"mdoel": "x"}, "has no argument 'mdoel'"),
        ({"by": "day"}, 'by is "day"'),
        ({"models": ["nothing"]}, "there is no model of this name"),
        ({"models": "plain"}, "its materialization is 'table'"),
    ]:
        with pytest.raises(CompilationError) as raised:
            macros.call("backfill_progress", **arguments)
        assert fact in str(raised.value.msg)


# -- the table ----------------------------------------------------------------------------------


def row(model: str, **changes: Any) -> dict[str, Any]:
    """Return a row of the select for an MV in the middle of its backfill.

    Null values are absent.
    """
    found = {
        "model": model, "relation": f"lake.{model}", "backfill_finished": False, "progress": 0.4,
        "row_count": 400, "upstream_row_count": 1000, "rows_left": 600, "rows_per_second": 120.0,
        "seconds_left": 5.0, "epoch": 4, "upstream_version": "7", "vnode_count": 4,
        "vnodes_finished": 0, "sweeping": False, "ruled_by": "config", "rate_limit": 10,
    }  # fmt: skip
    return {name: value for name, value in {**found, **changes}.items() if value is not None}


@pytest.fixture
def printed(macros: Macros, project: Any) -> Callable[..., list[str]]:
    """Return the printed table of these rows. `lags` are the lags of the upstreams."""

    def printed(
        *rows: dict[str, Any], lags: Any = (), tables: Any = ("orders",), **arguments: Any
    ) -> list[str]:
        project({f"{table}__progress": OURS for table in tables})
        macros.context["invocation_args_dict"] = OPERATION
        left = list(lags)
        macros.stub("_find_lag", lambda source: left.pop(0) if left else None)
        ages = [[json.dumps([300] * len(rows))]]
        macros.results = [[[json.dumps(row)] for row in rows], ages]
        assert macros.call("backfill_progress", **arguments) == ""
        return macros.logged

    return printed


def test_the_operation_prints_a_table_of_80_columns(printed: Any) -> None:
    behind = {"versions": 2, "since": "2024-05-01 10:00:00"}
    lines = printed(
        row("orders"),
        row("orders", generation="next", progress=0.0, row_count=0, upstream_row_count=None,
            rows_per_second=None, seconds_left=None, upstream_version=None),
        row("a_model_with_a_very_long_name", backfill_finished=True, progress=1.0,
            row_count=6_000_000_000, rows_per_second=None, seconds_left=0),
        lags=[behind, None, {"versions": 0, "since": None}],
        tables=("orders", "people"),
    )  # fmt: skip

    assert lines == [
        "model                    done                rows   rows/s     left       behind",
        "orders                 40.0 %        400 of 1,000      120      5 s    2 (5 min)",
        "orders (next)           0.0 %                   0",
        "a_model_with_a_very…  100.0 %               6.0 G                              0",
    ]
    assert max(map(len, lines)) == 80


def test_what_is_unusual_stands_beneath(printed: Any) -> None:
    lines = printed(
        row("orders", sweeping=True, planned="advance", vnodes_finished=1),
        row("people", filling="name, city"),
    )

    assert lines[2:5] == [
        "  sweeps: its earlier rows are compared with the query",
        "  barrier 5 is planned (advance): a run is at work, or the next run continues it",
        "  1 of 4 vnodes have finished",
    ]
    assert lines[1].endswith(" ?")  # the lag is unknown
    assert lines[6] == "  fills name, city"
    assert lines[7] == "people: it has not run yet"


@pytest.mark.parametrize(
    ("ruled", "note"),
    [
        (
            {"ruled_by": "pause", "rate_limit": 0, "set_by": "alice", "set_since": "noon"},
            "  paused by alice since noon",
        ),
        (
            {"ruled_by": "throttle", "rate_limit": 1000, "set_by": "bob", "set_since": "noon"},
            "  throttled to 1,000 rows by bob since noon",
        ),
        ({"rate_limit": 0}, "  paused by its config: backfill_rate_limit is 0"),
    ],
)
def test_what_rules_it_stands_beneath(printed: Any, ruled: Any, note: str) -> None:
    lines = printed(row("orders", **ruled), tables=("orders", "people"))

    assert lines[2:] == [note]


def test_vnodes_have_a_table_of_their_own(printed: Any) -> None:
    vnode = row("orders", vnode=0, current_pos='{"id":17}')
    finished = row("orders", vnode=1, backfill_finished=True, progress=1.0)

    assert printed(vnode, finished, by="vnode")[:4] == [
        "orders, barrier 4",
        "vnode      done                     rows  position",
        '0        40.0 %       400 of about 1,000  {"id":17}',
        "1       100.0 %                      400  end",
    ]


def test_a_project_without_mvs_is_told_so(macros: Macros) -> None:
    macros.context["graph"] = SimpleNamespace(nodes={})
    macros.context["invocation_args_dict"] = OPERATION
    macros.call("backfill_progress")

    assert macros.logged == ["no model of this project has the materialization backfilled_mv"]


def test_an_operation_of_the_users_own_gets_the_select(
    macros: Macros, project: Any, select: Any
) -> None:
    project({"orders__progress": OURS})
    macros.context["invocation_args_dict"] = {**OPERATION, "macro": "alert"}

    assert select().startswith("with states as (")


# -- how far an MV is behind its upstream -------------------------------------------------------

SOURCE = {"relation": "lake.up", "kind": "delta", "id": "u1", "version": "5"}


@pytest.mark.parametrize(
    ("source", "exists", "found"),
    [
        (SOURCE, True, "asked"),
        (SOURCE, False, None),
        ({**SOURCE, "kind": "iceberg"}, True, None),
        ({"relation": "lake.up", "kind": "delta"}, True, None),
        (None, True, None),
    ],
)
def test_the_upstream_is_asked_if_it_is_there(
    macros: Macros, source: Any, exists: bool, found: Any
) -> None:
    if exists:
        macros.tables["lake.up"] = Table()
    macros.answer("read_upstream", lambda upstream, source: "read")
    macros.answer("upstream_lag", lambda observed, source: "asked")

    assert macros.call("_find_lag", source) == found


def test_the_age_of_what_is_missing_is_told_by_one_statement(macros: Macros) -> None:
    lags = [{"versions": 0, "since": None}, {"versions": 2, "since": "noon"}, None]
    macros.stub("_find_lag", lambda source: lags.pop(0))
    states = [[json.dumps(row(name))] for name in "abc"]
    macros.results = [states, [["[null, 300, null]"]]]
    rows = macros.call("read_progress_and_lags", [])

    assert [(r["behind"], r["behind_seconds"]) for r in rows] == [(0, None), (2, 300), (None, None)]
    [_, asked] = macros.statements
    assert "try_cast('noon' as timestamp_ltz)" in asked.sql
