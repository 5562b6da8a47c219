"""What is committed and what is planned."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest

from support.macros import Macros


def test_the_state_is_read_in_one_statement(
    macros: Macros, relations: Any, make_state: Callable[..., Any], stored: Callable[..., str]
) -> None:
    macros.results = [[[stored()]]]
    state = macros.call("read_state", relations)

    expected = {
        **make_state(),
        "written": None,  # nobody asked
        "committed": {**make_state()["committed"], "range_high": ["1", "2"]},
    }
    assert {name: state[name] for name in expected} == expected
    assert len(macros.statements) == 1


def test_whether_catalogs_cache_is_read_with_it(
    macros: Macros, relations: Any, stored: Callable[..., str]
) -> None:
    """A script, in one statement too."""
    macros.results = [[[stored(caches=["false"])]]]

    assert macros.call("read_state", relations, [relations["mv"]])["caches"] == ["false"]
    [statement] = macros.statements
    sql = " ".join(statement.sql.split())
    assert " begin declare caches array<string> = array(); " in sql
    assert "as txn_app_id, caches )) from (" in sql
    assert sql.endswith("; end")


def test_how_far_the_history_goes_is_read_with_it(
    macros: Macros, relations: Any, stored: Callable[..., str]
) -> None:
    macros.results = [[[stored(written=1)]]]

    assert macros.call("read_state", relations, history_of="it's")["written"] == 1
    [statement] = macros.statements
    assert (
        "as txn_app_id, ( select max(if(backfill_id = 'it\\'s', epoch, null)) "
        "from lake.mv__barriers ) as written )) from ("
    ) in " ".join(statement.sql.split())


def test_whether_a_plan_was_executed_is_told_by_what_is_committed_of_its_kind(
    render: Callable[..., str], relations: Any, make_plan: Any
) -> None:
    """Also where others went on since; those that the history has are not looked for."""
    sql = render("get_state_sql", relations, plan=make_plan())

    assert (
        "max(last) as last, coalesce(bool_or(exists( "
        "array_append(coalesce(unwritten, array()), last), "
        "barrier -> get_json_object(barrier, '$.plan_id') = 'p3' "
        "and get_json_object(barrier, '$.kind') = 'advance' )), false) as executed from ("
    ) in sql
    assert "executed" not in render("get_state_sql", relations)


def test_nothing_that_decides_is_read_of_the_history(
    render: Callable[..., str], relations: Any
) -> None:
    """It may be missing."""
    sql = render("get_state_sql", relations)

    assert "__barriers" not in sql
    assert sql.count("from lake.mv__progress") == 1


@pytest.mark.parametrize(
    ("followed", "log"),
    [
        ({"upstream": "iceberg"}, "lake.up"),
        ({"upstream": "delta"}, None),
        ({"upstream": "delta", "feed": "iceberg"}, "lake.changes"),
        ({"upstream": "iceberg", "feed": "delta"}, None),
    ],
)
def test_the_log_of_the_table_whose_changes_are_followed_is_read_with_the_state(
    macros: Macros, relations: Any, followed: Any, log: str | None
) -> None:
    """One statement less in every barrier, where the kind has a log that can be selected."""
    macros.stub("iceberg_log_sql", lambda upstream: f"(log of {upstream['relation'].render()})")
    names = {"upstream": "up", "feed": "changes"}
    tables = {
        name: {"relation": relations["mv"].incorporate(path={"identifier": names[name]}), "kind": k}
        for name, k in followed.items()
    }
    macros.results = [[[json.dumps({"rows": 0})]]]
    macros.call("read_state", {**relations, **tables})
    sql = " ".join(macros.statements[0].sql.split())

    selected = f" , (log of {log}) as log ))" if log else " ))"
    session = "'spark.sql.session.timeZone', cast(current_timezone() as string), "
    assert session in sql
    last = " as settings, '${spark.databricks.delta.write.txnAppId}' as txn_app_id"
    assert f"{last}{selected} from" in sql.replace("txn_app_id,", "txn_app_id ,")


def test_a_progress_table_whose_rows_differ_in_their_epoch_is_told(
    render: Callable[..., str], relations: Any
) -> None:
    sql = render("get_state_sql", relations)

    assert "min(epoch) as epoch, max(epoch) as last_epoch, " in sql
    assert "count(*) as rows" in sql


def test_an_mv_is_dirty_or_unfinished_if_any_vnode_is(
    render: Callable[..., str], relations: Any
) -> None:
    sql = render("get_state_sql", relations)

    assert "bool_or(dirty) as dirty, bool_and(backfill_finished) as finished, " in sql
    assert "bool_or(backfill_finished) as any_finished" in sql


def test_vnodes_agree_if_they_differ_in_nothing_but_what_a_vnode_counts_and_the_first_keeps(
    render: Callable[..., str], relations: Any
) -> None:
    sql = render("get_state_sql", relations)

    assert "min(__bf_position) <=> max(__bf_position) as uniform" in sql
    assert "struct(* except (vnode, row_count, plan, last, unwritten)) as __bf_position" in sql


def test_the_plans_are_those_of_the_one_row_that_has_them(
    render: Callable[..., str], relations: Any
) -> None:
    assert "max(plan) as plan, max(plan_kind) as plan_kind, max(last) as last from (" in render(
        "get_state_sql", relations
    )


# -- what the statement returned --------------------------------------------------------------


@pytest.fixture
def parse(macros: Macros) -> Callable[..., Any]:
    """The state of a row whose last barrier has the range (low, high]."""
    last = {"epoch": 2, "kind": "advance", "range_low": ["1"], "range_high": ["5"]}

    def parse(**read: Any) -> Any:
        row = {"epoch": 2, "dirty": False, "uniform": True, "last": json.dumps(last)}
        return macros.call("parse_state", {**row, **read})

    return parse


def test_the_barrier_that_was_committed_last_is_read_from_its_json(
    parse: Callable[..., Any], make_plan: Callable[..., Any]
) -> None:
    last = {**make_plan(epoch=2), "committed_at": "noon", "changed_row_count": 3}

    assert parse(last=json.dumps(last))["committed"] == last


def test_the_plan_of_the_next_barrier_is_read_from_its_json(
    parse: Callable[..., Any], make_plan: Callable[..., Any]
) -> None:
    assert parse(plan=json.dumps(make_plan()))["planned"] == make_plan()


def test_nothing_may_be_planned(parse: Callable[..., Any]) -> None:
    assert parse()["planned"] is None


def test_what_else_was_read_is_handed_on(parse: Callable[..., Any]) -> None:
    state = parse(settings={"a": "1"}, log=[])

    assert (state["settings"], state["log"]) == ({"a": "1"}, [])


@pytest.mark.parametrize(
    ("read", "position"),
    [
        ({}, ["5"]),
        ({"dirty": True}, ["1"]),  # the range of a plan that was given up was not read
        ({"uniform": False}, None),
        ({"uniform": False, "dirty": True}, None),
        ({"last": None}, None),
    ],
    ids=["committed", "given up", "vnodes differ", "given up and differ", "damaged"],
)
def test_the_position_is_where_the_range_of_the_committed_plan_ends(
    parse: Callable[..., Any], read: dict[str, Any], position: list[str] | None
) -> None:
    assert parse(**read)["position"] == position


def test_a_plan_that_ends_at_no_key_leaves_no_position(parse: Callable[..., Any]) -> None:
    """The first one, or a reset."""
    assert parse(last=json.dumps({"epoch": 0, "kind": "create"}))["position"] is None


def test_a_progress_table_without_plans_has_none_committed(parse: Callable[..., Any]) -> None:
    assert parse(last=None)["committed"] is None


@pytest.mark.parametrize(
    ("state", "started"),
    [
        ({"position": None}, False),
        ({"position": None, "finished": True, "any_finished": True}, True),  # of an empty upstream
        ({}, True),
        ({"position": None, "uniform": False}, True),
    ],
    ids=["not started", "empty", "position", "positions"],
)
def test_something_was_backfilled_if_any_vnode_has_a_position_or_is_finished(
    macros: Macros, make_state: Callable[..., Any], state: Any, started: bool
) -> None:
    assert macros.call("has_started", make_state(**state)) is started
