"""Spark's plan for the staged changes of a barrier: what Spark reads, and how often."""

from __future__ import annotations

import re

import pytest

from support.checks import model, source
from support.project import MakeProject, Proceed

pytestmark = [
    pytest.mark.every_profile,
    pytest.mark.profiles("session-delta", "session-iceberg", reason="asks in the run's session"),
]


@pytest.fixture(scope="module")
def stage_plan(shared_project: MakeProject) -> str:
    """Return Spark's plan of the query with which the MERGE reads the staged changes of two keys.

    The upstream has four files. Both changed keys are in one of the files.
    """
    project = shared_project("plans")
    project.create_table("up", "id int, name string")
    for low in range(1, 400, 100):
        project.sql(
            "insert into {schema}.up select /*+ coalesce(1) */ cast(id as int), 'old' "
            f"from range({low}, {low + 100})"
        )
    project.write({"mv": model(f"select * from {source('up')}")}, sources=["up"])
    project.run()
    project.sql("update {schema}.up set name = 'new' where id in (110, 120)")
    plans: list[str] = []

    def explain(statement: str, proceed: Proceed) -> None:
        stage = re.search(r"select \* from (`\w+__changes__\w+`)", statement)
        if stage and "merge into" in statement:
            plans.append(project.sql(f"explain formatted select * from {stage[1]}")[0][0])
        proceed()

    result = project.run(intercept=explain)
    assert "2 changed, 0 deleted" in result.output
    [plan] = plans
    return plan


def test_the_changes_are_worked_out_once(stage_plan: str) -> None:
    """The MERGE must find the staged rows in Spark's cache.

    This is not obvious, because Iceberg's metadata tables get another id at every read.
    """
    tree, *_ = stage_plan.split("InMemoryRelation")

    assert re.search(r"Scan In-memory table|InMemoryTableScan", tree)


@pytest.mark.profiles("session-iceberg", reason="Delta's feed has files of its own")
def test_files_beyond_the_changed_keys_are_not_read(stage_plan: str) -> None:
    """Iceberg records the smallest and the greatest key of each file."""
    scans = re.findall(r"IcebergScan\(table=\S+\.up, .*?filters=(.*?), runtimeFilters", stage_plan)

    assert scans
    for filters in scans:
        assert "id >= 101" in filters and "id <= 200" in filters
