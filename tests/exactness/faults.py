"""Plays the faults of `test_fault_matrix.py`: runs die, stall, or send a statement twice."""

from __future__ import annotations

import random
import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass, field

from exactness.follow import ORDER, Follower, Upstream
from exactness.oracle import Row, rows_by_key
from exactness.queries import QUERIES, UPSTREAM
from exactness.runners import (
    Action,
    Runner,
    Statement,
    at_once,
    die_after,
    die_before,
    die_inside,
    stepping,
    twice,
    writing_statements,
)
from exactness.upstream import Commit, Schema, draw_row
from support.project import Project, RunFailed, RunResult, two_merges
from support.scripts import leaves_something, statements_of, writes

SCHEMA = Schema({"id": "int", "amount": "int", "label": "string"}, key=("id",))
VNODES = 4
MV = "<mv>"
"""A placeholder for the name of the MV in the arguments of a scenario."""


@dataclass(frozen=True)
class Cell:
    """A fault of one statement, or of all statements, of a run in a scenario."""

    scenario: str
    statement: Statement | None
    """None if the fault occurs at every statement of the run."""
    moment: str
    writes: bool
    """Whether the statement writes to a table."""

    def __str__(self) -> str:
        return f"{self.scenario}: {self.moment} {self.statement or 'every statement'}"


@dataclass
class Tally:
    """Counts the faults that a pytest process has played, and collects the errors."""

    cells: int = 0
    mv_versions: int = 0
    barriers: int = 0
    stopped: Counter[str] = field(default_factory=Counter)
    """The first lines of the errors of stalled runs, without numbers."""
    wrong: list[str] = field(default_factory=list)
    missed: list[str] = field(default_factory=list)
    """The errors found after a protection was removed from the macros.

    A test that removes a protection must find an error.
    """

    def __str__(self) -> str:
        return (
            f"{self.cells} faults, {self.barriers} barriers, {self.mv_versions} MV versions, "
            f"{len(self.wrong)} wrong"
        )


@dataclass
class Scene:
    """An upstream table, and an MV that reads this table."""

    project: Project
    name: str
    rows: int = 80
    vnode_count: int = VNODES
    query: str = "positive"
    """The name of the MV's query in `QUERIES`."""
    may_fail: bool = False
    """Whether `run` accepts a run that fails.

    If a protection was removed from the macros, a run may fail. The test then only checks the MV's
    versions.
    """
    upstream: Upstream = field(init=False)
    mv: Follower = field(init=False)

    def __post_init__(self) -> None:
        self.rng = random.Random(self.name)
        ids = [10 * number for number in range(1, self.rows + 1)]
        self.upstream = Upstream.create(
            self.project, f"{self.name}_upstream", SCHEMA, rows_by_key(self._rows(ids), SCHEMA.key)
        )
        self.mv = Follower(
            self.project,
            self.upstream,
            f"{self.name}_mv",
            QUERIES[self.query](SCHEMA),
            vnode_count=self.vnode_count,
        )

    def _rows(self, ids: Iterable[int]) -> list[Row]:
        return [draw_row(self.rng, SCHEMA, (number,)) for number in ids]

    def commit(self) -> None:
        """Change every row of the upstream, and the keys of four rows.

        So the MV becomes wrong if a barrier misses any change. A row only moves between its first
        key and the key that is higher by 3. So at most one row moves into a range that is already
        planned.
        """
        rows = self.upstream.rows
        left = self.rng.sample(sorted(rows), 4)
        kept = [number for (number,) in rows if (number,) not in left]
        moved = [number + (-3 if number % 10 else 3) for (number,) in left]
        changed = self._rows([*kept, *moved])
        self.upstream.commit(self.upstream.commits.merge(rows, changed, left))

    def run(self, *arguments: str) -> None:
        self.project.dbt("run", "--select", self.mv.name, *arguments, expect=not self.may_fail)

    def run_behind_another(self) -> RunResult:
        """Run the model, up to four times, until the run does not conflict with another run.

        The server may still execute a statement of a run that was killed.
        """
        for _ in range(4):
            result = self.project.dbt("run", "--select", self.mv.name, expect=False)
            if result.success or not re.search("another run|[Cc]onflict|Concurrent", result.error):
                break
        return result

    def runner(self, *arguments: str) -> Runner:
        named = [argument.replace(MV, self.mv.name) for argument in arguments]
        return Runner(self.project, self.mv.name, self.upstream.name, *named)

    def catch_up(self) -> None:
        """Run until the MV has the upstream's newest version.

        The next run then only merges a range.
        """
        while self.mv.progress().version != self.upstream.version:
            self.run()

    def make_a_table(self) -> None:
        """Create a table that has the MV's name and most of its rows.

        Mark the table with the operation `adopt_table`.
        """
        table, query = self.mv.table, self.mv.query.sql.replace(UPSTREAM, self.upstream.table)
        for sql in (
            f"create table {table} using {self.project.file_format} as {query}",
            f"update {table} set label = 'other' where id_of_row % 50 = 0",
            f"delete from {table} where id_of_row % 70 = 0",
            f"insert into {table} values (1, 5, 'below'), (2, 35, 'between'), (3, 9999, 'above')",
        ):
            self.project.sql(sql)
        self.mv.adopted = True
        self.project.operation("adopt_table", model=self.mv.name)

    def lose_the_plan(self) -> None:
        """Let a run plan a barrier and die.

        Then make the changes unreadable that the plan needs.
        """
        self.commit()
        with stepping():
            died = self.runner()
            died.go_to(Statement("plan the barrier"))
            died.advance(die_after)
        self.commit()
        self.lose_the_feed()

    def lose_the_feed(self) -> None:
        """Make all changes before the newest version of the upstream unreadable."""
        table = self.upstream.table
        if self.project.file_format == "delta":
            for value in ("false", "true"):
                self._touch(
                    f"alter table {table} set tblproperties (delta.enableChangeDataFeed = {value})"
                )
        else:
            catalog = self.project.lake.catalogs["iceberg"]
            for statement in self.project.format.clean_up(catalog, table):
                self._touch(statement)

    def _touch(self, sql: str) -> None:
        self.upstream.commit(Commit("touch", sql, ()))


