"""A standalone Spark cluster on this machine: one process for the master and for each worker.

with Cluster(directory) as cluster:
    lake = SessionLake(directory, profile, cluster.settings)
    cluster.kill_a_worker()               # its executor dies with it
    cluster.add_worker()
"""

from __future__ import annotations

import os
import signal
import subprocess
import time
from dataclasses import dataclass, field
from pathlib import Path
from subprocess import DEVNULL, Popen

from nyc.object_store import free_port
from nyc.thrift_server import HOST, SPARK_HOME, port_is_taken

from support.lake import QUICK_COMPILER

START_SECONDS = 60
STOP_SECONDS = 30
DAEMON_MEMORY = "256m"


@dataclass
class Cluster:
    """A cluster whose workers have one core and run one executor each.

    :param directory: for the logs and the workers' files; created if it is missing
    :param memory: the memory of a worker, and of its executor
    """

    directory: Path
    workers: int = 2
    memory: str = "1g"
    _port: int = field(default_factory=free_port)
    _master: Popen[bytes] | None = None
    _running: list[Popen[bytes]] = field(default_factory=list)
    _started: int = 0

    @property
    def url(self) -> str:
        return f"spark://{HOST}:{self._port}"

    @property
    def settings(self) -> dict[str, str]:
        """Return the settings with which a driver on this machine uses the executors."""
        return {
            "spark.master": self.url,
            "spark.executor.memory": self.memory,
            "spark.executor.cores": "1",
            "spark.executor.extraJavaOptions": QUICK_COMPILER,
            # The executors use this name to connect to the driver.
            "spark.driver.host": HOST,
            "spark.driver.bindAddress": "127.0.0.1",
            # By default the driver retries a dead executor for a quarter of a minute.
            "spark.shuffle.io.maxRetries": "1",
            "spark.shuffle.io.retryWait": "100ms",
        }

    def __enter__(self) -> Cluster:
        self.directory.mkdir(parents=True, exist_ok=True)
        place = ["--host", HOST, "--port", str(self._port), "--webui-port", "0"]
        self._master = self._start("master", "org.apache.spark.deploy.master.Master", *place)
        try:
            self._wait_for_master()
            for _ in range(self.workers):
                self.add_worker()
        except BaseException:
            self.stop()
            raise
        return self

    def __exit__(self, *error: object) -> None:
        self.stop()

    def add_worker(self) -> None:
        """Start a worker, which registers itself.

        Executors start when an application needs them.
        """
        self._started += 1
        name = f"worker_{self._started}"
        size = ["--cores", "1", "--memory", self.memory, "--work-dir", str(self.directory / name)]
        place = ["--host", HOST, "--port", "0", "--webui-port", "0", self.url]
        worker = "org.apache.spark.deploy.worker.Worker"
        self._running.append(self._start(name, worker, *size, *place))

    def kill_a_worker(self) -> None:
        """Kill the oldest worker with its executor, as if its machine died."""
        _kill(self._running.pop(0))

    def stop(self) -> None:
        for process in self._running:
            _kill(process)
        self._running.clear()
        if self._master is not None:
            _kill(self._master)
            self._master = None

    def _start(self, name: str, of: str, *arguments: str) -> Popen[bytes]:
        with (self.directory / f"{name}.log").open("wb") as log:
            return Popen(
                [f"{SPARK_HOME}/bin/spark-class", of, *arguments],
                stdin=DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                cwd=self.directory,
                # The worker and its executors form a process group of their own.
                start_new_session=True,
                env={
                    **os.environ,
                    "SPARK_HOME": str(SPARK_HOME),
                    "SPARK_DAEMON_MEMORY": DAEMON_MEMORY,
                    "SPARK_LOCAL_IP": "127.0.0.1",
                },
            )

    def _wait_for_master(self) -> None:
        assert self._master is not None
        deadline = time.monotonic() + START_SECONDS
        while not port_is_taken(self._port):
            if self._master.poll() is not None or time.monotonic() > deadline:
                log = (self.directory / "master.log").read_text(errors="replace")
                raise AssertionError(f"the master does not listen: {log[-2000:]}")
            time.sleep(0.2)


def _kill(process: Popen[bytes]) -> None:
    """Kill all processes in the group of this process."""
    os.killpg(process.pid, signal.SIGKILL)
    process.wait(STOP_SECONDS)
