"""The statements of a script that write a table. Other tests inject faults after them."""

from __future__ import annotations

import re

import pytest

from support.scripts import dying_after, leaves_something, statements_of, writes, writes_of

GUARDED = """begin
    declare exit handler for sqlstate '2D521' begin end;
    update lake.mv__progress set plan_id = 'p' where epoch = 1 and plan_id is null;
    end;"""
PLANS = f"""
/* lake.mv: plan the barrier 2 */
begin
    declare lost boolean default false;
    declare planned string;
    begin
        declare exit handler for sqlexception begin set lost = true; end;
        execute immediate replace('create or replace temporary view `s` as select 1', '1', x);
        cache table `s`;
        if staged.suspects > 0 then
            cache table `t`;
        else
            create or replace temporary view `u` as select 2;
        end if;
    end;
    if true then
        set planned = (select 1);
        {GUARDED}
        select 1;
    else
        select 2;
    end if;
end"""


@pytest.mark.parametrize(
    ("statement", "expected"),
    [
        ("merge into lake.mv as mv using s on true when matched then delete", True),
        ("if staged.null_keys = 0 then merge into lake.mv__progress as p using s", True),
        ("if true then\n    create table if not exists lake.mv__progress as select 1", True),
        ("else\n    create or replace table lake.mv__progress as select 1", True),
        ("begin\n    update lake.mv__progress set epoch = 1", True),
        (
            "execute immediate replace('update lake.mv__progress\nset plan = p', 'p', planned)",
            True,
        ),
        ("execute immediate 'optimize lake.mv__barriers'", True),
        ("execute immediate 'declare or replace variable `v` array<bigint>'", False),
        ("begin\n    declare exit handler for sqlexception begin end", False),
        ("else\n    create or replace temporary view `v` as select 1", False),
        ("end if", False),
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
        (f"begin\n{GUARDED}\nselect 1;\nend", True),
        ("begin\nbegin\ndeclare exit handler for x begin end;\nselect 1;\nend;\nend", False),
    ],
)
def test_a_statement_that_leaves_something_is_told_from_one_that_reads(
    sql: str, expected: bool
) -> None:
    assert leaves_something(sql) == expected


def test_a_script_that_has_no_variables_writes_by_statements_of_its_own() -> None:
    first, second = "create table t as select 1", "merge into t using s on true when matched then x"

    assert writes_of(f"begin\n{first};\n{second};\nend") == [f"\n{first}", second]
    assert writes_of(PLANS) == [PLANS]
    assert sum(map(writes, statements_of(PLANS))) == 1


def test_a_script_dies_behind_the_block_that_would_handle_its_end() -> None:
    script = dying_after(PLANS, 1)

    assert script is not None
    before, after = re.split(r"if cast\(raise_error.*\n", script)
    assert before.rstrip().endswith("and plan_id is null;\n    end;")
    assert after.lstrip().startswith("select 1;")
    assert dying_after(PLANS, 2) is None


def test_a_block_may_end_in_the_line_of_the_next_statement() -> None:
    script = f"begin\n{GUARDED}update t set a = 1;\nselect 1;\nend"

    assert sum(map(writes, statements_of(script))) == 2
    assert dying_after(script, 1) is not None
