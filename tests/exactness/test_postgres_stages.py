"""Tests of the rows that a barrier stages from PostgreSQL, and of the events that correct them.

No client writes during a barrier. So each test decides which transactions are open, which of their
changes have landed, and which other events the change table has.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any, ClassVar

import pytest

from exactness.landing import LSN, OP, SEQ, XID, DeclaredLanding
from exactness.live import STAGE, WAIT, LiveScene
from exactness.runners import Action, Runner, Statement, stepping
from support.postgres import Database
from support.profiles import at_home_on_iceberg
from support.project import Proceed, Project
from support.writers import orders

pytestmark = [
    at_home_on_iceberg,
    pytest.mark.profiles("session-delta", "session-iceberg", reason="all runs share one session"),
]

MakeScene = Callable[..., LiveScene]
ROWS = 40


class UntoldLanding(DeclaredLanding):
    """Writes a change table whose events do not have the id of their transaction."""

    options: ClassVar[Mapping[str, Any]] = {
        name: of for name, of in DeclaredLanding.options.items() if name != "xid"
    }

    def written(self, event: Mapping[str, Any]) -> Mapping[str, Any]:
        return {**super().written(event), "transaction": None}


def scene_of(
    make_scene: MakeScene, project: Project, name: str, landing: Any = None, **config: Any
) -> LiveScene:
    """Return a `LiveScene` whose changes have all landed and whose model has not been run."""
    options = {"landing_by_hand": landing} if landing else {}
    scene = make_scene(project, orders(90, name), rows=ROWS, **options)
    scene.write(**config)
    scene.land()
    return scene


@contextmanager
def an_open_transaction(database: Database) -> Iterator[int]:
    """Keep a PostgreSQL transaction open until the block ends, and yield its id.

    If the change table has no transaction ids, a run cannot know whether an event belongs to this
    transaction.
    """
    with database.connect(autocommit=False) as connection:
        yield int(connection.execute("select pg_current_xact_id()::text").fetchone()[0])
        connection.rollback()


def append(scene: LiveScene, *events: dict[str, Any]) -> None:
    """Add events to the change table that did not happen in the PostgreSQL table."""
    scene.project.sql(f"insert into {scene.hand.table} {scene.hand._select(events)}")


def check_against_the_table(scene: LiveScene) -> None:
    """Compare the MV with the current PostgreSQL table.

    `Truth` does not know the rows of a table that was dropped and created again.
    """
    rows = f"select id, amount * 2, label from {scene.upstream.table} where amount > 0"
    shown = f"select id_of_row, doubled, label from {scene.mv.table}"
    assert scene.project.rows(shown) == scene.project.rows(rows)


@pytest.mark.every_profile
def test_what_events_tell_of_before_a_truncate_or_a_gap_does_not_come_back(
    project: Project, make_scene: MakeScene, database: Database
) -> None:
    """The events have no transaction id, and a transaction is open while rows are staged."""
    scene = scene_of(make_scene, project, "emptied", UntoldLanding)
    scene.barrier()
    with an_open_transaction(database):
        database.transaction(
            f"insert into {scene.name} values (1000, 3, 'gone')",
            f"truncate {scene.name}",
            f"insert into {scene.name} values (1001, 3, 'lost'), (1002, 3, 'kept')",
        )
        scene.land()
        scene.barrier()
        assert scene.mv.mv_rows().total() == 2

        database.sql(f"delete from {scene.name} where id = 1001")
        lost = scene.upstream.truth.read()
        scene.hand.landed = lost
        append(scene, {OP: "g", LSN: lost})
        scene.land()
        scene.barrier()
        assert scene.mv.mv_rows().total() == 1
        scene.barrier("--full-refresh")
    scene.check()
    scene.mv.check_complete()


def test_a_table_that_was_made_anew_is_another_one(
    project: Project, make_scene: MakeScene, database: Database
) -> None:
    """Rows that were staged from the dropped table are not used.

    The events have no transaction id. So a run cannot know when an event of the dropped table
    happened.
    """
    scene = scene_of(make_scene, project, "anew", UntoldLanding)
    database.sql(f"insert into {scene.name} values (500, 3, 'gone')")
    assert "WAITS" in scene.run().message(scene.mv.name)
    make_anew(scene)
    scene.land()
    scene.barrier()
    check_against_the_table(scene)

    database.sql(f"insert into {scene.name} values (500, 3, 'gone')")
    with an_open_transaction(database):
        make_anew(scene)
        scene.land()
        refused = project.fail("--select", scene.mv.name)
        assert "its upstream was replaced by another table since the last barrier" in refused.error
        append(scene, {OP: "g", LSN: scene.hand.landed})
        scene.land()
        scene.barrier()
    check_against_the_table(scene)


def make_anew(scene: LiveScene) -> None:
    scene.database.transaction(f"drop table {scene.name}", scene.table.create)
    scene.database.sql(f"insert into {scene.name} values (1, 1, 'anew'), (2, 2, 'anew')")


def test_ids_that_were_given_long_ago_or_in_another_history_are_of_no_transaction_that_is_open(
    project: Project, make_scene: MakeScene, database: Database
) -> None:
    scene = scene_of(make_scene, project, "ids", backfill_rate_limit=15)
    key = database.value(f"select min(id) from {scene.name} where amount > 0")
    with an_open_transaction(database) as xid:
        stale = {"id": key, "amount": 100, "label": "stale"}
        far_ahead = {XID: xid + 2**20, LSN: 5}
        append(scene, {**stale, **far_ahead, OP: "u", SEQ: 1}, {**far_ahead, OP: "t", SEQ: 2})
        scene.barrier()

        same = {XID: xid, LSN: 6}
        append(
            scene,
            *({**stale, **same, "id": number, OP: "u", SEQ: 1} for number in range(90)),
            {**same, OP: "t", SEQ: 2},
            {OP: "g", LSN: 7},
        )
        scene.barrier()
    scene.check()


def test_a_commit_that_is_held_back_is_laid_over_though_its_id_was_not_listed(
    project: Project, make_scene: MakeScene, database: Database
) -> None:
    """The commit waits for a standby, and its transaction has the highest id of the server.

    A snapshot of PostgreSQL lists open transactions only up to the highest ended transaction. So
    the snapshot does not list this transaction.
    """
    scene = scene_of(make_scene, project, "held")
    held = threading.Thread(
        target=database.sql, args=(f"insert into {scene.name} values (500, 3, 'held')",)
    )
    with database.settings(synchronous_standby_names="nobody"):
        held.start()
        wait_until(
            database, "select count(*) = 1 from pg_stat_activity where wait_event = 'SyncRep'"
        )
        assert database.value("select pg_current_snapshot()::text ~ ':$'")
        scene.land()
        scene.barrier()
        assert database.value(f"select count(*) from {scene.name} where id = 500") == 0
    held.join()
    scene.check()
    assert project.value(f"select count(*) from {scene.mv.table} where id_of_row = 500") == 1


def wait_until(database: Database, condition: str) -> None:
    for _ in range(200):
        if database.value(condition):
            return
        time.sleep(0.05)
    raise AssertionError(f"this never became true: {condition}")


def test_rows_that_another_run_replaced_are_not_taken_for_a_range_without_any(
    project: Project, make_scene: MakeScene
) -> None:
    """Another run replaces the staged rows before they are counted, afterwards, or after the plan.

    In the last case the table of staged rows is created again, as for a model with other columns.
    On Delta the new table has versions with the same numbers.
    """
    scene = scene_of(make_scene, project, "replaced", backfill_rate_limit=12)
    staged = f"{scene.mv.table}__staged"
    another = f"select * except (__bf_stage), 'another' as __bf_stage from {staged}"
    replace = f"insert overwrite table {staged} {another}"

    def replaced_within(project: Project, sql: str, proceed: Proceed) -> None:
        counted = "set __bf_reached ="
        assert sql.count(counted) == 1
        proceed(sql.replace(counted, f"{replace}; {counted}"))

    def replaced_after(project: Project, sql: str, proceed: Proceed) -> None:
        proceed()
        project.sql(replace)

    def made_anew_after(project: Project, sql: str, proceed: Proceed) -> None:
        proceed()
        kind = f"using {project.file_format} tblproperties ('dbt_backfill.format' = '2')"
        project.sql(f"create table {staged}_of_before {kind} as {another}")
        project.sql(f"drop table {staged}")
        project.sql(f"create table {staged} {kind} as select * from {staged}_of_before")
        for _ in range(7):
            project.sql(replace)

    meanwhile = "another run staged rows at the same time as this run"
    by_number = project.file_format == "delta"
    gone = (
        "the rows that were staged for a barrier are gone" if by_number else "Cannot find snapshot"
    )
    moments: list[tuple[str, Action, str]] = [
        (STAGE, replaced_within, meanwhile),
        (STAGE, replaced_after, meanwhile),
        ("plan the barrier", made_anew_after, gone),
    ]
    for step, action, error in moments:
        with stepping():
            runner = Runner(project, scene.mv.name, scene.name)
            while runner.next != Statement(step):
                if runner.next == Statement(WAIT):
                    scene.land()
                runner.advance()
            runner.advance(action)
            assert error in runner.finish().error
    scene.database.sql(f"update {scene.name} set amount = 3")
    scene.land()
    scene.barrier()
    scene.check()


@pytest.mark.every_profile
def test_a_table_of_others_that_stands_where_rows_are_staged_is_neither_emptied_nor_dropped(
    project: Project, make_scene: MakeScene
) -> None:
    """Another writer's table exists before the MV, or it is created after a range was staged."""
    scene = scene_of(make_scene, project, "theirs")
    staged = f"{scene.mv.table}__staged"
    make = f"create table {staged} using {project.file_format} as select 7 as id"
    project.sql(make)
    refused = project.fail("--select", scene.mv.name)
    assert f"{staged} has the name of its staged rows, but was not created" in refused.error
    assert project.rows(f"select * from {staged}") == [(7,)]
    assert not project.exists(scene.mv.name)

    project.sql(f"drop table {staged}")
    scene.barrier()
    assert not project.exists(f"{scene.mv.name}__staged")

    project.sql(make)
    scene.database.sql(f"update {scene.name} set amount = 3")
    scene.land()
    scene.barrier()
    assert project.rows(f"select * from {staged}") == [(7,)]
    scene.check()
    scene.mv.check_complete()


def test_a_refresh_beside_the_mv_in_use_leaves_no_staged_rows(
    project: Project, make_scene: MakeScene
) -> None:
    """The plan that replaces the MV contains the staged rows of the next generation."""
    scene = scene_of(make_scene, project, "beside")
    scene.barrier()
    scene.write(full_refresh_mode="beside")
    scene.database.sql(f"update {scene.name} set amount = 3")
    scene.land()
    result = scene.barrier("--full-refresh")
    assert "next generation put in place" in result.output
    check_against_the_table(scene)
    names = ("__staged", "__next", "__next__staged")
    assert [name for name in names if project.exists(scene.mv.name + name)] == []
