"""A new query that only adds or drops columns of the previous query."""

from __future__ import annotations

from typing import Any

import pytest

from support.macros import Macros

OLD = "select id as k, shard from `up`"
NEW = "select id as k, upper(name) as x, shard from `up`"
COLUMNS = [{"name": n, "type": t} for n, t in (("k", "bigint"), ("x", "string"), ("shard", "int"))]


@pytest.fixture
def find(macros: Macros, backfill: Any, analysis: Any, make_state: Any, make_plan: Any) -> Any:
    """Return the result of find_other_columns for a query.

    `plans` are Spark's plans of the new and the old query.
    """

    def find(
        query: str = NEW,
        columns: Any = COLUMNS,
        plans: tuple[Any, Any] = ("p", "p"),
        header: str = "k: bigint, shard: int",
        committed: Any = None,
        old: str = OLD,
        **state: Any,
    ) -> Any:
        asked: list[Any] = []

        def explain(backfill: Any, sql: str, names: Any) -> Any:
            asked.append((sql, names))
            plan = plans[len(asked) - 1]
            return plan and {"columns": header, "plan": plan}

        macros.stub("get_mv_columns", lambda *_: columns)
        macros.stub("explain_comparably", explain)
        last = make_plan(epoch=2, query=old, **(committed or {}))
        model = {**backfill, "query": query, "query_hash": "h2"}
        known = {**analysis, "columns": "k: bigint, x: string, shard: int"}
        macros.context["asked"] = asked
        return macros.call("find_other_columns", model, make_state(committed=last, **state), known)

    return find


def added(*columns: Any) -> dict[str, Any]:
    return {"columns": {"fills": list(columns), "drops": []}, "why": None}


def test_new_columns_are_found_wherever_they_stand(find: Any, macros: Macros) -> None:
    assert find() == added(COLUMNS[1])
    assert macros.context["asked"] == [(NEW, ["k", "shard"]), (OLD, ["k", "shard"])]


OTHER = "it returns other rows, or other values in the columns that it had"
RETYPED = "it returns an old column with another name or type"


@pytest.mark.parametrize(
    ("changes", "why"),
    [
        ({"columns": COLUMNS[:2]}, "it no longer returns shard"),
        ({"columns": [COLUMNS[0], COLUMNS[2]]}, "it returns no new column"),
        ({"plans": ("p", "q")}, OTHER),
        ({"plans": ("p", None)}, OTHER),
        ({"plans": (None, None)}, RETYPED),
        ({"header": "k: int, shard: int"}, RETYPED),
        ({"old": f"{OLD} where 2 > 1"}, "it does more than add columns"),
    ],
)
def test_any_other_change_is_none_of_columns_alone(find: Any, changes: Any, why: str) -> None:
    assert find(**changes) == {"columns": None, "why": why}


def test_a_change_of_anything_but_the_query_is_none_of_columns(find: Any, options: Any) -> None:
    options["unique_key"] = ["k"]

    assert find() == {"columns": None, "why": "unique_key changed from k, shard to k"}


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("hash(id, 1) as h", "hash(id, 1L) as h, name"),
        ("concat(a, 'b', 'c, d') as t", "concat(a, 'b, c', 'd') as t, name"),
    ],
)
def test_a_constant_that_a_plan_prints_alike_is_another_one(find: Any, old: str, new: str) -> None:
    """Spark's plan prints no type and no quotes of a constant, so 1 and '1' look alike."""
    queries = [f"select id as k, {items} from `up`" for items in (old, new)]

    assert find(queries[1], old=queries[0])["why"] == "it does more than add columns"
    assert find(queries[1], old=queries[1].replace(", name", "")) == added(COLUMNS[1])


FILLING = {
    "kind": "fill",
    "fills": [COLUMNS[1]],
    "query_columns": "k: bigint, x: string, shard: int",
}


def test_a_column_that_is_being_filled_may_mean_something_else(find: Any, macros: Macros) -> None:
    more = [*COLUMNS, {"name": "y", "type": "int"}]
    wrong = NEW.replace("upper(name)", "'wrong'")

    assert find(columns=more, committed=FILLING, old=wrong) == added(COLUMNS[1], more[-1])
    assert macros.context["asked"][0][1] == ["k", "shard"]


