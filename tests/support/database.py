"""A PostgreSQL whose WAL can be decoded, for tests on a live database."""

from __future__ import annotations

import os
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psycopg

from support.postgres import UNPRIVILEGED, binaries, free_port

USER = "shop"
PASSWORD = "oh-so-secret-4711"
OPTIONS = {
    "wal_level": "logical",
    "fsync": "off",
    "max_replication_slots": "40",
    "max_wal_senders": "40",
    "max_connections": "200",
    "max_prepared_transactions": "10",
    "output_plugin_libraries": "wal2json,pgoutput,test_decoding",
}


@dataclass
class Database:
    programs: Path
    directory: Path
    port: int

    @property
    def dsn(self) -> str:
        return f"host=localhost port={self.port} user={USER} password={PASSWORD} dbname=postgres"

    def spark_settings(self, catalog: str) -> dict[str, str]:
        """Of Spark's own JDBC catalog."""
        name = f"spark.sql.catalog.{catalog}"
        return {
            name: "org.apache.spark.sql.execution.datasources.v2.jdbc.JDBCTableCatalog",
            f"{name}.url": f"jdbc:postgresql://localhost:{self.port}/postgres",
            f"{name}.driver": "org.postgresql.Driver",
            f"{name}.user": USER,
            f"{name}.password": PASSWORD,
            f"{name}.fetchsize": "10000",
        }

    def connect(self) -> psycopg.Connection[Any]:
        return psycopg.connect(self.dsn, autocommit=True)

    def tell(self, *statements: str) -> None:
        """Executes these, each by itself, whether or not there is a standby to wait for."""
        with self.connect() as connection:
            connection.execute("set synchronous_commit = local")
            for statement in statements:
                connection.execute(statement.encode())

    def start(self) -> None:
        options = " ".join(f"-c {name}={value}" for name, value in OPTIONS.items())
        self._control(
            *("-l", str(self.directory / "log"), "-o"),
            f"-p {self.port} -k {self.directory} -c listen_addresses=localhost {options}",
            "start",
        )

    def stop(self, mode: str = "fast") -> None:
        self._control("-m", mode, "stop")

    def restart(self, mode: str = "fast") -> None:
        self.stop(mode)
        self.start()

    def make(self) -> None:
        secret = self.directory / "secret"
        secret.write_text(PASSWORD)
        if os.geteuid() == 0:
            shutil.chown(secret, UNPRIVILEGED, UNPRIVILEGED)
        data = str(self.directory / "data")
        self._run(
            "initdb", "-D", data, "-U", USER, "--auth=scram-sha-256", f"--pwfile={secret}", "-N"
        )
        secret.unlink()

    def _control(self, *arguments: str) -> None:
        self._run("pg_ctl", "-D", str(self.directory / "data"), "-w", *arguments)

    def _run(self, program: str, *arguments: str) -> None:
        unprivileged = UNPRIVILEGED if os.geteuid() == 0 else None
        with tempfile.TemporaryFile("w+") as output:
            done = subprocess.run(
                [str(self.programs / program), *arguments],
                stdout=output,
                stderr=output,
                cwd="/",
                user=unprivileged,
                group=unprivileged,
                extra_groups=[] if unprivileged else None,
            )
            output.seek(0)
            if done.returncode:
                raise RuntimeError(f"{program} {' '.join(arguments)} failed:\n{output.read()}")


@contextmanager
def database() -> Iterator[Database]:
    programs = binaries()
    assert programs is not None
    directory = Path(tempfile.mkdtemp(prefix="database"))
    if os.geteuid() == 0:
        shutil.chown(directory, UNPRIVILEGED, UNPRIVILEGED)
    made = Database(programs, directory, free_port())
    try:
        made.make()
        made.start()
        try:
            yield made
        finally:
            made.stop("immediate")
    finally:
        shutil.rmtree(directory)
