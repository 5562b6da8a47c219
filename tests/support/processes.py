"""dbt in a process of its own, beside the one that the tests run in."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

from support.project import Project


def start(
    project: Project, *names: str, profiles: Path | None = None, debug: bool = False
) -> subprocess.Popen[str]:
    """`dbt run` of these models, in a process group of its own.

    :param profiles: the directory of `profiles.yml`, if it is not the project's
    :param debug: whether it prints every statement that it sends
    """
    target = project.root / f"target_{'_'.join(names)}_{os.urandom(4).hex()}"
    place = ["--project-dir", project.root, "--profiles-dir", profiles or project.root]
    level = ["--log-level", "debug"] if debug else []
    command = [Path(sys.executable).parent / "dbt", "--no-use-colors", *level, "run", *place]
    paths = ["--target-path", target, "--log-path", target / "logs"]
    return subprocess.Popen(
        [*map(str, [*command, *paths]), "--select", *names],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        start_new_session=True,
    )
