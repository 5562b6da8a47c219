"""How a run takes a table of the MV's name that is no MV yet."""

from __future__ import annotations

from collections.abc import Callable
from hashlib import md5
from types import SimpleNamespace
from typing import Any

import pytest

from support.macros import Macros

MARKED = {"dbt_backfill.adopt": md5(b"model.p.mv").hexdigest()}
COLUMNS = [{"name": "k", "type": "bigint"}, {"name": "shard", "type": "int"}]


@pytest.fixture(autouse=True)
def run(macros: Macros) -> None:
    macros.context["model"] = SimpleNamespace(name="mv", unique_id="model.p.mv")
    macros.context["should_full_refresh"] = lambda: macros.context.get("refreshes", False)


@pytest.fixture
def existing(relations: dict[str, Any]) -> Callable[..., dict[str, Any]]:
    """What exists: the MV as a table or a view, and what else is named."""

    def existing(*others: str, type: str = "table") -> dict[str, Any]:
        mv = relations["mv"].incorporate(type=type)
        return {
            "mv": mv,
            **{
                name: relations[name] if name in others else None
                for name in ("progress", "barriers")
            },
        }

    return existing


@pytest.fixture
def taking(macros: Macros, backfill: Any, options: Any, existing: Any) -> Callable[..., Any]:
    def taking(
        *others: str, refreshes: bool = False, replace_existing: bool = False, **properties: str
    ) -> Any:
        macros.context["refreshes"] = refreshes
        options["replace_existing"] = replace_existing
        return macros.call("find_taking", backfill, existing(*others), properties)

    return taking


def test_a_table_that_is_marked_for_the_model_is_adopted(macros: Macros, taking: Any) -> None:
    macros.stub("read_table_properties", lambda relation: {"dbt_backfill.id": "b1"})
    assert taking(**MARKED) == "adopt"
    assert taking("progress", **MARKED) == "adopt"
    assert taking("progress", **MARKED, **{"dbt_backfill.id": "b2"}) == "adopt"
    assert taking(**{"dbt_backfill.adopt": md5(b"model.p.other").hexdigest()}) is None
    assert taking(**{"dbt_backfill.adopt": ""}) is None
    assert taking() is None


def test_a_mark_that_comes_late_is_nothing_to_go_by(macros: Macros, taking: Any) -> None:
    """`adopt_table` may be sent twice, and the table be taken in between."""
    macros.stub("read_table_properties", lambda relation: {"dbt_backfill.id": "b1"})

    assert taking("progress", **MARKED, **{"dbt_backfill.id": "b1"}) is None


def test_a_full_refresh_replaces_what_is_there_only_where_the_model_says_so(taking: Any) -> None:
    assert taking(refreshes=True, replace_existing=True) == "replace"
    assert taking(refreshes=True) is None
    assert taking(replace_existing=True) is None


@pytest.mark.parametrize(("of_state", "taken"), [("b1", None), ("b2", "replace")])
def test_a_full_refresh_of_an_mv_is_none_of_that(
    macros: Macros, taking: Any, of_state: str, taken: str | None
) -> None:
    """One of which the state was made, and not yet its own id, is to be taken still."""
    macros.stub("read_table_properties", lambda relation: {"dbt_backfill.id": of_state})
    ours = {"dbt_backfill.id": "b1"}

    assert taking("progress", refreshes=True, replace_existing=True, **ours) == taken
    assert taking("progress", refreshes=True, replace_existing=True) == "replace"


def test_what_is_to_be_adopted_is_not_emptied_by_a_full_refresh(taking: Any, refused: Any) -> None:
    with refused("lake.mv is to be adopted, and a full refresh would empty it. Run without"):
        taking(refreshes=True, **MARKED)
    assert taking(refreshes=True, replace_existing=True, **MARKED) == "replace"


