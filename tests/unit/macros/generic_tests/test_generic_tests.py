"""The tests that users put on a model, as the SQL that dbt runs."""

from __future__ import annotations

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest
from dbt_common.exceptions import CompilationError

from support.macros import Macros


@pytest.fixture(autouse=True)
def lake(macros: Macros) -> None:
    """All tables exist, and the test runs as a node of its own name."""
    macros.stub("load_table", lambda relation: relation)
    macros.stub("read_table_properties", lambda relation: {})
    macros.context["model"] = {"name": "backfill_complete_mv"}
    macros.context["graph"] = SimpleNamespace(nodes={})
    columns = [{"name": "k", "type": "bigint"}, {"name": "m", "type": "map<string,int>"}]
    macros.stub("get_table_columns", lambda relation: columns)


def _refusal(macros: Macros, test: str) -> str:
    with pytest.raises(CompilationError) as raised:
        macros.call(f"test_{test}", macros.relation)
    return str(raised.value.msg)


def test_an_mv_is_incomplete_while_it_is_not_finished_or_dirty_or_is_to_be_emptied(
    render: Callable[..., str], macros: Macros, stored: Callable[..., str]
) -> None:
    macros.results = [[[stored()]]]

    assert render("test_backfill_complete", macros.relation) == (
        "select *, null as unfilled from lake.mv__progress where (dirty or not backfill_finished "
        "or plan_kind in ('reset', 'abandon') or false)"
    )


@pytest.mark.parametrize("test", ["backfill_complete", "backfill_consistent"])
@pytest.mark.parametrize("command", ["compile", "generate"])
def test_nothing_is_asked_of_an_mv_to_compile_them_or_to_make_docs(
    render: Callable[..., str], macros: Macros, test: str, command: str
) -> None:
    """It may never have run."""
    macros.stub("load_table", lambda relation: None)
    macros.context["invocation_args_dict"] = {"which": command}

    assert render(f"test_{test}", macros.relation).endswith("select 1 as failure from range(0)")
    assert macros.statements == []


@pytest.mark.parametrize(
    ("names", "position", "unfilled"),
    [
        (["x"], ["5", "'a'"], "x is filled up to (5, 'a') only"),
        (["x", "y"], None, "x, y are not filled"),
    ],
)
def test_an_mv_is_incomplete_while_columns_are_being_filled_and_says_which(
    render: Callable[..., str], macros: Macros, stored: Any, make_plan: Any, names: list[str],
    position: Any, unfilled: str,
) -> None:  # fmt: skip
    fills = [{"name": name, "type": "int"} for name in names]
    macros.results = [[[stored(committed=make_plan(fills=fills, fill_high=position))]]]

    sql = render("test_backfill_complete", macros.relation)

    assert sql.endswith("or true)")
    assert f"{macros.call('string_literal', unfilled)} as unfilled" in sql
    assert macros.logged == [f"mv: {unfilled}"]


def test_columns_of_a_descending_backfill_are_filled_downwards(
    render: Callable[..., str], macros: Macros, stored: Any, make_plan: Any, descending: Any
) -> None:
    fills = [{"name": "x", "type": "int"}]
    plan = make_plan(key=descending, fills=fills, fill_high=["5", "6"])
    macros.results = [[[stored(committed=plan)]]]
    render("test_backfill_complete", macros.relation)

    assert macros.logged == ["mv: x is filled down to (5, 6) only"]


@pytest.mark.parametrize(
    ("progress", "incomplete"),
    [
        ((0, 1, None), False),
        ((0, 1, "advance"), False),  # of changes: what was promised is still there
        ((0, 1, "reset"), True),
        ((0, 0, None), True),
        ((1, 1, None), True),
        ((1, 1, "abandon"), True),
        ((0, 1, "abandon"), True),  # it may have emptied the MV
    ],
)
def test_the_rows_of_the_test_are_the_vnodes_that_are_not_complete(
    render: Callable[..., str], macros: Macros, sqlite: Any, stored: Any, progress: Any,
    incomplete: bool,
) -> None:  # fmt: skip
    macros.results = [[[stored()]]]
    sqlite.execute("create table lake.mv__progress (dirty, backfill_finished, plan_kind)")
    sqlite.execute("insert into lake.mv__progress values (?, ?, ?)", progress)
    rows = sqlite.execute(render("test_backfill_complete", macros.relation)).fetchall()

    assert rows == ([(*progress, None)] if incomplete else [])


def test_under_empty_an_mv_passes_for_complete_as_any_test_does(
    render: Callable[..., str], macros: Macros, sqlite: Any, stored: Callable[..., str]
) -> None:
    macros.results = [[[stored()]]]
    macros.context["flags"].EMPTY = True
    sqlite.execute("create table lake.mv__progress (dirty, backfill_finished, plan_kind)")
    sqlite.execute("insert into lake.mv__progress values (1, 0, 'reset')")

    assert sqlite.execute(render("test_backfill_complete", macros.relation)).fetchall() == []


