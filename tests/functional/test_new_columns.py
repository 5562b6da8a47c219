"""`on_schema_change`: a query with new, dropped or wider columns needs no rebuild.

`append_new_columns` and `sync_all_columns` add new columns to the MV and fill them for the existing
rows, range by range. Changes are merged during the fill. The second position is the key up to which
the new columns are filled. At every barrier the previous columns are exact, and the new columns are
exact up to the second position. `sync_all_columns` also drops and widens columns.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable

import pytest

from support.checks import (
    assert_refused,
    assert_writes_nothing,
    data_tests,
    model,
    source,
    statuses,
)
from support.profiles import at_home_on_iceberg
from support.project import MakeProject, Project, crash_before

pytestmark = at_home_on_iceberg
on_delta = pytest.mark.home("session-delta", reason="Delta has to be told of features for them")

KEY = ["id", "shard"]
OLD = f"select id, shard, name from {source('people')} where name <> 'hidden'"
# One new column is in the middle of the list. The type of another new column is timestamp_ntz, for
# which a Delta table needs a property.
NEW = OLD.replace(", name", ", upper(name) as loud, name, timestamp_ntz '2024-01-01' as since")
Rows = list[tuple[object, ...]]


def write(project: Project, query: str, **config: object) -> None:
    text = model(query, unique_key=KEY, on_schema_change="append_new_columns", **config)
    project.write({"mv": text}, sources=["people"], properties=data_tests(project, "mv"))


def make_people(project: Project) -> None:
    """Create an upstream with the ids from 1 to 20 in two shards."""
    project.create_table("people", "id int, shard string, name string")
    project.sql(
        "insert into {schema}.people select id, shard, concat('n', id) from"
        " (select cast(id as int) from range(1, 21)), (select explode(array('x', 'y')) as shard)"
    )


def filled_to(project: Project) -> tuple[int, str]:
    """Return the second position, which is the key up to which the new columns are filled."""
    last = project.value("select last from {schema}.mv__progress where vnode = 0")
    number, shard = json.loads(last)["fill_high"]
    return int(number), shard.strip("'")


def upstream_rows(project: Project, up_to: int = 1000) -> Rows:
    return project.rows(
        "select id, shard, name, upper(name), timestamp_ntz '2024-01-01' from {schema}.people"
        f" where name <> 'hidden' and id <= {up_to}"
    )


def mv_rows(project: Project) -> Rows:
    return project.rows("select id, shard, name, loud, since from {schema}.mv")


def old_columns(rows: Iterable[tuple[object, ...]]) -> Rows:
    return [row[:3] for row in rows]


def up_to(rows: Rows, position: tuple[int, str]) -> Rows:
    return [row for row in rows if (row[0], row[1]) <= position]  # type: ignore[operator]


def assert_exact(project: Project) -> None:
    """Assert that the previous columns are exact, and the new ones up to the second position."""
    position = filled_to(project)
    assert old_columns(mv_rows(project)) == old_columns(upstream_rows(project))
    assert up_to(mv_rows(project), position) == up_to(upstream_rows(project), position)
    assert any(row[3] is None for row in mv_rows(project))
    assert statuses(project) == {"complete": "fail", "consistent": "pass"}


@pytest.fixture
def finished(project: Project) -> Project:
    """Create an MV that has read all rows. Its query does not have the new columns yet."""
    make_people(project)
    write(project, OLD)
    project.run()
    return project


@on_delta
def test_columns_are_filled_in_slices_while_the_changes_are_merged(finished: Project) -> None:
    project = finished
    write(project, NEW, backfill_rate_limit=12)

    first = project.run()
    assert "BARRIER 2 · 30.0 % · fills loud, since · 12 of 40 rows · +12 read" in first.output
    assert "left (about" in first.output
    assert first.message("mv") == "BARRIER 2 (30.0 %)"
    assert_exact(project)
    assert "mv: loud, since are filled up to (6, 'y') only" in str(
        project.last and project.last.output
    )
    assert "all equal" in project.operation("verify_backfill", model="mv").output

    # Change rows below and above the second position, and move one row from below it to above it.
    project.sql("update {schema}.people set name = 'later' where id in (2, 16)")
    project.sql("update {schema}.people set name = 'hidden' where id in (3, 17)")
    project.sql("update {schema}.people set id = 40 where id = 4 and shard = 'x'")
    project.fail(intercept=crash_before("merge the range of the barrier"))
    assert old_columns(mv_rows(project)) == old_columns(upstream_rows(project))
    second = project.run()
    assert "BARRIER 3 · " in second.output
    assert "5 changed" in second.output
    assert_exact(project)

    # Damage rows by hand. The repair restores the new columns up to the second position.
    project.sql("update {schema}.mv set loud = 'broken' where id in (1, 20)")
    assert statuses(project)["consistent"] == "fail"
    repaired = project.operation("verify_backfill", model="mv", repair=True).output
    assert "1 key repaired" in repaired or "2 keys repaired" in repaired
    assert_exact(project)

    # The UPDATE was a foreign write, so the next barrier compares the MV, with all columns.
    write(project, NEW, backfill_rate_limit=12, barriers_per_run="all")
    last = project.run()
    assert "· 100.0 % · re-anchored: something other than its barriers wrote to" in last.output
    assert last.message("mv").endswith("(100.0 %), CAUGHT UP")
    assert mv_rows(project) == upstream_rows(project)
    assert statuses(project) == {"complete": "pass", "consistent": "pass"}

    project.sql("insert into {schema}.people values (50, 'x', 'n50')")
    assert "BARRIER" in project.run().message("mv")
    assert mv_rows(project) == upstream_rows(project)


def test_in_the_middle_of_a_backfill_columns_are_filled_before_it_goes_on(
    project: Project,
) -> None:
    """The user may correct the expression of a new column while the column is being filled."""
    make_people(project)
    write(project, OLD, backfill_rate_limit=20)
    project.run()
    wrong = NEW.replace("upper(name)", "concat(name, '?')")
    write(project, wrong, backfill_rate_limit=12)
    assert "· fills loud, since · 12 of 20 rows ·" in project.run().output

    write(project, NEW, backfill_rate_limit=12)
    again = project.run()
    assert "· fills loud, since · 12 of 20 rows ·" in again.output
    assert up_to(mv_rows(project), (6, "y")) == up_to(upstream_rows(project), (6, "y"))
    assert old_columns(mv_rows(project)) == old_columns(upstream_rows(project, 10))
    assert statuses(project) == {"complete": "fail", "consistent": "pass"}

    project.sql("update {schema}.people set name = 'later' where id in (9, 15)")
    filled = project.run()
    assert "· filled loud, since · +8 read for it · 2 changed" in filled.output
    assert mv_rows(project) == upstream_rows(project, 10)
    write(project, NEW, barriers_per_run="all")
    assert project.run().message("mv").endswith("CAUGHT UP")
    assert mv_rows(project) == upstream_rows(project)


@pytest.mark.parametrize("on_gap", ["reanchor", "sweep"])
def test_what_compares_all_rows_ends_a_fill(finished: Project, on_gap: str) -> None:
    project = finished
    write(project, NEW, backfill_rate_limit=12)
    project.run()
    project.sql("drop table {schema}.people")
    make_people(project)
    project.sql("update {schema}.people set name = 'other' where id in (1, 20)")
    write(project, NEW, on_gap=on_gap, barriers_per_run="all")

    kind = "sweeps from the start" if on_gap == "sweep" else "re-anchored"
    assert kind in project.run().output
    assert mv_rows(project) == upstream_rows(project)
    assert statuses(project) == {"complete": "pass", "consistent": "pass"}


# -- dropped columns, and wider columns -----------------------------------------------------------

# A Delta table needs these properties before columns can be dropped or widened. Iceberg ignores the
# properties.
ALTERABLE = {"delta.columnMapping.mode": "name", "delta.enableTypeWidening": "true"}


def sync(project: Project, columns: str, **config: object) -> None:
    config = {"on_schema_change": "sync_all_columns", "tblproperties": ALTERABLE, **config}
    query = f"select id, shard, {columns} from {source('people')} where name <> 'hidden'"
    project.write({"mv": model(query, unique_key=KEY, **config)}, sources=["people"])


def assert_is(project: Project, columns: str, types: dict[str, str]) -> None:
    """Assert that the MV equals the query of these columns, and has these types of columns."""
    names = ", ".join(types)
    wanted = f"select id, shard, {columns} from {{schema}}.people where name <> 'hidden'"
    assert project.rows(f"select {names} from {{schema}}.mv") == project.rows(
        f"select {names} from ({wanted})"
    )
    described = {row["col_name"]: row["data_type"] for row in project.sql("describe {schema}.mv")}
    assert {name: described.get(name) for name in types} == types
    assert set(project.lake.columns(project.table("mv"))) == {"id", "shard", *types}


@on_delta
def test_columns_are_dropped_and_widened_without_a_rebuild(project: Project) -> None:
    make_people(project)
    sync(
        project,
        "upper(name) as loud, name, cast(id as int) as n, 1 as gone",
        backfill_rate_limit=20,
    )
    project.run()

    # The run drops the column without a separate barrier.
    project.sql("update {schema}.people set name = 'later' where id in (2, 16)")
    now = "upper(name) as loud, name, cast(id as int) as n"
    sync(project, now, barriers_per_run=2)
    dropped = project.run()
    assert "· 40 rows · +20 backfilled · dropped gone · 2 changed, " in dropped.output
    assert dropped.message("mv") == "BARRIER 2 (100.0 %), CAUGHT UP"
    assert_is(project, now, {"loud": "string", "name": "string", "n": "int"})

    # The column is widened before the fill starts, because changed rows already need the wider
    # type.
    project.sql("update {schema}.people set name = 'big' where id = 20 and shard = 'y'")
    wide = "name, if(name = 'big', 99999999999, id) as n, upper(name) as again"
    sync(project, wide, backfill_rate_limit=24)
    project.fail(intercept=crash_before("merge the changes of the barrier"))
    begun = project.run()
    assert "· 60.0 % · fills n, again · 24 of 40 rows · " in begun.output
    assert "· dropped loud ·" in begun.output
    found = project.rows("select n from {schema}.mv where id = 20 and shard = 'y'")
    assert found == [(99999999999,)]
    assert "· filled n, again · +16 read for it ·" in project.run().output
    assert_is(project, wide, {"name": "string", "n": "bigint", "again": "string"})
    assert project.run().message("mv") == "CAUGHT UP"


# -- queries that change more than columns --------------------------------------------------------

ROWS = "from __up__ where n > 0"
OTHERS = {
    "filter": ("select id, n, n + 1 as m from __up__ where n > 1", "other rows, or other values"),
    "value": (f"select id, n * 2 as n, n + 1 as m {ROWS}", "other rows, or other values"),
    "constant": (f"select id, n, hash(n, 1L) as h, n as m {ROWS}", "it does more than add columns"),
    "cast": (f"select id, n, hash(n, cast(1 as bigint)) as h, n as m {ROWS}", "than add columns"),
    "type": (f"select id, cast(n as bigint) as n, n as m {ROWS}", "another name or type"),
    "gone": (f"select id, n + 1 as m {ROWS}", "it no longer returns n"),
    "renamed": (f"select id, n as number {ROWS}", "it no longer returns n"),
    "rebuilt": (f"select id, n, n + 1 as m, n + 2 as n3 {ROWS}", ""),
}
SAME = f"select id, n {ROWS}"


def test_a_new_column_that_fails_on_a_row_is_corrected_once_its_plan_is_given_up(
    finished: Project,
) -> None:
    """The planned barrier fails in every run, and cannot be completed with the corrected query."""
    project = finished
    write(project, NEW.replace("upper(name)", "if(id = 7, raise_error('seven'), upper(name))"))
    assert "seven" in project.fail("--select", "mv").output

    write(project, NEW)
    told = ("another run has planned the barrier 2", "its query changed", "abandon_plan")
    assert_refused(project.fail("--select", "mv"), "mv", *told)
    project.operation("abandon_plan", model="mv")
    while project.run("--select", "mv").message("mv") != "CAUGHT UP":
        pass
    assert mv_rows(project) == upstream_rows(project)
    assert statuses(project) == {"complete": "pass", "consistent": "pass"}


@pytest.fixture(scope="module")
def others(shared_project: MakeProject) -> Project:
    """Create MVs that read one upstream. Each MV then gets a different new query."""
    project = shared_project("other_queries")
    project.create_table("up", "id int, n int")
    project.sql("insert into {schema}.up values (1, 1), (2, 2), (3, -3)")
    hashed = SAME.replace("n from", "n, hash(n, 1) as h from")
    old = {name: hashed if name in ("constant", "cast") else SAME for name in OTHERS}
    old["recast"] = SAME.replace("n from", "n, 1 as gone, hash(n, cast(1 as bigint)) as h from")
    _write_others(project, {**old, "stray": SAME, "vnodes": SAME}, old=True)
    project.run()
    project.sql("alter table {schema}.stray add columns (m int)")
    return project


PARTED = f"select id, n from {source('parts')} where label = 'open'"


def _write_parted(project: Project, queries: dict[str, str]) -> None:
    config = {"on_schema_change": "sync_all_columns", "tblproperties": ALTERABLE}
    texts = {name: model(query, **config) for name, query in queries.items()}
    project.write(texts, sources=["parts"])


def _write_others(
    project: Project, queries: dict[str, str], *, old: bool = False, syncs: bool = False
) -> None:
    texts = {}
    for name, query in queries.items():
        option = "sync_all_columns" if syncs else "append_new_columns"
        config: dict[str, object] = {"on_schema_change": option}
        if name == "vnodes" and old:
            config["backfill_vnodes"] = [1]
        if name == "rebuilt" and not syncs:
            config = {"on_schema_change": "fail", "on_query_change": "rebuild"}
        texts[name] = model(query.replace("__up__", source("up")), **config)
    project.write(texts, sources=["up"])


def test_a_query_that_does_more_is_refused_by_what_it_does(others: Project) -> None:
    project = others
    _write_others(project, {name: query for name, (query, _) in OTHERS.items()})
    more = SAME.replace("n from", "n, n + 1 as m from")
    _write_others(project, {"stray": more, "vnodes": more})
    result = assert_writes_nothing(project, project.fail, "filter")

    for name, (_, why) in OTHERS.items():
        if name != "rebuilt":
            facts = "its query changed since its last barrier, and more than new columns changed: "
            assert_refused(result, name, facts, why)
    assert_refused(result, "rebuilt", "the columns of its query changed from (id: int, n: int)")
    assert_refused(result, "stray", "has the column m, which its query does not return")
    assert_refused(result, "vnodes", "the vnodes of the MV have different positions")


def test_a_filter_of_whole_partitions_is_part_of_what_a_query_means(project: Project) -> None:
    """Iceberg itself evaluates a filter of whole partitions, so Spark's plan does not show the
    filter.
    """
    project.create_table("parts", "id int, n int, label string", layout="partitioned")
    project.sql("insert into {schema}.parts values (1, 1, 'open'), (2, 2, 'shut')")
    _write_parted(project, {"lost": PARTED, "turned": PARTED, "kept": PARTED})
    project.run()
    _write_parted(project, {
        "lost": PARTED.replace("id, n", "id").replace(" where label = 'open'", ""),
        "turned": PARTED.replace("n from", "n, n + 1 as m from").replace("=", "<>"),
        "kept": PARTED.replace("id, n", "id"),
    })  # fmt: skip
    result = project.fail()

    for name in ("lost", "turned"):
        assert_refused(result, name, "more than its columns changed: it returns other rows")
    assert "dropped n" in result.output and result["kept"].status == "success"
    assert project.rows("select * from {schema}.kept") == [(1,)]


def test_layout_is_no_barrier_and_no_rebuild(project: Project) -> None:
    """If only the layout of a query changes, the next barrier records the new text."""
    make_people(project)
    kept = f"kept as (select id, shard, name from {source('people')} where name <> 'hidden')"
    write(project, f"with {kept} select id, shard, name from kept")
    project.run()

    write(project, f"WITH {kept} select id, shard, name from kept")
    assert "its query changed since its last barrier" in project.fail().error
    write(project, f"with {kept} -- once more\nselect id,shard,\n  name from kept")
    assert project.run().message("mv") == "CAUGHT UP"
    project.sql("insert into {schema}.people values (50, 'x', 'n50')")
    assert "1 changed" in project.run().output
    recorded = project.value("select last from {schema}.mv__progress where vnode = 0")
    assert "-- once more" in json.loads(recorded)["query"]


SYNCED = {
    "filter": ("select id from __up__ where n > 1", "other rows, or other values"),
    "constant": ("select id, hash(n, 1L) as h from __up__ where n > 0", "more than leave columns"),
    "recast": (f"select id, n, hash(n, 1) as h {ROWS}", "more than leave columns"),
    "type": (f"select id, cast(n as string) as n {ROWS}", "no ALTER of"),
}
GONE = f"select id {ROWS}"
WIDER = f"select id, cast(n as bigint) as n {ROWS}"


@pytest.mark.profiles("session-delta")
def test_what_a_table_cannot_do_is_refused_with_the_alter_that_lets_it(others: Project) -> None:
    project = others
    queries = {name: query for name, (query, _) in SYNCED.items()}
    _write_others(project, queries | {"gone": GONE, "renamed": WIDER, "vnodes": GONE}, syncs=True)
    result = assert_writes_nothing(project, project.fail, "gone")

    for name, (_, why) in SYNCED.items():
        facts = "its query changed since its last barrier, and more than its columns changed: "
        assert_refused(result, name, facts, why)
    assert_refused(result, "vnodes", "the vnodes of the MV have different positions")
    for name, fact in {
        "gone": "its query no longer returns n, but a column of {mv} can be dropped only with the",
        "renamed": "its query returns n as bigint instead of int, but a column of {mv} can be",
    }.items():
        assert_refused(result, name, fact.format(mv=project.table(name)))
        [alter] = re.findall(r"ALTER TABLE \S+ SET TBLPROPERTIES \(.*?\)", result.message(name))
        project.sql(alter)
    project.run("--select", "gone", "renamed")
    assert project.sql("select * from {schema}.gone order by id")[1].asDict() == {"id": 2}
    assert project.sql("describe {schema}.renamed")[1]["data_type"] == "bigint"
