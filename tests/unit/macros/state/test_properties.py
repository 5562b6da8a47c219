"""The properties of the state tables."""

from __future__ import annotations

import pytest

from support.formats import SERIALIZABLE
from support.macros import Macros

OWN = {"dbt_backfill.id": "b1", "dbt_backfill.format": "2"}


def test_two_runs_that_plan_or_commit_one_epoch_conflict(macros: Macros) -> None:
    """Without these properties, both runs would commit. Statistics are expensive, so only the
    epochs of the history have them.
    """
    state = {
        "delta.isolationLevel": "Serializable",
        "delta.appendOnly": "false",
        "delta.enableDeletionVectors": "false",
        "delta.enableChangeDataFeed": "false",
    }
    history = macros.call("state_table_properties")
    progress = macros.call("state_table_properties", "b1")

    assert history.items() >= {**state, "delta.dataSkippingNumIndexedCols": "1"}.items()
    assert "delta.columnMapping.mode" not in history
    assert progress.items() >= {**state, **OWN, "delta.dataSkippingNumIndexedCols": "0"}.items()
    # A full refresh adds columns for keys of any name and type. These properties cannot be set
    # later.
    assert progress["delta.columnMapping.mode"] == "name"
    assert progress["delta.feature.timestampNtz"] == "supported"


@pytest.mark.usefixtures("iceberg")
def test_the_state_in_iceberg_conflicts_too_and_stays_one_file(macros: Macros) -> None:
    properties = {
        "format-version": "2",
        "write.metadata.delete-after-commit.enabled": "true",
        "write.merge.mode": "copy-on-write",
        "write.update.mode": "copy-on-write",
        "write.delete.mode": "copy-on-write",
        **SERIALIZABLE,
    }
    progress = macros.call("state_table_properties", "b1")

    assert macros.call("state_table_properties") == properties
    assert progress == {**properties, **OWN}
