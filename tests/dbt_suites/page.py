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
    """Return the suites of the tables whose second column has an outcome as its heading."""
    found = {}
    tables = re.findall(
        r"^\| \w+ \| (passes|as stock|does not apply) \|\n\|[-|]+\n((?:\|.*\n)+)",
        PAGE.read_text(),
        re.MULTILINE,
    )
    for outcome, rows in tables:
        for why, suites in re.findall(r"^\| (.+) \| ([^|]+) \|$", rows, re.MULTILINE):
            for key in re.findall(r"`(\S+)`", suites):
                assert key not in found, key
                found[key] = Suite(outcome, why)
    return found


def quoted(why: str) -> list[str]:
    """Return the errors that `why` quotes.

    A test with the outcome `as stock` must fail with one of these errors in both adapters.
    """
    errors = re.findall(r"`([^`]+)`", why)
    assert errors, why
    return errors
