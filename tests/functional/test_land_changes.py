"""`land_changes` on a real PostgreSQL: each committed event is landed exactly once, in order."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
import yaml
from pyspark.sql import SparkSession

from support.postgres import Database, binaries, has_wal2json
from support.profiles import any_connection, at_home_on_iceberg
from support.project import MakeProject, Project, RunFailed

PROGRAMS = binaries()

pytestmark = [
    pytest.mark.skipif(
        PROGRAMS is None or not has_wal2json(PROGRAMS), reason="needs PostgreSQL with wal2json"
    ),
    at_home_on_iceberg,
    any_connection,
]

MODEL = """
{{{{ config(
    materialized='backfilled_mv', unique_key='{key}', backfill_rate_limit=25,
    on_schema_change='append_new_columns',
    change_feed={{'relation': "source('lake', '{table}_changes')", 'slot': '{slot}'}}
) }}}}
-- depends_on: {{{{ source('lake', '{table}_changes') }}}}
select {columns} from {{{{ source('pg', '{table}') }}}}
"""


@pytest.fixture(scope="module")
def landed(shared_project: MakeProject, database: Database) -> Landed:
    project = shared_project("land_changes")
    project.configure(database.catalog_settings())
    return Landed(project, database)


class Landed:
    """A project with PostgreSQL tables. Each table has its own replication slot.

    :param catalog: the Spark catalog of the database; each database user has its own catalog
    """

    def __init__(self, project: Project, database: Database, catalog: str = "pg") -> None:
        self.project, self.database, self.catalog = project, database, catalog
        self.tables: list[str] = []
        project.sql("select 1")

    def table(
        self, name: str, columns: str, slot: str | None = None, key: str = "id", rows: str = ""
    ) -> None:
        """Create a table in PostgreSQL and a model that reads it. Land the changes of the table
        once.

        :param rows: a query whose rows are inserted before the first landing, so no event contains
            them
        """
        self.database.sql(f"create table {name} ({columns})")
        if rows:
            self.database.sql(f"insert into {name} {rows}")
        self.tables.append(name)
        tables = [{"name": table} for table in self.tables]
        sources = [{"name": "pg", "schema": f"{self.catalog}.public", "tables": tables}]
        self.project.write(
            {},
            sources=[f"{name}_changes"],
            files={"models/_pg.yml": yaml.safe_dump({"version": 2, "sources": sources})},
        )
        self.model(name, slot=slot or f"slot_{name}", key=key)
        self.land(name)

    def model(self, name: str, columns: str = "*", slot: str = "", key: str = "id") -> None:
        """Write a model that reads these columns, with 25 rows in each barrier."""
        model = MODEL.format(table=name, columns=columns, slot=slot or f"slot_{name}", key=key)
        self.project.write({f"{name}_mv": model})

    def follow(self, name: str, columns: str = "*") -> str:
        """Land the changes and run the model. Return the output of the run.

        Check that the MV equals the table up to the MV's position.
        """
        self.land(name)
        said = self.project.run("--select", f"{name}_mv").output
        last = self.project.value(
            "select max(if(backfill_finished, 1000000, id)) from {schema}." + f"{name}_mv__progress"
        )
        told = self.project.rows(f"select {columns} from {{schema}}.{name}_mv")
        rows = f"select {columns} from {self.catalog}.public.{name} where id <= {last}"
        assert told == self.project.rows(rows)
        return said

    def compare(self, name: str, columns: str, of_mv: str | None = None) -> str:
        """Land the changes and run the model. Return the output of the run.

        Check that the MV equals the whole table.
        """
        self.land(name)
        said = self.project.run("--select", f"{name}_mv").output
        told = self.project.rows(f"select {of_mv or columns} from {{schema}}.{name}_mv")
        assert told == self.project.rows(f"select {columns} from {self.catalog}.public.{name}")
        return said

    def fail(self, name: str) -> str:
        """Land the changes and run the model, which must fail. Return the error.

        Check that the MV is unchanged.
        """
        self.land(name)
        before = self.project.rows(f"select * from {{schema}}.{name}_mv")
        failed = self.project.fail("--select", f"{name}_mv")
        assert self.project.rows(f"select * from {{schema}}.{name}_mv") == before
        return failed.error

    def land(self, name: str, **arguments: Any) -> list[str]:
        return list(
            self.project.operation("land_changes", model=f"{name}_mv", **arguments).messages
        )

    def events(self, name: str, columns: str = "id") -> list[tuple[Any, ...]]:
        """Return the operation and these columns of all events, in the order of the events."""
        return [
            tuple(row)
            for row in self.project.sql(
                f"select _op, {columns} from {{schema}}.{name}_changes "
                "where _op <> 'w' order by _lsn, _seq"
            )
        ]

    def landed(self, name: str) -> int:
        return int(self.project.value(f"select max(_lsn) from {{schema}}.{name}_changes"))

    def position(self) -> int:
        return int(self.database.value("select (pg_current_wal_insert_lsn() - '0/0')::bigint"))


@pytest.mark.every_profile
def test_each_event_is_landed_with_its_values(landed: Landed) -> None:
    landed.table(
        "kinds",
        "id int primary key, b bool, i2 smallint, i8 bigint, n numeric(20, 6) not null, "
        "f float8 not null, r real not null, d date, t timestamp, z timestamptz, u uuid, j json, "
        "jb jsonb, by bytea, c char(4), v varchar(9), s text",
    )
    landed.database.sql(
        "insert into kinds values (1, true, 3, 9223372036854775807, 12345678901234.123456, "
        "1.5e-300, 1.1, '2020-01-02', '2020-01-02 03:04:05.123456', '2020-06-02 03:04:05.1+02', "
        "'03959a88-53ff-4b1d-adc1-b07c1602207e', '{\"a\": [1, 2]}', '{\"b\": null}', "
        "'\\x00deadbeef', 'ab', 'ü€😀', E'a''\"\\\\b\\n\\t${x}'), (2, false, -1, 0, 0, -0.1, "
        "3e38, '1900-01-01', "
        "'1999-12-31 23:59:59', '1999-12-31 23:59:59-08', null, null, null, '', '', '', ''),"
        "(3, null, null, null, -1.5, 0, 0, null, null, null, null, null, null, null, null, null, "
        "null)"
    )
    landed.land("kinds")

    columns = "id, b, i2, i8, n, f, r, d, t, z, u, j, jb, by, c, v, s"
    told = landed.project.rows(f"select {columns} from {{schema}}.kinds_changes where _op = 'i'")
    assert told == landed.project.rows(f"select {columns} from pg.public.kinds")
    assert len(told) == 3
    assert landed.landed("kinds") <= landed.position()


def test_bytes_are_landed_alike_whatever_bytea_output_says(landed: Landed) -> None:
    landed.table("escaped", "id int primary key, by bytea")
    landed.compare("escaped", "id, by")
    with landed.database.settings("hive", bytea_output="escape"):
        landed.database.sql("insert into escaped values (1, 'ab1234'), (2, 'd41d8cd98f00b204')")
        landed.compare("escaped", "id, by")


@contextmanager
def a_jvm_in(zone: str) -> Iterator[None]:
    zones = SparkSession.active()._jvm.java.util.TimeZone
    before = zones.getDefault()
    zones.setDefault(zones.getTimeZone(zone))
    try:
        yield
    finally:
        zones.setDefault(before)


def test_a_time_is_landed_alike_by_a_jvm_of_any_zone(landed: Landed) -> None:
    """The Spark that lands changes may have any time zone, but the Spark that runs models must use
    UTC.
    """
    landed.table("zoned", "id int primary key, t timestamp")
    landed.compare("zoned", "id, t")
    landed.database.sql("insert into zoned values (1, '2024-01-01 10:00')")
    with a_jvm_in("Europe/Berlin"):
        landed.land("zoned")
    landed.compare("zoned", "id, t")


def test_times_from_before_their_column_lost_its_zone_are_landed(landed: Landed) -> None:
    landed.table("unzoned", "id int primary key, ts timestamptz, note text")
    landed.database.sql("insert into unzoned values (1, '2024-01-01 10:00+00', 'a')")
    landed.database.sql("alter table unzoned alter ts type timestamp")
    landed.database.sql("insert into unzoned values (2, '2024-01-01 11:00', 'b')")
    landed.compare("unzoned", "id, ts, note")


def test_updates_deletes_and_truncates(landed: Landed) -> None:
    landed.table("orders", "id int primary key, s text, big text")
    database = landed.database
    database.sql("alter table orders alter big set storage external")
    database.sql("insert into orders values (1, 'a', repeat('x', 5000)), (2, 'b', null)")
    database.sql("update orders set s = 'c' where id = 1")
    database.sql("update orders set id = 3 where id = 2")
    with database.connect(autocommit=False) as connection:
        connection.execute("insert into orders values (4, 'kept')")
        connection.execute("savepoint s")
        connection.execute("insert into orders values (5, 'rolled back')")
        connection.execute("rollback to savepoint s")
        connection.execute("delete from orders where id = 3")
    database.sql("alter table orders replica identity full")
    database.sql("update orders set s = 'd' where id = 1")
    database.sql("truncate orders")
    lines = landed.land("orders")

    told = landed.events("orders", "id, s, length(big), _unchanged")
    assert told == [
        ("i", 1, "a", 5000, None),
        ("i", 2, "b", None, None),
        ("u", 1, "c", None, ["big"]),
        ("d", 2, None, None, None),
        ("i", 3, "b", None, None),
        ("i", 4, "kept", None, None),
        ("d", 3, None, None, None),
        ("u", 1, "d", 5000, None),
        ("t", None, None, None, None),
    ]
    assert any("public.orders: 9 events landed" in line for line in lines)


def test_a_landing_that_was_killed_before_the_slot_moved_on(landed: Landed) -> None:
    landed.table("killed", "id int primary key")
    for number in range(5):
        landed.database.sql(f"insert into killed values ({number})")

    def kill(sql: str, proceed: Any) -> None:
        if "pg_replication_slot_advance" in sql:
            raise KeyboardInterrupt
        proceed()

    before = landed.database.value(
        "select confirmed_flush_lsn::text from pg_replication_slots where slot_name = 'slot_killed'"
    )
    killed = landed.project.dbt(
        "run-operation",
        "land_changes",
        "--args",
        "{model: killed_mv}",
        expect=False,
        intercept=kill,
    )
    assert not killed.success
    assert before == landed.database.value(
        "select confirmed_flush_lsn::text from pg_replication_slots where slot_name = 'slot_killed'"
    )
    landed.database.sql("insert into killed values (5)")
    landed.land("killed")

    assert landed.events("killed") == [("i", number) for number in range(6)]


def test_two_at_once_lose_nothing(landed: Landed) -> None:
    landed.table("twice", "id int primary key")
    landed.database.sql("insert into twice select generate_series(1, 50)")
    failures: list[BaseException] = []

    def again(sql: str) -> None:
        try:
            landed.project.sql(sql)
        except BaseException as error:
            failures.append(error)

    def both(sql: str, proceed: Any) -> None:
        other = threading.Thread(target=again, args=(sql,))
        if ": land the changes of" in sql or "pg_replication_slot_advance" in sql:
            other.start()
        proceed()
        if other.ident is not None:
            other.join()

    landing = ("run-operation", "land_changes", "--args", "{model: twice_mv}")
    result = landed.project.dbt(*landing, expect=False, intercept=both)
    landed.database.sql("insert into twice values (51)")
    landed.land("twice")

    errors = [str(failure) for failure in failures] + ([] if result.success else [result.output])
    gives_way = landed.project.file_format == "delta"
    assert [e for e in errors if gives_way or "conflict" not in e.lower()] == []
    assert sorted(landed.events("twice")) == [("i", number) for number in range(1, 52)]


def test_batches_never_divide_a_transaction(landed: Landed) -> None:
    landed.table("large", "id int primary key")
    landed.database.sql("insert into large select generate_series(1, 100000)")
    landed.database.sql("insert into large values (0)")
    lines = landed.land("large", batch_rows=1000)

    assert landed.project.rows(
        "select count(*), count(distinct id), count(distinct _lsn), "
        "count(distinct struct(_lsn, _seq)) from {schema}.large_changes where _op = 'i'"
    ) == [(100001, 100001, 2, 100001)]
    assert sum("events landed in" in line or "event landed in" in line for line in lines) >= 2


def test_a_transaction_in_two_phases_and_one_that_is_open(landed: Landed) -> None:
    landed.table("phases", "id int primary key")
    with landed.database.connect(autocommit=False) as connection:
        connection.execute("insert into phases values (1)")
        with landed.database.connect() as other:
            other.execute("begin")
            other.execute("insert into phases values (2)")
            other.execute("prepare transaction 'two'")
        landed.land("phases")
        assert landed.events("phases") == []
        reached = landed.landed("phases")
    landed.database.sql("commit prepared 'two'")
    landed.land("phases")

    assert landed.events("phases") == [("i", 1), ("i", 2)]
    assert landed.landed("phases") > reached


def test_a_table_that_is_idle_has_a_watermark(landed: Landed) -> None:
    landed.table("idle", "id int primary key")
    landed.database.sql("create table elsewhere (id int)")
    reached = landed.position()
    landed.land("idle")
    assert landed.landed("idle") >= reached

    rows = "select count(*) from {schema}.idle_changes"
    before, position = landed.project.value(rows), landed.landed("idle")
    landed.land("idle")
    assert landed.project.value(rows) <= before + (landed.landed("idle") > position)


def test_a_landing_waits_for_no_standby_itself(landed: Landed) -> None:
    """A landing commits its own transaction, so that PostgreSQL flushes the WAL.

    In this test no standby exists. A commit that waits for a standby would never end.
    """
    landed.table("standby", "id int primary key")
    waiting = "select pg_cancel_backend(pid) from pg_stat_activity where wait_event = 'SyncRep'"
    cancelled: list[tuple[Any, ...]] = []
    timer = threading.Timer(60, lambda: cancelled.extend(landed.database.sql(waiting)))
    with landed.database.settings(synchronous_standby_names="nobody", wal_writer_delay="10s"):
        with landed.database.connect(options="-c synchronous_commit=off") as connection:
            connection.execute("insert into standby values (1)")
        timer.start()
        try:
            landed.land("standby")
        finally:
            timer.cancel()

    assert cancelled == []
    assert landed.events("standby") == [("i", 1)]


def test_a_slot_that_holds_much_wal_back_is_warned_of(landed: Landed) -> None:
    landed.table("much", "id int primary key, text text")
    landed.database.sql(
        "insert into much select n, repeat('x', 500) from generate_series(1, 9000) n"
    )
    told = "held back {} MB of WAL (wal_warning_mb is 1)"
    [warning] = [line for line in landed.land("much", wal_warning_mb=1) if "wal_warning_mb" in line]
    megabytes = int(warning.split("has held back ")[1].split(" MB")[0])
    assert megabytes >= 4 and told.format(megabytes) in warning
    assert not any("wal_warning_mb" in line for line in landed.land("much"))


def test_a_slot_that_is_gone_leaves_a_gap(landed: Landed) -> None:
    landed.table("gap", "id int primary key")
    landed.database.sql("insert into gap values (1)")
    landed.land("gap")
    landed.database.sql("insert into gap values (2)")
    landed.database.sql("select pg_drop_replication_slot('slot_gap')")
    lines = landed.land("gap")
    landed.database.sql("insert into gap values (3)")
    landed.land("gap")

    assert landed.events("gap") == [("i", 1), ("g", None), ("i", 3)]
    assert any("were lost with the slot slot_gap" in line for line in lines)


@pytest.mark.parametrize("step", ["look at the changes of", "land the changes of"])
def test_events_that_another_reader_takes_in_the_middle_leave_a_gap(
    landed: Landed, step: str
) -> None:
    name = f"taken_at_{step.split()[0]}"
    landed.table(name, "id int primary key")
    landed.database.sql(f"insert into {name} values (1)")
    landed.compare(name, "id")
    landed.database.sql(f"insert into {name} values (2)")
    taken: list[Any] = []

    def take(sql: str, proceed: Any) -> None:
        if f": {step}" in sql and not taken:
            query = f"select data from pg_logical_slot_get_changes('slot_{name}', null, null)"
            taken.extend(landed.database.sql(query))
        proceed()

    landing = ("run-operation", "land_changes", "--args", f"{{model: {name}_mv}}")
    lines = landed.project.dbt(*landing, intercept=take).messages
    assert any('"insert"' in told for (told,) in taken)
    assert any(
        f"were lost with the slot slot_{name}: each model that reads" in line for line in lines
    )

    landed.database.sql(f"insert into {name} values (3)")
    said = landed.compare(name, "id")
    assert "re-anchored: the upstream was emptied, or events of it may be missing" in said
    assert landed.events(name) == [("i", 1), ("g", None), ("i", 3)]


def test_a_server_without_wal2json_is_refused_before_anything_is_written(
    shared_project: MakeProject, database: Database
) -> None:
    """A PostgreSQL user without special rights cannot list the server's output plugins or files."""
    project = shared_project("without_wal2json")
    project.configure(database.catalog_settings("pg_without", user="without"))
    landed = Landed(project, database, "pg_without")
    database.sql("create role without login replication")
    database.sql("alter default privileges grant select on tables to without")

    with (
        database.settings("without", dynamic_library_path="/nowhere"),
        pytest.raises(RunFailed) as refused,
    ):
        landed.table("unplugged", "id int primary key")
    told = str(refused.value)
    assert "unplugged_mv: PostgreSQL cannot create a slot with the output plugin wal2json: " in told
    assert "If wal2json is missing, install it" in told
    assert "org.postgresql" not in told
    assert project.sql("show tables in {schema}") == []
    slots = "select count(*) from pg_replication_slots where slot_name = 'slot_unplugged'"
    assert database.value(slots) == 0

    database.sql("insert into unplugged values (1)")
    landed.land("unplugged")
    database.sql("insert into unplugged values (2)")
    landed.land("unplugged")
    assert landed.events("unplugged") == [("i", 2)]


