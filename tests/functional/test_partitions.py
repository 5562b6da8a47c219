"""`partition_by` on Delta: the package refuses values that Delta's partition texts would alter.

Each MV has its own upstream. In the run `broken`, every upstream has a row with such a value. The
run `mended` starts after these rows were corrected.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import pytest

from support.checks import assert_no_java, assert_refused, model, source
from support.project import MakeProject, Project, RunResult

pytestmark = [
    pytest.mark.profiles("session-delta", reason="Iceberg keeps each value"),
]

ROWS = "(1, 'a'), (2, 'b'), (3, null), (4, 'a b/c=d%')"
FEED = "alter table {t} set tblproperties ('delta.enableChangeDataFeed' = '%s')"
GAP = (FEED % "false", "insert into {t} values (9, '')", FEED % "true")


@dataclass(frozen=True)
class Case:
    breaks: tuple[str, ...]
    """Statements on the upstream, which they call `{t}`."""
    mends: str = "delete from {t} where id = 9"
    config: dict[str, Any] = field(default_factory=dict)
    key: str | list[str] = "id"
    region: str = "string"
    rows: str = ROWS
    later: dict[str, Any] | None = None
    """The config that the model gets before the bad row is written."""


CASES = {
    "in_its_key": Case(
        ("insert into {t} values (9, '')",), key=["region", "id"], rows="(1, 'a'), (2, 'b')"
    ),
    "of_a_change": Case(
        ("update {t} set region = '' where id = 2",), "update {t} set region = null where id = 2"
    ),
    "of_a_name": Case(("insert into {t} values (9, '__HIVE_DEFAULT_PARTITION__')",)),
    "of_bytes": Case(
        ("insert into {t} values (9, X'C328')",), region="binary", rows="(1, X'61'), (2, null)"
    ),
    "in_a_range": Case(
        ("update {t} set region = '' where id = 3",),
        "update {t} set region = 'c' where id = 3",
        config={"backfill_rate_limit": 2},
    ),
    "in_a_comparison": Case(GAP),
    "in_a_sweep": Case(GAP, config={"on_gap": "sweep", "barriers_per_run": "all"}),
    "after_another_config": Case(("insert into {t} values (9, '')",), later={}),
    "in_an_adopted_table": Case(("insert into {t} values (9, '')",), later={}),
}


def write(project: Project, name: str, **config: Any) -> None:
    case = CASES[name]
    query = f"select id, region from {source(f'up_{name}')}"
    project.write({name: model(query, unique_key=case.key, **case.config, **config)})


def assert_equal(project: Project, name: str) -> None:
    mv, fresh = (f"select id, region from {{schema}}.{t}" for t in (name, f"up_{name}"))
    assert project.rows(mv) == project.rows(fresh)


@dataclass(frozen=True)
class Story:
    broken: RunResult
    kept: dict[str, tuple[list[tuple[Any, ...]], list[tuple[Any, ...]]]]
    """The rows of each MV, before and after the run that read the bad row."""
    mended: RunResult


@pytest.fixture(scope="module")
def project(shared_project: MakeProject) -> Project:
    return shared_project("partitions")


@pytest.fixture(scope="module")
def story(project: Project) -> Story:
    project.write({}, sources=[f"up_{name}" for name in CASES])
    for name, case in CASES.items():
        project.create_table(f"up_{name}", f"id int, region {case.region}")
        project.sql(f"insert into {{schema}}.up_{name} values {case.rows}")
        write(project, name, partition_by="Region")
    adopted = "{schema}.in_an_adopted_table"
    project.sql(
        f"create table {adopted} (id int, region string) using delta partitioned by (region)"
    )
    project.sql(f"insert into {adopted} values {ROWS}")
    project.operation("adopt_table", model="in_an_adopted_table")
    write(project, "in_an_adopted_table")
    project.run("--threads", "2")

    kept = {}
    for name, case in CASES.items():
        if case.later is not None:
            write(project, name, **case.later)
        for statement in case.breaks:
            project.sql(statement.format(t=f"{{schema}}.up_{name}"))
    before = {name: project.rows(f"select * from {{schema}}.{name}") for name in CASES}
    broken = project.fail("--threads", "2")
    for name, case in CASES.items():
        kept[name] = (before[name], project.rows(f"select * from {{schema}}.{name}"))
        project.sql(case.mends.format(t=f"{{schema}}.up_{name}"))
    mended = project.run("--threads", "2")
    # The run `mended` gave up the plan of this MV, so another run reads the range of that plan.
    project.run("--select", "in_a_range")
    return Story(broken, kept, mended)


@pytest.mark.parametrize("name", CASES)
def test_a_value_that_would_come_back_as_another_one_ends_the_run(story: Story, name: str) -> None:
    message = story.broken.message(name)

    assert story.broken[name].status == "error", message
    assert f"backfilled_mv {name}: its query returns the " in message, message
    assert "in the column region, by which the MV is partitioned" in message
    assert "partition_by" in message
    before, after = story.kept[name]
    assert before == after


@pytest.mark.parametrize("name", CASES)
def test_once_it_is_put_right_upstream_the_mv_goes_on(
    project: Project, story: Story, name: str
) -> None:
    assert story.mended[name].status == "success"
    assert_equal(project, name)


def test_a_first_run_tells_it_too_also_one_beside_the_mv_in_use(project: Project) -> None:
    project.create_table("up_first", "id int, region string")
    project.sql("insert into {schema}.up_first values (1, 'a'), (2, '')")
    query = f"select id, region from {source('up_first')}"
    project.write({"first": model(query, full_refresh_mode="beside")}, sources=["up_first"])
    project.run("--select", "first")
    fresh = project.rows("select id, region from {schema}.up_first")
    assert project.rows("select * from {schema}.first") == fresh

    layout = model(query, full_refresh_mode="beside", partition_by=["region"])
    project.write({"first": layout})
    refused = project.fail("--select", "first", "--full-refresh").message("first")
    assert "by which the MV is partitioned" in refused
    assert project.rows("select * from {schema}.first") == fresh


VALUES = {
    "p_text": (
        "string",
        ["' '", "'NULL'", "'null'", "'a:b'", "'x\\ny'", "'..'", "'007'", "'%41'", "null"],
    ),
    "p_double": (
        "double",
        ["double('NaN')", "double('-0.0')", "0D", "double('inf')", "1.1D", "4.9E-324D", "null"],
    ),
    "p_float": ("float", ["float('NaN')", "float('-0.0')", "0F", "1.1F", "null"]),
    "p_decimal": ("decimal(38,18)", ["1E-18BD", "-12345678901234567890.5BD", "0BD", "null"]),
    "p_date": ("date", ["date'0001-01-01'", "date'9999-12-31'", "date'1582-10-04'", "null"]),
    "p_local": ("timestamp_ntz", ["timestamp_ntz'2024-11-03 01:30:00.000001'", "null"]),
    "p_binary": ("binary", ["X'6162'", "null"]),
    "p_flag": ("boolean", ["true", "false", "null"]),
}


def test_all_other_values_come_back_as_they_are(project: Project) -> None:
    """Values are compared as texts, because texts distinguish -0.0 from 0.0."""
    models = {}
    for name, (type_, values) in VALUES.items():
        project.create_table(f"up_{name}", f"id int, p {type_}")
        rows = ", ".join(f"({number}, {value})" for number, value in enumerate(values))
        project.sql(f"insert into {{schema}}.up_{name} values {rows}")
        query = f"select id, p from {source(f'up_{name}')}"
        models[name] = model(query, partition_by="p", backfill_rate_limit=3, barriers_per_run="all")
    project.write(models, sources=[f"up_{name}" for name in VALUES])
    result = project.run("--threads", "2", "--select", *models)

    assert_no_java(result.output)
    for name in VALUES:
        mv, fresh = (
            f"select id, cast(p as string) from {{schema}}.{t}" for t in (name, f"up_{name}")
        )
        assert project.rows(mv) == project.rows(fresh), name


@pytest.fixture
def zone(project: Project) -> Iterator[str]:
    setting = "spark.sql.session.timeZone"
    yield setting
    project.configure({setting: "UTC"})


def test_of_an_hour_that_the_zone_has_twice_the_second_one_is_told(
    project: Project, zone: str
) -> None:
    first, second = "timestamp'2024-11-03 05:30:00Z'", "timestamp'2024-11-03 06:30:00Z'"
    project.create_table("times", "id int, at timestamp")
    project.sql(f"insert into {{schema}}.times values (1, {first}), (2, {second}), (3, null)")
    query = f"select at, id from {source('times')}"
    layout = {"unique_key": "id", "partition_by": "at"}
    models = {name: model(query, **layout) for name in ("in_utc", "in_new_york")}
    project.write(models, sources=["times"])
    fresh = "select unix_micros(at), id from {schema}."

    project.run("--select", "in_utc")
    assert project.rows(f"{fresh}in_utc") == project.rows(f"{fresh}times")

    project.configure({zone: "America/New_York"})
    refused = project.fail("--select", *models)
    # With another time zone, Spark would alter the unchanged rows of each file that it rewrites.
    assert_refused(refused, "in_utc", "time zone", "changed from UTC to America/New_York")
    message = refused.message("in_new_york")
    assert "its query returns the timestamp '2024-11-03 01:30:00' in the column at, by" in message
    project.sql("delete from {schema}.times where id = 2")
    project.run("--select", "in_new_york")
    assert project.rows(f"{fresh}in_new_york") == project.rows(f"{fresh}times")
