"""The macros can be installed in two ways: as a dbt package or as an adapter plugin."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tarfile
import zipfile
from pathlib import Path
from typing import Any

import pytest

from support.checks import refused_operation
from support.lake import SessionLake
from support.project import REPOSITORY, Project, install_package
from support.readme import LAKE, session_output

pytestmark = pytest.mark.profiles(
    "session-delta", reason="how macros are installed depends on no profile"
)

MV = """
{{
    config(
        materialized='backfilled_mv',
        unique_key='id',
        backfill_rate_limit=2,
        barriers_per_run=var('barriers', 1),
    )
}}
select id, upper(name) as name from {{ source('lake', 'people') }} where name <> 'nobody'
"""
TESTS = {"models": [{"name": "mv", "data_tests": ["backfill_complete", "backfill_consistent"]}]}


def backfill(project: Project) -> dict[str, Any]:
    """Backfill a table of five rows while it changes. Return everything that a user sees."""
    project.create_table("people", "id int, name string")
    project.sql(
        "insert into {schema}.people"
        " values (1, 'ann'), (2, 'bob'), (3, 'cid'), (4, 'nobody'), (5, 'eve')"
    )
    project.write({"mv": MV}, sources=["people"])
    runs = [project.run()["mv"]]
    project.sql("update {schema}.people set name = 'zoe' where id = 2")
    project.sql("delete from {schema}.people where id = 1")
    project.vars = {"barriers": "all"}
    runs += [project.run()["mv"], project.run()["mv"]]
    return {
        "rows": project.rows("select * from {schema}.mv"),
        "messages": [run.message for run in runs],
        "responses": [run.adapter_response for run in runs],
    }


MESSAGES = ["BARRIER 1 (40.0 %)", "BARRIERS 2 to 3 (100.0 %), CAUGHT UP", "CAUGHT UP"]
EXPECTED_ROWS = [(2, "ZOE"), (3, "CID"), (5, "EVE")]


@pytest.fixture(scope="module")
def plugin(make_project) -> tuple[Project, dict[str, Any]]:  # type: ignore[no-untyped-def]
    project = make_project("plugin", "spark_backfill")
    return project, backfill(project)


def test_the_adapter_plugin_needs_no_package(plugin) -> None:  # type: ignore[no-untyped-def]
    project, seen = plugin

    assert not (project.root / "dbt_packages").exists()
    assert seen["rows"] == EXPECTED_ROWS
    assert seen["messages"] == MESSAGES


def test_the_adapter_plugin_reports_barriers_as_data(plugin) -> None:  # type: ignore[no-untyped-def]
    _, seen = plugin
    first, rest, nothing = seen["responses"]

    assert (first["code"], first["kind"], first["epoch"]) == ("BARRIER", "advance", 1)
    assert (first["rows_backfilled"], first["backfill_finished"]) == (2, False)
    assert first["upstream_version"] == "1"
    assert 0 < first["progress"] < 1
    assert first["rows_left"] == 3
    assert first["seconds_left"] == pytest.approx(3 / first["rows_per_second"])
    assert 0 <= first["lag_seconds"] < 3600
    assert (rest["barriers"], rest["epoch"], rest["rows_backfilled"]) == (2, 3, 3)
    assert (rest["rows_changed"], rest["rows_deleted"], rest["upstream_version"]) == (1, 1, "3")
    assert rest["kind"] == "advance"
    assert (nothing["barriers"], nothing["backfill_finished"], nothing["progress"]) == (0, True, 1)
    assert (nothing["rows_left"], nothing["seconds_left"]) == (0, 0)
    assert nothing.get("rows_per_second") is None
    assert (nothing["code"], nothing.get("kind")) == ("NO-OP", None)


def test_the_adapter_plugin_verifies_and_repairs(plugin) -> None:  # type: ignore[no-untyped-def]
    project, _ = plugin
    project.sql("update {schema}.mv set name = 'other' where id = 3")

    refused = refused_operation(project, "verify_backfill", model="mv")
    assert refused.startswith("backfilled_mv mv: 1 key of ")
    [error] = [m for m in project.last.messages if m.startswith("Encountered an error")]
    heading, *rest = error.splitlines()
    assert heading.endswith(": Compilation Error") and len(rest) == 2, error
    repaired = project.operation("dbt_backfill.verify_backfill", model="tested.mv", repair=True)
    assert (
        "mv: 1 row from the first of these keys to the last compared again, all equal"
        in repaired.messages
    )


def test_plugin_and_package_together_are_refused_by_dbt(tmp_path: Path) -> None:
    project = Project(tmp_path, SessionLake(tmp_path / "lake"), "people", "spark_backfill")
    install_package(tmp_path / "dbt_packages")

    refused = project.fail("parse")

    assert 'more than one package with the name "dbt_backfill"' in refused.error


def test_the_package_works_where_the_plugin_is_not_installed(tmp_path: Path) -> None:
    seen = in_new_process(f"{__name__}:run_as_package", tmp_path, DBT_PACKAGE_HUB_URL="http://-")

    assert [tuple(row) for row in seen["rows"]] == EXPECTED_ROWS
    assert seen["messages"] == MESSAGES


def run_as_package(directory: Path) -> dict[str, Any]:
    # None in sys.modules makes every import of the plugin fail, as if it were not installed.
    sys.modules["dbt.adapters.spark_backfill"] = None  # type: ignore[assignment]
    sys.modules["dbt.include.spark_backfill"] = None  # type: ignore[assignment]
    # Use the Spark settings of docs/profiles.md, but take the jars from another folder.
    settings = session_output()["server_side_parameters"]
    del settings["spark.driver.extraClassPath"]
    paths = {name: value.replace(LAKE, f"{directory}/lake") for name, value in settings.items()}
    lake = SessionLake(directory / "lake", extra_parameters=paths)
    project = Project(directory / "project", lake, "people")
    project.write({}, files={"packages.yml": f"packages:\n  - local: {REPOSITORY}\n"})
    project.dbt("deps")
    return backfill(project)


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a wheel that was built from the source distribution."""
    directory = tmp_path_factory.mktemp("dist")
    hatchling("sdist", directory, cwd=REPOSITORY)
    [source] = directory.glob("*.tar.gz")
    with tarfile.open(source) as archive:
        archive.extractall(directory, filter="data")
    hatchling("wheel", directory, cwd=directory / source.name.removesuffix(".tar.gz"))
    [wheel] = directory.glob("*.whl")
    return wheel


