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


def test_a_plan_that_spark_shortened_is_asked_for_again_whole(
    macros: Macros, up: Any, explained_text: str
) -> None:
    short = explained_text.replace("carrier#1143, v#1145L, scalar", "... 27 more fields]")
    macros.results = [[[short]], [], [[explained_text]]]

    explained = macros.call("explain_query", "select 1", ["k1"], up.render())

    show_all = "execute immediate 'set spark.sql.debug.maxToStringFields = 100000'"
    assert macros.statements[1].sql.endswith(show_all)
    assert explained["analyzed"][0] == "Project [k1#1134, k1#1134, carrier#1143, v#1145L]"


UPSTREAM = [
    {"name": "id", "type": "bigint", "id": "1"},
    {"name": "a", "type": "int", "id": "2"},
    {"name": "b", "type": "string", "id": "12"},
]
RELATION = "Relation spark_catalog.lake.up[id#1L,a#2,b#12] parquet"


@pytest.mark.parametrize(
    ("plan", "read"),
    [
        (["Project [id#1L AS k#3L, id#1L AS k#3L, null AS __bf_upstream#9]"], ["id"]),
        (["Project [id#1L, (b#12 = x) AS c#4]"], ["id", "b"]),
        (["Project [id#1L]", "+- Filter (isnotnull(a#2) AND (a#2 > 5))"], ["id", "a"]),
        (["Project [id#1L, a#2, b#12]"], None),
        (["Project [id#1L]", "+- Generate explode(a#2)"], None),
        (["Project [id#1L]", "+- Union false, false"], None),
    ],
)
def test_the_columns_that_are_read_are_those_that_the_plan_names(
    macros: Macros, plan: list[str], read: list[str] | None
) -> None:
    explained = {
        "optimized": [*plan, f"   +- {RELATION}"],
        "analyzed": ["Project [id#1L]", f"+- {RELATION}"],
        "upstream_columns": UPSTREAM,
    }
    found = macros.call("find_read_columns", explained, "select 1")

    assert (None if found is None else [column["name"] for column in found]) == read


def test_columns_of_which_the_plan_tells_too_little_may_all_be_read(macros: Macros) -> None:
    plan = ["Project [id#1L]", f"+- {RELATION}"]
    for unknown in ({"id": ""}, {"type": "unknown"}):
        columns = [*UPSTREAM[:2], {**UPSTREAM[2], **unknown}]
        explained = {"optimized": plan, "analyzed": plan, "upstream_columns": columns}
        assert macros.call("find_read_columns", explained, "select 1") is None


PARTS = "RelationV2[{0}1L, a#{0}2, b#{0}3, label#{0}4] lake.s.parts"
FILTERED = {
    "itself": [
        "Project [id#1L, a#2]",
        "+- Filter (label#4 = EU)",
        f"   +- {PARTS.format('').replace('[1L', '[id#1L')}",
    ],
    "by an alias": [
        "Project [id#1L, a#2]",
        "+- Filter (upper#9 = EU)",
        "   +- Project [id#1L, a#2, upper(label#4) AS upper#9, b#3 AS c#8]",
        f"      +- {PARTS.format('').replace('[1L', '[id#1L')}",
    ],
    "by a common table expression": [
        "WithCTE",
        ":- CTERelationDef 0, false",
        ":  +- SubqueryAlias u",
        ":     +- Project [id#1L, a#2, label#4 AS r#7, b#3]",
        f":        +- {PARTS.format('').replace('[1L', '[id#1L')}",
        "+- Project [id#21L, a#22]",
        "   +- Filter (R#24 = EU)",
        "      +- SubqueryAlias u",
        "         +- CTERelationRef 0, true, [id#21L, a#22, r#24, b#23], false, false",
    ],
    "twice by a common table expression": [
        "WithCTE",
        ":- CTERelationDef 0, false",
        ":  +- SubqueryAlias u",
        ":     +- Project [id#1L, a#2, label#4 AS r#7, b#3]",
        f":        +- {PARTS.format('').replace('[1L', '[id#1L')}",
        "+- Project [id#21L, a#22]",
        "   +- Filter ((r#24 > EU) AND (r#24 < US))",
        "      +- SubqueryAlias u",
        "         +- CTERelationRef 0, true, [id#21L, a#22, r#24, b#23], false, false",
    ],
}


