"""Call every function of Spark in several sessions, and compare the values of each row.

If the values differ, the package must refuse the function, or record the setting on which the value
depends. The calls are the examples of Spark's documentation. The sessions differ in everything that
must not change the result of a query.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest
from dbt.adapters.spark.relation import SparkRelation
from dbt_common.exceptions import CompilationError

from support.macros import Macros

pytestmark = [
    pytest.mark.profiles("session-delta", reason="the functions are the same on all"),
]

SCHEMA = "functions_of_spark"
SETTINGS = Path(__file__).parents[1] / "recorded" / "spark_settings.json"

BASE = {
    "spark.sql.ansi.enabled": "false",
    "spark.sql.session.timeZone": "UTC",
    "spark.sql.timeType.enabled": "true",
}
OTHER_ZONE = {"spark.sql.session.timeZone": "America/New_York"}
ANSI = {"spark.sql.ansi.enabled": "true"}

# Functions of these groups are refused because Spark plans them as other operators.
NOT_ROW_WISE = {"agg_funcs", "window_funcs", "generator_funcs"}

# Calls of functions for which Spark's documentation has no usable example. None means that the
# tests cannot call the function.
KINDS = ("bigint", "double", "float")
CALLS: dict[str, str | None] = {
    **{f"kll_sketch_merge_{t}": f"kll_sketch_merge_{t}(kll_{t}, kll_{t}_2)" for t in KINDS},
    **{f"kll_sketch_get_n_{t}": f"kll_sketch_get_n_{t}(kll_{t})" for t in KINDS},
    **{f"kll_sketch_to_string_{t}": f"kll_sketch_to_string_{t}(kll_{t})" for t in KINDS},
    **{
        f"kll_sketch_get_rank_{t}": f"kll_sketch_get_rank_{t}(kll_{t}, cast(5 as {t}))"
        for t in KINDS
    },
    **{
        f"kll_sketch_get_quantile_{t}": f"kll_sketch_get_quantile_{t}(kll_{t}, 0.5d)" for t in KINDS
    },
    **{f"theta_{f}": f"theta_{f}(theta, theta_2)" for f in ("union", "difference", "intersection")},
    "theta_sketch_estimate": "theta_sketch_estimate(theta)",
    "hll_union": "hll_union(hll, hll_2)",
    "hll_sketch_estimate": "hll_sketch_estimate(hll)",
    "uniform": "uniform(1, 1000000)",
    "window": "window(at, '5 minutes').start",
    "regexp": "regexp('ab', 'a.*')",
    "regexp_like": "regexp_like('ab', 'a.*')",
    "rlike": "rlike('ab', 'a.*')",
    "like": "like('ab', 'a%')",
    "ilike": "ilike('ab', 'A%')",
    "make_time": "cast(make_time(6, 30, 45) as string)",
    "to_time": "cast(to_time('00:12:00') as string)",
    "try_to_time": "cast(try_to_time('00:12:00') as string)",
    "time_trunc": "cast(time_trunc('HOUR', time'09:32:05.359') as string)",
    "current_time": "cast(current_time() as string)",
    "date": "date(text)",
    "timestamp": "timestamp(text)",
    **{
        t: f"{t}('1')"
        for t in (
            *("bigint", "binary", "boolean", "decimal", "double", "float", "int", "smallint"),
            *("string", "tinyint"),
        )
    },
    # These functions need the result of an aggregate, or are aggregates themselves.
    **dict.fromkeys(("approx_top_k_estimate", "window_time", "session_window")),
    "schema_of_variant_agg": None,
    # These functions need packages that are not loaded, or types that are disabled.
    **dict.fromkeys(("from_avro", "to_avro", "schema_of_avro", "from_protobuf", "to_protobuf")),
    **{f"st_{f}": None for f in ("asbinary", "geogfromwkb", "geomfromwkb", "setsrid", "srid")},
    "time": None,
    # `raise_error` always fails. `json_tuple` is a generator.
    **dict.fromkeys(("raise_error", "json_tuple")),
}

# Comparing sessions does not find these calls, because they return the same value within one
# process or on one day.
NOT_TRIED = {
    "current_catalog()", "current_date", "current_date()", "curdate()", "current_user()", "user()",
    "session_user()", "input_file_name()", "input_file_block_start()", "input_file_block_length()",
    "version()", "current_time()", "timestamp'12:30'", "cast('12:30' as timestamp)",
    "date 'today'", "at < 'tomorrow'", "cast(coalesce(text, '12:30') as timestamp)",
    "hour(if(id > 1, '12:30', text))", "at > coalesce(text, 'T12:30')",
}  # fmt: skip

SKETCHES = """
    kll_sketch_agg_bigint(id) as kll_bigint, kll_sketch_agg_bigint(id * 7) as kll_bigint_2,
    kll_sketch_agg_double(cast(id as double)) as kll_double,
    kll_sketch_agg_double(cast(id * 7 as double)) as kll_double_2,
    kll_sketch_agg_float(cast(id as float)) as kll_float,
    kll_sketch_agg_float(cast(id * 7 as float)) as kll_float_2,
    theta_sketch_agg(id) as theta, theta_sketch_agg(id * 3) as theta_2,
    hll_sketch_agg(id) as hll, hll_sketch_agg(id * 3) as hll_2
