"""Changes of an upstream between two barriers, such as a restore or a dropped column.

A `Surprise` is one such change. It happens alone, or between other changes. Both cases are tested
if their results can differ. A `Life` is a table to which several surprises happen, one after the
other. The MV `mid_<life>` reads the table's forty rows, four rows in every run. Some tables have a
second MV, `end_<life>`, which has already read all rows. All MVs share their dbt runs, and each
test looks at one surprise.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import pytest

from exactness.directories import Copies
from support.checks import (
    assert_no_java,
    assert_refused,
    model,
    source,
    state_versions,
)
from support.formats import properties_clause
from support.lake import SessionLake
from support.project import (
    MakeProject,
    Proceed,
    Project,
    RunResult,
    crash_before,
    two_merges,
)

COLUMNS = "id int, name string, spare_1 int, spare_2 int"
QUERY = "select id, upper(name) as name from "


# -- changes of a table; `turn` is 1 for a change alone, 2 for a change between others -------------


def fill(project: Project, table: str, *, at_once: bool = False) -> None:
    """Write forty rows, in one commit if `at_once` is true, else in two commits."""
    rows = f"insert into {{schema}}.{table} (id, name) select id, concat('n', id) from range"
    for ids in ("(1, 41)",) if at_once else ("(1, 33)", "(33, 41)"):
        project.sql(rows + ids)


def change_before(project: Project, table: str, number: int = 1) -> None:
    """Change rows on both sides of the MV's position, after `number` runs of four rows each."""
    gone = 4 * number - 1
    change(project, table, f"(2, 'before {number}'), (30, 'before {number}'), ({gone}, null)")


def change_after(project: Project, table: str, number: int) -> None:
    updated = f"(1, 'after {number}'), (28, 'after {number}')"
    change(project, table, f"{updated}, ({-number}, 'low'), ({100 + number}, 'high')")


def change(project: Project, table: str, names: str) -> None:
    """In one commit, update rows, delete rows (null), and insert ids below 1 or from 100."""
    project.sql(
        f"merge into {{schema}}.{table} as t"
        f" using (select * from values {names} as v(id, name)) as c on t.id = c.id"
        " when matched and c.name is null then delete"
        " when matched then update set name = c.name"
        " when not matched and (c.id < 1 or c.id >= 100) then insert (id, name)"
        " values (c.id, c.name)"
    )


def replace(project: Project, table: str, turn: int) -> None:
    clauses = f"using {project.file_format} {properties_clause(project.format.followable)}"
    project.sql(
        f"create or replace table {{schema}}.{table} {clauses}"
        " as select id, 'replaced' as name from values (2), (7), (35) as t(id)"
    )


def recreate(project: Project, table: str, turn: int) -> None:
    """Drop the table and create it again.

    The new version is lower than the version that the MV has read. In the second `turn` it is
    higher.
    """
    project.sql(f"drop table {{schema}}.{table}")
    project.create_table(table, COLUMNS)
    fill(project, table, at_once=turn == 1)


def truncate(project: Project, table: str, turn: int) -> None:
    project.sql(f"truncate table {{schema}}.{table}")


def overwrite(project: Project, table: str, turn: int) -> None:
    """Overwrite the table. In a Spark session, a column also gets another type.

    The operation in Delta's log does not contain the change of the type.
    """
    name = project.table(table)
    if not isinstance(project.lake, SessionLake):
        project.sql(f"insert overwrite {name} select * from {name} where id <> 5")
        return
    changed = f"cast(spare_{turn} as string) as spare_{turn}"
    rows = f"select * except (spare_{turn}), {changed} from {name} where id <> 5"
    writer = project.lake.spark.sql(rows).write.format("delta").mode("overwrite")
    writer.option("overwriteSchema", "true").saveAsTable(name)


def restore(project: Project, table: str, turn: int) -> None:
    """Restore the table to the first of its two commits."""
    first = "1"
    if project.file_format == "iceberg":
        snapshots = f"select snapshot_id from {{schema}}.{table}.snapshots order by committed_at"
        first = str(project.sql(snapshots)[0][0])
    project.restore(table, first)


def switch_feed(project: Project, table: str, turn: int) -> None:
    alter = f"alter table {{schema}}.{table} set tblproperties (delta.enableChangeDataFeed = "
    project.sql(f"{alter}false)")
    if turn == 2:
        project.sql(f"update {{schema}}.{table} set name = 'unseen' where id = 4")
    project.sql(f"{alter}true)")


