"""Checks that several functional test files use: refusals, versions of tables, MVs and queries."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import yaml

from support.project import Project, RunResult

_JAVA = re.compile(
    r"\bat (org|java|scala|com|io)\.|\.(scala|java):\d+|java\.lang|JVM stacktrace|Py4J|Traceback"
)


def model(query: str, **config: Any) -> str:
    """Return a `backfilled_mv` model with a few vnodes.

    `None` as a value removes the option. The default of `unique_key` is `id`.
    """
    options = {"unique_key": "id", "vnode_count": 4} | config
    given = ", ".join(f"{name}={value!r}" for name, value in options.items() if value is not None)
    return f"{{{{ config(materialized='backfilled_mv', {given}) }}}}\n{query}\n"


def source(table: str) -> str:
    return f"{{{{ source('lake', '{table}') }}}}"


def tables_of(mv: str) -> tuple[str, str, str]:
    return mv, f"{mv}__progress", f"{mv}__barriers"


def versions(project: Project, *tables: str) -> dict[str, str | None]:
    """Return the current version of each table. The tables must have the profile's format."""
    return {table: project.current_version(table) for table in tables}


def state_versions(project: Project, mv: str = "mv") -> dict[str, str | None]:
    """Return the current versions of the three tables of an MV."""
    return versions(project, *tables_of(mv))


def assert_refused(result: RunResult, name: str, *facts: str) -> None:
    """Assert that the model failed with a message of this package that contains `facts`."""
    assert result[name].status == "error"
    message = result.message(name)
    first, _, rest = message.partition("\n")
    assert first.startswith(f"Compilation Error in model {name} "), message
    assert rest.lstrip().startswith(f"backfilled_mv {name}: "), message
    sentence, _, rest = rest.lstrip().partition("\n")
    assert sentence.endswith("."), message
    assert re.match(r"\s*See docs/messages\.md#[a-z-]+$", rest, re.MULTILINE), message
    for fact in facts:
        assert fact in sentence, message
    assert_no_java(message)


def refused_operation(project: Project, operation: str, **arguments: Any) -> str:
    """Run an operation that must fail with a message of this package; return the message."""
    result = project.fail("run-operation", operation, "--args", yaml.safe_dump(arguments))
    [error] = [m for m in result.messages if m.startswith("Encountered an error")]
    [sentence] = re.findall(r"^\s*(backfilled_mv \S+: .+\.)$", error, re.MULTILINE)
    assert_no_java(error)
    return str(sentence)


def assert_no_java(text: str) -> None:
    """Assert that the text contains no part of a Java stack trace."""
    assert not _JAVA.search(text), text


def all_tables(project: Project) -> set[str]:
    """Return the tables of the project's schema, without the session's temporary views."""
    shown = project.sql("show tables in {schema}")
    return {row["tableName"] for row in shown if not row["isTemporary"]}


def existing_tables(project: Project, *tables: str) -> list[str]:
    """Return the names among `tables` that exist as tables or views in the project's schema."""
    existing = all_tables(project)
    return [table for table in tables if table in existing]


def assert_made_nothing(project: Project, name: str) -> None:
    assert existing_tables(project, *tables_of(name)) == []


def assert_writes_nothing(project: Project, act: Callable[[], Any], mv: str = "mv") -> Any:
    """Run `act`, which must not commit anything to the three tables of the MV."""
    before = state_versions(project, mv)
    result = act()
    assert state_versions(project, mv) == before
    return result


def data_tests(project: Project, *mvs: str) -> dict[str, Any]:
    """Return a properties file that adds the package's generic tests to these MVs."""
    tests = ["dbt_backfill.backfill_complete", "dbt_backfill.backfill_consistent"]
    return {"models": [{"name": mv, "data_tests": tests} for mv in mvs]}


def statuses(project: Project) -> dict[str, str]:
    """Return the results of the two generic tests of the model `mv`."""
    result = project.dbt("test", "--select", "mv", expect=False)
    return {
        "complete" if "complete" in node.name else "consistent": node.status
        for node in result.nodes
    }


WRITES = ("inserted", "updated", "deleted")


def rows_written(project: Project, table: str = "mv") -> dict[str, int]:
    """Return the rows that the last MERGE inserted, updated and deleted."""
    if project.file_format == "delta":
        metrics = project.sql(f"describe history {{schema}}.{table} limit 1")[0]["operationMetrics"]
        return {w: int(metrics[f"numTargetRows{w.title()}"]) for w in WRITES}
    summary = project.sql(
        f"select summary from {{schema}}.{table}.snapshots order by committed_at desc limit 1"
    )[0]["summary"]
    return {w: int(summary[f"spark.merge-into.num-target-rows-{w}"]) for w in WRITES}