def test_tables_that_share_a_slot_are_landed_together(landed: Landed) -> None:
    landed.table("one", "id int primary key", slot="shared")
    landed.table("two", "id int primary key", slot="shared")
    landed.database.transaction("insert into one values (1)", "insert into two values (2)")
    landed.land("one")

    assert landed.events("one") == [("i", 1)]
    assert landed.events("two") == [("i", 2)]
    assert landed.landed("one") == landed.landed("two")


def test_a_column_that_was_added(landed: Landed) -> None:
    landed.table("wider", "id int primary key")
    landed.database.sql("insert into wider values (1)")
    landed.database.sql("alter table wider add note text default 'x'")
    landed.database.sql("insert into wider values (2, 'y')")
    landed.land("wider")

    assert landed.events("wider", "id, note, _unchanged") == [
        ("i", 1, None, ["note"]),
        ("i", 2, "y", None),
    ]


def test_an_mv_of_identity_and_generated_columns(landed: Landed) -> None:
    landed.table(
        "made",
        "id int generated always as identity primary key, n int,"
        " twice int generated always as (n * 2) stored,"
        " large text generated always as (repeat(md5(n::text), 200)) stored",
    )
    landed.database.sql("insert into made (n) select generate_series(1, 15)")
    landed.follow("made")
    landed.database.sql("update made set n = 100 where id in (3, 14)")
    landed.database.sql("insert into made (n) values (50)")
    landed.follow("made")
    landed.database.sql("update made set n = 7 where id = 16")
    landed.follow("made")


