"""`volatile_columns` names columns that say when, and by which run, a row was last written.

These columns are left out of every comparison. So a row keeps its values until a barrier writes
the row for another reason.
"""

from __future__ import annotations

from typing import Any

import pytest

from support.checks import (
    assert_made_nothing,
    assert_refused,
    assert_writes_nothing,
    data_tests,
    model,
    refused_operation,
    rows_written,
    source,
    statuses,
)
from support.profiles import any_connection, at_home_on_iceberg, with_views
from support.project import Crash, MakeProject, Proceed, Project, RunResult, crash_before

pytestmark = at_home_on_iceberg

UP = source("up")
STAMPS = "current_timestamp() as loaded_at, '{{ invocation_id }}' as run_id, uuid() as row_id"
QUERY = f"select id, upper(name) as name, {STAMPS} from {UP} where name <> 'hidden'"
VOLATILE = ["loaded_at", "run_id", "row_id"]


def write(project: Project, query: str = QUERY, **config: Any) -> None:
    text = model(query, **({"volatile_columns": VOLATILE} | config))
    project.write({"mv": text}, sources=["up"], properties=data_tests(project, "mv"))


def stamps(project: Project) -> dict[int, tuple[Any, ...]]:
    """Return the values of the volatile columns of each row."""
    rows = project.rows("select id, loaded_at, run_id, row_id from {schema}.mv")
    return {row[0]: row[1:] for row in rows}


def kept(project: Project, before: dict[int, tuple[Any, ...]]) -> set[int]:
    """Return the ids of the rows that have the same volatile values as before."""
    now = stamps(project)
    return {key for key, values in before.items() if now.get(key) == values}


def assert_exact(project: Project) -> None:
    assert project.rows("select id, name from {schema}.mv") == project.rows(
        "select id, upper(name) from {schema}.up where name <> 'hidden'"
    )
    assert statuses(project)["consistent"] == "pass"


@pytest.fixture
def up(project: Project) -> Project:
    """Create an upstream with the ids from 1 to 20."""
    project.create_table("up", "id int, name string, changed_at timestamp")
    project.sql(
        "insert into {schema}.up select id, concat('n', id), timestamp'2024-01-01 00:00:00'"
        " from range(1, 21)"
    )
    return project


@pytest.fixture
def mv(up: Project) -> Project:
    """Create an MV that has read its whole upstream."""
    write(up)
    up.run()
    return up


@pytest.mark.core("session-delta", "session-iceberg")
@pytest.mark.every_profile
def test_a_row_has_the_run_that_wrote_it_last(up: Project) -> None:
    write(up, backfill_rate_limit=10)
    up.run()
    first = stamps(up)
    assert len(first) >= 10
    assert len({run for _, run, _ in first.values()}) == 1
    assert len({row for _, _, row in first.values()}) == len(first)
    up.sql("update {schema}.up set name = 'new' where id = 2")
    up.sql("update {schema}.up set name = 'hidden' where id = 3")
    up.sql("delete from {schema}.up where id = 4")
    up.sql("insert into {schema}.up values (0, 'late', null)")

    result = up.run()

    assert "compare the query" not in result.steps
    second = stamps(up)
    assert set(second) == set(range(21)) - {3, 4}
    assert kept(up, first) == set(first) - {2, 3, 4}
    runs = {second[key][1] for key in second if key not in kept(up, first)}
    assert len(runs) == 1
    assert runs != {run for _, run, _ in first.values()}
    assert second[2][0] > first[2][0]
    assert_exact(up)
    # The text of the query is another one in each run, but there is nothing to do.
    assert assert_writes_nothing(up, up.run).message("mv") == "CAUGHT UP"


@pytest.mark.every_profile
@pytest.mark.parametrize("kind", [pytest.param("view", marks=with_views), "ephemeral"])
def test_a_view_or_an_ephemeral_model_may_define_the_columns(up: Project, kind: str) -> None:
    stage = f"{{{{ config(materialized='{kind}') }}}}\n{QUERY}"
    mv = model("select * from {{ ref('stage') }} where id < 100", volatile_columns=VOLATILE)
    up.write({"stage": stage, "mv": mv}, sources=["up"], properties=data_tests(up, "mv"))
    up.run()
    first = stamps(up)
    up.sql("update {schema}.up set name = 'new' where id = 2")
    up.run()
    assert kept(up, first) == set(first) - {2}
    assert_exact(up)
    assert up.run().message("mv") == "CAUGHT UP"