@dataclass(frozen=True)
class Scenario:
    """A kind of barrier, the state of the MV before it, and the dbt command that executes it."""

    name: str
    limit: int | None
    """The `backfill_rate_limit` of the model, until `begin` sets another limit."""
    begin: Callable[[Scene], None]
    """Brings a new MV to the state before the barrier."""
    renew: Callable[[Scene], None] | None
    """Brings an MV to this state again after a fault. None if every fault needs a new MV."""
    arguments: tuple[str, ...] = ()
    cells_per_mv: int = 5
    on_gap: str = "reanchor"
    full_refresh_mode: str = "in_place"
    vnode_count: int = VNODES
    order: str = ORDER
    replica: str = "never"
    """The key in REPLICAS of the model's options."""
    loses: bool = False
    """Whether the MV has a column that is dropped when the query returns a new column."""
    merges: Callable[[], AbstractContextManager[None]] = nullcontext
    """A context manager for the runs. By default one MERGE may write both changes and range."""


def _nothing(scene: Scene) -> None:
    pass


def _marked_and_changed(scene: Scene) -> None:
    scene.make_a_table()
    scene.commit()


def _begun(scene: Scene) -> None:
    scene.run()


def _begun_and_changed(scene: Scene) -> None:
    scene.run()
    scene.commit()


def _lost(scene: Scene) -> None:
    scene.catch_up()
    scene.lose_the_plan()


def _begun_and_lost(scene: Scene) -> None:
    scene.run()
    scene.lose_the_plan()


def _begun_and_broken(scene: Scene) -> None:
    for _ in range(3):
        scene.run()
    _broken(scene)


def _broken(scene: Scene) -> None:
    """Commit changes to the upstream, then make these changes unreadable."""
    scene.commit()
    scene.lose_the_feed()


def _swept(scene: Scene) -> None:
    """Execute a sweep up to its first range.

    Above the position of the sweep, the MV has rows of an older version.
    """
    _begun_and_broken(scene)
    _go_on_with_the_sweep(scene)


def _go_on_with_the_sweep(scene: Scene) -> None:
    if not scene.mv.progress().sweeping:
        _broken(scene)
        scene.run()
    scene.run()
    scene.commit()


def _half_and_widened(scene: Scene) -> None:
    """Backfill half of the rows, then add a column to the query.

    If the MV `loses` a column, the query no longer returns that column.
    """
    scene.run()
    scene.commit()
    scene.mv.widen()
    scene.mv.write(backfill_rate_limit=3)


def _filling(scene: Scene) -> None:
    """Execute the first barrier that fills the new column."""
    _half_and_widened(scene)
    scene.run()
    scene.commit()


def _at_40_percent(scene: Scene) -> None:
    scene.run()
    scene.mv.write(backfill_rate_limit=4)
    scene.commit()


def _back_to_its_vnodes(scene: Scene) -> None:
    scene.project.operation(
        "rescale_backfill", model=scene.mv.name, vnode_count=scene.mv.vnode_count
    )
    scene.commit()


