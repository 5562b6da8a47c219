"""Barriers on a table of a live PostgreSQL server are exact while six clients write to the table.

One test changes the order of the statements in the macros, in two ways that seem natural. It must
find a wrong MV in both cases.

DBT_BACKFILL_LIVE_BARRIERS=200      the number of barriers of each MV (default 3)
"""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from exactness.conftest import lived
from exactness.landing import DeclaredLanding
from exactness.live import LiveScene
from exactness.mutants import Replacement, mutated
from exactness.oracle import Inexact
from support.lake import Lake
from support.profiles import at_home_on_iceberg
from support.project import Project
from support.writers import Table, orders, places

pytestmark = [
    at_home_on_iceberg,
    pytest.mark.profiles("session-delta", "session-iceberg", reason="all runs share one session"),
]

BARRIERS = int(os.environ.get("DBT_BACKFILL_LIVE_BARRIERS", "3"))
RANGE = 240
ROWS = LiveScene.rows

STAGE = "upstreams/postgres/stage.sql"
READS = "upstreams/postgres/reads.sql"
PLAN = "upstreams/postgres/staged_range.sql"

NO_OVERLAY: Replacement = (
    READS,
    "where __bf_op in ('i', 'u', 'd') and __bf_position <= {{ version }}\n"
    "            and ({{ unseen }})",
    "where false",
)
POSITION = (
    "        set __bf_reached = (select cast(value_1 as bigint) from ({{"
    " dbt_backfill.get_postgres_query_sql(\n"
    "            catalog, \"select (pg_current_wal_insert_lsn() - '0/0')::text as value_1\"\n"
    "        ) }}));\n"
)
SNAPSHOT = "        set __bf_snapshot = ("
WRONG_ORDERS: dict[str, tuple[Replacement, ...]] = {
    "the position is fixed before the range is read": (
        NO_OVERLAY,
        (STAGE, POSITION, ""),
        (STAGE, SNAPSHOT, POSITION + SNAPSHOT),
        (PLAN, "version=waited.landed | string), stage", "version=noted.reached | string), stage"),
    ),
    "the position is fixed after the range was read": (NO_OVERLAY,),
}

TABLES: dict[str, Callable[[str], Table]] = {
    "one column": lambda name: orders(3000, name),
    "two columns": lambda name: places(120, name),
}


MakeScene = Callable[..., LiveScene]


def play(scene: LiveScene, barriers: int, **config: object) -> None:
    """Run barriers while clients write. If the backfill has finished, begin a full refresh."""
    scene.write(backfill_rate_limit=RANGE, **config)
    with scene.writers() as writers:
        scene.land()
        for number in range(barriers):
            anew = number and scene.mv.progress().finished
            scene.barrier(*(["--full-refresh"] if anew else []))
    lived.committed += writers.committed


def complete(scene: LiveScene) -> None:
    """After the last write, read the remaining rows and check every version of the MV."""
    check(scene)
    scene.write()
    scene.catch_up()
    scene.check()
    scene.mv.check_complete()


def check(scene: LiveScene) -> None:
    checked = scene.check()
    lived.barriers += checked.barriers
    lived.mv_versions += checked.mv_versions


@pytest.mark.parametrize(
    "kind", [pytest.param("one column", marks=pytest.mark.every_profile), "two columns"]
)
def test_each_barrier_is_exact_while_others_write(
    project: Project, make_scene: MakeScene, kind: str
) -> None:
    """The table with a key of two columns is read through three connections at the same time."""
    scene = make_scene(project, TABLES[kind](f"live_{kind.replace(' ', '_')}"))
    play(scene, BARRIERS, backfill_partitions=3 if kind == "two columns" else 1)
    complete(scene)


def test_each_barrier_is_exact_while_others_write_and_land(
    project: Project, make_scene: MakeScene
) -> None:
    """One dbt run executes many barriers. Another thread lands the changes that they wait for."""
    scene = make_scene(project, TABLES["one column"]("live_landing"))
    limit = max(1, ROWS // BARRIERS)
    scene.write(backfill_rate_limit=limit, barriers_per_run="all", change_feed=scene.feed(60))
    scene.land()
    with scene.writers() as writers, scene.hand.all_the_while():
        scene.run()
        scene.run()
    lived.committed += writers.committed
    complete(scene)


def test_each_barrier_is_exact_by_a_change_table_of_the_users_own(
    project: Project, make_scene: MakeScene
) -> None:
    scene = make_scene(
        project, TABLES["two columns"]("live_declared"), landing_by_hand=DeclaredLanding
    )
    play(scene, BARRIERS)
    check(scene)
    scene.write(backfill_rate_limit=RANGE)
    empty_while_it_waits(scene)
    complete(scene)


def empty_while_it_waits(scene: LiveScene) -> None:
    """Empty the PostgreSQL table twice, each time after a range was staged.

    The barrier must not use the staged rows.
    """
    for _ in range(2):
        scene.database.sql(f"insert into {scene.name} values (0, 'a', 1, 'gone')")
        assert "WAITS" in scene.run().message(scene.mv.name)
        scene.database.sql(f"truncate {scene.name}")
        scene.land()
    scene.barrier()


def test_a_commit_that_waits_for_its_standby_is_shown_no_sooner_than_its_position(
    project: Project, make_scene: MakeScene
) -> None:
    """The commit is in the WAL and its changes are landed, long before readers see the new rows."""
    scene = make_scene(project, TABLES["one column"]("held_back"))
    scene.write(backfill_rate_limit=RANGE)
    waits = ({"synchronous_commit": "on"},) * 3
    with (
        scene.database.settings(synchronous_standby_names="nobody"),
        scene.writers(settings=(*waits, {"synchronous_commit": "local"})),
    ):
        scene.land()
        for _ in range(max(4, BARRIERS // 5)):
            scene.barrier()
            scene.database.sql(
                "select pg_cancel_backend(pid) from pg_stat_activity"
                " where wait_event = 'SyncRep' order by random() limit 2"
            )
    complete(scene)


@pytest.mark.parametrize("order", WRONG_ORDERS)
def test_a_wrong_order_is_found_wrong(
    lake: Lake, tmp_path: Path, make_scene: MakeScene, order: str
) -> None:
    packages = mutated(tmp_path / "packages", WRONG_ORDERS[order])
    number = list(WRONG_ORDERS).index(order)
    project = Project(tmp_path / "project", lake, f"wrong_order_{number}", packages=packages)
    scene = make_scene(project, TABLES["one column"](f"wrong_order_{number}"))
    with pytest.raises(Inexact) as found:
        for _ in range(5):
            play(scene, 3)
            check(scene)
    lived.found.append(f"{order}: {found.value}")
