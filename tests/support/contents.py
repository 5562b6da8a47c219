"""Write docs/README.md, the list of all pages and sections: `python -m support.contents`.

The groups and the order of the pages come from `nav` in mkdocs.yml, and the sections from the
headings of the pages. A person writes what each page is about. The command keeps these texts.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import yaml

REPOSITORY = Path(__file__).resolve().parents[2]
DOCS = REPOSITORY / "docs"
CONTENTS = DOCS / "README.md"
OUTSIDE = {
    "example_project.md": "../example_project/README.md",
    "example_cdc.md": "../example_cdc/README.md",
    "benchmarks.md": "../benchmarks/README.md",
    "results.md": "../benchmarks/RESULTS.md",
    "CONTRIBUTING.md": "../CONTRIBUTING.md",
    "CHANGELOG.md": "../CHANGELOG.md",
}
"""The pages of the site whose files are outside docs/. The contents do not list their sections."""
NOT_LISTED = {"index.md", "contents.md"}

# A person may break the text of an entry into several lines. The lines of sections begin with `*`.
_ENTRY = re.compile(r"^\* \[(.+)\]\((\S+\.md)\): (.+(?:\n +[^*\s].*)*)$", re.MULTILINE)


def prose(page: Path) -> str:
    """Return a page without code blocks. Lines of code may look like headings and links."""
    return re.sub(r"^ *```.*?^ *```$", "", page.read_text(), flags=re.MULTILINE | re.DOTALL)


def headings(page: Path) -> list[str]:
    return re.findall(r"^#+ (.+)$", prose(page), re.MULTILINE)


def anchor(heading: str) -> str:
    """Return the anchor that GitHub makes for a heading."""
    return re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-")


def read_groups(nav: list[dict[str, Any]]) -> Iterator[tuple[str, list[str]]]:
    """Yield each group of the navigation with its pages; a nested group comes after its parent."""
    for group in nav:
        [(title, entries)] = group.items()
        if isinstance(entries, list):
            yield title, [entry for entry in entries if isinstance(entry, str)]
            yield from read_groups([entry for entry in entries if isinstance(entry, dict)])


def write_contents(text: str) -> str:
    """Return the contents with all pages. A page without a text gets `…`."""
    texts = {target: " ".join(about.split()) for _, target, about in _ENTRY.findall(text)}
    lines = [text.partition("\n## ")[0].rstrip(), ""]
    nav = yaml.safe_load((REPOSITORY / "mkdocs.yml").read_text())["nav"]
    for group, pages in read_groups(nav):
        lines += [f"## {group}", ""]
        for page in pages:
            if page not in NOT_LISTED:
                lines += _entry(OUTSIDE.get(page, page), texts)
        lines.append("")
    return "\n".join(lines)


def _entry(target: str, texts: dict[str, str]) -> list[str]:
    title, *sections = headings(DOCS / target)
    if target.startswith("decisions/"):
        return [f"* [{title}]({target})"]
    entry = f"* [{title}]({target}): {texts.get(target, '…')}"
    if target.startswith("../"):
        return [entry]
    return [entry, *(f"  * [{section}]({target}#{anchor(section)})" for section in sections)]


if __name__ == "__main__":
    CONTENTS.write_text(write_contents(CONTENTS.read_text()))
