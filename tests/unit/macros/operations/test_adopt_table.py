"""An existing table is marked, so that the next run of its model takes the table over."""

from __future__ import annotations

import json
from collections.abc import Callable
from hashlib import md5
from types import SimpleNamespace
from typing import Any

import pytest

from support.macros import Config, Macros, Table

Adopt = Callable[..., list[str]]


MARK = f"'dbt_backfill.adopt' = '{md5(b'model.p.mv').hexdigest()}'"


@pytest.fixture
def adopt(macros: Macros, stored: Callable[..., str]) -> Adopt:
    """Call adopt_table for the model `mv`, whose table may have a state `left`.

    Return the statements that are sent after the state was read.
    """
    config = Config(materialized="backfilled_mv", backfill_rate_limit=500000)
    node = {
        "unique_id": "model.p.mv", "resource_type": "model", "package_name": "p", "name": "mv",
        "alias": "mv", "schema": "lake", "config": config,
    }  # fmt: skip
    macros.context["graph"] = SimpleNamespace(nodes={"model.p.mv": node})

    def adopt(
        type: str = "table", left: Any = None, gone: bool = False, **properties: str
    ) -> list[str]:
        macros.statements.clear()
        macros.tables = {} if gone else {"lake.mv": Table(type=type, properties=properties)}
        macros.results = [[], [[json.dumps({"count": 1234567})]]]
        if left is not None:
            own = {"dbt_backfill.id": "b1", "dbt_backfill.format": "2"}
            macros.tables["lake.mv__progress"] = Table(properties=own)
            macros.results.insert(0, [[stored(**left)]])
        macros.call("adopt_table", "mv")
        return [" ".join(each.sql.split()) for each in macros.statements[left is not None :]]

    return adopt


def test_a_table_is_marked_for_its_model(macros: Macros, adopt: Adopt) -> None:
    """The mark is a hash, because Spark hides a property that contains `url`, such as in a model's
    name.
    """
    mark, count = adopt()

    assert mark.endswith(f"alter table lake.mv set tblproperties ( {MARK} )")
    assert "count(*)" in count
    assert macros.logged == [
        "mv: lake.mv will be adopted with its 1,234,567 rows. Stop all other writers of the table, "
        "and run the model: dbt run --select mv. The run checks the columns and keys of the table, "
        "and begins to compare its rows with the query, up to 500,000 rows of the upstream per "
        "barrier"
    ]


def test_what_a_run_that_died_has_left_is_marked_again(adopt: Adopt, make_plan: Any) -> None:
    begun = {"epoch": 0, "committed": make_plan(epoch=0, kind="adopt")}

    assert MARK in adopt(left=begun)[0]
    assert "'dbt_backfill.adopt'" in adopt(left=begun, **{"dbt_backfill.id": "b0"})[0]


def test_an_mv_is_left_alone(macros: Macros, adopt: Adopt) -> None:
    assert adopt(left={}, **{"dbt_backfill.id": "b1"}) == []
    assert macros.logged == ["mv: there is nothing to adopt; lake.mv is its MV, at the barrier 2"]


def test_what_cannot_be_adopted_is_refused(macros: Macros, adopt: Adopt, refused: Any) -> None:
    with refused("lake.mv does not exist. Run the model, which builds it: dbt run --select mv."):
        adopt(gone=True)
    with refused("lake.mv is a view, which has no rows of its own to adopt. Drop the view,"):
        adopt(type="view")
    with refused("lake.mv__progress exists, but is the state of an earlier table with the nam"):
        adopt(left={}, **{"dbt_backfill.id": "b2"})
    assert not any("alter table" in statement.sql for statement in macros.statements)


def test_an_unknown_argument_is_refused(macros: Macros, adopt: Adopt, refused: Any) -> None:
    with refused(
        "adopt_table has no argument 'table'. Correct or remove it. The only argument is model"
    ):
        macros.call("adopt_table", "mv", table="x")