def add_column(project: Project, table: str, turn: int) -> None:
    project.sql(f"alter table {{schema}}.{table} add column more_{turn} int")


def rename_column(project: Project, table: str, turn: int) -> None:
    project.sql(f"alter table {{schema}}.{table} rename column spare_{turn} to other_{turn}")


def widen_column(project: Project, table: str, turn: int) -> None:
    project.sql(f"alter table {{schema}}.{table} alter column spare_{turn} type bigint")


def add_column_anew(project: Project, table: str, turn: int) -> None:
    """Drop a column that the query reads, and add it again.

    The column is then null in all rows, even in rows that no commit has written.
    """
    project.sql(f"alter table {{schema}}.{table} drop column name")
    project.sql(f"alter table {{schema}}.{table} add column name string")


def compact(project: Project, table: str, turn: int) -> None:
    """Compact the files of the table and of its MVs. The second time, change their layout first."""
    clause = {"delta": "cluster by (id)", "iceberg": "add partition field bucket(4, id)"}
    for each in (table, *(f"{phase}_{table}" for phase in LIVES[table].phases)):
        if turn == 2:
            project.sql(f"alter table {{schema}}.{each} {clause[project.file_format]}")
        project.compact(each)


def clean_up(project: Project, table: str, turn: int = 0) -> None:
    project.clean_up(table)


def clean_up_untold(project: Project, table: str, turn: int) -> None:
    """Run a VACUUM that Delta does not write to its log. This is usual on S3."""
    logged = "set spark.databricks.delta.vacuum.logging.enabled = "
    project.sql(f"{logged}false")
    clean_up(project, table)
    project.sql(f"{logged}true")


def clean_up_log(project: Project, table: str, turn: int) -> None:
    """Delete old log files, as Delta does after `delta.logRetentionDuration`."""
    current = int(project.current_version(table) or 0)
    for path in (project.lake.location(project.schema, table) / "_delta_log").iterdir():
        version = path.name.lstrip(".")[:20]
        if version.isdigit() and int(version) < current:
            path.unlink()


def let_dbt_rebuild(project: Project, table: str, turn: int) -> None:
    """Do nothing: the table is a dbt model, so each run creates it again."""


# -- the surprises --------------------------------------------------------------------------------

Reason = str | dict[str, str] | None
REPLACED = {
    "delta": r"the upstream was replaced in version \d+",
    "iceberg": r"the upstream was rolled back or replaced since its snapshot \d+",
}
RESTORED = {"delta": r"the upstream was restored in version \d+", "iceberg": REPLACED["iceberg"]}
OTHER_COLUMNS = {
    "delta": r"columns of the upstream were changed in version \d+",
    "iceberg": r"columns of the upstream were changed since its snapshot \d+",
}
CAN_NOT_BE_READ = r"the changes since version \d+ can no longer be read"
SWITCHED = r"the change data feed was switched in version \d+"
# Until an Iceberg table has a new snapshot, Spark reads it with its previous columns.
ONCE_WRITTEN = {"delta": OTHER_COLUMNS["delta"]}


@dataclass(frozen=True)
class Surprise:
    """A change of the table.

    `reason` is why some MVs are compared with their query after the change. None means that they
    are not compared.
    """

    act: Callable[[Project, str, int], None]
    amid: bool
    reason: Reason = None
    formats: tuple[str, ...] = ("delta", "iceberg")

    def reason_in(self, file_format: str) -> str | None:
        return self.reason.get(file_format) if isinstance(self.reason, dict) else self.reason


def alone(
    act: Callable[[Project, str, int], None], reason: Reason = None, *formats: str
) -> Surprise:
    return Surprise(act, False, reason, formats or ("delta", "iceberg"))


def amid(
    act: Callable[[Project, str, int], None], reason: Reason = None, *formats: str
) -> Surprise:
    return Surprise(act, True, reason, formats or ("delta", "iceberg"))


@dataclass(frozen=True)
class Life:
    """A table and its surprises. One surprise happens before each run, in this order."""

    surprises: dict[str, Surprise]
    ends: bool = False
    """True if the table has the second MV, `end_<life>`, which has already read all rows."""
    delta: dict[str, str] = field(default_factory=dict)
    """Properties of the table, if it is a Delta table."""

    @property
    def phases(self) -> tuple[str, ...]:
        return ("mid", "end") if self.ends else ("mid",)

    def told(self, file_format: str) -> list[tuple[str, Surprise]]:
        return [each for each in self.surprises.items() if file_format in each[1].formats]


