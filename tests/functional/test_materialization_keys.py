"""Composite keys of every type, with values that break whatever pastes text into text."""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable
from decimal import Decimal
from typing import Any

import pytest

from support.checks import model, source
from support.project import MakeProject, Project

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

# Keys in which the hostile column comes first, in the middle and last.
ORDERS = {
    "word_first": [
        *("word", "number", "flag", "code", "day", "price", "moment"),
        *("tiny", "small", "large", "local"),
    ],
    "word_last": [
        *("flag", "moment", "local", "price", "number", "large", "day", "code"),
        *("small", "tiny", "word"),
    ],
    "word_only": ["word"],
}


def literal(value: Any, sql_type: str) -> str:
    """Without quotes or escapes of text: how the macros write literals is what is tested."""
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


@pytest.fixture(
    scope="module",
    params=[
        pytest.param("word_first", marks=pytest.mark.every_profile),
        "word_last",
        pytest.param("word_only", marks=pytest.mark.every_profile),
    ],
)
def order(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture(scope="module")
def project(order: str, shared_project: MakeProject) -> Project:
    project = shared_project(f"hostile_{order}")
    columns = ", ".join(f"{name} {type}" for name, type in COLUMNS.items())
    project.create_table("items", f"{columns}, payload string")
    insert(project, ROWS)
    return project.write({"mv": written(order)}, sources=["items"])


def test_hostile_keys_are_backfilled_and_followed(project: Project, order: str) -> None:
    fresh = f"select {', '.join(reversed(ORDERS[order]))}, payload from {{schema}}.items"
    first = project.run()
    assert first.message("mv") == "BARRIER 1 (41.7 %)"
    mv = project.rows("select * from {schema}.mv")
    assert len(mv) == 10
    assert set(map(str, mv)) <= set(map(str, project.rows(fresh)))

    insert(project, [_row(number, f"{word}'$") for number, word in enumerate(WORDS[:6])])
    project.sql("update {schema}.items set payload = 'changed' where length(word) < 8")
    project.sql("delete from {schema}.items where word in ('', 'null') or word like '%no%'")
    second = project.run()
    assert second.message("mv").startswith("BARRIER 2 (")

    project.sql("update {schema}.items set word = concat(word, '\\'') where flag")
    project.write({"mv": written(order, barriers_per_run="all")})
    assert project.run().message("mv").endswith("CAUGHT UP")
    assert project.rows("select * from {schema}.mv") == project.rows(fresh)


def test_positions_are_kept_in_the_keys_own_types(project: Project, order: str) -> None:
    if not project.exists("mv__progress"):
        project.run()
    upstream = column_types(project, "items")  # Iceberg keeps a tinyint as an int
    progress = column_types(project, "mv__progress")
    assert {name: progress[name] for name in ORDERS[order]} == {
        name: upstream[name] for name in ORDERS[order]
    }
    types = project.value("select key_types from {schema}.mv__barriers where epoch = 1")
    assert types == [upstream[name] for name in ORDERS[order]]


def column_types(project: Project, table: str) -> dict[str, str]:
    return {row[0]: row[1] for row in project.sql(f"describe {{schema}}.{table}")}


@pytest.mark.every_profile
def test_key_columns_may_have_the_names_that_our_statements_use(
    new_project: Callable[[], Project],
) -> None:
    project = new_project()
    key = ["position", "rank", "size", "step", "low", "high", "count", "hash", "vnode", "epoch"]
    key += ["plan", "plan_id", "unwritten", "last", "sampled", "bound"]
    project.create_table("items", ", ".join(f"`{name}` int" for name in key) + ", payload int")
    values = ", ".join(f"id % {number + 2}" for number in range(len(key) - 1))
    project.sql(f"insert into {{schema}}.items select {values}, id, 0 from range(20)")
    query = f"select * from {source('items')}"
    settings = {"unique_key": key, "backfill_rate_limit": 6}
    project.write({"mv": model(query, **settings)}, sources=["items"])
    project.run()
    project.sql("update {schema}.items set payload = 1, `rank` = `rank` + 1 where bound % 2 = 0")
    project.sql("delete from {schema}.items where `position` = 1 and bound > 9")
    project.run()
    project.write({"mv": model(query, **settings, barriers_per_run="all")})

    assert project.run().message("mv").endswith("CAUGHT UP")
    assert project.rows("select * from {schema}.mv") == project.rows("select * from {schema}.items")
    assert "all equal" in project.operation("verify_backfill", model="mv").output


@pytest.mark.every_profile
def test_the_name_of_a_source_may_have_to_be_quoted(new_project: Callable[[], Project]) -> None:
    project = new_project()
    project.create_table("`2_up`", "id int, payload int")
    project.sql("insert into {schema}.`2_up` select id, 0 from range(6)")
    table = {"name": "up", "identifier": "2_up", "quoting": {"identifier": True}}
    lake = {"name": "lake", "schema": project.schema, "tables": [table]}
    query = f"select * from {source('up')}"
    project.write({"mv": model(query, backfill_rate_limit=3)}, properties={"sources": [lake]})
    project.run()
    project.sql("update {schema}.`2_up` set payload = 1 where id in (0, 5)")
    project.run()
    assert "all equal" in project.operation("verify_backfill", model="mv").output

    assert project.rows("select * from {schema}.mv") == [
        (0, 1),
        *((n, 0) for n in range(1, 5)),
        (5, 1),
    ]
