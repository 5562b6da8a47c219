"""Step 3: the last state of each changed key, and the MERGE of these."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import pytest

from support.macros import Macros


def test_the_latest_version_of_a_key_wins_and_within_one_the_row_that_is_there(
    render: Callable[..., str], keys: Any
) -> None:
    sql = render("get_last_states_sql", "select * from events", keys)

    assert sql == (
        "select last.* except (__bf_version, __bf_is_upsert), "
        "not last.__bf_is_upsert as __bf_deleted, "
        "balance not in (if(last.__bf_is_upsert, 1, -1), 0) as __bf_unclear "
        "from ( select max_by(struct(*), struct(__bf_version, __bf_is_upsert)) as last, "
        "sum(if(__bf_is_upsert, 1, -1)) as balance "
        "from (select * from events) group by `id`, `shard` )"
    )


# The events of one key in one pass over the feed: upserts count 1, deletes and before-images -1.
@pytest.mark.parametrize(
    ("events", "unclear"),
    [
        ("+", False),  # an insert
        ("-", False),  # a delete, or an UPDATE that took the key away
        ("-+", False),  # an update
        ("-+-+-", False),  # updates, then a delete
        ("+-", False),  # inserted and deleted in between
        ("+-+", False),
        ("++", True),  # the key stands twice
        ("+-++", True),
        ("--", True),  # the key stood twice
        ("-+-+--", True),
    ],
)
def test_events_that_do_not_come_to_one_row_are_unclear(
    macros: Macros, keys: Any, sqlite: Any, events: str, unclear: bool
) -> None:
    expression = macros.call("get_last_states_sql", "select 1", keys)
    expression = expression.split(" as __bf_unclear")[0].rsplit("balance", 1)[1]
    is_upsert, balance = int(events[-1] == "+"), events.count("+") - events.count("-")
    sql = f"select balance {expression}".replace("last.__bf_is_upsert", "is_upsert")

    (result,) = sqlite.execute(
        f"{sql} from (select {is_upsert} as is_upsert, {balance} as balance)"
    )
    assert bool(result[0]) == unclear


def test_a_stage_is_counted_and_bounded_in_one_pass(render: Callable[..., str], keys: Any) -> None:
    sql = render("get_stage_summary_sql", "`stage`", keys)
    null_key = "(`id` is null or `shard` is null)"

    assert f"count_if(not {null_key}) as count" in sql
    assert f"count_if({null_key} and not __bf_deleted) as null_keys" in sql
    assert f"min(struct(`id`, `shard`)) filter (where not {null_key}) as low" in sql
    assert f"max(struct(`id`, `shard`)) filter (where not {null_key}) as high" in sql
    assert "'low', if(low.`id` is null, null, array(" in sql
    assert "'high', if(high.`id` is null, null, array(" in sql


@pytest.mark.parametrize(
    ("null_keys", "unclear_keys", "reason"),
    [
        (0, 0, None),
        (2, 0, "the feed has 2 keys that are null or stood twice in the upstream"),
        (0, 1, "the feed has 1 keys that are null or stood twice in the upstream"),
        (1, 2, "the feed has 3 keys that are null or stood twice in the upstream"),
    ],
)
def test_changes_without_one_last_state_per_key_are_not_merged(
    macros: Macros, null_keys: int, unclear_keys: int, reason: str | None
) -> None:
    staged = {"null_keys": null_keys, "unclear_keys": unclear_keys}
    found = macros.call("find_unclear_changes", staged)

    assert (found.strip() or None) == reason


def test_what_a_stage_holds_can_be_declared_as_a_variable(macros: Macros, keys: Any) -> None:
    summary = macros.call("get_stage_summary_sql", "`stage`", keys)
    type_ = macros.call("stage_summary_type")

    assert re.findall(r"(\w+): ", type_) == re.findall(r"^ +'(\w+)', ", summary, re.MULTILINE)
    assert type_ == (
        "struct<count: bigint, null_keys: bigint, unclear_keys: bigint, low: array<string>, "
        "high: array<string>>"
    )


@pytest.fixture
def stage(macros: Macros, backfill: Any, make_plan: Any) -> Any:
    """Stages the changes of a plan that another run made."""

    def stage(state: dict[str, Any], **plan: Any) -> tuple[dict[str, Any], str]:
        macros.results = [[['{"count": 3, "null_keys": 0, "unclear_keys": 0}']]]
        staged = macros.call("stage_changes", backfill, state, make_plan(**plan))
        return staged, " ".join(macros.statements[-1].sql.split())

    return stage


def test_the_changes_since_the_committed_version_are_staged_up_to_the_position(
    stage: Any, make_state: Callable[..., Any]
) -> None:
    staged, sql = stage(make_state(position=["1", "2"]))

    assert staged["count"] == 3
    assert "from table_changes('lake.up', 17, 17)" in sql
    assert "where (source.`id` <= 1 and (source.`id` < 1 or " in sql
    assert "or (source.`id` is null or source.`shard` is null)" in sql  # these are refused
    assert f"cache table {staged['name']};" in sql


def test_the_view_is_made_and_cached_before_it_is_counted(
    stage: Any, make_state: Callable[..., Any]
) -> None:
    staged, sql = stage(make_state())
    name = staged["name"]

    assert " begin create or replace temporary view " in sql
    view, cache = sql.index(f"temporary view {name} as "), sql.index(f"; cache table {name}; ")
    assert view < cache < sql.index("select to_json((select named_struct( 'count', count, ")
    assert sql.endswith(f"from {name} ))); end")


def test_what_a_feed_needs_is_set_up_before_it_is_read(
    macros: Macros, stage: Any, make_state: Callable[..., Any]
) -> None:
    """Iceberg's changelog is a view."""
    changes = {
        "declarations": ["declare d string"],
        "setup": ["call s", "set d = (select '1')"],
        "events": "select * from changelog",
    }
    macros.stub("get_changes", lambda backfill, state, plan, keys: changes)
    sql = stage(make_state())[1]

    assert " begin declare d string; call s; set d = (select '1'); create or replace temp" in sql
    assert "from (select * from changelog) as source" in sql


