"""Suites of dbt-tests-adapter in which a `backfilled_mv` replaces the tables.

Only suites whose models read one table row by row can be used. docs/dbt-suites.md explains why the
other suites cannot.
"""

from __future__ import annotations

from typing import Any

import pytest
from dbt.tests.adapter.basic import files
from dbt.tests.adapter.basic.test_base import BaseSimpleMaterializations
from dbt.tests.adapter.basic.test_generic_tests import BaseGenericTests
from dbt.tests.adapter.concurrency import test_concurrency as concurrency
from dbt.tests.adapter.dbt_show import fixtures as show
from dbt.tests.adapter.dbt_show.test_dbt_show import BaseShowLimit
from dbt.tests.adapter.empty import _models as empty
from dbt.tests.adapter.empty.test_empty import BaseTestEmptyInlineSourceRef
from dbt.tests.adapter.simple_copy import fixtures as copy
from dbt.tests.adapter.simple_copy.test_simple_copy import (
    EmptyModelsArentRunBase,
    SimpleCopyBase,
    SimpleCopySetup,
)
from dbt.tests.adapter.store_test_failures_tests import fixtures as failures
from dbt.tests.adapter.store_test_failures_tests.test_store_test_failures import (
    StoreTestFailuresBase,
)
from dbt.tests.adapter.unit_testing import test_case_insensitivity as case
from dbt.tests.adapter.unit_testing import test_invalid_input as invalid
from dbt.tests.adapter.unit_testing.test_case_insensitivity import BaseUnitTestCaseInsensivity
from dbt.tests.adapter.unit_testing.test_invalid_input import BaseUnitTestInvalidInput

Models = dict[str, str]
TABLE = "{{ config(materialized='table') }}\n"
OF_A_HUNDRED = 40
"""The rows of a range for a seed of a hundred rows, which then needs a few barriers."""


def mv(query: str, key: str = "id", rows: int = 3) -> str:
    """Return the query as a `backfilled_mv` that reads `rows` upstream rows in each barrier."""
    options = f"materialized='backfilled_mv', unique_key='{key}'"
    limits = f"backfill_rate_limit={rows}, barriers_per_run='all', vnode_count=4"
    return f"{{{{ config({options}, {limits}) }}}}\n{query}\n"


@pytest.fixture(scope="class")
def dbt_profile_target(dbt_profile_target) -> dict[str, Any]:  # type: ignore[no-untyped-def]
    """Give every Delta table a change feed, because dbt's seeds accept no table properties."""
    settings = dbt_profile_target["server_side_parameters"]
    feed = {"spark.databricks.delta.properties.defaults.enableChangeDataFeed": "true"}
    return {**dbt_profile_target, "server_side_parameters": {**settings, **feed}}


class TestSimpleMaterializations(BaseSimpleMaterializations):
    @pytest.fixture(scope="class")
    def models(self) -> Models:
        return {
            "view_model.sql": files.base_view_sql,
            "table_model.sql": mv("select * from {{ source('raw', 'seed') }}"),
            "swappable.sql": files.base_materialized_var_sql,
            "schema.yml": files.schema_base_yml,
        }


class TestGenericTests(BaseGenericTests):
    @pytest.fixture(scope="class")
    def models(self) -> Models:
        return {
            "view_model.sql": files.base_view_sql,
            "table_model.sql": mv("select * from {{ source('raw', 'seed') }}"),
            "schema.yml": files.schema_base_yml,
            "schema_view.yml": files.generic_test_view_yml,
            "schema_table.yml": files.generic_test_table_yml,
        }


class Copies(SimpleCopySetup):
    @pytest.fixture(scope="class")
    def models(self) -> Models:
        of_the_seed = mv("select * from {{ ref('seed') }}", rows=OF_A_HUNDRED)
        return {
            "advanced_incremental.sql": of_the_seed,
            "compound_sort.sql": of_the_seed,
            "disabled.sql": copy._MODELS__DISABLED,
            "empty.sql": copy._MODELS__EMPTY,
            "get_and_ref.sql": copy._MODELS__GET_AND_REF,
            "incremental.sql": of_the_seed,
            "interleaved_sort.sql": of_the_seed,
            "materialized.sql": of_the_seed,
            "view_model.sql": copy._MODELS__VIEW_MODEL,
        }


