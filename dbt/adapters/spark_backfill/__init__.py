"""The adapter type `spark_backfill`: dbt-spark, plus structured results and shorter errors.

A backfill is exact because of the macros, which also work without this adapter.
docs/install.md describes the two ways to install the macros.
"""

from dbt.adapters.base.plugin import AdapterPlugin

from dbt.adapters.spark_backfill.connections import (
    SparkBackfillConnectionManager,
    SparkBackfillCredentials,
)
from dbt.adapters.spark_backfill.impl import SparkBackfillAdapter
from dbt.include import spark_backfill

# dbt treats macros as internal if a plugin's `project_name` is the name of their project. Internal
# macros cannot be called as `dbt_backfill.x()`, but the macros of an installed package can only be
# called in this way. The bundled dbt_project.yml is named `dbt_backfill`. As long as PROJECT_NAME
# is another name, dbt treats the bundled macros as an installed package, and one copy of the macros
# works in both modes. dbt does not document these rules, so `test_install_modes.py` tests them.
PROJECT_NAME = "dbt_spark_backfill_internal"

Plugin = AdapterPlugin(
    adapter=SparkBackfillAdapter,  # type: ignore[arg-type]
    credentials=SparkBackfillCredentials,
    include_path=str(spark_backfill.PACKAGE_PATH),
    dependencies=["spark"],
    project_name=PROJECT_NAME,
)

__all__ = [
    "Plugin",
    "SparkBackfillAdapter",
    "SparkBackfillConnectionManager",
    "SparkBackfillCredentials",
]
