"""The lines of `explain_backfill` about the remaining ranges, bytes and statements."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from hashlib import md5
from typing import Any

import pytest

from support.macros import Macros, Table

MB = 1000000
CHANGED = {"role": "upstream", "relation": "lake.up", "kind": "delta", "id": "u1", "version": "18"}


@pytest.fixture
def explained(
    macros: Macros, backfill: Any, make_state: Any, make_plan: Any
) -> Callable[..., list[str]]:
    """Return the lines for a plan with ten ranges of 10 rows.

    Of 100 rows, 75 are left to read. The files have 400 MB.
    """

    def explained(
        scans: float | None = None,
        replica: Any = None,
        plan: Any = None,
        state: Any = None,
        **options: Any,
    ) -> list[str]:
        backfill["options"].update(options)
        last = make_plan(epoch=2, next_bounds=[["5", "6"]])
        before = make_state(**{"row_count": 25, "committed": last, **(state or {})})
        evidence = {"rows": 75, "scans": scans}
        bounds = [[str(n), "0"] for n in range(8)]
        chosen = make_plan(evidence=evidence, next_bounds=bounds, vnodes=None, **(plan or {}))
        chosen.setdefault("vnodes", None)
        macros.results = [[{"sizeInBytes": 400 * MB}]]
        return list(macros.call("_get_plan_lines", backfill, before, chosen, replica))

    return explained


def test_bytes_are_those_of_the_rows_that_are_left(explained: Callable[..., list[str]]) -> None:
    assert explained(scans=4, replicate="never")[:3] == [
        "75 rows are left, in 10 ranges of up to 10 rows",
        "a barrier for each, in 10 runs of dbt",
        "a range reads about 120.0 MB of the 300.0 MB of the upstream that are left, at most: "
        "columns that are not needed are left out",
    ]


@pytest.mark.parametrize(
    ("most", "cost", "copy"),
    [
        (None, 225, "the copy reads 300.0 MB once"),
        (40, 375, "each of about 3 parts of the copy reads 300.0 MB"),
    ],
)
def test_a_copy_reads_them_once_and_then_each_range_its_own(
    explained: Callable[..., list[str]], most: int | None, cost: int, copy: str
) -> None:
    lines = explained(scans=10, replicate="always", replica_rows=most)
    assert lines[2] == (
        "replicate is always: 10 ranges ahead would read 10.0 times the 75 rows of lake.up that are"
        f" left: 750 rows in all, while a copy costs about as much as {cost}, so the rows"
        " are first copied in the order of the key"
    )
    assert lines[3].startswith(f"{copy}; a range then reads about 30.0 MB of it, at most: ")


def test_of_a_copy_that_is_there_each_range_reads_its_own(
    explained: Callable[..., list[str]],
) -> None:
    lines = explained(replica={"id": "r1"})
    assert lines[2] == "the ranges are read from lake.mv__replica"
    assert lines[3].startswith("a range reads about 30.0 MB of the copy, at most: ")


@pytest.mark.parametrize(
    ("config", "plan", "runs"),
    [
        ({"barriers_per_run": 3}, {}, "4 runs of dbt"),
        ({"barriers_per_run": None}, {}, "1 run of dbt"),
        ({"barriers_per_run": 3}, {"bounds_complete": False}, "at least 4 runs of dbt"),
        ({"barriers_per_run": None, "run_rows": 20}, {}, "at least 4 runs of dbt"),
        ({"barriers_per_run": 1, "run_rows": 20}, {}, "at least 10 runs of dbt"),
        ({"barriers_per_run": None, "run_minutes": 5}, {}, "at least 1 run of dbt"),
        ({"barrier_seconds": 5}, {}, "about 10 runs of dbt; barrier_seconds will change"),
    ],
    ids=str,
)
def test_runs_are_counted_by_what_ends_them(
    explained: Callable[..., list[str]], config: Any, plan: Any, runs: str
) -> None:
    assert explained(plan=plan, **config)[1].startswith(f"a barrier for each, in {runs}")


@pytest.mark.parametrize(
    ("plan", "steps"),
    [
        ({}, "merge the range of the barrier 3"),
        (
            {"sources": [CHANGED]},
            "merge the changes of the barrier 3, merge the range of the barrier 3",
        ),
        ({"kind": "abandon"}, "stop what is on its way in the barrier 3"),
    ],
    ids=["a range", "changes and a range", "given up"],
)
def test_the_statements_are_those_that_a_run_executes(
    explained: Callable[..., list[str]], plan: Any, steps: str
) -> None:
    line = explained(plan=plan)[-1].split(" (")[0]
    assert line == (
        f"the barrier writes with the statements: plan the barrier 3, {steps}, commit the barrier 3"
    )


def test_another_kind_of_barrier_is_named(explained: Callable[..., list[str]]) -> None:
    assert explained(plan={"kind": "sweep", "reason": "it was replaced"})[0] == (
        "the next barrier is of the kind sweep: it was replaced"
    )


def test_a_run_that_goes_on_with_bounds_of_before_copies_by_what_was_known_then(
    macros: Macros, backfill: Any, make_state: Any, make_plan: Any, make_source: Any
) -> None:
    scans = {"scans": 10.0, "rows": 100 * MB}
    macros.stub("find_bounds", lambda *_: {"evidence": scans})
    bounds = [[str(n), "0"] for n in range(8)]
    plan = make_plan(next_bounds=bounds)

    def lines(*known: Any) -> list[str]:
        last = make_plan(epoch=2, sources=[make_source(), *known], upstream_row_count=100 * MB)
        macros.results = [[{"sizeInBytes": 400 * MB}]]
        return list(
            macros.call("_get_plan_lines", backfill, make_state(committed=last), plan, None)
        )

    [line] = [line for line in lines() if line.startswith("replicate is auto: ")]
    assert line.endswith(
        "; a run that uses the bounds of an earlier run does not know that, so the ranges are read"
        " from the upstream"
    )
    void = make_source(role="replica", version=None, definition='{"scans": 9.0}')
    [line] = [line for line in lines(void) if line.startswith("replicate is auto: ")]
    assert "would read 9.0 times" in line
    assert line.endswith(", so the rows are first copied in the order of the key")


# -- what a run would begin with ---------------------------------------------------------------

NODE = {"unique_id": "model.p.mv", "name": "mv", "schema": "lake", "raw_code": "select 1 as id"}


class Observed(Exception):
    """The state is known."""


@pytest.fixture
def observe(macros: Macros, backfill: Any, analysis: Any, make_state: Any) -> Callable[..., Any]:
    """Return the state of an MV if these tables exist, or the line about their takeover."""
    macros.stub(
        "observe_missing",
        lambda *_: {"state": {"missing": True, "committed": {}}, "analysis": analysis},
    )
    macros.stub("observe_existing", lambda *_, **__: {"state": "that of an MV"})
    macros.stub("get_backfill", lambda *_: backfill)
    macros.context["render"] = lambda code: code
    macros.context["should_full_refresh"] = lambda: False
    macros.context["model"] = {"unique_id": "model.p.mv", "name": "mv"}
    backfill["options"]["replace_existing"] = False

    def observe(properties: Any, *there: str) -> Any:
        own = {"dbt_backfill.id": "b1", "dbt_backfill.format": "2"}
        found = {"mv": properties, "mv__progress": own}
        macros.tables = {f"lake.{name}": Table(properties=found[name]) for name in there}
        seen: list[Any] = []

        def observe_mv(_: Any, state: Any) -> None:
            seen.append(state)
            raise Observed

        macros.stub("observe_mv", observe_mv)
        with suppress(Observed):
            [line] = macros.call("get_explained_lines", NODE)
            return line
        return seen[0]

    return observe


def test_a_table_that_was_marked_is_adopted_by_the_next_run(
    macros: Macros, observe: Callable[..., Any]
) -> None:
    marked = {"dbt_backfill.adopt": md5(b"model.p.mv").hexdigest()}
    assert observe(marked, "mv") == (
        "the next run adopts lake.mv: its rows are compared with its query, up to 10 rows of the"
        " upstream per barrier, and only what differs is written"
    )
    assert observe({}, "mv", "mv__progress") == "that of an MV"


def test_what_a_first_run_has_left_that_died_is_gone_on_with(
    macros: Macros, observe: Callable[..., Any], make_plan: Any, make_state: Any
) -> None:
    planned = make_plan(epoch=1)
    left = make_state(epoch=0, planned=planned, committed=make_plan(epoch=0, kind="create"))
    macros.stub("read_state", lambda *_: left)
    macros.stub("find_difference", lambda *_: macros.context["difference"])
    macros.context["difference"] = None
    assert observe({}, "mv__progress") == {
        "missing": True,
        "committed": {},
        "planned": planned,
    }
    macros.context["difference"] = "its query changed"
    assert "planned" not in observe({}, "mv__progress")
    assert "planned" not in observe({})


def test_a_state_without_its_mv_is_refused(
    macros: Macros, observe: Callable[..., Any], make_state: Any, refused: Any
) -> None:
    macros.stub("read_state", lambda *_: make_state(epoch=2))
    with refused("lake.mv does not exist, but its state does"):
        observe({}, "mv__progress")
