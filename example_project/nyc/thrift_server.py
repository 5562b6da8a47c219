"""Spark's own Thrift server on a lake on this machine, which any number of dbt runs may share.

python -m nyc.thrift_server --lake .lake --port 10000

The pyspark wheel has the server's class, but no script that starts it.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from subprocess import DEVNULL, Popen
from types import FrameType
from typing import IO
from urllib.parse import unquote, urlsplit

import pyspark
from pyspark.conf import SparkConf
from pyspark.java_gateway import launch_gateway

# The tests of other versions set the two variables.
DELTA = os.environ.get("DELTA_PACKAGE", "io.delta:delta-spark_4.1_2.13:4.3.1")
ICEBERG = os.environ.get(
    "ICEBERG_PACKAGE", "org.apache.iceberg:iceberg-spark-runtime-4.1_2.13:1.11.0"
)
POSTGRESQL = "org.postgresql:postgresql:42.7.7"
# Spark 4.1 does not include LLAP. Without it the server sometimes fails to close a session.
LLAP = "org.apache.hive:hive-llap-common:2.3.10"
SERVER = (DELTA, ICEBERG, LLAP)
# LLAP needs these packages, but Spark already includes them.
SPARK_HAS = (
    "org.apache.hive:hive-common",
    "org.apache.hive:hive-serde",
    "org.apache.commons:commons-lang3",
)

EXTENSIONS = (
    "io.delta.sql.DeltaSparkSessionExtension",
    "org.apache.iceberg.spark.extensions.IcebergSparkSessionExtensions",
)
FORMATS = ("delta", "iceberg")

HOST = "localhost"
START_SECONDS = 180
STOP_SECONDS = 30

SPARK_HOME = Path(pyspark.__file__).parent


class ThriftServerError(Exception):
    """The server cannot start or has ended. The message contains the reason."""


def delta_catalogs(lake: Path) -> dict[str, str]:
    """Return settings: plain names are Delta tables; the catalog `lake` has Iceberg tables."""
    return {
        "spark.sql.catalog.spark_catalog": "org.apache.spark.sql.delta.catalog.DeltaCatalog",
        "spark.sql.catalog.lake": "org.apache.iceberg.spark.SparkCatalog",
        "spark.sql.catalog.lake.type": "hadoop",
        "spark.sql.catalog.lake.warehouse": f"{lake}/iceberg",
        # With a cache, commits of other sessions would be invisible for half a minute.
        "spark.sql.catalog.lake.cache-enabled": "false",
    }


def iceberg_catalog() -> dict[str, str]:
    """Return settings by which plain names are Iceberg tables in the Hive metastore."""
    return {
        "spark.sql.catalog.spark_catalog": "org.apache.iceberg.spark.SparkSessionCatalog",
        "spark.sql.catalog.spark_catalog.type": "hive",
        "spark.sql.catalog.spark_catalog.cache-enabled": "false",
        # A metastore that Spark has created lacks these tables, and Iceberg would wait for them.
        "spark.hadoop.iceberg.engine.hive.lock-enabled": "false",
        # By default the metastore refuses to drop a column if columns of other types follow it.
        "spark.hadoop.hive.metastore.disallow.incompatible.col.type.changes": "false",
    }


def derby_metastore(lake: Path) -> dict[str, str]:
    """Return the settings of a metastore in the lake's directory.

    One process at a time can open it.
    """
    return {
        "spark.sql.warehouse.dir": f"{lake}/warehouse",
        "spark.hadoop.javax.jdo.option.ConnectionURL": f"jdbc:derby:{lake}/metastore;create=true",
        "spark.driver.extraJavaOptions": f"-Dderby.stream.error.file={lake}/derby.log",
    }


def postgresql_metastore(lake: Path, url: str) -> dict[str, str]:
    """Return the settings of a metastore that several servers may share.

    `url` is jdbc:postgresql://[user[:pw]@]host/db.
    """
    parts = urlsplit(url.removeprefix("jdbc:"))
    place = f"{parts.hostname}:{parts.port}" if parts.port else f"{parts.hostname}"
    query = f"?{parts.query}" if parts.query else ""
    jdo = "spark.hadoop.javax.jdo.option"
    settings = {
        "spark.sql.warehouse.dir": f"{lake}/warehouse",
        f"{jdo}.ConnectionURL": f"jdbc:postgresql://{place}{parts.path}{query}",
        f"{jdo}.ConnectionDriverName": "org.postgresql.Driver",
        # The metastore creates its tables in an empty database, without a version to verify.
        "spark.hadoop.datanucleus.schema.autoCreateTables": "true",
        "spark.hadoop.datanucleus.schema.autoCreateColumns": "true",
        "spark.hadoop.datanucleus.schema.autoCreateConstraints": "false",
        "spark.hadoop.hive.metastore.schema.verification": "false",
        # Spark's metastore clients use this kind of pool by default, Iceberg's clients do not. Two
        # clients with different settings would replace each other's pool. A replaced pool keeps its
        # connections.
        "spark.hadoop.datanucleus.connectionPoolingType": "DBCP",
    }
    if parts.username:
        settings[f"{jdo}.ConnectionUserName"] = unquote(parts.username)
    if parts.password:
        settings[f"{jdo}.ConnectionPassword"] = unquote(parts.password)
    return settings


@dataclass
class ThriftServer:
    """A server process; `with` starts and stops it.

    :param lake: the directory of the tables, the metastore and the log; created if it is missing
    :param table_format: `delta` or `iceberg`, the meaning of a table's plain name
    :param metastore: JDBC URL of a PostgreSQL database instead of Derby in the lake's directory
    :param settings: further Spark settings, which override others
    :param packages: further jars, by their Maven names
    """

    lake: Path
    port: int
    table_format: str = "delta"
    metastore: str | None = None
    settings: Mapping[str, str] = field(default_factory=dict)
    packages: Sequence[str] = ()
    _process: Popen[bytes] | None = None

    def __post_init__(self) -> None:
        self.lake = self.lake.resolve()

    @property
    def log(self) -> Path:
        return self.lake / "thrift.log"

    @property
    def all_settings(self) -> dict[str, str]:
        catalogs = delta_catalogs(self.lake) if self.table_format == "delta" else iceberg_catalog()
        metastore = (
            postgresql_metastore(self.lake, self.metastore)
            if self.metastore
            else derby_metastore(self.lake)
        )
        return {
            "spark.master": "local[*]",
            "spark.driver.memory": "2g",
            "spark.sql.extensions": ",".join(EXTENSIONS),
            "spark.databricks.delta.snapshotPartitions": "2",
            "spark.sql.shuffle.partitions": "4",
            "spark.sql.session.timeZone": "UTC",
            "spark.ui.enabled": "false",
            "spark.log.level": "WARN",
            **catalogs,
            **metastore,
            **self.settings,
        }

    def start(self) -> None:
        """Return once clients can connect; raises `ThriftServerError`."""
        if port_is_taken(self.port):
            raise ThriftServerError(
                f"port {self.port} is taken. Stop what listens there, or choose another port."
            )
        (self.lake / "iceberg").mkdir(parents=True, exist_ok=True)
        packages = [*SERVER, *([POSTGRESQL] if self.metastore else []), *self.packages]
        # Do not use --jars or --packages: Spark 4.1 loads those jars in the class loader of the
        # first client. When that client has disconnected, Delta fails. As usual, Spark's own jars
        # come first.
        class_path = os.pathsep.join([f"{SPARK_HOME}/jars/*", *fetch_jars(packages)])
        settings = {
            **self.all_settings,
            "spark.driver.extraClassPath": class_path,
            "spark.executor.extraClassPath": class_path,
        }
        command = [
            f"{SPARK_HOME}/bin/spark-submit",
            *("--properties-file", str(self._write_properties(settings))),
            *("--class", "org.apache.spark.sql.hive.thriftserver.HiveThriftServer2"),
            "spark-internal",
            *("--hiveconf", f"hive.server2.thrift.port={self.port}"),
            *("--hiveconf", f"hive.server2.thrift.bind.host={HOST}"),
        ]
        with self.log.open("wb") as log:
            self._process = _popen(command, log, self.lake)
        try:
            self._wait_until_it_listens()
        except BaseException:
            self.stop()
            raise

    def wait(self) -> None:
        """Return when the server has ended."""
        assert self._process is not None
        self._process.wait()

    def stop(self) -> None:
        process, self._process = self._process, None
        if process is None:
            return
        process.terminate()
        try:
            process.wait(STOP_SECONDS)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()

    def __enter__(self) -> ThriftServer:
        self.start()
        return self

    def __exit__(self, *error: object) -> None:
        self.stop()

    def _write_properties(self, settings: Mapping[str, str]) -> Path:
        """Write a file that only the server's user can read: settings may contain a password."""
        path = self.lake / "thrift.properties"
        path.unlink(missing_ok=True)
        lines = [f"{key}={value}".replace("\\", "\\\\") for key, value in settings.items()]
        with os.fdopen(os.open(path, os.O_CREAT | os.O_WRONLY | os.O_EXCL, 0o600), "w") as file:
            file.write("\n".join(lines) + "\n")
        return path

    def _wait_until_it_listens(self) -> None:
        assert self._process is not None
        deadline = time.monotonic() + START_SECONDS
        while not port_is_taken(self.port):
            if self._process.poll() is not None:
                raise ThriftServerError(f"the server has ended.\n{self._reason()}")
            if time.monotonic() > deadline:
                raise ThriftServerError(
                    f"the server does not listen after {START_SECONDS} s.\n{self._reason()}"
                )
            time.sleep(0.2)

    def _reason(self) -> str:
        """Return the last cause of an error in the log, and the path of the log."""
        lines = self.log.read_text(errors="replace").splitlines()
        causes = [line for line in lines if line.startswith("Caused by: ")] or lines
        return "\n".join([*causes[-3:], f"More is in {self.log}."])


