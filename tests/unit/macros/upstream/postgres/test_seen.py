"""The record of a table in landings and plans, by which a changed table is found."""

from __future__ import annotations

import json
from typing import Any

import pytest

from support.macros import Macros

INDEXES = [
    {"columns": ["Id"], "primary": True, "deferrable": False},
    {"columns": ["code", "shard"], "primary": False, "deferrable": False},
    {"columns": ["code"], "primary": False, "deferrable": True},
]
FACTS = {
    "kind": "r",
    "has_children": False,
    "persistence": "p",
    "keys": INDEXES,
    "identity_columns": ["Id", "code", "shard"],
    "columns": [
        {"name": "Id", "type": "int8", "not_null": True, "finite": False},
        {"name": "amount", "type": "numeric", "not_null": False, "finite": False},
        {"name": "weight", "type": "float8", "not_null": False, "finite": True},
        {"name": "price", "type": "float4", "not_null": True, "finite": False},
        {"name": "apart", "type": "float4", "not_null": False, "finite": False},
    ],
}


@pytest.mark.parametrize(
    ("facts", "keys"),
    [
        ({}, [["Id"], ["code", "shard"]]),
        ({"identity_columns": ["Id"]}, [["Id"]]),
        ({"identity_columns": ["shard", "code"]}, [["code", "shard"]]),
        ({"identity_columns": None}, []),
        ({"persistence": "u"}, []),
        ({"has_children": True}, []),
        ({"kind": "p"}, []),
    ],
)
def test_a_key_is_told_as_far_as_the_replica_identity_goes(
    macros: Macros, facts: dict[str, Any], keys: list[list[str]]
) -> None:
    assert macros.call("get_postgres_told_keys", FACTS | facts) == keys


def note(macros: Macros, **facts: Any) -> str:
    columns = [{"name": name} for name in ("Id", "amount", "weight", "price")]
    noted: str = macros.call("get_landing_note", FACTS | facts, columns, "7f")
    return noted


def test_a_landing_notes_what_its_events_tell(macros: Macros) -> None:
    assert json.loads(note(macros)) == {
        "begun": "7f",
        "keys": [["Id"], ["code", "shard"]],
        "doubtful": ["amount"],
    }


@pytest.mark.parametrize(
    ("key", "read", "finite", "untold"),
    [
        (["id"], ["Id", "price"], False, None),
        (["Shard", "code"], [], False, None),
        (["code"], [], False, "events of the upstream did not contain the key code of each row"),
        (["id"], ["amount"], False, "an infinity of the column amount as null"),
        (["id"], ["amount"], True, None),
        ([], ["Id"], False, None),
    ],
)
def test_what_was_not_told_matters_to_whoever_needs_it(
    macros: Macros, key: list[str], read: list[str], finite: bool, untold: str | None
) -> None:
    observed = {"read": read, "followed": {"finite": finite}}
    notes = [note(macros), note(macros, persistence="p")]
    found = macros.call("find_untold", notes, key, observed)
    assert found is None if untold is None else found.endswith(untold)
    if key:
        notes.insert(0, note(macros, persistence="u"))
        assert "did not contain the key" in macros.call("find_untold", notes, key, observed)


def seen(macros: Macros, begun: str | None, since: Any = None, **column: Any) -> Any:
    told = {"name": "m", "number": 2, "type_id": "9", "typmod": -1, "written": "700"}
    facts = {"file": "1", "columns": [{**told, "labels": None, **column}]}
    text = json.dumps({"begun": begun}) if begun else None
    return macros.call("get_seen_table", facts, ["m"], text, since), facts


def test_a_change_table_that_was_made_anew_is_another_one(macros: Macros) -> None:
    first, _ = seen(macros, "a")
    since = {"definition": json.dumps({"seen": first})}
    kept, facts = seen(macros, None, since)
    assert kept == first
    assert macros.call("find_unlike_table", first, kept, facts) is None
    assert macros.call("find_unlike_table", {}, kept, facts) is None
    later, facts = seen(macros, "b", since)
    why = macros.call("find_unlike_table", first, later, facts)
    assert why == "its change table was created again"


@pytest.mark.parametrize(
    ("format", "before", "now", "alike"),
    [
        ("declared", 1, 1, True),
        ("declared", 1, 2, False),
        ("debezium", 1, 2, False),
        ("declared", None, 2, True),  # the plan of an earlier version of this package
        ("landed", 1, 2, True),
    ],
)
def test_after_a_failover_commits_may_be_lost_unless_a_landing_marks_the_gap(
    macros: Macros, format: str, before: int | None, now: int, alike: bool
) -> None:
    facts = {"format": format, "timeline": now, "columns": []}
    noted = {"timeline": before, "columns": {}}
    seen = macros.call("get_seen_table", facts, [], None, None)
    assert (macros.call("find_unlike_table", noted, seen, facts) is None) is alike


