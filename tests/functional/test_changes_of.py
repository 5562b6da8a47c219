"""A jaffle shop: a source, a staging model, a `backfilled_mv`, and an aggregate of its changes."""

from __future__ import annotations

import json
from collections.abc import Callable

import pytest

from support.checks import assert_refused, model, source
from support.profiles import with_views
from support.project import Project, crash_before

STAGE = (
    f"select id as order_id, customer_id, ordered_on, cents / 100 as amount from {source('raw')}"
)
ORDERS = """
select
    md5(concat(cast(order_id as string), '-order')) as order_key, order_id, customer_id, ordered_on,
    amount, current_timestamp() as loaded_at
from {{ ref('stg_orders') }} where amount >= 0
"""
REVENUE = """
{{ config(materialized='incremental', incremental_strategy='merge', file_format='FORMAT',
    unique_key=['ordered_on', 'customer_id']) }}
{%- set changes = dbt_backfill.changes_of(ref('orders')) %}
with changed as (select distinct ordered_on, customer_id from {{ changes.rows }})
select
    changed.ordered_on, changed.customer_id,
    coalesce(sum(o.amount), 0) as revenue, count(o.order_id) as orders,
    {{ changes.mark }} as mv_version
from changed left join {{ changes.table }} as o
    on o.ordered_on = changed.ordered_on and o.customer_id = changed.customer_id
group by changed.ordered_on, changed.customer_id
"""
WANTED = """
select ordered_on, customer_id, sum(amount), count(*) from {schema}.orders
group by ordered_on, customer_id order by 1, 2
"""
FOUND = """
select ordered_on, customer_id, revenue, orders from {schema}.daily_revenue
where orders > 0 order by 1, 2
"""
FEATURES = {
    "models": [
        {
            "name": "orders",
            "config": {"contract": {"enforced": True}},
            "columns": [
                {"name": "order_key", "data_type": "string", "data_tests": ["unique"]},
                {"name": "order_id", "data_type": "bigint", "data_tests": ["unique", "not_null"]},
                {"name": "customer_id", "data_type": "int"},
                {"name": "ordered_on", "data_type": "date"},
                {"name": "amount", "data_type": "double"},
                {"name": "loaded_at", "data_type": "timestamp", "description": "last written"},
            ],
        }
    ],
    "unit_tests": [
        {
            "name": "negative_amounts_are_left_out",
            "model": "orders",
            "given": [
                {
                    "input": "ref('stg_orders')",
                    "format": "sql",
                    "rows": "select bigint(1) as order_id, 2 as customer_id, "
                    "date'2026-01-01' as ordered_on, 3.5d as amount union all "
                    "select 2, 2, date'2026-01-01', -1d",
                }
            ],
            "expect": {"rows": [{"order_id": 1, "amount": 3.5}]},
        },
        {
            "name": "amounts_are_added_up",
            "model": "daily_revenue",
            "overrides": {"macros": {"is_incremental": True}},
            "given": [
                {
                    "input": "ref('orders')",
                    "rows": [
                        {"order_id": 1, "customer_id": 2, "ordered_on": "2026-01-01", "amount": 1},
                        {"order_id": 2, "customer_id": 2, "ordered_on": "2026-01-01", "amount": 2},
                    ],
                }
            ],
            "expect": {"rows": [{"customer_id": 2, "revenue": 3.0, "orders": 2}]},
        },
    ],
}
FEED = {"tblproperties": {"delta.enableChangeDataFeed": "true"}}


def new_shop(project: Project, stage: str, **config: object) -> Project:
    project.create_table("raw", "id bigint, customer_id int, ordered_on date, cents int")
    project.sql(
        "insert into {schema}.raw select id, cast(id % 5 as int), "
        "date_add(date'2026-01-01', cast(id % 3 as int)), cast(id * 100 as int) from range(1, 61)"
    )
    feed = FEED if project.file_format == "delta" else {}
    orders = {"unique_key": "order_id", "volatile_columns": ["loaded_at"]}
    models = {
        "stg_orders": f"{{{{ config(materialized='{stage}') }}}}\n{STAGE}",
        "orders": model(ORDERS, backfill_rate_limit=20, **{**orders, **feed, **config}),
        "daily_revenue": REVENUE.replace("FORMAT", project.file_format),
    }
    project.write(models, sources=["raw"])
    return project


