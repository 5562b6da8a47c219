"""A full refresh empties the MV."""

from __future__ import annotations

from typing import Any

import pytest

from support.macros import Macros


@pytest.mark.parametrize(
    ("present", "retyped"),
    [
        ([["k", "bigint"]], False),
        ([["other", "bigint"], ["dropped", "string"]], False),
        ([["k", "string"]], True),
        # Iceberg treats `k` and `K` as one column, and the MV may be partitioned by `k`.
        ([["other", "bigint"], ["K", "string"]], True),
    ],
)
def test_a_column_of_another_type_takes_no_place_and_no_name_of_one_of_before(
    macros: Macros, relations: Any, present: Any, retyped: bool
) -> None:
    """A Hive metastore refuses to replace such an Iceberg table in one step, and every later run
    would fail.
    """
    macros.results = [present]
    columns = [{"name": "k", "type": "bigint"}]

    assert macros.call("is_retyped", relations["mv"], columns) is retyped
