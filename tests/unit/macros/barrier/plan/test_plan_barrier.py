"""Step 2: one script stages, checks, creates and stores; what does not hold is planned again."""

from __future__ import annotations

import json
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest

from support.macros import Macros

OURS = {"plan_id": "p3", "kind": "advance"}
THEIRS = {"plan_id": "theirs", "kind": "advance"}
CHECKED = {"row_count": 9, "null_keys": 0, "duplicates": False, "upstream_row_count": 77}
STAGED = {"count": 3, "null_keys": 0, "suspects": 0}
MERGED = {"upserts": 2, "drops": 1}


@pytest.fixture
def planned(make_plan: Callable[..., Any]) -> Callable[..., Any]:
    """A plan of this run with a range, as it is before its rows are counted."""

    def planned(**changes: Any) -> Any:
        plan = make_plan(range_row_count=None, vnode_row_counts=None)
        return {"vnodes": None, **plan, **changes}

    return planned


@pytest.fixture
def attempt(
    macros: Macros, backfill: Any, observed: Any, learned: Any, planned: Callable[..., Any]
) -> Callable[..., Any]:
    """What planning knows of a plan of this run."""

    def attempt(state: Any, most_rows: int | None = None, **plan: Any) -> Any:
        arguments = (backfill, state, observed, learned, planned(**plan), most_rows)
        return macros.call("new_attempt", *arguments)

    return attempt


# What a plan without a range has in place of one.
STAYS = {"range_high": ["1", "2"]}


# -- the script ---------------------------------------------------------------------------------


@pytest.fixture
def script(
    macros: Macros,
    backfill: Any,
    render: Callable[..., str],
    make_state: Callable[..., Any],
    make_plan: Callable[..., Any],
    attempt: Callable[..., Any],
) -> Callable[..., str]:
    """The script of a plan with a range, whose upstream went from version 16 to 17."""
    columns = [{"name": "k", "type": "bigint"}]
    macros.stub("get_reread_statements", lambda *_: "REREAD")
    macros.stub("get_rows_statements", lambda *_: "ROWS")
    macros.stub(
        "get_create_statements",
        lambda relations, plan, columns, first: f"CREATE {first['plan_id']};",
    )

    def script(
        state: dict[str, Any] | None = None, most_rows: int | None = None, unique: bool = False,
        **plan: Any,
    ) -> str:  # fmt: skip
        committed = {"committed": make_plan(epoch=2)} if state == UNCHANGED else {}
        made = make_state(**(state or {}), **committed)
        tried = {**attempt(made, most_rows, **plan), "keys_are_unique": unique}
        return render("get_plan_script", backfill, made, tried, columns)

    return script


UNCHANGED = {"upstream_version": "17"}
NEW = {"position": None, "upstream_version": None, "missing": True}


def _between(sql: str, begin: str, end: str) -> str:
    assert sql.count(begin) == 1, sql
    return sql.split(begin)[1].split(end)[0]


def _condition(sql: str) -> str:
    return _between(sql, " if ", " then ").removeprefix("true").removeprefix(" and ")


def _if_it_holds(sql: str) -> str:
    return sql.split(" if ")[1].split(" then ", 1)[1].split(" else ")[0]


STAGED_HOLDS = "staged.null_keys = 0 and coalesce(size(reread.twice), 0) <= 0"
CHECKED_HOLDS = "checked.null_keys = 0 and not checked.duplicates"


def test_a_plan_is_stored_if_its_changes_and_its_keys_hold(script: Callable[..., str]) -> None:
    assert _condition(script()) == f"{STAGED_HOLDS} and {CHECKED_HOLDS}"


def test_a_plan_without_changes_stages_none(script: Callable[..., str]) -> None:
    for sql in [script(UNCHANGED), script({"position": None}), script(NEW)]:
        assert _condition(sql) == CHECKED_HOLDS
        assert "staged" not in sql and "merged" not in sql and "cache table" not in sql


def test_a_plan_without_a_range_checks_no_keys(script: Callable[..., str]) -> None:
    sql = script(**STAYS)

    assert _condition(sql) == STAGED_HOLDS
    assert "checked" not in sql


def test_a_range_holds_up_to_the_most_rows_that_it_may_have(script: Callable[..., str]) -> None:
    assert _condition(script(UNCHANGED, most_rows=12)) == (
        f"{CHECKED_HOLDS} and checked.row_count <= 12"
    )