def change(project: Project, turn: int) -> None:
    project.sql(f"update {{schema}}.raw set cents = cents + 700 where id % 9 = {turn}")
    project.sql(
        "update {schema}.raw set customer_id = (customer_id + 1) % 5, ordered_on = "
        f"date_add(ordered_on, 1) where id % 7 = {turn}"
    )
    project.sql(f"delete from {{schema}}.raw where id % 11 = {turn}")
    project.sql(f"insert into {{schema}}.raw values ({100 + turn}, 9, date'2026-02-01', 500)")
    project.sql(f"update {{schema}}.raw set cents = -cents where id % 13 = {turn}")


def assert_aggregated(project: Project) -> None:
    assert project.rows(FOUND) == project.rows(WANTED)


@pytest.mark.every_profile
@pytest.mark.parametrize(
    "stage",
    [
        pytest.param("ephemeral", marks=pytest.mark.core("session-iceberg")),
        pytest.param("view", marks=with_views),
    ],
)
def test_an_aggregate_follows_the_mv(new_project: Callable[[], Project], stage: str) -> None:
    project = new_shop(new_project(), stage)
    project.configure({"spark.sql.ansi.enabled": "false"})  # see test_views.py
    for turn in range(5):
        project.run()
        assert_aggregated(project)
        change(project, turn)
        if turn == 3:
            # The aggregate reads the MV between the two statements of a barrier.
            project.fail("--select", "orders", intercept=crash_before("commit the barrier"))
            project.run("--select", "daily_revenue")
            assert_aggregated(project)
    project.run()
    assert_aggregated(project)
    project.run("--select", "daily_revenue")
    newest = project.rows("select max(mv_version) from {schema}.daily_revenue")
    project.run("--empty", "--select", "daily_revenue")
    assert_aggregated(project)
    assert project.rows("select max(mv_version) from {schema}.daily_revenue") == newest

    project.run("--full-refresh", "--select", "orders")
    while project.run("--select", "orders").message("orders") != "CAUGHT UP":
        pass
    assert_refused(project.fail("--select", "daily_revenue"), "daily_revenue", "--full-refresh")
    project.run("--full-refresh", "--select", "daily_revenue")
    assert_aggregated(project)


@pytest.mark.profiles("session-delta", reason="a Delta table may have no change data feed")
def test_an_mv_without_changes_is_refused(new_project: Callable[[], Project]) -> None:
    project = new_shop(new_project(), "ephemeral", tblproperties=None)
    project.run("--select", "orders")
    assert_refused(
        project.fail("--select", "daily_revenue"), "daily_revenue", "has no change data feed"
    )
    project.sql(
        "alter table {schema}.orders set tblproperties ('delta.enableChangeDataFeed' = 'true')"
    )
    project.run("--select", "daily_revenue")
    project.sql("alter table {schema}.orders unset tblproperties ('delta.enableChangeDataFeed')")
    project.run("--select", "orders")
    assert_refused(
        project.fail("--select", "daily_revenue"), "daily_revenue", "switched", "--full-refresh"
    )


@pytest.mark.profiles("session-delta", reason="independent of the table format")
def test_what_is_no_mv_is_refused(new_project: Callable[[], Project]) -> None:
    project = new_shop(new_project(), "ephemeral")
    other = REVENUE.replace("FORMAT", "delta").replace("ref('orders')", "source('lake', 'raw')")
    project.write({"of_a_source": other}, sources=["raw"])

    refused = project.fail("--select", "of_a_source", "daily_revenue")

    assert_refused(refused, "of_a_source", "is no backfilled_mv of the project")
    assert_refused(refused, "daily_revenue", "does not exist", "Run that model first")
    project.dbt("compile")

    project.sql("create view {schema}.orders as select 1 as order_id")
    assert_refused(project.fail("--select", "daily_revenue"), "daily_revenue", "is neither a Delta")
    project.sql("drop view {schema}.orders")
    project.sql("create table {schema}.orders using delta as select 1 as order_id")
    refused = project.fail("--select", "daily_revenue")
    assert_refused(refused, "daily_revenue", "was not created by this package")
    project.sql("drop table {schema}.orders")
    project.run("--select", "orders", "daily_revenue")
    project.sql("update {schema}.daily_revenue set mv_version = null")
    refused = project.fail("--select", "daily_revenue")
    assert_refused(refused, "daily_revenue", "no mark of changes_of", "--full-refresh")
    project.run("--full-refresh", "--select", "daily_revenue")
    assert_aggregated(project)


