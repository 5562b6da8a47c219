"""An MV on a live PostgreSQL table stays exact if a run or the landing of changes has a fault.

A run stages a range, waits for the feed, plans, merges and commits. A landing (`land_changes`)
reads the replication slot, merges the events into the change table, and only then advances the
slot. Each fault lets the run or the landing die before, inside or after a statement, or send a
statement twice. Clients write to the table meanwhile. Afterwards a landing and a run without a
fault follow. Every version of the MV must be exact.

Other tests restart the PostgreSQL server, let it remove WAL before the changes have landed, or let
it refuse connections.

DBT_BACKFILL_FAULTS=all         all faults
DBT_BACKFILL_FAULTS=boundaries  a death after each statement that writes
DBT_BACKFILL_FAULTS=3           three faults of the barrier and three of the landing

Without this variable the tests of these faults are skipped.
"""

from __future__ import annotations

import contextlib
import os
import random
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest

from exactness.conftest import faults
from exactness.faults import Cell, action_of, cells_of
from exactness.live import STAGE, WAIT, LiveScene
from exactness.runners import Runner, Statement, once, stepping
from support.postgres import Database, logical_postgresql
from support.profiles import at_home_on_iceberg
from support.project import Proceed, Project
from support.writers import orders

FAULTS = os.environ.get("DBT_BACKFILL_FAULTS", "1")
RANGE = 40
ROWS = 1200
FEW = 600
WRITERS = 3
PER_SECOND = 15

pytestmark = [
    at_home_on_iceberg,
    pytest.mark.profiles("session-delta", "session-iceberg", reason="all runs share one session"),
]

Strike = Callable[[LiveScene, Cell], None]

by_hand = pytest.mark.skipif(
    "DBT_BACKFILL_FAULTS" not in os.environ, reason="takes minutes: set DBT_BACKFILL_FAULTS"
)


@pytest.fixture
def make_scene(project: Project, database: Database) -> Iterator[Callable[[str, bool], LiveScene]]:
    """Yield a function that returns a `LiveScene` after its first barrier.

    Clients write to its PostgreSQL table until the test ends.
    """
    with contextlib.ExitStack() as stack:

        def make(name: str, by_hand: bool) -> LiveScene:
            scene = LiveScene(project, database, orders(1500, name), rows=ROWS, by_hand=by_hand)
            stack.callback(scene.end)
            scene.write(backfill_rate_limit=RANGE)
            stack.enter_context(scene.writers(WRITERS, PER_SECOND))
            scene.land()
            scene.barrier()
            return scene

        yield make


MakeScene = Callable[[str, bool], LiveScene]


def barrier_of(scene: LiveScene) -> Runner:
    return Runner(scene.project, scene.mv.name, scene.name)


def landing_of(scene: LiveScene) -> Runner:
    return Runner(scene.project, "dbt_backfill", scene.name, *scene.landing)


def chosen(cells: list[Cell], seed: str) -> list[Cell]:
    if FAULTS == "all":
        return cells
    writing = [cell for cell in cells if cell.writes]
    if FAULTS == "boundaries":
        return [cell for cell in writing if cell.moment == "after"]
    return random.Random(seed).sample(writing, min(int(FAULTS), len(writing)))


def cells(scene: LiveScene, begin: Callable[[LiveScene], Runner]) -> list[Cell]:
    """Execute a run without a fault to find its statements.

    Return all their faults, except stalls.
    """
    with stepping():
        runner = begin(scene)
        while not runner.ended:
            if runner.next == Statement(WAIT):
                scene.land()
            runner.advance()
        result = runner.finish()
    assert result.success, result.error or result.output
    stalls = "stalled"
    of_it = cells_of("barrier" if begin is barrier_of else "landing", runner.sent)
    return [cell for cell in of_it if stalls not in cell.moment]


def strike(scene: LiveScene, begin: Callable[[LiveScene], Runner], cell: Cell) -> None:
    """Execute a run with this fault. Then land the changes and run a barrier without a fault."""
    with stepping():
        runner = begin(scene)
        action = action_of(cell.moment)
        while not runner.ended:
            struck = cell.statement is None or runner.next == cell.statement
            if runner.next == Statement(WAIT):
                scene.land()
            runner.advance(action if struck else once)
    scene.land()
    scene.barrier()


def play(scene: LiveScene, begin: Callable[[LiveScene], Runner]) -> None:
    struck = []
    for cell in chosen(cells(scene, begin), scene.name):
        faults.cells += 1
        struck.append(str(cell))
        strike(scene, begin, cell)
        if scene.mv.progress().finished:
            scene.project.dbt("run", "--select", scene.mv.name, "--full-refresh")
    checked = scene.check()
    faults.mv_versions += checked.mv_versions
    faults.barriers += checked.barriers
    assert struck


