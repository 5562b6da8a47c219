"""What may happen to an upstream between two barriers, in the middle of a backfill and after it.

Each surprise has a table of its own, which the MV `mid_<name>` follows: it has read four of its ten
rows when the surprise comes. Some have another, `end_<name>`, that has read all of them. Each
surprise comes twice: by itself, and in the midst of other changes.
All MVs share the three dbt runs, and each test looks at one surprise.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import pytest

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
TURNS = ("alone", "amid")


# -- what happens to a table; `turn` is 1 the first time and 2 the second -------------------------


def fill(project: Project, table: str, *, at_once: bool = False) -> None:
    """Ten rows, by one commit or by two."""
    rows = f"insert into {{schema}}.{table} (id, name) select id, concat('n', id) from range"
    for ids in ("(1, 11)",) if at_once else ("(1, 6)", "(6, 11)"):
        project.sql(rows + ids)


def change_before(project: Project, table: str) -> None:
    change(project, table, "(2, 'before'), (9, 'before'), (3, null)")


def change_after(project: Project, table: str) -> None:
    change(project, table, "(1, 'after'), (8, 'after'), (0, 'low'), (99, 'high')")


def change(project: Project, table: str, names: str) -> None:
    """Update, delete (null) and insert (0 and 99) by one commit."""
    project.sql(
        f"merge into {{schema}}.{table} as t"
        f" using (select * from values {names} as v(id, name)) as c on t.id = c.id"
        " when matched and c.name is null then delete"
        " when matched then update set name = c.name"
        " when not matched and c.id in (0, 99) then insert (id, name) values (c.id, c.name)"
    )


def replace(project: Project, table: str, turn: int) -> None:
    clauses = f"using {project.file_format} {properties_clause(project.format.followable)}"
    project.sql(
        f"create or replace table {{schema}}.{table} {clauses}"
        " as select id, 'replaced' as name from values (2), (7), (11) as t(id)"
    )


def recreate(project: Project, table: str, turn: int) -> None:
    project.sql(f"drop table {{schema}}.{table}")
    project.create_table(table, COLUMNS)
    if turn == 1:
        fill(project, table)


def truncate(project: Project, table: str, turn: int) -> None:
    project.sql(f"truncate table {{schema}}.{table}")


def overwrite(project: Project, table: str, turn: int) -> None:
    """In a session also by a column of another type, which the log does not tell."""
    name = project.table(table)
    if not isinstance(project.lake, SessionLake):
        project.sql(f"insert overwrite {name} select * from {name} where id <> 3")
        return
    changed = f"cast(spare_{turn} as string) as spare_{turn}"
    rows = f"select * except (spare_{turn}), {changed} from {name} where id <> 3"
    writer = project.lake.spark.sql(rows).write.format("delta").mode("overwrite")
    writer.option("overwriteSchema", "true").saveAsTable(name)


def restore(project: Project, table: str, turn: int) -> None:
    """To the first of its two commits."""
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
    """One that the query reads: it is null from now on, also in rows that nobody writes."""
    project.sql(f"alter table {{schema}}.{table} drop column name")
    project.sql(f"alter table {{schema}}.{table} add column name string")
    if turn == 1:
        project.sql(f"insert into {{schema}}.{table} (id) values (100)")


def compact(project: Project, table: str, turn: int) -> None:
    """The second time by another layout, and the MVs too."""
    clause = {"delta": "cluster by (id)", "iceberg": "add partition field bucket(4, id)"}
    for each in (table, *(f"{phase}_{table}" for phase in phases(table))):
        if turn == 2:
            project.sql(f"alter table {{schema}}.{each} {clause[project.file_format]}")
        project.compact(each)


def clean_up(project: Project, table: str, turn: int = 0) -> None:
    """Delete what only old versions need, whatever its age."""
    if project.file_format == "iceberg":
        catalog = project.lake.catalogs["iceberg"]
        project.sql(
            f"call {catalog}.system.expire_snapshots(table => '{project.schema}.{table}',"
            " older_than => timestamp'2100-01-01', retain_last => 1)"
        )
        return
    project.sql("set spark.databricks.delta.retentionDurationCheck.enabled = false")
    project.sql(f"vacuum {{schema}}.{table} retain 0 hours")


def clean_up_untold(project: Project, table: str, turn: int) -> None:
    """A VACUUM that is not in the log, as on S3."""
    logged = "set spark.databricks.delta.vacuum.logging.enabled = "
    project.sql(f"{logged}false")
    clean_up(project, table)
    project.sql(f"{logged}true")


def clean_up_log(project: Project, table: str, turn: int) -> None:
    """What Delta does once a checkpoint holds it and `delta.logRetentionDuration` is over."""
    current = int(project.current_version(table) or 0)
    for path in (project.lake.location(project.schema, table) / "_delta_log").iterdir():
        version = path.name.lstrip(".")[:20]
        if version.isdigit() and int(version) < current:
            path.unlink()


def let_dbt_rebuild(project: Project, table: str, turn: int) -> None:
    """The table is a dbt model, so that each run makes it anew."""


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
# Without a new snapshot an Iceberg table is read as it was.
ONCE_WRITTEN = {"delta": OTHER_COLUMNS["delta"]}


@dataclass(frozen=True)
class Surprise:
    """What happens, and why each MV has to be compared with its query then; None if it has not."""

    act: Callable[[Project, str, int], None]
    alone: Reason = None
    amid: Reason = None
    formats: tuple[str, ...] = ("delta", "iceberg")
    delta: dict[str, str] = field(default_factory=dict)
    """Properties of the table, if it is a Delta table."""

    def reason(self, turn: str, file_format: str) -> str | None:
        reason: Reason = getattr(self, turn)
        return reason.get(file_format) if isinstance(reason, dict) else reason


MAPPED = {"delta.columnMapping.mode": "name"}
ANOTHER = {
    "delta": "the upstream is another table than at the last barrier",
    "iceberg": r"the snapshot \d+ of the upstream has expired, or the upstream was replaced",
}

SURPRISES = {
    "replaced": Surprise(replace, REPLACED, REPLACED),
    "rebuilt": Surprise(let_dbt_rebuild, REPLACED, REPLACED),
    "recreated": Surprise(recreate, ANOTHER, ANOTHER),
    "overwritten": Surprise(overwrite, REPLACED, REPLACED, formats=("delta",)),
    "truncated": Surprise(truncate),
    # The second time, an Iceberg table goes back to the snapshot of the last barrier.
    "restored": Surprise(restore, RESTORED, {"delta": RESTORED["delta"]}),
    "switched": Surprise(
        switch_feed,
        *[r"the change data feed was switched in version \d+"] * 2,
        formats=("delta",),
    ),
    "added": Surprise(add_column, amid={"iceberg": OTHER_COLUMNS["iceberg"]}),
    "renamed": Surprise(rename_column, ONCE_WRITTEN, OTHER_COLUMNS, delta=MAPPED),
    "widened": Surprise(
        widen_column, ONCE_WRITTEN, OTHER_COLUMNS, delta={"delta.enableTypeWidening": "true"}
    ),
    "readded": Surprise(add_column_anew, OTHER_COLUMNS, OTHER_COLUMNS, delta=MAPPED),
    "compacted": Surprise(compact),
    "cleaned": Surprise(
        clean_up,
        amid={
            "delta": r"the changes since version \d+ were vacuumed",
            "iceberg": ANOTHER["iceberg"],
        },
    ),
    "untold": Surprise(
        clean_up_untold,
        amid=r"the changes since version \d+ can no longer be read",
        formats=("delta",),
    ),
    "unlogged": Surprise(
        clean_up_log,
        amid=r"the log of the upstream no longer reaches back to version \d+",
        formats=("delta",),
        delta={"delta.checkpointInterval": "1"},
    ),
}


# What the formats, or the clients of Spark, tell in different ways.
EVERY_PROFILE = ("replaced", "restored", "readded", "cleaned")


# What may need a version that is gone: these are also followed by an MV that has read everything.
AFTERWARDS = ("replaced", "restored", "readded", "compacted", "cleaned")


def phases(name: str) -> tuple[str, ...]:
    return ("mid", "end") if name in AFTERWARDS else ("mid",)


def written_table(name: str) -> str:
    """The table that is written to: of a surprise that dbt rebuilds, the one that it reads."""
    return f"{name}_rows" if name == "rebuilt" else name


@dataclass(frozen=True)
class Seen:
    """What one MV was after a run, and what it should have been."""

    line: str
    message: str
    rows: list[tuple[Any, ...]]
    fresh: list[tuple[Any, ...]]
    is_current: bool


Story = dict[str, dict[tuple[str, str], Seen]]


@pytest.fixture(scope="module")
def project(shared_project: MakeProject) -> Project:
    return shared_project("surprises")


@pytest.fixture(scope="module")
def names(request: pytest.FixtureRequest, project: Project) -> list[str]:
    """The surprises of this format that the selected tests look at."""
    parameters = [getattr(item, "callspec", None) for item in request.session.items]
    selected = {each.params.get("name") for each in parameters if each is not None}
    return [
        name
        for name, each in SURPRISES.items()
        if name in selected and project.file_format in each.formats
    ]


@pytest.fixture(scope="module")
def story(project: Project, names: list[str]) -> Story:
    """By turn, then by phase and name."""
    delta = project.file_format == "delta"
    models = {}
    for name in names:
        table = written_table(name)
        project.create_table(table, COLUMNS, SURPRISES[name].delta if delta else {})
        fill(project, table, at_once=name not in ("restored", "compacted"))
        read = "{{ ref('rebuilt') }}" if name == "rebuilt" else source(name)
        models[f"mid_{name}"] = model(QUERY + read, backfill_rate_limit=4)
        if "end" in phases(name):
            models[f"end_{name}"] = model(QUERY + read)
    rebuilt = f"materialized='table', tblproperties={dict(project.format.followable)}"
    if "rebuilt" in names:
        models["rebuilt"] = f"{{{{ config({rebuilt}) }}}} select * from {source('rebuilt_rows')}"
    project.write(models, sources=[written_table(name) for name in names])
    built = project.run("--threads", "2")
    shares = {"mid": "40.0", "end": "100.0"}
    for name in names:
        for phase in phases(name):
            assert built.message(f"{phase}_{name}") == f"BARRIER 1 ({shares[phase]} %)"

    story: Story = {}
    for number, turn in enumerate(TURNS, start=1):
        for name in names:
            table = written_table(name)
            if turn == "amid":
                change_before(project, table)
            SURPRISES[name].act(project, table, number)
            if turn == "amid":
                change_after(project, table)
        result = project.run("--threads", "2")
        assert_no_java(result.output)
        story[turn] = look(project, names, result)
    return story


def look(project: Project, names: list[str], result: RunResult) -> dict[tuple[str, str], Seen]:
    """All MVs at once, each with its query at the recorded version and position."""
    every = [(phase, name) for name in names for phase in phases(name)]
    progress = " union all ".join(
        f"select '{phase}_{name}' as mv, max(upstream_version) as version, max(id) as position,"
        f" bool_and(backfill_finished) as finished from {{schema}}.{phase}_{name}__progress"
        for phase, name in every
    )
    states = {row["mv"]: row for row in project.sql(progress)}
    parts = []
    for phase, name in every:
        mv, state = f"{phase}_{name}", states[f"{phase}_{name}"]
        at = f"{{schema}}.{name} version as of {state['version']}"
        if state["version"] == "0":  # an Iceberg table without a snapshot
            at = f"(select * from {{schema}}.{name} where false)"
        where = "true" if state["finished"] else f"id <= {state['position']}"
        parts.append(
            f"select '{mv}' as mv, 'fresh' as part, q.* from ({QUERY}{at} where {where}) q"
        )
        parts.append(f"select '{mv}' as mv, 'rows' as part, q.* from {{schema}}.{mv} q")
    found: dict[tuple[str, str], list[tuple[Any, ...]]] = {}
    for mv, part, *row in project.rows(" union all ".join(parts)):
        found.setdefault((mv, part), []).append(tuple(row))
    seen = {}
    for phase, name in every:
        mv = f"{phase}_{name}"
        lines = [line for line in result.messages if f"{mv} [BARRIER" in line]
        seen[phase, name] = Seen(
            line="\n".join(lines),
            message=result.message(mv),
            rows=found.get((mv, "rows"), []),
            fresh=found.get((mv, "fresh"), []),
            is_current=states[mv]["version"] == (project.current_version(name) or "0"),
        )
    return seen


@pytest.mark.parametrize("turn", TURNS)
@pytest.mark.parametrize(
    "name",
    [
        pytest.param(name, marks=[pytest.mark.every_profile] if name in EVERY_PROFILE else [])
        for name in SURPRISES
    ],
)
def test_a_surprise_is_followed_exactly_and_told(
    project: Project, story: Story, name: str, turn: str
) -> None:
    if project.file_format not in SURPRISES[name].formats:
        pytest.skip(f"not of {project.file_format}")
    reason = SURPRISES[name].reason(turn, project.file_format)
    for phase in phases(name):
        seen = story[turn][phase, name]
        assert seen.rows == seen.fresh, phase
        assert seen.is_current, phase
        assert "emptied" not in seen.line, phase
        if reason is None:
            assert "re-anchored" not in seen.line, phase
        else:
            assert re.search(f" · re-anchored: {reason} · ", seen.line), (phase, seen.line)


@pytest.mark.parametrize("name", ["rebuilt", "compacted", "renamed"])
def test_a_surprise_that_changes_no_row_writes_none(story: Story, name: str) -> None:
    for phase in phases(name):
        seen = story["alone"][phase, name]
        assert " changed" not in seen.line or " 0 changed, 0 deleted · " in seen.line


# -- a column that the query reads ----------------------------------------------------------------

# What is done to the table, the query, what its refusal says, and the corrected query.
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


# -- what a barrier needs is gone, or moves while it runs -----------------------------------------


def promised(project: Project, mv: str, table: str) -> list[tuple[Any, ...]]:
    """The rows of the query at the version and up to the position of the MV."""
    state = f"max(upstream_version) as version, max(id) as position from {{schema}}.{mv}__progress"
    [(version, position)] = project.rows(f"select {state}")
    at = f"{{schema}}.{table} version as of {version}"
    return project.rows(f"{QUERY}{at} where id <= {position}")


@pytest.mark.every_profile
def test_a_plan_whose_version_is_gone_is_given_up(project: Project) -> None:
    """The run died before it merged anything. In the mode `snapshot` an MV lost its version too."""
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
    project.create_table("shrunk", COLUMNS)
    fill(project, "shrunk")
    shrinking = model(QUERY + source("shrunk"), backfill_rate_limit=4)
    project.write({"shrinking": shrinking}, sources=["shrunk"])
    project.run("--select", "shrinking")
    change_before(project, "shrunk")
    steps = []

    def compact_first(sql: str, proceed: Proceed) -> None:
        step = re.search(r"\.shrinking: (plan|merge|commit)", sql)
        if step:
            steps.append(step[1])
            for table in ("shrunk", "shrinking", "shrinking__progress", "shrinking__barriers"):
                project.compact(table)
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
    """Spark takes -0.0 for equal to 0.0, also in arrays; Delta pads a char(n) as it reads it."""
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