def test_a_large_value_that_an_event_does_not_tell_matters_where_the_query_reads_it(
    landed: Landed,
) -> None:
    landed.table("heavy", "id int primary key, a text, large text, unread text")
    database = landed.database
    database.sql("alter table heavy alter large set storage external")
    database.sql("alter table heavy alter unread set storage external")
    landed.model("heavy", "id, a, large")
    database.sql(
        "insert into heavy select i, 'a', 'b', repeat('c', 3000) from generate_series(1, 9) as i"
    )
    landed.follow("heavy", "id, a, large")
    database.sql("update heavy set a = 'd' where id = 2")
    assert "re-anchored" not in landed.follow("heavy", "id, a, large")
    assert landed.events("heavy", "id, _unchanged")[-1] == ("u", 2, ["unread"])

    database.sql("update heavy set large = repeat('e', 3000) where id = 3")
    assert "re-anchored" not in landed.follow("heavy", "id, a, large")
    database.sql("update heavy set a = 'f' where id = 3")
    assert "re-anchored" in landed.follow("heavy", "id, a, large")


def test_columns_change_while_the_table_is_backfilled(landed: Landed) -> None:
    landed.table("shifting", "id int primary key, a text, unread int, gone int")
    landed.model("shifting", "id, a")
    database = landed.database
    database.sql("insert into shifting select i, 'a', 1, 1 from generate_series(1, 40) as i")
    landed.follow("shifting", "id, a")
    database.sql("alter table shifting drop column gone, add column late text default 'x'")
    database.sql("update shifting set a = 'b' where id in (4, 35)")
    database.sql("insert into shifting values (41, 'c', 1, 'y')")
    landed.follow("shifting", "id, a")

    landed.model("shifting", "id, a, late")
    database.sql("update shifting set late = 'z' where id in (5, 38)")
    database.sql("delete from shifting where id = 6")
    landed.follow("shifting", "id, a")
    database.sql("update shifting set late = 'w' where id in (7, 39)")
    landed.follow("shifting", "id, a, late")

    database.sql("alter table shifting drop column late")
    database.sql("update shifting set a = 'e' where id = 8")
    landed.land("shifting")
    before = landed.project.rows("select * from {schema}.shifting_mv")
    assert "late" in landed.project.fail("--select", "shifting_mv").error
    assert landed.project.rows("select * from {schema}.shifting_mv") == before

    database.sql("alter table shifting alter unread type text")
    with pytest.raises(RunFailed, match="has unread as int, but"):
        landed.land("shifting")


