"""TPC-H lineitem as an upstream: 6,001,215 rows of 16 columns at scale 1, ordered by key."""

from __future__ import annotations

import argparse
import atexit
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "tests"))
sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "example_project"))

from support.formats import FORMATS, properties_clause
from support.lake import SessionLake
from support.profiles import PROFILES
from support.project import Project, install_package

KEY = ["l_orderkey", "l_linenumber"]

# The name of a small table. A new driver compiles its own code while it reads this table.
SMALL = "small"
SMALL_ROWS = 10_000

REAL_WORK = {
    "spark.driver.memory": "4g",
    # Settings that the tests switch off.
    "spark.sql.codegen.wholeStage": "true",
    "spark.sql.codegen.factoryMode": "FALLBACK",
    "spark.sql.shuffle.partitions": "4",
    "spark.driver.extraJavaOptions": "",
}


def make_parser(description: str | None) -> argparse.ArgumentParser:
    """Return the arguments of all benchmarks on lineitem."""
    parser = argparse.ArgumentParser(description=description)
    parser.add_argument("--format", choices=("delta", "iceberg"), default="delta")
    parser.add_argument("--scale", type=float, default=1.0, help="TPC-H scale factor")
    return parser


def passing_directory(prefix: str) -> Path:
    """Return a temporary directory, which is removed when this process ends."""
    directory = Path(tempfile.mkdtemp(prefix=prefix))
    atexit.register(shutil.rmtree, directory, ignore_errors=True)
    return directory


def make_project(file_format: str, settings: Mapping[str, str] = {}) -> Project:
    """Return a project with its own lake, in which plain table names mean tables of this format.

    :param settings: further settings of Spark
    """
    directory = passing_directory("lineitem")
    for name in ("lake", "project"):
        (directory / name).mkdir()
    profile = PROFILES[f"session-{file_format}"]
    lake = SessionLake(directory / "lake", profile, REAL_WORK | dict(settings))
    return Project(
        root=directory / "project",
        lake=lake,
        schema="bench",
        adapter="spark",
        packages=install_package(directory / "dbt_packages"),
    )


def load_lineitem(project: Project, scale: float) -> int:
    """Generate lineitem as a table with a change feed, in 24 files; return its rows."""
    project.sql(
        create_followable("lineitem", project.file_format)
        + "select /*+ repartition_by_range(24, l_orderkey, l_linenumber) */ * "
        f"from {generate(project, 'lineitem', scale)}"
    )
    return int(project.value("select count(*) from {schema}.lineitem"))


def copy_rows(project: Project, table: str, rows: int) -> None:
    """Copy some rows of lineitem into another table with a change feed."""
    project.sql(
        create_followable(table, project.file_format)
        + f"select * from {{schema}}.lineitem limit {rows}"
    )


def count_differing(project: Project, one: str, other: str) -> int:
    """Return the number of rows by which the results of two queries differ."""
    counts = [
        f"(select count(*) from ({a} except all {b}))" for a, b in ((one, other), (other, one))
    ]
    return int(project.value("select " + " + ".join(counts)))


def generate(project: Project, table: str, scale: float) -> str:
    """Write the rows of one of TPC-H's tables to a file; return its name in SQL."""
    program = Path(sys.executable).parent / "tpchgen-cli"
    command = [str(program), "parquet", "-s", str(scale), f"--output-dir={project.root}"]
    subprocess.run([*command, f"--tables={table}"], check=True, capture_output=True)
    return f"parquet.`{project.root}/{table}.parquet`"


def create_followable(table: str, file_format: str) -> str:
    """Return the first words of a `create table as` for a table with a change feed."""
    properties = properties_clause(FORMATS[file_format].followable)
    return f"create table {{schema}}.{table} using {file_format} {properties} as "


def cheap_merges(file_format: str) -> dict[str, str]:
    """Return properties that give a peer's table the cheap merges of an MV.

    These are deletion vectors on Delta, and merge-on-read in format 3 on Iceberg.
    """
    properties = FORMATS[file_format].merge_on_read(True)
    if file_format == "iceberg":
        properties["format-version"] = "3"
    return properties


def plain_properties(file_format: str) -> str:
    """Return the properties of `cheap_merges` as a clause of `create table`."""
    return properties_clause(cheap_merges(file_format))
