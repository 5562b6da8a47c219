"""Run the core tests with other versions of Python, dbt, Spark, Delta and Iceberg.

    python -m support.versions                     all rows of VERSIONS
    python -m support.versions dbt-1.12 -k story   one row; what follows is passed on to pytest

Each row has its own virtual environment in `.versions/`, with the versions of `constraints.txt`
except for those that the row names. The result is one line for each row and profile.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
ENVIRONMENTS = ROOT / ".versions"
PROFILES = ("session-delta", "session-iceberg")
SUITES = ("tests/functional", "tests/exactness")


@dataclass(frozen=True)
class Versions:
    """What a row tests instead of the versions of `constraints.txt` and `nyc.thrift_server`."""

    name: str
    python: str = "python3.11"
    pins: dict[str, str] = field(default_factory=dict)
    """The versions of packages; they are installed without the packages that they require."""
    also: tuple[str, ...] = ()
    """Packages that `constraints.txt` lacks, with what they require."""
    jars: dict[str, str] = field(default_factory=dict)
    """`DELTA_PACKAGE` and `ICEBERG_PACKAGE`, as Maven coordinates."""


def _jars(spark: str, delta: str, iceberg: str) -> dict[str, str]:
    return {
        "DELTA_PACKAGE": f"io.delta:delta-spark_{spark}_2.13:{delta}",
        "ICEBERG_PACKAGE": f"org.apache.iceberg:iceberg-spark-runtime-{spark}_2.13:{iceberg}",
    }


VERSIONS = (
    # dbt-core 1.12 requires a parser that not every package index has, and that only
    # `--use-v2-parser` uses.
    Versions(
        "dbt-1.12",
        pins={"dbt-core": "1.12.6"},
        also=("metricflow>=0.213", "opentelemetry-api", "python-dotenv"),
    ),
    Versions("delta-4.4-iceberg-1.12", jars=_jars("4.1", "4.4.0", "1.12.0")),
    Versions("python-3.12", python="python3.12"),
    Versions("python-3.13", python="python3.13"),
    Versions("spark-4.0", pins={"pyspark": "4.0.5"}, jars=_jars("4.0", "4.4.0", "1.11.0")),
)


def install(versions: Versions) -> Path:
    """Create the environment of a row. Return its Python.

    :raises CalledProcessError: if a package cannot be installed
    """
    directory = ENVIRONMENTS / versions.name
    python = directory / "bin" / "python"
    if (directory / "installed").exists():
        return python
    shutil.rmtree(directory, ignore_errors=True)
    subprocess.run([versions.python, "-m", "venv", str(directory)], check=True)
    pinned = (ROOT / "constraints.txt").read_text()
    for package, version in versions.pins.items():
        pinned, count = re.subn(rf"(?m)^{package}==.*$", f"{package}=={version}", pinned)
        assert count == 1, f"constraints.txt does not have {package}"
    (directory / "constraints.txt").write_text(pinned)

    def pip(*arguments: str) -> None:
        command = [str(python), "-m", "pip", "install", "--quiet", *arguments]
        subprocess.run(command, check=True, cwd=ROOT)

    pip("--no-deps", "--requirement", str(directory / "constraints.txt"))
    if versions.also:
        pip(*versions.also)
        # An additional package may have brought in another version.
        pip("--no-deps", *(f"{name}=={version}" for name, version in versions.pins.items()))
    pip("--no-deps", "--editable", ".")
    (directory / "installed").touch()
    return python


def run(versions: Versions, profile: str, arguments: Sequence[str]) -> str:
    """Run the tests of a row on a profile, print their output, and return pytest's last line."""
    try:
        python = install(versions)
    except (subprocess.CalledProcessError, OSError) as error:
        return f"{versions.name} | {profile} | not installed | {error}"
    command = [str(python), "-m", "pytest", *SUITES, "--profile", profile]
    environment = {"PYTHONPATH": "tests:example_project", "DBT_BACKFILL_HISTORIES": "2"}
    started = time.monotonic()
    done = subprocess.run(
        [*command, "-m", "core", "-p", "no:cacheprovider", *arguments],
        cwd=ROOT,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        env={**os.environ, **environment, **versions.jars},
    )
    print(f"\n===== {versions.name}, {profile} =====\n{done.stdout}", flush=True)
    last = done.stdout.strip().splitlines()[-1:] or ["no output"]
    minutes = (time.monotonic() - started) / 60
    outcome = "ok" if done.returncode == 0 else f"exit code {done.returncode}"
    return f"{versions.name} | {profile} | {outcome} | {last[0].strip('= ')} | {minutes:.1f} min"


def main(arguments: Sequence[str]) -> int:
    names = {versions.name: versions for versions in VERSIONS}
    chosen = [argument for argument in arguments if argument in names]
    others = [argument for argument in arguments if argument not in names]
    lines = [run(names[n], profile, others) for n in chosen or names for profile in PROFILES]
    print("\n".join(["", *lines]))
    return int(any(" | ok | " not in line for line in lines))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
