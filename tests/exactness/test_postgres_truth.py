"""Tests of `Truth`: its rows at a position are the rows of the PostgreSQL table."""

from __future__ import annotations

import time
from collections.abc import Callable

import pytest

from exactness.oracle import rows_by_key
from exactness.postgres_truth import Truth
from support.postgres import Database
from support.writers import Table, Writers, orders, places


@pytest.mark.parametrize("make", [orders, places])
def test_it_is_what_the_table_holds_also_after_a_crash(
    database: Database, make: Callable[[int, str], Table]
) -> None:
    table = make(200, f"true_{make.__name__}")
    dsn = database.url.removeprefix("jdbc:")
    truth = Truth.begin(dsn, f"truth_of_{table.name}")
    with database.connect() as connection:
        connection.execute(table.create)
        table.fill(connection, 150)

    with Writers(dsn, table, 4, 120) as writers:
        for _ in range(2):
            time.sleep(0.7)
            truth.read()
            database.stop("immediate")
            database.start()
        time.sleep(0.7)

    position = truth.read()
    assert writers.committed > 50
    columns = (*table.key, "amount", "label")
    held = [
        dict(zip(columns, row, strict=True)) for row in database.sql(f"select * from {table.name}")
    ]
    assert truth.at(table.name, position) == rows_by_key(held, tuple(table.key))
    assert position <= truth.insert_position()
    truth.end()


def test_each_position_has_the_commits_that_end_there(database: Database) -> None:
    dsn = database.url.removeprefix("jdbc:")
    truth = Truth.begin(dsn, "truth_of_pairs")
    positions = []
    for statement in (
        "create table pairs (id int primary key, label text)",
        "insert into pairs values (1, 'a'), (2, 'b')",
        "update pairs set id = 3 where id = 1",
        "truncate pairs",
        "insert into pairs values (2, null)",
    ):
        database.sql(statement)
        positions.append(truth.read())

    held = [sorted(truth.at("pairs", position)) for position in positions]
    assert held == [[], [(1,), (2,)], [(2,), (3,)], [], [(2,)]]
    assert [sorted(truth.at("pairs", position)) for position in reversed(positions)] == held[::-1]
    changes = truth.changes("pairs", positions[1], positions[2])
    assert [(change.old, change.new) for change in changes] == [
        ({"id": 1, "label": "a"}, {"id": 3, "label": "a"})
    ]
    truth.end()
