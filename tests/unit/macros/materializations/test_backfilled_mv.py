"""A run writes the constraints of a contract only after every row keeps to the contract.

tests/functional covers the other steps of a run.
"""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from support.macros import Macros

FILL = {"kind": "fill", "fills": [{"name": "x", "type": "int"}], "fill_high": ["1"]}


@pytest.mark.parametrize(
    ("plan", "finished", "constrained"),
    [
        ({}, False, True),
        ({}, True, True),
        ({"sweeps": True}, False, False),  # some rows are not swept yet
        ({"sweeps": True}, True, True),
        (FILL, True, False),  # some rows do not have the new column yet
        ({**FILL, "last_fill": True}, True, True),
    ],
)
def test_constraints_wait_for_rows_that_need_not_keep_to_the_contract_yet(
    macros: Macros, relations: Any, make_state: Any, make_plan: Any, plan: Any, finished: bool,
    constrained: bool,
) -> None:  # fmt: skip
    state = make_state(committed=make_plan(**plan), finished=finished)
    found = {"properties": {"dbt_backfill.constraints": "[]"}}
    told: list[Any] = []
    options = {"live_view": False, "full_refresh_mode": "in_place"}
    backfill = {**relations, "options": options}
    for name, answer in {
        "get_backfill": lambda *_: backfill,
        "observe_state": lambda *_: {"state": state, "mv": found},
        "run_barriers": lambda *_: {"replaced": False, "state": state},
        "apply_constraints": lambda *_: told.append("constraints"),
        "apply_docs": lambda *_: told.append("docs"),
    }.items():
        macros.stub(name, answer)
    macros.stub("store_result_of_run", lambda *_: None)
    macros.context |= {
        "sql": "select 1", "pre_hooks": [], "post_hooks": [],
        "load_relation": lambda relation: relation, "run_hooks": lambda hooks: "",
        "apply_grants": lambda *_: None, "should_revoke": lambda *_: True,
        "should_full_refresh": lambda: False, "flags": SimpleNamespace(EMPTY=False),
    }  # fmt: skip

    macros.call("materialization_backfilled_mv_spark")
    assert told == (["constraints"] if constrained else [])  # persist_docs is off
    assert macros.statements == []  # a feature that is not used needs no statement
