"""A real Debezium is killed while other programs write to its PostgreSQL table.

`make test-debezium` starts Debezium and runs these tests. Without it, pytest skips them.
"""

from __future__ import annotations

import json
import os
import random
import subprocess
import time
from bisect import bisect_left
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any, ClassVar

import pytest

from exactness.landing import Landing
from exactness.live import LiveScene
from support.debezium import Debezium, PsqlDatabase
from support.feeds import UPSTREAM, Feeds
from support.postgres import Database, postgresql
from support.profiles import any_connection
from support.project import MakeProject, Project
from support.writers import orders

pytestmark = [
    any_connection,
    pytest.mark.skipif(
        "DBT_BACKFILL_DEBEZIUM" not in os.environ, reason="make test-debezium runs it"
    ),
]

TABLES = """
create table heartbeat (id int primary key, at timestamptz);
insert into heartbeat values (1, now());
create table orders (
    id bigint primary key, status text not null, small smallint, amount numeric(10, 2),
    price real, born date, at timestamptz, note text, body bytea
);
alter table orders alter note set storage external, alter body set storage external;
insert into orders (id, status, note)
select i, 'before', repeat('n', 2500) from generate_series(1, 20) as i;
"""
# Return the rows of the table and the current WAL position. The lock waits until all open
# transactions have ended.
TRUTH = """
begin;
lock table orders in share mode;
select json_build_object(
    'position', (pg_current_wal_insert_lsn() - '0/0')::bigint,
    'rows', (select coalesce(json_agg(json_build_array(
        id, status, small, amount::text, price, born::text,
        to_char(at at time zone 'utc', 'YYYY-MM-DD HH24:MI:SS.US'), md5(note), md5(body)
    ) order by id), '[]') from orders)
);
commit;
"""


def change(randomly: random.Random) -> str:
    """Return a random statement that changes the table `orders`."""
    key, other = randomly.randint(1, 40), randomly.randint(1, 40)
    word = f"'{randomly.randbytes(3).hex()}'"
    return randomly.choice(
        [
            f"insert into orders values ({key}, {word}, {key}, {other}.25, {other}.5, '2024-02-29',"
            f" now(), repeat({word}, 500), decode(repeat(md5({word}), 200), 'hex'))"
            " on conflict (id) do update set status = excluded.status, at = excluded.at",
            f"update orders set status = {word} where id between {key} and {key + 3}",
            f"update orders set note = repeat({word}, 600) where id = {key}",
            f"update orders set id = {other} where id = {key}",
            f"delete from orders where id = {key}",
            f"savepoint s; update orders set status = {word} where id = {key}; rollback to s",
        ]
    )


def writes(seed: int, transactions: int) -> str:
    randomly, script = random.Random(seed), []
    for number in range(transactions):
        changes = [change(randomly) for _ in range(randomly.randint(1, 5))]
        if seed == 1 and number % 40 == 39:
            changes.append("truncate orders")
        end = "rollback" if randomly.random() < 0.1 else "commit"
        script.append(f"begin; {'; '.join(changes)}; {end}; select pg_sleep(0.05);")
    return "\n".join(script)


BIG = (
    "begin; insert into orders (id, status) select 1000 + i, 'big'"
    " from generate_series(1, 30000) as i on conflict do nothing;"
    " delete from orders where id > 1010; commit;"
)


@pytest.fixture(scope="module")
def debezium(
    postgresql_programs: Path, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Debezium]:
    with postgresql(postgresql_programs) as url:
        database = PsqlDatabase(postgresql_programs, url)
        database.decode()
        database.sql(TABLES)
        database.sql("select pg_create_logical_replication_slot('witness', 'test_decoding')")
        debezium = Debezium(tmp_path_factory.mktemp("debezium"), database, ["public.orders"])
        try:
            debezium.start()
            yield debezium
        finally:
            debezium.kill()


@pytest.fixture(scope="module")
def truths(debezium: Debezium) -> list[dict[str, Any]]:
    """Return the rows of the table at several moments while other sessions change the table.

    Debezium is killed inside large transactions.
    """
    database = debezium.database

    def truth() -> dict[str, Any]:
        told: dict[str, Any] = json.loads(database.sql(TRUTH))
        return told

    while not debezium.commits():
        time.sleep(0.2)
    truths = [truth()]
    quiet = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL, "text": True}
    writers = []
    for seed in (1, 2, 3, 4):
        writer = subprocess.Popen(database.command(), stdin=subprocess.PIPE, **quiet)  # type: ignore[call-overload]
        writer.stdin.write(writes(seed, 120))
        writer.stdin.close()
        writers.append(writer)
    kills = 0
    while kills < 3 or any(writer.poll() is None for writer in writers):
        time.sleep(0.3)
        truths.append(truth())
        if len(truths) % 5 == 2 and kills < 3:
            told = debezium.bytes_told()
            database.sql(BIG)
            # Wait until Debezium has written a part of the 30,000 events, not only heartbeats.
            # Debezium writes batches of 2,048 events.
            while debezium.bytes_told() < told + (kills + 1) * 2_000_000:
                time.sleep(0.005)
            debezium.kill()
            debezium.start()
            kills += 1
    truths.append(truth())
    database.sql("update heartbeat set at = now()")
    debezium.wait(int(database.sql("select (pg_current_wal_insert_lsn() - '0/0')::bigint")))
    debezium.kill()
    return truths


