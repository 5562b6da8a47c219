"""Start dbt and `dbt-backfill` in processes of their own."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

from support.parsed import PARSED
from support.project import REPOSITORY, Project


def start(
    project: Project, *names: str, profiles: Path | None = None, debug: bool = False
) -> subprocess.Popen[str]:
    """Start `dbt run` of these models in its own process group. It reuses the parsed project.

    :param profiles: the directory of `profiles.yml`, if it is not the project's
    :param debug: let dbt print every statement that it sends
    """
    target = project.root / f"target_{'_'.join(names)}_{os.urandom(4).hex()}"
    if (parsed := project.root / "target" / PARSED).exists():
        target.mkdir()
        shutil.copy(parsed, target)
    place = ["--project-dir", project.root, "--profiles-dir", profiles or project.root]
    level = ["--log-level", "debug"] if debug else []
    dbt = [sys.executable, "-m", "support.parsed"]
    command = [*dbt, "--no-use-colors", *level, "run", *place]
    paths = ["--target-path", target, "--log-path", target / "logs"]
    return _start([*command, *paths, "--select", *names], {"PYTHONPATH": str(REPOSITORY / "tests")})


def start_landing(
    project: Project, mv: str, output: int = subprocess.PIPE
) -> subprocess.Popen[str]:
    """Start `dbt-backfill land`, which lands every second without end, in its own process group.

    :param output: if it is a pipe that nobody reads, the process stops once the pipe is full
    """
    command = Path(sys.executable).with_name("dbt-backfill")
    place = ["--project-dir", project.root, "--profiles-dir", project.root]
    return _start([command, "land", mv, "--every", "1s", *place], {"PYTHONUNBUFFERED": "1"}, output)


def _start(
    command: Sequence[object], environment: Mapping[str, str], output: int = subprocess.PIPE
) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [*map(str, command)],
        stdout=output,
        stderr=subprocess.STDOUT,
        text=True,
        env={**os.environ, **environment},
        start_new_session=True,
    )