@pytest.mark.parametrize(
    ("setting", "value"),
    [
        ("standard_conforming_strings", "off"),
        ("default_transaction_isolation", "repeatable read"),
    ],
)
def test_settings_under_which_rows_would_not_be_found_are_refused(
    landed: Landed, setting: str, value: str
) -> None:
    """`standard_conforming_strings` changes the meaning of a backslash in text keys.

    The isolation level `repeatable read` may hide the rows of a table that another session
    rewrites.
    """
    name = f"under_{setting}"
    landed.table(name, 'code text collate "C" primary key, v int', key="code")
    landed.database.sql(
        f"insert into {name}"
        " select E'C:\\\\temp' || lpad(i::text, 3, '0'), i from generate_series(1, 20) as i"
    )
    landed.land(name)
    with landed.database.settings("hive", **{setting: value}):
        told = f"its PostgreSQL has {setting} = {value}"
        assert told in landed.project.fail("--select", f"{name}_mv").error
        with pytest.raises(RunFailed, match=told):
            landed.land(name)
    landed.compare(name, "code, v")


def test_a_filter_that_the_database_evaluates_is_compared(landed: Landed) -> None:
    landed.table("sales", "id int primary key, amount int not null")
    path = landed.project.models / "sales_mv.sql"

    def write(columns: str, sign: str) -> None:
        landed.model("sales", columns)
        path.write_text(f"{path.read_text()} where amount {sign} 3")

    write("id, amount * 2 as gross", ">")
    landed.database.sql("insert into sales select i, i from generate_series(1, 9) as i")
    landed.land("sales")
    landed.project.run("--select", "sales_mv")

    write("id, amount * 2 as gross, amount as net", "<=")
    assert "it returns other rows, or other" in landed.project.fail("--select", "sales_mv").error
    write("id, amount * 2 as gross, gross * 3 as tax", ">")
    refused = landed.project.fail("--select", "sales_mv").error
    assert "its query uses the alias 'gross' in the SELECT" in refused


