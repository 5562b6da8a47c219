"""The model of the barrier protocol in `exactness/protocol.py` is exact in every history.

Each protection is needed: without the protection, some history is wrong.

DBT_BACKFILL_MODEL_HISTORIES=20000   how many random histories (100; at most 1000 if a
                                     protection is removed)
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import islice

import pytest

from exactness.explore import (
    FILLED,
    GIVEN_UP,
    LEFT_ALONE,
    OVERTAKEN,
    PLAIN,
    RESCALED,
    SWEPT,
    UNCHANGED,
    UNSTOPPABLE,
    WRITTEN,
    History,
    Odds,
    all_switches,
    random_histories,
)
from exactness.protocol import PROTECTIONS

HISTORIES = int(os.environ.get("DBT_BACKFILL_MODEL_HISTORIES", "100"))
UNTIL_MISSED = max(HISTORIES, 1000)


@dataclass(frozen=True)
class Without:
    """A protection that is removed, and the histories that need it."""

    protection: str
    file_format: str = "delta"
    odds: Sequence[Odds] | None = PLAIN
    """None: two runs that switch at every possible point."""

    def histories(self) -> Iterator[History]:
        if self.odds is None:
            return all_switches(self.file_format, [self.protection])
        found = random_histories(self.file_format, [self.protection], self.odds)
        return islice(found, UNTIL_MISSED)


NEEDED = (
    Without("a plan that stands is not replaced"),
    Without("the fence"),
    Without("the fence is read after the base"),
    Without("the kind of an abandoned plan", odds=None),
    Without("the commit is guarded"),
    Without("overlapping merges conflict"),
    Without("an Iceberg range has a WHEN MATCHED clause", "iceberg"),
    Without("an abandoned plan stops what is on its way", odds=None),
    Without("a write that no barrier made is found", "iceberg", (OVERTAKEN, UNSTOPPABLE)),
    Without("a plan leaves a write that it does not repair", odds=(WRITTEN,)),
    Without("changes follow the last executed barrier", odds=(UNCHANGED,)),
    Without("snapshots that the log does not know may delete", "iceberg", (LEFT_ALONE,)),
    Without("epochs do not restart"),
    Without("a run whose plan was given up is refused"),
    Without("a re-anchor finds the keys that came and went", "iceberg", (GIVEN_UP,)),
    Without("a range of a sweep takes away what is not in it", odds=(SWEPT,)),
    Without("the changes of a fill have all columns", odds=(FILLED,)),
    Without("a fill ends at the position", odds=(FILLED,)),
    Without("columns are added by whatever ends a fill", odds=(FILLED,)),
    Without("a rescale removes what is read again", odds=(RESCALED,)),
)


def assert_exact(histories: Iterator[History]) -> None:
    for history in histories:
        assert not history.wrong, "\n".join([*history.told, history.wrong])


@pytest.mark.parametrize("file_format", ["delta", "iceberg"])
def test_runs_that_crash_stall_and_overlap_leave_the_mv_exact(file_format: str) -> None:
    assert_exact(islice(random_histories(file_format), HISTORIES))


@pytest.mark.parametrize("file_format", ["delta", "iceberg"])
def test_two_runs_may_take_turns_anywhere(file_format: str) -> None:
    assert_exact(all_switches(file_format))


@pytest.mark.parametrize("file_format", ["delta", "iceberg"])
def test_the_histories_have_every_kind_of_barrier_and_runs_that_are_refused(
    file_format: str,
) -> None:
    histories = list(islice(random_histories(file_format), 200))
    kinds = {kind for history in histories for _, kind in history.world.executed.values()}
    assert kinds == {
        "advance", "fill", "reset", "swap", "reanchor", "sweep", "rescale", "abandon"
    }  # fmt: skip
    told = "\n".join(line for history in histories for line in history.told)
    for what in (
        "(Stopped)",
        "(Conflict)",
        "orphan",
        "the feed is lost",
        "re-anchor in the barrier",
    ):
        assert what in told


@pytest.mark.parametrize("without", NEEDED, ids=lambda without: without.protection)
def test_what_is_taken_out_of_the_protocol_is_missed(without: Without) -> None:
    assert any(history.wrong for history in without.histories())


def test_every_protection_is_taken_out_once() -> None:
    assert [without.protection for without in NEEDED] == [*PROTECTIONS]
