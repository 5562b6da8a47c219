"""The text that a user sees of an error that Spark has raised."""

from __future__ import annotations

from types import SimpleNamespace

import pytest
from dbt_common.exceptions import DbtDatabaseError, DbtRuntimeError

from dbt.adapters.spark_backfill.errors import (
    SparkStatementError,
    get_shown_text,
    get_step,
    is_conflict,
)
from support.macros import Macros

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


# -- which statements are sent again ----------------------------------------------------------


def test_the_step_of_a_statement_of_ours_is_that_of_its_comment(macros: Macros) -> None:
    macros.call("run_table", "merge the range of the barrier 3", "merge into x")
    (statement,) = macros.statements

    assert get_step(statement.sql) == "lake.mv: merge the range of the barrier 3"


def test_the_step_is_found_behind_dbts_own_comment() -> None:
    comment = '/* {"app": "dbt", "dbt_version": "1.11.2", "node_id": "model.p.mv"} */'

    assert get_step(f"{comment}\n/* lake.mv: stage the changes */ begin") == (
        "lake.mv: stage the changes"
    )
    assert get_step(f"{comment}\ninsert into lake.other select 1") is None


@pytest.mark.parametrize(
    "sql",
    [
        "insert into lake.other select 1",
        "/* the other model */ insert into lake.other select 1",
        "insert into lake.other select 1 -- lake.mv: no step",
        "",
    ],
)
def test_any_other_statement_has_no_step(sql: str) -> None:
    assert get_step(sql) is None


@pytest.mark.parametrize(
    "sql",
    [
        "insert into lake.other select /* note: of the user's own */ 1",
        "insert into lake.other select '/* lake.mv: x */'",
    ],
)
def test_a_comment_within_another_statement_is_no_step(sql: str) -> None:
    assert get_step(sql) is None


def _statement_error(error: Exception) -> SparkStatementError:
    """Return the error that the connection raises."""
    raised = SparkStatementError(get_shown_text(error))
    raised.__cause__ = error
    return raised


CONFLICTS = [
    "io.delta.exceptions.ConcurrentAppendException: [DELTA_CONCURRENT_APPEND.WITHOUT_HINT] "
    "Transaction conflict detected. A concurrent OPTIMIZE added data to the table.",
    "io.delta.exceptions.ConcurrentAppendException: [DELTA_CONCURRENT_APPEND] "
    "ConcurrentAppendException: Files were added to the root of the table by a concurrent update.",
    "io.delta.exceptions.ConcurrentDeleteReadException: [DELTA_CONCURRENT_DELETE_READ] "
    "ConcurrentDeleteReadException: This transaction attempted to read one or more files that "
    "were deleted (for example part-0.parquet) by a concurrent update.",
    "io.delta.exceptions.MetadataChangedException: [DELTA_METADATA_CHANGED] "
    "MetadataChangedException: The metadata of the Delta table has been changed by a concurrent "
    "update.",
    "org.apache.iceberg.exceptions.ValidationException: Found conflicting files that can contain "
    'records matching (ref(name="id") >= 1 and ref(name="id") <= 7): [/lake/mv/data/0.parquet]',
    "org.apache.iceberg.exceptions.ValidationException: Found new conflicting delete files that "
    "can apply to records matching true: [/lake/mv/data/0-deletes.puffin]",
    "org.apache.iceberg.exceptions.ValidationException: Cannot commit, missing data files: "
    "[/lake/mv/data/0.parquet]",
    "org.apache.iceberg.exceptions.ValidationException: Missing required files to delete: "
    "file:/lake/mv__progress/data/0.parquet",
    "org.apache.iceberg.exceptions.CommitFailedException: Version 5 already exists: "
    "/lake/mv/metadata/v5.metadata.json",
]
NO_CONFLICTS = [
    "[USER_RAISED_EXCEPTION] backfilled_mv mv: another run changed the state while this run "
    "executed the barrier 3 (advance of invocation i, planned at 2024-05-01; committed epoch 3). "
    "Nothing was written by this run; run again to continue. SQLSTATE: P0001",
    "[DIVIDE_BY_ZERO] Division by zero. SQLSTATE: 22012",
    "org.apache.spark.sql.delta.DeltaFileNotFoundException: [DELTA_CHANGE_DATA_FILE_NOT_FOUND] "
    "File part-0.parquet referenced in the transaction log cannot be found.",
    "org.apache.iceberg.exceptions.ValidationException: Cannot find snapshot with ID 7",
    # It is unknown if the commit was written.
    "org.apache.iceberg.exceptions.CommitStateUnknownException: Connection refused\n"
    "Cannot determine whether the commit was successful or not, the underlying data files may or "
    "may not be needed.",
    "java.net.ConnectException: Connection refused",
]


@pytest.mark.parametrize("text", CONFLICTS)
@pytest.mark.parametrize(
    "wrapped",
    ["{}", "Job aborted.\nCaused by: {}", "[TASK_WRITE_FAILED] Task failed.\nCaused by: {}"],
)
def test_a_commit_that_came_between_is_a_conflict(text: str, wrapped: str) -> None:
    error = DbtDatabaseError(CALLED + wrapped.format(text) + STACK)

    assert is_conflict(_statement_error(error))


@pytest.mark.parametrize("text", NO_CONFLICTS)
def test_any_other_failure_is_no_conflict(text: str) -> None:
    assert not is_conflict(_statement_error(DbtDatabaseError(CALLED + text + STACK)))


@pytest.mark.parametrize(
    ("text", "conflict"), [(CONFLICTS[0], True), (NO_CONFLICTS[0], False)], ids=["one", "none"]
)
def test_a_conflict_is_read_off_the_answer_of_a_server_and_off_a_bare_error(
    text: str, conflict: bool
) -> None:
    answer = Exception(SimpleNamespace(status=SimpleNamespace(errorMessage=text + STACK)))

    assert is_conflict(_statement_error(answer)) is conflict
    assert is_conflict(SparkStatementError(text)) is conflict