@by_hand
def test_every_version_is_exact_after_a_fault_of_a_barrier(make_scene: MakeScene) -> None:
    play(make_scene("struck", True), barrier_of)


@by_hand
def test_a_landing_that_a_fault_befalls_loses_and_doubles_nothing(make_scene: MakeScene) -> None:
    scene = make_scene("struck_landing", False)
    play(scene, landing_of)
    assert scene.wrong_events() == []


@by_hand
def test_two_landings_at_once_do_no_harm(make_scene: MakeScene) -> None:
    """A landing stops before each of its statements while another landing is executed."""
    scene = make_scene("twice_landing", False)
    with stepping():
        recorded = landing_of(scene)
        recorded.finish()
    moments: Sequence[int] = range(1, len(recorded.sent) + 1)
    if FAULTS not in ("all", "boundaries"):
        moments = random.Random(scene.name).sample(moments, min(int(FAULTS), len(moments)))
    for number in moments:
        with stepping():
            stopped = landing_of(scene)
            for _ in range(number):
                if not stopped.ended:
                    stopped.advance()
            scene.land()
            while not stopped.ended:
                stopped.advance()
        scene.barrier()
    scene.check()
    assert scene.wrong_events() == []


@pytest.mark.parametrize(
    "mode", ["fast", pytest.param("immediate", marks=pytest.mark.every_profile)]
)
def test_the_server_is_restarted_in_the_middle_of_a_range(make_scene: MakeScene, mode: str) -> None:
    """A table lock blocks the run that reads the range, until the PostgreSQL server stops."""
    scene = make_scene(f"restarted_{mode}", False)
    with stepping():
        runner = barrier_of(scene)
        runner.go_to(Statement(STAGE))
        runner.advance(restarting(scene, mode))
        result = runner.finish()
    assert not result.success
    scene.land()
    scene.barrier()
    scene.check()
    assert scene.wrong_events() == []


@pytest.mark.every_profile
def test_a_commit_that_was_not_flushed_when_the_server_crashed_is_not_shown(
    project: Project, postgresql_programs: Path
) -> None:
    """The staged range contains a commit that the crash has undone, so the run must refuse it.

    After the crash, other changes get the WAL positions of the lost commit.
    """
    with logical_postgresql(postgresql_programs, {"wal_writer_delay": "10s"}) as database:
        scene = after_one_barrier(project, database, "unflushed")

        def lose(project: Project, sql: str, proceed: Proceed) -> None:
            with database.connect(options="-c synchronous_commit=off") as connection:
                connection.execute(f"update {scene.name} set amount = 7777")
            proceed()
            database.stop("immediate")
            database.start()
            rows = f"select count(*) from {scene.name} where amount = 7777"
            assert database.value(rows) == 0
            for _ in range(2):
                database.sql("select pg_switch_wal()")
            database.sql(f"update {scene.name} set label = 'after' where id = 2")

        with stepping():
            runner = barrier_of(scene)
            runner.go_to(Statement(STAGE))
            runner.advance(lose)
            result = runner.finish()
        assert "has recovered from a crash since the range was read" in result.error
        scene.catch_up()
        is_right(scene)
        scene.end()


def restarting(scene: LiveScene, mode: str) -> Callable[[Project, str, Proceed], None]:
    def act(project: Project, sql: str, proceed: Proceed) -> None:
        with contextlib.ExitStack() as stack:
            blocking = stack.enter_context(scene.database.connect())
            stack.callback(blocking.close)
            blocking.autocommit = False
            blocking.execute(f"lock table {scene.name} in access exclusive mode")
            restarted = threading.Thread(target=restart_once_it_waits, args=(scene, mode))
            restarted.start()
            try:
                proceed()
            finally:
                restarted.join()

    return act


def restart_once_it_waits(scene: LiveScene, mode: str) -> None:
    reads = (
        "select count(*) from pg_stat_activity where wait_event_type = 'Lock'"
        " and application_name like 'PostgreSQL JDBC%'"
    )
    with scene.database.connect() as connection:
        for _ in range(200):
            if (found := connection.execute(reads).fetchone()) and found[0]:
                break
            time.sleep(0.1)
    scene.database.stop(mode)
    scene.database.start()


@pytest.fixture(scope="module")
def forgetful(postgresql_programs: Path) -> Iterator[Database]:
    """Run a PostgreSQL server that soon removes the WAL of any slot that is not read."""
    with logical_postgresql(postgresql_programs, {"max_slot_wal_keep_size": "64MB"}) as started:
        yield started


def of_slot(scene: LiveScene, slot: str, column: str) -> Any:
    query = f"select {column} from pg_replication_slots where slot_name = %s"
    return scene.database.value(query, [slot])


