"""A small real dbt project on the shared lake, run in this process.

project.create_table("flights", "id int")
project.write({"mv": "{{ config(...) }} select id from {{ source('lake', 'flights') }}"})
result = project.run()
assert result.message("mv") == "CAUGHT UP"
"""

from __future__ import annotations

import contextlib
import os
import re
import shutil
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from unittest.mock import patch

import yaml
from dbt.adapters.spark.connections import PyhiveConnectionWrapper
from dbt.adapters.spark.session import Cursor
from dbt.cli.main import dbtRunner
from dbt_common.events.base_types import EventMsg
from pyspark.sql import Row

from support.formats import FORMATS, TableFormat, metadata_of
from support.lake import Lake
from support.parsed import PARSED

REPOSITORY = Path(__file__).resolve().parents[2]

Proceed = Callable[..., None]
Interceptor = Callable[[str, Proceed], None]
"""A function that is called for a statement, with its text and a function `proceed`.

`proceed` executes the statement. If the interceptor does not call `proceed`, the statement is
dropped. If the interceptor calls `proceed` twice, it acts like a client that sends the statement
again. If the interceptor raises `Crash` before or after this call, the run ends at this moment.
"""


PACKAGES = "dbt_packages"
"""The directory of the packages of the tests' projects."""


REPLICATE = os.environ.get("DBT_BACKFILL_REPLICATE")
MODELS = {"+replicate": REPLICATE} if REPLICATE else {}
"""Options of all models. With them any suite can be run with other options by hand."""


_STEP = re.compile(r"/\* [^\s{]+: (.*?) \*/")


def step_of(sql: str) -> str | None:
    """Return the step of a statement of the materialization, from its comment; None for others."""
    found = _STEP.search(sql)
    return found[1] if found else None


class Crash(Exception):
    """The error that an interceptor raises to end a dbt run in the middle."""


def crash_before(text: str) -> Interceptor:
    """Return an interceptor that ends a dbt run before the first statement with this text."""

    def intercept(sql: str, proceed: Proceed) -> None:
        if text in sql:
            raise Crash(f"before {text}")
        proceed()

    return intercept


class RunFailed(AssertionError):
    """A dbt invocation failed, although it was expected to succeed."""


@dataclass(frozen=True)
class NodeResult:
    """What dbt reports about one model or test."""

    name: str
    status: str
    message: str
    adapter_response: dict[str, Any]
    failures: int | None


@dataclass(frozen=True)
class RunResult:
    """One dbt invocation: its output, its statements and its results."""

    success: bool
    nodes: tuple[NodeResult, ...]
    messages: tuple[str, ...]
    """Lines that a user sees: events of level info and above."""
    statements: tuple[str, ...]
    """Every SQL statement sent to Spark, dbt's own included; see `Project.keeps_statements`."""
    exception: BaseException | None = None

    def __getitem__(self, name: str) -> NodeResult:
        found = [node for node in self.nodes if node.name == name]
        if len(found) != 1:
            raise KeyError(f"{name} ran {len(found)} times; ran: {[n.name for n in self.nodes]}")
        return found[0]

    def message(self, name: str) -> str:
        """Return the text that dbt puts in brackets on the node's OK line, or its error."""
        return self[name].message

    @property
    def error(self) -> str:
        """Return the messages of every node that failed, or of the invocation itself."""
        texts = [n.message for n in self.nodes if n.status in ("error", "fail", "runtime error")]
        if self.exception is not None:
            texts.append(str(self.exception))
        return "\n".join(texts)

    @property
    def output(self) -> str:
        return "\n".join(self.messages)

    @property
    def steps(self) -> list[str]:
        """Return the step of each statement of the materialization, as its comment names it."""
        return _STEP.findall("\n".join(self.statements))


