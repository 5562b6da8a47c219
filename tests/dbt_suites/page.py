"""The rows of docs/dbt-suites.md."""

from __future__ import annotations

import re
from dataclasses import dataclass

from support.project import REPOSITORY

PAGE = REPOSITORY / "docs" / "dbt-suites.md"


@dataclass(frozen=True)
class Suite:
    """The outcome of a suite, and the reason.

    `outcome` is `passes`, `as stock` (it fails, like with stock dbt-spark), or `does not apply`. If
    it is `as stock`, `why` quotes the errors in backticks.
    """

    outcome: str
    why: str

    @staticmethod
    def key(module: str, name: str) -> str:
        return f"{module.replace('.test_', '.')}.{name}"


def listed() -> dict[str, Suite]:
    rows = re.findall(r"^\| `(\S+)` \| ([^|]+) \| ([^|]*) ?\|$", PAGE.read_text(), re.MULTILINE)
    return {key: Suite(outcome.strip(), why.strip()) for key, outcome, why in rows}


def quoted(why: str) -> list[str]:
    """Return the errors that `why` quotes.

    A test with the outcome `as stock` must fail with one of these errors in both adapters.
    """
    errors = re.findall(r"`([^`]+)`", why)
    assert errors, why
    return errors
