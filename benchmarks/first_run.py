"""What a first, unlimited run costs beside `create table as select`, over TPC-H lineitem.

Scale 1 is 6,001,215 rows of 16 columns, key (l_orderkey, l_linenumber), in 24 files ordered by key.
Both models run in this process and in one Spark session, after one round that is not counted.
"""

from __future__ import annotations

import argparse
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from rich.console import Console
from rich.table import Table

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "tests"))
sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "example_project"))

from support.lake import SessionLake
from support.project import Project, RunResult, install_package

KEY = ["l_orderkey", "l_linenumber"]
MODELS = {
    "plain": "{{ config(materialized='table', file_format='delta') }}",
    "mv": f"{{{{ config(materialized='backfilled_mv', unique_key={KEY}) }}}}",
}
QUERY = " select * from {{ source('lake', 'lineitem') }}"
STATES = ("mv", "mv__progress", "mv__barriers")

console = Console()


def load_lineitem(project: Project, scale: float, directory: Path) -> int:
    """Generate lineitem and make it a Delta table with a change data feed; returns its rows."""
    generate = Path(sys.executable).parent / "tpchgen-cli"
    command = [generate, "parquet", "-s", str(scale), f"--output-dir={directory}"]
    subprocess.run([*command, "--tables=lineitem"], check=True, capture_output=True)
    project.lake.spark.read.parquet(str(directory / "lineitem.parquet")).createOrReplaceTempView(
        "generated"
    )
    project.sql(
        "create table {schema}.lineitem using delta "
        "tblproperties (delta.enableChangeDataFeed = true) "
        "as select /*+ repartition_by_range(24, l_orderkey, l_linenumber) */ * from generated"
    )
    return int(project.value("select count(*) from {schema}.lineitem"))


def timed_run(project: Project, model: str) -> tuple[float, RunResult]:
    started = time.perf_counter()
    result = project.run("--select", model)
    return time.perf_counter() - started, result


def statements_of_ours(result: RunResult) -> list[str]:
    """The names of the statements that the materialization sent, in order."""
    return [s.split("/* ")[2].split(" */")[0] for s in result.statements if s.count("/* ") > 1]


def main() -> None:
    arguments = argparse.ArgumentParser(description=__doc__)
    arguments.add_argument("--scale", type=float, default=1.0, help="TPC-H scale factor")
    arguments.add_argument("--rounds", type=int, default=3, help="rounds after the warm-up")
    options = arguments.parse_args()
    directory = Path(tempfile.mkdtemp(prefix="first_run"))
    lake = SessionLake(directory / "lake", extra_parameters={"spark.driver.memory": "4g"})
    (directory / "project").mkdir()
    project = Project(
        root=directory / "project",
        lake=lake,
        schema="bench",
        adapter="spark",
        packages=install_package(directory / "dbt_packages"),
    )
    rows = load_lineitem(project, options.scale, directory)
    console.print(f"lineitem: {rows:,} rows")
    project.write({name: config + QUERY for name, config in MODELS.items()}, sources=["lineitem"])
    table = Table("round", "create table as", "first run", "ratio")
    ratios = []
    for number in range(options.rounds + 1):
        for name in STATES:
            project.sql(f"drop table if exists {{schema}}.{name}")
        plain, _ = timed_run(project, "plain")
        first, result = timed_run(project, "mv")
        if number:
            ratios.append(first / plain)
        label = str(number) if number else "warm-up"
        table.add_row(label, f"{plain:.1f} s", f"{first:.1f} s", f"{first / plain:.2f}")
        console.print(f"round {label}: {plain:.1f} s, {first:.1f} s")
    console.print(table)
    console.print(f"median ratio of the first run: {statistics.median(ratios):.2f}")
    console.print("statements of the first run:", statements_of_ours(result))

    project.sql("update {schema}.lineitem set l_tax = l_tax + 0.01 where l_orderkey % 100 = 7")
    changed, result = timed_run(project, "mv")
    console.print(f"barrier with 1 % changed: {changed:.1f} s", statements_of_ours(result))
    idle, result = timed_run(project, "mv")
    console.print(f"nothing to do: {idle:.1f} s", statements_of_ours(result))


if __name__ == "__main__":
    main()
