"""The commands; `dbt-backfill --help` lists them."""

from __future__ import annotations

import functools
import json
import re
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import click
from click.shell_completion import get_completion_class
from rich.console import Console, Group
from rich.live import Live
from rich.text import Text

from dbt.adapters.spark_backfill.__version__ import version
from dbt.adapters.spark_backfill.cli import metrics as prometheus
from dbt.adapters.spark_backfill.cli import report as pages
from dbt.adapters.spark_backfill.cli import status as shown
from dbt.adapters.spark_backfill.cli.loop import Ending, Limits, StopSignals, run_loop
from dbt.adapters.spark_backfill.cli.project import DbtFailed, DbtProject, ModelResult

console = Console(highlight=False, soft_wrap=True)
# A table is never wider than the terminal, because wrapped lines would make it unreadable.
screen = Console(highlight=False)
errors = Console(highlight=False, soft_wrap=True, stderr=True)

OUTPUT = "The file to write. Default: target/backfill_report.html."

UNITS = {"s": 1, "m": 60, "h": 3600}


class Duration(click.ParamType[float]):
    """A duration such as `90`, `90s`, `5m` or `2h`; its value is in seconds."""

    name = "duration"

    def convert(
        self, value: Any, param: click.Parameter | None, ctx: click.Context | None
    ) -> float:
        found = re.fullmatch(r"(\d+(?:\.\d+)?)([smh]?)", str(value))
        if found is None or float(found[1]) <= 0:
            self.fail(f"{value} is not a duration such as 90s, 5m or 2h", param, ctx)
        return float(found[1]) * UNITS[found[2] or "s"]


def of_project(command: Callable[..., int | None]) -> Callable[..., None]:
    """Add dbt's options for the project, and `--json`, to a command that returns its exit code."""

    @click.option("--project-dir", help="Same as in dbt.")
    @click.option("--profiles-dir", help="Same as in dbt.")
    @click.option("--profile", help="Same as in dbt.")
    @click.option("-t", "--target", help="Same as in dbt.")
    @click.option("--vars", help="Same as in dbt: YAML.")
    @click.option("--json", "as_json", is_flag=True, help="Print JSON, an object per line.")
    @functools.wraps(command)
    def with_project(
        project_dir: str | None,
        profiles_dir: str | None,
        profile: str | None,
        target: str | None,
        vars: str | None,
        **arguments: Any,
    ) -> None:
        project = DbtProject(project_dir, profiles_dir, profile, target, vars)
        try:
            sys.exit(command(project, **arguments) or 0)
        except DbtFailed as error:
            errors.print(Text(str(error)))
            sys.exit(1)

    return with_project


