"""The benchmarks evaluate their measurements and check their arguments."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pytest
from bench import make_arguments, write_page

from costs import acts
from costs.event_log import EventLog, bytes_read
from costs.figures import (
    BYTES,
    Environment,
    Measured,
    Result,
    Spread,
    read,
    replaced,
    write,
)

ENVIRONMENT = Environment(
    commit="abc1234",
    date="2026-11-25",
    machine="2 cores of a machine",
    versions={"pyspark": "4.1.4"},
)
RESULT = Result(
    workload="lineitem",
    title="lineitem, a first run",
    file_format="delta",
    scale=0.1,
    rows=600_572,
    rounds=3,
    warm_up=10,
    load=0.5,
    measured=(
        Measured(acts.CTAS, (1.0, 2.0, 4.0), acts.CTAS),
        Measured(acts.CTAS, (1e6, 1e6, 1e6), acts.CTAS, BYTES),
        Measured(acts.BACKFILLED, (3.0, 4.0, 4.0), acts.CTAS),
        Measured(acts.BACKFILLED, (2e6, 3e6, 3e6), acts.CTAS, BYTES),
    ),
    environment=ENVIRONMENT,
)


def test_a_ratio_is_of_the_same_round_and_not_of_the_medians():
    # The rounds took 3, 2 and 1 times as long. The medians are 4 and 2 seconds.
    assert RESULT.ratio(acts.BACKFILLED, acts.CTAS) == Spread(2.0, 1.0, 3.0)


def test_results_are_the_same_after_they_were_written(tmp_path: Path):
    write(tmp_path / "results.json", [RESULT])
    assert read(tmp_path / "results.json") == [RESULT]
    assert read(tmp_path / "none.json") == []


def test_fresh_results_stand_in_place_of_those_of_the_same_workload_and_format():
    orders, gone = replace(RESULT, workload="orders"), replace(RESULT, workload="gone")
    iceberg = replace(RESULT, file_format="iceberg")
    fresh = replace(RESULT, rounds=9)
    kept = replaced([iceberg, orders, RESULT, gone], [fresh], ["lineitem", "orders"])
    assert kept == [fresh, orders, iceberg]


def test_page_and_plots_are_made_of_what_stands_there_and_come_out_the_same(tmp_path: Path):
    write(tmp_path / "results.json", [RESULT, replace(RESULT, file_format="iceberg")])
    write_page(tmp_path)
    before = {path.name: path.read_text() for path in tmp_path.iterdir()}
    assert set(before) == {"results.json", "RESULTS.md", "results-delta.svg", "results-iceberg.svg"}
    write_page(tmp_path)
    assert before == {path.name: path.read_text() for path in tmp_path.iterdir()}


@pytest.mark.parametrize(
    "arguments", [["--workloads", "nothing"], ["--config", "replicate"], ["--rounds", "0"]]
)
def test_what_says_nothing_is_refused(arguments: list[str], capsys: pytest.CaptureFixture[str]):
    with pytest.raises(SystemExit):
        make_arguments().parse_args(arguments)
    assert arguments[1] in capsys.readouterr().err


def plan(node: str, *metrics: int, children: Sequence[dict] = (), **metadata: str) -> dict:
    listed = [{"name": "number of output rows", "accumulatorId": metric} for metric in metrics]
    return {"nodeName": node, "metrics": listed, "children": children, "metadata": metadata}


def started(of: dict) -> dict:
    return {
        "Event": "org.apache.spark.sql.execution.ui.SparkListenerSQLExecutionStart",
        "sparkPlanInfo": of,
    }


def stage(metric: int, size: int) -> dict:
    listed = [
        {"ID": metric, "Name": "number of output rows", "Value": "1"},
        {"ID": 1000 + metric, "Name": "internal.metrics.input.bytesRead", "Value": str(size)},
    ]
    return {"Event": "SparkListenerStageCompleted", "Stage Info": {"Accumulables": listed}}


def test_bytes_are_those_of_the_stages_that_scan_the_table():
    by_name = plan("Scan parquet spark_catalog.bench.lineitem", 1)
    by_place = plan("Scan parquet ", 2, Location="TahoeLogFileIndex[file:/lake/bench.db/lineitem]")
    other = plan("Scan parquet spark_catalog.bench.lineitem_small", 3)
    join = plan("SortMergeJoin", 4, children=[by_name, other])
    events = [
        started(join),
        started(by_place),
        stage(1, 100),
        stage(2, 20),
        stage(3, 3000),
        stage(4, 50000),
        {"Event": "SparkListenerJobEnd"},
    ]
    assert bytes_read(events, "lineitem") == 120


def test_of_iceberg_the_files_count_that_scans_have_planned():
    of_files = {"name": "total data file size (bytes)", "accumulatorId": 7}
    scan = plan("BatchScan lake.bench.lineitem", 1)
    other = plan("BatchScan lake.bench.lineitem__mv", 2)
    scan["metrics"].append(of_files)
    events = [
        started(plan("Union", children=[scan, other])),
        started(scan),  # Spark reports the plan again after it has changed the plan
        {
            "Event": "org.apache.spark.sql.execution.ui.SparkListenerDriverAccumUpdates",
            "executionId": 1,
            "accumUpdates": [[7, 2_000], [8, 30]],
        },
        stage(1, 40),  # only the footers are read
    ]
    assert bytes_read(events, "lineitem") == 2_000


def test_an_event_that_is_half_written_is_read_with_the_rest_of_it(tmp_path: Path):
    path = tmp_path / "local-1.inprogress"
    path.write_text('{"Event": "one"}\n{"Event": "t')
    log = EventLog(tmp_path)
    assert log.read() == [{"Event": "one"}]
    with path.open("a") as file:
        file.write('wo"}\n')
    assert log.read() == [{"Event": "two"}]
