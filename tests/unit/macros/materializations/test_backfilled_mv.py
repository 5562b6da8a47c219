"""The flow of a run, with every step recorded instead of taken."""

from __future__ import annotations

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest

from support.macros import Macros

Run = Callable[..., Any]

# The hooks; those outside of a transaction, which Spark has none of, are the outer ones.
BEFORE = ["before", "pre"]
AFTER = ["post", "after"]


@pytest.fixture
def run(macros: Macros) -> Run:
    """Runs the materialization; returns the steps, in order, and what dbt was told."""
    steps: list[Any] = []
    told: dict[str, Any] = {}
    replaced = False
    state: dict[str, Any] = {"committed": {}, "dirty": False, "finished": True}

    def step(name: str, returned: Any = None) -> Callable[..., Any]:
        return lambda *_, **__: steps.append(name) or returned

    macros.stub(
        "run_barriers",
        lambda backfill, observed, rebuild: (
            steps.append(("run", rebuild)) or {"replaced": replaced, "state": state}
        ),
    )
    macros.stub("find_next_generation", lambda backfill, observed, rebuild: None)
    macros.stub("store_result_of_run", lambda result: told.update(result=result))
    macros.stub("check_live_view", lambda backfill: "the view")
    macros.stub("settle_live_view", lambda backfill, result, found: told.update(view=found))
    macros.stub("create_backfill", step("create"))
    macros.stub(
        "apply_docs",
        lambda backfill, found, state: steps.append("docs") or told.update(found=found),
    )
    macros.stub("apply_constraints", lambda backfill, found: told.update(constrained=found))
    macros.context.update(
        sql="select a from (select * from lake.up where false limit 0) _dbt_limit_subq_up",
        pre_hooks=[{"sql": "pre"}, {"sql": "before", "transaction": False}],
        post_hooks=[{"sql": "after", "transaction": False}, {"sql": "post", "transaction": True}],
        load_relation=lambda relation: relation,
        run_hooks=lambda hooks: steps.extend(h["sql"] for h in hooks if h["transaction"]) or "",
        store_raw_result=lambda name, **result: told.update(result),
        apply_grants=step("grants"),
        should_revoke=lambda existing, full_refresh: True,
    )

    def run(
        empty: bool = False,
        sample: bool = False,
        full_refresh: bool = False,
        missing: bool = False,
        resets: bool = False,
        committed: dict[str, Any] | None = None,
        sweeping: bool = False,
    ) -> Any:
        nonlocal replaced
        state["finished"] = not sweeping
        replaced = resets
        state["committed"] = committed or {"sweeps": True}

        def get_backfill(mv: Any, sql: str) -> dict[str, Any]:
            told["sql"] = sql
            return {"mv": mv, "progress": "the state"}

        macros.stub("get_backfill", get_backfill)
        mv = None if missing else "the mv"
        macros.stub("observe_state", step("observe", {"state": {"missing": missing}, "mv": mv}))
        macros.context["flags"] = SimpleNamespace(EMPTY=empty)
        macros.context["invocation_args_dict"] = {"sample": object()} if sample else {}
        macros.context["should_full_refresh"] = lambda: full_refresh
        returned = macros.call("materialization_backfilled_mv_spark")
        assert returned == {"relations": [macros.relation, "the state"]}
        return steps, told

    return run


def test_barriers_are_run_between_the_hooks(run: Run) -> None:
    steps, told = run()

    assert steps == [*BEFORE, "observe", ("run", None), "grants", "docs", *AFTER]
    assert told["result"]["replaced"] is False
    assert told["found"] == told["constrained"] == "the mv"


def test_constraints_wait_for_columns_that_are_being_filled(run: Run) -> None:
    fills = [{"name": "x", "type": "int"}]

    assert "constrained" not in run(committed={"fills": fills, "fill_high": ["1"]})[1]
    assert "constrained" in run(committed={"fills": fills, "last_fill": True})[1]


def test_in_a_sweep_rows_need_not_keep_to_the_contract_yet(run: Run) -> None:
    assert "constrained" not in run(sweeping=True)[1]
    assert run()[1]["constrained"] == "the mv"


@pytest.mark.parametrize("made", [{"missing": True}, {"resets": True}])
def test_nothing_is_known_of_the_comments_of_an_mv_that_the_run_has_made(
    run: Run, made: dict[str, bool]
) -> None:
    _, told = run(**made)

    assert (told["found"], told["constrained"]) == (None, None)


def test_a_full_refresh_is_a_rebuild(run: Run) -> None:
    assert ("run", "full refresh") in run(full_refresh=True)[0]


@pytest.mark.parametrize(
    ("flag", "message"), [("empty", "NO-OP (--empty)"), ("sample", "NO-OP (--sample)")]
)
def test_a_sampled_run_moves_nothing(run: Run, flag: str, message: str) -> None:
    steps, told = run(**{flag: True})

    assert steps == [*BEFORE, "observe", "grants", "docs", *AFTER]
    assert (told["message"], told["code"], told["rows_affected"]) == (message, "NO-OP", "0")


def test_a_sampled_run_creates_the_tables_that_do_not_exist_for_the_real_query(run: Run) -> None:
    steps, told = run(empty=True, missing=True)

    assert steps[2:4] == ["observe", "create"]
    assert told["sql"] == "select a from lake.up"


def test_a_run_takes_the_query_as_it_is(run: Run) -> None:
    """A subquery that looks like dbt's own sample is then the user's."""
    assert "limit 0" in run()[1]["sql"]


def test_even_a_full_refresh_moves_nothing_in_a_sampled_run(run: Run) -> None:
    assert run(empty=True, full_refresh=True)[0] == [*BEFORE, "observe", "grants", "docs", *AFTER]
