"""Check the loop, tables and metrics of the command line without dbt."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from click.testing import CliRunner
from rich.console import Console

from dbt.adapters.spark_backfill.cli import metrics, status
from dbt.adapters.spark_backfill.cli.loop import Ending, Limits, StopSignals, run_loop
from dbt.adapters.spark_backfill.cli.main import main
from dbt.adapters.spark_backfill.cli.project import DbtProject, ModelResult

BARRIER = ModelResult("mv", "success", "BARRIER 3 (30.0 %)", {"code": "BARRIER"})
CAUGHT_UP = ModelResult("mv", "success", "CAUGHT UP", {"code": "NO-OP"})
LAST = ModelResult("mv", "success", "BARRIERS 3 to 9 (100.0 %), CAUGHT UP", {"code": "BARRIER"})
WAITS = ModelResult(
    "mv", "success", "WAITS: 9 bytes of the WAL have not landed in l.c (30.0 %)", {"code": "NO-OP"}
)
NEXT_WAITS = replace(WAITS, message=f"NEXT: {WAITS.message}")
LAST_WAITS = ModelResult("mv", "success", "BARRIER 3 (30.0 %), WAITS: 9 bytes", {"code": "BARRIER"})
FAILED = ModelResult("mv", "error", "Database Error in model mv\n  gone", {})
REFUSED = ModelResult("mv", "error", "Compilation Error in model mv\n  unique_key is missing", {})

ROW: dict[str, Any] = {
    "model": "flights_delayed",
    "relation": "nyc.flights_delayed",
    "backfill_finished": False,
    "progress": 0.9996,
    "row_count": 1234567,
    "rows_per_second": 45210.4,
    "seconds_left": 250.0,
    "behind": 2,
    "behind_seconds": 12.0,
    "epoch": 7,
    "kind": "reanchor",
    "committed_at": "2026-01-01T00:00:00.000Z",
}


class Stopless(StopSignals):
    """Record the pauses without waiting."""

    def __init__(self) -> None:
        super().__init__()
        self.waited: list[float] = []

    def listen(self) -> None:
        """Listen to no signals."""

    def wait(self, seconds: float) -> bool:
        self.waited.append(seconds)
        return self.event.is_set()


def loop(*passes: ModelResult, **limits: Any) -> tuple[Ending, list[float], int]:
    """Call run_loop with these results of its runs. Return its ending, its pauses in seconds, and
    the number of runs.
    """
    results: Iterator[ModelResult] = iter(passes)
    stop, runs = Stopless(), 0

    def run() -> list[ModelResult]:
        nonlocal runs
        runs += 1
        return [next(results)]

    seconds = iter(range(1000))
    ending = run_loop(run, Limits(**limits), stop, lambda line: None, lambda: float(next(seconds)))
    return ending, stop.waited, runs


def test_it_runs_until_nothing_is_left_to_do() -> None:
    assert loop(BARRIER, BARRIER, CAUGHT_UP) == (Ending.CAUGHT_UP, [0.0, 0.0], 3)
    assert loop(BARRIER, LAST)[0] == Ending.CAUGHT_UP


def test_what_failed_is_run_again_after_a_pause_that_grows() -> None:
    ending, waited, _ = loop(FAILED, FAILED, BARRIER, FAILED, CAUGHT_UP)
    assert (ending, waited) == (Ending.CAUGHT_UP, [5.0, 10.0, 0.0, 5.0])
    assert loop(FAILED, FAILED, FAILED, retries=2)[0] == Ending.FAILED


def test_what_waits_for_a_change_feed_is_run_again_after_a_short_pause() -> None:
    ending, waited, _ = loop(BARRIER, LAST_WAITS, NEXT_WAITS, LAST)
    assert (ending, waited) == (Ending.CAUGHT_UP, [0.0, 5.0, 10.0])
    assert loop(WAITS, WAITS, budget=3.0)[0] == Ending.BUDGET_SPENT
    assert loop(WAITS, WAITS, WAITS, retries=2)[0] == Ending.FAILED
    ending, waited, _ = loop(WAITS, WAITS, CAUGHT_UP, every=60.0, budget=50.0, retries=1)
    assert (ending, waited[:2]) == (Ending.CAUGHT_UP, [5.0, 5.0])


def test_hooks_of_a_run_are_no_models_unless_they_fail(monkeypatch: pytest.MonkeyPatch) -> None:
    def result(kind: str, name: str, status: str = "success") -> SimpleNamespace:
        node = SimpleNamespace(resource_type=kind, name=name)
        return SimpleNamespace(node=node, status=status, message=name, adapter_response={})

    results = [
        result("operation", "p-on-run-start-0"),
        result("model", "mv"),
        result("operation", "p-on-run-end-0", "error"),
    ]
    monkeypatch.setattr(
        DbtProject, "_invoke", lambda self, command: SimpleNamespace(results=results)
    )

    assert [each.name for each in DbtProject().run(["p.mv"])] == ["mv", "p-on-run-end-0"]


def test_a_refused_run_is_not_run_again() -> None:
    assert loop(REFUSED) == (Ending.FAILED, [], 1)


def test_a_budget_ends_it() -> None:
    assert loop(BARRIER, BARRIER, BARRIER, budget=2.0)[::2] == (Ending.BUDGET_SPENT, 2)


def test_it_looks_again_where_it_is_asked_to() -> None:
    ending, waited, _ = loop(CAUGHT_UP, BARRIER, CAUGHT_UP, every=60.0, budget=3.0)
    assert (ending, waited[:1]) == (Ending.CAUGHT_UP, [2.0])


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_the_first_signal_lets_the_barrier_end(number: signal.Signals) -> None:
    told: list[str] = []

    def run() -> list[ModelResult]:
        os.kill(os.getpid(), number)
        return [BARRIER]

    stop = StopSignals(lambda: told.append("stops"))
    with stop.on_signals():
        assert run_loop(run, Limits(), stop, lambda line: None) == Ending.STOPPED
        with pytest.raises(KeyboardInterrupt):
            os.kill(os.getpid(), number)
            signal.getsignal(number)
    assert told == ["stops"]


def printed(draw: Callable[[], Any]) -> str:
    console = Console(width=80, no_color=True, highlight=False, force_terminal=False)
    with console.capture() as capture:
        console.print(draw())
    return capture.get()


def test_a_status_fits_into_80_columns_and_is_100_only_when_finished() -> None:
    text = printed(lambda: status.make_table([ROW, ROW | {"model": "x" * 60}], 80))
    assert " 99.9 %" in text and "1,234,567" in text and "45,210" in text and "4 min" in text
    assert "12 s" in text
    assert max(map(len, text.splitlines())) <= 80
    done = printed(lambda: status.make_table([ROW | {"backfill_finished": True}], 80))
    assert "100.0 %" in done and "finished" in done


def test_the_largest_numbers_fit_into_80_columns() -> None:
    large = {
        "row_count": 12_345_678_901,
        "rows_per_second": 12_345_678.0,
        "seconds_left": 1e7,
        "behind": 500,
        "behind_seconds": 5_990.0,
    }
    text = printed(lambda: status.make_table([ROW | large, ROW | {"row_count": 999_999_999}], 80))
    assert max(map(len, text.splitlines())) <= 80
    for word in ("12.3 G", "12.3 M", "116 d", "100 min", "999,999,999", "flights_delayed"):
        assert word in text
    assert "…" not in text


def test_the_map_has_a_character_per_vnode() -> None:
    rows = [
        {"vnode": n, "backfill_finished": n < 3, "row_count": 5 if n < 5 else 0} for n in range(130)
    ]
    assert status.vnode_map(rows).plain.splitlines() == [
        "███▒▒" + "·" * 59,
        "·" * 64,
        "··",
    ]


def test_a_map_of_many_vnodes_has_a_character_for_several() -> None:
    rows = [
        {"vnode": n, "backfill_finished": n < 6, "row_count": 5 if n < 9 else 0}
        for n in range(1024)
    ]
    assert status.vnode_map(rows).plain.splitlines() == ["█▒" + "·" * 62, *["·" * 64] * 3]
    heading = status.vnode_heading(ROW | {"generation": "next"}, rows).plain
    assert heading == ("flights_delayed (next)  6 of 1,024 vnodes finished (4 per character)")


def test_metrics_leave_out_what_is_unknown() -> None:
    text = metrics.render([ROW | {"rows_per_second": None}])
    labels = '{model="flights_delayed",relation="nyc.flights_delayed"}'
    assert f"dbt_backfill_lag_seconds{labels} 12.0\n" in text
    assert f"dbt_backfill_finished{labels} 0.0\n" in text
    assert f"dbt_backfill_reanchor{labels} 1.0\n" in text
    assert f"dbt_backfill_since_barrier_seconds{labels} " in text
    caught_up = metrics.render([ROW | {"behind": 0, "behind_seconds": None}])
    assert f"dbt_backfill_lag_seconds{labels} 0.0\n" in caught_up
    assert "dbt_backfill_rows_per_second{" not in text


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["pause"], "Name models, or give --all."),
        (["pause", "mv", "--all"], "Name models, or give --all."),
        (["throttle", "mv"], "Missing option '--rows'"),
        (["throttle", "mv", "--rows", "many"], "give a whole number, or default"),
        (["run", "--every", "soon"], "soon is not a duration such as 90s, 5m or 2h"),
        (["run", "--for", "0s"], "0s is not a duration"),
        (["rescale", "mv", "--vnode-count", "0"], "0 is not in the range"),
    ],
)
def test_wrong_usage_is_said_before_dbt_starts(arguments: list[str], says: str) -> None:
    result = CliRunner().invoke(main, arguments)
    assert result.exit_code == 2
    assert says in result.output


def test_a_shell_can_complete_it() -> None:
    result = CliRunner().invoke(main, ["completion", "bash"])
    assert result.exit_code == 0
    assert "_DBT_BACKFILL_COMPLETE" in result.output


def test_a_project_that_is_none_is_told_without_a_stack(tmp_path: Path) -> None:
    place = ["--project-dir", str(tmp_path), "--profiles-dir", str(tmp_path)]
    result = CliRunner().invoke(main, ["status", *place])
    assert result.exit_code == 1
    assert "dbt_project.yml" in result.output
    assert "Traceback" not in result.output
