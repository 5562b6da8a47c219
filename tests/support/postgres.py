"""The tests' own PostgreSQL server, which is a shared metastore or an upstream.

with logical_postgresql(programs) as database:
    database.sql("create table orders (id int primary key, status text)")
    settings = database.catalog_settings("pg")     # Spark's settings for its JDBC catalog
"""

from __future__ import annotations

import os
import pwd
import shlex
import shutil
import subprocess
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from nyc.object_store import free_port

USER = "hive"
UNPRIVILEGED = "postgres"


def binaries() -> Path | None:
    """Return the directory of the newest `initdb` and `pg_ctl`; None without PostgreSQL."""
    found = sorted(
        Path("/usr/lib/postgresql").glob("*/bin/initdb"),
        key=lambda path: float(path.parents[1].name),
    )
    on_path = shutil.which("initdb")
    if on_path:
        found.insert(0, Path(on_path).resolve())
    if not found or (os.geteuid() == 0 and not _has_unprivileged_user()):
        return None
    return found[-1].parent


def has_wal2json(programs: Path) -> bool:
    """True if the output plugin is installed with these programs."""
    places = (programs.parent / "lib", Path("/usr/lib/postgresql") / programs.parent.name / "lib")
    return any((place / "wal2json.so").exists() for place in places)


@dataclass(frozen=True)
class Database:
    """A running PostgreSQL database. `url` is its JDBC URL with the user, who has no password."""

    url: str
    directory: Path
    programs: Path
    options: str

    @property
    def place(self) -> str:
        """Return the JDBC URL without a user."""
        parts = urlsplit(self.url.removeprefix("jdbc:"))
        return f"jdbc:postgresql://{parts.hostname}:{parts.port}{parts.path}"

    def connect(self, **arguments: Any) -> Any:
        """Return a connection of psycopg, with autocommit unless the arguments say otherwise."""
        import psycopg

        return psycopg.connect(self.url.removeprefix("jdbc:"), **{"autocommit": True, **arguments})

    def sql(self, statement: str, parameters: Sequence[Any] | None = None) -> list[tuple[Any, ...]]:
        """Execute a statement in its own transaction. Return its rows."""
        with self.connect() as connection:
            cursor = connection.execute(statement, parameters)
            return cursor.fetchall() if cursor.description else []

    def value(self, statement: str, parameters: Sequence[Any] | None = None) -> Any:
        """Return the only column of the only row of a query."""
        [[value]] = self.sql(statement, parameters)
        return value

    def transaction(self, *statements: str) -> None:
        """Run statements in one transaction."""
        with self.connect(autocommit=False) as connection:
            for statement in statements:
                connection.execute(statement)

    @contextmanager
    def settings(self, role: str | None = None, /, **values: str) -> Iterator[None]:
        """Give the server these settings until the block ends. Running sessions get them too.

        :param role: if given, only new connections of this role get the settings
        """
        place = "system" if role is None else f"role {role}"
        try:
            for name, value in values.items():
                self.sql(f"alter {place} set {name} = '{value}'")
            self.sql("select pg_reload_conf()")
            yield
        finally:
            for name in values:
                self.sql(f"alter {place} reset {name}")
            self.sql("select pg_reload_conf()")

    def catalog_settings(
        self, name: str = "pg", user: str = USER, password: str = ""
    ) -> dict[str, str]:
        return jdbc_catalog(self.place, user, password, name)

    def stop(self, mode: str = "fast") -> None:
        """Stop the server like `pg_ctl stop`: `immediate` is a crash."""
        run([*self._control, "-m", mode, "stop"])

    def start(self) -> None:
        run([*self._control, "-l", str(self.directory / "log"), "-o", self.options, "start"])

    def become_standby(self) -> None:
        """Make the server a standby, which accepts no writes until `promote`."""
        self.stop()
        (self._data / "standby.signal").touch()
        self.start()

    def promote(self) -> None:
        """Promote a standby. This begins another timeline of the WAL."""
        self.sql("select pg_promote()")

    def begin_epoch(self, epoch: int) -> None:
        """Advance the transaction ids, as if `epoch` times 2^32 transactions had run."""
        self.stop()
        program = str(self.programs / "pg_resetwal")
        run([program, "-e", str(epoch), "-D", str(self._data)])
        self.start()

    def save(self) -> Path:
        """Stop the server, copy all its files for `put_back`, and start the server again."""
        saved = self.directory / "saved"
        self.stop()
        run(["cp", "-a", str(self._data), str(saved)])
        self.start()
        return saved

    def put_back(self, saved: Path) -> None:
        """Restore the copy of `save`, as an administrator restores a backup. Later changes are
        lost.
        """
        self.stop()
        shutil.rmtree(self._data)
        saved.rename(self._data)
        self.start()

    @property
    def _data(self) -> Path:
        return self.directory / "data"

    @property
    def _control(self) -> list[str]:
        return [str(self.programs / "pg_ctl"), "-D", str(self._data), "-w"]