def test_what_only_a_query_can_tell_is_a_literal_in_the_view(
    macros: Macros, stage: Any, make_state: Callable[..., Any]
) -> None:
    """A view reads no variable of a script that has ended, and literals prune files."""
    changes = {"events": "select * from up where c = 'x' and n > v.n", "literals": ["v.n", "v.m"]}
    macros.stub("get_changes", lambda backfill, state, plan, keys: changes)
    sql = stage(make_state())[1]

    assert " begin execute immediate replace(replace('create or replace temporary view " in sql
    assert "where c = \\'x\\' and n > v.n" in sql
    assert ")', 'v.n', v.n), 'v.m', v.m); cache table " in sql


def test_no_key_is_unclear_where_an_event_may_stand_twice(
    macros: Macros, stage: Any, make_state: Callable[..., Any]
) -> None:
    """In a change table of the user's own."""
    changes = {"events": "select * from changes", "may_repeat": True}
    macros.stub("get_changes", lambda backfill, state, plan, keys: changes)

    assert "as __bf_deleted, false as __bf_unclear from " in stage(make_state())[1]


def test_the_stage_of_a_stalled_run_is_not_taken_for_another(
    stage: Any, make_state: Callable[..., Any], macros: Macros
) -> None:
    first = stage(make_state())[0]["name"]
    second = stage(make_state(), epoch=4)[0]["name"]
    third = stage(make_state(), plan_id="p9")[0]["name"]
    macros.context["invocation_id"] = "11111111-0000-0000-0000-000000000000"
    fourth = stage(make_state())[0]["name"]

    assert len({first, second, third, fourth}) == 4
    assert first == "`lake__mv__changes__3__p3__00000000000000000000000000000000`"


def test_every_stage_is_noted_so_that_the_commit_drops_it(
    stage: Any, backfill: Any, make_state: Callable[..., Any]
) -> None:
    backfill["stages"].append("`older`")
    name = stage(make_state())[0]["name"]

    assert backfill["stages"] == ["`older`", name]


@pytest.fixture
def merge(macros: Macros, backfill: Any, make_plan: Callable[..., Any]) -> Any:
    def merge(**staged: Any) -> str:
        stage = {"name": "`stage`", "count": 3, "low": ["1", "2"], "high": ["4", "0"], **staged}
        macros.call("run_changes", backfill, make_plan(), stage)
        return " ".join(macros.statements[-1].sql.split())

    return merge


def test_a_changed_key_is_merged_with_what_the_query_makes_of_its_last_state(merge: Any) -> None:
    sql = merge()

    assert (
        "with `up` as ( select * except (__bf_deleted, __bf_unclear) from `stage` "
        "where not __bf_deleted ) select * from ( select id as k, shard from `up` )"
    ) in sql
    assert "query.`k` = stage.`id` and query.`shard` = stage.`shard`" in sql
    assert "stage.`id` as __bf_key_1, stage.`shard` as __bf_key_2 from `stage` as stage" in sql


def test_a_null_key_is_not_merged(merge: Any) -> None:
    assert "where not (stage.`id` is null or stage.`shard` is null) and" in merge()


def test_a_key_that_the_query_no_longer_returns_is_deleted(merge: Any) -> None:
    assert merge().endswith(
        "when matched and changes.`k` is not null then update set * "
        "when matched then delete "
        "when not matched and changes.`k` is not null then insert *"
    )


def test_the_target_is_bounded_by_the_changed_keys_as_literals(merge: Any) -> None:
    on = merge().split(" as changes on ")[1].split(" when ")[0]

    assert on == (
        "mv.`k` = changes.__bf_key_1 and mv.`shard` = changes.__bf_key_2 "
        "and (mv.`k` >= 1 and (mv.`k` > 1 or (mv.`k` = 1 and mv.`shard` >= 2))) "
        "and (mv.`k` <= 4 and (mv.`k` < 4 or (mv.`k` = 4 and mv.`shard` <= 0)))"
    )


def test_the_changes_are_fenced_in_the_source(
    macros: Macros, merge: Any, render: Any, backfill: Any, make_plan: Any
) -> None:
    source = merge().split(" as changes on ")[0]

    assert source.endswith(f"and {render('get_fence', backfill, make_plan())} )")


def test_the_rows_that_were_merged_are_counted(
    macros: Macros, backfill: Any, make_plan: Callable[..., Any]
) -> None:
    asked: list[Any] = []
    macros.stub("get_merge_counts", lambda *given: asked.append(given) or {"changed": 8})
    stage = {"name": "`stage`", "count": 3, "low": ["1", "2"], "high": ["4", "0"]}
    macros.results = [[["result"]]]

    assert macros.call("run_changes", backfill, make_plan(), stage) == {"changed": 8}
    assert asked == [(backfill, make_plan(), [["result"]])]
