"""dbt-spark sends a statement again if the connection is lost during the execution.

The test loses the first answer to each kind of statement of the package. Then dbt-spark's own code
sends the statement again. The server continues the first execution, so both executions may run at
the same time.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from typing import Any

import pytest
from pyhive import hive

from exactness.faults import Scene
from exactness.runners import steps_of
from support.project import Proceed, Project, two_merges

pytestmark = [
    pytest.mark.every_profile,
    pytest.mark.profiles(
        "thrift-delta", "thrift-iceberg", reason="a session has no connection to lose"
    ),
]

WRITES = (
    "plan the barrier",
    "merge the changes of the barrier",
    "merge the range of the barrier",
    "merge the changes and the range of the barrier",
    "commit the barrier",
)


class Losing:
    """Raises a connection error instead of the first answer to each kind of statement of an MV."""

    def __init__(self, mv: str, upstream: str) -> None:
        self.lost: list[str] = []
        self._step_of = steps_of(mv, upstream)
        self._pending: str | None = None

    def __call__(self, sql: str, proceed: Proceed) -> None:
        self._pending = self._step_of(sql)
        proceed()

    @contextmanager
    def polls(self) -> Iterator[None]:
        poll = hive.Cursor.poll

        def losing(cursor: Any, *arguments: Any) -> Any:
            pending, self._pending = self._pending, None
            if pending is not None and pending not in self.lost:
                self.lost.append(pending)
                raise ConnectionResetError("lost by the test")
            return poll(cursor, *arguments)

        hive.Cursor.poll = losing
        try:
            yield
        finally:
            hive.Cursor.poll = poll


def test_the_statement_of_the_first_range_is_sent_again(project: Project) -> None:
    """On Iceberg this statement is an INSERT OVERWRITE. Its second execution conflicts."""
    scene = Scene(project, "lost", rows=120)
    scene.mv.write(backfill_rate_limit=8)
    losing = Losing(scene.mv.name, scene.upstream.name)
    losing.lost = [step for step in WRITES if step != "merge the range of the barrier"]
    with losing.polls():
        project.dbt("run", expect=False, intercept=losing)
    assert set(WRITES) <= set(losing.lost)
    scene.run()
    scene.mv.check()


def test_every_statement_is_sent_again(project: Project) -> None:
    scene = Scene(project, "lost", rows=120)
    scene.mv.write(backfill_rate_limit=8)
    scene.run()
    losing = Losing(scene.mv.name, scene.upstream.name)
    for number, _ in enumerate(WRITES):
        with two_merges() if number % 2 else nullcontext(), losing.polls():
            # The two executions of a statement may conflict; then the run ends with an error.
            project.dbt("run", expect=False, intercept=losing)
        result = scene.run_behind_another()
        assert result.success, result.error
        scene.mv.check()
        scene.commit()
    scene.mv.write(barriers_per_run="all")
    scene.run()
    scene.mv.check()
    scene.mv.check_complete()
    assert set(WRITES) <= set(losing.lost)