def lose_slot(scene: LiveScene) -> None:
    """Let the PostgreSQL server remove WAL that the slot of `land_changes` still needs.

    The slot of `Truth` must not lose WAL. So new WAL is written only after this slot has advanced
    past all earlier WAL.
    """
    truth = scene.upstream.truth
    for _ in range(40):
        position = scene.database.value("select pg_switch_wal()::text")
        while True:
            scene.database.sql("checkpoint")  # it writes the open transactions, so slots advance
            if of_slot(scene, scene.changes, "wal_status") == "lost":
                return
            truth.read()
            if of_slot(scene, truth.slot, f"restart_lsn >= '{position}'"):
                break
    raise AssertionError(f"the slot is {of_slot(scene, scene.changes, 'wal_status')}")


def test_after_a_slot_was_lost_the_whole_table_is_compared(
    project: Project, forgetful: Database
) -> None:
    scene = LiveScene(
        project, forgetful, orders(1500, "lost"), rows=FEW, by_hand=False, catalog="pg_forgetful"
    )
    scene.write(backfill_rate_limit=FEW // 4)
    with scene.writers(3, 15):
        scene.land()
        scene.barrier()
        lose_slot(scene)
        landed = project.dbt(*scene.landing)
        said = scene.barrier().output

    assert "slot lost_changes: PostgreSQL has removed WAL that it had not sent yet" in landed.output
    assert "were lost with the slot lost_changes: the readers" in landed.output
    gaps = f"select count(*) from {project.table(scene.changes)} where _op = 'g'"
    assert project.value(gaps) == 1
    assert of_slot(scene, scene.changes, "wal_status") == "reserved"
    assert "re-anchored: the upstream was emptied, or events of it may be missing" in said
    scene.check()
    scene.end()


def after_one_barrier(project: Project, database: Database, name: str) -> LiveScene:
    """Return a `LiveScene` after one barrier. No client writes to its PostgreSQL table.

    It has its own Spark catalog, and `land_changes` lands its changes.
    """
    catalog = f"pg_{name}"
    scene = LiveScene(project, database, orders(500, name), rows=80, by_hand=False, catalog=catalog)
    scene.write(backfill_rate_limit=20)
    scene.land()
    scene.barrier()
    return scene


def test_after_a_failover_the_whole_table_is_compared(
    project: Project, forgetful: Database
) -> None:
    """The promoted standby may lack changes that the previous server's slot has sent."""
    scene = after_one_barrier(project, forgetful, "failed_over")
    before = scene.database.value("select timeline_id from pg_control_checkpoint()")
    scene.database.become_standby()
    for command in (("run", "--select", scene.mv.name), scene.landing):
        refused = project.fail(*command)
        assert "a standby" in refused.output + refused.error
    scene.database.promote()
    with scene.writers(1, 15):
        landed = project.dbt(*scene.landing)
        said = scene.run().output
        scene.land()
        said += scene.run().output
    assert (
        f"the timeline of the WAL is {before + 1}, but was {before}: each model that reads"
        in landed.output
    )
    assert "re-anchored: the upstream was emptied, or events of it may be missing" in said
    scene.check()
    scene.end()


def test_a_database_that_was_put_back_is_refused_or_compared(
    project: Project, postgresql_programs: Path
) -> None:
    """The restored database has the old position of the replication slot.

    `Truth` does not know the history of the restored database. So the test compares the MV with the
    table.
    """
    with logical_postgresql(postgresql_programs) as database:
        scene = after_one_barrier(project, database, "put_back")
        saved = database.save()
        database.sql(f"update {scene.name} set amount = amount + 1")
        scene.land()
        scene.barrier()
        shown = project.rows(f"select * from {scene.mv.table}")
        database.put_back(saved)
        refused = "so the database was replaced or restored"
        for command in (scene.landing, ("run", "--select", scene.mv.name)):
            failed = project.fail(*command)
            assert refused in failed.output + failed.error
        assert project.rows(f"select * from {scene.mv.table}") == shown

        database.sql(f"update {scene.name} set label = 'of another history'")
        for _ in range(3):
            database.sql("select pg_switch_wal()")
        landed = project.dbt(*scene.landing).output
        assert "than have landed, so the database was restored: the readers" in landed
        scene.catch_up()
        scene.catch_up()
        is_right(scene)

        saved = database.save()
        database.sql(f"update {scene.name} set amount = amount + 1")
        scene.land()
        scene.barrier()
        database.put_back(saved)
        told = project.fail(*scene.landing)
        refused = "landing creates it again, and each model that reads it re-anchors"
        assert refused in told.output + told.error
        project.sql(f"drop table {project.table(scene.changes)}")
        scene.land()
        for _ in range(3):
            database.sql("select pg_switch_wal()")
        scene.land()
        assert "re-anchored: its change table was created again" in scene.run().output
        is_right(scene)
        scene.end()


def test_a_database_that_was_put_back_without_its_slot_is_compared(
    project: Project, postgresql_programs: Path
) -> None:
    """The database is restored without its replication slot, like by pg_basebackup.

    A refused landing must not create a slot. The events of such a slot would begin after the landed
    position. They would not contain what the restore has undone.
    """
    with logical_postgresql(postgresql_programs) as database:
        scene = after_one_barrier(project, database, "slotless")
        scene.catch_up()
        scene.catch_up()
        saved = database.save()
        database.sql(f"update {scene.name} set amount = 5 where amount > 0")
        for _ in range(3):
            something_else_is_written(database)
        scene.land()
        scene.run()
        is_right(scene)

        database.put_back(saved)
        database.sql(f"select pg_drop_replication_slot('{scene.changes}')")
        something_else_is_written(database)
        refused = project.fail(*scene.landing)
        assert "or restored" in refused.output + refused.error
        for _ in range(4):
            something_else_is_written(database)
        scene.land()
        scene.run()
        is_right(scene)
        scene.end()


def something_else_is_written(database: Database) -> None:
    """Write to another table and begin the next segment of the WAL."""
    database.sql("create table if not exists elsewhere (id int)")
    database.sql("insert into elsewhere values (1)")
    database.sql("select pg_switch_wal()")


def is_right(scene: LiveScene) -> None:
    """Assert that the MV equals its query on the current PostgreSQL table."""
    rows = f"select amount * 2, id, label from {scene.upstream.table} where amount > 0"
    shown = scene.project.rows(f"select * from {scene.mv.table}")
    assert shown == scene.project.rows(rows)


def test_an_event_of_the_same_id_of_long_ago_is_of_no_transaction_that_is_open(
    project: Project, postgresql_programs: Path
) -> None:
    with logical_postgresql(postgresql_programs) as database:
        database.begin_epoch(1)
        scene = after_one_barrier(project, database, "turned")
        with database.connect(autocommit=False) as connection:
            [xid] = connection.execute("select pg_current_xact_id()::text::bigint").fetchone() or [
                0
            ]
            assert xid > 2**32
            project.sql(
                f"insert into {project.table(scene.changes)}"
                " (id, amount, label, _op, _lsn, _seq, _xid)"
                f" select id, 100, 'stale', 'u', 5, id, {xid - 2**32} from range(500)"
            )
            scene.barrier()
            connection.rollback()
        scene.check()
        database.sql(f"update {scene.name} set label = 'of today'")
        scene.land()
        told = f"select min(_xid) from {project.table(scene.changes)} where label = 'of today'"
        assert project.value(told) > 2**32
        scene.catch_up()
        is_right(scene)
        scene.end()


def test_a_driver_that_fetches_all_rows_at_once(project: Project, database: Database) -> None:
    scene = LiveScene(project, database, orders(500, "at_once"), rows=300, catalog="pg_at_once")
    project.configure({"spark.sql.catalog.pg_at_once.fetchsize": "0"})
    scene.write(backfill_rate_limit=100)
    with scene.writers(2, 15):
        for _ in range(2):
            scene.land()
            scene.barrier()
    scene.check()
    scene.end()


@contextlib.contextmanager
def no_connections(database: Database, role: str) -> Iterator[None]:
    """Let the PostgreSQL server refuse new connections of this role until the block ends."""
    database.sql(f"alter role {role} connection limit 0")
    try:
        yield
    finally:
        database.sql(f"alter role {role} connection limit -1")


def test_what_got_no_connection_is_gone_on_with(project: Project, database: Database) -> None:
    """A run or a landing that gets no connection fails.

    The next run or landing completes its work.
    """
    database.sql("create role limited login replication")
    database.sql("alter default privileges grant select on tables to limited")
    table = orders(1500, "limited")
    scene = LiveScene(
        project, database, table, rows=FEW, by_hand=False, catalog="pg_limited", user="limited"
    )
    scene.write(backfill_rate_limit=FEW // 4)
    with scene.writers(3, 15):
        scene.land()
        scene.barrier()
        for step in (STAGE, WAIT):
            with stepping():
                runner = barrier_of(scene)
                runner.go_to(Statement(step))
                with no_connections(database, "limited"):
                    runner.advance()
                    failed = runner.finish()
            assert 'too many connections for role "limited"' in failed.error
            scene.land()
            scene.barrier()
        with no_connections(database, "limited"):
            landing = project.fail(*scene.landing)
            assert 'too many connections for role "limited"' in landing.output + landing.error
        scene.land()
        scene.barrier()
    scene.check()
    assert scene.wrong_events() == []
    scene.end()
