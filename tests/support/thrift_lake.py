"""A lake on Spark's Thrift server, and the tests' own connection to it."""

from __future__ import annotations

import ast
import contextlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import date
from functools import cached_property
from typing import Any
from unittest.mock import patch

from dbt.adapters.spark.connections import PyhiveConnectionWrapper
from nyc.object_store import free_port
from nyc.thrift_server import HOST, POSTGRESQL, ThriftServer
from pyhive import hive
from pyspark.sql import Row

from support.lake import SMALL, Lake
from support.postgres import binaries, postgresql

USER = "dbt"

POLL_SECONDS = 0.02
"""The interval at which dbt asks if a statement has ended. A profile only allows whole seconds."""


class ThriftLake(Lake):
    """A server in its own process. An Iceberg lake has its metastore in PostgreSQL if possible."""

    @property
    def catalogs(self) -> dict[str, str]:
        if self.profile.file_format == "iceberg":
            return {"iceberg": "spark_catalog"}
        return {"delta": "spark_catalog", "iceberg": "lake"}

    @cached_property
    def server(self) -> ThriftServer:
        programs = binaries() if self.profile.file_format == "iceberg" else None
        server = ThriftServer(
            self.directory,
            free_port(),
            self.profile.file_format,
            self._resources.enter_context(postgresql(programs)) if programs else None,
            {**SMALL, **self.extra_parameters},
            packages=() if programs else (POSTGRESQL,),
        )
        self._resources.enter_context(polled_soon())
        return self._resources.enter_context(server)

    @cached_property
    def _resources(self) -> contextlib.ExitStack:
        return contextlib.ExitStack()

    def exchange_marks(self, marks: Mapping[str, str]) -> dict[str, str]:
        return {}  # each connection of dbt has a session of its own

    def output(self, settings: Mapping[str, str]) -> dict[str, Any]:
        return {
            "method": "thrift",
            "host": HOST,
            "port": self.server.port,
            "user": USER,
            "poll_interval": 1,
            "connect_retries": 2,
            # The server only accepts a client's settings with this prefix. So it ignores the
            # `spark.sql.ansi.enabled: false` of dbt-spark, and models run in ANSI mode.
            "server_side_parameters": {
                f"set:hiveconf:{name}": value for name, value in settings.items()
            },
        }

    @cached_property
    def _connection(self) -> hive.Connection:
        return hive.connect(HOST, port=self.server.port, username=USER)

    def kill(self) -> None:
        """Kill the server, as if its machine died; `start_again` brings it back."""
        self._disconnect()
        process = self.server._process
        assert process is not None
        process.kill()
        process.wait()

    def stop(self) -> None:
        """Stop the server cleanly, so that another process can open the lake."""
        self._disconnect()
        self.server.stop()

    def start_again(self) -> None:
        self.server.start()

    def _disconnect(self) -> None:
        connection = self.__dict__.pop("_connection", None)
        if connection is not None:
            connection.close()

    def sql(self, statement: str) -> list[Row]:
        with contextlib.closing(self._connection.cursor()) as cursor:
            cursor.execute(statement)
            if not cursor.description:
                return []
            return rows_of(cursor.description, cursor.fetchall())

    def columns(self, table: str) -> tuple[str, ...]:
        with contextlib.closing(self._connection.cursor()) as cursor:
            cursor.execute(f"select * from {table} limit 0")
            return tuple(name for name, *_ in cursor.description)

    def close(self) -> None:
        self._disconnect()
        self._resources.close()


@contextlib.contextmanager
def polled_soon() -> Iterator[None]:
    """Poll the server more often. dbt-spark would wait a second for each short statement."""
    execute = PyhiveConnectionWrapper._execute_with_polling

    def execute_soon(self: Any, *arguments: Any) -> None:
        waited, self.poll_interval = self.poll_interval, POLL_SECONDS
        try:
            execute(self, *arguments)
        finally:
            self.poll_interval = waited  # also used before a retry

    with patch.object(PyhiveConnectionWrapper, "_execute_with_polling", execute_soon):
        yield


def rows_of(description: Sequence[Sequence[Any]], rows: Sequence[Sequence[Any]]) -> list[Row]:
    """Convert the rows of PyHive to the rows of a session.

    PyHive knows numbers, booleans, binaries and timestamps; everything else is text.
    """
    make = Row(*(name for name, *_ in description))
    converters = [CONVERTERS.get(type_name, _same) for _, type_name, *_ in description]
    return [
        make(
            *(
                value if value is None else convert(value)
                for convert, value in zip(converters, row, strict=True)
            )
        )
        for row in rows
    ]


def parse_nested(text: str) -> Any:
    """Return an array, map or struct as Spark prints it: `["a",null]`, `{1:2}`.

    Strings in it are not escaped: a value with quotes or backslashes may have to stay text.
    """
    try:
        tree = ast.parse(text, mode="eval")
    except SyntaxError:
        return text
    return ast.literal_eval(_Constants().visit(tree))


class _Constants(ast.NodeTransformer):
    names = {"null": None, "true": True, "false": False}  # noqa: RUF012

    def visit_Name(self, node: ast.Name) -> ast.expr:
        return ast.copy_location(ast.Constant(self.names[node.id]), node)


def _same(value: Any) -> Any:
    return value


CONVERTERS: dict[str, Callable[[Any], Any]] = {
    "DATE_TYPE": date.fromisoformat,
    "ARRAY_TYPE": parse_nested,
    "MAP_TYPE": parse_nested,
    "STRUCT_TYPE": parse_nested,
}