MAPPED = {"delta.columnMapping.mode": "name"}
ANOTHER = {
    "delta": "the upstream is another table than at the last barrier",
    "iceberg": r"the snapshot \d+ of the upstream has expired, or the upstream was replaced",
}

# A surprise is tested only alone, or only between other changes, if the other test would show
# nothing new. If it is tested in both ways, both tests expect the same reason.
LIVES = {
    "mapped": Life(
        {
            # The second time, an Iceberg table is restored to the snapshot that the last barrier
            # has read.
            "restored": alone(restore, RESTORED, "iceberg"),
            "restored amid": amid(restore, {"delta": RESTORED["delta"]}),
            "renamed": alone(rename_column, ONCE_WRITTEN),
            "renamed amid": amid(rename_column, OTHER_COLUMNS, "iceberg"),
            "readded amid": amid(add_column_anew, OTHER_COLUMNS),
        },
        ends=True,
        delta=MAPPED,
    ),
    "compacted": Life({"compacted": alone(compact), "compacted amid": amid(compact)}, ends=True),
    "cleaned": Life(
        {
            "cleaned": alone(clean_up),
            "cleaned amid": amid(
                clean_up,
                {
                    "delta": r"the changes since version \d+ were vacuumed",
                    "iceberg": ANOTHER["iceberg"],
                },
            ),
            "replaced amid": amid(replace, REPLACED),
        },
        ends=True,
    ),
    "typed": Life(
        {
            "added": alone(add_column, None, "iceberg"),
            "added amid": amid(add_column, {"iceberg": OTHER_COLUMNS["iceberg"]}),
            "widened": alone(widen_column, None, "iceberg"),
            "widened amid": amid(widen_column, {**OTHER_COLUMNS, "delta": CAN_NOT_BE_READ}),
            "overwritten amid": amid(overwrite, REPLACED, "delta"),
        },
        delta={"delta.enableTypeWidening": "true"},
    ),
    "switched": Life(
        {
            "switched": alone(switch_feed, SWITCHED, "delta"),
            "switched amid": amid(switch_feed, SWITCHED, "delta"),
            "untold amid": amid(clean_up_untold, CAN_NOT_BE_READ, "delta"),
            "truncated amid": amid(truncate),
        }
    ),
    "unlogged": Life(
        {
            "unlogged": alone(clean_up_log, None, "delta"),
            "unlogged amid": amid(
                clean_up_log,
                r"the log of the upstream no longer reaches back to version \d+",
                "delta",
            ),
        },
        delta={"delta.checkpointInterval": "1"},
    ),
    "recreated": Life(
        {"recreated": alone(recreate, ANOTHER), "recreated amid": amid(recreate, ANOTHER)}
    ),
    "rebuilt": Life({"rebuilt": alone(let_dbt_rebuild, REPLACED)}),
}
LIFE_OF = {surprise: life for life, each in LIVES.items() for surprise in each.surprises}


# The two table formats, or the clients of Spark, report these surprises differently.
EVERY_PROFILE = ("replaced", "restored", "readded", "cleaned")


def written_table(life: str) -> str:
    """Return the table that the test writes.

    If dbt rebuilds the upstream in each run, the test writes the table that the upstream reads.
    """
    return f"{life}_rows" if life == "rebuilt" else life


@dataclass(frozen=True)
class Seen:
    """The rows of one MV after a run, and the rows that it must have."""

    line: str
    rows: list[tuple[Any, ...]]
    fresh: list[tuple[Any, ...]]
    is_current: bool
    has_finished: bool


Story = dict[str, dict[str, Seen]]
"""The observations, by surprise and then by phase."""


@pytest.fixture(scope="module")
def project(shared_project: MakeProject) -> Project:
    return shared_project("surprises")


@pytest.fixture(scope="module")
def lives(request: pytest.FixtureRequest, project: Project) -> list[str]:
    """Return the names of the `Life` objects that the selected tests need."""
    parameters = [getattr(item, "callspec", None) for item in request.session.items]
    selected = {each.params.get("surprise") for each in parameters if each is not None}
    return [
        life
        for life, each in LIVES.items()
        if selected & {surprise for surprise, _ in each.told(project.file_format)}
    ]