@dataclass
class Project:
    """A dbt project directory with its own schema in the lake.

    `adapter` is the profile's type: `spark` with this repository as a dbt package, or the plugin
    `spark_backfill` without the package.
    """

    root: Path
    lake: Lake
    schema: str
    adapter: str = "spark"
    packages: Path | None = None
    """Shared `packages-install-path`, so that `dbt deps` runs once per pytest process."""
    parsed: Path | None = None
    """The parsed project that all projects with the same packages share; see `parse_macros`."""
    vars: dict[str, Any] = field(default_factory=dict)
    settings: dict[str, str] = field(default_factory=dict)
    """Settings of Spark sessions, of the tests and of dbt; see `configure`."""
    keeps_artifacts: bool = False
    """True if dbt writes `manifest.json` and similar files, which `retry` needs.

    Then dbt parses all macros each time.
    """
    keeps_statements: bool = True
    """True if the results keep each statement.

    False if a test measures the memory of a long run.
    """
    last: RunResult | None = None
    _has_schema: bool = False

    def __post_init__(self) -> None:
        self._tables: tuple[str, ...] = ()
        self.models.mkdir(parents=True, exist_ok=True)
        self._write_yaml(self.root / "dbt_project.yml", self._project_yaml())
        self._write_yaml(self.root / "profiles.yml", self._profiles_yaml())
        if self.packages is not None:
            # The path must be the same in each project; otherwise dbt would parse all macros again.
            (self.root / PACKAGES).symlink_to(self.packages, target_is_directory=True)
            # dbt 1.12 counts the installed packages.
            package = {"local": str(REPOSITORY)}
            self._write_yaml(self.root / "packages.yml", {"packages": [package]})
        if self.parsed is not None:
            (self.root / "target").mkdir()
            shutil.copy(self.parsed, self.root / "target")

    @property
    def models(self) -> Path:
        return self.root / "models"

    @property
    def file_format(self) -> str:
        """Return the format of a table whose name has no catalog, and of models by default."""
        return self.lake.profile.file_format

    @property
    def format(self) -> TableFormat:
        return FORMATS[self.file_format]

    # -- writing the project ------------------------------------------------------------------

    def write(
        self,
        models: Mapping[str, str],
        *,
        sources: Sequence[str] = (),
        properties: Mapping[str, Any] | None = None,
        files: Mapping[str, str] | None = None,
    ) -> Project:
        """Add or replace models, given by name; the other models stay.

        :param sources: tables of the project's schema, to be read as `source('lake', '<name>')`
        :param properties: content of a properties file, e.g. `{"models": [{"name": ...}]}`
        :param files: further files by their path in the project, e.g. `macros/x.sql`
        """
        for name, sql in models.items():
            (self.models / f"{name}.sql").write_text(sql)
        if sources:
            self._tables = tuple(dict.fromkeys((*self._tables, *sources)))
            lake = {
                "name": "lake",
                "schema": self.schema,
                "tables": [{"name": table} for table in self._tables],
            }
            self._write_yaml(self.models / "_sources.yml", {"version": 2, "sources": [lake]})
        if properties is not None:
            self._write_yaml(self.models / "_properties.yml", {"version": 2, **properties})
        for path, text in (files or {}).items():
            target = self.root / path
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_text(text)
        return self

    def remove(self, *names: str) -> None:
        """Delete models from the project; their tables stay."""
        for name in names:
            (self.models / f"{name}.sql").unlink()

    def configure(self, settings: Mapping[str, str]) -> None:
        """Apply these settings in the tests' own Spark session and in dbt's sessions."""
        self.settings |= settings
        self._write_yaml(self.root / "profiles.yml", self._profiles_yaml())
        for name, value in settings.items():
            self.sql(f"set `{name}` = {value}")

    # -- running dbt --------------------------------------------------------------------------

    def run(self, *args: str, intercept: Interceptor | None = None) -> RunResult:
        """Execute `dbt run`, which must succeed."""
        return self.dbt("run", *args, intercept=intercept)

    def test(self, *args: str) -> RunResult:
        """Execute `dbt test`, which must succeed."""
        return self.dbt("test", *args)

    def fail(self, *args: str, intercept: Interceptor | None = None) -> RunResult:
        """Execute `dbt run`, or the command in `args` if there is one. It must fail."""
        commands = {"run", "test", "build", "seed", "compile", "parse", "run-operation", "retry"}
        command = args if args and args[0] in commands else ("run", *args)
        result = self.dbt(*command, expect=False, intercept=intercept)
        if result.success:
            raise AssertionError(f"dbt {' '.join(command)} succeeded:\n{result.output}")
        return result

    def operation(self, macro: str, **arguments: Any) -> RunResult:
        """Execute `dbt run-operation`, which must succeed."""
        return self.dbt("run-operation", macro, "--args", yaml.safe_dump(arguments))

    def dbt(
        self, *args: str, expect: bool = True, intercept: Interceptor | None = None
    ) -> RunResult:
        """Run one dbt command in this process.

        :param expect: raise `RunFailed`, with dbt's output, if the command does not succeed
        :param intercept: see `Interceptor`; only for statements that dbt submits
        """
        messages: list[str] = []
        statements: list[str] = []

        def record(event: EventMsg) -> None:
            info: Any = event.info
            if info.name == "SQLQuery":
                if self.keeps_statements:
                    statements.append(event.data.sql)
            elif info.level in ("info", "warn", "error"):
                messages.append(info.msg)

        runner = dbtRunner(callbacks=[record])
        with intercepted(intercept):
            invoked = runner.invoke([*self._global_arguments(), *args, *self._arguments()])
        self.lake.exchange_marks({})
        result = RunResult(
            success=invoked.success,
            nodes=tuple(_node_results(invoked.result)),
            messages=tuple(messages),
            statements=tuple(statements),
            exception=invoked.exception,
        )
        self.last = result
        if expect and not result.success:
            raise RunFailed(f"dbt {' '.join(args)} failed:\n{result.output}\n{result.error}")
        return result

    # -- looking at the lake ------------------------------------------------------------------

    def sql(self, statement: str) -> list[Row]:
        """Run one statement in the tests' Spark session; `{schema}` is the project's schema."""
        if not self._has_schema:
            self.lake.sql(f"create schema if not exists {self.schema}")
            self._has_schema = True
        return self.lake.sql(statement.replace("{schema}", self.schema))

    def rows(self, statement: str) -> list[tuple[Any, ...]]:
        """Return the rows of a query as sorted plain tuples, nulls first."""
        found = [tuple(row) for row in self.sql(statement)]
        return sorted(found, key=lambda row: [(value is not None, str(value)) for value in row])

    def value(self, statement: str) -> Any:
        """Return the only column of the only row of a query."""
        [[value]] = self.sql(statement)
        return value

    def exists(self, table: str) -> bool:
        shown = self.sql("show tables in {schema}")
        return any(row["tableName"] == table and not row["isTemporary"] for row in shown)

    def table(self, name: str, file_format: str | None = None) -> str:
        """Return a table's name in SQL.

        It includes the catalog if its format is not the profile's.
        """
        if file_format is None or file_format == self.file_format:
            return f"{self.schema}.{name}"
        return f"{self.lake.catalogs[file_format]}.{self.schema}.{name}"

    def create_table(
        self,
        table: str,
        columns: str,
        properties: Mapping[str, str] = {},
        *,
        layout: str = "plain",
        file_format: str | None = None,
    ) -> None:
        """Create an empty upstream with a change feed, by default in the profile's format.

        :param columns: as in SQL: `id int, at timestamp`
        :param layout: `plain`, `partitioned` or `clustered`; see `support/formats.py`
        """
        name = self.table(table, file_format)
        schema, _, _ = name.rpartition(".")
        self.sql(f"create schema if not exists {schema}")
        kind = FORMATS[file_format or self.file_format]
        self.sql(kind.create_table(name, columns, properties, layout))

    def current_version(self, table: str, file_format: str | None = None) -> str | None:
        """Return the version of a table as text, None if it has none yet; see `create_table`."""
        kind = FORMATS[file_format or self.file_format]
        if kind.name == "delta" and (newest := self._newest_commit(table)) is not None:
            return newest
        name = self.table(table, file_format)
        if kind.name == "iceberg" and (metadata := metadata_of(self.lake.directory, name)):
            main = metadata.get("refs", {}).get("main")
            return str(main["snapshot-id"]) if main else None
        rows = self.sql(kind.current_version(name))
        return str(rows[0][0]) if rows else None

    def files(self, table: str, kind: str = "files") -> int:
        """Return the current number of files of a table in the profile's format.

        :param kind: for an Iceberg table, `data_files` excludes delete files, `files` includes them
        """
        if self.file_format == "delta":
            return int(self.sql(f"describe detail {{schema}}.{table}")[0]["numFiles"])
        return int(self.value(f"select count(*) from {{schema}}.{table}.{kind}"))

    def _newest_commit(self, table: str) -> str | None:
        """Return the first row of a Delta table's `describe history`, from its log files."""
        log = self.lake.location(self.schema, table) / "_delta_log"
        names = [path.name for path in log.glob("*.json")]
        commits = [int(name[:20]) for name in names if re.fullmatch(r"\d{20}\.json", name)]
        return str(max(commits)) if commits else None

    def restore(self, table: str, version: str | None) -> None:
        """Restore a version of a table of the profile's format."""
        assert version is not None
        catalog = self.lake.catalogs[self.file_format]
        self.sql(self.format.restore(catalog, self.table(table), version))

    def put_back(self, table: str, version: str | None) -> None:
        """Give a table the rows of a version, in the cheapest way of its format."""
        assert version is not None
        catalog = self.lake.catalogs[self.file_format]
        self.sql(self.format.put_back(catalog, self.table(table), version))

    def compact(self, table: str) -> None:
        """Rewrite the files of a table of the profile's format; no row changes."""
        self.sql(self.format.compact(self.lake.catalogs[self.file_format], self.table(table)))

    def clean_up(self, table: str) -> None:
        """Delete the files that only old versions of a table need."""
        catalog = self.lake.catalogs[self.file_format]
        for statement in self.format.clean_up(catalog, self.table(table)):
            self.sql(statement)

    def table_properties(self, table: str) -> dict[str, str]:
        return {row[0]: row[1] for row in self.sql(f"show tblproperties {self.table(table)}")}

    # -- internals ----------------------------------------------------------------------------

    def _global_arguments(self) -> list[str]:
        arguments = [
            "--no-send-anonymous-usage-stats",
            "--no-use-colors",
            "--log-level-file",
            "none",
        ]
        return arguments if self.keeps_artifacts else [*arguments, "--no-write-json"]

    def _arguments(self) -> list[str]:
        arguments = ["--project-dir", str(self.root), "--profiles-dir", str(self.root)]
        if self.vars:
            arguments += ["--vars", yaml.safe_dump(self.vars)]
        return arguments

    def _project_yaml(self) -> dict[str, Any]:
        return {
            "name": "tested",
            "version": "1.0.0",
            "config-version": 2,
            "profile": "lake",
            "packages-install-path": PACKAGES,
            "models": {"+file_format": self.file_format, **MODELS},
        }

    def _profiles_yaml(self) -> dict[str, Any]:
        target = {
            "type": self.adapter,
            "schema": self.schema,
            "threads": 1,
            **self.lake.output(self.settings),
        }
        return {"lake": {"target": "test", "outputs": {"test": target}}}

    @staticmethod
    def _write_yaml(path: Path, content: Mapping[str, Any]) -> None:
        path.write_text(yaml.safe_dump(dict(content), sort_keys=False))


