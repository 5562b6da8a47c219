"""`compact_every` and `sort_when_finished` rewrite files; every version of the MV stays exact."""

from __future__ import annotations

import pytest

from exactness.follow import Follower, Upstream, row
from exactness.oracle import rows_by_key
from exactness.queries import positive
from exactness.upstream import Schema
from support.checks import model
from support.profiles import any_connection, at_home_on_iceberg
from support.project import Proceed, Project, crash_before

pytestmark = at_home_on_iceberg

SCHEMA = Schema({"id": "int", "amount": "int", "label": "string"}, key=("id",))
ROWS = 40
AFTER = "the MV after the barrier"


@pytest.fixture
def upstream(project: Project) -> Upstream:
    rows = [row(SCHEMA, n, n, f"r{n}") for n in range(1, ROWS + 1)]
    return Upstream.create(project, "up", SCHEMA, rows_by_key(rows, SCHEMA.key))


@pytest.fixture
def mv(project: Project, upstream: Upstream) -> Follower:
    return Follower(project, upstream, "mv", positive(SCHEMA), vnode_count=4)


def change(upstream: Upstream, first: int) -> None:
    """Change rows that the backfill has read, and rows that it has not read yet."""
    commits = upstream.commits
    for number in (first, first + ROWS // 2):
        upstream.commit(commits.update(upstream.rows, [(number,)], {"label": f"new {number}"}))
        upstream.commit(commits.delete(upstream.rows, [(number + 1,)]))
        upstream.commit(commits.insert([row(SCHEMA, 100 + number, 1, "late")]))


@pytest.mark.every_profile
@any_connection
def test_every_so_many_barriers_and_at_the_end_its_small_files_are_made_few(
    project: Project, upstream: Upstream, mv: Follower
) -> None:
    mv.write(backfill_rate_limit=10, compact_every=2, barriers_per_run=1)
    for number in (1, 2, 3, 4):
        result = project.run()
        assert (f"mv [COMPACTED after BARRIER {number} · " in result.output) is (number % 2 == 0)
        change(upstream, number * 3)
    # Count only data files: Iceberg keeps some delete files after it has applied them.
    assert project.files("mv", "data_files") == 1

    # The compacted MV completes its backfill and then follows later changes.
    mv.write(backfill_rate_limit=None, compact_every=7, barriers_per_run="all")
    assert "mv [COMPACTED after BARRIER 5 · " in project.run().output
    change(upstream, 15)
    later = project.run()
    assert "COMPACTED" not in later.output and "BARRIER 6" in later.output
    mv.check_complete()
    mv.check()


def test_once_all_has_been_read_it_is_sorted(
    project: Project, upstream: Upstream, mv: Follower
) -> None:
    options = {"backfill_rate_limit": 15, "sort_when_finished": True}
    mv.write(**options, barriers_per_run=1)
    assert "SORTED" not in project.run().output
    change(upstream, 2)
    mv.write(**options, barriers_per_run="all")
    output = project.run().output
    assert output.count("mv [SORTED after BARRIER ") == 1
    assert project.files("mv", "data_files") == 1
    change(upstream, 8)
    assert "SORTED" not in project.run().output
    mv.check_complete()
    mv.check()


@pytest.mark.profiles("session-delta", "thrift-delta", reason="Iceberg sorts by any column")
def test_where_delta_cannot_sort_it_is_compacted_and_says_why(
    project: Project, upstream: Upstream
) -> None:
    names = ("bare", "liquid")
    mvs = {
        name: Follower(project, upstream, name, positive(SCHEMA), vnode_count=4) for name in names
    }
    options = {"sort_when_finished": True, "live_view": True}
    bare = {"tblproperties": {"delta.dataSkippingNumIndexedCols": "0"}}
    for name, mv in mvs.items():
        mv.write(**options, **(bare if name == "bare" else {}), backfill_rate_limit=15)
    project.run()
    project.sql("alter table {schema}.liquid cluster by (label)")
    change(upstream, 2)
    for name, mv in mvs.items():
        mv.write(**options, **(bare if name == "bare" else {}), barriers_per_run="all")
    output = project.run().output

    assert "SORTED" not in output
    assert "bare [COMPACTED after BARRIER 2 · not sorted: its key has no statistics · " in output
    assert "liquid [COMPACTED after BARRIER 2 · not sorted: it has liquid clustering · " in output
    for name, mv in mvs.items():
        assert project.files(name) == 1
        mv.check_complete()
        mv.check()


def test_a_run_that_dies_before_it_leaves_it_to_the_next_time(
    project: Project, upstream: Upstream, mv: Follower
) -> None:
    mv.write(backfill_rate_limit=10, compact_every=2, barriers_per_run=1)
    project.run()
    project.fail(intercept=crash_before(AFTER))
    for number in (3, 4):
        change(upstream, 3 * number)
        compacted = "COMPACTED after BARRIER 4" in project.run().output
    assert compacted
    mv.check()


@any_connection
def test_one_right_after_the_mv_was_replaced_is_no_new_beginning(
    project: Project, upstream: Upstream, mv: Follower
) -> None:
    """The compaction gives an Iceberg MV a later snapshot than the replacement.

    The next run must not take this snapshot for a reset.
    """
    mv.write(full_refresh_mode="beside")
    project.run()
    change(upstream, 2)

    def compact(sql: str, proceed: Proceed) -> None:
        if "commit the barrier 2" in sql:
            project.compact("mv")
        proceed()

    swapped = project.run("--full-refresh", intercept=compact)
    assert "next generation put in place: full refresh" in swapped.output
    assert project.run().message("mv") == "CAUGHT UP"
    mv.check_complete()


@pytest.mark.plugin
def test_with_the_adapter_an_error_of_it_is_a_warning(
    project: Project, upstream: Upstream, mv: Follower
) -> None:
    mv.write(sort_when_finished=True)
    failed = project.run(intercept=crash_before(AFTER))
    assert "mv: the MV could not be sorted after the barrier 1. That barrier is" in failed.output
    assert f"before {AFTER}" in failed.output
    mv.check_complete()
    mv.check()


def test_an_mv_downstream_is_told_of_no_change(
    project: Project, upstream: Upstream, mv: Follower
) -> None:
    mv.write(backfill_rate_limit=None, compact_every=1)
    project.run()
    query = "select id_of_row, label from {{ ref('mv') }}"
    reader = model(query, unique_key="id_of_row", barriers_per_run="all")
    project.write({"reader": reader})
    project.run("--select", "reader")
    change(upstream, 5)
    project.run("--select", "mv")
    read = project.run("--select", "reader").output
    # `change` makes an update, a delete and an insert in each of two parts of the table.
    assert "4 changed, 2 deleted" in read
    assert project.rows("select * from {schema}.reader") == project.rows(
        "select id_of_row, label from {schema}.mv"
    )
