"""Columns that a table format does not accept."""

from __future__ import annotations

from typing import Any

import pytest

from support.macros import Macros

FEED = {"delta.enableChangeDataFeed": "true"}


def check(macros: Macros, name: str, type_: str, file_format: str, **properties: Any) -> None:
    macros.config["file_format"] = file_format
    columns = [{"name": "k", "type": "int"}, {"name": name, "type": type_}]
    macros.call("check_columns", columns, properties)


@pytest.mark.parametrize(
    ("type_", "file_format", "reason"),
    [
        ("interval day to second", "delta", "Delta has no interval"),
        ("array<interval year>", "iceberg", "Iceberg has no interval"),
        ("time(6)", "delta", "Delta has no time"),
        ("geometry(4326)", "iceberg", "Iceberg has no geometry"),
        ("struct<a:struct<>>", "delta", "Delta has no struct without fields"),
        ("void", "delta", "Delta cannot store values without a type"),
        ("map<string,void>", "iceberg", "Iceberg cannot store values without a type"),
        ("string collate UTF8_LCASE", "iceberg", "Iceberg cannot store a collation"),
        *(
            (f"struct<{fields}>", "delta", "the name of a field cannot have a comma or a colon")
            for fields in ("xml:lang:int", "n:int,a b:c:int", "a,b:int", "n:map<int,int>,a,b:int")
        ),
    ],
)
def test_a_type_that_the_format_does_not_have_is_refused(
    macros: Macros, refused: Any, type_: str, file_format: str, reason: str
) -> None:
    with refused(f"its query returns the column 'c' of the type {type_}, but {reason}. Cast the"):
        check(macros, "c", type_, file_format)


@pytest.mark.parametrize("type_", ["void", "array<variant>"])
def test_some_types_need_a_later_format_of_iceberg(
    macros: Macros, refused: Any, type_: str
) -> None:
    check(macros, "c", type_, "iceberg", **{"format-version": "3"})
    with refused(f"its query returns the column 'c' of the type {type_}, but Iceberg supports "):
        check(macros, "c", type_, "iceberg", **{"format-version": 2})


@pytest.mark.parametrize(
    "type_",
    [
        *("struct<time:int,void:string,`interval x`:int>", "timestamp_ntz"),
        *(
            "map<array<int>,variant>",
            "struct<d:decimal(10,2),m:map<int,map<decimal(5,1),int>>,`1`:int>",
        ),
    ],
)
@pytest.mark.parametrize("file_format", ["delta", "iceberg"])
def test_other_types_and_fields_called_like_types_are_let_pass(
    macros: Macros, type_: str, file_format: str
) -> None:
    check(macros, "c", type_, file_format)


@pytest.mark.parametrize(
    ("name", "file_format", "reason"),
    [
        ("_CHANGE_type", "delta", "the change data feed of a Delta table reserves"),
        ("_metadata", "delta", "Delta reserves this name"),
        ("_target_row_present_", "delta", "Delta reserves this name"),
        ("_row_ID", "iceberg", "Iceberg reserves this name"),
        ("_pos", "iceberg", "Iceberg reserves this name"),
        ("", "iceberg", "Iceberg does not allow a column without a name"),
        ("__bf_deleted", "iceberg", "names that begin with __bf_ are reserved for barriers"),
    ],
)
def test_a_name_that_the_format_keeps_is_refused(
    macros: Macros, refused: Any, name: str, file_format: str, reason: str
) -> None:
    with refused(f"its query returns the column '{name}', but {reason}"):
        check(macros, name, "int", file_format, **(FEED if file_format == "delta" else {}))


@pytest.mark.parametrize(
    ("name", "file_format"),
    [("_change_type", "delta"), ("_change_type", "iceberg"), ("_pos", "delta"), ("", "delta")],
)
def test_a_name_is_let_pass_where_the_format_takes_it(
    macros: Macros, name: str, file_format: str
) -> None:
    off = {} if file_format == "iceberg" else {"delta.enableChangeDataFeed": "false"}
    check(macros, name, "int", file_format, **off)
