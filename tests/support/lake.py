"""One warm Spark session with Delta and Iceberg on a throw-away directory, shared by all tests."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path

from pyspark.sql import Row, SparkSession

JARS = (
    "io.delta:delta-spark_4.1_2.13:4.3.1",
    "org.apache.iceberg:iceberg-spark-runtime-4.1_2.13:1.11.0",
)
EXTENSIONS = (
    "io.delta.sql.DeltaSparkSessionExtension",
    "org.apache.iceberg.spark.extensions.IcebergSparkSessionExtensions",
)


def server_side_parameters(directory: Path) -> dict[str, str]:
    """The Spark settings of a local lake under `directory`, as a dbt profile takes them."""
    return {
        "spark.master": "local[2]",
        "spark.driver.memory": "2g",
        "spark.driver.extraJavaOptions": f"-Dderby.stream.error.file={directory}/derby.log",
        "spark.jars.packages": ",".join(JARS),
        "spark.sql.extensions": ",".join(EXTENSIONS),
        "spark.sql.catalog.spark_catalog": "org.apache.spark.sql.delta.catalog.DeltaCatalog",
        "spark.sql.warehouse.dir": f"{directory}/warehouse",
        "spark.hadoop.javax.jdo.option.ConnectionURL": (
            f"jdbc:derby:{directory}/metastore;create=true"
        ),
        # A thousand different statements over a few rows each: compiling them takes longest.
        "spark.sql.codegen.wholeStage": "false",
        "spark.sql.codegen.factoryMode": "NO_CODEGEN",
        "spark.databricks.delta.snapshotPartitions": "1",
        "spark.sql.shuffle.partitions": "2",
        "spark.sql.session.timeZone": "UTC",
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.log.level": "FATAL",
    }


@dataclass
class Lake:
    """A warehouse directory with its metastore, and the one Spark session that opens it.

    Embedded Derby admits one process at a time, so everything in a pytest process that needs this
    lake, dbt included, goes through this session. dbt-spark's `session` method does so by itself:
    it asks for the running session before every statement.
    """

    directory: Path
    extra_parameters: Mapping[str, str] = field(default_factory=dict)

    @property
    def parameters(self) -> dict[str, str]:
        return server_side_parameters(self.directory) | dict(self.extra_parameters)

    @cached_property
    def spark(self) -> SparkSession:
        builder = SparkSession.builder.enableHiveSupport()
        for key, value in self.parameters.items():
            builder = builder.config(key, value)
        # What dbt-spark forces on every connection: tests must see what a model sees.
        return builder.config("spark.sql.ansi.enabled", "false").getOrCreate()

    def sql(self, statement: str) -> list[Row]:
        rows: list[Row] = self.spark.sql(statement).collect()
        return rows
