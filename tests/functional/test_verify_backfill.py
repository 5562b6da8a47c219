"""`verify_backfill` finds and repairs what other programs changed in an MV.

`test_install_modes.py` tests the operation in the adapter plugin.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from typing import Any

import pytest
import yaml

from support.checks import (
    assert_writes_nothing,
    data_tests,
    model,
    refused_operation,
    rows_written,
    source,
)
from support.profiles import any_connection, at_home_on_iceberg
from support.project import MakeProject, Proceed, Project, RunResult, crash_before

pytestmark = at_home_on_iceberg

QUERY = (
    "select id, shard, upper(name) as name, scores, tags"
    f" from {source('people')} where name <> 'hidden'"
)
KEY = ["id", "shard"]
MV = model(QUERY, unique_key=KEY, backfill_rate_limit=14)
ROWS = 19
EXTRA = "insert into {schema}.mv values (99, 'x', 'N99', map('a', 1), array('x'))"


@pytest.fixture(scope="module")
def project(shared_project: MakeProject) -> Project:
    """Create an MV with two key columns, a map and an array. It has read its whole upstream."""
    project = shared_project("verify_backfill")
    project.create_table(
        "people", "id int, shard string, name string, scores map<string, int>, tags array<string>"
    )
    project.sql(
        "insert into {schema}.people select id, shard, if(id = 3 and shard = 'x', 'hidden',"
        " concat('n', id)), map('b', id, 'a', id), array(string(id), null)"
        " from range(1, 11), (select explode(array('x', 'y')) as shard)"
    )
    plain = f"{{{{ config(materialized='table') }}}} select * from {source('people')}"
    project.write(
        {"mv": MV.replace("backfill_rate_limit=14", "barriers_per_run='all'"), "plain": plain},
        sources=["people"],
    )
    project.run("--select", "mv")
    # The upstream changes after the run, but the MV is compared with the version that it has read.
    project.sql("update {schema}.people set name = 'later' where id = 1")
    return project


@pytest.fixture
def restored(project: Project) -> Iterator[Project]:
    """Yield the project with the MV, and restore the MV after the test."""
    version = project.current_version("mv")
    yield project
    project.put_back("mv", version)


def verify(project: Project, mv: str = "mv", **arguments: Any) -> RunResult:
    result: RunResult = project.operation("verify_backfill", model=mv, **arguments)
    return result


def refused(project: Project, **arguments: Any) -> str:
    return refused_operation(project, "verify_backfill", **arguments)


def lines(result: RunResult | None, mv: str = "mv") -> list[str]:
    """Return the lines that the operation printed about the MV."""
    assert result is not None
    shown = [message for message in result.messages if re.match(rf"{mv}: |  \S|    ", message)]
    assert all(len(line) <= 80 for line in shown if not line.startswith(f"{mv}: ")), shown
    return shown


@pytest.mark.every_profile
def test_an_mv_that_is_what_it_has_to_be_passes(project: Project) -> None:
    result = assert_writes_nothing(project, lambda: verify(project))

    assert lines(result) == [f"mv: {ROWS} rows compared, all equal"]


@pytest.mark.every_profile
def test_each_kind_of_difference_is_named_with_both_values(restored: Project) -> None:
    restored.sql(EXTRA)
    restored.sql("delete from {schema}.mv where id = 2 and shard = 'y'")
    restored.sql(
        "update {schema}.mv set name = null, scores = map('a', 4, 'b', 9)"
        " where id = 4 and shard = 'x'"
    )
    restored.sql("update {schema}.mv set tags = array('5') where id = 5 and shard = 'x'")
    restored.sql("insert into {schema}.mv select * from {schema}.mv where id = 6 and shard = 'x'")
    # Another order of the entries in a map is not a difference.
    restored.sql("update {schema}.mv set scores = map('a', id, 'b', id) where id = 7")

    message = assert_writes_nothing(restored, lambda: refused(restored, model="mv"))

    assert message == (
        f"backfilled_mv mv: 5 keys of {restored.schema}.mv differ from the result of its query"
        " (2 changed, 1 duplicated, 1 missing, 1 unexpected). Find out what wrote to the table, and"
        " merge the difference with the argument repair: true."
    )
    assert lines(restored.last) == [
        f"mv: {ROWS + 1} rows compared, 5 keys differ:"
        " 2 changed, 1 duplicated, 1 missing, 1 unexpected",
        "  changed id=4, shard='x'",
        "    name",
        "      expected 'N4'",
        "      found    NULL",
        "    scores",
        "      expected {b -> 4, a -> 4}",
        "      found    {a -> 4, b -> 9}",
        "  changed id=5, shard='x'",
        "    tags",
        "      expected [5, null]",
        "      found    [5]",
        "  duplicated id=6, shard='x'",
        "      expected name='N6', scores={b -> 6, a -> 6}, tags=[6, null]",
        "      found    name='N6', scores={b -> 6, a -> 6}, tags=[6, null]",
        "      found    name='N6', scores={b -> 6, a -> 6}, tags=[6, null]",
        "  missing id=2, shard='y'",
        "      expected name='N2', scores={b -> 2, a -> 2}, tags=[2, null]",
        "  unexpected id=99, shard='x'",
        "      found    name='N99', scores={a -> 1}, tags=[x]",
    ]


PROMISED = """
    select id, shard, upper(name) as name, to_json(scores) as scores, tags
    from (
        select id, shard, if(id = 3 and shard = 'x', 'hidden', concat('n', id)) as name,
            map('b', id, 'a', id) as scores, array(string(id), null) as tags
        from range(1, 11), (select explode(array('x', 'y')) as shard)
    )
    where name <> 'hidden'
