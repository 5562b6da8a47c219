"""Reading the ranges of a backfill from a copy of the upstream."""

from __future__ import annotations

import json
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest

from support.macros import Macros

COLUMNS = ["id", "shard"]


@pytest.fixture
def noted(make_source: Any, relations: Any) -> Callable[..., dict[str, Any]]:
    """Return the source that a plan records for a copy, with these changes."""

    def noted(version: str | None = "3", **changes: Any) -> dict[str, Any]:
        definition = {
            "version": "15", "query_hash": "h1", "query_columns": "k: bigint", "vnodes": None,
            "vnode_count": 4, "columns": COLUMNS, "ranges": None, "scans": 8.0,
        }  # fmt: skip
        return dict(
            make_source(
                role="replica", relation="lake.mv__replica", version=version,
                definition=json.dumps({**definition, **changes}),
            )
        )  # fmt: skip

    return noted


@pytest.fixture
def find(
    macros: Macros, backfill: Any, make_state: Any, make_plan: Any, make_source: Any
) -> Callable[..., Any]:
    macros.answer("continues_upstream", lambda observed, source: source["version"] == "15")
    macros.stub("load_table", lambda relation: macros.context.get("there", relation))
    macros.stub(
        "read_table_properties", lambda relation: {"dbt_backfill.replica": macros.context["made"]}
    )
    macros.stub("read_version", lambda relations, table: macros.context.get("at", "3"))
    macros.context["made"] = "u1"

    def find(source: Any, seen: str | None = None, **last: Any) -> Any:
        last = {
            "vnode_count": 4,
            "backfill_rate_limit": 10,
            "query_columns": "k: bigint",
            **last,
        }
        sources = [make_source(version="16"), *([source] if source else [])]
        state = make_state(committed=make_plan(sources=sources, **last))
        return macros.call("find_replica", backfill, state, {}, seen)

    return find


OTHER_COLUMNS = {"query_columns": "k: bigint, c: int"}


@pytest.mark.parametrize(
    ("changes", "last", "set", "is_read"),
    [
        ({}, {}, {}, True),
        ({"ranges": 3}, {}, {}, True),
        # The copy was made for another query or of other rows, or it does not exist.
        ({"version": None}, {}, {}, False),
        ({"query_hash": "h2"}, {}, {}, False),
        ({"vnode_count": 8}, {}, {}, False),
        ({"vnodes": [0, 1]}, {}, {}, False),
        ({"ranges": 0}, {}, {}, False),
        ({}, OTHER_COLUMNS, {}, False),  # the query now has another column
        # A partial copy ends where its ranges end.
        ({"ranges": 3}, {"backfill_rate_limit": 11}, {}, False),
        ({}, {"backfill_rate_limit": 11}, {}, True),
        # The model may read fewer vnodes than the copy has.
        ({"vnodes": [0, 1]}, {}, {"backfill_vnodes": [1]}, True),
        ({"vnodes": [0, 1]}, {}, {"backfill_vnodes": [1, 2]}, False),
        # With these options no copy can be made.
        ({}, {}, {"check_key": False}, False),
        ({}, {}, {"file_format": "iceberg"}, False),
        ({}, {}, {"replicate": "never"}, False),
    ],
)
def test_what_was_committed_with_a_copy_is_read_from_it_again(
    find: Any, noted: Any, options: Any, changes: Any, last: Any, set: Any, is_read: bool
) -> None:
    options.update(set)

    assert find(noted(**changes), **last) == (noted(**changes) if is_read else None)
    assert find(None) is None


def test_a_copy_is_not_read_over_a_gap_or_once_it_is_gone(
    macros: Macros, find: Any, noted: Any, options: Any
) -> None:
    definition = json.loads(noted()["definition"])
    assert find({**noted(), "definition": json.dumps({**definition, "version": "14"})}) is None
    macros.context["made"] = "u2"
    assert find(noted()) is None
    assert find(noted(), seen="u1") == noted()
    macros.context["made"] = "u1"
    macros.context["at"] = "4"  # the copy was compacted
    assert find(noted()) is None
    macros.context["there"] = None
    assert find(noted(), seen="u1") is None
    assert find({**noted(), "relation": "lake.other__replica"}) is None