def jdbc_catalog(url: str, user: str, password: str, name: str = "pg") -> dict[str, str]:
    """Return the Spark settings of a catalog of PostgreSQL's tables: `pg.public.orders`.

    Spark also needs the driver's jar; a `SessionLake` has it.
    """
    catalog = f"spark.sql.catalog.{name}"
    return {
        catalog: "org.apache.spark.sql.execution.datasources.v2.jdbc.JDBCTableCatalog",
        f"{catalog}.url": url,
        f"{catalog}.driver": "org.postgresql.Driver",
        f"{catalog}.user": user,
        f"{catalog}.password": password,
        f"{catalog}.fetchsize": "10000",
    }


@contextmanager
def logical_postgresql(
    programs: Path, settings: Mapping[str, str] | None = None
) -> Iterator[Database]:
    """Yield the database of a new server whose changes can be landed.

    The server has wal2json if wal2json is installed.
    """
    logical = {
        "wal_level": "logical",
        "max_replication_slots": "50",
        "max_wal_senders": "20",
        "max_prepared_transactions": "20",
        "max_connections": "100",
        **(settings or {}),
    }
    if _knows_setting(programs, "output_plugin_libraries"):
        logical = {"output_plugin_libraries": "wal2json,pgoutput,test_decoding", **logical}
    with _cluster(programs, logical) as database:
        yield database


@contextmanager
def postgresql(programs: Path, settings: Mapping[str, str] | None = None) -> Iterator[str]:
    """Run an empty PostgreSQL server until the block ends. Yield its JDBC URL.

    :param settings: further settings of the server, as in postgresql.conf
    """
    with _cluster(programs, settings or {}) as database:
        yield database.url


@contextmanager
def _cluster(programs: Path, settings: Mapping[str, str]) -> Iterator[Database]:
    # PostgreSQL refuses to run as root. The other user of the server cannot enter pytest's
    # directory, so the server's files must be elsewhere.
    directory = Path(tempfile.mkdtemp(prefix="metastore"))
    data, port = directory / "data", free_port()
    if os.geteuid() == 0:
        shutil.chown(directory, UNPRIVILEGED, UNPRIVILEGED)
    options = f"-p {port} -k {directory} -c listen_addresses=localhost -c fsync=off"
    options += "".join(f" -c {shlex.quote(f'{name}={value}')}" for name, value in settings.items())
    url = f"jdbc:postgresql://{USER}@localhost:{port}/postgres"
    database = Database(url, directory, programs, options)
    try:
        run([str(programs / "initdb"), "-D", str(data), "-U", USER, "--auth=trust", "-N"])
        database.start()
        try:
            yield database
        finally:
            # A test may have stopped the server.
            if (data / "postmaster.pid").exists():
                database.stop("immediate")
    finally:
        shutil.rmtree(directory)


@cache
def _knows_setting(programs: Path, name: str) -> bool:
    # Earlier minor versions of PostgreSQL do not start with a setting that they do not know.
    described = subprocess.run(
        [str(programs / "postgres"), "--describe-config"],
        capture_output=True,
        text=True,
        cwd="/",
        user=UNPRIVILEGED if os.geteuid() == 0 else None,
        group=UNPRIVILEGED if os.geteuid() == 0 else None,
        extra_groups=[] if os.geteuid() == 0 else None,
    )
    return any(line.split("\t")[0] == name for line in described.stdout.splitlines())


def run(command: list[str]) -> None:
    """Run a program of PostgreSQL, as an unprivileged user because it refuses to run as root."""
    # Write the output to a file: the server would keep a pipe open as long as it runs.
    with tempfile.TemporaryFile("w+") as output:
        done = subprocess.run(
            command,
            stdout=output,
            stderr=output,
            cwd="/",
            user=UNPRIVILEGED if os.geteuid() == 0 else None,
            group=UNPRIVILEGED if os.geteuid() == 0 else None,
            extra_groups=[] if os.geteuid() == 0 else None,
        )
        output.seek(0)
        if done.returncode:
            raise RuntimeError(f"{' '.join(command)} failed:\n{output.read()}")


def _has_unprivileged_user() -> bool:
    try:
        pwd.getpwnam(UNPRIVILEGED)
    except KeyError:
        return False
    return True
