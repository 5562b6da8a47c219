"""One history leads to the same MV, row for row, on every connection and table format.

WANTED contains the number of rows and a digest of the rows after each barrier. Every profile must
give these values.
"""

from __future__ import annotations

import hashlib
import random
from datetime import date, datetime, timedelta
from decimal import Decimal

import pytest

from exactness.follow import Follower, Upstream, row
from exactness.oracle import Query, Row, Rows, rows_by_key
from exactness.queries import UPSTREAM
from exactness.upstream import Commit, Commits, Schema
from support.project import Project

SCHEMA = Schema(
    {
        "amount": "int",
        "seen": "timestamp",
        "label": "string",
        "number": "bigint",
        "price": "decimal(20,4)",
        "day": "date",
    },
    key=("day", "seen", "number"),
)

NOT_HIDDEN = Query(
    sql=f"select * from {UPSTREAM} where label is distinct from 'hide'",
    columns=tuple(SCHEMA.columns),
    key_columns=SCHEMA.key,
    evaluate=lambda row: None if row["label"] == "hide" else tuple(row.values()),
)

TURNS = 3
WANTED = [
    (11, "88746188f693ec07"),
    (22, "4616740eaefdccaa"),
    (33, "35e676fb38fb68a6"),
    (63, "fcf6fd48eceb1cef"),
]


def draw_row(rng: random.Random, number: int) -> Row:
    return row(
        SCHEMA,
        rng.choice((None, -1, 0, 7)),
        datetime(2013, 3, 10, 6, 59, 59, 999999) + timedelta(minutes=number % 7),
        rng.choice((None, "", "hide", "it's", "a\\b", "é", "2013-03-10")),
        number * 2**40,
        rng.choice((None, Decimal(rng.randrange(10**12)).scaleb(-4))),
        date(2013, 1, 1) + timedelta(days=number % 5),
    )


def draw_commits(rng: random.Random, make: Commits, rows: Rows, turn: int) -> list[Commit]:
    """Return the commits before a barrier. Each commit changes its own keys."""
    keys = rng.sample(sorted(rows), 9)
    absent = [draw_row(rng, number) for number in range(100 + turn * 5, 105 + turn * 5)]
    label = rng.choice((None, "hide", "shown"))
    return [
        make.merge(rows, [*absent, {**rows[keys[0]], "label": "merged"}], keys[1:4]),
        make.update(rows, keys[4:7], {"label": label}),
        make.rekey(rows, {keys[7]: keys[8], keys[8]: keys[7]}),
    ]


def describe(mv: Follower) -> tuple[int, str]:
    rows = sorted(map(repr, mv.mv_rows().elements()))
    return len(rows), hashlib.sha256("\n".join(rows).encode()).hexdigest()[:16]


@pytest.mark.every_profile
def test_the_mv_of_every_barrier_is_the_one_that_is_written_down(project: Project) -> None:
    rng = random.Random(2013)
    rows = rows_by_key([draw_row(rng, number) for number in range(60)], SCHEMA.key)
    upstream = Upstream.create(project, "sales", SCHEMA, rows)
    mv = Follower(project, upstream, "mv", NOT_HIDDEN, vnode_count=4)
    mv.write(backfill_rate_limit=11)
    found = []
    for turn in range(TURNS):
        project.run()
        found.append(describe(mv))
        for commit in draw_commits(rng, upstream.commits, upstream.rows, turn):
            upstream.commit(commit)
    mv.write(barriers_per_run="all")
    project.run()
    found.append(describe(mv))

    mv.check_complete()
    mv.check()
    assert found == WANTED
