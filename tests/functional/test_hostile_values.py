"""Values and names with quotes, backslashes and braces pass unchanged through every kind of
barrier.

Two MVs read one table. The key of one MV begins with a text, and the key of the other MV begins
with a timestamp. The session's time zone changes between the barriers.
`tests/functional/test_materialization_keys.py` and the random histories test the other key types.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from datetime import date, datetime
from decimal import Decimal
from typing import Any

import pytest
import yaml

from exactness.keys import KEY_TYPES, literal
from support.checks import assert_no_java, data_tests, model, source
from support.project import MakeProject, Project, RunResult, crash_before

pytestmark = [
    pytest.mark.every_profile,
    pytest.mark.profiles(
        "session-delta", "session-iceberg", reason="the tests of keys run through a Thrift server"
    ),
]

WORDS = (
    "it's",
    'say "so"',
    "back\\slash\\",
    "",
    "new\nline\r\ttab",
    "nul\0nul",
    "{{ this }} {% raw %} {# gone #}",
    "-- no comment",
    "/* no comment",
    "${spark.app.name}",
    "semi; colon",
    "smile 😀 é e\u0301 \uffee",
    "`tick`",
    "null",
    "007",
)

# In New York, 1:30 occurs twice on 2024-11-03, and the hour from 2:00 to 3:00 is skipped on
# 2024-03-10.
MOMENTS = (
    datetime(2024, 11, 3, 5, 30),
    datetime(2024, 11, 3, 6, 30),
    datetime(2024, 3, 10, 6, 59, 59, 999999),
    datetime(2024, 3, 10, 7, 0),
    datetime(1, 1, 1),
    datetime(9999, 12, 31, 23, 59, 59, 999999),
    datetime(1582, 10, 4, 23, 59, 59, 999999),
    datetime(1582, 10, 15),
    datetime(1883, 11, 18, 17, 0),
)

# The table has a column with the same name.
TABLE = "hostile"
COLUMNS: dict[str, tuple[str, tuple[Any, ...]]] = {
    "the key": ("string", WORDS),
    "k.2": ("timestamp", MOMENTS),
    "hostile": ("string", (None, *reversed(WORDS))),
    "select": ("decimal(38,10)", KEY_TYPES["wide decimal"].values[:4]),
    "from.where": ("date", (date(1, 1, 1), None, date(9999, 12, 31), date(1582, 10, 4))),
    "order by": ("timestamp", tuple(reversed(MOMENTS))),
    "it's": ("timestamp_ntz", KEY_TYPES["timestamp_ntz"].values[:6]),
    "#5 -- no comment": ("binary", (b"\xff\xfe'\\\x00", b"", None, b"\xc3\x28", b"\xf0\x9f")),
    "null": ("bigint", (-(2**63), 2**63 - 1, None, 0)),
    "007": ("int", (-(2**31), 2**31 - 1, None, 0)),
    "{a}=(b);": ("decimal(38,0)", (Decimal(10**38 - 1), Decimal(1 - 10**38), None)),
}

# Delta cannot update a table that has a change data feed and a backtick in the name of a column.
OF_ICEBERG = {"back`tick``s": ("string", ("`", None, "``"))}

MVS = {"hostile_by_text": ["key's", "k . 2"], "by_time_hostile": ["k . 2", "key's"]}
ZONES = ("America/New_York", "Asia/Kolkata", "UTC")


def quoted(name: str) -> str:
    return "`" + name.replace("`", "``") + "`"


def columns_of(project: Project) -> dict[str, tuple[str, tuple[Any, ...]]]:
    return COLUMNS | (OF_ICEBERG if project.file_format == "iceberg" else {})


def row(project: Project, number: int) -> str:
    """Return the values of a row as SQL. No two rows have the same word and the same moment."""
    values = [
        literal(values[number % len(values)], sql) for sql, values in columns_of(project).values()
    ]
    return f"({', '.join(values)})"


def insert(project: Project, *numbers: int) -> None:
    rows = ", ".join(row(project, number) for number in numbers)
    project.sql(f"insert into {{schema}}.{TABLE} values {rows}")


def query(project: Project) -> str:
    """Return a query of all columns that renames the key columns and adds an expression."""
    rest = ", ".join(quoted(name) for name in columns_of(project) if name not in ("the key", "k.2"))
    return (
        "select `k.2` as `k . 2`, `the key` as `key's`,"
        f" concat('{{{{ \"{{{{\" }}}} -- ', `the key`, '\\'\\n') as `upper`, {rest} from "
    )


def write(project: Project, **config: Any) -> None:
    sql = f"{query(project)}{source(TABLE)}"
    models = {mv: model(sql, unique_key=key, **config) for mv, key in MVS.items()}
    project.write(models, sources=[TABLE], properties=data_tests(project, *MVS))


def run(project: Project, zone: str, *args: str) -> RunResult:
    project.configure({"spark.sql.session.timeZone": zone})
    result = project.run(*args)
    assert_no_java(result.output)
    return result


def assert_consistent(project: Project) -> None:
    tested = project.dbt("test", "--select", "test_name:backfill_consistent")
    assert [node.status for node in tested.nodes] == ["pass"] * len(MVS), tested.output


def assert_equal_to_query(project: Project) -> None:
    """Compare the MVs with their queries in Spark, because Python cannot represent all of the
    values.
    """
    fresh = f"{query(project)}{{schema}}.{TABLE}".replace('{{ "{{" }}', "{{")
    for mv in MVS:
        rows = f"select * from {{schema}}.{mv}"
        for one, other in ((fresh, rows), (rows, fresh)):
            difference = f"select count(*) from (({one}) except all ({other}))"
            assert project.value(difference) == 0, mv


@pytest.fixture(scope="module")
def project(shared_project: MakeProject) -> Iterator[Project]:
    """Create the MVs, and run their first barrier, which reads three rows."""
    project = shared_project("hostile_values")
    columns = ", ".join(f"{quoted(name)} {sql}" for name, (sql, _) in columns_of(project).items())
    mapped = {"delta.columnMapping.mode": "name"} if project.file_format == "delta" else {}
    project.create_table(TABLE, columns, mapped)
    insert(project, *range(20))
    write(project, backfill_rate_limit=3)
    first = run(project, "UTC")
    assert {first.message(mv) for mv in MVS} == {"BARRIER 1 (15.0 %)"}
    yield project
    project.configure({"spark.sql.session.timeZone": "UTC"})


@pytest.fixture(scope="module")
def version(project: Project) -> str | None:
    """Return the version of the upstream that the first barrier has read."""
    return project.current_version(TABLE)


@pytest.fixture(scope="module")
def followed(project: Project, version: str | None) -> RunResult:
    """Update rows, delete rows, insert them again, and change keys. Then run the next barrier."""
    project.sql(
        f"update {{schema}}.{TABLE} set `hostile` = concat(`the key`, '\\'`$'), `select` = null"
        " where `007` < 0"
    )
    project.sql(f"delete from {{schema}}.{TABLE} where `the key` in ('', 'null') or `null` = 0")
    insert(project, *range(3, 20, 4))
    project.sql(
        f"update {{schema}}.{TABLE} set `the key` = concat(`the key`, '\\\\') where `null` > 0"
    )
    assert version != project.current_version(TABLE)
    return run(project, ZONES[0])


def test_hostile_rows_are_updated_deleted_and_inserted_again(
    project: Project, followed: RunResult
) -> None:
    assert "re-anchored" not in followed.output
    assert_consistent(project)


@pytest.mark.usefixtures("followed")
def test_hostile_rows_are_compared_after_the_upstream_went_back(
    project: Project, version: str | None
) -> None:
    project.restore(TABLE, version)

    restored = run(project, ZONES[1])

    assert restored.output.count(" · re-anchored: the upstream was ") == len(MVS)
    assert_consistent(project)


def test_hostile_rows_are_backfilled_to_the_end_and_again(project: Project) -> None:
    write(project, barriers_per_run="all")
    run(project, ZONES[0])
    assert_equal_to_query(project)

    write(project)
    again = run(project, ZONES[1], "--full-refresh")

    assert again.output.count(" · emptied: full refresh · ") == len(MVS)
    assert_equal_to_query(project)
    project.test()


@pytest.mark.every_profile
def test_fields_of_a_struct_may_be_many_and_need_quotes(
    new_project: Callable[[], Project],
) -> None:
    """Spark prints a struct type without quotes and with at most 25 fields.

    The package raises this limit with a SET statement. Spark would take a comment after the value
    as a part of the value.
    """
    project = new_project()
    path = project.root / "dbt_project.yml"
    comment = {"comment": "of dbt", "append": True}
    path.write_text(yaml.safe_dump({**yaml.safe_load(path.read_text()), "query-comment": comment}))
    fields = ["order-id", "t h", "b.c", *(f"f{number}" for number in range(30))]
    struct = ", ".join(f"`{name}`: int" for name in fields)
    mapped = {"delta.columnMapping.mode": "name"} if project.file_format == "delta" else {}
    project.create_table("items", f"id int, payload struct<{struct}>", mapped)
    values = ", ".join(f"'{name}', {number}" for number, name in enumerate(fields))
    item = f"select cast(id as int), named_struct({values})"
    project.sql(f"insert into {{schema}}.items {item} from range(6)")
    query = f"select id, payload from {source('items')}"
    project.write({"mv": model(query, backfill_rate_limit=4)}, sources=["items"])
    project.run()
    project.sql("update {schema}.items set payload = null where id = 1")

    project.fail("--full-refresh", intercept=crash_before(".mv: empty the MV"))
    project.sql("set spark.sql.debug.maxToStringFields = 25")
    project.write({"mv": model(query)})
    project.run()

    assert project.run().message("mv") == "CAUGHT UP"
    difference = "select * from {schema}.mv except all select * from {schema}.items"
    assert project.value("select count(*) from {schema}.mv") == 6
    assert project.sql(difference) == []


def test_columns_may_have_the_names_that_statements_give_to_tables(project: Project) -> None:
    """`source.id` must be the column `id` of the table, not the entry `id` of a map `source`.

    Spark prefers an ordinary column to a metadata column of Iceberg, such as `_file`.
    """
    names = "source mv changes range prefix query present row stage gone kept deleted earlier late"
    names += " progress latest system session staged reread"
    properties = {"format-version": "3"} if project.file_format == "iceberg" else {}
    for table, type_, value in (
        ("mapped", "map<string, string>", "map('id', 'wrong', 'k', 'v')"),
        ("nested", "struct<id: int, k: string>", "named_struct('id', -1, 'k', 'v')"),
        ("plain", "int", "-1"),
    ):
        listed = ", ".join(f"`{name}` {type_}" for name in names.split())
        project.create_table(table, f"id string, name string, {listed}", properties)
        values = ", ".join([value] * len(names.split()))
        rows = f"select /*+ coalesce(1) */ concat('k', id), 'old', {values} from range(10, 30)"
        project.sql(f"insert into {{schema}}.{table} {rows}")
    tables = ["mapped", "nested", "plain"]
    models = {f"mv_{table}": model(f"select * from {source(table)}") for table in tables}
    project.write(models, sources=tables).run("--select", *models)

    for table in tables:
        project.sql(f"update {{schema}}.{table} set name = 'new' where id = 'k11'")
        project.sql(f"delete from {{schema}}.{table} where id = 'k12'")
        rest = f"* except (id, name) from {{schema}}.{table} where id = 'k11'"
        project.sql(f"insert into {{schema}}.{table} select 'k99', 'late', {rest}")
    followed = project.run("--select", *models)

    assert "re-anchored" not in followed.output
    for table in tables:
        shown = "select to_json(struct(*)) from {schema}."
        assert project.rows(f"{shown}mv_{table}") == project.rows(f"{shown}{table}")
