"""`drop_backfill` drops the tables of one MV. `backfill_orphans` lists MVs that may be dropped."""

from __future__ import annotations

import re
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
import yaml

from support.checks import (
    assert_refused,
    existing_tables,
    model,
    refused_operation,
    source,
    tables_of,
)
from support.lake import SessionLake
from support.project import MakeProject, Proceed, Project, RunResult, crash_before

QUERY = f"select id, upper(name) as name from {source('people')}"
TABLE = "{{ config(materialized='table') }} select 7 as id"


def make_people(project: Project) -> None:
    project.create_table("people", "id int, name string")
    project.sql("insert into {schema}.people select id, concat('n', id) from range(5)")


@pytest.fixture(scope="module")
def project(shared_project: MakeProject) -> Project:
    """Create MVs. Then remove some of the models, change some to a `table`, or do both."""
    project = shared_project("drop_backfill")
    make_people(project)
    project.sql("create table {schema}.people__progress as select 1 as id")
    held = model(QUERY, backfill_mode="snapshot", backfill_rate_limit=2)
    project.write({"mv": held, **{name: model(QUERY) for name in ORPHANS}}, sources=["people"])
    project.run("--threads", "4")
    project.write({"left": TABLE, "replaced": TABLE})
    project.run("--select", "left", "replaced")
    project.remove("gone", "replaced")
    return project


ORPHANS = ("gone", "left", "replaced")


def lines(result: RunResult | None, name: str) -> list[str]:
    """Return the lines that the operation printed about the MV."""
    assert result is not None
    return [message for message in result.messages if message.startswith(f"{name}: ")]


def listed(project: Project) -> list[str]:
    shown = project.operation("backfill_orphans").messages
    [start] = [number for number, line in enumerate(shown) if re.match(r"\S+ orphans? in ", line)]
    return list(shown[start : start + 4])


@pytest.mark.every_profile
def test_what_models_have_left_is_listed_with_the_command_that_drops_it(project: Project) -> None:
    schema, command = project.schema, "dbt run-operation drop_backfill --args"

    assert listed(project) == [
        f"3 orphans in {schema}, which no model of this project and target makes",
        f"  {schema}.gone: MV, state and history; {command} '{{mv: {schema}.gone}}'",
        f"  {schema}.left: state and history; {command} '{{mv: {schema}.left, keep_mv: true}}'",
        f"  {schema}.replaced: state and history;"
        f" {command} '{{mv: {schema}.replaced, keep_mv: true}}'",
    ]


REPLACED = "was replaced or rolled back by something else since the barrier 1"
MADE_BY_OTHERS = "was not made by this materialization"


@pytest.mark.every_profile
def test_beside_a_table_that_is_not_ours_nothing_is_dropped(project: Project) -> None:
    """If a `table` model replaces an MV, Iceberg keeps this package's properties, but Delta does
    not.

    On Iceberg behind a Thrift server, the Hive metastore does not show the properties.
    """
    schema = project.schema
    before = project.rows("show tables in {schema}")
    keep = "Add keep_mv: true to drop only the state and history beside it."

    replaced = f"{schema}.replaced"
    why = REPLACED if project.lake.profile.name == "session-iceberg" else MADE_BY_OTHERS
    assert refused_operation(project, "drop_backfill", mv=replaced) == (
        f"backfilled_mv {replaced}: {replaced} {why}. {keep}"
    )
    assert refused_operation(project, "drop_backfill", model="left") == (
        f"backfilled_mv left: {schema}.left is built by the model left. {keep}"
    )
    assert refused_operation(project, "drop_backfill", mv=f"{schema}.people").startswith(
        f"backfilled_mv {schema}.people: {schema}.people {MADE_BY_OTHERS}. "
    )
    assert project.rows("show tables in {schema}") == before


def twice(sql: str, proceed: Proceed) -> None:
    """Send each `drop table` or `drop tag` twice, as dbt does after a lost connection."""
    proceed()
    if re.search(r"\bdrop (table|tag)\b", sql):
        proceed()


def tags(project: Project) -> list[str]:
    if project.file_format == "delta":
        return []
    found = project.rows("select name from {schema}.people.refs where type = 'TAG'")
    return [name for (name,) in found]