@any_connection
@pytest.mark.core("session-delta", "session-iceberg")
@pytest.mark.every_profile
def test_after_a_foreign_write_only_the_rows_that_differ_are_written(mv: Project) -> None:
    before = stamps(mv)
    mv.sql("update {schema}.mv set name = 'wrong' where id = 2")
    mv.sql("update {schema}.mv set run_id = 'mine' where id = 3")
    mv.sql("delete from {schema}.mv where id = 4")
    mv.sql("insert into {schema}.mv values (99, 'wrong', null, null, null)")

    result = mv.run()

    assert "re-anchored" in result.output
    assert rows_written(mv) == {"inserted": 1, "updated": 1, "deleted": 1}
    assert kept(mv, before) == set(before) - {2, 3, 4}
    assert stamps(mv)[3][1] == "mine"
    assert_exact(mv)


@any_connection
@pytest.mark.every_profile
def test_a_verification_compares_the_other_columns_and_a_repair_writes_the_whole_row(
    mv: Project,
) -> None:
    before = stamps(mv)
    mv.sql("update {schema}.mv set run_id = 'mine', loaded_at = null where id = 3")
    verified = assert_writes_nothing(
        mv, lambda: mv.operation("verify_backfill", model="mv", repair=True)
    )
    assert "mv: 20 rows compared, all equal" in verified.output
    mv.sql("update {schema}.mv set name = 'wrong', row_id = 'mine' where id = 5")
    mv.sql("delete from {schema}.mv where id = 6")

    message = refused_operation(mv, "verify_backfill", model="mv")
    assert "2 keys" in message
    assert mv.last is not None
    shown = [line.strip() for line in mv.last.messages if line.startswith("    ")]
    assert [line for line in shown if line in {"name", *VOLATILE}] == ["name"]

    mv.operation("verify_backfill", model="mv", repair=True)
    assert kept(mv, before) == set(before) - {3, 5, 6}
    assert stamps(mv)[5][2] != "mine"
    assert_exact(mv)


def test_a_sweep_writes_only_what_differs(up: Project) -> None:
    write(up, on_foreign_write="sweep", backfill_rate_limit=8, barriers_per_run="all")
    up.run()
    before = stamps(up)
    up.sql("update {schema}.mv set name = 'wrong' where id = 2")

    up.run()

    assert kept(up, before) == set(before) - {2}
    assert_exact(up)


def test_an_adopted_table_keeps_its_values(up: Project) -> None:
    up.create_table("mv", "id int, name string, loaded_at timestamp, run_id string, row_id string")
    up.sql(
        "insert into {schema}.mv select id, upper(name), timestamp'2001-01-01', 'old', 'old'"
        " from {schema}.up where id <> 7"
    )
    write(up)
    before = stamps(up)
    up.operation("adopt_table", model="mv")

    up.run()

    assert kept(up, before) == set(before)
    assert stamps(up)[7][1] != "old"
    assert_exact(up)


