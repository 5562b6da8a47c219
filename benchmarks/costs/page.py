"""`RESULTS.md`, from the measurements."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Sequence

from costs.figures import BYTES, SECONDS, Environment, Figure, Measured, Result, Spread

INTRODUCTION = """# What it costs

Peers and project run one after the other, in one warm Spark session, in several rounds. Each ratio
compares two acts of the same round of one run. The page shows the median of the rounds and, in
brackets, the lowest and the highest. `make bench` measures everything again and writes this page;
[benchmarks/README.md](README.md#make-bench) explains the comparisons. After a few rounds of warm-up
the driver still compiles its own code, most of it for the contestant with the most statements.
Spark logs its events meanwhile, which also slows the contestant with the most statements most.
"""

PLOT = "![What each takes beside create table as select, on {format}](results-{format}.svg)\n"


def page(results: Sequence[Result], figures: Sequence[Figure], plotted: Collection[str]) -> str:
    """Return the page of all results: a table of the figures, and the tables of each workload.

    :param plotted: the formats for which there is a plot
    """
    formats = sorted({result.file_format for result in results})
    parts = [INTRODUCTION, _environments(results), _figures(results, figures, formats)]
    for file_format in formats:
        parts += [f"## {file_format.title()}\n"]
        parts += [PLOT.format(format=file_format)] if file_format in plotted else []
        parts += [_workload(each) for each in results if each.file_format == file_format]
    return "\n".join(parts)


def ratio(spread: Spread | None) -> str:
    """Return a text such as `1.20 (1.10 to 1.35)`; a dash if there is no ratio."""
    if spread is None:
        return "-"
    return _spread(spread, number)


def number(value: float) -> str:
    """Return a number with three significant digits: 0.012, 1.23, 12.3, 123."""
    if value >= 100:
        return f"{value:,.0f}"
    if value >= 10:
        return f"{value:.1f}"
    return f"{value:.2f}" if value >= 0.1 or value == 0 else f"{value:.3f}"


def table(header: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """Return a table in Markdown. All columns except the first one contain numbers."""
    lines = [header, ["---", *["---:"] * (len(header) - 1)], *rows]
    return "".join(f"| {' | '.join(line)} |\n" for line in lines)


def _environments(results: Sequence[Result]) -> str:
    """Return a list with one item for each machine: the workloads that ran on that machine."""
    by_environment: dict[str, list[Result]] = {}
    for result in results:
        by_environment.setdefault(_environment(result.environment), []).append(result)
    items = []
    for text, group in by_environment.items():
        named = ", ".join(f"{each.workload} ({each.file_format})" for each in group)
        items.append(f"- {text}: {named}.\n")
    return "".join(items)


def _environment(environment: Environment) -> str:
    versions = ", ".join(f"{name} {version}" for name, version in environment.versions.items())
    return f"{environment.date}, commit {environment.commit}, {environment.machine}, {versions}"


def _figures(results: Sequence[Result], figures: Sequence[Figure], formats: Sequence[str]) -> str:
    rows = [[each.title, *(ratio(each.of(results, of)) for of in formats)] for each in figures]
    return "## Figures\n\n" + table(["ratio", *formats], rows)


def _workload(result: Result) -> str:
    """Return the facts of a workload, and a table for each act with which others are compared."""
    bases = dict.fromkeys(each.base for each in result.measured if each.unit == SECONDS)
    rounds = f"rounds: {result.rounds}, and {result.warm_up} of warm-up; load before: {result.load}"
    facts = f"`{result.workload}`, {result.rows:,} rows (scale {result.scale:g}); {rounds}"
    tables = "\n".join(_acts(result, base) for base in bases)
    return f"### {result.title}\n\n{facts}\n\n{tables}"


def _acts(result: Result, base: str) -> str:
    """Return a table of the acts that are compared with `base`."""
    compared = [each for each in result.measured if each.base == base]
    bytes_of = {each.act: each for each in compared if each.unit == BYTES}
    header = ["", "seconds", f"/ {base}"]
    if bytes_of:
        header += ["MB of the upstream"]
    rows = []
    for each in compared:
        if each.unit != SECONDS:
            continue
        name = f"{each.act} ({each.remark})" if each.remark else each.act
        row = [name, _spread(each.spread, number), ratio(result.ratio(each.act, base))]
        if bytes_of:
            row.append(_megabytes(bytes_of.get(each.act)))
        rows.append(row)
    return table(header, rows)


def _megabytes(measured: Measured | None) -> str:
    if measured is None:
        return "-"
    return _spread(measured.spread, lambda value: number(value / 1e6))


def _spread(spread: Spread, shown: Callable[[float], str]) -> str:
    low, high = shown(spread.low), shown(spread.high)
    return shown(spread.median) + (f" ({low} to {high})" if low != high else "")
