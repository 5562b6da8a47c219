"""Lets a test send the statements of a dbt run one by one.

with stepping():
    stalled = Runner(project, mv)
    stalled.go_to(Statement("merge the range of the barrier"))
    project.run()                    # another run, from its beginning to its end
    result = stalled.finish()        # the first run continues

Each `Runner` is a real dbt run in its own thread. Only one runner moves at a time, so no result
depends on timing. dbt has global variables, which all runs of a process would share. So these
variables are saved and replaced whenever another run moves.
"""

from __future__ import annotations

import contextlib
import re
import threading
from collections import Counter
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any

import dbt.flags
import dbt.tracking
import dbt_common.events.event_manager_client
import dbt_common.invocation
from dbt.adapters.factory import FACTORY
from dbt_common.events.event_manager import EventManager

from support.project import Crash, Proceed, Project, RunResult, intercepted
from support.scripts import dying_after, is_script, statements_of, writes

PATIENCE_SECONDS = 600
PAUSE = "then java_method('java.lang.Thread', 'sleep', 4000L) = 'null'"

_GLOBALS: tuple[tuple[Any, str], ...] = (
    (FACTORY, "adapters"),
    (dbt_common.events.event_manager_client, "_EVENT_MANAGER"),
    (dbt_common.invocation, "_INVOCATION_ID"),
    (dbt_common.invocation, "_INVOCATION_STARTED_AT"),
    (dbt.flags, "GLOBAL_FLAGS"),
    (dbt.tracking, "active_user"),
)


class NeverSent(AssertionError):
    """A run ended without the statement that a test waited for."""


@dataclass(frozen=True)
class Statement:
    """A statement of the package, identified by its comment.

    `occurrence` numbers the statements of a run that have the same comment, from 1.
    """

    step: str
    occurrence: int = 1

    def __str__(self) -> str:
        return self.step if self.occurrence == 1 else f"{self.step} ({self.occurrence})"


Action = Callable[[Project, str, Proceed], None]
"""Executes a statement, with or without a fault.

The arguments are the project, the SQL text, and a function that executes the statement.
"""


def once(project: Project, sql: str, proceed: Proceed) -> None:
    proceed()


def twice(project: Project, sql: str, proceed: Proceed) -> None:
    """Send the statement twice, like a client that received no answer."""
    proceed()
    proceed()


def at_once(project: Project, sql: str, proceed: Proceed) -> None:
    """Send a statement twice at the same time. Then send the statement once more.

    The fence of the first two copies waits, so that these copies overlap. The last copy acts like a
    client that received no answer.
    """
    paused = re.sub(r"\bthen true\b", PAUSE, sql)
    with ThreadPoolExecutor(2) as pool:
        for sent in [pool.submit(project.sql, paused) for _ in range(2)]:
            sent.exception()  # one copy fails if both copies conflict
    proceed()


def die_before(project: Project, sql: str, proceed: Proceed) -> None:
    raise Crash("died before a statement")


def die_after(project: Project, sql: str, proceed: Proceed) -> None:
    """Execute the statement, then let the run die before it receives the answer."""
    proceed()
    raise Crash("died after a statement")


def die_inside(written: int) -> Action:
    """Return an action that ends a script after this number of statements that write."""

    def act(project: Project, sql: str, proceed: Proceed) -> None:
        script = dying_after(sql, written)
        assert script is not None, f"the script writes less than {written} times"
        with contextlib.suppress(Exception):
            project.sql(script)
        raise Crash(f"died inside a script, after {written} statements that write")

    return act


def writing_statements(sql: str) -> int:
    """Return the number of statements in a script that write; 0 if the text is not a script."""
    return sum(map(writes, statements_of(sql))) if is_script(sql) else 0


def steps_of(mv: str, upstream: str) -> Callable[[str], str | None]:
    """Return a function that finds the step in a statement's comment, without names and numbers.

    The function returns None for a statement that does not belong to this MV.
    """
    comment = re.compile(rf"/\* \S*\b{mv}\S*: (.*?) \*/")

    def step_of(sql: str) -> str | None:
        found = comment.search(sql)
        if found is None:
            return None
        step = re.sub(r" \d+$", "", found[1])
        names = {mv: "the MV", upstream: "the upstream"}
        return " ".join(names.get(word, word) for word in step.split())

    return step_of


