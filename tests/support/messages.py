"""The texts that a run can end with, read from the macros."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

from support.project import REPOSITORY

MACROS = REPOSITORY / "macros"
_BRACKETS = {"(": 1, "[": 1, "{": 1, ")": -1, "]": -1, "}": -1}
_TEXT = re.compile(r"""'(?:[^'\\]|\\.)*'|"(?:[^"\\]|\\.)*\"""")
# `set name = …`, `set other, name = …`, an entry of a dict, and a parameter with a default.
_SETS = r"\{{%-? set (?:\w+, )*{name}(?:, \w+)* = (.*?)-?%\}}|'{name}': |\b{name}=(?=['\"])"


@dataclass(frozen=True)
class Refusal:
    """A refusal in a macro: `fact` and `change` are Jinja expressions."""

    file: str
    fact: str
    change: str
    source: str

    def texts(self) -> Iterator[str]:
        """Return the text of `change`, and then the texts of the variables in it."""
        yield join_texts(self.change)
        for name in set(re.findall(r"[a-z_]+", _TEXT.sub("", self.change))):
            for found in re.finditer(_SETS.format(name=name), self.source, re.DOTALL):
                value = found[1] or _arguments(self.source[found.end() :])[0]
                yield from (join_texts(text[0]) for text in _TEXT.finditer(value))


def messages() -> dict[str, str]:
    """Return a dict with the fact of each refusal as key, and the file of its macro as value.

    In a fact, `…` replaces each value.
    """
    found: dict[str, str] = {}
    for message in refusals():
        fact = fixed_words(message.fact)
        if re.search(r"\w{2}", fact):
            found.setdefault(fact, message.file)
    return found


def refusals() -> Iterator[Refusal]:
    """Return each call of `refuse`, and each dict {'fact', 'change'} that is passed to it."""
    for file, source in _sources():
        for call in re.finditer(r"dbt_backfill\.refuse\(|'fact': ", source):
            given = [*_arguments(source[call.end() :]), "''"]
            yield Refusal(file, given[0], given[1].removeprefix("'change': "), source)
        for call in re.finditer(r"dbt_backfill\.check_barrier_is_committed\(", source):
            yield Refusal(
                file, "its barrier is not committed", _arguments(source[call.end() :])[2], source
            )


def raised_texts() -> Iterator[tuple[str, str]]:
    """Return (file, text) for each `raise_error` in the SQL of a macro.

    If Jinja joins the argument, the text has all texts of the macro.
    """
    for file, source in _sources():
        for macro in re.split(r"(?=\{% macro )", source):
            for call in re.finditer(r"\braise_error\(", macro):
                argument = _arguments(macro[call.end() :])[0]
                yield file, join_texts(macro if "~" in argument else argument)


def _sources() -> Iterator[tuple[str, str]]:
    """Return (file, text without comments) for each file of macros."""
    for path in sorted(MACROS.rglob("*.sql")):
        text = re.sub(r"\{#.*?#\}", "", path.read_text(), flags=re.DOTALL)
        yield path.relative_to(MACROS).as_posix(), text


def join_texts(expression: str) -> str:
    """Return all texts of an expression, with `…` between them."""
    return "…".join(text[0][1:-1].replace("\\'", "'") for text in _TEXT.finditer(expression))


def _arguments(source: str) -> list[str]:
    """Return the arguments or entries up to the bracket that ends the call or the dict."""
    depth, position, start, found = 0, 0, 0, []
    while depth or source[position] not in ")}]":
        if text := _TEXT.match(source, position):
            position = text.end()
            continue
        if source[position] == "," and not depth:
            found.append(source[start:position].strip())
            start = position + 1
        depth += _BRACKETS.get(source[position], 0)
        position += 1
    return [*found, source[start:position].strip()]


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
