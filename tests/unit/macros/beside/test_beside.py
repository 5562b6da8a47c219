"""A full refresh beside the MV in use: how the next generation begins, continues, follows and is
put into use.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import pytest

from support.macros import Macros


@pytest.fixture
def find(
    macros: Macros, backfill: Any, options: Any, make_state: Any
) -> Callable[..., dict[str, Any] | None]:
    """Return the result of find_next_generation."""

    def find(
        mode: str = "beside",
        exists: bool = False,
        next_of: str | None = "b1",
        rebuild: str | None = None,
        change: str | None = None,
        **state: Any,
    ) -> Any:
        options["full_refresh_mode"] = mode
        macros.stub("load_table", lambda relation: relation if exists else None)
        macros.stub("find_change", lambda *_: {"rebuild": change, "columns": None})
        macros.stub("read_next_of", lambda next: next_of if exists else None)
        observed = {"state": make_state(**state), "analysis": {}}
        return macros.call("find_next_generation", backfill, observed, rebuild)

    return find


def test_a_next_generation_begins_where_the_mv_would_be_rebuilt(find: Any) -> None:
    assert find() is None
    assert find(rebuild="full refresh")["reason"] == "full refresh"
    assert find(change="its query changed")["reason"] == "its query changed"


def test_it_goes_on_whatever_the_command_is(find: Any) -> None:
    """An existing next generation is continued without another request. Then it has no reason."""
    assert find(exists=True, change="its query changed")["reason"] is None
    assert find(exists=True, rebuild="full refresh")["reason"] == "full refresh"


@pytest.mark.parametrize("next_of", [None, "b9"])
def test_another_mv_of_that_name_is_left_alone(
    find: Any, macros: Macros, refused: Any, next_of: str | None
) -> None:
    assert find(exists=True, next_of=next_of) is None
    assert find(mode="in_place", exists=True, next_of=next_of, rebuild="full refresh") is None
    assert macros.logged == []
    with refused("lake.mv__next__progress has the name of the state of its next generation, but"):
        find(exists=True, next_of=next_of, rebuild="full refresh")


def test_a_swap_that_is_planned_goes_on_too(find: Any, make_plan: Any) -> None:
    planned = make_plan(kind="swap", generation={"id": "n1"})

    assert find(planned=planned)["reason"] is None


def test_what_nobody_can_use_is_rebuilt_in_place(find: Any, make_plan: Any) -> None:
    assert find(rebuild="full refresh", missing=True) is None
    assert find(rebuild="full refresh", planned=make_plan(kind="reset")) is None


def test_a_swap_that_was_given_up_is_followed_by_another(find: Any, make_plan: Any) -> None:
    given_up = make_plan(kind="abandon", generation={"id": "n1"})

    assert find(committed=given_up)["reason"] == "a rebuild was given up"


def test_in_place_one_that_is_left_is_warned_of(find: Any, macros: Macros) -> None:
    assert find(mode="in_place", exists=True, rebuild="full refresh") is None
    [warning] = macros.logged
    assert "lake.mv__next is its next generation" in warning
    assert "drop_backfill --args '{model: mv, generation: next}'" in warning


def test_it_has_tables_of_its_own_and_begins_anew_with_the_model(find: Any, backfill: Any) -> None:
    backfill["options"]["on_schema_change"] = "fail"
    found = find(rebuild="full refresh")["backfill"]

    names = [found[table].render() for table in ("mv", "progress", "barriers")]
    assert names == ["lake.mv__next", "lake.mv__next__progress", "lake.mv__next__barriers"]
    assert found["generation"] == "next"
    # Controls of the MV also apply to its next generation.
    assert (found["controls"].render(), found["controls_of"]) == ("lake.mv__controls", "b1")
    assert found["query"] == backfill["query"]
    options = found["options"]
    assert (options["on_query_change"], options["on_schema_change"]) == ("rebuild", "ignore")
    assert backfill["options"]["on_query_change"] == "fail"


@pytest.fixture
def followed() -> list[Any]:
    """The descriptions of the MV in use with which its barriers ran."""
    return []


def test_the_former_one_has_the_query_that_it_was_made_by(
    standstill: Any, followed: list[Any], make_plan: Any
) -> None:
    committed = make_plan(query="select id as k, `up`.shard from `up`", query_hash="h0")
    assert standstill(committed=committed) is None
    [found] = followed

    assert (found["query"], found["query_hash"]) == (committed["query"], "h0")
    assert found["options"]["backfill_rate_limit"] == 0
    assert found["options"]["unique_key"] == ["k", "shard"]
    assert found["options"]["upstream_key"] == ["id", "shard"]
    assert found["mv"].render() == "lake.mv"


@pytest.fixture
def standstill(
    macros: Macros, backfill: Any, make_state: Any, followed: list[Any]
) -> Callable[..., str | None]:
    def standstill(
        difference: str | None = None,
        gap: str | None = None,
        runs: bool = True,
        waits: str | None = None,
        **state: Any,
    ) -> Any:
        macros.stub("find_difference", lambda *_: difference)
        macros.stub("observe_upstream", lambda *_: {"version": "17"})
        macros.stub("find_gap", lambda *_: gap)
        macros.stub("observe_mv", lambda backfill, state: {**state, "foreign_write": None})
        macros.stub("explain_comparably", lambda *_: {"plan": ""} if runs else None)
        macros.stub("analyze_query", lambda backfill, analysis: {**analysis, "explained": True})
        ran: list[Any] = []

        def run(former: Any, observed: Any, rebuild: None) -> dict[str, Any]:
            followed.append(former)
            ran.append(observed)
            return {"waits": waits, "state": observed["state"]}

        macros.stub("run_barriers", run)
        macros.context["model"] = {"name": "mv"}
        macros.logged.clear()
        macros.call("run_former", backfill, {"state": make_state(**state)})
        assert len(ran) + len(macros.logged) == (2 if waits else 1)
        assert all(observed["analysis"]["explained"] for observed in ran)
        return macros.logged[0].partition(" put in place: ")[2] if macros.logged else None

    return standstill


def test_the_former_one_stands_still_where_it_would_stop_the_run_or_be_compared(
    standstill: Any, make_plan: Any
) -> None:
    assert standstill() is None
    assert standstill(difference="its upstream changed") == "its upstream changed"
    assert standstill(gap="the feed was off") == "the feed was off"
    assert standstill(runs=False) == "its query does not run any more"
    assert standstill(upstream_version=None) == "it has no rows yet"
    assert standstill(waits="its key is not unique") == "its key is not unique"
    swept = make_plan(sweeps=True)
    assert standstill(committed=swept) == "it does not have all rows of its query yet"


DELTA = {"dbt_backfill.format": "2"}
ICEBERG = {"dbt_backfill.format": "2", "format": "iceberg/parquet"}


NEXT = {"dbt_backfill.id": "n1", **DELTA}
OTHER = {"dbt_backfill.id": "n2", **DELTA}


@pytest.mark.parametrize(
    ("there", "dropped"),
    [
        ({}, ["", "barriers", "progress"]),
        ({"staged": DELTA}, ["staged", "", "barriers", "progress"]),
        ({"replica": ICEBERG}, ["replica purge", "", "barriers", "progress"]),
        ({"staged": {}}, ["", "barriers", "progress"]),
        ({"staged": {}, "replica": {}}, ["", "barriers", "progress"]),
        # A run that died before has dropped these.
        ({"": None, "barriers": None}, ["progress"]),
        ({"": OTHER}, ["barriers", "progress"]),
        ({"": {}}, ["barriers", "progress"]),
        ({"barriers": {}}, ["", "progress"]),
        # An MV may have the name that the history would have.
        ({"barriers": OTHER}, ["", "progress"]),
        ({"barriers": NEXT}, ["", "progress"]),
    ],
)
def test_no_table_of_others_is_dropped_with_a_generation(
    macros: Macros, relations: Any, there: Any, dropped: list[str]
) -> None:
    """Another writer's table has the name that a table of the next generation would have.

    Dropping an Iceberg table would delete its files too. `there` has the properties of tables, or
    None for a table that does not exist. Without an entry, the tables of the generation `n1` exist,
    but no copy.
    """
    next = macros.call("get_next_relations", relations["mv"])
    tables = {"": NEXT, "progress": NEXT, "barriers": DELTA} | there
    by_name = {
        "mv__next" + (f"__{table}" if table else ""): properties
        for table, properties in tables.items()
        if properties is not None
    }
    forgotten: list[Any] = []

    def run(step: str, sql: str) -> None:
        sent.append(sql)
        del by_name["mv__next__progress"]

    sent: list[str] = []
    macros.context["model"] = {"name": "mv"}
    macros.context["adapter"].cache_dropped = forgotten.append

    def find(relation: Any) -> Any:
        return relation if relation.identifier in by_name else None

    for name, answer in {
        "read_state": lambda *_: {},
        "find_tags": lambda *_: [],
        "is_listed": find,
        "find_table": find,
        "read_table_properties": lambda relation: by_name[relation.identifier],
        "run_table": run,
    }.items():
        macros.stub(name, answer)
    assert macros.call("drop_generation", next, "n1")
    (script,) = sent
    assert macros.statements == []
    found = re.findall(r"drop table if exists lake\.mv__next(.*);", script)
    assert [name.removeprefix("__") for name in found] == dropped
    # dbt listed the tables at the start of the run.
    gone = {next[name.removesuffix(" purge") or "mv"] for name in dropped}
    assert gone <= {*forgotten} and not any(find(table) for table in {*forgotten} - gone)
    assert macros.logged == []


@pytest.mark.parametrize("properties", [None, OTHER, {}])
def test_a_generation_without_its_state_is_not_dropped(
    macros: Macros, relations: Any, properties: Any
) -> None:
    next = macros.call("get_next_relations", relations["mv"])
    macros.stub("find_table", lambda relation: None if properties is None else relation)
    macros.stub("read_table_properties", lambda relation: properties)

    assert macros.call("drop_generation", next, "n1") is False
    assert macros.statements == []


def test_a_next_generation_is_rebuilt_by_dropping_it(macros: Macros, backfill: Any) -> None:
    """A full refresh would only continue it."""
    text = macros.call("get_rebuild_text", {**backfill, "generation": "next"})
    assert text.startswith("drop the next generation: dbt run-operation drop_backfill")
    assert "generation: next" in text
    assert macros.call("get_rebuild_text", backfill) == "rebuild the MV with --full-refresh"
