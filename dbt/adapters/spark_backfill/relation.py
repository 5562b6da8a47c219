"""Relations in other catalogs. dbt calls a catalog a database: `database: lake`."""

from __future__ import annotations

from typing import Any

from dbt.adapters.contracts.relation import RelationType
from dbt.adapters.spark.relation import SparkRelation


class SparkBackfillRelation(SparkRelation):
    """A relation of dbt-spark, in any catalog of the session.

    dbt-spark knows only names of two parts, and fails if a relation has a database. So the database
    becomes the first part of the schema. `lake.raw` is also what a user of dbt-spark writes as
    `schema`, and what the macros of the package expect.
    """

    @classmethod
    def create(
        cls,
        database: str | None = None,
        schema: str | None = None,
        identifier: str | None = None,
        type: RelationType | None = None,
        **kwargs: Any,
    ) -> SparkBackfillRelation:
        """Return a relation whose schema begins with the database, if there is a database."""
        return super().create(None, with_catalog(database, schema), identifier, type, **kwargs)


def with_catalog(database: str | None, schema: str | None) -> str | None:
    """Return the schema with its catalog: `lake.raw`; the schema itself without a database."""
    return f"{database}.{schema}" if database and schema else schema
