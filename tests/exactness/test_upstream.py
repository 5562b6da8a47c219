"""Tests of `Upstream`: the rows that it expects at each version are the rows of the real table."""

from __future__ import annotations

import random
from collections import Counter

import pytest

from exactness.follow import Upstream
from exactness.iceberg import VersionedIceberg
from exactness.keys import KEY_TYPES
from exactness.oracle import rows_by_key
from exactness.upstream import COMMIT_KINDS, TOUCHES, KeySpace, Schema, draw_commit, draw_rows
from support.project import Project


@pytest.mark.parametrize(
    ("layout", "merge_on_read"), [("plain", True), ("partitioned", False), ("clustered", True)]
)
def test_every_kind_of_commit_makes_the_rows_that_it_says(
    project: Project, layout: str, merge_on_read: bool
) -> None:
    """`Player.play` also calls `Upstream.check`, for upstreams with a random layout."""
    rng = random.Random(layout)
    keys = KeySpace(("int", "string"))
    schema = keys.schema()
    upstream = Upstream.create(
        project,
        "people",
        schema,
        draw_rows(rng, keys, schema, 12),
        layout=layout,
        merge_on_read=merge_on_read,
    )
    for kind in COMMIT_KINDS:
        upstream.commit(draw_commit(rng, kind, 4, keys, upstream.commits, upstream.rows))
    for touch in TOUCHES:
        upstream.commit(upstream.commits.touch(touch))

    upstream.check()
    analysis = Upstream(project, upstream.name, schema, upstream.file_format)
    analysis.learn()
    assert analysis.versions == upstream.versions


def test_rows_of_all_key_types_come_back_as_they_were_written(project: Project) -> None:
    keys = KeySpace(tuple(KEY_TYPES))
    schema = keys.schema()
    rows = draw_rows(random.Random(0), keys, schema, 60)
    upstream = Upstream.create(project, "types", schema, rows)

    upstream.check()
    found = upstream.stored.rows_in_spark(schema.columns, [upstream.version])
    assert found[upstream.version] == Counter(tuple(row.values()) for row in rows.values())


@pytest.mark.profiles("session-iceberg", "thrift-iceberg", reason="Delta numbers its own versions")
def test_snapshots_keep_their_numbers_through_replacement_rollback_and_expiry(
    project: Project,
) -> None:
    catalog = project.lake.catalogs["iceberg"]
    make = f"create or replace table {project.schema}.t using iceberg as select 1 as id where false"
    project.sql(make)
    table = VersionedIceberg(project, f"{project.schema}.t")
    insert = f"insert into {table.table} values (1)"
    for statement in (insert, make, insert, insert):
        project.sql(statement)
    ids = {n: Counter({(1,): count}) for n, count in enumerate((0, 0, 1, 0, 1, 2)) if count}
    rows = {n: ids.get(n, Counter()) for n in range(6)}
    assert table.rows({"id": "int"}, list(table.commit_times())) == rows

    fourth = table.reading(4)
    assert fourth is not None
    snapshot = fourth.split()[-1]
    project.sql(f"call {catalog}.system.rollback_to_snapshot('{table.table}', {snapshot})")
    assert table.newest_version() == 6
    assert table.rows({"id": "int"}, [6]) == {6: rows[4]}
    assert table.number_of(snapshot) == 6

    project.sql(insert)
    project.clean_up("t")
    assert table.newest_version() == 7
    assert list(table.commit_times()) == [0, 7]


def test_an_upstream_may_have_another_format_than_the_mv(project: Project) -> None:
    schema = Schema({"id": "int", "amount": "int", "label": "string"}, key=("id",))
    for file_format in project.lake.catalogs:
        rows = rows_by_key([{"id": 1, "amount": 1, "label": "a"}], schema.key)
        upstream = Upstream.create(
            project, f"on_{file_format}", schema, rows, file_format=file_format
        )
        upstream.commit(upstream.commits.delete_all(upstream.rows))
        upstream.commit(upstream.commits.touch("compact"))
        upstream.check()
