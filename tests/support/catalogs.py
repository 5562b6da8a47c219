"""Servers of Iceberg catalogs on this machine: Iceberg's own REST catalog, Hive's metastore, Glue.

with rest_server(directory, jdbc_catalog(store, database)) as url:
    settings = iceberg_on(rest_catalog(store, url))

The first two need a JDK, because Java compiles their programs. Glue is moto's.
"""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

import pyspark
from nyc.object_store import BUCKET, ObjectStore, free_port
from nyc.thrift_server import POSTGRESQL, fetch_jars, port_is_taken

from support.store_lake import ICEBERG_AWS
from support.stores import HADOOP_AWS, jars_of, s3a

ICEBERG_CORE = "org.apache.iceberg:iceberg-core:1.11.0"
REST_SERVER = (
    ICEBERG_CORE,
    "org.apache.iceberg:iceberg-aws:1.11.0",
    ICEBERG_AWS,
    "org.eclipse.jetty.ee10:jetty-ee10-servlet:12.1.0",
    POSTGRESQL,
)
# The REST catalog is a class of Iceberg's tests. Their jar has the coordinates of `iceberg-core`
# and a classifier, which Spark's resolver cannot name.
TESTS_JAR = """
<ivysettings>
    <settings defaultResolver="tests"/>
    <resolvers>
        <ibiblio name="tests" m2compatible="true"
                 pattern="[organisation]/[module]/[revision]/[module]-[revision]-tests.[ext]"/>
    </resolvers>
</ivysettings>
"""
PROGRAMS = Path(__file__).parent / "java"
START_SECONDS = 180
STOP_SECONDS = 30


@contextmanager
def rest_server(directory: Path, kept_in: Mapping[str, str]) -> Iterator[str]:
    """Start the REST catalog, and stop it at the end. Yield its URL.

    :param directory: for the log and a jar
    :param kept_in: the properties of the catalog that the server keeps the tables in
    :raises AssertionError: if the server does not start
    """
    settings = directory / "ivysettings.xml"
    settings.write_text(TESTS_JAR)
    # In its own directory: Ivy would take one jar for the other one.
    tests = {"spark.jars.ivySettings": str(settings), "spark.jars.ivy": str(directory / "ivy")}
    jars = [*fetch_jars([ICEBERG_CORE], tests), *fetch_jars(list(REST_SERVER))]
    with _server(directory, PROGRAMS / "rest" / "RestCatalog.java", jars, kept_in) as port:
        yield f"http://127.0.0.1:{port}"


@contextmanager
def hive_server(directory: Path, store: ObjectStore) -> Iterator[str]:
    """Start a metastore whose warehouse is in the store, and stop it at the end. Yield its URL.

    :param directory: for the log
    :raises AssertionError: if the server does not start
    """
    jars = [
        *jars_of(HADOOP_AWS, "hadoop-aws", "awssdk"),
        f"{Path(pyspark.__file__).parent / 'jars'}/*",
    ]
    settings = {**s3a(store), "hive.metastore.warehouse.dir": f"s3a://{BUCKET}/hive"}
    with _server(directory, PROGRAMS / "hive" / "HiveMetastore.java", jars, settings) as port:
        yield f"thrift://127.0.0.1:{port}"


@contextmanager
def glue_server(directory: Path) -> Iterator[str]:
    """Start Glue's catalog, and stop it at the end. Yield its URL.

    :param directory: for the log
    :raises AssertionError: if the server does not start
    """
    port = free_port()
    with _started(directory, port, [sys.executable, "-m", "support.glue_server", str(port)]):
        yield f"http://127.0.0.1:{port}"


@contextmanager
def _server(
    directory: Path, program: Path, jars: Sequence[str], settings: Mapping[str, str]
) -> Iterator[int]:
    port = free_port()
    arguments = [f"{name}={value}" for name, value in settings.items()]
    command = ["java", "-cp", os.pathsep.join(jars), str(program), str(port), *arguments]
    with _started(directory, port, command):
        yield port


@contextmanager
def _started(directory: Path, port: int, command: Sequence[str]) -> Iterator[None]:
    log, path = directory / "server.log", str(Path(__file__).parents[1])
    with log.open("wb") as output:
        process = subprocess.Popen(
            command,
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
            cwd=directory,
            env={**os.environ, "PYTHONPATH": path},
        )
    try:
        deadline = time.monotonic() + START_SECONDS
        while not port_is_taken(port):
            if process.poll() is not None or time.monotonic() > deadline:
                raise AssertionError(f"a catalog does not start: {log.read_text()[-2000:]}")
            time.sleep(0.2)
        yield
    finally:
        process.terminate()
        try:
            process.wait(STOP_SECONDS)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