@pytest.mark.parametrize("kind", ["reset", "reanchor"])
def test_only_an_advance_has_changes(script: Callable[..., str], kind: str) -> None:
    assert "staged" not in script(kind=kind)


def test_a_reset_holds_in_any_case(script: Callable[..., str]) -> None:
    sql = script(kind="reset", **STAYS)

    assert _condition(sql) == ""
    assert sql.startswith("begin declare planned string; if true then set planned = (select ")


def test_a_reanchor_checks_the_keys_of_the_whole_prefix(script: Callable[..., str]) -> None:
    sql = script(kind="reanchor", **STAYS)
    checked = _between(sql, "set checked = (", " if ")

    assert _condition(sql) == CHECKED_HOLDS
    assert "from lake.up version as of 17 as source where (source.`id` <= 1 and " in checked
    assert " or (source.`id` is null or source.`shard` is null)" in checked


def test_the_keys_of_a_range_are_checked_together_with_null_ones(
    script: Callable[..., str],
) -> None:
    checked = _between(script(UNCHANGED), "set checked = (", " if ")

    assert "from lake.up version as of 17 as source where ((source.`id` >= 1 and " in checked
    assert ") or (source.`id` is null or source.`shard` is null)" in checked
    total = "coalesce((select count(*) from lake.up version as of 17), 100)"
    assert f"'upstream_row_count', {total}" in checked


@pytest.mark.parametrize(
    ("check_key", "unique", "is_checked"),
    [(True, False, True), (False, False, False), (True, True, False)],
)
def test_keys_are_compared_unless_the_user_or_this_run_knows_them_to_be_unique(
    script: Callable[..., str], options: Any, check_key: bool, unique: bool, is_checked: bool
) -> None:
    options["check_key"] = check_key

    assert ("group by hash" in script(UNCHANGED, unique=unique)) is is_checked


def test_variables_are_declared_with_their_types_before_anything_else(
    macros: Macros, script: Callable[..., str]
) -> None:
    """Spark wants them at the beginning of a script."""
    staged, checked = macros.call("stage_summary_type"), macros.call("key_check_type")
    reread = macros.call("reread_summary_type")

    assert script().startswith(
        f"begin declare lost boolean default false; declare staged {staged}; "
        f"declare reread {reread}; declare merged struct<upserts: bigint, drops: bigint>; "
        f"declare checked {checked}; declare planned string; begin declare exit handler for "
    )
    assert script(NEW).startswith(
        f"begin declare checked {checked}; declare created_id string; declare standing string; "
        "declare is_ours boolean; declare create_mv string; set checked = ("
    )


def test_changes_are_staged_before_keys_are_checked(
    script: Callable[..., str], macros: Macros, backfill: Any, planned: Callable[..., Any]
) -> None:
    sql = script()
    name = macros.call("get_stage_name", backfill, planned())

    cache = f"; cache table {name}; set staged = ("
    steps = [f"temporary view {name} as", cache, "; REREAD; ROWS; ", "set checked ="]
    places = [sql.index(step) for step in steps]
    assert places == sorted(places)
    assert places[-1] < sql.index(" if ")


def test_the_result_is_the_plan_that_stands_with_what_was_found(
    script: Callable[..., str], render: Any, backfill: Any
) -> None:
    sql = script()
    known = ["staged", "reread", "merged", "checked"]

    assert _if_it_holds(sql).endswith(render("get_standing_plan_sql", backfill, 3, known) + ";")
    assert sql.endswith(
        " else select to_json(struct(lost, staged, reread, merged, checked)); end if; end"
    )
    standing = render("get_standing_plan_sql", backfill, 3, ["checked"])
    assert _if_it_holds(script(UNCHANGED)).endswith(standing + ";")


def test_a_plan_is_stored_before_it_is_read_what_stands(script: Callable[..., str]) -> None:
    """Also where this run's was not stored, because another one stands."""
    holds = _if_it_holds(script())

    assert holds.startswith("set planned = (select to_json(struct( cast(3 as bigint) as epoch, ")
    assert holds.index("update lake.mv__progress set plan_id = ") < holds.index("select concat('{'")


