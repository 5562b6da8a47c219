"""Properties of the tables of an MV."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from support.formats import SERIALIZABLE
from support.macros import Macros


@pytest.mark.parametrize("name", ["time hour", "a,b", "a;b", "{a}", "(a)", "a\tb", "a=b", "a\nb"])
def test_a_name_that_delta_keeps_only_under_column_mapping_gets_it(
    macros: Macros, name: str
) -> None:
    properties = macros.call("mv_table_properties", ["a", name], "b1")

    assert properties["delta.columnMapping.mode"] == "name"


def test_column_mapping_is_left_off_where_no_name_needs_it(macros: Macros) -> None:
    """Some readers cannot read tables with column mapping."""
    properties = macros.call("mv_table_properties", ["a_1", "th_é-1"], "b1")

    assert "delta.columnMapping.mode" not in properties


def reader(name: str, reads: str, materialized: str = "backfilled_mv") -> dict[str, Any]:
    return {
        "resource_type": "model",
        "unique_id": f"model.p.{name}",
        "config": {"materialized": materialized},
        "depends_on": {"nodes": [f"model.p.{reads}"]},
    }


FOLLOWED = [
    ([], False),
    ([reader("mv", "other"), reader("a", "mv", "table"), reader("b", "a")], False),
    ([reader("a", "mv")], True),
]


@pytest.mark.parametrize(("nodes", "followed"), FOLLOWED)
@pytest.mark.parametrize("given", [{}, {"delta.enableChangeDataFeed": "false"}])
def test_an_mv_has_a_feed_if_another_follows_it(
    macros: Macros, nodes: list[dict[str, Any]], followed: bool, given: dict[str, str]
) -> None:
    macros.context["graph"].nodes = {node["unique_id"]: node for node in nodes}
    macros.config["tblproperties"] = given
    feed = "true" if followed else None

    properties = macros.call("mv_table_properties", ["a"], "b1")
    assert properties.get("delta.enableChangeDataFeed") == given.get(
        "delta.enableChangeDataFeed", feed
    )
    macros.call("run_switch_of_feed", {"mv": macros.relation}, {"properties": {}})
    assert len(macros.statements) == (followed and not given)


def test_an_mv_is_merged_into_cheaply(macros: Macros) -> None:
    assert macros.call("mv_table_properties", ["a"], "b1") == {
        "delta.enableDeletionVectors": "true",
        "delta.isolationLevel": "Serializable",
        "delta.appendOnly": "false",
        "dbt_backfill.id": "b1",
        "dbt_backfill.format": "2",
    }


@pytest.mark.usefixtures("iceberg")
def test_an_mv_in_iceberg_can_be_followed_and_is_merged_into_cheaply(macros: Macros) -> None:
    assert macros.call("mv_table_properties", ["time hour"], "b1") == {
        "format-version": "3",
        "write.merge.distribution-mode": "none",
        "write.merge.mode": "merge-on-read",
        "write.update.mode": "merge-on-read",
        "write.delete.mode": "merge-on-read",
        **SERIALIZABLE,
        "dbt_backfill.docs": "",
        "dbt_backfill.id": "b1",
        "dbt_backfill.format": "2",
    }


@pytest.mark.usefixtures("iceberg")
def test_a_users_property_in_iceberg_goes_before_ours_but_not_before_exactness(
    macros: Macros,
) -> None:
    macros.config["tblproperties"] = {
        "format-version": "2",
        "write.merge.isolation-level": "snapshot",
        "dbt_backfill.id": "mine",
    }
    properties = macros.call("mv_table_properties", ["a"], "b1")

    assert properties["format-version"] == "2"
    assert properties["write.merge.isolation-level"] == "serializable"
    assert properties["dbt_backfill.id"] == "b1"


def test_a_users_property_goes_before_ours_by_default(macros: Macros) -> None:
    macros.config["tblproperties"] = {"delta.enableChangeDataFeed": "false", "owner": "me"}
    properties = macros.call("mv_table_properties", ["a"], "b1")

    assert (properties["delta.enableChangeDataFeed"], properties["owner"]) == ("false", "me")


def test_a_users_property_does_not_go_before_what_exactness_needs(macros: Macros) -> None:
    macros.config["tblproperties"] = {
        "delta.isolationLevel": "WriteSerializable",
        "dbt_backfill.id": "mine",
    }
    properties = macros.call("mv_table_properties", ["a"], "b1")

    assert properties["delta.isolationLevel"] == "Serializable"
    assert properties["dbt_backfill.id"] == "b1"


@pytest.mark.parametrize(
    ("file_format", "properties"),
    [
        ("delta", {"delta.appendOnly": True}),
        ("iceberg", {"write.wap.enabled": "true"}),
        ("iceberg", {"write.spark.accept-any-schema": "true"}),
        ("iceberg", {"write.merge.mode": "merge"}),
        ("iceberg", {"write.merge.distribution-mode": "random"}),
        ("iceberg", {"write.format.default": "csv"}),
        ("iceberg", {"format-version": 1}),
    ],
)
def test_a_users_property_under_which_an_mv_is_built_and_then_fails_is_refused(
    macros: Macros, refused: Any, file_format: str, properties: dict[str, Any]
) -> None:
    macros.config.update(file_format=file_format, tblproperties=properties)
    [(name, value)] = properties.items()
    with refused(f"its tblproperties have '{name}': '{value}', so changes cannot be "):
        macros.call("check_table_properties")


@pytest.mark.parametrize(
    "properties",
    [
        {},
        {"write.merge.isolation-level": "snapshot"},
        {"write.wap.enabled": False, "write.merge.mode": "copy-on-write"},
        {"format-version": "1", "write.merge.mode": "copy-on-write"},
    ],
)
@pytest.mark.usefixtures("iceberg")
def test_other_properties_of_the_users_are_let_pass(
    macros: Macros, properties: dict[str, Any]
) -> None:
    """The user may set the isolation level to the value that it must have."""
    macros.config["tblproperties"] = properties
    macros.call("check_table_properties")


def test_a_delta_table_that_may_be_replaced_names_the_features_of_its_types(
    macros: Macros,
) -> None:
    feature = "delta.feature.timestampNtz"
    types = ["int", "struct<at:timestamp_ntz>"]
    assert macros.call("mv_table_properties", ["a", "b"], "b1", types)[feature] == "supported"
    assert feature not in macros.call("mv_table_properties", ["a"], "b1", ["timestamp"])


# -- a table that is adopted ----------------------------------------------------------------------


@pytest.fixture
def adopted(macros: Macros) -> Callable[..., dict[str, str]]:
    def adopted(**present: str) -> dict[str, str]:
        columns = [{"name": "time hour", "type": "timestamp_ntz"}]
        made = macros.call("adopted_properties", macros.relation, columns, present, "b1")
        return dict(made)

    return adopted


OWN = {
    "dbt_backfill.id": "b1",
    "dbt_backfill.format": "2",
    "dbt_backfill.mv": "lake.mv",
    "dbt_backfill.adopt": "",
}


def test_a_table_that_is_adopted_keeps_its_format(adopted: Any) -> None:
    """Other readers of the table may not support deletion vectors."""
    exact = {"delta.isolationLevel": "Serializable", "delta.appendOnly": "false"}

    assert adopted() == {**exact, **OWN}
    present = {"delta.enableChangeDataFeed": "false", "delta.appendOnly": "true"}
    assert adopted(**present) == {**exact, **OWN}


def test_the_format_changes_where_the_user_says_so(macros: Macros, adopted: Any) -> None:
    macros.config["tblproperties"] = {"delta.enableDeletionVectors": "true", "mine": "1"}

    assert adopted()["delta.enableDeletionVectors"] == "true"
    assert adopted(mine="2")["mine"] == "1"


@pytest.mark.usefixtures("iceberg")
def test_what_the_owner_of_an_iceberg_table_has_set_stays(macros: Macros, adopted: Any) -> None:
    modes = {"write.update.mode": "merge-on-read", "write.delete.mode": "merge-on-read"}
    distribution = {"write.merge.distribution-mode": "none"}

    made = adopted(**{"write.merge.mode": "copy-on-write"})
    assert made == {**modes, **distribution, **SERIALIZABLE, **OWN}

    macros.config["tblproperties"] = {"format-version": "3"}
    assert adopted(**{"format-version": "2"})["format-version"] == "3"
    assert "format-version" not in adopted(**{"format-version": "3"})
