"""A page of all backfills of a project: one HTML file that requests nothing from the network."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup

from dbt.adapters.spark_backfill.__version__ import version
from dbt.adapters.spark_backfill.cli import plots
from dbt.adapters.spark_backfill.cli.project import DbtProject
from dbt.adapters.spark_backfill.cli.status import duration as duration_text
from dbt.adapters.spark_backfill.cli.status import name_of, percent, share

Row = dict[str, Any]

NOTHING = "\u2013"
"""The text that is shown if there is no number."""

NOTABLE = 20
"""The page lists up to this number of unusual barriers (not of the kind `advance`) of an MV."""


@dataclass(frozen=True)
class Report:
    """The output of the run-operation `backfill_report`. The comment of its macro describes it."""

    head: Row
    mvs: list[Row]


@dataclass(frozen=True)
class Table:
    """A table of texts. Columns whose name is in `numbers` are aligned to the right."""

    columns: tuple[str, ...]
    rows: Sequence[tuple[str, ...]]
    numbers: frozenset[str] = frozenset()


@dataclass(frozen=True)
class Figure:
    """A plot, the sentence that describes it, and its numbers as a table."""

    name: str
    title: str
    says: str
    svg: str | None
    table: Table
    legend: tuple[tuple[str, str], ...] = ()
    """For each mark of the plot, its class in the page's style and its name."""
    axis: str = "barrier"
    """The text to the right of the axis; empty if the plot itself shows this text."""
    note: str = ""


def read_report(project: DbtProject, models: Sequence[str] | None = None) -> Report:
    """Read all MVs of the project, or only these models, with one run-operation.

    :raises DbtFailed: if the run-operation fails
    """
    arguments = {} if models is None else {"models": list(models)}
    head, *mvs = project.read_json("backfill_report", **arguments)
    return Report(head, mvs)


