"""A user can stop a dbt run, and a landing that repeats without end.

A stopped dbt run ends each model after its current statement, and prints the progress of the model.
"""

from __future__ import annotations

import re
import signal
from collections.abc import Iterable

import pytest

from exactness.live import LiveScene
from support.checks import model, source
from support.postgres import Database
from support.processes import start, start_landing
from support.project import Project
from support.writers import orders

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
        assert stopped.endswith("]. Nothing is lost; run again to continue")
        assert len(barriers) <= 2, "at most the barrier that was at its last statement"
        assert "java." not in output and "org.apache" not in output

    project.write({"mv": model(QUERY, backfill_rate_limit=1000, barriers_per_run="all")})
    project.run()
    assert project.rows("select id from {schema}.mv") == project.rows(
        "select id from {schema}.numbers"
    )


def up_to(text: str, lines: Iterable[str]) -> str:
    """Return the lines up to and including the first line that contains this text."""
    said = []
    for line in lines:
        said.append(line)
        if text in line:
            return "".join(said)
    raise AssertionError("".join(said))


@pytest.mark.plugin
@pytest.mark.profiles("thrift-iceberg", reason="dbt in a process of its own needs a server")
def test_a_landing_that_goes_on_for_ever_ends_at_sigterm(
    project: Project, database: Database
) -> None:
    scene = LiveScene(project, database, orders(50, "for_ever"), rows=20, by_hand=False)
    scene.write()
    landing = start_landing(project, scene.mv.name)
    try:
        assert landing.stdout is not None
        output = up_to("0 events landed in", landing.stdout)
        for number in (101, 102):
            database.sql(f"insert into {scene.name} values ({number}, 1, 'late')")
            output += up_to("1 event landed in", landing.stdout)
        landing.send_signal(signal.SIGTERM)
        output += landing.communicate(timeout=60)[0]
    finally:
        landing.kill()

    assert landing.returncode == 130, output
    assert "Stopping after the running landing" in output
    assert "java." not in output and "Traceback" not in output
    landed = f"select _op, id, label from {project.table(scene.changes)} where _op <> 'w'"
    assert project.rows(landed) == [("i", 101, "late"), ("i", 102, "late")]
    scene.run()
    assert project.value(f"select count(*) from {scene.mv.table} where label = 'late'") == 2
    scene.end()
