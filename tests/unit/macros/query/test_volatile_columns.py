"""The query without its volatile columns, whose text is compared and whose plans are checked."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from support.macros import Macros

VOLATILE = ["loaded_at", "Run_Id"]
QUERY = """with named as (
    select id, upper(name) as name, now() as loaded_at, concat('a, b', ')', x) as "t"
    from `up` -- from here, as loaded_at
)
select /*+ hint */ id as k, name, t, Loaded_At, 'r-1, (' as `run_id`
from named where name <> 'X'"""


@pytest.fixture
def lasting(macros: Macros) -> Callable[[str], list[str]]:
    """Return the words of a query without the volatile columns."""
    return lambda query: list(
        macros.call("get_words", macros.call("get_lasting_query", query, VOLATILE))
    )


@pytest.mark.parametrize(
    "query",
    [
        QUERY.replace("now()", "coalesce(seen, current_timestamp( ) /* , */)"),
        QUERY.replace("now() as", "seen is distinct from now() AS -- ,\n"),
        QUERY.replace("now()", "case when a in (select from x, y) then struct(1 as a, b) end"),
        QUERY.replace("'r-1, ('", "'r-2''s' || \"x\""),
        QUERY.replace("'r-1, ('", "1"),
    ],
)
def test_only_the_expression_of_a_volatile_column_may_differ(lasting: Any, query: str) -> None:
    assert lasting(query) == lasting(QUERY)


@pytest.mark.parametrize(
    "query",
    [
        QUERY.replace("upper(name)", "lower(name)"),
        QUERY.replace("'X'", "'Y'"),
        QUERY.replace("')', x", "')', y"),
        QUERY.replace("now() as loaded_at", "now() loaded_at"),
        QUERY.replace("now() as loaded_at", "now() as loaded"),
        QUERY.replace("now() as loaded_at, ", ""),
        QUERY.replace("now() as loaded_at", "struct(now() as loaded_at)"),
        QUERY.replace("now() as loaded_at", "a + loaded_at"),
        QUERY.replace("from named", "from named as run_id"),
        QUERY.replace(", 'r-1, (' as `run_id`", ""),
        QUERY.replace("'r-1, (' as `run_id`", "'r-1, (' as `run_id`, 1 as n"),
        QUERY.replace("name, t,", "t, name,"),
    ],
)
def test_anything_else_makes_another_query(lasting: Any, query: str) -> None:
    assert query != QUERY
    assert lasting(query) != lasting(QUERY)


@pytest.mark.parametrize(
    "query",
    [
        "select id, now() loaded_at from t",
        "select id, loaded_at from t",
        "select id, struct(now() as loaded_at) from t",
        "select id, (select now() as loaded_at) as s from t",
        "select id from t as loaded_at",
        "select id from (select id, now() from t) as t(id, loaded_at)",
        "with loaded_at as (select id from t) select id from loaded_at",
        "from t |> extend now() as loaded_at |> where id > 1",
        "select id, 'now() as loaded_at' -- , now() as loaded_at\nfrom t",
    ],
)
def test_only_entries_with_as_and_the_name_are_found(macros: Macros, query: str) -> None:
    """A run refuses a name in `volatile_columns` that is found in no entry."""
    assert "volatile" not in macros.call("get_lasting_query", query, ["loaded_at"])


@pytest.mark.parametrize("query", [QUERY, "select 1 .5, a.b\n from (t)", "(select a) from b)", ""])
def test_without_these_names_the_words_stay(macros: Macros, query: str) -> None:
    lasting = macros.call("get_lasting_query", query, ["x", "name_"])

    assert macros.call("get_words", lasting) == macros.call("get_words", query)
    assert macros.call("get_lasting_query", query, None) == query


@pytest.mark.parametrize(
    ("query", "same"),
    [
        (
            "select a<=b as c, a->b as d, e||f as g, - -1, now() as t from up |> where a<>1e-5",
            "select a<=b as c, a->b as d, e||f as g, - -1, VOLATILE as t from up |> where a<>1e-5",
        ),
        (
            "select id/* one */as/* two */k,now()-- three\nas`t`from`up`where'a'=b",
            "select id as k, VOLATILE as `t` from `up` where 'a' =b",
        ),
    ],
)
def test_no_word_or_sign_is_joined_or_divided(macros: Macros, query: str, same: str) -> None:
    lasting = macros.call("get_lasting_query", query, ["t"])

    assert lasting.split() == same.replace("VOLATILE", "nullif(uuid(), '__bf_volatile')").split()


def test_a_name_becomes_volatile_without_a_change_and_stops_with_one(
    macros: Macros, backfill: Any, make_plan: Any
) -> None:
    def why(now: list[str], before: list[str]) -> Any:
        other = {**backfill, "query": QUERY.replace("r-1", "r-2"), "query_hash": "h2"}
        other["options"] = {**other["options"], "volatile_columns": now}
        last = make_plan(query=QUERY, volatile_columns=before)
        analysis = macros.call("new_analysis")
        return macros.call("find_difference", other, last["settings"], analysis, last)

    assert why(["run_id"], ["RUN_ID"]) is None
    assert why(["run_id", "loaded_at"], ["run_id"]) is None
    assert (
        why(["run_id"], ["run_id", "loaded_at"]) == "volatile_columns no longer contains loaded_at"
    )
    assert why(["loaded_at"], ["loaded_at"]) == "its query changed"


def test_columns_are_left_out_by_name(macros: Macros) -> None:
    columns = [{"name": "A", "type": "int"}, {"name": "b", "type": "int"}]

    assert macros.call("without_names", columns, ["a", "x"]) == columns[1:]
    assert macros.call("without_names", columns, None) == columns
