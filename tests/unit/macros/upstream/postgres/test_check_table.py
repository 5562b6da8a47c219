"""Refusals of PostgreSQL tables that cannot be read or followed exactly."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from typing import Any

import pytest

from support.macros import Macros

Refused = Callable[[str], AbstractContextManager[None]]
JAVA8 = "spark.sql.datetime.java8API.enabled"


def column(name: str, type: str, **facts: Any) -> dict[str, Any]:
    is_text = type in ("text", "varchar", "bpchar", "citext")
    return {
        "name": name,
        "shown": type,
        "type": type,
        "typtype": "b",
        "is_array": False,
        "is_domain": False,
        "builtin": type != "citext",
        "precision": 10 if type == "numeric" else None,
        "scale": 2 if type == "numeric" else None,
        "not_null": False,
        "identity": "",
        "generated": "",
        "collation": {"name": "C", "bytewise": True} if is_text else None,
        "toastable": is_text,
        "finite": False,
        **facts,
    }


def index(*columns: str, primary: bool = True, deferrable: bool = False) -> dict[str, Any]:
    return {"columns": list(columns), "primary": primary, "deferrable": deferrable}


def facts_of(*columns: dict[str, Any], **facts: Any) -> dict[str, Any]:
    """Return the result of `get_postgres_facts_query` for a table that can be followed."""
    return {
        "version": 150020,
        "in_recovery": False,
        "wal_level": "logical",
        "encoding": "UTF8",
        "zone": "UTC",
        "conforming_strings": "on",
        "isolation": "read committed",
        "database": "shop",
        "user": "reader",
        "found": 1,
        "kind": "r",
        "has_children": False,
        "persistence": "p",
        "may_select": True,
        "row_security": False,
        "keys": [index("id")],
        "unique_indexes": 1,
        "identity": "d",
        "identity_columns": ["id"],
        "plugin": "wal2json",
        "columns": [column("id", "int8", not_null=True), *columns],
        **facts,
    }


def check(macros: Macros, facts: dict[str, Any], columns: str = "", key: str = "id") -> None:
    macros.call("check_postgres_table", facts, columns.split(), key.split())


def test_a_table_with_a_primary_key_is_taken(macros: Macros) -> None:
    check(macros, facts_of(column("name", "text")), "name")


@pytest.mark.parametrize(
    ("facts", "fact"),
    [
        ({"version": 120009}, "its upstream is in PostgreSQL 12, which is too old"),
        ({"in_recovery": True}, "its upstream is in a standby of PostgreSQL"),
        ({"wal_level": "replica"}, "the wal_level of its upstream is replica"),
        ({"conforming_strings": "off"}, "its PostgreSQL has standard_conforming_strings = off"),
        ({"isolation": "serializable"}, "its PostgreSQL has default_transaction_isolation = seri"),
        ({"found": 0}, "the database shop of PostgreSQL has no table with the name of its up"),
        ({"found": 2}, "the database shop of PostgreSQL has 2 tables with the name of its up"),
        ({"kind": "v"}, "its upstream is a view of PostgreSQL"),
        ({"kind": "m"}, "its upstream is a materialized view"),
        ({"kind": "f"}, "its upstream is a foreign table"),
        ({"kind": "p"}, "its upstream is a partitioned table"),
        ({"has_children": True}, "other tables inherit from its upstream"),
        ({"persistence": "u"}, "its upstream is an unlogged or temporary table"),
        ({"may_select": False}, "the user reader of PostgreSQL may not read its upstream"),
        ({"row_security": True}, "row-level security hides rows of its upstream"),
    ],
)
def test_what_the_wal_does_not_tell_all_of_is_refused(
    macros: Macros, refused: Refused, facts: dict[str, Any], fact: str
) -> None:
    with refused(fact):
        check(macros, facts_of(**facts))


@pytest.mark.parametrize(
    ("facts", "key", "fact"),
    [
        ({"keys": []}, "id", "its unique_key id is neither the primary key of its upstream"),
        ({}, "id line", "its unique_key id, line is neither the primary key of its"),
        ({"keys": [index("id", deferrable=True)]}, "id", "the constraint on the key id of"),
        ({"identity": "n", "identity_columns": None}, "id", "the REPLICA IDENTITY of its upstream"),
        ({"identity": "i", "identity_columns": ["code"]}, "id", "the REPLICA IDENTITY of its"),
        ({"keys": [index("code", primary=False)]}, "code", "the REPLICA IDENTITY of its upstream"),
    ],
)
def test_a_key_that_is_none_or_that_events_do_not_tell_is_refused(
    macros: Macros, refused: Refused, facts: dict[str, Any], key: str, fact: str
) -> None:
    columns = (column("code", "int4", not_null=True), column("line", "int4", not_null=True))
    with refused(fact):
        check(macros, facts_of(*columns, **facts), key=key)


def test_a_unique_index_is_a_key_where_events_tell_its_columns(macros: Macros) -> None:
    keys = [index("id"), index("Code", "line", primary=False)]
    columns = (column("Code", "int4", not_null=True), column("line", "int4", not_null=True))
    for identity in ({"identity": "i"}, {"identity": "f"}):
        facts = facts_of(*columns, keys=keys, identity_columns=["line", "Code", "id"], **identity)
        check(macros, facts, key="line code")


@pytest.mark.parametrize("keys", [["code"], ["id", "code"]])
def test_debezium_tells_what_becomes_of_the_primary_key(
    macros: Macros, refused: Refused, keys: list[str]
) -> None:
    """If a table has no primary key, Debezium uses a unique index as the key."""
    indexes = [index(key, primary=key == "id") for key in keys]
    told = {"identity": "f", "identity_columns": ["id", "code"], "format": "debezium"}
    facts = facts_of(column("code", "int4", not_null=True), keys=indexes, **told)
    if "id" not in keys:
        check(macros, facts, key="code")
        return
    check(macros, facts)
    with refused("its unique_key code is not the primary key of its upstream, so Debezium"):
        check(macros, facts, key="code")


def test_debezium_takes_one_unique_index_of_several_for_the_key(
    macros: Macros, refused: Refused
) -> None:
    """It is not known which unique index Debezium uses.

    The index may allow nulls, or may contain only some of the rows.
    """
    told = {"identity": "f", "identity_columns": ["id"], "unique_indexes": 2}
    without = facts_of(keys=[index("id", primary=False)], **told)
    check(macros, without)
    check(macros, facts_of(**told, format="debezium"))
    with refused("its upstream has no primary key but 2 unique indexes, and Debezium reports an"):
        check(macros, without | {"format": "debezium"})


def test_a_key_may_be_deferrable_where_another_index_is_not(macros: Macros) -> None:
    check(macros, facts_of(keys=[index("id", deferrable=True), index("id", primary=False)]))


@pytest.mark.parametrize(
    "key",
    [
        *(column("id", type) for type in ("bool", "int2", "int4", "int8", "numeric", "date")),
        *(column("id", type) for type in ("timestamp", "timestamptz", "bytea", "uuid")),
        *(column("id", type) for type in ("text", "varchar")),
    ],
    ids=lambda key: key["type"],
)
def test_a_key_that_both_order_alike_is_taken(macros: Macros, key: dict[str, Any]) -> None:
    facts = facts_of()
    check(macros, facts | {"columns": [key | {"not_null": True}]})


@pytest.mark.parametrize(
    ("key", "facts", "fact"),
    [
        (column("id", "float8"), {}, "but PostgreSQL and Spark order this type"),
        (column("id", "citext"), {}, "but PostgreSQL and Spark order this type"),
        (column("id", "bpchar"), {}, "but PostgreSQL and Spark order this type"),
        (column("id", "inet"), {}, "but PostgreSQL and Spark order this type"),
        (
            column("id", "mood", typtype="e", builtin=False),
            {},
            "but PostgreSQL and Spark order this type",
        ),
        (
            column("id", "text", collation={"name": "en_US", "bytewise": False}),
            {},
            "so PostgreSQL and Spark order it differently",
        ),
        (column("id", "text"), {"encoding": "LATIN1"}, "so PostgreSQL and Spark order it"),
        (
            column("id", "timestamptz"),
            {"zone": "Europe/Berlin"},
            "but Spark compares it in the time",
        ),
    ],
)
def test_a_key_that_both_order_otherwise_is_refused(
    macros: Macros, refused: Refused, key: dict[str, Any], facts: dict[str, Any], fact: str
) -> None:
    collation = f" with the collation {key['collation']['name']}" if "order it" in fact else ""
    with refused(f"the key id of its upstream is of type {key['type']}{collation}, {fact}"):
        check(macros, facts_of(**facts) | {"columns": [key | {"not_null": True}]})


@pytest.mark.parametrize(
    ("read", "fact"),
    [
        (column("c", "numeric", precision=None), ", but Spark would round its values"),
        (column("c", "numeric", precision=39), ", but Spark would round its values"),
        (column("c", "numeric", scale=-2), ", but Spark would round its values"),
        (column("c", "numeric", scale=12), ", but Spark would round its values"),
        *(
            (column("c", type), ", but Spark and the WAL show its values differently")
            for type in ("time", "timetz", "interval", "money", "_int4", "int4range", "bit", "xid")
        ),
        (
            column("c", "pair", typtype="c", builtin=False),
            ", but Spark and the WAL show its values differently",
        ),
        (column("c", "numeric"), ", but wal2json writes its NaN or infinity as null"),
        (column("c", "float4"), ", but wal2json writes its NaN or infinity as null"),
    ],
    ids=lambda value: value if isinstance(value, str) else value["shown"],
)
def test_a_column_that_is_not_read_right_is_refused_only_where_it_is_read(
    macros: Macros, refused: Refused, read: dict[str, Any], fact: str
) -> None:
    facts = facts_of(read)
    check(macros, facts, "id")
    with refused(f"its upstream has the column c of type {read['shown']}{fact}"):
        check(macros, facts, "id C")


@pytest.mark.parametrize(
    "read",
    [
        column("c", "numeric", not_null=True),
        column("c", "numeric", finite=True),
        column("c", "float8", not_null=True),
        column("c", "mood", typtype="e", builtin=False),
        column("c", "citext"),
        column("c", "int4", generated="s"),
        *(column("c", type) for type in ("json", "jsonb", "xml", "inet", "bpchar", "date", "oid")),
    ],
    ids=lambda read: read["type"],
)
def test_a_column_that_is_read_right_is_taken(macros: Macros, read: dict[str, Any]) -> None:
    check(macros, facts_of(read), "c")


def test_a_nan_is_told_by_other_plugins(macros: Macros) -> None:
    for plugin in (None, "test_decoding"):
        check(macros, facts_of(column("c", "numeric"), plugin=plugin), "c")


def test_a_generated_column_is_refused_unless_its_feed_is_known_to_tell_it(
    macros: Macros, refused: Refused
) -> None:
    stored, virtual = column("c", "int4", generated="s"), column("c", "int4", generated="v")
    for facts in (facts_of(stored, plugin=None), facts_of(virtual)):
        with refused("the column c of its upstream is generated"):
            check(macros, facts, "c")


def test_a_timestamp_without_a_zone_needs_a_jvm_in_utc(macros: Macros, refused: Refused) -> None:
    facts = facts_of(column("c", "timestamp"), column("z", "timestamptz"), zone="Europe/Berlin")
    check(macros, facts, "z")
    with refused("its upstream has the column c of type timestamp, but Spark reads it in the time"):
        check(macros, facts, "c")


def test_names_that_only_differ_in_case_are_refused(macros: Macros, refused: Refused) -> None:
    facts = facts_of(column("Name", "text"), column("name", "text"))
    check(macros, facts, "id")
    with refused("its upstream has 2 columns 'Name' that differ only in case"):
        check(macros, facts, "name")


def test_a_feed_need_not_tell_what_no_query_may_read(macros: Macros) -> None:
    columns = (column("a", "interval"), column("b", "numeric", precision=None), column("C", "text"))
    told = [each["name"] for each in columns if macros.call("is_postgres_read_type", each)]

    assert told == ["C"]


@pytest.mark.parametrize(
    ("type", "zone", "settings", "refuses"),
    [
        ("timestamp", "America/New_York", {JAVA8: "true"}, True),
        ("timestamp", "America/New_York", {JAVA8: "false"}, False),
        ("timestamp", "America/New_York", {}, False),
        ("timestamp", "Etc/UTC", None, False),
        ("date", "America/New_York", None, False),
    ],
)
def test_bounds_that_are_sent_in_the_zone_of_the_session_are_refused(
    macros: Macros, refused: Refused, type: str, zone: str, settings: Any, refuses: bool
) -> None:
    """If `settings` is None, the settings of the session must not be read."""
    if settings is not None:
        macros.results = [list(settings.items())]
    keys = [{"upstream": "at", "type": type}]
    says = refused("the key at of its upstream is a timestamp, but the session has")
    with says if refuses else nullcontext():
        macros.call("check_postgres_key_zone", {"zone": zone}, keys, "mv")


PADDED = "static_invoke(CharVarcharCodegenUtils.readSidePadding(code#2, 4))"
OPTIMIZED = [
    "Project [id#1 AS __bf_key_1#20, id#1, code#11, v#3]",
    "+- Filter {filter}",
    "   +- GlobalLimit 2147483647",
    "      +- LocalLimit 2147483647",
    f"         +- Project [id#1, {PADDED} AS code#11, v#3]",
    "            +- RelationV2[id#1, code#2, v#3] pg.public.padded",
]


@pytest.mark.parametrize(
    ("filter", "compared"),
    [
        ("(v#3 > 3)", None),
        ("(code#11 = ab  )", "code"),
        ("((v#3 > 3) AND code#11 IN (ab  ,cd  ))", "code"),
        ("(rtrim(code#11, None) = ab)", None),
        ("(isnotnull(code#11) AND (upper(code#11) = AB  ))", None),
        ("((rtrim(code#11, None) = ab) OR (code#11 = ab  ))", "code"),
        ("isnull(if ((code#11 = ab  )) null else code#11)", "code"),
        ("(code#11 LIKE a%b  AND (StartsWith(code#11, a) AND RLIKE(code#11, a)))", None),
        ("(a LIKE code#11)", "code"),
        ("(v#3 = code)", None),
    ],
)
def test_a_char_that_a_query_compares_is_refused(
    macros: Macros, refused: Refused, filter: str, compared: str | None
) -> None:
    lines = [line.format(filter=filter) for line in OPTIMIZED]

    with refused(f"its query compares {compared}, which is a") if compared else nullcontext():
        macros.call("postgres_check_query", {"optimized": lines})


@pytest.mark.parametrize(
    ("entry", "compared"),
    [(PADDED, None), (f"({PADDED} = ab  )", "code"), (f"rtrim({PADDED}, None)", None)],
)
def test_a_char_is_found_also_where_it_is_padded_in_an_expression(
    macros: Macros, refused: Refused, entry: str, compared: str | None
) -> None:
    lines = [
        "GlobalLimit 2147483647",
        "+- LocalLimit 2147483647",
        f"   +- Project [id#1 AS __bf_key_1#20, {entry} AS k#21]",
        "      +- RelationV2[id#1, code#2] pg.public.padded",
    ]

    with refused(f"its query compares {compared}, which is a") if compared else nullcontext():
        macros.call("postgres_check_query", {"optimized": lines})