OTHERS = {
    "both": (
        f"select id, now() as loaded_at from {UP}",
        {"volatile_columns": ["ID"]},
        "volatile_columns contains 'id', which unique_key contains as well",
    ),
    "unknown": (
        f"select id, now() as loaded_at from {UP}",
        {"volatile_columns": ["loaded_at", "nope"]},
        "volatile_columns contains 'nope', but its query has no expression that ends with AS nope",
    ),
    "filter": (
        f"select * from (select id, now() as loaded_at from {UP}) where loaded_at > '2020-01-01'",
        {},
        "uses a column of volatile_columns (loaded_at) in a filter or in another column",
    ),
    "other_column": (
        f"with a as (select id, current_date() as loaded_at from {UP})"
        " select id, loaded_at, year(loaded_at) as y from a",
        {},
        "uses a column of volatile_columns",
    ),
    "in_a_struct": (
        f"with a as (select id, struct(now() as t) as loaded_at from {UP})"
        " select id, loaded_at, loaded_at.t as t from a",
        {},
        "uses a column of volatile_columns",
    ),
    "renamed": (
        f"select id, w as v, w as loaded_at from (select id, now() as loaded_at from {UP})"
        " as t(id, w)",
        {},
        "uses a column of volatile_columns",
    ),
    "null_or_not": (
        f"select * from (select id, name, now() as loaded_at from {UP})"
        " where name = 'n1' or loaded_at is null",
        {},
        "uses a column of volatile_columns",
    ),
    "star": (
        f"with a as (select id, now() as loaded_at from {UP})"
        " select id, loaded_at, md5(to_json(struct(*))) as hash from a",
        {},
        "uses a column of volatile_columns",
    ),
    "not_declared": (
        f"select id, now() as loaded_at, now() as seen_at from {UP}",
        {},
        "uses now(), which gives another value",
        "volatile_columns",
    ),
    "without_as": (
        f"select id, now() loaded_at from {UP}",
        {},
        "its query has no expression that ends with AS loaded_at",
        "Write <expression> AS loaded_at",
    ),
    "of_the_upstream": (
        f"select id, changed_at from {UP}",
        {"volatile_columns": ["changed_at"]},
        "its query has no expression that ends with AS changed_at",
    ),
    "file": (
        f"select id, input_file_name() as loaded_at from {UP}",
        {},
        "input_file_name()",
    ),
    "key": (
        f"select loaded_at as id from (select uuid() as loaded_at from {UP})",
        {},
        "uses a column of volatile_columns",
    ),
    "in_the_filter": (
        f"select id, now() as loaded_at from {UP} where changed_at < now()",
        {},
        "uses now()",
    ),
    "cast": (
        f"select id, now() as loaded_at, cast('today' as date) as d from {UP}",
        {},
        "'today' as a date or time",
    ),
    "window": (
        f"select id, row_number() over (order by id) as loaded_at from {UP}",
        {},
        "a window function",
    ),
    "subquery": (
        f"select id, (select max(id) from {UP}) as loaded_at from {UP}",
        {},
        "a subquery",
    ),
    "aggregate": (f"select max(id) as id, now() as loaded_at from {UP}", {}, "an aggregate"),
}  # type: dict[str, tuple[Any, ...]]

ACCEPTED = {
    "not_returned": f"select id, name as t from (select id, name, now() as loaded_at from {UP})",
    "renamed": f"select id, loaded_at as t from (select id, now() as loaded_at from {UP})",
    "passed_on": f"with a as (select id, name, now() as loaded_at from {UP})"
    " select id, name, loaded_at from a where name <> 'x'",
    "of_the_same_name": f"select id, now() as changed_at from {UP} where changed_at > '2020-01-01'",
    "cast": f"select id, cast('now' as timestamp) as loaded_at, timestamp 'today' as t from {UP}",
    "of_a_struct": f"select id, named_struct('at', now(), 'by', current_user()) as Loaded_At"
    f" from {UP}",
    "random": f"select id, rand() as loaded_at, shuffle(array(1, 2)) as t from {UP}",
    "of_the_upstream": "select id, coalesce(changed_at, current_timestamp()) as loaded_at"
    f" from {UP}",
    "of_the_session": f"select id, current_timezone() as loaded_at, '{{{{ run_started_at }}}}' as t"
    f" from {UP}",
}


@pytest.fixture(scope="module")
def checked(shared_project: MakeProject) -> Project:
    project = shared_project("volatile_queries")
    project.create_table("up", "id int, name string, changed_at timestamp")
    project.sql("insert into {schema}.up values (1, 'n1', timestamp'2024-01-01 00:00:00')")
    models = {}
    for name, (query, config, *_) in OTHERS.items():
        models[f"no_{name}"] = model(query, **({"volatile_columns": ["loaded_at"]} | config))
    for name, query in ACCEPTED.items():
        names = [n for n in ("loaded_at", "t", "changed_at") if f" as {n}" in query.lower()]
        models[f"ok_{name}"] = model(query, volatile_columns=names)
    return project.write(models, sources=["up"])


