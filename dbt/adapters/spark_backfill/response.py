"""The fields that a barrier reports to `run_results.json`."""

from dataclasses import dataclass

from dbt.adapters.contracts.connection import AdapterResponse


@dataclass
class BarrierResponse(AdapterResponse):
    """The state of a `backfilled_mv` after a run, and the result of the run.

    The counts of rows are sums over all barriers of the run; `epoch`, `kind`, `progress` and
    `upstream_version` are the values of its last barrier. `code` is `BARRIER`, or `NO-OP` if the
    run had nothing to do. A field that is None is left out of `run_results.json`. `rows_affected`,
    a field of dbt, is the sum of the three counts of rows.
    """

    kind: str | None = None
    """The kind in the history, see docs/state.md; None if the run had nothing to do."""
    epoch: int | None = None
    barriers: int | None = None
    """The number of barriers of all kinds that this run committed; 0 if it had nothing to do."""
    progress: float | None = None
    """The share of the upstream's rows that is backfilled, from 0.0 to 1.0."""
    backfill_finished: bool | None = None
    row_count: int | None = None
    """The rows of ranges that were read since the backfill began."""
    upstream_row_count: int | None = None
    """The rows of the upstream when they were last counted."""
    upstream_version: str | None = None
    rows_left: int | None = None
    """The approximate number of rows left to read; 0 once the backfill has finished."""
    rows_per_second: float | None = None
    """The rows that this run read, divided by the seconds of the barriers that read them."""
    seconds_left: float | None = None
    """The time that barriers in sequence would take for `rows_left` at `rows_per_second`."""
    lag_seconds: int | None = None
    """The age of the upstream version that the MV shows. Each change that the MV lacks is younger.
    The age also grows while nothing is written to the upstream."""
    rows_backfilled: int | None = None
    rows_changed: int | None = None
    rows_deleted: int | None = None

    def __post_init__(self) -> None:
        counts = (self.rows_backfilled, self.rows_changed, self.rows_deleted)
        if self.rows_affected is None and counts != (None, None, None):
            self.rows_affected = sum(count or 0 for count in counts)
