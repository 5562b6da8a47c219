"""The state of all MVs in Prometheus' text format."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any

from prometheus_client import CollectorRegistry, Gauge, generate_latest

METRICS = {
    "progress": ("progress_ratio", "Backfilled part of the upstream's rows, 0 to 1"),
    "row_count": ("snapshot_rows", "Upstream rows read since the backfill began"),
    "upstream_row_count": ("upstream_rows", "Rows of the upstream as last counted"),
    "rows_per_second": ("rows_per_second", "Upstream rows read per second in the last barriers"),
    "seconds_left": ("left_seconds", "Time left at the pace of the last barriers"),
    "behind": ("behind_versions", "Versions of the upstream that the MV has not come to"),
    "behind_seconds": ("lag_seconds", "Age of the first of these versions, 0 if there is none"),
    "epoch": ("epoch", "The last committed barrier"),
    "seconds_since_barrier": ("since_barrier_seconds", "Time since the last committed barrier"),
    "backfill_finished": ("finished", "1 once the whole upstream was read"),
    "paused": ("paused", "1 while a pause applies"),
    "reanchored": ("reanchor", "1 if the last barrier compared rows with the query"),
}
"""The metric's name and help text for each column of `backfill_progress`."""


def render(rows: Sequence[dict[str, Any]]) -> str:
    """Return one sample per MV and metric. A metric that an MV does not have is left out."""
    registry = CollectorRegistry()
    told = [row | _derived(row) for row in rows]
    for column, (name, text) in METRICS.items():
        gauge = Gauge(f"dbt_backfill_{name}", text, ["model", "relation"], registry=registry)
        for row in told:
            if (value := row.get(column)) is not None:
                gauge.labels(row["model"], row["relation"]).set(float(value))
    return generate_latest(registry).decode()


def _derived(row: dict[str, Any]) -> dict[str, Any]:
    derived: dict[str, Any] = {"reanchored": row.get("kind") in ("reanchor", "sweep")}
    if row.get("behind") == 0:
        derived["behind_seconds"] = 0
    if (committed := row.get("committed_at")) is not None:
        age = datetime.now(UTC) - datetime.fromisoformat(committed)
        derived["seconds_since_barrier"] = max(0.0, age.total_seconds())
    return derived
