"""The columns of an MV that can be dropped or widened."""

from __future__ import annotations

from typing import Any

import pytest

from support.macros import Macros, Table


@pytest.fixture(params=["delta", "iceberg"])
def file_format(request: pytest.FixtureRequest, macros: Macros) -> str:
    macros.config["file_format"] = request.param
    return str(request.param)


@pytest.mark.parametrize(
    ("type_", "wider", "formats"),
    [
        ("int", "bigint", "delta iceberg"),
        ("float", "double", "delta iceberg"),
        ("decimal(5,2)", "decimal(9,2)", "delta iceberg"),
        ("decimal(5,2)", "decimal(9,4)", "delta"),
        ("smallint", "int", "delta"),
        ("tinyint", "bigint", "delta"),
        ("int", "double", "delta"),
        ("int", "decimal(12,2)", "delta"),
        ("bigint", "decimal(20,0)", "delta"),
        ("int", "decimal(9,0)", ""),
        ("bigint", "decimal(19,0)", ""),
        ("bigint", "double", ""),
        ("int", "float", ""),
        ("int", "int", ""),
        ("decimal(5,2)", "decimal(5,2)", ""),
        ("decimal(5,2)", "decimal(6,4)", ""),
        ("decimal(9,2)", "decimal(5,2)", ""),
        ("decimal(5,2)", "double", ""),
        ("bigint", "int", ""),
        ("int", "string", ""),
        ("date", "timestamp", ""),
        ("struct<a:int>", "struct<a:bigint>", ""),
    ],
)
def test_a_type_is_widened_where_the_format_does_and_no_value_changes(
    macros: Macros, file_format: str, type_: str, wider: str, formats: str
) -> None:
    assert macros.call("can_widen", type_, wider) is (file_format in formats.split())


def column(name: str, type_: str, **more: str) -> dict[str, str]:
    return {"name": name, "type": type_, **more}


def test_columns_that_the_table_has_with_a_smaller_type_are_widened(macros: Macros) -> None:
    macros.tables["lake.mv"] = Table(columns={"k": "int", "N": "int", "same": "string"})
    columns = [column("n", "bigint"), column("same", "string"), column("new", "int")]

    assert macros.call("find_widened", macros.relation, columns, columns[:1]) == {
        "columns": [column("n", "bigint", was="int"), *columns[1:]],
        "why": None,
    }


def test_a_type_that_no_alter_makes_is_told(macros: Macros, file_format: str) -> None:
    macros.tables["lake.mv"] = Table(columns={"n": "int"})
    text = [column("n", "string")]

    assert macros.call("find_widened", macros.relation, text, text)["why"] == (
        f"no ALTER of {file_format.title()} can change n from int to string"
    )
    # If something else has altered the table, the statement itself fails.
    assert macros.call("find_widened", macros.relation, text, [])["columns"] == text


def test_iceberg_has_widened_small_numbers_by_itself(macros: Macros) -> None:
    macros.config["file_format"] = "iceberg"
    macros.tables["lake.mv"] = Table(columns={"n": "int"})

    for type_, was in [("smallint", {}), ("int", {}), ("bigint", {"was": "int"})]:
        columns = [column("n", type_)]
        found = macros.call("find_widened", macros.relation, columns, columns)
        assert found == {"columns": [column("n", type_, **was)], "why": None}


# -- what the table does not allow ----------------------------------------------------------------

ALLOWED = {"delta.columnMapping.mode": "name", "delta.enableTypeWidening": "true"}
WIDER = column("n", "bigint", was="int")


@pytest.fixture
def check(macros: Macros) -> Any:
    def check(
        drops: Any = (), fills: Any = (), properties: Any = ALLOWED, layout: Any = ()
    ) -> list[str]:
        nothing = [DETAIL] if macros.config.get("file_format") != "iceberg" else []
        macros.results = [list(layout or nothing)]
        columns = {"drops": list(drops), "fills": list(fills)}
        macros.call("check_altered_columns", macros.relation, properties, columns)
        return list(drops)

    return check