def test_what_stages_the_changes_may_find_them_gone(script: Callable[..., str]) -> None:
    """No other statement may: it writes, or reads what is there."""
    sql = script()
    staging = _between(sql, "begin set lost = true; end; ", " end; set checked = ")

    assert sql.count("declare exit handler for FAILED_READ_FILE") == 1
    assert staging.startswith("create or replace temporary view") and "set staged = (" in staging
    for other in [script(NEW), script(UNCHANGED), script(kind="reanchor")]:
        assert "FAILED_READ_FILE" not in other and "lost" not in other


def test_a_handler_is_of_the_format_whose_changes_are_read(
    script: Callable[..., str], macros: Macros
) -> None:
    """Iceberg's own errors have no condition."""
    assert "handler for FAILED_READ_FILE.FILE_NOT_EXIST, sqlstate 'KD002'" in script()
    assert macros.call("get_lost_conditions", {"kind": "iceberg"}) is None


def test_a_first_plan_is_created_with_the_tables(script: Callable[..., str]) -> None:
    """What is refused leaves nothing behind."""
    storing = _if_it_holds(script(NEW))

    assert storing.startswith(
        """CREATE p3; select concat( '{"settings":', to_json(map('spark.sql."""
    )
    assert storing.endswith(
        """)), ',"checked":', to_json(checked), ',"plan":', coalesce(standing, 'null'), '}' );"""
    )
    assert "CREATE" not in script()


# -- how it is stored ---------------------------------------------------------------------------


@pytest.fixture
def store(progress: Any, backfill: Any, make_plan: Any) -> Callable[..., int]:
    """How many rows of the progress table are changed where a plan is stored."""

    def store(**plan: Any) -> int:
        made = make_plan(**plan)
        return int(progress.move("get_store_plan_statements", backfill, made, planned=made))

    return store


def test_every_row_has_the_id_and_kind_of_the_plan_and_one_the_plan_itself(
    store: Any, progress: Any, make_plan: Any
) -> None:
    progress.fill()

    assert store() == 2
    assert progress.read("epoch", "plan_id", "plan_kind") == [(2, "p3", "advance")] * 2
    plan, none = progress.read("plan")
    assert json.loads(plan) == make_plan() and none is None


def test_a_plan_is_stored_only_if_its_epoch_has_none(
    store: Any, progress: Any, with_plan: Any
) -> None:
    progress.fill(**with_plan(plan_id="theirs"))

    assert store() == 0
    assert progress.read("plan_id") == ["theirs"] * 2


def test_a_plan_that_is_sent_again_is_stored_once(store: Any, progress: Any) -> None:
    progress.fill()

    assert (store(), store()) == (2, 0)


@pytest.mark.parametrize("epoch", [1, 3])
def test_a_plan_is_stored_only_for_the_next_epoch(store: Any, progress: Any, epoch: int) -> None:
    """Another run has gone on, or the state was restored to what it was before."""
    progress.fill(epoch=epoch)

    assert store() == 0


def test_a_plan_that_was_given_up_is_never_overwritten(
    store: Any, progress: Any, with_plan: Any
) -> None:
    progress.fill(**with_plan(kind="abandon"))

    assert store(plan_id="p4") == 0


def test_a_plan_stands_in_its_statement_as_a_literal(
    render: Any, backfill: Any, macros: Macros, make_plan: Any
) -> None:
    """With what the script has counted, which it knows only when it runs."""
    sql = render("get_store_plan_statements", backfill, make_plan())
    literal = macros.call("literal_expression", "planned", "string")

    assert sql.startswith("set planned = (select to_json(struct( ")
    assert "execute immediate replace('update lake.mv__progress set plan_id = " in sql
    assert f"'__bf_planned__', {literal});" in sql


# -- what the script counts ---------------------------------------------------------------------


@pytest.fixture
def counted(
    render: Callable[..., str], macros: Macros, planned: Callable[..., Any]
) -> Callable[..., str]:
    """A plan as it is stored, with what the script has counted."""

    def counted(
        counted: bool = True, staged: bool = False, overlaid: bool = False, **plan: Any
    ) -> str:
        row = macros.call("get_counted_plan", planned(**plan), counted, staged, overlaid)
        return render("get_plan_json_sql", row)

    return counted


