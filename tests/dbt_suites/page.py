"""The rows of docs/dbt-suites.md."""

from __future__ import annotations

import re
from dataclasses import dataclass

from support.project import REPOSITORY

PAGE = REPOSITORY / "docs" / "dbt-suites.md"


@dataclass(frozen=True)
class Suite:
    """How a suite ends: `passes`, `as stock` (which fails it too), or `does not apply`; and why.

    Of one that ends as stock, `why` quotes its errors, in backticks.
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
    """The errors with one of which each test that fails as stock has to fail, in both adapters."""
    errors = re.findall(r"`([^`]+)`", why)
    assert errors, why
    return errors
