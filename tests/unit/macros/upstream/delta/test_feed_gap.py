"""Gaps in the change data feed of a Delta table, and versions that can no longer be read."""

from __future__ import annotations

import json
from collections.abc import Callable
from datetime import datetime, timedelta
from types import SimpleNamespace
from typing import Any

import pytest

from support.macros import Macros

HOUR = 3_600_000
CLOCK_CHANGE = 2 * HOUR
Table = dict[str, Any]

# What `describe detail` returns.
FEED_ON = [{"id": "u1", "properties": {"delta.enableChangeDataFeed": "true"}}]


def _entry(version: int, operation: str = "WRITE", parameters: Any = None) -> dict[str, Any]:
    """Return the log entry of a version that was committed at `version` o'clock."""
    return {
        "version": version,
        "committed_at": f"2024-05-01 {version:02}:00:00",
        "operation": operation,
        "parameters": json.dumps(parameters or {}),
    }


def _table(*entries: dict[str, Any], **changes: Any) -> Table:
    """Return a table with the versions 3 to 7. `entries` replace some of its log entries."""
    log = {version: _entry(version) for version in range(3, 8)}
    log |= {entry["version"]: entry for entry in entries}
    newest_first = [log[version] for version in sorted(log, reverse=True)]
    version = newest_first[0]["version"]
    kept = {"delta.deletedFileRetentionDuration": "interval 36500 days"}
    table = {"version": version, "id": "u1", "complete": True, "log": newest_first}
    return {**table, "properties": kept, **changes}


def _vacuum(version: int, retention: int | None, default: int = 168 * HOUR) -> dict[str, Any]:
    """Return a VACUUM that kept files for this time plus two hours, which the macro allows for a
    wrong clock.
    """
    default += CLOCK_CHANGE
    parameters = {"retentionCheckEnabled": "false", "defaultRetentionMillis": str(default)}
    if retention is not None:
        parameters["specifiedRetentionMillis"] = str(retention + CLOCK_CHANGE)
    return _entry(version, "VACUUM START", parameters)


@pytest.fixture
def gap(macros: Macros) -> Callable[..., str | None]:
    """Return the reason for a gap. Raise the refusal if the gap has one."""

    def gap(table: Table, since: int = 4, id: str = "u1", kind: str = "delta") -> str | None:
        committed = {"version": str(since), "id": id, "kind": kind}
        answer = macros.call("delta_upstream_gap", table, committed)
        if answer and answer["refusal"]:
            macros.call("refuse", **answer["refusal"])
        return answer and answer["reason"]

    return gap


@pytest.mark.parametrize(
    ("recorded", "is_same"),
    [
        ("2024-05-01 04:00:00", True),
        ("2024-05-01 05:00:00.001", True),  # Delta has moved the time after an equal one
        ("2024-04-30 22:30:00", True),  # a client in another time zone
        ("2024-05-01 09:45:00", True),
        ("2024-05-01 04:00:00.5", False),
        ("2024-05-01 03:59:17", False),
        (None, True),
    ],
)
def test_a_version_that_is_another_commit_is_a_gap(
    macros: Macros, recorded: str | None, is_same: bool
) -> None:
    """It is a gap even if the upstream has no later version."""
    for version in (4, 7):
        shown = recorded and recorded.replace("05-01 04", f"05-01 {version:02}")
        source = {"version": str(version), "id": "u1", "kind": "delta", "committed_at": shown}
        assert macros.call("_is_recorded_commit", _table(), source) is is_same
        table = {**_table(), "has_other_commit": not is_same}  # as delta_read_upstream says
        assert (macros.call("delta_upstream_gap", table, source) is None) is is_same
        assert macros.call("delta_continues_upstream", table, source) is is_same
        assert macros.call("delta_upstream_readable", _table(), source) is is_same


@pytest.fixture
def readable(macros: Macros) -> Callable[..., bool]:
    """True if a version can be read. `now` is Spark's time, by default the time of this machine."""

    def readable(table: Table, version: Any, id: str = "u1", now: Any = None) -> bool:
        macros.results = [[{"now": now or datetime.now()}]]
        source = {"version": version, "id": id}
        return bool(macros.call("delta_upstream_readable", table, source))

    return readable


