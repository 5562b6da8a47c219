"""If a protection of the barrier protocol is removed from the macros, some MV becomes wrong.

Each test removes one protection from a copy of the macros. Then it plays an interleaving of two or
three runs that needs this protection. Some version of the MV must be wrong. With unchanged macros
every version of the MV is exact.

DBT_BACKFILL_FAULTS=all         also play the interleavings with unchanged macros
"""

from __future__ import annotations

import os
from collections.abc import Callable
from contextlib import nullcontext
from dataclasses import dataclass
from pathlib import Path

import pytest

from exactness.conftest import faults
from exactness.faults import Scene, rescaling
from exactness.mutants import Replacement, mutated
from exactness.oracle import Inexact
from exactness.runners import Runner, Statement, at_once, die_after, die_before, stepping, twice
from support.lake import Lake
from support.project import Project, two_merges

ALL = os.environ.get("DBT_BACKFILL_FAULTS") == "all"

PLAN = Statement("plan the barrier")
CHANGES = Statement("merge the changes of the barrier")
RANGE = Statement("merge the range of the barrier")
BOTH = Statement("merge the changes and the range of the barrier")
COMMIT = Statement("commit the barrier")
EMPTY = Statement("empty the MV in the barrier")


def stopped(scene: Scene, statement: Statement, *arguments: str) -> Runner:
    runner = scene.runner(*arguments)
    runner.go_to(statement)
    return runner


def a_run_dies_after_its_range(scene: Scene) -> None:
    """Let a run die after it has merged its range.

    The next run must execute the plan of the dead run, although the upstream has changed.
    """
    scene.commit()
    stopped(scene, RANGE).advance(die_after)
    scene.commit()
    scene.run()


def a_run_wakes_up_before_its_changes(scene: Scene) -> None:
    """Stop a run before it merges its changes.

    Other runs commit the same barrier and the next one. Then the stopped run continues.
    """
    scene.commit()
    stalled = stopped(scene, CHANGES)
    for _ in range(2):
        scene.run()
        scene.commit()
    stalled.finish()


def a_run_wakes_up_before_both(scene: Scene) -> None:
    """Stop a run before the MERGE of its changes and its range.

    Other runs commit the same barrier and the next one. Then the stopped run continues.
    """
    scene.commit()
    stalled = stopped(scene, BOTH)
    for _ in range(2):
        scene.run()
        scene.commit()
    stalled.finish()


def a_run_wakes_up_before_its_commit(scene: Scene) -> None:
    scene.commit()
    stalled = stopped(scene, COMMIT)
    for _ in range(2):
        scene.run()
        scene.commit()
    stalled.finish()


def a_run_wakes_up_in_another_mv(scene: Scene) -> None:
    """Stop a run. Then drop the MV and create it again.

    A run of the new MV dies in the barrier with the same number. Then the stopped run continues.
    """
    scene.commit()
    stalled = stopped(scene, RANGE)
    for table in ("", "__progress", "__barriers"):
        scene.project.sql(f"drop table if exists {scene.mv.table}{table}")
    scene.run()
    scene.commit()
    stopped(scene, RANGE).advance(die_before)
    stalled.finish()
    scene.run()


def two_runs_stage_their_changes(scene: Scene) -> None:
    """Let a run stage changes up to an older version, and then execute the plan of another run."""
    scene.commit()
    late = stopped(scene, PLAN)
    scene.commit()
    first = stopped(scene, CHANGES)
    late.advance()
    first.finish()
    late.finish()


def a_run_executes_the_plan_of_a_younger_snapshot(scene: Scene) -> None:
    """Let a run execute another run's plan, whose snapshot deletes rows.

    The snapshot was committed after the run had read the log.
    """
    late = stopped(scene, PLAN)
    upstream = scene.upstream
    upstream.commit(upstream.commits.delete(upstream.rows, sorted(upstream.rows)[:2]))
    stopped(scene, PLAN).advance(die_after)
    late.finish()


