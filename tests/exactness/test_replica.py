"""Barriers read their ranges from a copy of the upstream, the table `<mv>__replica`.

The random histories and the fault matrix also use replicas. Any other test file whose upstream is a
Delta or Iceberg table can be executed with a replica:

DBT_BACKFILL_REPLICATE=always pytest tests/functional/test_upstream_surprises.py --all
"""

from __future__ import annotations

import bisect
import json
from collections.abc import Callable
from typing import Any

import pytest

from exactness.follow import Follower, Upstream, row
from exactness.oracle import rows_by_key
from exactness.queries import UPSTREAM, positive
from exactness.upstream import Schema
from support.checks import assert_no_java, model, source
from support.formats import Iceberg, properties_clause
from support.profiles import at_home_on_iceberg
from support.project import Proceed, Project, RunResult, crash_before

pytestmark = at_home_on_iceberg

SCHEMA = Schema({"id": "int", "amount": "int", "label": "string"}, key=("id",))
RANGE = 6
COPIED = ": copied "
LET_GO, DROP = "release the replica", "drop the replica"


class Scene:
    """An upstream of 60 rows, and an MV.

    Each barrier reads six rows from a copy of the upstream.
    """

    def __init__(self, project: Project, **config: Any) -> None:
        self.project = project
        rows = [row(SCHEMA, 10 * n, n, f"r{n}") for n in range(1, 61)]
        self.upstream = Upstream.create(project, "up", SCHEMA, rows_by_key(rows, SCHEMA.key))
        self.mv = Follower(project, self.upstream, "mv", positive(SCHEMA), vnode_count=4)
        self.mv.replica = "always"
        self.config = {"backfill_rate_limit": RANGE, **config}
        self.write()

    def write(self, **config: Any) -> None:
        self.mv.write(**{**self.config, **config})

    def run(self, *arguments: str) -> RunResult:
        return self.project.run(*arguments)

    @property
    def ids(self) -> list[list[int]]:
        """Return two lists: the ids up to the furthest position, and all other ids."""
        reached = [p.pk[0] for p in self.mv.progress().positions.values() if p.pk is not None]
        all_ids = sorted(number for (number,) in self.upstream.rows)
        last = bisect.bisect_right(all_ids, max(reached))
        return [all_ids[:last], all_ids[last:]]

    def free(self, above: int) -> list[int]:
        taken = self.upstream.rows
        return [n for n in range(above, above + 40) if (n,) not in taken][:3]

    def change(self, shift: int = 0) -> None:
        """Insert, update, delete and move rows, in the part that was read and in the other part."""
        commits = self.upstream.commits
        for ids in self.ids:
            first, second, third, *_ = ids[shift:]
            one, another, moved = self.free(first)
            new = [row(SCHEMA, one, 7, "new"), row(SCHEMA, another, -7, "hidden")]
            self.upstream.commit(commits.insert(new))
            rows = self.upstream.rows
            self.upstream.commit(commits.update(rows, [(first,)], {"amount": 99}))
            self.upstream.commit(commits.delete(self.upstream.rows, [(second,)]))
            rows = self.upstream.rows
            self.upstream.commit(commits.rekey(rows, {(third,): (moved,)}))

    def end(self) -> None:
        """Complete and check the MV; the replica must then be dropped."""
        self.finish()
        self.mv.check_complete()
        self.mv.check()

    def finish(self) -> None:
        self.write(barriers_per_run="all", backfill_rate_limit=None)
        self.run()
        assert not self.project.exists("mv__replica")

    def check_now(self, *tables: str) -> None:
        """Compare the MV with its query in SQL, if `Upstream` does not know the upstream's rows.

        :param tables: the MV must have the rows of the query on one of these tables; by default on
            the upstream
        """
        [position] = set(self.mv.progress().positions.values())
        read = "true" if position.finished else f"id <= {position.pk[0]}"  # type: ignore[index]
        wanted = [
            self.mv.query.sql.replace(UPSTREAM, f"(select * from {{schema}}.{table} where {read})")
            for table in tables or ("up",)
        ]
        assert self.project.rows("select * from {schema}.mv") in map(self.project.rows, wanted)


@pytest.fixture
def make(project: Project) -> Callable[..., Scene]:
    return lambda **config: Scene(project, **config)