@pytest.mark.every_profile
def test_a_drop_that_was_broken_off_is_finished_by_the_same_command(project: Project) -> None:
    drop = ("run-operation", "drop_backfill", "--args", yaml.safe_dump({"model": "mv"}))
    held = tags(project)
    assert len(held) == (1 if project.file_format == "iceberg" else 0)
    table = f"{project.schema}.mv"

    step = "drop tag" if held else ".mv: drop the history"
    project.fail(*drop, intercept=crash_before(step))
    assert lines(project.last, "mv") == [f"mv: dropped the MV {table}"]
    assert existing_tables(project, *tables_of("mv")) == ["mv__progress", "mv__barriers"]
    assert_refused(project.fail("--select", "mv"), "mv", "does not exist, but its state does")

    finished = project.dbt(*drop, intercept=twice)
    assert lines(finished, "mv") == [
        *(f"mv: dropped the tag {tag} of {project.schema}.people" for tag in held),
        f"mv: dropped the history {table}__barriers",
        f"mv: dropped the state {table}__progress",
    ]
    assert existing_tables(project, *tables_of("mv")) == []
    assert tags(project) == []

    assert lines(project.dbt(*drop), "mv") == ["mv: there is nothing to drop"]
    assert "BARRIER 1 (" in project.run("--select", "mv").message("mv")


@pytest.mark.every_profile
def test_the_commands_that_are_listed_drop_the_orphans_and_nothing_else(project: Project) -> None:
    for line in listed(project)[1:]:
        [arguments] = re.findall(r"'(.*)'$", line)
        project.operation("drop_backfill", **yaml.safe_load(arguments))

    assert listed(project)[0] == f"no orphans in {project.schema}"
    remaining = existing_tables(project, *(t for mv in ORPHANS for t in tables_of(mv)))
    assert remaining == ["left", "replaced"]
    for table in remaining:
        assert project.rows(f"select * from {{schema}}.{table}") == [(7,)]
    assert existing_tables(project, *tables_of("mv")) == [*tables_of("mv")]
    assert existing_tables(project, "people", "people__progress") == ["people", "people__progress"]


@pytest.mark.every_profile
@pytest.mark.profiles("session-delta", "session-iceberg", reason="a program with its own session")
@pytest.mark.parametrize("mode", ["in_place", "beside"])
def test_a_table_that_a_program_has_written_in_place_of_an_mv_stays(
    new_project: Callable[[], Project], mode: str
) -> None:
    """An overwrite keeps the properties of the MV. After `beside` the last barrier is a swap."""
    project = new_project()
    make_people(project)
    project.write({"mv": model(QUERY, full_refresh_mode=mode), "other": TABLE}, sources=["people"])
    project.run("--select", "mv")
    project.run("--select", "mv", "--full-refresh")
    table, lake = project.table("mv"), project.lake
    assert isinstance(lake, SessionLake)
    frame = lake.spark.sql("select 7 as id, 'mine' as name")
    frame.write.format(project.file_format).mode("overwrite").saveAsTable(table)
    project.sql("insert into {schema}.mv values (8, 'mine')")
    project.remove("mv")

    refusal = refused_operation(project, "drop_backfill", mv=table)

    assert "was replaced or rolled back by something else" in refusal
    shown = project.operation("backfill_orphans").messages
    assert any(f"{table}: state and history; " in line for line in shown)
    project.operation("drop_backfill", mv=table, keep_mv=True)
    assert project.value("select count(*) from {schema}.mv") == 2


@pytest.mark.profiles("session-delta", "thrift-delta", reason="such a table is Delta's")
def test_the_files_in_a_location_of_the_users_stay_and_are_told(
    new_project: Callable[[], Project], tmp_path: Path
) -> None:
    project = new_project()
    make_people(project)
    project.write({"mv": model(QUERY, location_root=str(tmp_path))}, sources=["people"])
    project.run()

    dropped = lines(project.operation("drop_backfill", model="mv"), "mv")

    for line, table in zip(dropped, ("mv", "mv__barriers", "mv__progress"), strict=True):
        told = rf"mv: dropped the \w+ {project.schema}\.{table}; its files stay in \S*"
        assert re.fullmatch(f"{told}{tmp_path}/{table}", line)
        assert (tmp_path / table / "_delta_log").is_dir()
    assert "not empty" in project.fail().message("mv")
    for table in tables_of("mv"):
        shutil.rmtree(tmp_path / table)
    assert project.run().message("mv") == "BARRIER 1 (100.0 %)"
