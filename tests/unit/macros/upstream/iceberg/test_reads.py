"""The SQL that reads an Iceberg table and its changes."""

from __future__ import annotations

from typing import Any

import pytest
from dbt.adapters.spark.relation import SparkRelation
from dbt_common.exceptions import CompilationError

from support.macros import Macros


@pytest.mark.parametrize(
    ("format_", "version", "operations", "forgets"),
    [
        (3, "12", ["append"], False),
        (3, "12", ["overwrite"], True),
        (3, "12", ["replace"], False),
        (3, "11", ["append", "delete"], True),
        (3, "13", [], False),
        (2, "12", ["overwrite"], False),
    ],
)
def test_row_lineage_does_not_tell_of_a_key_that_came_and_went(
    macros: Macros, up: Any, format_: int, version: str, operations: list[str], forgets: bool
) -> None:
    snapshots = [(14 - len(operations) + i, what) for i, what in enumerate(operations)]
    known = [{"version": number, "operation": what} for number, what in snapshots]
    known.insert(0, {"version": int(version), "operation": "append"})
    observed = {"relation": up, "id": f"iceberg/{format_}", "version": 13, "log": known[::-1]}
    since, source = {"version": "9"}, {"version": version}

    assert macros.call("iceberg_forgets_keys", observed, since, source) is forgets


def test_what_is_told_since_a_table_without_a_snapshot_is_what_is_there_now(
    macros: Macros, up: Any
) -> None:
    """A comparison of two snapshots does not list a key that version 12 added and version 13
    deleted.
    """
    log = [{"version": 13, "operation": "delete"}, {"version": 12, "operation": "append"}]
    observed = {"relation": up, "id": "iceberg/2", "version": 13, "log": log}
    empty, source = {"version": "0"}, {"version": "12"}

    assert macros.call("iceberg_forgets_keys", observed, empty, source) is True


@pytest.mark.parametrize(
    ("operations", "known", "reads_before"),
    [
        (["append", "append"], True, False),
        (["replace", "replace"], True, False),
        # A row of a compacted file may come from a file of another table.
        (["append", "replace"], True, True),
        (["append", "overwrite"], True, True),
        (["delete", "append"], True, True),
        (["append", "append"], False, True),  # another run, which knew 13, made the plan
    ],
)
def test_older_rows_are_only_read_where_some_may_have_been_deleted(
    macros: Macros, up: Any, keys: Any, operations: list[str], known: bool, reads_before: bool
) -> None:
    done = zip((11, 12, 13) if known else (11, 12), ["overwrite", *operations], strict=False)
    log = [{"version": version, "operation": what} for version, what in done][::-1]
    observed = {"relation": up, "id": "iceberg/3", "version": "13", "altered": False, "log": log}
    changes = macros.call("iceberg_upstream_changes", observed, "11", "13", keys, "`a view`")

    assert ("version as of 11" in changes["events"]) is reads_before


def test_a_change_table_is_not_followed_to_a_snapshot_that_the_log_does_not_know(
    macros: Macros, up: Any
) -> None:
    log = [{"version": 12, "operation": "append"}]
    observed = {"relation": up, "id": "iceberg/3", "version": "12", "log": log}

    with pytest.raises(CompilationError, match="another run committed a barrier while this run"):
        macros.call("iceberg_upstream_changes", observed, "11", "13", None, "`a view`")


@pytest.mark.parametrize(
    ("type_", "bounded"),
    [
        ("int", True),
        ("decimal(38,9)", True),
        ("timestamp_ntz", True),
        ("string", False),  # the column may be Iceberg's uuid
        ("binary", False),
        ("boolean", False),
    ],
)
def test_bounds_are_asked_of_types_that_iceberg_orders_as_spark_does(
    macros: Macros, up: Any, keys: Any, type_: str, bounded: bool
) -> None:
    log = [{"version": 13, "operation": "append"}]
    observed = {"relation": up, "id": "iceberg/3", "version": "13", "altered": False, "log": log}
    keys = [{**keys[0], "type": type_}]
    for changed, known in (({}, True), ({"altered": True}, False), ({"version": "14"}, False)):
        table = {**observed, **changed}  # bounds have the names of the current columns
        changes = macros.call("iceberg_upstream_changes", table, "11", "13", keys, "`a view`")
        assert ("__bf_up.`id` >= " in changes["setup"][0]) is (bounded and known)


@pytest.mark.parametrize("schema", ["prod.lake", "prod.lake.raw"])
def test_the_procedure_is_that_of_the_tables_catalog(
    macros: Macros, keys: Any, schema: str
) -> None:
    observed = {
        "relation": SparkRelation.create(schema=schema, identifier="up"),
        "id": "iceberg/2",
        "log": [{"version": 13, "operation": "append"}],
    }
    changes = macros.call("iceberg_upstream_changes", observed, "11", "13", keys, "`a view`")

    assert changes["setup"][0].startswith("call prod.system.create_changelog_view(")
