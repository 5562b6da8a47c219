"""Values that a Delta table does not keep in a column by which it is partitioned."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from support.macros import Macros, Statement

COLUMNS = "k: bigint, shard: int, Region: string, at: timestamp, raw: binary, day: date of a"
PARTITIONS = ["region", "at", "raw", "day"]


@pytest.fixture
def predicate(macros: Macros, backfill: Any) -> Callable[..., str | None]:
    def predicate(*partitions: str, columns: str = COLUMNS) -> str | None:
        told = macros.call("parse_columns", columns)
        found = {**backfill, "partitions": list(partitions)}
        return macros.call("get_kept_predicate", found, told)  # type: ignore[no-any-return]

    return predicate


def test_only_what_comes_back_as_another_value_is_an_error(predicate: Any) -> None:
    assert predicate() is None
    assert predicate("k", "day", "gone") is None
    text = "cast(`Region` as string)"
    assert predicate("region") == (
        f"case when {text} in ('', '__HIVE_DEFAULT_PARTITION__') or not is_valid_utf8({text}) "
        "then raise_error(concat('backfilled_mv mv: its query returns the string \\'', "
        f"{text}, '\\' in the column Region, by which the MV is partitioned, and Delta would "
        "keep another value. Correct the row upstream; or let the query return another value "
        "there, or partition_by name another column, and rebuild with --full-refresh.')) "
        "else true end"
    )
    assert "when not (try_cast(cast(`at` as string) as timestamp_ltz) <=> `at`) then" in predicate(
        "at"
    )
    assert "hex(`raw`)" in predicate("raw")
    assert predicate(*PARTITIONS).count("raise_error(") == 3


def test_what_a_table_keeps_of_a_timestamp_depends_on_the_zone(
    macros: Macros, backfill: Any, options: Any
) -> None:
    """Of its other rows too: who writes a file anew writes them all."""
    columns = macros.call("parse_columns", COLUMNS)

    def depends(*partitions: str) -> Any:
        return macros.call("depends_on_zone", {**backfill, "partitions": partitions}, columns)

    assert [depends("at"), depends("region", "at"), depends("region")] == [True, True, False]
    macros.config["partition_by"] = "at"
    assert macros.call("depends_on_zone", backfill, columns)
    assert not depends()
    options["file_format"] = "iceberg"
    assert not depends("at")


def test_iceberg_keeps_each_value(macros: Macros, options: Any, predicate: Any) -> None:
    options["file_format"] = macros.config["file_format"] = "iceberg"

    assert predicate(*PARTITIONS) is None
    macros.config["partition_by"] = "region"
    assert macros.call("get_configured_partitions") == []


@pytest.mark.parametrize(
    ("config", "names"),
    [
        (None, []),
        ("Region", ["region"]),
        (["a", "b_1"], ["a", "b_1"]),
        ("a, b", ["a", "b"]),
        (["`a b`", "`c``d`", "e"], ["a b", "c`d", "e"]),
    ],
)
def test_a_table_that_the_run_makes_is_partitioned_as_the_config_says(
    macros: Macros, backfill: Any, config: Any, names: list[str]
) -> None:
    macros.config["partition_by"] = config
    assert macros.call("get_configured_partitions") == names

    for given in ({}, {"partitions": None}):
        told = macros.call("parse_columns", "e: string, b: string, region: string")
        sql = macros.call("get_kept_predicate", {**backfill, **given}, told)
        assert (sql is not None) == bool({"e", "b", "region"} & set(names))


def test_what_a_table_is_partitioned_by_is_noted_in_it(
    macros: Macros, render: Callable[..., str]
) -> None:
    assert macros.call("read_partitions", {}) == []
    macros.context.update(options_clause=lambda: "", partition_cols=lambda label: "")
    columns = [{"name": "k", "type": "bigint"}]
    assert "partitions" not in render("mv_clauses", macros.relation, columns, "b1")
    macros.config["partition_by"] = ["a", "b"]
    clauses = render("mv_clauses", macros.relation, columns, "b1")
    assert "'dbt_backfill.partitions' = '[\"a\", \"b\"]'" in clauses

    properties = macros.call("partition_properties", ["a", "b"])
    assert macros.call("read_partitions", properties) == ["a", "b"]


def test_what_a_table_of_others_is_partitioned_by_is_read_off_its_description(
    macros: Macros,
) -> None:
    rows = [["k", "bigint", None], ["Day", "date", None]]
    assert macros.call("find_partitions", rows) == []
    rows += [["# Partition Information", "", ""], ["# col_name", "data_type", "comment"]]
    rows += [["Day", "date", None], ["#", "int", None], ["", "", ""], ["# Other", "", ""]]
    assert macros.call("find_partitions", [*rows, ["x", "", ""]]) == ["day", "#"]


@pytest.fixture
def sources(
    macros: Macros, backfill: Any, make_plan: Any, make_state: Any, work: Any, render: Any
) -> Callable[..., dict[str, str]]:
    """The source of each statement that brings rows into the MV, by its name."""
    columns = macros.call("parse_columns", COLUMNS)
    macros.stub("get_table_columns", lambda relation: columns)
    next_mv = {"relation": "lake.mv__next", "id": "b2", "version": "5"}
    stage = {"name": "`stage`", "low": ["1", "2"], "high": ["4", "0"], "upserts": 2, "drops": 1}

    def sources(**given: Any) -> dict[str, str]:
        found = {**backfill, **given}

        def plan(**changes: Any) -> Any:
            return make_plan(query_columns=COLUMNS, **changes)

        state = make_state()
        swap = plan(kind="swap", generation=next_mv)
        calls: dict[str, tuple[Any, ...]] = {
            "run_range": (found, state, plan(), work),
            "run_changes": (found, plan(), work, stage),
            "run_changes_and_range": (found, state, plan(at_once=True), work, stage),
            "run_swept_range": (found, state, plan(sweeps=True), work),
            "run_reanchor": (found, state, plan(kind="reanchor"), work),
            "run_swap": (found, swap),
            "run_repair": (
                {**found, "state": state, "key": plan()["key"], "columns": columns},
                {"low": None, "high": None},
                {"stage": "`found`"},
            ),
        }
        macros.stub(
            "run_replacement",
            lambda backfill, plan, step, sql: macros.statements.append(Statement(step, sql)),
        )
        macros.stub("mv_clauses", lambda *_: "using delta")
        told = {}
        for name, arguments in calls.items():
            macros.call(name, *arguments)
            told[name] = " ".join(macros.statements[-1].sql.split())
        return told

    return sources


def test_each_statement_that_brings_rows_looks_at_them(sources: Any) -> None:
    """In its source; not at a key of the changes that is only to be deleted."""
    looked = sources(partitions=["region"])

    unseen = [name for name, sql in looked.items() if "by which the MV is partitioned" not in sql]
    assert unseen == ["run_swap"]
    for name in ("run_changes", "run_changes_and_range", "run_swept_range"):
        assert " and (__bf_dropped or case when cast(`Region` as string) in (" in looked[name]
    assert " and case when cast(__bf_row.`Region` as string) in (" in looked["run_range"]
    assert " where case when cast(__bf_row.`Region` as string) in (" in looked["run_swept_range"]
    assert " ) where case when cast(`Region` as string) in (" in looked["run_reanchor"]
    assert "and case when cast(__bf_write.row.`Region` as string) in (" in looked["run_repair"]

    for sql in sources(partitions=[]).values():
        assert "by which the MV is partitioned" not in sql


def test_a_swap_looks_by_what_the_config_says_then(macros: Macros, sources: Any) -> None:
    macros.config["partition_by"] = "region"

    sql = sources(partitions=[])["run_swap"]
    [before, after] = sql.split(" union all ")
    assert " and case when cast(`Region` as string) in (" in before
    assert "its query" not in after
