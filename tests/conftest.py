"""Options and fixtures of all suites. `support/project.py` has the methods that tests call."""

from __future__ import annotations

import functools
import itertools
import os
import re
import shlex
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from support.core import core_tests, recorded_seconds
from support.profiles import (
    PROFILES,
    SESSION_DELTA,
    Profile,
    is_in_core,
    is_run_on,
    skip_elsewhere,
)
from support.recorder import Recorder
from support.shards import names_in_shard


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--profile",
        default=SESSION_DELTA.name,
        choices=list(PROFILES),
        help="connection method and table format that the tests run on",
    )
    parser.addoption(
        "--adapter",
        default="spark",
        choices=("spark", "spark_backfill"),
        help="`spark` uses the macros as a dbt package, `spark_backfill` as the adapter plugin",
    )
    parser.addoption(
        "--all",
        action="store_true",
        help="also run tests whose home is another profile and that lack the mark `every_profile`",
    )
    parser.addoption(
        "--shard",
        metavar="I/N",
        help="run only the I-th of N parts, which take equally long by the recorded times",
    )
    parser.addoption(
        "--record",
        type=Path,
        metavar="FILE",
        help="write what each test executes and how long it takes, as JSON",
    )


def pytest_configure(config: pytest.Config) -> None:
    if config.getoption("--record") is not None:
        config.pluginmanager.register(Recorder(config.getoption("--record"), _profile(config).name))


def pytest_report_header(config: pytest.Config) -> list[str]:
    profile = _profile(config)
    lines = [f"profile: {profile.name}"]
    if not config.getoption("--all"):
        lines[0] += ", tests at home there or marked every_profile (--all: all tests)"
    if profile.name == "thrift-iceberg":
        from support.postgres import binaries

        if binaries() is None:
            lines.append("WARNING: no PostgreSQL found; the metastore is Derby instead")
    return lines


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    profile = _profile(config).name
    core = set(core_tests().get(profile, ()))
    for item in items:
        skip_elsewhere(item, profile)
        if item.nodeid in core and not is_in_core(item, profile):
            item.add_marker(pytest.mark.core(profile, chosen=True))
    if not config.getoption("--all"):
        _keep(config, items, lambda item: is_run_on(item, profile) or is_in_core(item, profile))
    if config.getoption("markexpr") == "core":
        _keep(config, items, lambda item: is_in_core(item, profile))
    if config.getoption("--shard"):
        names = [item.nodeid for item in items]
        seconds = recorded_seconds().get(profile, {})
        kept = names_in_shard(names, seconds, config.getoption("--shard"))
        _keep(config, items, lambda item: item.nodeid in kept)


def _keep(
    config: pytest.Config, items: list[pytest.Item], is_kept: Callable[[pytest.Item], bool]
) -> None:
    config.hook.pytest_deselected(items=[item for item in items if not is_kept(item)])
    items[:] = [item for item in items if is_kept(item)]


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item) -> Iterator[None]:
    """Add to the report of a failure the command that repeats it."""
    report: pytest.TestReport = yield  # type: ignore[misc]
    if report.failed:
        report.sections.append(("to run it alone", _command(item)))
    return report  # type: ignore[return-value]


def _command(item: pytest.Item) -> str:
    """Return the command that runs a test alone, with the variables and options of this run.

    Random histories have fixed seeds. DBT_BACKFILL_SEED replaces these seeds.
    """
    chosen = {name: value for name, value in os.environ.items() if name.startswith("DBT_BACKFILL_")}
    command = [".venv/bin/python", "-m", "pytest", item.nodeid]
    if not item.nodeid.startswith("tests/unit"):
        command += ["--profile", _profile(item.config).name]
    if item.config.getoption("--adapter") != "spark":
        command += ["--adapter", item.config.getoption("--adapter")]
    if item.config.getoption("--all"):
        command.append("--all")
    variables = [f"{name}={shlex.quote(value)}" for name, value in sorted(chosen.items())]
    return " ".join([*variables, *map(shlex.quote, command)])