@pytest.mark.parametrize("analyzed", FILTERED.values(), ids=FILTERED)
def test_a_column_is_read_by_a_filter_that_the_source_evaluates(
    macros: Macros, analyzed: list[str]
) -> None:
    """It is not in the optimized plan, whose columns may have ids of their own."""
    relation = PARTS.format("3").replace("[31L", "[id#31L").replace(", b#33", "")
    names = zip(("id", "a", "b", "label"), ("1", "2", "3", "4"), strict=True)
    explained = {
        "analyzed": analyzed,
        "optimized": ["Project [id#31L, a#32]", f"+- {relation}"],
        "upstream_columns": [{"name": n, "type": "int", "id": i} for n, i in names],
    }

    found = macros.call("find_read_columns", explained, "select 'a text' as b")
    assert [column["name"] for column in found] == ["id", "a", "label"]
    for text in ("'\n+- Project ['", r"'\u000a'", "r'\n'"):
        assert macros.call("find_read_columns", explained, f"select {text}") is None


SALES = "Relation spark_catalog.lake.sales[id#1,a#2,gross#3,b#4] parquet"


@pytest.mark.parametrize(
    ("analyzed", "columns"),
    [
        (["Project [id#1, (a#2 * 2) AS gross#8, (gross#3 * 3) AS tax#9]"], ["gross"]),
        (["Project [id#1, (a#2 * 2) AS GROSS#8, (gross#3 * 3) AS tax#9]"], ["gross"]),
        (["Project [(a#2", "b) AS gross#8, gross#3]", "+- SubqueryAlias u"], ["gross"]),
        (["Project [id#1, a#2 AS b#8, b#4 AS a#9]"], ["b"]),
        # What comes first was read so before.
        (["Project [upper(b#4) AS b#8, concat(b#4, x) AS c#9]"], None),
        (["Project [a#2 AS b#8, (b#8 + 1) AS c#9]"], None),
        (["Project [id#1, a#2 AS net#8]", "+- Filter (gross#3 > 1)"], None),
        (["Project [id#1, n#8, n#8 AS m#9]", "+- Project [id#1, (a#2 * 2) AS n#8]"], []),
        (
            [
                "Project [id#1, (a#2 * 2) AS gross#8, tax#9, (tax#9 + 1) AS more#10]",
                "+- Project [id#1, a#2, gross#3, b#4, (gross#3 * 3) AS tax#9]",
            ],
            ["gross"],
        ),
        (
            [
                "Project [(a#2 * 2) AS gross#8, tax#9, (tax#9 + 1) AS more#10]",
                "+- Project [a#2, gross#3, b#4, coalesce(a#2, gross#3, 0) AS tax#9]",
            ],
            ["gross"],
        ),
        (
            [
                "Project [gross#8, (gross#8 * 3) AS tax#9]",
                "+- Project [id#1, a#2, gross#3, b#4, (a#2 * 2) AS gross#8]",
            ],
            [],
        ),
    ],
)
def test_the_columns_that_stand_in_the_place_of_an_alias(
    macros: Macros, analyzed: list[str], columns: list[str] | None
) -> None:
    names = zip(("id", "a", "gross", "b"), ("1", "2", "3", "4"), strict=True)
    explained = {
        "analyzed": ["Project [id#1, id#1]", "+- SubqueryAlias q", *analyzed, f"+- {SALES}"],
        "upstream_columns": [{"name": n, "type": "int", "id": i} for n, i in names],
    }

    assert macros.call("find_alias_columns", explained) == columns
    # At a version that has not got them yet.
    explained["upstream_columns"] = explained["upstream_columns"][:2]
    assert macros.call("find_alias_columns", explained) == (columns and [])


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


