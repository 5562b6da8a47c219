"""The columns of the progress table that hold the position of a key."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from support.macros import Macros, Table


@pytest.fixture(autouse=True)
def model(macros: Macros) -> None:
    macros.context["model"] = SimpleNamespace(name="mv", unique_id="model.p.mv")


# -- the columns of a position ------------------------------------------------------------------


@pytest.fixture
def place(macros: Macros, backfill: Any, analysis: Any, make_state: Any, make_plan: Any) -> Any:
    """Return the position columns that a reset with this key uses in a table with these columns."""

    def place(now: list[dict[str, str]], columns: dict[str, str], **committed: Any) -> Any:
        macros.tables["lake.mv__progress"] = Table(columns=columns)
        state = make_state(committed=make_plan(**committed))
        explained = {**analysis, "key": now}
        plan = macros.call("new_reset_plan", backfill, state, explained, "full refresh")
        return [column["position"] for column in plan["key"]]

    return place


def test_a_reset_with_the_key_of_before_keeps_the_columns_of_its_position(
    macros: Macros, place: Any, keys: Any
) -> None:
    committed = [{**keys[0], "position": "pk_id"}, keys[1]]

    assert place(keys, {"id": "bigint"}, key=committed) == ["pk_id", "shard"]


@pytest.mark.parametrize(
    ("type_", "columns", "position"),
    [
        ("bigint", {}, "id"),
        ("bigint", {"id": "bigint"}, "id"),
        ("string", {"id": "bigint"}, "pk_id"),
        ("date", {"id": "bigint", "pk_id": "string"}, "pk2_id"),
        ("string", {"id": "bigint", "pk_id": "string"}, "pk_id"),  # an earlier type again
    ],
)
def test_a_reset_with_another_key_takes_columns_of_its_types_or_new_ones(
    place: Any, type_: str, columns: dict[str, str], position: str
) -> None:
    """The type of a column never changes."""
    assert place([{"name": "k", "upstream": "id", "type": type_}], columns) == [position]


def test_a_run_goes_on_after_its_reset_with_the_columns_that_this_has_taken(
    macros: Macros, backfill: Any, analysis: Any, place: Any, make_state: Any, make_plan: Any
) -> None:
    """The run explains its query only once, before the reset is committed."""
    now = [{**analysis["key"][0], "type": "string"}]
    reset = place(now, {"id": "bigint"})
    placed = [{**now[0], "position": reset[0]}]
    state = make_state(committed=make_plan(kind="reset", key=placed))
    plan = macros.call("new_plan", backfill, state, {**analysis, "key": now}, "advance")

    assert plan["key"] == placed


def test_a_reset_after_one_that_was_given_up_looks_at_the_columns_that_there_are(
    place: Any, keys: Any, make_source: Any
) -> None:
    """The plan that was given up may name columns that were never added."""
    given_up = {"kind": "abandon", "sources": [make_source(version=None)], "key": keys}

    assert place(keys, {"id": "string"}, **given_up) == ["pk_id", "shard"]


# -- the columns of the position --------------------------------------------------------------


@pytest.fixture
def column_for(macros: Macros) -> Any:
    """Return the position column of a key with one column. The table has the columns `present`."""

    def column_for(upstream: str, type_: str, present: dict[str, str] | None = None) -> Any:
        key = [{"name": "k", "upstream": upstream, "type": type_}]
        [placed] = macros.call("keep_positions", key, None, present or {})
        return placed["position"]

    return column_for


@pytest.mark.parametrize(
    ("upstream", "column"),
    [
        ("id", "id"),
        ("time hour", "time hour"),
        ("epoch", "pk_epoch"),
        ("Row_Count", "pk_Row_Count"),
        ("vnode", "pk_vnode"),
        ("backfill_finished", "pk_backfill_finished"),
        ("upstream_version", "pk_upstream_version"),
        ("dirty", "pk_dirty"),
        ("plan", "pk_plan"),
        ("Last", "pk_Last"),
        ("backfill_id", "backfill_id"),
    ],
)
def test_a_position_has_the_upstreams_name_unless_the_progress_table_has_it(
    column_for: Any, upstream: str, column: str
) -> None:
    assert column_for(upstream, "int") == column


def test_every_column_of_the_progress_table_is_kept_from_the_key(
    macros: Macros, column_for: Any
) -> None:
    columns = macros.call("progress_columns")

    assert len(columns) == 11
    assert [column_for(column, "int") for column in columns] == [
        f"pk_{column}" for column in columns
    ]


@pytest.mark.parametrize(
    ("upstream", "type", "present", "column"),
    [
        ("id", "bigint", {"id": "bigint"}, "id"),  # the existing column is used again
        ("ID", "bigint", {"id": "bigint"}, "ID"),
        ("id", "string", {"id": "bigint"}, "pk_id"),
        ("Id", "string", {"id": "bigint"}, "pk_Id"),
        ("id", "string", {"id": "bigint", "pk_id": "string"}, "pk_id"),
        ("id", "date", {"id": "bigint", "pk_id": "string"}, "pk2_id"),
        ("id", "bigint", {"id": "bigint", "pk_id": "string", "pk2_id": "date"}, "id"),
        ("id", "int", {"id": "bigint", "pk_id": "string", "pk2_id": "date"}, "pk3_id"),
        ("id", "decimal(9,2)", {"id": "decimal(9,0)"}, "pk_id"),
        ("epoch", "int", {"epoch": "bigint", "pk_epoch": "date"}, "pk2_epoch"),
        ("plan", "string", {"plan": "string"}, "pk_plan"),  # the table's own column
    ],
)
def test_a_key_of_another_type_takes_another_column(
    column_for: Any, upstream: str, type: str, present: dict[str, str], column: str
) -> None:
    """The table is never replaced, and the type of a column never changes."""
    assert column_for(upstream, type, present) == column


@pytest.mark.parametrize(
    ("key", "positions"),
    [
        (["epoch", "pk_epoch"], ["pk_epoch", "pk_pk_epoch"]),
        (["PK_Epoch", "epoch"], ["PK_Epoch", "pk2_epoch"]),
    ],
)
def test_no_two_columns_of_a_key_have_one_position(
    macros: Macros, key: list[str], positions: list[str]
) -> None:
    columns = [{"name": "k", "upstream": column, "type": "int"} for column in key]
    placed = macros.call("keep_positions", columns, None)
    assert [column["position"] for column in placed] == positions
