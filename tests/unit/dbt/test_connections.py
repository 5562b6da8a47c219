"""The plugin sends a statement again that lost a conflict, and stops if dbt is stopped."""

from __future__ import annotations

import multiprocessing
from collections.abc import Callable, Iterator
from types import SimpleNamespace
from typing import Any

import pytest
from dbt_common.exceptions import CompilationError

from dbt.adapters.spark_backfill import connections
from dbt.adapters.spark_backfill.connections import SparkBackfillConnectionManager
from dbt.adapters.spark_backfill.errors import RefusalError, SparkStatementError

OURS = "\n        /* lake.mv: merge the range of the barrier 3 */\n        merge into lake.mv"
CONFLICT = Exception(
    "An error occurred while calling o45.sql.\n: io.delta.exceptions.ConcurrentAppendException: "
    "[DELTA_CONCURRENT_APPEND.WITHOUT_HINT] Transaction conflict detected."
)
FENCE = Exception(
    "[USER_RAISED_EXCEPTION] backfilled_mv mv: another run changed the state. Run again. "
    "SQLSTATE: P0001"
)
LINE = "lake.mv: merge the range of the barrier 3: another commit came first; sent again in"


class _Spark:
    """A connection and its cursor. Each statement fails with the next error in `errors`, if there
    is one.
    """

    name = "model.p.mv"
    transaction_open = True
    description = (("x",),)

    def __init__(self, fails_at: str) -> None:
        self.handle = self
        self.fails_at = fails_at
        self.errors: list[Exception] = []
        self.sent: list[str] = []

    def cursor(self) -> _Spark:
        return self

    def execute(self, sql: str, bindings: object = None) -> None:
        self.sent.append(sql)
        self._fail("execute")

    def fetchall(self) -> list[tuple[int]]:
        self._fail("fetchall")
        return [(7,)]

    def _fail(self, at: str) -> None:
        if at == self.fails_at and self.errors:
            raise self.errors.pop(0)


@pytest.fixture(params=["execute", "fetchall"])
def spark(request: pytest.FixtureRequest) -> _Spark:
    """Return a connection whose statements fail.

    They fail in `execute` with a Thrift server, and in `fetchall` with a session.
    """
    return _Spark(request.param)


