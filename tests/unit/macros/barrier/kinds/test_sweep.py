"""The MV is put right in slices, and keeps its rows until then."""

from __future__ import annotations

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest

from support.macros import Macros


@pytest.fixture
def swept(make_state: Callable[..., Any], make_plan: Callable[..., Any]) -> Callable[..., Any]:
    """A state in the middle of a sweep."""

    def swept(kind: str = "advance", **state: Any) -> Any:
        committed = make_plan(epoch=2, kind=kind, sweeps=kind != "sweep")
        return make_state(committed=committed, **state)

    return swept


@pytest.fixture
def rows(
    macros: Macros, backfill: Any, make_state: Callable[..., Any], make_plan: Callable[..., Any]
) -> Callable[..., str]:
    columns = [{"name": "k", "type": "bigint"}, {"name": "m", "type": "map<int,int>"}]
    macros.stub("get_table_columns", lambda relation: columns)

    def rows(plan: Any = None, **state: Any) -> str:
        made = make_plan(sweeps=True, **(plan or {}))
        sql = macros.call("get_swept_rows_sql", backfill, make_state(**state), made)
        return " ".join(str(sql).split())

    return rows


# -- when there is one ----------------------------------------------------------------------------


@pytest.mark.parametrize("kind", ["sweep", "advance", "abandon", "reanchor"])
def test_a_sweep_lasts_until_all_vnodes_have_finished(
    macros: Macros, swept: Callable[..., Any], make_state: Any, kind: str
) -> None:
    assert macros.call("is_sweeping", swept(kind))
    assert not macros.call("is_sweeping", swept(kind, finished=True))
    assert not macros.call("is_sweeping", make_state())


def test_a_sweep_that_was_given_up_has_not_begun(
    macros: Macros, make_state: Any, make_plan: Any
) -> None:
    """Its plan notes what was before it."""
    given_up = make_plan(epoch=2, kind="abandon", sweeps=False)

    assert not macros.call("is_sweeping", make_state(committed=given_up, dirty=True))


def test_its_plan_notes_the_old_position_and_has_no_range(
    macros: Macros, backfill: Any, learned: Any, make_state: Any
) -> None:
    macros.context["model"] = SimpleNamespace(name="mv", unique_id="model.p.mv")
    observed = {"version": "18", "id": "u1", "log": [], "complete": True}
    plan = macros.call("new_sweep_plan", backfill, make_state(), learned, observed, "a gap")

    assert (plan["kind"], plan["reason"], plan["sources"][0]["version"]) == ("sweep", "a gap", "18")
    assert (plan["range_low"], plan["range_high"]) == (["1", "2"], None)
    assert (plan["next_bounds"], plan["bounds_complete"]) == ([], False)
    assert not plan["sweeps"]


def test_plans_of_a_sweep_say_so_until_a_reset(
    macros: Macros, backfill: Any, learned: Any, swept: Callable[..., Any]
) -> None:
    macros.context["model"] = SimpleNamespace(name="mv", unique_id="model.p.mv")

    assert macros.call("new_plan", backfill, swept(), learned, "advance")["sweeps"]
    assert macros.call("new_plan", backfill, swept("sweep"), learned, "advance")["sweeps"]
    assert not macros.call("new_reset_plan", backfill, swept(), learned, "why")["sweeps"]
    finished = swept(finished=True)
    assert not macros.call("new_plan", backfill, finished, learned, "advance")["sweeps"]


def test_every_vnode_begins_anew_at_the_new_version(
    macros: Macros, make_state: Any, make_plan: Any
) -> None:
    assert macros.call("sweep_columns", make_state(), make_plan(kind="sweep")) == {
        "upstream_version": "'17'",
        "backfill_finished": "false",
        "row_count": "0",
        "`id`": "null",
        "`shard`": "null",
    }


def test_a_sweep_writes_nothing_and_says_why(
    macros: Macros, backfill: Any, make_state: Any, make_plan: Any, work: Any
) -> None:
    plan = make_plan(kind="sweep", reason="the upstream was replaced")
    done = macros.call("sweep_execute", backfill, make_state(), plan, work)

    assert done == {"failed": None, "counts": {}}
    assert macros.statements == []
    assert macros.call("sweep_report", {"plan": plan}) == [
        "sweeps from the start: the upstream was replaced",
        "version 17",
    ]


# -- its ranges -----------------------------------------------------------------------------------


WINDOW = "(mv.`k` >= 1 and (mv.`k` > 1 or (mv.`k` = 1 and mv.`shard` > 2)))"


