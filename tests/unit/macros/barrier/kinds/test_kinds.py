"""Each kind of barrier answers each question of the contract, in a file of its own."""

from __future__ import annotations

import re
from typing import Any

import pytest

from support.macros import MACROS, Macros

CONTRACT = MACROS / "barrier" / "kinds" / "kinds.sql"
KINDS = sorted(path.stem for path in CONTRACT.parent.glob("*.sql") if path != CONTRACT)
QUESTIONS = dict(re.findall(r"^      (\w+)\(([\w, ]*)\) ", CONTRACT.read_text(), re.MULTILINE))


def _defined(kind: str) -> dict[str, str]:
    text = (CONTRACT.parent / f"{kind}.sql").read_text()
    return dict(re.findall(rf"\{{% macro {kind}_(\w+)\(([\w, ]*)\) -?%\}}", text))


def test_there_are_kinds_and_questions() -> None:
    assert KINDS == [
        "abandon", "advance", "fill", "reanchor", "rescale", "reset", "swap", "sweep"
    ]  # fmt: skip
    assert {"traits", "scan", "execute", "columns"} < set(QUESTIONS)


@pytest.mark.parametrize("kind", KINDS)
def test_a_kind_answers_every_question_with_its_arguments_and_no_other(kind: str) -> None:
    assert _defined(kind) == QUESTIONS


@pytest.mark.parametrize("kind", KINDS)
def test_a_kind_has_the_same_traits_as_the_others(macros: Macros, kind: str) -> None:
    traits = macros.call("get_traits", {"kind": kind})

    assert set(traits) == {"follows", "reads_range", "replaces_mv", "gives_up", "rescales"}
    assert set(traits.values()) <= {True, False}


def test_only_an_advance_a_fill_and_a_reanchor_that_is_limited_merge_changes(
    macros: Macros, make_plan: Any
) -> None:
    merging = [
        kind
        for kind in KINDS
        for plan in [make_plan(kind=kind), make_plan(kind=kind, touched=[])]
        if macros.call("of_kind", kind, "follows_feed")(plan)
    ]

    assert merging == ["advance", "advance", "fill", "fill", "reanchor"]


def test_a_kind_without_an_answer_is_an_error(macros: Macros) -> None:
    with pytest.raises(Exception, match="no macro advance_sing"):
        macros.call("of_kind", "advance", "sing")()
