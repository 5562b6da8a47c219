"""Fixtures of the macros' unit tests: samples, and DuckDB, which runs the rendered SQL.

A predicate, a scan or a statement is compared with its definition, not with its text.
"""

from __future__ import annotations

import functools
import json
import re
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from datetime import datetime
from types import SimpleNamespace
from typing import Any

import pytest
from dbt.adapters.spark.relation import SparkRelation
from dbt_common.exceptions import CompilationError

from support.duck import Duck
from support.macros import Macros


@pytest.fixture
def render(macros: Macros) -> Callable[..., str]:
    """Return the SQL of a macro. Any white space becomes one space."""
    return lambda name, *args, **kwargs: " ".join(macros.call(name, *args, **kwargs).split())


@pytest.fixture
def refused() -> Callable[[str], AbstractContextManager[None]]:
    """Return a context manager.

    `with refused(fact):` passes if the block raises a refusal that names the model and begins with
    this fact.
    """

    @contextmanager
    def refused(fact: str) -> Iterator[None]:
        with pytest.raises(CompilationError) as raised:
            yield
        message = str(raised.value.msg)
        assert message[: len(fact) + 18] == f"backfilled_mv mv: {fact}", message
        # Every refusal says what the user should change, and its second line is where to read more.
        lines = r"backfilled_mv mv: .+\. \w.+\.\nSee docs/messages\.md#[a-z]+(-[a-z]+)+"
        assert re.fullmatch(lines, message), message

    return refused


# -- samples ----------------------------------------------------------------------------------


@pytest.fixture
def up() -> SparkRelation:
    return SparkRelation.create(schema="lake", identifier="up")


@pytest.fixture
def relations(macros: Macros) -> dict[str, Any]:
    return macros.call("get_relations", macros.relation)


@pytest.fixture
def keys() -> list[dict[str, str]]:
    """Return a key of two columns.

    The first one has another name in the MV than in the upstream.
    """
    return [
        {"name": "k", "upstream": "id", "type": "bigint", "position": "id"},
        {"name": "shard", "upstream": "shard", "type": "int", "position": "shard"},
    ]


@pytest.fixture
def descending(keys: list[dict[str, str]]) -> list[dict[str, str]]:
    """Return the same key for a descending backfill."""
    return [{**key, "order": "descending"} for key in keys]


@pytest.fixture
def make_source() -> Callable[..., dict[str, Any]]:
    """Return a source of a plan, by default the upstream. The value None removes an entry."""

    def make(**changes: Any) -> dict[str, Any]:
        source = {
            "role": "upstream",
            "relation": "lake.up",
            "kind": "delta",
            "id": "u1",
            "version": "17",
            "committed_at": f"2024-05-01 10:{changes.get('version') or 17:0>2}:00",
        }
        return {name: value for name, value in {**source, **changes}.items() if value is not None}

    return make


@pytest.fixture
def make_plan(
    keys: list[dict[str, str]], make_source: Callable[..., dict[str, Any]]
) -> Callable[..., dict[str, Any]]:
    """Return a plan as it is read back: null values are absent. The value None removes an entry."""

    def make(**changes: Any) -> dict[str, Any]:
        plan = {
            "epoch": 3,
            "plan_id": "p3",
            "backfill_id": "b1",
            "kind": "advance",
            "sources": [make_source()],
            "upstream_row_count": 100,
            "range_low": ["1", "2"],
            "range_high": ["5", "6"],
            "last_range": False,
            "vnode_row_counts": {"0": 1},
            "range_row_count": 4,
            "next_bounds": [["7", "8"]],
            "bounds_complete": True,
            "query": "select id as k, shard from `up`",
            "query_hash": "h1",
            "query_columns": "k: bigint, shard: int",
            "settings": {"spark.sql.timestampType": "TIMESTAMP_LTZ"},
            "key": keys,
            "vnode_count": 4,
            "backfill_mode": "arrangement",
            "backfill_rate_limit": 10,
        }
        return {name: value for name, value in {**plan, **changes}.items() if value is not None}

    return make


@pytest.fixture
def make_state(
    make_plan: Callable[..., dict[str, Any]], make_source: Callable[..., dict[str, Any]]
) -> Callable[..., dict[str, Any]]:
    """Return a state as read_state returns it. The value None removes an entry."""

    def make(**changes: Any) -> dict[str, Any]:
        state = {
            "epoch": 2,
            "last_epoch": 2,
            "row_count": 40,
            "upstream_version": "16",
            "dirty": False,
            "finished": False,
            "any_finished": False,
            "rows": 4,
            "uniform": True,
            "position": ["1", "2"],
            "committed": make_plan(epoch=2, plan_id="p2", sources=[make_source(version="16")]),
            "written": 2,
            "settings": {"spark.sql.session.timeZone": "UTC", "spark.sql.ansi.enabled": "false"},
        }
        return {name: value for name, value in {**state, **changes}.items() if value is not None}

    return make


@pytest.fixture
def stored(make_state: Callable[..., dict[str, Any]]) -> Callable[..., str]:
    """Return the row from which read_state makes such a state.

    The last plan ends at the state's position.
    """

    def stored(**changes: Any) -> str:
        state = make_state(**changes)
        end = "range_low" if state["dirty"] else "range_high"
        last = {**state.pop("committed"), end: state.pop("position", None)}
        if "planned" in state:
            state["plan"] = json.dumps(state.pop("planned"))
        return json.dumps({**state, "last": json.dumps(last)})

    return stored


