"""Values that Delta does not keep unchanged in a column that partitions the table."""

from __future__ import annotations

import json
import re
from typing import Any

import pytest

from support.duck import Duck, RaisedError
from support.macros import Macros

COLUMNS = "k: bigint, shard: int, Region: string, at: timestamp, raw: binary, day: date of a"


def test_the_columns_by_which_a_delta_table_is_partitioned_have_plain_types(
    macros: Macros, backfill: Any, options: Any
) -> None:
    columns = macros.call("parse_columns", COLUMNS)

    def types(**partitions: list[str]) -> list[str]:
        found = macros.call("get_partition_columns", {**backfill, **partitions}, columns)
        return [column["type"] for column in found]

    assert types(partitions=["region", "at", "day"]) == ["string", "timestamp", "date"]
    macros.config["partition_by"] = "at"
    assert types() == ["timestamp"]
    assert types(partitions=[]) == []
    options["file_format"] = "iceberg"
    assert types(partitions=["at"]) == []


def test_iceberg_keeps_each_value(macros: Macros, backfill: Any, options: Any) -> None:
    options["file_format"] = macros.config["file_format"] = "iceberg"
    found = {**backfill, "partitions": ["region", "at", "raw", "day"]}

    columns = macros.call("parse_columns", COLUMNS)
    assert macros.call("unaltered_partition_predicate", found, columns) is None
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
        sql = macros.call("unaltered_partition_predicate", {**backfill, **given}, told)
        assert (sql is not None) == bool({"e", "b", "region"} & set(names))


@pytest.mark.parametrize("names", [[], ["a", "b"]])
def test_what_a_table_is_partitioned_by_is_noted_in_it(macros: Macros, names: list[str]) -> None:
    adopted = macros.call("adopted_properties", macros.relation, [], {}, "b1", names)
    assert json.loads(adopted.get("dbt_backfill.partitions", "[]")) == names

    macros.config["partition_by"] = names
    macros.context |= {"options_clause": lambda: "", "partition_cols": lambda label: ""}
    clauses = macros.call("mv_clauses", macros.relation, [], "b1")
    noted = re.findall(r"'dbt_backfill.partitions' = '(.*)'", clauses)
    assert [json.loads(text) for text in noted] == ([names] if names else [])


def test_what_a_table_of_others_is_partitioned_by_is_read_off_its_description(
    macros: Macros,
) -> None:
    rows = [["k", "bigint", None], ["Day", "date", None]]
    assert macros.call("find_partitions", rows) == []
    rows += [["# Partition Information", "", ""], ["# col_name", "data_type", "comment"]]
    rows += [["Day", "date", None], ["#", "int", None], ["", "", ""], ["# Other", "", ""]]
    found = macros.call("find_partitions", [*rows, ["x", "", ""]])
    assert [row[0] for row in found] == ["Day", "#"]


def test_a_repair_looks_at_the_rows_that_it_writes(
    macros: Macros, backfill: Any, make_state: Any, make_plan: Any
) -> None:
    """Every statement that writes rows into the MV checks their partition values."""
    columns = macros.call("parse_columns", COLUMNS)
    known = {"partitions": ["region"], "columns": columns, "compared": columns}
    repaired = {**backfill, **known, "state": make_state(), "key": make_plan()["key"]}
    macros.call("run_repair", repaired, {"low": None, "high": None}, {"stage": "`found`"})

    assert "by which the MV is partitioned" in macros.statements[0].sql


@pytest.mark.parametrize(
    ("value", "kept"),
    [("x", True), ("", False), ("__HIVE_DEFAULT_PARTITION__", False), (None, True)],
)
def test_a_text_that_delta_keeps_as_another_one_is_refused_as_it_is_written(
    macros: Macros, duck: Duck, backfill: Any, value: str | None, kept: bool
) -> None:
    columns = macros.call("parse_columns", "region: string")
    predicate = macros.call(
        "unaltered_partition_predicate", {**backfill, "partitions": ["region"]}, columns
    )
    duck.create("lake.rows", {"region": "string"}, [(value,)])
    select = f"select * from lake.rows where {predicate}"

    if kept:
        assert duck.rows(select) == [(value,)]
    else:
        with pytest.raises(RaisedError, match="Delta would store another value"):
            duck.rows(select)