def test_a_row_whose_key_is_renamed_by_the_query_goes_from_key_to_key(landed: Landed) -> None:
    landed.table("coded", 'id int primary key, code text collate "C" not null unique', key="code")
    database = landed.database
    database.sql("alter table coded replica identity using index coded_code_key")
    database.sql("insert into coded values (1, 'a'), (2, 'b'), (3, 'c')")
    landed.model("coded", "code as order_code", key="order_code")
    landed.compare("coded", "code", "order_code")

    database.sql("update coded set code = 'z' where code = 'a'")
    database.sql("update coded set id = 4 where code = 'b'")
    assert "re-anchored" not in landed.compare("coded", "code", "order_code")
    assert landed.events("coded", "code")[-3:] == [("d", "a"), ("i", "z"), ("u", "b")]


def test_columns_may_have_the_names_of_what_a_script_declares(landed: Landed) -> None:
    for read, unread in (("stage", "landed"), ("landed", "stage")):
        name = f"named_{read}"
        landed.table(name, f"id int primary key, {read} int, {unread} int")
        landed.model(name, f"id, {read}")
        landed.database.sql(f"insert into {name} select i, i, -i from generate_series(1, 20) as i")
        landed.compare(name, f"id, {read}")
        assert landed.project.value(f"select count(*) from {{schema}}.{name}_mv") == 20


def test_events_that_do_not_tell_what_they_should_are_refused_and_then_compared(
    landed: Landed,
) -> None:
    """A landing records how PostgreSQL describes the table at that moment.

    Runs use this record, even if the table has been corrected since.
    """
    landed.table("untold", "id int primary key, code int not null unique, weight float8 not null")
    database = landed.database
    database.sql("insert into untold select i, i, i from generate_series(1, 9) as i")
    landed.compare("untold", "*")

    database.sql("alter table untold replica identity using index untold_code_key")
    database.sql("delete from untold where id = 5")
    database.sql("update untold set id = 17 where id = 6")
    assert "REPLICA IDENTITY of its upstream is using index" in landed.fail("untold")
    database.sql("alter table untold replica identity default")
    told = "re-anchored: when its changes were landed, events of the upstream did not contain the "
    assert f"{told}key id" in landed.compare("untold", "*")

    database.sql("alter table untold alter weight drop not null")
    database.sql("update untold set weight = 'infinity' where id = 1")
    assert "but wal2json writes its NaN or infinity as null" in landed.fail("untold")
    database.sql("alter table untold alter weight set not null")
    assert "an infinity of the column weight as null" in landed.compare("untold", "*")