def _profile(config: pytest.Config) -> Profile:
    return PROFILES[config.getoption("--profile")]


@pytest.fixture(scope="session")
def lake(request, tmp_path_factory: pytest.TempPathFactory):  # type: ignore[no-untyped-def]
    """Yield the Spark session or the Thrift server. The first use starts the JVM."""
    from support.lake import Lake, SessionLake
    from support.thrift_lake import ThriftLake

    profile = _profile(request.config)
    kinds: dict[str, type[Lake]] = {"session": SessionLake, "thrift": ThriftLake}
    lake = kinds[profile.method](tmp_path_factory.mktemp("lake"), profile)
    try:
        lake.sql("select 1")
        yield lake
    finally:
        lake.close()


@pytest.fixture(scope="session")
def packages(tmp_path_factory: pytest.TempPathFactory) -> Path:
    from support.project import install_package

    return install_package(tmp_path_factory.mktemp("dbt_packages"))


@pytest.fixture(scope="session")
def postgresql_programs():  # type: ignore[no-untyped-def]
    """Return the directory of PostgreSQL's programs. Skip the test if they are not installed."""
    from support.postgres import binaries

    programs = binaries()
    if programs is None:
        pytest.skip("no PostgreSQL found (Debian: postgresql)")
    return programs


@pytest.fixture(scope="session")
def database(postgresql_programs):  # type: ignore[no-untyped-def]
    """Yield a PostgreSQL database whose changes can be landed.

    All tests share one server, because a Spark session never changes the URL of a catalog. Each
    test has its own tables and slots.
    """
    from support.postgres import logical_postgresql

    with logical_postgresql(postgresql_programs) as started:
        yield started


_schema_numbers = itertools.count(1)


@pytest.fixture(scope="session")
def parsed(lake, packages, tmp_path_factory):  # type: ignore[no-untyped-def]
    """Yield a function that returns the macros as dbt has parsed them for an adapter.

    Parsing takes seconds. A project that starts with the parsed macros parses only its own files.
    """
    from support.parsed import any_profile
    from support.project import Project, parse_macros

    @functools.cache
    def parsed(adapter: str) -> Path:
        root = tmp_path_factory.mktemp("parsed")
        used = packages if adapter == "spark" else None
        return parse_macros(Project(root, lake, "parsed", adapter, used))

    with any_profile():
        yield parsed


@pytest.fixture(scope="session")
def make_project(lake, packages, parsed, tmp_path_factory):  # type: ignore[no-untyped-def]
    """Return a function that makes a project with its own directory and schema."""
    from support.project import Project

    return lambda schema, adapter: Project(
        root=tmp_path_factory.mktemp(schema),
        lake=lake,
        schema=schema,
        adapter=adapter,
        packages=packages if adapter == "spark" else None,
        parsed=parsed(adapter),
    )


@pytest.fixture(scope="session")
def shared_project(request, make_project):  # type: ignore[no-untyped-def]
    """Return a function that makes a project with the given schema.

    It is for fixtures of module scope, which can run many models in one dbt run.
    """
    adapter = request.config.getoption("--adapter")
    return lambda schema: make_project(schema, adapter)


@pytest.fixture
def new_project(request, make_project):  # type: ignore[no-untyped-def]
    """Return a function that makes further projects for the test."""
    plugin = request.node.get_closest_marker("plugin") is not None
    adapter = "spark_backfill" if plugin else request.config.getoption("--adapter")
    name = re.sub(r"\W+", "_", request.node.name)[:40].strip("_").lower()
    return lambda: make_project(f"t{next(_schema_numbers)}_{name}", adapter)


@pytest.fixture
def project(new_project):  # type: ignore[no-untyped-def]
    """Return an empty dbt project with its own schema in the lake."""
    return new_project()
