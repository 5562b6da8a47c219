"""The machine and the versions of a run."""

from __future__ import annotations

import os
import platform
import subprocess
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path

from nyc.thrift_server import DELTA, ICEBERG

from costs.figures import Environment
from support.project import REPOSITORY

# The files on which the figures depend. The results are excluded, because a run writes them.
MEASURED = ("dbt", "macros", "benchmarks", "tests/support", "example_project/nyc")
RESULTS = (":!benchmarks/results*", ":!benchmarks/RESULTS.md")

PACKAGES = ("dbt-backfill", "dbt-core", "dbt-spark", "pyspark")


def environment(java: str) -> Environment:
    """:param java: the version of Spark's JVM"""
    jars = {"delta-spark": DELTA, "iceberg-spark-runtime": ICEBERG}
    return Environment(
        commit=_commit(),
        date=datetime.now(UTC).date().isoformat(),
        machine=_machine(),
        versions={
            **{name: version(name) for name in PACKAGES},
            **{name: coordinate.rpartition(":")[2] for name, coordinate in jars.items()},
            "Python": platform.python_version(),
            "Java": java,
        },
    )


def load() -> float:
    """Return the load of the machine in the last minute, in processes."""
    return round(os.getloadavg()[0], 1)


def _commit() -> str:
    short = _git("rev-parse", "--short", "HEAD")
    changed = _git("status", "--porcelain", "--", *MEASURED, *RESULTS)
    return f"{short} with changes" if changed else short


def _git(*arguments: str) -> str:
    command = ["git", "-C", str(REPOSITORY), *arguments]
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip()


def _machine() -> str:
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30
    return f"{os.cpu_count()} cores of {_processor()}, {memory:.0f} GiB, {platform.system()}"


def _processor() -> str:
    """Return the processor's name as Linux shows it, or its architecture."""
    info = Path("/proc/cpuinfo")
    lines = info.read_text().splitlines() if info.exists() else []
    names = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    return names[0] if names else platform.machine()
