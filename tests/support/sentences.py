"""Measure the sentences and the words of the pages: `python -m support.sentences`.

    python -m support.sentences              print the pages that exceed a limit
    python -m support.sentences docs/a.md    also print the longest sentences of this page

A page has at most `MOST_WORDS` words, and its sentences have at most `MOST_IN_A_SENTENCE` words on
average. Code blocks, tables, headings and pictures are not sentences.
"""

from __future__ import annotations

import re
import sys
from dataclasses import dataclass
from pathlib import Path

REPOSITORY = Path(__file__).resolve().parents[2]

MOST_WORDS = 2500
MOST_IN_A_SENTENCE = 17.0
GENERATED = {"docs/README.md", "docs/messages.md"}
"""Pages that a command writes, or whose rows a test requires. They have no limits."""

_MARKED = re.compile(r"<!-- generated.*?<!-- end of generated[^\n]*", re.DOTALL)
_CODE = re.compile(r"^ *```.*?^ *```$", re.MULTILINE | re.DOTALL)
_COMMENT = re.compile(r"<!--.*?-->", re.DOTALL)
_PICTURE = re.compile(r"!\[[^\]]*\]\([^)]*\)")
_LINK = re.compile(r"\[((?:[^\[\]]|\[[^\]]*\])*)\]\([^)\s]+\)")
_NAME = re.compile(r"`[^`\n]*`")
# A sentence ends before a capital, a name, a number or an opening bracket.
_END = re.compile(r"(?<=[.!?])[)\"*]*\s+(?=[\"*(]*[A-Z0-9§])")


@dataclass(frozen=True)
class Measure:
    """The length of a page in words, and the mean length of its sentences."""

    words: int
    mean: float

    @property
    def exceeds(self) -> bool:
        return self.words > MOST_WORDS or self.mean > MOST_IN_A_SENTENCE


def read_pages() -> dict[str, str]:
    """Return the text of each page that has limits, by its name."""
    pages = [REPOSITORY / "README.md", *sorted((REPOSITORY / "docs").glob("*.md"))]
    names = {page.relative_to(REPOSITORY).as_posix(): page.read_text() for page in pages}
    return {name: text for name, text in names.items() if name not in GENERATED}


def find_sentences(text: str) -> list[str]:
    """Return the sentences of a page. A list item or a paragraph ends its last sentence."""
    for pattern in (_MARKED, _CODE, _COMMENT, _PICTURE):
        text = pattern.sub("", text)
    text = _LINK.sub(r"\1", text)
    text = _NAME.sub("§", text)  # a name in backticks is one word
    blocks: list[list[str]] = [[]]
    for line in text.splitlines():
        stripped = re.sub(r"^(?:> ?)+", "", line).strip()
        item = re.sub(r"^(?:[*+-]|\d+\.)\s+", "", stripped)
        if not stripped or stripped.startswith(("#", "|")) or item != stripped:
            blocks.append([])
        if item and not stripped.startswith(("#", "|")):
            blocks[-1].append(item)
    joined = (" ".join(block) for block in blocks if block)
    return [sentence for block in joined for sentence in _END.split(block) if _words(sentence)]


def _words(sentence: str) -> int:
    return len(re.findall(r"\S*[\w§]\S*", sentence))


def measure(text: str) -> Measure:
    """Measure a page. Generated parts do not count as words of the page."""
    sentences = find_sentences(text)
    mean = sum(map(_words, sentences)) / len(sentences) if sentences else 0.0
    return Measure(len(_MARKED.sub("", text).split()), round(mean, 1))


def main(*arguments: str) -> int:
    pages = read_pages()
    measures = {name: measure(text) for name, text in pages.items()}
    for name, found in measures.items():
        if found.exceeds or name in arguments:
            print(f"{name}: {found.words} words, {found.mean} in a sentence")
        if name in arguments:
            for sentence in sorted(find_sentences(pages[name]), key=_words)[-15:]:
                print(f"  {_words(sentence)}: {sentence}")
    return int(any(found.exceeds for found in measures.values()))


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
