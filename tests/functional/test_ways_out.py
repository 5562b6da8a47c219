"""If a run is refused, its message names a way out, and this way works."""

from __future__ import annotations

import pytest

from support.checks import assert_refused, model, source
from support.project import Proceed, Project

pytestmark = [
    pytest.mark.profiles("session-delta", "session-iceberg", reason="depends on the format alone"),
    pytest.mark.every_profile,
]

WITH_RUN = f"select id, v, '{{{{ invocation_id }}}}' as run_id from {source('up')}"


@pytest.mark.core("session-iceberg")
@pytest.mark.profiles("session-iceberg", reason="Iceberg keeps every partitioning of a table")
@pytest.mark.parametrize("command", [(), ("--full-refresh",)])
def test_a_column_of_an_earlier_partitioning_is_not_taken_away(
    project: Project, command: tuple[str, ...]
) -> None:
    project.create_table("up", "id int, region string, v int")
    project.sql("insert into {schema}.up select int(id), concat('r', id % 3), 0 from range(40)")
    alters, wide = "sync_all_columns", f"select id, region, v from {source('up')}"
    project.write(
        {"mv": model(wide, partition_by="region", on_schema_change=alters)}, sources=["up"]
    )
    project.run()
    project.sql("alter table {schema}.mv replace partition field region with bucket(4, id)")
    project.write({"mv": model(f"select id, v from {source('up')}", on_schema_change=alters)})

    assert_refused(
        project.fail(*command), "mv", "is, or was earlier, partitioned by the field region"
    )
    project.operation("drop_backfill", model="mv")
    project.run()
    project.sql("update {schema}.up set v = 1 where id = 3")
    project.run()
    assert project.rows("select * from {schema}.mv") == project.rows(
        "select id, v from {schema}.up"
    )


@pytest.mark.core("session-delta")
def test_a_literal_that_dbt_renders_anew_is_named(project: Project) -> None:
    project.create_table("up", "id int, v int")
    project.sql("insert into {schema}.up select int(id), int(id) from range(10)")
    project.write({"mv": model(WITH_RUN, backfill_rate_limit=5)}, sources=["up"])
    project.run()

    assert_refused(project.fail(), "mv", "contains the invocation_id of dbt as a literal")

    project.write({"mv": model(WITH_RUN, backfill_rate_limit=5, on_query_change="rebuild")})
    assert "The MV keeps the invocation_id" in project.run().output
    project.run()
    assert project.value("select count(*) from {schema}.mv") == 10
    assert project.value("select count(distinct run_id) from {schema}.mv") == 1


@pytest.mark.profiles("session-iceberg", reason="a tag")
def test_without_the_mode_a_plan_needs_no_tag(project: Project) -> None:
    project.create_table("up", "id int, v int")
    project.sql("insert into {schema}.up values (1, 1), (2, 2), (3, 3)")
    query = f"select id, v from {source('up')}"

    def forbid(sql: str, proceed: Proceed) -> None:
        if "hold the snapshot" in sql:
            raise RuntimeError("Permission denied: ALTER on up")
        proceed()

    held = model(query, backfill_mode="snapshot", backfill_rate_limit=1)
    project.write({"mv": held}, sources=["up"])
    project.fail(intercept=forbid)
    project.write({"mv": model(query, backfill_rate_limit=1)})
    project.run(intercept=forbid)
    project.run(intercept=forbid)
    assert project.value("select count(*) from {schema}.mv") == 2
