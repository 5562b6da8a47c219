"""The lines that a run prints."""

from __future__ import annotations

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest

from support.macros import Macros


def took(seconds: float, of_range: float | None = None) -> dict[str, float]:
    """Return the durations of a barrier, and of its range (by default all of the barrier)."""
    return {"seconds": seconds, "seconds_without_copy": seconds if of_range is None else of_range}


@pytest.fixture
def report(macros: Macros, backfill: Any, make_plan: Any, make_state: Any) -> Callable[..., str]:
    """Return the line that a run prints for a barrier after 134,710 of 336,776 rows."""

    def report(
        plan: dict[str, Any] | None = None,
        counts: dict[str, int] | None = None,
        **state: Any,
    ) -> str:
        planned = make_plan(**{
            "upstream_row_count": 336776, "range_row_count": 50000, **(plan or {})
        })  # fmt: skip
        after = make_state(**{"row_count": 134710, "committed": planned, **state})
        barrier = {"plan": planned, "state": after, "counts": counts or {}, **took(4.2)}
        macros.call("report_barrier", backfill, barrier)
        (line,) = macros.logged
        return line

    return report


@pytest.fixture
def times(macros: Macros, backfill: Any) -> Callable[..., str]:
    """Return the part of a barrier's line that shows its durations."""

    def times(plan: Any, state: Any, **took: float) -> str:
        macros.logged.clear()
        barrier = {"plan": plan, "state": state, "counts": {}, **took}
        macros.call("report_barrier", backfill, barrier)
        (line,) = macros.logged
        return line.rpartition(" · ")[2].removesuffix("]")

    return times


def test_a_barrier_is_one_line(report: Callable[..., str]) -> None:
    assert report(counts={"changed": 1204, "deleted": 31}) == (
        "mv [BARRIER 3 · 40.0 % · 134,710 of 336,776 rows · +50,000 backfilled · "
        "1,204 changed, 31 deleted · version 17 · 4 s, 11,905 rows/s, 5 barriers left (about 21 s)]"
    )


def test_a_barrier_without_changes_does_not_mention_them(report: Callable[..., str]) -> None:
    assert report() == (
        "mv [BARRIER 3 · 40.0 % · 134,710 of 336,776 rows · +50,000 backfilled · version 17 · "
        "4 s, 11,905 rows/s, 5 barriers left (about 21 s)]"
    )


def test_the_barrier_that_finishes_tells_its_rows(report: Callable[..., str]) -> None:
    assert report(finished=True, row_count=336776) == (
        "mv [BARRIER 3 · 100.0 % · 336,776 rows · +50,000 backfilled · version 17 · "
        "4 s, 11,905 rows/s]"
    )


def test_a_barrier_after_the_backfill_tells_its_changes_only(report: Callable[..., str]) -> None:
    line = report({"range_row_count": None}, {"changed": 2, "deleted": 0}, finished=True)

    assert line == "mv [BARRIER 3 · 100.0 % · 2 changed, 0 deleted · version 17 · 4 s]"


@pytest.mark.parametrize(
    ("state", "place"),
    [
        (
            {"position": ["7", "'a'"]},
            "mv [STOPPED · 40.0 % · 40 of 100 rows · at id=7, shard='a' · after BARRIER 3]",
        ),
        (
            {"position": None},
            "mv [STOPPED · 40.0 % · 40 of 100 rows · at the beginning · after BARRIER 3]",
        ),
        (
            {"uniform": False},
            "mv [STOPPED · 40.0 % · 40 of 100 rows · at another position in each vnode"
            " · after BARRIER 3]",
        ),
        (
            {"epoch": 0, "row_count": 0, "position": None},
            "mv [STOPPED · 0.0 % · 0 of 100 rows · at the beginning · before BARRIER 1]",
        ),
        ({"finished": True}, "mv [STOPPED · 100.0 % · 40 rows · after BARRIER 3]"),
    ],
)
def test_the_adapter_knows_where_a_model_stands(
    macros: Macros, backfill: Any, make_state: Any, state: dict[str, Any], place: str
) -> None:
    told: list[str] = []
    macros.context["adapter"] = SimpleNamespace(
        type=lambda: "spark_backfill", set_line_if_stopped=told.append
    )
    found = make_state(**{"epoch": 3, "row_count": 40, **state})
    found["committed"] |= {"upstream_row_count": 100}

    macros.call("set_line_if_stopped", backfill, found)

    assert told == [place]


