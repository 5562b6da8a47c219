"""The name of a model in lines and messages."""

from __future__ import annotations

from typing import Any

import pytest

from support.macros import Macros


@pytest.mark.parametrize(
    ("version", "name"),
    [({}, "orders"), ({"version": None}, "orders"), ({"version": 2}, "orders.v2")],
    ids=["none", "null", "one"],
)
def test_a_version_is_named_as_dbt_names_it(
    macros: Macros, version: dict[str, Any], name: str
) -> None:
    assert macros.call("get_model_name", {"name": "orders", **version}) == name


def test_an_mv_is_named_outside_of_a_run_too(macros: Macros) -> None:
    assert macros.call("get_name_of", {"name": "orders.v2"}) == "orders.v2"
    assert macros.call("get_name_of", {}) == "mv"