def test_a_column_that_a_command_altered_is_compared(landed: Landed) -> None:
    landed.table("altered", "id int primary key, amount numeric(10, 2) not null, unread text")
    landed.model("altered", "id, amount")
    landed.database.sql("insert into altered select i, i from generate_series(1, 5) as i")
    landed.compare("altered", "id, amount")

    landed.database.sql("alter table altered alter amount type numeric(10, 2) using amount * 1.1")
    said = landed.compare("altered", "id, amount")
    assert "re-anchored: the column amount of the upstream was altered, and no event" in said


def test_a_sweep_of_an_idle_table_whose_old_events_are_gone_comes_to_its_end(
    landed: Landed,
) -> None:
    landed.table("swept", "id int primary key, v text")
    path = landed.project.models / "swept_mv.sql"
    path.write_text(path.read_text().replace("unique_key", "on_gap='sweep', unique_key", 1))
    landed.database.sql("insert into swept select i, 'x' from generate_series(1, 30) as i")
    landed.land("swept")
    landed.project.run("--select", "swept_mv")
    landed.compare("swept", "id, v")
    landed.database.sql("create table beside_swept (id int)")
    landed.land("swept")
    last = landed.landed("swept")
    landed.project.sql(f"delete from {{schema}}.swept_changes where _lsn < {last}")

    said = [landed.project.run("--select", "swept_mv").output for _ in range(4)]
    assert ["sweeps from the start" in line for line in said] == [True, False, False, False]
    landed.compare("swept", "id, v")


def test_events_that_were_deleted_by_their_time_are_missed_by_nobody(landed: Landed) -> None:
    """Landings also write marks into the change table.

    The marks must be deleted together with the events. Otherwise the change table would seem to be
    complete since the oldest mark.
    """
    landed.table("aged", "id int primary key")
    landed.database.sql("insert into aged values (1)")
    landed.compare("aged", "id")

    landed.database.sql("insert into aged values (2)")
    landed.land("aged")
    landed.project.sql(
        "delete from {schema}.aged_changes where _committed_at < current_timestamp()"
    )
    landed.database.sql("insert into aged values (3)")
    assert "re-anchored: events since the position" in landed.compare("aged", "id")


def test_events_that_did_not_tell_the_key_while_a_range_was_read_leave_a_doubt(
    landed: Landed,
) -> None:
    """The REPLICA IDENTITY is wrong only during the barrier, and is correct again before the
    barrier ends.
    """
    landed.table("meanwhile", "id int primary key, code int not null unique")
    database = landed.database
    database.sql("insert into meanwhile select i, i from generate_series(1, 40) as i")
    landed.land("meanwhile")
    landed.follow("meanwhile", "id, code")
    done: list[str] = []

    def delete(sql: str, proceed: Any) -> None:
        if ": stage the rows" in sql and not done:
            database.sql("alter table meanwhile replica identity using index meanwhile_code_key")
            database.sql("delete from meanwhile where id in (5, 30)")
            done.append("deleted")
        proceed()
        if ": release the WAL" in sql and done == ["deleted"]:
            database.sql("alter table meanwhile replica identity default")
            done.append("right again")

    said = landed.project.run("--select", "meanwhile_mv", intercept=delete).output
    assert done == ["deleted", "right again"]
    assert "events of the upstream did not contain the key id of each row" in said
    landed.compare("meanwhile", "id, code")


def test_a_null_from_before_a_column_was_declared_not_null_is_read_from_the_table(
    landed: Landed,
) -> None:
    landed.table("declared", "id int primary key, w float8 check (abs(w) < 'infinity'), f float8")
    landed.model("declared", "id, f")
    database = landed.database
    database.sql("alter table declared alter f set not null")
    database.sql("insert into declared values (1, null, 1), (2, 2, 2)")
    landed.compare("declared", "id, string(f)")

    database.sql("alter table declared alter f drop not null")
    database.sql("insert into declared values (3, 3, null)")
    database.sql("update declared set f = 3 where id = 3")
    database.sql("insert into declared values (4, 4, 'NaN')")
    database.sql("alter table declared alter f set not null")
    said = landed.compare("declared", "id, string(f)")
    assert "re-anchored: an event of the upstream has a null in the column f, which may" in said
    database.sql("update declared set f = 5 where id = 4")
    assert "re-anchored" not in landed.compare("declared", "id, string(f)")


def test_columns_whose_names_differ_only_in_case_are_refused_by_name(landed: Landed) -> None:
    with pytest.raises(RunFailed, match="has 2 columns 'note' that differ only in case"):
        landed.table("noted", 'id int primary key, note text, "Note" text')
    landed.database.sql('alter table noted rename "Note" to other')
    landed.compare("noted", "id, note")
    landed.database.sql('alter table noted rename other to "NOTE"')
    with pytest.raises(RunFailed, match="has 2 columns 'note' that differ only in case"):
        landed.land("noted")


