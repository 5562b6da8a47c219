"""The pictures of docs/images: a screen reader can read them, and their texts do not overlap."""

from __future__ import annotations

import re
import shutil
from pathlib import Path
from xml.etree import ElementTree

import pytest
from playwright.sync_api import sync_playwright

from support.contents import DOCS
from support.project import REPOSITORY

PICTURES = sorted((DOCS / "images").glob("*.svg"))
PAGES = [REPOSITORY / "README.md", *sorted(DOCS.glob("*.md"))]
CHROMIUM = next(filter(None, map(shutil.which, ("chromium", "chromium-browser"))), None)
SVG = "{http://www.w3.org/2000/svg}"

OVERLAPS = """() => {
    const {width, height} = document.querySelector('svg').viewBox.baseVal
    const texts = [...document.querySelectorAll('text')].map(t => [t.textContent, t.getBBox()])
    const outside = texts.filter(([, b]) =>
        b.x < 4 || b.y < 4 || b.x + b.width > width - 4 || b.y + b.height > height - 4)
    const meets = (a, b) => a.x < b.x + b.width - 1 && b.x < a.x + a.width - 1
        && a.y + 3 < b.y + b.height - 3 && b.y + 3 < a.y + a.height - 3
    const overlaps = texts.filter(([, a], i) => texts.slice(i + 1).some(([, b]) => meets(a, b)))
    return [...outside, ...overlaps].map(([text]) => text)
}"""


@pytest.mark.parametrize("picture", PICTURES, ids=lambda path: path.stem)
def test_a_picture_has_a_title_a_description_and_colours_for_dark_pages(picture: Path) -> None:
    svg = ElementTree.fromstring(picture.read_text())

    assert (svg.get("role"), svg.get("aria-labelledby")) == ("img", "title desc")
    for name in ("title", "desc"):
        element = svg.find(f"{SVG}{name}[@id='{name}']")
        assert element is not None and element.text
    assert "prefers-color-scheme: dark" in "".join(svg.itertext())
    assert "href" not in picture.read_text()


@pytest.mark.parametrize("page", PAGES, ids=lambda path: path.stem)
def test_a_picture_on_a_page_has_an_alternative_text(page: Path) -> None:
    for text, target in re.findall(r"!\[([^\]]*)\]\(([^)]+)\)", page.read_text()):
        assert len(text.split()) >= 8, target


@pytest.mark.skipif(CHROMIUM is None, reason="needs Chromium (Debian: apt-get install chromium)")
def test_texts_are_inside_the_picture_and_do_not_overlap() -> None:
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=CHROMIUM)
        page = browser.new_page()
        found = {}
        for picture in PICTURES:
            page.set_content(picture.read_text())
            found[picture.stem] = page.evaluate(OVERLAPS)
        browser.close()

    assert found == {picture.stem: [] for picture in PICTURES}
