"""Step 5: what a barrier of each kind sets in the progress table."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest

from support.macros import Macros

Row = dict[str, Any]

# id, shard, backfill_finished, row_count of each vnode.
VNODES = [(1, 2, 0, 10), (None, None, 0, 0), (9, 9, 1, 30), (1, 2, 0, 10)]
NAMES = ["id", "shard", "backfill_finished", "row_count"]
OUTCOME = {"committed_at": "noon", "changed_row_count": 5}


@pytest.fixture
def state(make_state: Callable[..., Any]) -> dict[str, Any]:
    """What was committed before: the epoch 2."""
    return dict(make_state())


@pytest.fixture
def begun(progress: Any, with_plan: Any, backfill: Any, state: Any) -> Callable[..., None]:
    """The progress table while a plan stands that was made for it."""

    def begun(plan: dict[str, Any] | None = None, **columns: Any) -> None:
        vnodes = [dict(zip(NAMES, vnode, strict=True)) for vnode in VNODES]
        last = {"last": json.dumps(state["committed"])}
        progress.fill(*vnodes, **{"dirty": 1, **last, **with_plan(**(plan or {})), **columns})

    return begun


@pytest.fixture
def commit(
    progress: Any, begun: Any, backfill: Any, make_plan: Callable[..., Any], state: Any
) -> Callable[..., list[Row]]:
    """The progress table after the commit of a plan that stands."""

    def commit(**plan: Any) -> list[Row]:
        begun(plan)
        assert (
            progress.move("get_commit_sql", backfill, state, make_plan(**plan), outcome=OUTCOME)
            == 4
        )
        names = [*NAMES, "epoch", "upstream_version", "dirty"]
        return [dict(zip(names, row, strict=True)) for row in progress.read(*names)]

    return commit


def _column(rows: list[Row], *names: str) -> list[Any]:
    return [row[names[0]] if len(names) == 1 else tuple(row[n] for n in names) for row in rows]


def test_an_advance_moves_every_vnode_to_the_end_of_the_range(commit: Callable[..., Any]) -> None:
    rows = commit(vnode_row_counts={"0": 3, "1": 4})

    assert _column(rows, "id", "shard") == [(5, 6)] * 4
    assert _column(rows, "row_count") == [13, 4, 30, 10]
    assert _column(rows, "backfill_finished") == [0, 0, 1, 0]
    assert _column(rows, "upstream_version", "dirty") == [("17", 0)] * 4


def test_an_advance_of_selected_vnodes_leaves_the_others(commit: Callable[..., Any]) -> None:
    rows = commit(vnodes=[1, 3], vnode_row_counts={"1": 4})

    assert _column(rows, "id", "shard") == [(1, 2), (5, 6), (9, 9), (5, 6)]
    assert _column(rows, "row_count") == [10, 4, 30, 10]
    assert _column(rows, "upstream_version") == ["17"] * 4


def test_a_vnode_beyond_the_end_of_the_range_stays_where_it_is(commit: Callable[..., Any]) -> None:
    """Where positions differ, a range begins at the lowest of them and may end below others."""
    rows = commit(vnodes=[0, 1, 2, 3], range_low=None, range_high=["1", "1"])

    assert _column(rows, "id", "shard") == [(1, 2), (1, 1), (9, 9), (1, 2)]


def test_the_last_range_finishes_every_vnode_and_keeps_its_position(
    commit: Callable[..., Any],
) -> None:
    rows = commit(last_range=True, range_high=["1", "2"], vnode_row_counts={"1": 4})

    assert _column(rows, "backfill_finished") == [1, 1, 1, 1]
    assert _column(rows, "id", "shard") == [vnode[:2] for vnode in VNODES]
    assert _column(rows, "row_count") == [10, 4, 30, 10]


def test_the_last_range_of_selected_vnodes_finishes_only_these(commit: Callable[..., Any]) -> None:
    rows = commit(last_range=True, vnodes=[1, 3])

    assert _column(rows, "backfill_finished") == [0, 1, 1, 1]


def test_an_empty_range_moves_too(commit: Callable[..., Any]) -> None:
    """The position moves over keys that were deleted."""
    rows = commit(range_row_count=0, vnode_row_counts=None)

    assert _column(rows, "id", "shard") == [(5, 6)] * 4
    assert _column(rows, "row_count") == [10, 0, 30, 10]


@pytest.mark.parametrize("kind", ["advance", "reanchor"])
def test_a_barrier_without_a_range_moves_the_version_only(
    commit: Callable[..., Any], kind: str
) -> None:
    rows = commit(kind=kind, range_row_count=None, vnode_row_counts=None)

    assert [tuple(row.values())[:4] for row in rows] == VNODES
    assert _column(rows, "upstream_version", "dirty") == [("17", 0)] * 4


def test_a_reset_begins_anew(commit: Callable[..., Any], make_source: Any) -> None:
    rows = commit(kind="reset", sources=[make_source(version=None)])

    assert [tuple(row.values())[:4] for row in rows] == [(None, None, 0, 0)] * 4
    assert _column(rows, "upstream_version", "dirty") == [(None, 0)] * 4


def test_an_abandoned_plan_moves_nothing_and_leaves_the_mv_dirty(
    commit: Callable[..., Any],
) -> None:
    rows = commit(kind="abandon", last_range=True)

    assert [tuple(row.values())[:4] for row in rows] == VNODES
    assert _column(rows, "epoch", "upstream_version", "dirty") == [(3, "16", 1)] * 4


def test_a_position_goes_to_its_column_of_the_progress_table(
    macros: Macros, backfill: Any, make_plan: Callable[..., Any], state: Any
) -> None:
    key = [{"name": "k", "upstream": "epoch", "type": "int", "position": "pk_epoch"}]
    columns = macros.call("get_committed_columns", state, make_plan(key=key, range_high=["5"]))

    assert columns["`pk_epoch`"] == "if(true, 5, progress.`pk_epoch`)"
    assert columns["epoch"] == 3


@pytest.mark.parametrize("kind", ["advance", "reanchor", "reset", "abandon"])
def test_the_epoch_moves_and_nothing_is_planned_any_more(
    commit: Callable[..., Any], progress: Any, kind: str, state: Any
) -> None:
    commit(kind=kind)

    state = progress.read("epoch", "plan_id", "plan_kind", "plan")
    assert state == [(3, None, None, None)] * 4


def test_what_became_of_a_barrier_is_noted_with_its_plan_on_one_row(
    commit: Callable[..., Any], progress: Any, make_plan: Any
) -> None:
    commit()
    last, *others = progress.read("last")

    noted = {"invocation_id": "run7", "planned_at": "noon", **OUTCOME}
    assert json.loads(last) == make_plan(**noted)
    assert others == [None] * 3


def test_a_plan_that_was_given_up_is_noted_with_what_was_given_up(
    commit: Callable[..., Any],
    progress: Any,
    macros: Macros,
    backfill: Any,
    make_plan: Any,
    state: Any,
) -> None:
    commit(kind="abandon")
    last = json.loads(progress.read("last")[0])

    assert last["given_up"] == macros.call("add_given_up", state["committed"], make_plan())
    assert last["given_up"]["since"]["epoch"] == 2
    assert last["committed_at"] == "noon"


def test_a_reset_that_was_given_up_notes_nothing_to_look_at(
    commit: Callable[..., Any], progress: Any, make_source: Any
) -> None:
    commit(kind="abandon", sources=[make_source(version=None)])

    assert "given_up" not in json.loads(progress.read("last")[0])


# -- what the history does not have yet ---------------------------------------------------------


@pytest.mark.parametrize(
    ("written", "kept"),
    [(None, [0, 1, 2]), (-1, [0, 1, 2]), (0, [1, 2]), (1, [2]), (2, [])],
)
def test_barriers_are_kept_until_the_history_has_them(
    progress: Any,
    begun: Any,
    backfill: Any,
    make_plan: Callable[..., Any],
    written: int | None,
    kept: list[int],
    state: Any,
) -> None:
    """With the one that was committed before; the new one is `last`."""
    texts = "json:" + json.dumps([json.dumps({"epoch": epoch}) for epoch in [0, 1]])
    begun(unwritten=texts)
    state["written"] = written
    progress.move("get_commit_sql", backfill, state, make_plan(), outcome=OUTCOME)

    assert [barrier["epoch"] for barrier in progress.unwritten()] == kept
    assert progress.read("unwritten")[1:] == [None] * 3


def test_the_first_barrier_that_is_kept_needs_no_list_before_it(
    progress: Any, begun: Any, backfill: Any, make_plan: Callable[..., Any], state: Any
) -> None:
    state["written"] = None
    begun()
    progress.move("get_commit_sql", backfill, state, make_plan(), outcome=OUTCOME)

    assert progress.unwritten() == [state["committed"]]


@pytest.mark.parametrize("written", [1, None, 2])
def test_the_last_commit_of_a_run_writes_the_history_along_with_it(
    macros: Macros, commit_barrier: Any, sent: Any, backfill: Any, state: Any, written: int | None
) -> None:
    """And not once more after it."""
    state["written"] = written
    assert commit_barrier(3, ends=True)["written"] == 3
    if written == 2:  # only this barrier is missing
        history = macros.call("get_last_barrier_statements", backfill, 3)
    else:
        history = macros.call("get_history_statements", backfill, written, 3)

    (script,) = sent()
    move, read = script.split(" ".join(history.split()))
    assert "update lake.mv__progress" in move
    assert " set state = (select to_json(struct( progress.*, " in move
    assert read == " select state; end"


def test_a_commit_in_the_middle_of_a_run_leaves_the_history_for_later(
    commit_barrier: Any, sent: Any
) -> None:
    assert commit_barrier(3)["written"] == 2

    assert "lake.mv__barriers" not in sent()[0]


# -- the guard ----------------------------------------------------------------------------------


def test_a_commit_that_is_sent_again_moves_nothing(
    progress: Any, begun: Any, backfill: Any, make_plan: Callable[..., Any], state: Any
) -> None:
    begun()
    plan = make_plan()

    moved = [
        progress.move("get_commit_sql", backfill, state, plan, outcome=OUTCOME) for _ in range(2)
    ]
    assert moved == [4, 0]


@pytest.mark.parametrize("kind", ["advance", "reanchor", "reset", "abandon"])
@pytest.mark.parametrize(
    "stands",
    [
        {"epoch": 1},
        {"epoch": 3},
        {"plan_id": "p9"},
        {"plan_kind": "another"},
        {"plan_id": None, "plan_kind": None},
    ],
    ids=["epoch before", "epoch after", "another plan", "another kind", "nothing planned"],
)
def test_the_progress_moves_only_from_the_epoch_before_and_for_this_very_plan(
    progress: Any,
    begun: Any,
    backfill: Any,
    make_plan: Callable[..., Any],
    kind: str,
    stands: dict[str, Any],
    state: Any,
) -> None:
    begun({"kind": kind}, **stands)

    assert (
        progress.move("get_commit_sql", backfill, state, make_plan(kind=kind), outcome=OUTCOME) == 0
    )


def test_a_plan_that_was_given_up_is_not_committed_as_executed(
    progress: Any, begun: Any, backfill: Any, make_plan: Callable[..., Any], state: Any
) -> None:
    begun({"kind": "abandon"})

    assert progress.move("get_commit_sql", backfill, state, make_plan(), outcome=OUTCOME) == 0


# -- a reset with another key -------------------------------------------------------------------

OTHER_KEYS = [
    [{"name": "k", "upstream": "no", "type": "date", "position": "no"}],
    [{"name": "k", "upstream": "id", "type": "string", "position": "pk_id"}],
]
ON_DELTA = "declare exit handler for sqlstate '2D521' begin end; "


@pytest.fixture
def reshape(
    macros: Macros, render: Any, backfill: Any, make_plan: Any, state: Any
) -> Callable[..., str]:
    """The commit of a reset, in a progress table of a key of before."""
    types = {"id": "bigint", "shard": "int"}
    macros.stub("get_table_columns", lambda _: [
        {"name": name, "type": type} for name, type in {
            **macros.call("progress_columns"), **types
        }.items()
    ])  # fmt: skip
    macros.stub("get_execute_with_literals_sql", lambda sql, literals: sql)

    def reshape(**plan: Any) -> str:
        sql = render("get_commit_sql", backfill, state, make_plan(**{"kind": "reset", **plan}))
        return sql.replace(";begin", "; begin")

    return reshape


def test_a_reset_for_the_same_key_and_vnodes_updates_the_progress_table(reshape: Any) -> None:
    assert "update lake.mv__progress as progress set epoch = 3, " in reshape()
    assert "merge" not in reshape() and "alter" not in reshape()


@pytest.mark.parametrize("key", OTHER_KEYS)
def test_a_reset_with_another_key_adds_its_columns_before_it_is_committed(
    reshape: Any, key: list[dict[str, str]]
) -> None:
    """Which changes nothing that is committed, and is no error where it has been done."""
    name, type_ = key[0]["position"], key[0]["type"]

    assert reshape(key=key).startswith(
        "begin declare exit handler for sqlexception begin end; "
        f"alter table lake.mv__progress add columns (`{name}` {type_}); end; begin {ON_DELTA}merge "
    )


def test_a_column_that_is_there_is_not_added(reshape: Any, keys: Any) -> None:
    """Of the key of two resets before, say."""
    assert "alter" not in reshape(key=keys[:1])


def test_positions_begin_anew_in_all_columns_those_of_a_key_of_before_too(reshape: Any) -> None:
    sql = reshape(key=OTHER_KEYS[1])

    assert "`pk_id` = null" in sql and "`id` = null" in sql and "`shard` = null" in sql
    assert "plan_id = null, plan_kind = null, plan = null" in sql


OF_ROW = "progress.epoch = 2 and progress.plan_id = 'p3' and progress.plan_kind = 'reset'"


def test_vnodes_that_are_missing_are_added_and_those_that_are_too_many_go(reshape: Any) -> None:
    sql = reshape(vnode_count=8)

    assert "select cast(id as int) as id from range(0, 8, 1, 1) where" in sql
    assert "on progress.vnode = vnodes.id when matched and progress." in sql
    assert (
        "when not matched then insert (vnode, epoch, dirty, backfill_finished, row_count, "
        "upstream_version) values (vnodes.id, 3, false, false, 0, '17') "
        f"when not matched by source and {OF_ROW} then delete"
    ) in sql


def test_the_table_is_given_another_shape_only_for_this_very_plan(reshape: Any) -> None:
    """Of the rows that there are each is guarded; new ones are by the row of vnode 0."""
    sql = reshape(vnode_count=8)
    stands = OF_ROW.replace("progress.", "")

    assert (
        f"where (select count(*) from lake.mv__progress where vnode = 0 and {stands}) = 1 )"
    ) in sql
    assert f"when matched and {OF_ROW} then update set epoch = 3, " in sql
    assert sql.count(OF_ROW) == 2


def test_the_table_is_never_replaced(reshape: Any) -> None:
    """Iceberg replaces a table whatever was committed to it since."""
    for plan in [{}, {"vnode_count": 8}, {"key": OTHER_KEYS[0]}]:
        assert "create" not in reshape(**plan)


def test_a_reset_after_one_that_was_given_up_gives_the_table_its_shape(
    reshape: Any, backfill: Any, make_plan: Any, make_source: Any, state: Any
) -> None:
    """It has the key and vnodes of the plan before that one."""
    given_up = {"kind": "abandon", "sources": [make_source(version=None)]}
    state["committed"] = make_plan(vnode_count=8, **given_up)

    assert "merge into lake.mv__progress" in reshape(vnode_count=8)


def test_only_a_reset_gives_the_table_another_shape(reshape: Any) -> None:
    assert "update lake.mv__progress" in reshape(kind="advance", vnode_count=8)


# -- the statement ------------------------------------------------------------------------------


@pytest.fixture
def commit_barrier(macros: Macros, backfill: Any, make_plan: Any, stored: Any, state: Any) -> Any:
    """Commits the plan p3 of epoch 3; Spark answers with the state that stands afterwards."""

    def commit_barrier(
        epoch: int, executed: bool = True, plan: Any = None, **arguments: Any
    ) -> Any:
        committed = make_plan(epoch=epoch, plan_id=f"p{epoch}")
        macros.results = [[[stored(epoch=epoch, executed=executed, committed=committed)]]]
        return macros.call(
            "commit_barrier", backfill, state, make_plan(**(plan or {})), **arguments
        )

    return commit_barrier


def test_a_commit_returns_the_state_that_stands_then(commit_barrier: Any) -> None:
    assert commit_barrier(3)["epoch"] == 3


def test_a_run_that_others_overtook_with_its_own_plan_goes_on(commit_barrier: Any) -> None:
    """Another run executed the same plan, and the next one: nothing is lost."""
    assert commit_barrier(4)["epoch"] == 4


def test_a_commit_that_lost_to_no_run_is_sent_again(
    macros: Macros, backfill: Any, make_plan: Any, stored: Any, state: Any
) -> None:
    """An OPTIMIZE of the progress table, say, came between: the plan still stands."""
    plan, before = make_plan(), make_plan(epoch=2)
    macros.results = [
        [[stored(epoch=2, committed=before, planned=plan)]],
        [[stored(epoch=3, executed=True, committed=plan)]],
    ]

    assert macros.call("commit_barrier", backfill, state, plan)["epoch"] == 3
    assert len(macros.statements) == 2


@pytest.mark.parametrize("epoch", [2, 3, 4])
def test_a_run_whose_plan_was_not_committed_as_what_it_is_stops(
    commit_barrier: Any, refused: Any, epoch: int
) -> None:
    """Another run went back, was first with another plan, or gave this one up, and went on."""
    with refused(
        "another run went on while this one executed the barrier 3. Nothing is lost; run again to "
        "continue."
    ):
        commit_barrier(epoch, executed=False)


def test_a_reset_that_others_overtook_stops(commit_barrier: Any, refused: Any) -> None:
    """It may have emptied the MV anew: Iceberg replaces a table whatever happened to it."""
    with refused("another run went on while this one executed the barrier 3. Nothing is lost"):
        commit_barrier(4, plan={"kind": "reset"})


def test_a_plan_that_is_given_up_is_committed_as_such(commit_barrier: Any) -> None:
    assert commit_barrier(3, plan={"kind": "abandon"})["epoch"] == 3


@pytest.fixture
def outcome(render: Any, backfill: Any, make_plan: Any, state: Any) -> Callable[..., str]:
    """The select of what became of a barrier."""

    def outcome(counts: Any = None, left_at: Any = None, **plan: Any) -> str:
        made = make_plan(**plan)
        sql: str = render("get_outcome_sql", backfill, state, made, counts or {}, left_at)
        return sql

    return outcome


def test_when_a_barrier_was_committed_and_what_it_wrote_is_noted(outcome: Any) -> None:
    assert outcome({"changed": 5, "deleted": 2}) == (
        "select to_json(struct( current_timestamp() as committed_at, token as committed_by, "
        "cast(5 as bigint) as changed_row_count, cast(2 as bigint) as deleted_row_count ), "
        "map('ignoreNullFields', 'true'))"
    )


def test_counts_may_be_asked_of_spark(outcome: Any) -> None:
    """Of the snapshot that an Iceberg MERGE made."""
    sql = outcome({"changed": "(select 1)", "deleted": "(select 2)"})

    assert "cast((select 1) as bigint) as changed_row_count" in sql
    assert "cast((select 2) as bigint) as deleted_row_count" in sql


def test_counts_are_zero_where_nothing_was_merged(outcome: Any) -> None:
    assert "cast(0 as bigint) as changed_row_count, cast(0 as bigint) as deleted_" in outcome()


def test_the_snapshot_of_an_iceberg_mv_and_its_oldest_ancestor_are_noted(
    outcome: Any, backfill: Any
) -> None:
    backfill["options"]["file_format"] = "iceberg"
    sql = outcome()

    assert "snapshot as mv_snapshot_id, root as mv_root_id, null as mv_reset_id ), " in sql
    assert (
        "from ( select max_by(cast(snapshot_id as string), made_current_at) as snapshot, "
        "max(if(is_current_ancestor and parent_id is null, cast(snapshot_id as string), null)) "
        "as root from lake.mv.history )"
    ) in sql


def test_an_iceberg_mv_that_began_anew_since_the_barrier_before_is_noted_as_such(
    macros: Macros, outcome: Any, backfill: Any, make_plan: Any, state: Any
) -> None:
    """Something has replaced it; a reset does so itself."""
    backfill["options"]["file_format"] = "iceberg"
    state["committed"] = make_plan(mv_root_id="7", mv_reset_id="p1")

    kept = "root as mv_root_id, 'p1' as mv_reset_id, if(root <> '7', true, null) as begun_anew ), "
    assert kept in outcome()
    reset = macros.call("get_reset_id", make_plan())
    assert f"root as mv_root_id, '{reset}' as mv_reset_id ), " in outcome(kind="reset")


def test_a_snapshot_on_top_of_the_one_that_replaced_the_mv_is_no_new_beginning(
    outcome: Any, backfill: Any
) -> None:
    """A compaction may come between."""
    backfill["options"]["file_format"] = "iceberg"
    sql = outcome(kind="swap", left_at="9")

    assert "if(snapshot <> '9' and not coalesce(stands, false), true, null) as begun_anew" in sql
    stands = "bool_or(is_current_ancestor and cast(snapshot_id as string) = '9') as stands from"
    assert stands in sql
    assert "stands" not in outcome()


def test_the_log_of_the_upstream_is_read_for_the_next_barrier_only(
    macros: Macros, commit_barrier: Any
) -> None:
    macros.stub("get_upstream_log_sql", lambda followed: "(the log)")
    commit_barrier(3)
    commit_barrier(3, ends=True)

    read = ["(the log) as log" in statement.sql for statement in macros.statements]
    assert read == [True, False]


def test_the_outcome_stands_in_the_commit_as_a_literal(
    macros: Macros, commit_barrier: Any, sent: Any
) -> None:
    commit_barrier(3)
    (script,) = sent()

    assert " set token = uuid(); set outcome = (select to_json(struct( " in script
    assert "'__bf_outcome__', " + macros.call("literal_expression", "outcome", "string") in script


def test_every_stage_of_the_barrier_is_dropped_with_the_commit(
    sent: Any, commit_barrier: Any, backfill: Any
) -> None:
    """Also that of a plan that did not stand: its rows are cached."""
    views = ["`first`", "`second`"]
    commit_barrier(3, views=views)
    (script,) = sent()

    handler = "declare exit handler for sqlexception begin end;"  # another session has none
    dropped = [
        f"begin {handler} uncache table if exists {name}; drop view {name}; end; " for name in views
    ]
    assert script.endswith("; " + "".join(dropped) + "select state; end")


def test_a_barrier_without_a_stage_drops_none(macros: Macros, commit_barrier: Any) -> None:
    commit_barrier(3)

    assert "uncache" not in macros.statements[0].sql


def test_where_positions_go_down_a_vnode_below_the_end_of_the_range_stays_where_it_is(
    commit: Callable[..., Any], descending: Any
) -> None:
    plan = {"key": descending, "vnodes": [0, 1, 2, 3]}
    rows = commit(range_low=None, range_high=["1", "3"], **plan)

    assert _column(rows, "id", "shard") == [(1, 2), (1, 3), (1, 3), (1, 2)]
