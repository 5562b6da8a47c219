"""Users pause, resume and throttle backfills while they run."""

from __future__ import annotations

import json
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest
from dbt_common.exceptions import CompilationError

from support.macros import Macros, Table
from support.messages import facts_of

SINCE = "2026-11-24 12:00"
BY_BOB = {"set_by": "bob", "set_at": SINCE}
Operate = Callable[..., list[str]]


def node(name: str, **config: Any) -> dict[str, Any]:
    return {
        "unique_id": f"model.ours.{name}",
        "resource_type": "model",
        "package_name": "ours",
        "name": name,
        "alias": name,
        "schema": "lake",
        "config": {"materialized": "backfilled_mv", **config},
    }


@pytest.fixture
def operate(macros: Macros, make_state: Any) -> Operate:
    """Run an operation over two MVs, which have the controls `before`. Return the printed lines."""

    def operate(
        operation: str, before: Any = None, missing: tuple[str, ...] = (), **arguments: Any
    ) -> list[str]:
        nodes = [node("mv", backfill_rate_limit=500), node("other", location_root="/lake")]
        table = {**node("plain"), "config": {"materialized": "table"}}
        macros.context["graph"] = SimpleNamespace(
            nodes={each["unique_id"]: each for each in [*nodes, table]}
        )
        for name in ("mv", "mv__progress", "other", "other__progress"):
            if not name.startswith(missing):
                macros.tables[f"lake.{name}"] = Table()
        state = make_state(control=before or {})

        def observe(node: Any) -> Any:
            return {**macros.call("get_operated", node), "state": state}

        macros.stub("observe_operated", observe)
        asked = [[json.dumps({"user": "me", "now": 17})]]
        value = {"pause_backfill": "0", "resume_backfill": "default"}.get(
            operation, str(arguments.get("rows"))
        )
        now = {"value": value, **BY_BOB}
        macros.results = [asked, *[[[json.dumps(now)]]] * 2]
        macros.logged.clear()
        macros.call(operation, **arguments)
        return list(macros.logged)

    return operate


def inserts(macros: Macros) -> list[str]:
    sent = [" ".join(statement.sql.split()) for statement in macros.statements]
    return [sql.partition(" insert into ")[2].partition(";")[0] for sql in sent[1:]]


def test_a_pause_is_set_by_who_spark_says_it_is(macros: Macros, operate: Operate) -> None:
    lines = operate("pause_backfill", model="mv")

    assert lines == [f"mv: paused by bob since {SINCE}; changes are still merged"]
    [insert] = inserts(macros)
    assert insert == "lake.mv__controls select 'rate_limit', '0', 'me', timestamp_micros(17), 'b1'"


def test_a_name_may_be_given(macros: Macros, operate: Operate) -> None:
    operate("throttle_backfill", model="mv", rows=1000, by="the scheduler")

    [insert] = inserts(macros)
    assert "select 'rate_limit', '1000', 'the scheduler', timestamp_micros(17)" in insert


@pytest.mark.parametrize("arguments", [{"models": ["mv", "other"]}, {"all": True}])
def test_several_are_set_at_once(macros: Macros, operate: Operate, arguments: Any) -> None:
    lines = operate("throttle_backfill", rows=1000, **arguments)

    text = f"throttled to 1,000 rows by bob since {SINCE}"
    assert lines == [f"mv: {text}", f"other: {text}"]
    assert [insert.split()[0] for insert in inserts(macros)] == [
        "lake.mv__controls", "lake.other__controls"
    ]  # fmt: skip
    assert "location '/lake/other__controls'" in macros.statements[-1].sql


def test_of_all_one_that_has_never_run_is_passed_over(macros: Macros, operate: Operate) -> None:
    assert operate("pause_backfill", all=True, missing=("mv",)) == [
        "mv: it has never run",
        f"other: paused by bob since {SINCE}; changes are still merged",
    ]


def test_what_is_set_already_is_only_told(macros: Macros, operate: Operate) -> None:
    """Nothing is written, so the control keeps its author and its time."""
    paused = {"value": "0", **BY_BOB}

    assert operate("resume_backfill", model="mv") == [
        "mv: its config applies, with backfill_rate_limit 500"
    ]
    assert operate("throttle_backfill", model="other", rows="default") == [
        "other: its config applies, with no backfill_rate_limit"
    ]
    assert operate("pause_backfill", before=paused, model="mv") == [
        f"mv: paused by bob since {SINCE}; changes are still merged"
    ]
    assert not any("insert into" in statement.sql for statement in macros.statements)


def test_what_rules_after_a_pause_is_told(operate: Operate) -> None:
    paused, throttled = {"value": "0", **BY_BOB}, {"value": "70", **BY_BOB}
    lifted = ["mv: its config applies, with backfill_rate_limit 500"]

    assert operate("resume_backfill", before=paused, model="mv") == lifted
    assert operate("throttle_backfill", before=paused, model="mv", rows="default") == lifted
    assert operate("resume_backfill", before=throttled, model="mv") == [
        f"mv: throttled to 70 rows by bob since {SINCE}"
    ]


MODELS = (
    "Name one model, several or all: --args '{model: my_mv}', '{models: [my_mv, other_mv]}' or "
    "'{all: true}'."
)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({}, f"none of the arguments model, models and all is given. {MODELS}"),
        (
            {"model": "mv", "all": True},
            f"more than one of the arguments model, models and all is given. {MODELS}",
        ),
        ({"all": "yes"}, 'all is "yes". Set it to true or false.'),
        ({"model": 7}, "model is 7. Set it to the name of one model."),
        ({"models": []}, "models is []. Set it to a list of names of models."),
        ({"models": {"mv": 1}}, 'models is {"mv": 1}. Set it to a list of names of models.'),
        ({"model": "mv", "by": 7}, "by is 7. Set it to a name, or leave it out."),
        (
            {"model": "mv", "row": 7},
            "pause_backfill has no argument 'row'. Correct or remove it. The arguments are model, "
            "models, all, by.",
        ),
    ],
)
def test_wrong_arguments_are_refused(
    macros: Macros, operate: Operate, arguments: Any, message: str
) -> None:
    with pytest.raises(CompilationError) as raised:
        operate("pause_backfill", **arguments)
    assert facts_of(raised.value.msg) == f"backfilled_mv pause_backfill: {message}"
    assert macros.statements == []


@pytest.mark.parametrize("rows", [None, 0, -1, 1.5, True, "many"])
def test_a_throttle_is_a_number_of_rows(operate: Operate, rows: Any) -> None:
    with pytest.raises(Exception, match=r"Set it to a whole number of 1 or more, or default\. To "):
        operate("throttle_backfill", model="mv", rows=rows)
