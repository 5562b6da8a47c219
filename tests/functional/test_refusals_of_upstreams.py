"""Upstreams and keys that cannot be followed are refused before anything is written."""

from __future__ import annotations

from typing import Any

import pytest

from support.checks import (
    assert_made_nothing,
    assert_refused,
    model,
    source,
)
from support.profiles import needs_tables_of_spark
from support.project import MakeProject, Project, RunResult

EVENTS = source("events")

UPSTREAMS = {
    "reads_ephemeral": ("{{ ref('ephemeral_model') }}", "reads no model or source"),
    "reads_missing": (
        source("absent"),
        "refused_upstreams.absent does not exist",
        "Create the upstream",
    ),
    "reads_nothing": ("values (1) as t(id)", "reads no model or source"),
    "null_key": (source("nulls"), "nulls", "null in id", "version"),
    "key_twice": (source("twice"), "id is not unique", "twice", "2"),
}

NO_FEED = {
    "delta": (
        "no_feed has no change data feed",
        "changes after its version 2 cannot be read",
        "('delta.enableChangeDataFeed' = 'true')",
        "changes are recorded from version 3 on",
    ),
    "iceberg": (
        "no_feed is an Iceberg table of format 2 that is merged on read",
        "('format-version' = '3')",
        "('write.delete.mode' = 'copy-on-write')",
    ),
}

KEYS: dict[str, tuple[Any, ...]] = {
    "key_missing": (None, "id, name", "unique_key is missing"),
    "key_not_selected": ("id", "name", "does not return the column 'id'"),
    "second_key_not_selected": (
        ["id", "absent"],
        "id, name",
        "does not return the column 'absent'",
    ),
    "key_computed": ("id", "id + 1 as id, name", "'id' of unique_key", "an expression"),
    "key_cast": ("id", "cast(id as bigint) as id, name", "'id' of unique_key", "an expression"),
    "key_coalesced": ("id", "coalesce(id, 0) as id", "'id' of unique_key", "an expression"),
    "key_constant": ("id", "1 as id, name", "'id' of unique_key", "an expression"),
    "key_of_a_field": ("a", "info.a as a, name", "'a' of unique_key", "an expression"),
    "key_collated": (
        "name",
        "name collate utf8_lcase as name",
        "'name' of unique_key",
    ),
    "key_double": ("amount", "amount", "has the type double,", "Use a key of integers"),
    "key_float": ("share", "share", "has the type float,"),
    "key_struct": ("info", "info, name", "type struct<a:int,b:string>, which"),
    "key_array": ("tags", "tags, name", "type array<string>, which"),
    "key_twice_the_same": (
        ["id", "other_id"],
        "id, id as other_id",
        "two columns of unique_key come from the column 'id'",
    ),
}


@pytest.fixture(scope="module")
def project(shared_project: MakeProject) -> Project:
    project = shared_project("refused_upstreams")
    project.create_table(
        "events",
        "id int, name string, amount double, share float, tags array<string>,"
        " info struct<a: int, b: string>",
    )
    for table, rows in {
        "nulls": "(1, 'a'), (null, 'b')",
        "twice": "(1, 'a'), (2, 'b'), (2, 'c')",
    }.items():
        project.create_table(table, "id int, name string")
        project.sql(f"insert into {{schema}}.{table} values {rows}")
    models = {
        "ephemeral_model": "{{ config(materialized='ephemeral') }} select 1 as id",
    }
    models |= {name: model(f"select * from {read}") for name, (read, *_) in UPSTREAMS.items()}
    models |= {
        name: model(f"select {columns} from {EVENTS}", unique_key=key)
        for name, (key, columns, *_) in KEYS.items()
    }
    project.create_table("gaps", "id int, part int, name string")
    project.sql(
        "insert into {schema}.gaps select if(id < 20, null, id), 1, 'a' from range(0, 40, 1, 1)"
        " union all select id, if(id = 49, null, 1), 'b' from range(40, 60, 1, 1)"
    )
    gaps = f"select id, part, name from {source('gaps')}"
    models |= {
        "null_at_a_bound": model(gaps, backfill_rate_limit=10),
        "null_part_at_a_bound": model(
            f"{gaps} where id > 39", unique_key=["id", "part"], backfill_rate_limit=10
        ),
    }
    models["key_misdeclared"] = model(f"select id, name from {EVENTS}", upstream_key="name")
    tables = ["events", "nulls", "twice", "absent", "gaps"]
    return project.write(models, sources=tables)


@pytest.fixture(scope="module")
def run(project: Project) -> RunResult:
    return project.fail()


@pytest.mark.parametrize("name", UPSTREAMS)
def test_an_upstream_that_cannot_be_followed_is_refused(
    project: Project, run: RunResult, name: str
) -> None:
    _, *facts = UPSTREAMS[name]

    assert_refused(run, name, *facts)
    assert_made_nothing(project, name)


@pytest.mark.parametrize("name", KEYS)
def test_a_key_that_cannot_be_followed_is_refused(
    project: Project, run: RunResult, name: str
) -> None:
    _, _, *facts = KEYS[name]

    assert_refused(run, name, *facts)
    assert_made_nothing(project, name)


