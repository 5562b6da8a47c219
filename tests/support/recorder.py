"""Record for each test which macros it executes and how long it takes.

`--record FILE` writes it as JSON; `support/core.py` chooses the core set of tests from such files.
A fixture that several tests share is recorded separately. The time and the macros of the fixture
belong to every test that uses the fixture, not only to the test that sets it up.
"""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from support.profiles import is_always_in_core

PACKAGES = ("dbt_backfill", "dbt_spark_backfill", "spark_backfill")

OF_DBT = "of dbt"
SECONDS_BETWEEN_WRITES = 20.0


@dataclass
class Part:
    """The time and the macros of a test, or of a fixture that several tests share."""

    seconds: float = 0.0
    macros: set[str] = field(default_factory=set)
    steps: dict[str, float] = field(default_factory=dict)
    """Seconds by statement of dbt; statements without a step of this package are `of dbt`."""
    fixtures: set[str] = field(default_factory=set)
    outcome: str = ""
    fixed: bool = False
    """True if the source says that `make test` runs it."""
    properties: dict[str, Any] = field(default_factory=dict)
    """The data that the test itself recorded, with pytest's `record_property`."""

    def as_dict(self) -> dict[str, Any]:
        return {
            "seconds": round(self.seconds, 2),
            "macros": sorted(self.macros),
            "steps": {step: round(seconds, 2) for step, seconds in sorted(self.steps.items())},
            "fixtures": sorted(self.fixtures),
            "outcome": self.outcome,
            "fixed": self.fixed,
            **self.properties,
        }


class Recorder:
    """Records times and macros of tests and shared fixtures.

    The running tests and fixtures form a stack. Times and macros count for the innermost one.
    """

    def __init__(self, file: Path, profile: str) -> None:
        self._file, self._profile = file, profile
        self._tests: dict[str, Part] = {}
        self._fixtures: dict[str, Part] = {}
        self._stack: list[Part] = []
        self._since = self._written = time.perf_counter()

    def pytest_sessionstart(self) -> None:
        from dbt.adapters.spark.connections import PyhiveConnectionWrapper
        from dbt.adapters.spark.session import Cursor
        from dbt.clients.jinja import MacroGenerator
        from dbt_common.clients.jinja import CallableMacroGenerator

        from support.macros import Macros
        from support.project import step_of

        generators: tuple[Any, ...] = (MacroGenerator, CallableMacroGenerator)
        for generator in generators:
            generator.__call__ = self._recording(generator.__call__)
        self._record_rendered(Macros)
        for cursor in (Cursor, PyhiveConnectionWrapper):
            self._record_steps(cursor, step_of)

    def _recording(self, call: Any) -> Any:
        """Record calls of macros. dbt calls a run-operation by another class than other macros."""

        def record_call(generator: Any, *args: Any, **kwargs: Any) -> Any:
            if self._stack and generator.macro.package_name in PACKAGES:
                self._stack[-1].macros.add(generator.macro.name)
            return call(generator, *args, **kwargs)

        return record_call

    def _record_rendered(self, renderer: Any) -> None:
        """Record the macros of tests that render them without dbt and run their SQL on Spark."""
        call = renderer.call

        def record_call(this: Any, name: str, *args: Any, **kwargs: Any) -> Any:
            if self._stack:
                self._stack[-1].macros.add(name)
            return call(this, name, *args, **kwargs)

        renderer.call = record_call

    def _record_steps(self, cursor: Any, step_of: Any) -> None:
        execute = cursor.execute

        def record_step(this: Any, sql: str, *args: Any) -> Any:
            started = time.perf_counter()
            try:
                return execute(this, sql, *args)
            finally:
                if self._stack:
                    step = (step_of(sql) or OF_DBT).rstrip(" 0123456789")
                    steps = self._stack[-1].steps
                    steps[step] = steps.get(step, 0.0) + time.perf_counter() - started

        cursor.execute = record_step

    @pytest.hookimpl(wrapper=True, tryfirst=True)
    def pytest_runtest_protocol(self, item: pytest.Item) -> Iterator[None]:
        part = self._tests.setdefault(item.nodeid, Part())
        part.fixed = is_always_in_core(item, self._profile)
        with self._running(part):
            return (yield)

    @pytest.hookimpl(wrapper=True, tryfirst=True)
    def pytest_fixture_setup(self, fixturedef: Any, request: Any) -> Iterator[None]:
        if fixturedef.scope == "function":
            return (yield)
        name = f"{fixturedef.baseid}::{fixturedef.argname}[{getattr(request, 'param_index', 0)}]"
        for part in self._stack:
            part.fixtures.add(name)
        with self._running(self._fixtures.setdefault(name, Part())):
            return (yield)

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        part = self._tests[report.nodeid]
        if report.when == "call" or report.outcome != "passed":
            part.outcome = report.outcome
        part.properties |= dict(report.user_properties)

    def pytest_runtest_teardown(self, item: Any) -> None:
        """Record all shared fixtures of a test, even if an earlier test has set them up."""
        for name, definitions in item._fixtureinfo.name2fixturedefs.items():
            definition = definitions[-1]
            if definition.scope != "function" and name in item.fixturenames:
                part = self._tests[item.nodeid]
                found = f"{definition.baseid}::{name}["
                part.fixtures |= {known for known in self._fixtures if known.startswith(found)}

    @contextmanager
    def _running(self, part: Part) -> Iterator[None]:
        self._count()
        self._stack.append(part)
        try:
            yield
        finally:
            self._count()
            self._stack.pop()

    def _count(self) -> None:
        now = time.perf_counter()
        if self._stack:
            self._stack[-1].seconds += now - self._since
        self._since = now

    def pytest_runtest_logfinish(self) -> None:
        """Write the record every few seconds, so that an interrupted run keeps most of it."""
        if time.perf_counter() - self._written > SECONDS_BETWEEN_WRITES:
            self._write()

    def pytest_sessionfinish(self) -> None:
        self._write()

    def _write(self) -> None:
        found = {
            "profile": self._profile,
            "tests": {name: part.as_dict() for name, part in self._tests.items()},
            "fixtures": {name: part.as_dict() for name, part in self._fixtures.items()},
        }
        self._file.write_text(json.dumps(found, indent=1))
        self._written = time.perf_counter()