@pytest.fixture
def options() -> dict[str, Any]:
    return {
        "unique_key": ["k", "shard"],
        "upstream_key": None,
        "volatile_columns": None,
        "backfill_rate_limit": 10,
        "barriers_per_run": 1,
        "backfill_mode": "arrangement",
        "vnode_count": 4,
        "backfill_vnodes": None,
        "backfill_order": "ascending",
        "backfill_partitions": 1,
        "check_key": True,
        "on_query_change": "fail",
        "on_schema_change": "ignore",
        "on_gap": "reanchor",
        "on_foreign_write": "reanchor",
        "full_refresh_mode": "in_place",
        "live_view": False,
        "file_format": "delta",
        "change_feed": None,
        "run_minutes": None,
        "run_rows": None,
        "barrier_seconds": None,
        "take_turns": False,
        "replicate": "auto",
        "replica_rows": None,
        "compact_every": None,
        "sort_when_finished": False,
    }


@pytest.fixture
def staged() -> dict[str, Any]:
    """Return the staged changes that the script of a plan reports if there are no changes."""
    return {
        "name": "`stage`", "upserts": 0, "drops": 0, "low": None, "high": None, "suspects": 0,
        "reread": {"count": 0},
    }  # fmt: skip


@pytest.fixture
def analysis(macros: Macros, keys: list[dict[str, str]]) -> dict[str, Any]:
    """Return the analysis of the query of `backfill`; see new_analysis."""
    return {
        **macros.call("new_analysis"),
        "explained": True,
        "key": [{name: key[name] for name in ("name", "upstream", "type")} for key in keys],
        "columns": "k: bigint, shard: int",
    }


@pytest.fixture
def observed(up: SparkRelation) -> dict[str, Any]:
    """Return the upstream of `backfill`, as observe_upstream returns it."""
    return {"relation": up, "version": "17", "id": "u1", "log": []}


@pytest.fixture
def backfill(
    relations: dict[str, Any],
    options: dict[str, Any],
    up: SparkRelation,
) -> dict[str, Any]:
    return {
        **relations,
        "options": options,
        "upstream": {"relation": up, "kind": "delta"},
        "feed": None,
        "sql": "select id as k, shard from lake.up",
        "query": "select id as k, shard from `up`",
        "query_hash": "h1",
        "started_at": datetime.now(),
        "controls_of": None,
        "generation": None,
        "source": None,
    }


# -- Spark's SQL, run in DuckDB ---------------------------------------------------------------


@pytest.fixture
def duck() -> Iterator[Duck]:
    """Yield DuckDB as a small Spark: it has tables and runs the SQL that macros render."""
    duck = Duck()
    yield duck
    duck.close()


@pytest.fixture(scope="session")
def vnode_of() -> Callable[..., int]:
    """Return the vnode of a key that consists of a bigint and an int."""
    duck = Duck()

    @functools.cache
    def vnode_of(key: tuple[int | None, int | None], vnode_count: int) -> int:
        [(vnode,)] = duck.rows(
            "select pmod(xxhash64(cast(id as bigint), cast(shard as int)), vnode_count)",
            id=key[0], shard=key[1], vnode_count=vnode_count,
        )  # fmt: skip
        return int(vnode)

    return vnode_of


@pytest.fixture
def no_questions(macros: Macros) -> None:
    """Make all checks of the session and of the catalog in a first run succeed."""
    for name in ("read_settings", "check_settings", "run_check_of_store", "read_result_settings"):
        macros.stub(name, lambda *arguments: {})


@pytest.fixture
def create(macros: Macros, backfill: Any, analysis: Any, no_questions: None) -> Any:
    """Create an MV whose query returns these columns. Return the statement."""
    macros.context["model"] = SimpleNamespace(name="mv", unique_id="model.p.mv")
    for clause in ("partition_cols", "clustered_cols"):
        macros.context[clause] = lambda label: ""
    macros.context["options_clause"] = lambda: ""

    def create(*columns: str, is_ours: bool = True) -> str:
        names = [{"name": name, "type": "int"} for name in columns]
        macros.stub("get_query_columns", lambda query: names)
        macros.results = [[[json.dumps({"created_id": "b1", "is_ours": is_ours})]]]
        macros.stub("analyze_query", lambda *_: analysis)
        macros.stub("read_table_properties", lambda relation: {"dbt_backfill.id": "b1"})
        state = macros.call("observe_missing", backfill, {})["state"]
        macros.call("create_backfill", backfill, state)
        (statement,) = macros.statements
        return statement.sql

    return create


@pytest.fixture
def followed(make_source: Any) -> Any:
    """Return the sources of a plan with a change table. By default it is read up to version 7."""

    def followed(version: str = "7", definition: str = "the feed") -> list[dict[str, Any]]:
        noted = {"relation": "lake.changes", "kind": "iceberg", "id": "f1", "version": version}
        return [make_source(), make_source(role="feed", definition=definition, **noted)]

    return followed


@pytest.fixture
def feed(backfill: Any) -> dict[str, Any]:
    relation = backfill["mv"].incorporate(path={"identifier": "changes"})
    return {"relation": relation, "kind": "iceberg"}


@pytest.fixture
def iceberg(macros: Macros) -> None:
    macros.config["file_format"] = "iceberg"
