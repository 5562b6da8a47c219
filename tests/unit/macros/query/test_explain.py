"""What is read off EXPLAIN EXTENDED."""

from __future__ import annotations

from typing import Any

import pytest

from support.macros import Macros


def test_the_plans_and_the_columns_of_the_query_are_read(explain: Any, explained_text: str) -> None:
    explained = explain(explained_text, ["k1"])

    assert explained["columns"] == "k1: timestamp, carrier: string, v: bigint"
    assert explained["key_types"] == ["timestamp"]
    assert explained["analyzed"][0] == "Project [k1#1134, k1#1134, carrier#1143, v#1145L]"
    assert explained["analyzed"][-1].endswith("d#1146] parquet")
    assert explained["optimized"][0].startswith("Project [th#1142 AS k1#1134, th#1142 AS k1#1134,")
    assert explained["optimized"][-1].endswith("d#1146] parquet")
    assert len(explained["analyzed"]) == 6 and len(explained["optimized"]) == 3


@pytest.mark.parametrize(
    ("unique_key", "columns", "types"),
    [
        (["a"], "a: decimal(10,2), b: int", ["decimal(10,2)"]),
        (["a", "b"], "a: decimal(10,2), b: decimal(3,0), a: x", ["decimal(10,2)", "decimal(3,0)"]),
        (["a", "b"], "a: string, b: timestamp_ntz, a: string", ["string", "timestamp_ntz"]),
        (["a, b: int"], "a, b: int: date, x: int", ["date"]),
        (["a"], "a: string collate UTF8_LCASE, a: int", ["string collate UTF8_LCASE"]),
    ],
)
def test_the_types_of_the_key_are_read_from_the_columns_in_front(
    explain: Any, explained_text: str, unique_key: list[str], columns: str, types: list[str]
) -> None:
    header = "k1: timestamp, k1: timestamp, carrier: string, v: bigint"
    explained = explain(explained_text.replace(header, columns), unique_key)

    assert explained["key_types"] == types


def test_the_last_of_several_key_columns_is_followed_by_the_querys_own(
    explain: Any, explained_text: str
) -> None:
    header = "k1: timestamp, k1: timestamp, carrier: string, v: bigint"
    text = explained_text.replace(header, "a: int, b: decimal(5,1), s: struct<x:int,y:string>")

    assert explain(text, ["a", "b"])["columns"] == "s: struct<x:int,y:string>"


@pytest.mark.parametrize("type_", ["struct<x:int,y:int>", "array<int>", "time(6)"])
def test_the_type_of_a_key_column_that_is_refused_is_told_alone(
    explain: Any, explained_text: str, type_: str
) -> None:
    header = "k1: timestamp, k1: timestamp, carrier: string, v: bigint"
    columns = f"a: {type_}, b: int, a: {type_}, b: int, m: map<int,int>"
    explained = explain(explained_text.replace(header, columns), ["a", "b"])

    assert explained["key_types"] == [type_, "int"]


def test_the_key_is_selected_in_front_of_the_querys_own_columns(
    macros: Macros, explain: Any, explained_text: str
) -> None:
    explain(explained_text, ["k1", "odd`name"], "select th as k1 from lake.up -- end\n;\n")

    sql = " ".join(macros.statements[0].sql.split())
    assert sql.endswith(
        "explain extended select `k1`, `odd``name`, __bf_query.* from ( "
        "select th as k1 from lake.up -- end ) as __bf_query"
    )
    assert "-- end\n" in macros.statements[0].sql


def test_a_plan_that_spark_shortened_is_asked_for_again_whole(
    macros: Macros, explained_text: str
) -> None:
    short = explained_text.replace("carrier#1143, v#1145L]", "... 27 more fields]")
    macros.results = [[[short]], [], [[explained_text]]]

    explained = macros.call("explain_query", "select 1", ["k1"])

    assert "set spark.sql.debug.maxToStringFields = 100000" in macros.statements[1].sql
    assert explained["analyzed"][0] == "Project [k1#1134, k1#1134, carrier#1143, v#1145L]"


def test_a_whole_plan_is_asked_for_once(macros: Macros, explain: Any, explained_text: str) -> None:
    explain(explained_text, ["k1"])

    assert len(macros.statements) == 1


UNRESOLVED = (
    "[UNRESOLVED_COLUMN.WITH_SUGGESTION] A column, variable, or function parameter with name "
    "`{name}` cannot be resolved. Did you mean one of the following? [{suggestions}]."
)


def test_a_key_column_that_the_query_lacks_is_named(
    explain: Any, failed_text: str, refused: Any
) -> None:
    text = failed_text.replace("{error}", UNRESOLVED.format(name="nokey", suggestions="`1`"))

    with refused(
        "its query does not return the column 'nokey' of unique_key. Select the primary key of "
        "the upstream, and name its columns in unique_key."
    ):
        explain(text, ["k1", "nokey"])