def test_a_char_is_compared_by_a_function_of_it_or_not_at_all(landed: Landed) -> None:
    """Spark pads a value with blanks before it compares the value with a `char(n)` column.

    Change tables have string columns, for which Spark does not pad values.
    """
    landed.table("padded", "id int primary key, code char(4), v int")
    path = landed.project.models / "padded_mv.sql"
    whole = path.read_text()
    database = landed.database
    database.sql("insert into padded select i, chr(96 + i), i from generate_series(1, 9) as i")
    landed.land("padded")

    for filter in (
        "code = 'a'",
        "'b' > code",
        "code in ('a', 'c')",
        "nullif(code, 'a') is null",
        "equal_null(code, 'a')",
        "code between 'a' and 'c'",
        "case code when 'a' then true end",
        "coalesce(v > 3 and code <=> 'e', false)",
    ):
        path.write_text(f"{whole} where {filter}")
        refused = landed.project.fail("--select", "padded_mv").error
        assert "its query compares code, which is a char(n) in PostgreSQL" in refused
    read = whole.replace("select *", "with c as (select id, code as k, v from", 1) + ")"
    path.write_text(f"{read} select * from c where k = 'a'")
    assert "its query compares code, which is" in landed.project.fail("--select", "padded_mv").error

    wanted = "rtrim(code) in ('a', 'b', 'x') and code like '%  ' and code is not null"
    path.write_text(f"{whole} where {wanted}")
    landed.project.run("--select", "padded_mv")
    database.sql("update padded set code = 'x' where id in (1, 4)")
    database.sql("update padded set code = 'b', v = 7 where id = 9")
    landed.land("padded")
    landed.project.run("--select", "padded_mv")
    rows = f"select * from {landed.catalog}.public.padded where {wanted}"
    assert landed.project.rows("select * from {schema}.padded_mv") == landed.project.rows(rows)
    assert landed.project.value("select count(*) from {schema}.padded_mv") == 4


def test_bounds_of_times_are_not_sent_in_the_zone_of_the_session(landed: Landed) -> None:
    """With `java8API.enabled`, Spark writes the bounds of a filter in the session's time zone.

    PostgreSQL reads the bounds in the time zone of the JVM.
    """
    java8 = "spark.sql.datetime.java8API.enabled"
    for kind in ("timestamptz", "timestamp"):
        name = f"timed_{kind}"
        landed.table(name, f"id {kind} primary key, v int")
        landed.database.sql(
            f"insert into {name} select timestamp '2024-01-01' + i * interval '1 hour', i"
            " from generate_series(1, 60) as i"
        )
        landed.land(name)
        try:
            landed.project.configure({"spark.sql.session.timeZone": "America/New_York"})
            landed.project.run("--select", f"{name}_mv")
            landed.project.configure({java8: "true"})
            told = "Spark writes the bounds of a range in the time zone America/New_York"
            assert told in landed.project.fail("--select", f"{name}_mv").error
            landed.project.configure({java8: "false"})
            landed.project.run("--select", f"{name}_mv")
            landed.project.configure({java8: "true", "spark.sql.session.timeZone": "UTC"})
            landed.project.run("--select", f"{name}_mv")
        finally:
            landed.project.configure({java8: "false", "spark.sql.session.timeZone": "UTC"})
        landed.compare(name, "id, v")
        assert landed.project.value(f"select count(*) from {{schema}}.{name}_mv") == 60


def test_what_reads_a_change_table_that_was_made_anew_begins_anew(landed: Landed) -> None:
    landed.table("retyped", "id int primary key, n int")
    columns = "id, cast(n as string) as n"
    landed.model("retyped", columns)
    landed.database.sql("insert into retyped values (1, 1), (2, 2)")
    landed.compare("retyped", columns)

    landed.database.sql("alter table retyped alter n type text using (n * 10)::text")
    with pytest.raises(RunFailed, match="landing creates it again, and each model that"):
        landed.land("retyped")
    landed.project.sql("drop table {schema}.retyped_changes")
    assert "re-anchored: its change table was created again" in landed.compare("retyped", columns)


def test_a_change_table_of_before_gets_what_it_lacks(landed: Landed) -> None:
    landed.project.create_table(
        "older_changes",
        "id int, _op string, _lsn bigint, _seq bigint, _xid bigint, _committed_at timestamp,"
        " _unchanged array<string>, _timeline int",
    )
    landed.table("older", "id int primary key")
    landed.database.sql("insert into older values (2)")
    landed.land("older")

    assert landed.events("older") == [("i", 2)]
    notes = landed.project.sql("select distinct _note from {schema}.older_changes where _op = 'w'")
    assert [json.loads(note)["keys"] for (note,) in notes] == [[["id"]]]


def test_a_value_that_was_corrected_is_read_again(landed: Landed) -> None:
    """Staged rows are kept if their changes have not landed.

    A staged row with the bad value is not kept: the run reads the row again.
    """
    rows = "values (1, date '2024-01-01'), (2, 'infinity')"
    landed.table("endless", "id int primary key, d date", rows=rows)
    landed.database.sql("create table beside_endless (id int)")
    refused = landed.project.fail("--select", "endless_mv").error
    assert "has a value in d, an infinity or a time that is too old" in refused

    landed.database.sql("update endless set d = '2024-01-02' where id = 2")
    landed.compare("endless", "id, d")


BESIDE = MODEL.replace(
    "backfill_rate_limit=25", "backfill_rate_limit=5, full_refresh_mode='beside'"
)


def test_the_mv_in_use_keeps_large_values_that_only_its_own_query_reads(landed: Landed) -> None:
    """An event does not contain a large value that was not changed."""
    rows = "select i, 'a', repeat('c', 3000) from generate_series(1, 20) as i"
    landed.table("toasted", "id int primary key, a text, large text", rows=rows)
    landed.database.sql("alter table toasted alter large set storage external")
    landed.database.sql("update toasted set large = large || 'd'")
    landed.compare("toasted", "id, a, large")
    project, slot = landed.project, "slot_toasted"
    narrow = BESIDE.format(table="toasted", columns="id, a", slot=slot, key="id")
    project.write({"toasted_mv": narrow})
    project.run("--full-refresh", "--select", "toasted_mv")

    landed.database.sql("update toasted set a = 'b' where id = 2")
    landed.land("toasted")
    said = project.run("--select", "toasted_mv").output
    assert "toasted_mv stays at the version" in said
    assert "events of the upstream do not contain large values that did not change" in said
    lost = "select count(*) from {schema}.toasted_mv where large is null"
    assert project.value(lost) == 0


