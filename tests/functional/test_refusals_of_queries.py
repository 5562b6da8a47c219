"""Queries that cannot be followed row by row are refused before anything is written."""

from __future__ import annotations

import pytest

from support.checks import (
    assert_made_nothing,
    assert_refused,
    model,
    source,
)
from support.project import MakeProject, Project, RunResult

EVENTS = source("events")

NOT_ROW_WISE = {
    "group_by": (f"select id, count(*) as n from {EVENTS} group by id", "an aggregate"),
    "aggregate": (f"select max(id) as id from {EVENTS}", "an aggregate"),
    "having": (f"select id from {EVENTS} group by id having count(*) > 1", "an aggregate"),
    "pivot": (
        f"select * from (select id, name, amount from {EVENTS})"
        " pivot (sum(amount) for name in ('a', 'b'))",
        "an aggregate",
    ),
    "window": (
        f"select id, row_number() over (order by name) as n from {EVENTS}",
        "a window function",
    ),
    "unused_window": (
        f"select id from (select id, row_number() over (order by name) as n from {EVENTS})",
        "a window function",
    ),
    "distinct": (f"select distinct id, name from {EVENTS}", "a DISTINCT"),
    "limit": (f"select id from {EVENTS} limit 10", "a LIMIT"),
    "offset": (f"select id from {EVENTS} offset 1", "an OFFSET"),
    "join": (f"select a.id from {EVENTS} a join {EVENTS} b on a.id = b.id", "a join"),
    "join_of_literals": (f"select e.id from {EVENTS} e cross join (select 1 as x)", "a join"),
    "lateral_join": (
        f"select e.id, y from {EVENTS} e, lateral (select e.id + 1 as y)",
        "a lateral",
    ),
    "union": (f"select id from {EVENTS} union all select id from {EVENTS}", "(UNION)"),
    "union_of_literals": (f"select id from {EVENTS} union all select 7 as id", "(UNION)"),
    "intersect": (f"select id from {EVENTS} intersect select id from {EVENTS}", "(INTERSECT)"),
    "except": (f"select id from {EVENTS} except select 3 as id", "(EXCEPT)"),
    "recursive": (
        f"with recursive r as (select id from {EVENTS} union all select id + 1 from r where id < 3)"
        " select id from r",
        "not a row-wise query",
    ),
    "recursive_name": (
        f"with recursive events as (select id from {EVENTS}) select id from events",
        "Spark cannot run its query",
        "recursive",
    ),
    "explode": (f"select id, explode(tags) as tag from {EVENTS}", "a generator"),
    "lateral_view": (
        f"select id, tag from {EVENTS} lateral view explode(tags) t as tag",
        "a generator",
    ),
    "order_by": (f"select id as event_id from {EVENTS} order by 1", "ORDER BY"),
    "tablesample": (f"select id from {EVENTS} tablesample (10 percent)", "a TABLESAMPLE"),
    "scalar_subquery": (
        f"select id from {EVENTS} where id = (select max(id) from {EVENTS})",
        "a subquery",
    ),
    "in_subquery": (
        f"select id from {EVENTS} where id in (select id from {EVENTS})",
        "a subquery",
    ),
    "exists_subquery": (
        f"select id from {EVENTS} e where exists (select 1 from {EVENTS} x where x.id = e.id)",
        "a subquery",
    ),
    "always_false": (f"select id from {EVENTS} where 1 = 2", "filter", "always false"),
    "time_travel": (f"select id from {EVENTS} version as of 0", "version"),
    "read_options": (f"select id from {EVENTS} with ('versionAsOf' = '0')", "options"),
    "two_upstreams": (
        f"select e.id from {EVENTS} e join {source('others')} o on e.id = o.id",
        "reads events, others",
        "Read one upstream",
    ),
    "hidden_upstream": (
        f"select id from -- {EVENTS}\n values (1) as t(id)",
        "does not contain the name",
    ),
    "same_name_twice": (f"select id, name, name from {EVENTS}", "'name'", "twice"),
}