def test_a_query_that_spark_refuses_is_refused_in_sparks_words(
    explain: Any, failed_text: str, refused: Any
) -> None:
    error = UNRESOLVED.format(name="carier", suggestions="`carrier`, `v`")

    with refused(f"Spark cannot run its query: {error} Correct the query."):
        explain(failed_text.replace("{error}", error), ["k1"])


def test_a_misspelt_column_is_told_also_where_spark_suggests_a_key_column(
    explain: Any, failed_text: str, refused: Any
) -> None:
    text = failed_text.replace("{error}", UNRESOLVED.format(name="id_", suggestions="`id`, `v`"))

    with refused("Spark cannot run its query: "):
        explain(text, ["id"])


def test_a_query_without_any_plan_is_refused_in_sparks_words(explain: Any, refused: Any) -> None:
    with refused("Spark cannot run its query: no such thing. "):
        explain("java.lang.IllegalStateException: no such thing", ["k1"])


def analyzed(expression: str) -> dict[str, Any]:
    plan = [
        "Project [th#1]",
        f"+- Project [th#1, {expression}]",
        "   +- SubqueryAlias spark_catalog.s.up",
        "      +- Relation spark_catalog.s.up[th#1,at#2] parquet",
    ]
    return {"columns": "th: timestamp, c: int", "analyzed": plan}


@pytest.mark.parametrize(
    "expression",
    [
        "date_trunc(hour, th#1, Some(Europe/Berlin)) AS c#4",
        "to_timestamp(v#3, Some(yyyyMMdd), TimestampType, Some(UTC), true) AS c#4",
        "make_timestamp(y#5, 1, 1, 1, 1, 1.0, Some(CET), Some(UTC), true, TimestampType) AS c#4",
        "cast(th#1 as string) AS c#4",
        "cast(th#1 as date) AS c#4",
        "cast(v#3 as timestamp) AS c#4",
        "cast(th#1 as timestamp_ntz) AS c#4",
        "cast(ths#1 as array<date>) AS c#4",
        "th#1 + INTERVAL '30' DAY AS c#4",
        "th#1 - INTERVAL '1' MONTH AS c#4",
    ],
)
def test_a_query_that_may_depend_on_the_time_zone_is_told(macros: Macros, expression: str) -> None:
    assert macros.call("uses_time_zone", analyzed(expression)) is True


def test_a_difference_of_times_depends_on_the_time_zone(macros: Macros) -> None:
    explained = analyzed("(th#1 - at#2) AS c#4")
    explained["columns"] = "th: timestamp, c: interval day to second"

    assert macros.call("uses_time_zone", explained) is True


@pytest.mark.parametrize(
    "expression", ["th#1", "cast(v#3 as bigint) AS c#4", "upper(carrier#2) AS as_string#4"]
)
def test_any_other_query_does_not_depend_on_the_time_zone(macros: Macros, expression: str) -> None:
    assert macros.call("uses_time_zone", analyzed(expression)) is False


@pytest.mark.parametrize(
    ("expression", "depends"),
    [
        ("cast(code#1 as int) AS n#4", True),
        ("(id#1 + 1) AS n#4", True),
        ("(id#1 - delay#2) AS n#4", True),
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
    assert macros.call("uses_ansi_mode", analyzed(expression)) is depends


@pytest.mark.parametrize(
    ("query", "names"),
    [
        ("select id, md5(to_json(struct(*))) as h from up", "id,name"),
        ("select id, md5(to_json(struct(up . *))) as h from up", "id,name"),
        ("select id, concat(id, `s`.`up`.*) as h from up", "id,name"),
        ("select id, to_json(named_struct('k', id), up.*) as h from up", "id,name"),
        ("with base as (select upper(name) as n, * from up) select id, n from base", None),
        ("select id from (select up.* from up) where id in (1, 2) and (2. * id) > 1", None),
        ("select id, (id), name, * except (name) from up", None),
        ("select * from up", None),
        ("select up.* except (name) from up where id * 2 > 1", None),
        ("select id, (id * 2) as n, '(*)' as text /* (*) */ from up", None),
    ],
)
def test_the_columns_that_a_star_inside_of_an_expression_stands_for_are_told(
    macros: Macros, query: str, names: str | None
) -> None:
    explained = {
        "analyzed": [
            "Project [id#1L, h#3]",
            "+- SubqueryAlias spark_catalog.s.up",
            "   +- Relation spark_catalog.s.up[id#1L,name#2] parquet",
        ]
    }

    assert macros.call("columns_of_inner_star", explained, query) == names
