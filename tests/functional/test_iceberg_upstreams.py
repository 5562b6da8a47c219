"""Changes of an Iceberg table between two barriers, and commits that change no rows."""

from __future__ import annotations

import threading
from typing import Any

import pytest

from support.checks import assert_made_nothing, assert_refused, model, source
from support.formats import Iceberg
from support.lake import SessionLake
from support.project import MakeProject, Proceed, Project, RunResult, crash_before

pytestmark = [
    pytest.mark.every_profile,
    pytest.mark.profiles("session-iceberg", "thrift-iceberg", reason="about Iceberg"),
]

in_a_metastore = pytest.mark.profiles(
    "thrift-iceberg", reason="Iceberg's Hadoop catalog replaces and deletes as it is told"
)


def make_people(
    project: Project, properties: dict[str, str] | None = None, last: int = 10, **config: Any
) -> Project:
    """Create an upstream with `last` rows in two commits, and an MV that has read four rows."""
    project.create_table("people", "id int, name string", properties or {})
    project.sql("insert into {schema}.people select id, 'old' from range(1, 6)")
    rest = f"select id, concat('n', id) from range(6, {last + 1})"
    project.sql(f"insert into {{schema}}.people {rest}")
    query = f"select id, upper(name) as name from {source('people')}"
    project.write({"mv": model(query, backfill_rate_limit=4, **config)}, sources=["people"])
    project.run()
    return project


@pytest.fixture(scope="module")
def people(shared_project: MakeProject) -> Project:
    """Create an MV that has read a part of its upstream.

    Each test continues with the tables as the previous test left them.
    """
    return make_people(shared_project("iceberg_upstreams"), last=40)


def call(project: Project, procedure: str, *arguments: str) -> None:
    catalog = project.lake.catalogs["iceberg"]
    table = f"table => '{project.schema}.people'"
    project.sql(f"call {catalog}.system.{procedure}({', '.join([table, *arguments])})")


def assert_exact(project: Project) -> None:
    version = project.value("select max(upstream_version) from {schema}.mv__progress")
    finished = project.value("select bool_and(backfill_finished) from {schema}.mv__progress")
    position = project.value("select max(id) from {schema}.mv__progress")
    prefix = "true" if finished else f"id <= {position}"
    upstream = f"select id, upper(name) from {{schema}}.people version as of {version}"
    assert version == project.current_version("people")
    assert project.rows("select * from {schema}.mv") == project.rows(f"{upstream} where {prefix}")


def line(result: RunResult) -> str:
    [found] = [line for line in result.messages if "mv [BARRIER" in line]
    return found


def test_snapshots_that_expired_since_one_that_a_tag_holds_are_told(people: Project) -> None:
    read = people.current_version("people")
    people.sql(f"alter table {{schema}}.people create tag kept as of version {read}")
    people.sql("update {schema}.people set name = 'new' where id = 2")
    people.sql("delete from {schema}.people where id = 1")
    call(people, "expire_snapshots", "older_than => timestamp'2100-01-01'", "retain_last => 1")

    expired = f"re-anchored: snapshots of the upstream after its snapshot {read} have expired, or"
    assert expired in line(people.run())
    assert_exact(people)


def test_format_2_that_copies_on_write_is_followed_and_may_be_upgraded(project: Project) -> None:
    people = make_people(project, Iceberg().with_changelog)
    people.sql("update {schema}.people set name = 'new' where id = 2")
    people.sql("delete from {schema}.people where id = 1")
    people.sql("insert into {schema}.people values (0, 'low'), (99, 'high')")
    followed = line(people.run())
    assert "2 changed, 1 deleted" in followed and "re-anchored" not in followed
    assert_exact(people)

    people.sql("alter table {schema}.people set tblproperties ('format-version' = '3')")
    people.sql("update {schema}.people set name = 'newer' where id = 2")
    assert "re-anchored: the upstream was upgraded to format 3" in line(people.run())
    assert_exact(people)

    people.sql("update {schema}.people set name = 'newest' where id = 2")
    followed = line(people.run())
    assert "1 changed, 0 deleted" in followed and "re-anchored" not in followed
    assert_exact(people)


