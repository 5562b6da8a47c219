"""Step 3: the last state of each changed key, as it is staged."""

from __future__ import annotations

import functools
import json
import operator
import re
from collections.abc import Callable
from typing import Any

import pytest

from support.macros import Macros


def test_the_latest_version_of_a_key_wins_and_within_one_the_row_that_is_there(
    render: Callable[..., str], keys: Any
) -> None:
    sql = render("get_last_states_sql", "select * from events", keys, {})

    assert sql.startswith(
        "select latest.* except (__bf_version, __bf_is_upsert, __bf_image), "
        "not latest.__bf_is_upsert as __bf_deleted, "
        "earliest.__bf_is_upsert as __bf_inserted, "
        "events = 1 and not latest.__bf_is_upsert as __bf_gone, "
    )
    order = "struct(__bf_version, __bf_is_upsert)"
    assert (
        f"select max_by(struct(*), {order}) as latest, "
        f"min_by(struct(__bf_is_upsert, __bf_image), {order}) as earliest, "
    ) in sql
    assert sql.endswith(" from (select * from events) ) group by `id`, `shard` )")


# The events of one key in their order: + brings the row of this name and - takes it away.
@pytest.mark.parametrize(
    ("events", "unclear"),
    [
        ("+a", False),  # an insert
        ("-a", False),  # a delete, or an UPDATE that took the key away
        ("-a +b", False),  # an update
        ("-a +b -b +c -c", False),  # updates, then a delete
        ("+a -a", False),  # inserted and deleted in between
        ("+a -a +b", False),
        ("-a +b -b +a", False),  # there and back
        ("+a +b", True),  # the key stands twice
        ("-a +b -b +c +d", True),
        ("-a -b", True),  # the key stood twice
        ("-a +b -b +c -c -d", True),
        ("+new -old", True),  # it stood twice for a while, and the older one was deleted
        ("-a +b +c -b", True),
        ("+b +c -a -b", True),
        ("+a +b -x -a", True),
    ],
)
def test_events_that_are_no_chain_of_states_are_unclear(
    macros: Macros, keys: Any, sqlite: Any, events: str, unclear: bool
) -> None:
    expression = " ".join(macros.call("get_last_states_sql", "select 1", keys, {}).split())
    expression = expression.split("__bf_gone, ")[1].split(" as __bf_unclear")[0]
    rows = [(event[0] == "+", sum(event[1:].encode()) * 7919 % 1009) for event in events.split()]
    images = functools.reduce(operator.xor, (image for _, image in rows))
    values = {
        "balance": sum(1 if upsert else -1 for upsert, _ in rows),
        "images": images,
        "latest.__bf_is_upsert": int(rows[-1][0]),
        "latest.__bf_image": rows[-1][1],
        "earliest.__bf_is_upsert": int(rows[0][0]),
        "earliest.__bf_image": rows[0][1],
    }
    for name, value in values.items():
        expression = re.sub(rf"(?<![\w.]){re.escape(name)}\b", str(value), expression)
    # SQLite has no operator for an exclusive or, and its `if` is a function of ours.
    balance, images_differ = expression.split(" or ")
    left, right = images_differ.split(" <> ")[1].replace("0L", "0").split(" ^ ")

    def value(sql: str) -> int:
        return int(sqlite.execute(f"select {sql}").fetchone()[0])

    assert (bool(value(balance)) or images != value(left) ^ value(right)) == unclear


@pytest.mark.parametrize("what", ["may_repeat", "one_commit"])
def test_rows_are_hashed_only_where_several_commits_may_have_touched_one(
    render: Callable[..., str], keys: Any, what: str
) -> None:
    assert "xxhash64(to_json(struct(* except (" in render("get_last_states_sql", "x", keys, {})
    assert "xxhash64" not in render("get_last_states_sql", "x", keys, {what: True})


def test_a_row_that_the_feed_may_have_altered_is_unclear(
    render: Callable[..., str], keys: Any
) -> None:
    """Bytes that are no UTF-8, days that the calendar leaves out, and the order of a map."""
    altered = "rlike '\\uFFFD|1582-10-1[456]'"
    options = render("whole_json_options")
    sql = render("get_last_states_sql", "x", keys, {"alters_values": True})
    summary = render("get_stage_summary_sql", "`stage`", keys, ["__bf_unclear"], True)

    assert "(contains(typeof(latest), 'map<') or to_json(latest, " in sql and altered in sql
    assert f"{altered}) as altered_keys" in summary
    assert f"(__bf_unclear or to_json(struct(`id`, `shard`), {options}) {altered})) as" in summary
    assert altered not in render("get_last_states_sql", "x", keys, {})


