"""The fixtures of dbt's own suites, and a profile for the lake on this machine."""

from __future__ import annotations

import getpass
import inspect
import os
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from unittest.mock import patch

import pytest
import yaml
from dbt.artifacts.resources.base import FileHash
from dbt.cli.main import dbtRunner
from dbt.contracts.graph.manifest import Manifest
from dbt.parser.manifest import ManifestLoader
from dbt.tests.fixtures.project import *  # noqa: F403
from dbt.tests.util import write_file

from dbt_suites.page import quoted
from support.parsed import PARSED, any_profile

# By default tables are Delta tables. On other kinds of tables dbt-spark has no snapshots or MERGE.
PROJECT: dict[str, Any] = {
    "name": "test",
    "profile": "test",
    "flags": {"send_anonymous_usage_stats": False},
    "models": {"+file_format": "delta"},
    "seeds": {"+file_format": "delta"},
    "snapshots": {"+file_format": "delta"},
}

FAILED_AS_STOCK: set[pytest.Class | None] = set()


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line("markers", "as_stock(why): stock dbt-spark fails it in the same way")


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """Skip the suites of `backfilled_mv` for stock dbt-spark, which has no such materialization."""
    stock = config.getoption("--adapter") == "spark"
    return True if stock and collection_path.name == "test_backfilled_mv.py" else None


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item) -> Iterator[None]:
    """Check that docs/dbt-suites.md quotes the error of a suite that fails like stock dbt-spark."""
    report: Any = yield
    marker = item.get_closest_marker("as_stock")
    if marker is not None and report.failed:
        [why] = marker.args
        said = report.longreprtext + report.capstdout + report.caplog
        if any(error in said for error in quoted(why)):
            report.outcome, report.wasxfail = "skipped", why
            FAILED_AS_STOCK.add(item.getparent(pytest.Class))
    return report


@pytest.fixture(scope="class", autouse=True)
def fails_if_it_ends_as_stock(request) -> Iterator[None]:  # type: ignore[no-untyped-def]
    yield
    if request.node.get_closest_marker("as_stock") and request.node not in FAILED_AS_STOCK:
        pytest.fail("The suite does not fail with an error that the page quotes")


@pytest.fixture(scope="class", autouse=True)
def no_temporary_view_stays(lake) -> Iterator[None]:  # type: ignore[no-untyped-def]
    """Drop the temporary views that dbt-spark leaves in the session.

    Usually each dbt process has its own session; here all suites share one.
    """
    yield
    for view in lake.sql("show views in default"):
        if view.isTemporary:
            lake.sql(f"drop view `{view.viewName}`")


@pytest.fixture(scope="class")
def test_data_dir(request, tmp_path_factory: pytest.TempPathFactory) -> Path:  # type: ignore[no-untyped-def]
    """Return a copy of the files of the suite, because some suites delete their files."""
    copy = tmp_path_factory.mktemp("suite") / "data"
    its_own = Path(inspect.getfile(request.cls.__bases__[0])).parent / "data"
    if its_own.is_dir():
        shutil.copytree(its_own, copy)
    return copy


@pytest.fixture(scope="session", autouse=True)
def users_to_grant_to() -> Iterator[None]:
    with patch.dict(os.environ, {f"DBT_TEST_USER_{n}": f"user_{n}" for n in (1, 2, 3)}):
        yield


@pytest.fixture(scope="session")
def profile_user() -> str:
    """Return the owner of tables. A profile for a session does not contain a user."""
    return getpass.getuser()


@pytest.fixture(scope="class")
def dbt_profile_target(request, lake) -> dict[str, Any]:  # type: ignore[no-untyped-def]
    adapter = request.config.getoption("--adapter")
    return {"type": adapter, "threads": 1, **lake.output({})}


@pytest.fixture(scope="session")
def parsed(request, lake, tmp_path_factory: pytest.TempPathFactory) -> Iterator[bytes]:  # type: ignore[no-untyped-def]
    """Yield the parsed macros, which all projects share."""
    root = tmp_path_factory.mktemp("parsed")
    adapter = request.config.getoption("--adapter")
    target = {"type": adapter, "schema": "parsed", **lake.output({})}
    profiles = {"test": {"target": "default", "outputs": {"default": target}}}
    write_file(yaml.safe_dump(PROJECT), str(root), "dbt_project.yml")
    write_file(yaml.safe_dump(profiles), str(root), "profiles.yml")
    with any_profile():
        place = ["--project-dir", str(root), "--profiles-dir", str(root)]
        assert dbtRunner().invoke(["parse", *place]).success
        yield (root / "target" / PARSED).read_bytes()


@pytest.fixture(scope="session", autouse=True)
def macros_of_adapter() -> Iterator[None]:
    """Load the macros for the suites' own statements once, before any project has macros."""
    load = ManifestLoader.load_macros

    loaded: list[Any] = []

    def load_macros(config: Any, hook: Any, base_macros_only: bool = False) -> Any:
        if not base_macros_only:
            return load(config, hook)
        if not loaded:
            loaded.append(load(config, hook, base_macros_only=True))
        return loaded[0]

    with patch.object(ManifestLoader, "load_macros", load_macros):
        yield


@pytest.fixture(scope="class")
def dbt_project_yml(project_root, project_config_update, parsed: bytes) -> dict[str, Any]:  # type: ignore[no-untyped-def]
    """Write the project file of a suite, like dbt's fixture, but with the defaults in `PROJECT`."""
    update = project_config_update
    config = {**PROJECT, **(yaml.safe_load(update) if isinstance(update, str) else update or {})}
    for kind in ("models", "seeds", "snapshots"):
        config[kind] = {**PROJECT[kind], **(config[kind] or {})}
    text = yaml.safe_dump(config)
    write_file(text, project_root, "dbt_project.yml")
    if config["name"] == PROJECT["name"]:
        manifest: Any = Manifest.from_msgpack(parsed)  # type: ignore[attr-defined]
        manifest.state_check.project_hashes[config["name"]] = FileHash.from_contents(text)
        (Path(project_root.mkdir("target")) / PARSED).write_bytes(manifest.to_msgpack())
    return config
