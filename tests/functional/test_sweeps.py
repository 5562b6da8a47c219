"""A sweep repairs an MV slice by slice if the changes of the upstream are no longer known.

`on_gap: sweep` starts a sweep. Until the sweep has finished, only the rows up to its position are
exact.
"""

from __future__ import annotations

import re

import pytest

from support.checks import data_tests, model, rows_written, source, statuses
from support.project import Project, RunResult

pytestmark = [pytest.mark.every_profile]

QUERY = (
    "select id, shard, upper(name) as name, char(64 + id) as letter, tags"
    f" from {source('people')} where name <> 'hidden'"
)
KEY = ["id", "shard"]


def write(project: Project, **config: object) -> None:
    text = model(QUERY, unique_key=KEY, on_gap="sweep", **config)
    project.write({"mv": text}, sources=["people"], properties=data_tests(project, "mv"))


def make_people(project: Project, names: str) -> None:
    """Create an upstream with the ids from 1 to 20 in two shards.

    :param names: a SQL expression over `id` and `shard`
    """
    project.sql("drop table if exists {schema}.people")
    project.create_table("people", "id int, shard string, name string, tags map<string, int>")
    project.sql(
        f"insert into {{schema}}.people select id, shard, {names}, map('b', id, 'a', id) from"
        " (select cast(id as int) from range(1, 21)), (select explode(array('x', 'y')) as shard)"
    )


def expected(project: Project, up_to: int = 1000) -> list[tuple[object, ...]]:
    """Return the rows that the MV must have for the current upstream."""
    return project.rows(
        "select id, shard, upper(name), char(64 + id), to_json(tags) from {schema}.people"
        f" where name <> 'hidden' and id <= {up_to}"
    )


def shown(project: Project, where: str = "true") -> list[tuple[object, ...]]:
    return project.rows(
        f"select id, shard, name, letter, to_json(tags) from {{schema}}.mv where {where}"
    )


@pytest.fixture
def replaced(project: Project) -> Project:
    """Create an MV that has read its whole upstream. Then replace the upstream by another table."""
    make_people(project, "concat('n', id)")
    write(project)
    project.run()
    make_people(
        project,
        "case when id = 3 then 'new' when id = 5 then 'hidden' when id = 14 then 'NEW'"
        " else concat('n', id) end",
    )
    project.sql("delete from {schema}.people where id in (7, 18)")
    project.sql("insert into {schema}.people values (30, 'x', 'n30', map('b', 1))")
    return project


def sweep(project: Project) -> RunResult:
    write(project, backfill_rate_limit=12)
    return project.run()


def test_an_mv_is_put_right_in_slices_and_keeps_its_rows_until_then(replaced: Project) -> None:
    project = replaced
    before = shown(project)

    begun = sweep(project).output
    assert "mv compares its query with all 40 rows read so far, up to 12 rows of the" in begun
    assert re.search("BARRIER 2 · 0.0 % · sweeps from the start: the .*upstream", begun)
    assert shown(project) == before
    assert statuses(project) == {"complete": "fail", "consistent": "pass"}

    first = project.run()
    assert "· 12 of 37 rows · +12 compared ·" in first.output
    assert rows_written(project) == {"inserted": 0, "updated": 2, "deleted": 2}
    assert shown(project, "id <= 6") == expected(project, 6)
    assert shown(project, "id > 6") == [row for row in before if int(str(row[0])) > 6]
    assert statuses(project) == {"complete": "fail", "consistent": "pass"}
    assert "all equal" in project.operation("verify_backfill", model="mv").output

    # Change rows below and above the position of the sweep, and move one row from below it to above
    # it.
    project.sql("update {schema}.people set name = 'later' where id in (2, 16)")
    project.sql("update {schema}.people set id = 40 where id = 4 and shard = 'x'")
    second = project.run()
    assert "+12 compared · 2 changed, 1 deleted" in second.output
    assert shown(project, "id <= 12") == expected(project, 12)
    assert statuses(project)["consistent"] == "pass"

    write(project, backfill_rate_limit=12, barriers_per_run="all")
    assert project.run().message("mv").endswith("(100.0 %), CAUGHT UP")
    assert shown(project) == expected(project)
    assert statuses(project) == {"complete": "pass", "consistent": "pass"}
    kinds = project.rows("select kind, sweeps from {schema}.mv__barriers where epoch > 1")
    assert kinds[-1] == ("sweep", False)
    assert set(kinds[:-1]) == {("advance", True)}

    project.sql("insert into {schema}.people values (50, 'x', 'n50', map('b', 1))")
    assert "+0 backfilled" not in project.run().output
    assert shown(project) == expected(project)


def test_where_nothing_differs_no_row_is_written(project: Project) -> None:
    make_people(project, "concat('n', id)")
    write(project)
    project.run()
    make_people(project, "concat('n', id)")
    write(project, barriers_per_run="all")
    version = project.current_version("mv")

    assert "CAUGHT UP" in project.run().message("mv")

    if project.current_version("mv") != version:  # Delta also commits a MERGE that changes nothing
        assert rows_written(project) == {"inserted": 0, "updated": 0, "deleted": 0}
    assert shown(project) == expected(project)


def test_a_full_refresh_ends_a_sweep(replaced: Project) -> None:
    sweep(replaced)
    replaced.run()

    replaced.run("--full-refresh")
    assert shown(replaced) == expected(replaced, 6)
    assert "+12 backfilled" in replaced.run().output


def test_another_gap_begins_the_sweep_anew(replaced: Project) -> None:
    """A second gap starts the sweep again, although the model no longer has `on_gap: sweep`.

    One barrier cannot compare the rows above the position.
    """
    sweep(replaced)
    replaced.run()
    make_people(replaced, "concat('again', id)")
    replaced.write({"mv": model(QUERY, unique_key=KEY, backfill_rate_limit=30)})

    assert re.search("sweeps from the start: the .*upstream", replaced.run().output)
    replaced.run()
    assert shown(replaced, "id <= 15") == expected(replaced, 15)
    replaced.run()
    assert shown(replaced) == expected(replaced)
