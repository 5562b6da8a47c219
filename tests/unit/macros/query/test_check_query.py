"""Spark's analyzed plan shows if a query can be followed row by row."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import pytest

from support.macros import Macros

Check = Callable[..., None]

RELATION = "Relation spark_catalog.lake.up[th#1,carrier#2,v#3L] parquet"
OPTIMIZED = ["Project [th#1, th#1, v#3L]", f"+- {RELATION}"]


@pytest.fixture
def check(macros: Macros, up: Any) -> Check:
    """Check a query with this analyzed plan. `#` is replaced by the plan of the upstream."""

    def check(
        plan: str,
        query: str = "select 1",
        optimized: list[str] = OPTIMIZED,
        may_grow: bool = False,
    ) -> None:
        lines = ("+- " + plan.strip("\n")).split("\n")
        indent = next((line.index("#") for line in lines if line.strip(" :+-") == "#"), None)
        if indent is not None:
            lines = [line for line in lines if line.strip(" :+-") != "#"]
            margin = " " * (indent - 3)
            lines += [
                f"{margin}+- SubqueryAlias spark_catalog.lake.up",
                f"{margin}   +- {RELATION}",
            ]
        merged: list[str] = []
        for line in lines:
            if merged and not re.match(r"[ :]*[+:]- ", line):
                line = f"{merged.pop()}\n{line}"
            merged.append(line)
        explained = {"analyzed": merged, "optimized": optimized}
        lasting = {**explained, "query": query}
        macros.call("check_query", explained, query, up, may_grow, lasting)

    return check


ROW_WISE = {
    "the upstream itself": """