def fetch_jars(packages: list[str], settings: Mapping[str, str] | None = None) -> list[str]:
    """Fetch these Maven packages and their dependencies; return the paths of the jars.

    Spark's own resolver fetches them, in a JVM that does not start Spark.

    :param settings: further settings of the resolver, such as `spark.jars.ivy`
    """

    class Conf(SparkConf):
        def getAll(self) -> list[tuple[str, str]]:
            return [
                ("spark.jars.packages", ",".join(packages)),
                ("spark.jars.excludes", ",".join(SPARK_HAS)),
                *(settings or {}).items(),
            ]

    silent = {"stdout": DEVNULL, "stderr": DEVNULL}
    gateway = launch_gateway(Conf(loadDefaults=False), silent)  # type: ignore[no-untyped-call]
    try:
        jars = gateway.jvm.java.lang.System.getProperty("spark.jars")
    finally:
        gateway.shutdown()
        gateway.proc.stdin.close()
        gateway.proc.wait(STOP_SECONDS)
    return [unquote(urlsplit(jar).path) for jar in jars.split(",")]


def port_is_taken(port: int) -> bool:
    with socket.socket() as probe:
        return probe.connect_ex((HOST, port)) == 0


def _popen(command: list[str], log: IO[bytes], directory: Path) -> Popen[bytes]:
    # The server gets its own process session. So Ctrl-C reaches only this process, which then stops
    # the server cleanly.
    return Popen(
        command,
        stdin=DEVNULL,
        stdout=log,
        stderr=log,
        cwd=directory,
        start_new_session=True,
        env={**os.environ, "SPARK_HOME": str(SPARK_HOME)},
    )