def a_range_is_sent_twice(scene: Scene) -> None:
    runner = stopped(scene, RANGE)
    runner.advance(twice)
    runner.finish()


def a_range_is_sent_twice_at_once(scene: Scene) -> None:
    runner = stopped(scene, RANGE)
    runner.advance(at_once)
    runner.finish()


def a_rescale_wakes_up_before_its_commit(scene: Scene) -> None:
    """Stop a rescale before its commit.

    Other runs commit the rescale and the next barrier. Then the stopped rescale continues.
    """
    stalled = stopped(scene, COMMIT, *rescaling(8))
    for _ in range(2):
        scene.run()
        scene.commit()
    stalled.finish()


def a_full_refresh(scene: Scene) -> None:
    scene.run("--full-refresh")


@dataclass(frozen=True)
class Protection:
    """A protection of the barrier protocol, and an interleaving that needs it.

    `replacements` remove the protection from the macros. `play` executes the interleaving.
    """

    name: str
    replacements: tuple[Replacement, ...]
    play: Callable[[Scene], None]
    file_format: str | None = None
    """The only table format that needs the protection; None if both need it."""
    at_once: bool = False
    """Whether one MERGE writes both changes and range."""


GET_FENCE = "{% macro get_fence(backfill, plan, state=none) -%}"
CLAUSES = "core/table/clauses.sql"
STEPS = "core/barrier/steps.sql"
SAME_KEY = "{{ dbt_backfill.equal_keys(keys, 'mv.', 'range.') }}"
COMMITTED = "core/barrier/commit.sql"
RESCALED = "features/rescale.sql"
RESCALE_STANDS = "dbt_backfill.executable_plan_predicate(plan, '{}.')"
STANDS = "set stands = dbt_backfill.executable_plan_predicate(plan) if plan"
SERIALIZABLE = "{%- set level = 'serializable' -%}"

PROTECTIONS = (
    Protection(
        "a plan that stands is adopted",
        (
            (
                "core/barrier/barrier.sql",
                "{%- set stored = state.get('planned') -%}",
                "{%- set stored = none -%}",
            ),
            (
                "core/state/plan.sql",
                "where epoch = {{ plan.epoch - 1 }} and plan_id is null",
                "where epoch = {{ plan.epoch - 1 }}",
            ),
        ),
        a_run_dies_after_its_range,
    ),
    Protection(
        "the changes are fenced",
        ((STEPS, STANDS, "set stands = 'true' if plan"),),
        a_run_wakes_up_before_its_changes,
    ),
    Protection(
        "changes and range at once are fenced",
        ((STEPS, STANDS, "set stands = 'true' if plan"),),
        a_run_wakes_up_before_both,
        at_once=True,
    ),
    Protection(
        "the fence reads the plan",
        ((STEPS, STANDS, "set stands = 'epoch = ' ~ (plan.epoch - 1) if plan"),),
        a_run_wakes_up_in_another_mv,
    ),
    Protection(
        "the fence is read after the version to commit against is fixed",
        (
            (
                STEPS,
                GET_FENCE,
                f"{GET_FENCE}{{%- do dbt_backfill.run_table('read the fence', 'select '"
                " ~ dbt_backfill._fence_of_plan(backfill, plan)) -%}true{%- endmacro %}\n"
                "{% macro _fence_of_plan(backfill, plan) -%}",
            ),
        ),
        a_run_wakes_up_before_its_changes,
    ),
    Protection(
        "the commit is guarded by the epoch and the plan",
        ((COMMITTED, "where {{ dbt_backfill.executable_plan_predicate(plan) }}", ""),),
        a_run_wakes_up_before_its_commit,
    ),
    Protection(
        "the commit of a rescale is guarded by the epoch and the plan",
        (
            (RESCALED, f"where {{{{ {RESCALE_STANDS.format('former')} }}}}", "where true"),
            (COMMITTED, f"set stands = {RESCALE_STANDS.format('progress')}", "set stands = 'true'"),
        ),
        a_rescale_wakes_up_before_its_commit,
    ),
    Protection(
        "epochs do not restart",
        (
            (
                COMMITTED,
                "        'epoch': plan.epoch,\n",
                "        'epoch': 0 if plan.kind == 'reset' else plan.epoch,\n",
            ),
            (COMMITTED, "{%- if not committed.get('executed')", "{%- if false"),
        ),
        a_full_refresh,
    ),
    Protection(
        "a stage is named by its plan",
        (
            (
                "core/barrier/stage.sql",
                "[backfill.mv.render(), plan.plan_id, invocation_id]",
                "[backfill.mv.render()]",
            ),
        ),
        two_runs_stage_their_changes,
    ),
    Protection(
        "a range is merged",
        ((STEPS, f"    on {SAME_KEY}", f"    on false and {SAME_KEY}"),),
        a_range_is_sent_twice,
    ),
    Protection(
        "an Iceberg range has a WHEN MATCHED clause",
        (("core/table/lookup.sql", "when matched then {{ action }}", ""),),
        a_range_is_sent_twice_at_once,
        "iceberg",
    ),
    Protection(
        "snapshots that the log does not know may delete",
        (
            (
                "upstreams/iceberg/changes.sql",
                "not in [['append'], ['replace']]",
                "not in [[], ['append'], ['replace']]",
            ),
        ),
        a_run_executes_the_plan_of_a_younger_snapshot,
        "iceberg",
    ),
    Protection(
        "an Iceberg MV is serializable",
        ((CLAUSES, SERIALIZABLE, SERIALIZABLE.replace("serializable", "snapshot")),),
        a_range_is_sent_twice_at_once,
        "iceberg",
    ),
)


