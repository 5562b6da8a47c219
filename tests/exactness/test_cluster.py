"""A backfill on a Spark cluster stays exact if workers of the cluster die.

The cluster has a master and two workers with one core each. The driver is this process or a Thrift
server. In one test a worker dies while a statement of a barrier is executed. In the other test all
workers die before a statement, and the rows that were staged in their memory are lost.

Only `make test-cluster` runs these tests.
"""

from __future__ import annotations

import os
import random
import threading
from collections.abc import Iterator

import pytest

from exactness.follow import Follower, Upstream
from exactness.oracle import Row, rows_by_key
from exactness.queries import positive
from exactness.upstream import Schema
from support.cluster import Cluster
from support.lake import Lake, SessionLake
from support.profiles import PROFILES
from support.project import Interceptor, Proceed, Project
from support.thrift_lake import ThriftLake

pytestmark = [
    pytest.mark.every_profile,
    pytest.mark.skipif(
        "DBT_BACKFILL_CLUSTER" not in os.environ, reason="make test-cluster runs it"
    ),
]

SCHEMA = Schema({"id": "bigint", "amount": "int", "label": "string"}, key=("id",))
ROWS = 600
RANGE = 100
PLAN, MERGE, COMMIT = "plan the barrier", "merge the changes and the range", "commit the barrier"
MOMENTS = ((PLAN, 0.3), (MERGE, 0.1), (MERGE, 1.0), (COMMIT, 0.3))
"""A statement, and the seconds between its start and the death of a worker."""


@pytest.fixture(scope="session")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    with Cluster(tmp_path_factory.mktemp("cluster")) as started:
        yield started


@pytest.fixture(scope="session")
def lake(
    request: pytest.FixtureRequest, cluster: Cluster, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Lake]:
    """Yield a lake whose Spark uses the cluster. In the other tests the driver does all work."""
    profile = PROFILES[request.config.getoption("--profile")]
    kind = SessionLake if profile.method == "session" else ThriftLake
    lake: Lake = kind(tmp_path_factory.mktemp("lake"), profile, cluster.settings)
    try:
        yield lake
    finally:
        lake.close()


class Life:
    """An MV, and an upstream that changes before and during each run."""

    def __init__(self, project: Project) -> None:
        self.rng = random.Random("cluster")
        rows = rows_by_key([self._row(2 * number) for number in range(ROWS)], SCHEMA.key)
        self.project, self.runs = project, 1
        self.upstream = Upstream.create(project, "orders", SCHEMA, rows)
        self.mv = Follower(project, self.upstream, "mv", positive(SCHEMA))
        self.mv.write(backfill_rate_limit=RANGE)
        project.run()

    def _row(self, key: int) -> Row:
        return {"id": key, "amount": self.rng.randint(-1, 9), "label": f"row {key}"}

    def change(self) -> None:
        """Commit one MERGE that inserts, updates and deletes in all parts of the table."""
        rows = self.upstream.rows
        here = self.rng.sample(list(rows), 60)
        new = [(2 * number + 1,) for number in self.rng.sample(range(ROWS), 20)]
        deleted = here[40:]
        upserted = [self._row(*key) for key in sorted({*new, *here} - {*deleted})]
        self.upstream.commit(self.upstream.commits.merge(rows, upserted, deleted))

    def run(self, step: str, act: Interceptor) -> None:
        """Run a barrier and execute its statement `step` with `act`.

        The upstream changes before the run, and again after the barrier is planned.
        """
        self.change()
        met = []

        def intercept(sql: str, proceed: Proceed) -> None:
            if f": {step}" in sql:
                met.append(sql)
                act(sql, proceed)
            else:
                proceed()
            if f": {PLAN}" in sql:
                self.change()

        self.project.run(intercept=intercept)
        self.runs += 1
        assert met, f"the run did not {step}"

    def finish(self) -> None:
        """Read the remaining rows in one range, then check every version of the MV."""
        self.mv.write()
        self.project.run()
        self.mv.check_complete()
        checked = self.mv.check()
        assert checked.barriers == self.runs + 1


def test_a_worker_dies_while_a_barrier_is_at_work(project: Project, cluster: Cluster) -> None:
    life = Life(project)
    for step, delay in MOMENTS:

        def act(sql: str, proceed: Proceed, delay: float = delay) -> None:
            death = threading.Timer(delay, cluster.kill_a_worker)
            death.start()
            proceed()
            death.join()

        life.run(step, act)
        cluster.add_worker()
    life.finish()


def test_all_workers_die_with_what_was_staged(project: Project, cluster: Cluster) -> None:
    life = Life(project)

    def act(sql: str, proceed: Proceed) -> None:
        for _ in range(cluster.workers):
            cluster.kill_a_worker()
            cluster.add_worker()
        proceed()

    for step in (MERGE, COMMIT):
        life.run(step, act)
    life.finish()
