"""A lake whose tables are in an object store. Its catalog is in PostgreSQL, or has a REST server.

lake = StoreLake(directory, profile, delta_on(store, database, directory))
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path

from nyc.object_store import BUCKET, KEY, REGION, SECRET, ObjectStore
from nyc.thrift_server import DELTA, ICEBERG, POSTGRESQL, postgresql_metastore

from support.lake import SessionLake
from support.postgres import USER, Database
from support.stores import HADOOP_AWS, jars_of, s3, s3a

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


def jdbc_catalog(store: ObjectStore, database: Database) -> dict[str, str]:
    """Return the properties of an Iceberg catalog in PostgreSQL, whose tables are on S3."""
    return {
        "type": "jdbc",
        "uri": database.place,
        "jdbc.user": USER,
        "jdbc.schema-version": "V1",
        "warehouse": f"s3://{BUCKET}/iceberg",
        **s3(store),
    }


def rest_catalog(store: ObjectStore, url: str) -> dict[str, str]:
    """Return the properties of an Iceberg REST catalog at a URL, whose tables are on S3."""
    return {"type": "rest", "uri": url, **s3(store)}


def seaweedfs_catalog(store: ObjectStore) -> dict[str, str]:
    """Return the properties of SeaweedFS's REST catalog, which stores no deletion vectors."""
    return {
        "type": "rest",
        "uri": f"http://127.0.0.1:{store.iceberg_port}",
        "warehouse": "s3://warehouse/",
        "rest.sigv4-enabled": "true",
        "rest.signing-name": "s3tables",
        "rest.signing-region": REGION,
        "rest.access-key-id": KEY,
        "rest.secret-access-key": SECRET,
        **s3(store),
    }


def hive_catalog(store: ObjectStore, url: str) -> dict[str, str]:
    """Return the properties of an Iceberg catalog in Hive's metastore, whose tables are on S3."""
    return {"type": "hive", "uri": url, "warehouse": f"s3a://{BUCKET}/hive", **s3(store)}


def glue_catalog(store: ObjectStore, url: str) -> dict[str, str]:
    """Return the properties of an Iceberg catalog in AWS Glue, whose tables are on S3."""
    return {
        "type": "glue",
        "glue.endpoint": url,
        "warehouse": f"s3://{BUCKET}/glue",
        **s3(store),
    }


def iceberg_on(catalog: dict[str, str]) -> dict[str, str]:
    """Return settings by which Spark opens a catalog of these properties as `lake`."""
    return {
        "spark.jars.packages": f"{DELTA},{ICEBERG},{POSTGRESQL},{ICEBERG_AWS}",
        "spark.driver.extraClassPath": os.pathsep.join(
            jars_of(POSTGRESQL, "org.postgresql_postgresql")
        ),
        **{f"spark.sql.catalog.lake.{name}": value for name, value in catalog.items()},
    }