def test_compaction_of_the_upstream_and_of_the_mv_changes_no_row(people: Project) -> None:
    people.sql("delete from {schema}.people where id = 3")
    people.run()
    people.compact("people")
    people.compact("mv")
    compacted = line(people.run())
    assert "changed" not in compacted and "re-anchored" not in compacted
    assert_exact(people)

    people.sql("update {schema}.people set name = 'newer' where id = 2")
    people.compact("people")
    assert "1 changed, 0 deleted" in line(people.run())
    assert_exact(people)


def test_a_column_that_no_snapshot_has_yet_is_refused_until_something_is_written(
    people: Project,
) -> None:
    """ALTER TABLE creates no snapshot.

    Spark reads a snapshot with the columns that the table had when the snapshot was created.
    """
    people.sql("alter table {schema}.people add column extra int")
    query = f"select id, extra from {source('people')}"
    people.write({"mv_extra": model(query)})

    refused = people.fail("--select", "mv_extra")
    facts = ("people were changed", "does not have all columns", "INSERT of no rows")
    assert_refused(refused, "mv_extra", *facts)
    assert_made_nothing(people, "mv_extra")

    people.sql("insert into {schema}.people select * from {schema}.people where false")
    people.run("--select", "mv_extra")
    read = people.rows("select * from {schema}.mv_extra")
    assert len(read) > 30
    assert read == people.rows("select id, cast(null as int) from {schema}.people")


def test_columns_that_were_renamed_after_the_last_snapshot_hide_no_change(
    project: Project,
) -> None:
    """Iceberg's metadata tables have the names of today, but a snapshot has names of its own."""
    project.create_table("up", "id int, other int, v int", {"format-version": "3"})
    project.sql("insert into {schema}.up select int(id), int(id) + 1000, 0 from range(100)")
    project.write({"mv": model(f"select id, other, v from {source('up')}")}, sources=["up"])
    project.run()
    project.sql("update {schema}.up set v = 1 where id = 4")
    for name, new in (("id", "kept"), ("other", "id"), ("kept", "other")):
        project.sql(f"alter table {{schema}}.up rename column {name} to {new}")

    project.run()

    version = project.current_version("up")
    upstream = f"select * from {{schema}}.up version as of {version}"
    assert project.rows("select * from {schema}.mv") == project.rows(upstream)
    project.sql("insert into {schema}.up values (7, 2000, 7)")
    assert "re-anchored: columns of the upstream were changed" in project.run().output


@pytest.mark.profiles("session-iceberg", reason="reads the names of files")
@pytest.mark.parametrize("also", ["", "compacted", "updated"])
def test_the_rows_of_a_file_of_another_table_are_merged(project: Project, also: str) -> None:
    """A file that an UPDATE has written contains the row ids and the sequence numbers of its rows
    in its own table.
    """
    for table, ids in (("people", "1, 4"), ("staging", "10, 14")):
        project.create_table(table, "id int, v int", {"format-version": "3"})
        rows = f"select /*+ coalesce(1) */ id, 1 from range({ids})"
        project.sql(f"insert into {{schema}}.{table} {rows}")
        project.sql(f"update {{schema}}.{table} set v = 2 where id in (1, 10)")
    query = f"select *, md5(cast(struct(*) as string)) as digest from {source('people')}"
    project.write({"mv": model(query)}, sources=["people"]).run()

    file = project.value("select file_path from {schema}.staging.files")
    call(project, "add_files", f"source_table => '`parquet`.`{file}`'")
    if also == "updated":
        project.sql("update {schema}.people set v = 3 where id in (2, 13)")
    elif also:
        call(project, "rewrite_data_files", "options => map('rewrite-all', 'true')")
    told = line(project.run())

    assert "5 changed" in told if also == "updated" else "4 changed" in told
    rows = project.rows("select *, md5(cast(struct(*) as string)) from {schema}.people")
    assert len(rows) == 7
    assert project.rows("select * from {schema}.mv") == rows