def test_a_count_that_nobody_knows_is_left_out(report: Any, macros: Macros) -> None:
    """Delta returns no count of deleted rows for a MERGE inside a script."""
    counts = macros.call("get_committed_counts", {"changed_row_count": 2})

    assert " · 2 changed · version 17 · " in report(counts=counts)


def test_a_reset_tells_why(report: Callable[..., str]) -> None:
    unread = {"upstream_version": None, "upstream_row_count": None, "range_row_count": None}
    line = report({"kind": "reset", "reason": "full refresh", **unread}, row_count=0)

    assert line == "mv [BARRIER 3 · 0.0 % · emptied: full refresh · 4 s]"


def test_an_abandoned_plan_tells_why(report: Callable[..., str]) -> None:
    line = report({"kind": "abandon", "reason": "version 17 was vacuumed"})

    assert line == "mv [BARRIER 3 · 40.0 % · plan given up: version 17 was vacuumed · 4 s]"


def test_a_reanchor_tells_why(report: Callable[..., str]) -> None:
    line = report(
        {"kind": "reanchor", "reason": "the upstream was replaced", "range_row_count": None},
        {"changed": 3, "deleted": 4},
        finished=True,
    )

    assert line == (
        "mv [BARRIER 3 · 100.0 % · re-anchored: the upstream was replaced · 3 changed, 4 deleted · "
        "version 17 · 4 s]"
    )


def test_a_reanchor_in_the_middle_of_a_backfill_tells_how_far_it_is(
    report: Callable[..., str],
) -> None:
    plan = {"kind": "reanchor", "reason": "why", "range_row_count": None}

    assert report(plan) == (
        "mv [BARRIER 3 · 40.0 % · 134,710 of 336,776 rows · +0 backfilled · re-anchored: why · "
        "version 17 · 4 s]"
    )


def test_a_barrier_is_told_to_the_user_and_not_only_to_the_log_file(
    macros: Macros, report: Callable[..., str]
) -> None:
    told: list[bool] = []
    log = macros.context["log"]
    macros.context["log"] = lambda message, info=False: told.append(info) or log(message)
    report()

    assert told == [True]


@pytest.mark.parametrize(
    ("plan", "state", "seconds", "text"),
    [
        ({}, {"row_count": 60}, 10, "10 s, 1.0 rows/s, 4 barriers left (about 40 s)"),
        ({}, {"row_count": 61}, 10, "10 s, 1.0 rows/s, 4 barriers left (about 40 s)"),
        ({}, {"row_count": 59}, 60, "60 s, 0.2 rows/s, 5 barriers left (about 5 min)"),
        ({}, {"row_count": 81}, 10, "10 s, 1.0 rows/s, 2 barriers left (about 20 s)"),
        ({}, {"row_count": 95}, 0.3, "0 s, 33 rows/s, 1 barrier left (about 0 s)"),
        # Rows that were deleted after they were read still count as read.
        ({}, {"row_count": 120}, 7, "7 s, 1.4 rows/s, 1 barrier left (about 7 s)"),
        ({}, {"row_count": 60, "finished": True}, 10, "10 s, 1.0 rows/s"),
        ({"range_row_count": 0}, {"row_count": 60}, 10, "10 s"),
        ({"range_row_count": None}, {"row_count": 60}, 10, "10 s"),
        ({"vnodes": [1]}, {"row_count": 60}, 10, "10 s, 1.0 rows/s"),
    ],
)
def test_a_barrier_tells_how_long_it_took_and_what_is_left(
    times: Any, make_plan: Any, make_state: Any, plan: Any, state: Any, seconds: float, text: str
) -> None:
    planned = make_plan(**{"upstream_row_count": 100, "range_row_count": 10, **plan})

    assert times(planned, make_state(**state), **took(seconds)) == text


