"""The statements of a barrier that write the MV, executed over tables. The rows before and after
are compared.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from typing import Any

import pytest

from support.duck import Duck, RaisedError
from support.macros import Macros

Key = tuple[int, int]
Rows = dict[Key, str]

UPSTREAM: Rows = {(k, s): f"n{k}{s}" for k in range(8) for s in range(8) if (k + s) % 3}
QUERY = "select id as k, shard, name from `up` where shard <> 5"
COLUMNS = {"k": "bigint", "shard": "int", "name": "string"}
LOW, HIGH = (1, 2), (5, 6)  # the planned range has the keys above LOW and up to HIGH
ABOVE: Rows = {(2, 5): "left", (5, 6): "left", (6, 1): "left"}
DOWN = {"range_low": ["5", "6"], "range_high": ["1", "2"]}


def returned(within: Callable[[Key], bool], rows: Rows = UPSTREAM) -> Rows:
    """Return the rows that the query returns for the keys within these bounds."""
    return {key: name for key, name in rows.items() if key[1] != 5 and within(key)}


def read(key: Key) -> bool:
    return key <= LOW


def in_range(key: Key) -> bool:
    return LOW < key <= HIGH


PREFIX = returned(read)


@pytest.fixture
def execute(
    macros: Macros, duck: Duck, backfill: Any, staged: Any, make_state: Any, make_plan: Any
) -> Callable[..., Rows]:
    """Execute a plan while the vnodes are at `positions`. Return the rows of the MV."""
    macros.context["model"] = {"name": "mv"}
    send = macros._run

    def run(name: str, sql: str) -> Any:
        if name.endswith("describe the query"):
            macros.results = [list(COLUMNS.items())]
        else:
            numbers = r"(select explode(sequence(0, \1 - 1)) as id)"  # for Spark's table function
            duck.execute(re.sub(r"range\(0, (\d+), 1, 1\)", numbers, sql.partition("*/")[2]))
        return send(name, sql)

    macros._run = run  # type: ignore[method-assign]

    def execute(
        mv: Rows,
        plan: Mapping[str, Any],
        upstream: Rows = UPSTREAM,
        stage: Rows | None = None,
        positions: Iterable[Key | None] = [LOW] * 4,
        stands: bool = True,
        bounded: bool = True,
        **state: Any,
    ) -> Rows:
        made = make_plan(query=QUERY, reason="it was replaced", **plan)
        plan_id = made["plan_id"] if stands else "another"
        types = {"id": "bigint", "shard": "int", "vnode": "int", "epoch": "bigint"}
        types |= {"backfill_finished": "boolean", "row_count": "bigint"}
        types |= dict.fromkeys(("plan_id", "plan_kind", "plan", "last"), "string")
        vnodes = [
            (*(at or (None, None)), vnode, 2, False, 10, plan_id, made["kind"], None, None)
            for vnode, at in enumerate(positions)
        ]
        duck.create("lake.mv__progress", types, vnodes)
        names = {"id": "bigint", "shard": "int", "name": "string"}
        duck.create("lake.up@17", names, [(*key, name) for key, name in upstream.items()])
        duck.create("lake.mv", COLUMNS, [(*key, name) for key, name in mv.items()])
        if stage is not None:
            # The key comes last, as in the staged rows.
            types = {"name": "string", "k": "bigint", "shard": "int", "__bf_dropped": "boolean"}
            duck.create("stage", types, [(name, *key, not name) for key, name in stage.items()])
            low, high = ([str(part) for part in end(stage)] for end in (min, max))
            counts = {"upserts": len(stage), "drops": len(stage)}
            bounds = {"low": low, "high": high} if bounded else {"low": None, "high": None}
            staged.update(bounds | counts)
        planned = {"plan": made, "staged": staged}
        macros.call("run_steps", backfill, make_state(**state), None, None, planned)
        found = duck.rows("select * from lake.mv")
        after = {(k, shard): name for k, shard, name in found}
        assert len(after) == len(found), "a key stands twice"
        return after

    return execute


# -- the range ------------------------------------------------------------------------------------


@pytest.mark.parametrize("file_format", ["delta", "iceberg"])
def test_a_range_is_what_the_query_returns_between_its_ends(
    execute: Any, macros: Macros, file_format: str
) -> None:
    macros.config["file_format"] = file_format
    after = PREFIX | returned(in_range)

    assert execute(PREFIX, {}) == after
    assert execute(after, {}) == after


def test_the_last_range_has_no_end(execute: Any) -> None:
    assert execute(PREFIX, {"last_range": True}) == returned(lambda key: True)


def test_where_positions_go_down_a_range_lies_below_the_position(
    execute: Any, descending: Any
) -> None:
    begun, plan = returned(lambda key: key >= HIGH), {"key": descending, **DOWN}
    positions = [HIGH] * 4

    assert execute(begun, plan, positions=positions, position=["5", "6"]) == begun | returned(
        lambda key: LOW <= key < HIGH
    )
    last = {**plan, "last_range": True}
    assert execute(begun, last, positions=positions, position=["5", "6"]) == returned(
        lambda key: True
    )


# -- the changes ----------------------------------------------------------------------------------

# A changed key, a key that the query drops, a new key, and a key that never existed.
STAGE: Rows = {(0, 1): "later", (0, 4): "", (1, 2): "new", (0, 3): ""}
CHANGED: Rows = {**{key: PREFIX[key] for key in PREFIX if key != (0, 4)}, (0, 1): "later"} | {
    (1, 2): "new"
}


@pytest.mark.parametrize("bounded", [True, False])
def test_changes_are_merged_and_what_the_query_drops_is_deleted(
    execute: Any, bounded: bool
) -> None:
    plan = {"range_row_count": None}

    assert execute(PREFIX, plan, stage=STAGE, bounded=bounded) == CHANGED


@pytest.mark.parametrize("last", [False, True])
def test_changes_and_a_range_may_be_merged_at_once(execute: Any, last: bool) -> None:
    plan = {"at_once": True, "last_range": last}
    ahead = returned((lambda key: key > LOW) if last else in_range)

    assert execute(PREFIX, plan, stage=STAGE) == CHANGED | ahead
    assert execute(CHANGED | ahead, plan, stage=STAGE) == CHANGED | ahead


@pytest.mark.parametrize("last", [False, True])
def test_they_may_be_merged_at_once_where_positions_go_down(
    execute: Any, descending: Any, last: bool
) -> None:
    plan = {"at_once": True, "last_range": last, "key": descending, **DOWN}
    begun = returned(lambda key: key >= HIGH)
    stage, changed = {(7, 1): "later", (6, 1): ""}, {**begun, (7, 1): "later"}
    ahead = returned(lambda key: key < HIGH and (last or key >= LOW))

    after = {key: name for key, name in changed.items() if key != (6, 1)} | ahead
    for before in (begun, after):
        at = {"positions": [HIGH] * 4, "position": ["5", "6"]}
        assert execute(before, plan, stage=stage, **at) == after


# -- kinds that compare the MV with the query -----------------------------------------------------


def test_a_reanchor_puts_every_row_right_also_above_the_position(execute: Any) -> None:
    wrong = {**PREFIX, **ABOVE, (0, 1): "wrong", (0, 0): "spurious"}
    del wrong[(0, 4)]

    assert execute(wrong, {"kind": "reanchor"}) == PREFIX
    assert execute(wrong, {"kind": "reanchor"}, upstream={}) == {}


@pytest.mark.parametrize(
    ("touched", "is_touched"),
    [
        ([["5", "6"]], in_range),
        ([["2", "5"], ["2", "0"]], lambda key: LOW < key <= (2, 5)),
        ([[]], lambda key: key > LOW),
    ],
    ids=["a range", "two ranges", "an open one"],
)
def test_a_limited_reanchor_removes_what_given_up_plans_could_touch(
    execute: Any, touched: Any, is_touched: Any
) -> None:
    plan = {"kind": "reanchor", "touched": touched, "range_row_count": None}
    kept = {key: name for key, name in ABOVE.items() if not is_touched(key)}

    assert execute(PREFIX | ABOVE, plan) == PREFIX | kept


def test_a_range_of_a_sweep_is_put_right_and_what_is_above_it_stays(execute: Any) -> None:
    right = PREFIX | returned(in_range)
    wrong = {**right, **ABOVE, (3, 1): "wrong"}
    del wrong[(4, 1)]

    assert execute(wrong, {"sweeps": True}) == right | {(6, 1): "left"}
    everything = returned(lambda key: True)
    assert execute(wrong, {"sweeps": True, "last_range": True}) == everything


def test_where_positions_differ_each_vnode_of_a_sweep_is_put_right_above_its_own(
    execute: Any, vnode_of: Any
) -> None:
    positions = [(3, 3), LOW, LOW, None]
    wrong = {key: "wrong" for key in UPSTREAM} | ABOVE | {(0, 0): "left"}
    plan = {"sweeps": True, "vnodes": [0, 3], "range_low": None}

    def is_put_right(key: Key) -> bool:
        vnode = vnode_of(key, 4)
        return key <= HIGH and (vnode == 3 or (vnode == 0 and key > (3, 3)))

    kept = {key: name for key, name in wrong.items() if not is_put_right(key)}
    found = execute(wrong, plan, positions=positions, uniform=False, position=None)
    assert found == kept | returned(is_put_right)


FILL = {"kind": "fill", "fills": [{"name": "name", "type": "string"}], "fill_low": ["0", "2"]}


@pytest.mark.parametrize(
    ("slice", "high"),
    [
        ({"fill_high": ["1", "0"]}, (1, 0)),
        ({"fill_high": ["1", "2"], "last_fill": True}, LOW),
        ({"fill_high": None, "last_fill": True}, (9, 9)),
        ({"fill_high": ["0", "2"], "range_row_count": None}, (0, 2)),
    ],
    ids=["a slice", "the last one", "the last one of a finished MV", "at a rate of zero"],
)
def test_a_slice_of_a_fill_is_put_right_and_nothing_else(
    execute: Any, slice: Any, high: Key
) -> None:
    unfilled = dict.fromkeys(returned(lambda key: key <= (LOW if high <= LOW else high)), "before")

    found = execute(unfilled, {**FILL, **slice})
    assert found == unfilled | returned(lambda key: (0, 2) < key <= high)


# -- fewer vnodes ---------------------------------------------------------------------------------


@pytest.mark.parametrize("goes_down", [False, True])
def test_a_rescale_removes_the_rows_that_are_read_again(
    execute: Any, vnode_of: Any, descending: Any, make_plan: Any, goes_down: bool
) -> None:
    positions, least = [(3, 3), (5, 1), (5, 6), (2, 4)], [(3, 3), (2, 4)]
    plan: dict[str, Any] = {"kind": "rescale", "vnode_count": 2, "range_high": ["2", "4"]}
    if goes_down:
        least = [(5, 6), (5, 1)]
        plan |= {"key": descending, "range_high": ["5", "6"]}

    def is_read(key: Key, at: Key) -> bool:
        return key >= at if goes_down else key <= at

    mv = returned(lambda key: is_read(key, positions[vnode_of(key, 4)]))
    found = execute(mv, plan, positions=positions, uniform=False, position=None)
    assert found == returned(lambda key: key in mv and is_read(key, least[vnode_of(key, 2)]))
    assert found != mv


# -- the fence ------------------------------------------------------------------------------------

WRITES: dict[str, dict[str, Any]] = {
    "range": {"plan": {}},
    "changes": {"plan": {"range_row_count": None}, "stage": STAGE},
    "at once": {"plan": {"at_once": True}, "stage": STAGE},
    "re-anchor": {"plan": {"kind": "reanchor"}},
    # If Spark knows that the prefix scan has no rows, it removes the scan and the fence inside it.
    # The MERGE would then delete rows without a check of the plan.
    "re-anchor to nothing": {"plan": {"kind": "reanchor"}, "upstream": {}},
    "removal": {"plan": {"kind": "reanchor", "touched": [["5", "6"]]}},
    "sweep": {"plan": {"sweeps": True}},
    "fill": {"plan": {**FILL, "fill_high": ["1", "0"]}},
    "rescale": {
        "plan": {"kind": "rescale", "vnode_count": 2}, "uniform": False, "position": None,
    },
}  # fmt: skip


@pytest.mark.parametrize("given", WRITES.values(), ids=WRITES)
def test_nothing_is_written_once_another_plan_stands(
    execute: Any, duck: Duck, given: dict[str, Any]
) -> None:
    before = PREFIX | ABOVE
    with pytest.raises(RaisedError, match="another run changed the state while this run executed"):
        execute(before, stands=False, **given)

    assert {(k, shard): name for k, shard, name in duck.rows("select * from lake.mv")} == before


# -- kinds that replace the MV --------------------------------------------------------------------


@pytest.mark.parametrize("stands", [True, False])
@pytest.mark.parametrize("kind", ["reset", "swap", "swap of an empty one"])
def test_the_mv_is_replaced_while_the_plan_stands(
    macros: Macros, duck: Duck, backfill: Any, make_plan: Any, kind: str, stands: bool
) -> None:
    macros.stub("mv_clauses", lambda *_: "")
    progress = {"vnode": "int", "epoch": "bigint"}
    progress |= dict.fromkeys(("plan_id", "plan_kind", "plan", "last"), "string")
    made = make_plan(kind=kind.split()[0], generation={"relation": "lake.mv__next"})
    if kind == "swap":
        made["generation"]["version"] = "7"
    row = (0, 2, made["plan_id"] if stands else "another", made["kind"], None, None)
    duck.create("lake.mv__progress", progress, [row])
    duck.create("lake.mv", {"k": "bigint", "old": "string"}, [(1, "before")])
    for version, rows in (("@7", [(5, 6, "next")]), ("", [(9, 9, "later")])):
        duck.create(f"lake.mv__next{version}", COLUMNS, rows)
    columns = [{"name": name, "type": type} for name, type in COLUMNS.items()]
    if kind == "reset":
        [step] = macros.call("get_reset_steps", backfill, made, columns)
        sql = step["sql"]
    else:
        macros.results = [[*COLUMNS.items()]]
        sql = macros.call("get_swap_sql", backfill, made)

    if stands:
        duck.execute(sql)
        assert duck.rows("select k, shard, name from lake.mv") == (
            [(5, 6, "next")] if kind == "swap" else []
        )
    else:
        with pytest.raises(RaisedError, match="another run changed the state"):
            duck.execute(sql)
        assert duck.rows("select * from lake.mv") == [(1, "before")]
