"""An MV is dropped together with its state and history. No other table is dropped."""

from __future__ import annotations

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest
from dbt_common.exceptions import CompilationError

from support.macros import Macros, Table
from support.messages import facts_of

WHOLE = ["mv", "progress", "barriers"]
HOW = "Name one MV: --args '{model: my_mv}', or, if its model is gone, --args '{mv: my_schema.my_m"
Drop = Callable[..., list[str]]


def node(name: str, materialized: str = "backfilled_mv", alias: str = "") -> dict[str, Any]:
    return {
        "unique_id": f"model.ours.{name}",
        "resource_type": "model",
        "package_name": "ours",
        "name": name,
        "alias": alias or name,
        "schema": "lake",
        "config": {"materialized": materialized},
    }


PROPERTIES = {
    "mv": {"dbt_backfill.id": "b1", "dbt_backfill.format": "2"},
    "progress": {"dbt_backfill.id": "b1", "dbt_backfill.format": "2"},
    "barriers": {"dbt_backfill.format": "2"},
    "live": {"dbt_backfill.live": "b1"},
}


@pytest.fixture
def drop(macros: Macros, stored: Callable[..., str]) -> Drop:
    """Drop an MV while the tables `exist`.

    Return the statements that drop, without their comments.
    """

    def drop(
        *nodes: dict[str, Any],
        at: str = "lake.mv",
        exist: list[str] = WHOLE,
        foreign: str | None = None,
        information: str | None = None,
        next_exists: bool = False,
        next_of: dict[str, str] = {"dbt_backfill.next_of": "b1"},  # noqa: B006
        **arguments: Any,
    ) -> list[str]:
        found = {each["unique_id"]: each for each in nodes}
        macros.context["graph"] = SimpleNamespace(nodes=found)
        macros.tables = {}
        for mv in (at, f"{at}__next") if next_exists else (at,):
            for name in exist:
                own = {} if foreign == (name if mv == at else f"next_{name}") else PROPERTIES[name]
                if mv != at and name == "progress":
                    own = {**own, **next_of}
                table = Table("view" if name == "live" else "table", "delta", own)
                macros.tables[mv if name == "mv" else f"{mv}__{name}"] = table
                table.information = information
        macros.results = [[["spark_catalog"]], [[stored()]], [[stored()]]]
        macros.call("drop_backfill", **arguments)
        return dropped(macros)

    return drop


def dropped(macros: Macros) -> list[str]:
    sent = [statement.sql.split("*/")[-1].strip() for statement in macros.statements]
    return [sql for sql in sent if "drop " in sql]


def refusal(drop: Drop, *nodes: dict[str, Any], **given: Any) -> str:
    with pytest.raises(CompilationError) as raised:
        drop(*nodes, **given)
    return facts_of(raised.value.msg)


def test_the_state_of_a_model_goes_last(macros: Macros, drop: Drop) -> None:
    """If the operation is interrupted, the state still exists. Then runs are refused, and the
    repeated operation finds the upstream's tag.
    """
    orders = node("orders", alias="orders_mv")
    assert drop(node("other"), orders, at="lake.orders_mv", model="orders") == [
        "drop table if exists lake.orders_mv",
        "drop table if exists lake.orders_mv__barriers",
        "drop table if exists lake.orders_mv__progress",
    ]
    assert macros.logged == [
        "orders: dropped the MV lake.orders_mv",
        "orders: dropped the history lake.orders_mv__barriers",
        "orders: dropped the state lake.orders_mv__progress",
    ]


def test_the_live_view_goes_before_what_it_reads(macros: Macros, drop: Drop) -> None:
    view, state = drop(node("mv"), model="mv", exist=["progress", "live"], keep_mv=True)
    assert " ".join(view.split()) == "begin drop view if exists lake.mv__live; end"
    assert state == "drop table if exists lake.mv__progress"
    assert macros.logged[0] == "mv: dropped the live view lake.mv__live"