# Each entry: the query, a commit that changes rows, and the changes of columns after that commit.
ALTERED = {
    "anew": (
        "select id, a, b from ",
        "update {table} set a = 2 where id = 1",
        ("drop column b", "add column b string"),
    ),
    # The commit changes only a column that is dropped afterwards. So the current columns show no
    # change.
    "gone": (
        "select id, a, b from ",
        "update {table} set b = 'new b' where id = 1",
        ("drop column b", "add column b string"),
    ),
    "aliased": (
        "select id, a * 2 as gross, gross * 3 as tax from ",
        "update {table} set a = 2 where id = 1",
        ("add column gross int",),
    ),
    "whole": (
        "select id, md5(cast(struct(*) as string)) as digest from ",
        "update {table} set a = 2 where id = 1",
        ("add column more int",),
    ),
    "key": (
        "select id, a, b from ",
        "delete from {table} where id = 1",
        ("drop column id", "add column id int"),
    ),
    "keys": (
        "select id, a, b from ",
        "update {table} set b = 'new b' where id = 1",
        ("rename column id to was", "rename column a to id", "rename column was to a"),
    ),
}


def make_altered(project: Project, *names: str, **config: Any) -> RunResult:
    """For each name, create an upstream of format 2 with six rows, and an MV that reads it."""
    models = {}
    for name in names:
        project.create_table(name, "id int, a int, b string", Iceberg().with_changelog)
        rows = "select cast(id as int), cast(id + 10 as int), 'old b' from range(1, 7)"
        project.sql(f"insert into {{schema}}.{name} {rows}")
        models[f"mv_{name}"] = model(ALTERED[name][0] + source(name), **config)
    project.write(models, sources=list(names))
    return project.run()


def write_and_alter(project: Project, name: str) -> None:
    _, written, altered = ALTERED[name]
    project.sql(written.format(table=f"{{schema}}.{name}"))
    alter(project, name, altered)


def alter(project: Project, name: str, how: tuple[str, ...]) -> None:
    for each in how:
        project.sql(f"alter table {{schema}}.{name} {each}")


def shown_and_promised(project: Project, name: str) -> tuple[Any, Any]:
    """Return the rows of the MV, and the rows of its query at the recorded version."""
    version = project.value(f"select max(upstream_version) from {{schema}}.mv_{name}__progress")
    finished = project.value(
        f"select bool_and(backfill_finished) from {{schema}}.mv_{name}__progress"
    )
    position = project.value(f"select max(id) from {{schema}}.mv_{name}__progress")
    where = "" if finished else f" where id <= {position}"
    promised = project.rows(f"{ALTERED[name][0]}{{schema}}.{name} version as of {version}{where}")
    return project.rows(f"select * from {{schema}}.mv_{name}"), promised


def assert_exact_altered(project: Project, *names: str) -> None:
    seen = {name: shown_and_promised(project, name) for name in names}
    wrong = {name: rows for name, rows in seen.items() if rows[0] != rows[1]}
    assert not wrong