def test_an_advance_notes_what_the_script_counted(counted: Callable[..., str]) -> None:
    sql = counted()

    assert "cast(checked.upstream_row_count as bigint) as upstream_row_count" in sql
    assert "cast(checked.row_count as bigint) as range_row_count" in sql
    assert "cast(checked.vnode_row_counts as map<int, bigint>) as vnode_row_counts" in sql


def test_a_reanchor_reads_no_range(counted: Callable[..., str]) -> None:
    sql = counted(kind="reanchor", staged=True)

    assert "cast(checked.upstream_row_count as bigint) as upstream_row_count" in sql
    assert "cast(null as bigint) as range_row_count" in sql
    assert "checked.row_count" not in sql and "checked.vnode_row_counts" not in sql


def test_a_plan_that_counted_nothing_keeps_the_last_count(counted: Callable[..., str]) -> None:
    sql = counted(counted=False, staged=True)

    assert "cast(100 as bigint) as upstream_row_count" in sql
    assert "checked" not in sql and "merged" not in sql


@pytest.mark.parametrize(
    ("rows", "upserts", "drops", "at_once"),
    [
        (5, 2, 1, True),
        (5, 0, 1, True),
        (0, 2, 1, False),  # no range
        (5, 0, 0, False),  # no changes
        (100_000, 99_999, 1, True),
        (100_001, 1, 1, False),
        (1, 99_999, 2, False),
    ],
)
def test_changes_and_a_range_are_merged_at_once_where_both_are_there_and_small(
    macros: Macros, planned: Any, sqlite: Any, rows: int, upserts: int, drops: int, at_once: bool
) -> None:
    """The plan says so: a run that adopts it does the same."""
    expression = macros.call("get_counted_plan", planned(), True, True)["at_once"]
    counts = {"checked.row_count": rows, "merged.upserts": upserts, "merged.drops": drops}
    for name, count in counts.items():
        expression = expression.replace(name, str(count))

    assert bool(sqlite.execute(f"select {expression}").fetchone()[0]) is at_once


@pytest.mark.parametrize(
    ("counts", "plan"),
    [
        ({"staged": False}, {}),
        ({"counted": False, "staged": True}, {}),
        ({"staged": True}, {"kind": "reanchor"}),
        ({"staged": True, "overlaid": True}, {}),
    ],
    ids=["no changes", "no range", "reanchor", "changes of the range"],
)
def test_a_plan_of_one_step_has_nothing_to_merge_at_once(
    counted: Callable[..., str], counts: Any, plan: Any
) -> None:
    assert "cast(false as boolean) as at_once" in counted(**counts, **plan)


def test_a_plan_in_memory_does_not_get_the_counts(
    macros: Macros, planned: Callable[..., Any]
) -> None:
    """It may have to be planned again."""
    plan = planned()
    macros.call("get_counted_plan", plan, True, True)

    assert plan == planned()


# -- what becomes of its result -----------------------------------------------------------------


@pytest.fixture
def stood() -> dict[str, Any]:
    """All that planning returned."""
    return {}


@pytest.fixture
def plan_barrier(
    macros: Macros,
    backfill: Any,
    observed: Any,
    learned: Any,
    make_state: Callable[..., Any],
    planned: Callable[..., Any],
    stood: dict[str, Any],
) -> Callable[..., Any]:
    """Plans p3; returns the plan that stands, and the scripts, which have the given results.

    `duplicates` are the keys that are then found to stand twice.
    """
    macros.context["model"] = SimpleNamespace(name="mv", unique_id="model.p.mv")
    macros.stub("check_model_of_plan", lambda *checked: stood.update(checked=checked))

    def plan_barrier(
        *results: Any, most_rows: int | None = None, duplicates: Any = None,
        sources: Any = None, replica: Any = None, **state: Any,
    ) -> tuple[Any, list[str]]:  # fmt: skip
        answers = [[[json.dumps(result)]] for result in results]
        if duplicates is not None:
            answers.insert(1, [[json.dumps({"key": key})] for key in duplicates])
        macros.results = list(answers)
        plan = planned(sources=sources) if sources else planned()
        choice = {"plan": plan, "most_rows": most_rows, "learned": learned, "replica": replica}
        arguments = (backfill, make_state(**state), observed, choice, [])
        stood.update(macros.call("plan_barrier", *arguments))
        scripts = [" ".join(statement.sql.split()) for statement in macros.statements]
        return stood["plan"], [sql for sql in scripts if ": plan the barrier 3 */ begin " in sql]

    return plan_barrier