@pytest.mark.every_profile
def test_values_that_a_feed_alters_are_refused(new_project: Callable[[], Project]) -> None:
    project = new_shop(new_project(), "ephemeral")
    project.run()
    # Ten days that the feed shows as the 15th.
    project.sql("update {schema}.raw set ordered_on = date'1582-10-10' where id = 3")
    project.run("--select", "orders")
    if project.file_format == "delta":
        refused = project.fail("--select", "daily_revenue")
        assert "does not show each value of ordered_on" in refused.message("daily_revenue")
        project.run("--full-refresh", "--select", "daily_revenue")
    else:  # The changes of Iceberg's format 3 are read from the table itself.
        project.run("--select", "daily_revenue")
    assert_aggregated(project)

    # A column that the aggregate does not use is not checked.
    project.sql("update {schema}.raw set cents = 5 where id = 4")
    project.run()
    assert_aggregated(project)


@pytest.mark.profiles("session-delta", reason="a retyped column of Iceberg is a gap of its own")
def test_a_widened_column_is_refused(new_project: Callable[[], Project]) -> None:
    widening = {"tblproperties": {**FEED["tblproperties"], "delta.enableTypeWidening": "true"}}
    project = new_shop(new_project(), "ephemeral", **widening, on_schema_change="sync_all_columns")
    project.run()
    stage = STAGE.replace("customer_id,", "cast(customer_id as bigint) as customer_id,")
    project.write({"stg_orders": "{{ config(materialized='ephemeral') }}\n" + stage})
    project.run("--select", "orders")
    assert_refused(
        project.fail("--select", "daily_revenue"),
        "daily_revenue",
        "because its columns have changed",
        "--full-refresh",
    )
    project.run("--full-refresh", "--select", "daily_revenue")
    assert_aggregated(project)


@pytest.mark.every_profile
@pytest.mark.parametrize("stage", ["ephemeral", pytest.param("view", marks=with_views)])
def test_a_shop_has_the_features_of_dbt(new_project: Callable[[], Project], stage: str) -> None:
    """A contract, data tests and unit tests, and the commands that run no model."""
    project = new_shop(new_project(), stage)
    project.configure({"spark.sql.ansi.enabled": "false"})  # see test_views.py
    project.write({}, properties=FEATURES)
    project.keeps_artifacts = True
    for turn in range(2):
        built = project.dbt("build")
        assert {node.status for node in built.nodes} == {"success", "pass"}, built.output
        assert_aggregated(project)
        change(project, turn)

    shown = project.dbt("show", "--select", "daily_revenue", "--limit", "3").output
    assert "mv_version" in shown
    assert "loaded_at" in project.dbt("show", "--select", "orders", "--limit", "3").output
    compiled = project.dbt("compile", "--select", "daily_revenue").output
    assert "_change_type" in compiled
    project.dbt("docs", "generate")
    catalog = json.loads((project.root / "target" / "catalog.json").read_text())["nodes"]
    assert "loaded_at" in catalog["model.tested.orders"]["columns"]
    assert "mv_version" in catalog["model.tested.daily_revenue"]["columns"]

    project.dbt("build", "--empty")
    project.dbt("build")
    assert_aggregated(project)
    broken = FEATURES["unit_tests"][0] | {"expect": {"rows": [{"order_id": 2, "amount": -1.0}]}}
    project.write({}, properties=FEATURES | {"unit_tests": [broken]})
    failed = project.fail("test", "--select", "test_type:unit")
    assert "actual differs from expected" in failed.error