def test_a_next_generation_goes_first_and_may_go_alone(macros: Macros, drop: Drop) -> None:
    alone = [
        "drop table if exists lake.mv__next",
        "drop table if exists lake.mv__next__barriers",
        "drop table if exists lake.mv__next__progress",
    ]

    assert drop(node("mv"), model="mv", generation="next", next_exists=True) == alone
    macros.statements.clear()
    assert drop(node("mv"), model="mv", next_exists=True) == [
        *alone,
        *(sql.replace("mv__next", "mv") for sql in alone),
    ]


def test_another_mv_whose_name_is_that_of_a_next_generation_stays(
    macros: Macros, drop: Drop
) -> None:
    dropped = drop(node("mv"), model="mv", next_exists=True, next_of={})
    assert dropped and not [sql for sql in dropped if "mv__next" in sql]
    told = refusal(drop, node("mv"), model="mv", generation="next", next_exists=True, next_of={})
    assert "lake.mv__next__progress is not the state of a next generation" in told


@pytest.mark.parametrize(
    ("given", "fact"),
    [
        ({"generation": "old"}, 'generation is "old". Set it to next'),
        ({"generation": "next", "keep_mv": True}, "keep_mv is true. Set it to false"),
    ],
)
def test_only_the_next_generation_can_be_named(drop: Drop, given: Any, fact: str) -> None:
    assert fact in refusal(drop, node("mv"), model="mv", **given)


def test_what_a_drop_that_was_broken_off_has_left_is_dropped(macros: Macros, drop: Drop) -> None:
    assert drop(node("mv"), model="mv", exist=["progress"]) == [
        "drop table if exists lake.mv__progress"
    ]
    assert macros.logged == ["mv: dropped the state lake.mv__progress"]


def test_where_nothing_is_left_nothing_is_dropped(macros: Macros, drop: Drop) -> None:
    assert drop(node("mv"), model="mv", exist=[]) == []
    assert macros.logged == ["mv: there is nothing to drop"]


def test_the_table_of_a_model_that_is_gone_is_named_with_its_schema(
    macros: Macros, drop: Drop
) -> None:
    assert drop(node("other"), at="old.an mv", mv="old.`an mv`", exist=["mv"]) == [
        "drop table if exists old.`an mv`"
    ]
    assert macros.logged == ["old.`an mv`: dropped the MV old.`an mv`"]


def test_the_tag_is_dropped_as_long_as_the_state_tells_of_it(
    macros: Macros, drop: Drop, make_source: Any
) -> None:
    upstream = {"relation": None, "kind": "iceberg"}
    tag = {"upstream": upstream, "source": make_source(kind="iceberg"), "name": "dbt_backfill_b1"}

    macros.stub("find_tags", lambda state: [tag])
    statements = drop(node("mv"), model="mv")

    assert statements[1:2] == ["alter table lake.up drop tag if exists dbt_backfill_b1"]
    assert macros.logged[1] == "mv: dropped the tag dbt_backfill_b1 of lake.up"
    assert len(statements) == 4


@pytest.mark.parametrize(
    "spelled", ["lake.mv", "spark_catalog.lake.mv", "`lake`.mv", " Lake .`mv`", "LAKE.mv"]
)
def test_however_a_schema_is_spelled_the_table_of_a_model_is_not_dropped_by_its_name(
    drop: Drop, spelled: str
) -> None:
    assert "the model mv builds this table" in refusal(drop, node("mv"), mv=spelled)


@pytest.mark.parametrize(
    ("table", "made", "gc", "end"),
    [
        ("replica", "is_iceberg", "true", "lake.mv__replica purge"),
        ("staged", "is_iceberg", "true", "lake.mv__staged purge"),
        ("replica", "is_iceberg", "false", "lake.mv__replica"),
        ("replica", "is_delta", "true", "lake.mv__replica"),
        ("mv", "is_iceberg", "true", "lake.mv"),
    ],
)
def test_copies_of_rows_of_the_upstream_go_with_their_files(
    macros: Macros, relations: Any, table: str, made: str, gc: str, end: str
) -> None:
    macros.tables[relations[table].render()] = Table(properties={"gc.enabled": gc})
    existing = {table: relations[table].incorporate(**{made: True})}
    remains = {"ours": [table], "state": None}
    macros.call("run_drop", {**relations, "name": "mv"}, existing, remains)
    assert macros.statements[-1].sql.endswith(f"drop table if exists {end}")


