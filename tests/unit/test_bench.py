"""What the benchmarks make of what they measured, and what they are told; without Spark."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from dataclasses import field as stored
from itertools import pairwise
from pathlib import Path
from types import SimpleNamespace
from typing import cast

import bench
import pytest
from bench import make_arguments, write_page
from dbt.adapters.spark.session import Cursor

from costs import acts
from costs.changes import hot_keys, refreshes, updates
from costs.contestants import Backfilled, DbtTable, Field, Incremental, windows_of
from costs.event_log import EventLog, bytes_read
from costs.figures import (
    BYTES,
    Environment,
    Figure,
    Measured,
    Result,
    Spread,
    read,
    replaced,
    write,
)
from costs.page import number, page, ratio
from costs.play import Notes, seconds_of_barriers
from costs.plot import plot
from costs.upstreams import ORDERS, Upstream
from costs.workloads import FIGURES, WORKLOADS, chosen
from support.project import Project, step_of

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
    # Rounds: 3, 2 and 1 times as long; the medians would be 4 and 2.
    assert RESULT.ratio(acts.BACKFILLED, acts.CTAS) == Spread(2.0, 1.0, 3.0)


def test_bytes_and_seconds_of_an_act_are_told_apart():
    assert RESULT.ratio(acts.BACKFILLED, acts.CTAS, BYTES) == Spread(3.0, 2.0, 3.0)


def test_there_is_no_ratio_to_what_was_not_measured():
    assert RESULT.ratio(acts.BACKFILLED, acts.MERGES) is None
    assert ratio(None) == "-"


def test_there_is_no_ratio_to_nothing():
    nothing = Measured(acts.MERGES, (1.0, 0.0, 1.0), acts.CTAS, BYTES)
    assert (
        replace(RESULT, measured=(*RESULT.measured, nothing)).ratio(
            acts.BACKFILLED, acts.MERGES, BYTES
        )
        is None
    )


def test_a_figure_is_of_its_own_workload_and_format():
    figure = Figure("first run / CTAS", "lineitem", acts.BACKFILLED, acts.CTAS)
    assert figure.of([RESULT], "delta") == Spread(2.0, 1.0, 3.0)
    assert figure.of([RESULT], "iceberg") is None
    assert figure.of([replace(RESULT, workload="orders")], "delta") is None


@pytest.mark.parametrize(
    ("value", "shown"),
    [(0.0123, "0.012"), (0.5, "0.50"), (1.234, "1.23"), (12.34, "12.3"), (1234.5, "1,234")],
)
def test_numbers_have_the_digits_that_say_something(value: float, shown: str):
    assert number(value) == shown


def test_a_spread_of_one_value_is_shown_as_that_value():
    assert ratio(Spread.of([1.5])) == "1.50"
    assert ratio(Spread.of([1.5, 1.0, 2.0])) == "1.50 (1.00 to 2.00)"


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


def test_the_page_has_the_figures_the_workloads_and_where_they_were_run():
    figure = Figure("first run / CTAS", "lineitem", acts.BACKFILLED, acts.CTAS)
    text = page([RESULT], [figure], ["delta"])
    assert "(results-delta.svg)" in text
    assert "| first run / CTAS | 2.00 (1.00 to 3.00) |" in text
    assert f"| {acts.CTAS} | 2.00 (1.00 to 4.00) | 1.00 | 1.00 |" in text
    assert (
        "`lineitem`, 600,572 rows (scale 0.1); rounds: 3, and 10 of warm-up; load before: 0.5"
        in text
    )
    assert "abc1234, 2 cores of a machine, pyspark 4.1.4: lineitem (delta)" in text


def test_a_figure_that_one_format_lacks_has_a_dash():
    figure = Figure("first run / CTAS", "orders", acts.BACKFILLED, acts.CTAS)
    other = replace(RESULT, workload="orders", file_format="iceberg")
    text = page([RESULT, other], [figure], [])
    assert "| ratio | delta | iceberg |" in text
    assert "| first run / CTAS | - | 2.00 (1.00 to 3.00) |" in text


def test_each_act_is_compared_with_one_of_its_kind():
    notes = Notes()
    for table, rows, key in ((acts.CTAS, 4.0, 1.0), (acts.BACKFILLED, 6.0, 0.5)):
        notes.add(acts.all_rows(table), rows, base=acts.all_rows(acts.CTAS))
        notes.add(acts.one_key(table), key, base=acts.one_key(acts.CTAS))
    text = page([replace(RESULT, measured=notes.measured())], [], [])
    assert "|  | seconds | / all rows of create table as select |" in text
    assert "| all rows of backfilled_mv | 6.00 | 1.50 |" in text
    assert "|  | seconds | / one key of create table as select |" in text
    assert "| one key of backfilled_mv | 0.50 | 0.50 |" in text


def test_the_page_tells_how_an_mv_was_built():
    notes = Notes()
    notes.add(acts.CTAS, 1.0, base=acts.CTAS)
    for remark in ("through a copy", "through a copy", "without a copy"):
        notes.add(acts.BACKFILLED, 2.0, base=acts.TABLE, remark=remark)
    text = page([replace(RESULT, measured=notes.measured())], [], [])
    assert f"| {acts.CTAS} | 1.00 |" in text
    assert f"| {acts.BACKFILLED} (through a copy, without a copy) | 2.00 |" in text


def test_page_and_plots_are_made_of_what_stands_there_and_come_out_the_same(tmp_path: Path):
    write(tmp_path / "results.json", [RESULT, replace(RESULT, file_format="iceberg")])
    write_page(tmp_path)
    before = {path.name: path.read_text() for path in tmp_path.iterdir()}
    assert set(before) == {"results.json", "RESULTS.md", "results-delta.svg", "results-iceberg.svg"}
    write_page(tmp_path)
    assert before == {path.name: path.read_text() for path in tmp_path.iterdir()}


def test_a_format_that_create_table_as_does_not_compete_in_has_no_plot(tmp_path: Path):
    act = acts.all_rows(acts.CTAS)
    only_read = replace(RESULT, file_format="iceberg", measured=(Measured(act, (1.0,), act),))
    (tmp_path / "results-iceberg.svg").write_text("of another time")
    write(tmp_path / "results.json", [RESULT, only_read])
    write_page(tmp_path)
    assert {path.name for path in tmp_path.glob("*.svg")} == {"results-delta.svg"}
    text = (tmp_path / "RESULTS.md").read_text()
    assert "(results-delta.svg)" in text
    assert "(results-iceberg.svg)" not in text


def test_plots_place_everything_within_them():
    plots = Path(bench.__file__).parent.glob("results-*.svg")
    assert not [path.name for path in plots if "e+308" in path.read_text()]


def test_a_plot_is_a_small_file_with_colours_for_light_and_dark():
    svg = plot([RESULT])
    assert svg is not None
    assert "e+308" not in svg
    assert svg.startswith('<svg xmlns="http://www.w3.org/2000/svg"')
    assert "prefers-color-scheme: dark" in svg
    assert "lineitem, a first run" in svg
    assert len(svg) < 20_000
    used, defined = (set(re.findall(what, svg)) for what in (r"var\((--[\w-]+)", r"(--[\w-]+):"))
    assert used <= defined


def test_what_is_not_compared_with_create_table_as_is_not_in_the_plot():
    act = acts.idle(acts.BACKFILLED, 10)
    idle = replace(RESULT, title="idle", measured=(Measured(act, (1.0,), act),))
    assert plot([RESULT, idle]) == plot([RESULT])
    assert plot([idle]) is None


def test_workloads_are_chosen_by_name_and_all_without_one():
    assert list(chosen(" orders, read")) == ["orders", "read"]
    assert chosen("") == WORKLOADS
    with pytest.raises(ValueError, match="no workloads: nothing; there are: lineitem, "):
        chosen("orders,nothing")


def test_arguments_name_workloads_and_options_of_the_model():
    options = make_arguments().parse_args(
        ["--workloads", "orders", "--config", "replicate='never'", "--scale", "0.1"]
    )
    assert options.workloads == {"orders": WORKLOADS["orders"]}
    assert options.config == [{"replicate": "'never'"}]
    assert (options.scale, options.format) == (0.1, "delta")


@pytest.mark.parametrize(
    "arguments", [["--workloads", "nothing"], ["--config", "replicate"], ["--rounds", "0"]]
)
def test_what_says_nothing_is_refused(arguments: list[str], capsys: pytest.CaptureFixture[str]):
    with pytest.raises(SystemExit):
        make_arguments().parse_args(arguments)
    assert arguments[1] in capsys.readouterr().err


def test_each_figure_is_of_a_workload_that_there_is():
    assert {figure.workload for figure in FIGURES} <= set(WORKLOADS)


def test_upstreams_that_differ_have_tables_that_differ():
    upstreams = {workload.upstream for workload in WORKLOADS.values()}
    assert len({upstream.name for upstream in upstreams}) == len(upstreams)


def test_an_upstream_has_as_many_columns_as_it_says():
    narrow = Upstream(key="integer", columns=3).query("rows")
    assert "(l_orderkey * 8 + l_linenumber) as id, l_quantity, l_receiptdate from" in narrow
    wide = Upstream(key="integer", columns=100).query("rows")
    assert wide.count(" as more_") == 84  # beside the id and 15 of lineitem's


def test_a_change_says_which_rows_it_changes_in_its_round():
    changed = updates(100).on(Upstream(), "t", 7)
    assert changed.statements == (
        "update t set l_quantity = l_quantity + 1, l_receiptdate = date_add(date'2000-01-01', 7) "
        "where pmod(xxhash64(l_orderkey, l_linenumber), 100) = 7 % 100",
    )
    assert changed.changed in changed.statements[0]
    assert changed.gone is None


def test_hot_keys_are_the_same_ones_by_many_commits():
    first, second = (hot_keys(1000, 20).on(Upstream(key="uuid"), "t", n) for n in (1, 2))
    assert len(first.statements) == 20
    assert first.changed == second.changed == "pmod(xxhash64(id), 1000) = 0"


def test_a_refresh_inserts_orders_with_keys_left_out_and_deletes_others():
    change = refreshes(1000).on(Upstream(ORDERS), "t", 3)
    insert, delete = change.statements
    assert "select o_orderkey + 8 as o_orderkey" in insert
    assert "pmod(xxhash64(o_orderkey), 1000) = 3" in insert
    assert change.gone is not None
    assert delete.endswith(change.gone)
    assert "pmod(xxhash64(o_orderkey), 1000) = 3 + 500" in change.gone


def test_windows_are_open_at_both_ends_of_the_keys():
    field = Field(cast(Project, None), Upstream(key="string"), windows=(), rows=0)
    assert field.inside((None, "'b'")) == "id <= 'b'"
    assert field.inside(("'b'", "'d'")) == "id > 'b' and id <= 'd'"
    assert field.inside(("'d'", None)) == "id > 'd'"
    assert field.inside((None, None)) == "true"


WINDOWS = ((None, "5"), ("5", None))


def test_a_backfill_is_limited_to_as_many_rows_as_a_window_has():
    field = Field(cast(Project, None), Upstream(), WINDOWS, rows=11)
    [[name, model]] = Backfilled(field).models().items()
    assert name == "lineitem_native_ordered__mv"
    assert "backfill_rate_limit=6, barriers_per_run='all'" in model
    assert "unique_key=['l_orderkey', 'l_linenumber']" in model


def test_a_further_option_makes_one_more_contestant_with_a_table_of_its_own():
    field = Field(cast(Project, None), Upstream(), ((None, None),), rows=11)
    variant = Backfilled(field, {"replicate": "'never'"}, number=1)
    [[name, model]] = variant.models().items()
    assert variant.name == "backfilled_mv, replicate='never'"
    assert name != Backfilled(field).table
    assert "replicate='never'" in model
    assert "backfill_rate_limit" not in model


@pytest.mark.parametrize(
    ("file_format", "properties"),
    [
        ("delta", "tblproperties={'delta.enableDeletionVectors': 'true'}"),
        ("iceberg", "'write.merge.mode': 'merge-on-read', 'format-version': '3'}"),
    ],
)
def test_the_tables_of_dbt_merge_as_cheaply_as_those_of_other_peers(
    file_format: str, properties: str
):
    field = Field(cast(Project, FakeProject(file_format=file_format)), Upstream(), WINDOWS, rows=11)
    for peer in (DbtTable(field), Incremental(field)):
        [model] = peer.models().values()
        assert properties in model


def test_keys_that_are_looked_up_are_spread_over_the_windows_that_are_filled():
    bounds = [None, *map(str, range(1, 20)), None]
    field = Field(cast(Project, None), Upstream(), tuple(pairwise(bounds)), rows=20)
    assert field.keys(5, windows=20) == ["3", "6", "9", "12", "15"]
    assert field.keys(5, windows=4) == ["1", "2", "3", "4"]


@dataclass
class FakeProject:
    """What the benchmark asks of a project, without Spark; a run sends statements and prints."""

    file_format: str = "delta"
    rows: Sequence[Sequence[object]] = ()
    steps: Sequence[str] = ()
    output: str = ""
    asked: list[str] = stored(default_factory=list)

    def sql(self, statement: str) -> Sequence[Sequence[object]]:
        self.asked.append(statement)
        return self.rows

    def run(self, *_: str) -> SimpleNamespace:
        for step in self.steps:
            Cursor.execute(cast(Cursor, None), f"/* mv: {step} */ select 1")
        return SimpleNamespace(output=self.output)


def test_windows_lie_between_the_bounds_that_spark_finds():
    project = FakeProject(rows=[[["b", "d"]]])
    windows = windows_of(cast(Project, project), Upstream(key="string"), 3)
    assert windows == ((None, "'b'"), ("'b'", "'d'"), ("'d'", None))
    assert "approx_percentile" not in project.asked[0]  # which takes no texts
    numbers = windows_of(cast(Project, FakeProject(rows=[[[5]]])), Upstream(), 2)
    assert numbers == ((None, "5"), ("5", None))
    assert windows_of(cast(Project, project), Upstream(), 1) == ((None, None),)


@pytest.mark.parametrize(
    ("printed", "remark"),
    [("mv: copied 3 columns of t into r in 1 s", "through a copy"), ("", "without a copy")],
)
def test_an_mv_remarks_whether_its_upstream_was_copied(printed: str, remark: str):
    project = cast(Project, FakeProject(output=printed))
    mv = Backfilled(Field(project, Upstream(), WINDOWS, rows=11))
    mv.build()
    assert mv.remark == remark


def test_all_that_stands_beside_an_mv_goes_with_it():
    project = FakeProject()
    Backfilled(Field(cast(Project, project), Upstream(), WINDOWS, rows=11)).clear()
    dropped = {statement.partition("__mv")[2] for statement in project.asked}
    beside = {"progress", "barriers", "controls", "staged", "replica"}
    assert dropped == {"", *(f"__{name}" for name in beside)}


def test_barriers_are_timed_from_commit_to_commit_without_the_last_range(
    monkeypatch: pytest.MonkeyPatch,
):
    monkeypatch.setattr(Cursor, "execute", lambda *_: None)
    steps = ["plan the barrier 1", *(f"commit the barrier {number}" for number in (1, 2, 3))]
    project = cast(Project, FakeProject(steps=steps))
    mv = Backfilled(Field(project, Upstream(), WINDOWS, rows=11))
    assert len(seconds_of_barriers(mv, 3)) == 2
    with pytest.raises(ValueError, match="was built by 3 barriers instead of 4"):
        seconds_of_barriers(mv, 4)


def test_the_comment_of_a_statement_says_its_step_and_dbts_own_none():
    assert step_of("/* bench.mv: commit the barrier 3 */ update t") == "commit the barrier 3"
    assert step_of('/* {"app": "dbt", "node_id": "model"} */ select 1') is None


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
        started(scan),  # once more, with what a running statement has found out
        {
            "Event": "org.apache.spark.sql.execution.ui.SparkListenerDriverAccumUpdates",
            "executionId": 1,
            "accumUpdates": [[7, 2_000], [8, 30]],
        },
        stage(1, 40),  # the footers only
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
