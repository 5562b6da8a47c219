"""With `change_feed`, runs read the changes from a table that the user names.

The upstream then needs no feed of its own.
"""

from __future__ import annotations

from typing import Any

import pytest

from support.checks import (
    assert_made_nothing,
    assert_refused,
    data_tests,
    model,
    source,
)
from support.project import MakeProject, Project, RunResult

COLUMNS = "id int, name string"

# All change tables have the same events, but each uses other words for the operations.
WORDS = {
    "cdf": {
        "insert": "'insert'",
        "before": "'update_preimage'",
        "after": "'update_postimage'",
        "delete": "'delete'",
    },
    "flag": {"insert": "false", "before": "true", "after": "false", "delete": "true"},
}
OPTIONS: dict[str, dict[str, Any]] = {
    "cdf": {"operation": "op", "sequence": ["transaction", "step"]},
    "flag": {"operation": "gone", "sequence": "step", "deletes": [True]},
}


def followed(events: str, **options: Any) -> str:
    relation = f"source('lake', '{events}')"
    feed = {"relation": relation} | options
    query = f"select id, upper(name) as name from {source('people')}\n-- depends_on: "
    return model(f"{query}{{{{ {relation} }}}}", change_feed=feed, backfill_rate_limit=4)


def emit(project: Project, *events: tuple[str, int, int, str | None]) -> None:
    """Append events to each change table.

    An event is an operation, a sequence number (`step`), and a row of the upstream.
    """
    for name, words in WORDS.items():
        rows = []
        for operation, step, key, text in events:
            value = "null" if text is None else f"'{text}'"
            rows.append(f"({words[operation]}, {step // 10}L, {step}, {key}, {value})")
        project.sql(f"insert into {{schema}}.{name}_events values {', '.join(rows)}")


def make_people(project: Project) -> None:
    project.create_table("people", COLUMNS, project.format.unfollowable)
    project.sql("insert into {schema}.people select id * 10, concat('n', id) from range(1, 11)")


def assert_exact(project: Project, *names: str) -> None:
    """Assert that each MV equals its query on the current upstream, up to the MV's position.

    Without names, all MVs are checked.
    """
    for name in names or WORDS:
        position = (
            f"select max(if(backfill_finished, 1000, id)) from {{schema}}.mv_{name}__progress"
        )
        upstream = f"select id, upper(name) from {{schema}}.people where id <= ({position})"
        assert project.rows(f"select * from {{schema}}.mv_{name}") == project.rows(upstream), name


def assert_told_exact(project: Project) -> None:
    assert_exact(project)
    tested = project.dbt("test", "--select", "test_name:backfill_consistent")
    assert [node.status for node in tested.nodes] == ["pass"] * len(WORDS)


def make_events(project: Project) -> None:
    for name in WORDS:
        operation = "gone boolean" if name == "flag" else "op string"
        project.create_table(
            f"{name}_events", f"{operation}, transaction bigint, step int, {COLUMNS}"
        )


@pytest.fixture(scope="module")
def people(shared_project: MakeProject) -> Project:
    """Create an upstream, its change tables, and a model for each change table.

    Each test continues with the tables as the previous test left them.
    """
    project = shared_project("change_feeds")
    make_people(project)
    make_events(project)
    names = [f"mv_{name}" for name in WORDS]
    return project.write(
        {f"mv_{name}": followed(f"{name}_events", **OPTIONS[name]) for name in WORDS},
        sources=["people", *(f"{name}_events" for name in WORDS)],
        properties=data_tests(project, *names),
    )