@pytest.mark.parametrize(
    ("columns", "why"),
    [
        ([COLUMNS[0], COLUMNS[2]], "it no longer returns x"),
        (
            [COLUMNS[0], {"name": "x", "type": "int"}, COLUMNS[2]],
            "x, which is being filled, has another type",
        ),
    ],
)
def test_but_not_go_or_get_another_type(find: Any, columns: Any, why: str) -> None:
    assert find(columns=columns, committed=FILLING) == {"columns": None, "why": why}


# -- with sync_all_columns ------------------------------------------------------------------------

WIDE = [COLUMNS[0], {"name": "x", "type": "bigint"}, COLUMNS[2]]


@pytest.fixture
def sync(find: Any, macros: Macros, options: Any) -> Any:
    """Call `find` with sync_all_columns, for an old query that had all columns.

    `present` are the columns of the MV's table.
    """

    def sync(query: str, columns: Any, present: Any = COLUMNS, **more: Any) -> Any:
        options["on_schema_change"] = "sync_all_columns"
        macros.stub("get_table_columns", lambda _: present)
        committed = {"query_columns": "k: bigint, x: int, shard: int", **more.pop("plan", {})}
        return find(query, columns, committed=committed, **{"old": NEW, **more})

    return sync


def test_columns_that_are_gone_are_dropped(sync: Any, macros: Macros) -> None:
    found = sync(OLD, [COLUMNS[0], COLUMNS[2]])

    assert found == {"columns": {"fills": [], "drops": ["x"]}, "why": None}
    assert macros.context["asked"] == [(OLD, ["k", "shard"]), (NEW, ["k", "shard"])]


def test_where_columns_only_go_the_query_must_have_no_other_entries(sync: Any) -> None:
    """If columns are only dropped, no row is read, so nothing would show other changes of the
    query.
    """
    why = (
        "it does more than leave columns out, but no barrier would read the rows again to find the "
        "difference"
    )
    for old, new, same in [
        ("a, hash(b, 1), c", "a, hash(b, 1)", True),
        ("a, hash(b, 1), c", "a, hash( b,1 ) -- c\n", True),
        ("a, hash(b, 1), c", "a, hash(b, 1L)", False),
        ("a, hash(b, 1), c", "a, hash(b, cast(1 as bigint))", False),
        ("hash(b, 1), hash(b, 1L), c", "hash(b, 1L), hash(b, 1)", False),
        ("a, 1 as c, hash(b, cast(1 as bigint))", "a, hash(b, 1)", False),
        ("a, c, hash(b, coalesce(1, cast(2 as bigint)))", "a, hash(b, coalesce(1))", False),
        ("a, 1L, 1 + hash(b)", "a, 1L + hash(b)", False),
        ("a as x, b as c, b as d, e + b as f", "b as d", True),
        ("a + b as c, (a), f(b) as d, f(b) as e", "(a), f(b) as e", True),
        ("a, b || c as d, 1L + b", "a, 1L + b", True),
        ("x from (select a, f(c, 1) as c, a as x", "x from (select a as x", True),
        ("x from (select f(c, 1L) as x, d", "x from (select f(c) as x", False),
        ("a is distinct from b as c, d, e", "a is distinct from b as c, e", True),
        ("a, f(1L), f(1) from, d", "a, f(1L) from, d", False),
        ("a from (from b select c, d where e", "a from (from b select c where e", True),
        ("a, f(select, b, 1L)", "a, f(select, 1L)", False),
    ]:
        end = "from `up`" + ")" * (old.count("(") - old.count(")"))
        found = sync(f"select {new} {end}", [COLUMNS[0], COLUMNS[2]], old=f"select {old} {end}")
        assert found["why"] == (None if same else why), new
    assert sync(OLD, [COLUMNS[0], COLUMNS[2]], plans=("p", "q"))["why"] == OTHER


def test_a_column_that_is_renamed_goes_and_comes(sync: Any) -> None:
    y = {"name": "y", "type": "string"}
    found = sync(f"{OLD} where 1 = 1", [COLUMNS[0], y, COLUMNS[2]], old=f"{NEW} where 2 > 1")

    assert found == {"columns": {"fills": [y], "drops": ["x"]}, "why": None}


@pytest.mark.parametrize(("present", "more"), [("int", {"was": "int"}), ("bigint", {})])
def test_a_wider_column_is_filled(
    sync: Any, macros: Macros, present: str, more: dict[str, str]
) -> None:
    table = [COLUMNS[0], {"name": "X", "type": present}, COLUMNS[2]]
    found = sync(f"{NEW} where 2 > 1", WIDE, table, old=f"{NEW} where 1 = 1")

    assert found == added({**WIDE[1], **more})
    assert macros.context["asked"][0][1] == ["k", "shard"]