@pytest.fixture(scope="module")
def story(project: Project, lives: list[str]) -> Story:
    delta = project.file_format == "delta"
    models = {}
    for life in lives:
        table = written_table(life)
        project.create_table(table, COLUMNS, LIVES[life].delta if delta else {})
        fill(project, table)
        read = "{{ ref('rebuilt') }}" if life == "rebuilt" else source(life)
        models[f"mid_{life}"] = model(QUERY + read, backfill_rate_limit=4)
        if LIVES[life].ends:
            models[f"end_{life}"] = model(QUERY + read)
    rebuilt = f"materialized='table', tblproperties={dict(project.format.followable)}"
    if "rebuilt" in lives:
        models["rebuilt"] = f"{{{{ config({rebuilt}) }}}} select * from {source('rebuilt_rows')}"
    project.write(models, sources=[written_table(life) for life in lives])
    built = project.run("--threads", "2")
    shares = {"mid": "10.0", "end": "100.0"}
    for life in lives:
        for phase in LIVES[life].phases:
            assert built.message(f"{phase}_{life}") == f"BARRIER 1 ({shares[phase]} %)"

    story: Story = {}
    told = {life: LIVES[life].told(project.file_format) for life in lives}
    for number in range(1, max(map(len, told.values()), default=0) + 1):
        now = {life: each[number - 1] for life, each in told.items() if len(each) >= number}
        for life, (_, surprise) in now.items():
            table = written_table(life)
            if surprise.amid:
                change_before(project, table, number)
            surprise.act(project, table, 1 + surprise.amid)
            if surprise.amid:
                change_after(project, table, number)
        mvs = [f"{phase}_{life}" for life in now for phase in LIVES[life].phases]
        rebuilds = ["rebuilt"] if "rebuilt" in now else []
        result = project.run("--threads", "2", "--select", *mvs, *rebuilds)
        assert_no_java(result.output)
        seen = look(project, [*now], result)
        for life, (name, _) in now.items():
            story[name] = seen[life]
            if number < len(told[life]):
                assert not seen[life]["mid"].has_finished, f"{life} has no middle after {name}"
    return story


def look(project: Project, lives: list[str], result: RunResult) -> dict[str, dict[str, Seen]]:
    """In one statement, compare all MVs with their queries at the recorded positions."""
    every = [(phase, life) for life in lives for phase in LIVES[life].phases]
    progress = " union all ".join(
        f"select '{phase}_{life}' as mv, max(upstream_version) as version, max(id) as position,"
        f" bool_and(backfill_finished) as finished from {{schema}}.{phase}_{life}__progress"
        for phase, life in every
    )
    states = {row["mv"]: row for row in project.sql(progress)}
    parts = []
    for phase, life in every:
        mv, state = f"{phase}_{life}", states[f"{phase}_{life}"]
        at = f"{{schema}}.{life} version as of {state['version']}"
        if state["version"] == "0":  # an Iceberg table without a snapshot
            at = f"(select * from {{schema}}.{life} where false)"
        where = "true" if state["finished"] else f"id <= {state['position']}"
        parts.append(
            f"select '{mv}' as mv, 'fresh' as part, q.* from ({QUERY}{at} where {where}) q"
        )
        parts.append(f"select '{mv}' as mv, 'rows' as part, q.* from {{schema}}.{mv} q")
    found: dict[tuple[str, str], list[tuple[Any, ...]]] = {}
    for mv, part, *row in project.rows(" union all ".join(parts)):
        found.setdefault((mv, part), []).append(tuple(row))
    seen: dict[str, dict[str, Seen]] = {life: {} for life in lives}
    for phase, life in every:
        mv = f"{phase}_{life}"
        lines = [line for line in result.messages if f"{mv} [BARRIER" in line]
        seen[life][phase] = Seen(
            line="\n".join(lines),
            rows=found.get((mv, "rows"), []),
            fresh=found.get((mv, "fresh"), []),
            is_current=states[mv]["version"] == (project.current_version(life) or "0"),
            has_finished=states[mv]["finished"],
        )
    return seen


def marked(surprise: str):  # type: ignore[no-untyped-def]
    marks = [pytest.mark.every_profile] if surprise.split()[0] in EVERY_PROFILE else []
    return pytest.param(surprise, marks=marks)


@pytest.mark.parametrize("surprise", [*map(marked, LIFE_OF)])
def test_a_surprise_is_followed_exactly_and_told(
    project: Project, story: Story, surprise: str
) -> None:
    told = LIVES[LIFE_OF[surprise]].surprises[surprise]
    if project.file_format not in told.formats:
        pytest.skip(f"not of {project.file_format}, or nothing new there")
    reason = told.reason_in(project.file_format)
    for phase, seen in story[surprise].items():
        assert seen.rows == seen.fresh, phase
        assert seen.is_current, phase
        assert "emptied" not in seen.line, phase
        if reason is None:
            assert "re-anchored" not in seen.line, phase
        else:
            assert re.search(f" · re-anchored: {reason} · ", seen.line), (phase, seen.line)


