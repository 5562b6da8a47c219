"""What dbt's own suites need: their fixtures, and a profile on this machine's lake."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml
from dbt.cli.main import dbtRunner
from dbt.tests.fixtures.project import *  # noqa: F403
from dbt.tests.util import write_file

from dbt_suites.page import quoted
from support.parsed import PARSED, any_profile

# Tables are Delta tables where a suite does not say otherwise: on any other kind of table dbt-spark
# has neither snapshots nor MERGE.
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
    """Stock dbt-spark has no `backfilled_mv`."""
    stock = config.getoption("--adapter") == "spark"
    return True if stock and collection_path.name == "test_backfilled_mv.py" else None


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item) -> Iterator[None]:
    """A suite that ends as stock has to fail with the error that the page quotes."""
    report: Any = yield
    marker = item.get_closest_marker("as_stock")
    if marker is not None and report.failed:
        [why] = marker.args
        said = report.longreprtext + report.capstdout + report.caplog
        if quoted(why) in said:
            report.outcome, report.wasxfail = "skipped", why
            FAILED_AS_STOCK.add(item.getparent(pytest.Class))
    return report


@pytest.fixture(scope="class", autouse=True)
def fails_if_it_ends_as_stock(request) -> Iterator[None]:  # type: ignore[no-untyped-def]
    yield
    if request.node.get_closest_marker("as_stock") and request.node not in FAILED_AS_STOCK:
        pytest.fail("It does not fail with the error that the page quotes")


@pytest.fixture(scope="class")
def dbt_profile_target(request, lake) -> dict[str, Any]:  # type: ignore[no-untyped-def]
    adapter = request.config.getoption("--adapter")
    return {"type": adapter, "threads": 1, **lake.output({})}


@pytest.fixture(scope="session")
def parsed(request, lake, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:  # type: ignore[no-untyped-def]
    """The macros, parsed once for all projects."""
    root = tmp_path_factory.mktemp("parsed")
    adapter = request.config.getoption("--adapter")
    target = {"type": adapter, "schema": "parsed", **lake.output({})}
    profiles = {"test": {"target": "default", "outputs": {"default": target}}}
    write_file(yaml.safe_dump(PROJECT), str(root), "dbt_project.yml")
    write_file(yaml.safe_dump(profiles), str(root), "profiles.yml")
    with any_profile():
        place = ["--project-dir", str(root), "--profiles-dir", str(root)]
        assert dbtRunner().invoke(["parse", *place]).success
        yield root / "target" / PARSED


@pytest.fixture(scope="class")
def dbt_project_yml(project_root, project_config_update, parsed: Path) -> dict[str, Any]:  # type: ignore[no-untyped-def]
    """As dbt makes it, on top of ours."""
    update = project_config_update
    config = {**PROJECT, **(yaml.safe_load(update) if isinstance(update, str) else update or {})}
    for kind in ("models", "seeds", "snapshots"):
        config[kind] = {**PROJECT[kind], **(config[kind] or {})}
    write_file(yaml.safe_dump(config), project_root, "dbt_project.yml")
    if config == PROJECT:
        shutil.copy(parsed, project_root.mkdir("target"))
    return config
