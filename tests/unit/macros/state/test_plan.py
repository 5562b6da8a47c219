"""The stored form of a plan."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest

from support.duck import Duck
from support.macros import Macros

# The entries in the state of an earlier release. If an entry gets another name, the format changes.
FIELDS = (
    "epoch plan_id backfill_id kind reason sources upstream_row_count range_low range_high"
    " last_range vnodes vnode_row_counts range_row_count sweeps at_once touched fills drops"
    " fill_low fill_high last_fill filled_row_count generation next_bounds bounds_complete"
    " query query_hash query_columns settings key vnode_count backfill_mode"
    " backfill_rate_limit invocation_id"
)


def test_a_stored_plan_has_these_entries(
    macros: Macros, duck: Duck, make_plan: Callable[..., Any]
) -> None:
    """The order of the entries is fixed. Entries that a plan has only while it is chosen are not
    stored.
    """
    entries: dict[str, Any] = dict.fromkeys([*FIELDS.split(), "evidence"], "x")
    entries |= {
        name: [{"id": 1, "name": "x", "other": "x"}] for name in ("sources", "fills", "key")
    }
    entries["generation"] = {"id": 1, "other": "x"}
    made = make_plan(**entries)
    [(text,)] = duck.rows(f"select {macros.call('get_plan_json_sql', made)}")
    stored = json.loads(text)

    assert [*stored] == [*FIELDS.split(), "planned_at"]
    assert stored["sources"] == [{"id": "1"}]
    assert stored["fills"] == [{"name": "x"}]
    assert stored["generation"] == {"id": "1"}


@pytest.mark.parametrize(
    "entries",
    [
        {"vnodes": None, "range_low": None, "range_row_count": None, "backfill_rate_limit": None},
        {"vnodes": [], "touched": []},
        {"vnodes": [0, 3], "touched": [["5", "6"], []]},
        {"backfill_rate_limit": 0, "range_row_count": 0, "last_range": True, "sweeps": True},
        {"next_bounds": [["7", "8"], ["9", "'x'"]], "bounds_complete": False},
        {"query": "select 'it''s \\ ${x}'\nfrom `up`", "reason": "it's"},
        {"generation": {"id": "it's"}, "drops": ["it's"]},
        {"fills": [{"name": "it's", "type": "int"}], "drops": ["b"], "fill_low": ["1"]},
        {
            "key": [
                {
                    "name": "k",
                    "upstream": "id",
                    "type": "int",
                    "position": "${x}",
                    "order": "descending",
                }
            ]
        },
    ],
    ids=str,
)
def test_a_plan_is_read_back_as_it_was_made(
    macros: Macros, duck: Duck, make_plan: Callable[..., Any], entries: dict[str, Any]
) -> None:
    """A null value is absent, even if the session writes null fields."""
    made = make_plan(settings={"a": "it's"}, vnode_row_counts=None)
    [(text,)] = duck.rows(f"select {macros.call('get_plan_json_sql', made | entries)}")
    stored = json.loads(text)

    assert {name: stored.get(name) for name in entries} == entries
    assert None not in stored.values()
    assert stored["sources"] == made["sources"]
    assert stored["settings"] == {"a": "it's"}


def test_what_a_script_counts_is_a_variable_in_the_plan(
    macros: Macros, duck: Duck, make_plan: Callable[..., Any]
) -> None:
    counts = {"range_row_count": "checked.rows", "vnode_row_counts": "checked.by_vnode"}
    made = make_plan(settings={"a": "b"}, counted=counts)
    sql = f"select {macros.call('get_plan_json_sql', made)}"
    [(text,)] = duck.rows(sql, checked={"rows": 7, "by_vnode": {0: 3, 2: 4}})
    stored = json.loads(text)

    assert stored["range_row_count"] == 7
    assert stored["vnode_row_counts"] == {"0": 3, "2": 4}
