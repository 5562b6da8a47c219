"""The arguments of verify_backfill that select some of the keys."""

from __future__ import annotations

import datetime
import json
from contextlib import suppress
from types import SimpleNamespace
from typing import Any

import pytest

from support.macros import Macros

GIVEN: dict[str, Any] = {
    "vnodes": None,
    "key_from": None,
    "key_to": None,
    "sample": 10,
    "repair": False,
}


class Checked(Exception):
    """The arguments have passed."""


def check(macros: Macros, **given: Any) -> None:
    def observe(node: Any) -> None:
        raise Checked

    macros.stub("find_backfilled_mv", lambda *_: SimpleNamespace(name="mv"))
    macros.stub("observe_verified", observe)
    with suppress(Checked):
        macros.call("verify_backfill", "mv", **given)


@pytest.mark.parametrize(
    "given",
    [
        {},
        {"vnodes": [1, 2], "sample": 0, "repair": True},
        {"vnodes": 0},
        {"key_from": ["a", 1], "key_to": 7},
        {"key_from": datetime.date(2024, 1, 1)},
    ],
)
def test_arguments_of_the_right_type_pass(macros: Macros, given: Any) -> None:
    check(macros, **given)


@pytest.mark.parametrize(
    ("given", "fact"),
    [
        ({"vnodes": []}, "vnodes is []. Set it to a list of vnode numbers, or leave it out"),
        ({"vnodes": ["1"]}, 'vnodes is ["1"]. Set it to'),
        ({"vnodes": [True]}, "vnodes is [true]. Set it to"),
        ({"sample": 1.5}, "sample is 1.5. Set it to a whole number of 0 or more"),
        ({"repair": 1}, "repair is 1. Set it to true or false"),
        ({"key_from": {"id": 1}}, 'key_from is {"id": 1}. Set it to a list of key values'),
        ({"key_to": [1, None]}, "key_to is [1, null]. Set it to a list of key values"),
    ],
)
def test_arguments_of_another_type_are_refused(
    macros: Macros, refused: Any, given: Any, fact: str
) -> None:
    with refused(fact):
        check(macros, **given)


def test_an_unknown_argument_is_refused(macros: Macros, refused: Any) -> None:
    with refused("verify_backfill has no argument 'vnode'. Correct or remove it. The arguments ar"):
        check(macros, vnode=3)


def test_a_vnode_that_there_is_not_is_refused(macros: Macros, verified: Any, refused: Any) -> None:
    with refused("the argument vnodes contains vnode 4, but the MV has 4 vnodes. Use vnode numb"):
        macros.call("read_selection", verified, GIVEN | {"vnodes": [0, 4]})


def test_without_a_key_range_nothing_is_asked(macros: Macros, verified: Any) -> None:
    assert macros.call("read_selection", verified, GIVEN | {"vnodes": [3, 1, 3]}) == {
        "vnodes": [1, 3],
        "vnode_count": 4,
    }
    assert macros.statements == []


def test_spark_casts_the_bounds_and_renders_them(macros: Macros, verified: Any) -> None:
    macros.results = [[[json.dumps({"low": ["7L", "2"], "high": [], "is_empty": False})]]]

    selection = macros.call("read_selection", verified, GIVEN | {"key_from": [7, 2]})

    assert (selection["low"], selection["high"]) == (["7L", "2"], None)
    [statement] = macros.statements
    assert "/* lake.mv: read the key range */" in statement.sql
    assert "try_cast('7' as bigint)" in statement.sql


@pytest.mark.parametrize(
    ("given", "read", "fact"),
    [
        (
            {"key_from": ["x"]},
            {"low": [None]},
            'the argument key_from has "x", but the column k has the type b',
        ),
        ({"key_to": [1, 2, 3]}, {}, "the argument key_to has 3 values, but the key of the MV ha"),
        ({"key_from": 9, "key_to": 8}, {"low": ["9L"], "is_empty": True}, "the argument key_from "),
    ],
)
def test_bounds_that_are_no_keys_are_refused(
    macros: Macros, verified: Any, refused: Any, given: Any, read: Any, fact: str
) -> None:
    macros.results = [[[json.dumps({"low": [], "high": [], "is_empty": False} | read)]]]

    with refused(fact):
        macros.call("read_selection", verified, GIVEN | given)