def test_files_that_stay_are_told(macros: Macros, drop: Drop) -> None:
    managed = "Type: MANAGED\nProvider: delta\nLocation: file:/lake/mv\n"
    drop(node("mv"), model="mv", exist=["mv"], information=managed)
    drop(node("mv"), model="mv", exist=["mv"], information=managed.replace("MANAGED", "EXTERNAL"))

    assert macros.logged == [
        "mv: dropped the MV lake.mv",
        "mv: dropped the MV lake.mv; its files stay in file:/lake/mv",
    ]


FOREIGN = "was not made by this materialization"


@pytest.mark.parametrize(
    ("given", "message"),
    [
        (
            {"foreign": "mv", "mv": "lake.mv"},
            f"lake.mv: lake.mv {FOREIGN}. Add keep_mv: true to drop only the state and history"
            " beside it.",
        ),
        (
            {"foreign": "mv", "mv": "lake.mv", "exist": ["mv"]},
            f"lake.mv: lake.mv {FOREIGN}. Name an MV, or a table that has the state of an MV"
            " beside it.",
        ),
        (
            {"foreign": "mv", "at": "lake.kept", "model": "kept"},
            f"kept: lake.kept {FOREIGN}. Add keep_mv: true to drop only the state and history"
            " beside it.",
        ),
        (
            {"foreign": "progress", "at": "lake.kept", "model": "kept"},
            f"kept: lake.kept__progress {FOREIGN}. Drop or rename it yourself, and then drop the"
            " rest.",
        ),
        (
            {"at": "lake.left", "model": "left"},
            "left: lake.left is built by the model left. Add keep_mv: true to drop only the state"
            " and history beside it.",
        ),
    ],
)
def test_beside_a_table_that_is_not_ours_nothing_is_dropped(
    macros: Macros, drop: Drop, given: Any, message: str
) -> None:
    nodes = node("kept"), node("left", "table")

    assert refusal(drop, *nodes, **given) == f"backfilled_mv {message}"
    assert dropped(macros) == []


def test_a_next_generation_stays_where_its_mv_is_not_ours(macros: Macros, drop: Drop) -> None:
    assert FOREIGN in refusal(drop, node("mv"), model="mv", foreign="mv", next_exists=True)
    assert dropped(macros) == []


def test_a_foreign_table_at_the_next_generation_is_for_the_user_to_drop(
    macros: Macros, drop: Drop
) -> None:
    """With `keep_mv: true` the operation would find the same table again."""
    told = refusal(drop, node("mv"), model="mv", foreign="next_mv", next_exists=True)
    assert "lake.mv__next was not made by this materialization. Drop or rename it yourself" in told
    assert dropped(macros) == []


def test_what_a_model_of_another_materialization_makes_is_kept_if_it_is_said(
    macros: Macros, drop: Drop
) -> None:
    beside = [
        "drop table if exists lake.mv__barriers",
        "drop table if exists lake.mv__progress",
    ]
    for name in ({"model": "mv"}, {"mv": "lake.mv"}):
        macros.statements.clear()
        assert drop(node("mv", "table"), keep_mv=True, **name) == beside


def test_the_table_of_an_mv_is_kept_to_be_adopted_anew(drop: Drop) -> None:
    assert drop(node("mv"), model="mv", keep_mv=True) == [
        "drop table if exists lake.mv__barriers",
        "drop table if exists lake.mv__progress",
    ]