class TestSimpleCopy(Copies, SimpleCopyBase):
    test_simple_copy_with_materialized_views = None  # Spark has no materialized views


class TestEmptyModelsArentRun(Copies, EmptyModelsArentRunBase):
    @pytest.fixture(scope="class")
    def project(self, project) -> Any:  # type: ignore[no-untyped-def]
        """Replace the suite's query of `information_schema.tables`, which Spark does not have."""

        def tables() -> dict[str, str]:
            found = project.run_sql(f"show tables in {project.test_schema}", fetch="all")
            return {row[1]: "" for row in found}

        project.get_tables_in_schema = tables
        return project


class TestConcurrency(concurrency.BaseConcurrency):
    @pytest.fixture(scope="class")
    def dbt_profile_target(self, dbt_profile_target) -> dict[str, Any]:  # type: ignore[no-untyped-def]
        return {**dbt_profile_target, "threads": 4}

    @pytest.fixture(scope="class")
    def models(self) -> Models:
        return {
            "invalid.sql": concurrency.models__invalid_sql,
            "table_a.sql": mv("select * from {{ ref('seed') }}", rows=OF_A_HUNDRED),
            "table_b.sql": mv("select * from {{ ref('seed') }}", rows=OF_A_HUNDRED),
            "view_model.sql": concurrency.models__view_model_sql,
            "dep.sql": mv("select * from {{ ref('table_a') }}", rows=OF_A_HUNDRED),
            "view_with_conflicting_cascade.sql": (
                concurrency.models__view_with_conflicting_cascade_sql
            ),
            "skip.sql": concurrency.models__skip_sql,
        }


class TestEmptyFlag(BaseTestEmptyInlineSourceRef):
    @pytest.fixture(scope="class")
    def models(self) -> Models:
        return {"model.sql": mv(empty.model_inline_sql), "sources.yml": empty.schema_sources_yml}


class TestShowLimit(BaseShowLimit):
    @pytest.fixture(scope="class")
    def models(self) -> Models:
        return {
            "sample_model.sql": mv(show.models__sample_model, "sample_num"),
            "ephemeral_model.sql": show.models__ephemeral_model,
        }


class TestStoreTestFailures(StoreTestFailuresBase):
    @pytest.fixture(scope="class")
    def models(self) -> Models:
        long_name = "fine_model_but_with_a_no_good_very_long_name"
        return {
            "fine_model.sql": mv(failures.models__fine_model),
            f"{long_name}.sql": failures.models__file_model_but_with_a_no_good_very_long_name,
            "problematic_model.sql": failures.models__problematic_model,
        }

    def test_store_and_assert(self, project) -> None:  # type: ignore[no-untyped-def]
        self.run_tests_store_one_failure(project)
        self.run_tests_store_failures_and_assert(project)


class TestUnitTestCaseInsensitivity(BaseUnitTestCaseInsensivity):
    @pytest.fixture(scope="class")
    def models(self) -> Models:
        return {
            "my_model.sql": mv(case.my_model_sql, "tested_column"),
            "my_upstream_model.sql": TABLE + case.my_upstream_model_sql,
            "unit_tests.yml": case.test_my_model_yml,
        }


class TestUnitTestInvalidInput(BaseUnitTestInvalidInput):
    @pytest.fixture(scope="class")
    def models(self) -> Models:
        return {
            "my_model.sql": mv(invalid.my_model_sql, "tested_column"),
            "my_upstream_model.sql": TABLE + invalid.my_upstream_model_sql,
            "unit_tests.yml": invalid.test_my_model_yml,
        }