def test_a_stage_is_counted_and_bounded_in_one_pass(render: Callable[..., str], keys: Any) -> None:
    sql = render("get_stage_summary_sql", "`stage`", keys, ["__bf_unclear", "__bf_gone"])
    null_key = "(`id` is null or `shard` is null)"

    assert f"count_if(not {null_key}) as count" in sql
    assert f"count_if({null_key} and not __bf_deleted) as null_keys" in sql
    assert f"count_if(not {null_key} and (__bf_unclear or __bf_gone)) as suspects" in sql
    assert f"min(struct(`id`, `shard`)) filter (where not {null_key}) as low" in sql
    assert f"max(struct(`id`, `shard`)) filter (where not {null_key}) as high" in sql
    assert "'low', if(low.`id` is null, null, array(" in sql
    assert "'high', if(high.`id` is null, null, array(" in sql


@pytest.mark.parametrize(
    ("null_keys", "reason"),
    [(0, None), (2, "the feed has 2 rows with a null in the key")],
)
def test_changes_of_which_the_key_is_not_known_are_not_merged(
    macros: Macros, null_keys: int, reason: str | None
) -> None:
    found = macros.call("find_unclear_changes", {"null_keys": null_keys, "altered_keys": 3})

    assert (found.strip() or None) == reason


@pytest.mark.parametrize(("altered_keys", "bound"), [(0, ["7"]), (1, None)])
def test_keys_that_the_feed_may_tell_otherwise_are_between_no_bounds(
    macros: Macros, backfill: Any, make_plan: Any, altered_keys: int, bound: list[str] | None
) -> None:
    """Those that were read again in their stead are not among those of the stage."""
    staged = {"altered_keys": altered_keys, "low": ["7"], "high": ["7"]}
    result = {"staged": staged, "merged": {"upserts": 1, "drops": 0}}
    own = macros.call("get_own_stage", backfill, make_plan(), result)

    assert (own["low"], own["high"], own["altered_keys"]) == (bound, bound, altered_keys)


def test_what_a_stage_holds_can_be_declared_as_a_variable(macros: Macros, keys: Any) -> None:
    summary = macros.call("get_stage_summary_sql", "`stage`", keys, ["__bf_unclear"])
    type_ = macros.call("stage_summary_type")

    assert re.findall(r"(\w+): ", type_) == re.findall(r"^ +'(\w+)', ", summary, re.MULTILINE)
    assert type_ == (
        "struct<count: bigint, null_keys: bigint, altered_keys: bigint, suspects: bigint, "
        "low: array<string>, high: array<string>>"
    )


STAGED = {"count": 3, "null_keys": 0, "suspects": 0}
MERGED = {"upserts": 2, "drops": 1}


@pytest.fixture
def changes(
    macros: Macros, backfill: Any, observed: Any, learned: Any, make_state: Any, make_plan: Any
) -> dict[str, Any]:
    """Those of the upstream's versions 16 to 17."""
    arguments = (backfill, make_state(), observed, learned, make_plan())
    changes: dict[str, Any] = macros.call("get_changes", *arguments)
    return changes


@pytest.fixture
def stage(macros: Macros, backfill: Any, make_plan: Any, work: Any, changes: Any) -> Any:
    """Stages the changes of a plan that another run made."""

    def stage(
        state: dict[str, Any], read: dict[str, Any] = changes, **plan: Any
    ) -> tuple[dict[str, Any], str]:
        macros.results = [[[json.dumps({"staged": STAGED, "merged": MERGED})]]]
        reads = {**work, "changes": read}
        staged = macros.call("stage_changes", backfill, state, make_plan(**plan), reads)
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
    name = staged["name"].replace("__rows", "")

    view, cache = sql.index(f"temporary view {name} as "), sql.index(f"; cache table {name}; ")
    assert view < cache < sql.index("; set staged = (select named_struct( 'count', count, ")
    assert sql.endswith("; select to_json(struct(staged, reread, merged)); end")


