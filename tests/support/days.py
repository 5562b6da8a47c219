"""What `make test` plays in turn: a part of it each day, all of it in so many days.

Most tests that another table format or connection repeats are such, those of rare corners that are
marked `in_turn`, and the longest scenarios.

DBT_BACKFILL_DAY=739580    what is played on another day; `all`: all of it
"""

from __future__ import annotations

import os
from datetime import date
from zlib import crc32

DAYS = 3
ALL = "all"


def today() -> int | None:
    """A number that says whose turn it is; None if it is everyone's.

    :raises ValueError: if DBT_BACKFILL_DAY is neither a number nor `all`
    """
    named = os.environ.get("DBT_BACKFILL_DAY")
    if named == ALL:
        return None
    return date.today().toordinal() if named is None else int(named)


def is_turn_of(one: int | str | None) -> bool:
    """Whether it is the turn of a number of a list, or of a name; each day is that of None."""
    if one is None:
        return True
    day = today()
    number = crc32(one.encode()) if isinstance(one, str) else one
    return day is None or (number + day) % DAYS == 0