def test_columns_of_format_2_that_were_altered_after_the_last_snapshot_are_a_gap(
    project: Project,
) -> None:
    """The changelog has the current columns of the table.

    Spark reads a snapshot with the columns that the table had when the snapshot was created.
    """
    make_altered(project, *ALTERED)
    for name in ALTERED:
        write_and_alter(project, name)

    told = project.run().output

    assert_exact_altered(project, *ALTERED)
    for name in ALTERED:
        version = project.current_version(name)
        reason = f"re-anchored: columns of the upstream were changed since its snapshot {version}"
        [said] = [line for line in told.splitlines() if f"mv_{name} [BARRIER" in line]
        assert reason in said
    again = project.run()
    assert all(again.message(f"mv_{name}") == "CAUGHT UP" for name in ALTERED)

    # Rows that are changed later have the current columns, so runs merge their changes again.
    for name in ("anew", "whole"):
        project.sql(f"update {{schema}}.{name} set a = 3 where id = 2")
    project.run("--select", "mv_anew", "mv_whole")
    project.sql("update {schema}.anew set b = 'newer b' where id = 3")
    last = project.run("--select", "mv_anew")
    assert "1 changed, 0 deleted" in last.output and "re-anchored" not in last.output
    assert_exact_altered(project, "anew", "whole")


def test_what_alters_no_columns_of_format_2_is_no_gap(project: Project) -> None:
    make_altered(project, "anew")
    project.sql("update {schema}.anew set a = 2 where id = 1")
    version = project.current_version("anew")
    project.sql(f"alter table {{schema}}.anew create tag kept as of version {version}")
    project.sql("alter table {schema}.anew set tblproperties ('of' = 'others')")

    told = project.run().output

    assert "1 changed, 0 deleted" in told and "re-anchored" not in told
    assert_exact_altered(project, "anew")


def test_columns_of_format_2_that_were_altered_are_not_laid_over_a_copy(project: Project) -> None:
    told = make_altered(project, "anew", replicate="always", backfill_rate_limit=2).output
    assert "copied" in told
    project.sql("update {schema}.anew set a = 2 where id in (1, 4, 6)")
    project.run()
    assert_exact_altered(project, "anew")
    alter(project, "anew", ALTERED["anew"][2])

    project.run()

    assert_exact_altered(project, "anew")


def test_two_mvs_of_one_table_of_format_2_in_two_threads_read_changes_of_their_own(
    project: Project,
) -> None:
    """The runs of both MVs create temporary views in the same Spark session."""
    project.create_table("people", "id int, name string", Iceberg().with_changelog)
    project.sql("insert into {schema}.people values (1, 'a'), (2, 'b')")
    names = ("mv_first", "mv_second")
    query = f"select id, upper(name) as name from {source('people')}"
    project.write({name: model(query) for name in names}, sources=["people"])
    project.run()
    project.sql("update {schema}.people set name = 'c' where id = 1")
    both_planned = threading.Barrier(2, timeout=120)
    first_is_done = threading.Event()

    def in_turns(sql: str, proceed: Proceed) -> None:
        if "merge the changes" in sql:
            both_planned.wait()
            if "mv_second" in sql:
                assert first_is_done.wait(120)
        proceed()
        if "commit the barrier" in sql and "mv_first" in sql:
            first_is_done.set()

    result = project.run("--threads", "2", intercept=in_turns)

    assert first_is_done.is_set()
    for name in names:
        [said] = [line for line in result.messages if f"{name} [BARRIER" in line]
        assert "1 changed, 0 deleted" in said
        assert project.rows(f"select * from {{schema}}.{name}") == [(1, "C"), (2, "B")]


def test_format_2_with_delete_files_is_refused(project: Project) -> None:
    modes = {"format-version": "2", "write.delete.mode": "merge-on-read"}
    project.create_table("people", "id int, name string", modes)
    project.sql("insert into {schema}.people select /*+ coalesce(1) */ id, 'n' from range(9)")
    project.sql("delete from {schema}.people where id = 3")
    project.sql("alter table {schema}.people set tblproperties (write.delete.mode='copy-on-write')")
    project.write({"mv": model(f"select * from {source('people')}")}, sources=["people"])

    assert_refused(project.fail(), "mv", "format 2 with 1 delete files", "Upgrade it: ALTER TABLE")
    assert_made_nothing(project, "mv")


