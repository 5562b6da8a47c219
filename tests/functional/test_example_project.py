"""dbt can parse the example project, its key is correct, and its run-operations work."""

from __future__ import annotations

import datetime as dt
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet
import pytest
import yaml
from dbt.cli.main import dbtRunner
from nyc import flights_2013

from support.project import REPOSITORY, MakeProject, Project

pytestmark = pytest.mark.profiles("session-delta", reason="its upstream is a Delta table")

EXAMPLE = REPOSITORY / "example_project"
DAYS = [dt.date(2013, 2, 8), dt.date(2013, 7, 10)]


@pytest.fixture(scope="module")
def example(shared_project: MakeProject, tmp_path_factory: pytest.TempPathFactory) -> Project:
    """Set up the example project in the test's schema, with the flights of two days.

    Each test continues with the tables as the previous test left them.
    """
    project = shared_project("example")
    settings = yaml.safe_load((EXAMPLE / "dbt_project.yml").read_text())
    settings["profile"] = "lake"
    if project.packages is not None:
        settings["packages-install-path"] = str(project.packages)
    sources = [*EXAMPLE.glob("macros/*.sql"), *EXAMPLE.glob("models/*")]
    files = {str(path.relative_to(EXAMPLE)): path.read_text() for path in sources}
    project.write({}, files={**files, "dbt_project.yml": yaml.safe_dump(settings)})

    flights = flights_2013.read_flights()
    of_these_days = pc.is_in(flights["flight_date"], pa.array(DAYS))
    file = tmp_path_factory.mktemp("flights") / "flights.parquet"
    pa.parquet.write_table(flights.filter(of_these_days), file)
    project.vars = {"flights_file": str(file)}
    project.operation("load_schedule")
    return project


def version(project: Project) -> int:
    return int(project.sql("describe history {schema}.flights limit 1")[0]["version"])


def feed(project: Project, from_version: int) -> dict[tuple[str, dt.date], int]:
    """Count the rows of the upstream's change data feed by kind of change and by day."""
    rows = project.sql(
        "select _change_type, flight_date, count(*) from "
        f"table_changes('{{schema}}.flights', {from_version}) group by all"
    )
    return {(change, day): count for change, day, count in rows}


def actual(project: Project, day: dt.date, condition: str) -> int:
    return int(
        project.value(
            "select count(*) from {schema}.flights_actual "
            f"where flight_date = date '{day}' and {condition}"
        )
    )


def test_dbt_parses_the_example_project_without_warnings(tmp_path: Path) -> None:
    place = ["--project-dir", str(EXAMPLE), "--profiles-dir", str(EXAMPLE)]
    quiet = ["--log-level-file", "none", "--warn-error"]
    assert dbtRunner().invoke(["deps", *place]).success
    parsed = dbtRunner().invoke([*quiet, "parse", *place, "--target-path", str(tmp_path)])
    assert parsed.success, parsed.exception
    mv = parsed.result.nodes["model.nyc_flights.flights_departed"]
    assert mv.config.materialized == "backfilled_mv"


def test_the_key_identifies_every_flight_of_the_year() -> None:
    flights = flights_2013.read_flights()
    assert flights.num_rows == 336_776
    flights_2013.check_key(flights)


def test_a_repeated_key_is_found() -> None:
    flights = flights_2013.read_flights()
    with pytest.raises(flights_2013.NotAKeyError, match="336776 keys in 336777 rows"):
        flights_2013.check_key(pa.concat_tables([flights, flights.slice(1000, 1)]))


def test_a_null_in_the_key_is_found() -> None:
    flights = flights_2013.read_flights().slice(0, 3)
    without_carrier = flights.set_column(1, "carrier", pa.array(["AA", None, "UA"]))
    with pytest.raises(flights_2013.NotAKeyError, match="carrier is NULL in 1 rows"):
        flights_2013.check_key(without_carrier)


def test_the_upstream_begins_as_a_schedule_without_actuals(example: Project) -> None:
    departed = "count(dep_time) + count(arr_time) + count(dep_delay) + count(air_time)"
    assert example.value(f"select {departed} from {{schema}}.flights") == 0
    late = sum(actual(example, day, "is_added_late") for day in DAYS)
    assert late > 0
    total = example.value("select count(*) from {schema}.flights_actual")
    assert example.value("select count(*) from {schema}.flights") == total - late


def test_a_replayed_day_is_one_commit_that_updates_deletes_and_inserts(example: Project) -> None:
    before = version(example)
    day, other = DAYS
    example.operation("replay_day", day=day)

    assert version(example) == before + 1
    departed = actual(example, day, "dep_time is not null and not is_added_late")
    cancelled = actual(example, day, "dep_time is null")
    assert (departed, cancelled) == (455, 472)
    assert feed(example, before + 1) == {
        ("update_preimage", day): departed,
        ("update_postimage", day): departed,
        ("delete", day): cancelled,
        ("insert", day): actual(example, day, "is_added_late"),
    }
    assert example.rows(
        f"select time_hour, carrier, flight, dep_time, arr_delay from {{schema}}.flights "
        f"where flight_date = date '{day}'"
    ) == example.rows(
        f"select time_hour, carrier, flight, dep_time, arr_delay from {{schema}}.flights_actual "
        f"where flight_date = date '{day}' and dep_time is not null"
    )
    assert (
        example.value(
            f"select count(dep_time) from {{schema}}.flights where flight_date = date '{other}'"
        )
        == 0
    )


def test_a_withdrawn_day_is_one_commit_that_updates_and_deletes(example: Project) -> None:
    day = DAYS[1]
    example.operation("replay_day", day=day)
    before = version(example)
    example.operation("withdraw_day", day=day)

    assert version(example) == before + 1
    diverted = actual(example, day, "arr_time is not null and arr_delay is null")
    assert diverted > 0
    assert feed(example, before + 1) == {
        ("update_preimage", day): diverted,
        ("update_postimage", day): diverted,
        ("delete", day): actual(example, day, "dep_time is not null and arr_time is null"),
    }


def test_a_day_that_is_not_of_2013_is_refused_before_a_commit(example: Project) -> None:
    before = version(example)
    for day in ["2014-01-01", "1 January 2013", "2013-01-01' or true --"]:
        arguments = yaml.safe_dump({"day": day})
        refused = example.fail("run-operation", "replay_day", "--args", arguments)
        assert f"'{day}' is not a day of 2013. Write it as 2013-01-01." in refused.output
    assert version(example) == before
