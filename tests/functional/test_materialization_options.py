"""Options that limit a run, or choose the version and the vnodes that a run reads.

All models are run once, in one dbt run. Some tests run the same models again.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import pytest

from support.checks import (
    assert_writes_nothing,
    model,
    source,
    state_versions,
)
from support.project import MakeProject, Project, RunResult

QUERY = f"select id, name from {source('people')}"
FRESH = "select id, name from {schema}.people"
NUMBERS = f"select id, name from {source('numbers')}"
FRESH_NUMBERS = "select id, name from {schema}.numbers"
IN_CHOSEN_VNODES = "cast(pmod(xxhash64(cast(id as int)), 4) as int) in (0, 1)"

MODELS = {
    "unlimited": model(QUERY),
    "limited": model(QUERY, backfill_rate_limit=4),
    "two_a_run": model(QUERY, backfill_rate_limit=4, barriers_per_run=2),
    "all_at_once": model(QUERY, backfill_rate_limit=6, barriers_per_run="all"),
    "paused": model(QUERY, backfill_rate_limit=0),
    # The next models read the upstream `numbers`, which changes between their runs.
    "pinned": model(NUMBERS, backfill_rate_limit=6, backfill_mode="snapshot"),
    "level": model(NUMBERS, backfill_rate_limit=4, backfill_mode="no_shuffle"),
    "some": model(NUMBERS, backfill_vnodes=[0, 1]),
    "lower_mv": model(f"{NUMBERS} where id % 2 = 1", backfill_rate_limit=2),
    "upper_mv": model("select id, upper(name) as name from {{ ref('lower_mv') }}"),
}


@pytest.fixture(scope="module")
def project(shared_project: MakeProject) -> Project:
    project = shared_project("options")
    for table in ("people", "numbers"):
        project.create_table(table, "id int, name string")
        project.sql(f"insert into {{schema}}.{table} select id, concat('n', id) from range(1, 11)")
    return project.write(MODELS, sources=["people", "numbers"])


@pytest.fixture(scope="module")
def first(project: Project) -> RunResult:
    return project.run()


def lines(result: RunResult, name: str) -> list[str]:
    return [line for line in result.messages if f"{name} [BARRIER" in line]


def test_without_a_limit_the_first_barrier_reads_everything(
    project: Project, first: RunResult
) -> None:
    assert first.message("unlimited") == "BARRIER 1 (100.0 %)"
    assert " 10 rows · +10 backfilled" in lines(first, "unlimited")[0]
    assert project.rows("select * from {schema}.unlimited") == project.rows(FRESH)


def test_a_barrier_reads_as_many_rows_as_the_limit_says(project: Project, first: RunResult) -> None:
    assert first.message("limited") == "BARRIER 1 (40.0 %)"
    assert "4 of 10 rows · +4 backfilled" in lines(first, "limited")[0]
    assert project.rows("select id from {schema}.limited") == [(1,), (2,), (3,), (4,)]


def test_a_run_of_two_barriers_commits_two(project: Project, first: RunResult) -> None:
    assert first.message("two_a_run") == "BARRIERS 1 to 2 (80.0 %)"
    assert len(lines(first, "two_a_run")) == 2
    assert project.value("select count(*) from {schema}.two_a_run") == 8
    assert project.value("select max(epoch) from {schema}.two_a_run__progress") == 2


def test_all_goes_on_until_everything_is_read(project: Project, first: RunResult) -> None:
    assert first.message("all_at_once") == "BARRIERS 1 to 2 (100.0 %), CAUGHT UP"
    assert len(lines(first, "all_at_once")) == 2
    assert " 10 rows · " in lines(first, "all_at_once")[-1]
    assert project.rows("select * from {schema}.all_at_once") == project.rows(FRESH)
    assert project.value("select bool_and(backfill_finished) from {schema}.all_at_once__progress")


def test_a_limit_of_zero_pauses_the_backfill(project: Project, first: RunResult) -> None:
    assert first.message("paused") == "PAUSED (0.0 %)"
    assert lines(first, "paused") == []
    assert project.rows("select * from {schema}.paused") == []
    assert project.value("select count(*) from {schema}.paused__progress where epoch = 0") == 4


def test_while_paused_the_changes_of_what_was_read_go_on(
    project: Project, first: RunResult
) -> None:
    assert first.success
    project.write({"limited": model(QUERY, backfill_rate_limit=0)})
    again = assert_writes_nothing(project, lambda: project.run("--select", "limited"), mv="limited")
    assert again.message("limited") == "PAUSED (40.0 %)"

    project.sql("update {schema}.people set name = 'new' where id in (2, 9)")
    project.sql("delete from {schema}.people where id = 1")
    project.sql("insert into {schema}.people values (0, 'low'), (11, 'high')")
    result = project.run("--select", "limited")

    assert "+0 backfilled · 2 changed, 1 deleted" in lines(result, "limited")[0]
    assert project.rows("select * from {schema}.limited") == [
        (0, "low"),
        (2, "new"),
        (3, "n3"),
        (4, "n4"),
    ]


def test_all_at_once_reports_its_barriers_and_being_caught_up(
    project: Project, first: RunResult
) -> None:
    assert first.success
    project.sql("delete from {schema}.people where id = 10")

    result = project.run("--select", "all_at_once")

    assert len(lines(result, "all_at_once")) == 1
    assert result.message("all_at_once") == "BARRIER 3 (100.0 %), CAUGHT UP"
    assert project.rows("select * from {schema}.all_at_once") == project.rows(FRESH)


@dataclass(frozen=True)
class Step:
    """A run of the models that read `numbers`, and the contents of the tables after that run."""

    result: RunResult
    rows: dict[str, list[tuple[Any, ...]]]
    upstream: list[tuple[Any, ...]]
    chosen: list[tuple[Any, ...]]
    """Rows of the upstream in the vnodes that `some` reads."""
    version: str | None
    """The version of the upstream."""
    pinned_versions: set[Any]
    """The versions in the progress table of `pinned`."""


def take_step(project: Project, result: RunResult) -> Step:
    return Step(
        result=result,
        rows={
            name: project.rows(f"select * from {{schema}}.{name}")
            for name in ("pinned", "some", "lower_mv", "upper_mv")
        },
        upstream=project.rows(FRESH_NUMBERS),
        chosen=project.rows(f"{FRESH_NUMBERS} where {IN_CHOSEN_VNODES}"),
        version=project.current_version("numbers"),
        pinned_versions={
            row[0] for row in project.rows("select upstream_version from {schema}.pinned__progress")
        },
    )


@pytest.fixture(scope="module")
def steps(project: Project, first: RunResult) -> list[Step]:
    """Run the models three times. The upstream `numbers` changes after the first run."""
    steps = [take_step(project, first)]
    project.sql("update {schema}.numbers set name = 'new' where id in (1, 2, 6, 10)")
    project.sql("delete from {schema}.numbers where id = 9")
    project.sql("update {schema}.numbers set id = 20 where id = 3")
    followed = project.run("--select", "pinned", "some", "lower_mv", "upper_mv")
    steps.append(take_step(project, followed))
    steps.append(take_step(project, project.run("--select", "pinned", "some")))
    return steps


@pytest.mark.every_profile
def test_snapshot_mode_reads_one_version_until_the_backfill_has_finished(steps: list[Step]) -> None:
    first, second, third = steps

    assert first.result.message("pinned") == "BARRIER 1 (60.0 %)"
    assert second.result.message("pinned") == "BARRIER 2 (100.0 %)"
    assert second.rows["pinned"] == first.upstream
    assert first.pinned_versions == second.pinned_versions == {first.version}

    assert third.result.message("pinned") == "BARRIER 3 (100.0 %)"
    assert third.rows["pinned"] == third.upstream
    assert third.pinned_versions == {third.version} != {first.version}


def test_no_shuffle_gives_every_vnode_the_same_position(project: Project, first: RunResult) -> None:
    assert first.message("level") == "BARRIER 1 (40.0 %)"
    assert project.rows("select distinct id from {schema}.level__progress") == [(4,)]
    assert project.rows("select id from {schema}.level") == [(1,), (2,), (3,), (4,)]


def test_only_the_chosen_vnodes_are_read(project: Project, steps: list[Step]) -> None:
    first, second, third = steps

    assert 0 < len(first.chosen) < 10
    assert first.rows["some"] == first.chosen
    assert second.rows["some"] == second.chosen != first.chosen
    assert project.rows("select vnode from {schema}.some__progress where backfill_finished") == [
        (0,),
        (1,),
    ]
    assert third.result.message("some").startswith("PAUSED (")

    project.write({"some": model(NUMBERS)})
    project.run("--select", "some")
    assert project.rows("select * from {schema}.some") == project.rows(FRESH_NUMBERS)


@pytest.mark.every_profile
def test_an_mv_of_an_mv_follows_it(project: Project, steps: list[Step]) -> None:
    first, second, _ = steps
    assert first.rows["upper_mv"] == [(1, "N1")]
    assert second.result.message("upper_mv") == "BARRIER 2 (100.0 %)"
    assert (1, "NEW") in second.rows["upper_mv"]
    lower = [(number, name.upper()) for number, name in second.rows["lower_mv"]]
    assert second.rows["upper_mv"] == lower

    project.run("--full-refresh", "--select", "lower_mv")
    after = project.run("--select", "upper_mv")

    replaced = {"delta": "replaced in version", "iceberg": "rolled back or replaced since"}
    assert f"re-anchored: the upstream was {replaced[project.file_format]}" in after.output
    expected = "select id, upper(name) from {schema}.lower_mv"
    assert project.rows("select * from {schema}.upper_mv") == project.rows(expected)


TIMED = """
sources:
  - name: timed
    schema: options
    tables:
      - name: events
        config:
          event_time: at
