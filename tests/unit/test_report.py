"""The page of `dbt-backfill report` without a browser. test_report_in_browser.py uses a browser."""

from __future__ import annotations

import re
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from dbt.adapters.spark_backfill.cli import main as commands
from dbt.adapters.spark_backfill.cli import plots, report
from dbt.adapters.spark_backfill.cli.main import main
from dbt.adapters.spark_backfill.cli.project import DbtProject
from dbt.adapters.spark_backfill.cli.report import Report
from support.reports import HOSTILE, RECORDED, every_case, recorded, recorded_mv

HEAD = {"project": "nyc", "target": "dev", "read_at": "2026-01-01T00:00:00+00:00", "mvs": 1}


class Page(HTMLParser):
    """The tags of a page, and its texts by the id of the surrounding section or heading."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.words: list[str] = []
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))

    def handle_data(self, data: str) -> None:
        self.words += data.split()

    @property
    def text(self) -> str:
        return " ".join(self.words)

    def values(self, attribute: str) -> list[str]:
        return [found for _, attrs in self.tags if (found := attrs.get(attribute)) is not None]


def page_of(*mvs: dict[str, Any]) -> Page:
    return Page(report.render(Report({**HEAD, "mvs": len(mvs)}, list(mvs))))


@pytest.fixture(scope="module")
def everything() -> str:
    return report.render(every_case())


# -- what the page asks the network for ---------------------------------------------------------


def test_it_names_no_other_place(everything: str) -> None:
    page = Page(everything)
    links = page.values("href") + page.values("src") + page.values("xlink:href")
    assert all(link == "data:," or link.startswith("#") for link in links)
    assert not re.search(r"https?:|url\(|@import|<script|<iframe|<object", everything)
    assert any("default-src 'none'" in (found or "") for found in page.values("content"))
    assert len(everything.encode()) < 1_000_000


def test_each_link_leads_to_something_and_no_id_stands_twice(everything: str) -> None:
    page = Page(everything)
    ids = page.values("id")
    assert len(ids) == len(set(ids))
    named = [name for label in page.values("aria-labelledby") for name in label.split()]
    assert {link[1:] for link in page.values("href") if link != "data:,"} | set(named) <= set(ids)


# -- what the page says -------------------------------------------------------------------------


def test_a_project_without_mvs_has_a_page(everything: str) -> None:
    assert "No model of this project has the materialization backfilled_mv" in page_of().text


def test_names_stay_text(everything: str) -> None:
    assert HOSTILE not in everything and "<script" not in everything
    assert " ".join(HOSTILE.split()) in Page(everything).text


def test_an_mv_in_the_middle_of_its_backfill() -> None:
    mv = recorded_mv()
    page = page_of(mv)
    assert re.search(r"\bfilling|throttled\b", page.text)
    assert f"{mv['row_count']:,} of {mv['upstream_row_count']:,}" in page.text
    assert "throttle to 250 rows bob" in page.text and "what its config says alice" in page.text
    assert "up to 250, throttled by bob since" in page.text
    assert [tag for tag, _ in page.tags].count("svg") == 6
    assert [tag for tag, _ in page.tags].count("details") == 6


@pytest.mark.parametrize(
    ("changes", "says"),
    [
        ({"backfill_finished": True, "progress": 1.0, "behind": 0}, "finished"),
        ({"paused": True, "ruled_by": "pause", "rate_limit": 0}, "none, paused by bob since"),
        ({"ruled_by": "config", "rate_limit": 0, "set_by": None}, "none, by its config"),
        ({"ruled_by": "config", "rate_limit": None, "set_by": None}, "any number, by its config"),
        ({"filling": "a, b"}, "fills a, b"),
        ({"sweeping": True, "ruled_by": "config"}, "sweeps"),
        ({"generation": "next"}, "flights_delayed (next)"),
        ({"planned": "advance", "epoch": 9}, "Planned barrier 10 (advance)"),
        ({"behind": 1, "behind_seconds": 90_000}, "Lag: 1 version, 25.0 h"),
        ({"behind": None, "behind_seconds": None}, "Lag: not known"),
        ({"controls": []}, "Nobody has set any."),
        ({"barriers": [], "vnodes": []}, "No barrier has been committed yet."),
        ({"progress": 0.9999}, "99.9 % backfilled"),
    ],
)
def test_it_says_what_an_mv_is_at(changes: dict[str, Any], says: str) -> None:
    assert says in page_of(recorded_mv(**changes)).text


def test_an_mv_without_a_state_is_named() -> None:
    page = page_of({"model": "new", "generation": None, "why": "it has not run yet"})
    assert "new it has not run yet no state" in page.text
    assert page.values("href") == ["data:,"]


def test_one_barrier_that_is_an_mv_s_only_one() -> None:
    mv = recorded_mv("flights_once")
    assert len(mv["barriers"]) == 1
    assert "Nothing to plot." in page_of(mv).text  # no change was merged


def test_the_tables_have_the_numbers_of_the_plots() -> None:
    mv = recorded_mv()
    text = page_of(mv).text
    for group in mv["barriers"]:
        assert f" {group['first_epoch']} " in text
        assert f" {group['row_count']:,} {group['upstream_row_count']:,} " in text


def test_groups_of_barriers_are_told() -> None:
    groups = [
        {**group, "first_epoch": 2 * number + 1, "last_epoch": 2 * number + 2, "barriers": 2}
        for number, group in enumerate(recorded_mv()["barriers"])
    ]
    text = page_of(recorded_mv(barriers=groups)).text
    assert "A bar is up to 2 barriers." in text and " 3 to 4 " in text


# -- plots --------------------------------------------------------------------------------------


def test_a_plot_takes_its_colours_from_the_page_and_keeps_its_text() -> None:
    drawn = plots.bars([plots.Bar(1, 1, (2.0, 3.0))], ("var(--s1)", "var(--s2)"), "rows & more")
    assert "rows &amp; more</text>" in drawn
    assert not re.search(r'(?:fill|stroke)="(?!none|transparent|var\()', drawn)
    assert not re.search(r"\bid=|clip-path|xmlns", drawn)


def test_one_bar_that_is_much_higher_than_the_others_does_not_flatten_them() -> None:
    heights = [3.0, 4.0, 5.0, 4.0, 3.0, 4.0, 5.0, 4.0, 3.0, 5.0]
    assert plots.top([plots.Bar(n, n, (h,)) for n, h in enumerate(heights)]) == 5.0
    assert plots.top([plots.Bar(n, n, (h,)) for n, h in enumerate([*heights, 9e5])]) == 7.5
    assert plots.top([plots.Bar(1, 1, (None,))]) == 1.0
    assert plots.top([plots.Bar(1, 1, (9e5,))]) == 9e5
    groups = recorded_mv()["barriers"]
    stalled = [{**groups[0], "executing": 9e5}, *groups[1:]]
    assert (
        "1 bar higher than the axis: see the table." in page_of(recorded_mv(barriers=stalled)).text
    )


def test_pauses_end_where_they_are_lifted_or_last() -> None:
    def control(minute: int, value: str) -> dict[str, str]:
        return {"value": value, "set_at": f"2026-01-01T00:0{minute}:00.000Z"}

    read_at = report._time("2026-01-01T00:09:00+00:00")
    spans = report._pauses(
        [control(1, "0"), control(3, "0"), control(4, "5"), control(5, "default"), control(6, "0")],
        read_at,
    )  # fmt: skip
    assert [(since.minute, until.minute) for since, until in spans] == [(1, 4), (6, 9)]


# -- colours ------------------------------------------------------------------------------------

Rgb = tuple[float, float, float]

CSS = (Path(report.__file__).parent / "templates" / "report.css").read_text()

# Machado, Oliveira and Fernandes (2009), severity 1.0, over linear RGB.
COLOR_BLINDNESS = {
    "protanopia": ((0.152286, 1.052583, -0.204868), (0.114503, 0.786281, 0.099216),
                   (-0.003882, -0.048116, 1.051998)),
    "deuteranopia": ((0.367322, 0.860646, -0.227968), (0.280085, 0.672501, 0.047413),
                     (-0.011820, 0.042940, 0.968881)),
    "tritanopia": ((1.255528, -0.076749, -0.178779), (-0.078411, 0.930809, 0.147602),
                   (0.004733, 0.691367, 0.303900)),
}  # fmt: skip


def colors(mode: str) -> dict[str, Rgb]:
    """Return the color variables of the page in one mode, as linear RGB."""
    blocks = re.findall(r":root \{(.*?)\}", CSS, re.DOTALL)
    found = re.findall(r"--([\w-]+): #(\w{6});", blocks[["light", "dark"].index(mode)])
    return {
        name: tuple(_linear(int(value[at : at + 2], 16) / 255) for at in (0, 2, 4))  # type: ignore[misc]
        for name, value in found
    }


def _linear(channel: float) -> float:
    return channel / 12.92 if channel <= 0.04045 else ((channel + 0.055) / 1.055) ** 2.4


def luminance(color: Rgb) -> float:
    return 0.2126 * color[0] + 0.7152 * color[1] + 0.0722 * color[2]


def contrast(one: Rgb, other: Rgb) -> float:
    """Return the contrast ratio that WCAG 2 defines."""
    low, high = sorted((luminance(one), luminance(other)))
    return (high + 0.05) / (low + 0.05)


def difference(one: Rgb, other: Rgb) -> float:
    """Return the CIE 1976 difference: 2 is hardly visible, 20 means two different colors."""
    return sum((a - b) ** 2 for a, b in zip(_lab(one), _lab(other), strict=True)) ** 0.5


def _lab(color: Rgb) -> Rgb:
    r, g, b = (min(max(channel, 0.0), 1.0) for channel in color)
    x = (0.4124 * r + 0.3576 * g + 0.1805 * b) / 0.9505
    y = 0.2126 * r + 0.7152 * g + 0.0722 * b
    z = (0.0193 * r + 0.1192 * g + 0.9505 * b) / 1.089
    fx, fy, fz = (t ** (1 / 3) if t > 0.008856 else 7.787 * t + 16 / 116 for t in (x, y, z))
    return 116 * fy - 16, 500 * (fx - fy), 200 * (fy - fz)


def seen_with(kind: str, color: Rgb) -> Rgb:
    seen = [sum(m * c for m, c in zip(row, color, strict=True)) for row in COLOR_BLINDNESS[kind]]
    return seen[0], seen[1], seen[2]


@pytest.mark.parametrize("mode", ["light", "dark"])
def test_colours_stand_out_from_what_is_behind_them(mode: str) -> None:
    found = colors(mode)
    for ground in ("page", "card"):
        for name in ("text", "muted", "link", "good", "warn"):
            assert contrast(found[name], found[ground]) >= 4.5, (name, ground)
        for name in ("s1", "s2", "axis"):
            assert contrast(found[name], found[ground]) >= 3, (name, ground)
    assert contrast(found["s1"], found["cell"]) >= 3


@pytest.mark.parametrize("mode", ["light", "dark"])
@pytest.mark.parametrize("kind", COLOR_BLINDNESS)
def test_colours_of_one_plot_differ_for_the_colour_blind(mode: str, kind: str) -> None:
    found = {name: seen_with(kind, color) for name, color in colors(mode).items()}
    for one, other in [("s1", "s2"), ("s1", "s1-soft"), ("s1-soft", "cell"), ("s1", "text")]:
        assert difference(found[one], found[other]) >= 20, (one, other)


# -- the command --------------------------------------------------------------------------------


@pytest.fixture
def told(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """Stub the operation: it returns the recorded lines. Return the list of its calls."""
    asked: list[Any] = []

    def operation(project: DbtProject, name: str, **arguments: Any) -> None:
        asked.append((name, arguments))
        for line in ["some warning", *RECORDED.read_text().splitlines()]:
            project.hear(line)

    monkeypatch.setattr(DbtProject, "operation", operation)
    monkeypatch.setattr(DbtProject, "models", lambda self, *chosen: list(chosen[0]))
    return asked


def test_it_prints_where_the_page_is(told: list[Any], tmp_path: Path) -> None:
    result = CliRunner().invoke(main, ["report", "--project-dir", str(tmp_path)])
    page = tmp_path / "target" / "backfill_report.html"
    assert (result.exit_code, result.output) == (0, f"{page}\n")
    assert "flights_delayed" in page.read_text()

    other = tmp_path / "a" / "b.html"
    chosen = ["--select", "nyc.flights_once", "--output", str(other)]
    result = CliRunner().invoke(main, ["report", *chosen])
    assert (result.exit_code, result.output) == (0, f"{other}\n")
    assert told == [
        ("backfill_report", {}),
        ("backfill_report", {"models": ["nyc.flights_once"]}),
    ]


def test_as_json_it_prints_what_the_page_shows(told: list[Any]) -> None:
    result = CliRunner().invoke(main, ["report", "--json"])
    assert result.exit_code == 0
    assert len(result.output.splitlines()) == 1 + len(recorded().mvs)


def test_a_selection_of_nothing_is_wrong_usage(told: list[Any]) -> None:
    result = CliRunner().invoke(main, ["report", "--exclude", "flights_once"])
    assert (result.exit_code, told) == (2, [])
    assert "no model that is a backfilled_mv" in result.output


def test_without_the_plots_package_it_says_what_to_install(
    told: list[Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(commands, "find_spec", lambda name: None)
    result = CliRunner().invoke(main, ["report"])
    assert (result.exit_code, told) == (1, [])
    assert "pip install 'dbt-backfill[report]'" in result.output
    assert CliRunner().invoke(main, ["report", "--json"]).exit_code == 0