def _apart(scene: Scene) -> None:
    """Backfill half of the vnodes further than the vnodes with which the rescale joins them."""
    scene.run()
    scene.mv.write(backfill_rate_limit=8, backfill_vnodes=[0, 1, 2, 3, 12, 13, 14, 15])
    scene.commit()
    scene.run()
    scene.mv.write(backfill_rate_limit=4)
    scene.commit()


def rescaling(vnode_count: int) -> tuple[str, ...]:
    return (
        "run-operation",
        "rescale_backfill",
        "--args",
        f"{{model: {MV}, vnode_count: {vnode_count}}}",
    )


SCENARIOS = {
    scenario.name: scenario
    for scenario in (
        Scenario("first run", 40, _nothing, None),
        Scenario("range only", 4, _begun, Scene.catch_up, cells_per_mv=3),
        Scenario("changes only", None, _begun_and_changed, Scene.commit),
        Scenario("both", 4, _begun_and_changed, Scene.commit, cells_per_mv=3),
        Scenario(
            "both one by one",
            4,
            _begun_and_changed,
            Scene.commit,
            cells_per_mv=4,
            merges=two_merges,
        ),
        Scenario(
            "both descending",
            4,
            _begun_and_changed,
            Scene.commit,
            cells_per_mv=3,
            order="descending",
        ),
        Scenario("first run over a replica", 4, _nothing, None, replica="always"),
        Scenario(
            "both over a replica",
            4,
            _begun_and_changed,
            Scene.commit,
            cells_per_mv=3,
            replica="always",
        ),
        Scenario("last range", 60, _begun_and_changed, None),
        Scenario(
            "full refresh",
            20,
            _begun_and_changed,
            Scene.commit,
            ("--full-refresh",),
            cells_per_mv=8,
        ),
        Scenario(
            "swap",
            None,
            _begun_and_changed,
            Scene.commit,
            ("--full-refresh",),
            full_refresh_mode="beside",
        ),
        Scenario("abandon and re-anchor", 4, _begun_and_lost, _lost),
        Scenario("adoption", 20, _marked_and_changed, None),
        Scenario("sweep", 4, _begun_and_broken, _broken, on_gap="sweep"),
        Scenario("range of a sweep", 4, _swept, _go_on_with_the_sweep, on_gap="sweep"),
        Scenario("begin of a fill", 40, _half_and_widened, None, loses=True),
        Scenario("fill", 40, _filling, Scene.commit, cells_per_mv=3),
        Scenario(
            "more vnodes", 32, _at_40_percent, _back_to_its_vnodes, rescaling(256), vnode_count=16
        ),
        Scenario(
            "fewer vnodes", 32, _at_40_percent, _back_to_its_vnodes, rescaling(4), vnode_count=16
        ),
        Scenario("vnodes apart", 32, _apart, None, rescaling(4), vnode_count=16),
    )
}

ACTIONS: dict[str, Action] = {
    "before": die_before,
    "after": die_after,
    "twice": twice,
    "at once": at_once,
}
RESENT = ("twice", "at once")
STALLS = {"stalled for one barrier": 1, "stalled for two barriers": 2}


def cells_of(scenario: str, sent: Sequence[tuple[Statement, str]]) -> Iterator[Cell]:
    """Yield every different fault of a run that sends these statements.

    A death after a statement is the same fault as a death before the next statement. A statement
    that leaves nothing behind is only stalled. In one further run all statements are sent twice,
    one after the other. In another run all statements are sent twice at the same time.
    """
    shortest_stall, *longer_stalls = STALLS
    leaving = [leaves_something(sql) for _, sql in sent]
    for number, (statement, sql) in enumerate(sent):
        moments = [shortest_stall]
        if leaving[number]:
            before = [] if any(leaving[:number]) else ["before"]
            inside = [f"inside after {n + 1}" for n in range(writing_statements(sql))]
            moments += [*before, "after", *RESENT, *inside, *longer_stalls]
        for moment in moments:
            yield Cell(scenario, statement, moment, any(map(writes, statements_of(sql))))
    for moment in RESENT:
        yield Cell(scenario, None, moment, writes=False)