"""

# Times around a clock change in New York, around midnight, and around the end of a month.
ROWS = """
    (1, timestamp'2024-03-10 07:30:00', timestamp'2024-03-09 12:00:00', date'2024-03-10',
        timestamp_ntz'2024-03-10 02:30:00', '2024-03-10 02:30:00', 2147483647),
    (2, timestamp'2023-12-31 23:30:00', timestamp'2024-03-31 02:00:00', date'2023-12-31',
        timestamp_ntz'2023-12-31 23:30:00', '2023-12-31', -2147483648),
    (3, timestamp'2024-01-31 03:00:00', timestamp'2024-06-01 12:00:00', date'2024-01-31',
        timestamp_ntz'2024-01-31 03:00:00', 'no time', 0)
"""

USES_ZONE = """
    at > timestamp'2024-03-10 03:00:00' | at between '2024-01-01' and '2024-03-10' | at = day
    at in (timestamp'2024-03-10 03:30:00', timestamp'2024-01-31 03:00:00') | at < local | at = text
    extract(hour from at) | extract(day from at - until) | date_part('hour', at) | hour(at)
    at + interval 1 month | at - interval 1 day | at + make_ym_interval(0, 1) | at - until
    at + make_dt_interval(30) | at + make_interval(0, 1) | try_add(at, interval 1 month)
    try_subtract(at, interval 1 month) | timestampadd(month, 1, at) | dateadd(day, 1, at)
    timestampdiff(day, at, until) | datediff(at, until) | months_between(at, until)
    cast(at as string) | cast(at as date) | cast(at as timestamp_ntz) | cast(text as timestamp)
    cast(day as timestamp) | cast(local as timestamp) | day > at | coalesce(at, day)
    concat('at ', at) | case when at > '2024-03-10 03:00:00' then 1 else 2 end | if(at > day, 1, 2)
    times[0] + interval 1 month | transform(times, t -> hour(t)) | array_contains(times, day)
    exists(times, t -> t > timestamp'2024-03-10 03:00:00') | filter(times, t -> t > day)
    s.at + interval 1 month | cast(s as string) | to_json(s) | to_csv(s) | to_xml(s)
    to_json(times) | date_part('hour', text) | extract(hour from text)
    to_json(to_variant_object(s)) | cast(m as string)
    variant_get(to_variant_object(s), '$.at', 'string') | map_values(m)[0] + interval 1 month
    sequence(at, at + interval 2 days) | from_json('{"a":"2024-03-10 02:30:00"}', 'a timestamp')
    make_timestamp(2024, 3, 10, 3, 30, 0) | try_make_timestamp(2024, 3, 10, 3, 30, 0)
    make_timestamp_ltz(2024, 3, 10, 3, 30, 0) | timestamp_seconds(n) + interval 1 month
    from_unixtime(n) | unix_timestamp(text) | to_unix_timestamp(text) | to_timestamp(text)
    try_to_timestamp(text) | to_date(at) | date_format(day, 'yyyy-MM-dd z') | date_trunc('day', at)
    trunc(at, 'month') | last_day(at) | next_day(at, 'monday') | weekday(at) | dayofyear(at)
    to_utc_timestamp(text, 'Asia/Tokyo') | from_utc_timestamp(text, 'Asia/Tokyo') | date(at)
    convert_timezone('Asia/Tokyo', local) | unix_date(cast(at as date)) | string(at) | day - at
    window(at, '1 day').start | hash(cast(at as string)) | at || '' | nullif(at, day)
    greatest(at, day) | nvl(at, day)
    decode(at, timestamp'2024-03-10 03:30:00', 1) | timestamp(text) | struct(at).at = day
    from_csv('2024-03-10 02:30:00', 'a timestamp') | format_string('%s', at) | date_diff(at, day)
    cast(array(text) as array<timestamp>) | add_months(at, 1) | position('0', at) | array(at, day)
