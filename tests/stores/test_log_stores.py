"""Two processes commit versions of a Delta table on S3: which log stores lose commits?

The processes have no Spark: they write as a Spark driver does, see `CommitRace.java`. These tests
show why `run_check_of_store` warns and refuses.
"""

from __future__ import annotations

import subprocess
import time
from pathlib import Path

import pytest
from nyc.object_store import BUCKET, ObjectStore

from support.stores import class_path, s3a

VERSIONS = 100
START_MILLISECONDS = 8000
PATIENCE_SECONDS = 300


def commits_of_two_drivers(log_store: str, store: ObjectStore, classes: Path) -> int:
    """Return the number of successful commits of both drivers, each of which tries all versions."""
    start = time.time_ns() // 1_000_000 + START_MILLISECONDS
    log = f"s3a://{BUCKET}/races/{log_store}/_delta_log"
    settings = [f"{name}={value}" for name, value in s3a(store).items()]
    java = ["java", "-Xmx300m", "-cp", class_path(classes), "CommitRace", log_store, log]
    drivers = [
        subprocess.Popen(
            [*java, name, str(VERSIONS), str(start), *settings],
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
        )
        for name in ("one", "other")
    ]
    return sum(int(driver.communicate(timeout=PATIENCE_SECONDS)[0]) for driver in drivers)


@pytest.mark.parametrize("name", ["S3SingleDriver", "HDFS", "Local", "Azure", "GCS"])
def test_the_log_stores_of_delta_lose_commits(store: ObjectStore, classes: Path, name: str) -> None:
    log_store = f"io.delta.storage.{name}LogStore"
    commits = commits_of_two_drivers(log_store, store, classes)
    print(f"{log_store}: {commits - VERSIONS} of {commits} commits lost")

    assert commits > VERSIONS


def test_conditional_writes_lose_no_commit(store: ObjectStore, classes: Path) -> None:
    assert commits_of_two_drivers("ConditionalLogStore", store, classes) == VERSIONS