@pytest.mark.every_profile
def test_the_events_of_the_users_own_are_followed_through_the_backfill(people: Project) -> None:
    emit(people, ("insert", 1, 10, "before the first run"), ("delete", 2, 90, "gone"))
    first = people.run()
    for name in WORDS:
        assert first.message(f"mv_{name}") == "BARRIER 1 (40.0 %)"
    assert_exact(people)

    # Change rows below and above the MV's position. The events of the two updates of id 20 arrive
    # in the wrong order.
    people.sql("update {schema}.people set name = 'second' where id = 20")
    people.sql("delete from {schema}.people where id in (30, 80)")
    people.sql("update {schema}.people set name = 'above' where id = 90")
    people.sql("insert into {schema}.people values (25, 'new'), (85, 'new above')")
    people.sql("update {schema}.people set id = 15 where id = 10")
    emit(people, ("after", 12, 20, "second"), ("delete", 13, 30, "n3"), ("insert", 14, 25, "new"))
    emit(people, ("after", 11, 20, "first"), ("before", 15, 10, "n1"), ("after", 15, 15, "n1"))
    emit(people, ("delete", 16, 80, None), ("after", 17, 90, "above"), ("insert", 18, 85, "new ab"))
    second = people.run()
    for name in WORDS:
        assert second.message(f"mv_{name}").startswith("BARRIER 2 (")
        assert "re-anchored" not in second.output
    assert_told_exact(people)

    # Send two events again, and send one old event late. These events must not change the MV.
    emit(people, ("after", 12, 20, "second"), ("delete", 13, 30, "n3"), ("after", 9, 25, "older"))
    people.sql("insert into {schema}.people values (30, 'again')")
    emit(people, ("insert", 22, 30, "again"), ("insert", 23, 26, "x"), ("delete", 24, 26, "x"))
    cdf = ("--select", "mv_cdf")  # two columns define the order of this table's events
    while not people.run(*cdf).message("mv_cdf").endswith("(100.0 %)"):
        pass
    assert_exact(people, "cdf")
    assert people.run(*cdf).message("mv_cdf") == "CAUGHT UP"

    people.sql("delete from {schema}.people where id > 80")
    emit(people, *(("delete", 30 + key, key, None) for key in (85, 90, 100)))
    people.run(*cdf)
    assert_exact(people, "cdf")
    assert people.rows("select id from {schema}.mv_cdf where id > 80") == []


@pytest.mark.every_profile
def test_an_event_may_be_cleaned_away_before_a_run_has_read_it(people: Project) -> None:
    """Iceberg's row lineage does not show a deleted event, but the previous snapshot still has the
    event.
    """
    if not people.exists("mv_cdf"):
        people.run()
    people.sql("update {schema}.people set name = 'cleaned' where id = 20")
    emit(people, ("after", 500, 20, "cleaned"))
    for name in WORDS:
        people.sql(f"delete from {{schema}}.{name}_events")
    people.sql("update {schema}.people set name = 'left' where id = 40")
    emit(people, ("after", 501, 40, "left"))

    result = people.run()

    assert "re-anchored" not in result.output
    assert_told_exact(people)


@pytest.mark.every_profile
@pytest.mark.profiles("session-iceberg", reason="several snapshots of a change table are read")
@pytest.mark.parametrize("had_events", [True, False])
def test_columns_of_the_change_table_that_changed_and_changed_back_lead_to_a_comparison(
    new_project: Any, had_events: bool
) -> None:
    project: Project = new_project()
    make_people(project)
    project.create_table("events", f"op string, step int, {COLUMNS}", {"format-version": "3"})
    query = followed("events", operation="op", sequence="step")
    project.write({"mv_events": query}, sources=["people", "events"])
    if had_events:
        project.sql("insert into {schema}.events values ('u', 0, 20, 'n2')")
    project.run()
    project.sql("update {schema}.people set name = 'new' where id = 20")
    project.sql("alter table {schema}.events add column more int")
    project.sql("insert into {schema}.events values ('u', 1, 20, 'new', 1)")
    project.sql("delete from {schema}.events")
    project.sql("alter table {schema}.events drop column more")
    project.sql("insert into {schema}.events values ('u', 2, 20, 'new')")

    assert "re-anchored: columns of" in project.run().output
    assert_exact(project, "events")


def test_events_are_not_missed_when_the_change_table_is_made_anew(people: Project) -> None:
    if not people.exists("mv_cdf"):
        people.run()
    people.sql("update {schema}.people set name = 'unseen' where id = 20")
    for name in WORDS:
        people.sql(f"drop table {{schema}}.{name}_events")
    make_events(people)
    emit(people, ("after", 1, 20, "unseen"))

    result = people.run()

    assert result.output.count("re-anchored: ") == len(WORDS)
    assert_told_exact(people)