def test_a_copy_of_the_upstream_is_no_part_of_the_rate(
    times: Any, make_plan: Any, make_state: Any
) -> None:
    planned = make_plan(upstream_row_count=100, range_row_count=10)
    told = "70 s, 1.0 rows/s, 4 barriers left (about 40 s)"
    assert times(planned, make_state(row_count=60), **took(70, of_range=10)) == told


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (0, "0 s"),
        (99, "99 s"),
        (100, "2 min"),
        (5999, "100 min"),
        (6000, "1.7 h"),
        (36_000_000, "10000.0 h"),
    ],
)
def test_a_duration_is_told_in_its_largest_unit(macros: Macros, seconds: float, text: str) -> None:
    assert macros.call("get_duration_text", seconds) == text


@pytest.mark.parametrize(
    ("row_count", "total", "finished", "text"),
    [
        (0, 100, False, "0.0 %"),
        (40, 100, False, "40.0 %"),
        (1, 3, False, "33.3 %"),
        (9999, 10000, False, "99.9 %"),
        (100, 100, False, "99.9 %"),
        (150, 100, False, "99.9 %"),
        (90, 100, True, "100.0 %"),
        (0, 0, True, "100.0 %"),
        (0, 0, False, "0.0 %"),
        (5, None, False, "0.0 %"),
    ],
)
def test_progress_is_the_share_of_rows_and_is_whole_only_at_the_end(
    macros: Macros,
    make_state: Any,
    make_plan: Any,
    row_count: int,
    total: int | None,
    finished: bool,
    text: str,
) -> None:
    committed = make_plan(upstream_row_count=total)
    state = make_state(row_count=row_count, finished=finished, committed=committed)

    assert macros.call("get_progress", state)["text"] == text


def test_at_rate_10_on_1000_rows_the_first_barrier_is_one_percent_of_a_hundred(
    macros: Macros, times: Any, make_plan: Any, make_state: Any
) -> None:
    plan = make_plan(upstream_row_count=1000, range_row_count=10)
    shares = []
    for epoch in range(1, 101):
        state = make_state(epoch=epoch, row_count=10 * epoch, finished=epoch == 100, committed=plan)
        shares.append(macros.call("get_progress", state)["text"])
        if epoch == 1:
            left = "2 s, 5.0 rows/s, 99 barriers left (about 3 min)"
            assert times(plan, state, **took(2)) == left

    assert shares == [f"{n}.0 %" for n in range(1, 101)]


@pytest.mark.parametrize(
    ("row_count", "total", "finished", "left"),
    [(40, 100, False, 60), (120, 100, False, 0), (90, 100, True, 0), (0, None, False, None)],
)
def test_what_is_left_is_never_less_than_nothing(
    macros: Macros, make_state: Any, make_plan: Any, row_count: int, total: Any, finished: bool,
    left: Any,
) -> None:  # fmt: skip
    committed = make_plan(upstream_row_count=total)
    state = make_state(row_count=row_count, finished=finished, committed=committed)

    assert macros.call("get_progress", state)["rows_left"] == left


@pytest.mark.parametrize(
    ("rate", "text"),
    [(0.25, "0.2"), (9.94, "9.9"), (12.4, "12"), (11904.8, "11,905"), (999_999, "999,999"),
     (1_250_000, "1.2 M"), (999_949_999, "1.0 G"), (2.5e9, "2.5 G")],
)  # fmt: skip
def test_a_rate_is_short(
    times: Any, make_plan: Any, make_state: Any, rate: float, text: str
) -> None:
    state = make_state(finished=True)

    assert times(make_plan(range_row_count=10 * rate), state, **took(10)) == f"10 s, {text} rows/s"


RUN = {"first": None, "spent": False, "waits": None, "allowance": None}