"""


@pytest.mark.every_profile
def test_empty_and_sample_create_the_tables_and_move_nothing(project: Project) -> None:
    """With `--empty` and `--sample`, dbt renders the upstream as a filtered subquery."""
    project.create_table("events", "id int, at timestamp")
    project.sql("insert into {schema}.events select id, timestamp'2020-01-01' from range(1, 11)")
    read = "(select * from {{ source('timed', 'events') }} as events where id > 0)"
    query = f"select id, `at` from {read} where id < 100"
    names = ("after_empty", "after_sample")
    project.write(
        {name: model(query, backfill_rate_limit=4) for name in names},
        files={"models/_timed.yml": TIMED},
    )
    flags = {"after_empty": ["--empty"], "after_sample": ["--sample", "1 day"]}

    for name in names:
        created = project.run("--select", name, *flags[name])
        assert created.message(name) == f"NO-OP ({flags[name][0]})"
        assert project.rows(f"select * from {{schema}}.{name}") == []
        assert project.value(f"select max(epoch) from {{schema}}.{name}__progress") == 0

    result = project.run("--select", *names)
    for name in names:
        assert result.message(name) == "BARRIER 1 (40.0 %)"
        assert project.value(f"select count(*) from {{schema}}.{name}") == 4

    before = [state_versions(project, name) for name in names]
    for flag, *rest in flags.values():
        again = project.run("--select", *names, flag, *rest, "--full-refresh")
        assert {again.message(name) for name in names} == {f"NO-OP ({flag})"}
    assert [state_versions(project, name) for name in names] == before
