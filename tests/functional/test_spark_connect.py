"""dbt-spark's method `session` works through Spark Connect, in a separate process.

The test follows the quickstart. `make test-spark-connect` runs it with the packages of the Spark
Connect client. Without these packages, pytest skips the test.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from nyc.object_store import free_port
from nyc.thrift_server import HOST, ThriftServer

from support.lake import SMALL
from support.project import REPOSITORY

pytestmark = [
    pytest.mark.profiles("session-delta", reason="it has a server of its own"),
    pytest.mark.skipif(
        "DBT_BACKFILL_CONNECT" not in os.environ, reason="make test-spark-connect runs it"
    ),
]

CLIENT = """
import sys
from pathlib import Path
from support.pages import follow
from support.profiles import SESSION_DELTA
from support.lake import SessionLake
from support.project import Project

class ConnectLake(SessionLake):
    # What is fixed when a Spark starts is the server's.
    parameters = {}

directory = Path(sys.argv[1])
project = Project(directory / "project", ConnectLake(directory / "lake"), "shop", "spark_backfill")
results = list(follow(project, "quickstart.md"))
assert all(result.success for result in results), [result.error for result in results]
assert type(project.lake.spark).__module__ == "pyspark.sql.connect.session"
"""


def test_the_quickstart_runs_through_spark_connect(tmp_path: Path) -> None:
    port = free_port()
    settings = {
        **SMALL,
        # Spark Connect runs in the same Spark as the Thrift server.
        "spark.plugins": "org.apache.spark.sql.connect.SparkConnectPlugin",
        "spark.connect.grpc.binding.port": str(port),
    }
    ours = [str(REPOSITORY / "tests"), str(REPOSITORY / "example_project")]
    environment = {
        "SPARK_REMOTE": f"sc://{HOST}:{port}",
        "PYTHONPATH": os.pathsep.join(ours),
        "PYTHONWARNINGS": "ignore::UserWarning:pyspark.sql.connect.conf",
    }
    with ThriftServer(tmp_path / "lake", free_port(), settings=settings):
        done = subprocess.run(
            [sys.executable, "-c", CLIENT, str(tmp_path)],
            env={**os.environ, **environment},
            capture_output=True,
            text=True,
        )

    assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-3000:]
    assert "Cannot modify the value of the static Spark config" not in done.stderr
