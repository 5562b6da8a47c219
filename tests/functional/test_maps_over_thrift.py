"""A Thrift server returns a map as text and does not escape the quotes of a value.

DESCRIBE HISTORY and DESCRIBE DETAIL of a Delta table return such maps.
"""

from __future__ import annotations

import os
import time

import pytest

from support.checks import assert_writes_nothing, model, source
from support.project import Project

pytestmark = pytest.mark.profiles("thrift-delta", reason="how Spark prints a map for Hive")

JSON = '{"team":"x, y: {z}"}'
MV = model(f"select id, v from {source('up')}")


def make(project: Project, properties: dict[str, str], layout: str = "") -> None:
    listed = {"delta.enableChangeDataFeed": "true"} | properties
    text = ", ".join(f"'{name}' = '{value}'" for name, value in listed.items())
    columns = "(id int, region string, v int)"
    project.sql(f"create table {{schema}}.up {columns} using delta {layout} tblproperties ({text})")
    rows = "select cast(id as int), if(id > 10, 'a', 'b'), 1 from range(1, 21)"
    project.sql(f"insert into {{schema}}.up {rows}")


def age(project: Project, hours: float, ages: dict[str, float]) -> None:
    """Make the commits of the table since the last call this old."""
    log = project.lake.location(project.schema, "up") / "_delta_log"
    for path in sorted(log.glob("*.json")):
        if path.name not in ages:
            ages[path.name] = time.time() - hours * 3600 + len(ages)
            os.utime(path, (ages[path.name], ages[path.name]))


def assert_exact(project: Project) -> None:
    rows = project.rows("select * from {schema}.mv order by id")
    assert rows == project.rows("select id, v from {schema}.up order by id")


def test_a_property_may_have_quotes(project: Project) -> None:
    """After ten hours, a run reads how long the table keeps its files."""
    make(project, {"made_by": JSON})
    project.write({"mv": MV}, sources=["up"])
    ages: dict[str, float] = {}
    age(project, 14, ages)
    project.run()
    for hours in (12, 11):
        project.sql("update {schema}.up set v = v + 1 where id = 3")
        age(project, hours, ages)
    project.run()
    assert_exact(project)


def test_a_feed_that_is_off_is_refused_whatever_the_other_properties_are(project: Project) -> None:
    make(project, {"made_by": JSON, "delta.enableChangeDataFeed": "false"})
    project.write({"mv": MV}, sources=["up"])
    assert "has no change data feed" in project.fail().error


def test_rows_that_are_replaced_by_a_condition_are_followed(project: Project) -> None:
    """The log has the condition as a parameter, with quotes."""
    make(project, {}, "partitioned by (region)")
    project.write({"mv": MV}, sources=["up"]).run()
    replaced = "select cast(id as int), 'a', 5 from range(11, 31)"
    project.sql(f"insert into {{schema}}.up replace where region = 'a' {replaced}")
    for _ in range(2):
        assert "re-anchored" not in project.run().output
        assert_exact(project)
        project.sql("update {schema}.up set v = v + 1 where id = 3")


def test_a_hidden_constraint_is_read_beside_a_property_with_quotes(project: Project) -> None:
    make(project, {})
    columns = [{"name": "url", "data_type": "string"}]
    constraint = {"type": "check", "name": "url_known", "expression": 'url <> \'","x":"\''}
    properties = {"models": [{"name": "mv", "columns": columns, "constraints": [constraint]}]}
    query = f"select id, concat(region, id) as url from {source('up')}"
    mv = model(query, contract={"enforced": True}, tblproperties={"made_by": JSON})
    columns.insert(0, {"name": "id", "data_type": "int"})
    project.write({"mv": mv}, sources=["up"], properties=properties)
    project.run()
    assert_writes_nothing(project, project.run)
