"""Keys that a change feed may alter are treated as altered, even if they are not.

The feeds of Delta and Iceberg pass values through Java. Bytes that are not valid UTF-8 become
U+FFFD, but a text may also contain a real U+FFFD. The days of October 1582 that the Gregorian
calendar skips become October 15th.
"""

from __future__ import annotations

import pytest

from support.checks import model, source
from support.formats import Iceberg
from support.profiles import any_connection
from support.project import Project, crash_before

pytestmark = [any_connection, pytest.mark.every_profile]

ODD = "concat('a', unhex('EFBFBD'))"


def create(project: Project, name: str, columns: str, rows: str) -> None:
    changelog = {} if project.file_format == "delta" else Iceberg().with_changelog
    project.create_table(name, columns, changelog)
    project.sql(f"insert into {{schema}}.{name} {rows}")


def make_upstream(project: Project) -> None:
    """Create an upstream with seven rows. The key of the first row contains U+FFFD."""
    project.sql("drop table if exists {schema}.up")
    rows = "select concat('k', id), id from range(1, 7) union all select cast({} as string), 0"
    create(project, "up", "id string, amount bigint", rows.format(ODD))


@pytest.mark.core("session-delta")
def test_a_sweep_and_a_backfill_end_although_such_a_key_changes_before_each_barrier(
    project: Project,
) -> None:
    make_upstream(project)
    query = f"select id, amount from {source('up')}"
    project.write({"swept": model(query, on_gap="sweep")}, sources=["up"]).run()
    make_upstream(project)
    limited = {"backfill_rate_limit": 3}
    models = {"swept": model(query, on_gap="sweep", **limited), "filled": model(query, **limited)}
    project.write(models)

    said = ""
    for _ in range(4):
        project.sql(f"update {{schema}}.up set amount = amount + 10 where id = {ODD}")
        result = project.run()
        said += result.output
    upstream = project.rows("select hex(id), amount from {schema}.up")
    for name in models:
        assert "(100.0 %)" in result.message(name), name
        assert project.rows(f"select hex(id), amount from {{schema}}.{name}") == upstream, name
    assert said.count("sweeps from the start: ") == 1
    assert "re-anchored" not in said


KEYS = {
    # EFBFBD is U+FFFD in UTF-8. FF and FE are not valid UTF-8.
    "text": ("string", [f"cast(X'61{odd}' as string)" for odd in ("EFBFBD", "FF", "FE", "62")]),
    "day": ("date", [f"date'1582-10-{day}'" for day in (15, 10, 11, 20)]),
}
NEW = {"text": "cast(X'61FD' as string)", "day": "date'1582-10-12'"}


def test_it_is_the_key_itself_whose_row_changes(project: Project) -> None:
    for name, (type_, keys) in KEYS.items():
        rows = ", ".join(f"({key}, {number})" for number, key in enumerate(keys))
        create(project, f"up_{name}", f"id {type_}, amount int", f"values {rows}")
    models = {name: model(f"select id, amount from {source(f'up_{name}')}") for name in KEYS}
    project.write(models, sources=[f"up_{name}" for name in KEYS]).run()

    def follow(step: str, *, dies_before: str = "") -> None:
        for name, (_, keys) in KEYS.items():
            own, altered, other, _ = keys
            places = {"own": own, "altered": altered, "other": other, "new": NEW[name]}
            project.sql(step.format(up=f"{{schema}}.up_{name}", **places))
        if dies_before:
            project.fail(intercept=crash_before(dies_before))
        said = project.run().output
        assert "re-anchored" not in said, step
        shown = "hex(cast(cast(id as string) as binary)), amount"
        for name in KEYS:
            upstream = project.rows(f"select {shown} from {{schema}}.up_{name}")
            assert project.rows(f"select {shown} from {{schema}}.{name}") == upstream, (name, step)

    follow("update {up} set amount = 20 where id = {altered}")
    follow("delete from {up} where id = {other}", dies_before="merge the changes")
    follow("insert into {up} values ({new}, 5)", dies_before="commit the barrier")
    follow("delete from {up} where id = {own}")
    follow("update {up} set id = {own}, amount = 6 where id = {altered}")


@pytest.mark.parametrize("query", ["", " where amount > 0"], ids=["every_row", "filtered"])
def test_such_a_key_in_a_change_table_is_read_again(project: Project, query: str) -> None:
    make_upstream(project)
    create(
        project,
        "events",
        "id string, amount bigint, op string, batch int",
        "values ('', 1, 'c', 0)",
    )
    feed = {"relation": "source('lake', 'events')", "operation": "op", "sequence": ["batch"]}
    select = f"-- depends_on: {source('events')}\nselect id, amount from {source('up')}{query}"
    project.write({"mv": model(select, change_feed=feed)}, sources=["up", "events"]).run()

    for turn, amount in enumerate([20, -20, 30], start=1):
        project.sql(f"update {{schema}}.up set amount = {amount} where id in ({ODD}, 'k1')")
        project.sql(
            "insert into {schema}.events select id, amount, 'u', "
            f"{turn} from {{schema}}.up where id in ({ODD}, 'k1')"
        )
        said = project.run().output
        assert ("0 changed, 2 deleted" if query and amount < 0 else "2 changed, 0 deleted") in said
        assert "re-anchored" not in said
        upstream = project.rows(f"select hex(id), amount from {{schema}}.up{query}")
        assert project.rows("select hex(id), amount from {schema}.mv") == upstream, turn
