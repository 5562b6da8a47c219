"""The facts that a run reads from EXPLAIN EXTENDED."""

from __future__ import annotations

from typing import Any

import pytest

from support.macros import Macros

HEADER = "__bf_key_1: timestamp, k1: timestamp, carrier: string, v: bigint, __bf_end"


def test_the_plans_and_the_columns_of_the_query_are_read(explain: Any, explained_text: str) -> None:
    explained = explain(explained_text, ["k1"])

    assert explained["columns"] == "k1: timestamp, carrier: string, v: bigint"
    assert explained["key_types"] == ["timestamp"]
    assert explained["analyzed"][0] == "         +- WithCTE"
    assert explained["analyzed"][-1].endswith("d#46], false, false")
    assert explained["optimized"][0].startswith("Project [th#62 AS __bf_key_1#11, th#62 AS k1#34,")
    assert explained["optimized"][-1].endswith("d#66] parquet")
    assert len(explained["analyzed"]) == 12 and len(explained["optimized"]) == 6
    assert explained["names"] == [
        "__bf_key_1", "k1", "carrier", "v", "__bf_end", "th", "carrier", "v", "d",
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("unique_key", "columns", "types"),
    [
        (["a"], "a: decimal(10,2), b: int", ["decimal(10,2)"]),
        (
            ["a", "b"],
            "a: decimal(10,2), b: decimal(3,0), x: int",
            ["decimal(10,2)", "decimal(3,0)"],
        ),
        (["a", "b"], "x: int, a: string, b: timestamp_ntz", ["string", "timestamp_ntz"]),
        (["a, b: int"], "x: int, a, b: int: date", ["date"]),
        (["a"], "a: string collate UTF8_LCASE, b: int", ["string collate UTF8_LCASE"]),
        (["a"], "a: struct<x:int,y z, w:int>, b: int", ["struct<x:int,y z, w:int>"]),
        (["a"], "a: time(6), m: map<int,int>", ["time(6)"]),
    ],
)
def test_the_types_of_the_key_are_read_from_the_columns_in_front(
    explain: Any, explained_text: str, unique_key: list[str], columns: str, types: list[str]
) -> None:
    keys = [f"__bf_key_{n}: {type_}, " for n, type_ in enumerate(types, start=1)]
    explained = explain(
        explained_text.replace(HEADER, f"{''.join(keys)}{columns}, __bf_end"), unique_key
    )

    assert explained["key_types"] == types
    assert explained["columns"] == columns
    assert explained["unique_key"] == unique_key


def test_a_plan_that_spark_shortened_is_asked_for_again_whole(
    macros: Macros, up: Any, explained_text: str
) -> None:
    short = explained_text.replace("carrier#43, v#45L, scalar", "... 27 more fields]")
    macros.results = [[[short]], [], [[explained_text]]]

    explained = macros.call("explain_query", "select 1", up, ["k1"], up.render())

    show_all = "execute immediate 'set spark.sql.debug.maxToStringFields = 100000'"
    assert macros.statements[1].sql.endswith(show_all)
    assert explained["columns"] == "k1: timestamp, carrier: string, v: bigint"


@pytest.mark.parametrize("length", [200, 900, -300])
def test_a_plan_of_which_the_session_cuts_off_a_part_is_refused_by_the_settings_name(
    explain: Any, explained_text: str, refused: Any, length: int
) -> None:
    with refused("the session sets spark.sql.maxPlanStringLength, so Spark shortens the plan"):
        explain(f"{explained_text[:length]}... 1234 more characters", ["k1"])


def test_a_plan_of_which_the_session_hides_a_part_is_refused_by_the_settings_name(
    explain: Any, explained_text: str, refused: Any
) -> None:
    hidden = explained_text.replace("carrier", "*********(redacted)")
    with refused("the session sets spark.sql.redaction.string.regex, so Spark hides a "):
        explain(hidden, ["k1"])


UPSTREAM = [
    {"name": "id", "type": "bigint"},
    {"name": "a", "type": "int"},
    {"name": "b", "type": "string"},
]
RELATION = "Relation spark_catalog.lake.up[id#1L,a#2,b#12] parquet"


