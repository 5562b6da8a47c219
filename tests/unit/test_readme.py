"""Check that the settings in docs/install.md and docs/profiles.md are complete, and are those of
the tests. Check that the README is short.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
import yaml
from dbt.adapters.spark.connections import SparkCredentials
from nyc.thrift_server import DELTA, EXTENSIONS, ICEBERG, delta_catalogs

from support.project import REPOSITORY
from support.readme import INSTALL, LAKE, PROFILES, iceberg_settings, session_output


@pytest.fixture(scope="module")
def example() -> dict[str, Any]:
    """Return the session settings of the example project, with the paths of docs/profiles.md."""
    text = (REPOSITORY / "example_project" / "profiles.yml").read_text()
    text = text.replace("{{ env_var('NYC_FLIGHTS_LAKE', '.lake') }}", LAKE)
    settings = yaml.safe_load(text)["nyc_flights"]["outputs"]["session-iceberg"]
    return dict(settings["server_side_parameters"])


def test_the_readme_is_read_in_some_minutes() -> None:
    assert len((REPOSITORY / "README.md").read_text().splitlines()) <= 180


def test_the_first_profile_is_a_part_of_the_session_in_a_directory_of_the_project() -> None:
    first, session = session_output(INSTALL), session_output()
    SparkCredentials.validate({key: first[key] for key in ("method", "host", "schema")})

    settings = first["server_side_parameters"]
    # Spark downloads the jars. The first profile is for Delta alone.
    assert settings.pop("spark.jars.packages") == DELTA
    assert settings.pop("spark.sql.extensions") == EXTENSIONS[0]
    given = {name: value.replace(".lake", LAKE) for name, value in settings.items()}
    assert given.items() <= session["server_side_parameters"].items()


def test_the_session_is_a_profile_of_dbt_spark() -> None:
    output = session_output()
    del output["type"], output["threads"]
    SparkCredentials.validate(output)
    credentials = SparkCredentials.from_dict(output)

    assert credentials.schema == "nyc"
    # All values must have quotes in YAML: dbt would pass the boolean `true` to Spark as `True`.
    given = {**output["server_side_parameters"], **iceberg_settings()}
    assert {type(value) for value in given.values()} == {str}


def test_the_example_project_runs_in_the_same_session(example: dict[str, Any]) -> None:
    session = {**session_output()["server_side_parameters"], **iceberg_settings()}
    # In the example project, Spark downloads its jars and does not use all cores.
    del session["spark.driver.extraClassPath"], session["spark.master"]
    del example["spark.jars.packages"], example["spark.master"]
    # The example project switches code generation off, because its table is small.
    del example["spark.sql.codegen.wholeStage"]

    assert example == session


def test_the_jars_and_catalogs_are_those_that_are_tested() -> None:
    text = PROFILES.read_text()
    session = session_output()["server_side_parameters"]

    assert f"{DELTA},{ICEBERG}" in text
    assert session["spark.sql.extensions"] == ",".join(EXTENSIONS)
    assert delta_catalogs(Path(LAKE)).items() <= {**session, **iceberg_settings()}.items()
    versions = {jar.rpartition(":")[2] for jar in (DELTA, ICEBERG)}
    copied = next(line for line in text.splitlines() if line.startswith("cp "))
    assert set(re.findall(r"-(\d+\.\d+\.\d+)\.jar", copied)) == versions


def test_the_constraints_keep_dbt_where_it_is_tested() -> None:
    constraints = (REPOSITORY / "constraints.txt").read_text()

    assert re.search(r"^dbt-core==1\.11\.", constraints, re.MULTILINE)
    assert re.search(r"^pyspark==4\.1\.", constraints, re.MULTILINE)
    command = "pip install --constraint ../dbt-backfill/constraints.txt"
    assert INSTALL.read_text().count(command) == 2
