"""Options and fixtures shared by all suites; see `support/project.py` for what a test does."""

from __future__ import annotations

import functools
import itertools
import re
from collections.abc import Callable
from pathlib import Path

import pytest

from support.days import ALL, is_turn_of, today
from support.profiles import (
    PROFILES,
    SESSION_DELTA,
    Profile,
    is_run_on,
    skip_elsewhere,
    turn_of,
)
from support.shares import Shares


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
        help="also the tests that are at home on another profile and not marked `every_profile`",
    )
    parser.addoption(
        "--in-turn",
        action="store_true",
        help="of what is at home on another profile, and of what is marked `in_turn`, only what is"
        " played today: a third, or what DBT_BACKFILL_DAY says",
    )


def pytest_configure(config: pytest.Config) -> None:
    config.pluginmanager.register(Shares())


def pytest_report_header(config: pytest.Config) -> list[str]:
    profile = _profile(config)
    lines = [f"profile: {profile.name}"]
    if not config.getoption("--all"):
        lines[0] += ", tests at home there or marked every_profile (--all: all tests)"
    if config.getoption("--in-turn"):
        day = today()
        lines[0] += f", some in turn: DBT_BACKFILL_DAY={ALL if day is None else day}"
    if profile.name == "thrift-iceberg":
        from support.postgres import binaries

        if binaries() is None:
            lines.append("WARNING: no PostgreSQL found; the metastore is Derby instead")
    return lines


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    profile = _profile(config).name
    for item in items:
        skip_elsewhere(item, profile)
    if not config.getoption("--all"):
        _keep(config, items, lambda item: is_run_on(item, profile))
    if config.getoption("--in-turn"):
        _keep(config, items, lambda item: is_turn_of(turn_of(item, profile)))


def _keep(
    config: pytest.Config, items: list[pytest.Item], is_kept: Callable[[pytest.Item], bool]
) -> None:
    config.hook.pytest_deselected(items=[item for item in items if not is_kept(item)])
    items[:] = [item for item in items if is_kept(item)]


def _profile(config: pytest.Config) -> Profile:
    return PROFILES[config.getoption("--profile")]


@pytest.fixture(scope="session")
def lake(request, tmp_path_factory: pytest.TempPathFactory):  # type: ignore[no-untyped-def]
    """The warm Spark session, or the Thrift server; starts the JVM at its first use."""
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
    """Where PostgreSQL's programs are; a test that needs them is skipped without."""
    from support.postgres import binaries

    programs = binaries()
    if programs is None:
        pytest.skip("no PostgreSQL found (Debian: postgresql)")
    return programs


@pytest.fixture(scope="session")
def database(postgresql_programs):  # type: ignore[no-untyped-def]
    """A PostgreSQL whose WAL can be decoded; each test has tables and slots of its own in it.

    One for all, as Spark keeps the catalog of a name, with its URL, for as long as a session lives.
    """
    from support.postgres import logical_postgresql

    with logical_postgresql(postgresql_programs) as started:
        yield started


_schema_numbers = itertools.count(1)


@pytest.fixture(scope="session")
def make_project(lake, packages, tmp_path_factory):  # type: ignore[no-untyped-def]
    """A function that makes a project, with a directory and a schema of its own."""
    from support.parsed import any_profile
    from support.project import Project, parse_macros

    @functools.cache
    def parsed(adapter: str) -> Path:
        return parse_macros(make_unparsed("parsed", adapter))

    def make_unparsed(schema: str, adapter: str, parsed: Path | None = None) -> Project:
        return Project(
            root=tmp_path_factory.mktemp(schema),
            lake=lake,
            schema=schema,
            adapter=adapter,
            packages=packages if adapter == "spark" else None,
            parsed=parsed,
        )

    with any_profile():
        yield lambda schema, adapter: make_unparsed(schema, adapter, parsed(adapter))


@pytest.fixture(scope="session")
def shared_project(request, make_project):  # type: ignore[no-untyped-def]
    """For a fixture of module scope, many cases in one dbt run: a project by its schema's name."""
    adapter = request.config.getoption("--adapter")
    return lambda schema: make_project(schema, adapter)


@pytest.fixture
def new_project(request, make_project):  # type: ignore[no-untyped-def]
    """A function that makes further projects of the test that asks for it."""
    plugin = request.node.get_closest_marker("plugin") is not None
    adapter = "spark_backfill" if plugin else request.config.getoption("--adapter")
    name = re.sub(r"\W+", "_", request.node.name).strip("_").lower()[:40]
    return lambda: make_project(f"t{next(_schema_numbers)}_{name}", adapter)


@pytest.fixture
def project(new_project):  # type: ignore[no-untyped-def]
    """An empty dbt project with a schema of its own in the lake."""
    return new_project()
