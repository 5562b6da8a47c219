"""A table of another writer that has one of our names stays as it is."""

from __future__ import annotations

import pytest

from support.checks import assert_no_java, assert_refused, model, source
from support.project import Project

pytestmark = [
    pytest.mark.profiles("session-delta", "session-iceberg", reason="depends on the format alone"),
    pytest.mark.every_profile,
]

QUERY = f"select id, v from {source('up')}"
THEIRS = f"select id, v * 10 as theirs from {source('up')}"


@pytest.fixture
def up(project: Project) -> Project:
    project.create_table("up", "id int, v int")
    project.sql("insert into {schema}.up values (1, 1), (2, 2)")
    return project


@pytest.mark.core("session-delta")
def test_a_drop_leaves_a_model_with_the_name_of_a_next_generation(up: Project) -> None:
    up.write({"orders": model(QUERY), "orders__next": model(THEIRS)}, sources=["up"]).run()
    assert "next generation" not in up.run().output
    drop = ("run-operation", "drop_backfill", "--args")
    assert (
        "is not the state of a next generation"
        in up.fail(*drop, "{model: orders, generation: next}").output
    )
    up.dbt(*drop, "{model: orders}")
    assert not up.exists("orders")
    assert up.rows("select * from {schema}.orders__next") == [(1, 10), (2, 20)]
    assert up.exists("orders__next__progress")


def test_a_refresh_beside_leaves_another_mv_with_that_name(up: Project) -> None:
    """The other MV belongs to another project, so this project has no model for it."""
    up.write({"orders__next": model(THEIRS)}, sources=["up"]).run()
    up.remove("orders__next")
    up.write({"orders": model(QUERY, full_refresh_mode="beside")}, sources=["up"]).run()
    up.run()
    fact = "orders__next__progress has the name of the state of its next generation"
    assert_refused(up.fail("--full-refresh"), "orders", fact)
    assert up.rows("select * from {schema}.orders__next") == [(1, 10), (2, 20)]
    assert up.rows("select * from {schema}.orders") == [(1, 1), (2, 2)]


@pytest.mark.core("session-delta", "session-iceberg")
def test_a_first_run_writes_to_no_table_that_a_hook_has_created(up: Project) -> None:
    kind = up.file_format
    hook = f"create table if not exists {{{{ this }}}} using {kind} as select 7 as id, 0 as v"
    up.write({"mv": model(QUERY, pre_hook=hook)}, sources=["up"])
    fact = "mv was created by something else than this run"
    assert_refused(up.fail(), "mv", fact)
    assert up.rows("select * from {schema}.mv") == [(7, 0)]
    assert not up.dbt("run", expect=False).success
    assert up.rows("select * from {schema}.mv") == [(7, 0)]

    up.sql("drop table {schema}.mv")
    up.write({"mv": model(QUERY)}).run()
    assert up.rows("select * from {schema}.mv") == [(1, 1), (2, 2)]


DERIVED = (
    "progress", "barriers", "controls", "replica", "live", "next", "next__progress",
    "next__barriers", "next__replica",
)  # fmt: skip


@pytest.mark.parametrize("suffix", DERIVED)
def test_a_table_with_a_derived_name_is_neither_written_nor_dropped(
    project: Project, suffix: str
) -> None:
    """The run may be refused, or may not need the name."""
    project.create_table("up", "id int, v int")
    project.sql("insert into {schema}.up select int(id), 0 from range(40)")
    name = f"mv__{suffix}"
    project.sql(f"create table {{schema}}.{name} using {project.file_format} as select 'mine' as m")
    version = project.current_version(name)
    text = model(
        f"select id, v from {source('up')}", backfill_rate_limit=10, replicate="always",
        full_refresh_mode="beside", live_view=suffix in ("live", "controls"),
    )  # fmt: skip
    project.write({"mv": text}, sources=["up"])

    results = [project.dbt("run", expect=False) for _ in range(2)]
    results.append(project.dbt("run", "--full-refresh", expect=False))
    arguments = ("drop_backfill", "--args", "{model: mv}")
    results.append(project.dbt("run-operation", *arguments, expect=False))

    assert project.current_version(name) == version
    assert project.rows(f"select * from {{schema}}.{name}") == [("mine",)]
    for result in results:
        assert_no_java(result.output + result.error)