@pytest.mark.parametrize(
    ("plan", "read"),
    [
        (["Project [id#1L AS __bf_key_1#8, id#1L AS k#3L, null AS id#9]"], ["id"]),
        (["Project [id#1L, (b#12 = x) AS c#4]"], ["id", "b"]),
        (["Project [id#1L]", "+- Filter (isnotnull(a#2) AND (a#2 > 5))"], ["id", "a"]),
        (["Project [id#1L, a#2, b#12]"], None),
        (["Project [id#1L]", "+- Filter (c#4 = x", "   +- Relation y[) AND a#2)"], ["id", "a"]),
    ],
)
def test_the_columns_that_are_read_are_those_that_the_plan_names(
    macros: Macros, plan: list[str], read: list[str] | None
) -> None:
    explained = {"optimized": [*plan, f"   +- {RELATION}"], "upstream_columns": UPSTREAM}
    found = macros.call("find_read_columns", explained)["columns"]

    assert (None if found is None else [column["name"] for column in found]) == read


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


def test_the_metadata_of_files_is_refused(explain: Any, failed_text: str, refused: Any) -> None:
    """Barriers read the upstream as a common table expression, which has no such metadata."""
    error = UNRESOLVED.format(name="_metadata`.`file_path", suggestions="`id`, `v`")
    with refused("its query uses _metadata, which gives another value when the same row is read"):
        explain(failed_text.replace("{error}", error), ["id"])


def test_the_types_of_the_upstreams_columns_are_read(explain: Any, explained_text: str) -> None:
    columns = explain(explained_text, ["k1"])["upstream_columns"]

    assert [(c["name"], c["type"]) for c in columns] == [
        ("th", "timestamp"),
        ("carrier", "string"),
        ("v", "bigint"),
        ("d", "date"),
    ]


def test_a_version_may_have_less_columns_than_the_query_reads(
    macros: Macros, explain: Any, explained_text: str
) -> None:
    found = macros.call("find_read_columns", explain(explained_text, ["k1"]))
    assert found["columns"] and not found["lacks"]
    text = explained_text.replace(
        "__bf_end: int, th: timestamp, carrier: string,", "__bf_end: int, th: timestamp,"
    )
    explained = explain(text, ["k1"])

    columns = [(c["name"], c["type"]) for c in explained["upstream_columns"]]
    assert columns == [("th", "timestamp"), ("v", "bigint"), ("d", "date")]
    assert macros.call("find_read_columns", explained) == {"columns": None, "lacks": True}


@pytest.mark.parametrize(
    ("text", "columns"),
    [
        ("a: int, b c: decimal(10,2)", [("a", "int"), ("b c", "decimal(10,2)")]),
        ("a, b: int, region: eu: string", [("a, b", "int"), ("region: eu", "string")]),
        (
            "s: struct<a, b:int,c: d:map<int,int>>, e: int",
            [("s", "struct<a, b:int,c: d:map<int,int>>"), ("e", "int")],
        ),
        ("amount<10: int, x: array<int>", [("amount<10", "int"), ("x", "array<int>")]),
        ("", []),
    ],
)
def test_columns_are_told_apart_also_with_commas_and_colons_in_their_names(
    macros: Macros, text: str, columns: list[tuple[str, str]]
) -> None:
    found = macros.call("parse_columns", text)
    assert [(column["name"], column["type"]) for column in found] == columns


def test_the_plan_is_that_of_the_query_alone(explain: Any, explained_text: str) -> None:
    analyzed = explain(explained_text, ["k1"])["analyzed"]

    assert "subquery#" not in "\n".join(analyzed)


def test_a_text_that_looks_like_the_lines_of_a_subquery_hides_nothing(
    explain: Any, explained_text: str
) -> None:
    text = explained_text.replace(
        "(v#45L > cast(3 as bigint))", "(carrier#43 = x\n      :  rand())"
    )

    assert "      :  rand())" in "\n".join(explain(text, ["k1"])["analyzed"]).split("\n")


def test_a_key_in_another_case_is_the_column_of_the_query(
    explain: Any, explained_text: str
) -> None:
    explained = explain(explained_text, ["K1"])

    assert explained["unique_key"] == ["k1"]
    assert explained["key_types"] == ["timestamp"]


def test_of_two_columns_that_differ_in_case_the_key_is_the_one_that_spark_takes(
    explain: Any, explained_text: str
) -> None:
    """With spark.sql.caseSensitive, a table may have two such columns."""
    text = explained_text.replace(", k1: timestamp", ", K1: int, k1: timestamp")

    assert explain(text, ["k1"])["unique_key"] == ["k1"]
