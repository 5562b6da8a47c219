"""The table that has a given name."""

from __future__ import annotations

from typing import Any

import pytest
from dbt.adapters.spark.relation import SparkRelation

from support.macros import Macros

THREE_PARTS = SparkRelation.create(schema="prod.lake", identifier="it's")


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
    """In `like`, `*` and `|` have a special meaning, and the case of letters does not count."""
    name = SparkRelation.create(schema="prod.lake", identifier="a|up")
    others = [["lake", other, False, "Type: VIEW\n"] for other in ("a", "up")]
    macros.results = [others, [*others, ["lake", "A|UP", False, "Type: MANAGED\n"]]]

    assert macros.call("load_table", name) is None
    assert macros.call("load_table", name).type == "table"


def test_a_table_that_another_catalog_does_not_have_is_none(macros: Macros) -> None:
    assert macros.call("load_table", THREE_PARTS) is None


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
    """The names have no quotes, because dbt's cache has them without quotes."""
    relation = macros.call("parse_relation", text)

    assert (relation.schema, relation.identifier, relation.render()) == (schema, identifier, text)


def test_a_text_without_a_schema_is_no_relation(macros: Macros) -> None:
    assert macros.call("parse_relation", "up") is None


def test_schemas_are_listed_without_quotes_and_case(macros: Macros) -> None:
    macros.results = [[["Prod"], ["`my-lake`"]]]
    assert macros.call("read_schemas") == ["prod", "my-lake"]