def play(project: Project, protection: Protection, *, may_fail: bool) -> None:
    """Play the interleaving and check the MV. Then run once more and check the MV again.

    The query returns all rows, so it cannot hide a row that was written wrongly.
    """
    scene = Scene(project, "played", rows=40, query="everything")
    scene.mv.write(backfill_rate_limit=8)
    scene.run()
    scene.may_fail = may_fail
    with nullcontext() if protection.at_once else two_merges(), stepping():
        protection.play(scene)
    scene.mv.check()
    scene.commit()
    scene.run()
    scene.mv.check()


@pytest.fixture
def make_without(
    lake: Lake, parsed: Callable[[str], Path], tmp_path: Path
) -> Callable[[Protection], Project]:
    def make(protection: Protection) -> Project:
        if protection.file_format not in (None, lake.profile.file_format):
            pytest.skip(f"only {protection.file_format} needs it")
        number = PROTECTIONS.index(protection)
        packages = mutated(tmp_path / "packages", protection.replacements)
        return Project(
            tmp_path / "project",
            lake,
            f"without_{number}",
            packages=packages,
            parsed=parsed("spark"),
        )

    return make


@pytest.mark.every_profile
@pytest.mark.core("session-iceberg")
@pytest.mark.profiles("session-delta", "session-iceberg", reason="all runs share one session")
@pytest.mark.parametrize("protection", PROTECTIONS, ids=lambda protection: protection.name)
def test_what_is_taken_out_is_missed(
    make_without: Callable[[Protection], Project], protection: Protection
) -> None:
    project = make_without(protection)
    with pytest.raises(Inexact) as missed:
        play(project, protection, may_fail=True)
    faults.missed.append(f"{protection.name}: {missed.value}")


@pytest.mark.skipif(not ALL, reason="DBT_BACKFILL_FAULTS=all")
@pytest.mark.every_profile
@pytest.mark.profiles("session-delta", "session-iceberg", reason="all runs share one session")
@pytest.mark.parametrize("protection", PROTECTIONS, ids=lambda protection: protection.name)
def test_with_it_every_version_is_exact(project: Project, protection: Protection) -> None:
    play(project, protection, may_fail=False)
