"""What is committed and what is planned."""

from __future__ import annotations

import re
import sqlite3
from collections.abc import Callable
from typing import Any

import pytest

from support.macros import Macros


def test_the_state_is_read_in_one_statement(macros: Macros, relations: Any) -> None:
    macros.results = [[['{"epoch": 2, "position": ["1"]}']]]

    assert macros.call("read_state", relations) == {"epoch": 2, "position": ["1"]}
    assert len(macros.statements) == 1


def test_whether_catalogs_cache_is_read_with_it(macros: Macros, relations: Any) -> None:
    """A script, in one statement too."""
    macros.results = [[['{"epoch": 2, "caches": ["false"]}']]]

    assert macros.call("read_state", relations, [relations["mv"]])["caches"] == ["false"]
    [statement] = macros.statements
    sql = " ".join(statement.sql.split())
    assert " begin declare caches array<string> = array(); " in sql
    assert "as txn_app_id, caches )) from (" in sql
    assert sql.endswith("; end")


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
    macros: Macros, render: Callable[..., str], relations: Any, followed: Any, log: str | None
) -> None:
    """One statement less in every barrier, where the kind has a log that can be selected."""
    macros.stub("iceberg_log_sql", lambda relation: f"(log of {relation.render()})")
    names = {"upstream": "up", "feed": "changes"}
    tables = {
        name: {"relation": relations["mv"].incorporate(path={"identifier": names[name]}), "kind": k}
        for name, k in followed.items()
    }
    sql = render("get_state_sql", {**relations, **tables})

    selected = f" , (log of {log}) as log ))" if log else " ))"
    session = "'spark.sql.session.timeZone', cast(current_timezone() as string), "
    assert session in sql
    last = " as settings, '${spark.databricks.delta.write.txnAppId}' as txn_app_id"
    assert f"{last}{selected} from" in sql.replace("txn_app_id,", "txn_app_id ,")


def test_the_progress_table_tells_which_plan_is_committed_and_which_is_next(
    render: Callable[..., str], relations: Any
) -> None:
    sql = render("get_state_sql", relations)

    assert "any_value(plan) filter (where plans.epoch = progress.epoch) as committed" in sql
    assert "any_value(plan) filter (where plans.epoch = progress.epoch + 1) as planned" in sql
    assert sql.count("from lake.mv__progress") == sql.count("from lake.mv__barriers") == 1


@pytest.mark.parametrize(
    ("uniform", "kind", "dirty", "position"),
    [
        (1, "advance", 0, "high"),
        (1, "reanchor", 0, "high"),
        (1, "create", 0, "high"),
        (1, "abandon", 1, "low"),  # its range was not read
        (1, "abandon", 0, "high"),  # its own run committed it while another gave it up
        (0, "advance", 0, None),
    ],
)
def test_the_position_is_where_the_range_of_the_committed_plan_ends(
    render: Callable[..., str],
    relations: Any,
    sqlite: sqlite3.Connection,
    uniform: int,
    kind: str,
    dirty: int,
    position: str | None,
) -> None:
    sql = render("get_state_sql", relations)
    (expression,) = re.findall(r"committed, planned, (case .* end) as position,", sql)
    state = (
        f"select {uniform} as uniform, '{kind}' as kind, {dirty} as dirty,"
        " 'low' as range_low, 'high' as range_high"
    )
    expression = re.sub(r"\b(progress|committed)\.", "", expression)

    assert sqlite.execute(f"select {expression} from ({state})").fetchone() == (position,)


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


def test_vnodes_agree_if_they_differ_in_nothing_but_their_row_counts(
    render: Callable[..., str], relations: Any
) -> None:
    sql = render("get_state_sql", relations)

    assert "min(__bf_position) <=> max(__bf_position) as uniform" in sql
    assert "struct(* except (vnode, row_count)) as __bf_position" in sql
