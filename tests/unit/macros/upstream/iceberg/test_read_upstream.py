"""The current snapshot of an Iceberg table and its ancestors."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest

from support.macros import Macros


def _snapshot(version: int, parent: int | None, delete_files: int = 0) -> dict[str, Any]:
    """Return a snapshot as the log returns it: null values are absent."""
    snapshot = {
        "version": version,
        "committed_at": f"2024-05-01 10:{version}:00",
        "operation": "append",
        "delete_files": delete_files,
    }
    return snapshot | ({"parent": parent} if parent else {})


def _ref(version: int, name: str = "main") -> dict[str, Any]:
    return {"version": version, "ref": name}


def _commit(version: int, schema: int, at: str = "10:14:00") -> dict[str, Any]:
    return {"version": version, "schema": schema, "committed_at": f"2024-05-01 {at}"}


# Snapshot 11 has expired, 13 was rolled back, and 15 belongs to another branch.
LOG = [
    _snapshot(15, 14),
    _snapshot(12, 11),
    _ref(14),
    _snapshot(14, 12),
    _snapshot(13, 12),
    {"committed_at": "2024-05-01 10:00:00"},  # the table was created
]


@pytest.fixture
def read(macros: Macros, up: Any) -> Callable[..., dict[str, Any]]:
    def read(since: Any = None, log: Any = LOG, **properties: str) -> dict[str, Any]:
        named = {name.replace("_", "-"): value for name, value in properties.items()}
        macros.results = [list(map(list, named.items()))]
        return macros.call("iceberg_read_upstream", {"relation": up}, since, log)

    return read


def _since(version: int, id: str = "iceberg/3", kind: str = "iceberg") -> dict[str, Any]:
    """Return what the committed plan records about this snapshot."""
    return {"version": str(version), "id": id, "kind": kind}


def test_the_current_version_is_the_snapshot_of_the_main_branch(read: Callable[..., Any]) -> None:
    observed = read()

    assert (observed["version"], observed["committed_at"]) == ("14", "2024-05-01 10:14:00")


def test_the_log_is_the_current_snapshot_and_its_ancestors_that_have_not_expired(
    read: Callable[..., Any],
) -> None:
    observed = read()

    assert [snapshot["version"] for snapshot in observed["log"]] == [14, 12]
    assert sorted(observed["snapshots"]) == [12, 13, 14, 15]


def test_the_time_of_a_version_is_known_while_it_is_an_ancestor(
    macros: Macros, read: Callable[..., Any]
) -> None:
    time = [macros.call("iceberg_committed_at", read(), version) for version in ("12", "11", "0")]

    assert time == ["2024-05-01 10:12:00", None, None]


def test_a_log_is_the_same_in_a_session_that_writes_nulls_out(read: Callable[..., Any]) -> None:
    """Such a session has `spark.sql.jsonGenerator.ignoreNullFields` off."""
    names = {name for entry in LOG for name in entry} | {"schema"}
    nulls = dict.fromkeys(names)

    assert read(log=[{**nulls, **entry} for entry in LOG])["version"] == "14"


def test_a_branch_whose_snapshot_is_not_in_the_log_is_no_empty_table(
    read: Callable[..., Any], refused: Any
) -> None:
    """The snapshot of a branch may expire between the two reads. Without the refusal, the table
    would be read as if it had no rows.
    """
    with refused("the snapshot 14 of lake.up expired while this run was reading the log of"):
        read(log=[_ref(14), _snapshot(12, None)])


def test_a_table_without_a_snapshot_has_the_version_0(read: Callable[..., Any]) -> None:
    observed = read(log=[])

    assert (observed["version"], observed["committed_at"]) == ("0", None)
    assert observed["log"] == observed["snapshots"] == []


def test_a_log_that_was_read_with_the_state_spares_a_statement(
    macros: Macros, read: Callable[..., Any]
) -> None:
    read(_since(12))
    assert macros.statements == []


def test_the_log_is_read_where_the_state_came_without_it(macros: Macros, up: Any) -> None:
    macros.results = [[[json.dumps(LOG)]]]
    observed = macros.call("iceberg_read_upstream", {"relation": up}, _since(12), None)

    assert observed["version"] == "14"
    (statement,) = macros.statements
    assert "select to_json(" in statement.sql
    assert "from lake.up.snapshots" in statement.sql


def test_the_snapshots_are_read_after_the_main_branch(render: Callable[..., str], up: Any) -> None:
    """Spark loads the metadata tables one after the other. If the snapshots were read first, the
    snapshot of the main branch could be missing.
    """
    sql = render("iceberg_log_sql", {"relation": up})

    assert sql.index("lake.up.refs") < sql.index("lake.up.snapshots")


def test_a_table_that_was_altered_after_its_snapshot_is_told(read: Callable[..., Any]) -> None:
    log = [_ref(12), _snapshot(12, None), _commit(12, 0), _commit(11, 0)]

    assert read(_since(12), log=[*log, _commit(12, 0)])["altered"] is True
    assert read(_since(12), log=log)["altered"] is False
    assert read(log=[])["altered"] is False


def test_our_tags_are_told_with_what_they_hold(read: Callable[..., Any]) -> None:
    holds = {"dbt_backfill_b1": 13, "dbt_backfill_b2": 14, "dbt_backfill_b3": 14}
    log = [*LOG, *(_ref(version, name) for name, version in holds.items())]

    assert read(log=log)["holds"] == holds


# -- the format -----------------------------------------------------------------------------


@pytest.mark.parametrize(
    "since",
    [
        _since(12),
        _since(13),  # rolled back
        _since(14),
        _since(14, "iceberg/2"),  # no commit since
    ],
)
def test_the_format_is_known_where_it_cannot_have_changed(
    macros: Macros, read: Callable[..., Any], since: Any
) -> None:
    observed = read(since)

    assert observed["id"] == since["id"]
    assert macros.statements == []


@pytest.mark.parametrize(
    "since",
    [
        None,
        {"role": "upstream", "relation": "lake.up", "kind": "iceberg"},
        _since(12, "iceberg/2"),  # the table may have been upgraded
        _since(11),  # expired, or a snapshot of another table with that name
        _since(14, "d1", "delta"),
    ],
    ids=["first", "reset", "format 2", "gone", "delta"],
)
def test_the_format_is_asked_for_where_it_may_have_changed(
    macros: Macros, read: Callable[..., Any], since: Any
) -> None:
    observed = read(since, format_version="3")

    assert (observed["id"], observed["properties"]) == ("iceberg/3", {"format-version": "3"})
    assert len(macros.statements) == 1


@pytest.mark.parametrize("since", [_since(12, "iceberg/3/0"), _since(12), None])
def test_the_schema_of_the_current_snapshot_is_part_of_the_id(
    read: Callable[..., Any], since: Any
) -> None:
    commits = [_commit(14, 1, "10:14:00.2"), _commit(14, 0), _commit(12, 2, "10:15:00")]
    log = [_snapshot(12, None), _ref(14), _snapshot(14, 12), *commits]

    assert read(since, log=log, format_version="3")["id"] == "iceberg/3/1"


def test_a_table_that_tells_no_format_has_format_2(read: Callable[..., Any]) -> None:
    assert read(owner="me")["id"] == "iceberg/2"


# -- what is refused --------------------------------------------------------------------------


@pytest.fixture
def check(macros: Macros, up: Any) -> Callable[..., None]:
    def check(version: int, properties: Any = None, delete_files: int = 0, log: Any = None) -> None:
        upstream = {
            "relation": up,
            "id": f"iceberg/{version}",
            "properties": {} if properties is None else properties,
            "log": [_snapshot(14, 12, delete_files=delete_files)] if log is None else log,
        }
        macros.call("iceberg_check_feed", upstream)

    return check


MERGED = {"write.delete.mode": "merge-on-read", "write.merge.mode": "merge-on-read"}
UPGRADE = "Upgrade it: ALTER TABLE lake.up SET TBLPROPERTIES ('format-version' = '3')"


def test_a_table_of_format_3_is_followed_however_it_is_written(check: Callable[..., None]) -> None:
    check(3, MERGED, delete_files=4)


def test_a_table_of_format_2_is_followed_if_it_copies_on_write(check: Callable[..., None]) -> None:
    check(2)
    check(2, {"write.delete.mode": "copy-on-write"})
    check(2, log=[])


def test_a_table_of_format_1_is_refused(check: Callable[..., None], refused: Any) -> None:
    with refused(
        f"lake.up is an Iceberg table of format 1, which reports no changes of rows. {UPGRADE}."
    ):
        check(1)


def test_a_table_of_format_2_that_is_merged_on_read_is_refused_with_the_statements_to_run(
    check: Callable[..., None], refused: Any
) -> None:
    with refused(
        "lake.up is an Iceberg table of format 2 that is merged on read, so its "
        f"changes cannot be read. {UPGRADE}; or let it copy on write: ALTER TABLE lake.up SET "
        "TBLPROPERTIES ('write.delete.mode' = 'copy-on-write', 'write.merge.mode' = "
        "'copy-on-write')."
    ):
        check(2, {**MERGED, "write.update.mode": "copy-on-write"})


@pytest.mark.parametrize("mode", ["write.delete.mode", "write.update.mode", "write.merge.mode"])
def test_each_way_to_merge_on_read_is_refused(
    check: Callable[..., None], refused: Any, mode: str
) -> None:
    with refused("lake.up is an Iceberg table of format 2 that is merged on read"):
        check(2, {mode: "merge-on-read"})


def test_a_table_of_format_2_that_still_has_delete_files_is_refused(
    check: Callable[..., None], refused: Any
) -> None:
    with refused(
        "lake.up is an Iceberg table of format 2 with 4 delete files, so its changes "
        f"cannot be read. {UPGRADE}; or rewrite its data files, with the option "
        "'delete-file-threshold' = '1'."
    ):
        check(2, delete_files=4)


def test_a_table_of_format_2_with_a_map_is_refused(macros: Macros, up: Any, refused: Any) -> None:
    """Iceberg's changelog orders whole rows, and Spark cannot order a map."""
    upstream = {"relation": up, "id": "iceberg/2", "properties": {}, "log": [], "is_new": True}
    macros.results = [[["id", "int"], ["tags", "array<map<string,int>>"]]]
    with refused(
        "lake.up is an Iceberg table of format 2 with the map tags; its changes cannot be "
        f"read, because maps have no order. {UPGRADE}."
    ):
        macros.call("iceberg_check_feed", upstream)
    macros.results = [[["id", "int"], ["tags", "array<int>"]]]
    macros.call("iceberg_check_feed", upstream)


def test_a_table_whose_properties_were_not_asked_for_is_not_checked_again(
    macros: Macros, up: Any
) -> None:
    macros.call("iceberg_check_feed", {"relation": up, "id": "iceberg/1", "log": []})
