"""`<mv>__barriers`, the history that people read."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import pytest

from support.macros import Macros

SHOWN = [
    "epoch", "plan_id", "backfill_id", "kind", "reason", "upstream_row_count", "range_low",
    "range_high", "last_range", "vnodes", "range_row_count", "sweeps", "at_once",
    "changed_row_count", "deleted_row_count", "touched", "query", "query_hash", "settings",
    "vnode_count", "backfill_mode", "backfill_rate_limit", "invocation_id", "planned_at",
    "committed_at", "mv_snapshot_id", "sources", "upstream", "upstream_id", "upstream_version",
    "upstream_committed_at", "feed", "feed_id", "feed_version", "feed_committed_at", "unique_key",
    "upstream_key", "key_types", "vnode_row_counts",
]  # fmt: skip
YIELDING = "begin declare exit handler for sqlstate '2D521' begin end; "
CREATE = "create table if not exists lake.mv__barriers"


@pytest.fixture
def select(render: Callable[..., str], relations: Any) -> str:
    return render("get_unwritten_sql", relations, 7)


@pytest.fixture
def write(render: Callable[..., str], relations: Any) -> Callable[..., list[str]]:
    """The statements that write the history up to an epoch."""

    def write(written: int | None, epoch: int = 9) -> list[str]:
        sql = render("get_history_statements", relations, written, epoch)
        *statements, end = sql.replace(YIELDING, "").replace("; end;", ";").split(";")
        assert end == ""
        return [statement.strip() for statement in statements]

    return write


# -- its rows ---------------------------------------------------------------------------------


def test_a_row_has_these_columns(macros: Macros) -> None:
    """A history that was made by an earlier release has them too: people read them by name."""
    columns = macros.call("history_columns")

    assert [name for name, (_, value) in columns.items() if value] == SHOWN


def test_the_first_column_is_the_epoch(macros: Macros) -> None:
    """Delta keeps statistics of no other, by which a MERGE finds the last barriers."""
    assert next(iter(macros.call("history_columns"))) == "epoch"


def test_what_is_read_of_a_barrier_is_what_is_stored_of_it(
    macros: Macros, make_plan: Callable[..., Any]
) -> None:
    """With what became of it; the keys of a JSON object are texts."""
    stored = {name: column[0] for name, column in macros.call("plan_columns", make_plan()).items()}
    read = {name: type_ for name, (type_, _) in macros.call("history_columns").items() if type_}
    outcome = {
        "committed_at": "timestamp_ltz",
        "changed_row_count": "bigint",
        "deleted_row_count": "bigint",
        "mv_snapshot_id": "string",
    }

    stored["vnode_row_counts"] = "map<string, bigint>"
    stored["planned_at"] = "timestamp_ltz"
    assert read.items() <= {**stored, **outcome}.items()
    assert stored.keys() - read.keys() == {
        "query_columns", "next_bounds", "bounds_complete", "generation", "fills", "drops",
        "fill_low", "fill_high", "last_fill", "filled_row_count",
    }  # fmt: skip


def test_what_a_barrier_read_is_told_by_columns_of_its_own(macros: Macros) -> None:
    columns = macros.call("history_columns")

    for role in ["upstream", "feed"]:
        source = f"get(filter(barrier.sources, source -> source.role = '{role}'), 0)"
        assert columns[role] == [None, f"{source}.relation"]
        for field in ["id", "version", "committed_at"]:
            assert columns[f"{role}_{field}"] == [None, f"{source}.{field}"]


def test_the_key_is_told_by_its_names_and_types(macros: Macros) -> None:
    columns = macros.call("history_columns")
    shown = {name: columns[name][1] for name in ["key", "unique_key", "upstream_key", "key_types"]}

    assert shown == {
        "key": None,
        "unique_key": "barrier.key.name",
        "upstream_key": "barrier.key.upstream",
        "key_types": "barrier.key.type",
    }


def test_barriers_are_read_from_what_the_progress_table_keeps(select: str) -> None:
    """The last one, and those before it that the history may not have yet."""
    assert select.startswith("select barrier.epoch as epoch, barrier.plan_id as plan_id, ")
    assert select.endswith(
        "from ( select explode(array_append(coalesce(unwritten, array()), last)) as text "
        "from lake.mv__progress where vnode = 0 ) ) where barrier.epoch > 7"
    )


def test_the_json_of_a_barrier_is_read_by_the_types_of_its_columns(
    macros: Macros, select: str
) -> None:
    columns = macros.call("history_columns")
    (fields,) = re.findall(r"from_json\(text, '(.*?)'\) as barrier", select)

    assert fields == ", ".join(f"{name} {type_}" for name, (type_, _) in columns.items() if type_)
    # Whatever is shown of a barrier is read of it.
    for _, value in columns.values():
        for name in re.findall(r"barrier\.(\w+)", value or ""):
            assert columns[name][0] is not None


# -- how it is written ------------------------------------------------------------------------


def test_a_history_that_is_missing_is_created_and_then_written(
    write: Callable[..., list[str]],
) -> None:
    """Whatever of it can still be told."""
    create, merge = write(None)

    assert create.startswith(f"{CREATE} using delta tblproperties ( ")
    assert create.endswith("where vnode = 0 ) ) where barrier.epoch > -1) where false")
    assert "where vnode = 0 ) ) where barrier.epoch > -1 ) as unwritten on " in merge


@pytest.mark.parametrize("written", [-1, 0, 7])
def test_one_that_is_there_is_only_written(write: Callable[..., Any], written: int) -> None:
    """-1: it has no barrier of this MV."""
    [merge] = write(written)

    assert merge.startswith("merge into lake.mv__barriers as barriers using ( select ")
    assert f"where barrier.epoch > {written} ) as unwritten on " in merge


def test_it_has_every_barrier_once(write: Callable[..., Any]) -> None:
    """Statements are sent again, and two runs may write it at once."""
    [merge] = write(7)

    assert merge.endswith(
        "as unwritten on barriers.epoch = unwritten.epoch "
        "and barriers.backfill_id = unwritten.backfill_id and barriers.epoch > 7 "
        "when not matched then insert *"
    )


def test_of_two_runs_that_write_it_at_once_none_fails(
    render: Callable[..., str], relations: Any
) -> None:
    """What the loser has not written the next run will; only Delta's conflict has a handler."""
    sql = render("get_history_statements", relations, 7, 9)

    assert sql.startswith(YIELDING + "merge into lake.mv__barriers ")
    assert sql.endswith(" insert *; end;")


