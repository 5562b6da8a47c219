"""Find the private words of the project in its comments, messages and pages: `make lint`.

    python -m support.words              print the new hits; fail if there are any
    python -m support.words --all        print all hits, also the known ones
    python -m support.words --record     lower the numbers of the known hits

`words.toml` lists the words and their replacements. Code, names in backticks and headings are not
checked. A changed heading would break links to its anchor.
"""

from __future__ import annotations

import json
import re
import sys
import tomllib
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

REPOSITORY = Path(__file__).resolve().parents[2]
WORDS = Path(__file__).with_name("words.toml")
KNOWN = REPOSITORY / "tests" / "recorded" / "words.json"
"""The number of known hits by file. Numbers go down; no file is added."""

PAGES = ("README.md", "CONTRIBUTING.md", "*/README.md", "docs/**/*.md")
PYTHON = ("dbt", "docs/.site", "example_project", "example_cdc", "benchmarks", "tests")
MACROS = ("example_project/macros", "macros")

_STRING = r"""(?:\"{3}(?:[^"\\]|\\.|"(?!""))*\"{3}|"(?:[^"\\\n]|\\.)*"|'(?:[^'\\\n]|\\.)*')"""
_PYTHON = re.compile(rf"#[^\n]*|{_STRING}", re.DOTALL)
_JINJA = re.compile(r"\{#.*?#\}|\{\{.*?\}\}|\{%.*?%\}", re.DOTALL)
_STRINGS = re.compile(_STRING, re.DOTALL)
_LINK = re.compile(r"\[([^\]]*)\]\([^)\s]*\)")
_HEADING = re.compile(r"^#+ (.+)$", re.MULTILINE)
_CODE = re.compile(r"```.*?```|`[^`\n]*`|^#[^\n]*$|\]\([^)\s]*\)", re.DOTALL | re.MULTILINE)
_NAME = re.compile(r"`[^`\n]*`|\b\w+\.[a-z_]\w*|:(?:param|ivar|raises) [\w, ]+:")


@dataclass(frozen=True)
class Hit:
    """A private word in a file."""

    file: str
    line: int
    word: str
    instead: str

    def __str__(self) -> str:
        return f"{self.file}:{self.line}: {self.word!r}: write {self.instead}"


class Words:
    """The private words: a regular expression and a replacement for each of them."""

    def __init__(self, words: dict[str, str]) -> None:
        self.instead = list(words.values())
        groups = (f"({word})".replace(" ", r"\s+") for word in words)
        self.pattern = re.compile("|".join(groups), re.IGNORECASE)

    def find(self, file: str, prose: str) -> Iterator[Hit]:
        for match in self.pattern.finditer(prose):
            line = prose.count("\n", 0, match.start()) + 1
            word = " ".join(match[0].split())
            yield Hit(file, line, word, self.instead[(match.lastindex or 0) - 1])


def read_words() -> Words:
    return Words(tomllib.loads(WORDS.read_text())["words"])


def _gap(text: str) -> str:
    """Return only the line breaks of code, so that no match reaches across the code."""
    return "\0" + "\n" * text.count("\n")


def _only(text: str, pattern: re.Pattern[str], keep: re.Pattern[str] | None = None) -> str:
    """Keep the text that matches `pattern` and, if given, `keep`; replace the rest by gaps."""
    parts, end = [], 0
    for match in pattern.finditer(text):
        between = text[end : match.start()]
        parts.append(_gap(between) if between.strip() else between)
        parts.append(match[0] if keep is None or keep.search(match[0]) else _gap(match[0]))
        end = match.end()
    return "".join(parts) + _gap(text[end:])


def prose_of_page(text: str, headings: frozenset[str] = frozenset()) -> str:
    """Return the text of a page without code, headings and links to headings (`headings`)."""
    text = _LINK.sub(lambda link: _gap(link[0]) if link[1] in headings else link[0], text)
    return _CODE.sub(lambda code: _gap(code[0]), text)


def prose_of_python(text: str, messages: bool = False) -> str:
    """Return a module's comments and docstrings; with `messages`, also strings of several words."""
    kept = re.compile(r'^#|^"{3}| \S+ ' if messages else r'^#|^"{3}')
    prose = _only(text, _PYTHON, kept)
    prose = re.sub(r"^(\s*)#", r"\1 ", prose, flags=re.MULTILINE)
    return _NAME.sub(lambda name: _gap(name[0]), prose)


def prose_of_macros(text: str) -> str:
    """Return the comments of a file of macros, and the strings of several words in its Jinja."""
    parts = _only(text, _JINJA)
    return _JINJA.sub(
        lambda tag: (
            _NAME.sub(lambda name: _gap(name[0]), tag[0])
            if tag[0].startswith("{#")
            else _only(tag[0], _STRINGS, re.compile(r" \S+ "))
        ),
        parts,
    )


def read_prose() -> Iterator[tuple[str, str]]:
    """Yield the name and the prose of each checked file; `macros/` comes last."""
    pages = [path for pattern in PAGES for path in sorted(REPOSITORY.glob(pattern))]
    headings = frozenset(h for page in pages for h in _HEADING.findall(page.read_text()))
    for page in pages:
        yield _name(page), prose_of_page(page.read_text(), headings)
    for folder in PYTHON:
        for path in sorted((REPOSITORY / folder).rglob("*.py")):
            yield _name(path), prose_of_python(path.read_text(), messages=folder == "dbt")
    for folder in MACROS:
        for path in sorted((REPOSITORY / folder).rglob("*.sql")):
            yield _name(path), prose_of_macros(path.read_text())


def _name(path: Path) -> str:
    return path.relative_to(REPOSITORY).as_posix()


def find_new(hits: list[Hit], known: dict[str, int]) -> list[Hit]:
    """Return the hits of every file that has more hits than the known number."""
    found = Counter(hit.file for hit in hits)
    return [hit for hit in hits if found[hit.file] > known.get(hit.file, 0)]


def main(*arguments: str) -> int:
    words = read_words()
    known: dict[str, int] = json.loads(KNOWN.read_text())
    hits = [hit for file, prose in read_prose() for hit in words.find(file, prose)]
    if "--record" in arguments:
        found = Counter(hit.file for hit in hits)
        known = {file: min(most, found[file]) for file, most in known.items() if found[file]}
        KNOWN.write_text(json.dumps(known, indent=0) + "\n")
    new = find_new(hits, known)
    for hit in hits if "--all" in arguments else new:
        print(hit)
    return 1 if new else 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
