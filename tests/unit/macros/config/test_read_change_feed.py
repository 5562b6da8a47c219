"""The option `change_feed`, which names a change table of the user."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from support.macros import Macros

MODEL = {"name": "orders_changes", "resource_type": "model", "schema": "lake"}
SOURCE = {
    "name": "orders_changes", "resource_type": "source", "source_name": "raw", "schema": "raw",
}  # fmt: skip
FEED = {"relation": "ref('orders_changes')", "operation": "op", "sequence": "lsn"}


@pytest.fixture
def read(macros: Macros) -> Any:
    """Read the option of a model that depends on its upstream and on `nodes`."""

    def read(feed: Any, *nodes: dict[str, Any]) -> Any:
        known = {
            f"{node['resource_type']}.p.{node.get('source_name', '')}changes": node
            for node in nodes or [MODEL]
        }
        upstream = {"name": "orders", "resource_type": "model"}
        macros.context["model"] = {
            "name": "mv",
            "depends_on": SimpleNamespace(nodes=["macro.p.m", "model.p.orders", *known]),
        }
        macros.context["graph"] = SimpleNamespace(
            nodes={"model.p.orders": upstream} | {k: v for k, v in known.items() if "model" in k},
            sources={k: v for k, v in known.items() if "source" in k},
        )
        return macros.call("read_change_feed", feed)

    return read


def test_a_change_table_is_a_node_with_its_operations_and_order(read: Any) -> None:
    assert read(FEED) == {
        "node": MODEL,
        "operation": "op",
        "sequence": ["lsn"],
        "deletes": ["d", "delete"],
        "before_images": ["update_preimage", "update_before", "before", "ub", "-u"],
        "ordered_texts": False,
        "format": "declared",
        "position": None,
        "xid": None,
        "table": None,
        "slot": None,
        "wait_seconds": 60,
        "finite": False,
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


def test_of_two_sources_with_a_table_of_one_name_the_named_one_is_read(read: Any) -> None:
    other = {**SOURCE, "source_name": "pg"}
    text = "source('raw', 'orders_changes')"
    assert read({**FEED, "relation": text}, other, SOURCE)["node"] == SOURCE


@pytest.mark.parametrize(
    "text", ["ref('changes')", "source('raw', 'orders_changes')", "orders_changes"]
)
def test_a_relation_that_the_query_does_not_depend_on_is_refused(
    read: Any, refused: Any, text: str
) -> None:
    with refused(
        f"its query does not depend on {text}, the relation of its change_feed. "
        "Write the relation as text, such as \"ref('orders_changes')\", "
        "and add to the query the comment -- depends_on: {{ "
        + (text if "(" in text else "ref('orders_changes')")
        + " }}."
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
        {"relation": "ref('orders_changes')", "operation": "op"},
        {"relation": "ref('orders_changes')", "format": "declared"},
    ],
    ids=["text", "no relation", "operations", "no sequence", "misspelt", "incomplete", "declared"],
)
def test_any_other_value_is_refused_with_an_example(read: Any, refused: Any, feed: Any) -> None:
    with refused("change_feed is "):
        read(feed)


# -- the change table of a PostgreSQL table -----------------------------------------------------

LANDED = {"relation": "ref('orders_changes')", "slot": "orders"}


@pytest.mark.parametrize(
    ("feed", "format"),
    [
        (LANDED, "landed"),
        ({"relation": "ref('orders_changes')"}, "landed"),
        ({**LANDED, "format": "debezium"}, "debezium"),
        ({**FEED, "format": "declared", "position": "at"}, "declared"),
    ],
)
def test_without_an_operation_a_change_table_is_a_landed_one(
    read: Any, feed: Any, format: str
) -> None:
    read_as = read(feed)

    assert read_as["format"] == format
    assert (read_as["operation"] is None) is (format != "declared")


def test_a_change_table_of_postgresql_says_where_its_changes_come_from(read: Any) -> None:
    feed = read({**LANDED, "table": "shop.Orders", "wait_seconds": 5})

    assert (feed["slot"], feed["table"], feed["wait_seconds"]) == ("orders", "shop.Orders", 5)
    assert {feed[name] for name in ("position", "xid", "sequence", "deletes")} == {None}
    declared = read({**FEED, "position": "lsn", "xid": "tx"})
    assert (declared["position"], declared["xid"]) == ("lsn", "tx")


@pytest.mark.parametrize("format", ["landed", "debezium"])
@pytest.mark.parametrize("key", ["operation", "sequence", "deletes", "position", "xid"])
def test_a_format_with_columns_of_its_own_takes_no_others(
    read: Any, refused: Any, format: str, key: str
) -> None:
    with refused(f"its change_feed sets '{key}', which is not a key of the format {format}. Rem"):
        read({**LANDED, "format": format, key: "op"})


@pytest.mark.parametrize("key", ["xid", "table", "slot", "wait_seconds", "finite"])
def test_what_only_postgresql_has_needs_a_position(read: Any, refused: Any, key: str) -> None:
    with refused(f"its change_feed sets '{key}' but not 'position', and '{key}' is only for"):
        read({**FEED, key: "x"})


@pytest.mark.parametrize(
    ("changes", "fact"),
    [
        ({"format": "avro"}, 'the format of change_feed is "avro". Set it to landed, debezium or'),
        ({"slot": ["a"]}, 'the slot of change_feed is ["a"]. Set it to a name.'),
        ({"table": 1}, "the table of change_feed is 1. Set it to a name."),
        ({"wait_seconds": -1}, "the wait_seconds of change_feed is -1. Set it to a whole number"),
        ({"finite": "yes"}, 'finite of change_feed is "yes". Set it to true or fal'),
        ({"wait_seconds": True}, "the wait_seconds of change_feed is true. Set it to a whole num"),
    ],
)
def test_a_value_that_a_key_does_not_take_is_refused(
    read: Any, refused: Any, changes: dict[str, Any], fact: str
) -> None:
    with refused(fact):
        read({**LANDED, **changes})