def test_the_barrier_that_a_script_has_committed_itself_is_added_without_reading_the_history(
    render: Callable[..., str], relations: Any
) -> None:
    """Not by an execution that finds it committed: the script is sent again, or was overtaken."""
    sql = render("get_last_barrier_statements", relations, 9)

    last = "get_json_object(state, '$.last')"
    assert sql.startswith(
        f"if get_json_object({last}, '$.committed_by') = token then "
        f"insert into lake.mv__barriers ({', '.join(SHOWN)}) select barrier.epoch as epoch, "
    )
    assert sql.endswith(f"from ( select {last} as text ) ); end if;")
    assert "optimize lake.mv__barriers" in render("get_last_barrier_statements", relations, 100)


def test_on_iceberg_too_a_merge_is_checked_for_conflicts(
    macros: Macros, write: Callable[..., Any]
) -> None:
    """Without a WHEN MATCHED clause both would append their rows."""
    macros.config["file_format"] = "iceberg"
    create, merge = write(None)

    assert create.startswith(f"{CREATE} using iceberg ")
    assert merge.endswith("when matched then update set * when not matched then insert *")


@pytest.mark.parametrize(
    ("written", "epoch", "compacted"),
    [
        (None, 9, False),
        (None, 60, True),
        (-1, 49, False),
        (48, 49, False),
        (49, 50, True),
        (50, 51, False),
        (50, 99, False),
        (30, 170, True),
    ],
)
def test_its_files_are_made_one_when_a_multiple_of_50_is_passed(
    write: Callable[..., Any], written: int | None, epoch: int, compacted: bool
) -> None:
    statements = write(written, epoch)

    assert ("execute immediate 'optimize lake.mv__barriers'" in statements) is compacted
    assert not compacted or statements[-1].startswith("execute immediate ")


def test_those_of_an_iceberg_table_too_and_no_conflict_fails_it(
    macros: Macros, write: Callable[..., Any]
) -> None:
    macros.config["file_format"] = "iceberg"

    _, compaction = write(49, 50)
    assert compaction.startswith("call system.rewrite_data_files( table => 'lake.mv__barriers',")
    assert "'partial-progress.enabled', 'true'" in compaction
    assert len(write(50, 51)) == 1


@pytest.mark.parametrize(("written", "sent"), [(None, 1), (-1, 1), (1, 1), (2, 0), (3, 0)])
def test_a_run_writes_what_the_history_does_not_have(
    macros: Macros, backfill: Any, make_state: Any, written: int | None, sent: int
) -> None:
    """The epoch 2 is committed."""
    state = macros.call("write_history", backfill, make_state() | {"written": written})

    assert len(macros.statements) == sent
    assert state["written"] == max(written or 0, 2)
    for statement in macros.statements:
        sql = " ".join(statement.sql.split())
        assert "write the history */ begin " in sql
        assert sql.endswith("; end")
        assert (CREATE in sql) is (written is None)
