"""The command `dbt-backfill` repeats dbt's commands on a real project and reports the results."""

from __future__ import annotations

import json
import re

import pytest
from click.testing import CliRunner, Result

from dbt.adapters.spark_backfill.cli import loop
from dbt.adapters.spark_backfill.cli.main import main
from support.checks import model, source
from support.profiles import at_home_on_iceberg
from support.project import Crash, Proceed, Project, intercepted

pytestmark = at_home_on_iceberg

QUERY = f"select id, name from {source('people')}"


def cli(project: Project, *command: str) -> Result:
    place = ["--project-dir", str(project.root), "--profiles-dir", str(project.root)]
    return CliRunner().invoke(main, [*command, *place])


@pytest.fixture
def people(project: Project) -> Project:
    project.create_table("people", "id int, name string")
    project.sql("insert into {schema}.people select cast(id as int), 'n' from range(60)")
    with (project.root / "dbt_project.yml").open("a") as file:
        file.write("on-run-start: select 1\non-run-end: select 1\n")
    return project.write({"mv": model(QUERY, backfill_rate_limit=20)}, sources=["people"])


def test_it_makes_barriers_until_nothing_is_left_and_goes_on_after_a_failure(
    people: Project, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(loop, "FIRST_PAUSE_SECONDS", 0.1)
    assert cli(people, "status").output == "No backfilled_mv of this project has been run yet.\n"

    merges = 0

    def fail_once(sql: str, proceed: Proceed) -> None:
        nonlocal merges
        merges += "merge the range" in sql
        if merges == 2:
            merges += 1
            raise Crash("once")
        proceed()

    with intercepted(fail_once):
        ran = cli(people, "run")
    assert ran.exit_code == 0, ran.output
    assert "runs again in 0 s, for the first time" in ran.output
    assert ran.output.count("mv [BARRIER ") == 3
    assert ran.output.endswith("mv: CAUGHT UP\n")
    assert people.value("select count(*) from {schema}.mv") == 60

    [row] = map(json.loads, cli(people, "status", "--json").output.splitlines())
    assert (row["model"], row["progress"], row["row_count"]) == ("mv", 1.0, 60)
    assert "100.0 %" in cli(people, "status").output
    assert "dbt_backfill_finished{" in cli(people, "metrics").output


@pytest.mark.every_profile
def test_it_steers_and_ends_as_its_exit_codes_say(people: Project) -> None:
    assert cli(people, "run", "--for", "0.01s").exit_code == 3
    assert cli(people, "pause", "--all").exit_code == 0
    paused = cli(people, "run")
    assert (paused.exit_code, "PAUSED" in paused.output) == (0, True)
    assert cli(people, "throttle", "mv", "--rows", "40").exit_code == 0
    resumed = json.loads(cli(people, "resume", "mv", "--json").output)
    assert resumed["operation"] == "resume_backfill"
    turns = map(json.loads, cli(people, "run", "--json").output.splitlines())
    assert [turn["code"] for turn in turns] == ["BARRIER", "NO-OP"]
    verified = cli(people, "verify", "mv")
    assert (verified.exit_code, "60 rows compared, all equal" in verified.output) == (0, True)

    people.write({"mv": model(QUERY, backfill_rate_limit=-1)})
    refused = cli(people, "run")
    assert refused.exit_code == 1
    assert refused.output.count("backfill_rate_limit is -1") == 1
    missing = cli(people, "pause", "other")
    assert missing.exit_code == 1
    assert "other" in missing.output


def order(output: str) -> list[str]:
    """Return the name and number of each barrier in the order of the output, e.g. `left_mv 1`."""
    return [f"{mv} {epoch}" for mv, epoch in re.findall(r"(\w+_mv) \[BARRIER (\d+) ", output)]


@pytest.mark.plugin
def test_mvs_alternate_by_barriers_in_two_threads_and_in_turns_of_the_command_line(
    project: Project,
) -> None:
    project.create_table("numbers", "id int")
    project.sql("insert into {schema}.numbers select cast(id as int) from range(60)")
    query = f"select id from {source('numbers')}"
    names = ("left_mv", "right_mv")
    limits = {"left_mv": 15, "right_mv": 20}
    options = {"barriers_per_run": 2, "take_turns": True}
    project.write(
        {mv: model(query, backfill_rate_limit=limits[mv], **options) for mv in names},
        sources=["numbers"],
    )

    run = project.run("--threads", "2")

    first = order(run.output)
    other = {"left_mv": "right_mv", "right_mv": "left_mv"}[first[0].split()[0]]
    begins = first[0].split()[0]
    assert first == [f"{begins} 1", f"{other} 1", f"{begins} 2", f"{other} 2"]
    assert "take_turns has no effect" not in run.output

    project.write({
        mv: model(query, backfill_rate_limit=limits[mv], barriers_per_run="all", take_turns=True)
        for mv in names
    })  # fmt: skip
    ran = cli(project, "run", "--turns")

    assert ran.exit_code == 0, ran.output
    assert order(ran.output) == ["left_mv 3", "right_mv 3", "left_mv 4"]
    for mv in names:
        assert project.rows(f"select id from {{schema}}.{mv}") == project.rows(
            "select id from {schema}.numbers"
        )