@pytest.mark.parametrize("surprise", [*map(marked, ("rebuilt", "compacted", "renamed"))])
def test_a_surprise_that_changes_no_row_writes_none(story: Story, surprise: str) -> None:
    for seen in story[surprise].values():
        assert " changed" not in seen.line or " 0 changed, 0 deleted · " in seen.line


# -- a column that the query reads ----------------------------------------------------------------

# Each entry: the change of the table, the query, the texts of the refusal, and the corrected query.
READ = {
    "lost": (
        "drop column amount",
        "select id, amount from ",
        ("Spark cannot run its query", "`amount` cannot be resolved", "Correct the query"),
        "select id, name from ",
    ),
    "moved": (
        "rename column amount to total",
        "select id, amount from ",
        ("Spark cannot run its query", "`amount` cannot be resolved", "Correct the query"),
        "select id, total as amount from ",
    ),
    "wider": (
        "alter column amount type bigint",
        "select id, amount from ",
        ("(id: int, amount: int) to (id: int, amount: bigint)", "--full-refresh"),
        "select id, amount from ",
    ),
    "longer": (
        "add column more int",
        "select * from ",
        ("name: string, amount: int) to (id: int, name: string, amount: int, more: int)",),
        "select * from ",
    ),
}


@pytest.mark.every_profile
def test_a_change_of_a_column_that_the_query_reads_is_refused_until_the_model_fits(
    project: Project,
) -> None:
    delta = {**MAPPED, "delta.enableTypeWidening": "true"}
    for name in READ:
        properties = delta if project.file_format == "delta" else {}
        project.create_table(name, "id int, name string, amount int", properties)
        project.sql(f"insert into {{schema}}.{name} values (1, 'a', 10), (2, 'b', 20), (3, 'c', 3)")
    mvs = {f"mv_{name}": name for name in READ}
    project.write(
        {
            mv: model(READ[name][1] + source(name), backfill_rate_limit=2)
            for mv, name in mvs.items()
        },
        sources=list(READ),
    )
    project.run("--threads", "2", "--select", *mvs)
    before = [state_versions(project, mv) for mv in mvs]
    for name, (alter, *_) in READ.items():
        project.sql(f"alter table {{schema}}.{name} {alter}")
        project.sql(f"delete from {{schema}}.{name} where id = 2")

    refused = project.fail("--threads", "2", "--select", *mvs)

    for mv, name in mvs.items():
        assert_refused(refused, mv, *READ[name][2])
    assert [state_versions(project, mv) for mv in mvs] == before

    project.write({mv: model(READ[name][3] + source(name)) for mv, name in mvs.items()})
    project.run("--full-refresh", "--threads", "2", "--select", *mvs)
    for mv, name in mvs.items():
        fresh = project.rows(f"{READ[name][3]}{{schema}}.{name}")
        assert len(fresh) == 2
        assert project.rows(f"select * from {{schema}}.{mv}") == fresh


@pytest.mark.profiles("session-delta", "thrift-delta", reason="only Delta has such a switch")
def test_a_table_that_was_replaced_without_its_feed_is_refused_until_it_has_one(
    project: Project,
) -> None:
    project.create_table("feedless", COLUMNS)
    fill(project, "feedless")
    project.write({"fed": model(QUERY + source("feedless"))}, sources=["feedless"])
    project.run("--select", "fed")
    values = "select id, 'new' as name from values (1), (12) as t(id)"
    project.sql(f"create or replace table {{schema}}.feedless using delta as {values}")

    refused = project.fail("--select", "fed")
    assert_refused(refused, "fed", "feedless has no change data feed", "ALTER TABLE")

    feed = properties_clause(project.format.followable).removeprefix("tblproperties")
    project.sql(f"alter table {{schema}}.feedless set tblproperties {feed}")
    assert "re-anchored: the upstream was replaced" in project.run("--select", "fed").output
    assert project.rows("select * from {schema}.fed") == [(1, "NEW"), (12, "NEW")]


# -- something that a barrier needs is gone, or changes during the barrier ------------------------