@pytest.fixture
def choose(
    macros: Macros, backfill: Any, make_state: Any, make_plan: Any, make_source: Any, noted: Any
) -> Callable[..., Any]:
    macros.context["model"] = SimpleNamespace(name="mv", alias="mv")
    macros.stub("make_replica", lambda *_: noted(version="9"))

    def choose(
        found: Any = None, last: Any = None, state: Any = None, **plan: Any
    ) -> tuple[Any, Any]:
        """Return the copy that is read, and the source that the plan records for it."""
        planned = {
            "kind": "advance", "last_range": False, "range_low": ["1"], "range_high": ["2"],
            "next_bounds": [[str(n)] for n in range(3, 42)], "bounds_complete": True,
            "query_columns": "k: bigint", **plan,
        }  # fmt: skip
        committed = make_plan(sources=[make_source(), *([last] if last else [])])
        choice = macros.call(
            "choose_replica", backfill, make_state(committed=committed, **(state or {})),
            {"plan": make_plan(**planned)}, found,
        )  # fmt: skip
        return choice.get("copy"), macros.call("get_source", choice["plan"], "replica")

    return choose


MANY = {"scans": 30.0, "rows": 1_000_000}


@pytest.mark.parametrize(
    ("evidence", "plan", "made"),
    [
        (MANY, {}, True),
        ({**MANY, "rows": 100_000}, {}, False),
        ({**MANY, "scans": 3.5}, {}, False),
        ({**MANY, "scans": None}, {}, False),
        (MANY, {"next_bounds": [["3"], ["4"]]}, False),  # few ranges are left
        (MANY, {"next_bounds": [], "last_range": True}, False),
        (None, {}, False),
    ],
)
def test_auto_decides_by_how_often_the_upstream_would_be_read(
    choose: Any, evidence: Any, plan: Any, made: bool
) -> None:
    read, source = choose(evidence=evidence, **plan)
    assert (read is not None, source is not None) == (made, made)


@pytest.mark.parametrize(
    ("replica_rows", "made"), [(None, True), (200, True), (40, True), (30, False), (5, False)]
)
def test_each_part_is_another_pass(
    choose: Any, options: Any, replica_rows: int | None, made: bool
) -> None:
    options["replica_rows"] = replica_rows
    read, _ = choose(evidence={"scans": 30.0, "rows": 700_000})
    assert (read is not None) == made


@pytest.fixture
def copy(
    macros: Macros, backfill: Any, options: Any, make_plan: Any, make_state: Any
) -> Callable[..., int | None]:
    """Return how many of the ranges are copied; None if all remaining rows are copied."""
    macros.context["model"] = SimpleNamespace(name="mv", alias="mv")
    macros.context["adapter"].cache_added = lambda relation: ""
    macros.stub("get_needed_columns", lambda *_: [{"name": "id", "type": "bigint"}])

    def copy(bounds: int, replica_rows: int | None = None, **plan: Any) -> int | None:
        options["replica_rows"] = replica_rows
        first, *others = [[str(n), "1"] for n in range(bounds)]
        made = make_plan(range_high=first, next_bounds=others, **plan)
        id = macros.context["local_md5"](made["plan_id"] + "replica")
        macros.stub("read_replica", lambda _: {"id": id, "version": "9"})
        macros.results = [[["false"]]]
        source = macros.call("make_replica", backfill, make_state(), made, None)
        ranges = json.loads(source["definition"])["ranges"]
        assert ranges is None or isinstance(ranges, int)
        return ranges

    return copy


@pytest.mark.parametrize(
    ("replica_rows", "complete", "ranges"),
    [
        (None, True, None),
        (100, True, 10),
        (400, True, 40),
        (410, True, None),
        (410, False, 40),
        (5, True, 1),
    ],
)
def test_a_part_ends_with_a_bound_that_is_known(
    copy: Callable[..., int | None], replica_rows: int | None, complete: bool, ranges: int | None
) -> None:
    assert copy(40, replica_rows, bounds_complete=complete) == ranges


@pytest.mark.parametrize("vnodes", [[1], [0, 2, 3]])
def test_what_some_vnodes_read_is_not_copied_in_parts(
    macros: Macros, backfill: Any, make_plan: Any, copy: Callable[..., int | None],
    vnodes: list[int],
) -> None:  # fmt: skip
    """If vnodes are selected or have different positions, each barrier looks for its own bounds."""
    assert copy(40, 100, vnodes=vnodes) is None
    assert macros.call("count_parts", backfill, make_plan(vnodes=vnodes)) == 1


def test_always_needs_no_evidence_but_more_than_one_range(choose: Any, options: Any) -> None:
    options["replicate"] = "always"
    assert choose()[0] is not None
    assert choose(next_bounds=[], last_range=True)[0] is None


def test_a_copy_that_lacks_a_column_of_the_query_is_not_chosen(choose: Any, noted: Any) -> None:
    assert choose(found=noted(), last=noted(), **OTHER_COLUMNS)[0] is None