@pytest.fixture(scope="module")
def run(checked: Project) -> RunResult:
    return checked.fail()


@pytest.mark.parametrize("name", OTHERS)
def test_a_query_that_needs_a_volatile_column_is_refused(
    checked: Project, run: RunResult, name: str
) -> None:
    _, _, *facts = OTHERS[name]

    assert_refused(run, f"no_{name}", *facts)
    assert_made_nothing(checked, f"no_{name}")


@pytest.mark.parametrize("name", ACCEPTED)
def test_any_expression_of_a_row_is_allowed(checked: Project, run: RunResult, name: str) -> None:
    assert run[f"ok_{name}"].status == "success", run.message(f"ok_{name}")
    assert len(checked.rows(f"select * from {{schema}}.ok_{name}")) == 1


def test_only_the_expression_of_a_volatile_column_may_change(mv: Project) -> None:
    before = stamps(mv)
    mv.sql("update {schema}.up set name = 'new' where id = 2")
    write(mv, QUERY.replace("current_timestamp()", "coalesce(changed_at, current_timestamp())"))
    mv.run()
    assert kept(mv, before) == set(before) - {2}
    assert str(stamps(mv)[2][0]).startswith("2024-01-01")

    write(mv, QUERY.replace("upper(name)", "lower(name)"))
    assert_refused(mv.fail(), "mv", "its query changed since its last barrier")
    write(mv, QUERY.replace("uuid() as row_id", "cast(null as string) as row_id"))
    mv.sql("update {schema}.up set name = 'new' where id = 3")
    mv.run()
    assert [key for key, (_, _, row) in stamps(mv).items() if row is None] == [3]

    # Only the values may change, neither the type nor the number of rows.
    before = stamps(mv)
    mv.sql("update {schema}.up set name = 'new' where id = 4")
    write(mv, QUERY.replace("uuid() as row_id", "1 as row_id"))
    assert_refused(mv.fail(), "mv", "the columns of its query changed")
    write(mv, QUERY.replace("uuid()", "explode(array('a', 'b'))"))
    assert_refused(mv.fail(), "mv", "a generator")
    write(mv, volatile_columns=[*VOLATILE, "nam"])
    assert_refused(mv.fail(), "mv", "volatile_columns contains 'nam'")
    assert stamps(mv) == before

    # A column that is no longer volatile may have outdated values.
    write(
        mv,
        QUERY.replace("uuid() as row_id", "cast(null as string) as row_id"),
        volatile_columns=["loaded_at", "run_id"],
    )
    assert_refused(mv.fail(), "mv", "volatile_columns no longer contains row_id", "--full-refresh")
    mv.run("--full-refresh")
    assert {row for _, _, row in stamps(mv).values()} == {None}
    # A column that becomes volatile needs nothing.
    write(mv, QUERY)
    assert assert_writes_nothing(mv, mv.run).message("mv") == "CAUGHT UP"
    mv.sql("update {schema}.up set name = 'newer' where id = 3")
    mv.run()
    assert [key for key, (_, _, row) in stamps(mv).items() if row is not None] == [3]
    assert_exact(mv)


def test_a_run_executes_the_plan_of_another_run_with_the_id_of_that_run(mv: Project) -> None:
    before = stamps(mv)
    mv.sql("update {schema}.up set name = 'new' where id = 2")
    mv.fail(intercept=crash_before("merge the changes"))

    mv.run()

    assert kept(mv, before) == set(before) - {2}
    runs = [run for [run] in mv.rows("select distinct run_id from {schema}.mv")]
    assert len(runs) == 2
    assert_exact(mv)


def test_a_range_that_is_written_twice_is_one_range(up: Project) -> None:
    """The second MERGE has other values of the clock and other random values."""

    def crash(sql: str, proceed: Proceed) -> None:
        proceed()
        if "merge the range" in sql:
            raise Crash("after the range")

    write(up, backfill_rate_limit=8)
    up.run()
    first = stamps(up)
    up.fail(intercept=crash)
    wrote = {key: run for key, (_, run, _) in stamps(up).items()}
    assert set(wrote) > set(first)

    up.run()

    assert {key: run for key, (_, run, _) in stamps(up).items()} == wrote
    up.run()
    up.run()
    assert_exact(up)


