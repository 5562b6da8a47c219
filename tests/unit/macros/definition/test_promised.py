"""What an MV has to be, as a select."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest


@pytest.fixture
def promised(
    render: Callable[..., str], relations: Any, make_state: Callable[..., Any]
) -> Callable[..., str]:
    return lambda selection={}, **state: render(
        "get_promised_sql", relations, make_state(**state), selection
    )


def test_it_is_the_committed_query_over_the_prefix_at_the_committed_version(
    promised: Callable[..., str],
) -> None:
    assert promised().startswith(
        "with `up` as ( select * from lake.up version as of 16 as source where (source.`id` <= 1 "
    )


def test_a_selection_is_read_from_the_upstream_alone(promised: Callable[..., str]) -> None:
    assert promised({"low": ["3", "4"]}, finished=True).startswith(
        "with `up` as ( select * from (select * from lake.up version as of 16 where (`id` >= 3 and "
        "(`id` > 3 or (`id` = 3 and `shard` >= 4)))) as source ) select * from ("
    )


def test_nothing_is_promised_before_anything_was_read(promised: Callable[..., str]) -> None:
    assert promised(upstream_version=None).startswith(
        "with `up` as ( select * from lake.up where false ) select * from ("
    )


def test_it_is_of_the_whole_mv_and_in_a_sweep_of_what_is_up_to_the_position(
    render: Callable[..., str], relations: Any, make_state: Any, make_plan: Any
) -> None:
    def present(**plan: Any) -> str:
        state = make_state(committed=make_plan(epoch=2, **plan))
        return render("get_present_sql", relations, state)

    assert present() == "lake.mv"
    assert present(sweeps=True).startswith("(select * from lake.mv as source where (source.`k` <= ")
    assert present(kind="sweep") == present(sweeps=True)


def test_columns_that_are_being_filled_are_promised_up_to_the_second_position(
    render: Callable[..., str], relations: Any, make_state: Any, make_plan: Any
) -> None:
    """On both sides they are null above it, and all other columns as they are."""
    fills = [{"name": "x", "type": "int"}]

    def both(**plan: Any) -> list[str]:
        made = make_state(committed=make_plan(epoch=2, kind="fill", fills=fills, **plan))
        return [render(f"get_{side}_sql", relations, made) for side in ("promised", "present")]

    begun = "select * except (`x`), if(false, `x`, null) as `x` from ( "
    promised, present = both()
    assert (
        promised.startswith(f"{begun}with `up` as (")
        and present == f"({begun}select * from lake.mv ))"
    )
    mask = "if((`k` >= 2 and (`k` > 2 or (`k` = 2 and `shard` <= 3))), `x`, null)".replace(">", "<")
    assert all(mask in sql for sql in both(fill_high=["2", "3"]))
    assert both(last_fill=True)[1] == "lake.mv"
    assert "source.`k` <= 1" in both(sweeps=True)[1]


def test_a_descending_backfill_promises_what_is_down_to_its_positions(
    render: Callable[..., str], relations: Any, make_state: Any, make_plan: Any, descending: Any
) -> None:
    fills = [{"name": "x", "type": "int"}]
    filled = make_plan(key=descending, kind="fill", fills=fills, fill_high=["2", "3"])
    sql = render("get_promised_sql", relations, make_state(committed=filled))

    assert "if((`k` >= 2 and (`k` > 2 or (`k` = 2 and `shard` >= 3))), `x`, null) as `x`" in sql
    assert "where (source.`id` >= 1 and (source.`id` > 1 or (source.`id` = 1 and " in sql
