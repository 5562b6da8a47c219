"""What is read of a table whose versions cannot be read again."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest

from support.macros import Macros

SCAN = "select * from up as source where source.`a` > 10 and source.`a` <= 99"


@pytest.fixture
def parts(macros: Macros, backfill: Any, options: Any, make_state: Callable[..., Any]) -> Any:
    """The conditions of the selects that a range is read by; of several, with the bounds found."""

    def parts(count: int, bounds: list[Any], **plan: Any) -> list[str]:
        options["backfill_partitions"] = count
        backfill["upstream"] = {"relation": backfill["upstream"]["relation"], "kind": "postgres"}
        key = [{"name": "a", "upstream": "a", "position": "a", "type": "int", "order": "ascending"}]
        planned = {
            "kind": "advance",
            "key": key,
            "range_low": ["10"],
            "range_high": ["99"],
            "last_range": False,
            "backfill_rate_limit": 100,
            "sources": [{"role": "upstream", "version": "7"}],
            **plan,
        }
        macros.results = [[[json.dumps({"bounds": bounds})]]]
        if planned["backfill_rate_limit"] is None or planned["kind"] == "reanchor":
            macros.results.insert(0, [[json.dumps({"rows": 1000})]])
        macros.stub("get_row_count_sql", lambda *_: "1000")
        scan = macros.call("_get_partitioned_scan", backfill, make_state(), planned, SCAN)
        assert scan.count(SCAN) == len(scan.split("union all"))
        return [part.split(") as part where ")[-1].strip() for part in scan.split("union all")]

    return parts


def test_a_range_is_read_by_one_select_unless_asked(macros: Macros, parts: Any) -> None:
    assert parts(1, []) == [SCAN]
    assert macros.statements == []


def test_parts_meet_at_their_bounds(macros: Macros, parts: Any) -> None:
    assert parts(4, [["25"], ["50"], ["75"]]) == [
        "part.`a` <= 25",
        "part.`a` > 25 and part.`a` <= 50",
        "part.`a` > 50 and part.`a` <= 75",
        "part.`a` > 75",
    ]
    [statement] = macros.statements
    offsets = [line.split()[-1] for line in statement.sql.splitlines() if "offset" in line]
    assert offsets == ["24", "49", "74"]
    assert statement.sql.count("`a` > 10 and `a` <= 99") == 3


def test_bounds_beyond_the_last_row_and_equal_ones_make_no_part(parts: Any) -> None:
    assert parts(4, [["25"], ["25"], None]) == ["part.`a` <= 25", "part.`a` > 25"]
    assert parts(2, [None]) == ["true"]


def test_a_range_without_a_limit_is_divided_by_what_is_there(macros: Macros, parts: Any) -> None:
    parts(2, [["600"]], range_low=None, last_range=True, backfill_rate_limit=None)
    assert "offset 499" in macros.statements[-1].sql


def test_a_comparison_of_the_whole_is_divided_too(macros: Macros, parts: Any) -> None:
    parts(2, [["600"]], kind="reanchor", range_low=None)
    assert "offset 499" in macros.statements[-1].sql
    assert "where true" in macros.statements[-1].sql