def replace(scene: Scene) -> None:
    """Replace the upstream by a table with other rows, of the same keys and of other keys."""
    project, table = scene.project, scene.upstream.table
    clauses = f"using {project.file_format} {properties_clause(project.format.followable)}"
    rows = f"select id + id % 3 as id, amount + 1 as amount, 'replaced' as label from {table}"
    project.sql(f"create or replace table {table} {clauses} as {rows}")


def recreate(scene: Scene) -> None:
    project, table = scene.project, scene.upstream.table
    project.sql(f"drop table {table}")
    project.create_table("up", ", ".join(f"{name} {kind}" for name, kind in SCHEMA.columns.items()))
    project.sql(f"insert into {table} select id, id, 'new' from range(5, 600, 5)")


def clean_up(scene: Scene) -> None:
    """Rewrite rows and delete the files of old versions."""
    project, table = scene.project, scene.upstream.table
    project.sql(f"update {table} set amount = amount + 1 where id % 20 = 0")
    project.sql(f"delete from {table} where id % 30 = 0")
    project.clean_up("up")


def restore(scene: Scene) -> None:
    project = scene.project
    version = project.current_version("up")
    project.sql(f"delete from {scene.upstream.table} where id % 20 = 0")
    project.restore("up", version)


SURPRISES: dict[str, Callable[[Scene], None]] = {
    each.__name__: each for each in (replace, recreate, clean_up, restore)
}
# For each moment: the comment of the statement before which a function of SURPRISES is called.
MOMENTS = {
    "made": "copy the rows that are ahead",
    "planned": "plan the barrier",
    "read": "merge the ",
}


def of_the_upstream(result: RunResult, project: Project) -> list[str]:
    """Return the MERGEs of a range that read the upstream itself."""
    name = f"{project.table('up')} version as of"
    return [s for s in result.statements if "merge into" in s.lower() and name in s]


@pytest.mark.every_profile
@pytest.mark.parametrize("mode", ["arrangement", "snapshot"])
def test_a_range_is_the_copy_and_what_changed_since(
    make: Callable[..., Scene], project: Project, mode: str
) -> None:
    scene = make(backfill_mode=mode)
    first = scene.run()
    assert first.output.count(COPIED) == 1
    assert f"{COPIED}3 columns of " in first.output
    for shift in (0, 4, 8):
        scene.change(shift)
        later = scene.run()
        assert COPIED not in later.output
        assert of_the_upstream(later, project) == []
        assert "overlay" in "".join(later.statements) or mode == "snapshot"
    assert scene.run("--full-refresh").output.count(COPIED) == 1
    scene.end()


def test_a_copy_may_be_made_in_parts(make: Callable[..., Scene], project: Project) -> None:
    scene = make(replica_rows=2 * RANGE)
    scene.write(barriers_per_run=2)
    for _ in range(2):
        assert scene.run().output.count(COPIED) == 1
        kept = project.value("select count(*) from {schema}.mv__replica")
        assert 2 * RANGE <= kept <= 2 * RANGE + 3  # `change` has inserted some rows into the ranges
        scene.change()
    scene.write(barriers_per_run=1)
    scene.run()
    scene.write(backfill_rate_limit=RANGE + 1)  # so no range ends where the part ends
    assert scene.run().output.count(COPIED) == 1
    scene.end()


@pytest.mark.every_profile
def test_a_key_that_filled_several_ranges_when_bounds_were_found_costs_a_part_none(
    project: Project,
) -> None:
    """The key 30 has 26 rows when the bounds are found, but one row when its part is copied."""
    project.create_table("up", "id int, label string")
    project.sql("insert into {schema}.up select id, 'r' from range(1, 71)")
    project.sql("insert into {schema}.up select 30, 'twin' from range(25)")
    query = f"select id, label from {source('up')}"
    config: dict[str, Any] = {"backfill_rate_limit": 10, "replica_rows": 40}
    project.write({"mv": model(query, **config, replicate="never")}, sources=["up"]).run()
    project.sql("delete from {schema}.up where label = 'twin'")
    copied = {"replicate": "always", "barriers_per_run": "all"}
    assert COPIED in project.write({"mv": model(query, **config, **copied)}).run().output

    read = project.rows("select id, label from {schema}.up")
    assert len(read) == 70
    assert project.rows("select * from {schema}.mv") == read


