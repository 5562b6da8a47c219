"""Test values for columns outside the key. A wrong cast would change many of these values."""

from __future__ import annotations

from exactness.keys import KEY_TYPES, KeyType, Written


def _written(sql: str, *values: str) -> KeyType:
    return KeyType(sql, tuple(map(Written, values)))


_FLOATS = ("'NaN'", "'-0.0'", "'0.0'", "'Infinity'", "'-Infinity'", "1.1", "1e30", "'1.4E-45'")

PAYLOAD_TYPES: dict[str, KeyType] = {
    **KEY_TYPES,
    "float": _written("float", *_FLOATS),
    "double": _written("double", *_FLOATS, "'4.9E-324'", "'1.7976931348623157E308'"),
    "decimal(1,0)": _written("decimal(1,0)", "0", "-9", "9"),
    "decimal(9,9)": _written("decimal(9,9)", "'0.000000001'", "'-0.999999999'", "0"),
    "decimal(38,38)": _written("decimal(38,38)", "'1e-38'", "'-0." + 38 * "9" + "'", "0"),
    "text": _written(
        "string",
        "X'00'",
        "X'610062'",
        "X'61ff62'",  # not UTF-8
        "X'f09f9982e2808d'",
        "X'c3a9'",
        "X'65cc81'",
        "X'efbbbf'",
        "'it''s'",
        "'\"'",
        r"'a\\b'",
        "''",
        "X'247b787d'",
    ),
    "array<double>": _written(
        "array<double>",
        "array()",
        "array(double('NaN'), double('-0.0'), null, 0.0D)",
        "array(null)",
        "array(1.5D)",
    ),
    "array<array<string>>": _written(
        "array<array<string>>",
        "array(array(), null, array(null, '', 'null'))",
        "array(array('a''b', '\"'))",
        "array()",
    ),
    "array<timestamp>": _written(
        "array<timestamp>",
        "array(timestamp'2024-03-10 07:30:00Z', null, timestamp'1500-01-01 00:00:00Z')",
        "array(timestamp'9999-12-31 11:59:59.999999Z')",
    ),
    "map<string,int>": _written(
        "map<string,int>",
        "map()",
        "map('a', 1, '', null)",
        "map('a', 1)",
        "map('b', 2, 'a', 1)",
        "map('f', 6, 'e', 5, 'd', 4, 'c', 3, 'b', 2, 'a', 1)",
    ),
    "map<int,array<date>>": _written(
        "map<int,array<date>>",
        "map(1, array(date'1500-03-01', null), -1, null)",
        "map(0, array(date'9999-12-31'))",
        "map()",
    ),
    "struct": _written(
        "struct<a:int,b:string>",
        "named_struct('a', 1, 'b', 'x')",
        "named_struct('a', null, 'b', null)",
        "named_struct('a', null, 'b', '')",
    ),
    "nested": _written(
        "struct<a:struct<x:decimal(38,18),y:timestamp_ntz>,b:array<map<string,binary>>>",
        "named_struct('a', named_struct('x', 1.5, 'y', timestamp_ntz'0001-01-01 00:00:00'),"
        " 'b', array(map('q', X'00ff'), null, map()))",
        "named_struct('a', null, 'b', null)",
        "named_struct('a', named_struct('x', null, 'y', null), 'b', array())",
    ),
    "variant": _written(
        "variant",
        """parse_json('{"a": [1, 2.50, null, "x"], "b": {}}')""",
        "parse_json('null')",
        "parse_json('\"text\"')",
        "parse_json('[]')",
        "parse_json('12345678901234567890')",
    ),
}

TIMESTAMPS = _written(
    "timestamp",
    # Several times are close to a clock change or a skipped day in a time zone of ZONES.
    "timestamp'2024-03-10 06:59:59.999999Z'",
    "timestamp'2024-03-10 07:30:00Z'",
    "timestamp'2024-11-03 05:30:00Z'",
    "timestamp'2024-11-03 06:30:00Z'",
    "timestamp'2011-12-30 09:59:59Z'",
    "timestamp'2011-12-30 10:00:00Z'",
    "timestamp'2024-06-01 12:00:00Z'",
    "timestamp'2024-06-01 12:00:00.000001Z'",
    "timestamp'2024-06-01 16:00:00Z'",
    "timestamp'2024-06-01 06:30:00Z'",
    "timestamp'2024-06-01 22:59:59Z'",
    "timestamp'1970-01-01 00:00:00Z'",
    "timestamp'1880-05-05 05:05:05Z'",
    "timestamp'1582-10-04 10:10:10Z'",
    "timestamp'1582-10-10 10:10:10Z'",
    "timestamp'0001-01-03 00:00:00Z'",
    "timestamp'9999-12-30 00:00:00Z'",
)
"""The values of the column `ts`, which the queries of zoned.py use in their expressions."""

ZONES = ("America/New_York", "Pacific/Apia", "Asia/Kolkata", "UTC")
