"""Draws random histories: commits on an upstream, dbt runs of its models, and faults.

A history is plain data, which play.py executes. Each step has its own random seed. So hypothesis
can remove a step without changing the other steps.
"""

from __future__ import annotations

import random
from dataclasses import dataclass

from hypothesis import strategies as st

from exactness.events import FEEDS
from exactness.follow import REPLICAS
from exactness.keys import KEY_TYPES
from exactness.queries import QUERIES
from exactness.upstream import COMMIT_KINDS

MODES = ("arrangement", "no_shuffle", "snapshot")
ORDERS = ("ascending", "descending")
LIMITS = (3, 1, 10, None, 0)
FAULTS = ("crash after", "crash before", "crash inside", "submitted twice")
LAYOUTS = ("plain", "partitioned", "clustered")

SUFFIXES = ("", "__next", "__live", "__progress")
"""The ends of the models' names. They are the ends of names that the package derives."""

THROUGH = ("table", "table", "view", "ephemeral")
"""What the models read: the upstream, or a view or an ephemeral model of the upstream."""

HOOKS = ("none", "reads", "writes")
"""What the hooks of a model do with another table that has the name of the upstream."""

SETTINGS = {
    "spark.sql.session.timeZone": "America/New_York",
    "spark.sql.legacy.sizeOfNull": "false",
    "spark.sql.caseSensitive": "true",
    "spark.sql.timestampType": "TIMESTAMP_NTZ",
    "spark.sql.files.ignoreMissingFiles": "true",
    "spark.sql.autoBroadcastJoinThreshold": "-1",
}
"""Settings of the session that some runs have. With some of them, a run may be refused."""


@dataclass(frozen=True)
class Model:
    """The options of a model that are the same in all runs of the history.

    Some runs configure the opposite `backfill_order`. This only has an effect in a run that builds
    the MV.
    """

    mode: str
    query: str
    vnode_count: int
    upstream_key_declared: bool
    order: str
    replica: str
    suffix: str
    is_beside: bool
    """Whether the name of the model is the name of the first model and a suffix."""
    hook: str
    feed: str | None
    """How the model reads the change table, see FEEDS. None if it reads the upstream's own feed."""
    through: str
    """What the model reads, see THROUGH."""


@dataclass(frozen=True)
class Commit:
    """One statement on the upstream."""

    kind: str
    size: int
    seed: int


@dataclass(frozen=True)
class Run:
    """One `dbt run`.

    The fault occurs at statement number `fault_at`. A run with fewer statements has no fault.
    """

    limits: tuple[int | None, ...]
    barriers_per_run: int | str = 1
    vnodes_seed: int | None = None
    full_refresh: bool = False
    turns_order: bool = False
    setting: str | None = None
    """The key in SETTINGS of a setting that only this run has."""
    fault: str | None = None
    fault_at: int = 0


@dataclass(frozen=True)
class Stalled:
    """Executes a statement of an earlier run once more."""

    seed: int


@dataclass(frozen=True)
class Maintained:
    """Executes a statement on each MV that changes no row."""

    seed: int


Step = Commit | Run | Stalled | Maintained


@dataclass(frozen=True)
class History:
    """A whole history. `column_order` is the order of the key columns in the table."""

    key: tuple[str, ...]
    column_order: tuple[int, ...]
    layout: str
    merge_on_read: bool
    rows: int
    seed: int
    models: tuple[Model, ...]
    steps: tuple[Step, ...]


def vnodes_of(run: Run, number: int, vnode_count: int) -> list[int] | None:
    """Return the `backfill_vnodes` of model number `number` in this run; None for all vnodes."""
    if run.vnodes_seed is None:
        return None
    rng = random.Random(run.vnodes_seed + number)
    return sorted(rng.sample(range(vnode_count), rng.randint(1, vnode_count)))


_seeds = st.integers(0, 2**20)
_commits = st.builds(
    Commit,
    kind=st.sampled_from((*COMMIT_KINDS[:6] * 3, *COMMIT_KINDS[6:], *("touch",) * 4)),
    size=st.integers(1, 6),
    seed=_seeds,
)


@st.composite
def _runs(draw: st.DrawFn, models: int, faulty: bool) -> Run:
    chance = draw(st.integers(0, 19))
    fault = draw(st.sampled_from(FAULTS)) if faulty and chance % 3 == 0 else None
    return Run(
        limits=tuple(draw(st.sampled_from(LIMITS)) for _ in range(models)),
        barriers_per_run=draw(st.sampled_from((1, 1, 2, 3))),
        vnodes_seed=draw(st.one_of(st.none(), st.none(), _seeds)),
        full_refresh=chance == 13,
        turns_order=draw(st.integers(0, 7)) == 7,
        setting=draw(st.sampled_from((*(None,) * 2 * len(SETTINGS), *SETTINGS))),
        fault=fault,
        fault_at=draw(st.integers(0, 25)) if fault else 0,
    )


@st.composite
def histories(draw: st.DrawFn, faulty: bool = True, runs: int = 4) -> History:
    """Draw a history of at most `runs` runs, with commits before the runs and between them."""
    key = tuple(draw(st.lists(st.sampled_from(list(KEY_TYPES)), min_size=1, max_size=3)))
    modes = draw(st.lists(st.sampled_from(MODES), min_size=1, max_size=2, unique=True))
    models = tuple(
        Model(
            mode=mode,
            query=draw(st.sampled_from(list(QUERIES))),
            vnode_count=draw(st.sampled_from((4, 8, 1))),
            upstream_key_declared=draw(st.booleans()),
            order=draw(st.sampled_from(ORDERS)),
            replica=draw(st.sampled_from(list(REPLICAS))),
            suffix=draw(st.sampled_from(SUFFIXES)),
            is_beside=number > 0 and draw(st.booleans()),
            hook=draw(st.sampled_from(HOOKS)),
            feed=draw(st.sampled_from((*(None,) * len(FEEDS), *FEEDS))),
            through=draw(st.sampled_from(THROUGH)),
        )
        for number, mode in enumerate(modes)
    )
    steps: list[Step] = list(draw(st.lists(_commits, max_size=2)))
    for number in range(draw(st.integers(2, runs))):
        steps.append(draw(_runs(len(models), faulty)))
        if faulty and number and draw(st.integers(0, 3)) == 0:
            steps.append(Stalled(draw(_seeds)))
        if draw(st.integers(0, 2)) == 0:
            steps.append(Maintained(draw(_seeds)))
        steps += draw(st.lists(_commits, min_size=1, max_size=3))
    return History(
        key=key,
        column_order=tuple(draw(st.permutations(range(len(key))))),
        layout=draw(st.sampled_from(LAYOUTS)),
        merge_on_read=draw(st.booleans()),
        rows=draw(st.sampled_from((20, 40, 60, 10, 0))),
        seed=draw(_seeds),
        models=models,
        steps=tuple(steps),
    )