def _terminated(number: int, frame: FrameType | None) -> None:
    raise KeyboardInterrupt


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="nyc.thrift_server", description=__doc__)
    parser.add_argument("--port", type=int, default=10000)
    parser.add_argument("--lake", type=Path, default=Path(".lake"), help="directory of the lake")
    parser.add_argument("--format", choices=FORMATS, default="delta", help="of plain table names")
    parser.add_argument(
        "--metastore",
        metavar="URL",
        help="jdbc:postgresql://[user[:password]@]host[:port]/database",
    )
    given = parser.parse_args(arguments)
    server = ThriftServer(given.lake, given.port, given.format, given.metastore or None)
    signal.signal(signal.SIGTERM, _terminated)
    print(f"Starting Spark's Thrift server on {server.lake} ...", flush=True)
    try:
        with contextlib.suppress(KeyboardInterrupt), server:
            print(_welcome(server), flush=True)
            server.wait()
            raise ThriftServerError(f"the server has ended. See {server.log}.")
    except ThriftServerError as error:
        print(f"make thrift: {error}", file=sys.stderr)
        return 1
    print("Stopped.")
    return 0


def _welcome(server: ThriftServer) -> str:
    return f"""
It listens on {HOST}:{server.port}; the log is {server.log}. Ctrl-C stops it.

profiles.yml:
    type: spark
    method: thrift
    host: {HOST}
    port: {server.port}
    user: dbt
    schema: nyc
    poll_interval: 1

SQL:
    {SPARK_HOME}/bin/beeline -u jdbc:hive2://{HOST}:{server.port}
"""


if __name__ == "__main__":
    sys.exit(main())