@click.group(context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(version, prog_name="dbt-backfill")
def main() -> None:
    """See and steer the models of a dbt project that are a backfilled_mv.

    Exit codes: 0 done, nothing is left to do; 1 a model or dbt failed; 2 wrong usage; 3 the budget
    is spent; 130 stopped by Ctrl-C or SIGTERM.
    """


@main.command()
@click.argument("models", nargs=-1)
@of_project
def status(project: DbtProject, models: Sequence[str], as_json: bool) -> None:
    """Show the progress of each MV."""
    rows = shown.read_rows(project, models)
    if as_json:
        _print_json(rows)
    elif rows:
        screen.print(shown.make_table(rows, screen.width))
    else:
        console.print("No backfilled_mv of this project has been run yet.")


@main.command()
@click.argument("models", nargs=-1)
@click.option("--interval", type=Duration(), default="10s", show_default=True)
@of_project
def watch(project: DbtProject, models: Sequence[str], interval: float, as_json: bool) -> None:
    """Show the status and a map of the vnodes, updated until Ctrl-C."""
    try:
        if as_json:
            while True:
                _print_json(shown.read_rows(project, models))
                time.sleep(interval)
        with Live(console=screen, auto_refresh=False) as live:
            while True:
                live.update(_picture(project, models), refresh=True)
                time.sleep(interval)
    except KeyboardInterrupt:
        return


def _picture(project: DbtProject, models: Sequence[str]) -> Group:
    rows = shown.read_rows(project, models)
    vnodes = shown.read_rows(project, models, by="vnode")
    parts: list[Any] = [shown.make_table(rows, screen.width)]
    for row in rows:
        if not row["backfill_finished"]:
            own = [vnode for vnode in vnodes if vnode["relation"] == row["relation"]]
            parts += [Text(), shown.vnode_heading(row, own), shown.vnode_map(own)]
    if len(parts) > 1:
        parts += [Text(), shown.legend()]
    return Group(*parts)


@main.command()
@click.option("-s", "--select", multiple=True, help="Same as in dbt. Default: all MVs.")
@click.option("--exclude", multiple=True, help="Same as in dbt.")
@click.option("--selector", help="Same as in dbt.")
@click.option("--every", type=Duration(), help="Do not end: check again after this time.")
@click.option("--for", "budget", type=Duration(), help="Begin no turn after this time.")
@click.option("--turns", is_flag=True, help="One barrier per MV and turn, whatever its config.")
@click.option("--retries", type=click.IntRange(0), default=5, show_default=True)
@of_project
def run(
    project: DbtProject,
    select: Sequence[str],
    exclude: Sequence[str],
    selector: str | None,
    every: float | None,
    budget: float | None,
    turns: bool,
    retries: int,
    as_json: bool,
) -> int:
    """Run barriers in one process until all MVs have caught up.

    A turn is a `dbt run` of all these MVs. A failed turn is repeated after a pause that grows each
    time, unless it was refused. After the first Ctrl-C, the command ends after the running turn.
    """
    listening = project if as_json else replace(project, hear=_say)
    models = listening.models(select, exclude, selector)
    if not models:
        raise click.UsageError("The selection has no model that is a backfilled_mv.")
    last: dict[str, ModelResult] = {}

    def run_once() -> list[ModelResult]:
        results = listening.run(models, one_barrier=turns)
        for result in results:
            last[result.name] = result
            if as_json:
                _print_json([_as_json(result)])
            elif result.failed:
                errors.print(Text(f"{result.name}: {result.message.strip()}"))
        return results

    stop = StopSignals(
        lambda: errors.print("Stopping after the running turn. Press Ctrl-C again to stop now.")
    )
    try:
        with stop.on_signals():
            ending = run_loop(run_once, Limits(budget, every, retries), stop, errors.print)
    except (DbtFailed, KeyboardInterrupt):  # the second signal, in dbt or between two turns
        if not stop.event.is_set():
            raise
        ending = Ending.STOPPED
    if not as_json:
        for result in last.values():
            if not result.failed:
                console.print(Text(f"{result.name}: {result.message}"))
        if ending in (Ending.BUDGET_SPENT, Ending.STOPPED):
            console.print("Run the same command again to continue.")
    return int(ending)


def _as_json(result: ModelResult) -> dict[str, Any]:
    return {
        "model": result.name,
        "status": result.status,
        "message": result.message,
        **{name: value for name, value in result.response.items() if name != "_message"},
    }


def of_models(command: Callable[..., int | None]) -> Callable[..., None]:
    """Add the arguments that name models, and `--all`, to a command."""

    @click.argument("models", nargs=-1)
    @click.option("--all", "every_model", is_flag=True, help="All MVs of the project.")
    @of_project
    @functools.wraps(command)
    def with_models(
        project: DbtProject, models: Sequence[str], every_model: bool, **arguments: Any
    ) -> int | None:
        if bool(models) == every_model:
            raise click.UsageError("Name models, or give --all.")
        chosen: dict[str, Any] = {"all": True} if every_model else {"models": list(models)}
        return command(project, chosen=chosen, **arguments)

    return with_models


@main.command()
@of_models
def pause(project: DbtProject, chosen: dict[str, Any], as_json: bool) -> None:
    """Stop reading rows of the upstream from the next barrier on. Changes are still merged."""
    _operate(project, as_json, "pause_backfill", **chosen)


@main.command()
@of_models
def resume(project: DbtProject, chosen: dict[str, Any], as_json: bool) -> None:
    """Lift a pause."""
    _operate(project, as_json, "resume_backfill", **chosen)


@main.command()
@click.option("--rows", required=True, help="Upstream rows per barrier, or: default.")
@of_models
def throttle(project: DbtProject, chosen: dict[str, Any], rows: str, as_json: bool) -> None:
    """Set the number of rows that each barrier reads, from the next barrier on."""
    if rows != "default" and not rows.isdecimal():
        raise click.UsageError(f"--rows is {rows}: give a whole number, or default.")
    given = rows if rows == "default" else int(rows)
    _operate(project, as_json, "throttle_backfill", **chosen, rows=given)


@main.command()
@click.argument("model")
@click.option("--vnode-count", type=click.IntRange(1, 32768), required=True)
@of_project
def rescale(project: DbtProject, model: str, vnode_count: int, as_json: bool) -> None:
    """Change the number of vnodes to a multiple or a divisor of the current number."""
    _operate(project, as_json, "rescale_backfill", model=model, vnode_count=vnode_count)


@main.command()
@click.argument("model")
@click.option("--repair", is_flag=True, help="Merge the difference.")
@of_project
def verify(project: DbtProject, model: str, repair: bool, as_json: bool) -> None:
    """Compare an MV with its definition, row by row."""
    _operate(project, as_json, "verify_backfill", model=model, repair=repair)


@main.command()
@click.argument("models", nargs=-1)
@click.option("--every", type=Duration(), help="Do not end: land again after this time.")
@click.option("--retries", type=click.IntRange(0), default=5, show_default=True)
@of_project
def land(
    project: DbtProject, models: Sequence[str], every: float | None, retries: int, as_json: bool
) -> int:
    """Land the changes of PostgreSQL in the change tables of these models, or of all models.

    A failed landing is repeated after a pause that grows each time, unless it was refused. After
    the first Ctrl-C, the command ends after the running landing.
    """
    chosen: dict[str, Any] = {"models": list(models)} if models else {}

    def land_once() -> list[ModelResult]:
        try:
            _operate(project, as_json, "land_changes", **chosen)
        except DbtFailed as error:
            errors.print(Text(str(error)))
            return [ModelResult("land_changes", "error", str(error), {})]
        return []

    stop = StopSignals(
        lambda: errors.print("Stopping after the running landing. Press Ctrl-C again to stop now.")
    )
    try:
        with stop.on_signals():
            return int(run_loop(land_once, Limits(None, every, retries), stop, errors.print))
    except KeyboardInterrupt:  # the second signal
        return int(Ending.STOPPED)


@main.command()
@of_project
def metrics(project: DbtProject, as_json: bool) -> None:
    """Print the state of all MVs in Prometheus' text format."""
    rows = shown.read_rows(project)
    if as_json:
        _print_json(rows)
    else:
        click.echo(prometheus.render(rows), nl=False)


@main.command()
@click.option("-s", "--select", multiple=True, help="Same as in dbt. Default: all MVs.")
@click.option("--exclude", multiple=True, help="Same as in dbt.")
@click.option("--selector", help="Same as in dbt.")
@click.option("-o", "--output", type=click.Path(dir_okay=False, path_type=Path), help=OUTPUT)
@of_project
def report(
    project: DbtProject,
    select: Sequence[str],
    exclude: Sequence[str],
    selector: str | None,
    output: Path | None,
    as_json: bool,
) -> None:
    """Write a page about all MVs, with plots of their progress, their vnodes and their controls.

    The page is one HTML file that needs no network. The command prints the path of the file.
    """
    if not as_json and find_spec("vl_convert") is None:
        raise click.ClickException(
            "The plots need the package vl-convert-python: pip install 'dbt-backfill[report]'"
        )
    models = None
    if select or exclude or selector:
        models = project.models(select, exclude, selector)
        if not models:
            raise click.UsageError("The selection has no model that is a backfilled_mv.")
    found = pages.read_report(project, models)
    if as_json:
        _print_json([found.head, *found.mvs])
        return
    place = output or Path(project.project_dir or ".") / "target" / "backfill_report.html"
    place.parent.mkdir(parents=True, exist_ok=True)
    place.write_text(pages.render(found), encoding="utf-8")
    click.echo(place)


@main.command()
@click.argument("shell", type=click.Choice(["bash", "zsh", "fish"]))
def completion(shell: str) -> None:
    """Print a script for completion.

    In .bashrc: eval "$(dbt-backfill completion bash)"
    """
    kind = get_completion_class(shell)
    assert kind is not None
    click.echo(kind(main, {}, "dbt-backfill", "_DBT_BACKFILL_COMPLETE").source())


def _operate(project: DbtProject, as_json: bool, operation: str, **arguments: Any) -> None:
    lines: list[str] = []
    hear = lines.append if as_json else _say
    replace(project, hear=hear).operation(operation, **arguments)
    if as_json:
        _print_json([{"operation": operation, "messages": lines}])


def _say(line: str) -> None:
    console.print(Text(line))


def _print_json(rows: Sequence[dict[str, Any]]) -> None:
    for row in rows:
        click.echo(json.dumps(row, default=str))
