"""The layout of the MV, and the columns that Spark lists for queries and tables."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from support.macros import Macros

COLUMNS = [{"name": "k", "type": "bigint"}, {"name": "t h", "type": "decimal(5,1)"}]


@pytest.mark.parametrize(
    ("config", "clause"),
    [
        ({}, ""),
        ({"clustered_by": "a"}, "cluster by (a)"),
        ({"clustered_by": ["a", "b"]}, "cluster by (a, b)"),
        ({"clustered_by": ["a"], "buckets": 8}, "clustered by (c) into 8 buckets"),
        ({"buckets": 8}, ""),
    ],
)
def test_clustered_by_is_liquid_clustering_unless_buckets_are_given(
    macros: Macros, render: Callable[..., str], config: dict[str, Any], clause: str
) -> None:
    macros.config.update(config)
    macros.context["clustered_cols"] = lambda label: f"{label} (c) into 8 buckets"
    macros.context |= {"options_clause": lambda: "", "partition_cols": lambda label: ""}

    _, _, layout = render("mv_clauses", macros.relation, COLUMNS, "b1").rpartition(" )")
    assert layout.strip() == clause


def test_the_columns_of_a_query_are_asked_of_spark(macros: Macros) -> None:
    macros.results = [[["k", "bigint", None], ["t h", "decimal(5,1)", "a comment"]]]

    assert macros.call("get_query_columns", "\nselect 1 ;\n") == COLUMNS
    assert macros.statements[0].sql.rstrip().endswith("describe query\nselect 1")


def test_a_type_can_be_read_again_by_spark(macros: Macros) -> None:
    """Spark prints the names of fields without quotes."""
    struct = "struct<order-id:int,1:int,p:date,a:array<struct<t h:map<int,string>,b.c:date>>>"
    macros.results = [[["k", struct, None]]]

    [column] = macros.call("get_query_columns", "select 1")
    assert column["type"] == (
        "struct<`order-id`:int,`1`:int,p:date,a:array<struct<`t h`:map<int,string>,`b.c`:date>>>"
    )


def test_the_columns_of_a_table_are_asked_of_spark(macros: Macros, relations: Any) -> None:
    """dbt's own listing of columns ends before a column called `#`."""
    macros.results = [[["#", "bigint", None], ["t h", "decimal(5,1)", None]]]

    assert [column["name"] for column in macros.call("get_table_columns", relations["mv"])] == [
        "#",
        "t h",
    ]
    assert macros.statements[0].sql.rstrip().endswith("describe query\nselect * from lake.mv")
