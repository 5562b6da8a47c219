"""Nothing that a run writes contains the password of a database."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from exactness.live import CATALOG, LiveScene
from support.postgres import Database
from support.project import Project
from support.writers import orders

PASSWORD = "oh-so-secret-4711"


@pytest.fixture
def logged(project: Project, monkeypatch: pytest.MonkeyPatch) -> Project:
    """Let dbt write its debug log and all its artifacts."""
    arguments = [
        "--no-send-anonymous-usage-stats",
        *("--log-level-file", "debug", "--log-path", str(project.root / "logs")),
        "--log-format-file=json",
    ]
    monkeypatch.setattr(project, "_global_arguments", lambda: arguments)
    return project


def files_with(text: str, directory: Path) -> Iterator[Path]:
    for path in directory.rglob("*"):
        if path.is_file() and text.encode() in path.read_bytes():
            yield path


def told_by_tables(project: Project) -> str:
    """Return all values, properties and histories of all tables of the project."""
    told: list[Any] = []
    names = [name for _, name, temporary in project.sql("show tables in {schema}") if not temporary]
    for name in names:
        told += project.sql(f"select * from {{schema}}.`{name}`")
        told += project.sql(f"show tblproperties {{schema}}.`{name}`")
        told += project.sql(f"describe extended {{schema}}.`{name}`")
        if project.file_format == "delta":
            told += project.sql(f"describe history {{schema}}.`{name}`")
    return str(told)


@pytest.mark.profiles("session-delta", "session-iceberg", reason="a server's settings are its own")
def test_the_password_stands_nowhere(logged: Project, database: Database) -> None:
    scene = LiveScene(
        logged, database, orders(300, "secret_orders"), rows=200, by_hand=False, password=PASSWORD
    )
    scene.write(backfill_rate_limit=50)
    said = []
    with scene.writers(2, 10):
        for _ in range(2):
            scene.land()
            scene.barrier()
            said.append(logged.last)
    logged.operation("verify_backfill", model=scene.mv.name)
    logged.write({"wrong": f"select 1/0 from {CATALOG}.public.nothing"})
    said.append(logged.fail("--select", "wrong"))
    scene.end()

    logs = (logged.root / "logs" / "dbt.log").read_text()
    assert "stage the rows of the barrier" in logs
    assert (logged.root / "target" / "run_results.json").exists()
    assert PASSWORD not in told_by_tables(logged)
    assert PASSWORD not in str(said)
    assert [*files_with(PASSWORD, logged.root)] == [logged.root / "profiles.yml"]
    assert [*files_with(PASSWORD, logged.lake.directory)] == []
