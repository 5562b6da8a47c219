"""The suites of dbt-tests-adapter, each with the outcome that docs/dbt-suites.md lists.

That page lists every class of the package that has a test. The class passes, or it fails in the
same way with stock dbt-spark, or it does not apply.
"""

from __future__ import annotations

import importlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import dbt.tests.adapter
import pytest

from dbt_suites.page import Suite, listed


def suites() -> Iterator[tuple[str, type]]:
    """Yield the module and the class of each suite in the package.

    A class that only renames another class is left out.
    """
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


def set_as(models: dict[str, Any]) -> Any:
    return pytest.fixture(scope="class")(lambda self: {"models": models})


def fewer_rows(directory: Path) -> Path:
    """Write a seed with 1,000 rows instead of 20,000.

    For each row dbt-spark reads all rows of the seed, so 20,000 rows would take minutes.
    """
    directory.mkdir(exist_ok=True)
    path = directory / "tmp.csv"
    path.write_text("\n".join(["seed_id", *map(str, range(1000))]))
    return path


@pytest.fixture(scope="class")
def delta_by_default(self, dbt_profile_target, lake) -> Iterator[dict[str, Any]]:  # type: ignore[no-untyped-def]
    """Make Delta the format of tables that the suite creates by statements without a format."""
    settings = dbt_profile_target["server_side_parameters"]
    delta = {
        "spark.sql.sources.default": "delta",
        "spark.sql.legacy.createHiveTableByDefault": "false",
    }
    yield {**dbt_profile_target, "server_side_parameters": {**settings, **delta}}
    for name in delta:
        lake.sql(f"reset {name}")


# dbt-spark's own tests also set `incremental_strategy`. The default strategy appends rows and
# ignores the key.
MERGE = {"+incremental_strategy": "merge"}
ITS_OWN: dict[str, dict[str, Any]] = {
    "incremental.incremental_unique_id.BaseIncrementalUniqueKey": {
        "project_config_update": set_as(MERGE),
    },
    "incremental.incremental_predicates.BaseIncrementalPredicates": {
        "project_config_update": set_as(
            {"+incremental_predicates": ["dbt_internal_dest.id != 2"], **MERGE}
        ),
    },
    "simple_seed.seed.BaseSeedSpecificFormats": {"_make_big_seed": staticmethod(fewer_rows)},
    # The SQL of the suite's view is too long for a metastore in Derby.
    "utils.datediff.BaseDateDiff": {"project_config_update": set_as({"+materialized": "table"})},
    "simple_snapshot.snapshot.BaseSimpleSnapshot": {"dbt_profile_target": delta_by_default},
    "simple_snapshot.snapshot.BaseSnapshotCheck": {"dbt_profile_target": delta_by_default},
}


PAGE = listed()
FOUND = {Suite.key(module, found.__name__): found for module, found in suites()}


def test_every_suite_is_on_the_page() -> None:
    assert set(FOUND) == set(PAGE)


for key, base in FOUND.items():
    suite = PAGE.get(key)
    if suite is not None and suite.outcome == "does not apply":
        continue
    name = f"Test_{key.replace('.', '_')}"
    its_own = {"__module__": __name__, "__test__": True, **ITS_OWN.get(key, {})}
    made = type(name, (base,), its_own)
    if suite is not None and suite.outcome == "as stock":
        made = pytest.mark.as_stock(suite.why)(made)
    globals()[name] = made
del base, made, name, its_own
