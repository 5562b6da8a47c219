"""How an Iceberg table and its changes are read."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from dbt.adapters.spark.relation import SparkRelation
from dbt_common.exceptions import CompilationError

from support.macros import Macros


def test_a_table_is_read_at_a_snapshot(macros: Macros, up: Any) -> None:
    assert (
        macros.call("iceberg_upstream_read", {"relation": up}, "17") == "lake.up version as of 17"
    )


@pytest.mark.parametrize("version", [0, "0"])
def test_a_table_without_a_snapshot_has_no_rows(macros: Macros, up: Any, version: Any) -> None:
    assert (
        macros.call("iceberg_upstream_read", {"relation": up}, version)
        == "(select * from lake.up where false)"
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
    ) -> tuple[list[str], str]:
        log = [
            {"version": 11 + number, "operation": operation}
            for number, operation in enumerate(["overwrite", *(operations or ["append"] * 2)])
        ]
        observed = {"relation": relation, "id": f"iceberg/{version}", "log": log[::-1]}
        found = macros.call("iceberg_upstream_changes", observed, since, "13", keys, "`a view`")
        assert found.get("views", []) == (["`a view`"] if version == 2 and int(since) else [])
        setup = [" ".join(statement.split()) for statement in found.get("setup", [])]
        return setup, " ".join(found["events"].split())

    return changes


IS_WRITTEN = "coalesce(source._last_updated_sequence_number > __bf_lineage_11.committed, true)"
WITHIN = "__bf_lineage_11.bounds and __bf_lineage_11.files"
WRITTEN = (
    "select source.*, 1 as __bf_version, true as __bf_is_upsert from lake.up version as of 13 as "
    f"source where {IS_WRITTEN} and {WITHIN}"
)


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
    """In format 2 too: a key that came with the version 12 and went with 13 is not told of."""
    log = [{"version": 13, "operation": "delete"}, {"version": 12, "operation": "append"}]
    observed = {"relation": up, "id": "iceberg/2", "version": 13, "log": log}
    empty, source = {"version": "0"}, {"version": "12"}

    assert macros.call("iceberg_forgets_keys", observed, empty, source) is True


def test_rows_are_counted_by_what_the_snapshot_tells(render: Callable[..., str], up: Any) -> None:
    assert render("iceberg_row_count_sql", {"relation": up}, "0") == "0"
    assert render("iceberg_row_count_sql", {"relation": up}, "13").endswith(
        " from lake.up.snapshots where snapshot_id = 13)"
    )


def test_rows_may_have_gone_in_a_snapshot_that_the_log_does_not_know(
    macros: Macros, up: Any, keys: Any
) -> None:
    """Another run, which had seen it, planned the barrier."""
    observed = {"relation": up, "id": "iceberg/3", "log": [{"version": 12, "operation": "append"}]}

    events = macros.call("iceberg_upstream_changes", observed, "11", "13", keys)["events"]
    assert "left anti join" in events


@pytest.mark.parametrize("operations", [["append", "append"], ["append", "replace"]])
def test_rows_that_were_only_added_or_moved_are_the_ones_written_since(
    changes: Callable[..., Any], operations: list[str]
) -> None:
    """Nothing was deleted, so that the rows before need not be read."""
    assert changes(*operations)[1] == WRITTEN


@pytest.mark.parametrize("operations", [["append", "overwrite"], ["delete", "append"]])
def test_rows_that_are_not_among_the_older_ones_any_more_were_deleted(
    changes: Callable[..., Any], operations: list[str]
) -> None:
    """Looked for only in the files that differ."""
    written, deleted = changes(*operations)[1].split(" union all ")

    assert written == WRITTEN
    assert deleted == (
        "select before.*, 0 as __bf_version, false as __bf_is_upsert from ( "
        f"select source.* from lake.up version as of 11 as source where {WITHIN} ) as before "
        "left anti join ( select source.`id`, source.`shard` "
        f"from lake.up version as of 13 as source where not {IS_WRITTEN} and {WITHIN} ) as kept "
        "on kept.`id` = before.`id` and kept.`shard` = before.`shard`"
    )


@pytest.mark.parametrize(
    ("operations", "versions"),
    [
        (["append", "append"], [13]),
        (["append", "delete"], [13, 12]),
        (["delete", "append"], [13]),
        (["append", "replace"], [13]),
    ],
)
def test_rows_that_were_added_and_have_gone_again_are_told_of_a_change_table(
    changes: Callable[..., Any], operations: list[str], versions: list[int]
) -> None:
    """Of an event that was read by nobody yet, the snapshot before has the row still."""
    reads = [f"from lake.up version as of {version} as source" for version in versions]
    told = changes(*operations, keys=None)[1].split(" union all ")
    assert [read for select, read in zip(told, reads, strict=True) if read in select] == reads

    since_empty = changes(*operations, keys=None, since=0)[1].split(" union all ")
    assert [select.split(" as of ")[1] for select in since_empty] == [
        str(version)
        for version in ([13, 12] if operations[1] == "delete" else [13])
        + ([11] if operations[0] == "delete" else [])
    ]


def test_a_change_table_is_not_followed_to_a_snapshot_that_the_log_does_not_know(
    macros: Macros, up: Any
) -> None:
    observed = {"relation": up, "id": "iceberg/3", "log": [{"version": 12, "operation": "append"}]}

    with pytest.raises(CompilationError, match="another run went on while this one read the log"):
        macros.call("iceberg_upstream_changes", observed, "11", "13", None, "`a view`")


def test_what_selects_the_rows_is_read_once_as_texts(changes: Callable[..., Any]) -> None:
    [setup], _ = changes("overwrite", "append")

    assert setup.startswith(
        "set __bf_lineage_11 = (select struct( "
        "cast(coalesce(committed, 0) as string) as committed, "
        "if(any_file, 'true', concat_ws(' and ', 'true', "
        "concat('source.`id` >= ', concat(cast(low_1 as string), 'L')), "
        "concat('source.`id` <= ', concat(cast(high_1 as string), 'L')), "
        "concat('source.`shard` >= ', concat(cast(low_2 as string), '')), "
        "concat('source.`shard` <= ', concat(cast(high_2 as string), '')))) as bounds, "
        "case when any_file or size(paths) > 10000 then 'true' when size(paths) = 0 then 'false' "
    )
    assert "concat( 'source._file in (', array_join(transform(paths, path -> " in setup
    assert (
        "if(count(low_1) filter (where differs) = count(path) filter (where differs), "
        "min(low_1) filter (where differs), null) as low_1, "
    ) in setup
    assert setup.count("lake.up.") == 2


def test_a_file_with_other_deletes_is_another_file(render: Callable[..., str], up: Any) -> None:
    """Those that name it, and those that name no file, whose rows may be anywhere."""
    sql = render("_iceberg_compared_files_sql", up, "11", "13", [])
    data = "data_file.content = 0"
    before, after = (
        f"select {is_new} as is_new, sequence_number, "
        f"if({data}, data_file.file_path, data_file.referenced_data_file) as path, "
        f"if({data}, null, struct(data_file.file_path, data_file.content_offset)) as delete_file "
        f"from lake.up.entries version as of {version} where status <> 2"
        for is_new, version in (("false", 11), ("true", 13))
    )

    assert sql.endswith(f" as differs, path from ( {before} union all {after} ) group by path")
    assert "(path is null or bool_or(delete_file is null)) and (" in sql


def test_a_file_with_a_null_in_a_key_has_no_bounds_of_it(
    render: Callable[..., str], up: Any, keys: Any
) -> None:
    sql = render("_iceberg_files_sql", up, "11", "true", keys)
    metrics = "readable_metrics.`shard`"

    bounded = f"if(data_file.content = 0 and {metrics}.null_value_count = 0, {metrics}."
    assert f", {bounded}lower_bound, null) as low_2, {bounded}upper_bound, null) as high_2" in sql


@pytest.mark.parametrize(
    ("type_", "bounded"),
    [
        ("int", True),
        ("decimal(38,9)", True),
        ("timestamp_ntz", True),
        ("string", False),  # it may be Iceberg's uuid
        ("binary", False),
        ("boolean", False),
    ],
)
def test_bounds_are_asked_of_types_that_iceberg_orders_as_spark_does(
    macros: Macros, type_: str, bounded: bool
) -> None:
    assert macros.call("_has_iceberg_bounds", type_) == bounded


def test_what_was_deleted_up_to_the_committed_snapshot_does_not_count(
    changes: Callable[..., Any],
) -> None:
    """Snapshot 11 is an overwrite."""
    assert "union all" not in changes("append", "append")[1]


def test_only_added_rows_are_read_where_no_key_is_known(changes: Callable[..., Any]) -> None:
    """Of a change table: its events have no key."""
    [setup], events = changes("delete", "append", keys=None)

    assert events == WRITTEN
    assert setup == (
        "set __bf_lineage_11 = (select struct( "
        "cast(coalesce(committed, 0) as string) as committed, "
        "'true' as bounds, 'true' as files ) from ( select max(sequence_number) as committed "
        "from lake.up.entries version as of 11 ))"
    )


@pytest.mark.parametrize("since", [0, "0"])
@pytest.mark.parametrize("version", [2, 3])
def test_all_rows_are_new_since_there_was_no_snapshot(
    changes: Callable[..., Any], since: Any, version: int
) -> None:
    assert changes("overwrite", "delete", version=version, since=since) == (
        [],
        "select *, 0 as __bf_version, true as __bf_is_upsert from lake.up version as of 13",
    )


def test_format_2_is_followed_by_icebergs_changelog(changes: Callable[..., Any]) -> None:
    """Its view has a name of the plan's own: models may share a session."""
    setup, events = changes("overwrite", "append", version=2)

    assert setup == [
        "call system.create_changelog_view( table => 'lake.up', "
        "changelog_view => '`a view`', "
        "options => map('start-snapshot-id', '11', 'end-snapshot-id', '13') )"
    ]
    assert events == (
        "select * except (_change_type, _change_ordinal, _commit_snapshot_id), "
        "_change_ordinal as __bf_version, _change_type = 'INSERT' as __bf_is_upsert "
        "from `a view`"
    )


@pytest.mark.parametrize("schema", ["prod.lake", "prod.lake.raw"])
def test_the_procedure_is_that_of_the_tables_catalog(
    changes: Callable[..., Any], schema: str
) -> None:
    """A namespace may have several parts."""
    up = SparkRelation.create(schema=schema, identifier="up")
    [setup], _ = changes(version=2, relation=up)

    assert setup.startswith(f"call prod.system.create_changelog_view( table => '{schema}.up', ")
