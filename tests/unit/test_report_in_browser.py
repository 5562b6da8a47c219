"""The page of `dbt-backfill report` in headless Chromium: by eye, by a screen reader, on paper."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import Browser, Page, sync_playwright

from dbt.adapters.spark_backfill.cli import report
from dbt.adapters.spark_backfill.cli.report import Report
from support.reports import every_case, recorded

CHROMIUM = next(filter(None, map(shutil.which, ("chromium", "chromium-browser"))), None)

pytestmark = pytest.mark.skipif(
    CHROMIUM is None, reason="needs Chromium (Debian: apt-get install chromium)"
)

PHONE, DESKTOP = 390, 1280


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=CHROMIUM)
        yield browser
        browser.close()


@pytest.fixture(scope="module")
def pages(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    directory = tmp_path_factory.mktemp("reports")
    found = {}
    for name, shown in [
        ("recorded", recorded()),
        ("every_case", every_case()),
        ("empty", Report({**recorded().head, "mvs": 0}, [])),
    ]:
        found[name] = directory / f"{name}.html"
        found[name].write_text(report.render(shown), encoding="utf-8")
    return found


def opened(browser: Browser, place: Path, width: int = DESKTOP, **options: Any) -> Page:
    page = browser.new_page(viewport={"width": width, "height": 800}, **options)
    page.goto(place.as_uri())
    return page


@pytest.mark.parametrize("name", ["recorded", "every_case", "empty"])
def test_it_asks_for_nothing_and_nothing_fails(
    browser: Browser, pages: dict[str, Path], name: str
) -> None:
    page = browser.new_page()
    asked: list[str] = []
    said: list[str] = []
    page.on("request", lambda request: asked.append(request.url))
    page.on("console", lambda message: said.append(message.text))
    page.on("pageerror", lambda error: said.append(str(error)))
    page.on("dialog", lambda dialog: said.append(dialog.message))
    page.goto(pages[name].as_uri(), wait_until="networkidle")
    page.close()

    assert asked == [pages[name].as_uri()]
    assert said == []


@pytest.mark.parametrize("width", [320, PHONE, 600, 768, 900, DESKTOP])
@pytest.mark.parametrize("name", ["recorded", "every_case"])
def test_no_screen_is_too_narrow_for_it(
    browser: Browser, pages: dict[str, Path], name: str, width: int
) -> None:
    page = opened(browser, pages[name], width)
    page.evaluate("document.querySelectorAll('details').forEach(each => each.open = true)")
    wide = page.evaluate(
        "[...document.querySelectorAll('body *')].filter(each => !each.closest('.scroll') &&"
        " each.getBoundingClientRect().right > innerWidth + 1).map(each => each.outerHTML)"
    )
    scrolls = page.evaluate("document.documentElement.scrollWidth")
    page.close()

    assert [each[:120] for each in wide] == []
    assert scrolls == width


@pytest.mark.parametrize(
    ("name", "width", "scheme"),
    [
        ("recorded", PHONE, "light"),
        ("recorded", DESKTOP, "dark"),
        ("every_case", PHONE, "dark"),
        ("empty", DESKTOP, "light"),
    ],
)
def test_the_accessibility_checker_finds_nothing(
    browser: Browser, pages: dict[str, Path], name: str, width: int, scheme: Any
) -> None:
    page = opened(browser, pages[name], width, color_scheme=scheme, bypass_csp=True)
    if name == "recorded":  # axe checks each cell of the tables
        page.evaluate("document.querySelectorAll('details').forEach(each => each.open = true)")
    found = Axe().run(page)
    page.close()

    assert [(each["id"], each["nodes"][0]["html"]) for each in found.response["violations"]] == []


def test_a_screen_reader_has_landmarks_headings_and_a_name_for_each_plot_and_table(
    browser: Browser, pages: dict[str, Path]
) -> None:
    page = opened(browser, pages["recorded"], PHONE)
    page.evaluate("document.querySelectorAll('details').forEach(each => each.open = true)")
    tree = page.context.new_cdp_session(page).send("Accessibility.getFullAXTree")["nodes"]
    page.close()

    def named(role: str) -> list[str]:
        found = [node for node in tree if node.get("role", {}).get("value") == role]
        return [node.get("name", {}).get("value", "") for node in found if not node["ignored"]]

    shown = [mv for mv in recorded().mvs if "why" not in mv]
    assert [len(named(role)) for role in ("banner", "main", "contentinfo")] == [1, 1, 1]
    headings = named("heading")
    assert headings[:2] == [f"Backfills of {recorded().head['project']}", "Overview"]
    assert [mv["model"] for mv in shown] == [h for h in headings if h.startswith("flights_")]
    for title in ("Progress over time", "Rows per second", "Changes merged", "Time by step",
                  "Lag", "Vnodes", "Controls"):  # fmt: skip
        assert headings.count(title) == len(shown)
    images = named("image")
    assert len(images) > 4 * len(shown)
    assert all(" of flights_" in name and name.endswith(".") for name in images)
    # The overview is a table, although a phone shows it as a list.
    assert "Overview" in named("table")
    assert {"Model", "Backfilled", "Rows read", "Lag"} <= set(named("columnheader"))
    # A screen reader does not read the parts of a plot. The plot's name and the table have the
    # content.
    assert not [n for n in tree if n.get("role", {}).get("value", "").startswith("graphics")]


def test_it_follows_the_theme(browser: Browser, pages: dict[str, Path]) -> None:
    seen = {}
    for scheme in ("light", "dark"):
        page = opened(browser, pages["recorded"], color_scheme=scheme)  # type: ignore[arg-type]
        seen[scheme] = page.evaluate(
            "['svg text', 'svg path[fill*=s1]', 'body'].map(each =>"
            " getComputedStyle(document.querySelector(each)))"
            ".map((style, at) => at == 2 ? style.backgroundColor : style.fill)"
        )
        page.close()
    assert all(one != other for one, other in zip(seen["light"], seen["dark"], strict=True))


def test_on_paper_it_is_light_and_has_no_tables_to_unfold(
    browser: Browser, pages: dict[str, Path]
) -> None:
    page = opened(browser, pages["recorded"], color_scheme="dark")
    page.emulate_media(media="print")
    seen = page.evaluate(
        "[getComputedStyle(document.body).backgroundColor, getComputedStyle(document.body).color,"
        " getComputedStyle(document.querySelector('details')).display]"
    )
    paper = page.pdf(format="A4")
    page.close()

    assert seen == ["rgb(255, 255, 255)", "rgb(27, 33, 41)", "none"]
    assert paper.startswith(b"%PDF")