def test_a_catalog_that_caches_is_refused(new_project: Any) -> None:
    project = new_project()
    catalog = project.lake.catalogs["iceberg"]
    setting = f"spark.sql.catalog.{catalog}.cache-enabled"
    project.create_table("people", "id int, name string")
    project.write({"mv": model(f"select * from {source('people')}")}, sources=["people"])
    project.configure({setting: "true"})
    try:
        refused = project.fail()
    finally:
        project.configure({setting: "false"})

    facts = (f"the Iceberg catalog {catalog} ", "caches tables", f"Set {setting} to false")
    assert_refused(refused, "mv", *facts)
    assert_made_nothing(project, "mv")
    assert project.run().message("mv") == "BARRIER 1 (100.0 %)"


def test_a_snapshot_that_is_being_backfilled_is_held_by_a_tag(project: Project) -> None:
    make_people(project, backfill_mode="snapshot")
    pinned = project.current_version("people")
    project.sql("delete from {schema}.people where id in (1, 9)")
    call(project, "expire_snapshots", "older_than => timestamp '2100-01-01'", "retain_last => 1")

    while "100.0 %" not in line(project.run()):
        version = project.value("select max(upstream_version) from {schema}.mv__progress")
        assert version == pinned
    # If a run is killed before it drops its tag, the next run drops the tag, even if that run has
    # no rows to read.
    project.fail(intercept=crash_before("drop tag"))
    assert project.run().message("mv") == "CAUGHT UP"

    expected = "select id, upper(name) from {schema}.people"
    assert project.rows("select * from {schema}.mv") == project.rows(expected)
    assert project.rows("select name from {schema}.people.refs") == [("main",)]


def test_a_metadata_column_stops_the_run_before_anything_is_written(project: Project) -> None:
    """Barriers read only the ordinary columns of the upstream, not metadata columns such as
    `_file`.
    """
    project.create_table("people", "id int, name string")
    query = f"select id, _file as origin from {source('people')}"
    project.write({"mv": model(query)}, sources=["people"])

    assert "_file" in project.fail().error
    assert_made_nothing(project, "mv")


def make_foreign(project: Project, table: str, **types: str) -> None:
    """Create a table with column types that Spark cannot create but other engines can.

    :param types: the types of the columns, as Iceberg's own API writes them
    """
    assert isinstance(project.lake, SessionLake)
    project.sql("create schema if not exists {schema}")
    jvm: Any = project.lake.spark._jvm
    iceberg = jvm.org.apache.iceberg
    fields = jvm.java.util.ArrayList()
    for number, (name, written) in enumerate(types.items(), start=1):
        column = iceberg.types.Types.fromPrimitiveString(written)
        fields.add(iceberg.types.Types.NestedField.optional(number, name, column))
    catalog = iceberg.hadoop.HadoopCatalog(
        project.lake.spark._jsc.hadoopConfiguration(), str(project.lake.directory / "iceberg")
    )
    catalog.createTable(
        iceberg.catalog.TableIdentifier.parse(f"{project.schema}.{table}"),
        iceberg.Schema(fields),
        iceberg.PartitionSpec.unpartitioned(),
        {"format-version": "3"},
    )


@pytest.mark.profiles("session-iceberg", reason="makes a table by Iceberg's own API")
def test_a_key_that_iceberg_orders_otherwise_is_refused_and_another_is_followed(
    project: Project,
) -> None:
    """Spark reads Iceberg's type uuid as a string, and the type fixed as binary."""
    make_foreign(project, "foreign", id="uuid", code="fixed[2]", text="string")
    high = [f"{number:x}" * 8 for number in range(16)]
    for digits in (high[::2], high[1::2]):
        rows = [f"('{u}-{u[:4]}-{u[:4]}-{u[:4]}-{u}{u[:4]}', X'{u[:4]}', '{u}')" for u in digits]
        values = f"select /*+ coalesce(1) */ * from values {', '.join(rows)}"
        project.sql(f"insert into {{schema}}.foreign {values}")
    query = f"select * from {source('foreign')}"
    keys = {"by_uuid": "id", "by_code": "code", "by_both": ["text", "id"]}
    config = {"backfill_rate_limit": 8, "barriers_per_run": "all"}
    project.write(
        {name: model(query, unique_key=key, **config) for name, key in keys.items()},
        sources=["foreign"],
    )

    result = project.fail()

    for name in ("by_uuid", "by_both"):
        assert_refused(result, name, "the key id of ", "foreign is a uuid", "as a string")
        assert_made_nothing(project, name)
    rows_of_all = project.rows("select * from {schema}.foreign")
    assert len(rows_of_all) == 16
    assert project.rows("select * from {schema}.by_code") == rows_of_all


