"""The option `change_feed`: a change table of the user's own."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from support.macros import Macros

MODEL = {"name": "orders_changes", "resource_type": "model", "schema": "lake"}
SOURCE = {"name": "orders_changes", "resource_type": "source", "schema": "raw"}
FEED = {"relation": "ref('orders_changes')", "operation": "op", "sequence": "lsn"}


@pytest.fixture
def read(macros: Macros) -> Any:
    """Reads the option of a model that depends on its upstream and on `nodes`."""

    def read(feed: Any, *nodes: dict[str, Any]) -> Any:
        known = {f"{node['resource_type']}.p.changes": node for node in nodes or [MODEL]}
        upstream = {"name": "orders", "resource_type": "model"}
        macros.context["model"] = {
            "name": "mv",
            "depends_on": SimpleNamespace(nodes=["macro.p.m", "model.p.orders", *known]),
        }
        macros.context["graph"] = SimpleNamespace(
            nodes={"model.p.orders": upstream} | {k: v for k, v in known.items() if v != SOURCE},
            sources={k: v for k, v in known.items() if v == SOURCE},
        )
        macros.config["change_feed"] = feed
        return macros.call("read_change_feed")

    return read


def test_without_the_option_the_upstreams_own_feed_is_followed(read: Any) -> None:
    assert read(None) is None


def test_a_change_table_is_a_node_with_its_operations_and_order(read: Any) -> None:
    assert read(FEED) == {
        "node": MODEL,
        "operation": "op",
        "sequence": ["lsn"],
        "deletes": ["d", "delete"],
        "before_images": ["update_preimage", "update_before", "before", "ub", "-u"],
    }


def test_an_order_may_have_several_columns(read: Any) -> None:
    assert read({**FEED, "sequence": ["file", "pos"]})["sequence"] == ["file", "pos"]


@pytest.mark.parametrize(
    ("deletes", "read_as"),
    [
        ("DEL", ["del"]),
        (["D", "T"], ["d", "t"]),
        (True, ["true"]),
        (1, ["1"]),
        ([1], ["1"]),
        ([], []),
    ],
)
def test_operations_that_delete_are_compared_in_lower_case(
    read: Any, deletes: Any, read_as: list[str]
) -> None:
    assert read({**FEED, "deletes": deletes})["deletes"] == read_as


@pytest.mark.parametrize(
    ("text", "node"),
    [
        ("ref('orders_changes')", MODEL),
        ('ref("orders_changes")', MODEL),
        ("ref('other_project', 'orders_changes')", MODEL),
        ("source('raw', 'orders_changes')", SOURCE),
        (" source('raw', 'orders_changes') ", SOURCE),
    ],
)
def test_a_relation_is_text_that_names_a_model_or_a_source(
    read: Any, text: str, node: dict[str, Any]
) -> None:
    assert read({**FEED, "relation": text}, MODEL, SOURCE)["node"] == node


@pytest.mark.parametrize(
    "text", ["ref('changes')", "source('raw', 'orders_changes')", "orders_changes"]
)
def test_a_relation_that_the_query_does_not_depend_on_is_refused(
    read: Any, refused: Any, text: str
) -> None:
    with refused(
        f"the relation of its change_feed, {text}, is no model or source that its query depends "
        "on. Write it as text, such as \"ref('orders_changes')\", and add to the query the comment "
        "-- depends_on: {{ " + (text if "(" in text else "ref('orders_changes')") + " }}."
    ):
        read({**FEED, "relation": text})


@pytest.mark.parametrize(
    "feed",
    [
        "ref('orders_changes')",
        {**FEED, "relation": ""},
        {**FEED, "operation": ["op"]},
        {**FEED, "sequence": []},
        {**FEED, "delete": ["d"]},
        {"relation": "ref('orders_changes')"},
    ],
    ids=["text", "no relation", "operations", "no sequence", "misspelt", "incomplete"],
)
def test_any_other_value_is_refused_with_an_example(read: Any, refused: Any, feed: Any) -> None:
    with refused("change_feed is "):
        read(feed)