def test_the_plan_of_this_run_stands_with_what_it_staged(
    plan_barrier: Callable[..., Any], stood: Any
) -> None:
    result = {"plan": OURS, "staged": STAGED, "merged": MERGED, "checked": CHECKED}
    stands, scripts = plan_barrier(result)

    assert stands == OURS
    assert len(scripts) == 1
    assert (stood["staged"]["count"], stood["staged"]["upserts"]) == (3, 2)
    assert stood["views"][0] == stood["staged"]["name"]
    assert f"cache table {stood['staged']['name']};" in scripts[0]


def _assert_noted(stood: Any, script: str) -> None:
    """The view that a script made is dropped with the commit, though it is not merged."""
    assert stood["views"]
    for name in stood["views"]:
        assert f"cache table {name};" in script


def test_the_plan_of_another_run_stands_without_what_was_staged_for_ours(
    plan_barrier: Callable[..., Any], stood: Any
) -> None:
    stands, scripts = plan_barrier({"plan": THEIRS, "staged": STAGED, "checked": CHECKED})

    assert stands == THEIRS
    assert len(scripts) == 1
    assert stood["staged"] is None
    _assert_noted(stood, scripts[0])


def test_the_plan_of_another_run_has_to_be_one_of_this_model(
    plan_barrier: Callable[..., Any], stood: Any, make_state: Callable[..., Any], macros: Macros
) -> None:
    """Of a first run the script tells the settings: it has read no state."""
    plan_barrier({"plan": OURS, "checked": CHECKED})
    plan_barrier({"plan": {**THEIRS, "kind": "abandon"}, "checked": CHECKED})
    assert "checked" not in stood

    plan_barrier({"plan": THEIRS, "staged": STAGED, "checked": CHECKED})
    _, settings, plan, views = stood["checked"]
    assert (settings, plan, views) == (make_state()["settings"], THEIRS, stood["views"])

    macros.stub("get_create_statements", lambda *arguments: "CREATE;")
    plan_barrier({"plan": THEIRS, "settings": {"a": "b"}, "checked": CHECKED}, **NEW)
    assert stood["checked"][1:3] == ({"a": "b"}, THEIRS)


def test_a_plan_without_changes_stands_without_a_stage(
    plan_barrier: Callable[..., Any], stood: Any, make_plan: Any
) -> None:
    plan_barrier({"plan": OURS, "checked": CHECKED}, committed=make_plan(epoch=2))

    assert stood["staged"] is None
    assert stood["views"] == []


def test_tables_that_another_run_has_created_without_a_plan_are_left_to_the_next_run(
    plan_barrier: Callable[..., Any], refused: Any, macros: Macros
) -> None:
    """It was told to read nothing (`--empty`)."""
    macros.stub("get_create_statements", lambda relations, plan, columns, first: "CREATE;")
    with refused("another run has created its tables meanwhile. Nothing is lost; run again to"):
        plan_barrier({"plan": None, "checked": CHECKED}, **NEW)


@pytest.fixture
def bounds(macros: Macros) -> list[Any]:
    """The bounds that passes over the keys find; each is taken by one pass."""
    found: list[Any] = []
    macros.stub(
        "find_bounds",
        lambda backfill, state, plan: {"range_high": found.pop(0), "last_range": False},
    )
    return found


MANY = {"checked": {**CHECKED, "row_count": 13}}


def test_bounds_are_found_again_where_too_many_rows_came_into_the_range(
    plan_barrier: Callable[..., Any], bounds: list[Any]
) -> None:
    bounds.append(["3", "3"])
    stands, scripts = plan_barrier(MANY, {"plan": OURS, "checked": CHECKED}, most_rows=12)

    assert stands == OURS and bounds == []
    assert [sql.count("array('5', '6')") for sql in scripts] == [1, 0]
    assert [sql.count("array('3', '3')") for sql in scripts] == [0, 1]


