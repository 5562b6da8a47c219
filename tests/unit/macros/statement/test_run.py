"""Macros send statements and read their results."""

from __future__ import annotations

from support.macros import Macros


def test_results_come_as_json_so_that_no_type_is_guessed(macros: Macros) -> None:
    macros.results = [[['{"key": "007", "count": 9007199254740993}'], ['{"key": null}']], []]

    rows = macros.call("run_json", "read", "select 1")
    assert rows == [{"key": "007", "count": 9007199254740993}, {"key": None}]
    assert macros.call("run_json", "read", "select 1 where false") == []


def test_a_statement_says_which_table_and_step_it_is_for(macros: Macros) -> None:
    """Statements of a run-operation say it too, although dbt runs the operation for no table."""
    macros.call("run_table", "merge the range", "merge into x")
    del macros.context["this"]
    macros.call("run_json", "repair", "merge into x", mv=macros.relation)
    macros.call("run_table", "find x", "show tables")

    assert [statement.sql.split("*/")[0].strip() for statement in macros.statements] == [
        "/* lake.mv: merge the range",
        "/* lake.mv: repair",
        "/* dbt_backfill: find x",
    ]
