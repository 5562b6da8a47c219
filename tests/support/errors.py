"""Write the rows of docs/messages.md: `make errors`.

A row of a table with the header `HEADER` has three cells. The words of the message and what to do
are read from the macros. The explanation is written by hand, here on the page. A new refusal gets
a row without an explanation, beside the rows of the same file of macros. Move the row to its
section, and write the explanation. All other lines of the page are written by hand.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator

from support.macros import MACROS
from support.messages import PLACE, Error, errors

PAGE = MACROS.parent / PLACE
HEADER = "| message | what it is about | what to do |"
_CELL = r"((?:\\.|[^|\\])*)"
_ROW = re.compile(rf'\| <a id="([^"]+)"></a>{_CELL}\|{_CELL}\|{_CELL}\|')


def render(page: str, said: dict[str, Error] | None = None) -> str:
    """Return the page with the rows that the macros give."""
    said = errors() if said is None else said
    lines = page.splitlines()
    explained = dict(_explained(page))
    for id in [id for id in said if id not in explained]:
        lines.insert(_place(lines, id, said), f'| <a id="{id}"></a>` ` |  |  |')
    shown = []
    is_generated = False
    for line in lines:
        is_generated = line == HEADER or (is_generated and line.startswith("|"))
        row = _ROW.fullmatch(line) if is_generated else None
        if row is None:
            shown.append(line)
        elif row[1] in said:
            shown.append(_row(said[row[1]], row[3].strip()))
    return "\n".join(shown) + "\n"


def unexplained(page: str) -> list[str]:
    """Return the ids of the rows without an explanation."""
    return [id for id, about in _explained(page) if not about]


def _explained(page: str) -> Iterator[tuple[str, str]]:
    """Yield the id and the explanation of each row of a generated table."""
    is_generated = False
    for line in page.splitlines():
        is_generated = line == HEADER or (is_generated and line.startswith("|"))
        if is_generated and (row := _ROW.fullmatch(line)):
            yield row[1], row[3].strip()


def _place(lines: list[str], id: str, said: dict[str, Error]) -> int:
    """Return the line for a new row: below the last row of the same file, or of the page."""
    rows = {n: row[1] for n, line in enumerate(lines) if (row := _ROW.fullmatch(line))}
    beside = [n for n, other in rows.items() if other in said and said[other].file == said[id].file]
    return max(beside or rows) + 1


def _row(error: Error, about: str) -> str:
    facts = "<br>".join(f"`{_cell(fact)}`" for fact in error.facts)
    changes = "<br>".join(_sentence(_prose(change)) for change in _longest(error.changes))
    return f'| <a id="{error.id}"></a>{facts} | {about} | {changes} |'


def _longest(texts: list[str]) -> list[str]:
    """Return the texts that are not the beginning of another one."""
    return [text for text in texts if not any(o != text and o.startswith(text) for o in texts)]


def _sentence(text: str) -> str:
    return text if text.endswith("…") else f"{text}."


def _cell(text: str) -> str:
    return text.replace("|", "\\|")


def _prose(text: str) -> str:
    """Return a text that Markdown shows as it is."""
    return _cell(re.sub(r"([\\*\[\]`])", r"\\\1", text).replace("<", "&lt;"))


def main() -> None:
    written = render(PAGE.read_text())
    PAGE.write_text(written)
    if missing := unexplained(written):
        sys.exit(f"{PLACE} does not explain {', '.join(missing)}")


if __name__ == "__main__":
    main()