UNREPEATABLE = {
    "rand": (f"select id, rand() as r from {EVENTS}", "rand()"),
    "rand_in_filter": (f"select id from {EVENTS} where rand() < 0.5", "rand()"),
    "uuid": (f"select id, uuid() as r from {EVENTS}", "uuid()"),
    "monotonic": (
        f"select id, monotonically_increasing_id() as r from {EVENTS}",
        "monotonically_increasing_id()",
    ),
    "now": (f"select id, now() as r from {EVENTS}", "now()"),
    "current_timestamp": (
        f"select id, current_timestamp as r from {EVENTS}",
        "current_timestamp()",
    ),
    "current_date": (f"select id from {EVENTS} where at < current_date", "current_date()"),
    "current_user": (f"select id, current_user() as r from {EVENTS}", "current_user()"),
    "session_user": (f"select id, session_user() as r from {EVENTS}", "user()"),
    "current_database": (f"select id, current_database() as r from {EVENTS}", "current_"),
    "metadata": (f"select id, _metadata.file_path as r from {EVENTS}", "_metadata"),
    "input_file": (f"select id, input_file_name() as r from {EVENTS}", "input_file_name()"),
    "encrypted": (f"select id, aes_encrypt(name, '0123456789abcdef') as r from {EVENTS}", "aes_"),
    "today": (f"select id from {EVENTS} where at < date 'today'", "'today' as a date or time"),
    "cast_now": (f"select id, cast('now' as timestamp) as r from {EVENTS}", "'now' as a date"),
    "compared_to_now": (f"select id from {EVENTS} where at < 'Yesterday'", "'Yesterday' as a date"),
    "random": (f"select id, random() as r from {EVENTS}", "random()"),
    "time_of_today": (
        f"select id from {EVENTS} where at > timestamp'12:30'",
        "'12:30' as a date or time",
    ),
    "time_of_today_within": (
        f"select id from {EVENTS} where at > coalesce(name, '12:30')",
        "'12:30' as a date or time",
    ),
    "trimmed_now": (
        f"select id, cast(trim(' now ') as timestamp) as r from {EVENTS}",
        "' now ' as a",
    ),
    "lower_today": (f"select id, cast(lower('TODAY') as date) as r from {EVENTS}", "'TODAY' as a"),
    "constant_today": (
        f"select id, date(coalesce(null, 'today')) as r from {EVENTS}",
        "'today' as",
    ),
    "between_days": (
        f"select id from {EVENTS} where at between '2024-01-01' and 'tomorrow'",
        "'tomorrow' as a date or time",
    ),
    "now_beside_text": (f"select id, 'now()' as text, now() as r from {EVENTS}", "now()"),
}

ODD = source("odd")

AMBIGUOUS = {
    "setting_in_braces": (
        f"select id, '${{spark.app.name}}' as app from {EVENTS}",
        "${spark.app.name}",
        "value of a setting",
    ),
    "schema_or_struct": (
        f"select id, refused_queries.odd.list as l from {source('odd')}",
        "'refused_queries.odd.'",
        "Give the upstream an alias",
    ),
    "name_twice": (
        f"select id, refused_queries.odd as l from {source('odd')} where odd > 0",
        "`odd` cannot be resolved",
    ),
    "star_in_expression": (f"select id, to_json(struct(*)) as j from {ODD}", "a star inside an"),
    "alias_read": (f"select id, list + 1 as n, n * 2 as m from {ODD}", "uses the alias 'n'"),
    "alias_in_pipe": (
        f"from {ODD} |> extend list + 1 as n |> extend n * 2 as m",
        "uses the alias 'n' in the SELECT or pipe that defines this alias",
    ),
    "field_or_column": (
        f"select id, PART.kind as k from {ODD} part",
        "reads the field 'kind' of the column 'PART', which is also the name of a table or alias",
        "Write PART.PART.kind",
    ),
    "field_or_column_in_quotes": (
        f"with part as (select * from {ODD}) select id, `part`.`kind` as k from part",
        "reads the field 'kind' of the column 'part'",
    ),
    "text_like_a_call": (f"select id, 'now()' as t from {EVENTS}", "now()", "concat"),
}