@pytest.mark.parametrize(
    ("labels", "alike"),
    [(["a", "b"], True), (["a", "b", "c"], True), (["a", "x"], False), (["a"], False)],
)
def test_an_enum_is_what_it_was_while_its_labels_are(
    macros: Macros, labels: list[str], alike: bool
) -> None:
    before, _ = seen(macros, None, labels=["a", "b"])
    now, facts = seen(macros, None, labels=labels)
    assert (macros.call("find_unlike_table", before, now, facts) is None) is alike


@pytest.mark.parametrize(
    ("format", "slot", "plugin"),
    [
        ("landed", None, "wal2json"),
        ("landed", {"plugin": "wal2json"}, "wal2json"),
        ("declared", {"plugin": "test_decoding"}, "test_decoding"),
        ("debezium", None, None),
    ],
)
def test_the_plugin_is_known_by_the_format_also_where_the_slot_is_gone(
    macros: Macros, format: str, slot: Any, plugin: str | None
) -> None:
    facts = {"slot": slot, "columns": [{"name": "a", "finite": False}]}
    assert macros.call("get_followed_facts", {"format": format}, facts)["plugin"] == plugin
    declared = macros.call("get_followed_facts", {"format": format, "finite": True}, facts)
    assert declared["columns"][0]["finite"]


def gap(macros: Macros, **observed: Any) -> Any:
    noted = {"relation": "lake.changes", "format": "landed"}
    was = {"begun": "a", "file": "1", "columns": {"m": [1, "9", -1, "7"]}}
    committed = {
        "id": "1/shop/5",
        "version": "100",
        "key": ["id"],
        "definition": json.dumps({**noted, "seen": was}),
    }
    now = {**was, **observed.pop("seen", {})}
    found = {
        "id": "1/shop/5",
        "landed": 120,
        "floor": 90,
        "breaks": [],
        "untold": [],
        "notes": [],
        "read": ["m"],
        "followed": {},
        "facts": {"columns": [{"name": "m", "type": observed.pop("type", "text"), "labels": None}]},
        "definition": json.dumps({**noted, **observed.pop("noted", {}), "seen": now}),
        **observed,
    }
    told = macros.call("postgres_upstream_gap", found, committed)
    return told and told["reason"]


@pytest.mark.parametrize(
    ("observed", "reason"),
    [
        ({}, None),
        ({"noted": {"format": "declared"}}, "change_feed was changed"),
        ({"seen": {"begun": "b"}}, "its change table was created again"),
        ({"seen": {"begun": None}}, None),
        ({"seen": {"columns": {"m": [2, "9", -1, "7"]}}}, "the column m of the upstream"),
        ({"seen": {"columns": {"other": [2, "9", -1, "7"]}}}, None),
        ({"seen": {"file": "2"}}, None),
        ({"seen": {"columns": {"m": [1, "9", -1, "8"]}}}, None),
        ({"seen": {"file": "2", "columns": {"m": [1, "9", -1, "8"]}}}, "the column m of"),
        ({"notes": ['{"keys": [], "doubtful": []}']}, "when its changes were landed, events"),
        ({"id": "1/shop/6"}, "the upstream is another table"),
        ({"floor": 101}, "events since the position 100 were removed"),
        ({"breaks": [110]}, "the upstream was emptied"),
        ({"untold": ["m"]}, "events of the upstream do not contain large values"),
        ({"untold": ["m"], "type": "float8"}, "an event of the upstream has a null in"),
    ],
)
def test_a_gap_is_told_by_its_reason(macros: Macros, observed: Any, reason: str | None) -> None:
    told = gap(macros, **observed)
    assert told is None if reason is None else told.startswith(reason)


def test_a_plan_of_before_that_noted_nothing_leaves_no_gap(macros: Macros) -> None:
    observed = {
        "id": "i",
        "landed": 9,
        "floor": 1,
        "breaks": [],
        "untold": [],
        "notes": [],
        "facts": {"columns": []},
        "definition": json.dumps({"format": "landed", "seen": {"begun": "a", "columns": {}}}),
    }
    committed = {"id": "i", "version": "9", "definition": json.dumps({"format": "landed"})}
    assert macros.call("postgres_upstream_gap", observed, committed) is None
