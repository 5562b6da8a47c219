"""A plan that can no longer be executed."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest

from support.macros import Macros


@pytest.fixture
def abandon(macros: Macros, backfill: Any, make_plan: Callable[..., Any]) -> str:
    macros.results = [[[json.dumps({"plan_id": "p3", "kind": "abandon"})]]]
    assert macros.call("mark_abandoned", backfill, make_plan(), "it's gone")["kind"] == "abandon"
    return " ".join(macros.statements[0].sql.split())


def test_a_plan_is_marked_as_abandoned_and_never_overwritten(abandon: str) -> None:
    assert (
        "on barriers.epoch = abandoned.epoch and barriers.epoch = 3 and barriers.plan_id = 'p3' "
        "when matched and barriers.kind != 'abandon' then update set kind = 'abandon', "
        "reason = 'it\\'s gone'"
    ) in abandon
    assert "insert" not in abandon and "delete" not in abandon