@in_a_metastore
def test_a_copy_gives_way_to_one_of_other_columns_and_leaves_no_files(project: Project) -> None:
    """A Hive metastore cannot replace an Iceberg table if a column at the same position has another
    type.

    The metastore keeps the files of a table that is dropped without PURGE.
    """
    project.create_table("up", "id int, label string, amount int")
    project.sql("insert into {schema}.up select id, 'r', id from range(0, 40, 1, 1)")
    config = {"backfill_rate_limit": 10, "replicate": "always"}
    project.write(
        {"mv": model(f"select id, label, amount from {source('up')}", **config)}, sources=["up"]
    )
    project.run()
    config["barriers_per_run"] = "all"
    project.write({"mv": model(f"select id, amount from {source('up')}", **config)})
    project.run("--full-refresh")

    read = project.rows("select id, amount from {schema}.up")
    assert project.rows("select * from {schema}.mv") == read
    left = project.lake.location(project.schema, "mv__replica")
    assert list(left.rglob("*.parquet")) == []


@pytest.mark.profiles("session-iceberg", reason="a catalog more, in the tests' own Spark")
def test_a_copy_is_dropped_in_a_catalog_that_lets_no_table_go_with_its_files(
    project: Project,
) -> None:
    """Iceberg does not purge the files of a table if its `gc.enabled` is false.

    Some catalogs, for example Nessie's, set `gc.enabled` to false by default. Other catalogs force
    this value.
    """
    catalog, warehouse = "spark.sql.catalog.keeping", project.lake.directory / "keeping"
    settings = {
        catalog: "org.apache.iceberg.spark.SparkCatalog",
        f"{catalog}.type": "hadoop",
        f"{catalog}.warehouse": str(warehouse),
        f"{catalog}.cache-enabled": "false",
        f"{catalog}.table-default.gc.enabled": "false",
    }
    for name, value in settings.items():
        project.lake.sql(f"set `{name}` = {value}")
    project.schema = f"keeping.{project.schema}"
    project.configure(settings)
    project.create_table("up", "id int, amount int")
    project.sql("insert into {schema}.up select id, id from range(0, 40, 1, 1)")
    query = f"select id, amount from {source('up')}"
    config: dict[str, Any] = {"backfill_rate_limit": 10, "replicate": "always"}
    names = ("mv", "forced")
    project.write({name: model(query, **config) for name in names}, sources=["up"]).run()
    for name in names:
        assert project.table_properties(f"{name}__replica")["gc.enabled"] == "true"
    assert project.table_properties("up")["gc.enabled"] == "false"
    project.sql("alter table {schema}.forced__replica set tblproperties ('gc.enabled' = 'false')")
    config["barriers_per_run"] = "all"
    result = project.write({name: model(query, **config) for name in names}).run()

    dropped = [s.split("*/")[-1].strip() for s in result.statements if "drop the replica" in s]
    assert [sql.endswith(" purge") for sql in dropped] == ["mv__replica" in s for s in dropped]
    for name in names:
        assert not project.exists(f"{name}__replica")
        assert project.rows(f"select * from {{schema}}.{name}") == project.rows(
            "select * from {schema}.up"
        )
    assert list((warehouse / project.schema.split(".")[1] / "mv__replica").rglob("*.parquet")) == []