"""

USES_NO_ZONE = """
    at | at as other | s | times as all_times | m as map | day + interval 1 month
    local + interval 1 month | cast(day as string) | cast(n as string) | year(day) | day - 1
    concat(text, n) | date_add(day, 1) | day > date'2024-01-01' | cast(n as bigint) + 1
    transform(array(n), at -> at + 1) | named_struct('at', n).at
"""

USES_ANSI = """
    n + 1 | n * 2 | n - 1 | -n | abs(n) | negative(n) | cast(text as int) | cast(n as tinyint)
    1 / (n - n) | n % (n - n) | div(n, 0) | pmod(n, 0) | mod(n, 0) | element_at(array(n), 2)
    array(n)[1] | elt(3, text, text) | to_date(text) | cast(text as date) | make_date(n, 13, 1)
    next_day(day, 'no day') | size(cast(null as array<int>)) | cardinality(cast(null as map<int, int>))
    coalesce(n, text) | if(n > 0, n, text) | array(n, text) | nvl(n, text) | n = text
    case when n > 0 then n else text end | to_timestamp(text, 'yyyy') | unix_timestamp(text)
    round(n, -9) | cast(cast(n as double) * 1e300 as int) | cast(n as decimal(3, 1)) | n + '2'
    conv('9223372036854775808999', 10, 16) | bround(n, -9) | make_timestamp(n, 1, 1, 1, 1, 1)
    cast('x' as boolean) | int(text) | date(text) | timestamp(text) | n in (1, text) | positive(text)
    substring(text, 'a', 1)
"""  # noqa: E501


def split(expressions: str) -> list[str]:
    return [expression for line in expressions.strip().split("\n")
            for expression in map(str.strip, line.split(" | ")) if expression]  # fmt: skip


class Session:
    """A Spark session with its own settings, which evaluates expressions over a table."""

    def __init__(self, spark: Any, settings: Mapping[str, str], schema: str = SCHEMA) -> None:
        self.spark = spark.newSession()
        for name, value in {**BASE, **settings}.items():
            self.spark.sql(f"set {name}={value}")
        self.spark.sql(f"use {schema}")
        self.zone = {**BASE, **settings}["spark.sql.session.timeZone"]

    def evaluate(self, expressions: Sequence[str], table: str, at_once: int = 60) -> dict[str, Any]:
        """Return the sorted values of each expression over the rows of the table, or its error."""
        found: dict[str, Any] = {}
        for at in range(0, len(expressions), at_once):
            self._evaluate(expressions[at : at + at_once], table, found)
        return found

    def _evaluate(self, expressions: Sequence[str], table: str, found: dict[str, Any]) -> None:
        items = ", ".join(
            f"({_bare(expression)}) as c{i}" for i, expression in enumerate(expressions)
        )
        options = "map('timeZone', 'UTC', 'ignoreNullFields', 'false')"
        sql = f"select to_json(struct(*), {options}) from (select {items} from {table})"
        try:
            rows = [json.loads(row[0]) for row in self.spark.sql(sql).collect()]
        except Exception as error:
            if len(expressions) > 1:
                size = max(1, len(expressions) // 8)
                for at in range(0, len(expressions), size):
                    self._evaluate(expressions[at : at + size], table, found)
            else:
                found[expressions[0]] = f"error {str(error)[:60]}"
            return
        for i, expression in enumerate(expressions):
            found[expression] = sorted(json.dumps(row[f"c{i}"]) for row in rows)


def _bare(expression: str) -> str:
    return re.sub(r"(?i)\s+as\s+\w+$", "", expression)


class Check:
    """The package's check of a query. The session runs the statements that the check sends."""

    def __init__(self, session: Session, table: str) -> None:
        self.table = table
        self.upstream = SparkRelation.create(schema=SCHEMA, identifier=table)
        self.macros = Macros()
        self.macros.stub("run_table", lambda step, sql: session.spark.sql(sql).collect())

    def find(self, *expressions: str) -> str | list[str]:
        """Return why a query of these expressions is refused, or the settings that are recorded for
        it.
        """
        query = f"select id, {', '.join(expressions)} from {SCHEMA}.{self.table}"
        try:
            query = self.macros.call("substitute_upstream", query, self.upstream)
            read = self.upstream.render()
            explained = self.macros.call("explain_query", query, self.upstream, ["id"], read)
            lasting = {**explained, "query": query}
            self.macros.call("check_query", explained, query, self.upstream, True, lasting)
        except CompilationError as error:
            return str(error)
        used: list[str] = self.macros.call("find_used_settings", explained, query)
        return used

    def is_refused(self, expression: str) -> bool:
        found = self.find(expression)
        return isinstance(found, str) and "another value when the same row is read again" in found

    def notes(self, expression: str, setting: str) -> bool:
        return setting in self.find(expression) or self.is_refused(expression)


