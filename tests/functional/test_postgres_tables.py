"""Spark and the WAL return each value of a PostgreSQL table correctly, or it is refused."""

from __future__ import annotations

import json
import struct
from collections.abc import Iterator
from dataclasses import dataclass
from decimal import Decimal
from typing import Any

import pytest
from dbt_common.exceptions import CompilationError

from support.lake import Lake
from support.macros import Macros
from support.postgres import Database
from support.project import Project

pytestmark = pytest.mark.profiles(
    "session-delta", "session-iceberg", reason="reads no table of the lake"
)

CATALOG = "pg_tables"

# Each supported type of a column, with the extreme values of the type.
TAKEN = {
    "boolean": ["true", "false"],
    "smallint": ["'-32768'", "'32767'"],
    "int": ["'-2147483648'", "'2147483647'"],
    "bigint": ["'-9223372036854775808'", "'9223372036854775807'"],
    "oid": ["4294967295"],
    "real": ["0.1", "3.4028235e38", "1e-45", "'-0'"],
    "double precision": ["0.1", "1e308", "5e-324", "'-0'", "123456789.123456789"],
    "numeric(10,2)": ["1", "'-1.10'", "99999999.99"],
    "numeric(38,10)": ["1234567890123456789012345678.0123456789"],
    "numeric(38,38)": ["0.00000000000000000000000000000000000001"],
    "char(5)": ["'ab'", "''", "'äö'"],
    "varchar(10)": ["'ab '", "''", "'äöü€😀'"],
    "text": [
        "''",
        "' a '",
        "E'a\\nb\\tc\\r\\\\d'",
        "'\"q\" ''s'",
        "E'\\x01\\x7f\\u2028'",
        "'null'",
    ],
    "bytea": ["'\\x00ff10'", "''"],
    "date": ["'2024-02-29'", "'1000-01-01'", "'1582-10-04'", "'9999-12-30'", "'10000-01-01'"],
    "timestamp": ["'2024-03-31 02:30:00.123456'", "'1883-11-18 12:02'", "'1000-01-01'"],
    "timestamptz": ["'2024-10-27 02:30:00.123456+02'", "'1900-01-01 00:00+00'"],
    "json": ['\'{"b": 1, "a" : [1,2.50]}\'', "'null'"],
    "jsonb": ['\'{"b": 1, "a" : [1,2.50]}\'', "'null'"],
    "uuid": ["'6F9619FF-8B86-D011-B42D-00C04FC964FF'"],
    "xml": ["'<a b=\"c\">é</a>'"],
    "inet": ["'10.0.0.1/8'"],
    "cidr": ["'10.0.0.0/8'"],
    "macaddr": ["'08:00:2b:01:02:03'"],
    "mood": ["'happy'", "'sad'"],
    "posint": ["5"],
    "price": ["1.25"],
    "citext": ["'AbC'"],
}

