"""What people have set for an MV, and how it is read."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest

from support.macros import Macros

SETTING = {"control": "rate_limit", "value": "10", "by": "it's me", "at": 1700000000000000}


def test_a_control_is_set_by_an_insert_that_says_the_same_when_it_is_sent_twice(
    render: Callable[..., str], verified: Any
) -> None:
    script = render("get_set_control_script", verified, "b1", SETTING)

    assert script.startswith(
        "begin create table if not exists lake.mv__controls (control string, value string, "
        "set_by string, set_at timestamp_ltz, backfill_id string) using delta tblproperties ( "
    )
    assert (
        "insert into lake.mv__controls select 'rate_limit', '10', 'it\\'s me', "
        "timestamp_micros(1700000000000000), 'b1'; select to_json(named_struct( "
    ) in script
    assert "'dbt_backfill.format' = '2'" in script


def test_the_table_stands_where_the_others_do(render: Callable[..., str], verified: Any) -> None:
    place = "location '/lake/mv__controls'"
    script = render("get_set_control_script", verified, "b1", SETTING, place)

    assert f"using delta {place} tblproperties" in script


def test_the_newest_row_of_a_control_of_this_mv_rules(
    render: Callable[..., str], relations: Any
) -> None:
    newest = (
        "max_by(struct(value, set_by, date_format(set_at, 'yyyy-MM-dd HH:mm') as set_at), set_at)"
    )
    assert render("get_controls_sql", relations, "b1") == (
        f"select to_json(named_struct( 'pause', {newest} filter (where control = 'pause'), "
        f"'rate_limit', {newest} filter (where control = 'rate_limit') )) "
        "from lake.mv__controls where backfill_id = 'b1'"
    )


def test_they_are_read_with_the_state_and_may_be_missing(
    macros: Macros, relations: Any, stored: Callable[..., str]
) -> None:
    controls = {"pause": {"value": "true", "set_by": "bob", "set_at": "noon"}}
    macros.results = [[[stored(controls=json.dumps(controls))]], [[stored()]]]

    assert macros.call("read_state", relations, controls_of="b1")["controls"] == controls
    assert macros.call("read_state", relations, controls_of="b1")["controls"] == {}
    assert len(macros.statements) == 2
    sql = " ".join(macros.statements[0].sql.split())
    assert (
        " declare controls string; begin declare exit handler for sqlexception begin end; "
    ) in sql
    assert (
        " end; begin declare exit handler for sqlstate '42P01' begin end; "
        "declare exit handler for sqlstate '42703' "
        """begin set controls = '{"foreign": true}'; end; """
        "set controls = (select to_json("
    ) in sql
    assert "as txn_app_id, controls, __bf_refused_setting as refused_setting )) from (" in sql


@pytest.fixture
def verified(relations: Any) -> Any:
    return {**relations, "options": {"file_format": "delta"}}
