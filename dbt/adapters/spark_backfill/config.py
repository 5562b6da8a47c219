"""The configs of a `backfilled_mv` model, as dbt's typed adapter configs."""

from dataclasses import dataclass
from typing import Any

from dbt.adapters.spark.impl import SparkConfig


@dataclass
class SparkBackfillConfig(SparkConfig):
    """The names and types of the options. `macros/core/config/options.sql` describes the options.

    `unique_key`, `on_schema_change`, `tags`, `grants`, hooks, `persist_docs` and `contract` are
    dbt's own configs and belong to its classes.
    """

    file_format: str = "delta"
    tblproperties: dict[str, str] | None = None
    upstream_key: list[str] | None = None
    volatile_columns: list[str] | None = None
    backfill_mode: str = "arrangement"
    backfill_order: str = "ascending"
    backfill_partitions: int = 1
    backfill_rate_limit: int | None = None
    barriers_per_run: int | str = 1
    vnode_count: int = 256
    backfill_vnodes: list[int] | str | None = None
    check_key: bool = True
    on_query_change: str = "fail"
    on_gap: str = "reanchor"
    on_foreign_write: str = "reanchor"
    replace_existing: bool = False
    full_refresh_mode: str = "in_place"
    live_view: bool = False
    change_feed: dict[str, Any] | None = None
    run_minutes: float | None = None
    run_rows: int | None = None
    barrier_seconds: float | None = None
    take_turns: bool = False
    replicate: str = "auto"
    replica_rows: int | None = None
    compact_every: int | None = None
    sort_when_finished: bool = False
