"""The suites of dbt-tests-adapter, as docs/dbt-suites.md says that they end.

Every class of the package that has a test is on that page: as one that passes, as one that stock
dbt-spark fails in the same way, or as one that does not apply.
"""

from __future__ import annotations

import importlib
from collections.abc import Iterator
from pathlib import Path

import dbt.tests.adapter
import pytest

from dbt_suites.page import Suite, listed


def suites() -> Iterator[tuple[str, type]]:
    """The suites of the package, by module and class; not the one that only gives it a name."""
    [root] = {Path(place) for place in dbt.tests.adapter.__path__}
    for path in sorted(root.rglob("*.py")):
        module = ".".join(path.relative_to(root).with_suffix("").parts)
        loaded = importlib.import_module(f"dbt.tests.adapter.{module}")
        for name, found in vars(loaded).items():
            mine = isinstance(found, type) and found.__module__ == loaded.__name__
            if mine and any(test.startswith("test") for test in dir(found)):
                its_own = [part for part in vars(found) if not part.startswith("__")]
                if its_own or not name.startswith("Test"):
                    yield module, found


PAGE = listed()
FOUND = {Suite.key(module, found.__name__): found for module, found in suites()}


def test_every_suite_is_on_the_page() -> None:
    assert set(FOUND) == set(PAGE)


for key, base in FOUND.items():
    suite = PAGE.get(key)
    if suite is not None and suite.outcome == "does not apply":
        continue
    name = f"Test_{key.replace('.', '_')}"
    made = type(name, (base,), {"__module__": __name__, "__test__": True})
    if suite is not None and suite.outcome == "as stock":
        made = pytest.mark.as_stock(suite.why)(made)
    globals()[name] = made
del base, made, name
