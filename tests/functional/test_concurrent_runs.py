"""Several dbt processes run at the same time on one Thrift server.

They run different MVs or the same MV.

DBT_BACKFILL_PAIRS=50     how many pairs of runs of the same MV (1)
"""

from __future__ import annotations

import os
import re

import pytest

from support.checks import model, source
from support.processes import start
from support.profiles import needs_a_server
from support.project import Project

PAIRS = int(os.environ.get("DBT_BACKFILL_PAIRS", "1"))

pytestmark = [
    pytest.mark.every_profile,
    needs_a_server,
]


def make_numbers(project: Project) -> None:
    project.create_table("numbers", "id int, name string")
    project.sql("insert into {schema}.numbers select cast(id as int), 'n' from range(200)")


def assert_equal_to(project: Project, mv: str, query: str) -> None:
    assert project.rows(f"select * from {{schema}}.{mv}") == project.rows(query)


def test_different_mvs_of_one_upstream_do_not_get_in_each_others_way(project: Project) -> None:
    make_numbers(project)
    query = f"select id, upper(name) as name from {source('numbers')}"
    names = ("left_mv", "right_mv")
    project.write({name: model(query) for name in names}, sources=["numbers"])

    runs = [start(project, name) for name in names]
    outputs = [run.communicate(timeout=300)[0] for run in runs]

    assert [run.returncode for run in runs] == [0, 0], "\n".join(outputs)
    for name in names:
        assert_equal_to(project, name, "select id, upper(name) from {schema}.numbers")


@pytest.mark.plugin
def test_two_runs_of_one_mv_leave_it_exact_and_say_at_most_that_another_went_on(
    project: Project,
) -> None:
    make_numbers(project)
    query = f"select id, upper(name) as name from {source('numbers')}"
    limited = model(query, backfill_rate_limit=10)
    project.write({"mv": limited}, sources=["numbers"])
    project.run()
    for number in range(PAIRS):
        project.sql(f"update {{schema}}.numbers set name = 'turn {number}' where id % 7 = 0")
        project.sql(f"delete from {{schema}}.numbers where id = {number}")

        runs = [start(project, "mv") for _ in range(2)]
        outputs = [run.communicate(timeout=300)[0] for run in runs]

        assert 0 in [run.returncode for run in runs], "\n".join(outputs)
        for run, output in zip(runs, outputs, strict=True):
            if run.returncode:
                assert re.search(r"another run (changed the state|committed a barrier)", output), (
                    output
                )
        assert_equal_to(
            project,
            "mv",
            "select n.id, upper(n.name) from {schema}.numbers as n join {schema}.mv__progress as p "
            "on p.vnode = 0 and (p.backfill_finished or n.id <= p.id)",
        )
