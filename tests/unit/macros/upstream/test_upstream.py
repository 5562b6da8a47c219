"""Each kind of upstream answers each question of the contract, and nobody else knows the kinds."""

from __future__ import annotations

import re
from typing import Any

import pytest

from support.macros import MACROS, Macros

CONTRACT = MACROS / "upstream" / "upstream.sql"
QUESTIONS = dict(re.findall(r"^      (\w+)\(([\w, ]*)\) ", CONTRACT.read_text(), re.MULTILINE))
# Asked of a kind that stages ranges only, which the contract has after the others.
STAGING = [
    *("noted_feed", "enforces_keys", "bounds_sql"),
    *(
        "stage_script",
        "wait_script",
        "staged_doubt",
        "staged_read",
        "check_query",
        "check_staged",
        "check_stage_reached",
        "check_followed",
        "land_feed",
    ),
]
KINDS = ["delta", "iceberg", "postgres"]


def _defined(kind: str) -> dict[str, str]:
    """Its macros that others may call, each with its arguments."""
    text = "".join(path.read_text() for path in (CONTRACT.parent / kind).rglob("*.sql"))
    return dict(re.findall(rf"\{{% macro {kind}_(\w+)\(([\w, ]*)\) -?%\}}", text))


def test_these_kinds_can_be_followed(macros: Macros) -> None:
    assert macros.call("upstream_kinds") == KINDS


@pytest.mark.parametrize("kind", KINDS)
def test_a_kind_answers_every_question_with_its_arguments(kind: str) -> None:
    answers = _defined(kind)

    for question, arguments in QUESTIONS.items():
        if question in STAGING and kind != "postgres":
            continue
        assert question in answers
        assert len(answers[question].split(", ")) == len(arguments.split(", ")), question


def test_every_question_is_asked() -> None:
    asked = re.findall(r"_of_upstream\(upstream, '(\w+)'\)", CONTRACT.read_text())

    assert sorted(asked) == sorted(QUESTIONS)


def test_the_page_on_new_upstreams_has_every_question() -> None:
    page = (MACROS.parent / "docs" / "new_upstream.md").read_text()
    rows = re.findall(r"^\| (`.*?`) \|", page, re.MULTILINE)

    assert sorted(re.findall(r"`(\w+)`", " ".join(rows))) == sorted(QUESTIONS)


def test_nothing_else_knows_the_kinds_of_upstreams() -> None:
    """`committed.kind` and the like are compared where a kind looks at a plan of another one."""
    knowing = [
        path.relative_to(MACROS).as_posix()
        for path in sorted(MACROS.rglob("*.sql"))
        if not {*KINDS} & set(path.relative_to(MACROS).parts)
        and re.search(
            r"(upstream|feed|followed|table|source)\.kind [!=]= "
            r"|dbt_backfill\.(delta|iceberg|postgres)_",
            path.read_text(),
        )
    ]

    assert knowing == []


def test_a_version_is_text_of_which_nothing_is_asked(
    macros: Macros, backfill: Any, learned: Any, make_state: Any
) -> None:
    """A plan notes it as the kind gave it."""
    macros.context["model"]["unique_id"] = "model.p.mv"
    macros.stub("delta_committed_at", lambda observed, version: f"at {version}")
    observed = {"version": "0/16B3748", "id": "slot"}

    arguments = (backfill, make_state(), learned, "advance", observed, "0/16B3748")
    plan = macros.call("new_plan_at", *arguments)

    assert plan["sources"][0]["version"] == "0/16B3748"
    assert plan["sources"][0]["committed_at"] == "at 0/16B3748"
    assert macros.call("has_gone_on", backfill, plan, observed) is False
    assert macros.call("has_gone_on", backfill, plan, {"version": "0/2"}) is True
