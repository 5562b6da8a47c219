"""Every link works, and the lists of pages, sections and options are complete."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from support.macros import Macros
from support.options import PAGE, read_meanings, write_tables
from support.project import REPOSITORY

DOCS = REPOSITORY / "docs"
CONTENTS = DOCS / "README.md"
PAGES = [
    *(REPOSITORY / name for name in ("README.md", "CONTRIBUTING.md", "CHANGELOG.md")),
    *(REPOSITORY / name / "README.md" for name in ("benchmarks", "example_cdc", "example_project")),
    *sorted(DOCS.rglob("*.md")),
]


def name_of(page: Path) -> str:
    return page.relative_to(REPOSITORY).as_posix()


def prose(page: Path) -> str:
    """Return a page without code blocks. Lines of code may look like headings and links."""
    return re.sub(r"^ *```.*?^ *```$", "", page.read_text(), flags=re.MULTILINE | re.DOTALL)


def headings(page: Path) -> list[str]:
    return re.findall(r"^#+ (.+)$", prose(page), re.MULTILINE)


def anchor(heading: str) -> str:
    """Return the anchor that GitHub makes for a heading."""
    return re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-")


def links(page: Path) -> list[str]:
    """Return the targets of the links on a page, in order. Links inside code do not count."""
    text = re.sub(r"`[^`\n]*`", "`", prose(page))
    return re.findall(r"\]\(([^)\s]+)\)", text)


def broken(page: Path) -> list[str]:
    found = []
    for link in links(page):
        if re.match(r"[a-z]+:", link):
            continue
        path, _, fragment = link.partition("#")
        target = (page.parent / path).resolve() if path else page
        anchors = [anchor(heading) for heading in headings(target)] if fragment else [""]
        if not target.exists() or fragment not in anchors:
            found.append(link)
    return found


@pytest.mark.parametrize("page", PAGES, ids=name_of)
def test_every_link_leads_somewhere(page: Path) -> None:
    assert broken(page) == []


def test_the_readme_leads_to_the_contents() -> None:
    assert "docs/README.md" in links(REPOSITORY / "README.md")


def test_the_contents_list_every_page_and_section_in_order() -> None:
    listed = [link for link in links(CONTENTS) if not link.startswith("../")]
    assert len(listed) == len(set(listed))

    pages = [link for link in listed if "#" not in link]
    written = {page.relative_to(DOCS).as_posix() for page in DOCS.rglob("*.md")} - {"README.md"}
    assert set(pages) == written

    for page in DOCS.glob("*.md"):
        if page != CONTENTS:
            sections = [f"{page.name}#{anchor(heading)}" for heading in headings(page)[1:]]
            assert [link for link in listed if link.startswith(f"{page.name}#")] == sections


def test_the_site_has_every_page() -> None:
    text = (REPOSITORY / "mkdocs.yml").read_text()
    nav = re.findall(r"^ +- (?:\w+: )?(\S+\.md)$", text, re.MULTILINE)
    assert len(nav) == len(set(nav))

    # The hooks create these pages from files that are outside docs/ or have another name there.
    made = {"index.md", "contents.md", "example_project.md", "benchmarks.md", "results.md"}
    made |= {"CONTRIBUTING.md", "CHANGELOG.md"}
    written = {page.relative_to(DOCS).as_posix() for page in DOCS.rglob("*.md")} - {"README.md"}
    assert set(nav) == written | made


def test_the_tables_of_options_are_those_of_the_macros(macros: Macros) -> None:
    page, options = PAGE.read_text(), macros.call("get_options")

    assert page == write_tables(page, options), "run: PYTHONPATH=tests python -m support.options"
    meanings = read_meanings(page)
    assert len(meanings) == len(options)
    assert [name for name, meaning in meanings if not meaning] == []


def test_a_new_option_gets_a_row_and_an_old_one_loses_it(macros: Macros) -> None:
    options = {**macros.call("get_options"), "speed": {"type": "integer", "least": 1, "most": 9}}
    del options["take_turns"]

    page = write_tables(PAGE.read_text(), options)

    assert "\n| `speed` | 1 to 9 | none |  |\n" in page
    assert "`take_turns`" not in page