Project [th#1, th#1, carrier#2, v#3L]
+- SubqueryAlias __bf_query
   +- Project [th#1, carrier#2, v#3L]
      +- #
""",
    "filters and expressions": """
Project [k#4, k#4, w#5L]
+- SubqueryAlias __bf_query
   +- Project [th#1 AS k#4, (v#3L * cast(2 as bigint)) AS w#5L]
      +- Filter ((v#3L > cast(3 as bigint)) AND carrier#2 IN (UA,AA))
         +- #
""",
    "a subquery in FROM, with a hint": """
Project [th#1, th#1]
+- SubqueryAlias __bf_query
   +- Project [th#1]
      +- SubqueryAlias s
         +- ResolvedHint (strategy=broadcast)
            +- Project [th#1, v#3L]
               +- #
""",
    "a common table expression": f"""
Project [th#1, th#1]
+- SubqueryAlias __bf_query
   +- WithCTE
      :- CTERelationDef 0, false
      :  +- SubqueryAlias up
      :     +- Project [th#1, carrier#2, v#3L]
      :        +- SubqueryAlias spark_catalog.lake.up
      :           +- {RELATION}
      +- Project [th#1]
         +- SubqueryAlias up
            +- CTERelationRef 0, true, [th#1, carrier#2, v#3L], false, false
""",
    "the upstream as it is read to be explained": """
Project [th#1, v#3L]
+- SubqueryAlias up
   +- GlobalLimit 2147483647
      +- LocalLimit 2147483647
         +- Project [th#1, carrier#2, v#3L]
            +- #
""",
    "a string of several lines": """
Project [th#1, th#1]
+- SubqueryAlias __bf_query
   +- Filter (carrier#2 = x
Aggregate [count(1)]
Join Inner)
      +- #
""",
    "a table read by DataSource V2": """
Project [th#1, th#1]
+- SubqueryAlias __bf_query
   +- Project [th#1]
      +- SubqueryAlias spark_catalog.lake.up
         +- RelationV2[th#1, carrier#2, v#3L] spark_catalog.lake.up spark_catalog.lake.up
""",
}


@pytest.mark.parametrize("plan", ROW_WISE.values(), ids=ROW_WISE)
def test_a_row_wise_query_is_let_pass(check: Check, plan: str) -> None:
    check(plan)


# The operator as Spark prints it, and its name in the refusal.
OPERATORS = {
    "Aggregate [carrier#2], [carrier#2, count(1) AS n#5L]": "an aggregate (GROUP BY, HAVING or an "
    "aggregate function)",
    "Window [row_number() windowspecdefinition(carrier#2, v#3L ASC NULLS FIRST) AS rn#6], "
    "[carrier#2]": "a window function",
    "Distinct": "a DISTINCT",
    "Deduplicate [th#1]": "a DISTINCT",
    "GlobalLimit 10": "a LIMIT",
    "LocalLimit 10": "a LIMIT",
    "Offset 5": "an OFFSET",
    "Join LeftOuter, (carrier#2 = carrier#9)": "a join",
    "LateralJoin lateral-subquery#7 [th#1], Inner": "a lateral join",
    "Union false, false": "a set operation (UNION)",
    "'Union false, false": "a set operation (UNION)",
    "Intersect All false": "a set operation (INTERSECT)",
    "Except false": "a set operation (EXCEPT)",
    "Generate explode(split(carrier#2, ,, -1)), false, [c#8]": "a generator (explode, inline, "
    "stack or LATERAL VIEW)",
    "Expand [[th#1, v#3L, a], [th#1, v#3L, b]], [th#1, v#3L]": "grouping sets or an UNPIVOT",
    "Pivot [carrier#2], [UA], [sum(v#3L)]": "a PIVOT",
    "Sample 0.0, 0.1, false, 42": "a TABLESAMPLE",
    "View (`lake`.`up_view`, [th#1, v#3L])": "a view",
    "Sort [v#3L ASC NULLS FIRST], true": "an ORDER BY",
    "RepartitionByExpression [carrier#2]": "a DISTRIBUTE BY",
    "UnionLoop 0": "a recursive query",
    "TypedFilter org.example.F, class X": "the operator TypedFilter",
}


@pytest.mark.parametrize(("operator", "words"), OPERATORS.items())
def test_a_query_that_is_not_row_wise_is_refused_by_the_operators_name(
    check: Check, refused: Any, operator: str, words: str
) -> None:
    plan = f"""
Project [th#1, th#1]
+- SubqueryAlias __bf_query
   +- {operator}
      +- #
"""
    with refused(f"its query has {words}, so it is not a row-wise query. "):
        check(plan)


def test_a_refusal_tells_where_to_put_what_is_not_row_wise(check: Check, refused: Any) -> None:
    with refused(
        "its query has a DISTINCT, so it is not a row-wise query. Keep only filters and "
        "expressions over single rows of the upstream in this model, and put the rest into a model "
        "downstream."
    ):
        check("Distinct\n+- #")


@pytest.mark.parametrize("prefix", ["+- ", ":- ", ":  +- ", "   :  :- "])
def test_an_operator_is_found_on_any_branch(check: Check, refused: Any, prefix: str) -> None:
    with refused("its query has a join, so it is not a row-wise query"):
        check(f"Project [th#1, th#1]\n{prefix}Join Inner\n   +- #")


def test_the_topmost_operator_is_checked_too(check: Check, refused: Any) -> None:
    with refused("its query has a LIMIT, so it is not a row-wise query"):
        check("GlobalLimit 10\n+- #")


@pytest.mark.parametrize(
    "expression",
    [
        "Filter exists#12 [th#1]",
        "Filter NOT exists#12 []",
        "Filter v#3L IN (list#12 [])",
        "Project [scalar-subquery#12 [] AS m#13]",
    ],
)
def test_a_subquery_in_an_expression_is_refused(
    check: Check, refused: Any, expression: str
) -> None:
    plan = f"""
Project [th#1, th#1]
+- {expression}
   :  +- Project [1 AS 1#14]
   :     +- {RELATION}
   +- #
"""
    with refused("its query has a subquery, so a row of the result depends on more than one "):
        check(plan)


@pytest.mark.parametrize(
    "expression",
    [
        "Project [wish_list#12, file_exists#13, list#14, exists#15, scalar-subquery#16]",
        "Project [exists#15[0] AS first#16, s#17.list AS list#18, s#17.exists AS exists#19]",
        "Filter ((list#14 IN (1,2) AND (exists#15 = x)) AND exists(exists#15, lambda list#20))",
    ],
)
def test_a_column_called_like_a_subquery_is_let_pass(check: Check, expression: str) -> None:
    check(f"Project [th#1, th#1]\n+- {expression}\n   +- #")


def test_a_second_limit_is_the_querys_own(check: Check, refused: Any) -> None:
    limit = "GlobalLimit 2147483647\n+- LocalLimit 2147483647"
    with refused("its query has a LIMIT, so it is not a row-wise query"):
        check(f"{limit}\n+- {limit}\n+- #")


def test_a_setting_that_spark_puts_into_the_text_is_refused(check: Check, refused: Any) -> None:
    with refused("its query contains ${spark.app.name}, but Spark would replace this text "):
        check("Project [th#1, th#1]\n+- #", "select '${spark.app.name}' from lake.up")
    check("Project [th#1, th#1]\n+- #", "select '$1 {x} $ {y}' from lake.up -- ${x}")


def test_a_second_read_of_the_upstream_is_refused(check: Check, refused: Any) -> None:
    """For example, an unused common table expression reads the upstream again."""
    with refused("its query reads 2 tables. Read the upstream lake.up once, and no other table."):
        check(ROW_WISE["a common table expression"] + "         +- #\n")


@pytest.mark.parametrize(
    "query", ["select lake.up from lake.up", "select a from lake.up where `lake`.up = 1"]
)
def test_the_name_of_the_upstream_is_refused_where_it_may_be_a_field_of_a_struct(
    check: Check, refused: Any, query: str
) -> None:
    with refused(
        "its query contains the name of the upstream 2 times. Read the upstream once; if one of "
        "these names is a field of the column lake, write an alias of the upstream before the "
        "column."
    ):
        check("Project [th#1]\n+- #", query)
    check("Project [th#1]\n+- #", "select u.lake.up, 'lake.up' from lake.up as u -- lake.up")


def test_a_query_that_reads_no_table_is_refused(check: Check, refused: Any) -> None:
    with refused("its query has the operator OneRowRelation"):
        check("Project [1 AS k#1, 1 AS k#1]\n+- OneRowRelation")
    with refused("its query reads 0 tables"):
        check("Project [1 AS k#1, 1 AS k#1]")


# Functions as the query writes them and as the analyzed plan prints them. The list has the
# functions that functional/test_functions_of_spark.py cannot call, and one function of each kind.
FUNCTIONS = {
    "rand()": "rand(-5413274354) AS c#4",
    "spark_partition_id()": "SPARK_PARTITION_ID() AS c#4",
    "input_file_block_start()": "input_file_block_start() AS c#4",
    "input_file_block_length()": "input_file_block_length() AS c#4",
    "current_time()": "current_time(6) AS c#4",
    "current_timezone()": "current_timezone() AS c#4",
    "user()": "user() AS c#4",
    "current_database()": "current_database() AS c#4",
    "current_catalog()": "current_catalog() AS c#4",
    "current_schema()": "current_schema() AS c#4",
    "version()": "version() AS c#4",
    "reflect('a', 'b')": "reflect(a, b, true) AS c#4",
    "java_method('a', 'b')": "java_method(a, b, true) AS c#4",
    "try_reflect('a', 'b')": "try_reflect(a, b, false) AS c#4",
}


def _with(expression: str) -> str:
    return f"Project [th#1, th#1]\n+- Project [th#1, {expression}]\n   +- #"


@pytest.mark.parametrize(("call", "printed"), FUNCTIONS.items())
def test_a_function_that_is_random_or_depends_on_time_session_or_place_is_refused_by_its_name(
    check: Check, refused: Any, call: str, printed: str
) -> None:
    name = call.split("(")[0]

    with refused(
        f"its query uses {name}(), which gives another value when the same row is read again. "
        "Take the value from a column of the upstream, or add the value in a downstream model"
    ):
        check(_with(printed), f"select th, {call} as c from lake.up")


def test_a_function_deep_within_an_expression_is_refused(check: Check, refused: Any) -> None:
    with refused("its query uses now()"):
        check(
            "Project [th#1]\n+- Filter (th#1 < cast((now() - INTERVAL '1' DAY) as date))\n   +- #",
            "select th from lake.up where th < now() - interval 1 day",
        )


def test_a_function_that_spark_puts_in_is_refused(check: Check, refused: Any) -> None:
    """Spark replaces `unix_timestamp()` by an expression with the current time."""
    with refused("its query uses current_timestamp()"):
        check(
            _with(
                "unix_timestamp(current_timestamp(), yyyy-MM-dd HH:mm:ss, Some(UTC), true) AS c#4L"
            ),
            "select th, unix_timestamp() as c from lake.up",
        )


def test_a_text_that_reads_like_such_a_function_is_refused_too(check: Check, refused: Any) -> None:
    """The plan prints a text without its quotes, so the text looks like a call of the function."""
    with refused(
        "its query uses now(), which gives another value when the same row is read again. "
    ):
        check(_with("now() AS c#4"), "select th, 'now()' as c from lake.up")
    check(
        _with("concat(now, ()) AS c#4"),
        "select th, concat('now', '()') as c from lake.up",
        optimized=["Project [th#1, th#1, now() AS c#4]", f"+- {RELATION}"],
    )


@pytest.mark.parametrize(
    "expression",
    [
        "array_shuffle(a#2) AS c#4",
        "known(th#1) AS c#4",
        "user#7 AS c#4",
        "version#7 AS c#4",
        "now()#7 AS c#4",
        "s#7.user AS c#4",
        "hash(th#1, 42) AS now#4",
        "date_trunc(hour, th#1, Some(UTC)) AS c#4",
    ],
)
def test_a_column_or_function_with_a_similar_name_is_let_pass(
    check: Check, expression: str
) -> None:
    check(_with(expression), "select th, x as c from lake.up")


def test_a_session_variable_is_refused(check: Check, refused: Any) -> None:
    with refused("its query uses variablereference()"):
        check(
            _with("variablereference(system.session.lowest=5) AS c#4"),
            "select th, lowest as c from lake.up",
        )


def test_a_filter_that_is_always_false_is_refused(check: Check, refused: Any) -> None:
    with refused("the filter of its query is always false. Correct the filter."):
        check(
            "Project [th#1, th#1]\n+- Filter (1 = 0)\n   +- #",
            optimized=["LocalRelation <empty>, [th#1, th#1]"],
        )


@pytest.mark.parametrize(
    ("call", "printed"),
    [
        ("timestamp'12:30'", "2026-11-23 12:30:00"),
        ("timestamp '1:2:3 '", "2026-11-23 01:02:03"),
        ("cast('T12:30' as timestamp)", "cast(T12:30 as timestamp)"),
        ("hour('12:30')", "hour(cast(12:30 as timestamp), Some(UTC))"),
        ("to_timestamp('12:30')", "to_timestamp(12:30, None, TimestampType, Some(UTC), false)"),
    ],
)
def test_a_time_without_a_day_is_refused_where_it_is_one_of_today(
    check: Check, refused: Any, call: str, printed: str
) -> None:
    time = call.split("'")[1].strip()
    with refused(f"its query uses '{time}' as a date or time, which gives another value when the "):
        check(_with(f"{printed} AS c#4"), f"select th, {call} as c from lake.up")


@pytest.mark.parametrize(
    ("call", "printed"),
    [
        ("cast(coalesce(carrier, '12:30') as timestamp)",
         "cast(coalesce(carrier#2, 12:30) as timestamp)"),
        ("hour(if(v > 1, '12:30', carrier))",
         "hour(cast(if ((v#3L > 1)) 12:30 else carrier#2 as timestamp), Some(UTC))"),
        ("to_timestamp(coalesce(carrier, r'12:30'))",
         "to_timestamp(coalesce(carrier#2, 12:30), None, TimestampType, Some(UTC), false)"),
        ("cast(array(carrier, 'T12:30') as array<timestamp_ntz>)",
         "cast(array(carrier#2, T12:30) as array<timestamp_ntz>)"),
    ],
)  # fmt: skip
def test_a_time_without_a_day_is_refused_within_what_is_cast_to_a_timestamp(
    check: Check, refused: Any, call: str, printed: str
) -> None:
    time = "T12:30" if "T12:30" in call else "12:30"
    with refused(f"its query uses '{time}' as a date or time, which gives another value when the "):
        check(_with(f"{printed} AS c#4"), f"select th, {call} as c from lake.up")


@pytest.mark.parametrize(
    ("call", "printed"),
    [
        ("carrier = '12:30'", "(carrier#2 = 12:30)"),
        ("carrier = '12:30' and v = cast('2024-05-01' as date)",
         "((carrier#2 = 12:30) AND (v#3L = cast(2024-05-01 as date)))"),
        ("cast(concat(carrier, ' 12:30') as timestamp)",
         "cast(concat(carrier#2,  12:30) as timestamp)"),
        ("cast('2024-05-01 12:30' as timestamp)", "cast(2024-05-01 12:30 as timestamp)"),
        ("cast(v as timestamp) + interval '12:30' hour to minute",
         "cast(v#3L as timestamp) + INTERVAL '12:30' HOUR TO MINUTE"),
        ("if(v = time'12:30', cast(v as timestamp), null)",
         "if ((v#3L = TIME '12:30:00')) cast(v#3L as timestamp) else null"),
    ],
)  # fmt: skip
def test_a_time_without_a_day_is_let_pass_as_a_text(check: Check, call: str, printed: str) -> None:
    check(_with(f"{printed} AS c#4"), f"select th, {call} as c from lake.up")


@pytest.mark.parametrize(
    ("call", "variable"),
    [
        ("identifier(col)", "col"),
        ("identifier('up.' || session.col)", "session.col"),
        ("from_json(concat(carrier, th), sch)", "sch"),
        ("from_csv(carrier, `sch`)", "`sch`"),
        ("FROM_XML(carrier, upper(concat('a ', sch)))", "sch"),
        ("system.builtin.try_variant_get(v, '$.a', tp)", "tp"),
        ("from_json(carrier, 'a int', options)", "options"),
        ("to_json(struct(v), map('dateFormat', fmt))", "fmt"),
        ("`to_csv`(struct(v), map('dateFormat', fmt))", "fmt"),
        ("schema_of_json('[1]', map(u.fmt, 'a'))", "u.fmt"),
        ("from_avro(v, upper(sch))", "sch"),
        ("collate(carrier, coll)", "coll"),
    ],
)
def test_a_name_or_type_from_a_variable_of_the_session_is_refused(
    check: Check, refused: Any, call: str, variable: str
) -> None:
    """Spark puts the value of the variable into the plan."""
    fact = f"its query takes a name, a type or an option from the session variable '{variable}'"
    with refused(fact):
        check(_with("x#9 AS c#4"), f"select th, {call} as c from lake.up")


@pytest.mark.parametrize(
    "call",
    [
        "identifier('am' || 'ount')",
        "from_json(concat(carrier, th), 'a int', map('mode', \"FAILFAST\"))",
        "from_csv(carrier, r'a int'), carrier",
        "from_json(carrier, schema_of_json('[1]')).a + v",
        "upper(identifier)",
        "variant_get(v, carrier, 'int') = v",
        "to_json(struct(v, carrier), map('a', 'b'))",
    ],
)
def test_a_name_or_type_from_literals_is_let_pass(check: Check, call: str) -> None:
    check(_with("x#9 AS c#4"), f"select th, {call} as c from lake.up")


@pytest.mark.parametrize(
    "query",
    [
        "select id, md5(to_json(struct(*))) as h from up",
        "select id, md5(to_json(struct(up . *))) as h from up",
        "select id, hash(named_struct('k', id), up.*) as h from up",
        "select id, concat_ws('|', `my up`.*) as h from up as `my up`",
        "select id, to_json(struct(`a``b`.*)) as h from up as `a``b`",
        "select id, concat(`a)`, *) as h from (select id as `a)` from up)",
        "select id, to_json(struct(2up.*)) as h from up as 2up",
        "select id, md5(cast((id, *) as string)) as h from up",
        "select id from up where id > 0 and not ( up.*) = (1, 'a')",
        "select id, md5(concat((values), *)) as h from (select id as values from up)",
        "select id, md5(concat(table, *)) as h from (select id as table from up)",
    ],
)
def test_a_star_inside_of_an_expression_is_refused_where_the_upstream_may_get_a_column(
    check: Check, refused: Any, query: str
) -> None:
    with refused(
        "its query has a star inside an expression, so the value of the expression would change if "
        "the upstream got another column. Write out the columns instead of the star."
    ):
        check(_with("x#9 AS h#4"), query, may_grow=True)
    check(_with("x#9 AS h#4"), query)


@pytest.mark.parametrize(
    "query",
    [
        "with base as (select upper(name) as n, * from up) select id, n from base",
        "select id from ((select id, * from up)) where id in (from up select id, *)",
        "select id from (table up)",
        "select id from (select up.* from up) where id in (1, 2) and (2 * id) > 1",
        "select id, (id), name, * except (name) from up",
        "select id, `(`, * from up",
        "select id, (id * 2) as n, '(*)' as text /* (*) */ from up",
    ],
)
def test_any_other_star_is_let_pass(check: Check, query: str) -> None:
    check(_with("x#9 AS h#4"), query, may_grow=True)


@pytest.mark.parametrize(
    ("select", "alias"),
    [
        (
            "Project [id#1, g#8, (g#8 * 3) AS tax#9]\n+- Project [id#1, a#2, (a#2 * 2) AS g#8]",
            "g",
        ),
        (
            "Project [id#1, (a#2 * 2) AS g#8, t#9, (t#9 + 1) AS more#10]\n"
            "+- Project [id#1, a#2, g#3, concat(a#2, \n) AS t#9]",
            "t",
        ),
    ],
)
def test_an_alias_that_is_read_in_its_own_select_is_refused_where_the_upstream_may_get_a_column(
    check: Check, refused: Any, select: str, alias: str
) -> None:
    plan = f"SubqueryAlias q\n+- {select}\n   +- SubqueryAlias r\n   +- #"
    with refused(f"its query uses the alias '{alias}' in the SELECT or pipe that defines "):
        check(plan, may_grow=True)
    check(plan)


@pytest.mark.parametrize(
    "select",
    [
        "Project [upper(b#4) AS b#8, concat(b#4, x) AS c#9]",
        "Project [id#1, a#2 AS b#8, b#4 AS a#9]",
        "Project [id#1, n#8, n#8 AS m#9]\n+- SubqueryAlias r\n+- Project [id#1, (a#2 * 2) AS n#8]",
    ],
)
def test_any_other_alias_is_let_pass(check: Check, select: str) -> None:
    check(f"SubqueryAlias q\n+- {select}\n   +- SubqueryAlias r\n   +- #", may_grow=True)
