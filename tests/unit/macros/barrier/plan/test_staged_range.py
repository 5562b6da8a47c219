"""Reading a range from a live PostgreSQL table, which has no old versions."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from typing import Any

import pytest
from dbt.adapters.spark.relation import SparkRelation
from dbt_common.exceptions import CompilationError

from support.duck import Duck
from support.macros import Macros
from support.messages import facts_of

SCAN = "select * from up as source where source.`a` > 10 and source.`a` <= 99"


@pytest.fixture
def parts(
    macros: Macros, duck: Duck, backfill: Any, options: Any, make_state: Callable[..., Any]
) -> Callable[..., list[list[int]]]:
    """Return, for each select of a range, the keys between 1 and 120 that the select reads.

    The selects are separated at the keys `bounds`.
    """
    duck.create("up", {"a": "int"}, [(number,) for number in range(1, 121)])

    def parts(count: int, bounds: list[Any], **plan: Any) -> list[list[int]]:
        options["backfill_partitions"] = count
        backfill["upstream"] = {"relation": backfill["upstream"]["relation"], "kind": "postgres"}
        key = [{"name": "a", "upstream": "a", "position": "a", "type": "int", "order": "ascending"}]
        planned = {
            "kind": "advance",
            "key": key,
            "range_low": ["10"],
            "range_high": ["99"],
            "last_range": False,
            "backfill_rate_limit": 100,
            "sources": [{"role": "upstream", "version": "7"}],
            **plan,
        }
        macros.results = [[[json.dumps({"bounds": bounds})]]]
        if planned["backfill_rate_limit"] is None or planned["kind"] == "reanchor":
            macros.results.insert(0, [[json.dumps({"rows": 1000})]])
        macros.answer("row_count_sql", lambda *_: "1000")
        scan = macros.call("_get_partitioned_scan", backfill, make_state(), planned, SCAN)
        return [[a for (a,) in duck.rows(part)] for part in scan.split("union all")]

    return parts


def _keys(low: int, high: int) -> list[int]:
    return list(range(low, high + 1))


def test_a_range_is_read_by_one_select_unless_asked(macros: Macros, parts: Any) -> None:
    assert parts(1, []) == [_keys(11, 99)]
    assert macros.statements == []
    assert parts(2, []) == [_keys(11, 99)]


def test_parts_meet_at_their_bounds(macros: Macros, parts: Any) -> None:
    assert parts(4, [["25"], ["50"], ["75"]]) == [
        _keys(11, 25), _keys(26, 50), _keys(51, 75), _keys(76, 99)
    ]  # fmt: skip
    assert _offsets(macros) == ["24", "49", "74"]


def _offsets(macros: Macros) -> list[str]:
    """Return the row numbers at which the query looks for bounds."""
    return re.findall(r"offset (\d+)", macros.statements[-1].sql)


@pytest.mark.parametrize(
    ("order", "found"),
    [("ascending", [["25"], ["50"], ["75"]]), ("descending", [["96"], ["71"], ["46"]])],
)
def test_bounds_are_distinct_and_in_the_order_of_the_backfill(
    macros: Macros, duck: Duck, parts: Any, order: str, found: Any
) -> None:
    """Rows that are inserted while the bounds are read may make a later bound the lower one.

    Then rows between the two bounds would be in two parts. There is no bound after the last row.
    """
    key = [{"name": "a", "upstream": "a", "type": "int", "order": order}]
    upstream = {"relation": SparkRelation.create(identifier="up")}
    sql = macros.call("postgres_bounds_sql", upstream, key, "true", [75, 25, 200, 50, 25])
    [[read]] = duck.rows(sql)
    assert json.loads(read)["bounds"] == found


@pytest.mark.parametrize(
    "plan",
    [
        {"range_low": None, "last_range": True, "backfill_rate_limit": None},
        {"kind": "reanchor", "range_low": None},
    ],
    ids=["a range without a limit", "a comparison of the whole"],
)
def test_what_has_no_limit_is_divided_by_what_is_there(
    macros: Macros, parts: Any, plan: Any
) -> None:
    parts(2, [["600"]], **plan)

    assert _offsets(macros) == ["499"]
    assert "where true" in macros.statements[-1].sql


READ = {
    **{"stage": "s1", "snapshot": "5:5::5:1", "reached": 90, "rows": 3, "stands": True},
    "landed": 70,
}
WAITED = {
    **{"landed": 90, "broken": False, "notes": [], "recovered": False},
    **{"stands": True, "altered": None},
}


class Staging:
    """Run barriers over a live PostgreSQL table.

    Lists replace the database, the feed and the table of staged rows.
    """

    def __init__(self, macros: Macros, backfill: Any, state: Any) -> None:
        self.macros, self.backfill, self.state = macros, backfill, state
        backfill["upstream"] = {
            **{"relation": macros.relation, "kind": "postgres"},
            "feed": {"relation": macros.relation, "wait_seconds": 1},
        }
        backfill["staged"] = macros.relation
        self.reads: list[Any] = []
        self.waits: list[Any] = []
        self.properties = {"dbt_backfill.format": "2"}
        self.noted: list[Any] = []
        self.observed = {"id": "1/db/7", "version": "60", "landed": 65, "renewed": None}
        self.observed["facts"] = {"columns": []}
        for name, answer in {
            "get_checked_scan": lambda *_: SCAN,
            "get_needed_columns": lambda *_: [{"name": "a", "type": "int"}],
            "check_postgres_table": lambda *_: None,
            "check_feed_table": lambda *_: None,
            "check_postgres_key_zone": lambda *_: None,
            "get_table_columns": lambda *_: [{"name": "a", "type": "int"}, {"name": "__bf_stage"}],
            "load_table": lambda *_: macros.relation,
            "read_table_properties": lambda *_: self.properties,
            "postgres_stage_script": lambda *_: "",
            "read_version": lambda *_: "3",
            "postgres_land_feed": lambda *_: True,
            "get_set_properties_sql": lambda _, properties: self.properties.update(properties),
            "postgres_wait_script": lambda upstream, observed, noted, *_: self.noted.append(noted),
            "postgres_check_feed": lambda *_: None,
            "postgres_read_upstream": lambda *_: dict(self.observed, landed=99, renewed=95),
            "run_table": lambda *_: [],
            "run_json": lambda step, _: [(self.waits if "wait" in step else self.reads).pop(0)],
        }.items():
            macros.stub(name, answer)

    def take(self, id: str = "1/db/7", query: str = "select a from t") -> Any:
        source = {"role": "upstream", "relation": "pg.public.t", "id": id, "definition": "{}"}
        key = [{"name": "a", "upstream": "a", "position": "a", "type": "int", "order": "ascending"}]
        plan = {
            **{"epoch": 4, "backfill_id": "b", "kind": "advance", "query_hash": "h", "key": key},
            **{"query": query, "volatile_columns": ["run_id"]},
            "sources": [{**source, "version": "60"}],
        }
        return self.macros.call(
            "postgres_stage_range", self.backfill, self.state, self.observed, plan
        )


@pytest.fixture
def staging(macros: Macros, backfill: Any, make_state: Callable[..., Any]) -> Staging:
    return Staging(macros, backfill, make_state())


def test_rows_that_another_run_has_replaced_end_the_run(staging: Staging) -> None:
    for read, waited in [
        ({**READ, "rows": 0, "stands": False}, WAITED),
        (READ, {**WAITED, "stands": False}),
    ]:
        staging.reads, staging.waits = [read], [waited]
        with pytest.raises(CompilationError, match="another run staged rows at the same time"):
            staging.take()


def test_rows_that_were_kept_are_taken_unless_they_are_gone(staging: Staging) -> None:
    staging.reads, staging.waits = [READ], [{**WAITED, "landed": 80}]
    assert "10 bytes of the WAL" in staging.take()["waits"]

    staging.waits = [WAITED]
    assert staging.take()["plan"]["sources"][1]["id"] == "s1"

    staging.reads = [{**READ, "stage": "s2"}]
    staging.waits = [{**WAITED, "stands": False}, WAITED]
    assert staging.take()["plan"]["sources"][1]["id"] == "s2"


def test_rows_that_were_kept_need_the_columns_of_a_volatile_column(
    staging: Staging, macros: Macros
) -> None:
    """The text of a volatile column may differ in each run. It is not in the hash of the query."""
    staging.reads, staging.waits = [READ], [{**WAITED, "landed": 80}]
    staging.take(query="select a, 'first' as run_id from t")
    staging.waits = [{**WAITED, "landed": 80}]
    staging.take(query="select a, 'second' as run_id from t")
    assert staging.noted[-1]["stage"] == "s1"

    needed = [{"name": "a", "type": "int"}, {"name": "b", "type": "int"}]
    macros.stub("get_needed_columns", lambda *_: needed)
    staging.reads, staging.waits = [{**READ, "stage": "s2"}], [WAITED]
    taken = staging.take(query="select a, concat(b, 'third') as run_id from t")
    assert taken["plan"]["sources"][1]["id"] == "s2"


def test_rows_that_were_kept_with_a_value_that_cannot_be_read_are_read_again(
    staging: Staging,
) -> None:
    """A user may have corrected the value since the rows were staged."""
    altered = {**WAITED, "altered": "d"}
    staging.reads, staging.waits = [READ], [{**WAITED, "landed": 80}]
    staging.take()
    staging.reads, staging.waits = [{**READ, "stage": "s2"}], [altered, WAITED]
    assert staging.take()["plan"]["sources"][1]["id"] == "s2"

    staging.reads, staging.waits = [{**READ, "stage": "s3"}], [altered, altered]
    with pytest.raises(CompilationError, match="has a value in d, an infinity or"):
        staging.take()


def test_rows_that_were_kept_of_another_table_are_not_taken(staging: Staging) -> None:
    staging.reads, staging.waits = [READ], [{**WAITED, "landed": 80}]
    staging.take()
    staging.reads, staging.waits = [{**READ, "stage": "s2"}], [WAITED]
    assert staging.take(id="1/db/8")["plan"]["sources"][1]["id"] == "s2"


def test_a_range_that_is_read_again_knows_what_the_feed_told_meanwhile(staging: Staging) -> None:
    staging.reads, staging.waits = [READ], [{**WAITED, "broken": True}]
    taken = staging.take()
    assert taken["unclear"]
    assert (staging.noted[0]["since"], staging.noted[0]["renewed"]) == (65, None)
    assert (taken["seen"]["landed"], taken["seen"]["renewed"]) == (99, 95)


def test_a_range_of_which_a_key_was_not_told_meanwhile_is_unclear(staging: Staging) -> None:
    notes = [json.dumps({"begun": "b", "keys": keys, "doubtful": []}) for keys in ([["a"]], [])]
    staging.reads, staging.waits = [READ], [{**WAITED, "notes": notes}]
    taken = staging.take()
    assert "events of the upstream did not contain the key a" in taken["unclear"]
    assert taken["seen"]["landed"] == 99


def test_a_range_that_was_read_before_the_server_crashed_is_read_again(staging: Staging) -> None:
    """After a crash, PostgreSQL may have lost commits that the staged rows show."""
    crashed = {**WAITED, "recovered": True}
    staging.reads, staging.waits = [READ], [crashed]
    with pytest.raises(CompilationError, match="has recovered from a crash since the range was"):
        staging.take()

    del staging.properties["dbt_backfill.staged"]
    staging.reads, staging.waits = [READ], [{**WAITED, "landed": 80}]
    staging.take()
    staging.reads, staging.waits = [{**READ, "stage": "s3"}], [{**crashed, "landed": 80}, WAITED]
    assert staging.take()["plan"]["sources"][1]["id"] == "s3"


@pytest.mark.parametrize("type", ["table", "view"])
def test_a_table_of_others_is_refused_before_rows_are_staged(
    staging: Staging, macros: Macros, type: str
) -> None:
    there = macros.relation.incorporate(type=type)
    macros.stub("load_table", lambda *_: there)
    if type == "table":
        staging.properties = {"owner": "somebody"}
    staging.reads, staging.waits = [READ], [WAITED]
    with pytest.raises(CompilationError) as raised:
        staging.take()
    assert facts_of(raised.value.msg) == (
        "backfilled_mv mv: lake.mv has the name of its staged rows, but was not created by this "
        "package. Rename that table, or give the model another alias."
    )
    assert staging.reads == [READ]
