"""`make core` selects tests, and shards split the tests."""

from __future__ import annotations

from typing import Any

import pytest

from support.core import Records, choose, choose_kills, defined_macros, missing_macros
from support.shards import names_in_shard


def part(seconds: float, *macros: str, **more: Any) -> dict[str, Any]:
    found = {"seconds": seconds, "macros": macros, "steps": [], "fixtures": [], **more}
    return {"outcome": "passed", **found}


def records(profile: str = "session-delta", **parts: dict[str, Any]) -> Records:
    found = Records()
    fixtures = {name: parts.pop(name) for name in [*parts] if name.startswith("fixture_")}
    found.add({"profile": profile, "tests": parts, "fixtures": fixtures})
    return found


def test_the_core_executes_every_macro_in_the_fewest_seconds() -> None:
    found = records(slow=part(9, "a", "b"), a=part(1, "a"), b=part(2, "b"), again=part(3, "a"))

    assert choose(found) == {"session-delta": ["a", "b"]}


def test_a_shared_fixture_is_paid_once() -> None:
    story = {"fixtures": ["fixture_story"]}
    found = records(
        fixture_story=part(5, "c"), first=part(1, "a", **story), second=part(1, "b", **story),
        alone=part(4, "b"),
    )  # fmt: skip

    assert choose(found) == {"session-delta": ["first", "second"]}


def test_what_writes_is_sent_on_each_format_on_which_any_test_sends_it() -> None:
    found = records(one=part(1, "a", steps=["merge", "read"]))
    iceberg = {"profile": "session-iceberg", "fixtures": {}}
    found.add(iceberg | {"tests": {"other": part(1, "a", steps=["merge"])}})
    found.add(iceberg | {"tests": {"reads": part(1, "a", steps=["read"])}})
    found.kills = {"session-delta": {"both": ["merge"]}}

    assert choose(found) == {"session-delta": ["one"], "session-iceberg": ["other"]}


def test_a_test_that_costs_more_than_it_covers_is_left_out() -> None:
    assert choose(records(dear=part(99, "a"), cheap=part(1, "b"))) == {"session-delta": ["cheap"]}


def test_a_test_that_the_source_marks_is_in_the_core_whatever_it_executes() -> None:
    found = records(fixed=part(9, "a", fixed=True), cheap=part(1, "a"))

    assert choose(found) == {"session-delta": ["fixed"]}


def test_a_test_that_failed_is_not_chosen() -> None:
    assert choose(records(failed=part(1, "a", outcome="failed"))) == {}


def test_each_writing_statement_is_killed_once() -> None:
    sent = {"first run": ["plan", "commit"], "both": ["plan", "merge", "commit"], "swap": ["swap"]}

    assert choose_kills(sent) == {"both": ["plan", "merge", "commit"], "swap": ["swap"]}


def test_a_macro_that_no_test_executes_is_named_with_its_file() -> None:
    defined = defined_macros()
    assert "materialization_backfilled_mv_spark" in defined

    missing = missing_macros(records(all=part(1, *sorted(defined)[1:])))

    first = min(defined)
    assert missing == [f"{defined[first]}: {first}"]


@pytest.mark.parametrize("parts", [1, 2, 3])
def test_every_test_is_in_exactly_one_shard(parts: int) -> None:
    names = [f"tests/{file}.py::test_{number}" for file in "abc" for number in range(4)]
    seconds = {names[0]: 400.0, names[1]: 300.0}
    shards = [names_in_shard(names, seconds, f"{n}/{parts}") for n in range(1, parts + 1)]

    assert sorted(name for shard in shards for name in shard) == sorted(names)


def test_a_file_stays_together_unless_it_takes_long() -> None:
    names = ["a.py::one", "a.py::two", "b.py::one", "b.py::two"]
    seconds = {"b.py::one": 400.0, "b.py::two": 400.0}
    first, second = (names_in_shard(names, seconds, f"{n}/2") for n in (1, 2))

    assert {len(first & {*names[2:]}), len(second & {*names[2:]})} == {1}
    assert {*names[:2]} <= first or {*names[:2]} <= second


@pytest.mark.parametrize("shard", ["0/2", "3/2", "x"])
def test_a_shard_that_there_is_not_is_an_error(shard: str) -> None:
    with pytest.raises(ValueError, match=r"shard|invalid literal"):
        names_in_shard(["a.py::one"], {}, shard)
