"""After kill -9 in the middle of a barrier, the next run continues and every MV version is exact.

A process is killed as soon as it has sent a statement, or up to three seconds later. Three kinds of
processes are killed: a dbt client of a Thrift server, the server itself, and a dbt process that
contains Spark (`method: session`). A Thrift server may continue the statements of a dead client.
The test with PostgreSQL also kills the process that executes `land_changes`.

DBT_BACKFILL_KILLS=20     the number of kills of each kind (default 1)

By default the client is only killed on the profile `thrift-iceberg`, and the server only on
`thrift-delta`. The other tests are only executed if the variable is set.
"""

from __future__ import annotations

import os
import random
import signal
import subprocess
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import pytest
import yaml

from exactness.conftest import faults
from exactness.faults import Scene
from exactness.live import STAGE, WAIT, LiveScene
from support.lake import SessionLake
from support.postgres import Database
from support.processes import start, start_landing
from support.profiles import SESSION_DELTA, THRIFT, needs_a_server
from support.project import Project
from support.thrift_lake import ThriftLake
from support.writers import orders

KILLS = int(os.environ.get("DBT_BACKFILL_KILLS", "1"))
ALL = "DBT_BACKFILL_KILLS" in os.environ
STEPS = ("plan the barrier", "merge the changes", "merge the range", "commit the barrier")
DELAYS = (0.0, 0.1, 0.3, 1.0, 3.0)

TAKES_LONG = "takes long: DBT_BACKFILL_KILLS asks for it"

pytestmark = [
    pytest.mark.every_profile,
    needs_a_server,
]


def sample_on(profile: str) -> pytest.MarkDecorator:
    return pytest.mark.profiles(*(THRIFT if ALL else [profile]), reason=TAKES_LONG)


@pytest.fixture
def thrift(lake: ThriftLake) -> ThriftLake:
    return lake


def wait_for(run: subprocess.Popen[str], step: str, delay: float) -> None:
    """Wait until the run has sent the statement, and then `delay` seconds."""
    assert run.stdout is not None
    printed = []
    for line in run.stdout:
        printed.append(line)
        if f": {step}" in line and "/*" in line:
            time.sleep(delay)
            return
    raise AssertionError(f"the run ended without {step}:\n{''.join(printed[-50:])}")


def kill(run: subprocess.Popen[str]) -> None:
    """Kill the process and all processes that it has started."""
    os.killpg(run.pid, signal.SIGKILL)
    run.communicate()


def moments(seed: str, steps: Sequence[str] = STEPS) -> Iterator[tuple[str, float]]:
    rng = random.Random(seed)
    for _ in range(KILLS):
        yield rng.choice(steps), rng.choice(DELAYS)


def survive(
    project: Project,
    what: str,
    die: Callable[[Scene, str, float], None],
    query: str = "positive",
) -> None:
    """Kill a process several times. After each kill a run must succeed and the MV must be exact."""
    scene = Scene(project, what, rows=max(120, 20 * KILLS), query=query)
    scene.mv.write(backfill_rate_limit=5)
    scene.run()
    for step, delay in moments(what):
        if step == "merge the range":  # only sent if there are no changes to merge
            scene.catch_up()
        else:
            scene.commit()
        where = f"{what} killed {delay} s after {step}"
        die(scene, step, delay)
        scene.commit()
        result = scene.run_behind_another()
        assert result.success, f"{where}: {result.error}"
        faults.cells += 1
        try:
            checked = scene.mv.check()
        except AssertionError as wrong:
            faults.wrong.append(f"{where}: {wrong}")
            raise
    scene.mv.write(barriers_per_run="all")
    scene.run()
    checked = scene.mv.check()
    scene.mv.check_complete()
    faults.mv_versions += checked.mv_versions
    faults.barriers += checked.barriers


@sample_on("thrift-iceberg")
def test_a_client_of_a_server_is_killed(project: Project) -> None:
    def die(scene: Scene, step: str, delay: float) -> None:
        run = start(project, scene.mv.name, debug=True)
        wait_for(run, step, delay)
        kill(run)

    survive(project, "client", die)


@sample_on("thrift-delta")
def test_the_server_is_killed(project: Project, thrift: ThriftLake) -> None:
    def die(scene: Scene, step: str, delay: float) -> None:
        run = start(project, scene.mv.name, debug=True)
        wait_for(run, step, delay)
        thrift.kill()
        kill(run)
        thrift.start_again()

    survive(project, "server", die)


@pytest.mark.skipif(not ALL, reason=TAKES_LONG)
@pytest.mark.profiles("thrift-delta", reason="a session must be able to open the same lake")
def test_a_process_with_spark_in_it_is_killed(
    project: Project, thrift: ThriftLake, tmp_path: Path
) -> None:
    session = SessionLake(thrift.directory, SESSION_DELTA)
    target = {"type": project.adapter, "schema": project.schema, "threads": 1, **session.output({})}
    profiles = {"lake": {"target": "test", "outputs": {"test": target}}}
    (tmp_path / "profiles.yml").write_text(yaml.safe_dump(profiles))

    def die(scene: Scene, step: str, delay: float) -> None:
        thrift.stop()
        run = start(project, scene.mv.name, profiles=tmp_path, debug=True)
        try:
            wait_for(run, step, delay)
        finally:
            kill(run)
            thrift.start_again()

    # dbt-spark turns ANSI mode off in its own session, but the Thrift server has ANSI mode on. The
    # query `everything` has the same result in both modes.
    survive(project, "session", die, query="everything")


@pytest.mark.skipif(not ALL, reason=TAKES_LONG)
def test_a_run_over_a_live_postgresql_is_killed_and_what_lands_its_changes(
    project: Project, database: Database
) -> None:
    """Clients write continuously.

    After a kill of the landing process, a new one starts immediately.
    """
    scene = LiveScene(
        project, database, orders(40 * KILLS, "killed"), rows=30 * KILLS, seed="kill", by_hand=False
    )
    scene.write(backfill_rate_limit=10, change_feed=scene.feed(60))
    scene.land()
    landing = start_landing(project, scene.mv.name, subprocess.DEVNULL)
    try:
        with scene.writers(3, 15):
            scene.run()
            steps = (STAGE, WAIT, "plan the barrier", "commit the barrier")
            for number, (step, delay) in enumerate(moments("live", steps)):
                run = start(project, scene.mv.name, debug=True)
                wait_for(run, step, delay)
                kill(run)
                if number % 2:
                    kill(landing)
                    landing = start_landing(project, scene.mv.name, subprocess.DEVNULL)
                scene.run()
                faults.cells += 1
        scene.write(barriers_per_run="all", change_feed=scene.feed(60))
        scene.run()
    finally:
        kill(landing)
    scene.catch_up()
    checked = scene.check()
    scene.mv.check_complete()
    assert scene.wrong_events() == []
    faults.mv_versions += checked.mv_versions
    faults.barriers += checked.barriers
    scene.end()