@pytest.mark.parametrize("test", ["backfill_complete", "backfill_consistent"])
def test_a_part_of_an_mv_is_not_tested(macros: Macros, test: str) -> None:
    part = "(select * from lake.mv where a = 1) dbt_subquery"
    with pytest.raises(CompilationError) as raised:
        macros.call(f"test_{test}", part)

    assert raised.value.msg == (
        f"backfilled_mv {test}: it is of the MV as a whole, and a where is set for it: {part}. "
        "Take the where off this test."
    )


@pytest.mark.parametrize("test", ["backfill_complete", "backfill_consistent"])
@pytest.mark.parametrize("missing", ["mv", "mv__progress"])
def test_a_relation_without_state_is_refused_by_its_own_name(
    macros: Macros, test: str, missing: str
) -> None:
    macros.stub("load_table", lambda r: None if r.identifier == missing else r)

    assert _refusal(macros, test) == (
        "backfilled_mv mv: lake.mv is not a backfilled_mv, or has never run. Run the model first, "
        "and put this test only on models with that materialization."
    )


@pytest.mark.parametrize("test", ["backfill_complete", "backfill_consistent"])
@pytest.mark.parametrize(
    ("missing", "told"),
    [
        ("mv__progress", "lake.mv is a clone of the MV prod.mv, without its state. To go on from "),
        ("nothing", "lake.mv is a copy of the MV prod.mv, and so is its state, by something else"),
    ],
)
def test_a_clone_without_a_state_of_its_own_is_refused_as_what_it_is(
    macros: Macros, test: str, missing: str, told: str
) -> None:
    copied = {"dbt_backfill.id": "b1", "dbt_backfill.mv": "prod.mv"}
    macros.stub("read_table_properties", lambda relation: copied)
    macros.stub("load_table", lambda r: None if r.identifier == missing else r)

    assert _refusal(macros, test).startswith(f"backfilled_mv mv: {told}")


def _model(name: str, alias: str, schema: str = "lake", **other: Any) -> dict[str, Any]:
    config = {"materialized": "backfilled_mv"}
    return {
        "resource_type": "model", "name": name, "alias": alias, "schema": schema, "config": config,
        **other,
    }  # fmt: skip


@pytest.mark.parametrize(
    ("node", "name"),
    [
        (_model("orders", "MV"), "orders"),
        (_model("orders", "mv", version=2), "orders.v2"),
        (_model("orders", "mv", schema="other"), "mv"),
        (_model("orders", "mv", config={"materialized": "ephemeral"}), "mv"),
    ],
)
@pytest.mark.parametrize("test", ["backfill_complete", "backfill_consistent"])
def test_what_to_do_about_a_relation_names_its_model(
    macros: Macros, stored: Callable[..., str], test: str, node: Any, name: str
) -> None:
    """As run-operations take it: they know no alias."""
    macros.context["graph"].nodes = {"model.p.before": _model("x", "x"), "model.p.orders": node}
    copied = {"dbt_backfill.id": "b1", "dbt_backfill.mv": "prod.mv"}
    macros.stub("read_table_properties", lambda relation: copied)
    told = _refusal(macros, test)
    assert told.startswith(f"backfilled_mv {name}: lake.mv is a copy of the MV prod.mv, ")

    macros.stub("load_table", lambda r: None if r.identifier == "mv__progress" else r)
    told = _refusal(macros, test)
    assert f"clone_backfill --args '{{model: {name}, source: prod.mv, replace: true}}'" in told

    macros.stub("load_table", lambda relation: None)
    assert _refusal(macros, test).startswith(f"backfilled_mv {name}: lake.mv is not a backfilled")


@pytest.mark.parametrize("test", ["backfill_complete", "backfill_consistent"])
def test_a_relation_needs_no_history(macros: Macros, stored: Callable[..., str], test: str) -> None:
    macros.stub("load_table", lambda r: None if r.identifier == "mv__barriers" else r)
    macros.results = [[[stored()]]]

    assert "lake.mv__barriers" not in macros.call(f"test_{test}", macros.relation)


@pytest.fixture
def difference(
    macros: Macros, render: Callable[..., str], stored: Callable[..., str]
) -> Callable[..., str]:
    def difference(**state: Any) -> str:
        macros.results = [[[stored(**state)]]]
        return render("test_backfill_consistent", macros.relation)

    return difference


@pytest.mark.parametrize("state", [{"planned": {"epoch": 3}}, {"dirty": True}])
def test_an_mv_in_the_middle_of_a_barrier_is_not_compared(
    macros: Macros, stored: Callable[..., str], state: Any
) -> None:
    macros.results = [[[stored(**state)]]]

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