def test_an_upstream_key_that_the_query_contradicts_is_refused(
    project: Project, run: RunResult
) -> None:
    assert_refused(run, "key_misdeclared", "'id' comes from 'name'", "query 'id' comes from 'id'")
    assert_made_nothing(project, "key_misdeclared")


@pytest.mark.every_profile
@pytest.mark.profiles("session-iceberg", "thrift-iceberg", reason="has metadata columns")
def test_a_column_that_hides_a_metadata_column_is_refused(new_project: Any) -> None:
    project: Project = new_project()
    project.create_table("flags", "id int, _DELETED boolean")
    project.create_table("changes", "id int, _Change_type string", {"format-version": "2"})
    project.create_table("people", "id int, _change_type string", {"format-version": "3"})
    project.create_table("events", "id int, _change_type string, op string, n int, _Row_id int")
    for table in ("flags", "changes", "people"):
        project.sql(f"insert into {{schema}}.{table} values (1, null)")
    models = {
        f"{name}_mv": model(f"select id from {source(name)}") for name in ("flags", "changes")
    }
    relation = "source('lake', 'events')"
    feed = {"relation": relation, "operation": "op", "sequence": "n"}
    followed = f"select id from {source('people')} -- depends_on: {{{{ {relation} }}}}"
    models["fed"] = model(followed, change_feed=feed)
    models["people_mv"] = model(f"select * from {source('people')}")
    project.write(models, sources=["flags", "changes", "people", "events"])

    run = project.fail()

    assert_refused(run, "flags_mv", "flags has the column _DELETED", "RENAME COLUMN")
    assert_refused(run, "changes_mv", "changes has the column _Change_type", "RENAME COLUMN")
    assert_refused(run, "fed", "events has the column _Row_id", "RENAME COLUMN")
    assert run["people_mv"].status == "success", run.message("people_mv")
    for name in ("flags_mv", "changes_mv", "fed"):
        assert_made_nothing(project, name)


@needs_tables_of_spark
@pytest.mark.every_profile
def test_views_and_tables_without_versions_are_refused(new_project: Any) -> None:
    project: Project = new_project()
    project.sql("create table {schema}.a_parquet (id int, name string) using parquet")
    project.sql("create view {schema}.a_view as select id from {schema}.a_parquet")
    upstreams = {
        "reads_view": (source("a_view"), "a_parquet is neither a Delta nor an Iceberg table"),
        "reads_view_model": ("{{ ref('view_model') }}", "view_model, whose query reads no table"),
        "reads_parquet": (source("a_parquet"), "a_parquet is neither a Delta nor an Iceberg table"),
    }
    models = {name: model(f"select * from {read}") for name, (read, *_) in upstreams.items()}
    models["view_model"] = "{{ config(materialized='view') }} select 1 as id"
    project.write(models, sources=["a_view", "a_parquet"])

    refused = project.fail()

    for name, (_, *facts) in upstreams.items():
        assert_refused(refused, name, *facts)
        assert_made_nothing(project, name)


@pytest.mark.every_profile
def test_a_table_that_tells_no_changes_is_refused_until_it_does(new_project: Any) -> None:
    project: Project = new_project()
    project.create_table("no_feed", "id int, name string", project.format.unfollowable)
    one_file = "select /*+ coalesce(1) */ * from values (1, 'a'), (3, 'c') as t(id, name)"
    project.sql(f"insert into {{schema}}.no_feed {one_file}")
    project.sql("insert into {schema}.no_feed values (2, 'b')")
    project.write({"mv": model(f"select * from {source('no_feed')}")}, sources=["no_feed"])
    version = project.current_version("no_feed")

    refused = project.fail()
    alter = f"ALTER TABLE {project.schema}.no_feed SET TBLPROPERTIES"
    assert_refused(refused, "mv", alter, *NO_FEED[project.file_format])
    assert_made_nothing(project, "mv")
    assert project.current_version("no_feed") == version

    message = refused.message("mv")
    statement, _, _ = message[message.index("ALTER TABLE") :].partition("; ")
    project.sql(statement)
    project.run()
    assert project.rows("select * from {schema}.mv") == [(1, "a"), (2, "b"), (3, "c")]
    read = project.value("select max(upstream_version) from {schema}.mv__progress")
    assert read == project.current_version("no_feed")

    # The MV has read rows that are older than the table's change feed. Later changes of these rows
    # are in the feed.
    project.sql("delete from {schema}.no_feed where id = 1")
    assert "0 changed, 1 deleted" in project.run().output
    assert project.rows("select * from {schema}.mv") == [(2, "b"), (3, "c")]


def test_a_corrected_key_needs_no_full_refresh(project: Project, run: RunResult) -> None:
    assert_refused(run, "key_twice")
    project.write(
        {"key_twice": model(f"select * from {source('twice')}", unique_key=["id", "name"])}
    )

    project.run("--select", "key_twice")

    assert project.rows("select * from {schema}.key_twice") == [(1, "a"), (2, "b"), (2, "c")]


@pytest.mark.parametrize(
    ("name", "key"), [("null_at_a_bound", "id"), ("null_part_at_a_bound", "id, part")]
)
def test_a_null_where_a_range_would_end_is_refused_as_any_other(
    project: Project, run: RunResult, name: str, key: str
) -> None:
    assert_refused(run, name, f"null in {key}", "version")
    assert_made_nothing(project, name)
