"""Follow the tutorial pages of docs/ word for word, in the order of these tests.

All pages use one project. Each page continues with the tables of the previous page.
"""

from __future__ import annotations

import contextlib
from decimal import Decimal

import pytest
import yaml

from support.pages import follow
from support.project import MakeProject, Project, RunResult

pytestmark = pytest.mark.profiles("session-delta", reason="the pages make Delta tables")


@pytest.fixture(scope="module")
def shop(shared_project: MakeProject) -> Project:
    shop = shared_project("shop")
    shop.keeps_artifacts = True
    return shop


def refused(results: list[RunResult]) -> list[int]:
    return [number for number, result in enumerate(results) if not result.success]


def test_the_quickstart(shop: Project) -> None:
    results = list(follow(shop, "quickstart.md"))

    assert refused(results) == []
    assert shop.rows("select * from {schema}.orders_paid where id in (7, 20, 1001)") == [
        (1001, "customer 1", Decimal("9.99")),
        (20, "customer 20", Decimal("30.00")),
    ]


def test_the_migration(shop: Project) -> None:
    results = list(follow(shop, "migration.md"))

    # Only the last command fails, because its table cannot be taken over.
    assert refused(results) == [len(results) - 1]
    late = "select id from {schema}.%s where id in (3, 31)"
    assert shop.rows(late % "orders_incremental") == [(3,)]
    assert shop.rows(late % "orders_backfilled") == [(31,)]


def test_life_with_dbt(shop: Project) -> None:
    profiles = yaml.safe_load((shop.root / "profiles.yml").read_text())
    outputs = profiles["lake"]["outputs"]
    outputs["ci"] = {**outputs["test"], "schema": "shop_ci"}
    shop.write({}, files={"profiles.yml": yaml.safe_dump(profiles)})

    with contextlib.chdir(shop.root):
        results = list(follow(shop, "life_with_dbt.md"))

    # One command fails: the query has changed, and the user must say what to do.
    [number] = refused(results)
    assert "its query changed" in results[number].error
    assert not shop.exists("orders_paid")
