"""`explain_backfill` shows the remaining work of a backfill, and writes nothing."""

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
    """Create an upstream of four files. Each file has small and large keys."""
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

    assert lines[0] == f"nothing of {table} was read yet; it is at version {version}"
    assert lines[1] == "400 rows are left, in 10 ranges of up to 40 rows"
    assert lines[2] == "a barrier for each, in 4 runs of dbt"
    assert lines[3] == (
        f"replicate is auto: 10 ranges ahead would read 10.0 times the 400 rows of {table}"
        " that are left: 4,000 rows in all, while a copy costs about as much as 1,200, so the"
        " ranges are read from the upstream"
    )
    assert lines[4] == (
        "a range reads about 0.0 MB of the 0.0 MB of the upstream that are left, at most: columns"
        " that are not needed are left out"
    )
    assert lines[5] == (
        "the barrier writes with the statements: plan the barrier 1, merge the range of the"
        " barrier 1, commit the barrier 1"
    )
    assert all_tables(project) == {"up"}


def test_it_goes_on_from_where_the_backfill_is(project: Project) -> None:
    config = {"backfill_rate_limit": 100, "replicate": "always"}
    lines = explained(project, **config)
    assert lines[3].startswith("replicate is always: 4 ranges ahead")
    assert lines[3].endswith(", so the rows are first copied in the order of the key")
    assert lines[4].startswith("the copy reads 0.0 MB once; a range then reads about 0.0 MB of it")
    project.run()
    project.sql("update {schema}.up set amount = 7 where id < 9")

    lines = explained(project, **config)
    assert lines[0].startswith("100 of 400 rows of ")
    assert lines[1] == "the next barrier merges the changes since the last barrier"
    assert lines[2] == "300 rows are left, in 3 ranges of up to 100 rows"
    assert lines[4] == f"the ranges are read from {project.table('mv')}__replica"
    assert lines[5].startswith("a range reads about 0.0 MB of the copy, at most")
    assert explained(project, backfill_rate_limit=100)[0] == lines[0]

    project.fail(intercept=crash_before(": merge the "))
    [_, planned] = explained(project, **config)
    assert planned.startswith("the barrier 2 was planned at ")

    unlimited = {"barriers_per_run": "all"}
    project.write({"mv": model(QUERY, **unlimited)}, sources=["up"])
    project.run()
    assert explained(project, **unlimited)[1:] == ["there is nothing to do"]


def test_it_knows_what_rules_a_run(project: Project) -> None:
    sized = {"barrier_seconds": 30}
    lines = explained(project, **sized)
    assert lines[1] == "what a range may read: up to 100,000 by barrier_seconds"
    assert lines[2] == "400 rows are left, in 1 range of up to 100,000 rows"
    assert lines[3].startswith("a barrier for each, in about 1 run of dbt; barrier_seconds will")

    budget = {"run_rows": 150, "barriers_per_run": "all"}
    lines = explained(project, **budget)
    assert lines[1] == "what a range may read: up to 150 by run_rows"
    assert lines[3] == "a barrier for each, in at least 3 runs of dbt"

    limited = {"backfill_rate_limit": 100, "barriers_per_run": 2}
    project.write({"mv": model(QUERY, backfill_rate_limit=100)}, sources=["up"])
    project.run()
    project.operation("throttle_backfill", model="mv", rows=50)
    lines = explained(project, **limited)
    assert lines[1].startswith("what a range may read: throttled to 50 rows by ")
    assert lines[2] == "300 rows are left, in 6 ranges of up to 50 rows"
    assert lines[3] == "a barrier for each, in 3 runs of dbt"
    project.operation("pause_backfill", model="mv")
    lines = explained(project, **limited)
    assert lines[1].startswith("what a range may read: paused by ")
    assert lines[2:] == ["there is nothing to do while no range may be read"]
    project.sql("update {schema}.up set amount = 7 where id < 9")
    changes, statements = explained(project, **limited)[2:]
    assert changes == "the next barrier merges the changes since the last barrier"
    assert statements == (
        "the barrier writes with the statements: plan the barrier 2, merge the changes of the"
        " barrier 2, commit the barrier 2"
    )


def test_a_run_sends_the_statements_that_it_names(project: Project) -> None:
    config = {"backfill_rate_limit": 50}

    def check() -> None:
        line = explained(project, **config)[-1]
        listed = line.removeprefix("the barrier writes with the statements: ").split(" (")[0]
        named = listed.split(", ")
        sent = [
            step for step in project.run().steps if step.startswith(("plan", "merge", "commit"))
        ]
        if "both by one statement" in line:
            assert sent == [
                named[0],
                f"merge the changes and the range of {named[0][5:]}",
                named[3],
            ]
        else:
            assert sent == named

    check()
    check()
    project.sql("update {schema}.up set amount = 7 where id < 9")
    check()


def test_what_a_run_would_refuse_is_refused(project: Project) -> None:
    project.write({"mv": model(QUERY, backfill_mode="some")}, sources=["up"])
    refused = project.fail("run-operation", "explain_backfill", "--args", "{model: mv}")
    assert 'backfilled_mv mv: backfill_mode is "some"' in refused.output + refused.error
    project.write({"mv": model("select id + 1 as id from " + source("up"))}, sources=["up"])
    refused = project.fail("run-operation", "explain_backfill", "--args", "{model: mv}")
    assert "mv: the column 'id' of unique_key is an expr" in refused.output + refused.error


def test_what_a_run_with_nothing_to_do_would_refuse_is_refused(project: Project) -> None:
    project.write({"mv": model(QUERY)}, sources=["up"]).run()
    project.write({"mv": model(QUERY, unique_key=["amount"])}, sources=["up"])
    refusal = "backfilled_mv mv: unique_key changed from id to amount"
    for command in (["run"], ["run-operation", "explain_backfill", "--args", "{model: mv}"]):
        refused = project.fail(*command)
        assert refusal in refused.output + refused.error


def test_what_the_next_run_takes_or_goes_on_with_is_told(project: Project) -> None:
    rows = "select id, amount from {schema}.up where id < 90"
    project.sql(f"create table {{schema}}.mv using {project.file_format} as {rows}")
    project.write({"mv": model(QUERY, backfill_rate_limit=40)}, sources=["up"])
    project.operation("adopt_table", model="mv")
    [line] = explained(project, backfill_rate_limit=40)
    assert line.startswith(f"the next run adopts {project.table('mv')}: its rows are compared with")
    assert "adopts" in project.run().output
    project.operation("drop_backfill", model="mv")

    project.fail(intercept=crash_before(": merge the "))
    project.sql("drop table {schema}.mv")
    said = explained(project, backfill_rate_limit=40)
    assert said[0].startswith(f"nothing of {project.table('up')} was read yet")
    assert said[1].startswith("the barrier 1 was planned at ")
    assert "BARRIER 1" in project.run().message("mv")
