"""Run dbt in this process, so that all commands share one Spark session and one JVM."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, field, replace
from typing import Any

from dbt.cli.main import dbtRunner
from dbt_common.events.base_types import EventMsg

Hear = Callable[[str], None]
"""A function that receives each line of a macro, as soon as the macro logs the line."""


TURNS = "DBT_BACKFILL_TURNS"
"""An environment variable: with `1`, a run makes one barrier per model. A dbt var would be slower,
because dbt parses the project again if a var changes."""

IN_OPERATION = "Encountered an error while running operation: "


class DbtFailed(Exception):
    """The error of a dbt command that did not succeed, with dbt's message."""


@dataclass(frozen=True)
class ModelResult:
    """The result of one model in a `dbt run`.

    `code` is `BARRIER` or `NO-OP`. `response` has the numbers that the adapter reports: in a
    project on `type: spark`, only dbt's own numbers.
    """

    name: str
    status: str
    message: str
    response: dict[str, Any]

    @property
    def failed(self) -> bool:
        return self.status not in ("success", "skipped")

    @property
    def is_refusal(self) -> bool:
        """True if dbt reports a compilation error, such as a refusal: the run would fail again."""
        return self.message.lstrip().startswith("Compilation Error")

    @property
    def is_at_rest(self) -> bool:
        """True if the model had nothing to do, or had nothing left to do at its end."""
        ends = self.message.endswith((", CAUGHT UP", ", PAUSED"))
        return (self.response.get("code") == "NO-OP" or ends) and not self.waits

    @property
    def waits(self) -> bool:
        """True if the run ended because not enough changes of the upstream have landed."""
        return bool(re.match(r"(NEXT: )?(BARRIERS? .*\), )?WAITS: ", self.message))


@dataclass(frozen=True)
class DbtProject:
    """A dbt project, and the command's options, which have the same meaning as in dbt."""

    project_dir: str | None = None
    profiles_dir: str | None = None
    profile: str | None = None
    target: str | None = None
    vars: str | None = None
    hear: Hear = field(default=lambda line: None)

    def models(
        self, select: Sequence[str] = (), exclude: Sequence[str] = (), selector: str | None = None
    ) -> list[str]:
        """Return the selected models that are a `backfilled_mv`, each as a selector of dbt.

        :raises DbtFailed: if dbt cannot parse the project or knows no such selector
        """
        chosen = [*_option("--select", select), *_option("--exclude", exclude)]
        chosen += ["--selector", selector] if selector else []
        keys = ["--output", "json", "--output-keys", "fqn", "config"]
        listed = self._invoke(["ls", "--resource-type", "model", *keys, *chosen])
        nodes = [json.loads(line) for line in listed or []]
        return [
            ".".join(node["fqn"])
            for node in nodes
            if node["config"].get("materialized") == "backfilled_mv"
        ]

    def run(self, models: Sequence[str], one_barrier: bool = False) -> list[ModelResult]:
        """Run `dbt run` for these models, and return the results even if it fails.

        If a hook on-run-start or on-run-end fails, the hook is among the results.

        :param one_barrier: make one barrier per model, whatever its config says
        :raises DbtFailed: if dbt ended before any model ran
        """
        command = ["run", *_option("--select", [f"fqn:{model}" for model in models])]
        with _one_barrier_each() if one_barrier else nullcontext():
            found = self._invoke(command)
        return [
            read
            for result in getattr(found, "results", [])
            if (read := _read_result(result)).failed or result.node.resource_type == "model"
        ]

    def operation(self, name: str, **arguments: Any) -> None:
        """Run a run-operation, and pass its lines to `hear`.

        :raises DbtFailed: if it fails
        """
        errors: list[str] = []
        found = self._invoke(["run-operation", name, "--args", json.dumps(arguments)], errors)
        if any(str(result.status) != "success" for result in getattr(found, "results", [])):
            raise DbtFailed("\n".join(errors) or f"{name} failed")

    def read_json(self, name: str, **arguments: Any) -> list[dict[str, Any]]:
        """Return the objects that a run-operation prints, one per line.

        :raises DbtFailed: if it fails
        """
        lines: list[str] = []
        replace(self, hear=lines.append).operation(name, **arguments)
        return [json.loads(line) for line in lines if line.startswith("{")]

    def _invoke(self, command: Sequence[str], errors: list[str] | None = None) -> Any:
        """Return the result of a dbt command. The errors that dbt logs are added to `errors`."""
        errors = [] if errors is None else errors

        def record(event: EventMsg) -> None:
            info: Any = event.info
            if info.name == "JinjaLogInfo":
                self.hear(info.msg)
            elif info.level == "error":
                errors.append(info.msg.strip().removeprefix(IN_OPERATION))

        quiet = ["--log-level", "none", "--no-send-anonymous-usage-stats", "--no-use-colors"]
        invoked = dbtRunner(callbacks=[record]).invoke([*quiet, *command, *self._place()])
        if invoked.exception is not None:
            raise DbtFailed(str(invoked.exception))
        if not invoked.success and invoked.result is None:
            raise DbtFailed("\n".join(filter(None, errors)) or "dbt failed")
        return invoked.result

    def _place(self) -> Iterator[str]:
        for option in ("project_dir", "profiles_dir", "profile", "target", "vars"):
            if (value := getattr(self, option)) is not None:
                yield from (f"--{option.replace('_', '-')}", value)


def _read_result(result: Any) -> ModelResult:
    return ModelResult(
        result.node.name,
        str(result.status),
        str(result.message or ""),
        dict(result.adapter_response or {}),
    )


@contextmanager
def _one_barrier_each() -> Iterator[None]:
    before = os.environ.get(TURNS)
    os.environ[TURNS] = "1"
    try:
        yield
    finally:
        if before is None:
            del os.environ[TURNS]
        else:
            os.environ[TURNS] = before


def _option(name: str, values: Sequence[str]) -> list[str]:
    return [name, *values] if values else []
