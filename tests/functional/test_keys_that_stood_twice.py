"""Changes for which the feed does not contain the last row of a key.

There are two causes. A key is duplicated in the upstream, between two barriers or during one
barrier. Or the feeds of Delta and Iceberg alter the bytes of a text.

Upstreams of every kind get the same rows and the same commits. Each MV has read all rows before the
first of these commits. The run `run` finds a duplicated key. The run `again` starts after every key
is unique again.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import pytest

from support.checks import assert_refused, model, source, state_versions
from support.formats import Iceberg
from support.project import MakeProject, Project, RunResult

pytestmark = pytest.mark.profiles(
    "session-delta", "session-iceberg", reason="a Thrift server's catalogs are the same ones"
)

UPSTREAMS: dict[str, tuple[str, dict[str, str]]] = {
    "delta": ("delta", {}),
    "iceberg_2": ("iceberg", Iceberg().with_changelog),
    "iceberg_3": ("iceberg", {"format-version": "3"}),
}

# Each entry: ids, and commits on the table {up} that change these ids. The row with id n has `at` =
# 10 n.
CASES: dict[str, tuple[tuple[int, ...], tuple[str, ...]]] = {
    "inserted anew before the old row was deleted": (
        (2,),
        ("insert into {up} values (2, 21, 'new')", "delete from {up} where id = 2 and at = 20"),
    ),
    "swapped by two updates": (
        (3, 4),
        (
            "update {up} set id = 4 where id = 3",
            "update {up} set id = 3 where id = 4 and at = 40",
        ),
    ),
    "taken by another row before its own was deleted": (
        (5, 6),
        ("update {up} set id = 6 where id = 5", "delete from {up} where id = 6 and at = 60"),
    ),
    "set to bytes that are no UTF-8": (
        (8,),
        ("update {up} set name = cast(X'61FF62' as string) where id = 8",),
    ),
}
REFUSED = 7
TWIN = f"insert into {{up}} values ({REFUSED}, 71, 'twin')"
END_OF_IT = f"delete from {{up}} where id = {REFUSED} and at = {REFUSED * 10}"


@dataclass(frozen=True)
class Stood:
    project: Project
    run: RunResult
    wrote: dict[str, bool]
    """For each upstream: True if the run `run` has written to the MV of the upstream."""
    again: RunResult

    def rows(self, relation: str, ids: tuple[int, ...]) -> list[tuple[object, ...]]:
        listed = ", ".join(map(str, ids))
        query = f"select id, at, hex(name) from {relation} where id in ({listed})"
        return self.project.rows(query)


@pytest.fixture(scope="module")
def stood(shared_project: MakeProject) -> Stood:
    project = shared_project("stood_twice")
    models = {}
    schemas = {}
    for name, (kind, properties) in UPSTREAMS.items():
        schemas[kind], _, _ = table_of(project, name).rpartition(".")
        project.create_table(name, "id int, at int, name string", properties, file_format=kind)
        fill = "select id, id * 10, concat('n', id) from range(1, 9)"
        project.sql(f"insert into {table_of(project, name)} {fill}")
        relation = source(name).replace("lake", kind)
        models[f"mv_{name}"] = model(f"select id, at, name from {relation}")
    sources = [
        f"{{name: {kind}, schema: {schema}, tables: [{', '.join(map(named, UPSTREAMS))}]}}"
        for kind, schema in schemas.items()
    ]
    project.write(models, files={"models/_up.yml": f"sources: [{', '.join(sources)}]"})
    project.run()

    commit(project, TWIN)
    before = {mv: state_versions(project, mv) for mv in models}
    run = project.dbt("run", expect=False)
    wrote = {mv: state_versions(project, mv) != before[mv] for mv in models}

    commit(project, END_OF_IT, *(sql for _, commits in CASES.values() for sql in commits))
    return Stood(project, run, wrote, project.dbt("run", expect=False))


def table_of(project: Project, name: str) -> str:
    return project.table(name, UPSTREAMS[name][0])


def named(table: str) -> str:
    return f"{{name: {table}}}"


def commit(project: Project, *statements: str) -> None:
    for name in UPSTREAMS:
        for sql in statements:
            project.sql(sql.format(up=table_of(project, name)))


@pytest.mark.parametrize("name", UPSTREAMS)
def test_a_second_row_of_a_key_that_was_read_is_refused(stood: Stood, name: str) -> None:
    assert_refused(stood.run, f"mv_{name}", "key id is not unique", f"duplicate keys: ({REFUSED})")
    assert not stood.wrote[f"mv_{name}"]


@pytest.mark.parametrize("name", UPSTREAMS)
def test_a_refused_key_is_followed_once_it_is_unique_again(stood: Stood, name: str) -> None:
    assert stood.again[f"mv_{name}"].status == "success"
    assert stood.rows(f"{{schema}}.mv_{name}", (REFUSED,)) == [(REFUSED, 71, b"twin".hex().upper())]


@pytest.mark.parametrize("case", CASES)
@pytest.mark.parametrize("name", UPSTREAMS)
def test_a_key_that_the_feed_does_not_tell_has_its_row(stood: Stood, name: str, case: str) -> None:
    ids, _ = CASES[case]
    upstream = stood.rows(table_of(stood.project, name), ids)

    assert stood.rows(f"{{schema}}.mv_{name}", ids) == upstream


@pytest.mark.parametrize("name", UPSTREAMS)
def test_no_re_anchor_is_needed_for_a_key_that_stood_twice(stood: Stood, name: str) -> None:
    assert stood.again.message(f"mv_{name}").startswith("BARRIER 2 (")
    assert "re-anchored" not in stood.again.output


def make_twins(project: Project) -> None:
    """Create two rows of key 1 in one file, and an MV whose query returns the second row."""
    project.create_table("up", "id int, v int, deleted boolean, note string")
    project.sql("insert into {schema}.up values (1, 1, true, 'old'), (2, 2, false, '')")
    query = f"select id, v from {source('up')} where not deleted"
    project.write({"mv": model(query)}, sources=["up"]).run()
    project.sql("insert into {schema}.up values (1, 7, false, 'new')")
    project.compact("up")
    project.run()
    assert project.rows("select * from {schema}.mv order by id") == [(1, 7), (2, 2)]


def test_the_other_row_of_a_key_stays_when_its_twin_is_updated_and_deleted(
    new_project: Callable[[], Project],
) -> None:
    """The query does not return the twin that goes, so the MV has the row that stays."""
    project = new_project()
    make_twins(project)
    project.sql("update {schema}.up set note = 'purge' where id = 1 and deleted")
    project.sql("delete from {schema}.up where id = 1 and deleted")
    project.run()
    assert project.rows("select * from {schema}.mv order by id") == [(1, 7), (2, 2)]


@pytest.mark.parametrize(
    "updated",
    ["set v = v + 100 where id = 1", "set v = 0 where id = 1 and deleted"],
    ids=["both rows", "the row that the query drops"],
)
def test_a_key_whose_row_the_query_drops_is_refused_when_this_row_is_updated(
    new_project: Callable[[], Project], updated: str
) -> None:
    project = new_project()
    make_twins(project)
    project.sql(f"update {{schema}}.up {updated}")

    assert_refused(project.fail(), "mv", "key id is not unique", "duplicate keys: (1)")
    assert project.rows("select * from {schema}.mv order by id") == [(1, 7), (2, 2)]

    project.sql("delete from {schema}.up where id = 1 and deleted")
    project.run()
    rows = project.rows("select id, v from {schema}.up order by id")
    assert project.rows("select * from {schema}.mv order by id") == rows


def test_a_row_goes_when_the_twin_that_the_query_drops_stays(
    new_project: Callable[[], Project],
) -> None:
    project = new_project()
    make_twins(project)
    project.sql("delete from {schema}.up where id = 1 and not deleted")
    project.run()
    assert project.rows("select * from {schema}.mv order by id") == [(2, 2)]