"""


def assert_is_promised(project: Project) -> None:
    """Assert that the MV has exactly the rows that its query returned when the MV read the
    upstream.
    """
    found = project.rows("select id, shard, name, to_json(scores) as scores, tags from {schema}.mv")
    assert found == project.rows(PROMISED)


@pytest.mark.every_profile
def test_a_repair_writes_the_difference_and_no_other_row(restored: Project) -> None:
    restored.sql(EXTRA)
    restored.sql("insert into {schema}.mv values (null, 'x', 'nobody', null, null)")
    restored.sql("delete from {schema}.mv where id = 2 and shard = 'y'")
    restored.sql("update {schema}.mv set name = null, scores = null where id = 4 and shard = 'x'")
    restored.sql("update {schema}.mv set tags = array('5') where id = 5")
    restored.sql("insert into {schema}.mv select * from {schema}.mv where id = 6 and shard = 'x'")
    restored.sql("insert into {schema}.mv values (8, 'y', 'other', null, array('z'))")

    result = verify(restored, repair=True, sample=0)

    assert lines(result) == [
        f"mv: {ROWS + 3} rows compared, 8 keys differ:"
        " 3 changed, 2 duplicated, 1 missing, 2 unexpected",
        "mv: 8 keys repaired (3 changed, 2 duplicated, 1 missing, 2 unexpected)",
        f"mv: {ROWS} rows of the verified keys compared again, all equal",
    ]
    # The repair deletes both rows of each duplicated key and inserts one row.
    assert rows_written(restored) == {"inserted": 3, "updated": 3, "deleted": 6}
    assert_is_promised(restored)


def test_a_repair_without_a_difference_writes_nothing(project: Project) -> None:
    """The names of the operation and of the model may include their packages."""

    def repair() -> RunResult:
        return project.operation("dbt_backfill.verify_backfill", model="tested.mv", repair=True)

    result = assert_writes_nothing(project, repair)

    assert lines(result) == [f"mv: {ROWS} rows compared, all equal"]


@pytest.mark.parametrize("step", ["compare with", "repair the MV"])
def test_nothing_is_repaired_once_another_barrier_has_begun(restored: Project, step: str) -> None:
    restored.sql(EXTRA)
    tampered = restored.current_version("mv")
    state = restored.current_version("mv__progress")

    def begin(sql: str, proceed: Proceed) -> None:
        if f".mv: {step}" in sql:
            restored.sql("update {schema}.mv__progress set plan_id = 'b', plan_kind = 'advance'")
        proceed()

    arguments = yaml.safe_dump({"model": "mv", "repair": True})
    result = restored.fail("run-operation", "verify_backfill", "--args", arguments, intercept=begin)
    restored.put_back("mv__progress", state)

    assert "backfilled_mv mv: another run " in result.output
    assert restored.current_version("mv") == tampered


def vnode_of(project: Project, key: str) -> int:
    return int(project.value(f"select pmod(xxhash64({key}), 4)"))


def test_vnodes_that_are_selected_are_compared_and_repaired_alone(restored: Project) -> None:
    restored.sql("update {schema}.mv set name = 'other'")
    vnode = vnode_of(restored, "4, 'x'")
    own = f"pmod(xxhash64(id, shard), 4) = {vnode}"
    count = restored.value(f"select count(*) from {{schema}}.mv where {own}")

    result = verify(restored, vnodes=[vnode], repair=True, sample=1)

    assert lines(result)[0].startswith(
        f"mv: {count} rows of the vnodes {vnode} compared, {count} keys differ: {count} changed"
    )
    others = restored.rows("select distinct name = 'other' from {schema}.mv where not " + own)
    assert others == [(True,)]
    assert restored.value(f"select count_if(name = 'other') from {{schema}}.mv where {own}") == 0
    assert lines(verify(restored, vnodes=vnode)) == [
        f"mv: {count} rows of the vnodes {vnode} compared, all equal"
    ]


def test_a_key_range_is_inclusive(project: Project) -> None:
    for selection, compared in [
        ({"key_from": [4, "y"], "key_to": 5}, "3 rows from (4, y) to (5)"),
        ({"key_from": 4, "key_to": [5, "x"]}, "3 rows from (4) to (5, x)"),
    ]:
        assert lines(verify(project, **selection)) == [f"mv: {compared} compared, all equal"]


def test_a_key_range_is_compared_and_repaired_alone_by_one_commit(restored: Project) -> None:
    restored.sql("update {schema}.mv set name = 'other' where id in (2, 7, 8)")
    restored.sql(EXTRA)

    assert lines(verify(restored, key_from=[3], key_to=[6, "y"]))[-1].endswith("all equal")
    result = verify(restored, key_from=[7, "y"], key_to=98, repair=True)

    assert lines(result)[-1] == (
        "mv: 3 rows from the first of these keys to the last compared again, all equal"
    )
    assert rows_written(restored) == {"inserted": 0, "updated": 3, "deleted": 0}
    [merge] = [sql for sql in result.statements if "merge into" in sql]
    assert " and (mv.`id` >= 7 and " in merge
    assert restored.rows("select id, shard from {schema}.mv where name = 'other' or id = 99") == [
        (2, "x"), (2, "y"), (7, "x"), (99, "x"),
    ]  # fmt: skip


# These refusals need Spark, dbt's graph or dbt's command line. The unit tests test the other
# refusals.
REFUSED = {
    "unknown model": ({"model": "absent"}, "absent: there is no model of this name."),
    "argument": ({"model": "mv", "from": 3}, "mv: verify_backfill has no argument 'from'."),
    "key type": (
        {"model": "mv", "key_from": ["a"]},
        'mv: the argument key_from has "a", but the column id has the type int. Give a value',
    ),
    "unquoted text": (
        {"model": "mv", "key_to": [1, 7]},
        "mv: the argument key_to has 7, but the column shard has the type string. Give a value of"
        " this type, in quotes.",
    ),
    "empty range": (
        {"model": "mv", "key_from": 7, "key_to": [6, "z"]},
        "mv: the argument key_from is above",
    ),
}


@pytest.mark.parametrize("what", REFUSED)
def test_arguments_that_make_no_sense_are_refused(project: Project, what: str) -> None:
    arguments, message = REFUSED[what]

    assert refused(project, **arguments).startswith(f"backfilled_mv {message}")


def test_an_mv_that_has_never_run_is_refused(project: Project) -> None:
    project.write({"unrun": MV})

    assert refused(project, model="unrun").endswith(
        ".unrun does not exist yet. Run the model first: dbt run --select unrun."
    )
    project.remove("unrun")


KEY_OF_OTHER_TYPES = ["day", "at", "code", "amount"]


@pytest.fixture(scope="module")
def numbers(shared_project: MakeProject) -> Project:
    """Create one MV whose first run has read 4 rows. Tests run the other models themselves."""
    project = shared_project("verify_numbers")
    project.create_table("numbers", "id int, name string")
    long = "concat(repeat('a', 100), id, repeat('b', 99))"
    name = f"if(id = 2, {long}, concat('n', id))"
    project.sql(f"insert into {{schema}}.numbers select id, {name} from range(1, 11)")
    query = f"select id, upper(name) as name from {source('numbers')}"
    project.create_table("events", "day date, at timestamp, code binary, amount decimal(10,2)")
    project.sql(
        "insert into {schema}.events"
        " select date '2024-01-01' + cast(id as int), timestamp '2024-01-01 10:00:00',"
        " cast(concat('c', id) as binary), id / 4 from range(10)"
    )
    events = f"select *, 'x' as name from {source('events')}"
    project.write(
        {
            "mv": model(query, backfill_rate_limit=4),
            "some": model(query, backfill_vnodes=[0, 2]),
            "unread": model(query, backfill_rate_limit=0),
            "typed": model(events, unique_key=KEY_OF_OTHER_TYPES),
        },
        sources=["numbers", "events"],
        properties=data_tests(project, "mv"),
    )
    project.run("--select", "mv")
    return project


@pytest.fixture(scope="module")
def others(numbers: Project) -> Project:
    """Create and run three MVs: one has two vnodes, one has no rows, one has another upstream."""
    numbers.run("--select", "some", "unread", "typed")
    return numbers


def test_a_long_value_is_shown_from_where_it_differs(others: Project) -> None:
    version = others.current_version("mv")
    others.sql("update {schema}.mv set name = replace(name, '2', '77')")

    refused(others, model="mv")
    others.put_back("mv", version)

    assert lines(others.last)[1:] == [
        "  changed id=2",
        "    name",
        "      expected …" + "A" * 20 + "2" + "B" * 40 + "…",
        "      found    …" + "A" * 20 + "77" + "B" * 39 + "…",
    ]


def twice(sql: str, proceed: Proceed) -> None:
    """Send the repair twice, as dbt does after a lost connection."""
    proceed()
    if ".mv: repair" in sql:
        proceed()


def test_a_partly_backfilled_mv_is_compared_up_to_its_position_and_may_be_repaired_twice(
    numbers: Project,
) -> None:
    assert lines(verify(numbers)) == ["mv: 4 rows compared, all equal"]

    numbers.sql("insert into {schema}.mv values (7, 'N7')")
    numbers.sql("insert into {schema}.mv select * from {schema}.mv where id < 3")
    numbers.sql("delete from {schema}.mv where id = 4")
    arguments = yaml.safe_dump({"model": "mv", "repair": True})
    numbers.dbt("run-operation", "verify_backfill", "--args", arguments, intercept=twice)

    assert numbers.rows("select id from {schema}.mv") == [(1,), (2,), (3,), (4,)]


@pytest.fixture(scope="module")
def begun(numbers: Project) -> Project:
    """Start the second barrier of `mv`, and kill the run before the commit."""
    numbers.sql("update {schema}.numbers set name = 'later' where id = 2")
    numbers.fail("--select", "mv", intercept=crash_before(".mv: commit"))
    return numbers


def test_a_barrier_that_is_not_committed_is_not_compared(begun: Project) -> None:
    message = assert_writes_nothing(begun, lambda: refused(begun, model="mv", repair=True))

    assert message == (
        "backfilled_mv mv: its barrier 2 has begun but is not committed. Run the model first"
        " (dbt run --select mv), and then verify it."
    )


def test_the_generic_test_does_not_compare_it_either(begun: Project) -> None:
    result = begun.fail("test", "--select", "test_name:backfill_consistent")

    [consistent] = result.nodes
    assert consistent.status == "error"
    assert "backfilled_mv mv: its barrier" in consistent.message
    assert "is not committed" in consistent.message


def test_a_barrier_is_compared_once_it_is_committed(begun: Project) -> None:
    begun.run("--select", "mv")  # compares the MV, because a test above has written to it
    assert lines(verify(begun)) == ["mv: 4 rows compared, all equal"]
    begun.run("--select", "mv")
    assert lines(verify(begun)) == ["mv: 8 rows compared, all equal"]
    begun.test("--select", "test_name:backfill_consistent")


def test_vnodes_with_positions_of_their_own_are_compared_up_to_each(others: Project) -> None:
    count = others.value("select count(*) from {schema}.some")
    assert 0 < count < 10
    assert lines(verify(others, "some"), "some") == [f"some: {count} rows compared, all equal"]

    others.sql("insert into {schema}.some select id, 'x' from {schema}.numbers")
    repaired = verify(others, "some", repair=True)

    assert lines(repaired, "some")[-1].endswith(" compared again, all equal")
    assert others.value("select count(*) from {schema}.some") == count


def test_an_mv_that_has_read_nothing_is_empty(others: Project) -> None:
    assert lines(verify(others, "unread"), "unread") == ["unread: 0 rows compared, all equal"]

    others.sql("insert into {schema}.unread values (7, 'N7')")
    verify(others, "unread", repair=True)

    assert others.rows("select id from {schema}.unread") == []


@pytest.mark.every_profile
@any_connection
def test_a_version_that_is_gone_is_not_compared(numbers: Project) -> None:
    numbers.sql("update {schema}.numbers set name = 'gone'")
    numbers.clean_up("numbers")

    message = refused(numbers, model="mv")

    assert (
        f"of its upstream {numbers.schema}.numbers, but this version can no longer be read"
        in message
    )
    assert message.endswith(" moves the MV to a later version, and then verify the MV.")
    numbers.run("--select", "mv")
    verify(numbers)


def test_an_upstream_or_state_that_is_gone_is_refused(numbers: Project) -> None:
    numbers.sql("drop table {schema}.numbers")
    assert "can no longer be read. Run the model" in refused(numbers, model="mv")

    numbers.sql("drop table {schema}.mv__progress")
    assert "mv: its state is missing: " in refused(numbers, model="mv")


def test_keys_of_other_types_are_written_as_text(others: Project) -> None:
    key_from = ["2024-01-03", "2024-01-01 10:00:00", "6332", "0.50"]
    found = lines(verify(others, "typed", key_from=key_from), "typed")
    assert found[0].startswith("typed: 8 rows from ")

    others.sql("update {schema}.typed set name = 'y' where amount = 0.5")
    refused(others, model="typed", key_from=key_from, key_to="2024-01-03")

    assert lines(others.last, "typed")[1:] == [
        "  changed day=2024-01-03, at=2024-01-01 10:00:00, code=X'6332', amount=0.50",
        "    name",
        "      expected 'x'",
        "      found    'y'",
    ]


@pytest.mark.profiles("session-delta", reason="the types are Spark's, and a restore is Delta's")
def test_columns_of_types_that_spark_does_not_compare(new_project: Callable[[], Project]) -> None:
    project = new_project()
    project.create_table(
        "people",
        "id int, deep map<string, map<string, int>>,"
        " pair struct<m: map<string, int>, at: timestamp>",
    )
    project.sql(
        "insert into {schema}.people select id, map('a', map('b', id)),"
        " struct(map('c', id), timestamp'2024-01-01 10:00:00.000001') from range(5)"
    )
    query = f"select * from {source('people')}"
    project.write({"mv": model(query)}, sources=["people"])
    project.run()
    project.sql(
        "update {schema}.people set pair.at = timestamp'2024-01-01 10:00:00.000002' where id = 1"
    )
    project.sql("update {schema}.people set deep = map('a', map('b', -1)) where id = 2")
    version = project.current_version("people")
    project.sql("delete from {schema}.people where id = 3")
    project.restore("people", version)  # after a restore, a run compares all rows
    result = project.run()

    assert "re-anchored" in result.output and "2 changed" in result.output
    texts = "select id, to_json(deep), pair.at from {schema}."
    assert project.rows(texts + "mv") == project.rows(texts + "people")
    assert "5 rows compared, all equal" in verify(project).output