def test_real_events_tell_every_state_of_the_table(
    shared_project: MakeProject, debezium: Debezium, truths: list[dict[str, Any]], tmp_path: Path
) -> None:
    landed = tmp_path / "events.jsonl"
    landed.write_text("\n".join(json.dumps(event) for event in debezium.events()))
    feeds = Feeds(shared_project("debezium"))
    feeds.make_events("events", [landed])
    feed = feeds.check(feeds.feed("events", "debezium"), UPSTREAM)

    assert len(truths) > 12
    assert feeds.differing(feed, truths) == []
    assert feeds.landed(feed) == debezium.commits()[-1]


def test_the_position_of_an_event_stands_for_the_commit_of_its_transaction(
    debezium: Debezium, truths: list[dict[str, Any]]
) -> None:
    """The events up to a position are exactly those of the transactions committed up to that
    position.
    """
    committed = debezium.database.sql(
        "select xid, (lsn - '0/0')::bigint from pg_logical_slot_peek_changes('witness', null, null)"
        " where data like 'COMMIT%'"
    )
    commit_of = {int(xid): int(at) for xid, at in (x.split("|") for x in committed.splitlines())}
    versions = debezium.commits()
    events = [event for event in debezium.events() if event.get("op") not in (None, "r")]
    misplaced = set()
    for event in events:
        before, _ = json.loads(event["source"]["sequence"])
        commit, xid = commit_of[event["source"]["txId"]], event["source"]["txId"]
        if bisect_left(versions, int(before or 0) + 1) != bisect_left(versions, commit):
            misplaced.add(xid)

    assert misplaced == set()
    assert len(set(commit_of) & {event["source"]["txId"] for event in events}) > 300
    # Debezium was killed inside transactions, so it has written some events twice.
    told = {(e["source"]["lsn"], e["op"], str(e["after"])) for e in events}
    assert len(events) > len(told) > 100_000


@dataclass
class EventLanding(Landing):
    """Append to the change table the events that Debezium has written since the last call.

    The events include heartbeats.
    """

    feeds: Feeds = field(kw_only=True)
    debezium: Debezium = field(kw_only=True)
    told: int = 0

    own_columns: ClassVar[Mapping[str, str]] = {}
    options: ClassVar[Mapping[str, Any]] = {"format": "debezium"}

    def land(self) -> None:
        """Append at least the events of all transactions that are already committed."""
        self.debezium.wait(self.truth.read())
        events = list(self.debezium.events())
        file = self.debezium.directory / f"{self.told}.jsonl"
        file.write_text("\n".join(json.dumps(event) for event in events[self.told :]))
        if not self.told:
            self.feeds.make_events(f"{self.name}_changes", [], self.schema.columns)
        self.feeds.append_events(f"{self.name}_changes", file, self.schema.columns)
        self.told = len(events)


LARGE = (-1, 10_000)
"""Keys of two rows that no writer changes.

Their large values are stored outside the row. One key is less than all keys of the writers; the
other key is greater.
"""


@pytest.mark.parametrize("identity", ["default", "full"])
def test_an_mv_of_a_live_table_is_exact_at_each_barrier(
    project: Project, database: Database, tmp_path: Path, identity: str
) -> None:
    """Every version of the MV equals the rows that PostgreSQL had at the MV's position.

    Meanwhile other sessions write, Debezium is killed, and the table is emptied. Some updates do
    not change the large (TOAST) values of a row.
    """
    name = f"debezium_{identity}"
    debezium = Debezium(
        tmp_path,
        PsqlDatabase(database.programs, database.url),
        [f"public.{name}"],
        {"slot.name": f"{name}_changes", "publication.name": name},
    )
    scene = LiveScene(
        project,
        database,
        orders(600, name),
        query="everything",
        rows=500,
        landing_by_hand=partial(EventLanding, feeds=Feeds(project), debezium=debezium),
    )
    scene.upstream.truth.keys = {name: ("id",)}
    fill = f"insert into {name} select id, 1, repeat('l', 3000) from unnest(%s::int[]) as id"
    database.sql("create table if not exists heartbeat (id int primary key, at timestamptz)")
    database.sql("insert into heartbeat values (1, now()) on conflict do nothing")
    database.sql(f"alter table {name} alter label set storage external")
    database.sql(f"alter table {name} replica identity {identity}")
    database.sql(fill, [list(LARGE)])
    scene.write(backfill_rate_limit=120)
    try:
        debezium.start()
        with scene.writers(3, 15):
            scene.land()
            scene.barrier()
            database.sql(f"update {name} set amount = amount + 1 where id in {LARGE}")
            scene.land()
            scene.barrier()
            database.sql(f"update {name} set id = id - 1 where id in {LARGE}")
            scene.barrier()
            database.transaction(
                f"insert into {name} select 1000 + i, i, 'a' from generate_series(1, 8000) as i",
                f"delete from {name} where id between 1010 and 9900",
            )
            time.sleep(0.2)
            debezium.kill()
            debezium.start()
            scene.barrier()
            database.transaction(f"truncate {name}", f"insert into {name} values (5, 5, 'after')")
            scene.barrier()
            database.sql(fill, [list(LARGE)])
            scene.barrier()
        scene.write()
        scene.catch_up()
        checked = scene.check()
        scene.mv.check_complete()
    finally:
        debezium.kill()
        scene.end()

    assert checked.barriers >= 4
    reasons = project.rows(
        f"select reason from {scene.mv.table}__barriers where reason is not null"
    )
    untold = any("do not contain large values" in reason for (reason,) in reasons)
    assert untold == (identity == "default")
    assert any(
        "was emptied" in reason or "cannot be applied to single rows" in reason
        for (reason,) in reasons
    )
