"""The conditions under which a table can be adopted or replaced."""

from __future__ import annotations

import json
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest

from support.macros import Macros

COLUMNS = [{"name": "k", "type": "bigint"}, {"name": "Shard", "type": "string"}]
FOUND = {"row_count": 7, "version": "5", "partitions": []}
PLAN = "== Analyzed Logical Plan ==\nMerge\n\n== Optimized Logical Plan ==\nMerge\n"


@pytest.fixture
def check(macros: Macros, backfill: Any, keys: Any, relations: Any) -> Callable[..., Any]:
    """Check a table with these columns and keys. Return the facts about the table."""
    macros.context["model"] = SimpleNamespace(name="mv", unique_id="model.p.mv")

    def check(
        columns: Any = COLUMNS,
        shown: Any = (),
        chars: Any = (),
        plan: str = PLAN,
        checked: Any = (),
        twice: Any = (),
    ) -> Any:
        macros.stub("get_table_format", lambda existing, mv: "delta")
        macros.stub("get_table_columns", lambda relation: list(columns))
        macros.stub("find_char_columns", lambda relations: [dict(chars)])
        found = {"row_count": 7, "null_keys": 0, "duplicates": False, **dict(checked)}
        macros.results = [[{"version": 5}], shown, [[plan]], [[json.dumps(found)]]]
        macros.results += [[[json.dumps({"key": key})] for key in twice]] if twice else [[]]
        return macros.call("check_adopted", backfill, relations["mv"], {}, COLUMNS, keys)

    return check


def test_a_table_of_the_columns_of_the_query_is_adopted(macros: Macros, check: Any) -> None:
    assert check() == FOUND
    assert check([{"name": "K", "type": "bigint"}, {"name": "shard", "type": "string"}]) == FOUND
    assert macros.statements[0].sql.endswith("describe history lake.mv limit 1")
    explained = " ".join(macros.statements[2].sql.split())
    assert "explain extended merge into lake.mv as mv using (" in explained
    assert "on mv.`k` = changes.`k` and mv.`shard` = changes.`shard`" in explained


@pytest.mark.parametrize(
    ("columns", "told"),
    [
        ([("k", "bigint")], "lake.mv has no column Shard, which its query returns. Add this col"),
        (
            [("k", "int"), ("shard", "string")],
            "lake.mv has the column k of the type int, but its query returns bigint. Cast the",
        ),
        (
            [("k", "bigint"), ("shard", "string"), ("c", "int")],
            "lake.mv has the column c, which its query does not return. Select this column in the",
        ),
        (
            [("shard", "string"), ("k", "bigint")],
            "lake.mv has its columns in the order shard, k, but its query returns them in the ",
        ),
    ],
)
def test_other_columns_are_refused_by_name(
    check: Any, refused: Any, columns: Any, told: str
) -> None:
    with refused(told):
        check([{"name": name, "type": type} for name, type in columns])


def test_what_a_delta_table_is_partitioned_by_is_told(
    macros: Macros, check: Any, options: Any
) -> None:
    macros.stub("check_adoptable", lambda *_: None)
    shown = [["k", "bigint"], ["# Partition Information", ""], ["# col_name", ""], ["Shard", ""]]
    assert check(shown=shown)["partitions"] == ["shard"]

    options["file_format"] = "iceberg"
    macros.stub("read_version", lambda *_: macros.results.pop(0)[0]["version"])
    assert check(shown=shown)["partitions"] == []


def test_a_text_that_the_table_cuts_off_or_pads_is_another_type(check: Any, refused: Any) -> None:
    """A select of a varchar(n) column returns a string. Only DESCRIBE shows the length."""
    with refused("lake.mv has the column Shard of the type varchar(5), but its query returns str"):
        check(shown=[["k", "bigint"], ["shard", "varchar(5)"], ["", None]])


def test_a_text_that_only_the_plan_shows_to_be_padded_is_another_type(
    check: Any, refused: Any
) -> None:
    """DESCRIBE shows a char(n) column of a Delta table as a string."""
    with refused("lake.mv has the column Shard of the type char(5), but its query returns string"):
        check(chars={"shard": "char(5)"})


def test_what_spark_does_not_merge_into_is_refused_with_its_reason(
    check: Any, refused: Any
) -> None:
    error = "org.apache.spark.AnalysisException: no value for the IDENTITY column k. SQLSTATE: 1"
    with refused("Spark cannot merge the rows of the model into lake.mv: no value for the IDEN"):
        check(plan=f"== Analyzed Logical Plan ==\n{error}\n")


@pytest.mark.parametrize(
    ("found", "told"),
    [
        ({"checked": {"null_keys": 2}}, "lake.mv has 2 rows with a null in k, shard. Delete these"),
        (
            {"checked": {"duplicates": True}, "twice": [["1", "'a'"], ["2", "'b'"]]},
            "the key k, shard is not unique in lake.mv; duplicate keys: (1, 'a'), (2, 'b'). D",
        ),
    ],
)
def test_keys_that_no_merge_puts_right_are_refused(
    check: Any, refused: Any, found: Any, told: str
) -> None:
    with refused(told):
        check(**found)


def test_unequal_keys_of_one_hash_are_not_the_same(check: Any) -> None:
    assert check(checked={"duplicates": True}) == FOUND


@pytest.mark.parametrize(
    ("existing", "format", "properties", "told"),
    [
        ("view", "delta", {}, "lake.mv is a view, which has no rows of its own to adopt. Drop"),
        (
            "table",
            "iceberg",
            {},
            "lake.mv is a table of the format iceberg, but file_format is delta. Set file",
        ),
        (
            "table",
            "parquet",
            {},
            "lake.mv is a table of the format parquet, but file_format is delta. Convert",
        ),
        (
            "table",
            "delta",
            {"format-version": "1"},
            "lake.mv is an Iceberg table of format 1, in which single rows cannot be deleted. Set ",
        ),
    ],
)
def test_what_the_format_cannot_be_is_refused_by_its_name(
    macros: Macros, backfill: Any, relations: Any, refused: Any,
    existing: str, format: str, properties: Any, told: str,
) -> None:  # fmt: skip
    macros.context["model"] = SimpleNamespace(name="mv")
    macros.stub("get_table_format", lambda existing, mv: format)
    mv = relations["mv"].incorporate(type=existing)
    with refused(told):
        macros.call("check_adoptable", backfill, mv, properties, {})


def test_an_iceberg_table_of_format_1_is_adopted_where_the_model_has_it_upgraded(
    macros: Macros, backfill: Any, relations: Any
) -> None:
    macros.stub("get_table_format", lambda existing, mv: "delta")
    of_the_model = {"format-version": 2}
    arguments = backfill, relations["mv"], {"format-version": "1"}, of_the_model

    macros.call("check_adoptable", *arguments)
