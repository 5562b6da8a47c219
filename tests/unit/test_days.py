"""Whose turn it is on a day."""

from __future__ import annotations

import pytest

from support.days import DAYS, is_turn_of

NAMES = [f"test_{number}.py" for number in range(30)]


def turns(monkeypatch: pytest.MonkeyPatch, day: str, ones: list[int | str]) -> set[int | str]:
    monkeypatch.setenv("DBT_BACKFILL_DAY", day)
    return {one for one in ones if is_turn_of(one)}


@pytest.mark.parametrize("ones", [list(range(20)), NAMES], ids=["numbers", "names"])
def test_in_so_many_days_each_has_one_turn(
    monkeypatch: pytest.MonkeyPatch, ones: list[int | str]
) -> None:
    days = [turns(monkeypatch, str(day), ones) for day in range(739_580, 739_580 + DAYS)]

    assert sum(map(len, days)) == len(ones)
    assert set().union(*days) == set(ones)
    assert all(days)


def test_it_is_everyones_turn_if_all_are_asked_for(monkeypatch: pytest.MonkeyPatch) -> None:
    assert turns(monkeypatch, "all", [*NAMES]) == set(NAMES)


def test_a_day_that_is_no_number_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(ValueError, match="monday"):
        turns(monkeypatch, "monday", [1])


def test_each_day_is_that_of_nobody_in_particular() -> None:
    assert is_turn_of(None)
