"""A change table of the user, which a run reads instead of the upstream's own feed."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from dbt.adapters.spark.relation import SparkRelation

from support.duck import Duck
from support.macros import Macros, Table

NODE = {"name": "changes", "schema": "raw", "identifier": "orders_changes"}
OPTION = {
    "node": NODE,
    "operation": "op",
    "sequence": ["file", "pos"],
    "deletes": ["d"],
    "before_images": ["ub"],
    "ordered_texts": True,
}


@pytest.fixture
def feed(up: Any) -> dict[str, Any]:
    relation = SparkRelation.create(schema="raw", identifier="orders_changes")
    return {
        **OPTION,
        "relation": relation,
        "kind": "delta",
        "upstream": up,
        "columns": ["id", "shard"],
    }


# -- get_change_table ---------------------------------------------------------------------------


@pytest.fixture
def get(macros: Macros, up: Any) -> Callable[..., Any]:
    """Return the change table that get_change_table finds. The catalog has the tables `known`."""

    def get(known: Table | None) -> Any:
        if known:
            macros.tables["raw.orders_changes"] = known
        return macros.call("get_change_table", OPTION, up, "select 1")

    return get


@pytest.mark.parametrize("kind", ["delta", "iceberg"])
def test_a_change_table_is_followed_as_any_upstream(get: Any, up: Any, kind: str) -> None:
    feed = get(Table(file_format=kind))

    assert (feed["relation"].render(), feed["kind"]) == ("raw.orders_changes", kind)
    assert feed["upstream"] == up
    assert {name: feed[name] for name in OPTION if name != "node"} == {
        name: value for name, value in OPTION.items() if name != "node"
    }


@pytest.mark.parametrize(
    ("known", "fact"),
    [
        (None, "does not exist"),
        (Table(type="view"), "is neither a Delta nor an Iceberg table"),
        (Table(file_format="csv"), "is neither a Delta nor an Iceberg "),
    ],
)
def test_a_change_table_that_cannot_be_followed_is_refused(
    get: Any, refused: Any, known: Any, fact: str
) -> None:
    with refused(f"its change_feed raw.orders_changes {fact}"):
        get(known)


# -- what a plan records of a change table --------------------------------------------------------


def test_a_change_of_what_is_followed_shows(macros: Macros, feed: Any) -> None:
    changes: list[dict[str, Any]] = [
        {},
        {"operation": "o"},
        {"sequence": ["pos"]},
        {"deletes": ["d", "t"]},
        {"sequence": ["file"], "deletes": ["pos", "d"]},
    ]
    described = {macros.call("describe_change_table", {**feed, **change}) for change in changes}

    assert len(described) == len(changes)
    assert "raw.orders_changes (operation op; sequence file, pos; deletes d)" in described


@pytest.fixture
def gap(
    macros: Macros,
    backfill: Any,
    feed: Any,
    make_plan: Callable[..., Any],
    make_source: Callable[..., Any],
) -> Callable[..., Any]:
    """Return the gap of a change table since version 7."""
    backfill["feed"] = feed
    described = macros.call("describe_change_table", feed)
    noted = make_source(
        role="feed", relation="raw.orders_changes", id="f1", version="7", definition=described
    )
    committed = make_plan(sources=[make_source(), noted])

    def gap(found: str | None = None, readable: bool = True) -> Any:
        def answer(answer: Any) -> Callable[..., Any]:
            # Both questions must be about the change table, and not about the upstream.
            return lambda observed, source: (
                answer if source == noted else pytest.fail("asked of another")
            )

        macros.answer("continues_upstream", lambda observed, source: True)
        macros.answer("upstream_gap", answer(found and {"reason": found, "refusal": None}))
        macros.answer("upstream_readable", answer(readable))
        return macros.call("find_feed_gap", backfill, {"feed": {}}, committed)

    return gap


def test_events_are_read_on_from_the_committed_ones(gap: Callable[..., Any]) -> None:
    assert gap() is None


def test_a_gap_of_the_change_table_is_told_as_such(gap: Callable[..., Any]) -> None:
    assert gap("the upstream went back from version 7 to 3") == (
        "the change feed went back from version 7 to 3"
    )


def test_a_version_that_late_events_are_compared_with_has_to_be_readable(
    gap: Callable[..., Any],
) -> None:
    assert gap(readable=False) == "the version 7 of the change feed can no longer be read"


# -- the events of a change table -------------------------------------------------------------


@pytest.fixture
def events(macros: Macros, feed: Any, keys: Any) -> str:
    asked: list[Any] = []

    def upstream_changes(*given: Any) -> Any:
        asked.append(given)
        return {"setup": ["call s"], "events": "select * from added"}

    macros.stub("delta_upstream_changes", upstream_changes)
    changes = macros.call(
        "get_change_table_events", feed, "observed", "7", "9", keys, ["id", "shard"], "view"
    )
    assert asked == [("observed", "7", "9", None, "view")]
    return str(changes["events"])


@pytest.fixture
def follow(duck: Duck, events: str) -> Callable[..., list[dict[str, Any]]]:
    """Return the events of the rows `added`, after a run has read the rows `before`.

    A row of the change table is (file, pos, op, id).
    """
    types = {"file": "int", "pos": "int", "op": "string", "id": "string", "shard": "int"}

    def follow(before: list[Any], added: list[Any]) -> list[dict[str, Any]]:
        duck.create("raw.orders_changes@7", types, [(*row, 0) for row in before])
        # In the change table's own feed, each row is an insert.
        rows = [(*row, 0, True) for row in added]
        duck.create("added", {**types, "__bf_is_upsert": "boolean"}, rows)
        return duck.records(events)

    return follow


@pytest.mark.parametrize(
    ("operation", "is_upsert"),
    [
        *[("d", False), ("D", False), ("ub", False), ("c", True), ("U", True), (1, True)],
        *[("d    ", False), ("ub   ", False), ("c    ", True)],  # a char(5)
    ],
)
def test_an_operation_upserts_unless_it_deletes_or_gives_a_row_as_it_was(
    follow: Any, operation: Any, is_upsert: bool
) -> None:
    [event] = follow([], [(1, 1, operation, "a")])

    assert event["__bf_is_upsert"] is is_upsert


def test_tombstones_are_no_events(follow: Any) -> None:
    """A row without an operation makes no later event late."""
    assert follow([], [(1, 1, None, "a")]) == []
    [event] = follow([(1, 9, None, "a")], [(1, 3, "c", "a"), (1, 4, None, "a")])
    assert event["__bf_is_upsert"] is True


@pytest.mark.parametrize(("operation", "is_event"), [("m", False), ("M", False), ("t", True)])
def test_a_message_without_a_key_is_no_event_but_a_truncate_is(
    macros: Macros, duck: Duck, feed: Any, operation: str, is_event: bool
) -> None:
    """An event without a key leads to a re-anchor."""
    macros.stub("delta_upstream_changes", lambda *_: {"events": "select * from added"})
    keys = [{"name": "id", "upstream": "id", "type": "bigint", "position": "id"}]
    sql = macros.call("get_change_table_events", feed, "observed", "7", "9", keys, ["id"], "view")
    types = {"file": "int", "pos": "int", "op": "string", "id": "bigint"}
    duck.create("raw.orders_changes@7", types, [])
    duck.create("added", {**types, "__bf_is_upsert": "boolean"}, [(1, 2, operation, None, True)])
    assert len(duck.records(sql["events"])) == is_event


# (file, pos, id) of the rows that were read before, and of the rows that were added since.
BEFORE = [(1, 1, "a"), (1, 2, "a"), (1, 3, "b"), (1, 4, "c")]
ADDED = [
    (1, 1, "a"),  # late, and already read
    (1, 2, "a"),  # repeated
    (1, 3, "c"),  # late, and older than the last event of its key
    (1, 3, "n"),  # late, but the first event of its key
    (1, 4, "b"),  # late, but the last event of its key
    (1, 4, "c"),  # the last event of all, repeated
    (1, 5, "a"),
    (2, 1, "m"),
]


def test_a_late_event_counts_only_if_none_of_its_key_was_later(follow: Any) -> None:
    def updates(rows: list[tuple[int, int, str]]) -> list[tuple[int, int, str, str]]:
        return [(file, pos, "u", key) for file, pos, key in rows]

    found = follow(updates(BEFORE), updates(ADDED))

    assert sorted((*event["__bf_version"].values(), event["id"]) for event in found) == [
        (1, 3, "n"),
        (1, 4, "b"),
        (1, 5, "a"),
        (2, 1, "m"),
    ]


# -- the columns of a change table ------------------------------------------------------------


UPSTREAM = {"id": "bigint", "Shard": "int"}


@pytest.fixture
def columns(macros: Macros, feed: Any) -> Callable[..., Any]:
    """Return the columns of an upstream whose change table has the columns `types`.

    DESCRIBE returns both.
    """

    def columns(upstream: dict[str, str] = UPSTREAM, plan: str = "", **types: str) -> Any:
        macros.results = [list(types.items()), list(upstream.items())]
        if plan:
            macros.results.append([[plan]])
        return macros.call("get_feed_columns", feed)

    return columns


OWN = {"op": "string", "file": "string", "pos": "bigint"}


def test_the_upstreams_columns_are_taken_by_its_names(
    columns: Callable[..., Any],
) -> None:
    assert columns(ID="bigint", shard="int", extra="int", **OWN) == ["id", "Shard"]


@pytest.mark.parametrize(
    ("types", "fact"),
    [
        ({"id": "bigint"}, "has no column Shard, but its upstream lake.up has it as int"),
        (
            {"id": "string", "shard": "int"},
            "has id as string, but its upstream lake.up has it as bigint",
        ),
    ],
)
def test_a_change_table_without_a_column_of_the_upstream_is_refused(
    columns: Callable[..., Any], refused: Any, types: dict[str, str], fact: str
) -> None:
    with refused(f"its change_feed raw.orders_changes {fact}. Give the change table the columns"):
        columns(**types, **OWN)


@pytest.mark.parametrize(
    "type_",
    ["string", "varchar(9)", "char(9)", "struct<a:string>", "array<string>", "bigint", "date"],
)
def test_texts_order_no_events_unless_the_user_says_so(
    macros: Macros, feed: Any, refused: Any, type_: str
) -> None:
    types = {"file": type_, "pos": "int"}
    macros.call("check_sequence", feed, types)
    feed["ordered_texts"] = False
    if type_ in ("bigint", "date"):
        macros.call("check_sequence", feed, types)
        return
    with refused(f"its change_feed raw.orders_changes has the sequence file as {type_}, and texts"):
        macros.call("check_sequence", feed, types)


def plan_of(theirs: str, ours: str) -> str:
    """Return Spark's plan of both tables: the columns, and the expression that pads one column."""
    text = "== Analyzed Logical Plan ==\n1: int\nUnion false, false\n"
    for begin, name, padding in ((":-", "orders_changes", theirs), ("+-", "up", ours)):
        side = ":" if begin == ":-" else " "
        text += f"{begin} Project [1 AS 1#20]\n{side}  +- SubqueryAlias spark_catalog.lake.{name}\n"
        if padding:
            text += f"{side}     +- Project [id#1L, {padding}, op#3]\n"
        text += f"{side}        +- Relation spark_catalog.lake.{name}[id#1L,code#2,op#3] parquet\n"
    return text + "\n== Optimized Logical Plan ==\nUnion"


