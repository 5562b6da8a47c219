"""The tests that users put on a model, as the SQL that dbt runs."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest
from dbt_common.exceptions import CompilationError

from support.macros import Macros


@pytest.fixture(autouse=True)
def lake(macros: Macros) -> None:
    """All three tables exist, and the test runs as a node of its own name."""
    macros.stub("load_table", lambda relation: relation)
    macros.context["model"] = {"name": "backfill_complete_mv"}
    columns = [{"name": "k", "type": "bigint"}, {"name": "m", "type": "map<string,int>"}]
    macros.stub("get_table_columns", lambda relation: columns)


def _refusal(macros: Macros, test: str) -> str:
    with pytest.raises(CompilationError) as raised:
        macros.call(f"test_{test}", macros.relation)
    return str(raised.value.msg)


def test_an_mv_is_incomplete_while_a_vnode_is_not_finished_or_a_plan_was_abandoned(
    render: Callable[..., str], macros: Macros
) -> None:
    assert render("test_backfill_complete", macros.relation) == (
        "select * from lake.mv__progress where dirty or not backfill_finished "
        "or epoch + 1 in (select epoch from lake.mv__barriers where kind = 'reset')"
    )


@pytest.mark.parametrize("test", ["backfill_complete", "backfill_consistent"])
@pytest.mark.parametrize("missing", ["mv", "mv__progress", "mv__barriers"])
def test_a_relation_without_state_is_refused_by_its_own_name(
    macros: Macros, test: str, missing: str
) -> None:
    macros.stub("load_table", lambda r: None if r.identifier == missing else r)

    assert _refusal(macros, test) == (
        "backfilled_mv mv: lake.mv is not a backfilled_mv, or has never run. Run the model first, "
        "and put this test only on models with that materialization."
    )


@pytest.fixture
def difference(
    macros: Macros, render: Callable[..., str], make_state: Callable[..., Any]
) -> Callable[..., str]:
    def difference(**state: Any) -> str:
        macros.results = [[[json.dumps(make_state(**state))]]]
        return render("test_backfill_consistent", macros.relation)

    return difference


@pytest.mark.parametrize("state", [{"planned": {"epoch": 3}}, {"dirty": True}])
def test_an_mv_in_the_middle_of_a_barrier_is_not_compared(
    macros: Macros, make_state: Callable[..., Any], state: Any
) -> None:
    macros.results = [[[json.dumps(make_state(**state))]]]

    assert _refusal(macros, "backfill_consistent") == (
        "backfilled_mv mv: its barrier 3 has begun and is not committed. Run the model again, and "
        "then this test."
    )


def test_an_mv_is_compared_with_its_query_over_the_prefix_at_the_committed_version(
    difference: Callable[..., str],
) -> None:
    assert (
        "with `up` as ( select * from lake.up version as of 16 as source where (source.`id` <= 1 "
    ) in difference(position=["1", "2"])


def test_an_mv_that_has_read_nothing_yet_has_to_be_empty(difference: Callable[..., str]) -> None:
    sql = difference(position=None, upstream_version=None)

    assert "with `up` as ( select * from lake.up where false ) select * from ( select id " in sql


def test_rows_are_compared_both_ways_and_counted(difference: Callable[..., str]) -> None:
    columns = "`k` as `k`, array_sort(map_entries(`m`)) as `m`"
    sql = difference()

    assert f"with promised as ( select {columns} from ( with `up` as (" in sql
    assert f"present as ( select {columns} from lake.mv )" in sql
    assert sql.endswith(
        "select 'missing' as difference, * "
        "from (select * from promised except all select * from present) "
        "union all select 'unexpected' as difference, * "
        "from (select * from present except all select * from promised)"
    )


@pytest.mark.parametrize("test", ["backfill_complete", "backfill_consistent"])
def test_nothing_is_asked_while_dbt_parses(macros: Macros, test: str) -> None:
    macros.context["execute"] = False
    macros.stub("load_table", lambda relation: pytest.fail("asked"))

    assert macros.call(f"test_{test}", macros.relation).strip() == ""