def test_a_live_table_is_read_through_a_view_and_an_ephemeral_model(landed: Landed) -> None:
    rows = "select i, 'a', repeat('c', 3000) from generate_series(1, 60) as i"
    landed.table("staged", "id int primary key, a text, large text", rows=rows)
    landed.database.sql("alter table staged alter large set storage external")
    view = "{{ config(materialized='view') }} select id as key, a, large from "
    ephemeral = "{{ config(materialized='ephemeral') }} select *, upper(a) as b from "
    text = MODEL.format(table="staged", columns="key, b, large", slot="slot_staged", key="key")
    landed.project.write(
        {
            "stg_view": view + "{{ source('pg', 'staged') }}",
            "stg_ephemeral": ephemeral + "{{ ref('stg_view') }}",
            "staged_mv": text.replace("source('pg', 'staged')", "ref('stg_ephemeral')"),
        }
    )
    landed.project.run("--select", "stg_view", "staged_mv")
    for change in (
        "update staged set a = 'b' where id in (2, 50)",
        "delete from staged where id in (3, 40)",
        "insert into staged values (0, 'z', 'new')",
    ):
        landed.database.sql(change)
        landed.land("staged")
        said = landed.project.run("--select", "staged_mv").output
        assert "re-anchored" not in said
    wanted = f"select id, upper(a), large from {landed.catalog}.public.staged"
    assert landed.project.rows("select * from {schema}.staged_mv") == landed.project.rows(wanted)


def test_audit_columns_of_a_live_table_are_of_the_run_that_wrote_the_row(landed: Landed) -> None:
    rows = "select i, 'a' from generate_series(1, 60) as i"
    landed.table("audited", "id int primary key, a text", rows=rows)
    text = MODEL.format(
        table="audited",
        columns="id, a, current_timestamp() as loaded_at, '{{ invocation_id }}' as run_id",
        slot="slot_audited",
        key="id",
    ).replace("unique_key", "volatile_columns=['loaded_at', 'run_id'], unique_key")
    landed.project.write({"audited_mv": text})
    runs = "select id, run_id, loaded_at is null from {schema}.audited_mv"
    landed.project.run("--select", "audited_mv")
    first = {row[0]: row[1] for row in landed.project.rows(runs)}
    assert len(first) == 25 and len({*first.values()}) == 1

    landed.database.sql("update audited set a = 'b' where id in (2, 50)")
    landed.database.sql("delete from audited where id = 3")
    landed.land("audited")
    said = landed.project.run("--select", "audited_mv").output
    landed.project.run("--select", "audited_mv")

    assert "re-anchored" not in said
    rows_now = landed.project.rows(runs)
    assert not any(is_null for _, _, is_null in rows_now)
    now = {key: run for key, run, _ in rows_now}
    assert {key for key in now if now[key] == first.get(key)} == {1, *range(4, 26)}
    assert now[2] != first[2] and now[2] == now[50]
    wanted = f"select id, a from {landed.catalog}.public.audited"
    assert landed.project.rows("select id, a from {schema}.audited_mv") == landed.project.rows(
        wanted
    )


def test_what_is_left_of_a_backfill_of_a_live_table_is_explained(landed: Landed) -> None:
    rows = "select i from generate_series(1, 60) as i"
    landed.table("explained", "id int primary key", rows=rows)
    landed.database.sql("analyze explained")
    landed.follow("explained")
    said = "\n".join(landed.project.operation("explain_backfill", model="explained_mv").messages)
    assert "35 rows are left" in said
    assert "a range reads about" not in said


@pytest.mark.profiles("session-delta", reason="Delta creates no table where files are")
def test_staged_rows_of_a_model_with_a_location_get_other_columns(
    landed: Landed, tmp_path: Path
) -> None:
    landed.table("located", "id int primary key, a int", rows="values (1, 1), (2, 2)")
    located = MODEL.replace("unique_key", f"location_root='{tmp_path}', unique_key")
    for columns, arguments in ("id", ()), ("id, a", ("--full-refresh",)):
        write = located.format(table="located", columns=columns, slot="slot_located", key="id")
        landed.project.write({"located_mv": write})
        landed.land("located")
        landed.project.run(*arguments, "--select", "located_mv")
    assert landed.project.rows("select * from {schema}.located_mv") == [(1, 1), (2, 2)]
    assert "located_mv__staged" not in {path.name for path in tmp_path.iterdir()}


def test_a_value_that_spark_cannot_have_is_refused(landed: Landed) -> None:
    landed.table("strange", "id int primary key, d date, f float8 not null")
    landed.database.sql("insert into strange values (1, 'infinity', 0)")
    with pytest.raises(Exception, match=r"column d of public\.strange to date"):
        landed.land("strange")
    assert landed.events("strange") == []
    landed.database.sql("select pg_drop_replication_slot('slot_strange')")


def test_a_secret_is_in_no_statement(landed: Landed) -> None:
    assert landed.project.last is not None
    assert not any("password" in statement for statement in landed.project.last.statements)