# Each entry: the statement that creates the table, the columns that the model reads, the key of the
# model, and the reason for the refusal.
REFUSED = {
    "view": ("create view {t} as select 1 as id", "id", "id", "is a view of PostgreSQL"),
    "matview": (
        "create materialized view {t} as select 1 as id",
        "id",
        "id",
        "is a materialized view",
    ),
    "partitioned": (
        "create table {t} (id int primary key) partition by range (id)",
        "id",
        "id",
        "is a partitioned table",
    ),
    "parent": (
        "create table {t} (id int primary key); create table {t}_child () inherits ({t})",
        "id",
        "id",
        "other tables inherit",
    ),
    "unlogged": ("create unlogged table {t} (id int primary key)", "id", "id", "unlogged"),
    "keyless": ("create table {t} (id int not null)", "id", "id", "neither the primary key"),
    "nullable": ("create table {t} (id int unique)", "id", "id", "neither the primary key"),
    "partial": (
        "create table {t} (id int not null); create unique index on {t} (id) where id > 0",
        "id",
        "id",
        "neither the primary key",
    ),
    "deferrable": (
        "create table {t} (id int primary key deferrable)",
        "id",
        "id",
        "is deferrable",
    ),
    "nothing": (
        "create table {t} (id int primary key); alter table {t} replica identity nothing",
        "id",
        "id",
        "REPLICA IDENTITY of its upstream is nothing",
    ),
    "deferrable_identity": (
        "create table {t} (id int unique, primary key (id) deferrable)",
        "id",
        "id",
        "REPLICA IDENTITY of its upstream is default",
    ),
    "other_identity": (
        "create table {t} (id int primary key, c int not null unique);"
        " alter table {t} replica identity using index {n}_c_key",
        "id",
        "id",
        "REPLICA IDENTITY of its upstream is using index",
    ),
    "not_the_identity": (
        "create table {t} (id int primary key, c int not null unique)",
        "c",
        "c",
        "REPLICA IDENTITY of its upstream is default",
    ),
    "collated": (
        'create table {t} (id text collate "en-US-x-icu" primary key)',
        "id",
        "id",
        "with the collation en-US-x-icu",
    ),
    **{
        f"key_{name}": (
            f"create table {{t}} (id {name} primary key)",
            "id",
            "id",
            "PostgreSQL and Spark order this type differently",
        )
        for name in ("citext", "bpchar", "mood", "inet", "real", "oid")
    },
    **{
        f"of_{number}": (
            f"create table {{t}} (id int primary key, c {name})",
            "id c",
            "id",
            "Spark and the WAL show its values differently",
        )
        for number, name in enumerate(
            (
                *("time", "timetz", "interval", "money", "int[]", "text[]", "int4range"),
                *("pair", "bit(1)", "bit(8)", "xid", "point"),
            )
        )
    },
    **{
        f"decimal_{number}": (
            f"create table {{t}} (id int primary key, c {name} not null)",
            "id c",
            "id",
            "Spark would round its values",
        )
        for number, name in enumerate(("numeric", "numeric(39,0)", "numeric(10,-2)", "amount"))
    },
    "nan": (
        "create table {t} (id int primary key, c numeric(9,2), d real check (abs(d) < 'infinity'))",
        "id c d",
        "id",
        "the column c of type numeric",
    ),
    "twins": (
        'create table {t} (id int primary key, c int, "C" int)',
        "id c",
        "id",
        "that differ only in case",
    ),
}

# Each entry: a date, and true if Spark alters it. A date also counts as altered if Spark may read
# another date as this one.
DATES = {
    "'2024-02-29'": False,
    "'9999-12-30'": False,
    "'1000-01-01'": False,
    "'1582-10-04'": False,
    "'1582-10-25'": False,
    "'infinity'": True,
    "'-infinity'": True,
    "'1582-10-05'": True,
    "'1582-10-14'": True,
    "'0001-01-01 BC'": True,
}


@dataclass
class Tables:
    """A PostgreSQL schema, and the answers of the macros and of Spark about its tables."""

    database: Database
    lake: Lake
    macros: Macros

    def ask(self, query: str, catalog: str = CATALOG) -> str:
        sql = self.macros.call("get_postgres_query_sql", catalog, query)
        return str(self.lake.sql(sql)[0][0])

    def facts(self, table: str, slot: str | None = None, catalog: str = CATALOG) -> dict[str, Any]:
        query = self.macros.call("get_postgres_facts_query", table, slot)
        return self.followed(json.loads(self.ask(query, catalog)))

    def followed(self, facts: dict[str, Any]) -> dict[str, Any]:
        """Return the facts about a table whose change feed has the format `none`."""
        found: dict[str, Any] = self.macros.call("get_followed_facts", {"format": "none"}, facts)
        return found

    def facts_without_spark(self, table: str, slot: str | None = None) -> dict[str, Any]:
        """Return the same facts as `facts`. Without Spark this takes a tenth of the time."""
        query = self.macros.call("get_postgres_facts_query", table, slot)
        with self.database.connect() as connection:
            (text,) = connection.execute(query.encode()).fetchone() or ("",)
        return self.followed(json.loads(text))

    def seen(self, table: str, columns: str) -> tuple[dict[str, Any], dict[str, Any]]:
        """Return what a plan records about a table, and the facts from which the plan takes it."""
        facts = self.facts_without_spark(table)
        return self.macros.call("get_seen_table", facts, columns.split(), None, None), facts

    def check(self, facts: dict[str, Any], columns: str, key: str = "id") -> None:
        self.macros.call("check_postgres_table", facts, columns.split(), key.split())