class Theatre:
    """Plays the faults (cells) of one scenario. One MV gets several faults.

    After an error, the next fault gets a new MV.
    """

    def __init__(self, project: Project, scenario: Scenario, tally: Tally) -> None:
        self.project = project
        self.scenario = scenario
        self.tally = tally
        self._scenes = 0
        self._scene: Scene | None = None
        self._struck: list[Cell] = []

    def cells(self) -> list[Cell]:
        """Return all possible faults. A run without a fault finds the statements.

        If the scenario has `renew`, the MV of this run is also used for the first faults.
        """
        with self.scenario.merges():
            scene = self._begin()
            with stepping():
                recorded = scene.runner(*self.scenario.arguments)
                result = recorded.finish()
            if not result.success:
                raise RunFailed(f"{self.scenario.name}: {result.error}")
            if self.scenario.renew is None:
                self._scene = None
        return list(cells_of(self.scenario.name, recorded.sent))

    def play(self, cells: Iterable[Cell]) -> None:
        """Play the faults and record each error in the tally.

        The versions of an MV are checked after its last fault. So the report of an error names all
        faults of this MV.
        """
        with self.scenario.merges():
            for cell in cells:
                self.tally.cells += 1
                with self._noting_what_is_wrong():
                    self._play(cell)
            if self._scene is not None:
                with self._noting_what_is_wrong():
                    self._end()

    def die_in_turn(self, steps: Iterable[str]) -> None:
        """Start one run for each of these statements. Each run dies after its statement.

        The upstream changes after each run. The runs have the scenario's `arguments` until one of
        them has planned the barrier.
        """
        arguments = self.scenario.arguments
        with self.scenario.merges():
            scene = self._begin()
            for step in steps:
                self.tally.cells += 1
                with stepping():
                    runner = scene.runner(*arguments)
                    runner.go_to(Statement(step))
                    runner.advance(die_after)
                    runner.finish()
                if step.startswith("plan"):
                    arguments = ()
                scene.commit()
            self._end()

    @contextmanager
    def _noting_what_is_wrong(self) -> Iterator[None]:
        try:
            yield
        except AssertionError as wrong:  # the base class of `Inexact` and `RunFailed`
            struck = "; ".join(map(str, self._struck)) or self.scenario.name
            self.tally.wrong.append(f"{struck}: {wrong}")
            self._scene = None

    def _play(self, cell: Cell) -> None:
        scene = self._begin()
        self._struck.append(cell)
        self.tally.stopped.update(strike(scene, cell, self.scenario.arguments))
        scene.commit()
        scene.run()
        if self.scenario.renew is None or len(self._struck) == self.scenario.cells_per_mv:
            self._end()

    def _begin(self) -> Scene:
        if self._scene is not None:
            assert self.scenario.renew is not None
            self.scenario.renew(self._scene)
            return self._scene
        self._scenes += 1
        self._struck = []
        name = self.scenario.name.replace(" ", "_").replace("-", "_")
        self._scene = scene = Scene(
            self.project, f"{name}_{self._scenes}", vnode_count=self.scenario.vnode_count
        )
        scene.mv.loses = self.scenario.loses
        scene.mv.order = self.scenario.order
        scene.mv.replica = self.scenario.replica
        scene.mv.write(
            backfill_rate_limit=self.scenario.limit,
            on_gap=self.scenario.on_gap,
            full_refresh_mode=self.scenario.full_refresh_mode,
        )
        self.scenario.begin(scene)
        return scene

    def _end(self) -> None:
        """Complete the backfill without a rate limit, and check every version of the MV.

        The MV must then equal its query on the whole upstream.
        """
        assert self._scene is not None
        scene, self._scene = self._scene, None
        mode = self.scenario.full_refresh_mode
        scene.mv.write(barriers_per_run="all", full_refresh_mode=mode)
        scene.run()
        checked = scene.mv.check()
        scene.mv.check_complete()
        self.tally.mv_versions += checked.mv_versions
        self.tally.barriers += checked.barriers


def action_of(moment: str) -> Action:
    if moment.startswith("inside"):
        return die_inside(int(moment.split()[-1]))
    return ACTIONS[moment]


def strike(scene: Scene, cell: Cell, arguments: tuple[str, ...] = ()) -> list[str]:
    """Execute a run with this fault. If a stalled run fails, return the reason in a list."""
    with stepping():
        runner = scene.runner(*arguments)
        if cell.statement is None:
            result = runner.finish(action_of(cell.moment))
        else:
            runner.go_to(cell.statement)
            if cell.moment in STALLS:
                for _ in range(STALLS[cell.moment]):
                    scene.commit()
                    scene.run()
                result = runner.finish()
                return [] if result.success else [reason_of(result)]
            runner.advance(action_of(cell.moment))
            result = runner.finish()
        if not result.success and "died" not in _said(result):
            raise RunFailed(_said(result))
    return []


def _said(result: RunResult) -> str:
    """Return the error of a run. A run-operation reports its error only in its output."""
    return result.error or result.output


def reason_of(result: RunResult) -> str:
    """Return the package's message, or the first two lines of the error without ids and numbers."""
    said = _said(result)
    ours = re.search(
        r"another run (changed the state while this run executed|began the barrier)", said
    )
    if ours:
        return ours[0]
    lines = [line.strip() for line in said.splitlines() if line.strip()]
    return re.sub(r"[0-9a-f]{8,}|\d+", "_", " ".join(lines[:2]))[:160]