BROKEN = {
    "unknown_column": (f"select id, nothing from {EVENTS}", "`nothing`", "Correct the query"),
    "unknown_function": (f"select id, no_such(name) as x from {EVENTS}", "no_such"),
    "wrong_type": (f"select id, name + tags as x from {EVENTS}", "(name + tags)"),
}

UNKEPT = {
    "day_interval": (f"select id, interval 1 day as span from {EVENTS}", "'span'", "no interval"),
    "interval": (f"select id, make_interval(1) as span from {EVENTS}", "'span'", "no interval"),
    "time": (f"select id, time'10:00:00' as noon from {EVENTS}", "'noon'", "no time"),
    "void": (f"select id, null as note from {EVENTS}", "'note' of the type void"),
    "nested_void": (f"select id, struct(null as a) as note from {EVENTS}", "struct<a:void>"),
    "colon_in_field": (
        f"select id, named_struct('xml:lang', name) as s from {EVENTS}",
        "'s' of the type struct<xml:lang:string>",
        "the name of a field cannot have a comma or a colon",
    ),
    "comma_in_field": (
        f"select id, named_struct('a,b', array(name)) as s from {EVENTS}",
        "the name of a field cannot have a comma or a colon",
    ),
    "collation": (f"select id, name collate utf8_lcase as n from {EVENTS}", "store a collation"),
    "feed_name": (f"select id, 1 as _Change_type from {EVENTS}", "'_Change_type'", "data feed"),
    "merge_name": (f"select id, 1 as _row_id_ from {EVENTS}", "'_row_id_'", "Delta reserves"),
    "our_name": (f"select id, 1 as __bf_key_1 from {EVENTS}", "'__bf_key_1'", "barriers"),
    "char_key": (f"select code, id from {EVENTS}", "'code' of unique_key has the type char(n)"),
}

ACCEPTED = f"""
-- distinct, limit and now() are but words of a comment
with renamed as (
    select id as event_id, name, tags, `at` from {EVENTS} where name <> 'group by' or name is null
)
select
    event_id,
    concat('rand () explode( /* ', name, ' */ ) now ()') as text,
    transform(tags, tag -> upper(tag)) as tags,
    case when `at` > timestamp'2020-01-01 00:00:00' then 'new' else "old -- now ()" end as age
from renamed
"""


# The columns have the names of functions, of a subquery in Spark's plans, and of the schema.
ODD_COLUMNS = (
    "id int, wish_list string, file_exists boolean, list int, `exists` array<int>, rand int,"
    " now int, user string, uuid string, version int, at timestamp,"
    " refused_queries struct<odd: int, list: int>, part struct<kind: string>"
)
ODD_NAMES = f"""
select
    Id, list, `exists`, rand, now, user, uuid, version, at, o.refused_queries.odd as number,
    refused_queries.list + list as s_list, exists(`exists`, list -> list = 1) as has_one
from {ODD} as o
where list in (7, 8) and o.refused_queries.odd is distinct from refused_queries.list
"""
# Words of constant dates, and a text that is only a word.
DAYS = f"""
select id, 'today' as word, name = 'now' as is_now, cast('2024-01-01' as date) as day,
    cast(concat('2024', '-01-', '02') as date) as joined,
    try_cast(concat(name, ' ', name) as timestamp) as built
from {EVENTS}
where at > date_sub('2024-01-01', 7) and at > timestamp'2024-01-01' - interval 1 day
    and at < date_add(cast(cast('2024-01-02' as timestamp) as date), 1)
"""
# The names of these fields need quotes in a type.
FIELDS = f"select id, named_struct('2023', id, '1e5', name, 'über', 1, 'a b', 2) as s from {EVENTS}"
ZONED = f"select id, name from {EVENTS} where at > timestamp'2024-01-01 03:00:00'"


