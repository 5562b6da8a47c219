"""What a backfill has before it, said without writing anything."""

from __future__ import annotations

from typing import Any

import pytest

from support.checks import all_tables, model, source
from support.profiles import at_home_on_iceberg
from support.project import Project, crash_before

pytestmark = at_home_on_iceberg

QUERY = f"select id, amount from {source('up')} where amount >= 0"


@pytest.fixture
def project(project: Project) -> Project:
    """Each of four files has keys from everywhere, in no order."""
    project.create_table("up", "id int, amount int", {})
    for file in range(4):
        project.sql(
            "insert into {schema}.up select cast(id * 37 % 101 * 4 as int) + "
            f"{file}, cast(id as int) from range(100)"
        )
    return project


def explained(project: Project, **config: Any) -> list[str]:
    project.write({"mv": model(QUERY, **config)}, sources=["up"])
    said = project.operation("explain_backfill", model="mv").messages
    return [line.split("mv: ", 1)[1] for line in said if "mv: " in line]


@pytest.mark.every_profile
def test_it_says_what_is_ahead_and_writes_nothing(project: Project) -> None:
    version = project.current_version("up")
    table = project.table("up")
    lines = explained(project, backfill_rate_limit=40, barriers_per_run=3)

    statements = "6 or 7 statements" if project.file_format == "iceberg" else "7 or 8 statements"
    further = "3 or 4" if project.file_format == "iceberg" else "4 or 5"
    assert lines[0] == f"nothing of {table} was read yet; it is at version {version}"
    assert lines[1] == "400 rows are left, in 10 ranges of up to 40 rows"
    assert lines[2] == "a barrier for each, in 4 runs of dbt"
    assert lines[3].startswith("a range reads about 0.0 MB of the 0.0 MB of the upstream")
    assert lines[4] == (
        f"replicate is auto: 10 ranges ahead would read 10.0 times the 400 rows of {table}"
        " that are left, so the ranges are read from it"
    )
    assert lines[5] == (
        f"the first barrier of a run sends {statements}, each further one {further}"
    )
    assert all_tables(project) == {"up"}


def test_it_goes_on_from_where_the_backfill_is(project: Project) -> None:
    config = {"backfill_rate_limit": 100, "replicate": "always"}
    assert explained(project, **config)[4].startswith("replicate is always: 4 ranges ahead")
    project.run()
    project.sql("update {schema}.up set amount = 7 where id < 9")

    lines = explained(project, **config)
    assert lines[0].startswith("100 of 400 rows of ")
    assert lines[1] == "the next barrier merges what has changed since"
    assert lines[2] == "300 rows are left, in 3 ranges of up to 100 rows"
    assert lines[5] == f"the ranges are read from {project.table('mv')}__replica"
    assert explained(project, backfill_rate_limit=100)[0] == lines[0]

    project.fail(intercept=crash_before(": merge the "))
    [_, planned] = explained(project, **config)
    assert planned.startswith("the barrier 2 was planned at ")

    unlimited = {"barriers_per_run": "all"}
    project.write({"mv": model(QUERY, **unlimited)}, sources=["up"])
    project.run()
    assert explained(project, **unlimited)[1:] == ["there is nothing to do"]


def test_what_a_run_would_refuse_is_refused(project: Project) -> None:
    project.write({"mv": model(QUERY, backfill_mode="some")}, sources=["up"])
    refused = project.fail("run-operation", "explain_backfill", "--args", "{model: mv}")
    assert 'backfilled_mv mv: backfill_mode is "some"' in refused.output + refused.error
    project.write({"mv": model("select id + 1 as id from " + source("up"))}, sources=["up"])
    refused = project.fail("run-operation", "explain_backfill", "--args", "{model: mv}")
    assert "backfilled_mv mv: 'id' of unique_key is not a column" in refused.output + refused.error