@pytest.mark.profiles("session-delta", reason="only Delta's feed changes such days")
def test_a_row_that_the_feed_tells_as_another_one_is_read_from_the_upstream(
    project: Project,
) -> None:
    """Delta's feed returns the 10th of October 1582 as the 15th, which is another existing key."""
    project.create_table("up", "day date, amount int")
    days = ["01", "02", "03", "10", "15", "20", "21", "22", "23", "24"]
    rows = ", ".join(f"(date'1582-10-{day}', {day})" for day in days)
    project.sql(f"insert into {{schema}}.up values {rows}")
    query = f"select day, amount from {source('up')}"
    config = {"unique_key": "day", "backfill_rate_limit": 3, "replicate": "always"}
    project.write({"mv": model(query, **config)}, sources=["up"])
    assert COPIED in project.run().output
    project.sql("delete from {schema}.up where day = date'1582-10-10'")
    said = project.run().output
    assert "the feed does not list all that has changed since its rows were copied" in said
    project.write({"mv": model(query, **config, barriers_per_run="all")}).run()

    text = "select cast(day as string), amount from {schema}."
    assert project.rows(f"{text}mv") == project.rows(f"{text}up")


def test_what_no_table_can_be_made_of_is_refused_before_its_upstream_is_copied(
    project: Project,
) -> None:
    project.create_table("up", "id int, amount int")
    project.sql("insert into {schema}.up select id, id from range(20)")
    config = {"backfill_rate_limit": 6, "replicate": "always", "partition_by": "elsewhere"}
    query = f"select id, amount from {source('up')}"
    refused = project.write({"mv": model(query, **config)}, sources=["up"]).fail()
    assert "partition_by names the column 'elsewhere'" in refused.error
    assert COPIED not in refused.output
    assert not project.exists("mv__replica")


def test_vnodes_and_rates_may_change_under_way(make: Callable[..., Scene]) -> None:
    scene = make()
    scene.write(backfill_vnodes=[0, 1])
    assert scene.run().output.count(COPIED) == 1
    scene.change()
    scene.write(backfill_vnodes=[1], backfill_rate_limit=3)
    assert COPIED not in scene.run().output
    scene.write(backfill_vnodes=[1, 2])  # the copy has no rows of vnode 2
    assert scene.run().output.count(COPIED) == 1
    scene.write(backfill_vnodes=None)
    assert scene.run().output.count(COPIED) == 1
    scene.end()


def test_keys_in_doubt_are_read_from_the_upstream(
    make: Callable[..., Scene], project: Project
) -> None:
    """A key appeared twice for a while, so the feed's events do not contain the key's final row."""
    scene = make()
    scene.run()
    key = scene.ids[1][0]
    twin = f"insert into {scene.upstream.table} values ({key}, 5, 'twin')"
    project.sql(twin)
    project.sql(f"delete from {scene.upstream.table} where id = {key} and label <> 'twin'")
    said = scene.run().output
    scene.check_now()
    if project.file_format == "delta":  # Iceberg's row lineage has no events between snapshots
        assert "the feed does not list all that has changed since its rows were copied" in said
        assert COPIED in scene.run().output
    scene.finish()
    scene.check_now()


def test_a_copy_that_is_outgrown_is_made_anew(make: Callable[..., Scene], project: Project) -> None:
    scene = make(backfill_rate_limit=600)
    more = [row(SCHEMA, n, n, "more") for n in range(1000, 4000)]
    scene.upstream.commit(scene.upstream.commits.insert(more))
    scene.run()
    rows = scene.upstream.rows
    scene.upstream.commit(scene.upstream.commits.update(rows, list(rows), {"amount": 3}))
    assert LET_GO in scene.run().steps
    assert scene.run().output.count(COPIED) == 1
    scene.end()


def test_a_copy_may_go_at_any_time(make: Callable[..., Scene], project: Project) -> None:
    """The run that made the copy dies, or the copy is dropped by hand or by `replicate: never`.

    The next run that needs the copy makes a new copy.
    """
    scene = make()
    project.fail(intercept=crash_before(": plan the barrier 1"))
    assert project.exists("mv__replica")
    assert scene.run().output.count(COPIED) == 1

    scene.change()
    project.fail(intercept=crash_before(": merge the "))
    project.sql("drop table {schema}.mv__replica")
    scene.run()  # this run executes the planned barrier, and reads its range from the upstream
    assert scene.run().output.count(COPIED) == 1

    scene.write(replicate="never")
    assert DROP in scene.run().steps
    scene.write()
    assert scene.run().output.count(COPIED) == 1
    scene.end()


