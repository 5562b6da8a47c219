"""The bytes that are read from a table, according to Spark's event log.

For a Delta table these are the bytes that Spark's tasks read. If a stage has a scan of the table,
all bytes of its tasks are counted. So the figure is too high for a stage that also reads something
else, such as a cached table.

Iceberg reads several ranges of a file at once, and Hadoop does not count these bytes. So for an
Iceberg table the figure is the whole size of all files that each scan has planned, even if it reads
only a few columns.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any, BinaryIO

SETTINGS = {
    "spark.eventLog.enabled": "true",
    "spark.eventLog.compress": "false",
    "spark.eventLog.rolling.enabled": "false",
    # Hadoop does not count the bytes of several ranges that are read at once from a local disk.
    # Iceberg ignores this setting.
    "spark.hadoop.parquet.hadoop.vectored.io.enabled": "false",
}
"""Spark's settings, besides `spark.eventLog.dir`."""

PLANS = ("SparkListenerSQLExecutionStart", "SparkListenerSQLAdaptiveExecutionUpdate")
BYTES_READ = "internal.metrics.input.bytesRead"
FILES_PLANNED = "total data file size (bytes)"

Event = dict[str, Any]


class EventLog:
    """The event log of the running application, in its own directory."""

    def __init__(self, directory: Path) -> None:
        [path] = directory.iterdir()
        self._file: BinaryIO = path.open("rb")
        self._begun = b""

    def read(self) -> list[Event]:
        """Return the events since the last call. Spark must already have written them."""
        *lines, self._begun = (self._begun + self._file.read()).split(b"\n")
        return [json.loads(line) for line in lines]


def bytes_read(events: Iterable[Event], table: str) -> int:
    """Return the bytes that scans of a table of this name read."""
    of_tasks: set[int] = set()
    of_files: set[int] = set()
    read = 0
    planned: dict[int, int] = {}
    for event in events:
        if event["Event"].endswith(PLANS):
            for metrics in _scans(event["sparkPlanInfo"], table):
                if FILES_PLANNED in metrics:
                    of_files.add(metrics[FILES_PLANNED])
                else:
                    of_tasks.update(metrics.values())
        elif event["Event"].endswith("SparkListenerDriverAccumUpdates"):
            planned.update((metric, value) for metric, value in event["accumUpdates"])
        elif event["Event"] == "SparkListenerStageCompleted":
            values = event["Stage Info"]["Accumulables"]
            if any(each["ID"] in of_tasks for each in values):
                read += sum(int(each["Value"]) for each in values if each["Name"] == BYTES_READ)
    return read + sum(planned.get(metric, 0) for metric in of_files)


def _scans(plan: Event, table: str) -> Iterator[dict[str, int]]:
    """Yield, for each scan of a table in a plan, the ids of the scan's metrics by their names."""
    if "Scan" in plan["nodeName"] and _reads(plan, table):
        yield {metric["name"]: metric["accumulatorId"] for metric in plan["metrics"]}
    for child in plan["children"]:
        yield from _scans(child, table)


def _reads(plan: Event, table: str) -> bool:
    """True if a scan names the table, or the directory of its files."""
    location = plan.get("metadata", {}).get("Location", "")
    return plan["nodeName"].endswith(f".{table}") or f"/{table}]" in location
