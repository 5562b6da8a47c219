"""Each run adds one file to the history table, and reads this table when the run begins."""

from __future__ import annotations

import pytest

from support.checks import model, source
from support.project import Project


@pytest.mark.every_profile
def test_the_files_of_fifty_barriers_are_made_one(project: Project) -> None:
    project.create_table("people", "id int, name string")
    project.write({"mv": model(f"select id, name from {source('people')}")}, sources=["people"])
    for number in range(3):
        project.sql(f"insert into {{schema}}.people values ({number}, 'new')")
        project.run()
    assert project.files("mv__barriers") > 1
    last = "concat('{\"epoch\":49', substr(last, instr(last, ',')))"
    project.sql(f"update {{schema}}.mv__progress set epoch = 49, last = {last}")
    project.sql("update {schema}.mv__barriers set epoch = 49 where epoch = 3")
    project.sql("insert into {schema}.people values (-1, 'a change')")

    assert "BARRIER 50 " in project.run().message("mv")

    assert project.files("mv__barriers") == 1
    assert project.rows("select epoch from {schema}.mv__barriers") == [
        (0,),
        (1,),
        (2,),
        (49,),
        (50,),
    ]
