"""The view `<mv>__live` has all rows of the query, even while the MV is being filled.

The option `live_view` creates the view. The tests read the view before and after every writing
statement. Each time the view must equal the query at the version of the barrier after which the
view was created.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import pytest

from support.checks import (
    assert_made_nothing,
    assert_refused,
    existing_tables,
    model,
    source,
    tables_of,
)
from support.project import MakeProject, Proceed, Project

with_views = pytest.mark.profiles(
    "session-delta",
    "thrift-iceberg",
    reason="Iceberg's Hadoop catalog has no views, and Delta's are the same behind a server",
)

pytestmark = pytest.mark.home("thrift-iceberg", reason="a test takes half the time there")

KEY = ["number", "shard"]
CARRIED = "id as number, shard, concat(name, '$', note) as called"
FILTERED = f"select {CARRIED} from {source('people')} where name <> 'hidden'"


def live_model(query: str, **config: Any) -> str:
    options = {"live_view": True, "barriers_per_run": "all", "backfill_rate_limit": 20}
    return model(query, **options | config)


def at_version(project: Project, query: str, mv: str) -> str:
    """Return the query at the upstream's version that the MV's last barrier has read."""
    version = project.value(f"select max(upstream_version) from {{schema}}.{mv}__progress")
    return query.replace(source("people"), f"{{schema}}.people version as of {version}")


def change(project: Project, number: int) -> None:
    """In one commit, insert, update and delete rows on both sides of the MV's position.

    One updated row no longer passes the filter of the query.
    """
    project.sql(
        "merge into {schema}.people as people using (values"
        f" ({100 + number}, 'x', 'late'), ({-number}, 'y', 'early'), ({number}, 'x', 'new'),"
        f" ({20 - number}, 'y', 'newer'), ({2 * number + 1}, 'y', null),"
        f" ({number + 4}, 'x', 'hidden')"
        " as changed (id, shard, name)) as changed"
        " on people.id = changed.id and people.shard = changed.shard"
        " when matched and changed.name is null then delete"
        " when matched then update set name = changed.name"
        " when not matched and changed.name is not null then"
        " insert (id, shard, name, note) values (changed.id, changed.shard, changed.name, 'it')"
    )


@dataclass
class Watcher:
    """An interceptor that compares live views with their queries after each statement that writes.

    :param queries: the query of each MV
    """

    project: Project
    queries: dict[str, str]
    changes: int = 0
    """The upstream changes after each of the first `changes` barriers."""
    made: int = 0
    looked: int = 0
    wrong: list[str] = field(default_factory=list)
    expected: dict[str, list[tuple[Any, ...]]] = field(default_factory=dict)

    def __call__(self, sql: str, proceed: Proceed) -> None:
        found = [mv for mv in self.queries if f"/* {self.project.schema}.{mv}: " in sql]
        mv = found[0] if found else None
        proceed()
        if mv is not None and ": make the live view" in sql:
            self.made += 1
            query = at_version(self.project, self.queries[mv], mv)
            self.expected[mv] = self.project.rows(query)
            self.look(mv, sql)
            if self.made <= self.changes:
                change(self.project, self.made)
        elif mv is not None and mv in self.expected and self.merges(mv, sql):
            self.look(mv, sql)

    def merges(self, mv: str, sql: str) -> bool:
        """Return true if the statement writes to the MV before the barrier is committed."""
        table = f"{self.project.schema}.{mv}"
        return f"merge into {table} " in sql or f"create or replace table {table}\n" in sql

    def look(self, mv: str, sql: str) -> None:
        self.looked += 1
        if self.project.rows(f"select * from {{schema}}.{mv}__live") != self.expected[mv]:
            self.wrong.append(f"{mv}: {sql[:300]}")

    def run(self, *args: str) -> None:
        before = self.made
        self.project.run(*args, intercept=self)
        assert not self.wrong, self.wrong
        assert self.made > before


def make_people(project: Project) -> None:
    project.create_table("people", "id int, shard string, name string, note string")
    project.sql(
        "insert into {schema}.people select id, shard, concat('n', id), 'it''s' from"
        " (select cast(id as int) from range(1, 21)), (select explode(array('x', 'y')) as shard)"
    )


QUERIES = {
    "filtered": FILTERED,
    "some": f"select id, shard, name from {source('people')}",
}
DESCENDING: dict[str, Any] = {"unique_key": ["id", "shard"], "backfill_order": "descending"}


@pytest.fixture(scope="module")
def project(shared_project: MakeProject) -> Project:
    project = shared_project("live_view")
    make_people(project)
    some = live_model(QUERIES["some"], **DESCENDING, backfill_vnodes="0-1")
    models = {"filtered": live_model(FILTERED, unique_key=KEY), "some": some}
    return project.write(models, sources=["people"])


@pytest.fixture(scope="module")
def watcher(project: Project) -> Watcher:
    """Run all models for the first time with a `Watcher`. The upstream changes three times."""
    watcher = Watcher(project, QUERIES, changes=3)
    watcher.run()
    return watcher


@with_views
@pytest.mark.every_profile
def test_the_view_is_the_whole_query_at_every_statement(watcher: Watcher) -> None:
    assert watcher.made >= 4
    assert watcher.looked > watcher.made


@with_views
@pytest.mark.every_profile
def test_the_view_is_whole_while_vnodes_have_different_positions(
    project: Project, watcher: Watcher
) -> None:
    """Changes are merged into the two finished vnodes while the other two vnodes are filled."""
    finished = "select vnode from {schema}.some__progress where backfill_finished"
    assert project.rows(finished) == [(0,), (1,)]
    change(project, 9)
    watcher.run("--select", "some")

    vnodes = "cast(pmod(xxhash64(cast(id as int), cast(shard as string)), 4) as int) in (0, 1)"
    assert project.rows("select * from {schema}.some") == project.rows(
        f"select id, shard, name from {{schema}}.people where {vnodes}"
    )
    assert project.rows(finished) == [(0,), (1,)]
    assert project.value("select count(*) from {schema}.some__progress where id is null") > 0

    some = live_model(
        QUERIES["some"], **DESCENDING, backfill_vnodes="0,2-3", barriers_per_run=1,
        backfill_rate_limit=8,
    )  # fmt: skip
    project.write({"some": some})
    change(project, 10)
    watcher.run("--select", "some")
    assert project.value("select count(distinct id) from {schema}.some__progress") >= 1
    assert not project.value("select bool_and(backfill_finished) from {schema}.some__progress")


@with_views
def test_a_view_of_before_a_full_refresh_is_whole_until_the_next_one(
    project: Project, watcher: Watcher
) -> None:
    change(project, 11)
    slow = live_model(FILTERED, unique_key=KEY, barriers_per_run=2)
    project.write({"filtered": slow})
    watcher.run("--select", "filtered", "--full-refresh")


@with_views
def test_a_view_that_is_gone_is_made_again(project: Project, watcher: Watcher) -> None:
    """A run creates a missing view again, even if the run has nothing else to do.

    The test drops the view inside a script, because Iceberg does not find a view elsewhere.
    """
    project.write({"filtered": live_model(FILTERED, unique_key=KEY)})
    change(project, 13)
    watcher.run("--select", "filtered")
    project.sql("begin drop view {schema}.filtered__live; end")
    made = watcher.made
    watcher.run("--select", "filtered")
    assert watcher.made == made + 1
    project.run("--select", "filtered", intercept=watcher)
    assert watcher.made == made + 1
    assert project.rows("select * from {schema}.filtered__live") == project.rows(
        "select * from {schema}.filtered"
    )


@with_views
def test_columns_that_are_being_filled_are_whole_in_the_view(
    project: Project, watcher: Watcher
) -> None:
    more = FILTERED.replace(", concat", ", upper(name) as loud, concat")
    watcher.queries["filtered"] = more
    filled = live_model(
        more, unique_key=KEY, on_schema_change="append_new_columns", barriers_per_run=2
    )
    project.write({"filtered": filled})
    change(project, 12)
    watcher.run("--select", "filtered")
    assert project.value("select count(*) from {schema}.filtered where loud is null") > 0


@with_views
def test_without_the_option_the_view_is_dropped(project: Project) -> None:
    key = ["id", "shard"]
    project.write({"once": live_model(QUERIES["some"], unique_key=key, barriers_per_run=1)})
    project.run("--select", "once")
    assert existing_tables(project, "once__live") == ["once__live"]

    project.write({"once": model(QUERIES["some"], unique_key=key, backfill_rate_limit=0)})
    result = project.run("--select", "once")
    assert f"once: dropped {project.schema}.once__live, because" in result.output
    assert existing_tables(project, "once__live") == []


@with_views
def test_drop_backfill_drops_the_view(project: Project, watcher: Watcher) -> None:
    result = project.operation("drop_backfill", model="filtered")
    assert "filtered: dropped the live view" in result.output
    assert existing_tables(project, *tables_of("filtered"), "filtered__live") == []


@with_views
def test_a_view_whose_mv_was_renamed_is_listed_with_the_command_that_drops_it(
    project: Project,
) -> None:
    schema = project.schema
    query = live_model(QUERIES["some"], unique_key=["id", "shard"])
    project.write({"named": query})
    project.run("--select", "named")
    for name in ("named", "named__progress", "named__barriers"):
        renamed = name.replace("named", "renamed")
        project.sql(f"alter table {{schema}}.{name} rename to {{schema}}.{renamed}")
    project.sql(
        f"alter table {{schema}}.renamed set tblproperties ('dbt_backfill.mv' = '{schema}.renamed')"
    )
    project.remove("named")
    project.write({"renamed": query})
    project.run("--select", "renamed")

    listed = project.operation("backfill_orphans").output
    command = f"dbt run-operation drop_backfill --args '{{mv: {schema}.named}}'"
    assert f"  {schema}.named: live view; {command}" in listed
    project.operation("drop_backfill", mv=f"{schema}.named")
    assert existing_tables(project, "named__live", "renamed__live") == ["renamed__live"]


@with_views
def test_something_else_of_its_name_is_refused_before_anything_is_written(
    project: Project,
) -> None:
    project.write({"other": live_model(QUERIES["some"], unique_key=["id", "shard"])})
    project.run("--select", "other", "--empty")
    assert existing_tables(project, "other__live") == []

    project.sql("create or replace view {schema}.other__live as select 1 as id")
    result = project.fail("--select", "other")
    assert_refused(result, "other", "other__live exists, but is not a live view of this package")
    project.sql("drop view {schema}.other__live")


@pytest.mark.every_profile
@pytest.mark.profiles("session-iceberg", reason="the other profiles have views")
def test_a_catalog_without_views_is_refused_before_anything_is_written(project: Project) -> None:
    result = project.fail("--select", "filtered")

    fact = "live_view needs a catalog with views, but Spark could not create a view beside"
    assert_refused(result, "filtered", f"{fact} {project.schema}.filtered")
    assert_made_nothing(project, "filtered")