def test_a_wheel_holds_every_macro(wheel: Path) -> None:
    with zipfile.ZipFile(wheel) as archive:
        bundled = {name for name in archive.namelist() if "/macros/" in name}

    macros = (REPOSITORY / "macros").rglob("*.sql")
    expected = {path.relative_to(REPOSITORY).as_posix() for path in macros}
    assert expected
    assert bundled == {f"dbt/include/spark_backfill/{path}" for path in expected}


def test_an_installed_wheel_parses_a_model(wheel: Path, tmp_path: Path) -> None:
    target = tmp_path / "site-packages"
    install = ["install", "--quiet", "--no-deps", "--no-index", "--target", str(target), str(wheel)]
    subprocess.run([sys.executable, "-m", "pip", *install], check=True)

    seen = in_new_process(f"{__name__}:parse_with_wheel", tmp_path, PYTHONPATH=str(target))

    assert Path(seen["package_path"]) == target / "dbt/include/spark_backfill"
    assert Path(seen["macros_from"]) == target / "dbt/include/spark_backfill"


def parse_with_wheel(directory: Path) -> dict[str, Any]:
    from dbt.adapters.factory import FACTORY

    from dbt.include.spark_backfill import PACKAGE_PATH

    project = Project(
        directory / "project", SessionLake(directory / "lake"), "people", "spark_backfill"
    )
    project.write({"mv": MV}, sources=["people"], properties=TESTS)
    project.dbt("parse")
    [macros_from] = [path for name, path in FACTORY.packages.items() if "backfill" in name]
    return {"package_path": str(PACKAGE_PATH), "macros_from": str(macros_from)}


def hatchling(target: str, directory: Path, cwd: Path) -> None:
    build = [sys.executable, "-m", "hatchling", "build", "-t", target, "-d", str(directory)]
    subprocess.run(build, cwd=cwd, check=True, capture_output=True)


def in_new_process(function: str, directory: Path, **environment: str) -> dict[str, Any]:
    """Call `module:function(directory)` in a new Python process. Return its result as JSON can hold
    it.
    """
    module, name = function.split(":")
    answer = directory / "answer.json"
    program = (
        "import importlib.util, json, pathlib, sys\n"
        f"spec = importlib.util.spec_from_file_location({module!r}, {__file__!r})\n"
        "module = importlib.util.module_from_spec(spec)\n"
        "spec.loader.exec_module(module)\n"
        f"answer = module.{name}(pathlib.Path({str(directory)!r}))\n"
        f"pathlib.Path({str(answer)!r}).write_text(json.dumps(answer))\n"
    )
    ours = [str(REPOSITORY / "tests"), str(REPOSITORY / "example_project")]
    path = os.pathsep.join(p for p in (environment.pop("PYTHONPATH", ""), *ours) if p)
    done = subprocess.run(
        [sys.executable, "-c", program],
        cwd=directory,
        env={**os.environ, **environment, "PYTHONPATH": path},
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stdout[-5000:] + done.stderr[-5000:]
    result: dict[str, Any] = json.loads(answer.read_text())
    return result
