"""On an object store every version of an MV is exact: in random histories, after kills, and if two
Spark drivers run the model at the same time.

`make test-stores` runs these tests, and `make test-all` some of them: with Delta on S3, and with
Iceberg in several catalogs. The variables of test_random_histories.py and test_real_kills.py apply
here too.

DBT_BACKFILL_CATALOG=rest             Iceberg's catalog: jdbc (the default), rest, hive or glue
DBT_BACKFILL_LOG_STORE=conditional    Delta commits by conditional writes, so several drivers may
                                      write; by default with Delta's own log store for S3
DBT_BACKFILL_DRIVERS=5     how often two drivers run a model at the same time (default 2)
"""

from __future__ import annotations

import itertools
import os
from collections.abc import Callable, Iterator

import pytest
from hypothesis import HealthCheck, Phase, given, settings
from nyc.object_store import BUCKET, ObjectStore

from exactness.conftest import faults, summary
from exactness.faults import Scene
from exactness.histories import History, histories
from exactness.play import Player
from exactness.test_real_kills import kill, survive, wait_for
from support.catalogs import glue_server, hive_server, rest_server
from support.postgres import Database
from support.processes import start
from support.profiles import PROFILES
from support.project import Project
from support.store_lake import (
    StoreLake,
    delta_on,
    glue_catalog,
    hive_catalog,
    iceberg_on,
    jdbc_catalog,
    rest_catalog,
    several_drivers,
)

HISTORIES = int(os.environ.get("DBT_BACKFILL_HISTORIES", "2"))
DRIVERS = int(os.environ.get("DBT_BACKFILL_DRIVERS", "2"))
CATALOG = os.environ.get("DBT_BACKFILL_CATALOG", "jdbc")
CONDITIONAL = os.environ.get("DBT_BACKFILL_LOG_STORE") == "conditional"
pytestmark = pytest.mark.every_profile

_numbers = itertools.count(1)


@pytest.fixture(scope="session")
def catalog(
    store: ObjectStore, database: Database, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[dict[str, str]]:
    """Yield the properties of Iceberg's catalog."""
    directory, jdbc = tmp_path_factory.mktemp("catalog"), jdbc_catalog(store, database)
    if CATALOG == "rest":
        with rest_server(directory, jdbc) as url:
            yield rest_catalog(store, url)
    elif CATALOG == "hive":
        with hive_server(directory, store) as url:
            yield hive_catalog(store, url)
    elif CATALOG == "glue":
        with glue_server(directory) as url:
            yield glue_catalog(store, url)
    else:
        assert CATALOG == "jdbc", f"there is no catalog {CATALOG}"
        yield jdbc


@pytest.fixture(scope="session")
def lake(
    request: pytest.FixtureRequest,
    store: ObjectStore,
    database: Database,
    tmp_path_factory: pytest.TempPathFactory,
) -> Iterator[StoreLake]:
    profile = PROFILES[request.config.getoption("--profile")]
    directory = tmp_path_factory.mktemp("lake")
    if profile.file_format == "iceberg":
        settings = iceberg_on(request.getfixturevalue("catalog"))
    else:
        settings = delta_on(store, database, directory)
        if CONDITIONAL:
            settings = several_drivers(settings, request.getfixturevalue("classes"))
    lake = StoreLake(directory, profile, settings)
    try:
        yield lake
    finally:
        lake.close()


@pytest.fixture
def allows_several_drivers(lake: StoreLake) -> None:
    if lake.profile.file_format == "delta" and not CONDITIONAL:
        pytest.skip("Delta's own log store for S3 loses commits of other drivers")


def test_the_first_run_warns_if_only_one_driver_may_write(
    project: Project, lake: StoreLake, request: pytest.FixtureRequest
) -> None:
    scene = Scene(project, "warned")
    scene.mv.write()
    settings = lake.parameters
    is_safe = project.file_format == "iceberg" or "spark.delta.logStore.s3a.impl" in settings

    for arguments, is_first in [((), True), ((), False), (("--full-refresh",), True)]:
        output = project.run(*arguments).output
        assert ("S3SingleDriverLogStore loses commits" in output) == (is_first and not is_safe)
        assert (f"s3a://{BUCKET}/warehouse" in output) == (is_first and not is_safe)
        scene.commit()


@settings(
    max_examples=HISTORIES,
    deadline=None,
    derandomize=True,
    database=None,
    phases=(Phase.explicit, Phase.generate),
    suppress_health_check=list(HealthCheck),
    report_multiple_bugs=False,
)
@given(history=histories())
def test_every_version_is_exact(new_project: Callable[[], Project], history: History) -> None:
    summary.add(Player(new_project(), history, f"h{next(_numbers)}").play())


def test_a_driver_is_killed(project: Project) -> None:
    def die(scene: Scene, step: str, delay: float) -> None:
        run = start(project, scene.mv.name, debug=True)
        try:
            wait_for(run, step, delay)
        finally:
            kill(run)

    survive(project, "killed", die)


@pytest.mark.usefixtures("allows_several_drivers")
def test_two_drivers_run_a_model_at_the_same_time(project: Project) -> None:
    """The upstream changes meanwhile."""
    scene = Scene(project, "raced", rows=200)
    scene.mv.write(backfill_rate_limit=10, barriers_per_run=4)
    scene.run()
    for _ in range(DRIVERS):
        other = start(project, scene.mv.name)
        while other.poll() is None:
            scene.commit()
            project.dbt("run", "--select", scene.mv.name, expect=False)
            faults.cells += 1
        other.communicate()
    scene.mv.write(barriers_per_run="all")
    result = scene.run_behind_another()
    assert result.success, result.error
    checked = scene.mv.check()
    scene.mv.check_complete()
    faults.mv_versions += checked.mv_versions
    faults.barriers += checked.barriers
