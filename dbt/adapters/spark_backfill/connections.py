"""dbt-spark's connections under this adapter's type, with errors that a user can read."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING

from dbt.adapters.contracts.connection import AdapterResponse, Connection
from dbt.adapters.events.logging import AdapterLogger
from dbt.adapters.spark.connections import (
    SparkConnectionManager,
    SparkConnectionMethod,
    SparkCredentials,
)
from dbt_common.exceptions import CompilationError

from dbt.adapters.spark_backfill.errors import (
    RefusalError,
    SparkStatementError,
    get_error_text,
    get_shown_text,
    get_step,
    is_conflict,
    silence_error_log,
)
from dbt.adapters.spark_backfill.one_call import let_threads_share
from dbt.adapters.spark_backfill.stop import Stop, interrupt_on_sigterm
from dbt.adapters.spark_backfill.turns import Turnstile

if TYPE_CHECKING:
    from multiprocessing.context import SpawnContext

    import agate
    from dbt.adapters.contracts.connection import AdapterRequiredConfig

logger = AdapterLogger("SparkBackfill")

OVER_THRIFT = (SparkConnectionMethod.THRIFT, SparkConnectionMethod.HTTP)
"""The methods whose connections are PyHive's."""

CONFLICT_WAITS = (1.0, 5.0, 15.0)
"""Seconds before a statement that lost a conflict is sent again."""


@dataclass
class SparkBackfillCredentials(SparkCredentials):
    """The profile of `type: spark_backfill`: every field of `type: spark`, and no other."""

    @property
    def type(self) -> str:
        return "spark_backfill"


class SparkBackfillConnectionManager(SparkConnectionManager):
    TYPE = "spark_backfill"

    def __init__(self, profile: AdapterRequiredConfig, mp_context: SpawnContext) -> None:
        super().__init__(profile, mp_context)
        self.stop = Stop(logger.info)
        self._turns = Turnstile()
        self._undo_sigterm = interrupt_on_sigterm()

    @classmethod
    def open(cls, connection: Connection) -> Connection:
        if connection.credentials.method == SparkConnectionMethod.SESSION:
            silence_error_log()
        opened = super().open(connection)
        if connection.credentials.method in OVER_THRIFT:
            let_threads_share(opened.handle.handle)
        return opened

    @classmethod
    def _close_handle(cls, connection: Connection) -> None:
        """Close the session as dbt does, but ignore an error of the server.

        The session has already answered all its statements, so no model's result depends on the
        session. Spark 4.1's server fails to close sessions if it lacks `hive-llap-common`.
        """
        try:
            super()._close_handle(connection)
        except Exception as error:
            logger.warning(f"the session could not be closed: {get_shown_text(error)}")

    def set_line_if_stopped(self, line: str) -> None:
        """Remember the progress of this thread's model, for the message if dbt is stopped."""
        self.stop.note(self.get_thread_identifier(), line)

    def take_turn(self) -> None:
        """Wait for the turn of this thread's model. All models that already wait come first."""
        self._turns.take(self.get_thread_identifier())

    def release(self) -> None:
        """End the model's turn, and do what dbt does at the end of a model, even after an error."""
        self.stop.forget(self.get_thread_identifier())
        self._turns.leave(self.get_thread_identifier())
        super().release()

    def cleanup_all(self) -> None:
        """Do what dbt does at the end of an invocation, and restore the SIGTERM handler."""
        super().cleanup_all()
        self._undo_sigterm()

    def cancel_open(self) -> list[str]:
        """Do what dbt does on Ctrl-C and on a failure with `--fail-fast`.

        dbt cancels running statements on a server, but not in a `session`. On both, no further
        statement of a barrier begins.
        """
        self.stop.set()
        self._turns.open()
        names: list[str] = super().cancel_open()
        return names

    def cancel(self, connection: Connection) -> None:
        """Cancel as dbt does. If that fails, the statement runs to its end."""
        try:
            super().cancel(connection)
        except Exception as error:
            logger.debug(f"not cancelled: {get_error_text(error)}")

    @contextmanager
    def exception_handler(self, sql: str) -> Iterator[None]:
        """Turn any error of a statement into a `SparkStatementError`.

        dbt also runs the macro of a `run-operation` in this context. Errors of that macro itself
        are not errors of a statement.
        """
        try:
            yield
        except (SparkStatementError, RefusalError, CompilationError):
            raise
        except Exception as error:
            logger.debug(f"Error while running:\n{sql}")
            logger.debug(get_error_text(error))
            raise SparkStatementError(get_shown_text(error)) from error

    def execute(
        self,
        sql: str,
        auto_begin: bool = False,
        fetch: bool = False,
        limit: int | None = None,
    ) -> tuple[AdapterResponse, agate.Table]:
        """Execute as dbt does, but also handle errors that are raised while rows are fetched.

        A `session` runs a query only when its rows are fetched. dbt does that outside of
        `exception_handler`, so the user would see "Unhandled error" and a Java stack.

        If a statement of a barrier loses a conflict with maintenance or another run, it is sent
        again: running the statement twice is harmless. If another run has committed the barrier,
        the statement's fence reports that.
        """
        step = get_step(sql)
        for wait in (*CONFLICT_WAITS, None):
            if step is not None and self.stop.is_set:
                raise SparkStatementError(self._get_stopped_text(step, begun=False))
            try:
                with self.exception_handler(sql):
                    return super().execute(sql, auto_begin=auto_begin, fetch=fetch, limit=limit)
            except SparkStatementError as error:
                if step is not None and self.stop.is_set:
                    raise SparkStatementError(self._get_stopped_text(step, begun=True)) from error
                if wait is None or step is None or not is_conflict(error):
                    raise
                logger.info(f"{step}: another commit came first; sent again in {wait:.0f} s")
                time.sleep(wait)
        raise AssertionError("unreachable")

    def _get_stopped_text(self, step: str, begun: bool) -> str:
        return self.stop.get_text(self.get_thread_identifier(), step, begun)