@pytest.mark.parametrize(
    "operation",
    [
        "WRITE",
        "MERGE",
        "UPDATE",
        "DELETE",
        "TRUNCATE",
        "OPTIMIZE",
        "REORG",
        "ADD COLUMNS",
        "ADD CONSTRAINT",
        "VACUUM END",
        "UPGRADE PROTOCOL",
        "COMPUTE STATS",
    ],
)
def test_the_feed_tells_what_an_operation_changed(gap: Callable[..., Any], operation: str) -> None:
    assert gap(_table(_entry(6, operation))) is None


@pytest.mark.parametrize(
    "operation",
    [
        "REPLACE TABLE",
        "REPLACE TABLE AS SELECT",
        "CREATE OR REPLACE TABLE",
        "CREATE OR REPLACE TABLE AS SELECT",
        "CREATE TABLE",
        "CREATE TABLE AS SELECT",
        "CLONE",
        "CONVERT",
        "REMOVE COLUMN MAPPING",
    ],
)
def test_a_table_that_was_replaced_is_a_gap(
    macros: Macros, gap: Callable[..., Any], up: Any, operation: str
) -> None:
    macros.results = [FEED_ON]

    assert gap(_table(_entry(6, operation), relation=up)) == (
        "the upstream was replaced in version 6"
    )


@pytest.mark.parametrize(
    ("operation", "parameters", "replaced"),
    [
        ("WRITE", {"mode": "Overwrite", "partitionBy": "[]"}, True),
        ("WRITE", {"mode": "Overwrite", "partitionBy": '["predicate"]'}, True),
        ("WRITE", {"mode": "Overwrite", "isDynamicPartitionOverwrite": "false"}, True),
        ("WRITE", {"mode": "Overwrite", "isDynamicPartitionOverwrite": "true"}, False),
        ("WRITE", {"mode": "Overwrite", "predicate": "(day = 1)"}, False),
        ("WRITE", {"mode": "Overwrite", "replaceUsingCols": "(day)"}, False),
        ("WRITE", {"mode": "Append", "userMetadata": "Overwrite"}, False),
        ("STREAMING UPDATE", {"outputMode": "Complete"}, True),
        ("STREAMING UPDATE", {"outputMode": "Append"}, False),
    ],
)
def test_a_table_that_was_overwritten_whole_is_a_gap(
    macros: Macros,
    gap: Callable[..., Any],
    up: Any,
    operation: str,
    parameters: dict[str, str],
    replaced: bool,
) -> None:
    """The log does not always show that an overwrite has changed the columns."""
    macros.results = [FEED_ON] * 2
    entry = _entry(6, operation, parameters)

    for shape in (entry["parameters"], parameters):
        table = _table({**entry, "parameters": shape}, relation=up)
        assert gap(table) == ("the upstream was replaced in version 6" if replaced else None)


def test_a_table_that_was_restored_is_a_gap(
    macros: Macros, gap: Callable[..., Any], up: Any
) -> None:
    """After a restore, columns may be other columns with the same names."""
    macros.results = [FEED_ON]

    assert gap(_table(_entry(6, "RESTORE"), relation=up)) == (
        "the upstream was restored in version 6"
    )


@pytest.mark.parametrize("operation", ["CREATE OR REPLACE TABLE AS SELECT", "RESTORE"])
def test_a_table_that_lost_its_feed_with_that_is_refused(
    macros: Macros, gap: Callable[..., Any], refused: Any, up: Any, operation: str
) -> None:
    macros.results = [[{"id": "u1", "properties": {}}]]

    with refused("lake.up has no change data feed, "):
        gap(_table(_entry(6, operation), relation=up))


@pytest.mark.parametrize(
    "operation",
    ["RENAME COLUMN", "DROP COLUMNS", "REPLACE COLUMNS", "UPDATE SCHEMA"],
)
def test_columns_that_were_changed_are_a_gap(gap: Callable[..., Any], operation: str) -> None:
    assert gap(_table(_entry(6, operation))) == "columns of the upstream were changed in version 6"