def render(report: Report) -> str:
    """Return the page.

    :raises ModuleNotFoundError: without the extra `report`, if there is something to plot
    """
    environment = Environment(
        loader=PackageLoader("dbt.adapters.spark_backfill.cli"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters["labelled"] = _labelled
    read_at = _time(report.head["read_at"])
    mvs = [
        mv | {"id": f"mv-{number}", "name": name_of(mv)} for number, mv in enumerate(report.mvs, 1)
    ]
    return environment.get_template("report.html").render(
        head=report.head,
        read_at=_day(read_at),
        version=version,
        mvs=[
            mv
            if "why" in mv
            else mv
            | {
                "percent": percent(mv).strip(),
                "share": 100.0 * share(mv),
                "state": _state(mv),
                "rows": _rows_read(mv),
                "rate": _rate(mv.get("rows_per_second")),
                "left": _left(mv),
                "is_filling": mv.get("seconds_left") and mv.get("rows_per_second"),
                "lag": _lag(mv),
                "facts": _facts(mv),
                "figures": list(_figures(mv, read_at)),
                "settings": _settings(mv),
                "events": _events(mv),
            }
            for mv in mvs
        ],
    )


def _labelled(svg: str, label: str) -> Markup:
    """Return a plot that a screen reader presents as an image with this label."""
    return Markup('<svg role="img" aria-label="{}" ').format(label) + Markup(
        svg.removeprefix("<svg ")
    )


# -- texts about an MV ------------------------------------------------------------------------


def _state(mv: Row) -> tuple[str, str]:
    """Return what the MV is doing: as a class of the page's style, and in words."""
    if mv["backfill_finished"]:
        return "finished", "finished"
    if mv.get("paused") or mv.get("rate_limit") == 0:
        return "paused", "paused"
    if mv.get("filling"):
        return "filling", f"fills {mv['filling']}"
    if mv.get("sweeping"):
        return "filling", "sweeps"
    return (
        ("throttled", "throttled") if mv.get("ruled_by") == "throttle" else ("filling", "filling")
    )


def _rows_read(mv: Row) -> str:
    read, total = _number(mv.get("row_count") or 0), mv.get("upstream_row_count")
    return read if total is None or mv["backfill_finished"] else f"{read} of {_number(total)}"


def _left(mv: Row) -> str:
    return NOTHING if mv["backfill_finished"] else _duration(mv.get("seconds_left"))


def _lag(mv: Row) -> str:
    behind = mv.get("behind")
    if behind is None:
        return "not known" if mv.get("upstream_version") else NOTHING
    if behind == 0:
        return "none"
    seconds = mv.get("behind_seconds")
    return _count(behind, "version") + ("" if seconds is None else f", {_duration(seconds)}")


def _facts(mv: Row) -> list[tuple[str, str]]:
    source = mv.get("source") or {}
    committed = mv.get("committed_at")
    facts = [
        ("Relation", mv["relation"]),
        ("Follows", source.get("relation", "nothing yet")),
        ("Version shown", mv.get("upstream_version") or "none yet"),
        ("Last barrier", f"{mv['epoch']:,} ({mv.get('kind') or 'none yet'})"),
        ("Committed", _day(_time(committed)) if committed else "not yet"),
        ("Mode", mv.get("mode") or NOTHING),
        ("Vnodes read to the end", f"{mv['vnodes_finished']:,} of {mv['vnode_count']:,}"),
        ("Rows per barrier", _ruling(mv)),
    ]
    if mv.get("planned"):
        facts.append(("Planned", f"barrier {mv['epoch'] + 1:,} ({mv['planned']})"))
    return facts


def _ruling(mv: Row) -> str:
    """Return how many rows a barrier may read, and the setting that limits them."""
    limit = mv.get("rate_limit")
    rows = "any number" if limit is None else "none" if limit == 0 else f"up to {_number(limit)}"
    by = {"config": "by its config", "pause": "paused", "throttle": "throttled"}[mv["ruled_by"]]
    if mv.get("set_by"):
        by += f" by {mv['set_by']} since {_day(_time(mv['set_at']))}"
    return f"{rows}, {by}"


def _settings(mv: Row) -> Table:
    rows = []
    for setting in mv["controls"]:
        value = setting["value"]
        if value == "default":
            told = "what its config says"
        else:
            told = "pause" if value == "0" else f"throttle to {int(value):,} rows"
        rows.append((_clock(_time(setting["set_at"])), told, setting.get("set_by", NOTHING)))
    return Table(("Time (UTC)", "Set to", "By"), rows)


def _events(mv: Row) -> Table:
    """Return a table of the last unusual barriers."""
    found = [event for group in mv["barriers"] for event in group.get("notable") or []]
    rows = [
        (f"{event['epoch']:,}", _clock(_time(event["committed_at"])), event["kind"],
         event.get("reason") or NOTHING)
        for event in found[-NOTABLE:]
    ]  # fmt: skip
    return Table(("Barrier", "Time (UTC)", "Kind", "Why"), rows, frozenset({"Barrier"}))


# -- figures ----------------------------------------------------------------------------------


def _figures(mv: Row, read_at: datetime) -> Iterable[Figure]:
    groups: list[Row] = mv["barriers"]
    if groups:
        yield _progress(mv, groups, read_at)
        yield _rates(mv, groups)
        yield _changes(groups)
        yield _steps(groups)
        yield _delays(mv, groups)
    if mv["vnodes"]:
        yield _vnodes(mv["vnodes"])


def _progress(mv: Row, groups: list[Row], read_at: datetime) -> Figure:
    first = groups[0]
    steps = [
        plots.Step(_time(first["begun_at"]), first.get("row_count_before"), _of(first)),
        *(plots.Step(_time(g["committed_at"]), g.get("row_count"), _of(g)) for g in groups),
    ]
    throttles = [_time(c["set_at"]) for c in mv["controls"] if c["value"] not in ("0", "default")]
    pauses = _pauses(mv["controls"], read_at)
    legend = [("line s1", "rows read"), ("dashed", "rows of the upstream")]
    shown = (steps[0].at, steps[-1].at)
    if any(since < shown[1] and until > shown[0] for since, until in pauses):
        legend.append(("band", "paused"))
    if any(shown[0] <= at <= shown[1] for at in throttles):
        legend.append(("rule s2", "throttle set"))
    rows = [
        (_epochs(g), _clock(_time(g["committed_at"]), seconds=True), _maybe(g.get("row_count")),
         _maybe(g.get("upstream_row_count")))
        for g in groups
    ]  # fmt: skip
    says = f"Barrier {groups[-1]['last_epoch']:,} came to {_rows_read(mv)} rows."
    return Figure(
        "progress",
        "Progress over time",
        says,
        plots.progress(steps, pauses, throttles),
        Table(
            ("Barrier", "Committed (UTC)", "Rows read", "Upstream"), rows,
            frozenset({"Barrier", "Rows read", "Upstream"}),
        ),
        tuple(legend),
        "time (UTC)",
    )  # fmt: skip


def _of(group: Row) -> int | None:
    return group.get("upstream_row_count")


def _pauses(controls: list[Row], read_at: datetime) -> list[tuple[datetime, datetime]]:
    """Return the periods in which a pause applied. The last pause may not have ended."""
    spans, since = [], None
    for control in controls:
        at = _time(control["set_at"])
        if control["value"] == "0":
            since = since or at
        elif since is not None:
            spans.append((since, at))
            since = None
    return [*spans, (since, max(read_at, since))] if since is not None else spans


def _rates(mv: Row, groups: list[Row]) -> Figure:
    rates = [
        g["range_row_count"] / max(g["reading"], 0.001) if g.get("reading") is not None else None
        for g in groups
    ]
    median = mv.get("rows_per_second")
    known = [rate for rate in rates if rate is not None]
    if not known:
        says = "No barrier has read a range."
    elif len(known) == 1:
        says = f"{_rate(known[0])} rows per second."
    else:
        says = f"Between {_rate(min(known))} and {_rate(max(known))} rows per second."
    if median is not None:
        says += f" The time left assumes {_rate(median)}, the median of the last ten barriers."
    legend = [("box s1", "rows read per second")]
    if median is not None:
        legend.append(("dashed", "median"))
    return _bar_figure(
        "rate", "Rows per second", says, groups, [(rate,) for rate in rates], ("var(--s1)",),
        "rows/s", tuple(legend), ("Rows read", "Limit", "Rows/s"),
        [
            (_maybe(g.get("range_row_count")), _maybe(g.get("rate_limit")), _rate(rate))
            for g, rate in zip(groups, rates, strict=True)
        ],
        line=median,
    )  # fmt: skip


def _changes(groups: list[Row]) -> Figure:
    changed = sum(g.get("changed_row_count") or 0 for g in groups)
    deleted = sum(g.get("deleted_row_count") or 0 for g in groups)
    says = f"{_count(changed, 'row')} changed, {deleted:,} deleted in the MV."
    if not changed and not deleted:
        says = "No row changed in the MV by what changed upstream."
    return _bar_figure(
        "changes", "Changes merged", says, groups,
        [(g.get("changed_row_count"), g.get("deleted_row_count")) for g in groups],
        ("var(--s1)", "var(--s2)"), "rows",
        (("box s1", "inserted or updated"), ("box s2", "deleted")),
        ("Inserted or updated", "Deleted"),
        [(_maybe(g.get("changed_row_count")), _maybe(g.get("deleted_row_count"))) for g in groups],
        whole=True,
    )  # fmt: skip


def _steps(groups: list[Row]) -> Figure:
    executing = sum(g.get("executing") or 0 for g in groups)
    planning = sum(g.get("planning") or 0 for g in groups)
    says = f"{_duration(executing)} to merge and commit."
    if planning:
        says = f"{_duration(planning)} to look, stage the changes and plan, {says}"
    says += " What is before the first plan of a run is not recorded."
    divisor, unit = _unit(max((g.get("planning") or 0) + (g.get("executing") or 0) for g in groups))
    parts = [
        tuple(
            None if g.get(name) is None else g[name] / divisor for name in ("planning", "executing")
        )
        for g in groups
    ]
    return _bar_figure(
        "steps", "Time by step", says, groups, parts, ("var(--s2)", "var(--s1)"), unit,
        (("box s2", "up to the plan"), ("box s1", "from the plan to the commit")),
        ("Up to the plan", "Plan to commit"),
        [(_seconds(g.get("planning")), _seconds(g.get("executing"))) for g in groups],
    )  # fmt: skip


def _delays(mv: Row, groups: list[Row]) -> Figure:
    delays = [g["delay"] for g in groups if g.get("delay") is not None]
    says = {NOTHING: "Nothing was read yet.", "none": "The MV shows the newest version."}.get(
        _lag(mv), f"Now behind: {_lag(mv)}."
    )
    if delays:
        span = f"{_duration(min(delays))} to {_duration(max(delays))}"
        says += f" New versions were {span if len(delays) > 1 else _duration(delays[0])} old when"
        says += " a barrier came to them."
    divisor, unit = _unit(max(delays, default=0))
    return _bar_figure(
        "lag", "Lag", says, groups,
        [(None if g.get("delay") is None else g["delay"] / divisor,) for g in groups],
        ("var(--s1)",), unit, (("box s1", "age of a new upstream version at its barrier"),),
        ("Age of the version",), [(_seconds(g.get("delay")),) for g in groups],
    )  # fmt: skip


def _bar_figure(
    name: str,
    title: str,
    says: str,
    groups: list[Row],
    parts: Sequence[tuple[float | None, ...]],
    colors: tuple[str, ...],
    unit: str,
    legend: tuple[tuple[str, str], ...],
    columns: tuple[str, ...],
    cells: Sequence[tuple[str, ...]],
    *,
    line: float | None = None,
    whole: bool = False,
) -> Figure:
    """Return a figure with one bar, and one row of its table, per group of barriers."""
    bars = [
        plots.Bar(g["first_epoch"], g["last_epoch"], part)
        for g, part in zip(groups, parts, strict=True)
    ]
    cut = sum(bar.height > plots.top(bars) for bar in bars)
    is_empty = not any(bar.height for bar in bars)
    size = max(g["barriers"] for g in groups)
    notes = []
    if size > 1:
        notes.append(f"A bar is up to {_count(size, 'barrier')}.")
    if cut:
        notes.append(f"{_count(cut, 'bar')} higher than the axis: see the table.")
    return Figure(
        name,
        title,
        says,
        None if is_empty else plots.bars(bars, colors, unit, line=line, whole=whole),
        Table(
            ("Barrier", *columns),
            [(_epochs(g), *row) for g, row in zip(groups, cells, strict=True)],
            frozenset({"Barrier", *columns}),
        ),
        legend,
        note=" ".join(notes),
    )


def _vnodes(groups: list[Row]) -> Figure:
    count = sum(g["vnodes"] for g in groups)
    finished = sum(g["finished"] for g in groups)
    begun = sum(g["begun"] for g in groups)
    cells = [
        (
            g["first_vnode"],
            float(g["progress"]) if g["begun"] else 0.0,
            g["finished"] == g["vnodes"],
        )
        for g in groups
    ]
    size = max(g["vnodes"] for g in groups)
    rows = [
        (_span(g["first_vnode"], g["last_vnode"]), _state_of_vnodes(g), _number(g["row_count"]),
         f"{g['progress'] * 100:.1f} %")
        for g in groups
    ]  # fmt: skip
    says = f"Of {_count(count, 'vnode')} {finished:,} {_are(finished)} read to the end"
    says += f", {begun - finished:,} in part." if begun > finished else "."
    return Figure(
        "vnodes",
        "Vnodes",
        says,
        plots.vnode_map(cells),
        Table(
            ("Vnode", "State", "Rows read", "About"), rows,
            frozenset({"Vnode", "Rows read", "About"}),
        ),
        (("box s1", "read to its end"), ("box s1-soft", "in part"), ("box cell", "not begun")),
        "",
        f"A cell is up to {_count(size, 'vnode')}." if size > 1 else "",
    )  # fmt: skip


def _state_of_vnodes(group: Row) -> str:
    if group["finished"] == group["vnodes"]:
        return "read to its end"
    return "in part" if group["begun"] else "not begun"


# -- texts ------------------------------------------------------------------------------------


def _time(text: str) -> datetime:
    at = datetime.fromisoformat(text)
    return (at if at.tzinfo else at.replace(tzinfo=UTC)).astimezone(UTC)


def _clock(at: datetime, *, seconds: bool = False) -> str:
    return at.strftime("%Y-%m-%d %H:%M:%S" if seconds else "%Y-%m-%d %H:%M")


def _day(at: datetime) -> str:
    """Return the date with non-breaking blanks, for a sentence."""
    return at.strftime("%d %b %Y, %H:%M").lstrip("0").replace(" ", "\u00a0")


def _number(number: float) -> str:
    return f"{number:,.0f}"


def _maybe(number: float | None) -> str:
    return NOTHING if number is None else _number(number)


def _rate(rate: float | None) -> str:
    return NOTHING if rate is None else f"{rate:.1f}" if rate < 10 else _number(rate)


def _duration(seconds: float | None) -> str:
    """Return the text of a duration with non-breaking blanks."""
    text = duration_text(seconds)
    return NOTHING if seconds is None else text.replace(" ", "\u00a0")


def _seconds(seconds: float | None) -> str:
    if seconds is None:
        return NOTHING
    return f"{seconds:.1f}\u00a0s" if seconds < 100 else _duration(seconds)


def _unit(seconds: float) -> tuple[float, str]:
    """Return the number by which an axis divides seconds, and the unit of the result."""
    if seconds < 200:
        return 1.0, "seconds"
    return (60.0, "minutes") if seconds < 12_000 else (3600.0, "hours")


def _count(number: int, thing: str) -> str:
    return f"{number:,} {thing}" + ("" if number == 1 else "s")


def _are(number: int) -> str:
    return "is" if number == 1 else "are"


def _span(first: int, last: int) -> str:
    return f"{first:,}" if first == last else f"{first:,} to {last:,}"


def _epochs(group: Row) -> str:
    return _span(group["first_epoch"], group["last_epoch"])