def promised(project: Project, mv: str, table: str) -> list[tuple[Any, ...]]:
    """Return the rows of the query at the MV's version and up to the MV's position."""
    state = f"max(upstream_version) as version, max(id) as position from {{schema}}.{mv}__progress"
    [(version, position)] = project.rows(f"select {state}")
    at = f"{{schema}}.{table} version as of {version}"
    return project.rows(f"{QUERY}{at} where id <= {position}")


@pytest.mark.every_profile
@pytest.mark.profiles("session-delta", reason="the directory of a Delta table")
@pytest.mark.parametrize(
    ("config", "crashes"),
    [({}, False), ({"backfill_mode": "snapshot", "backfill_rate_limit": 40}, False), ({}, True)],
)
def test_an_upstream_that_was_put_back_and_has_its_recorded_version_again_is_compared(
    new_project: Callable[[], Project], config: dict[str, Any], crashes: bool
) -> None:
    project = new_project()
    project.create_table("up", "id int, v int")
    project.sql("insert into {schema}.up select int(id), 0 from range(100)")
    query = f"select id, v from {source('up')}"
    project.write({"mv": model(query, **config)}, sources=["up"])
    if crashes:
        project.run()
    copies = Copies(project, ["up"])
    project.sql("update {schema}.up set v = 1 where id < 10")
    if crashes:
        project.fail(intercept=crash_before("merge the changes of the barrier"))
    else:
        project.run()
    recorded = project.current_version("up")
    copies.put_back()
    project.sql("update {schema}.up set v = 5 where id >= 10 and id < 20")
    assert project.current_version("up") == recorded

    shown = project.run().output

    assert ("can no longer be read" if crashes or config else "is another commit") in shown
    rows = project.value("select count(*) from {schema}.mv")
    upstream = project.rows(f"select * from {{schema}}.up where id < {rows}")
    assert project.rows("select * from {schema}.mv") == upstream
    again = project.run().output
    assert "re-anchored" not in again and "given up" not in again


def test_a_plan_whose_version_is_gone_is_given_up(project: Project) -> None:
    """The run of one MV was killed before it merged anything.

    The other MV is in the mode `snapshot`. The version of the upstream that it reads is gone too.
    """
    project.create_table("fleeting", COLUMNS)
    fill(project, "fleeting")
    read = f"{QUERY}{source('fleeting')}"
    names = ("planned", "pinned")
    project.write(
        {
            "planned": model(read, backfill_rate_limit=4),
            "pinned": model(read, backfill_rate_limit=4, backfill_mode="snapshot"),
        },
        sources=["fleeting"],
    )
    project.run("--select", *names)
    change_before(project, "fleeting")

    project.fail("--select", "planned", intercept=crash_before(".planned: merge"))
    version = "get_json_object(max(plan), '$.sources[0].version')"
    planned = project.value(f"select {version} from {{schema}}.planned__progress")
    project.sql("update {schema}.fleeting set name = 'again'")
    clean_up(project, "fleeting")

    result = project.run("--select", *names)

    assert_no_java(result.output)
    gone = f"version {planned} of the upstream can no longer be read"
    assert f" · plan given up: {gone} · " in result.output
    assert " · re-anchored: the last plan was abandoned · " in result.output
    if project.file_format == "delta":
        unpinned = r"pinned \[.* · re-anchored: the version \d+ of the snapshot can no longer be "
        assert re.search(unpinned, result.output)
    for name in names:
        rows = project.rows(f"select * from {{schema}}.{name}")
        assert len(rows) >= 3
        assert rows == promised(project, name, "fleeting")


@pytest.mark.every_profile
def test_compaction_between_the_statements_of_a_barrier_changes_nothing(project: Project) -> None:
    delta = project.file_format == "delta"
    project.create_table("shrunk", COLUMNS)
    fill(project, "shrunk")
    shrinking = model(QUERY + source("shrunk"), backfill_rate_limit=4)
    project.write({"shrinking": shrinking}, sources=["shrunk"])
    project.run("--select", "shrinking")
    change_before(project, "shrunk")
    steps = []
    compacted: dict[str, str | None] = {}

    def compact_first(sql: str, proceed: Proceed) -> None:
        step = re.search(r"\.shrinking: (plan|merge|commit)", sql)
        if step:
            steps.append(step[1])
            for table in ("shrunk", "shrinking", "shrinking__progress", "shrinking__barriers"):
                # Delta does not compact a table that was not written since the last compaction.
                if delta and project.current_version(table) == compacted.get(table):
                    continue
                project.compact(table)
                compacted[table] = project.current_version(table)
        proceed()

    with two_merges():
        result = project.run("--select", "shrinking", intercept=compact_first)

    assert steps == ["plan", "merge", "merge", "commit"]
    assert "1 changed, 1 deleted" in result.output and "re-anchored" not in result.output
    rows = project.rows("select * from {schema}.shrinking")
    assert len(rows) == 7
    assert rows == promised(project, "shrinking", "shrunk")