@pytest.fixture(scope="module")
def spark(lake: Any) -> Iterator[Any]:
    lake.sql(f"create schema if not exists {SCHEMA}")
    lake.sql(f"create schema if not exists {SCHEMA}_2")
    names = "id, at, until, day, local, text, n"
    lake.sql(
        f"create table {SCHEMA}.times using parquet as select *, array(at, until) as times,"
        " named_struct('at', at, 'n', n) as s, map('a', at) as m"
        f" from values {ROWS} as t({names})"
    )
    # Write three files, so that Spark may read them in one partition or in several.
    for number in (1, 2, 3):
        verb = f"create table {SCHEMA}.things using parquet as" if number == 1 else (
            f"insert into {SCHEMA}.things"
        )  # fmt: skip
        lake.sql(
            f"{verb} select {number} as id, 'a' as text, timestamp'2024-03-10 07:30:00' as at,"
            f" {SKETCHES} from range(2000)"
        )
    lake.sql("set spark.sql.debug.maxToStringFields = 100000")
    yield lake.spark


@pytest.fixture(scope="module")
def base(spark: Any) -> Session:
    return Session(spark, {"spark.sql.debug.maxToStringFields": "100000"})


@pytest.fixture(scope="module")
def calls(spark: Any) -> dict[str, list[str]]:
    """Return the test's calls of every function that a row-wise query may contain."""
    registry = spark._jsparkSession.sessionState().functionRegistry()
    names, identifiers = registry.listFunction().iterator(), []
    while names.hasNext():
        identifiers.append(names.next())
    calls: dict[str, list[str]] = {}
    for identifier in identifiers:
        info = registry.lookupFunction(identifier).get()
        name = identifier.funcName()
        if info.getGroup() in NOT_ROW_WISE or (name in CALLS and CALLS[name] is None):
            continue
        examples = re.findall(r"> SELECT (.*?);\s*\n", info.getExamples(), re.S | re.I)
        if name in CALLS:
            calls[name] = [CALLS[name] or ""]
            continue
        alone = [
            re.sub(r"\s*\n\s*", " ", example)
            for example in examples
            if not re.search(r"\bfrom\s+(values|\(|range)|\bAS S\b", example, re.I)
        ]
        calls[name] = alone if info.getGroup() == "datetime_funcs" else alone[:2]
    return calls


@pytest.fixture(scope="module")
def values(base: Session, calls: dict[str, list[str]]) -> dict[str, Any]:
    return base.evaluate(sorted({call for some in calls.values() for call in some}), "things")


def test_every_function_is_called(calls: dict[str, list[str]], values: dict[str, Any]) -> None:
    untried = {name for name, some in calls.items() if not some}
    errors = {call for call, value in values.items() if isinstance(value, str)}

    assert len(calls) > 380
    assert untried == set()
    assert {name for name, some in calls.items() if set(some) <= errors} == set()


