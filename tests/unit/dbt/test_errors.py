"""What a user sees of an error that Spark raised."""

from __future__ import annotations

from types import SimpleNamespace

import pytest
from dbt_common.exceptions import DbtDatabaseError, DbtRuntimeError

from dbt.adapters.spark_backfill.errors import get_shown_text

CALLED = "An error occurred while calling o45.sql.\n: "
STACK = (
    "\n\tat org.apache.spark.sql.errors.Errors$.raise(Errors.scala:12)\n\tat java.base/x(Y.java)"
)


def test_only_our_own_raised_text_is_shown() -> None:
    raised = DbtDatabaseError(
        "org.apache.hive.service.cli.HiveSQLException: Error running query: "
        "[USER_RAISED_EXCEPTION] org.apache.spark.SparkRuntimeException: "
        "[USER_RAISED_EXCEPTION] backfilled_mv mv: run 7 has committed epoch 3.\nRun it again. "
        f"SQLSTATE: P0001{STACK}"
    )

    assert get_shown_text(raised) == (
        "backfilled_mv mv: run 7 has committed epoch 3.\nRun it again."
    )


def test_a_text_that_a_user_raised_keeps_its_error_class() -> None:
    raised = Exception(f"[USER_RAISED_EXCEPTION] not today SQLSTATE: P0001{STACK}")

    assert get_shown_text(raised) == "[USER_RAISED_EXCEPTION] not today SQLSTATE: P0001"


@pytest.mark.parametrize(
    "prefix",
    ["", f"{CALLED}org.apache.spark.SparkException: "],
)
def test_a_runtime_error_is_one_line_with_its_class(prefix: str) -> None:
    raised = Exception(f"{prefix}[DIVIDE_BY_ZERO] Division by zero. SQLSTATE: 22012{STACK}")

    assert get_shown_text(raised) == "[DIVIDE_BY_ZERO] Division by zero. SQLSTATE: 22012"


def test_an_error_that_wraps_another_shows_the_innermost_cause() -> None:
    raised = Exception(
        f"{CALLED}a.b.C: [TASK_WRITE_FAILED] Task failed.{STACK}\nCaused by: a.b.D: once{STACK}"
        f"\nCaused by: java.lang.NumberFormatException: 'x'{STACK}"
    )

    assert get_shown_text(raised) == (
        "[TASK_WRITE_FAILED] Task failed.\nCaused by NumberFormatException: 'x'"
    )


def test_a_cause_with_a_class_is_shown_for_an_error_without() -> None:
    raised = Exception(
        f"{CALLED}a.b.C: Exception thrown in awaitResult: {STACK}"
        f"\nCaused by: a.b.D: [DIVIDE_BY_ZERO] Division by zero.{STACK}"
    )

    assert get_shown_text(raised) == "[DIVIDE_BY_ZERO] Division by zero."


def test_a_refused_statement_keeps_the_lines_that_point_into_it() -> None:
    text = "[PARSE_SYNTAX_ERROR] Syntax error at 'form'. (line 1)\n\n== SQL ==\nselect form\n---^^^"
    plan = ";\n'Project ['form]\n+- Relation t"
    try:
        try:
            raise type("AnalysisException", (Exception,), {})(text)
        except Exception as cause:
            raise DbtRuntimeError(text + plan + STACK) from cause
    except DbtRuntimeError as raised:
        assert get_shown_text(raised) == text


def test_a_thrift_answer_is_not_shown_as_an_escaped_structure() -> None:
    status = SimpleNamespace(errorMessage=f"[DIVIDE_BY_ZERO] Division by zero{STACK}")

    assert get_shown_text(Exception(SimpleNamespace(status=status))) == (
        "[DIVIDE_BY_ZERO] Division by zero"
    )


def test_an_error_without_a_class_is_its_first_line() -> None:
    assert (
        get_shown_text(Exception(f"{CALLED}java.io.IOException: disk full{STACK}"))
        == "IOException: disk full"
    )
    assert get_shown_text(ConnectionError(f"connection refused{STACK}")) == "connection refused"
    assert get_shown_text(ConnectionError()) == "ConnectionError"
