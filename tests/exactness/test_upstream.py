"""The upstream of the tests by itself: what it says of each version is what the table has."""

from __future__ import annotations

import random
from collections import Counter

import pytest

from exactness.follow import Upstream
from exactness.keys import KEY_TYPES
from exactness.upstream import COMMIT_KINDS, TOUCHES, KeySpace, draw_commit, draw_rows
from support.project import Project


@pytest.mark.parametrize("merge_on_read", [True, False])
@pytest.mark.parametrize("layout", ["plain", "partitioned", "clustered"])
def test_every_kind_of_commit_makes_the_rows_that_it_says(
    project: Project, merge_on_read: bool, layout: str
) -> None:
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
    learned = Upstream(project, upstream.name, schema, upstream.file_format)
    learned.learn()
    assert learned.versions == upstream.versions


def test_rows_of_all_key_types_come_back_as_they_were_written(project: Project) -> None:
    keys = KeySpace(tuple(KEY_TYPES))
    schema = keys.schema()
    rows = draw_rows(random.Random(0), keys, schema, 60)
    upstream = Upstream.create(project, "types", schema, rows)

    upstream.check()
    found = upstream.stored.rows_in_spark(schema.columns, [upstream.version])
    assert found[upstream.version] == Counter(tuple(row.values()) for row in rows.values())