def test_where_another_run_has_dropped_the_copy_the_upstream_is_read(
    make: Callable[..., Scene], project: Project
) -> None:
    """The replica is dropped before the first range is read.

    It is dropped again before a range whose rows have changed since the replica was made.
    """
    scene = make()

    def drop(sql: str, proceed: Proceed) -> None:
        if ": plan the barrier" in sql:
            project.sql("drop table if exists {schema}.mv__replica")
        proceed()

    gone = "the copy of its upstream is gone, because another run has dropped it"
    assert gone in project.run(intercept=drop).output
    assert scene.run().output.count(COPIED) == 1
    scene.change()
    assert gone in project.run(intercept=drop).output
    assert scene.run().output.count(COPIED) == 1

    def drop_at_the_end(sql: str, proceed: Proceed) -> None:
        proceed()
        if ": commit the barrier" in sql:
            project.sql("drop table if exists {schema}.mv__replica")

    scene.write(barriers_per_run="all", backfill_rate_limit=None)
    project.run(intercept=drop_at_the_end)
    scene.end()


def test_after_a_gap_another_copy_is_made(make: Callable[..., Scene], project: Project) -> None:
    scene = make()
    version = project.current_version("up")
    scene.upstream.commit(scene.upstream.commits.insert([row(SCHEMA, 7, 7, "later")]))
    scene.run()
    project.restore("up", version)
    assert "re-anchored" in scene.run().output
    scene.check_now()
    assert scene.run().output.count(COPIED) == 1
    scene.check_now()
    scene.finish()
    scene.check_now()


@pytest.mark.parametrize("moment", MOMENTS)
@pytest.mark.parametrize("surprise", SURPRISES)
def test_what_happens_to_the_upstream_meanwhile(
    make: Callable[..., Scene], surprise: str, moment: str
) -> None:
    """The run may fail.

    Otherwise the MV has the rows of the upstream before or after the surprise.
    """
    scene = make()
    if moment != "made":
        scene.run()
    happened: list[str] = []

    def happen(sql: str, proceed: Proceed) -> None:
        if MOMENTS[moment] in sql and not happened:
            happened.append(sql)
            scene.project.sql("create table {schema}.before as select * from {schema}.up")
            SURPRISES[surprise](scene)
        proceed()

    first = scene.project.dbt("run", expect=False, intercept=happen)
    assert happened
    assert_no_java(first.output + first.error)
    if first.success:
        scene.check_now("before", "up")
    scene.run()
    scene.check_now()
    scene.finish()
    scene.check_now()


def test_a_query_without_a_select_has_all_columns_in_the_copy(project: Project) -> None:
    rows = [row(SCHEMA, n, n, f"r{n}") for n in range(1, 21)]
    Upstream.create(project, "up", SCHEMA, rows_by_key(rows, SCHEMA.key))
    config = {"backfill_rate_limit": 8, "barriers_per_run": "all", "replicate": "always"}
    names = {"by_table": "table", "by_from": "from"}
    queries = {name: f"{word} {source('up')}" for name, word in names.items()}
    texts = {name: model(query, **config) for name, query in queries.items()}
    output = project.write(texts, sources=["up"]).run().output
    for name in names:
        assert f"{name}{COPIED}3 columns of " in output
        rows_of = "select id, amount, label from {schema}."
        assert project.rows(f"{rows_of}{name}") == project.rows(f"{rows_of}up")


def test_a_copy_has_the_types_of_its_upstream_and_skips_files_by_a_key_that_stands_last(
    project: Project,
) -> None:
    """Delta has statistics only for a table's first 32 columns.

    Spark pads char(n) when it reads.
    """
    types = {
        "code": "char(3)", "label": "varchar(9)", "price": "decimal(20, 4)",
        "at": "timestamp", "day": "date", "raw": "binary",
        "tags": "array<struct<a: int, b: string>>",
    }  # fmt: skip
    many = {f"c{n}": "int" for n in range(35)}
    columns = {**many, **types, "id": "string"}
    project.create_table("up", ", ".join(f"{name} {kind}" for name, kind in columns.items()))
    values = [
        *map(str, range(35)),
        "if(n % 3 = 0, 'a', 'b ')",
        "'l'",
        "n / 7",
        "timestamp_seconds(n)",
    ]
    values += ["date_add(date'2026-01-01', n)", "cast('x' as binary)", "array(struct(n, 'b'))"]
    project.sql(
        f"insert into {{schema}}.up select {', '.join(values)}, sha1(string(n)) "
        "from (select cast(id as int) as n from range(0, 60, 1, 1))"
    )
    config = {"backfill_rate_limit": 8, "barriers_per_run": 3}
    query = f"select * from {source('up')} where code = 'a' and label = 'l'"
    texts = {name: model(query, **config, replicate=name) for name in ("always", "never")}
    project.write(texts, sources=["up"])
    assert project.run().output.count(COPIED) == 1
    if project.file_format == "iceberg":
        found = "select readable_metrics.id.lower_bound from {schema}.always__replica.files"
        assert None not in [bound for (bound,) in project.sql(found)]
    else:
        place = project.lake.location(project.schema, "always__replica") / "_delta_log"
        adds = [json.loads(line) for log in place.glob("*.json") for line in log.open()]
        stats = [json.loads(each["add"]["stats"]) for each in adds if "add" in each]
        least = [list(each["minValues"].values()) for each in stats]
        assert least and all(len(values) == 1 and len(values[0]) == 32 for values in least)
    for _ in range(2):
        project.run()
    one, other = (f"select * from {{schema}}.{name}" for name in texts)
    assert project.value(f"select count(*) from ({one})") == 20
    for a, b in ((one, other), (other, one)):
        assert project.sql(f"{a} except all {b}") == []