def tell(database: Database, *statements: str) -> None:
    for statement in statements:
        database.sql(statement)


@pytest.fixture(scope="module")
def tables(database: Database, lake: Lake) -> Iterator[Tables]:
    for name, value in database.catalog_settings(CATALOG).items():
        lake.sql(f"set `{name}` = {value}")
    tell(
        database,
        "create schema t",
        "create extension citext",
        "create type mood as enum ('sad', 'happy')",
        "create type pair as (a int, b text)",
        "create domain posint as int check (value > 0)",
        "create domain price as numeric(10, 2)",
        "create domain amount as numeric",
    )
    yield Tables(database, lake, Macros())


def normal(value: Any, kind: str) -> Any:
    """Return a value in one form, because Spark, PostgreSQL and the WAL print it differently."""
    if value is None:
        return None
    text = str(value).lower() if isinstance(value, bool) else str(value)
    if kind in ("real", "double precision"):
        return struct.pack("f" if kind == "real" else "d", float(text))
    if kind.startswith(("numeric", "price", "oid")):
        return Decimal(text)
    if kind == "char(5)":
        return text.ljust(5)
    return text.removeprefix("\\x").removesuffix("+00").removeprefix("+")


def test_a_column_that_is_taken_is_told_alike_by_spark_the_wal_and_the_database(
    tables: Tables,
) -> None:
    kinds = dict(enumerate(TAKEN))
    columns = ", ".join(f"c{i} {kind} not null" for i, kind in kinds.items())
    rows = [
        ", ".join(values[min(n, len(values) - 1)] for values in TAKEN.values()) for n in range(6)
    ]
    tell(
        tables.database,
        f"create table t.taken (id int primary key, {columns})",
        "select pg_create_logical_replication_slot('taken', 'wal2json')",
        *(f"insert into t.taken values ({n}, {row})" for n, row in enumerate(rows)),
    )
    facts = tables.facts("t.taken", "taken")
    tables.check(facts, " ".join(f"c{i}" for i in kinds))
    assert facts["slot"]["plugin"] == "wal2json" and facts["slot"]["wal_status"] == "reserved"

    texts = ", ".join(f"c{i}::text" for i in kinds)
    with tables.database.connect() as connection:
        connection.execute("set timezone = 'UTC'")
        truth = connection.execute(f"select {texts} from t.taken order by id".encode()).fetchall()
        told = connection.execute(
            "select data from pg_logical_slot_peek_changes('taken', null, null, 'format-version',"
            " '2', 'include-transaction', 'false')"
        ).fetchall()
        connection.execute("select pg_drop_replication_slot('taken')")
    as_text = ", ".join(
        f"lower(hex(c{i}))" if kind == "bytea" else f"cast(c{i} as string)"
        for i, kind in kinds.items()
    )
    read = tables.lake.sql(f"select {as_text} from {CATALOG}.t.taken order by id")
    events = [json.loads(row[0], parse_float=str, parse_int=str)["columns"] for row in told]
    for i, kind in kinds.items():
        expected = [normal(row[i], kind) for row in truth]
        assert [normal(row[i], kind) for row in read] == expected, kind
        assert [normal(event[i + 1]["value"], kind) for event in events] == expected, kind


def test_what_cannot_be_read_or_followed_is_refused_by_name(tables: Tables) -> None:
    made = [ddl.format(t=f"t.{name}", n=name) for name, (ddl, *_) in REFUSED.items()]
    tell(tables.database, *made, "select pg_create_logical_replication_slot('refused', 'wal2json')")
    try:
        for name, (_, columns, key, reason) in REFUSED.items():
            with pytest.raises(CompilationError) as refused:
                tables.check(tables.facts_without_spark(f"t.{name}", "refused"), columns, key)
            assert reason in str(refused.value.msg), name
    finally:
        tell(tables.database, "select pg_drop_replication_slot('refused')")


