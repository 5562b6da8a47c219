"""Other tables in the schema of a source do not matter to a model that reads one of them."""

from __future__ import annotations

import shutil
from typing import Any

import pytest
import yaml

from support.checks import model
from support.project import Project

pytestmark = pytest.mark.every_profile


def make(project: Project) -> str:
    """Create a source in a schema of its own, with a plain model and an MV that read it."""
    raw = f"{project.schema}_raw"
    properties = ", ".join(f"'{k}' = '{v}'" for k, v in project.format.followable.items())
    project.sql(f"create schema {raw}")
    project.sql(
        f"create table {raw}.up (id int, v int) using {project.file_format}"
        f" tblproperties ({properties})"
    )
    project.sql(f"insert into {raw}.up select id, 1 from range(1, 11)")
    sources = [{"name": "raw", "schema": raw, "tables": [{"name": "up"}]}]
    query = "select id, v from {{ source('raw', 'up') }}"
    stock = "{{ config(materialized='table') }}\n" + query
    files = {"models/_raw.yml": yaml.safe_dump({"version": 2, "sources": sources})}
    project.write({"stock": stock, "mv": model(query)}, files=files)
    return raw


@pytest.mark.core("session-iceberg")
@pytest.mark.profiles("session-iceberg", reason="dbt-spark sends one statement for each table")
def test_a_run_does_not_look_at_the_neighbours(project: Project) -> None:
    raw = make(project)
    project.run()
    project.sql(f"create table {raw}.broken (id int) using iceberg")
    folder = project.lake.directory / "iceberg" / raw / "broken" / "metadata"
    (folder / "v1.metadata.json").write_text("{")
    (folder / ".v1.metadata.json.crc").unlink(missing_ok=True)

    alone = project.run("--select", "mv")

    assert alone.message("mv") == "CAUGHT UP"
    assert not [sql for sql in alone.statements if "broken" in sql]


@pytest.mark.profiles("session-delta", reason="Spark describes all tables of a schema at once")
@pytest.mark.parametrize("folder", ["", "_delta_log"])
def test_a_broken_neighbour_breaks_nothing(project: Project, folder: str) -> None:
    raw = make(project)
    project.sql(f"create table {raw}.broken (id int) using delta")
    shutil.rmtree(project.lake.location(raw, "broken") / folder)

    project.run()


@pytest.mark.core("session-delta")
@pytest.mark.profiles("session-delta", reason="Spark describes all tables of a schema at once")
def test_a_neighbour_that_vanishes_is_not_taken_for_the_upstream(project: Project) -> None:
    raw = make(project)

    def vanish(sql: str, proceed: Any) -> None:
        if f"show table extended in {raw} " in sql:
            raise RuntimeError(
                f"[TABLE_OR_VIEW_NOT_FOUND] The table or view `{raw}`.`gone` cannot be found."
            )
        proceed()

    result = project.dbt("run", intercept=vanish, expect=False)

    assert result["stock"].status == "success"
    assert "does not exist" not in result.message("mv")