def test_what_gives_another_value_at_another_time_or_place_is_refused(
    spark: Any, base: Session, values: dict[str, Any]
) -> None:
    """A value may depend on chance, on the time, on the schema, or on the partition of a row."""
    tried = [call for call, value in values.items() if isinstance(value, list)]
    again = Session(spark, {"spark.sql.files.openCostInBytes": "1000000000"}, f"{SCHEMA}_2")
    other = again.evaluate(tried, f"{SCHEMA}.things")
    differ = {call for call in tried if other[call] != values[call]}
    check = Check(base, "things")

    assert {"now()", "rand()", "random()"} <= differ
    # A sketch randomly drops half of its values. Two merges often give the same result, so the test
    # merges up to 50 times.
    merge = "kll_sketch_merge_bigint(kll_bigint, kll_bigint_2)"
    assert any(
        again.evaluate([merge], f"{SCHEMA}.things")[merge] != values[merge] for _ in range(50)
    )
    differ.add(merge)
    assert [call for call in sorted(differ | NOT_TRIED) if not check.is_refused(call)] == []

    names = "|".join(check.macros.call("_unrepeatable_functions"))
    refused = rf"\b({names}|curdate|convert_timezone|window)\b"
    same = [call for call in tried if call not in differ and not re.search(refused, call, re.I)]
    assert len(same) > 400
    for at in range(0, len(same), 60):
        items = [f"({_bare(call)}) as c{i}" for i, call in enumerate(same[at : at + 60])]
        assert isinstance(check.find(*items), list), check.find(*items)


def test_a_name_or_type_from_a_variable_of_the_session_is_refused(base: Session) -> None:
    """Spark's plans show the value of such a variable, but not the variable."""
    variables = {"col": "id", "sch": "a int", "tp": "int", "fmt": "dd", "coll": "utf8_lcase"}
    for variable, value in variables.items():
        base.spark.sql(f"declare or replace variable {variable} string default '{value}'")
    check = Check(base, "things")
    parsed = "parse_json(to_json(struct(id)))"
    for call in (
        "identifier(col)", "from_json(text, session.sch)", "from_csv(text, sch)",
        "from_xml(text, upper(sch))", f"variant_get({parsed}, '$.id', tp)",
        f"try_variant_get({parsed}, '$.id', `tp`)",
        "to_json(named_struct('d', at), map('timestampFormat', fmt))",
        "to_csv(named_struct('d', at), map('timestampFormat', fmt))",
        "to_xml(named_struct('d', at), map('timestampFormat', fmt))",
        "schema_of_json('[1.5]', map('dateFormat', lower(fmt)))",
        "schema_of_csv('1', map('delimiter', fmt))", "schema_of_xml('<a>1</a>', map('mode', fmt))",
        "collate(text, coll) = 'A'",
    ):  # fmt: skip
        assert "an option from the session variable" in str(check.find(f"{call} as c")), call
    for variable in variables:
        base.spark.sql(f"drop temporary variable {variable}")


def test_every_plan_shows_a_variable_of_the_session_unless_the_package_knows_the_function(
    base: Session, calls: dict[str, list[str]]
) -> None:
    """Each string literal of each call is replaced by a variable."""
    check, tried, unseen = Check(base, "things"), 0, set()
    for call in {call for some in calls.values() for call in some}:
        for literal in re.finditer(r"(?<![\w\"])(?<!date )(?<!timestamp )'(?:[^'\\]|\\.)*'", call):
            base.spark.sql(f"declare or replace variable va = {literal.group()}")
            other = call[: literal.start()] + "va" + call[literal.end() :]
            try:
                found = check.find(f"({_bare(other)}) as c")
            except Exception as error:
                assert "PARSE_SYNTAX_ERROR" in str(error)
                continue
            if isinstance(found, list):
                unseen.add(other.partition("(")[0])
            tried += "session variable" in found or "variablereference" in found
    base.spark.sql("drop temporary variable va")
    assert tried > 300
    assert unseen == {"try_make_timestamp"}


