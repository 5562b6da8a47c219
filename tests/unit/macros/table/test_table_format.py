"""Which table a name is, of which format, and with which properties."""

from __future__ import annotations

from typing import Any

import pytest
from dbt.adapters.spark.relation import SparkRelation

from support.macros import Macros

THREE_PARTS = SparkRelation.create(schema="prod.lake", identifier="it's")


def _table(**known: Any) -> SparkRelation:
    return SparkRelation.create(schema="lake", identifier="up", type="table", **known)


# -- load_table ---------------------------------------------------------------------------------


def test_a_table_of_the_sessions_catalog_is_known_to_dbt(macros: Macros, up: Any) -> None:
    asked: list[Any] = []
    macros.context["adapter"].get_relation = lambda *name: asked.append(name)

    assert macros.call("load_table", up) is None
    assert asked == [(None, "lake", "up")]
    assert macros.statements == []


@pytest.mark.parametrize(
    ("information", "type_"), [("Type: MANAGED", "table"), ("Type: VIEW", "view")]
)
def test_a_table_of_another_catalog_is_asked_for(
    macros: Macros, information: str, type_: str
) -> None:
    macros.results = [[["lake", "it's", False, f"{information}\nProvider: iceberg\n"]]]
    found = macros.call("load_table", THREE_PARTS)

    assert (found.render(), found.type) == ("prod.lake.it's", type_)
    assert macros.call("get_table_format", found) == "iceberg"
    assert (
        macros.statements[0].sql.strip().endswith("show table extended in prod.lake like 'it\\'s'")
    )


def test_a_table_whose_name_only_matches_as_a_pattern_is_another_one(macros: Macros) -> None:
    """`like` takes `*` and `|` for more than themselves, in any case of letters."""
    name = SparkRelation.create(schema="prod.lake", identifier="a|up")
    others = [["lake", other, False, "Type: VIEW\n"] for other in ("a", "up")]
    macros.results = [others, [*others, ["lake", "A|UP", False, "Type: MANAGED\n"]]]

    assert macros.call("load_table", name) is None
    assert macros.call("load_table", name).type == "table"


def test_a_table_that_another_catalog_does_not_have_is_none(macros: Macros) -> None:
    assert macros.call("load_table", THREE_PARTS) is None


# -- get_table_format ---------------------------------------------------------------------------

HIVE = "Provider: hive\nTable Properties: [current-snapshot-id=7, table_type=ICEBERG]\n"


@pytest.mark.parametrize(
    ("known", "format_"),
    [
        ({"is_delta": True}, "delta"),
        ({"is_delta": True, "information": "Provider: delta"}, "delta"),
        ({"is_iceberg": True}, "iceberg"),
        ({"information": "Type: MANAGED\nProvider: iceberg\n"}, "iceberg"),
        ({"information": HIVE}, "iceberg"),  # as Iceberg's Hive catalog lists it
        ({"information": "Provider: hive\n"}, "hive"),
        ({"information": "Provider: parquet\nOwner: me"}, "parquet"),
    ],
)
def test_the_format_of_a_table_that_was_listed_is_known(
    macros: Macros, known: dict[str, Any], format_: str
) -> None:
    assert macros.call("get_table_format", _table(**known)) == format_
    assert macros.statements == []


@pytest.mark.parametrize("provider", ["delta", "iceberg", "parquet"])
def test_spark_is_asked_for_the_format_of_a_table_that_was_built_in_the_same_invocation(
    macros: Macros, provider: str
) -> None:
    """dbt's cache has it as its materialization returned it, without what Spark says of it."""
    macros.results = [[["id", "bigint", None], ["Provider", provider, ""], ["Owner", "me", ""]]]

    assert macros.call("get_table_format", _table()) == provider
    assert macros.statements[0].sql.strip().endswith("describe extended lake.up")


def test_a_table_is_described_by_the_name_that_it_is_read_by(macros: Macros) -> None:
    macros.call("get_table_format", _table(), THREE_PARTS)

    assert macros.statements[0].sql.strip().endswith("describe extended prod.lake.it's")


def test_a_table_that_spark_tells_no_format_of_has_none(macros: Macros) -> None:
    macros.results = [[["id", "bigint", None]]]

    assert macros.call("get_table_format", _table()) is None


# -- read_table_properties ----------------------------------------------------------------------


def test_the_properties_of_a_table_are_a_dict(macros: Macros, up: Any) -> None:
    macros.results = [[["dbt_backfill.id", "b1"], ["format-version", "3"]]]

    assert macros.call("read_table_properties", up) == {
        "dbt_backfill.id": "b1",
        "format-version": "3",
    }
    assert macros.statements[0].sql.strip().endswith("show tblproperties lake.up")


def test_properties_of_a_delta_table_that_spark_does_not_show_are_in_its_detail(
    macros: Macros, up: Any
) -> None:
    hidden, shown = ("dbt_backfill.mv", "*********(redacted)"), ("delta.minReaderVersion", "1")
    detail = {"id": "t1", "properties": {"dbt_backfill.mv": "lake.url"}}
    macros.results = [[hidden, shown], [detail], [hidden]]

    properties = macros.call("read_table_properties", up)
    assert properties == {"dbt_backfill.mv": "lake.url", "delta.minReaderVersion": "1"}
    assert macros.statements[1].sql.endswith("describe detail lake.up")
    assert macros.call("read_table_properties", up) == dict([hidden])


@pytest.mark.parametrize(
    ("text", "schema", "identifier"),
    [
        ("lake.up", "lake", "up"),
        ("lake.`odd-name`", "lake", "odd-name"),
        ("`lake`.`up`", "lake", "up"),
        ("`a lake`.up", "a lake", "up"),
        ("prod.lake.up", "prod.lake", "up"),
        ("prod.`a lake`.up", "prod.`a lake`", "up"),
    ],
)
def test_a_relation_is_read_back_from_its_text(
    macros: Macros, text: str, schema: str, identifier: str
) -> None:
    """Without its quotes: dbt's cache knows it so."""
    relation = macros.call("parse_relation", text)

    assert (relation.schema, relation.identifier, relation.render()) == (schema, identifier, text)


def test_a_text_without_a_schema_is_no_relation(macros: Macros) -> None:
    assert macros.call("parse_relation", "up") is None
