"""Interleavings of runs that made a real MV wrong. The model in protocol.py has found them."""

from __future__ import annotations

import re
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from typing import Any

import pytest

from exactness.faults import Scene
from exactness.runners import PAUSE, Runner, Statement, die_after, die_before, stepping
from support.project import Crash, Proceed, Project

BOTH = Statement("merge the changes and the range of the barrier")
COMMIT = Statement("commit the barrier")
EMPTY = Statement("empty the MV in the barrier")
RANGE = Statement("merge the range of the barrier")

LATE = PAUSE.replace("4000L", "25000L")

on_delta = pytest.mark.profiles("session-delta", reason="all runs share one session")


def on_iceberg(test: Any) -> Any:
    only = pytest.mark.profiles("session-iceberg", reason="about Iceberg")
    return pytest.mark.every_profile(only(test))


@pytest.fixture
def scene(project: Project) -> Scene:
    """Return an upstream and an MV that has merged its first range."""
    scene = Scene(project, "played", rows=40, query="everything")
    scene.mv.write(backfill_rate_limit=8)
    scene.run()
    return scene


@contextmanager
def arriving_late(runner: Runner) -> Iterator[Future[Any]]:
    """Let the run die while Spark executes its next statement.

    The statement waits long in its fence, so it commits after statements of later runs.
    """
    with ThreadPoolExecutor(1) as pool:
        sent: list[Future[Any]] = []

        def send(project: Project, sql: str, proceed: Proceed) -> None:
            sent.append(pool.submit(project.sql, re.sub(r"\bthen true\b", LATE, sql)))
            raise Crash("died while a statement was on its way")

        runner.advance(send)
        yield sent[0]


def abandon_plan(scene: Scene) -> None:
    scene.project.operation("abandon_plan", model=scene.mv.name)


@on_delta
def test_a_run_whose_plan_was_given_up_is_refused(scene: Scene) -> None:
    with stepping():
        late = scene.runner()
        late.go_to(COMMIT)
        abandon_plan(scene)
        scene.run()
        assert not late.finish().success


@on_iceberg
def test_a_key_that_came_with_a_given_up_plan_and_went_leaves_the_mv(scene: Scene) -> None:
    upstream = scene.upstream
    came = {"id": 1, "amount": 1, "label": "came"}
    upstream.commit(upstream.commits.insert([came]))
    with stepping():
        died = scene.runner()
        died.go_to(BOTH)
        died.advance(die_after)
    upstream.commit(upstream.commits.delete(upstream.rows, [(1,)]))
    abandon_plan(scene)
    scene.run()
    scene.mv.check()


@on_iceberg
def test_a_merge_of_a_given_up_plan_that_comes_late_does_not_land(scene: Scene) -> None:
    """The re-anchor finds no row to remove, so it writes no row of the abandoned range.

    So the write of the re-anchor does not conflict with the late MERGE.
    """
    with stepping():
        late = scene.runner()
        late.go_to(RANGE)
        with arriving_late(late):
            abandon_plan(scene)
            scene.run()
    scene.mv.check()


@on_iceberg
def test_an_mv_that_a_late_full_refresh_has_emptied_is_repaired_though_a_run_has_died_since(
    scene: Scene,
) -> None:
    with stepping():
        late = scene.runner("--full-refresh")
        late.go_to(EMPTY)
        with arriving_late(late):
            scene.run()
            died = scene.runner()
            died.go_to(RANGE)
        died.advance()
        died.advance(die_before)
    scene.run()
    scene.mv.write()
    scene.run()
    scene.run()
    scene.mv.check_complete()