@pytest.mark.parametrize("operation", ["CHANGE COLUMN", "CHANGE COLUMNS"])
@pytest.mark.parametrize("moved", [True, False])
@pytest.mark.parametrize("as_text", [True, False], ids=["text", "map"])
def test_a_changed_column_is_a_gap_of_the_log_if_it_was_moved(
    gap: Callable[..., Any], operation: str, moved: bool, as_text: bool
) -> None:
    """The log shows the column after the change only, so another type is found elsewhere."""
    column: dict[str, Any] = {"name": "position", "metadata": {"comment": "its position: x"}}
    place = {"position": "FIRST"} if moved else {}
    parameters: Any = {"column": json.dumps(column), **place}
    if operation == "CHANGE COLUMNS":
        parameters = {"columns": json.dumps([{"column": column, **place}], separators=(",", ":"))}
    entry = {**_entry(6, operation), "parameters": parameters}
    if as_text:
        entry["parameters"] = json.dumps(parameters, separators=(",", ":"))

    assert gap(_table(entry)) == (
        "columns of the upstream were changed in version 6" if moved else None
    )


@pytest.mark.parametrize(("name", "is_gap"), [("c", False), ("addr.zip", True), ("a.b.c", True)])
@pytest.mark.parametrize("as_text", [True, False], ids=["text", "map"])
def test_a_field_that_was_added_to_a_column_is_a_gap(
    gap: Callable[..., Any], name: str, is_gap: bool, as_text: bool
) -> None:
    """If the query reads the whole column, the values of the column have changed."""
    comment = {"comment": "the name, e.g. Smith"}
    added = {"column": {"name": name, "type": "string", "nullable": True, "metadata": comment}}
    parameters: Any = {"columns": json.dumps([added], separators=(",", ":"))}
    entry = {**_entry(6, "ADD COLUMNS"), "parameters": parameters}
    if as_text:
        entry["parameters"] = json.dumps(parameters)

    told = "columns of the upstream were changed in version 6"
    assert gap(_table(entry)) == (told if is_gap else None)


@pytest.mark.parametrize("operation", ["SET TBLPROPERTIES", "UNSET TBLPROPERTIES"])
def test_a_feed_that_was_switched_is_a_gap(
    macros: Macros, gap: Callable[..., Any], operation: str
) -> None:
    macros.results = [FEED_ON]
    properties = {"properties": '{"delta.enableChangeDataFeed":"false"}'}
    table = {
        **_table(_entry(6, operation, properties)),
        "relation": SimpleNamespace(render=lambda: "lake.up", identifier="up"),
    }

    assert gap(table) == "the change data feed was switched in version 6"


def test_a_feed_that_is_off_is_refused(
    macros: Macros, gap: Callable[..., Any], refused: Any, up: Any
) -> None:
    """A re-anchor would help only once, because the next barrier would have the same gap."""
    macros.results = [[{"id": "u1", "properties": {"delta.enableChangeDataFeed": "false"}}]]
    properties = {"properties": '{"delta.enableChangeDataFeed":"false"}'}

    with refused("lake.up has no change data feed, "):
        gap(_table(_entry(6, "SET TBLPROPERTIES", properties), relation=up))


@pytest.mark.parametrize("text", [False, True])
def test_a_feed_that_is_switched_on_again_is_no_gap(gap: Callable[..., Any], text: bool) -> None:
    properties = {"properties": '{"a":"b","delta.enableChangeDataFeed":"true"}'}
    entry = _entry(6, "SET TBLPROPERTIES", properties)
    if text:  # as a Thrift server returns it
        entry["parameters"] = '{"properties":"{"a":"b","delta.enableChangeDataFeed":"true"}"}'
    assert gap(_table(entry)) is None


