"""Session settings that would give an MV other types, other values or fewer rows."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager

import pytest
from pyspark.sql import SparkSession

from support.checks import assert_made_nothing, assert_refused, model, source
from support.project import MakeProject, Project


@pytest.fixture(scope="module")
def project(shared_project: MakeProject) -> Project:
    return shared_project("session_settings")


@contextmanager
def session(project: Project, settings: Mapping[str, str]) -> Iterator[None]:
    project.configure(settings)
    try:
        yield
    finally:
        for name in settings:
            del project.settings[name]
            project.sql(f"reset `{name}`")
        project.configure({"spark.sql.session.timeZone": "UTC"})


TYPES = {
    "at": "timestamp",
    "local": "timestamp_ntz",
    "many": "array<timestamp>",
    "parts": "struct<timestamp:timestamp,n:int>",
    "named": "map<string,timestamp>",
}


def types_of(project: Project, table: str) -> dict[str, str]:
    rows = project.sql(f"describe query select * from {{schema}}.{table}")
    return {row["col_name"]: row["data_type"] for row in rows}


@pytest.mark.every_profile
@pytest.mark.profiles("session-delta", "session-iceberg", reason="depends on the format alone")
def test_a_timestamp_keeps_its_zone_where_the_session_says_that_it_has_none(
    project: Project,
) -> None:
    """The timestamps are in the hour that occurs twice when daylight saving time ends.

    The test uses all statements that create columns or write rows.
    """
    declared = ", ".join(
        f"{name} {type_.replace(':timestamp', ':timestamp_ltz')}" for name, type_ in TYPES.items()
    )
    project.create_table("moments", f"id int, {declared}")
    row = (
        "select id, at, timestamp_ntz'2024-11-03 01:30:00', array(at), "
        "named_struct('timestamp', at, 'n', id), map('a', at) "
        "from (select int(id) as id, timestamp_seconds(1730611800 + 1800 * id) as at "
        "from range(0, 8))"
    )
    project.sql(f"insert into {{schema}}.moments {row}")
    columns = ", ".join(["id", *TYPES])
    query = f"select {columns} from {source('moments')}"
    config = {"unique_key": ["at", "id"], "backfill_rate_limit": 4}
    project.write({"mv": model(query, **config)}, sources=["moments"])
    fresh = f"select {columns} from {{schema}}.moments"

    def assert_equal(compared: str = columns) -> None:
        mv, there = (f"select {compared} from ({s})" for s in ("select * from {schema}.mv", fresh))
        for one, other in ((mv, there), (there, mv)):
            texts = [f"select to_json(struct(*)) from ({rows})" for rows in (one, other)]
            assert project.rows(" except all ".join(texts)) == []

    settings = {
        "spark.sql.timestampType": "TIMESTAMP_NTZ",
        "spark.sql.session.timeZone": "America/New_York",
    }
    with session(project, settings):
        project.run("--select", "mv")
        assert types_of(project, "mv") == {"id": "int", **TYPES}
        assert types_of(project, "mv__progress")["at"] == "timestamp"
        project.sql("delete from {schema}.moments where id = 1")
        project.sql(
            "update {schema}.moments set parts = named_struct('timestamp', at, 'n', 9) where id = 2"
        )
        project.run("--select", "mv")
        project.run("--select", "mv")
        assert_equal()
        history = types_of(project, "mv__barriers")
        assert {history["planned_at"], history["committed_at"]} == {"timestamp"}
        assert project.value("select count(committed_at) from {schema}.mv__barriers") >= 2
        project.operation("verify_backfill", model="mv")

        more = query.replace(" from ", ", array(at) as more, at as later from ")
        project.write({"mv": model(more, on_schema_change="append_new_columns", **config)})
        project.run("--select", "mv")
        project.run("--select", "mv")
        added = {"more": "array<timestamp>", "later": "timestamp"}
        assert types_of(project, "mv") == {"id": "int", **TYPES, **added}
        assert_equal()
        assert project.value("select count(*) from {schema}.mv where not later <=> at") == 0

        project.sql("delete from {schema}.mv where id = 2")
        project.operation("verify_backfill", model="mv", repair=True)
        assert_equal()
        project.run("--select", "mv", "--full-refresh")
        assert types_of(project, "mv") == {"id": "int", **TYPES, **added}


ON, OFF = ("true", "on", "false"), ("false", "off", "true")
REFUSED = {
    "spark.sql.files.ignoreMissingFiles": ON,
    "spark.sql.files.ignoreCorruptFiles": ON,
    "spark.sql.parser.quotedRegexColumnNames": ON,
    "spark.sql.readSideCharPadding": OFF,
    "spark.sql.legacy.charVarcharAsString": ON,
    "spark.sql.legacy.ctePrecedencePolicy": ("LEGACY", "set to LEGACY", "CORRECTED"),
    "spark.databricks.delta.stalenessLimit": ("1h", "set", "0"),
}


@pytest.mark.parametrize("setting", REFUSED)
def test_a_session_in_which_spark_reads_less_or_otherwise_is_refused(
    project: Project, setting: str
) -> None:
    name = "mv_" + setting.rsplit(".", 1)[1].lower()
    project.create_table(f"up_{name}", "id int, name string")
    project.sql(f"insert into {{schema}}.up_{name} values (1, 'a')")
    query = f"select id, name from {source(f'up_{name}')}"
    project.write({name: model(query)}, sources=[f"up_{name}"])
    value, fact, other = REFUSED[setting]
    for is_new in (True, False):
        with session(project, {setting: value}):
            refused = project.fail("--select", name)
        assert_refused(refused, name, f"the session has {setting} {fact}", f"Set it to {other}")
        if is_new:
            assert_made_nothing(project, name)
            project.run("--select", name)
    with session(project, {setting: other}):
        assert project.run("--select", name).message(name) == "CAUGHT UP"
    assert project.run("--select", name).message(name) == "CAUGHT UP"


OTHERS = {
    "spark.sql.caseSensitive": ("true", "false"),
    "spark.sql.json.enableExactStringParsing": ("false", "true"),
    "spark.sql.icu.caseMappings.enabled": ("false", "true"),
    "spark.sql.legacy.noCharPaddingInPredicate": ("true", "false"),
    "spark.sql.columnNameOfCorruptRecord": ("broken", "_corrupt_record"),
}


@pytest.mark.every_profile
@pytest.mark.profiles("session-delta", "session-iceberg", reason="a server's settings are its own")
def test_a_setting_under_which_rows_may_get_other_values_is_refused_by_its_name(
    project: Project,
) -> None:
    """Later runs are also refused if only the first run had the setting."""
    project.create_table("recorded", "id int, name string")
    query = f"select id, name from {source('recorded')}"
    project.write({"as_usual": model(query), "as_set": model(query)}, sources=["recorded"])
    project.sql("insert into {schema}.recorded values (1, 'a')")
    project.run("--select", "as_usual")
    with session(project, {name: other for name, (other, _) in OTHERS.items()}):
        project.run("--select", "as_set")
    project.sql("insert into {schema}.recorded values (2, 'b')")

    for name, (other, default) in OTHERS.items():
        with session(project, {name: other}):
            refused = project.fail("--select", "as_usual")
        fact = f"{name}, on which its query may depend, changed from {default} to {other}"
        assert_refused(refused, "as_usual", fact)
    assert "on which its query may depend" in project.fail("--select", "as_set").error
    with session(project, {name: other for name, (other, _) in OTHERS.items()}):
        project.run("--select", "as_set")
    project.run("--select", "as_usual")
    for mv in ("as_usual", "as_set"):
        assert project.rows(f"select id from {{schema}}.{mv}") == [(1,), (2,)]


@pytest.mark.profiles("session-iceberg", reason="Iceberg takes ANSI alone")
@pytest.mark.parametrize("policy", ["LEGACY", "STRICT"])
def test_a_session_that_casts_what_it_writes_otherwise_is_refused(
    project: Project, policy: str
) -> None:
    name = f"mv_{policy.lower()}"
    project.create_table(f"up_{name}", "id int, name string")
    project.sql(f"insert into {{schema}}.up_{name} values (1, 'a')")
    query = f"select id, name from {source(f'up_{name}')}"
    project.write({name: model(query)}, sources=[f"up_{name}"])
    project.run("--select", name)
    with session(project, {"spark.sql.storeAssignmentPolicy": policy}):
        refused = project.fail("--select", name)
    assert_refused(refused, name, "the session has spark.sql.storeAssignmentPolicy set to another ")


@pytest.mark.profiles("session-delta", reason="only Delta keeps the values of a partition as text")
def test_the_zone_stays_where_a_moment_that_is_read_partitions_the_upstream(
    project: Project,
) -> None:
    """Older versions of Delta wrote the partition values without a time zone."""
    values = {"spark.databricks.delta.write.utcTimestampPartitionValues": "false"}
    columns = "(id int, name string, at timestamp) using delta partitioned by (at)"
    followed = "tblproperties ('delta.enableChangeDataFeed' = 'true')"
    with session(project, values):
        project.sql(f"create table {{schema}}.dated {columns} {followed}")
        days = ", ".join(f"({day}, 'n', timestamp'2024-06-0{day} 12:00:00Z')" for day in (1, 2, 3))
        project.sql(f"insert into {{schema}}.dated values {days}")
    queries = {"dated_mv": "id, at", "named_mv": "id, name"}
    models = {
        name: model(f"select {read} from {source('dated')}", backfill_rate_limit=1)
        for name, read in queries.items()
    }
    chosen = ("--select", *models)
    project.write(models, sources=["dated"]).run(*chosen)
    project.run(*chosen)

    with session(project, {"spark.sql.session.timeZone": "America/New_York"}):
        result = project.fail(*chosen)
    fact = "the session's time zone, on which its query depends, changed from UTC"
    assert_refused(result, "dated_mv", fact)
    assert result["named_mv"].status == "success"
    project.run(*chosen)
    hours = "select distinct unix_seconds(at) % 86400 / 3600 from {schema}.dated_mv"
    assert project.rows(hours) == [(12.0,)]


DERIVES = "spark.databricks.delta.generatedColumn.partitionFilterOptimization.enabled"


@pytest.mark.core("session-delta")
@pytest.mark.profiles("session-delta", reason="only Delta derives filters on generated partitions")
def test_a_partition_that_is_generated_from_a_moment_loses_no_rows(project: Project) -> None:
    """The writer's session is in New York, and the session of the runs is in UTC."""
    project.sql("create schema if not exists {schema}")
    spark = SparkSession.active()
    builder, java = spark._jvm.io.delta.tables.DeltaTable, spark._jsparkSession
    day = builder.columnBuilder(java, "day").dataType("DATE")
    columns = spark.sparkContext._gateway.new_array(spark._jvm.java.lang.String, 1)
    columns[0] = "day"
    table = builder.create(java).tableName(f"{project.schema}.generated")
    table = table.addColumn("at", "TIMESTAMP").addColumn("id", "INT")
    table = table.addColumn(day.generatedAlwaysAs("CAST(at AS DATE)").build())
    table.partitionedBy(columns).property("delta.enableChangeDataFeed", "true").execute()
    hours = "select timestamp_seconds(1704067200 + 3600 * id), int(id) from range(0, 96)"
    with session(project, {"spark.sql.session.timeZone": "America/New_York"}):
        project.sql(f"insert into {{schema}}.generated (at, id) {hours}")

    up, rest = source("generated"), {"backfill_rate_limit": 50, "barriers_per_run": "all"}
    models = {
        "moments_mv": model(f"select at, id from {up}", unique_key=["at", "id"], **rest),
        "recent_mv": model(f"select id, at from {up} where at >= '2024-01-02'", **rest),
        "days_mv": model(f"select id, day from {up}", **rest),
    }
    project.write(models, sources=["generated"])
    result = project.fail("--select", *models)
    fact = "is partitioned by the column 'day', which Delta generates from a timestamp"
    for refused in ("moments_mv", "recent_mv"):
        assert_refused(result, refused, fact)
        assert_made_nothing(project, refused)
    assert result["days_mv"].status == "success"

    with session(project, {DERIVES: "false"}):
        project.run("--select", "moments_mv", "recent_mv")
        assert project.value("select count(*) from {schema}.moments_mv") == 96
        assert project.value("select count(*) from {schema}.recent_mv") == 72
    result = project.fail("--select", "moments_mv")
    assert_refused(result, "moments_mv", f"{DERIVES}, on which its query may depend, changed from")
