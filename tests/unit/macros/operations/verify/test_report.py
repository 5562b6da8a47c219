"""The lines that verify_backfill prints."""

from __future__ import annotations

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest

from support.macros import Macros

KEY = ["5", "1"]
LONG = "'" + "a" * 200 + "'"


@pytest.fixture
def verify(macros: Macros, verified: Any) -> Callable[..., list[str]]:
    """Run verify_backfill, whose comparisons find these results. Return the printed lines."""

    def verify(*found: dict[str, Any], **given: Any) -> list[str]:
        compared = iter(
            {"stage": "differing", "null_keys": 0, "low": [], "high": []} | f for f in found
        )
        macros.stub("find_backfilled_mv", lambda *_: SimpleNamespace(name="mv"))
        macros.stub("observe_verified", lambda _: verified)
        macros.stub("read_selection", lambda *_: {})
        macros.stub("stage_definition", lambda _, state: {"state": state, "unsettled": None})
        macros.stub("run_comparison", lambda *_, **__: next(compared))
        macros.stub("read_differences", lambda *_: [{"kind": "changed", "count": 4, "samples": []}])
        macros.stub("run_repair", lambda *_: None)
        macros.stub("drop_stages", lambda *_: None)
        macros.call("verify_backfill", "mv", **given)
        return macros.logged

    return verify


@pytest.mark.parametrize(
    ("given", "text"),
    [
        ({}, "mv: 12,345 rows compared"),
        ({"vnodes": [3, 7]}, "mv: 12,345 rows of the vnodes 3, 7 compared"),
        ({"key_from": [1, "a"]}, "mv: 12,345 rows from (1, a) compared"),
        ({"key_from": 1, "key_to": 2}, "mv: 12,345 rows from (1) to (2) compared"),
    ],
)
def test_what_was_compared_is_said(verify: Callable[..., Any], given: Any, text: str) -> None:
    assert verify({"rows": 12345, "differing": 0}, **given) == [f"{text}, all equal"]


def sample(macros: Macros, verified: Any, kind: str, **shown: Any) -> list[str]:
    empty: dict[str, Any] = {"key": KEY, "promised": [], "present": [], "columns": []}
    kinds = [{"kind": kind, "count": 1, "samples": [empty | shown]}]
    found = {"differing": 1, "kinds": kinds, "counts": f"1 {kind}"}
    macros.call("report_differences", verified, found, "mv: 9 rows", 10)
    assert all(len(line) <= 80 for line in macros.logged)
    return [line.removeprefix("  ") for line in macros.logged[1:]]


def test_of_a_changed_key_the_columns_that_differ_are_shown(macros: Macros, verified: Any) -> None:
    promised, present = [[*KEY, "{a -> 1}"]], [[*KEY, "NULL"]]

    assert sample(macros, verified, "changed", promised=promised, present=present, columns=[2]) == [
        "changed k=5, shard=1",
        "  m",
        "    expected {a -> 1}",
        "    found    NULL",
    ]


def test_of_another_key_all_rows_are_shown(macros: Macros, verified: Any) -> None:
    row = [*KEY, "{a -> 1}"]

    assert sample(macros, verified, "duplicated", promised=[row], present=[row, row]) == [
        "duplicated k=5, shard=1",
        "    expected m={a -> 1}",
        "    found    m={a -> 1}",
        "    found    m={a -> 1}",
    ]


def test_long_values_are_shortened(macros: Macros, verified: Any) -> None:
    [_, line] = sample(macros, verified, "missing", promised=[[*KEY, LONG]])

    assert line == "    expected m='" + "a" * 59 + "…"


@pytest.mark.parametrize(
    ("text", "other", "shown"),
    [
        ("short", "other", "short"),
        ("a" * 50 + "b" * 50, "a" * 50 + "c" * 50, "…" + "a" * 20 + "b" * 8 + "…"),
        ("a" * 50 + "b", "a" * 50 + "c", "…" + "a" * 28 + "b"),
        ("a" * 50, None, "a" * 29 + "…"),
        ("a" * 50, "b", "a" * 29 + "…"),
    ],
)
def test_a_value_is_shown_where_it_differs(
    macros: Macros, text: str, other: str | None, shown: str
) -> None:
    assert macros.call("_shortened", text, other, 30) == shown
    assert len(shown) <= 30


def test_keys_that_are_not_shown_are_counted(macros: Macros, verified: Any) -> None:
    kinds = [{"kind": "changed", "count": 1200, "samples": []}]
    found = {"differing": 1200, "kinds": kinds, "counts": "1,200 changed"}
    macros.call("report_differences", verified, found, "mv: 9 rows", 10)

    assert macros.logged == [
        "mv: 9 rows, 1,200 keys differ: 1,200 changed",
        "  and 1,190 keys more",
    ]


def test_what_was_repaired_is_compared_again(verify: Callable[..., Any]) -> None:
    lines = verify({"rows": 9, "differing": 4}, {"rows": 7, "differing": 0}, repair=True)

    assert lines[-2:] == [
        "mv: 4 keys repaired (4 changed)",
        "mv: 7 rows from the first of these keys to the last compared again, all equal",
    ]


def test_a_repair_that_did_not_hold_is_refused(verify: Callable[..., Any], refused: Any) -> None:
    with refused("1 key of lake.mv still differs after the repair. Stop the other writer of"):
        verify({"rows": 9, "differing": 4}, {"rows": 9, "differing": 1}, repair=True)
