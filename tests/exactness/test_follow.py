"""`Follower` on real tables: it reads the same rows as Spark, and finds an MV that is wrong."""

from __future__ import annotations

import pytest

from exactness.follow import Follower, Upstream
from exactness.keys import KEY_TYPES
from exactness.oracle import Inexact, Row, rows_by_key
from exactness.queries import everything
from exactness.upstream import Schema
from support.project import Project

SCHEMA = Schema(
    {**{f"k_{n}".replace(" ", "_"): t.sql for n, t in KEY_TYPES.items()}, "amount": "int"},
    key=tuple(f"k_{n}".replace(" ", "_") for n in ("string", "timestamp", "binary")),
)


def rows_of_all_types() -> list[Row]:
    """Return enough rows that each value of KEY_TYPES occurs."""
    return [
        {
            **{
                f"k_{name}".replace(" ", "_"): each.values[number % len(each.values)]
                for name, each in KEY_TYPES.items()
            },
            "amount": number,
        }
        for number in range(70)
    ]


def test_a_corrupted_mv_is_caught_although_it_was_mended(project: Project) -> None:
    upstream = Upstream.create(
        project, "types", SCHEMA, rows_by_key(rows_of_all_types(), SCHEMA.key)
    )
    mv = Follower(project, upstream, "mv", everything(SCHEMA), vnode_count=4)
    mv.write(backfill_rate_limit=40)
    project.run()
    upstream.commit(upstream.commits.delete(upstream.rows, list(upstream.rows)[:5]))
    project.run()
    mv.check()
    mv.check_complete()

    versions = list(mv.stored.commit_times())
    read = mv.stored.rows(mv.column_types(mv.query), versions)
    assert read == mv.stored.rows_in_spark(mv.column_types(mv.query), versions)

    project.sql(f"update {mv.table} set amount = -1 where amount = 50")
    with pytest.raises(Inexact, match="missing"):
        mv.check_complete()
    project.sql(f"update {mv.table} set amount = 50 where amount = -1")
    mv.check_complete()
    with pytest.raises(Inexact, match="is not an allowed prefix"):
        mv.check()


def test_a_wrong_row_count_is_caught(project: Project) -> None:
    schema = Schema({"id": "int"}, key=("id",))
    upstream = Upstream.create(project, "ids", schema, rows_by_key([{"id": 1}], schema.key))
    mv = Follower(project, upstream, "mv", everything(schema), vnode_count=1)
    mv.write()
    project.run()
    mv.check()
    project.sql(f"update {mv.table}__progress set row_count = 2, epoch = 2")
    with pytest.raises(Inexact, match="row_count 1 became 2"):
        mv.check()
