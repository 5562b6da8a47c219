"""The workloads. To add one, add an entry to `WORKLOADS`."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from lineitem import SMALL_ROWS

from costs import acts
from costs.changes import Change, hot_keys, refreshes, updates
from costs.figures import BYTES, Figure
from costs.upstreams import ORDERS, Upstream


@dataclass(frozen=True)
class Build:
    """Build the whole table by several barriers, INSERTs or MERGEs of the same intervals."""

    barriers: int = 1


@dataclass(frozen=True)
class Refresh:
    """Apply a change to complete tables."""

    change: Change


@dataclass(frozen=True)
class LongBackfill:
    """Compare the last barriers of a long run with the first ones.

    Two barriers are not compared: the first one, which also creates the tables and finds the
    bounds, and the one that reads the remaining rows.
    """

    barriers: int


@dataclass(frozen=True)
class Idle:
    """A run with nothing to do, over an upstream with few versions and another one with many."""

    few: int
    many: int


@dataclass(frozen=True)
class Read:
    """Read tables after a number of barriers and a number of changes.

    :param variants: options of the MV, as in SQL; each of them adds a contestant
    """

    barriers: int
    change: Change
    times: int
    variants: tuple[Mapping[str, str], ...] = ()


@dataclass(frozen=True)
class ReadFilling:
    """Read the MV after a quarter, a half and three quarters of its barriers.

    Each barrier is a separate run, and the change happens between the runs. A table of the same
    rows that was created at once is read too.
    """

    barriers: int
    change: Change


Kind = Build | Refresh | LongBackfill | Idle | Read | ReadFilling


@dataclass(frozen=True)
class Workload:
    title: str
    kind: Kind
    upstream: Upstream = field(default_factory=Upstream)


SHUFFLED_UUID = Upstream(key="uuid", order="shuffled")
UPDATED = updates(100)
RF = refreshes(1_000)

WORKLOADS: dict[str, Workload] = {
    "lineitem": Workload("lineitem, a first run", Build()),
    "orders": Workload("orders, a first run", Build(), Upstream(ORDERS)),
    "integer": Workload("integer key, 4 barriers", Build(4), Upstream(key="integer")),
    "string": Workload("string key, 4 barriers", Build(4), Upstream(key="string")),
    "uuid": Workload("UUID key, 4 barriers", Build(4), Upstream(key="uuid")),
    "columns-3": Workload("3 columns, 4 barriers", Build(4), Upstream(key="integer", columns=3)),
    "columns-100": Workload(
        "100 columns, 4 barriers", Build(4), Upstream(key="integer", columns=100)
    ),
    "ordered-10": Workload("ordered by the key, 10 barriers", Build(10)),
    "ordered-40": Workload("ordered by the key, 40 barriers", Build(40)),
    "shuffled-10": Workload("shuffled UUIDs, 10 barriers", Build(10), SHUFFLED_UUID),
    "shuffled-40": Workload("shuffled UUIDs, 40 barriers", Build(40), SHUFFLED_UUID),
    "barriers-100": Workload("100 barriers, each one", LongBackfill(100)),
    "rf-lineitem": Workload("RF1 and RF2 of lineitem, 0.1 %", Refresh(RF)),
    "rf-orders": Workload("RF1 and RF2 of orders, 0.1 %", Refresh(RF), Upstream(ORDERS)),
    "updates-0.01": Workload("updates of 1 row in 10,000", Refresh(updates(10_000))),
    "updates-1": Workload("updates of 1 %", Refresh(UPDATED)),
    "updates-10": Workload("updates of 10 %", Refresh(updates(10))),
    "updates-1-uuid": Workload("updates of 1 %, shuffled UUIDs", Refresh(UPDATED), SHUFFLED_UUID),
    "hot-keys": Workload("20 updates each of 1 key in 10,000", Refresh(hot_keys(10_000, 20))),
    "versions": Workload(
        "nothing to do, 10 and 200 versions", Idle(10, 200), Upstream(limit=SMALL_ROWS)
    ),
    "read": Workload(
        "reading, after 10 barriers and 5 changes of 1 %",
        Read(10, UPDATED, 5, ({"compact_every": "5"}, {"sort_when_finished": "true"})),
    ),
    "read-filling": Workload(
        "reading while 20 barriers fill it, with a change of 1 % after each",
        ReadFilling(20, UPDATED),
    ),
}

SMALL = Upstream(limit=SMALL_ROWS)
WARM_UP = (Workload("warm-up", Build(2), SMALL), Workload("warm-up", Refresh(UPDATED), SMALL))
"""The workload that runs until a new driver has compiled its own code."""


def _bytes(built: str, workload: str) -> Figure:
    title = f"upstream bytes of {built} / one scan"
    return Figure(title, workload, acts.BACKFILLED, acts.CTAS, BYTES)


def _reading(tables: str, workload: str) -> Iterator[Figure]:
    for what, act in (("all rows", acts.all_rows), ("one key", acts.one_key)):
        title = f"reading {what} of {tables}"
        yield Figure(title, workload, act(acts.BACKFILLED), act(acts.CTAS))


FIGURES = (
    Figure("shuffled UUIDs, 10 barriers / CTAS", "shuffled-10", acts.BACKFILLED, acts.CTAS),
    Figure("shuffled UUIDs, 40 barriers / CTAS", "shuffled-40", acts.BACKFILLED, acts.CTAS),
    Figure("ordered, 10 barriers / CTAS", "ordered-10", acts.BACKFILLED, acts.CTAS),
    Figure("the same by 10 plain MERGEs / CTAS", "ordered-10", acts.MERGES, acts.CTAS),
    Figure("ordered, 40 barriers / CTAS", "ordered-40", acts.BACKFILLED, acts.CTAS),
    Figure("the same by 40 plain MERGEs / CTAS", "ordered-40", acts.MERGES, acts.CTAS),
    _bytes("10 barriers, shuffled UUIDs", "shuffled-10"),
    _bytes("40 barriers, shuffled UUIDs", "shuffled-40"),
    _bytes("40 barriers, ordered", "ordered-40"),
    Figure(
        "last of 100 barriers / second",
        "barriers-100",
        acts.last_barrier(acts.BACKFILLED),
        acts.second_barrier(acts.BACKFILLED),
    ),
    Figure(
        "last ten of 100 barriers / second to eleventh",
        "barriers-100",
        acts.last_ten(acts.BACKFILLED),
        acts.first_ten(acts.BACKFILLED),
    ),
    Figure(
        "1 % scattered changes / dbt incremental, merge, without a filter",
        "updates-1",
        acts.BACKFILLED,
        acts.INCREMENTAL,
    ),
    Figure(
        "1 % scattered changes / dbt incremental, merge, by a date",
        "updates-1",
        acts.BACKFILLED,
        acts.BY_DATE,
    ),
    Figure(
        "nothing to do at 200 versions / at 10",
        "versions",
        acts.idle(acts.BACKFILLED, 200),
        acts.idle(acts.BACKFILLED, 10),
    ),
    *_reading("the finished MV / of the CTAS table", "read"),
    *_reading("the MV while it fills / of a CTAS table of the same rows", "read-filling"),
)
"""The figures by which the project is judged."""


def chosen(names: str) -> dict[str, Workload]:
    """Return the workloads of a comma-separated list; all workloads if it is empty.

    :raises ValueError: for an unknown name
    """
    wanted = [name.strip() for name in names.split(",") if name.strip()] or list(WORKLOADS)
    if unknown := [name for name in wanted if name not in WORKLOADS]:
        listed = ", ".join(WORKLOADS)
        raise ValueError(f"no workloads: {', '.join(unknown)}; there are: {listed}")
    return {name: WORKLOADS[name] for name in wanted}
