"""The generic tests that users put on a model, as the SQL that dbt runs."""

from __future__ import annotations

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest
from dbt_common.exceptions import CompilationError

from support.duck import Duck
from support.macros import Macros, Table
from support.messages import facts_of

# The properties of an MV and of its state. A committed plan of `make_plan` has the same id.
OURS = {"dbt_backfill.id": "b1", "dbt_backfill.format": "2"}


@pytest.fixture(autouse=True)
def lake(macros: Macros) -> None:
    """Let all tables exist.

    The node that runs is the test, which has another name than the model.
    """
    columns = {"k": "bigint", "m": "map<string,int>"}
    macros.tables = {
        "lake.mv": Table(columns=columns, properties={**OURS}),
        "lake.mv__progress": Table(properties={**OURS}),
        "lake.mv__barriers": Table(properties={"dbt_backfill.format": "2"}),
    }
    macros.context["model"] = {"name": "backfill_complete_mv"}
    macros.context["graph"] = SimpleNamespace(nodes={})


def _refusal(macros: Macros, test: str) -> str:
    with pytest.raises(CompilationError) as raised:
        macros.call(f"test_{test}", macros.relation)
    return facts_of(raised.value.msg)


def _copy(macros: Macros) -> None:
    """Change the tables as if another program had copied them from an MV in another schema."""
    for table in macros.tables.values():
        table.properties = {"dbt_backfill.id": "b1", "dbt_backfill.mv": "prod.mv"}


@pytest.mark.parametrize("test", ["backfill_complete", "backfill_consistent"])
@pytest.mark.parametrize("command", ["compile", "generate"])
def test_nothing_is_asked_of_an_mv_to_compile_them_or_to_make_docs(
    render: Callable[..., str], macros: Macros, test: str, command: str
) -> None:
    """The MV may not exist yet."""
    macros.tables = {}
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
    assert f"cast({macros.call('string_literal', unfilled)} as string) as unfilled" in sql
    assert macros.logged == [f"mv: {unfilled}"]


def test_columns_of_a_descending_backfill_are_filled_downwards(
    render: Callable[..., str], macros: Macros, stored: Any, make_plan: Any, descending: Any
) -> None:
    fills = [{"name": "x", "type": "int"}]
    plan = make_plan(key=descending, fills=fills, fill_high=["5", "6"])
    macros.results = [[[stored(committed=plan)]]]
    render("test_backfill_complete", macros.relation)

    assert macros.logged == ["mv: x is filled down to (5, 6) only"]


PROGRESS = {"dirty": "boolean", "backfill_finished": "boolean", "plan_kind": "string"}


@pytest.mark.parametrize(
    ("progress", "incomplete"),
    [
        ((False, True, None), False),
        ((False, True, "advance"), False),  # with a planned advance the rows are complete
        ((False, True, "reset"), True),
        ((False, False, None), True),
        ((True, True, None), True),
        ((True, True, "abandon"), True),
        ((False, True, "abandon"), True),  # the plan may have emptied the MV
    ],
)
def test_the_rows_of_the_test_are_the_vnodes_that_are_not_complete(
    macros: Macros, duck: Duck, stored: Any, progress: Any, incomplete: bool
) -> None:
    macros.results = [[[stored()]]]
    duck.create("lake.mv__progress", PROGRESS, [progress])
    rows = duck.rows(macros.call("test_backfill_complete", macros.relation))

    assert rows == ([(*progress, None)] if incomplete else [])


def test_under_empty_an_mv_passes_for_complete_as_any_test_does(
    macros: Macros, duck: Duck, stored: Callable[..., str]
) -> None:
    macros.results = [[[stored()]]]
    macros.context["flags"].EMPTY = True
    duck.create("lake.mv__progress", PROGRESS, [(True, False, "reset")])

    assert duck.rows(macros.call("test_backfill_complete", macros.relation)) == []


@pytest.mark.parametrize("test", ["backfill_complete", "backfill_consistent"])
def test_a_part_of_an_mv_is_not_tested(macros: Macros, test: str) -> None:
    part = "(select * from lake.mv where a = 1) dbt_subquery"
    with pytest.raises(CompilationError) as raised:
        macros.call(f"test_{test}", part)

    assert facts_of(raised.value.msg) == (
        f"backfilled_mv {test}: this test checks the whole MV, but its config sets 'where': "
        f"{part}. Remove 'where' from this test."
    )


