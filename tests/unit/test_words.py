"""The check for private words, which `make lint` runs."""

from __future__ import annotations

import pytest

from support.words import (
    Hit,
    Words,
    find_new,
    prose_of_macros,
    prose_of_page,
    prose_of_python,
    read_words,
)

WORDS = Words({r"\banew\b": "again", r"\bof before\b": "previous"})


def found(prose: str) -> list[tuple[int, str]]:
    return [(hit.line, hit.word) for hit in WORDS.find("a", prose)]


def test_a_page_is_read_without_code_and_headings() -> None:
    page = (
        "# Anew\n`anew`\n\n```sh\nanew\n```\n"
        "[anew](anew.md), [Anew](x.md#anew) and rows of\nbefore\n"
    )

    assert found(prose_of_page(page, frozenset({"Anew"}))) == [(7, "anew"), (7, "of before")]


def test_python_is_read_for_comments_and_docstrings() -> None:
    code = (
        '"""Built anew."""\nanew = "made anew here"  # `anew`\n'
        "# rows of\n# before\nx = 1  # of\nbefore()\n"
    )

    assert found(prose_of_python(code)) == [(1, "anew"), (3, "of before")]
    assert found(prose_of_python(code, messages=True))[1] == (2, "anew")


def test_macros_are_read_for_comments_and_messages() -> None:
    macro = (
        "{#- Begins anew. `anew` -#}\n{% macro anew() %}\n"
        "    {% do log('it begins anew', info=true) %}\n"
        "select anew, 'it begins anew' from {{ anew }}\n{% endmacro %}\n"
    )

    assert found(prose_of_macros(macro)) == [(1, "anew"), (3, "anew")]


def test_what_is_known_may_become_less_and_not_more() -> None:
    hits = [
        Hit("a", 1, "anew", "again"),
        Hit("a", 2, "anew", "again"),
        Hit("b", 1, "anew", "again"),
    ]

    assert find_new(hits, {"a": 2, "b": 3}) == []
    assert find_new(hits, {"a": 1, "b": 3}) == hits[:2]
    assert find_new(hits, {"a": 2}) == hits[2:]


@pytest.mark.parametrize(
    ("sentence", "word"),
    [
        ("the plan notes its version", "notes"),
        ("Note that a note is fine", None),
        ("the rows of\nbefore", "of before"),
        ("it lets go of the copy", "lets go"),
        ("a row stands there", "stands"),
        ("what Q stands for", None),
        ("what is in a standby or standalone", None),
        ("a foreign hand", "foreign"),
        ("a foreign table, a foreign key", None),
        ("the config rules", "config rules"),
        ("the rules of a format", None),
        ("it is built in place", None),
        ("a copy in place of it", "in place of"),
        ("the option `in_place`, replaced and placeholder", None),
        ("so is the view", "so is the"),
        ("so do not send it", None),
        ("the state is ours", "ours"),
        ("hours and yours", None),
    ],
)
def test_the_words_are_found_where_they_are_private(sentence: str, word: str | None) -> None:
    hits = list(read_words().find("a", sentence))

    assert [hit.word for hit in hits] == ([word] if word else [])