def install_package(directory: Path) -> Path:
    """Make this repository a dbt package under `directory`, as `dbt deps` does for `local:`."""
    directory.mkdir(parents=True, exist_ok=True)
    link = directory / "dbt_backfill"
    if not link.exists():
        link.symlink_to(REPOSITORY, target_is_directory=True)
    return directory


MakeProject = Callable[[str], Project]
"""The type of the fixture `shared_project`: a function of the project's name."""


def parse_macros(empty: Project) -> Path:
    """Parse all macros for all projects with the same packages, which takes dbt two seconds.

    The projects must be parsed inside `any_profile`.
    """
    empty.dbt("parse")
    return empty.root / "target" / PARSED


@contextlib.contextmanager
def intercepted(interceptor: Interceptor | None) -> Iterator[None]:
    """Call `interceptor` for every statement between dbt and Spark inside the block."""
    if interceptor is None:
        yield
        return
    with contextlib.ExitStack() as patches:
        for cursor in (Cursor, PyhiveConnectionWrapper):
            patches.enter_context(_intercepted(cursor, interceptor))
        yield


_two_merges: list[None] = []


@contextlib.contextmanager
def two_merges() -> Iterator[None]:
    """Let barriers that are planned inside the block merge changes and range in two statements.

    The tests have so few rows that a plan would have `at_once`. Then one MERGE would write both.
    """
    _two_merges.append(None)
    try:
        with intercepted(lambda _, proceed: proceed()):
            yield
    finally:
        _two_merges.pop()


def _by_two_merges(sql: str) -> str:
    """Return the statement. If it plans a barrier, change its limit so that `at_once` is false."""
    if ": plan the barrier " not in sql:
        return sql
    return re.sub(r"(\bgreatest\(checked\.row_count, [^)]*\)) <= \d+", r"\1 < 0", sql)


@contextlib.contextmanager
def _intercepted(cursor: type[Any], interceptor: Interceptor) -> Iterator[None]:
    execute = cursor.execute

    def intercept(self: Any, sql: str, *parameters: Any) -> None:
        text = _by_two_merges(sql) if _two_merges else sql
        interceptor(text, lambda instead=text: execute(self, instead, *parameters))

    with patch.object(cursor, "execute", intercept):
        yield


def _name(result: Any) -> str:
    node = getattr(result, "node", None)  # a run-operation's result has only its id
    return str(node.name if node is not None else result.unique_id.rpartition(".")[2])


def _node_results(result: object) -> Iterator[NodeResult]:
    for node in getattr(result, "results", ()):
        yield NodeResult(
            name=_name(node),
            status=str(node.status),
            message=node.message or "",
            adapter_response=dict(node.adapter_response or {}),
            failures=node.failures,
        )