@pytest.fixture(scope="module")
def project(shared_project: MakeProject) -> Project:
    project = shared_project("refused_queries")
    project.create_table(
        "events",
        "id int, name string, amount double, at timestamp, tags array<string>, code char(3)",
    )
    project.sql(
        "insert into {schema}.events"
        " values (1, 'a', 1.5, timestamp'2024-01-01 00:00:00', array('x', 'y'), 'c')"
    )
    project.create_table("others", "id int")
    project.create_table("odd", ODD_COLUMNS)
    insert_odd(project, 1)
    cases = NOT_ROW_WISE | UNREPEATABLE | AMBIGUOUS | BROKEN | UNKEPT
    models = {name: model(query) for name, (query, *_) in cases.items()}
    models["order_by"] = model(cases["order_by"][0], unique_key="event_id")
    models["char_key"] = model(cases["char_key"][0], unique_key="code")
    models["syntax_error"] = model(f"select id,, from {EVENTS}")
    models["accepted"] = model(ACCEPTED, unique_key="event_id")
    models["odd_names"] = model(ODD_NAMES, unique_key="ID", partition_by="LIST")
    models["zoned"] = model(ZONED)
    models["days"], models["fields"] = model(DAYS), model(FIELDS)
    models["whole_name"] = model(f"select id, part.part.kind as k from {ODD} part")
    struct = f"select id, named_struct('a', id) as s from {EVENTS}"
    for name, columns in (("statistics", "id, s.a, gone"), ("known_statistics", "`id`,s.a")):
        models[name] = model(struct, tblproperties={"delta.dataSkippingStatsColumns": columns})
    return project.write(models, sources=["events", "others", "odd"])


def insert_odd(project: Project, id_: int) -> None:
    project.sql(
        f"insert into {{schema}}.odd values ({id_}, 'w', true, 7, array(1), 2, 3, 'u', 'v', 4,"
        " timestamp'2024-01-01 00:00:00', struct(5, 6), struct('k'))"
    )


@pytest.fixture(scope="module")
def run(project: Project) -> RunResult:
    return project.fail()


@pytest.mark.parametrize("name", NOT_ROW_WISE)
def test_a_query_that_is_not_row_wise_is_refused(
    project: Project, run: RunResult, name: str
) -> None:
    _, *facts = NOT_ROW_WISE[name]

    assert_refused(run, name, *facts)
    assert_made_nothing(project, name)


@pytest.mark.parametrize("name", UNREPEATABLE)
def test_a_function_that_gives_another_value_next_time_is_refused(
    project: Project, run: RunResult, name: str
) -> None:
    _, *facts = UNREPEATABLE[name]

    assert_refused(run, name, "another value", *facts)
    assert_made_nothing(project, name)


@pytest.mark.parametrize("name", AMBIGUOUS)
def test_a_text_that_means_something_else_to_the_barriers_is_refused(
    project: Project, run: RunResult, name: str
) -> None:
    _, *facts = AMBIGUOUS[name]

    assert_refused(run, name, *facts)
    assert_made_nothing(project, name)


@pytest.mark.parametrize("name", BROKEN)
def test_a_query_that_spark_cannot_resolve_is_refused(
    project: Project, run: RunResult, name: str
) -> None:
    _, *facts = BROKEN[name]

    assert_refused(run, name, "Spark cannot run its query", *facts)
    assert_made_nothing(project, name)


@pytest.mark.parametrize("name", UNKEPT)
def test_a_column_that_the_format_cannot_keep_or_be_keyed_by_is_refused(
    project: Project, run: RunResult, name: str
) -> None:
    _, *facts = UNKEPT[name]

    assert_refused(run, name, *facts)
    assert_made_nothing(project, name)


def test_a_syntax_error_shows_the_place_and_makes_nothing(project: Project, run: RunResult) -> None:
    message = run.message("syntax_error")

    assert "[PARSE_SYNTAX_ERROR]" in message
    assert "select id,, from `events`" in message
    assert "org.apache.spark" not in message
    assert_made_nothing(project, "syntax_error")


def test_words_in_texts_comments_and_names_do_not_count(project: Project, run: RunResult) -> None:
    assert run["accepted"].status == "success", run.message("accepted")
    assert project.rows("select * from {schema}.accepted") == [
        (1, "rand () explode( /* a */ ) now ()", ["X", "Y"], "new")
    ]