def test_over_debezium_any_unique_index_may_be_the_key_of_a_table_without_a_primary_key(
    tables: Tables,
) -> None:
    """Debezium uses one of the unique indexes as the key of its events.

    If the MV has another key, an update of the MV's key would leave the previous row in the MV.
    """
    tell(
        tables.database,
        "create table t.indexed (id int not null unique, code text)",
        "alter table t.indexed replica identity full",
    )

    def check() -> None:
        facts = tables.facts_without_spark("t.indexed")
        feed = {"format": "debezium"}
        tables.check(tables.macros.call("get_followed_facts", feed, facts), "id")

    check()
    tell(tables.database, "create unique index on t.indexed (code) where code <> ''")
    with pytest.raises(CompilationError, match="has no primary key but 2 unique indexes, and Deb"):
        check()
    tell(tables.database, "alter table t.indexed add primary key (id)")
    check()


def test_columns_that_the_query_does_not_read_do_not_matter(tables: Tables) -> None:
    tell(
        tables.database,
        "create table t.unread (id int primary key, a interval, b int[], c numeric, d pair)",
    )
    tables.check(tables.facts("t.unread"), "id")


def test_a_table_that_is_not_there_is_refused(tables: Tables) -> None:
    with pytest.raises(CompilationError, match="has no table with the name of its upstream"):
        tables.check(tables.facts("t.nope"), "id")


def test_odd_names_are_found_as_they_are(tables: Tables) -> None:
    long = "l" * 63
    tell(
        tables.database,
        f'create table t."Odd.Na`me\'s" ("Id.x" int primary key, "a`b" text, "{long}" int)',
        "insert into t.\"Odd.Na`me's\" values (1, 'x', 2)",
    )
    facts = tables.facts("t.Odd.Na`me's")
    assert [column["name"] for column in facts["columns"]] == ["Id.x", "a`b", long]
    tables.macros.call("check_postgres_table", facts, ["a`b", long], ["Id.x"])

    read = tables.lake.sql(
        f"select `Id.x`, `a``b`, `{long}` from {CATALOG}.t.`Odd.Na``me's` where `a``b` = 'x'"
    )
    assert [tuple(row) for row in read] == [(1, "x", 2)]


def test_a_value_that_the_reader_alters_is_found_by_its_column(tables: Tables) -> None:
    values = list(DATES)
    tell(
        tables.database,
        "create table t.altered (id int primary key, d date, s timestamp, z timestamptz,"
        " f date check (f < 'infinity'))",
        *(f"insert into t.altered values ({n}, {v}, {v}, {v}, null)" for n, v in enumerate(values)),
        "set timezone = 'UTC'",
        "insert into t.altered values (100, '9999-12-31', null, null, null),"
        " (101, null, '9999-12-31', '9999-12-31 23:59:59.999999+00', '9999-12-31'),"
        " (102, null, null, null, null)",
    )
    facts = tables.facts("t.altered")
    types = {"d": "date", "s": "timestamp", "z": "timestamp", "f": "date"}
    found: dict[str, set[int]] = {}
    for name, type in types.items():
        columns = [{"name": name, "type": type}]
        named = tables.macros.call("get_altered_column_sql", columns, facts)
        rows = tables.lake.sql(f"select id, {named} from {CATALOG}.t.altered")
        found[name] = {row[0] for row in rows if row[1] == name}
    altered = {n for n, value in enumerate(values) if DATES[value]}
    assert found == {"d": altered | {100}, "s": altered, "z": altered, "f": set()}

    columns = [{"name": name, "type": type} for name, type in types.items()]
    named = tables.macros.call("get_altered_column_sql", columns, facts)
    rows = tables.lake.sql(f"select id, {named} from {CATALOG}.t.altered where id in (0, 100, 101)")
    assert sorted(map(tuple, rows)) == [(0, None), (100, "d"), (101, None)]


def test_a_check_tells_that_a_column_is_finite(tables: Tables) -> None:
    tell(
        tables.database,
        "create table t.finite (id int primary key, n numeric(9,2), f real, d float8, t timestamp)",
        *(f"alter table t.finite add check ({c} < 'infinity')" for c in "ndt"),
        "alter table t.finite add check (abs(f) < 'infinity')",
    )
    told = {column["name"]: column["finite"] for column in tables.facts("t.finite")["columns"]}
    # The check constraint excludes infinity from the column f, but f may still be minus infinity.
    assert told == {"id": False, "n": True, "f": True, "d": False, "t": True}