@pytest.mark.parametrize(
    ("given", "message"),
    [
        (
            {"mv": "LAKE.mv"},
            "LAKE.mv: the model mv builds this table. Name the model: --args '{model: mv}'",
        ),
        (
            {"model": "gone"},
            "gone: there is no model of this name. Name an enabled model, or the table of a model",
        ),
        ({"model": "mv", "orphans": True}, "mv: drop_backfill has no argument 'orphans'. Correct"),
        (
            {"model": "mv", "mv": "lake.mv"},
            f"drop_backfill: both the argument model and the argument mv are given. {HOW}",
        ),
        ({}, f"drop_backfill: neither the argument model nor the argument mv is given. {HOW}"),
        ({"model": ["mv"]}, 'drop_backfill: model is ["mv"]. Set it to the name of one model'),
        ({"mv": "mv"}, 'drop_backfill: mv is "mv". Set it to one table with its schema, such as'),
        ({"mv": ""}, 'drop_backfill: mv is "". Set it to one table with its schema, such as'),
        ({"model": "mv", "keep_mv": 1}, "mv: keep_mv is 1. Set it to true or false"),
    ],
)
def test_arguments_that_name_nothing_to_drop_are_refused(
    macros: Macros, drop: Drop, given: Any, message: str
) -> None:
    assert refusal(drop, node("mv"), **given).startswith(f"backfilled_mv {message}")
    assert dropped(macros) == []


# -- the tags ---------------------------------------------------------------------------------


@pytest.fixture
def find_tags(macros: Macros) -> Callable[..., list[str]]:
    """Return the tags found for a state whose Iceberg upstreams all have the tags `holds`."""

    def find_tags(
        state: Any, holds: Any, kind: str = "iceberg", missing: bool = False
    ) -> list[str]:
        up = Table(file_format=kind)
        macros.tables = {} if missing else {"lake.up": up, "other.up": up}
        asked: list[str] = []

        def read(upstream: Any, source: Any) -> dict[str, Any]:
            asked.append(source["relation"])
            return {"holds": holds}

        macros.answer("read_upstream", read)
        tags = macros.call("find_tags", state)
        assert len(asked) == len(set(asked)), "an upstream is asked once"
        return [f"{tag['name']} of {tag['upstream']['relation'].render()}" for tag in tags]

    return find_tags


@pytest.fixture
def snapshot_plan(make_plan: Any, make_source: Any) -> Callable[..., Any]:
    def plan(relation: str = "lake.up", mode: str = "snapshot") -> Any:
        return make_plan(
            sources=[make_source(kind="iceberg", relation=relation)], backfill_mode=mode
        )

    return plan


def test_a_tag_of_the_last_barrier_or_of_the_next_one_is_found_once(
    find_tags: Any, snapshot_plan: Any
) -> None:
    holds = {"dbt_backfill_b1": 17, "dbt_backfill_b2": 17}
    found = ["dbt_backfill_b1 of lake.up"]

    assert find_tags({"committed": snapshot_plan()}, holds) == found
    assert find_tags({"committed": None, "planned": snapshot_plan()}, holds) == found
    both = {"committed": snapshot_plan(), "planned": snapshot_plan()}
    assert find_tags(both, holds) == found
    both["planned"] = snapshot_plan("other.up")
    assert find_tags(both, holds) == [*found, "dbt_backfill_b1 of other.up"]


def test_one_that_a_run_died_before_letting_go_is_dropped_in_any_mode(
    find_tags: Any, snapshot_plan: Any
) -> None:
    state = {"committed": snapshot_plan(mode="arrangement")}

    assert find_tags(state, {"dbt_backfill_b1": 17}) == ["dbt_backfill_b1 of lake.up"]


def test_there_is_none_to_drop_where_none_stands(find_tags: Any, snapshot_plan: Any) -> None:
    holds = {"dbt_backfill_b1": 17}
    state = {"committed": snapshot_plan()}

    assert find_tags(None, holds) == []
    assert find_tags(state, {"dbt_backfill_b2": 17}) == []
    assert find_tags(state, holds, missing=True) == []
    assert find_tags(state, holds, kind="delta") == []
