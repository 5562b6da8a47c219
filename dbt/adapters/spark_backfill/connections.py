"""dbt-spark's connections under our adapter type, with errors a user can read."""

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

if TYPE_CHECKING:
    import agate

logger = AdapterLogger("SparkBackfill")

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

    @classmethod
    def open(cls, connection: Connection) -> Connection:
        if connection.credentials.method == SparkConnectionMethod.SESSION:
            silence_error_log()
        return super().open(connection)

    @classmethod
    def _close_handle(cls, connection: Connection) -> None:
        """As dbt's, but a session that the server fails to close is left to the server.

        Its statements have been answered by then, so there is nothing in it that a model's result
        depends on. Spark 4.1's server fails in this way where it lacks `hive-llap-common`.
        """
        try:
            super()._close_handle(connection)
        except Exception as error:
            logger.warning(f"the session could not be closed: {get_shown_text(error)}")

    @contextmanager
    def exception_handler(self, sql: str) -> Iterator[None]:
        """Turn whatever a statement raised into a `SparkStatementError`.

        dbt runs the macro of a `run-operation` in here too, whose own errors no statement raised.
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
        """As dbt's, but errors while rows are fetched are handled like those before.

        A `session` query only runs when its rows are fetched, which dbt does outside of
        `exception_handler`; the user would see "Unhandled error" and a Java stack.

        A statement of a barrier that lost a conflict, against maintenance or another run, is sent
        again: each of them is harmless when it runs twice. If it was another run that won, the
        statement's fence then says so.
        """
        for wait in (*CONFLICT_WAITS, None):
            try:
                with self.exception_handler(sql):
                    return super().execute(sql, auto_begin=auto_begin, fetch=fetch, limit=limit)
            except SparkStatementError as error:
                step = get_step(sql)
                if wait is None or step is None or not is_conflict(error):
                    raise
                logger.info(f"{step}: another commit came between; again in {wait:.0f} s")
                time.sleep(wait)
        raise AssertionError("unreachable")