@pytest.fixture
def take(
    macros: Macros, backfill: Any, learned: Any, options: Any, existing: Any, no_questions: None
) -> Callable[..., Any]:
    """Takes a table; returns the plan of epoch 0, and the statements that make it the MV."""
    made: list[Any] = []
    macros.stub("learn_query", lambda backfill, nothing: learned)
    macros.stub("check_key_order", lambda backfill, learned: learned)
    macros.stub("check_leftovers_are_ours", lambda backfill, existing: None)
    macros.stub("prepare_creation", lambda backfill: COLUMNS)
    macros.stub("check_adopted", lambda *_: {"row_count": 1234, "partitions": ["day"]})
    macros.stub("check_replaced", lambda *_: None)
    macros.stub(
        "create_backfill",
        lambda backfill, state, columns, making: made.append((state["committed"], making)),
    )
    macros.stub(
        "observe_existing",
        lambda *_, properties: {"state": {"epoch": 0}, "mv": properties, "begun_anew": None},
    )

    def take(
        how: str, *others: str, left: Any = None, type: str = "table", **properties: str
    ) -> Any:
        macros.stub("read_left_state", lambda backfill, existing: left)
        macros.stub("read_table_properties", lambda relation: {"id": "b1"})
        there = existing(*others, type=type)
        observed = macros.call("take_table", backfill, there, properties, how)
        assert observed["learned"] == learned and observed["mv"] == {"id": "b1"}
        plan, statements = made.pop()
        return plan, [" ".join(sql.split()) for sql in statements]

    return take


def test_a_table_is_adopted_by_its_state_and_one_alter(macros: Macros, take: Any) -> None:
    plan, statements = take("adopt")

    assert (plan["kind"], plan["epoch"], plan["sweeps"], plan["replaces"]) == (
        "adopt",
        0,
        True,
        None,
    )
    [alter] = statements
    assert alter.startswith("alter table lake.mv set tblproperties ( 'delta.enableChangeDataFeed'")
    assert f"'dbt_backfill.id' = '{plan['backfill_id']}'" in alter
    assert "'dbt_backfill.adopt' = ''" in alter
    assert "'dbt_backfill.partitions' = '[\"day\"]'" in alter
    assert macros.logged == [
        "mv adopts lake.mv: its 1,234 rows are compared with its query, up to 10 rows of the "
        "upstream per barrier, and only what differs is written"
    ]


def test_a_table_that_is_replaced_is_made_ours_before_it_is_emptied(take: Any) -> None:
    plan, statements = take("replace")

    assert (plan["kind"], plan["sweeps"]) == ("replace", False)
    [alter] = statements
    assert "'delta.appendOnly' = 'false'" in alter and "enableChangeDataFeed" not in alter


def test_a_view_gives_way_to_a_table_by_what_drops_no_table(macros: Macros, take: Any) -> None:
    macros.stub("mv_clauses", lambda *_: "using delta")
    _, statements = take("replace", type="view")

    assert statements[0] == "drop view if exists lake.mv"
    assert statements[1].startswith(
        "create table if not exists lake.mv ( `k` bigint, `shard` int )"
    )


@pytest.mark.parametrize(
    ("left", "replaces"),
    [
        ({"kind": "adopt"}, None),
        ({"kind": "create"}, "b1"),
        ({"kind": "replace"}, "b1"),
        ({"kind": "adopt", "query_hash": "h2"}, "b1"),
    ],
)
def test_a_run_that_died_is_completed_or_gives_way(
    macros: Macros, take: Any, make_state: Any, make_plan: Any, left: Any, replaces: str | None
) -> None:
    """What a first run of a model without a table has left has other rows in mind: none."""
    macros.stub("is_same_query", lambda backfill, last: last["query_hash"] != "h2")
    state = make_state(epoch=0, committed=make_plan(epoch=0, **left))

    assert take("adopt", "progress", left=state)[0]["replaces"] == replaces


def test_the_state_of_another_table_is_refused(take: Any, make_state: Any, refused: Any) -> None:
    with refused(
        "lake.mv__progress exists, and is the state of another table than lake.mv is now. Drop it, "
        "and the history with it: dbt run-operation drop_backfill --args '{model: mv, keep_mv: "
    ):
        take("adopt", "progress", left=make_state(epoch=3))
