"""Gaps in the changes of an Iceberg table, and snapshots that can no longer be read."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from support.macros import Macros


def _table(version: int = 15, id: str = "iceberg/3", **delete_files: int) -> dict[str, Any]:
    """Return a table whose ancestors are snapshots 11 to 15.

    Snapshot 10 has expired, and 99 belongs to another branch.
    """
    log = [
        {"version": v, "operation": "overwrite", "delete_files": delete_files.get(f"v{v}", 0)}
        for v in range(version, 10, -1)
    ]
    return {"version": version, "id": id, "log": log, "snapshots": [11, 12, 13, 14, 15, 99]}


@pytest.fixture
def gap(macros: Macros) -> Callable[..., str | None]:
    def gap(table: Any, since: int = 12, id: str = "iceberg/3", kind: str = "iceberg") -> Any:
        committed = {"version": str(since), "id": id, "kind": kind}
        answer = macros.call("iceberg_upstream_gap", table, committed)
        assert answer is None or answer["refusal"] is None
        return answer and answer["reason"]

    return gap


@pytest.mark.parametrize(("schema", "same"), [("0", True), ("1", False)])
@pytest.mark.parametrize("since", [12, 0])
def test_columns_that_changed_and_changed_back_are_a_gap(
    gap: Callable[..., Any], since: int, schema: str, same: bool
) -> None:
    table = {**_table(id="iceberg/3/0"), "schemas": {13: "0", 14: schema, 15: "0"}}
    assert (gap(table, since, id="iceberg/3/0" if since else "iceberg/3") is None) is same


def test_the_changes_since_an_ancestor_can_be_told(gap: Callable[..., Any]) -> None:
    assert gap(_table()) is None


@pytest.mark.parametrize("since", [12, 15])
def test_a_table_that_was_another_format_is_a_gap(gap: Callable[..., Any], since: int) -> None:
    assert gap(_table(), since=since, kind="delta") == (
        "the upstream is another table than at the last barrier"
    )


def test_a_snapshot_that_is_gone_is_a_gap(gap: Callable[..., Any]) -> None:
    assert gap(_table(), since=10) == (
        "the snapshot 10 of the upstream has expired, or the upstream was replaced"
    )


def test_a_snapshot_that_is_no_ancestor_is_a_gap(gap: Callable[..., Any]) -> None:
    """Row lineage does not show that a table was rolled back."""
    for table, since in [(_table(), 99), (_table(version=13), 14)]:
        assert gap(table, since=since) == (
            f"the upstream was rolled back or replaced since its snapshot {since}"
        )


def test_an_upgrade_of_the_format_is_a_gap(gap: Callable[..., Any]) -> None:
    """Rows that were written before the upgrade have no row ids."""
    assert gap(_table(), id="iceberg/2") == "the upstream was upgraded to format 3"


def test_another_schema_is_a_gap(gap: Callable[..., Any]) -> None:
    """If a column was dropped and added again, it is null even in rows not written since."""
    assert gap(_table(id="iceberg/3/2"), id="iceberg/3/1") == (
        "columns of the upstream were changed since its snapshot 12"
    )
    assert gap(_table(id="iceberg/3/1"), id="iceberg/3/1") is None


def _explained(schema: str) -> str:
    scan = f"IcebergScan(table=up, schemaId={schema}, snapshotId=15, branch=null, filters=, "
    return f"== Physical Plan ==\n*(1) ColumnarToRow\n+- BatchScan lake.up[id#1] {scan}groupedBy=)"


@pytest.mark.parametrize(
    ("format", "altered", "plan", "is_gap"),
    [
        (2, False, None, False),
        (2, True, _explained("1"), False),  # only a tag or a property was changed
        (2, True, _explained("2"), True),
        (2, True, _explained("12"), True),
        (2, True, "== Physical Plan ==\nOtherScan lake.up[id#1]", True),  # not shown
        (3, True, None, False),
    ],
)
def test_a_table_that_was_altered_after_its_snapshot_is_a_gap_of_the_changelog(
    macros: Macros,
    gap: Callable[..., Any],
    up: Any,
    format: int,
    altered: bool,
    plan: Any,
    is_gap: bool,
) -> None:
    """The changelog has the columns of the table, and not the columns of the snapshot."""
    id = f"iceberg/{format}/1"
    table = {**_table(id=id), "relation": up, "altered": altered}
    committed = {"version": "12", "id": id, "kind": "iceberg"}
    asked = [] if plan is None else [[[plan]]]
    macros.results = [*asked]

    reason = "columns of the upstream were changed since its snapshot 15"
    assert gap(table, id=id) == (reason if is_gap else None)
    assert macros.call("iceberg_continues_upstream", table, committed) is not is_gap
    assert len(macros.statements) == len(asked)


def test_a_table_that_was_altered_after_the_committed_snapshot_has_no_changes_to_tell(
    macros: Macros, gap: Callable[..., Any], up: Any
) -> None:
    table = {**_table(id="iceberg/2/1"), "relation": up, "altered": True}
    committed = {"version": "15", "id": "iceberg/2/1", "kind": "iceberg"}

    assert gap(table, since=15, id="iceberg/2/1") is None
    assert macros.call("iceberg_continues_upstream", table, committed) is True


def test_snapshots_that_expired_in_between_are_a_gap(gap: Callable[..., Any]) -> None:
    """A tag keeps the committed snapshot, but nothing shows that the current snapshot descends from
    it.
    """
    table = _table()
    table["log"] = [{**table["log"][0], "parent": 14}]

    assert gap(table) == (
        "snapshots of the upstream after its snapshot 12 have expired, or it was rolled back"
    )


def test_nothing_new_is_no_gap(gap: Callable[..., Any]) -> None:
    assert gap(_table(), since=15, id="iceberg/2") is None
    assert gap(_table(id="iceberg/2", v15=1), since=15, id="iceberg/2") is None


def test_a_table_that_had_no_snapshot_has_no_gap(gap: Callable[..., Any]) -> None:
    assert gap(_table(), since=0, id="iceberg/2") is None


@pytest.mark.parametrize("version", [13, 14, 15])
def test_delete_files_of_format_2_are_a_gap(gap: Callable[..., Any], version: int) -> None:
    table = _table(id="iceberg/2", **{f"v{version}": 3})

    assert gap(table, id="iceberg/2") == (
        f"the snapshot {version} of the upstream has delete files"
    )


def test_delete_files_up_to_the_committed_snapshot_are_no_gap(gap: Callable[..., Any]) -> None:
    assert gap(_table(id="iceberg/2", v11=1, v12=1), id="iceberg/2") is None


def test_delete_files_of_format_3_are_no_gap(gap: Callable[..., Any]) -> None:
    assert gap(_table(v13=1)) is None


@pytest.mark.parametrize(
    ("since", "kind", "continues"),
    [
        (12, "iceberg", True),
        (15, "iceberg", True),
        (0, "iceberg", True),
        (10, "iceberg", False),  # expired
        (99, "iceberg", False),  # rolled back
        (12, "delta", False),
        (0, "delta", False),
    ],
)
def test_a_table_continues_from_its_ancestors(
    macros: Macros, since: int, kind: str, continues: bool
) -> None:
    committed = {"version": str(since), "kind": kind, "id": "iceberg/2/1"}

    assert macros.call("iceberg_continues_upstream", _table(id="iceberg/3/1"), committed) is (
        continues
    )


def test_a_table_with_other_columns_does_not_continue(macros: Macros) -> None:
    committed = {"version": "12", "kind": "iceberg", "id": "iceberg/3/1"}

    assert not macros.call("iceberg_continues_upstream", _table(id="iceberg/3/2"), committed)


@pytest.mark.parametrize(
    ("since", "lag"),
    [
        (15, {"versions": 0, "since": None}),
        (13, {"versions": 2, "since": "at 14"}),
        (0, {"versions": 5, "since": "at 11"}),
        (10, None),  # expired
        (99, None),  # of another branch, or rolled back
    ],
)
def test_how_far_a_snapshot_is_behind_is_read_off_its_descendants(
    macros: Macros, since: int, lag: Any
) -> None:
    table = _table()
    for entry in table["log"]:
        entry["committed_at"] = f"at {entry['version']}"
    source = {"version": str(since), "id": "iceberg/3", "kind": "iceberg"}

    assert macros.call("iceberg_upstream_lag", table, source) == lag


# -- old snapshots ------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("version", "id", "is_readable"),
    [
        ("15", "iceberg/3", True),
        ("11", "iceberg/3", True),
        (99, "iceberg/3", True),  # of another branch, or rolled back
        ("10", "iceberg/3", False),
        ("0", "iceberg/3", True),  # a table without a snapshot can always be read
        ("12", "iceberg/2", True),  # the format was upgraded later
        ("12", "d1", False),  # a version of a Delta table
        ("0", "d1", False),
    ],
)
def test_a_snapshot_can_be_read_until_it_expires(
    macros: Macros, version: Any, id: str, is_readable: bool
) -> None:
    source = {"version": version, "id": id}

    assert macros.call("iceberg_upstream_readable", _table(), source) is is_readable


# -- between two snapshots ----------------------------------------------------------------------


@pytest.mark.parametrize(
    ("from_version", "to_version", "between"),
    [
        (12, 15, [15, 14, 13]),
        ("12", "14", [14, 13]),
        (15, 15, []),
        (10, 12, [12, 11]),
    ],
)
def test_snapshots_between_two_begin_after_the_first(
    macros: Macros, from_version: Any, to_version: Any, between: list[int]
) -> None:
    found = macros.call("iceberg_snapshots_between", _table(), from_version, to_version)

    assert [snapshot["version"] for snapshot in found] == between