KEYS = {
    "bool": "i % 2 = 0",
    "numeric(12,3)": "i * 1.001",
    "date": "date '1900-01-01' + i * 37",
    "timestamp": "timestamp '1890-01-01' + i * interval '13 days 1.000001 seconds'",
    "timestamptz": "timestamptz '1890-01-01 00:00+00' + i * interval '13 days 1.000001 seconds'",
    "bytea": "decode(md5(i::text), 'hex')",
    "uuid": "md5(i::text)::uuid",
    'text collate "C"': "chr(i * 50 + 33) || i",
}


def test_a_key_that_is_taken_is_compared_and_ordered_as_spark_does(tables: Tables) -> None:
    columns = ", ".join(f"k{n} {kind} not null" for n, kind in enumerate(KEYS))
    drawn = ", ".join(KEYS.values())
    tell(
        tables.database,
        f"create table t.ordered (id int primary key, {columns})",
        f"insert into t.ordered select i, {drawn} from generate_series(1, 900) as i",
    )
    rows = [row.asDict() for row in tables.lake.sql(f"select * from {CATALOG}.t.ordered")]
    names = [f"k{n}" for n in range(len(KEYS))]
    types = tables.lake.sql(
        f"select {', '.join(f'typeof({name})' for name in names)} from {CATALOG}.t.ordered limit 1"
    )[0]
    literals = [
        tables.macros.call("literal_expression", name, type)
        for name, type in zip(names, types, strict=True)
    ]
    at = next(row for row in rows if row["id"] == 333)
    bounds = tables.lake.sql(
        f"select {', '.join(literals)} from {CATALOG}.t.ordered where id = 333"
    )
    for name, kind, bound in zip(names, KEYS, bounds[0], strict=True):
        # Python and Spark order these values in the same way. They order texts by code points.
        values = sorted(row[name] for row in rows)
        ordered = tables.lake.sql(
            f"select {name} from {CATALOG}.t.ordered order by {name} nulls last limit 1 offset 600"
        )
        assert ordered[0][0] == values[600], kind
        sql = f"select id from {CATALOG}.t.ordered where {name} > {bound}"
        assert len(tables.lake.sql(sql)) == sum(value > at[name] for value in values), kind
        plan = tables.lake.sql(f"explain {sql}")[0][0]
        assert f"PushedFilters: [{name} IS NOT NULL" in plan, kind


def test_a_user_with_no_more_than_the_listed_rights_is_enough(tables: Tables) -> None:
    tell(
        tables.database,
        "create table t.granted (id int primary key, name text)",
        "insert into t.granted values (1, 'a')",
        "create role reader login password 'a-secret'",
    )
    settings = tables.database.catalog_settings("pg_reader")
    settings |= {
        "spark.sql.catalog.pg_reader.user": "reader",
        "spark.sql.catalog.pg_reader.password": "a-secret",
    }
    for name, value in settings.items():
        tables.lake.sql(f"set `{name}` = {value}")

    facts = tables.facts("t.granted", catalog="pg_reader")
    assert (facts["user"], facts["replication"]) == ("reader", False)
    with pytest.raises(CompilationError, match="the user reader of PostgreSQL may not read"):
        tables.check(facts, "id name")

    tell(
        tables.database, "grant usage on schema t to reader", "grant select on t.granted to reader"
    )
    tables.check(tables.facts("t.granted", catalog="pg_reader"), "id name")
    read = tables.lake.sql("select * from pg_reader.t.granted where id > 0")
    assert [tuple(row) for row in read] == [(1, "a")]
    for query in ("pg_current_snapshot()", "pg_current_wal_insert_lsn()", "pg_sleep(0)"):
        tables.ask(f"select {query}::text as value_1", "pg_reader")

    tell(tables.database, "alter table t.granted enable row level security")
    with pytest.raises(CompilationError, match="row-level security hides rows"):
        tables.check(tables.facts("t.granted", catalog="pg_reader"), "id name")

    slot = "select count(*)::text as value_1 from pg_logical_slot_peek_changes('read', null, null)"
    tell(
        tables.database,
        "alter role reader bypassrls",
        "select pg_create_logical_replication_slot('read', 'wal2json')",
    )
    try:
        tables.check(tables.facts("t.granted", catalog="pg_reader"), "id name")
        with pytest.raises(Exception, match="replication"):
            tables.ask(slot, "pg_reader")
        tell(tables.database, "alter role reader replication")
        assert tables.facts("t.granted", catalog="pg_reader")["replication"]
        assert int(tables.ask(slot, "pg_reader")) >= 0

        # On Amazon RDS, a role may replicate if it is a direct or indirect member of one of these
        # roles.
        for role in ("rds_replication", "rds_superuser"):
            tell(
                tables.database,
                "alter role reader noreplication",
                f"create role {role}",
                f"create role of_{role} in role {role}",
            )
            assert not tables.facts("t.granted", catalog="pg_reader")["replication"]
            tell(tables.database, f"grant of_{role} to reader")
            assert tables.facts("t.granted", catalog="pg_reader")["replication"]
            tell(tables.database, f"drop role of_{role}", f"drop role {role}")
    finally:
        tell(tables.database, "select pg_drop_replication_slot('read')")