def test_nothing_is_asked_where_columns_only_come(check: Any, macros: Macros) -> None:
    check(fills=[column("x", "int")], properties={})
    assert macros.statements == []


def test_a_delta_table_needs_a_feature_which_is_the_users_to_switch_on(
    check: Any, refused: Any, macros: Macros
) -> None:
    with refused(
        "its query no longer returns y, but a column of lake.mv can be dropped only with the Delta "
        "feature of delta.columnMapping.mode. If all readers of the table support that feature: "
        "ALTER TABLE lake.mv SET TBLPROPERTIES ('delta.columnMapping.mode' = 'name'). Or rebuild "
        "the MV"
    ):
        check(drops=["y"], properties={"delta.columnMapping.mode": "none"})
    with refused(
        "its query returns n as bigint instead of int, but a column of lake.mv can be widened "
        "only with the Delta feature of delta.enableTypeWidening. If all readers of the table"
    ):
        check(fills=[WIDER], properties={"delta.columnMapping.mode": "name"})
    check(drops=["y"], fills=[WIDER])
    macros.config["file_format"] = "iceberg"
    check(drops=["y"], fills=[WIDER], properties={})


DETAIL = {"partitionColumns": [], "clusteringColumns": []}
LAYOUTS = {
    "delta_partitions": [DETAIL | {"partitionColumns": ["y"]}],
    "delta_clusters": [DETAIL | {"clusteringColumns": '["k", "Y"]'}],
    "iceberg_partitions": [("id", "int"), ("", ""), ("# Partition Information", ""),
                           ("# col_name", "data_type"), ("y", "int"), ("", ""),
                           ("# Detailed Table Information", ""), ("Owner", "other")],
    "iceberg_transforms": [("other", "int"), ("", ""), ("# Partitioning", ""),
                           ("Part 0", "days(Y)"), ("", ""), ("# Metadata Columns", ""),
                           ("other", "int")],
}  # fmt: skip


@pytest.mark.parametrize("name", LAYOUTS)
def test_a_column_by_which_the_table_is_laid_out_stays(
    macros: Macros, check: Any, refused: Any, name: str
) -> None:
    macros.config["file_format"], layout = name.split("_")[0], LAYOUTS[name]
    words = "its query no longer returns y, but lake.mv is partitioned, clustered or sorted by this"
    with refused(f"{words} column. Undo the change, or rebuild the MV with --full-refresh"):
        check(drops=["y"], layout=layout)
    assert check(drops=["other", "id"], layout=layout)
    check(fills=[{**WIDER, "name": "y"}], layout=layout)


def test_a_column_by_which_an_iceberg_table_is_sorted_stays(
    check: Any, refused: Any, macros: Macros
) -> None:
    macros.config["file_format"] = "iceberg"
    with refused("its query no longer returns y, but lake.mv is partitioned, clustered or"):
        check(drops=["y"], properties={"sort-order": "bucket(4, y) ASC NULLS FIRST"})


@pytest.mark.parametrize("name", ["sort-order", "identifier-fields"])
def test_no_column_goes_where_spark_does_not_show_by_what_the_table_is_sorted(
    check: Any, refused: Any, macros: Macros, name: str
) -> None:
    """Spark hides `url ASC NULLS FIRST`, because the value contains `url`."""
    macros.config["file_format"] = "iceberg"
    with refused(
        "its query no longer returns y, but Spark hides whether lake.mv is sorted by this "
        "column. Undo the change, or rebuild the MV with --full-refresh"
    ):
        check(drops=["y"], properties={name: "*********(redacted)"})


def test_a_column_that_has_a_constraint_stays_until_that_is_dropped(
    check: Any, refused: Any
) -> None:
    properties = {**ALLOWED, "delta.constraints.not_null_y": "`y` is not null"}
    with refused(
        "its query no longer returns y, but lake.mv has the constraint not_null_y (`y` is not "
        "null) on this column. Drop the constraint: ALTER TABLE lake.mv DROP CONSTRAINT "
        "`not_null_y`, or rebuild"
    ):
        check(drops=["y"], properties=properties)
    assert check(drops=["yy"], properties=properties)