def test_bounds_that_were_just_found_are_not_found_again(
    plan_barrier: Callable[..., Any], bounds: list[Any]
) -> None:
    """A sample may be off; the next pass would be as well."""
    bounds.append(["3", "3"])
    _, scripts = plan_barrier(MANY, {"plan": OURS}, most_rows=12)

    assert ["checked.row_count <= 12" in sql for sql in scripts] == [True, False]


def test_the_stages_of_a_plan_that_was_planned_again_are_noted(
    plan_barrier: Callable[..., Any], bounds: list[Any], stood: Any
) -> None:
    bounds.append(["3", "3"])
    staged = {"staged": STAGED, "merged": MERGED}
    plan_barrier({**staged, **MANY}, {"plan": OURS, **staged}, most_rows=12)

    assert stood["staged"]["name"] in stood["views"]
    assert len(stood["views"]) == 8 and len(set(stood["views"])) == 4


def test_a_range_is_read_from_the_upstream_where_its_copy_is_gone(
    macros: Macros, plan_barrier: Callable[..., Any], stood: Any
) -> None:
    """Another run has dropped it, to make its own."""
    dropped: list[Any] = []
    macros.context["adapter"].cache_dropped = dropped.append
    shown = json.dumps({"version": "17", "columns": ["id", "shard"]})
    copy = {"relation": "lake.mv__replica", "kind": "delta", "version": "4", "definition": shown}
    stands, scripts = plan_barrier({"copy_is_gone": True}, {"plan": OURS}, replica=copy)

    assert stands == OURS and stood["read_from"] is None
    assert [relation.render() for relation in dropped] == ["lake.mv__replica"]
    assert ["mv__replica version as of 4" in sql for sql in scripts] == [True, False]
    assert ["declare exit handler for sqlstate '42P01'" in sql for sql in scripts] == [True, False]
    assert "the copy of its upstream is gone" in macros.logged[0]


def test_changes_without_a_key_are_a_reanchor(plan_barrier: Callable[..., Any], stood: Any) -> None:
    """Whatever else is wrong: a re-anchor checks its own keys."""
    stands, scripts = plan_barrier(
        {"staged": {**STAGED, "null_keys": 1}, "checked": {**CHECKED, "duplicates": True}},
        {"plan": {"plan_id": "p4", "kind": "reanchor"}, "checked": CHECKED},
    )

    assert stands["kind"] == "reanchor"
    assert "cast('reanchor' as string) as kind" in scripts[1]
    assert "'the feed has 1 rows with a null in the key'" in scripts[1]
    assert "struct('upstream', 'lake.up', 'delta', 'u1', '17', null, null)" in scripts[1]
    assert "staged" not in scripts[1]
    assert stood["staged"] is None
    _assert_noted(stood, scripts[0])


def test_a_reanchor_knows_what_the_copy_was_for_that_the_plan_had(
    plan_barrier: Callable[..., Any], make_source: Callable[..., Any]
) -> None:
    copy = {"role": "replica", "relation": "lake.mv__replica", "definition": "noted"}
    _, scripts = plan_barrier(
        {"staged": {**STAGED, "null_keys": 1}, "checked": CHECKED},
        {"plan": {"plan_id": "p4", "kind": "reanchor"}, "checked": CHECKED},
        sources=[make_source(), make_source(**copy)],
    )

    assert "struct('replica', 'lake.mv__replica', 'delta', 'u1', null, null, 'noted')" in (
        scripts[1].replace("'2024-05-01 10:00:00.5'", "null")
    )


def test_a_changed_key_that_stands_twice_in_the_version_is_refused(
    plan_barrier: Callable[..., Any], refused: Any, macros: Macros
) -> None:
    """It was read again; nothing is left in the session."""
    with refused(
        "the key id, shard is not unique in lake.up, in version 17; it stands twice with (1L, 2). "
        "Delete the duplicates, or name in unique_key the columns that are unique."
    ):
        plan_barrier({"staged": STAGED, "reread": {"count": 3, "twice": [["1L", "2"]]}})
    assert "drop view `lake__mv__changes__3__" in macros.statements[-1].sql


