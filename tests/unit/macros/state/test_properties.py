"""Properties of the state tables."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from support.formats import SERIALIZABLE
from support.macros import Macros


@pytest.fixture
def progress(macros: Macros, make_plan: Callable[..., Any]) -> Callable[[], dict[str, str]]:
    return lambda: macros.call("progress_properties", make_plan(epoch=0, kind="create"))


def test_two_runs_that_plan_or_commit_one_epoch_conflict(
    macros: Macros, progress: Callable[[], Any]
) -> None:
    exact = {"delta.isolationLevel": "Serializable", "delta.appendOnly": "false"}

    assert exact.items() <= macros.call("state_table_properties").items()
    assert exact.items() <= progress().items()


def test_the_state_is_copied_on_write_and_has_no_feed(
    macros: Macros, progress: Callable[[], Any]
) -> None:
    plain = {"delta.enableDeletionVectors": "false", "delta.enableChangeDataFeed": "false"}

    assert plain.items() <= macros.call("state_table_properties").items()
    assert plain.items() <= progress().items()


def test_statistics_are_kept_of_nothing_but_the_epochs_of_the_history(
    macros: Macros, progress: Callable[[], Any]
) -> None:
    """Gathering them is dear, and the progress table is one file."""
    name = "delta.dataSkippingNumIndexedCols"

    assert macros.call("state_table_properties")[name] == "1"
    assert progress()[name] == "0"


def test_the_progress_table_says_whose_it_is_and_of_which_format(
    macros: Macros, progress: Callable[[], Any]
) -> None:
    own = {"dbt_backfill.id": "b1", "dbt_backfill.format": "2"}

    for file_format in ["delta", "iceberg"]:
        macros.config["file_format"] = file_format
        assert own.items() <= progress().items()


def test_the_progress_table_takes_a_key_of_any_name_and_type_from_the_start(
    progress: Callable[[], Any],
) -> None:
    """A full refresh gives it other columns; these it could not get later."""
    assert progress()["delta.columnMapping.mode"] == "name"
    assert progress()["delta.feature.timestampNtz"] == "supported"


def test_the_history_needs_no_column_mapping(macros: Macros) -> None:
    assert "delta.columnMapping.mode" not in macros.call("state_table_properties")


@pytest.mark.usefixtures("iceberg")
def test_the_state_in_iceberg_conflicts_too_and_stays_one_file(
    macros: Macros, progress: Callable[[], Any]
) -> None:
    properties = {
        "format-version": "2",
        "write.metadata.delete-after-commit.enabled": "true",
        "write.merge.mode": "copy-on-write",
        "write.update.mode": "copy-on-write",
        "write.delete.mode": "copy-on-write",
        **SERIALIZABLE,
    }

    assert macros.call("state_table_properties") == properties
    assert progress() == {
        **properties,
        "dbt_backfill.id": "b1",
        "dbt_backfill.format": "2",
    }
