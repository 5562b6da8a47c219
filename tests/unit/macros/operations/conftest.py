"""An MV as verify_backfill knows it before the comparison."""

from __future__ import annotations

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest

from support.macros import Macros


@pytest.fixture
def verified(
    macros: Macros,
    relations: dict[str, Any],
    keys: list[dict[str, str]],
    make_state: Callable[..., Any],
) -> dict[str, Any]:
    columns = [
        SimpleNamespace(name="k", type="bigint"),
        SimpleNamespace(name="shard", type="int"),
        SimpleNamespace(name="m", type="map<string,int>"),
    ]
    return {
        **relations,
        "name": "mv",
        "options": {"file_format": "delta"},
        "location_root": None,
        "state": make_state(),
        "key": macros.call("get_mv_keys", keys),
        "columns": columns,
        "compared": columns,
    }
