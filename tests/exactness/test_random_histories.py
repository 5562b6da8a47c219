"""In random histories of commits, runs and faults, every version of the MV is exact.

DBT_BACKFILL_HISTORIES=300      the number of histories (default 20)
DBT_BACKFILL_SEED=7             other histories; by default they are always the same
DBT_BACKFILL_SHRINK=1           search for the shortest history that fails (slow)
"""

from __future__ import annotations

import itertools
import os
from collections.abc import Callable

import pytest
from hypothesis import HealthCheck, Phase, given, seed, settings

from exactness.conftest import summary
from exactness.histories import History, histories
from exactness.play import Player
from support.project import Project

HISTORIES = int(os.environ.get("DBT_BACKFILL_HISTORIES", "20"))
SEED = os.environ.get("DBT_BACKFILL_SEED")
SHRINK = (Phase.shrink,) if os.environ.get("DBT_BACKFILL_SHRINK") else ()

_numbers = itertools.count(1)


@settings(
    max_examples=HISTORIES,
    deadline=None,
    derandomize=SEED is None,
    database=None,
    phases=(Phase.explicit, Phase.generate, *SHRINK),
    suppress_health_check=list(HealthCheck),
    print_blob=True,
    report_multiple_bugs=False,
)
@given(history=histories())
@pytest.mark.every_profile
@pytest.mark.core
def test_every_version_is_exact(new_project: Callable[[], Project], history: History) -> None:
    played = Player(new_project(), history, f"h{next(_numbers)}").play()
    summary.add(played)


if SEED is not None:
    test_every_version_is_exact = seed(int(SEED))(test_every_version_is_exact)