def test_what_gives_another_value_in_another_time_zone_is_noted(
    spark: Any, base: Session, values: dict[str, Any]
) -> None:
    tried = [call for call, value in values.items() if isinstance(value, list)]
    other = Session(spark, OTHER_ZONE).evaluate(tried, "things")
    differ = [call for call in tried if other[call] != values[call]]
    check = Check(base, "things")

    assert len(differ) > 50
    assert [c for c in differ if not check.notes(c, "spark.sql.session.timeZone")] == []


def test_an_expression_over_times_that_depends_on_the_zone_is_noted(
    spark: Any, base: Session
) -> None:
    expressions = split(USES_ZONE)
    here = base.evaluate(expressions, "times")
    there = Session(spark, OTHER_ZONE).evaluate(expressions, "times")
    differ = [call for call in expressions if here[call] != there[call]]
    check = Check(base, "times")

    assert [call for call in expressions if isinstance(here[call], str)] == []
    assert len(differ) > 0.7 * len(expressions), set(expressions) - set(differ)
    assert [c for c in differ if not check.notes(c, "spark.sql.session.timeZone")] == []


def test_an_expression_that_does_not_is_not_noted(base: Session) -> None:
    check = Check(base, "times")

    zone = "spark.sql.session.timeZone"
    assert [call for call in split(USES_NO_ZONE) if zone in check.find(call)] == []


def test_what_gives_another_value_in_ansi_mode_is_noted(
    spark: Any, base: Session, values: dict[str, Any]
) -> None:
    tried = [call for call, value in values.items() if isinstance(value, list)]
    session = Session(spark, ANSI)
    for table, expressions in (("things", tried), ("times", split(USES_ANSI))):
        here = values if table == "things" else base.evaluate(expressions, table)
        there = session.evaluate(expressions, table, 60 if table == "things" else 1)
        differ = [call for call in expressions if here[call] != there[call]]
        check = Check(base, table)

        assert [call for call in expressions if isinstance(here[call], str)] == []
        assert table == "things" or len(differ) > 0.7 * len(expressions), set(expressions) - set(
            differ
        )
        assert [call for call in differ if not check.notes(call, "spark.sql.ansi.enabled")] == []


@pytest.mark.core("session-delta")
def test_each_setting_of_spark_is_known_to_give_other_values_or_not(spark: Any) -> None:
    """If this test fails, Spark has a new setting.

    Find out what the setting does, and add it to `recorded/spark_settings.json`.
    """
    macros, known = Macros(), json.loads(SETTINGS.read_text())
    entries = getattr(spark._jvm.org.apache.spark.sql.internal, "SQLConf$").__getattr__("MODULE$")
    found, walked = {}, entries.getConfigEntries().iterator()
    while walked.hasNext():
        entry = walked.next()
        if entry.key().startswith(("spark.sql.", "spark.python.sql.")):
            default = entry.defaultValueString()
            found[entry.key()] = "unset" if default == "<undefined>" else default
    defaults = {name: macros.call("default_of_result_setting", name) for name in found}
    results = {name: default for name, default in defaults.items() if default is not None}

    # Spark registers some settings only after the part of Spark that reads them was used. Such
    # settings may be missing in `found`.
    assert sorted(set(found) - set(known["result"]) - set(known["execution"])) == []
    assert sorted(results) == sorted(set(found) & set(known["result"]))
    assert {name: found[name] for name in results} == results


def test_the_common_settings_are_told_and_no_other(spark: Any) -> None:
    macros = Macros()
    expression = macros.call("common_settings_sql")
    others = {"spark.sql.session.timeZone": "Asia/Tokyo"}
    # `doubleQuotedIdentifiers` has no effect without ANSI mode.
    beside = {"spark.sql.ansi.doubleQuotedIdentifiers": ANSI}

    def read(**settings: str) -> dict[str, str]:
        told: dict[str, str] = Session(spark, settings).spark.sql(f"select {expression}").head()[0]
        return told

    told = {name: read(**beside.get(name, {})) for name in read()}
    for name, base in told.items():
        other = others.get(name) or ("false" if base[name] == "true" else "true")
        assert read(**beside.get(name, {}), **{name: other}) == {**base, name: other}
