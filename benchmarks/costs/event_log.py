"""The bytes that Spark's tasks read of a table, from the log of Spark's events.

A stage counts if a scan of the table is in it, with all that its tasks read. So a stage that also
reads something else, such as a cached table, counts too high.
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
    # Hadoop counts no bytes that are read from a local disk in several ranges at once.
    "spark.hadoop.parquet.hadoop.vectored.io.enabled": "false",
}
"""Of Spark, beside `spark.eventLog.dir`."""

PLANS = ("SparkListenerSQLExecutionStart", "SparkListenerSQLAdaptiveExecutionUpdate")
BYTES_READ = "internal.metrics.input.bytesRead"

Event = dict[str, Any]


class EventLog:
    """The log of the application that is at work, in a directory of its own."""

    def __init__(self, directory: Path) -> None:
        [path] = directory.iterdir()
        self._file: BinaryIO = path.open("rb")
        self._begun = b""

    def read(self) -> list[Event]:
        """What was logged since it was read last; Spark must have written all of it."""
        *lines, self._begun = (self._begun + self._file.read()).split(b"\n")
        return [json.loads(line) for line in lines]


def bytes_read(events: Iterable[Event], table: str) -> int:
    """What stages read that scan a table of this name."""
    scans: set[int] = set()
    total = 0
    for event in events:
        if event["Event"].endswith(PLANS):
            scans.update(_scans(event["sparkPlanInfo"], table))
        elif event["Event"] == "SparkListenerStageCompleted":
            values = event["Stage Info"]["Accumulables"]
            if any(each["ID"] in scans for each in values):
                total += sum(int(each["Value"]) for each in values if each["Name"] == BYTES_READ)
    return total


def _scans(plan: Event, table: str) -> Iterator[int]:
    """The metrics of the scans of a table in a plan, by their ids."""
    if "Scan" in plan["nodeName"] and _reads(plan, table):
        yield from (metric["accumulatorId"] for metric in plan["metrics"])
    for child in plan["children"]:
        yield from _scans(child, table)


def _reads(plan: Event, table: str) -> bool:
    """By its name in a catalog, or by the directory of its files."""
    location = plan.get("metadata", {}).get("Location", "")
    return plan["nodeName"].endswith(f".{table}") or f"/{table}]" in location
