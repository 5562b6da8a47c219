"""What a barrier reports to `run_results.json`."""

from dataclasses import dataclass

from dbt.adapters.contracts.connection import AdapterResponse


@dataclass
class BarrierResponse(AdapterResponse):
    """The state of a `backfilled_mv` after a run, and what the run did to it.

    The counts of rows are sums over all barriers of the run; `epoch`, `kind`, `progress` and
    `upstream_version` are those of its last barrier. A field that is None is left out of
    `run_results.json`.
    """

    kind: str | None = None
    """`create`, `advance`, `reset`, `reanchor` or `abandon`."""
    epoch: int | None = None
    barriers: int | None = None
    """How many barriers this run committed; 0 if it had nothing to do."""
    progress: float | None = None
    """Backfilled part of the upstream's rows, from 0.0 to 1.0."""
    row_count: int | None = None
    """Snapshot rows read since the backfill began."""
    upstream_row_count: int | None = None
    upstream_version: str | None = None
    rows_backfilled: int | None = None
    rows_changed: int | None = None
    rows_deleted: int | None = None