@pytest.mark.parametrize(
    ("operation", "parameters", "replaced"),
    [
        ("WRITE", '{"mode":"Overwrite","partitionBy":"["a","predicate"]"}', True),
        ("WRITE", '{"mode":"Overwrite","predicate":"["(a = \'mode\')"]"}', False),
        ("WRITE", '{"partitionBy":"["a"]","isDynamicPartitionOverwrite":"true",', False),
        ("WRITE", '{"partitionBy":"["a"]", Overwrite', True),
        ("WRITE", '{"mode":"Append","partitionBy":"["Overwrite"]"}', False),
        ("STREAMING UPDATE", '{"outputMode":"Append","queryId":"a"b"}', False),
        ("STREAMING UPDATE", '{"queryId":"a"b"}', True),
    ],
)
def test_parameters_whose_quotes_are_not_escaped_are_read_by_name(
    macros: Macros,
    gap: Callable[..., Any],
    up: Any,
    operation: str,
    parameters: str,
    replaced: bool,
) -> None:
    """An overwrite of which nothing is known counts as an overwrite of the whole table."""
    macros.results = [FEED_ON]
    if "Overwrite" not in parameters and operation == "WRITE":
        parameters += '"mode":"Overwrite"}'
    told = gap(_table({**_entry(6, operation), "parameters": parameters}, relation=up))
    assert told == ("the upstream was replaced in version 6" if replaced else None)


def test_another_property_is_no_gap(gap: Callable[..., Any]) -> None:
    properties = {"properties": '{"delta.deletedFileRetentionDuration":"interval 1 day"}'}

    assert gap(_table(_entry(6, "SET TBLPROPERTIES", properties))) is None


@pytest.mark.parametrize("version", [3, 4])
def test_what_happened_up_to_the_committed_version_is_no_gap(
    gap: Callable[..., Any], version: int
) -> None:
    assert gap(_table(_entry(version, "CREATE OR REPLACE TABLE AS SELECT"))) is None


def test_what_happened_right_after_the_committed_version_is_a_gap(
    macros: Macros, gap: Callable[..., Any], up: Any
) -> None:
    macros.results = [FEED_ON]

    assert gap(_table(_entry(5, "REPLACE TABLE"), relation=up)) == (
        "the upstream was replaced in version 5"
    )


def test_a_table_with_another_id_is_a_gap(gap: Callable[..., Any]) -> None:
    """A table that was dropped and created again may reach the same version."""
    for since in [4, 7]:
        assert gap(_table(), since, id="u0") == (
            "the upstream is another table than at the last barrier"
        )


def test_a_table_that_was_another_format_is_a_gap(gap: Callable[..., Any]) -> None:
    assert gap(_table(), kind="iceberg") == "the upstream is another table than at the last barrier"


def test_a_table_that_went_back_is_a_gap(gap: Callable[..., Any]) -> None:
    assert gap(_table(), since=9) == "the upstream went back from version 9 to 7"


def test_a_log_that_does_not_reach_back_is_a_gap(gap: Callable[..., Any]) -> None:
    assert gap(_table(complete=False), since=4) == (
        "the log of the upstream no longer reaches back to version 4"
    )


def test_nothing_new_is_no_gap(gap: Callable[..., Any]) -> None:
    assert gap(_table(_entry(7, "REPLACE TABLE")), since=7) is None