ALTERED = {
    "note": ["alter table {t} drop note, add note text default 'new'"],
    "amount": ["alter table {t} alter amount type numeric(10, 2) using amount * 1.1"],
    "m": ["alter type feeling rename value 'sad' to 'blue'"],
    "a": [f"alter table {{t}} rename {names}" for names in ("a to c", "b to a", "c to b")],
    "j": ["alter table {t} alter j type jsonb"],
    "ts": ["alter table {t} alter ts type timestamptz"],
    "code": ["alter table {t} alter code type text using upper(code)"],
}
"""Commands that change the values of a column without an event in the WAL."""

KEPT = [
    "alter type feeling add value 'glad'",
    "alter table {t} alter amount drop not null",
    "alter table {t} alter amount set not null, alter a set default 5, alter a set statistics 10",
    "alter table {t} alter note set storage external",
    "alter table {t} alter unread type varchar using upper(unread)",
    "alter table {t} drop unread, add another int default 1",
    "alter table {t} replica identity full",
    "grant select (a, note) on {t} to public",
    "vacuum full {t}",
    "cluster {t} using altered_by_command_pkey",
    "analyze {t}",
    "update {t} set a = 7",
]


def test_a_column_whose_values_a_command_may_have_altered_is_not_what_it_was(
    tables: Tables,
) -> None:
    tell(
        tables.database,
        "create type feeling as enum ('sad', 'happy')",
        "create table t.altered_by_command (id int primary key, note text,"
        " amount numeric(10, 2) not null, m feeling, a int, b int, j json,"
        " ts timestamp, code text, unread text)",
        "insert into t.altered_by_command values (1, 'a', 1, 'sad', 1, 2, '{}', now(), 'x', 'y')",
    )
    names = "id note amount m a b j ts code"

    def unlike(statements: list[str]) -> Any:
        before, _ = tables.seen("t.altered_by_command", names)
        tell(tables.database, *(each.format(t="t.altered_by_command") for each in statements))
        now, facts = tables.seen("t.altered_by_command", names)
        assert tables.macros.call("find_unlike_table", {}, now, facts) is None
        return tables.macros.call("find_unlike_table", before, now, facts)

    for column, statements in ALTERED.items():
        told = f"the column {column} of the upstream was altered, and no event reports"
        assert str(unlike(statements)).startswith(told), statements
    for statement in KEPT:
        assert unlike([statement]) is None, statement


def test_the_wal_tells_rows_of_a_partitioned_table_by_the_names_of_its_partitions(
    tables: Tables,
) -> None:
    """Therefore a partitioned table is refused as an upstream, but a partition is accepted."""
    tell(
        tables.database,
        "create table t.whole (id int primary key) partition by range (id)",
        "create table t.part partition of t.whole for values from (0) to (10)",
        "select pg_create_logical_replication_slot('parts', 'wal2json')",
        "insert into t.whole values (1)",
    )
    with tables.database.connect() as connection:
        told = connection.execute(
            "select data::json ->> 'table' from pg_logical_slot_get_changes('parts', null, null,"
            " 'format-version', '2', 'include-transaction', 'false')"
        ).fetchall()
        connection.execute("select pg_drop_replication_slot('parts')")
    assert told == [("part",)]
    tables.check(tables.facts("t.part"), "id")


