"""The current version of a Delta table, and the log since the committed version."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime, timedelta
from typing import Any

import pytest

from support.macros import Macros

START = datetime(2024, 5, 1, 10, 0, 0, 250_000)


def _at(version: int) -> datetime:
    return START + timedelta(minutes=version)


def _row(version: int, **columns: Any) -> dict[str, Any]:
    row = {
        "version": version,
        "timestamp": _at(version),
        "operation": "Write",
        "operationParameters": '{"mode":"Append"}',
    }
    return {**row, **columns}


def _since(version: int, **changes: Any) -> dict[str, Any]:
    """Return what the committed plan records about this version."""
    committed_at = f"{_at(version):%Y-%m-%d %H:%M:%S}.25"
    return {"version": str(version), "committed_at": committed_at, "id": "u1", **changes}


@pytest.fixture
def read(macros: Macros, up: Any) -> Callable[..., dict[str, Any]]:
    """Return what a run observes of a table with the versions 0 to `newest`."""

    def read(
        newest: int, since: Any = None, properties: Any = None, first: int = 0
    ) -> dict[str, Any]:
        on = {"delta.enableChangeDataFeed": "true"}
        detail = [{"id": "u2", "properties": on if properties is None else properties}]

        def answer(name: str, sql: str) -> Any:
            if "describe detail" in sql:
                rows: Any = detail
            elif "show tblproperties" in sql:
                rows = [("delta.minReaderVersion", "1"), ("made_by", '{"team":"x"}')]
            else:
                limit = int(sql.split("limit ")[1])
                oldest = max(first, newest - limit + 1)
                rows = [_row(version) for version in range(newest, oldest - 1, -1)]
            macros.results = [rows]
            return run(name, sql)

        run, macros._run = macros._run, answer  # type: ignore[method-assign]
        try:
            return macros.call("delta_read_upstream", {"relation": up}, since, None)
        finally:
            macros._run = run  # type: ignore[method-assign]

    return read


def test_the_current_version_is_the_newest_of_the_log(read: Callable[..., Any]) -> None:
    observed = read(3)

    assert (observed["version"], observed["committed_at"]) == ("3", "2024-05-01 10:03:00.25")
    assert [entry["version"] for entry in observed["log"]] == [3, 2, 1, 0]
    assert observed["log"][0] == {
        "version": 3,
        "committed_at": "2024-05-01 10:03:00.25",
        "operation": "WRITE",
        "parameters": '{"mode":"Append"}',
    }


def test_the_id_is_asked_for_at_the_first_barrier(macros: Macros, read: Any) -> None:
    assert read(3)["id"] == "u2"
    assert len(macros.statements) == 2


def test_the_id_is_known_while_the_log_has_the_committed_version_with_its_time(
    macros: Macros, read: Callable[..., Any]
) -> None:
    """Without a read of the id, every barrier needs one statement less."""
    observed = read(5, _since(3))

    assert (observed["id"], observed["complete"]) == ("u1", True)
    assert len(macros.statements) == 1


def test_the_id_is_asked_for_where_the_committed_version_has_another_time(
    read: Callable[..., Any],
) -> None:
    """Such a table was dropped and created again."""
    observed = read(5, _since(3, committed_at="2024-05-01 09:00:00"))

    assert (observed["id"], observed["complete"]) == ("u2", True)


def test_the_log_is_read_on_to_the_committed_version(read: Callable[..., Any]) -> None:
    observed = read(200, _since(60))

    assert (observed["id"], observed["complete"]) == ("u1", True)
    assert observed["log"][-1]["version"] <= 60


def test_a_log_that_was_cleaned_up_does_not_reach_back(read: Callable[..., Any]) -> None:
    observed = read(200, _since(60), first=100)

    assert (observed["id"], observed["complete"]) == ("u2", False)


def test_a_table_that_went_back_does_not_reach_back(macros: Macros, read: Any) -> None:
    observed = read(5, _since(60))

    assert (observed["version"], observed["id"], observed["complete"]) == ("5", "u2", False)


def test_a_committed_epoch_without_a_version_reaches_back_to_nothing(
    read: Callable[..., Any],
) -> None:
    """For example, a reset commits an epoch without a version."""
    observed = read(5, {"role": "upstream", "relation": "lake.up", "kind": "delta"})

    assert (observed["id"], observed["complete"]) == ("u2", False)


def test_properties_are_told_where_they_were_asked_for(read: Callable[..., Any]) -> None:
    assert read(3)["properties"] == {"delta.enableChangeDataFeed": "true"}
    assert "properties" not in read(5, _since(3))


def test_properties_that_come_as_text_are_read_by_another_statement(
    read: Callable[..., Any],
) -> None:
    """A Thrift server does not escape quotes in the text of a map."""
    assert read(3, properties={"a": "1"})["properties"] == {"a": "1"}
    assert read(3, properties='{"a": "1"}')["properties"] == {"a": "1"}  # as dbt writes JSON
    told = {"delta.minReaderVersion": "1", "made_by": '{"team":"x"}'}
    assert read(3, properties='{"made_by":"{"team":"x"}"}')["properties"] == told


@pytest.mark.parametrize(
    "properties", [{}, {"delta.enableChangeDataFeed": "false"}, '{"delta.minReaderVersion":"1"}']
)
def test_a_table_without_a_change_data_feed_is_refused_with_the_statement_to_run(
    macros: Macros, read: Callable[..., Any], refused: Any, properties: Any
) -> None:
    with refused(
        "lake.up has no change data feed, so the changes after its version 3 cannot be read. "
        "Run: ALTER TABLE lake.up SET TBLPROPERTIES "
        "('delta.enableChangeDataFeed' = 'true'); changes are recorded from version 4 on, and "
        "this statement creates that version."
    ):
        macros.call("delta_check_feed", read(3, properties=properties))


@pytest.mark.parametrize("value", ["true", "TRUE"])
def test_a_table_with_a_change_data_feed_is_let_pass(
    macros: Macros, read: Callable[..., Any], value: str
) -> None:
    macros.call("delta_check_feed", read(3, properties={"delta.enableChangeDataFeed": value}))


def test_a_table_whose_properties_were_not_asked_for_is_not_checked_again(
    macros: Macros, read: Callable[..., Any]
) -> None:
    macros.call("delta_check_feed", read(5, _since(3)))


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (datetime(2024, 5, 1, 10, 0), "2024-05-01 10:00:00"),
        (datetime(2024, 5, 1, 10, 0, 0, 500_000), "2024-05-01 10:00:00.5"),
        ("2024-05-01 10:00:00.500", "2024-05-01 10:00:00.5"),
        ("2024-05-01T10:00:00.000", "2024-05-01 10:00:00"),
        ("2024-05-01 10:00:00", "2024-05-01 10:00:00"),
    ],
)
def test_a_time_has_one_text_however_it_came(
    macros: Macros, up: Any, value: Any, text: str
) -> None:
    detail = [{"id": "u1", "properties": {}}]
    macros.results = [[_row(3, timestamp=value)], detail]

    observed = macros.call("delta_read_upstream", {"relation": up}, None)

    assert observed["committed_at"] == text


@pytest.mark.parametrize(
    ("since", "has_other"),
    [
        (_since(3), False),
        (_since(3, committed_at="2024-05-01 10:03:00.251"), False),
        (_since(3, committed_at="2024-05-01 08:03:00.25"), False),  # in another time zone
        (_since(3, committed_at="2024-05-01 10:03:05"), True),
        (_since(60), False),
        (None, False),
    ],
)
def test_another_commit_of_the_recorded_version_is_found(
    read: Callable[..., Any], since: Any, has_other: bool
) -> None:
    assert read(5, since)["has_other_commit"] is has_other
