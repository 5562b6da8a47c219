"""People set controls while a backfill runs. A budget limits one run."""

from __future__ import annotations

import re

import pytest

from support.checks import existing_tables, model, source, tables_of
from support.project import Interceptor, Proceed, Project

SINCE = r"since 20\d\d-\d\d-\d\d \d\d:\d\d"


def make_numbers(project: Project, rows: int, table: str = "numbers") -> None:
    project.create_table(table, "id int, name string")
    project.sql(
        f"insert into {{schema}}.{table} select cast(id as int), 'n' from range(1, {rows + 1})"
    )


def write(project: Project, mv: str = "mv", table: str = "numbers", **config: object) -> None:
    query = f"select id, upper(name) as name from {source(table)}"
    project.write({mv: model(query, **config)}, sources=[table])


def setting(project: Project, operation: str, **arguments: object) -> tuple[str, str]:
    """Set a control. Return the printed line that describes it, and the SQL script that sets it."""
    result = project.operation(operation, model="mv", **arguments)
    [line] = [line for line in result.messages if line.startswith("mv: ")]
    [script] = [sql for sql in result.statements if "insert into" in sql]
    return line, script


def while_committing(project: Project, settings: dict[int, str]) -> Interceptor:
    """Return an interceptor that sends `settings[n]` just before the commit of barrier n.

    In reality, another session would send such a script.
    """

    def intercept(sql: str, proceed: Proceed) -> None:
        for barrier, script in settings.items():
            if f": commit the barrier {barrier} */" in sql:
                project.sql(re.sub(r"timestamp_micros\(\d+\)", "current_timestamp()", script))
        proceed()

    return intercept


@pytest.mark.every_profile
@pytest.mark.profiles("session-iceberg", reason="takes twice as long elsewhere")
def test_controls_act_on_a_run_that_loops_and_survive_it(project: Project) -> None:
    make_numbers(project, 200)
    write(project, backfill_rate_limit=10, run_rows=15)
    # The first barrier reads 10 rows. The budget of 15 rows leaves 5 rows for the second barrier.
    assert project.run().message("mv") == "BARRIERS 1 to 2 (7.5 %), BUDGET SPENT"

    line, pause = setting(project, "pause_backfill", by="bob")
    assert re.fullmatch(rf"mv: paused by bob {SINCE}; changes are still merged", line)
    line, _ = setting(project, "resume_backfill")
    assert line == "mv: its config applies, with backfill_rate_limit 10"
    line, throttle = setting(project, "throttle_backfill", rows=35, by="it's me")
    assert re.fullmatch(rf"mv: throttled to 35 rows by it's me {SINCE}", line)

    # The table of controls does not exist when this run starts. Another session creates it during
    # the run.
    project.sql("drop table {schema}.mv__controls")
    write(project, backfill_rate_limit=10, barriers_per_run="all")
    run = project.run(intercept=while_committing(project, {3: throttle, 4: pause}))
    assert re.search(r"BARRIER 3 · 12.5 % · 25 of 200 rows · \+10 backfilled · version", run.output)
    throttled = rf"throttled to 35 rows by it's me {SINCE}"
    assert re.search(
        rf"BARRIER 4 · 30.0 % · .* · \+35 backfilled · .* · {throttled} · ", run.output
    )
    paused = rf"paused by bob {SINCE}"
    assert re.fullmatch(rf"BARRIERS 3 to 4 \(30.0 %\), PAUSED · {paused}", run.message("mv"))

    # During a pause, changes are still merged.
    project.sql("update {schema}.numbers set name = 'new' where id in (1, 199)")
    run = project.run()
    assert re.search(
        rf"BARRIER 5 · 30.0 % · .* · 1 changed, 0 deleted · .* · {paused} · ", run.output
    )
    counts = "min(id), max(id), count(*), count_if(name = 'NEW')"
    assert project.rows(f"select {counts} from {{schema}}.mv") == [(1, 60, 60, 1)]

    # A throttle also applies to later runs. It overrides the model's config until it is removed.
    line, _ = setting(project, "throttle_backfill", rows=35, by="it's me")
    assert re.fullmatch(rf"mv: {throttled}", line)
    write(project, backfill_rate_limit=10)
    run = project.run()
    assert re.fullmatch(rf"BARRIER 6 \(47.5 %\) · {throttled}", run.message("mv"))
    line, _ = setting(project, "throttle_backfill", rows="default")
    assert line == "mv: its config applies, with backfill_rate_limit 10"
    assert project.run().message("mv") == "BARRIER 7 (52.5 %)"

    dropped = project.operation("drop_backfill", model="mv").output
    assert "mv: dropped the controls " in dropped
    assert existing_tables(project, *tables_of("mv"), "mv__controls") == []


def test_a_run_ends_with_its_time_and_sizes_ranges_by_a_target(project: Project) -> None:
    make_numbers(project, 100)
    write(project, "hurried", backfill_rate_limit=10, run_minutes=0.0001)
    # No barrier can finish in 0.001 seconds, so each range has half the rows of the previous range.
    make_numbers(project, 10000, "many")
    sized = {"backfill_rate_limit": 4000, "barrier_seconds": 0.001}
    write(project, "sized", table="many", barriers_per_run=2, **sized)
    run = project.run()

    assert run.message("hurried") == "BARRIER 1 (10.0 %), BUDGET SPENT"
    assert run.message("sized") == "BARRIERS 1 to 2 (60.0 %)"
    assert " · up to 2,000 by barrier_seconds · " in run.output

    # A later run starts with the size of the last range.
    write(project, "sized", table="many", barriers_per_run=1, **sized)
    assert " · up to 1,000 by barrier_seconds · " in project.run("--select", "sized").output

    project.operation("pause_backfill", model="hurried", by="bob")
    message = project.run("--select", "hurried").message("hurried")
    assert re.fullmatch(rf"PAUSED \(10.0 %\) · paused by bob {SINCE}", message)