@pytest.mark.parametrize("test", ["backfill_complete", "backfill_consistent"])
@pytest.mark.parametrize("missing", ["mv", "mv__progress"])
def test_a_relation_without_state_is_refused_by_its_own_name(
    macros: Macros, test: str, missing: str
) -> None:
    macros.tables["lake.mv"].properties = {}
    del macros.tables[f"lake.{missing}"]

    assert _refusal(macros, test) == (
        "backfilled_mv mv: lake.mv is not a backfilled_mv, or has never run. Run the model first, "
        "and put this test only on models with that materialization."
    )


@pytest.mark.parametrize("test", ["backfill_complete", "backfill_consistent"])
@pytest.mark.parametrize(
    ("missing", "told"),
    [
        (
            "mv__progress",
            "lake.mv is a clone of the MV prod.mv, but the state of that MV was not cloned",
        ),
        ("nothing", "lake.mv and its state are copies of the MV prod.mv and its state, but "),
    ],
)
def test_a_clone_without_a_state_of_its_own_is_refused_as_what_it_is(
    macros: Macros, test: str, missing: str, told: str
) -> None:
    _copy(macros)
    macros.tables.pop(f"lake.{missing}", None)

    assert _refusal(macros, test).startswith(f"backfilled_mv mv: {told}")


@pytest.mark.parametrize("test", ["backfill_complete", "backfill_consistent"])
def test_an_mv_whose_state_is_gone_is_refused(macros: Macros, test: str) -> None:
    del macros.tables["lake.mv__progress"]

    assert _refusal(macros, test).startswith(
        "backfilled_mv mv: its state is missing: lake.mv__progress does not exist. "
    )


@pytest.mark.parametrize("test", ["backfill_complete", "backfill_consistent"])
@pytest.mark.parametrize(("table", "state"), [("b2", "b1"), ("b1", "b2")])
def test_a_table_with_another_id_than_the_state_is_refused(
    macros: Macros, stored: Callable[..., str], make_plan: Any, test: str, table: str, state: str
) -> None:
    """The state says nothing about the rows of that table."""
    macros.tables["lake.mv"].properties["dbt_backfill.id"] = table
    macros.results = [[[stored(committed=make_plan(epoch=2, backfill_id=state))]]]

    assert _refusal(macros, test) == (
        "backfilled_mv mv: lake.mv__progress exists, but is the state of an earlier table with the "
        "name lake.mv. Drop the state and the history: dbt run-operation drop_backfill --args "
        "'{mv: lake.mv, keep_mv: true}'."
    )


@pytest.mark.parametrize("test", ["backfill_complete", "backfill_consistent"])
def test_a_table_without_an_id_is_refused_beside_the_state_of_an_mv(
    macros: Macros, stored: Callable[..., str], test: str
) -> None:
    macros.tables["lake.mv"].properties = {"delta.minReaderVersion": "1"}
    macros.results = [[[stored()]]]

    assert _refusal(macros, test).startswith(
        "backfilled_mv mv: lake.mv exists, but was not made by this materialization. "
    )
    assert macros.statements == []  # the state of another table is not read


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
    """Run-operations accept the model's name, but not its alias."""
    macros.context["graph"].nodes = {"model.p.before": _model("x", "x"), "model.p.orders": node}
    _copy(macros)
    told = _refusal(macros, test)
    assert told.startswith(
        f"backfilled_mv {name}: lake.mv and its state are copies of the MV prod.mv"
    )

    del macros.tables["lake.mv__progress"]
    told = _refusal(macros, test)
    assert f"clone_backfill --args '{{model: {name}, source: prod.mv, replace: true}}'" in told

    macros.tables = {}
    assert _refusal(macros, test).startswith(f"backfilled_mv {name}: lake.mv is not a backfilled")


@pytest.mark.parametrize("test", ["backfill_complete", "backfill_consistent"])
def test_a_relation_needs_no_history(macros: Macros, stored: Callable[..., str], test: str) -> None:
    del macros.tables["lake.mv__barriers"]
    macros.results = [[[stored()]]]

    assert "lake.mv__barriers" not in macros.call(f"test_{test}", macros.relation)


@pytest.mark.parametrize("state", [{"planned": {"epoch": 3}}, {"dirty": True}])
def test_an_mv_in_the_middle_of_a_barrier_is_not_compared(
    macros: Macros, stored: Callable[..., str], state: Any
) -> None:
    macros.results = [[[stored(**state)]]]

    assert _refusal(macros, "backfill_consistent") == (
        "backfilled_mv mv: its barrier 3 has begun but is not committed. Run the model again, and "
        "then this test."
    )


@pytest.mark.parametrize("test", ["backfill_complete", "backfill_consistent"])
def test_nothing_is_asked_while_dbt_parses(macros: Macros, test: str) -> None:
    macros.context["execute"] = False

    assert macros.call(f"test_{test}", macros.relation).strip() == ""
    assert macros.statements == []
