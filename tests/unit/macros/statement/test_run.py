"""How statements are sent, and their results read."""

from __future__ import annotations

from support.macros import Macros


def test_results_come_as_json_so_that_no_type_is_guessed(macros: Macros) -> None:
    macros.results = [[['{"key": "007", "count": 9007199254740993}'], ['{"key": null}']]]

    rows = macros.call("run_json", "read", "select 1")

    assert rows == [{"key": "007", "count": 9007199254740993}, {"key": None}]


def test_a_statement_says_which_table_and_step_it_is_for(macros: Macros) -> None:
    macros.call("run_table", "merge the range", "merge into x")

    (statement,) = macros.statements
    assert " ".join(statement.sql.split()) == "/* lake.mv: merge the range */ merge into x"
    assert statement.name == "dbt_backfill_merge the range"


def test_a_statement_of_a_run_operation_says_so_too(macros: Macros) -> None:
    del macros.context["this"]
    macros.call("run_table", "find x", "show tables")
    macros.call("run_json", "repair", "merge into x", mv=macros.relation)

    assert [" ".join(statement.sql.split()) for statement in macros.statements] == [
        "/* dbt_backfill: find x */ show tables",
        "/* lake.mv: repair */ merge into x",
    ]


def test_a_statement_without_rows_returns_none_of_them(macros: Macros) -> None:
    assert macros.call("run_json", "read", "select 1 where false") == []
