"""Calls between the folders of macros have only one direction.

materializations and operations -> features -> core -> the contract of the upstreams

A macro that is found by the name of its kind does not count, because no macro calls it by its own
name.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from graphlib import TopologicalSorter

from support.macros import MACROS

TEXTS = {p.relative_to(MACROS).as_posix(): p.read_text() for p in sorted(MACROS.rglob("*.sql"))}
HOME = {
    name: file
    for file, text in TEXTS.items()
    for name in re.findall(r"^\{%-? macro (\w+)", text, re.MULTILINE)
}

HOOKS = "features/hooks.sql"

FEATURES_IN_CORE = {
    "find_takeover", "get_allowance", "get_allowance_text", "get_lowering_sql",
    "get_rescale_statement", "get_sized_rows", "is_budget_spent", "may_replicate",
    "take_over_table", "why_no_replica",
}  # fmt: skip
"""Macros of features that the core still calls by name instead of through `features/hooks.sql`.

This is a debt: names may be removed, but none may be added.
"""


def _calls() -> Iterator[tuple[str, str, str]]:
    """Yield the file, the macro that it calls, and the file that defines this macro."""
    for file, text in TEXTS.items():
        for name in re.findall(r"dbt_backfill\.(\w+)", text):
            if name in HOME:
                yield file, name, HOME[name]


def _folder(file: str) -> str:
    return "/".join(file.split("/")[: 2 if file.startswith("core/") else 1])


def test_no_two_folders_of_the_core_need_each_other() -> None:
    needs: dict[str, set[str]] = {}
    for file, _, home in _calls():
        if file.startswith("core/") and home.startswith("core/") and _folder(file) != _folder(home):
            needs.setdefault(_folder(file), set()).add(_folder(home))

    order = list(TopologicalSorter(needs).static_order())

    assert order.index("core/statement") < order.index("core/state") < order.index("core/barrier")


def test_the_core_calls_no_feature_but_those_that_are_known() -> None:
    called = {
        name
        for file, name, home in _calls()
        if file.startswith("core/") and home.startswith("features/") and home != HOOKS
    }

    assert called == FEATURES_IN_CORE


def test_of_the_upstreams_the_core_knows_the_contract() -> None:
    known = {"upstreams/contract.sql", "upstreams/change_table.sql"}

    assert not [
        (file, name)
        for file, name, home in _calls()
        if file.startswith("core/") and home.startswith("upstreams/") and home not in known
    ]


def test_nothing_calls_what_users_call() -> None:
    """Only users call operations and materializations. Generic tests may call operations."""
    assert not [
        (file, name)
        for file, name, home in _calls()
        if file.startswith(("core/", "features/", "upstreams/"))
        and home.startswith(("operations/", "materializations/", "generic_tests/"))
    ]


def test_what_a_comment_refers_to_exists() -> None:
    """`see x` must name a macro or a question of the contract."""
    questions = {name.partition("_")[2] for name in HOME if name.startswith(KINDS)}
    missing = {
        (file, name)
        for file, text in TEXTS.items()
        for comment in re.findall(r"\{#-?(.*?)-?#\}", text, re.DOTALL)
        for name in re.findall(r"\bsee\s+`?([a-z_]+_[a-z_]+)\b(?!\.sql)", comment)
        if name not in HOME and name not in questions
    }

    assert missing == set()


KINDS = ("delta_", "iceberg_", "postgres_", "debezium_", "landed_", "declared_")

SIZES = {"macros": 648, "lines": 14_988, "files": 74, "namespaces": 9}
"""The greatest allowed sizes.

They may only be lowered: a feature that adds lines or macros must remove as many elsewhere.
"""


def test_there_is_no_more_of_it_than_there_was() -> None:
    text = "".join(TEXTS.values())
    found = {
        "macros": len(HOME),
        "lines": text.count("\n"),
        "files": len(TEXTS),
        "namespaces": text.count("namespace("),
    }

    assert {name: max(found[name], most) for name, most in SIZES.items()} == SIZES