@pytest.mark.every_profile
def test_columns_that_the_query_names_by_its_alias_of_the_table_are_copied(
    project: Project,
) -> None:
    """The upstream has no columns with the names that the query uses."""
    project.create_table("up", "id int, amount int, label string")
    project.sql("insert into {schema}.up select id, id, 'r' from range(1, 21)")
    queries = {
        "listed": f"select k as id, v from {source('up')} as t(k, v, w)",
        "within": f"select k as id, v from ({source('up')} as t) as s(k, v, w)",
        "spelled": f"select id, identifier('am' || 'ount') as v from {source('up')}",
    }
    config = {"backfill_rate_limit": 6, "replicate": "always", "barriers_per_run": "all"}
    project.write({name: model(query, **config) for name, query in queries.items()}, sources=["up"])
    output = project.run().output

    for name in queries:
        assert f"{name}{COPIED}3 columns" in output
        read = project.rows("select id, amount from {schema}.up")
        assert project.rows(f"select * from {{schema}}.{name}") == read


@pytest.mark.profiles("session-delta", reason="another schema of an Iceberg table is a gap")
def test_a_field_that_came_with_a_row_is_read_from_the_upstream(project: Project) -> None:
    """A MERGE adds a field to a struct, which Delta's log does not show.

    The query reads another field of the struct.
    """
    project.create_table("up", "id int, s struct<a: int>, label string")
    project.sql("insert into {schema}.up select id, struct(id as a), 'r' from range(40)")
    query = f"select id, s.a as a, label from {source('up')}"
    project.write({"mv": model(query, backfill_rate_limit=10, replicate="always")}, sources=["up"])
    assert COPIED in project.run().output
    new = "select 100 as id, named_struct('a', 1, 'b', 2) as s, 'new' as label"
    project.sql(
        f"merge with schema evolution into {{schema}}.up as t using ({new}) as c"
        " on t.id = c.id when not matched then insert *"
    )
    project.sql("update {schema}.up set label = 'changed' where id in (3, 15)")
    for _ in range(2):
        project.run()
    last = project.value("select max(id) from {schema}.mv__progress")
    read = project.rows(f"select id, s.a, label from {{schema}}.up where id <= {last}")
    assert project.rows("select * from {schema}.mv") == read


@pytest.mark.profiles("session-iceberg", reason="about Iceberg's format versions")
@pytest.mark.parametrize("arguments", [(), ("--full-refresh",)], ids=["run", "full-refresh"])
def test_a_copy_gives_way_to_one_of_an_older_format(
    project: Project, arguments: tuple[str, ...]
) -> None:
    """The upstream had format 3. It is created again with format 2 during the backfill."""
    config = {"backfill_rate_limit": 10, "replicate": "always"}
    for properties in (Iceberg().with_changelog, {}):
        project.sql("drop table if exists {schema}.up")
        project.create_table("up", "id int, amount int", properties)
        project.sql("insert into {schema}.up select id, id from range(0, 40, 1, 1)")
        query = f"select id, amount from {source('up')}"
        project.write({"mv": model(query, **config)}, sources=["up"])
        project.run(*(arguments if not properties else ()))
        config["barriers_per_run"] = "all"
    project.run()

    read = project.rows("select id, amount from {schema}.up")
    assert project.rows("select * from {schema}.mv") == read
