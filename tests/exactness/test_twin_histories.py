"""Every version of the MV is exact, although keys of the upstream appear twice for a while.

The histories have columns of many types, and queries that use the session's time zone.

DBT_BACKFILL_TWIN_HISTORIES=100    the number of histories (default 3)
DBT_BACKFILL_TWIN_HISTORY=17       only this history
DBT_BACKFILL_SEED=7                other histories; by default they are always the same
"""

from __future__ import annotations

import os

import pytest

from exactness.conftest import told
from exactness.crowd import Crowd, zone_of
from support.project import MakeProject

HISTORIES = int(os.environ.get("DBT_BACKFILL_TWIN_HISTORIES", "3"))
ONLY = os.environ.get("DBT_BACKFILL_TWIN_HISTORY")
SEED = os.environ.get("DBT_BACKFILL_SEED", "")
SIDE_BY_SIDE = 13

NUMBERS = [int(ONLY)] if ONLY else list(range(HISTORIES))


@pytest.mark.every_profile
@pytest.mark.profiles(
    "session-delta", "session-iceberg", reason="the time zone of a server's sessions is its own"
)
@pytest.mark.parametrize("batch", sorted({number // SIDE_BY_SIDE for number in NUMBERS}))
def test_every_version_is_exact_though_keys_stand_twice_between_barriers(
    shared_project: MakeProject, batch: int
) -> None:
    numbers = [number for number in NUMBERS if number // SIDE_BY_SIDE == batch]
    crowd = Crowd(shared_project(f"twins_{batch}"), numbers, zone_of(batch), SEED)

    played = crowd.play()

    told.extend(played)
    wrong = [each.wrong for each in played if each.wrong is not None]
    assert not wrong, f"{len(wrong)} of {len(played)} are wrong\n\n" + "\n\n".join(map(str, wrong))
