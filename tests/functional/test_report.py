"""`dbt-backfill report` reads its content from the state and the history.

The unit tests test the HTML page of the report.
"""

from __future__ import annotations

import json
from typing import Any

import pytest
from click.testing import CliRunner, Result

from dbt.adapters.spark_backfill.cli.main import main
from support.checks import model, source
from support.profiles import at_home_on_iceberg
from support.project import Project

pytestmark = at_home_on_iceberg

QUERY = f"select id, name from {source('people')}"


def cli(project: Project, *command: str) -> Result:
    place = ["--project-dir", str(project.root), "--profiles-dir", str(project.root)]
    result = CliRunner().invoke(main, ["report", *command, *place])
    assert result.exit_code == 0, result.output
    return result


def told(project: Project, *command: str) -> list[dict[str, Any]]:
    """Return the lines that `--json` prints: one for the project, and one for each MV."""
    return [json.loads(line) for line in cli(project, "--json", *command).output.splitlines()]


@pytest.mark.every_profile
def test_it_has_what_any_format_tells(project: Project) -> None:
    project.create_table("people", "id int, name string")
    project.sql("insert into {schema}.people values (1, 'ann'), (2, 'bob'), (3, 'cid')")
    project.write({"mv": model(QUERY, backfill_rate_limit=2)}, sources=["people"])
    project.run()
    project.sql("update {schema}.people set name = 'zoe' where id = 2")
    project.run()

    [_, mv] = told(project)
    assert [g["row_count"] for g in mv["barriers"]] == [2, 3]
    assert [g["changed_row_count"] for g in mv["barriers"]] == [0, 1]
    assert 0 < mv["barriers"][1]["delay"] < 600
    assert (mv["controls"], mv["behind"]) == ([], 0)


def test_a_report_has_all_that_the_state_and_the_history_tell(project: Project) -> None:
    [head] = told(project)
    assert (head["project"], head["target"], head["mvs"]) == ("tested", "test", 0)

    project.create_table("people", "id int, name string")
    project.sql("insert into {schema}.people select cast(id as int), 'n' from range(60)")
    slow = {"backfill_rate_limit": 20, "barriers_per_run": 2, "vnode_count": 600}
    project.write({"mv": model(QUERY, **slow), "other": model(QUERY)}, sources=["people"])
    head, *mvs = told(project)
    assert head["mvs"] == 2
    assert {mv["model"]: mv["why"] for mv in mvs} == dict.fromkeys(
        ("mv", "other"), "it has not run yet"
    )

    project.run("--select", "mv")
    project.operation("pause_backfill", model="mv", by="alice")
    project.sql("update {schema}.people set name = 'new' where id < 3")
    project.sql("delete from {schema}.people where id = 5")
    project.run("--select", "mv")

    head, mv = told(project, "--select", "mv")
    assert (mv["progress"], mv["paused"], mv["behind"]) == (40 / 60, True, 0)
    assert mv["source"]["relation"].endswith(f"{project.schema}.people")
    assert [setting["set_by"] for setting in mv["controls"]] == ["alice"]
    groups = mv["barriers"]
    assert [(g["first_epoch"], g["last_epoch"], g["barriers"]) for g in groups] == [
        (1, 1, 1), (2, 2, 1), (3, 3, 1),
    ]  # fmt: skip
    assert [g["row_count"] for g in groups] == [20, 40, 40]
    assert [g["row_count_before"] for g in groups] == [0, 20, 40]
    assert [g.get("range_row_count", 0) for g in groups] == [20, 20, 0]
    assert [g.get("changed_row_count", 0) for g in groups] == [0, 0, 3]
    assert groups[2]["deleted_row_count"] == 1
    # The first barrier of a run has no planning time. Only the third barrier read a new version.
    assert ["planning" in g for g in groups] == [False, True, False]
    assert all(g["executing"] > 0 for g in groups)
    assert ["reading" in g for g in groups] == [True, True, False]
    assert ["delay" in g for g in groups] == [False, False, True]
    # The report combines 600 vnodes into 256 groups, because a plot cannot show more.
    vnodes = mv["vnodes"]
    assert len(vnodes) == 256 and sum(v["vnodes"] for v in vnodes) == 600
    assert (vnodes[0]["first_vnode"], vnodes[-1]["last_vnode"]) == (0, 599)
    assert sum(v["row_count"] for v in vnodes) == 40

    # After the full refresh the row count starts at zero. Earlier barriers keep their own counts.
    project.operation("resume_backfill", model="mv")
    project.run("--select", "mv", "--full-refresh")
    [_, mv] = told(project, "--select", "mv")
    groups = mv["barriers"]
    assert [g["kinds"] for g in groups[3:]] == [["reset"], ["advance"], ["advance"]]
    assert [g["row_count"] for g in groups] == [20, 40, 40, 0, 20, 40]
    assert [event["kind"] for g in groups for event in g["notable"]] == ["reset"]
    assert groups[3]["notable"][0]["reason"]

    # Add many barriers to the history.
    project.sql(
        "insert into {schema}.mv__barriers select mv.epoch + more.id * 100, mv.* except (epoch)"
        " from {schema}.mv__barriers as mv cross join range(1, 51) as more where mv.epoch > 3"
    )
    [_, mv] = told(project, "--select", "mv")
    groups = mv["barriers"]
    assert len(groups) == 80
    assert sum(g["barriers"] for g in groups) == 6 + 150
    assert {g["barriers"] for g in groups} <= {1, 2}
    assert (groups[0]["first_epoch"], groups[-1]["last_epoch"]) == (1, 5006)

    page = project.root / "target" / "backfill_report.html"
    assert cli(project).output == f"{page}\n"
    text = page.read_text()
    assert text.count("<svg ") == 6 and "it has not run yet" in text
    other = project.root / "else" / "where.html"
    assert cli(project, "--output", str(other)).output == f"{other}\n"
    assert other.exists()
