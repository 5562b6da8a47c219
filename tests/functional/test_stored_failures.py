"""`--store-failures` gives the package's tests the same results as a run without it."""

from __future__ import annotations

import pytest

from support.checks import data_tests, model, source
from support.project import Project, RunResult

pytestmark = [
    pytest.mark.profiles("session-delta", "session-iceberg", reason="dbt makes the same tables"),
    pytest.mark.every_profile,
]


def statuses(result: RunResult) -> dict[str, tuple[str, int | None]]:
    return {node.name: (node.status, node.failures) for node in result.nodes}


@pytest.fixture
def tested(project: Project) -> Project:
    """Create four MVs: two are complete and right, one is half read, and one has a wrong row."""
    project.create_table("up", "id int, difference string, v int")
    project.sql("insert into {schema}.up select id, 'd', 1 from range(1, 11)")
    up = source("up")
    wrong = "id, difference, v, map('a', v) as m"
    if project.file_format == "iceberg":
        wrong += ", v as `a b`, v as `a_b`, v as `a;b`"
    models = {
        "plain": model(f"select id, v from {up}"),
        "keyed": model(f"select id as unfilled, v from {up}", unique_key="unfilled"),
        "half": model(f"select id, v from {up}", backfill_rate_limit=4),
        "wrong": model(f"select {wrong} from {up}"),
    }
    project.write(models, sources=["up"], properties=data_tests(project, *models)).run()
    project.sql("update {schema}.wrong set v = 2 where id = 3")
    return project


@pytest.mark.parametrize("store", ["table", "view", "delta", "parquet"])
def test_stored_failures_change_no_result(tested: Project, store: str) -> None:
    if tested.file_format != "delta" and store != "table":
        pytest.skip("the Hadoop catalog has no views, and no tables of other formats")
    plain = statuses(tested.dbt("test", expect=False))
    counts = {name: count for name, (_, count) in plain.items() if count}
    assert {name.rstrip("_").split("_")[-1]: count for name, count in counts.items()} == {
        "half": 4,
        "wrong": 2,
    }
    if store != "table":
        option = "store_failures_as" if store == "view" else "file_format"
        path = tested.root / "dbt_project.yml"
        path.write_text(f"{path.read_text()}data_tests:\n  +{option}: {store}\n")
    assert statuses(tested.dbt("test", "--store-failures", expect=False)) == plain
