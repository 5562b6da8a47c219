"""Compare the duration of ranges with the duration that `barrier_seconds` asks for.

A narrow MV (6 of lineitem's columns, one filter) is backfilled in one run. The size of a range
follows from the duration of the previous ranges. The size of the first range is a guess. The size
of the second range follows from the first one, which ran in a session that was not warm yet.
"""

from __future__ import annotations

from barriers import COLUMNS
from lineitem import KEY, load_lineitem, make_parser, make_project
from rich.console import Console
from rich.table import Table

console = Console()


def main() -> None:
    arguments = make_parser(__doc__)
    arguments.add_argument("--seconds", type=float, default=20, help="barrier_seconds")
    options = arguments.parse_args()
    project = make_project(options.format)
    console.print(f"lineitem: {load_lineitem(project, options.scale):,} rows, {options.format}")
    config = (
        f"materialized='backfilled_mv', unique_key={KEY}, "
        f"barrier_seconds={options.seconds}, barriers_per_run='all'"
    )
    query = f"select {COLUMNS} from {{{{ source('lake', 'lineitem') }}}} where l_quantity > 2"
    project.write({"mv": f"{{{{ config({config}) }}}} {query}"}, sources=["lineitem"])
    project.run()

    table = Table("barrier", "rows", "seconds", "of the target")
    ranges = project.rows(
        "select epoch, range_row_count, unix_millis(committed_at) / 1000 - lag("
        "unix_millis(committed_at) / 1000) over (order by epoch), last_range"
        " from {schema}.mv__barriers"
    )
    for epoch, rows, seconds, last in sorted(ranges):
        if seconds is not None:
            share = "the rest" if last else f"{seconds / options.seconds:.2f}"
            table.add_row(str(epoch), f"{rows:,}", f"{seconds:.1f}", share)
    console.print(table)


if __name__ == "__main__":
    main()
