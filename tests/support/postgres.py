"""A PostgreSQL of the tests' own, for a metastore like those that people share."""

from __future__ import annotations

import os
import pwd
import shutil
import socket
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

USER = "hive"
UNPRIVILEGED = "postgres"


def binaries() -> Path | None:
    """The directory of `initdb` and `pg_ctl`, of the newest version; None if there is none."""
    found = sorted(
        Path("/usr/lib/postgresql").glob("*/bin/initdb"),
        key=lambda path: float(path.parents[1].name),
    )
    on_path = shutil.which("initdb")
    if on_path:
        found.insert(0, Path(on_path).resolve())
    if not found or (os.geteuid() == 0 and not _has_unprivileged_user()):
        return None
    return found[-1].parent


@contextmanager
def postgresql(programs: Path) -> Iterator[str]:
    """A running, empty cluster that lives as long as the block; gives its JDBC URL."""
    # Not under pytest's directory, which only its owner may enter; PostgreSQL refuses to be root.
    directory = Path(tempfile.mkdtemp(prefix="metastore"))
    data, port = directory / "data", free_port()
    if os.geteuid() == 0:
        shutil.chown(directory, UNPRIVILEGED, UNPRIVILEGED)
    options = f"-p {port} -k {directory} -c listen_addresses=localhost -c fsync=off"
    control = [str(programs / "pg_ctl"), "-D", str(data), "-w"]
    try:
        _run([str(programs / "initdb"), "-D", str(data), "-U", USER, "--auth=trust", "-N"])
        _run([*control, "-l", str(directory / "log"), "-o", options, "start"])
        try:
            yield f"jdbc:postgresql://{USER}@localhost:{port}/postgres"
        finally:
            _run([*control, "-m", "immediate", "stop"])
    finally:
        shutil.rmtree(directory)


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("localhost", 0))
        port: int = probe.getsockname()[1]
        return port


def _run(command: list[str]) -> None:
    # Output to a file, not to a pipe: the server would keep a pipe open for as long as it runs.
    with tempfile.TemporaryFile("w+") as output:
        done = subprocess.run(
            command,
            stdout=output,
            stderr=output,
            cwd="/",
            user=UNPRIVILEGED if os.geteuid() == 0 else None,
            group=UNPRIVILEGED if os.geteuid() == 0 else None,
            extra_groups=[] if os.geteuid() == 0 else None,
        )
        output.seek(0)
        if done.returncode:
            raise RuntimeError(f"{' '.join(command)} failed:\n{output.read()}")


def _has_unprivileged_user() -> bool:
    try:
        pwd.getpwnam(UNPRIVILEGED)
    except KeyError:
        return False
    return True
