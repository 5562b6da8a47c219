"""Every link works, and the lists of pages, sections and options are complete."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from support.contents import CONTENTS, DOCS, OUTSIDE, anchor, headings, prose, write_contents
from support.macros import Macros
from support.options import PAGE, read_meanings, write_tables
from support.project import REPOSITORY

PAGES = [
    *(REPOSITORY / name for name in ("README.md", "CONTRIBUTING.md", "CHANGELOG.md")),
    *(REPOSITORY / name / "README.md" for name in ("benchmarks", "example_cdc", "example_project")),
    *sorted(DOCS.rglob("*.md")),
]


def name_of(page: Path) -> str:
    return page.relative_to(REPOSITORY).as_posix()


def anchors(page: Path) -> set[str]:
    """Return the anchors of a page: of its headings, and of the rows of a table."""
    return {anchor(h) for h in headings(page)} | set(re.findall(r'<a id="(.+?)">', prose(page)))


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
        if not target.exists() or (fragment and fragment not in anchors(target)):
            found.append(link)
    return found


@pytest.mark.parametrize("page", PAGES, ids=name_of)
def test_every_link_leads_somewhere(page: Path) -> None:
    assert broken(page) == []


def test_the_readme_leads_to_the_contents() -> None:
    assert "docs/README.md" in links(REPOSITORY / "README.md")


def test_the_contents_list_every_page_and_section_in_the_order_of_the_site() -> None:
    contents = CONTENTS.read_text()

    assert contents == write_contents(contents), "run: PYTHONPATH=tests python -m support.contents"
    assert "): …\n" not in contents, "say what this page is about"


def test_a_text_of_the_contents_may_have_several_lines() -> None:
    contents = CONTENTS.read_text()
    entry = next(line for line in contents.splitlines() if "](limits.md): " in line)
    wrapped = entry.replace(", what a run", ",\n  what a run").replace(" and the", "\n  and the")
    assert wrapped.count("\n") == 2

    assert write_contents(contents.replace(entry, wrapped)) == write_contents(contents)


def test_the_site_has_every_page() -> None:
    text = (REPOSITORY / "mkdocs.yml").read_text()
    nav = re.findall(r"^ +- (?:\w+: )?(\S+\.md)$", text, re.MULTILINE)
    assert len(nav) == len(set(nav))

    # The hooks create these pages from files that are outside docs/ or have another name there.
    made = {"index.md", "contents.md", *OUTSIDE}
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