def test_changes_whose_files_were_vacuumed_are_a_gap(gap: Callable[..., Any]) -> None:
    assert gap(_table(_vacuum(7, HOUR // 2))) == "the changes since version 4 were vacuumed"


@pytest.mark.parametrize(
    ("operation", "parameters", "lost"),
    [
        ("UPDATE", {}, True),
        ("DELETE", {}, True),
        ("WRITE", {"mode": "Overwrite", "predicate": "(day = 1)"}, True),
        ("WRITE", {"mode": "Append"}, False),
    ],
)
def test_change_files_go_before_the_files_of_their_version(
    gap: Callable[..., Any], operation: str, parameters: Any, lost: bool
) -> None:
    table = _table(_entry(5, operation, parameters), _vacuum(7, 3 * HOUR // 2))

    assert gap(table) == ("the changes since version 4 were vacuumed" if lost else None)


def test_a_vacuum_that_kept_the_changes_is_no_gap(gap: Callable[..., Any]) -> None:
    assert gap(_table(_vacuum(7, 2 * HOUR))) is None


def test_a_vacuum_takes_no_changes_that_come_after_it(gap: Callable[..., Any]) -> None:
    assert gap(_table(_vacuum(5, -CLOCK_CHANGE), _entry(6, "UPDATE")), since=5) is None


@pytest.mark.parametrize(("retention", "lost"), [(3, True), (5, False)])
def test_a_clock_that_was_set_back_hides_no_vacuum(
    gap: Callable[..., Any], retention: int, lost: bool
) -> None:
    """If a clock was set back, more time has passed than the difference of two times in the log."""
    table = _table(_entry(5, "UPDATE"), _vacuum(7, retention * HOUR - CLOCK_CHANGE))

    assert gap(table) == ("the changes since version 4 were vacuumed" if lost else None)


@pytest.mark.parametrize(
    ("since", "id", "continues"),
    [(4, "u1", True), (7, "u1", True), (8, "u1", False), (4, "u0", False)],
)
def test_a_table_continues_unless_it_was_replaced_or_went_back(
    macros: Macros, since: int, id: str, continues: bool
) -> None:
    committed = {"version": str(since), "id": id}

    assert macros.call("delta_continues_upstream", _table(), committed) is continues


@pytest.mark.parametrize(
    ("since", "id", "lag"),
    [
        (7, "u1", {"versions": 0, "since": None}),
        (5, "u1", {"versions": 2, "since": "2024-05-01 06:00:00"}),
        (8, "u1", None),
        (5, "u0", None),
    ],
)
def test_how_far_a_version_is_behind_is_read_off_the_log(
    macros: Macros, since: int, id: str, lag: Any
) -> None:
    source = {"version": str(since), "id": id, "kind": "delta"}

    assert macros.call("delta_upstream_lag", _table(), source) == lag


@pytest.mark.parametrize(
    "operation",
    ["CREATE OR REPLACE TABLE AS SELECT", "REPLACE TABLE", "RESTORE", "RENAME COLUMN"],
)
def test_a_table_that_was_replaced_in_place_does_not_continue(
    macros: Macros, operation: str
) -> None:
    """If the MV reads a change table, only this check finds that the upstream has other rows."""
    committed = {"version": "5", "id": "u1"}
    upstream = _table(_entry(6, operation))

    assert macros.call("delta_continues_upstream", upstream, committed) is False


# -- old versions -----------------------------------------------------------------------------


def test_a_version_in_the_log_can_be_read(readable: Callable[..., bool]) -> None:
    assert [readable(_table(), version) for version in [3, "4", 7]] == [True, True, True]


def test_a_version_that_the_log_does_not_have_cannot_be_read(
    readable: Callable[..., bool],
) -> None:
    assert [readable(_table(), version) for version in [2, 8]] == [False, False]


def test_a_version_of_another_table_cannot_be_read(readable: Callable[..., bool]) -> None:
    assert [readable(_table(), version, "u0") for version in [4, 7]] == [False, False]


@pytest.mark.parametrize(
    ("retention", "oldest"),
    [
        (0, 7),  # retention ends at 7: the VACUUM itself superseded version 6
        (HOUR // 2, 6),  # retention ends at half past 6
        (HOUR, 6),  # retention ends at 6: version 5 was superseded at 6
        (HOUR + 1, 5),
        (3 * HOUR + 1, 3),
    ],
)
def test_a_vacuum_takes_the_versions_that_were_superseded_before_its_horizon(
    readable: Callable[..., bool], retention: int, oldest: int
) -> None:
    table = _table(_vacuum(7, retention), _entry(8, "VACUUM END"))

    assert [v for v in range(3, 9) if readable(table, v)] == list(range(oldest, 9))


def test_a_vacuum_without_a_retention_keeps_the_tables(readable: Callable[..., bool]) -> None:
    table = _table(_vacuum(7, None, default=HOUR // 2), _entry(8, "VACUUM END"))

    assert [v for v in range(3, 9) if readable(table, v)] == [6, 7, 8]
    assert readable(_table(_vacuum(7, None)), 3)


def test_every_vacuum_counts(readable: Callable[..., bool]) -> None:
    table = _table(_vacuum(5, 0), _vacuum(7, 100 * HOUR))

    assert [v for v in range(3, 8) if readable(table, v)] == [5, 6, 7]


def test_a_vacuum_before_a_version_does_not_concern_it(readable: Callable[..., bool]) -> None:
    assert readable(_table(_vacuum(5, 0)), 5)


def test_the_end_of_a_vacuum_alone_takes_nothing(readable: Callable[..., bool]) -> None:
    assert readable(_table(_entry(7, "VACUUM END", {"status": "COMPLETED"})), 3)


def test_the_time_of_a_version_may_have_fractions(readable: Callable[..., bool]) -> None:
    table = _table(_vacuum(7, HOUR))
    next(e for e in table["log"] if e["version"] == 6)["committed_at"] = "2024-05-01 06:00:00.001"

    assert readable(table, 5)


# -- retention --------------------------------------------------------------------------------


def _aged(retention: str | None, *days: float) -> Table:
    """Return a table whose versions 3, 4, … were committed these numbers of days ago."""
    properties = {"delta.deletedFileRetentionDuration": retention} if retention else {"other": "1"}
    table = _table(properties=properties)
    table["log"] = table["log"][-len(days) :]
    table["version"] = table["log"][0]["version"]
    for entry, age in zip(reversed(table["log"]), days, strict=True):
        entry["committed_at"] = str(datetime.now() - timedelta(days=age))
    return table


@pytest.mark.parametrize(
    ("retention", "oldest"),
    [
        (None, 5),  # the default is a week
        ("interval 1 week", 5),
        ("interval 2 weeks", 4),
        ("interval 40 days", 3),
        ("interval 168 hours", 5),
        ("interval 1 day", 7),
        ("interval 1 week 5 days", 4),
        ("INTERVAL 10 DAYS", 4),
    ],
)
def test_delta_reads_no_version_past_its_retention(
    readable: Callable[..., bool], retention: str | None, oldest: int
) -> None:
    """Delta refuses such a version even if no VACUUM has run. The current version can always be
    read.
    """
    table = _aged(retention, 20, 7.5, 6.5, 1.5, 1.2)

    assert [v for v in range(3, 8) if readable(table, v)] == list(range(oldest, 8))


def test_the_current_version_is_read_however_old(readable: Callable[..., bool]) -> None:
    assert readable(_aged("interval 1 day", 99, 98, 97), 5)


def test_the_retention_is_asked_for_only_where_a_version_is_older_than_a_day(
    macros: Macros, readable: Callable[..., bool]
) -> None:
    asked: list[Any] = []
    macros.stub(
        "read_delta_detail",
        lambda relation: (
            asked.append(relation)
            or {"properties": {"delta.deletedFileRetentionDuration": "interval 1 day"}}
        ),
    )
    young = {**_aged(None, 0.4, 0.2, 0.1), "properties": None, "relation": "lake.up"}
    old = {**_aged(None, 3, 2, 0.1), "properties": None, "relation": "lake.up"}

    assert readable(young, 3) and asked == []
    assert not readable(old, 3) and asked == ["lake.up"]


@pytest.mark.parametrize(
    ("ahead", "is_readable"),
    [
        (-9, True),
        (0, True),
        (2, True),
        (3, False),  # only 1.8 hours remain, and a clock may be set back by two hours
        (9, False),
    ],
)
def test_sparks_clock_counts_where_it_matters(
    readable: Callable[..., bool], ahead: int, is_readable: bool
) -> None:
    """A Thrift server returns times as text in the session's zone, not in the client's zone."""
    table = _aged("interval 1 week", 6.8, 0.1)
    now = datetime.now() + timedelta(hours=ahead)

    assert readable(table, 3, now=str(now)) is is_readable


def test_changes_past_the_retention_are_a_gap(gap: Callable[..., Any]) -> None:
    table = _aged("interval 1 week", 20, 9, 3)

    assert gap(table, since=3) == "the changes since version 3 were vacuumed"
    assert gap(table, since=4) is None