def test_what_was_found_is_read_until_it_ends(choose: Any, noted: Any) -> None:
    assert choose(found=noted()) == (noted(), noted())
    assert choose(found=noted(ranges=2)) == (noted(ranges=2), noted(ranges=1))
    # If the bounds have changed, a partial copy no longer ends where a range ends.
    assert choose(found=noted(ranges=2), evidence={"scans": None, "rows": 1})[0] is None
    assert choose(found=noted(), evidence={"scans": None, "rows": 1})[0] == noted()


def test_a_barrier_without_a_range_keeps_it_for_the_next(choose: Any, noted: Any) -> None:
    assert choose(found=noted(), last=noted(), range_high=["1"]) == (None, noted())
    assert choose(found=noted(), last=noted(), kind="fill") == (None, noted())


def test_a_part_is_let_go_where_a_bound_is_used_up_without_a_range(choose: Any, noted: Any) -> None:
    part, still = noted(ranges=2), {"range_high": ["1"]}
    kept = choose(found=part, last=part, **still, next_bounds=[["7", "8"]])
    assert kept == (None, part)
    let_go = choose(found=part, last=part, **still, next_bounds=[])
    assert let_go == (None, {**part, "version": None})
    assert choose(found=noted(), last=noted(), **still, next_bounds=[]) == (None, noted())


def test_of_one_that_cannot_be_read_it_is_known_what_it_is_for(choose: Any, noted: Any) -> None:
    void = {**noted(), "version": None}
    assert choose(found=noted(), last=noted(), kind="reanchor") == (None, void)
    few = {"next_bounds": [["3"]]}
    assert choose(last=void, **few) == (None, void)
    state = {"row_count": 0}
    read, source = choose(last=void, state=state)
    assert (read, source) == (None, void)  # few rows are left


@pytest.mark.parametrize("kind", ["reset", "sweep"])
def test_what_begins_anew_knows_what_it_was_for(choose: Any, noted: Any, kind: str) -> None:
    void = {**noted(), "version": None}
    assert choose(found=noted(), last=noted(), kind=kind) == (None, void)


def test_what_has_finished_knows_once_that_there_was_one(choose: Any, noted: Any) -> None:
    finished, void = {"finished": True}, {**noted(), "version": None}
    assert choose(found=noted(), last=noted(), state=finished) == (None, void)
    assert choose(last=void, state=finished) == (None, None)


def test_a_plan_in_place_of_another_one_knows_what_its_copy_was_for(
    macros: Macros, noted: Any, make_plan: Any, make_source: Any
) -> None:
    planned = make_plan(sources=[make_source(), noted()])
    made = macros.call("with_void_copy", [make_source()], planned["sources"])
    assert made == [make_source(), {**noted(), "version": None}]
    assert macros.call("with_void_copy", [make_source()], [make_source()]) == [make_source()]


def test_a_rescaled_mv_has_positions_that_a_copy_may_not_reach(macros: Macros, noted: Any) -> None:
    others = [{"role": "upstream"}]
    void = {**noted(), "version": None}
    assert macros.call("with_void_copy", [*others, noted()]) == [*others, void]
    assert macros.call("with_void_copy", others) == others


@pytest.mark.parametrize(("bounds", "parts"), [(1, 1), (63, 63), (64, 32), (256, 51)])
def test_there_are_not_too_many_parts(
    macros: Macros, copy: Callable[..., int | None], bounds: int, parts: int
) -> None:
    copy(bounds)
    (statement,) = macros.statements
    assert statement.sql.count("if(") == parts


@pytest.mark.parametrize(
    ("count", "rows", "outgrown"),
    [(0, 0, False), (400, 10, False), (600, 10, True), (4, 9000, False), (5000, 9000, True)],
)
def test_a_copy_is_outgrown_by_half(
    macros: Macros, backfill: Any, count: int, rows: int, outgrown: bool
) -> None:
    macros.stub("get_set_properties_sql", lambda relation, properties: str(properties))
    macros.results = [[]] * outgrown
    result = {"overlaid": {"count": count, "doubtful": 0}, "checked": {"row_count": rows}}
    for made, copy_id in [(result, None if outgrown else "c1"), ({}, "c1"), (None, "c1")]:
        known = macros.call("after_commit", backfill, {}, {"copy_id": "c1"}, {}, made)
        assert known == {"copy_id": copy_id}
    assert [s.sql.split("*/")[-1].strip() for s in macros.statements] == [
        "{'dbt_backfill.replica': 'outgrown'}"
    ] * outgrown
