"""A dbt that is told to stop: each model ends after the statement that runs, and says where."""

from __future__ import annotations

import re
import signal

import pytest

from support.checks import model, source
from support.processes import start
from support.project import Project

QUERY = f"select id from {source('numbers')}"


@pytest.mark.plugin
@pytest.mark.profiles("thrift-iceberg", reason="dbt in a process of its own needs a server")
def test_ctrl_c_and_sigterm_end_a_run_of_many_barriers_which_the_next_one_goes_on_with(
    project: Project,
) -> None:
    project.create_table("numbers", "id int")
    project.sql("insert into {schema}.numbers select cast(id as int) from range(1, 301)")
    limited = model(QUERY, backfill_rate_limit=1, barriers_per_run="all")
    project.write({"mv": limited}, sources=["numbers"])

    for number in (signal.SIGINT, signal.SIGTERM):
        run = start(project, "mv")
        assert run.stdout is not None
        lines = []
        for line in run.stdout:
            lines.append(line)
            if "mv [BARRIER " in line:
                run.send_signal(number)
                break
        lines += run.communicate(timeout=60)[0].splitlines(keepends=True)
        output = "".join(lines)

        assert run.returncode not in (0, -number), output
        [stopped] = re.findall(r"mv \[STOPPED .*", output)
        barriers = re.findall(r"mv \[BARRIER (\d+) ", output)
        assert f"{barriers[-1]} of 300 rows · at id={barriers[-1]} · after BARRIER" in stopped
        assert stopped.endswith("]. Nothing is lost; run again to go on")
        assert len(barriers) <= 2, "at most the barrier that was at its last statement"
        assert "java." not in output and "org.apache" not in output

    project.write({"mv": model(QUERY, backfill_rate_limit=1000, barriers_per_run="all")})
    project.run()
    assert project.rows("select id from {schema}.mv") == project.rows(
        "select id from {schema}.numbers"
    )
