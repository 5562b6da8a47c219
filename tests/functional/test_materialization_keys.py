"""Composite keys of every type, with values that break whatever pastes text into text."""

from __future__ import annotations

import datetime as dt
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

from support.checks import model, shared_project, source
from support.lake import Lake
from support.project import Project

pytestmark = pytest.mark.every_profile

COLUMNS = {
    "number": "int",
    "word": "string",
    "day": "date",
    "moment": "timestamp",
    "price": "decimal(20,4)",
    "flag": "boolean",
    "code": "binary",
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
        f"payload {number}",
    )


ROWS = [_row(number, word) for number, word in enumerate(WORDS)]

# Keys in which the hostile column comes first, in the middle and last.
ORDERS = {
    "word_first": ["word", "number", "flag", "code", "day", "price", "moment"],
    "word_last": ["flag", "moment", "price", "number", "day", "code", "word"],
}


def literal(value: Any) -> str:
    """Without quotes or escapes of text: how the macros write literals is what is tested."""
    if isinstance(value, str):
        return f"cast(X'{value.encode().hex()}' as string)"
    if isinstance(value, bytes):
        return f"X'{value.hex()}'"
    if isinstance(value, dt.datetime):
        return f"timestamp'{value}+00:00'"
    if isinstance(value, dt.date):
        return f"date'{value}'"
    return str(value).lower()


def insert(project: Project, table: str, rows: list[tuple[Any, ...]]) -> None:
    values = ", ".join(f"({', '.join(map(literal, row))})" for row in rows)
    project.sql(f"insert into {{schema}}.{table} values {values}")


@pytest.fixture(scope="module")
def project(
    request: pytest.FixtureRequest,
    lake: Lake,
    packages: Path,
    tmp_path_factory: pytest.TempPathFactory,
) -> Project:
    project = shared_project(request, lake, packages, tmp_path_factory, "hostile_keys")
    columns = ", ".join(f"{name} {type}" for name, type in COLUMNS.items())
    project.create_table("items", f"{columns}, payload string")
    insert(project, "items", ROWS)
    models = {
        name: model(
            f"select {', '.join(reversed(order))}, payload from {source('items')}",
            unique_key=order,
            backfill_rate_limit=7,
        )
        for name, order in ORDERS.items()
    }
    models["word_only"] = model(
        f"select word as `the word`, payload from {source('items')}",
        unique_key="the word",
        backfill_rate_limit=7,
    )
    return project.write(models, sources=["items"])


NAMES = [*ORDERS, "word_only"]


def fresh(name: str) -> str:
    if name == "word_only":
        return "select word, payload from {schema}.items"
    return f"select {', '.join(reversed(ORDERS[name]))}, payload from {{schema}}.items"


def test_hostile_keys_are_backfilled_and_followed(project: Project) -> None:
    first = project.run()
    for name in NAMES:
        assert first.message(name) == "BARRIER 1 (29.2 %)"
        mv = project.rows(f"select * from {{schema}}.{name}")
        assert len(mv) == 7
        assert set(map(str, mv)) <= set(map(str, project.rows(fresh(name))))

    insert(project, "items", [_row(number, f"{word}'$") for number, word in enumerate(WORDS[:6])])
    project.sql("update {schema}.items set payload = 'changed' where length(word) < 8")
    project.sql("delete from {schema}.items where word in ('', 'null') or word like '%no%'")
    second = project.run()
    for name in NAMES:
        assert second.message(name).startswith("BARRIER 2 (")

    project.sql("update {schema}.items set word = concat(word, '\\'') where flag")
    for _ in range(10):
        result = project.run()
        if all(result.message(name) == "CAUGHT UP" for name in NAMES):
            break
    for name in NAMES:
        assert result.message(name) == "CAUGHT UP"
        assert project.rows(f"select * from {{schema}}.{name}") == project.rows(fresh(name))


def test_positions_are_kept_in_the_keys_own_types(project: Project) -> None:
    if not project.exists("word_first__progress"):
        project.run()
    for name, order in ORDERS.items():
        columns = {row[0]: row[1] for row in project.sql(f"describe {{schema}}.{name}__progress")}
        assert {column: columns[column] for column in order} == {c: COLUMNS[c] for c in order}
        types = project.value(f"select key_types from {{schema}}.{name}__barriers where epoch = 1")
        assert types == [COLUMNS[column] for column in order]
