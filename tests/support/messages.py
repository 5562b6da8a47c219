"""The fixed words of the messages of `dbt_backfill.refuse`, read from the macros."""

from __future__ import annotations

import re
from collections.abc import Iterator

from support.project import REPOSITORY

MACROS = REPOSITORY / "macros"
_BRACKETS = {"(": 1, "[": 1, "{": 1, ")": -1, "]": -1, "}": -1}
_TEXT = re.compile(r"""'(?:[^'\\]|\\.)*'|"(?:[^"\\]|\\.)*\"""")


def messages() -> dict[str, str]:
    """Return a dict with the fact of each refusal as key, and the file of its macro as value.

    In a fact, `…` replaces each value.
    """
    found: dict[str, str] = {}
    for path in sorted(MACROS.rglob("*.sql")):
        source = re.sub(r"\{#.*?#\}", "", path.read_text(), flags=re.DOTALL)
        for expression in _facts(source):
            message = fixed_words(expression)
            if re.search(r"\w{2}", message):
                found.setdefault(message, path.relative_to(MACROS).as_posix())
    return found


def _facts(source: str) -> Iterator[str]:
    for call in re.finditer(r"dbt_backfill\.refuse\(|'fact': ", source):
        yield _first_argument(source[call.end() :])


def _first_argument(source: str) -> str:
    """Return the source up to the comma or bracket that ends the argument at its start."""
    depth, position = 0, 0
    while depth or source[position] not in ",)}":
        if text := _TEXT.match(source, position):
            position = text.end()
            continue
        depth += _BRACKETS.get(source[position], 0)
        position += 1
    return source[:position]


def fixed_words(expression: str) -> str:
    """Return the texts that a Jinja expression joins with `~`, with `…` for all other parts."""
    parts, depth, position, value = [""], 0, 0, False
    while position < len(expression):
        text = _TEXT.match(expression, position)
        if text and not depth and not value and expression[text.end() : text.end() + 1] != ".":
            parts.append(text[0][1:-1].replace("\\'", "'"))
        elif not text and expression[position] == "~" and not depth:
            value = False
        elif text or not expression[position].isspace():
            depth += _BRACKETS.get(expression[position], 0)
            if not value:
                parts.append("…")
            value = True
        position = text.end() if text else position + 1
    return re.sub("…+", "…", "".join(parts)).strip()