class Runner:
    """A dbt run that stops before each statement of the package.

    `arguments` are added to `dbt run`. If they contain `run-operation`, they are the whole command.
    """

    def __init__(self, project: Project, mv: str, upstream: str, *arguments: str) -> None:
        self.project = project
        self.sent: list[tuple[Statement, str]] = []
        """The statements that the run has sent.

        Until the run ends, the last entry is not sent yet.
        """
        self.result: RunResult | None = None
        self._failure: BaseException | None = None
        self._step_of = steps_of(mv, upstream)
        self._seen: Counter[str] = Counter()
        self._action: Action = once
        self._marks: dict[str, str] = {}
        self._go = threading.Semaphore(0)
        self._stopped = threading.Semaphore(0)
        self._globals = [dict[str, Any](), EventManager(), *_put_aside()[2:]]
        self._arguments = (
            arguments if "run-operation" in arguments else ("run", "--select", mv, *arguments)
        )
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()
        _steps().append(self)
        self._move()

    @property
    def next(self) -> Statement | None:
        return None if self.ended else self.sent[-1][0]

    @property
    def next_step(self) -> str:
        """Return the comment of the next statement; empty if the run has ended."""
        return "" if self.ended else self.sent[-1][0].step

    @property
    def ended(self) -> bool:
        return self.result is not None or self._failure is not None

    def advance(self, action: Action = once) -> None:
        """Execute the next statement with `action`.

        The run then stops before the following statement.
        """
        assert not self.ended, "the run has ended"
        self._action = action
        self._move()

    def go_to(self, statement: Statement) -> None:
        while not self.ended and self.next != statement:
            self.advance()
        if self.ended:
            raise NeverSent(f"{statement} is not in {self.statements}; {self._error}")

    def finish(self, action: Action = once) -> RunResult:
        while not self.ended:
            self.advance(action)
        if self._failure is not None:
            raise self._failure
        assert self.result is not None
        return self.result

    @property
    def statements(self) -> list[str]:
        return [str(statement) for statement, _ in self.sent]

    @property
    def _error(self) -> str:
        return self.result.error if self.result is not None else str(self._failure)

    def _run(self) -> None:
        self._wait()
        try:
            self.result = self.project.dbt(*self._arguments, expect=False)
        except BaseException as failure:
            self._failure = failure
        finally:
            self._stopped.release()

    def intercept(self, sql: str, proceed: Proceed) -> None:
        step = self._step_of(sql)
        if step is None:
            proceed()
            return
        self._seen[step] += 1
        self.sent.append((Statement(step, self._seen[step]), sql))
        self._stopped.release()
        self._wait()
        others = self.project.lake.exchange_marks(self._marks)
        try:
            self._action(self.project, sql, proceed)
        finally:
            self._marks = self.project.lake.exchange_marks(others)

    def _wait(self) -> None:
        if not self._go.acquire(timeout=PATIENCE_SECONDS):
            raise Crash("nobody moved this run any more")

    def _move(self) -> None:
        others = _put_aside()
        _install(self._globals)
        _moving.append(self)
        try:
            self._go.release()
            if not self._stopped.acquire(timeout=PATIENCE_SECONDS):
                raise AssertionError(f"the run sends nothing after {self.statements}")
            if self.ended:
                self._thread.join()
        finally:
            _moving.pop()
            self._globals = _put_aside()
            _install(others)


_moving: list[Runner] = []
_stepping: list[list[Runner]] = []


@contextlib.contextmanager
def stepping() -> Iterator[None]:
    """Allow `Runner` objects inside the block. At its end every unfinished run dies."""
    _stepping.append([])
    try:
        with intercepted(_intercept):
            try:
                yield
            finally:
                for runner in _steps():
                    while not runner.ended:
                        runner.advance(die_before)
    finally:
        _stepping.pop()


def _steps() -> list[Runner]:
    assert _stepping, "a Runner needs `with stepping()`"
    return _stepping[-1]


def _intercept(sql: str, proceed: Proceed) -> None:
    if _moving:
        _moving[-1].intercept(sql, proceed)
    else:
        proceed()


def _put_aside() -> list[Any]:
    return [getattr(owner, name) for owner, name in _GLOBALS]


def _install(values: list[Any]) -> None:
    for (owner, name), value in zip(_GLOBALS, values, strict=True):
        setattr(owner, name, value)