def test_names_mean_what_they_mean_to_spark(project: Project, run: RunResult) -> None:
    """The query writes the key column in another case.

    Other columns have the names of functions, of subqueries, and of the schema.
    """
    assert run["odd_names"].status == "success", run.message("odd_names")
    [row] = project.sql("select * from {schema}.odd_names")
    assert row.asDict() | {"at": None} == {
        "Id": 1, "list": 7, "exists": [1], "rand": 2, "now": 3, "user": "u", "uuid": "v",
        "version": 4, "at": None, "number": 5, "s_list": 13, "has_one": True,
    }  # fmt: skip


def test_constant_dates_and_words_of_a_text_are_let_pass(project: Project, run: RunResult) -> None:
    assert run["days"].status == "success", run.message("days")
    [row] = project.sql("select *, cast(day as string) as d, joined - day as n from {schema}.days")
    assert (row["word"], row["is_now"], row["built"]) == ("today", False, None)
    assert (row["d"], row["n"].days) == ("2024-01-01", 1)


def test_fields_whose_names_need_quotes_are_stored(project: Project, run: RunResult) -> None:
    assert run["fields"].status == "success", run.message("fields")
    [row] = project.sql("select s.* from {schema}.fields")
    assert row.asDict() == {"2023": 1, "1e5": "a", "über": 1, "a b": 2}


@pytest.mark.profiles("session-delta", "thrift-delta", reason="the property is one of Delta")
def test_statistics_of_a_column_that_the_query_lacks_are_refused(
    project: Project, run: RunResult
) -> None:
    assert_refused(run, "statistics", "names the column 'gone', which its query does not return")
    assert_made_nothing(project, "statistics")
    assert run["known_statistics"].status == "success", run.message("known_statistics")


def test_a_field_after_the_name_of_the_alias_stays_the_field(
    project: Project, run: RunResult
) -> None:
    assert run["whole_name"].status == "success", run.message("whole_name")
    assert project.rows("select * from {schema}.whole_name") == [(1, "k")]


@pytest.mark.profiles("session-delta", reason="the test must share a session with the run")
def test_rows_that_the_session_caches_are_refused_by_the_statement_that_drops_them(
    project: Project, run: RunResult
) -> None:
    project.write({"cached": model(f"select id, name from {EVENTS} where id > 0")})
    project.sql("cache table {schema}.events")
    try:
        cached = project.fail("--select", "cached")
    finally:
        project.sql("uncache table {schema}.events")
    assert_refused(cached, "cached", "the session caches rows", "UNCACHE TABLE")
    assert_made_nothing(project, "cached")
    project.run("--select", "cached")


@pytest.mark.profiles("session-delta", reason="a server's sessions have settings of their own")
def test_a_query_that_uses_times_is_refused_in_another_zone_and_one_that_passes_them_on_is_not(
    project: Project, run: RunResult
) -> None:
    assert run["zoned"].status == "success", run.message("zoned")
    insert_odd(project, 2)
    project.write({"odd_names": model(ODD_NAMES, unique_key="iD", partition_by="list")})
    project.configure({"spark.sql.session.timeZone": "America/New_York"})
    try:
        elsewhere = project.fail("--select", "zoned", "odd_names")
    finally:
        project.configure({"spark.sql.session.timeZone": "UTC"})

    assert_refused(
        elsewhere, "zoned", "time zone", "changed from UTC to America/New_York", "Undo the change"
    )
    assert elsewhere["odd_names"].status == "success", elsewhere.message("odd_names")
    assert project.rows("select id from {schema}.odd_names") == [(1,), (2,)]


@pytest.mark.profiles("session-delta", reason="a server's sessions have settings of their own")
def test_a_session_in_which_a_backslash_is_no_escape_is_refused_by_the_setting(
    project: Project, run: RunResult
) -> None:
    setting = "spark.sql.parser.escapedStringLiterals"
    project.write({"escaped": model(ZONED)})
    project.configure({setting: "true"})
    try:
        escaped = project.fail("--select", "zoned", "escaped")
    finally:
        project.configure({setting: "false"})

    assert_refused(escaped, "zoned", setting, "Set it to false")
    assert_refused(escaped, "escaped", setting, "Set it to false")
    assert_made_nothing(project, "escaped")