@pytest.fixture
def waits(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """Record the seconds for which the plugin would wait. The test does not wait."""
    waits: list[float] = []
    monkeypatch.setattr(connections, "time", SimpleNamespace(sleep=waits.append))
    return waits


@pytest.fixture
def lines(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Return the messages for the user."""
    lines: list[str] = []
    logger = SimpleNamespace(info=lines.append, debug=lambda _: None)
    monkeypatch.setattr(connections, "logger", logger)
    return lines


@pytest.fixture
def manager(lines: list[str]) -> Iterator[SparkBackfillConnectionManager]:
    """Yield the connections of one invocation of dbt."""
    profile: Any = SimpleNamespace()
    manager = SparkBackfillConnectionManager(profile, multiprocessing.get_context("spawn"))
    yield manager
    manager.cleanup_all()


@pytest.fixture
def execute(
    spark: _Spark,
    waits: list[float],
    manager: SparkBackfillConnectionManager,
    monkeypatch: pytest.MonkeyPatch,
) -> Callable[..., Any]:
    """Send a statement that fails with these errors one after the other. Return its value."""
    monkeypatch.setattr(manager, "get_thread_connection", lambda: spark)

    def execute(*errors: Exception, sql: str = OURS) -> Any:
        spark.errors = list(errors)
        _, table = manager.execute(sql, fetch=True)
        return table.rows[0][0]

    return execute


def test_a_statement_that_succeeds_is_sent_once(
    execute: Callable[..., Any], spark: _Spark, waits: list[float], lines: list[str]
) -> None:
    assert execute() == 7
    assert (spark.sent, waits, lines) == ([OURS], [], [])


@pytest.mark.parametrize(("conflicts", "waited"), [(1, [1]), (2, [1, 5]), (3, [1, 5, 15])])
def test_a_statement_that_lost_a_conflict_is_sent_again_and_says_so(
    execute: Callable[..., Any],
    spark: _Spark,
    waits: list[float],
    lines: list[str],
    conflicts: int,
    waited: list[float],
) -> None:
    assert execute(*[CONFLICT] * conflicts) == 7
    assert spark.sent == [OURS] * (conflicts + 1)
    assert waits == waited
    assert lines == [f"{LINE} {seconds} s" for seconds in waited]


def test_the_fourth_conflict_is_an_error(
    execute: Callable[..., Any], spark: _Spark, waits: list[float]
) -> None:
    with pytest.raises(SparkStatementError, match="DELTA_CONCURRENT_APPEND"):
        execute(*[CONFLICT] * 4)

    assert len(spark.sent) == 4
    assert waits == [1, 5, 15]


def test_another_error_ends_it(
    execute: Callable[..., Any], spark: _Spark, waits: list[float]
) -> None:
    """Another run has committed. The fence reports this when the statement is sent again."""
    with pytest.raises(SparkStatementError) as raised:
        execute(CONFLICT, FENCE)

    assert raised.value.msg == "backfilled_mv mv: another run changed the state. Run again."
    assert len(spark.sent) == 2
    assert waits == [1]


def test_a_statement_that_failed_otherwise_is_not_sent_again(
    execute: Callable[..., Any], spark: _Spark, waits: list[float], lines: list[str]
) -> None:
    with pytest.raises(SparkStatementError, match="DIVIDE_BY_ZERO"):
        execute(Exception("[DIVIDE_BY_ZERO] Division by zero. SQLSTATE: 22012"))

    assert (len(spark.sent), waits, lines) == (1, [], [])


def test_a_statement_of_another_model_is_not_sent_again(
    execute: Callable[..., Any], spark: _Spark, waits: list[float], lines: list[str]
) -> None:
    """Such a statement may do harm if it runs twice."""
    with pytest.raises(SparkStatementError, match="DELTA_CONCURRENT_APPEND"):
        execute(CONFLICT, sql="insert into lake.other select * from lake.up")

    assert (len(spark.sent), waits, lines) == (1, [], [])


@pytest.mark.parametrize("error", [RefusalError("a fact. A change."), CompilationError("typo")])
def test_what_a_macro_says_is_not_taken_for_a_statements_error(error: Exception) -> None:
    """dbt calls a run-operation's macro inside the connection's error handler."""
    profile: Any = SimpleNamespace()
    manager = SparkBackfillConnectionManager(profile, multiprocessing.get_context("spawn"))

    with pytest.raises(type(error)) as raised, manager.exception_handler("macro verify_backfill"):
        raise error

    assert raised.value is error


def test_once_dbt_is_stopped_no_statement_of_a_barrier_begins_and_its_place_is_told_once(
    execute: Callable[..., Any], manager: SparkBackfillConnectionManager, lines: list[str]
) -> None:
    manager.set_line_if_stopped("mv [STOPPED · 40.0 %]")
    manager.cancel_open()

    for _ in range(2):
        with pytest.raises(SparkStatementError, match="stopped before: lake"):
            execute()
    assert execute(sql="select 7") == 7
    assert lines == [
        "No further statement of a barrier begins; Ctrl-C again ends dbt at once",
        "mv [STOPPED · 40.0 %]. Nothing is lost; run again to continue",
    ]


def test_what_a_cut_statement_says_is_not_shown(
    execute: Callable[..., Any],
    manager: SparkBackfillConnectionManager,
    spark: _Spark,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    send = spark._fail

    def stop_first(at: str) -> None:
        if at == spark.fails_at:
            manager.cancel_open()
        send(at)

    monkeypatch.setattr(spark, "_fail", stop_first)
    with pytest.raises(SparkStatementError) as raised:
        execute(CONFLICT)

    assert raised.value.msg == (
        "stopped in the middle of: lake.mv: merge the range of the barrier 3. "
        "Nothing is lost; run again to continue"
    )
    assert len(spark.sent) == 1


def test_a_connection_that_cannot_be_cancelled_is_no_error(
    manager: SparkBackfillConnectionManager,
) -> None:
    def cancel() -> None:
        raise RuntimeError("read of closed file")

    connection: Any = SimpleNamespace(handle=SimpleNamespace(cancel=cancel))
    manager.cancel(connection)


def test_a_session_that_cannot_be_closed_is_told_and_no_error(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def fail() -> None:
        raise RuntimeError("java.lang.NoClassDefFoundError: LlapSigner\n\tat a.B.c(B.java:1)")

    lines: list[str] = []
    monkeypatch.setattr(connections, "logger", SimpleNamespace(warning=lines.append))
    connection: Any = SimpleNamespace(
        name="model.p.mv", state="open", handle=SimpleNamespace(close=fail), transaction_open=False
    )

    SparkBackfillConnectionManager._close_handle(connection)

    assert lines == ["the session could not be closed: NoClassDefFoundError: LlapSigner"]
