"""Which statements of a script write a table: faults strike after these."""

from __future__ import annotations

import pytest

from support.scripts import leaves_something, writes


@pytest.mark.parametrize(
    ("statement", "expected"),
    [
        ("merge into lake.mv as mv using s on true when matched then delete", True),
        ("if staged.null_keys = 0 then merge into lake.mv__barriers as b using s", True),
        ("execute immediate 'optimize lake.mv__barriers'", True),
        ("execute immediate create_mv", True),
        ("create or replace temporary view `v` as select 1", False),
        (
            "execute immediate replace(replace('create or replace temporary view `v`', 'a', a)",
            False,
        ),
        ("execute immediate cache into cache", False),
        ("cache table `v`", False),
        ("set staged = (select 1)", False),
        ("select 1", False),
    ],
)
def test_a_statement_that_writes_a_table_is_told_from_others(
    statement: str, expected: bool
) -> None:
    assert writes(statement) == expected


@pytest.mark.parametrize(
    ("sql", "expected"),
    [
        ("/* mv: observe the state */ select 1", False),
        ("select case when true then null end", False),
        ("begin\ndeclare a string;\nexecute immediate b into a;\nselect a;\nend", False),
        ("begin\nif true then select 1;\nelse select 2;\nend if;\nend", False),
        ("begin\ncreate or replace temporary view v as select 1;\nselect 1;\nend", True),
        ("begin\ncache table v;\nselect 1;\nend", True),
        ("begin\nif true then merge into mv using s on true when matched then delete;\nend", True),
    ],
)
def test_a_statement_that_leaves_something_is_told_from_one_that_reads(
    sql: str, expected: bool
) -> None:
    assert leaves_something(sql) == expected