def test_changes_that_are_gone_are_a_reanchor(plan_barrier: Callable[..., Any], stood: Any) -> None:
    stands, scripts = plan_barrier(
        {"lost": True, "checked": CHECKED},
        {"plan": {"plan_id": "p4", "kind": "reanchor"}, "checked": CHECKED},
    )

    assert stands["kind"] == "reanchor"
    gone = "the changes since version 16 can no longer be read"
    assert f"cast('{gone}' as string) as reason" in scripts[1]
    assert "struct('upstream', 'lake.up', 'delta', 'u1', '17', null, null)" in scripts[1]
    assert stood["staged"] is None
    _assert_noted(stood, scripts[0])


def test_changes_that_are_gone_are_refused_where_the_model_says_so(
    plan_barrier: Callable[..., Any], refused: Any, options: Any, macros: Macros
) -> None:
    """Nothing is left in the session."""
    options["on_gap"] = "fail"

    with refused(
        "its next barrier would compare all 40 rows read so far with its query, because the "
        "changes since version 16 can no longer be read. "
        "Set on_gap='reanchor' to let it, on_gap='sweep' to do so in slices, or rebuild the MV "
        "with --full-refresh."
    ):
        plan_barrier({"lost": True, "checked": CHECKED})
    assert "drop view `lake__mv__changes__3__" in macros.statements[-1].sql


def test_a_plan_of_another_run_that_was_committed_meanwhile_is_not_planned_over(
    plan_barrier: Callable[..., Any], refused: Any
) -> None:
    """Ours was not stored, and its epoch has gone by."""
    with refused("another run went on while this one executed the barrier 3. Nothing is lost"):
        plan_barrier({"plan": None, "staged": STAGED, "merged": MERGED, "checked": CHECKED})


def test_a_plan_that_was_given_up_meanwhile_stands(plan_barrier: Callable[..., Any]) -> None:
    given_up = {"plan_id": "theirs", "kind": "abandon"}

    assert plan_barrier({"plan": given_up, "checked": CHECKED})[0] == given_up


def test_a_barrier_that_cannot_be_planned_in_four_attempts_is_left_to_the_next_run(
    plan_barrier: Callable[..., Any], refused: Any, macros: Macros
) -> None:
    """The upstream changed before each; nothing is left in the session."""
    gone = {"lost": True, "checked": CHECKED}
    with refused(
        "its barrier 3 could not be planned, because its upstream or another run did not stand "
        "still. Nothing is lost; run again to continue."
    ):
        plan_barrier(*[gone] * 5)
    scripts = [statement.name for statement in macros.statements]
    assert scripts == ["dbt_backfill_plan the barrier 3"] * 4 + [
        "dbt_backfill_drop the staged changes"
    ]


@pytest.mark.parametrize(("count", "rows"), [(1, "1 row with a null"), (2, "2 rows with a null")])
def test_null_keys_are_refused(
    plan_barrier: Callable[..., Any], refused: Any, count: int, rows: str
) -> None:
    with refused(
        f"lake.up has {rows} in id, shard, in version 17. Give these rows a key or delete them; a "
        "primary key is never null."
    ):
        plan_barrier({"checked": {**CHECKED, "null_keys": count}})


DUPLICATES = {"checked": {**CHECKED, "duplicates": True}}


def test_duplicate_keys_are_refused_with_examples(
    plan_barrier: Callable[..., Any], refused: Any
) -> None:
    with refused(
        "the key id, shard is not unique in lake.up, in version 17; it stands twice with (1L, 2), "
        "(3L, 4). Delete the duplicates, or name in unique_key the columns that are unique."
    ):
        plan_barrier(DUPLICATES, duplicates=[["1L", "2"], ["3L", "4"]])


def test_two_keys_with_one_hash_are_not_duplicates(plan_barrier: Callable[..., Any]) -> None:
    """The keys are not compared by their hashes again."""
    stands, scripts = plan_barrier(DUPLICATES, {"plan": OURS, "checked": CHECKED}, duplicates=[])

    assert stands == OURS
    assert ["group by hash" in sql for sql in scripts] == [True, False]


def test_duplicates_are_looked_for_where_the_plan_reads(
    macros: Macros, backfill: Any, make_state: Callable[..., Any], planned: Callable[..., Any]
) -> None:
    macros.call("refuse_keys", backfill, make_state(), planned(), DUPLICATES["checked"])
    sql = " ".join(macros.statements[0].sql.split())

    assert "from (select * from lake.up version as of 17 as source where ((source.`id` >= 1" in sql
    assert sql.endswith("having count(*) > 1 limit 3 )")