@pytest.mark.every_profile
def test_the_sign_of_a_zero_and_padded_text_come_back_by_a_re_anchor(
    new_project: Callable[[], Project],
) -> None:
    """Spark treats -0.0 and 0.0 as equal, even in arrays. Delta pads a char(n) when it reads the
    column.
    """
    project = new_project()
    project.create_table("zeros", "id int, f double, a array<double>, code char(4)")
    project.sql(
        "insert into {schema}.zeros values (1, 0.0D, array(0.0D), 'a'), (2, null, null, 'b')"
    )
    query = f"select id, f, a, code from {source('zeros')}"
    project.write({"mv": model(query)}, sources=["zeros"])
    shown = "select id, cast(f as string), cast(a as string), concat(code, '.') from {schema}."
    project.run()
    assert project.rows(f"{shown}mv") == project.rows(f"{shown}zeros")

    before = project.current_version("zeros")
    project.sql("update {schema}.zeros set f = -0.0D, a = array(-0.0D), code = 'c' where id = 1")
    project.run()
    assert project.rows(f"{shown}mv") == project.rows(f"{shown}zeros")
    project.sql("update {schema}.zeros set code = 'a' where id = 1")
    project.run()

    project.restore("zeros", before)
    assert "re-anchored" in project.run().output
    assert project.rows(f"{shown}mv") == project.rows(f"{shown}zeros")


@pytest.mark.profiles(
    "session-delta", "thrift-delta", reason="another schema is a gap of Iceberg's"
)
def test_a_query_that_a_column_more_or_less_would_change_is_refused(
    new_project: Callable[[], Project],
) -> None:
    """While the upstream has the column `gross`, `gross * 3` in the query means this column.

    Without the column, `gross * 3` means the alias `gross`.
    """
    project = new_project()
    project.create_table("sales", "id int, amount int, gross int")
    mapped = "('delta.columnMapping.mode' = 'name')"
    project.sql(f"alter table {{schema}}.sales set tblproperties {mapped}")
    project.sql("insert into {schema}.sales select id, id, 7 from range(1, 11)")
    columns = "id, amount * 2 as gross, gross * 3 as tax"
    query = f"with read as (select * from {source('sales')}) select {columns} from read"
    project.write({"mv": model(query, backfill_rate_limit=3)}, sources=["sales"])
    project.run()
    fresh = "select id, amount * 2, 21 from {schema}.sales where id <= 3"
    assert project.rows("select * from {schema}.mv") == project.rows(fresh)

    def drop_between(sql: str, proceed: Proceed) -> None:
        proceed()
        if "commit the barrier 2" in sql:
            project.sql("alter table {schema}.sales drop column gross")

    project.write({"mv": model(query, backfill_rate_limit=3, barriers_per_run=2)})
    refused = "its query uses the alias 'gross' in the SELECT"
    assert refused in project.fail(intercept=drop_between).error
    assert refused in project.fail().error
    project.sql("alter table {schema}.sales add columns (gross int)")
    project.run()
    fresh = "select id, amount * 2, null from {schema}.sales where id <= 6"
    rows = project.rows("select * from {schema}.mv where id <= 6")
    assert rows == project.rows(fresh)


@pytest.mark.profiles(
    "session-delta", "thrift-delta", reason="another schema is a gap of Iceberg's"
)
@pytest.mark.parametrize("when", ["after", "while"])
def test_a_column_that_comes_after_the_version_of_a_plan_is_none_of_its_changes(
    new_project: Callable[[], Project], when: str
) -> None:
    """The column is added while a run plans the barrier, or after the run that planned it was
    killed.
    """
    project = new_project()
    project.create_table("sales", "id int, amount int")
    project.sql("insert into {schema}.sales select id, id from range(1, 11)")
    columns = "id, amount * 2 as gross"
    query = f"select {columns} from {source('sales')}"
    project.write({"mv": model(query, backfill_rate_limit=6)}, sources=["sales"])
    project.run()

    def add_while_planned(sql: str, proceed: Proceed) -> None:
        if "plan the barrier" in sql:
            project.sql("alter table {schema}.sales add columns (gross int first)")
        proceed()

    project.sql("update {schema}.sales set amount = 70 where id in (2, 3)")
    if when == "after":
        project.fail(intercept=crash_before("merge the changes"))
        project.sql("alter table {schema}.sales add columns (gross int first)")
        project.run()
    else:
        project.run(intercept=add_while_planned)

    version = project.value("select max(upstream_version) from {schema}.mv__progress")
    at_version = f"select {columns} from {{schema}}.sales version as of {version}"
    assert project.rows("select * from {schema}.mv") == project.rows(at_version)
    assert project.current_version("sales") == str(int(version) + 1)