REFUSED: dict[str, tuple[str, tuple[str, ...]]] = {
    "no_relation": (
        followed("events", relation="", operation="op", sequence="step"),
        ("change_feed is", "'relation'"),
    ),
    "no_sequence": (followed("events", operation="op"), ("change_feed is", "'sequence'")),
    "misspelt": (
        followed("events", operation="op", sequence="step", delete=["d"]),
        ("change_feed is", "'deletes'"),
    ),
    "not_depended_on": (
        followed("events", relation="source('lake', 'others')", operation="op", sequence="step"),
        ("does not depend on source('lake', 'others')", "-- depends_on: "),
    ),
    "absent": (
        followed("absent", operation="op", sequence="step"),
        ("change_feed refused_feeds.absent does not exist",),
    ),
    "unknown_operation": (
        followed("events", operation="verb", sequence="step"),
        ("has no column 'verb'", "op, step, id, name"),
    ),
    "unknown_sequence": (
        followed("events", operation="op", sequence=["step", "at"]),
        ("has no column 'at'",),
    ),
    "lacks_a_column": (
        followed("narrow_events", operation="op", sequence="step"),
        ("narrow_events has no column name", "refused_feeds.people has it as string"),
    ),
    "has_another_type": (
        followed("typed_events", operation="op", sequence="step"),
        ("typed_events has id as bigint", "refused_feeds.people has it as int"),
    ),
}


@pytest.fixture(scope="module")
def refusing(shared_project: MakeProject) -> Project:
    project = shared_project("refused_feeds")
    make_people(project)
    project.create_table("events", f"op string, step int, {COLUMNS}")
    project.create_table("narrow_events", "op string, step int, id int")
    project.create_table("typed_events", "op string, step int, id bigint, name string")
    tables = ["people", "events", "narrow_events", "typed_events", "absent", "others"]
    return project.write({name: sql for name, (sql, _) in REFUSED.items()}, sources=tables)


@pytest.fixture(scope="module")
def refused(refusing: Project) -> RunResult:
    return refusing.fail()


@pytest.mark.parametrize("name", REFUSED)
def test_a_change_feed_that_cannot_be_followed_is_refused(
    refusing: Project, refused: RunResult, name: str
) -> None:
    _, facts = REFUSED[name]

    assert_refused(refused, name, *facts)
    assert_made_nothing(refusing, name)


@pytest.mark.profiles("session-delta", reason="one format will do")
def test_columns_behind_one_whose_name_begins_with_a_hash_are_in_the_events(
    project: Project,
) -> None:
    """dbt's own listing of columns ends at a column whose name begins with `#`."""
    mapped = {"delta.columnMapping.mode": "name"}
    columns = "id int, `#rank` int, name string"
    project.create_table("people", columns, mapped)
    project.create_table("events", f"{columns}, op string, step int", mapped)
    project.sql("insert into {schema}.people values (1, 1, 'a')")
    query = followed("events", operation="op", sequence="step")
    project.write({"mv": query}, sources=["people", "events"])
    project.run()

    project.sql("update {schema}.people set name = 'b' where id = 1")
    project.sql("insert into {schema}.events values (1, 1, 'b', 'u', 1)")
    project.run()
    assert project.rows("select id, name from {schema}.mv") == [(1, "B")]


@pytest.mark.profiles("session-delta", reason="only Delta has a char(n)")
def test_a_char_is_one_in_the_change_table_too(project: Project) -> None:
    """Spark pads a char(n) with blanks. A varchar(n) has the same values as a string."""
    project.create_table("people", "id int, code char(4), name varchar(9)")
    project.sql("insert into {schema}.people values (1, 'a', 'x'), (2, 'b', 'y')")
    models, rows = {}, "select id, concat(code, '|') as code, name from "
    for name, type_ in {"text": "string", "filled": "char(4)"}.items():
        columns = f"id int, code {type_}, name string, op string, n int"
        project.create_table(f"{name}_events", columns)
        query = f"{rows}{source('people')}\n-- depends_on: {source(f'{name}_events')}"
        relation = f"source('lake', '{name}_events')"
        feed = {"relation": relation, "operation": "op", "sequence": "n"}
        models[name] = model(query, change_feed=feed)
    project.write(models, sources=["people", "text_events", "filled_events"])
    facts = ("text_events has code as string", "has it as char(4)", "or make the char(n) a string")
    assert_refused(project.fail(), "text", *facts)
    assert_made_nothing(project, "text")

    project.sql("update {schema}.people set code = 'c' where id = 1")
    project.sql("insert into {schema}.filled_events values (1, 'c', 'x', 'u', 1)")
    project.run("--select", "filled")
    fresh = project.rows(f"{rows}{{schema}}.people")
    assert fresh == [(1, "c   |", "x"), (2, "b   |", "y")]
    assert project.rows("select * from {schema}.filled") == fresh
