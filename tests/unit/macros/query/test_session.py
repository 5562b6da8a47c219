"""The session settings on which a query's values depend, judging by the analyzed plan."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from support.macros import Macros

Uses = Callable[..., bool]

COLUMNS = {
    "id": "int", "at": "timestamp", "until": "timestamp", "day": "date", "text": "string",
    "times": "array<timestamp>", "s": "struct<at:timestamp,n:int>", "local": "timestamp_ntz",
    "v": "variant", "tags": "array<string>",
}  # fmt: skip
RELATION = ",".join(f"{name}#{number}" for number, name in enumerate(COLUMNS, start=1))


def explained(expression: str, filter_: str = "") -> dict[str, Any]:
    """Return the plans of a query with the column id and these columns."""
    columns = [f"c{n}" for n in range(expression.count("AS") or 1)]
    filters = [f"+- Filter {filter_}"] if filter_ else []
    name = expression.rpartition("#")[0].split(" AS ")[-1]
    entries = f"id#1 AS __bf_key_1#90, id#1, {expression}, 0 AS __bf_end#91, null AS id#92"
    projection = f"Project [id#1, {expression}]"
    relation = f"Relation spark_catalog.lake.up[{RELATION}] parquet"
    return {
        "columns": "id: int, " + ", ".join(f"{name}: int" for name in columns),
        "names": ["__bf_key_1", "id", name, "__bf_end", "id"],
        "analyzed": [f"+- {projection}", *filters, f"+- {relation}"],
        "optimized": [
            f"Project [{entries}]", *filters,
            "+- GlobalLimit 2147483647", "+- LocalLimit 2147483647", f"+- {relation}",
        ],
        "upstream_columns": [{"name": name, "type": type_} for name, type_ in COLUMNS.items()],
    }  # fmt: skip


def uses(macros: Macros, setting: str, plans: dict[str, Any], query: str = "select 1") -> bool:
    return f"spark.sql.{setting}" in macros.call("find_used_settings", plans, query)


@pytest.fixture
def uses_zone(macros: Macros) -> Uses:
    return lambda *plan: uses(macros, "session.timeZone", explained(*plan))


@pytest.mark.parametrize(
    "expression",
    [
        "date_trunc(hour, at#2, Some(Europe/Berlin)) AS c#14",
        "to_timestamp(text#5, Some(yyyyMMdd), TimestampType, Some(UTC), true) AS c#14",
        "make_timestamp(id#1, 1, 1, 1, 1, 1.0, Some(CET), Some(UTC), true, TimestampType) AS c#14",
        "from_csv(StructField(a,TimestampType,true), text#5) AS c#14",
        "cast(at#2 as string) AS c#14",
        "cast(at#2 as date) AS c#14",
        "cast(text#5 as timestamp) AS c#14",
        "cast(tags#10 as array<timestamp>) AS c#14",
        "cast(s#7 as struct<a:decimal(3,1),at:timestamp>) AS c#14",
        "cast(day#4 as timestamp) AS c#14",
        "cast(at#2 as timestamp_ntz) AS c#14",
        "cast(times#6 as array<date>) AS c#14",
        "(text#5 = 2024-06-01 12:00:00) AS c#14",
        "extract(HOUR FROM at#2) AS c#14",
        "extract(DAY FROM (at#2 - until#3)) AS c#14",
        "at#2 + INTERVAL '30' DAY AS c#14",
        "at#2 + make_ym_interval(0, id#1) AS c#14",
        "try_subtract(at#2, INTERVAL '1' DAY) AS c#14",
        "timestamp_seconds(id#1) + INTERVAL '1' MONTH AS c#14",
        "(at#2 - until#3) AS c#14",
        "times#6[0] AS c#14",
        "s#7.at + INTERVAL '30' DAY AS c#14",
        "s#7.n AS c#14",
        "cast(v#9 as string) AS c#14",
        "coalesce(at#2, until#3) AS c#14",
    ],
)
def test_a_query_that_may_depend_on_the_time_zone_is_told(uses_zone: Uses, expression: str) -> None:
    assert uses_zone(expression) is True
    assert uses_zone("text#5", f"NOT ({expression.split(' AS ')[0]} = id#1)") is True


@pytest.mark.parametrize(
    "item",
    [
        "at#2",
        "at#2 AS seen#14",
        "times#6 AS c#14",
        "v#9",
        "cast(day#4 as string) AS c#14",
        "cast(id#1 as bigint) AS c#14",
        "upper(text#5) AS as_timestamp#14",
        "day#4 + INTERVAL '30' DAY AS c#14",
        "local#8 + INTERVAL '30' DAY AS c#14",
        "transform(tags#10, lambdafunction(upper(lambda at#18), lambda at#18, false)) AS c#14",
    ],
)
def test_any_other_query_does_not_depend_on_the_time_zone(uses_zone: Uses, item: str) -> None:
    assert uses_zone(item) is False


def test_what_is_only_passed_to_another_projection_is_not_computed(macros: Macros) -> None:
    plans = explained("at#2")
    plans["optimized"][-1:] = ["+- Project [id#1, at#2]", plans["optimized"][-1]]
    assert uses(macros, "session.timeZone", plans) is False

    plans["optimized"][-2] = "+- Project [id#1, at#2, upper(text#5) AS t#20]"
    assert uses(macros, "session.timeZone", plans) is True


@pytest.mark.parametrize(
    "expression",
    [
        "format_string()%s, at#2, text#5) AS c#14",
        "format_string()%s, at#2, () AS c#14",
        "concat(x\n+- y, text#5) AS c#14, at#2",
    ],
)
def test_a_text_that_hides_where_an_entry_ends_lets_every_column_with_a_zone_count(
    macros: Macros, expression: str
) -> None:
    """The plan prints texts without quotes, so `, at#2, ` may also be in the brackets of a
    function.
    """
    plans = explained(expression)
    plans["optimized"][:1] = plans["optimized"][0].split("\n")

    assert uses(macros, "session.timeZone", plans) is True


@pytest.mark.parametrize(
    ("expression", "depends"),
    [
        ("cast(code#1 as int) AS n#4", True),
        ("(id#1 + 1) AS n#4", True),
        ("(id#1 - delay#2) AS n#4", True),
        ("-id#1 AS n#4", True),
        ("size(tags#1, true) AS n#4", True),
        ("tags#1[0] AS n#4", True),
        ("gettimestamp(v#3, yyyy, TimestampType, Some(UTC), true) AS n#4", True),
        ("id#1 AS cast_id#4", False),
        ("upper(carrier#2) AS as_string#4", False),
        ("CASE WHEN ((id#1 > 5) AND isnotnull(b#2)) THEN a#1 ELSE b#2 END AS n#4", False),
    ],
)
def test_a_query_that_may_depend_on_ansi_mode_is_told(
    macros: Macros, expression: str, depends: bool
) -> None:
    assert uses(macros, "ansi.enabled", explained(expression)) is depends


def test_a_cast_that_only_the_optimized_plan_shows_counts(macros: Macros) -> None:
    """The analyzed plan prints `nvl(id, text)` as in the query. Only the optimized plan shows the
    cast.
    """
    hidden = explained("nvl(id#1, text#5) AS c#14")
    assert uses(macros, "ansi.enabled", hidden) is False

    hidden["optimized"][0] = "Project [id#1, coalesce(cast(id#1 as string), text#5) AS c#14]"
    assert uses(macros, "ansi.enabled", hidden) is True

    hidden["optimized"][0] = "Project [id#1, coalesce(cast(text#5 as timestamp), day#4) AS c#14]"
    assert uses(macros, "session.timeZone", hidden) is True


def test_the_settings_that_are_used_are_named(macros: Macros) -> None:
    def used(expression: str, query: str = "select 1") -> Any:
        return macros.call("find_used_settings", explained(expression), query)

    assert used("text#5") == used("text#5", """select '"a"', `"b"` /* "c" */""") == []
    assert used("text#5", 'select "a"') == ["spark.sql.ansi.doubleQuotedIdentifiers"]
    assert used("at#2 + INTERVAL '1' DAY AS c#14") == [
        "spark.sql.session.timeZone",
        "spark.sql.ansi.enabled",
    ]