def test_what_the_query_makes_of_them_is_cached_and_counted_before_it_is_merged(
    stage: Any, make_state: Callable[..., Any]
) -> None:
    """A MERGE reads its source twice."""
    staged, sql = stage(make_state())

    assert staged["name"].endswith("__rows`")
    assert (staged["upserts"], staged["drops"]) == (2, 1)
    assert sql.index("; set staged = ") < sql.index(f"temporary view {staged['name']} as ")
    assert (
        f"end if; cache table {staged['name']}; "
        "set merged = (select struct(count_if(not __bf_dropped), count_if(__bf_dropped)) "
        f"from {staged['name']}); select "
    ) in sql
    assert "declare merged struct<upserts: bigint, drops: bigint>;" in sql


def test_a_stage_tells_that_no_key_was_read_again_where_none_was_in_doubt(
    stage: Any, make_state: Callable[..., Any]
) -> None:
    assert stage(make_state())[0]["reread"] == {"count": 0}


@pytest.mark.parametrize("result", [{"failed": True}, {"done": False, "failed": True}])
def test_changes_that_cannot_be_staged_are_noted_where_the_plan_may_be_given_up(
    macros: Macros, backfill: Any, make_state: Any, make_plan: Any, changes: Any, result: Any
) -> None:
    macros.results = [[[json.dumps(result)]]]
    guarded = {"guarded": True, "changes": changes}

    staged = macros.call("stage_changes", backfill, make_state(), make_plan(), guarded)
    assert staged == {"failed": "stage the changes"}
    script = " ".join(macros.statements[0].sql.split())
    assert "declare exit handler for sqlexception begin select " in script


def test_what_a_feed_needs_is_set_up_before_it_is_read(
    stage: Any, make_state: Callable[..., Any]
) -> None:
    """Iceberg's changelog is a view."""
    changes = {
        "declarations": ["declare d string"],
        "setup": ["call s", "set d = (select '1')"],
        "events": "select * from changelog",
        "drops_rows": True,
    }
    sql = stage(make_state(), changes)[1]

    assert " begin declare d string; declare staged struct<" in sql
    assert "; call s; set d = (select '1'); create or replace temporary view " in sql
    assert "from (select * from changelog) as source" in sql


def test_what_only_a_query_can_tell_is_a_literal_in_the_view(
    stage: Any, make_state: Callable[..., Any]
) -> None:
    """A view reads no variable of a script that has ended, and literals prune files."""
    changes = {
        "events": "select * from up where c = 'x' and n > v.n",
        "literals": ["v.n", "v.m"],
        "drops_rows": True,
    }
    sql = stage(make_state(), changes)[1]

    assert "; execute immediate replace(replace('create or replace temporary view " in sql
    assert "where c = \\'x\\' and n > v.n" in sql
    assert ")', 'v.n', v.n), 'v.m', v.m); cache table " in sql


def test_no_key_is_unclear_where_an_event_may_stand_twice(
    stage: Any, make_state: Callable[..., Any]
) -> None:
    """In a change table of the user's own."""
    changes = {"events": "select * from changes", "may_repeat": True, "drops_rows": True}

    assert (
        "as __bf_inserted, false as __bf_gone, false as __bf_unclear from "
        in (stage(make_state(), changes)[1])
    )


def test_the_stage_of_a_stalled_run_is_not_taken_for_another(
    stage: Any, make_state: Callable[..., Any], macros: Macros
) -> None:
    first = stage(make_state())[0]["name"]
    second = stage(make_state(), epoch=4)[0]["name"]
    third = stage(make_state(), plan_id="p9")[0]["name"]
    macros.context["invocation_id"] = "11111111-0000-0000-0000-000000000000"
    fourth = stage(make_state())[0]["name"]

    assert len({first, second, third, fourth}) == 4
    assert first == "`lake__mv__changes__3__p3__00000000000000000000000000000000__rows`"


