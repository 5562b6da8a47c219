"""The adapter type `spark_backfill`: dbt-spark, plus structured results and shorter errors.

Everything that a backfill needs to be exact is in the macros, which also work without this
adapter; see the README for the two ways to install them.
"""

from dbt.adapters.base.plugin import AdapterPlugin

from dbt.adapters.spark_backfill.connections import (
    SparkBackfillConnectionManager,
    SparkBackfillCredentials,
)
from dbt.adapters.spark_backfill.impl import SparkBackfillAdapter
from dbt.include import spark_backfill

# dbt treats macros as internal if their project is called as a plugin's `project_name`, and
# internal macros cannot be called as `dbt_backfill.x()`, while those of an installed package cannot
# be called in any other way. The bundled dbt_project.yml is named `dbt_backfill`; as long as this
# name differs from it, dbt takes the bundled macros for an installed package, and one copy of them
# works in both modes. dbt documents neither half of this: `test_install_modes.py` pins it.
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
