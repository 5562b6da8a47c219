"""One lake in a temporary directory, shared by all tests, and the session that opens it."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

from nyc.thrift_server import (
    DELTA,
    EXTENSIONS,
    ICEBERG,
    POSTGRESQL,
    delta_catalogs,
    derby_metastore,
)
from pyspark.sql import Row, SparkSession

from support.profiles import SESSION_DELTA, Profile

QUICK_COMPILER = "-XX:TieredStopAtLevel=1"
"""The options of a JVM that ends within an hour: they turn off Java's second compiler.

With this compiler the first seven barriers need 205 seconds of CPU on Iceberg and 300 on Delta,
instead of 118 and 188. Later the compiler saves a quarter of the time: when the JVM has run for
five minutes, a test of three runs takes 22 seconds, and 29 seconds without the compiler.
"""

# The tests send a thousand different statements over a few rows each. Without these settings Spark
# would spend most of the time on compiling.
SMALL = {
    "spark.sql.codegen.wholeStage": "false",
    "spark.sql.codegen.factoryMode": "NO_CODEGEN",
    "spark.databricks.delta.snapshotPartitions": "1",
    "spark.sql.shuffle.partitions": "2",
    # VACUUM lists the files of a table in this number of tasks; the default is 10,000.
    "spark.sql.sources.parallelPartitionDiscovery.parallelism": "2",
    # Delta caches the metadata of 10,000 tables for an hour, which fills the heap.
    "spark.databricks.delta.delta.log.cacheSize": "20",
    # The UI is not needed here, and would keep the plans of 1,000 statements.
    "spark.ui.retainedJobs": "10",
    "spark.ui.retainedStages": "10",
    "spark.ui.retainedTasks": "100",
    "spark.sql.ui.retainedExecutions": "10",
    "spark.driver.memory": "3g",
    # Hadoop runs `chmod` for each file, which Java would start through a helper process.
    "spark.driver.extraJavaOptions": "-XX:ReservedCodeCacheSize=512m -XX:+UseParallelGC"
    f" -Djdk.lang.Process.launchMechanism=VFORK {QUICK_COMPILER}",
}


@dataclass
class Lake(ABC):
    """A warehouse directory with its metastore, and one connection for the tests' own queries."""

    directory: Path
    profile: Profile = SESSION_DELTA
    extra_parameters: Mapping[str, str] = field(default_factory=dict)

    @property
    @abstractmethod
    def catalogs(self) -> dict[str, str]:
        """Return the catalog that holds the tables of each format."""

    @abstractmethod
    def output(self, settings: Mapping[str, str]) -> dict[str, Any]:
        """Return a dbt profile's connection with these settings, without `type` and `schema`."""

    @abstractmethod
    def sql(self, statement: str) -> list[Row]: ...

    @abstractmethod
    def columns(self, table: str) -> tuple[str, ...]:
        """Return the names of a table's columns, in order."""

    @abstractmethod
    def close(self) -> None: ...

    @abstractmethod
    def exchange_marks(self, marks: Mapping[str, str]) -> dict[str, str]:
        """Replace the session's marks of snapshots by these, and return the previous ones.

        So each dbt command has its own marks, as if it had its own session.
        """

    def location(self, schema: str, table: str) -> Path:
        """Return the directory of a managed Delta table."""
        return self.directory / "warehouse" / f"{schema}.db" / table

    def url(self, schema: str, table: str) -> Path | str:
        """Return where a reader other than Spark finds a managed Delta table."""
        return self.location(schema, table)


class SessionLake(Lake):
    """A lake in this process.

    Only one process at a time can use embedded Derby. So dbt and all tests of a pytest process
    share one session. dbt-spark's method `session` uses the running session, and needs no further
    settings.
    """

    @property
    def catalogs(self) -> dict[str, str]:
        return {"delta": "spark_catalog", "iceberg": "lake"}

    @property
    def parameters(self) -> dict[str, str]:
        """Return the Spark settings of the lake, in the form of a dbt profile."""
        return {
            "spark.master": "local[2]",
            "spark.jars.packages": f"{DELTA},{ICEBERG},{POSTGRESQL}",
            "spark.sql.extensions": ",".join(EXTENSIONS),
            **delta_catalogs(self.directory),
            "spark.sql.defaultCatalog": self.catalogs[self.profile.file_format],
            **derby_metastore(self.directory),
            **SMALL,
            "spark.sql.session.timeZone": "UTC",
            "spark.ui.enabled": "false",
            "spark.ui.showConsoleProgress": "false",
            "spark.log.level": "FATAL",
            **self.extra_parameters,
        }

    def output(self, settings: Mapping[str, str]) -> dict[str, Any]:
        return {
            "method": "session",
            "host": "localhost",
            "server_side_parameters": self.parameters | dict(settings),
        }

    @cached_property
    def spark(self) -> SparkSession:
        # The Hadoop catalog cannot list the schemas of a directory that does not exist.
        (self.directory / "iceberg").mkdir(parents=True, exist_ok=True)
        builder = SparkSession.builder.enableHiveSupport()
        for key, value in self.parameters.items():
            builder = builder.config(key, value)
        # dbt-spark forces this setting on every connection. The tests' queries need the same
        # setting.
        return builder.config("spark.sql.ansi.enabled", "false").getOrCreate()

    def sql(self, statement: str) -> list[Row]:
        rows: list[Row] = self.spark.sql(statement).collect()
        return rows

    def columns(self, table: str) -> tuple[str, ...]:
        return tuple(self.spark.table(table).columns)

    def exchange_marks(self, marks: Mapping[str, str]) -> dict[str, str]:
        prefix, conf = "spark.sql.iceberg.snapshot-property.", self.spark.conf
        found = {name: value for name, value in conf.getAll.items() if name.startswith(prefix)}
        for name in found:
            conf.unset(name)
        for name, value in marks.items():
            conf.set(name, value)
        return found

    def close(self) -> None:
        self.spark.stop()
