"""Settings and programs with which Spark, Hadoop and Iceberg use the object store of the tests."""

from __future__ import annotations

import functools
import os
import subprocess
from pathlib import Path

import pyspark
from nyc.object_store import KEY, REGION, SECRET, ObjectStore
from nyc.thrift_server import DELTA, fetch_jars

HADOOP_AWS = "org.apache.hadoop:hadoop-aws:3.4.2"


@functools.cache
def jars_of(package: str, *names: str) -> list[str]:
    """Return the jars whose file names contain one of `names`, of a package and what it needs."""
    return [jar for jar in fetch_jars([package]) if any(name in Path(jar).name for name in names)]


def class_path(classes: Path) -> str:
    """Return the class path of programs that use Delta's log stores on S3, without Spark."""
    home = Path(pyspark.__file__).parent / "jars"
    jars = [*jars_of(DELTA, "delta-storage"), *jars_of(HADOOP_AWS, "hadoop-aws", "awssdk")]
    return os.pathsep.join([str(classes), *jars, f"{home}/*"])


def compile_programs(directory: Path) -> Path:
    """Compile the Java files of `java/` into a directory, and return it. This needs a JDK."""
    directory.mkdir(parents=True)
    sources = map(str, sorted((Path(__file__).parent / "java").glob("*.java")))
    path = ["-cp", class_path(directory)]
    subprocess.run(["javac", "-nowarn", "-d", str(directory), *path, *sources], check=True)
    return directory


def s3a(store: ObjectStore) -> dict[str, str]:
    """Return the settings by which Hadoop finds the store at `s3a://`."""
    return {
        "fs.s3a.endpoint": store.url,
        "fs.s3a.endpoint.region": REGION,
        "fs.s3a.path.style.access": "true",
        "fs.s3a.connection.ssl.enabled": "false",
        "fs.s3a.access.key": KEY,
        "fs.s3a.secret.key": SECRET,
        "fs.AbstractFileSystem.s3a.impl": "org.apache.hadoop.fs.s3a.S3A",
    }


def s3(store: ObjectStore) -> dict[str, str]:
    """Return the properties by which Iceberg's own client finds the store at `s3://`."""
    return {
        "io-impl": "org.apache.iceberg.aws.s3.S3FileIO",
        "s3.endpoint": store.url,
        "s3.path-style-access": "true",
        "s3.access-key-id": KEY,
        "s3.secret-access-key": SECRET,
        "client.region": REGION,
    }
