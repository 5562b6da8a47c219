"""How an Iceberg table and its changes are read."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from dbt.adapters.spark.relation import SparkRelation

from support.macros import Macros


def test_a_table_is_read_at_a_snapshot(macros: Macros, up: Any) -> None:
    assert macros.call("iceberg_upstream_read", up, "17") == "lake.up version as of 17"


@pytest.mark.parametrize("version", [0, "0"])
def test_a_table_without_a_snapshot_has_no_rows(macros: Macros, up: Any, version: Any) -> None:
    assert (
        macros.call("iceberg_upstream_read", up, version) == "(select * from lake.up where false)"
    )


@pytest.fixture
def changes(macros: Macros, up: Any, keys: Any) -> Callable[..., Any]:
    """The changes from snapshot 11 to 13 of a table whose snapshots 12 and 13 are `operations`."""

    def changes(
        *operations: str,
        version: int = 3,
        since: Any = "11",
        relation: Any = up,
        keys: Any = keys,
    ) -> tuple[str | None, str]:
        log = [
            {"version": 11 + number, "operation": operation}
            for number, operation in enumerate(["overwrite", *(operations or ["append"] * 2)])
        ]
        observed = {"relation": relation, "id": f"iceberg/{version}", "log": log[::-1]}
        found = macros.call("iceberg_upstream_changes", observed, since, "13", keys)
        setup = " ".join(found["setup"].split()) if "setup" in found else None
        return setup, " ".join(found["events"].split())

    return changes


# Without entries there is no number, and then every row was written since.
COMMITTED = (
    "( select coalesce(max(sequence_number), 0) as number from lake.up.entries version as of 11 ) "
    "as committed"
)
WRITTEN = (
    "select source.*, 1 as __bf_version, true as __bf_is_upsert from lake.up version as of 13 "
    f"as source cross join {COMMITTED} "
    "where source._last_updated_sequence_number > committed.number"
)


@pytest.mark.parametrize("operations", [["append", "append"], ["append", "replace"]])
def test_rows_that_were_only_added_or_moved_are_the_ones_written_since(
    changes: Callable[..., Any], operations: list[str]
) -> None:
    """Nothing was deleted, so that the rows before need not be read."""
    assert changes(*operations) == (None, WRITTEN)


@pytest.mark.parametrize("operations", [["append", "overwrite"], ["delete", "append"]])
def test_rows_that_are_not_among_the_older_ones_any_more_were_deleted(
    macros: Macros, changes: Callable[..., Any], operations: list[str]
) -> None:
    """Looked for only where files went, and among those that came."""
    macros.stub("_iceberg_files_not_in", lambda up, version, other: f"{version} not {other}")
    setup, events = changes(*operations)
    written, deleted = events.split(" union all ")

    assert (setup, written) == (None, WRITTEN)
    assert deleted == (
        "select before.* except (__bf_row_id), 0 as __bf_version, false as __bf_is_upsert from ( "
        "select source.*, source._row_id as __bf_row_id from lake.up version as of 11 as source "
        "left semi join (11 not 13) as gone on gone.file_path = source._file ) as before "
        "left anti join ( select source.`id`, source.`shard`, source._row_id as __bf_row_id "
        "from lake.up version as of 13 as source "
        "left semi join (13 not 11) as come on come.file_path = source._file "
        f"cross join {COMMITTED} "
        "where source._last_updated_sequence_number <= committed.number ) as kept "
        "on kept.__bf_row_id = before.__bf_row_id "
        "and kept.`id` = before.`id` and kept.`shard` = before.`shard`"
    )


def test_a_file_with_other_deletes_is_another_file(render: Callable[..., str], up: Any) -> None:
    """Those that name it, and those that name no file, whose rows may be anywhere."""
    sql = render("_iceberg_files_not_in", up, "11", "13")

    assert sql.startswith("select file_path from ( select files.file_path, ")
    left, right = sql.split(" except ")
    assert right.rstrip(" )") == left.removeprefix("select file_path from ( ").replace("11", "13")
    assert "sort_array(collect_list(deletes.delete_file)) as deletes" in left
    assert "lake.up.delete_files version as of 11 where referenced_data_file is null" in left
    assert "on deletes.referenced_data_file = files.file_path cross join (" in left


def test_what_was_deleted_up_to_the_committed_snapshot_does_not_count(
    changes: Callable[..., Any],
) -> None:
    """Snapshot 11 is an overwrite."""
    assert "union all" not in changes("append", "append")[1]


def test_only_added_rows_are_read_where_no_key_is_known(changes: Callable[..., Any]) -> None:
    """Of a change table: its events have no key."""
    assert changes("overwrite", "delete", keys=None) == (None, WRITTEN)


@pytest.mark.parametrize("since", [0, "0"])
@pytest.mark.parametrize("version", [2, 3])
def test_all_rows_are_new_since_there_was_no_snapshot(
    changes: Callable[..., Any], since: Any, version: int
) -> None:
    assert changes("overwrite", "delete", version=version, since=since) == (
        None,
        "select *, 0 as __bf_version, true as __bf_is_upsert from lake.up version as of 13",
    )


def test_format_2_is_followed_by_icebergs_changelog(changes: Callable[..., Any]) -> None:
    setup, events = changes("overwrite", "append", version=2)
    name = events.rsplit(" ", 1)[1]

    assert setup == (
        "call system.create_changelog_view( table => 'lake.up', "
        f"changelog_view => '{name}', "
        "options => map('start-snapshot-id', '11', 'end-snapshot-id', '13') )"
    )
    assert events == (
        "select * except (_change_type, _change_ordinal, _commit_snapshot_id), "
        "_change_ordinal as __bf_version, _change_type = 'INSERT' as __bf_is_upsert "
        f"from {name}"
    )


@pytest.mark.parametrize("schema", ["prod.lake", "prod.lake.raw"])
def test_the_procedure_is_that_of_the_tables_catalog(
    changes: Callable[..., Any], schema: str
) -> None:
    """A namespace may have several parts."""
    up = SparkRelation.create(schema=schema, identifier="up")
    setup, _ = changes(version=2, relation=up)

    assert setup is not None
    assert setup.startswith(f"call prod.system.create_changelog_view( table => '{schema}.up', ")


def test_the_changelog_of_another_run_is_not_taken_for_ours(
    macros: Macros, changes: Callable[..., Any]
) -> None:
    names = {changes(version=2)[1], changes(version=2, since="12")[1]}
    macros.context["invocation_id"] = "another"
    names.add(changes(version=2)[1])

    assert len(names) == 3
