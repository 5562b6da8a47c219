"""A lake whose tables are in an object store. Its catalog is in PostgreSQL.

lake = StoreLake(directory, profile, delta_on(store, database, directory))
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path

from nyc.thrift_server import DELTA, ICEBERG, POSTGRESQL, postgresql_metastore

from support.lake import SessionLake
from support.postgres import USER, Database
from support.stores import BUCKET, HADOOP_AWS, KEY, REGION, SECRET, ObjectStore, jars_of, s3a

ICEBERG_AWS = "org.apache.iceberg:iceberg-aws-bundle:1.11.0"


@dataclass
class StoreLake(SessionLake):
    """A lake whose tables are in a bucket. Processes of other Spark drivers can open it too."""

    def url(self, schema: str, table: str) -> str:
        return f"s3://{BUCKET}/warehouse/{schema}.db/{table}"


def delta_on(store: ObjectStore, metastore: Database, directory: Path) -> dict[str, str]:
    """Return settings by which Delta tables are on S3, with Delta's default log store."""
    aws = jars_of(HADOOP_AWS, "hadoop-aws", "awssdk")
    return {
        **postgresql_metastore(directory, metastore.url),
        "spark.sql.warehouse.dir": f"s3a://{BUCKET}/warehouse",
        "spark.driver.extraClassPath": os.pathsep.join(
            [*aws, *jars_of(POSTGRESQL, "org.postgresql_postgresql")]
        ),
        **{f"spark.hadoop.{name}": value for name, value in s3a(store).items()},
    }


def several_drivers(settings: dict[str, str], classes: Path) -> dict[str, str]:
    """Return settings of Delta on S3 with a log store that uses the store's conditional writes."""
    path = "spark.driver.extraClassPath"
    # The log store's parent class must come from the same class path.
    jars = jars_of(DELTA, "delta-storage")
    return {
        **settings,
        path: os.pathsep.join([settings[path], str(classes), *jars]),
        "spark.delta.logStore.s3a.impl": "ConditionalLogStore",
    }


def iceberg_on(store: ObjectStore, catalog: Database) -> dict[str, str]:
    """Return settings by which Iceberg tables are on S3, in a JDBC catalog on PostgreSQL."""
    lake = "spark.sql.catalog.lake"
    return {
        "spark.jars.packages": f"{DELTA},{ICEBERG},{POSTGRESQL},{ICEBERG_AWS}",
        "spark.driver.extraClassPath": os.pathsep.join(
            jars_of(POSTGRESQL, "org.postgresql_postgresql")
        ),
        f"{lake}.type": "jdbc",
        f"{lake}.uri": catalog.place,
        f"{lake}.jdbc.user": USER,
        f"{lake}.jdbc.schema-version": "V1",
        f"{lake}.warehouse": f"s3://{BUCKET}/iceberg",
        f"{lake}.io-impl": "org.apache.iceberg.aws.s3.S3FileIO",
        f"{lake}.s3.endpoint": store.url,
        f"{lake}.s3.path-style-access": "true",
        f"{lake}.s3.access-key-id": KEY,
        f"{lake}.s3.secret-access-key": SECRET,
        f"{lake}.client.region": REGION,
    }