@pytest.mark.parametrize(
    ("query", "names"),
    [
        ("select id, md5(to_json(struct(*))) as h from up", "id,name"),
        ("select id, md5(to_json(struct(up . *))) as h from up", "id,name"),
        ("select id, concat(id, `s`.`up`.*) as h from up", "id,name"),
        ("select id, to_json(named_struct('k', id), up.*) as h from up", "id,name"),
        ("select id, concat_ws('|', `my up`.*) as h from s.up as `my up`", "id,name"),
        ("select id, concat(s . `order-items` . *) as h from s.`order-items`", "id,name"),
        ("select id, to_json(struct(`a``b`.*)) as h from s.up as `a``b`", "id,name"),
        ("select id, concat(`a)`, *) as h from (select id as `a)` from up)", "id,name"),
        ("select id, `(`, * from up", None),
        ("select id, to_json(struct(2up.*)) as h from s.up as 2up", "id,name"),
        ("select id, md5(cast((id, *) as string)) as h from up", "id,name"),
        ("select id from up where id > 0 and not ( up.*) = (1, 'a')", "id,name"),
        ("select id, md5(concat((values), *)) as h from (select id as values from up)", "id,name"),
        ("with base as (select upper(name) as n, * from up) select id, n from base", None),
        ("select id from ((select id, * from up)) where id in (from up select id, *)", None),
        ("select id from (table up)", None),
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
    explained = {"upstream_columns": [{"name": "id"}, {"name": "name"}]}

    assert macros.call("columns_of_inner_star", explained, query) == names


def test_the_types_of_the_upstreams_columns_are_read(
    macros: Macros, explain: Any, explained_text: str
) -> None:
    columns = explain(explained_text, ["k1"])["upstream_columns"]

    assert [(c["name"], c["type"], c["id"]) for c in columns] == [
        ("th", "timestamp", "1142"),
        ("carrier", "string", "1143"),
        ("v", "bigint", "1145"),
        ("d", "date", "1146"),
    ]
    names = macros.call("get_upstream_names", {"upstream_columns": columns})
    assert names == ["th", "carrier", "v", "d"]


def test_a_version_may_have_less_columns_than_the_query_reads(
    macros: Macros, explain: Any, explained_text: str
) -> None:
    """Then it is not known in which of them a change is visible."""
    assert macros.call("find_read_columns", explain(explained_text, ["k1"]), "select 1")
    text = explained_text.replace("carrier#1153,", "").replace(
        "<th:timestamp,carrier:string,", "<th:timestamp,"
    )
    explained = explain(text, ["k1"])

    columns = [(c["name"], c["type"], c["id"]) for c in explained["upstream_columns"]]
    assert columns == [("th", "timestamp", "1142"), ("v", "bigint", "1145"), ("d", "date", "1146")]
    assert macros.call("find_read_columns", explained, "select 1") is None


def test_a_name_with_signs_of_a_type_does_not_shift_the_types(
    explain: Any, explained_text: str
) -> None:
    text = explained_text.replace("carrier#1143,", "a,b:c#1143,").replace(
        "carrier#1153,v", "a,b:c#1153,v"
    )
    text = text.replace("<th:timestamp,carrier:string,", "<th:timestamp,a,b:c:array<string>,")
    columns = explain(text, ["k1"])["upstream_columns"]

    assert [column["type"] for column in columns] == [
        "timestamp",
        "array<string>",
        "bigint",
        "date",
    ]


def test_types_that_cannot_be_taken_apart_are_unknown(
    macros: Macros, explain: Any, explained_text: str
) -> None:
    text = explained_text.replace(
        "<th:timestamp,carrier:string,", "<th:timestamp,`carrier`:string,"
    )
    columns = explain(text, ["k1"])["upstream_columns"]

    assert [column["type"] for column in columns] == ["timestamp"] + ["unknown"] * 3
    assert macros.call("get_upstream_names", {"upstream_columns": columns}) is None


def test_the_plan_is_that_of_the_query_alone(explain: Any, explained_text: str) -> None:
    analyzed = explain(explained_text, ["k1"])["analyzed"]

    assert "subquery#" not in "\n".join(analyzed)
    assert analyzed[1] == "+- SubqueryAlias __bf_query"


def test_a_text_that_looks_like_the_lines_of_a_subquery_hides_nothing(
    explain: Any, explained_text: str
) -> None:
    text = explained_text.replace("(v#1145L > cast(3 as bigint))", "(carrier#1143 = x\n:  rand())")

    assert ":  rand())" in explain(text, ["k1"])["analyzed"]


def test_a_key_in_another_case_is_the_column_of_the_query(
    explain: Any, explained_text: str
) -> None:
    text = explained_text.replace("k1: timestamp, k1:", "K1: timestamp, k1:", 1)
    explained = explain(text.replace("Project [k1#1134, k1", "Project [K1#1134, k1"), ["K1"])

    assert explained["unique_key"] == ["k1"]
    assert explained["key_types"] == ["timestamp"]


def test_of_two_columns_that_differ_in_case_the_key_is_the_one_that_spark_takes(
    explain: Any, explained_text: str
) -> None:
    """With spark.sql.caseSensitive."""
    text = explained_text.replace("[k1#1134, k1#1134, carrier", "[k1#1134, K1#9, k1#1134, carrier")

    assert explain(text, ["k1"])["unique_key"] == ["k1"]