@pytest.mark.parametrize(
    ("first", "ended", "finished", "message"),
    [
        (3, False, False, "BARRIER 3 (40.0 %)"),
        (3, False, True, "BARRIER 3 (100.0 %)"),
        (3, True, True, "BARRIER 3 (100.0 %), CAUGHT UP"),
        (1, False, False, "BARRIERS 1 to 3 (40.0 %)"),
        (1, True, True, "BARRIERS 1 to 3 (100.0 %), CAUGHT UP"),
        (1, True, False, "BARRIERS 1 to 3 (40.0 %), PAUSED"),
        (None, True, True, "CAUGHT UP"),
        (None, True, False, "PAUSED (40.0 %)"),
    ],
)
def test_the_result_of_a_run_is_its_barriers_and_why_it_ended(
    macros: Macros, make_state: Any, make_plan: Any, first: int | None, ended: bool, finished: bool,
    message: str,
) -> None:  # fmt: skip
    plan = make_plan() if first else None
    run = {"state": make_state(finished=finished), "plan": plan, "first": first, "ended": ended}

    assert macros.call("get_result_message", RUN | run) == message


def test_while_columns_are_filled_progress_is_the_share_of_rows_that_were_read_for_them(
    macros: Macros, times: Any, make_state: Any, make_plan: Any
) -> None:
    fills = [{"name": "x", "type": "int"}]
    plan = make_plan(kind="fill", fills=fills, filled_row_count=12, range_row_count=4)
    state = make_state(committed=plan, finished=True)
    run = {"state": state, "plan": None, "ended": True}

    assert macros.call("get_result_message", RUN | run) == "PAUSED (30.0 %)"
    left = "10 s, 0.4 rows/s, 7 barriers left (about 70 s)"
    assert times(plan, state, **took(10)) == left
    ended = dict(plan, last_fill=True)
    assert times(ended, make_state(committed=ended), **took(10)) == "10 s, 0.4 rows/s"


RESULT = {"message": "BARRIER 3 (40.0 %)", "barriers": 2, "rows_backfilled": 50, "changed": 4,
          "read_seconds": 5, "deleted": 1}  # fmt: skip


def test_the_result_goes_to_dbt_as_text_without_the_adapter(
    macros: Macros, make_state: Any, make_plan: Any
) -> None:
    stored: dict[str, Any] = {}
    macros.context["store_raw_result"] = lambda name, **result: stored.update({name: result})
    macros.call("store_result_of_run", {**RESULT, "state": make_state(), "plan": make_plan()})

    assert stored == {
        "main": {"message": "BARRIER 3 (40.0 %)", "code": "BARRIER", "rows_affected": "55"}
    }

    nothing = {"message": "CAUGHT UP", "barriers": 0, "rows_backfilled": 0, "changed": 0}
    macros.call("store_result_of_run", {**nothing, "deleted": 0, "state": make_state()})

    assert stored == {"main": {"message": "CAUGHT UP", "code": "NO-OP", "rows_affected": "0"}}


@pytest.mark.parametrize("planned", [True, False])
def test_the_result_goes_to_dbt_as_fields_with_the_adapter(
    macros: Macros, make_state: Any, make_plan: Any, planned: bool
) -> None:
    stored: dict[str, Any] = {}
    macros.context["store_result"] = lambda name, response: stored.update({name: response})
    macros.context["adapter"] = SimpleNamespace(
        type=lambda: "spark_backfill", barrier_response=lambda **fields: fields
    )
    plan = make_plan() if planned else None
    state = make_state(epoch=3, upstream_version="17", lag_seconds=60)
    macros.call("store_result_of_run", {**RESULT, "state": state, "plan": plan})

    assert stored["main"] == {
        "message": "BARRIER 3 (40.0 %)",
        "epoch": 3,
        "kind": "advance" if planned else None,
        "barriers": 2,
        "progress": 0.4,
        "backfill_finished": False,
        "row_count": state["row_count"],
        "upstream_row_count": 100,
        "rows_left": 60,
        "rows_per_second": 10.0,
        "seconds_left": 6.0,
        "lag_seconds": 60,
        "rows_backfilled": 50,
        "rows_changed": 4,
        "rows_deleted": 1,
        "upstream_version": "17",
    }
