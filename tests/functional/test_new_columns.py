"""`on_schema_change: append_new_columns`: a query that returns more columns needs no rebuild.

The columns are added to the MV and filled for the rows that are there, range by range, while the
changes are merged all along. All columns of before are exact at every barrier, and the new ones up
to the second position.
"""

from __future__ import annotations

import json
from collections.abc import Iterable

import pytest

from support.checks import data_tests, model, source
from support.project import Project, crash_before

pytestmark = [pytest.mark.every_profile]

KEY = ["id", "shard"]
OLD = f"select id, shard, name from {source('people')} where name <> 'hidden'"
# Not the last one of the list, and of a type that a Delta table has to be told of.
NEW = OLD.replace(", name", ", upper(name) as loud, name, timestamp_ntz '2024-01-01' as since")
Rows = list[tuple[object, ...]]


def write(project: Project, query: str, **config: object) -> None:
    text = model(query, unique_key=KEY, on_schema_change="append_new_columns", **config)
    project.write({"mv": text}, sources=["people"], properties=data_tests(project, "mv"))


def make_people(project: Project) -> None:
    """Ids from 1 to 20 in two shards."""
    project.create_table("people", "id int, shard string, name string")
    project.sql(
        "insert into {schema}.people select id, shard, concat('n', id) from"
        " (select cast(id as int) from range(1, 21)), (select explode(array('x', 'y')) as shard)"
    )


def filled_to(project: Project) -> tuple[int, str]:
    """The second position."""
    last = project.value("select last from {schema}.mv__progress where vnode = 0")
    number, shard = json.loads(last)["fill_high"]
    return int(number), shard.strip("'")


def upstream_rows(project: Project, up_to: int = 1000) -> Rows:
    return project.rows(
        "select id, shard, name, upper(name), timestamp_ntz '2024-01-01' from {schema}.people"
        f" where name <> 'hidden' and id <= {up_to}"
    )


def mv_rows(project: Project) -> Rows:
    return project.rows("select id, shard, name, loud, since from {schema}.mv")


def old_columns(rows: Iterable[tuple[object, ...]]) -> Rows:
    return [row[:3] for row in rows]


def up_to(rows: Rows, position: tuple[int, str]) -> Rows:
    return [row for row in rows if (row[0], row[1]) <= position]  # type: ignore[operator]


def assert_exact(project: Project) -> None:
    """While the columns are being filled."""
    position = filled_to(project)
    assert old_columns(mv_rows(project)) == old_columns(upstream_rows(project))
    assert up_to(mv_rows(project), position) == up_to(upstream_rows(project), position)
    assert any(row[3] is None for row in mv_rows(project))
    assert statuses(project) == {"complete": "fail", "consistent": "pass"}


def statuses(project: Project) -> dict[str, str]:
    result = project.dbt("test", "--select", "mv", expect=False)
    return {
        "complete" if "complete" in node.name else "consistent": node.status
        for node in result.nodes
    }


@pytest.fixture
def finished(project: Project) -> Project:
    """An MV of all columns but the new ones."""
    make_people(project)
    write(project, OLD)
    project.run()
    return project


def test_columns_are_filled_in_slices_while_the_changes_are_merged(finished: Project) -> None:
    project = finished
    write(project, NEW, backfill_rate_limit=12)

    first = project.run()
    assert "BARRIER 2 · 30.0 % · fills loud, since · 12 of 40 rows · +12 read" in first.output
    assert "left (about" in first.output
    assert first.message("mv") == "BARRIER 2 (30.0 %)"
    assert_exact(project)
    assert "mv: loud, since are filled up to (6, 'y') only" in str(
        project.last and project.last.output
    )
    assert "all equal" in project.operation("verify_backfill", model="mv").output

    # Below the second position, above it, and across it.
    project.sql("update {schema}.people set name = 'later' where id in (2, 16)")
    project.sql("update {schema}.people set name = 'hidden' where id in (3, 17)")
    project.sql("update {schema}.people set id = 40 where id = 4 and shard = 'x'")
    project.fail(intercept=crash_before("merge the range of the barrier"))
    assert old_columns(mv_rows(project)) == old_columns(upstream_rows(project))
    second = project.run()
    assert "BARRIER 3 · " in second.output
    assert "5 changed" in second.output
    assert_exact(project)

    # What somebody broke is mended up to the second position.
    project.sql("update {schema}.mv set loud = 'broken' where id in (1, 20)")
    assert statuses(project)["consistent"] == "fail"
    repaired = project.operation("verify_backfill", model="mv", repair=True).output
    assert "1 key repaired" in repaired or "2 keys repaired" in repaired
    assert_exact(project)

    write(project, NEW, backfill_rate_limit=12, barriers_per_run="all")
    last = project.run()
    assert "· filled loud, since ·" in last.output
    assert last.message("mv").endswith("(100.0 %), CAUGHT UP")
    assert mv_rows(project) == upstream_rows(project)
    assert statuses(project) == {"complete": "pass", "consistent": "pass"}

    # From then on it is as before.
    project.sql("insert into {schema}.people values (50, 'x', 'n50')")
    assert "BARRIER" in project.run().message("mv")
    assert mv_rows(project) == upstream_rows(project)
