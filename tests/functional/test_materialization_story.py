"""One MV from its first barrier to a full refresh: what a user sees after each run.

The runs are shared. Each test looks at one aspect of them.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any

import pytest

from support.checks import model, source, state_versions
from support.project import MakeProject, Project, RunResult

pytestmark = pytest.mark.every_profile

MV = model(
    f"select id as person, upper(name) as name from {source('people')} where city <> 'nowhere'",
    unique_key="person",
    backfill_rate_limit=2,
)

LINE = re.compile(
    r"mv \[BARRIER (?P<epoch>\d+) · (?P<percent>\d+\.\d) %"
    r"(?: · (?P<done>[\d,]+)(?: of (?P<total>[\d,]+))? rows · \+(?P<backfilled>[\d,]+) backfilled)?"
    r"(?: · (?P<changed>[\d,]+) changed, (?P<deleted>[\d,]+) deleted)?"
    r" · version (?P<version>\d+)"
    r" · (?P<took>\d+) (?:s|min)(?:, [\d.,]+(?: [MG])? rows/s)?"
    r"(?:, (?P<left>\d+) barriers? left \(about [^()]+\))?\]"
)


SERIALIZABLE = {
    "delta": {"delta.isolationLevel": "Serializable"},
    "iceberg": {
        f"write.{statement}.isolation-level": "serializable"
        for statement in ("delete", "update", "merge")
    },
}


@dataclass(frozen=True)
class Step:
    """A run, and the contents of the tables after that run."""

    result: RunResult
    rows: list[tuple[Any, ...]]
    progress: list[dict[str, Any]]
    versions: dict[str, str | None]
    """The versions of the three tables, if a test compares them."""
    upstream_version: str | None

    @property
    def message(self) -> str:
        return self.result.message("mv")

    @property
    def lines(self) -> list[str]:
        return [line for line in self.result.messages if "mv [" in line]

    @property
    def barrier(self) -> dict[str, str | None]:
        """Return the numbers in the only line that the run has printed."""
        [line] = self.lines
        found = LINE.search(line)
        assert found, line
        return found.groupdict()

    @property
    def position(self) -> int | None:
        position: int | None
        [position] = {row["id"] for row in self.progress}
        return position


def take_step(project: Project, *args: str, with_versions: bool = False) -> Step:
    result = project.run(*args)
    return Step(
        result=result,
        rows=project.rows("select * from {schema}.mv"),
        progress=[
            row.asDict()
            for row in project.sql("select * from {schema}.mv__progress order by vnode")
        ],
        versions=state_versions(project) if with_versions else {},
        upstream_version=project.current_version("people"),
    )


@pytest.fixture(scope="module")
def project(shared_project: MakeProject) -> Project:
    project = shared_project("story")
    project.create_table("people", "id int, name string, city string")
    project.sql(
        "insert into {schema}.people values (1, 'ann', 'rome'), (2, 'bob', 'nowhere'),"
        " (3, 'cid', 'oslo'), (4, 'dan', 'oslo'), (5, 'eve', 'rome')"
    )
    return project.write({"mv": MV}, sources=["people"])


@pytest.fixture(scope="module")
def story(project: Project) -> dict[str, Step]:
    steps = {"first": take_step(project)}
    # Update a row, let another row pass the filter of the query, insert a row below the position,
    # and delete a row above the position.
    project.sql("update {schema}.people set name = 'amy' where id = 1")
    project.sql("update {schema}.people set city = 'bonn' where id = 2")
    project.sql("insert into {schema}.people values (0, 'zoe', 'rome')")
    project.sql("delete from {schema}.people where id = 3")
    steps["second"] = take_step(project)
    steps["last"] = take_step(project, with_versions=True)
    while not steps["last"].progress[0]["backfill_finished"]:
        steps["last"] = take_step(project, with_versions=True)
    steps["caught up"] = take_step(project, with_versions=True)
    project.sql("delete from {schema}.people where id = 5")
    project.sql("update {schema}.people set city = 'nowhere' where id = 4")
    project.sql("insert into {schema}.people values (7, 'gil', 'rome'), (8, 'hal', 'rome')")
    steps["followed"] = take_step(project, with_versions=True)
    steps["caught up again"] = take_step(project, with_versions=True)
    project.sql("insert into {schema}.people values (6, 'fay', 'rome')")
    steps["refreshed"] = take_step(project, "--full-refresh")
    return steps


@pytest.fixture(scope="module")
def barriers(project: Project, story: dict[str, Step]) -> list[dict[str, Any]]:
    """Return the rows of the history after the last step."""
    found = project.sql("select * from {schema}.mv__barriers order by epoch")
    return [row.asDict() for row in found]


def test_the_first_barrier_reads_the_first_range(story: dict[str, Step]) -> None:
    step = story["first"]

    assert step.message == "BARRIER 1 (40.0 %)"
    start = "mv [BARRIER 1 · 40.0 % · 2 of 5 rows · +2 backfilled · version "
    assert f"{start}{step.upstream_version} · " in step.lines[0]
    assert step.barrier["left"] == "2"
    assert step.rows == [(1, "ANN")]
    assert step.position == 2


def test_the_second_barrier_merges_changes_below_the_position_only(story: dict[str, Step]) -> None:
    step = story["second"]
    barrier = step.barrier

    assert step.position is not None and step.position >= 4
    assert step.rows[:3] == [(0, "ZOE"), (1, "AMY"), (2, "BOB")]
    assert (barrier["changed"], barrier["deleted"]) == ("3", "0")
    assert barrier["version"] == step.upstream_version
    assert barrier["total"] == "5"


def test_the_line_and_the_message_say_what_stands_in_the_progress_table(
    story: dict[str, Step],
) -> None:
    for name, before in (("second", "first"), ("last", "second")):
        step, barrier = story[name], story[name].barrier
        done = sum(row["row_count"] for row in step.progress)
        gained = done - sum(row["row_count"] for row in story[before].progress)
        assert barrier["done"] == f"{done:,}"
        if before == "first":
            assert barrier["backfilled"] == f"{gained:,}"
        assert step.message == f"BARRIER {barrier['epoch']} ({barrier['percent']} %)"
        assert {row["epoch"] for row in step.progress} == {int(barrier["epoch"] or 0)}


def test_the_backfill_ends_with_all_vnodes_finished_and_the_mv_equal_to_the_query(
    story: dict[str, Step],
) -> None:
    step = story["last"]

    assert step.message.endswith("(100.0 %)")
    assert all(row["backfill_finished"] for row in step.progress)
    assert step.rows == [(0, "ZOE"), (1, "AMY"), (2, "BOB"), (4, "DAN"), (5, "EVE")]


def test_changes_are_followed_after_the_backfill(story: dict[str, Step]) -> None:
    step = story["followed"]
    barrier = step.barrier

    assert step.rows == [(0, "ZOE"), (1, "AMY"), (2, "BOB"), (7, "GIL"), (8, "HAL")]
    assert (barrier["changed"], barrier["deleted"]) == ("2", "2")
    assert barrier["percent"] == "100.0"
    assert barrier["backfilled"] is None
    assert step.message == f"BARRIER {barrier['epoch']} (100.0 %)"
    assert sum(r["row_count"] for r in step.progress) == sum(
        r["row_count"] for r in story["last"].progress
    ), "row_count counts snapshot rows only"


@pytest.mark.parametrize(
    ("name", "before"), [("caught up", "last"), ("caught up again", "followed")]
)
def test_nothing_is_written_when_there_is_nothing_to_do(
    story: dict[str, Step], name: str, before: str
) -> None:
    step = story[name]

    assert step.message == "CAUGHT UP"
    assert step.lines == []
    assert step.versions == story[before].versions != {}
    assert 1 <= len(step.result.steps) <= 4, step.result.steps


def test_a_barrier_takes_few_statements(story: dict[str, Step]) -> None:
    """Each statement takes some time, even in a barrier with few rows."""
    assert 1 <= len(story["second"].result.steps) <= 8, story["second"].result.steps
    assert 1 <= len(story["followed"].result.steps) <= 8, story["followed"].result.steps


def test_a_full_refresh_empties_the_mv_and_begins_again_with_the_next_epoch(
    story: dict[str, Step], barriers: list[dict[str, Any]]
) -> None:
    step, before = story["refreshed"], story["caught up again"]
    last = before.progress[0]["epoch"]

    assert len(step.lines) == 2
    assert f"mv [BARRIER {last + 1} · 0.0 % · emptied: full refresh · " in step.lines[0]
    assert f"mv [BARRIER {last + 2} · " in step.lines[1]
    assert step.message.startswith(f"BARRIERS {last + 1} to {last + 2} (")
    assert ".mv, and the next barriers fill it again: full refresh" in step.result.output
    assert step.rows == [(0, "ZOE"), (1, "AMY")]
    assert step.position == 1
    assert [row["epoch"] for row in barriers] == list(range(last + 3))
    assert sum(row["row_count"] for row in step.progress) == 2


def test_the_mv_has_the_columns_of_the_query_and_nothing_else(project: Project, story: Any) -> None:
    assert [(row[0], row[1]) for row in project.sql("describe {schema}.mv")] == [
        ("person", "int"),
        ("name", "string"),
    ]


def test_the_progress_table_has_a_row_per_vnode_with_the_upstreams_key(
    project: Project, story: dict[str, Step]
) -> None:
    assert [(row[0], row[1]) for row in project.sql("describe {schema}.mv__progress")] == [
        ("vnode", "int"),
        ("epoch", "bigint"),
        ("backfill_finished", "boolean"),
        ("row_count", "bigint"),
        ("upstream_version", "string"),
        ("dirty", "boolean"),
        ("plan_id", "string"),
        ("plan_kind", "string"),
        ("plan", "string"),
        ("last", "string"),
        ("unwritten", "array<string>"),
        ("id", "int"),
    ]
    for step in story.values():
        assert [row["vnode"] for row in step.progress] == [0, 1, 2, 3]
        assert {row["dirty"] for row in step.progress} == {False}
        assert {(row["plan_id"], row["plan_kind"], row["plan"]) for row in step.progress} == {
            (None, None, None)
        }
        assert [row["last"] is None for row in step.progress] == [False, True, True, True]
        assert len({row["epoch"] for row in step.progress}) == 1
    followed = story["followed"]
    assert {row["upstream_version"] for row in followed.progress} == {followed.upstream_version}


def test_the_barriers_table_has_the_columns_that_are_promised(project: Project, story: Any) -> None:
    columns = {row[0]: row[1] for row in project.sql("describe {schema}.mv__barriers")}

    promised = {
        "epoch": "bigint",
        "plan_id": "string",
        "backfill_id": "string",
        "kind": "string",
        "upstream": "string",
        "upstream_id": "string",
        "upstream_version": "string",
        "upstream_committed_at": "string",
        "upstream_row_count": "bigint",
        "range_low": "array<string>",
        "range_high": "array<string>",
        "last_range": "boolean",
        "vnodes": "array<int>",
        "vnode_row_counts": "map<int,bigint>",
        "range_row_count": "bigint",
        "query": "string",
        "query_hash": "string",
        "unique_key": "array<string>",
        "upstream_key": "array<string>",
        "key_types": "array<string>",
        "vnode_count": "int",
        "backfill_rate_limit": "bigint",
        "backfill_mode": "string",
        "reason": "string",
        "invocation_id": "string",
        "planned_at": "timestamp",
        "committed_at": "timestamp",
        "changed_row_count": "bigint",
        "deleted_row_count": "bigint",
        "mv_snapshot_id": "string",
        "at_once": "boolean",
    }
    assert {name: columns.get(name) for name in promised} == promised


def test_the_barriers_table_tells_what_each_barrier_did(
    story: dict[str, Step], barriers: list[dict[str, Any]]
) -> None:
    first, second = barriers[1], barriers[2]

    assert barriers[0]["kind"] == "create"
    assert [row["kind"] for row in barriers[-2:]] == ["reset", "advance"]
    assert {row["kind"] for row in barriers[1:-2]} == {"advance"}
    assert (first["upstream_version"], first["range_row_count"], first["range_low"]) == (
        story["first"].upstream_version,
        2,
        None,
    )
    assert (second["changed_row_count"], second["deleted_row_count"]) == (3, 0)
    assert [row["at_once"] for row in (first, second)] == [False, True]
    assert second["range_low"] == first["range_high"]
    assert sum(first["vnode_row_counts"].values()) == 2
    for row in barriers:
        assert row["upstream"] == "story.people"
        assert row["unique_key"] == ["person"]
        assert row["upstream_key"] == ["id"]
        assert row["key_types"] == ["int"]
        assert row["vnode_count"] == 4
        assert row["backfill_rate_limit"] == 2
        assert row["backfill_mode"] == "arrangement"
        assert "upper(name)" in row["query"]
    for row in barriers[1:]:
        assert row["committed_at"] >= row["planned_at"]


def test_one_id_stands_in_all_three_tables(
    project: Project, barriers: list[dict[str, Any]]
) -> None:
    of_mv = project.table_properties("mv")["dbt_backfill.id"]

    assert of_mv
    assert project.table_properties("mv__progress")["dbt_backfill.id"] == of_mv
    assert {row["backfill_id"] for row in barriers} == {of_mv}


def test_the_tables_are_serializable_and_no_feed_is_written_for_nobody(
    project: Project, story: Any
) -> None:
    isolated = SERIALIZABLE[project.file_format]
    for table in ("mv", "mv__progress", "mv__barriers"):
        properties = project.table_properties(table)
        assert properties.items() >= isolated.items()
        assert "delta.enableChangeDataFeed" not in properties
