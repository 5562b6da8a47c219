"""Every message that a run can end with says what to do now."""

from __future__ import annotations

import re

import pytest

from support.messages import MACROS, fixed_words, raised_texts, refusals

VERBS = (
    "add|allow|cast|change|choose|compare|compute|convert|correct|create|declare|delete|drop|"
    "exchange|execute|find|give|keep|land|leave|let|make|materialize|move|name|put|read|rebuild|"
    "remove|rename|repeat|restore|run|select|set|start|stop|take|undo|unset|upgrade|use|verify|"
    "write"
)
"""The words with which an instruction begins. Add a verb if a new message needs it."""

PASSED_ON = {
    # `refusals` also lists the calls of this macro, with their own texts.
    ("core/definition.sql", "change"),
    # The texts are the keys of the dict `instead`. They begin with `Remove it` or `Set`.
    ("core/config/options.sql", "without_effect[name]"),
}
"""The expressions whose texts the test does not find, each with its file."""

ENDS_BY_ITSELF = {
    # After this message the tables exist, so the next run does not create them.
    "another run created the tables of the MV at the same time",
    # If the server crashes during every run, the user has to repair the server.
    "the server of its upstream has recovered from a crash since the range was read, so the "
    "server may have lost commits that were read",
}
"""The facts for which `run again` is enough, because the next run does not find them again."""


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


def test_every_refusal_says_what_to_do() -> None:
    silent = {
        (refusal.file, refusal.change): fixed_words(refusal.fact)
        for refusal in refusals()
        # A dict {'fact', 'change'} that is passed on is checked where it is written.
        if not refusal.change.endswith(".change") and not any(map(instructions, refusal.texts()))
    }

    assert silent.keys() == PASSED_ON, silent


def test_a_refusal_that_the_next_run_may_repeat_says_more_than_run_again() -> None:
    found = {
        fixed_words(refusal.fact)
        for refusal in refusals()
        if (said := [text for text in refusal.texts() if instructions(text)])
        and instructions(" ".join(said)) == ["run again to continue"]
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