def test_every_stage_is_noted_so_that_the_commit_drops_it(
    macros: Macros, stage: Any, backfill: Any, make_state: Any, make_plan: Any
) -> None:
    """Among them what the feed has set up."""
    name = stage(make_state())[0]["name"]
    changes = {"events": "select * from changelog", "views": ["changelog"]}

    stage_name = name.removesuffix("__rows`")
    views = [f"{stage_name}{suffix}`" for suffix in ("__rows", "__again", "__doubtful", "")]
    noted = macros.call("get_stage_views", backfill, make_plan(), changes)
    assert noted == [*views, "changelog"]  # each before those that it reads


# -- the rows as the query returns them ---------------------------------------------------------


@pytest.fixture
def rows(
    render: Any, macros: Macros, backfill: Any, make_plan: Any, keys: Any
) -> Callable[..., str]:
    """The second view of a stage; the first one is `stage`."""
    macros.stub("get_stage_name", lambda backfill, plan, suffix="": f"`stage{suffix}`")

    def rows(reread: bool = False, alters_values: bool = False) -> str:
        arguments = (backfill, make_plan(), keys, reread, alters_values)
        sql: str = render("get_staged_rows_sql", *arguments)
        return sql

    return rows


def test_a_changed_key_is_staged_with_what_the_query_makes_of_its_last_state(rows: Any) -> None:
    sql = rows()

    assert sql.startswith(
        "select query.* except (`k`, `shard`), coalesce(query.`k`, stage.`id`) as `k`, "
        "coalesce(query.`shard`, stage.`shard`) as `shard`, "
    )
    assert (
        "from `stage` as stage left join ( "
        "with `up` as ( select stage.* except (__bf_deleted, __bf_inserted, __bf_gone, "
        "__bf_unclear) from `stage` as stage where not __bf_deleted ) "
        "select * from ( select id as k, shard from `up` ) ) as query "
        "on stage.`id` = query.`k` and stage.`shard` = query.`shard` where "
    ) in sql


def test_a_key_of_which_the_query_returns_no_row_is_staged_as_dropped(rows: Any) -> None:
    """It was deleted, or a filter leaves it out."""
    assert ", query.`k` is null as __bf_dropped from `stage` as stage left join (" in rows()


def test_a_null_key_is_not_merged(rows: Any) -> None:
    assert rows().endswith(" where not (stage.`id` is null or stage.`shard` is null)")


def test_a_change_of_what_the_query_does_not_read_is_told_by_both_images(
    render: Any, keys: Any
) -> None:
    read = [{"name": "id", "type": "bigint"}, {"name": "amount", "type": "double"}]
    sql = render("get_last_states_sql", "select * from events", keys, {"read_columns": read})

    assert "min_by(struct(__bf_is_upsert, __bf_image, `id`, `amount`), " in sql
    condition = sql.rpartition(") where ")[2]
    assert condition.startswith(
        "earliest.__bf_is_upsert or not latest.__bf_is_upsert "
        "or (not (earliest.`id` <=> latest.`id`) or not (named_struct("
    )
    assert " or (latest.`id` is null or latest.`shard` is null) or balance <> if(" in condition
    every = render("get_last_states_sql", "x", keys, {"read_columns": None})
    assert every.endswith("from (x) ) group by `id`, `shard` )")


def test_rows_that_were_read_again_take_the_place_of_those_of_the_feed(rows: Any) -> None:
    feed, read = rows(reread=True).split(" union all ")

    assert "left anti join `stage__doubtful` as doubtful on stage.`id` = doubtful.`id` and" in feed
    assert "with `up` as ( select * from `stage__again` )" in read
    assert "doubtful" not in rows() and "union" not in rows()


def test_keys_that_are_none_of_the_stage_may_have_been_read_again(rows: Any) -> None:
    keys = "(select `id`, `shard` from `stage` union select `id`, `shard` from `stage__doubtful`)"

    assert f" from {keys} as stage left join (" in rows(reread=True, alters_values=True)
    assert rows(alters_values=True) == rows()


def test_whether_rows_were_read_again_is_known_when_the_script_runs(
    render: Any, rows: Any, backfill: Any, make_plan: Any, keys: Any
) -> None:
    sql = render("get_rows_statements", backfill, make_plan(), keys, "`rows`")
    view = "create or replace temporary view `rows` as "

    assert sql.startswith(
        f"if coalesce(reread.count, 0) > 0 then {view}{rows(reread=True)}; "
        f"else {view}{rows()}; end if; cache table `rows`; set merged = "
    )
