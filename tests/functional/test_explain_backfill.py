"""What a backfill has before it, said without writing anything."""

from __future__ import annotations

import re
from typing import Any

import pytest

from support.checks import all_tables, model, source
from support.profiles import at_home_on_iceberg
from support.project import Project, crash_before

pytestmark = at_home_on_iceberg

HAS_VIEWS = pytest.mark.profiles("session-delta", reason="the other's catalog has no views")
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

    further = "3 or 4" if project.file_format == "iceberg" else "4 or 5"
    assert lines[0] == f"nothing of {table} was read yet; it is at version {version}"
    assert lines[1] == "400 rows are left, in 10 ranges of up to 40 rows"
    assert lines[2] == "a barrier for each, in 4 runs of dbt"
    assert lines[3] == (
        f"replicate is auto: 10 ranges ahead would read 10.0 times the 400 rows of {table}"
        " that are left: 4,000 rows in all, where a copy costs about as much as 1,200, so the"
        " ranges are read from it"
    )
    assert lines[4] == (
        "a range reads about 0.0 MB of the 0.0 MB of the upstream that are left, at most: columns"
        " that are not needed are left out"
    )
    assert lines[5] == (
        "the first barrier of the next run sends 9 statements (1 to find the bounds of ranges),"
        f" each further one {further}"
    )
    assert all_tables(project) == {"up"}


def test_it_goes_on_from_where_the_backfill_is(project: Project) -> None:
    config = {"backfill_rate_limit": 100, "replicate": "always"}
    lines = explained(project, **config)
    assert lines[3].startswith("replicate is always: 4 ranges ahead")
    assert lines[3].endswith(", so they are copied first, ordered by the key")
    assert lines[4].startswith("the copy reads 0.0 MB once; a range then reads about 0.0 MB of it")
    project.run()
    project.sql("update {schema}.up set amount = 7 where id < 9")

    lines = explained(project, **config)
    assert lines[0].startswith("100 of 400 rows of ")
    assert lines[1] == "the next barrier merges what has changed since"
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
    assert lines[3].startswith("a barrier for each, in about 1 run of dbt; barrier_seconds gives")

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
    assert changes == "the next barrier merges what has changed since"
    sent = 6 if project.file_format == "iceberg" else 7
    assert statements.startswith(f"the first barrier of the next run sends {sent} statements, each")


@pytest.mark.parametrize(
    "config",
    [
        {},
        {"replicate": "always"},
        {"barrier_seconds": 100, "compact_every": 2},
        pytest.param({"live_view": True}, marks=HAS_VIEWS),
    ],
    ids=["plain", "copied", "sized", "live"],
)
def test_a_run_sends_as_many_statements_as_it_says(project: Project, config: Any) -> None:
    config = {"backfill_rate_limit": 50, "sort_when_finished": True, **config}

    def check(barriers: int) -> None:
        line = explained(project, **config, barriers_per_run=barriers)[-1]
        first, further = (
            [int(count) for count in span.split(" or ")]
            for span in re.findall(r"(?:run sends|further one) (\d+(?: or \d+)?)", line)
        )
        steps = project.run().steps
        compactions = [step for step in steps if step.startswith("compact ")]
        assert not compactions or "; besides 1 after every 2 barriers, to compact" in line
        sent, more = len(steps) - len(compactions), barriers - 1
        least, most = first[0] + more * further[0], first[-1] + more * further[-1]
        assert least <= sent <= most, f"{line}: {steps}"

    check(1)
    project.sql("update {schema}.up set amount = 7 where id < 9")
    check(1)
    check(2)


def test_what_a_run_would_refuse_is_refused(project: Project) -> None:
    project.write({"mv": model(QUERY, backfill_mode="some")}, sources=["up"])
    refused = project.fail("run-operation", "explain_backfill", "--args", "{model: mv}")
    assert 'backfilled_mv mv: backfill_mode is "some"' in refused.output + refused.error
    project.write({"mv": model("select id + 1 as id from " + source("up"))}, sources=["up"])
    refused = project.fail("run-operation", "explain_backfill", "--args", "{model: mv}")
    assert "backfilled_mv mv: 'id' of unique_key is not a column" in refused.output + refused.error


def test_what_a_run_with_nothing_to_do_would_refuse_is_refused(project: Project) -> None:
    project.write({"mv": model(QUERY)}, sources=["up"]).run()
    project.write({"mv": model(QUERY, unique_key=["amount"])}, sources=["up"])
    refusal = "backfilled_mv mv: unique_key changed from id to amount"
    for command in (["run"], ["run-operation", "explain_backfill", "--args", "{model: mv}"]):
        refused = project.fail(*command)
        assert refusal in refused.output + refused.error


def test_what_the_next_run_takes_or_goes_on_with_is_told(project: Project) -> None:
    """A table that was marked to be adopted, and what a first run has left that died early."""
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
