"""A replaced Iceberg MV is looked at: another replacement may have come late."""

from __future__ import annotations

from typing import Any

import pytest

from support.macros import Macros


@pytest.mark.parametrize(
    ("found", "times"), [(["p3"], 1), (["p2", "p3"], 2), (["p2", "p2", "p3"], 3)]
)
def test_it_is_run_again_where_another_one_stands_in_its_place(
    macros: Macros, backfill: Any, options: Any, make_plan: Any, found: list[str], times: int
) -> None:
    options["file_format"] = "iceberg"
    left = iter(found)
    macros.stub(
        "read_table_properties",
        lambda mv: {"dbt_backfill.reset": f"{next(left)} of x", "current-snapshot-id": "7"},
    )

    assert macros.call("run_replacement", backfill, make_plan(), "empty", "replace it") == "7"
    assert len(macros.statements) == times


def test_a_run_that_cannot_replace_it_ends(
    macros: Macros, backfill: Any, options: Any, make_plan: Any, refused: Any
) -> None:
    options["file_format"] = "iceberg"
    macros.stub("read_table_properties", lambda mv: {"dbt_backfill.reset": "p2 of x"})

    with refused("another run went on while this one executed the barrier 3"):
        macros.call("run_replacement", backfill, make_plan(), "empty", "replace it")


def test_on_delta_the_fence_is_enough(macros: Macros, backfill: Any, make_plan: Any) -> None:
    macros.stub("read_table_properties", lambda mv: pytest.fail("asked"))

    assert macros.call("run_replacement", backfill, make_plan(), "empty", "replace it") is None
