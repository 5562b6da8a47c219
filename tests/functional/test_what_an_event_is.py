"""What a row of the user's change table says, and what orders such rows."""

from __future__ import annotations

import pytest

from support.checks import assert_refused, model, source
from support.project import Project

pytestmark = [
    pytest.mark.profiles("session-delta", "session-iceberg", reason="depends on the format alone"),
    pytest.mark.every_profile,
]


def followed(columns: str = "id, v", on_gap: str = "fail", **feed: object) -> str:
    relation = "source('lake', 'events')"
    feed = {"relation": relation, "operation": "op", "sequence": "seq", **feed}
    query = f"select {columns} from {source('up')}\n-- depends_on: {{{{ {relation} }}}}"
    return model(query, change_feed=feed, on_gap=on_gap)


def assert_exact(project: Project) -> None:
    mv = project.rows("select id, v from {schema}.mv order by id")
    assert mv == project.rows("select id, v from {schema}.up order by id")


@pytest.mark.core("session-delta")
def test_tombstones_and_heartbeats_are_ignored(project: Project) -> None:
    """`on_gap: fail` would refuse a run that compares the whole table."""
    project.create_table("up", "id int, v string", project.format.unfollowable)
    project.create_table("events", "id int, v string, op string, seq bigint")
    project.sql("insert into {schema}.up select int(id), concat('n', id) from range(1, 11)")
    project.write({"mv": followed()}, sources=["up", "events"]).run()

    project.sql("delete from {schema}.up where id = 5")
    project.sql("insert into {schema}.events values (5, null, 'd', 43), (5, null, null, 43)")
    project.run()
    assert_exact(project)
    for number, heartbeat in enumerate(["(null, null, null, null)", "(null, null, 'm', 17)"], 1):
        project.sql(f"update {{schema}}.up set v = 'new' where id = {number}")
        project.sql(
            f"insert into {{schema}}.events values ({number}, 'new', 'u', {100 + number}),"
            f" (5, null, null, {50 + number}), {heartbeat}"
        )
        project.run()
        assert_exact(project)


@pytest.mark.parametrize(
    ("events", "deletes"),
    [
        (["(null, null, 'd', 43)"], ["d"]),
        (["(null, null, 't', 50)", "(null, null, 'd', 51)"], ["d"]),
        (["(null, null, 't', 50)"], ["d", "t"]),
    ],
    ids=["a delete", "a truncate and a delete", "a truncate that is listed as a delete"],
)
def test_after_an_event_without_a_key_the_whole_table_is_compared(
    project: Project, events: list[str], deletes: list[str]
) -> None:
    """Such an event does not report which rows were deleted."""
    project.create_table("up", "id int, v string", project.format.unfollowable)
    project.create_table("events", "id int, v string, op string, seq bigint")
    project.sql("insert into {schema}.up select int(id), concat('n', id) from range(1, 11)")
    project.write({"mv": followed(deletes=deletes)}, sources=["up", "events"]).run()
    project.sql("delete from {schema}.up where id > 5")
    project.sql("insert into {schema}.events values " + ", ".join(events))
    assert_refused(project.fail(), "mv", "rows with a null in the key")

    project.write({"mv": followed(on_gap="reanchor", deletes=deletes)}).run()
    assert_exact(project)


def test_an_operation_may_be_padded_with_blanks(project: Project) -> None:
    project.create_table("up", "id int, v string", project.format.unfollowable)
    project.create_table("events", "id int, v string, op string, seq bigint")
    project.sql("insert into {schema}.up values (1, 'a'), (2, 'b')")
    project.write({"mv": followed()}, sources=["up", "events"]).run()
    project.sql("delete from {schema}.up where id = 2")
    project.sql("insert into {schema}.events values (2, 'b', 'delete  ', 1)")
    project.run()
    assert_exact(project)


def test_texts_order_events_only_if_the_user_says_so(project: Project) -> None:
    project.create_table("up", "id int, v string", project.format.unfollowable)
    project.create_table("events", "id int, v string, op string, seq string")
    project.sql("insert into {schema}.up values (1, 'a')")
    project.write({"mv": followed()}, sources=["up", "events"])
    fact = "has the sequence seq as string, and texts are ordered letter by letter"
    assert_refused(project.fail(), "mv", fact)

    project.write({"mv": followed(ordered_texts=True)}).run()
    project.sql("update {schema}.up set v = 'c' where id = 1")
    project.sql("insert into {schema}.events values (1, 'b', 'u', '099'), (1, 'c', 'u', '100')")
    project.run()
    assert_exact(project)


def test_no_event_is_left_out_because_of_what_an_earlier_event_says(project: Project) -> None:
    """The range reads a row before its events have landed, and the query reads few columns."""
    project.create_table("up", "id int, v int, other string", project.format.unfollowable)
    project.create_table("events", "id int, v int, other string, op string, seq bigint")
    project.sql("insert into {schema}.up values (6, 200, 'x'), (7, 1, 'x')")
    project.write({"mv": followed(deletes=["d", "gone"])}, sources=["up", "events"]).run()
    project.sql("update {schema}.up set v = 100 where id = 6")
    project.sql("delete from {schema}.up where id = 7")
    project.sql("insert into {schema}.up values (7, null, 'y'), (8, 5, 'x')")
    project.sql(
        "insert into {schema}.events values"
        " (6, 100, 'x', 'update_preimage', 1), (6, 200, 'x', 'update_postimage', 1),"
        " (6, 200, 'x', 'update_preimage', 2), (6, 100, 'x', 'update_postimage', 2),"
        " (7, null, null, 'd', 3), (7, null, 'y', 'i', 4), (8, 5, 'x', 'gone', 5),"
        " (8, 5, 'x', 'i', 6)"
    )
    project.run()
    assert_exact(project)