@pytest.mark.core("session-delta")
@pytest.mark.profiles("session-delta", "thrift-delta", reason="tells what a row was before")
def test_a_column_that_the_query_reads_since_an_alter_is_followed_by_the_same_run(
    new_project: Callable[[], Project],
) -> None:
    """While x is declared not null, Spark does not read y for `coalesce(x, y)`."""
    project = new_project()
    project.create_table("sales", "id int, x int not null, y int")
    project.sql("insert into {schema}.sales select id, id, 0 from range(1, 21)")
    query = "select id, coalesce(x, y) as c from "
    config = {"backfill_rate_limit": 5, "barriers_per_run": "all"}
    project.write({"mv": model(query + source("sales"), **config)}, sources=["sales"])
    acts = {
        "1": "alter table {schema}.sales alter column x drop not null",
        "2": "update {schema}.sales set x = null where id = 1",
        "3": "update {schema}.sales set y = 99 where id = 1",
    }

    def act_between(sql: str, proceed: Proceed) -> None:
        proceed()
        committed = re.search(r"mv: commit the barrier (\d+) ", sql)
        if committed and committed[1] in acts:
            project.sql(acts[committed[1]])

    output = project.run(intercept=act_between).output

    assert "re-anchored" not in output
    assert project.rows("select * from {schema}.mv") == project.rows(query + "{schema}.sales")


@pytest.mark.core("session-delta")
@pytest.mark.profiles("session-delta", "thrift-delta", reason="another schema of Iceberg is a gap")
@pytest.mark.parametrize("when", ["between runs", "in a run"])
def test_a_column_that_a_write_widens_changes_the_values_of_older_rows(
    new_project: Callable[[], Project], when: str
) -> None:
    """Delta's log does not show that a MERGE with schema evolution has widened a column."""
    project = new_project()
    widens = {"delta.enableTypeWidening": "true"}
    project.create_table("sales", "id int, amount decimal(10, 2)", widens)
    project.sql("insert into {schema}.sales select id, 1.5 from range(1, 11)")
    query = "select id, concat('EUR ', amount) as price from "
    ranges, last = (1, 6) if when == "between runs" else ("all", 10)
    config = {"backfill_rate_limit": 6, "barriers_per_run": ranges}
    project.write({"mv": model(query + source("sales"), **config)}, sources=["sales"])

    def widen() -> None:
        project.sql(
            "merge with schema evolution into {schema}.sales as t"
            " using (select 3 as id, cast(2.125 as decimal(12, 4)) as amount) as c on t.id = c.id"
            " when matched then update set *"
        )

    def widen_after_the_first_range(sql: str, proceed: Proceed) -> None:
        proceed()
        if "mv: commit the barrier 1 " in sql:
            widen()

    if when == "between runs":
        project.run()
        widen()
        output = project.run().output
    else:
        output = project.run(intercept=widen_after_the_first_range).output

    assert "the type of the column amount of the upstream changed from decimal(10,2) to " in output
    assert (3, "EUR 2.1250") in (rows := project.rows("select * from {schema}.mv"))
    assert rows == project.rows(f"{query}{{schema}}.sales where id <= {last}")


@pytest.mark.profiles("session-delta", "thrift-delta", reason="another schema of Iceberg is a gap")
def test_a_column_that_was_moved_is_another_column_for_names_by_position(
    project: Project,
) -> None:
    project.create_table("sales", "id int, net int, gross int")
    project.sql("insert into {schema}.sales select id, 1, 2 from range(1, 4)")
    query = "select id, x, y from {} as t(id, x, y)"
    project.write({"mv": model(query.format(source("sales")))}, sources=["sales"])
    project.run()
    project.sql("alter table {schema}.sales alter column gross after id")

    assert "re-anchored: columns of the upstream were changed in version " in project.run().output

    read = project.rows(query.format("{schema}.sales"))
    assert project.rows("select * from {schema}.mv") == read == [(i, 2, 1) for i in (1, 2, 3)]
