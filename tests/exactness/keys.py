"""Test values for each type that a key may have. Many values are hard to sort or to hash."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import date, datetime, timedelta
from decimal import Decimal
from typing import Any


@dataclass(frozen=True)
class KeyType:
    """A Spark type and its test values: first unusual values, then plain values."""

    sql: str
    values: tuple[Any, ...]


@dataclass(frozen=True)
class Written:
    """The SQL expression of a value that Python cannot represent."""

    sql: str


_LONG = "the same forty characters, which statistics cut off: "
_SECOND = timedelta(seconds=1)

KEY_TYPES: dict[str, KeyType] = {
    "tinyint": KeyType("tinyint", (-128, 127, -1, 0, *range(1, 60))),
    "smallint": KeyType("smallint", (-(2**15), 2**15 - 1, -1, 0, *range(1, 60))),
    "int": KeyType("int", (-(2**31), 2**31 - 1, -1, 0, *range(1, 60))),
    "bigint": KeyType("bigint", (-(2**63), 2**63 - 1, 2**53 + 1, 2**53, -1, *range(60))),
    "string": KeyType(
        "string",
        (
            "",
            " ",
            "'",
            '"',
            "\\",
            "\\'",
            "a\nb",
            "%_{{ x }}",
            "null",
            "z",
            "Z",
            "é",
            "e\u0301",
            "ß",
            "\uffee",
            "\U0001f600",
            _LONG + "a",
            _LONG + "b",
            _LONG,
            *(f"k{number}" for number in range(50)),
        ),
    ),
    "date": KeyType(
        "date",
        (
            date(1, 1, 1),
            date(1582, 10, 4),
            date(1582, 10, 15),
            date(1500, 3, 1),
            date(1969, 12, 31),
            date(9999, 12, 31),
            *(date(2024, 2, 1) + timedelta(days=number) for number in range(60)),
        ),
    ),
    "timestamp": KeyType(
        "timestamp",
        (
            datetime(1, 1, 1),
            datetime(1582, 10, 4, 23, 59, 59, 999999),
            datetime(1900, 1, 1, 0, 0, 0, 1),
            datetime(1969, 12, 31, 23, 59, 59, 999999),
            datetime(2024, 3, 31, 1, 30),
            datetime(2024, 3, 31, 2, 30),
            datetime(2024, 3, 31, 2, 30, 0, 1),
            datetime(2024, 3, 31, 2, 30, 0, 999),
            datetime(2024, 3, 31, 2, 30, 0, 1000),
            datetime(9999, 12, 31, 23, 59, 59, 999999),
            *(datetime(2024, 10, 27) + 1800 * _SECOND * number for number in range(50)),
        ),
    ),
    "timestamp_ntz": KeyType(
        "timestamp_ntz",
        (
            datetime(1, 1, 1),
            datetime(1582, 10, 10, 0, 0, 0, 1),
            datetime(1969, 12, 31, 23, 59, 59, 999999),
            datetime(2024, 3, 31, 2, 30, 0, 999999),
            datetime(2024, 3, 31, 2, 30),
            datetime(9999, 12, 31, 23, 59, 59, 999999),
            *(datetime(2024, 3, 31) + 1800 * _SECOND * number for number in range(50)),
        ),
    ),
    "decimal": KeyType(
        "decimal(12,3)",
        (
            Decimal("-999999999.999"),
            Decimal("999999999.999"),
            Decimal("-0.001"),
            Decimal("0.000"),
            Decimal("0.100"),
            *(Decimal(number) / 8 for number in range(8, 400, 8)),
        ),
    ),
    "wide decimal": KeyType(
        "decimal(38,10)",
        (
            Decimal("-9999999999999999999999999999.9999999999"),
            Decimal("9999999999999999999999999999.9999999999"),
            Decimal("9999999999999999999999999999.9999999998"),
            Decimal("0.0000000001"),
            *(Decimal(number) / 4 for number in range(50)),
        ),
    ),
    "boolean": KeyType("boolean", (False, True)),
    "binary": KeyType(
        "binary",
        (
            b"",
            b"\x00",
            b"\x00\x00",
            b"'",
            b"\\",
            b"\x7f",
            b"\x80",
            b"\xff",
            b"\xff\xff",
            *(bytes([number, 0xC3]) for number in range(0, 250, 5)),
        ),
    ),
}


def literal(value: Any, sql_type: str) -> str:
    """Return the value as a SQL literal of exactly this type."""
    if value is None:
        return f"cast(null as {sql_type})"
    if isinstance(value, Written):
        return f"cast({value.sql} as {sql_type})"
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, bytes):
        return f"X'{value.hex()}'"
    if isinstance(value, str):
        return f"cast(X'{value.encode().hex()}' as string)"
    if isinstance(value, datetime):
        zone = "+00:00" if sql_type == "timestamp" else ""
        return f"{sql_type}'{value.isoformat(sep=' ', timespec='microseconds')}{zone}'"
    if isinstance(value, date):
        return f"date'{value.isoformat()}'"
    return f"cast('{value}' as {sql_type})"