def test_a_volatile_column_that_is_added_later_is_null_in_older_rows(mv: Project) -> None:
    more = QUERY.replace("uuid() as row_id", "uuid() as row_id, current_user() as who, id + 1 as n")
    write(mv, more, volatile_columns=[*VOLATILE, "who"], on_schema_change="append_new_columns")
    mv.sql("update {schema}.up set name = 'new' where id = 2")

    mv.run()

    assert mv.rows("select count(*), count(n), count_if(n = id + 1) from {schema}.mv") == [
        (20, 20, 20)
    ]
    assert_exact(mv)
    only = more.replace(", id + 1 as n", ", id + 1 as n, '{{ invocation_id }}' as first_run")
    names = [*VOLATILE, "who", "first_run"]
    write(mv, only, volatile_columns=names, on_schema_change="append_new_columns")
    before = stamps(mv)
    mv.sql("update {schema}.up set name = 'newer' where id = 3")
    mv.run()
    assert kept(mv, before) == set(before) - {3}
    assert mv.rows("select id from {schema}.mv where first_run is not null") == [(3,)]
    # The query drops a volatile column and another one, and the option drops the name.
    write(
        mv,
        only.replace(", id + 1 as n", "").replace("current_user() as who", "1 as one"),
        volatile_columns=[*VOLATILE, "first_run"],
        on_schema_change="sync_all_columns",
        tblproperties={"delta.columnMapping.mode": "name"},
    )
    if mv.file_format == "iceberg":
        mv.run()
        assert kept(mv, before) == set()
        assert_exact(mv)


@pytest.mark.profiles("session-delta", reason="a server's sessions have settings of their own")
def test_a_volatile_time_does_not_bind_the_time_zone(up: Project) -> None:
    write(up, backfill_rate_limit=8)
    up.run()
    up.configure({"spark.sql.session.timeZone": "America/New_York"})
    try:
        up.run()
        up.run()
        assert_exact(up)
    finally:
        up.configure({"spark.sql.session.timeZone": "UTC"})


@pytest.mark.profiles("session-delta", reason="Iceberg's Hadoop catalog has no views")
def test_a_live_view_has_the_values_of_the_mv_and_new_values_ahead(up: Project) -> None:
    write(up, backfill_rate_limit=8, live_view=True)
    up.run()
    written = stamps(up)

    rows = up.rows("select id, loaded_at, run_id, row_id from {schema}.mv__live")

    assert {row[0] for row in rows} == set(range(1, 21))
    assert {row[0]: row[1:] for row in rows if row[0] in written} == written
    assert None not in {row[3] for row in rows}


def test_a_replica_is_kept_while_it_has_the_columns(up: Project) -> None:
    write(up, backfill_rate_limit=4, replicate="always")
    assert "copied 2 columns" in up.run().output
    assert "copied" not in up.run().output
    write(
        up,
        QUERY.replace("current_timestamp()", "coalesce(changed_at, current_timestamp())"),
        backfill_rate_limit=4,
        replicate="always",
    )
    assert "copied 3 columns" in up.run().output
    assert "copied" not in up.run().output


def test_a_full_refresh_beside_keeps_the_volatile_columns_of_both_generations(mv: Project) -> None:
    before = stamps(mv)
    write(
        mv,
        QUERY.replace("upper(name)", "lower(name)"),
        full_refresh_mode="beside",
        on_query_change="rebuild",
        backfill_rate_limit=12,
    )
    mv.sql("update {schema}.up set name = 'new' where id = 2")
    mv.run()
    assert kept(mv, before) == set(before) - {2}
    mv.run()
    mv.run()

    assert kept(mv, before) == set()
    assert mv.rows("select id, name from {schema}.mv") == mv.rows(
        "select * except (changed_at) from {schema}.up"
    )
    assert statuses(mv)["consistent"] == "pass"