def padded(*lengths: int) -> str:
    calls = [
        f"static_invoke(CharVarcharCodegenUtils.readSidePadding(code#2, {length}))"
        for length in lengths
    ]
    value = calls[0] if len(calls) == 1 else f"named_struct(a, {calls[0]}, b, {calls[1]})"
    return f"{value} AS Code#11"


@pytest.mark.parametrize(
    ("type_", "theirs", "ours", "told"),
    [
        ("string", "", "", None),
        ("string", padded(4), padded(4), None),
        ("string", "", padded(4), ("string", "char(4)")),
        ("string", padded(4), "", ("char(4)", "string")),
        ("string", padded(4), padded(8), ("char(4)", "char(8)")),
        ("struct<a:string,b:string>", padded(4, 2), padded(4, 2), None),
        (
            "struct<a:string,b:string>",
            "",
            padded(4, 2),
            ("struct<a:string,b:string>", "struct<a:string,b:string> of char(4), char(2)"),
        ),
    ],
)
def test_a_char_is_filled_up_with_blanks_in_both_or_in_none(
    columns: Callable[..., Any], macros: Macros, refused: Any, type_: str,
    theirs: str, ours: str, told: tuple[str, str] | None,
) -> None:  # fmt: skip
    """DESCRIBE shows both columns as strings."""
    arguments = ({"id": "bigint", "code": type_}, plan_of(theirs, ours))
    if told is None:
        assert columns(*arguments, id="bigint", code=type_, **OWN) == ["id", "code"]
    else:
        with refused(
            f"its change_feed raw.orders_changes has code as {told[0]}, but its upstream lake.up "
            f"has it as {told[1]}. Give the change table the columns of the upstream, with their "
            "names and types; or make the char(n) a string in both tables"
        ):
            columns(*arguments, id="bigint", code=type_, **OWN)
    explain = "explain extended\nselect 1 from raw.orders_changes union all select 1 from lake.up"
    assert macros.statements[-1].sql.endswith(explain)


def test_a_char_is_looked_for_only_where_both_have_a_text(
    columns: Callable[..., Any], macros: Macros
) -> None:
    assert columns(id="bigint", shard="int", extra="string", **OWN)
    assert len(macros.statements) == 2


@pytest.mark.parametrize("name", OWN)
def test_a_column_of_the_option_that_does_not_exist_is_refused_with_those_that_do(
    columns: Callable[..., Any], refused: Any, name: str
) -> None:
    types = {"id": "bigint", "shard": "int", **OWN}
    del types[name]
    with refused(
        f"its change_feed raw.orders_changes has no column '{name}'. Set operation and "
        f"sequence to columns of this table: {', '.join(types)}."
    ):
        columns(**types)
