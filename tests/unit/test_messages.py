"""Every message that a run can end with has an id, and says what to do now."""

from __future__ import annotations

import re

import pytest

from support.macros import MACROS
from support.messages import raised_texts, refusals, wordings

VERBS = (
    "add|allow|cast|change|choose|compare|compute|convert|correct|create|declare|delete|drop|"
    "exchange|execute|find|give|keep|land|leave|let|make|materialize|move|name|put|read|rebuild|"
    "remove|rename|repeat|restore|run|select|set|start|stop|take|undo|unset|upgrade|use|verify|"
    "write"
)
"""The words with which an instruction begins. Add a verb if a new message needs it."""

WITHOUT_TEXT = {
    # The texts are the values of the dict `without_effect`. They begin with `Remove it` or `Set`.
    "option-without-effect",
}
"""The refusals whose instructions the test does not find."""

ENDS_BY_ITSELF = {
    # After this message the tables exist, so the next run does not create them.
    "created-by-another-run",
    # If the server crashes during every run, the user has to repair the server.
    "postgresql-recovered",
}
"""The refusals for which `run again` is enough, because the next run does not find them again."""


def instructions(text: str) -> list[str]:
    """Return the clauses of a text that begin with a verb of `VERBS`, and `To …:`."""
    clauses = re.split(r"[.;:,]\s+|\b(?:or|and|then|either)\b", text, flags=re.IGNORECASE)
    found = [
        clause.strip()
        for clause in clauses
        if re.match(rf"\s*(?:{VERBS})\b", clause, re.IGNORECASE)
    ]
    return found + re.findall(r"\bTo [^.:]+: …", text)


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("Drop the state", ["Drop the state"]),
        ("Nothing is lost; run again to continue", ["run again to continue"]),
        ("If all readers agree: set it. Or rebuild the MV", ["set it", "rebuild the MV"]),
        ("To keep its rows: …", ["To keep its rows: …"]),
        ("Its arguments are model, all", []),
        ("This statement wrote nothing. A settled rundown", []),
    ],
)
def test_an_instruction_begins_a_clause(text: str, found: list[str]) -> None:
    assert instructions(text) == found


@pytest.mark.parametrize(
    ("expression", "texts"),
    [
        ("'its key ' ~ key ~ ' is null'", ["its key … is null"]),
        ('mv.render() ~ " isn\'t ours"', ["… isn't ours"]),
        ("'{:,}'.format(n) ~ ' rows' ~ ('s' if n else '')", ["… rowss", "… rows"]),
        ("a ~ b ~ ', a list of ' ~ [1, 2] | join(', ')", ["…, a list of …"]),
    ],
)
def test_a_wording_is_what_no_value_changes(expression: str, texts: list[str]) -> None:
    assert wordings(expression) == texts


def test_every_refusal_has_an_id_of_some_words() -> None:
    ids = {(refusal.file, refusal.line): refusal.id or "" for refusal in refusals()}

    assert len(ids) > 200
    assert {k: id for k, id in ids.items() if not re.fullmatch("[a-z]+(-[a-z]+){1,3}", id)} == {}


def test_refusals_with_the_same_id_say_the_same() -> None:
    said: dict[str | None, list[list[str]]] = {}
    for refusal in refusals():
        said.setdefault(refusal.id, []).append(refusal.facts)

    assert {id: facts for id, facts in said.items() if any(f != facts[0] for f in facts)} == {}


def test_every_refusal_says_what_to_do() -> None:
    silent = {
        refusal.id: refusal.changes
        for refusal in refusals()
        if not all(map(instructions, refusal.changes))
    }

    assert silent.keys() == WITHOUT_TEXT, silent


def test_a_refusal_that_the_next_run_may_repeat_says_more_than_run_again() -> None:
    found = {
        refusal.id
        for refusal in refusals()
        if instructions(" ".join(refusal.changes)) == ["run again to continue"]
    }

    assert found == ENDS_BY_ITSELF


def test_every_error_that_a_statement_raises_says_what_to_do() -> None:
    found = list(raised_texts())
    silent = [
        (file, text)
        for file, text in found
        if set(instructions(text)) <= {"run again to continue."}
    ]

    assert len(found) >= 7
    assert silent == []


def test_a_message_names_only_operations_that_exist() -> None:
    source = "".join(path.read_text() for path in MACROS.rglob("*.sql"))
    operations = "".join(path.read_text() for path in MACROS.glob("operations/**/*.sql"))
    named = set(re.findall(r"get_operation_text\(\s*'(\w+)'", source))
    named |= set(
        re.findall(r"(?:run-operation|with) ((?:drop|verify|clone)_backfill|\w+_plan)", source)
    )

    assert {"drop_backfill", "abandon_plan", "adopt_table", "clone_backfill"} <= named
    assert {name for name in named if f"{{% macro {name}(" not in operations} == set()