def test_a_type_that_cannot_be_made_is_no_change_of_columns_alone(sync: Any) -> None:
    table = [COLUMNS[0], {"name": "x", "type": "int"}, COLUMNS[2]]
    found = sync(NEW, COLUMNS, table)

    assert found["columns"] is None
    assert found["why"] == "no ALTER of Delta can change x from int to string"


def test_a_column_that_is_being_filled_may_go_or_be_widened(sync: Any) -> None:
    filling = {"plan": {"kind": "fill", "fills": [{"name": "x", "type": "int"}]}}
    table = [COLUMNS[0], {"name": "x", "type": "int"}, COLUMNS[2]]

    assert sync(OLD, [COLUMNS[0], COLUMNS[2]], table, **filling)["columns"] == {
        "fills": [], "drops": ["x"],
    }  # fmt: skip
    assert sync(NEW, WIDE, table, **filling) == added({**WIDE[1], "was": "int"})


def test_the_same_columns_are_no_change_of_them(sync: Any) -> None:
    same = [COLUMNS[0], {"name": "x", "type": "int"}, COLUMNS[2]]

    assert sync(OLD, same, same)["why"] == "it returns no new column"


# -- columns that the MV cannot get -------------------------------------------------------------


@pytest.fixture
def begin(macros: Macros, backfill: Any, analysis: Any, make_state: Any) -> Any:
    def begin(
        columns: Any = COLUMNS[1:2], present: tuple[str, ...] = ("k",), properties: Any = None,
        drops: Any = (), **state: Any,
    ) -> Any:  # fmt: skip
        macros.stub("read_table_properties", lambda _: properties or {})
        macros.stub("get_table_columns", lambda _: [{"name": n, "type": "int"} for n in present])
        macros.results = [[{"partitionColumns": [], "clusteringColumns": []}]] if drops else []
        macros.stub("check_query_at", lambda backfill, observed, *_: observed["altered"])
        made = make_state(**state)
        other = {"fills": columns, "drops": list(drops)}
        return macros.call(
            "begin_filling", backfill, made, {"version": "17"}, analysis, "17", other
        )

    return begin


def test_a_fill_begins_at_the_start(begin: Any) -> None:
    assert begin() == {"columns": COLUMNS[1:2], "position": None, "row_count": 0, "drops": []}


def test_vnodes_with_different_positions_are_refused(begin: Any, refused: Any) -> None:
    with refused("its query returns other columns than at the last barrier, but the vnodes of the"):
        begin(uniform=False, position=None)


def test_a_column_that_is_there_and_not_of_the_query_is_refused(
    begin: Any, refused: Any, make_plan: Any
) -> None:
    with refused("its query returns the new column x, but lake.mv already has a column of"):
        begin(present=("k", "X"))
    had = "k: bigint, x: string, shard: int"
    filling = make_plan(kind="fill", fills=COLUMNS[1:2], query_columns=had, epoch=2)
    assert begin(present=("k", "X"), committed=filling)["position"] is None


def test_a_column_that_was_to_be_dropped_may_still_be_there(
    begin: Any, refused: Any, make_plan: Any
) -> None:
    state = {"dirty": True, "committed": make_plan(kind="abandon", drops=["x", "y"], epoch=2)}
    same, other = [{"name": "X", "type": "int"}], [{"name": "X", "type": "string"}]

    assert begin(same, present=("k", "x"), **state)["drops"] == ["y"]
    mapped = {"delta.columnMapping.mode": "name"}
    assert begin(same, drops=["z"], properties=mapped, **state)["drops"] == ["z", "y"]
    with refused("its query returns the new column X, but lake.mv already has a column of"):
        begin(other, present=("k", "x"), **state)


def test_a_column_that_the_table_does_not_drop_is_refused(begin: Any, refused: Any) -> None:
    with refused("its query no longer returns x, but a column of lake.mv can be dropped only"):
        begin([], drops=["x"])


def test_a_name_that_needs_column_mapping_is_refused_without_it(
    begin: Any, refused: Any, macros: Macros
) -> None:
    odd = [{"name": "a b", "type": "int"}]

    with refused(
        "its query returns the new column 'a b', but a Delta table without column mapping"
    ):
        begin(odd)
    assert begin(odd, properties={"delta.columnMapping.mode": "name"})
    macros.config["file_format"] = "iceberg"
    assert begin(odd)
