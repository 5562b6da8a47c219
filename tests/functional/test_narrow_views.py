"""An MV reads few columns of its upstream. A change of any other column does not change the MV."""

from __future__ import annotations

import pytest

from support.checks import model, source
from support.formats import Iceberg
from support.profiles import at_home_on_iceberg
from support.project import Project

pytestmark = at_home_on_iceberg

QUERY = f"select id, a, z, tags.k as tag from {source('wide')} where a < 100"


def properties(project: Project) -> dict[str, str]:
    """Return the table properties of the upstream.

    Iceberg's row lineage (format 3) does not show the previous values of a row, so an Iceberg table
    uses the changelog.
    """
    return Iceberg().with_changelog if project.file_format == "iceberg" else {}


@pytest.fixture
def wide(project: Project) -> Project:
    columns = "id int, a int, z double, tags struct<k: string>, b string, c double"
    project.create_table("wide", columns, properties(project))
    project.sql(
        "insert into {schema}.wide select cast(id as int), cast(id as int), double('-0.0'),"
        " named_struct('k', 't'), 'b', id from range(50)"
    )
    project.write({"mv": model(QUERY, barriers_per_run="all")}, sources=["wide"])
    project.run()
    return project


def changed(project: Project, *statements: str) -> str:
    """Execute the statements, run a barrier, check the MV, and return the line of the barrier."""
    for statement in statements:
        project.sql(statement.replace("wide", "{schema}.wide"))
    [line] = [line for line in project.run().messages if "mv [BARRIER" in line]
    wanted = "select id, a, cast(z as string), tags.k from {schema}.wide where a < 100"
    shown = "select id, a, cast(z as string), tag from {schema}.mv"
    assert project.rows(shown) == project.rows(wanted)
    read = project.value("select max(upstream_version) from {schema}.mv__progress")
    assert read == project.current_version("wide")
    return line


@pytest.mark.every_profile
def test_only_changes_of_what_is_read_reach_the_mv(wide: Project) -> None:
    project = wide
    before = project.current_version("mv")
    unread = changed(project, "update wide set b = 'other', c = c + 1 where id < 40")
    assert "changed" not in unread
    there_and_back = changed(
        project,
        "update wide set a = a + 1, b = 'more' where id in (1, 2)",
        "update wide set a = a - 1 where id in (1, 2)",
    )
    assert "changed" not in there_and_back
    assert project.current_version("mv") == before

    some = changed(
        project,
        "update wide set b = 'read, and not', a = if(id = 3, 77, a),"
        " z = if(id = 4, double('0.0'), z), tags = named_struct('k', if(id = 5, null, 't'))"
        " where id < 30",
        "delete from wide where id = 6",
        "update wide set a = 100 where id = 7",
        "insert into wide values (60, 60, 1.0, null, 'new', 0)",
    )
    assert "4 changed, 2 deleted" in some
    assert project.current_version("mv") != before


RENAMED = f"read as (select id, a, label as region, b from {source('parts')})"
EU = "select * from read where region = 'EU'"
PARTS = {
    "by_value": f"select id, a from {source('parts')} where label = 'EU'",
    "by_day": f"select id, a from {source('parts')} where at >= timestamp '2024-01-01 00:00:00'",
    "by_name": f"with {RENAMED}, eu as ({EU}) select id, a from eu",
}


def test_a_column_is_read_that_only_a_filter_of_whole_partitions_reads(project: Project) -> None:
    columns = "id int, label string, at timestamp, a int, b string"
    project.create_table("parts", columns, properties(project), layout="partitioned")
    if project.file_format == "iceberg":
        project.sql("alter table {schema}.parts add partition field days(at)")
    old, new = "timestamp '2023-05-05 00:00:00'", "timestamp '2024-05-05 00:00:00'"
    project.sql(
        f"insert into {{schema}}.parts values (1, 'EU', {new}, 1, 'b'), (2, 'US', {old}, 2, 'b')"
    )
    models = {name: model(query, barriers_per_run="all") for name, query in PARTS.items()}
    project.write(models, sources=["parts"])
    project.run()

    project.sql(f"update {{schema}}.parts set label = 'US', at = {old} where id = 1")
    project.sql(f"update {{schema}}.parts set label = 'EU', at = {new} where id = 2")
    project.run()
    for name in PARTS:
        assert project.rows(f"select id, a from {{schema}}.{name}") == [(2, 2)], name

    project.sql("update {schema}.parts set b = 'other'")
    assert "changed" not in project.run().output
