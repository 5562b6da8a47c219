"""A Delta MV has a change data feed as soon as another backfilled_mv of the project follows it."""

from __future__ import annotations

import pytest

from support.checks import model, source
from support.project import Project

FEED = "delta.enableChangeDataFeed"


def feed(project: Project) -> str | None:
    rows = project.rows("show tblproperties {schema}.first")
    return {str(name): str(value) for name, value in rows}.get(FEED)


@pytest.mark.profiles("session-delta", "thrift-delta", reason="Iceberg's row lineage needs no feed")
def test_a_follower_that_comes_later_switches_the_feed_on(project: Project) -> None:
    project.create_table("up", "id int, v int")
    project.sql("insert into {schema}.up select id, id from range(100)")
    first = {"first": model(f"select id, v from {source('up')}", backfill_rate_limit=60)}
    second = {
        "second": model("select id, v * 2 as w from {{ ref('first') }}", backfill_rate_limit=30),
    }
    project.write(first, sources=["up"])
    project.run()
    assert feed(project) is None

    project.write(first | second, sources=["up"])
    result = project.dbt("run", "--select", "second", expect=False)
    assert "first has no change data feed" in result.message("second")

    project.run()
    assert feed(project) == "true"
    for number in range(5):
        project.sql(f"update {{schema}}.up set v = -v where id % 5 = {number}")
        project.sql(f"delete from {{schema}}.up where id = {number}")
        result = project.run()
        assert "re-anchored" not in result.output
    expected = "select id, v * 2 from {schema}.up"
    assert sorted(project.rows("select * from {schema}.second")) == sorted(project.rows(expected))