def test_a_model_of_such_a_table_is_refused_before_anything_is_written(
    tables: Tables, project: Project
) -> None:
    tables.database.transaction(
        'create table t.modelled (id text collate "en-US-x-icu" primary key, n interval)',
        "insert into t.modelled values ('a', '1 day')",
    )
    project.create_table("changes", "id string, op string, seq bigint, pos bigint")
    project.sql("insert into {schema}.changes values (null, 'w', 0, 1)")
    source = {"name": "pg", "schema": f"{CATALOG}.t", "tables": [{"name": "modelled"}]}
    feed = {
        "relation": "source('lake', 'changes')",
        "operation": "op",
        "sequence": "seq",
        "position": "pos",
        "wait_seconds": 0,
    }
    config = f"materialized='backfilled_mv', unique_key='id', change_feed={feed}"
    project.write(
        {
            "mv": f"{{{{ config({config}) }}}}\n"
            "-- depends_on: {{ source('lake', 'changes') }}\n"
            "select id from {{ source('pg', 'modelled') }}"
        },
        sources=["changes"],
        properties={"sources": [source]},
    )
    assert "with the collation en-US-x-icu" in project.fail().error
    assert project.sql("show tables in {schema} like 'mv'") == []

    tables.database.transaction('alter table t.modelled alter id type text collate "C"')
    project.run()
    landed = tables.database.value("select (pg_current_wal_lsn() - '0/0')::bigint")
    project.sql(f"insert into {{schema}}.changes values (null, 'w', 0, {landed})")
    project.run()
    assert [tuple(row) for row in project.sql("select id from {schema}.mv")] == [("a",)]

    shown = project.operation("backfill_progress", model="mv", format="json").messages[-1]
    assert json.loads(shown)["backfill_finished"]
    assert json.loads(shown)["behind"] is None


@pytest.mark.core("session-delta")
@pytest.mark.parametrize(
    ("key", "rows"),
    [
        ("id", "(1, '2024-01-01'), (2, 'infinity')"),
        ("at", "(1, '-infinity'), (2, '2024-01-01'), (3, '2024-01-02')"),
    ],
)
def test_an_infinity_is_refused_where_spark_reads_times_without_a_zone(
    tables: Tables, project: Project, key: str, rows: str
) -> None:
    """Spark's reader fails on an infinity with a NullPointerException."""
    table = f"boundless_{key}"
    tables.database.transaction(
        f"create table t.{table} (id int not null, at timestamp not null, primary key ({key}))",
        f"insert into t.{table} values {rows}",
    )
    project.create_table(
        f"{table}_changes", "id int, at timestamp_ntz, op string, seq bigint, pos bigint"
    )
    feed = {
        "relation": f"source('lake', '{table}_changes')",
        "operation": "op",
        "sequence": "seq",
        "position": "pos",
        "wait_seconds": 0,
    }
    options = f"unique_key='{key}', backfill_rate_limit=1, change_feed={feed}"
    config = f"materialized='backfilled_mv', {options}"
    project.write(
        {
            f"{table}_mv": f"{{{{ config({config}) }}}}\n"
            f"-- depends_on: {{{{ source('lake', '{table}_changes') }}}}\n"
            f"select id, at from {{{{ source('pg', '{table}') }}}}"
        },
        sources=[f"{table}_changes"],
        properties={
            "sources": [{"name": "pg", "schema": f"{CATALOG}.t", "tables": [{"name": table}]}]
        },
    )
    project.configure({"spark.sql.timestampType": "TIMESTAMP_NTZ"})
    try:
        for _ in rows:
            landed = tables.database.value("select (pg_current_wal_lsn() - '0/0')::bigint")
            project.sql(
                f"insert into {{schema}}.{table}_changes values (null, null, 'w', 0, {landed})"
            )
            result = project.dbt("run", "--select", f"{table}_mv", expect=False)
            if not result.success:
                break
        assert "its upstream has an infinite value in at, which Spark cannot read" in result.error
    finally:
        del project.settings["spark.sql.timestampType"]
        project.sql("reset `spark.sql.timestampType`")
