"""Compare the costs of the project with its peers, on a page: `make bench`.

Runs the workloads of `costs/workloads.py` with each peer and with the project, one after the other.
Writes the results into results.json, where they replace earlier results of the same workloads and
format. Then writes RESULTS.md and the plots from all results in results.json.
"""

from __future__ import annotations

import argparse
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, cast

from lineitem import make_parser, make_project, passing_directory
from rich.console import Console

from costs.environment import environment, load
from costs.event_log import SETTINGS, EventLog
from costs.figures import Measured, Result, read, replaced, write
from costs.page import page
from costs.play import Arena
from costs.plot import plot
from costs.workloads import FIGURES, WARM_UP, WORKLOADS, Workload, chosen
from support.lake import SessionLake
from support.project import Project

DIRECTORY = Path(__file__).parent

console = Console()


def make_arguments() -> argparse.ArgumentParser:
    parser = make_parser(__doc__)
    parser.add_argument("--rounds", type=_at_least_one, default=3)
    parser.add_argument("--warm-up", type=int, default=10, help="rounds over a small table")
    parser.add_argument(
        "--workloads", type=_workloads, default="", help=f"of {', '.join(WORKLOADS)}; else all"
    )
    parser.add_argument(
        "--config",
        type=_option,
        action="append",
        default=[],
        help="measure the MV once more with this option, as in SQL: vnode_count=16",
    )
    parser.add_argument("--output", type=Path, default=DIRECTORY, help="folder of the results")
    parser.add_argument("--page-only", action="store_true", help="measure nothing")
    return parser


def main() -> None:
    """Exit with 1 if a workload failed; the results of the other workloads are kept."""
    options = make_arguments().parse_args()
    if options.page_only:
        write_page(options.output)
    elif failed := measure(options):
        raise SystemExit(f"failed: {', '.join(failed)}")


def measure(options: argparse.Namespace) -> list[str]:
    """Run the workloads, and keep the result of each one as soon as it has ended.

    :returns: the workloads that failed, whose errors are printed
    """
    failed = []
    project, log = _open(options.format)
    arena = Arena(project, log, options.scale, options.config)
    where = environment(_java(project))
    for number in range(options.warm_up):
        for workload in WARM_UP:
            _print(f"warm-up {number}", arena.play(workload, 1))
    for name, workload in options.workloads.items():
        load_before = load()
        try:
            measured = arena.play(workload, options.rounds)
        except Exception:
            console.print_exception(max_frames=5)
            failed.append(name)
            continue
        _print(name, measured)
        result = Result(
            workload=name,
            title=workload.title,
            file_format=options.format,
            scale=options.scale,
            rows=arena.rows,
            rounds=options.rounds,
            warm_up=options.warm_up,
            load=load_before,
            measured=measured,
            environment=where,
        )
        file = options.output / "results.json"
        write(file, replaced(read(file), [result], list(WORKLOADS)))
        write_page(options.output)
    return failed


def write_page(output: Path) -> None:
    """Write RESULTS.md, and a plot of each format that has one."""
    results = read(output / "results.json")
    plotted = set()
    for file_format in {result.file_format for result in results}:
        of_format = [result for result in results if result.file_format == file_format]
        file = output / f"results-{file_format}.svg"
        if svg := plot(of_format):
            file.write_text(svg + "\n")
            plotted.add(file_format)
        else:
            file.unlink(missing_ok=True)
    (output / "RESULTS.md").write_text(page(results, FIGURES, plotted))


def _open(file_format: str) -> tuple[Project, EventLog]:
    """Return a project whose Spark has started, and the log of its events."""
    events = passing_directory("events")
    project = make_project(file_format, {**SETTINGS, "spark.eventLog.dir": events.as_uri()})
    project.sql("select 1")
    return project, EventLog(events)


def _java(project: Project) -> str:
    context = cast(SessionLake, project.lake).spark.sparkContext
    return str(cast(Any, context._jvm).System.getProperty("java.version"))


def _print(name: str, measured: Sequence[Measured]) -> None:
    listed = (f"{each.act} {each.spread.median:,.2f} {each.unit}" for each in measured)
    console.print(f"{name}: {', '.join(listed)}")


def _at_least_one(text: str) -> int:
    if (number := int(text)) < 1:
        raise argparse.ArgumentTypeError(f"not a number of rounds: {text}")
    return number


def _workloads(text: str) -> dict[str, Workload]:
    try:
        return chosen(text)
    except ValueError as error:
        raise argparse.ArgumentTypeError(str(error)) from error


def _option(text: str) -> Mapping[str, str]:
    """Return `name=value` as an option by its name."""
    name, equals, value = text.partition("=")
    if not (name.isidentifier() and equals and value):
        raise argparse.ArgumentTypeError(f"not name=value: {text}")
    return {name: value}


if __name__ == "__main__":
    main()
