"""Composite keys of every type, with quotes, backslashes and other special characters.

The MVs have the same columns, but order the key columns differently. They share the dbt runs.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable
from dataclasses import dataclass
from decimal import Decimal
from typing import Any

import pytest

from support.checks import assert_refused, data_tests, model, source
from support.project import MakeProject, Project, RunResult

COLUMNS = {
    "number": "int",
    "word": "string",
    "day": "date",
    "moment": "timestamp",
    "price": "decimal(20,4)",
    "flag": "boolean",
    "code": "binary",
    "tiny": "tinyint",
    "small": "smallint",
    "large": "bigint",
    "local": "timestamp_ntz",
}

WORDS = [
    "",
    " ",
    "it's",
    'say "so"',
    "back\\slash",
    "\\",
    "\\'",
    "${x}",
    "${env:HOME}",
    "{{ this }}",
    "{% raw %}",
    "{# gone #}",
    "new\nline",
    "tab\t",
    "--no comment",
    "/* no comment */",
    "semi;colon",
    "nul\0nul",
    "smile 😀",
    "ärger",
    "%s",
    "`tick`",
    "null",
    "007",
]


def _row(number: int, word: str) -> tuple[Any, ...]:
    return (
        number % 3 - 1,
        word,
        (dt.date(1, 1, 2), dt.date(1500, 2, 28), dt.date(9999, 12, 31))[number % 3],
        dt.datetime(1969, 12, 31, 23, 59, 59, 999999) + dt.timedelta(days=number % 2),
        Decimal("-12345678901234.5678") if number % 2 else Decimal("0.0001"),
        number % 2 == 0,
        bytes([0, 39, 92, 255 - number % 2]),
        -128 + number % 2,
        -32768 + number % 2,
        -(2**63) + number % 2 if number % 3 else 2**63 - 1,
        dt.datetime(1582, 10, 4, 23, 59, 59, 999999),
        f"payload {number}",
    )


ROWS = [_row(number, word) for number, word in enumerate(WORDS)]

# The column `word` with the hostile texts is the last column of these keys, or the only one. In
# `test_hostile_values.py`, keys begin with such a column.
ORDERS = {
    "word_last": [
        *("flag", "moment", "local", "price", "number", "large", "day", "code"),
        *("small", "tiny", "word"),
    ],
    "word_only": ["word"],
}


def literal(value: Any, sql_type: str) -> str:
    """Return a SQL literal in which texts are hexadecimal, because the tests check the escaping."""
    if isinstance(value, str):
        return f"cast(X'{value.encode().hex()}' as string)"
    if isinstance(value, bytes):
        return f"X'{value.hex()}'"
    if sql_type == "timestamp":
        return f"timestamp'{value}+00:00'"
    if isinstance(value, dt.date):
        return f"{sql_type}'{value}'"
    return f"cast('{value}' as {sql_type})"


def insert(project: Project, rows: list[tuple[Any, ...]]) -> None:
    types = [*COLUMNS.values(), "string"]
    values = [", ".join(map(literal, row, types)) for row in rows]
    project.sql(f"insert into {{schema}}.items values ({'), ('.join(values)})")


def written(order: str, **options: Any) -> str:
    columns = [*reversed(ORDERS[order]), "payload"]
    names = {name: "the word" if order == "word_only" else name for name in ORDERS[order]}
    selected = ", ".join(f"{name} as `{names.get(name, name)}`" for name in columns)
    return model(
        f"select {selected} from {source('items')}",
        unique_key=list(names.values()),
        backfill_rate_limit=10,
        **options,
    )


@dataclass(frozen=True)
class Story:
    project: Project
    first: RunResult
    rows: dict[str, list[tuple[Any, ...]]]
    """The rows of each MV after the first run. `fresh` has the rows that the upstream had then."""
    fresh: dict[str, list[tuple[Any, ...]]]
    second: RunResult
    last: RunResult


def write(project: Project, **options: Any) -> None:
    project.write({order: written(order, **options) for order in ORDERS}, sources=["items"])


def fresh(project: Project, order: str) -> list[tuple[Any, ...]]:
    columns = ", ".join([*reversed(ORDERS[order]), "payload"])
    return project.rows(f"select {columns} from {{schema}}.items")


@pytest.fixture(scope="module")
def story(shared_project: MakeProject) -> Story:
    project = shared_project("hostile_keys")
    columns = ", ".join(f"{name} {type}" for name, type in COLUMNS.items())
    project.create_table("items", f"{columns}, payload string")
    insert(project, ROWS)
    write(project)
    first = project.run()
    rows = {order: project.rows(f"select * from {{schema}}.{order}") for order in ORDERS}
    upstream = {order: fresh(project, order) for order in ORDERS}

    insert(project, [_row(number, f"{word}'$") for number, word in enumerate(WORDS[:6])])
    project.sql("update {schema}.items set payload = 'changed' where length(word) < 8")
    project.sql("delete from {schema}.items where word in ('', 'null') or word like '%no%'")
    second = project.run()

    project.sql("update {schema}.items set word = concat(word, '\\'') where flag")
    write(project, barriers_per_run="all")
    return Story(project, first, rows, upstream, second, project.run())


@pytest.mark.every_profile
@pytest.mark.parametrize("order", ORDERS)
def test_hostile_keys_are_backfilled_and_followed(story: Story, order: str) -> None:
    assert story.first.message(order) == "BARRIER 1 (41.7 %)"
    assert len(story.rows[order]) == 10
    assert set(map(str, story.rows[order])) <= set(map(str, story.fresh[order]))
    assert story.second.message(order).startswith("BARRIER 2 (")
    assert story.last.message(order).endswith("CAUGHT UP")
    mv = story.project.rows(f"select * from {{schema}}.{order}")
    assert mv == fresh(story.project, order)


@pytest.mark.every_profile
@pytest.mark.parametrize("order", ORDERS)
def test_positions_are_kept_in_the_keys_own_types(story: Story, order: str) -> None:
    upstream = column_types(story.project, "items")  # Iceberg stores a tinyint as an int
    progress = column_types(story.project, f"{order}__progress")
    assert {name: progress[name] for name in ORDERS[order]} == {
        name: upstream[name] for name in ORDERS[order]
    }
    history = f"select key_types from {{schema}}.{order}__barriers where epoch = 1"
    assert story.project.value(history) == [upstream[name] for name in ORDERS[order]]


def column_types(project: Project, table: str) -> dict[str, str]:
    return {row[0]: row[1] for row in project.sql(f"describe {{schema}}.{table}")}


@pytest.mark.every_profile
def test_key_columns_may_have_the_names_that_our_statements_use(
    new_project: Callable[[], Project],
) -> None:
    """The name of the upstream, `2_up`, must be quoted because it begins with a digit."""
    project = new_project()
    key = ["position", "rank", "size", "step", "low", "high", "count", "hash", "vnode", "epoch"]
    key += ["plan", "plan_id", "unwritten", "last", "sampled", "bound"]
    project.create_table("`2_up`", ", ".join(f"`{name}` int" for name in key) + ", payload int")
    values = ", ".join(f"id % {number + 2}" for number in range(len(key) - 1))
    project.sql(f"insert into {{schema}}.`2_up` select {values}, id, 0 from range(20)")
    table = {"name": "up", "identifier": "2_up", "quoting": {"identifier": True}}
    lake = {"name": "lake", "schema": project.schema, "tables": [table]}
    query = f"select * from {source('up')}"
    settings = {"unique_key": key, "backfill_rate_limit": 7}
    project.write({"mv": model(query, **settings)}, properties={"sources": [lake]})
    assert project.run().message("mv") == "BARRIER 1 (35.0 %)"
    project.sql("update {schema}.`2_up` set payload = 1, `rank` = `rank` + 1 where bound % 2 = 0")
    project.sql("delete from {schema}.`2_up` where `position` = 1 and bound > 9")
    project.write({"mv": model(query, **settings, barriers_per_run="all")})

    assert project.run().message("mv") == "BARRIERS 2 to 3 (100.0 %), CAUGHT UP"
    assert project.rows("select * from {schema}.mv") == project.rows(
        "select * from {schema}.`2_up`"
    )
    assert "all equal" in project.operation("verify_backfill", model="mv").output


def test_a_surrogate_key_is_a_column_beside_the_natural_key(
    new_project: Callable[[], Project],
) -> None:
    """The expression is what `dbt_utils.generate_surrogate_key(['id', 'name'])` returns."""
    project = new_project()
    project.create_table("up", "id int, name string")
    project.sql("insert into {schema}.up select id, concat('n', id) from range(1, 21)")
    null = "'_dbt_utils_surrogate_key_null_'"
    parts = f"coalesce(cast(id as string), {null}), '-', coalesce(cast(name as string), {null})"
    query = f"select md5(cast(concat({parts}) as string)) as up_key, id, name from {source('up')}"
    project.write({"mv": model(query, unique_key="up_key")}, sources=["up"])
    assert_refused(
        project.fail(),
        "mv",
        "the column 'up_key' of unique_key is an expression, not a column of the upstream",
        "its own unique test",
    )
    properties = data_tests(project, "mv")
    properties["models"][0]["columns"] = [{"name": "up_key", "data_tests": ["unique"]}]
    project.write({"mv": model(query)}, properties=properties)
    project.run()
    project.sql("update {schema}.up set name = 'new' where id = 2")
    project.run()

    project.test()
    assert project.rows("select up_key, id from {schema}.mv") == project.rows(
        "select md5(concat(id, '-', name)), id from {schema}.up"
    )
