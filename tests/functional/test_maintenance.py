"""Maintenance that changes no row of the upstream does not stop a backfill."""

from __future__ import annotations

import random

import pytest

from support.checks import model, source
from support.project import Project

pytestmark = [
    pytest.mark.profiles("session-delta", "session-iceberg", reason="depends on the format alone"),
    pytest.mark.every_profile,
]

HARMLESS = {
    "delta": [
        "alter table {up} alter column v comment 'comment {n}'",
        "alter table {up} set tblproperties ('delta.enableChangeDataFeed' = 'true', 'a' = '{n}')",
        "alter table {up} unset tblproperties if exists ('a')",
        "alter table {up} add constraint positive_{n} check (id >= 0)",
        "comment on table {up} is 'comment {n}'",
        "optimize {up}",
        "vacuum {up}",
    ],
    "iceberg": [
        "alter table {up} set tblproperties ('a' = '{n}')",
        "alter table {up} unset tblproperties ('a')",
        "alter table {up} write ordered by v",
        "alter table {up} create tag tag_{n}",
        "comment on table {up} is 'comment {n}'",
    ],
}


@pytest.mark.core("session-iceberg")
def test_harmless_maintenance_lets_a_backfill_advance(project: Project) -> None:
    project.create_table("up", "id int, v int")
    project.sql("insert into {schema}.up select id, id from range(1, 101)")
    project.write(
        {"mv": model(f"select id, v from {source('up')}", backfill_rate_limit=10, on_gap="fail")},
        sources=["up"],
    )
    draw, statements = random.Random(4), HARMLESS[project.file_format]
    for number in range(1, 10):
        project.run()
        assert project.value("select count(*) from {schema}.mv") == 10 * number
        project.sql(f"update {{schema}}.up set v = v + 1 where id = {number}")
        shuffled = draw.sample(statements, len(statements))
        for statement in shuffled[: 2 if number < 9 else None]:
            project.sql(statement.format(up=project.table("up"), n=number))
    project.run()
    differs = "select * from {schema}.mv except select * from {schema}.up"
    assert project.value("select count(*) from {schema}.mv") == 100
    assert project.rows(differs) == []


@pytest.mark.core("session-delta")
@pytest.mark.profiles("session-delta", reason="what Delta logs for a comment")
def test_an_upstream_whose_comments_dbt_sends_in_each_run_is_followed(project: Project) -> None:
    project.create_table("raw", "id int, v int")
    project.sql("insert into {schema}.raw select id, id from range(1, 101)")
    staging = (
        "{{{{ config(materialized='incremental', incremental_strategy='merge', unique_key='id',"
        " file_format='delta', tblproperties={{'delta.enableChangeDataFeed': 'true'}},"
        " persist_docs={{'columns': true}}) }}}}\n"
        "select id, v, v as w from {up} {{% if is_incremental() %}} where v > 100 {{% endif %}}"
    )
    read = "select id, v from {{ ref('staging') }}"
    columns = [{"name": name, "description": f"the column {name}"} for name in ("id", "v")]
    project.write(
        {
            "staging": staging.format(up=source("raw")),
            "reanchors": model(read, backfill_rate_limit=10),
            "fails": model(read, backfill_rate_limit=10, on_gap="fail"),
            "sweeps": model(read, backfill_rate_limit=10, on_gap="sweep"),
        },
        sources=["raw"],
        properties={"models": [{"name": "staging", "columns": columns}]},
    )
    for number in range(1, 4):
        project.sql(f"update {{schema}}.raw set v = {1000 + number} where id = 3")
        output = project.run().output
        assert "re-anchored" not in output
        for mv in ("reanchors", "fails", "sweeps"):
            assert project.value(f"select count(*) from {{schema}}.{mv}") == 10 * number
    assert project.value("select v from {schema}.fails where id = 3") == 1003

    project.sql(
        "alter table {schema}.staging set tblproperties ('delta.enableTypeWidening' = 'true')"
    )
    project.sql("alter table {schema}.staging alter column w type bigint")
    assert "can no longer be read" in project.fail("--select", "fails").error
