"""The sources that a plan has recorded."""

from __future__ import annotations

from typing import Any

import pytest

from support.macros import Macros, Table


@pytest.mark.parametrize(
    ("type", "kind", "stands"),
    [
        ("table", "delta", True),
        ("table", "iceberg", False),
        ("view", "delta", False),
        (None, "delta", False),
    ],
)
def test_what_a_plan_notes_may_be_gone_or_something_else(
    macros: Macros, up: Any, type: str | None, kind: str, stands: bool
) -> None:
    if type:
        macros.tables["lake.up"] = Table(type=type, file_format=kind)

    assert macros.call("exists_as_its_kind", {"relation": up, "kind": "delta"}) is stands