def test_what_differs_in_the_range_is_merged(
    macros: Macros, backfill: Any, make_state: Any, make_plan: Any, work: Any, rows: Any,
    render: Any,
) -> None:  # fmt: skip
    plan = make_plan(sweeps=True)
    macros.call("run_swept_range", backfill, make_state(), plan, work)
    sql = " ".join(macros.statements[-1].sql.split())

    assert "merge the range of the barrier 3" in sql
    assert rows() in sql
    assert f"where {render('get_fence', backfill, plan)} ) as changes on " in sql
    on = sql.split(" as changes on ")[1]
    assert WINDOW in on and "mv.`k` <= 5" in on
    assert on.endswith(
        "when matched and not changes.__bf_dropped then update set * when matched then delete "
        "when not matched and not changes.__bf_dropped then insert *"
    )


def test_the_range_of_the_query_is_compared_with_that_of_the_mv(rows: Any) -> None:
    """Both between the same literals, which prune the files of both."""
    query, present = rows().split(" full outer join ")

    assert "coalesce(query.`k`, present.`k`) as `k`" in query
    assert query.count("source.`id` >= 1") == 1 and query.count("source.`id` <= 5") == 1
    assert "from lake.mv as source where ((source.`k` >= 1 and " in present
    assert "source.`k` <= 5" in present
    assert present.endswith(
        "as present on query.`k` = present.`k` and query.`shard` = present.`shard` "
        "where query.`k` is null or present.`k` is null or "
        "(not (present.`k` <=> query.`k`) or not (array_sort(map_entries(present.`m`)) "
        "<=> array_sort(map_entries(query.`m`))))"
    )


def test_where_positions_differ_the_mvs_rows_are_taken_by_their_own_vnode(rows: Any) -> None:
    sql = rows({"vnodes": [0, 3]}, uniform=False, position=None)
    present = sql.split(" full outer join ")[1]

    vnode = present.split("join lake.mv__progress as progress on progress.vnode = ")[1]
    vnode = vnode.split(" where ")[0]
    assert "source.`k`" in vnode and "`id`" not in vnode
    assert "progress.vnode in (0, 3)" in present
    assert "progress.`id` is null or" in present


@pytest.mark.parametrize(
    ("plan", "merged"),
    [
        ({"range_row_count": 4}, True),
        ({"range_row_count": 0}, False),
        ({"range_row_count": 0, "sweeps": True}, True),
        ({"range_row_count": None, "sweeps": True}, False),
    ],
    ids=["rows", "no rows", "no rows in a sweep", "no range in a sweep"],
)
def test_a_range_without_rows_is_merged_in_a_sweep(
    macros: Macros, make_plan: Any, plan: Any, merged: bool
) -> None:
    """The MV may have rows there that are to go."""
    assert bool(macros.call("merges_range", make_plan(**plan))) == merged


@pytest.mark.parametrize("sweeps", [False, True])
def test_the_step_is_that_of_the_plan(
    macros: Macros, backfill: Any, make_state: Any, make_plan: Any, work: Any, sweeps: bool
) -> None:
    ran: list[str] = []
    for name in ("run_range", "run_swept_range"):
        macros.stub(name, lambda *_, name=name: ran.append(name))

    macros.call("advance_execute", backfill, make_state(), make_plan(sweeps=sweeps), work)

    assert ran == ["run_swept_range" if sweeps else "run_range"]


# -- another gap in it ----------------------------------------------------------------------------


def test_nothing_that_a_plan_could_touch_above_the_position_is_promised(
    macros: Macros, backfill: Any, make_state: Any, make_plan: Any, make_source: Any
) -> None:
    macros.stub("find_feed_gap", lambda *_: None)
    macros.stub("continues_upstream", lambda *_: True)
    macros.stub("may_forget_keys", lambda *_: False)
    sources = [make_source(version="16")]
    given_up = {
        "since": {"epoch": 1, "sources": sources},
        "plans": [make_plan(sources=sources), make_plan(sources=sources, range_high=None)],
    }

    def touched(**plan: Any) -> Any:
        committed = make_plan(epoch=2, kind="abandon", given_up=given_up, **plan)
        state = make_state(committed=committed, dirty=True)
        return macros.call("find_touched", backfill, state, {})

    assert touched() == [["5", "6"]]
    assert touched(sweeps=True) == []


@pytest.mark.parametrize("limit", [500000, None])
def test_it_says_beforehand_how_many_rows_it_compares(
    macros: Macros, backfill: Any, make_state: Any, make_plan: Any, limit: int | None
) -> None:
    macros.context["model"] = SimpleNamespace(name="mv")
    plan = make_plan(kind="sweep", reason="it was replaced", backfill_rate_limit=limit)
    done = macros.call("sweep_execute", backfill, make_state(row_count=1234567), plan, None)

    slices = "up to 500,000 rows of the upstream per barrier, " if limit else ""
    assert done == {"failed": None, "counts": {}}
    assert macros.logged == [
        "mv compares all 1,234,567 rows read so far with its query, "
        f"{slices}because it was replaced"
    ]
