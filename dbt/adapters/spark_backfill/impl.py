"""The adapter class, whose methods the macros call. Exactness does not depend on it."""

from __future__ import annotations

from dataclasses import fields, replace
from typing import Any, NoReturn

from dbt.adapters.base.meta import available
from dbt.adapters.base.relation import AdapterTrackingRelationInfo, BaseRelation
from dbt.adapters.contracts.relation import RelationConfig
from dbt.adapters.spark.impl import SparkAdapter
from dbt_common.exceptions import DbtRuntimeError

from dbt.adapters.spark_backfill.__version__ import version
from dbt.adapters.spark_backfill.config import SparkBackfillConfig
from dbt.adapters.spark_backfill.connections import SparkBackfillConnectionManager
from dbt.adapters.spark_backfill.errors import RefusalError, SparkStatementError
from dbt.adapters.spark_backfill.relation import SparkBackfillRelation, with_catalog
from dbt.adapters.spark_backfill.response import BarrierResponse

# agate passes integers to Jinja as Decimal, and run_results.json would have them as strings.
_TO_JSON = {"bool": bool, "int": int, "float": float, "str": str}


class SparkBackfillAdapter(SparkAdapter):
    Relation = SparkBackfillRelation
    ConnectionManager = SparkBackfillConnectionManager
    connections: SparkBackfillConnectionManager
    AdapterSpecificConfigs = SparkBackfillConfig

    @classmethod
    def get_adapter_run_info(cls, config: RelationConfig) -> AdapterTrackingRelationInfo:
        """Return the adapter's name for dbt's usage statistics.

        dbt's own method derives the module's name from the class's name. That method would look for
        `dbt.adapters.sparkbackfill`, which does not exist, and would fail the model after its run.
        """
        return replace(
            SparkAdapter.get_adapter_run_info(config),
            adapter_name=cls.type(),
            adapter_version=version,
        )

    def list_relations_without_caching(self, schema_relation: BaseRelation) -> list[BaseRelation]:
        """Return the tables and views of a schema, with the catalog in which they were looked for.

        Spark returns the schema without its catalog. dbt-spark would keep the relation under this
        name, and would not find it.
        """
        found = super().list_relations_without_caching(schema_relation)
        schema = str(schema_relation.schema)
        if "." not in schema:
            return found
        path = {"schema": schema}
        # dbt compares the names of tables it has created in lower case, as Spark does.
        return [
            relation.incorporate(path=path, dbt_created=True)  # type: ignore[no-untyped-call]
            for relation in found
        ]

    def get_relation(
        self, database: str | None, schema: str, identifier: str
    ) -> BaseRelation | None:
        """Return a table or view from dbt's cache; None if it does not exist.

        dbt-spark's own method ignores the database. With it, dbt would drop or replace a table of
        that name in the session's catalog.
        """
        return super().get_relation(None, with_catalog(database, schema), identifier)  # type: ignore[arg-type]

    @available
    def barrier_response(self, message: str, **values: Any) -> BarrierResponse:
        """Return the result to pass to `store_result('main', response=...)`.

        :param message: the text that dbt shows in brackets on the model's OK line
        :param values: fields of `BarrierResponse`; numbers may be int, float, Decimal or text
        :raises DbtRuntimeError: for a field that does not exist
        """
        types = {field.name: str(field.type) for field in fields(BarrierResponse)}
        if unknown := sorted(values.keys() - types.keys()):
            raise DbtRuntimeError(f"barrier_response() has no field {', '.join(unknown)}")
        typed = {
            name: _TO_JSON[_base_type(types[name])](value)
            for name, value in values.items()
            if value is not None
        }
        code = "NO-OP" if typed.get("barriers") == 0 else "BARRIER"
        return BarrierResponse(_message=message, code=code, **typed)

    @available
    def set_line_if_stopped(self, line: str) -> None:
        """Remember the progress of this thread's model, for the message if dbt is stopped.

        :param line: a line that contains the model's name
        """
        self.connections.set_line_if_stopped(line)

    @available
    def take_turn(self) -> None:
        """Wait until no other model with `take_turns` runs a barrier. Models wait in a queue."""
        self.connections.take_turn()

    @available
    def attempt(self, sql: str) -> dict[str, Any]:
        """Run a statement that may fail: return its `table`, or its `error` as text.

        :raises SparkStatementError: if dbt is being stopped
        """
        try:
            _, table = self.execute(sql, auto_begin=False, fetch=True)
        except SparkStatementError as error:
            if self.connections.stop.is_set:
                raise
            return {"table": None, "error": str(error.msg)}
        return {"table": table, "error": None}

    @available
    def refuse(self, message: str) -> NoReturn:
        """Fail the model or run-operation with this message.

        :raises RefusalError: always
        """
        raise RefusalError(message)


def _base_type(annotation: str) -> str:
    return annotation.split("|")[0].strip()
