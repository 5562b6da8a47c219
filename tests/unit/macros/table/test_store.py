"""An MV on S3 warns of stores where two drivers lose commits, and refuses what is known to."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from support.macros import Macros

AT = "s3a://lake/warehouse/lake.db"
IMPL = "spark.delta.logStore.s3a.impl"
HADOOP = {"spark.sql.catalog.spark_catalog.type": "hadoop"}
WAREHOUSE = {"spark.sql.catalog.spark_catalog.warehouse": AT}


@pytest.fixture
def check(macros: Macros, backfill: dict[str, Any], options: dict[str, Any]) -> Any:
    """Check the store and return the warnings. The location is that of the schema, or `table`."""

    def check(
        settings: Any = (), location: str = AT, table: bool = False, file_format: str = "delta"
    ) -> list[str]:
        options["file_format"] = file_format
        macros.logged.clear()
        macros.statements.clear()
        information = f"Type: MANAGED\nLocation: {location}\nProvider: delta"
        found = ["lake", macros.relation.identifier, "false", information]
        macros.results = [[found] if table else [["Comment", ""], ["Location", location]]]
        existing = macros.relation if table else None
        macros.call("run_check_of_store", backfill, dict(settings), existing)
        assert len(macros.statements) == (file_format == "delta")
        return macros.logged

    return check


@pytest.mark.parametrize("scheme", ["s3", "s3a", "s3n", "S3A"])
@pytest.mark.parametrize("table", [False, True])
def test_on_s3_a_first_run_and_a_full_refresh_warn_of_a_second_driver(
    check: Any, scheme: str, table: bool
) -> None:
    [warning] = check(location=f"{scheme}://lake/x", table=table)

    assert f"its tables are at {scheme}://lake/x, where S3SingleDriverLogStore loses" in warning
    assert f"(spark.delta.logStore.{scheme.lower()}.impl)" in warning


@pytest.mark.parametrize(
    "location", ["file:/lake", "hdfs://n/lake", "gs://lake", "abfss://a@b/lake", "/lake", ""]
)
def test_other_stores_accept_only_one_of_two_commits(check: Any, location: str) -> None:
    assert check(location=location) == []


@pytest.mark.parametrize("name", [IMPL, IMPL[6:], "spark.delta.logStore.class"])
def test_a_log_store_for_several_drivers_is_not_warned_of(check: Any, name: str) -> None:
    assert check({name: "io.delta.storage.S3DynamoDBLogStore"}) == []
    assert len(check({name: "io.delta.storage.S3SingleDriverLogStore"})) == 1


@pytest.mark.parametrize("store", ["HDFSLogStore", "LocalLogStore", "AzureLogStore"])
@pytest.mark.parametrize("package", ["io.delta.storage", "org.apache.spark.sql.delta.storage"])
def test_a_log_store_that_renames_is_refused_on_s3(
    check: Any, refused: Any, package: str, store: str
) -> None:
    with refused(f"its tables are at {AT}, where the log store {store} loses commits"):
        check({IMPL: f"{package}.{store}"})
    assert check({IMPL: f"{package}.{store}"}, location="hdfs://n/lake") == []


def test_the_store_of_another_scheme_does_not_count(check: Any) -> None:
    assert len(check({"spark.delta.logStore.s3.impl": "a.SafeLogStore"})) == 1


def test_the_location_root_of_the_model_counts(check: Any, macros: Macros) -> None:
    macros.config["location_root"] = "s3://other"
    with pytest.raises(AssertionError):  # no statement is needed
        check(location="file:/lake")

    assert "its tables are at s3://other" in macros.logged[0]


def test_databricks_has_its_own_commit_service(macros: Macros, backfill: dict[str, Any]) -> None:
    macros.context["adapter"] = SimpleNamespace(type=lambda: "databricks")

    macros.call("run_check_of_store", backfill, {}, None)

    assert macros.logged == macros.statements == []


def test_a_hadoop_catalog_of_iceberg_on_s3_is_warned_of(check: Any) -> None:
    [warning] = check({**HADOOP, **WAREHOUSE}, file_format="iceberg")

    assert f"its tables are at {AT}, where an Iceberg catalog of the type hadoop" in warning
    lock = {"spark.sql.catalog.spark_catalog.lock-impl": "a.Lock"}
    assert check({**HADOOP, **WAREHOUSE, **lock}, file_format="iceberg") == []
    assert check({**HADOOP}, file_format="iceberg") == []
    assert check({**WAREHOUSE}, file_format="iceberg") == []


REST = {"spark.sql.catalog.spark_catalog.type": "rest"}
TYPE = "spark.sql.catalog.spark_catalog.catalog-impl"


@pytest.fixture
def iceberg(options: dict[str, Any], macros: Macros) -> Macros:
    options["file_format"] = macros.config["file_format"] = "iceberg"
    return macros


def test_a_rest_catalog_gets_a_table_of_format_3_and_a_deletion(
    iceberg: Macros, backfill: dict[str, Any]
) -> None:
    iceberg.call("run_check_of_store", backfill, REST, None)

    created, deleted, dropped = (str(statement.sql) for statement in iceberg.statements)
    assert "create table lake.dbt_backfill_trial_" in created
    assert "'format-version' = '3', 'write.delete.mode' = 'merge-on-read'" in created
    assert "delete from lake.dbt_backfill_trial_" in deleted
    assert "drop table if exists lake.dbt_backfill_trial_" in dropped
    assert "Set tblproperties={'format-version': '2'}" in iceberg.logged[0]


@pytest.mark.parametrize("fails", ["create", "delete"])
def test_a_rest_catalog_without_format_3_is_refused(
    iceberg: Macros, backfill: dict[str, Any], refused: Any, fails: str
) -> None:
    sent = []

    def attempt(sql: str) -> dict[str, Any]:
        sent.append(sql.splitlines()[1].split()[0])
        return {"table": None, "error": "Forbidden\n at org" if sent[-1] == fails else None}

    refuse = iceberg.context["exceptions"].raise_compiler_error
    iceberg.context["adapter"] = SimpleNamespace(
        type=lambda: "spark_backfill", attempt=attempt, refuse=refuse
    )
    with refused("its trial of format 3 of Iceberg failed: Forbidden"):
        iceberg.call(
            "run_check_of_store", backfill, {TYPE: "org.apache.iceberg.rest.RESTCatalog"}, None
        )

    assert sent == (["create"] if fails == "create" else ["create", "delete", "drop"])
    assert not any("could not drop" in line for line in iceberg.logged)


def test_a_trial_that_cannot_be_dropped_is_warned_of(
    iceberg: Macros, backfill: dict[str, Any]
) -> None:
    def attempt(sql: str) -> dict[str, Any]:
        return {"table": None, "error": "Forbidden" if "\ndrop" in sql else None}

    adapter = SimpleNamespace(type=lambda: "spark_backfill", attempt=attempt)
    iceberg.context["adapter"] = adapter
    properties = {"write.delete.mode": "copy-on-write"}  # a barrier deletes rows by a MERGE
    iceberg.config["tblproperties"] = properties

    iceberg.call("run_check_of_store", backfill, REST, None)

    assert "could not drop its trial table. Drop lake.dbt_backfill_trial_" in iceberg.logged[-1]


@pytest.mark.parametrize(
    ("settings", "properties", "exists"),
    [
        ({"spark.sql.catalog.spark_catalog.type": "hive"}, {}, False),
        (REST, {"format-version": "2"}, False),
        (REST, {"write.merge.mode": "copy-on-write"}, False),
        (REST, {}, True),
    ],
)
def test_no_trial_is_made_where_nothing_could_be_found(
    iceberg: Macros,
    backfill: dict[str, Any],
    settings: dict[str, str],
    properties: dict[str, str],
    exists: bool,
) -> None:
    iceberg.config["tblproperties"] = properties

    iceberg.call("run_check_of_store", backfill, settings, iceberg.relation if exists else None)

    assert iceberg.statements == iceberg.logged == []
