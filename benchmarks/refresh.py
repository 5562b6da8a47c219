"""The cost of a refresh against the size of the table, with a fixed number of changes.

TPC-H's lineitem at each of `--scales`, key (l_orderkey, l_linenumber), all 16 columns. The MV has
all rows. Each round changes `--changes` rows that lie all over the table:

* a third is updated, a third deleted, and a third inserted (orders with a negative key);
* the refresh is one `dbt run`;
* the plain statements are one MERGE and one DELETE that know the changed rows;
* `create table as select` rebuilds the table.

The MV equals its query after each round. The last table has the statements of the last refresh.
"""

from __future__ import annotations

import os
import statistics
from functools import partial

from clock import Clock, timed
from lineitem import (
    KEY,
    count_differing,
    create_followable,
    generate,
    make_parser,
    make_project,
    plain_properties,
)
from rich.console import Console
from rich.table import Table

from support.formats import FORMATS, properties_clause
from support.project import Project, intercepted

console = Console()


class Refreshed:
    """Lineitem at one scale, an MV with all its rows, and a plain table with the same rows."""

    def __init__(self, project: Project, scale: float, changes: int, merge_on_read: bool) -> None:
        self.project = project
        self.up, self.mv = f"up_{scale:g}".replace(".", "_"), f"mv_{scale:g}".replace(".", "_")
        self.table, self.plain = f"{{schema}}.{self.up}", f"{{schema}}.plain_{self.mv}"
        (project.root / "lineitem.parquet").unlink(missing_ok=True)
        project.sql(
            create_followable(self.up, project.file_format)
            + "select /*+ repartition_by_range(24, l_orderkey, l_linenumber) */ * "
            f"from {generate(project, 'lineitem', scale)}"
        )
        if merge_on_read:
            modes = FORMATS[project.file_format].merge_on_read(True)
            project.sql(f"alter table {self.table} set {properties_clause(modes)}")
        self.rows = int(project.value(f"select count(*) from {self.table}"))
        self.each = changes // 3

    def build(self) -> tuple[float, float]:
        """Return the seconds of the first build, and of `create table as select`."""
        first = timed(partial(self.project.run, "--select", self.mv))
        properties = plain_properties(self.project.file_format)
        create = f"create table {self.plain} using {self.project.file_format} {properties} as "
        return first, timed(lambda: self.project.sql(create + f"select * from {self.table}"))

    def change(self, number: int) -> None:
        """Update, delete and insert rows; both statements of the plain table know them."""
        step = max(self.rows // self.each, 2)
        updated = f"pmod(xxhash64(l_orderkey, l_linenumber), {step}) = {2 * number % step}"
        deleted = f"pmod(xxhash64(l_orderkey, l_linenumber), {step}) = {(2 * number + 1) % step}"
        columns = "* except (l_orderkey, l_comment)"
        self.project.sql(f"update {self.table} set l_comment = 'round {number}' where {updated}")
        self.project.sql(f"delete from {self.table} where {deleted}")
        self.project.sql(
            f"insert into {self.table} by name select {columns}, -l_orderkey - {number} * 100000000"
            f" as l_orderkey, l_comment from {self.table} where {updated} and l_orderkey > 0"
        )
        self.changed = f"l_comment = 'round {number}'"
        self.deleted = deleted

    def tell(self) -> None:
        """Send the MERGE and the DELETE that know the changed rows."""
        self.project.sql(f"delete from {self.plain} where {self.deleted}")
        self.project.sql(
            f"merge into {self.plain} as mv using (select * from {self.table} where {self.changed})"
            " as changed on mv.l_orderkey = changed.l_orderkey "
            "and mv.l_linenumber = changed.l_linenumber "
            "when matched then update set * when not matched then insert *"
        )

    def refresh(self) -> None:
        self.project.run("--select", self.mv)

    def rebuild(self) -> None:
        properties = plain_properties(self.project.file_format)
        self.project.sql(
            f"create or replace table {self.plain}_again using {self.project.file_format} "
            f"{properties} as select * from {self.table}"
        )

    def check(self) -> None:
        different = count_differing(
            self.project, f"select * from {self.table}", f"select * from {{schema}}.{self.mv}"
        )
        assert different == 0, f"{different} rows of {self.mv} differ"


def main() -> None:
    arguments = make_parser(__doc__)
    arguments.add_argument("--scales", default="1,3", help="TPC-H scale factors, with commas")
    arguments.add_argument("--changes", type=int, default=10_000)
    arguments.add_argument("--rounds", type=int, default=3)
    arguments.add_argument("--merge-on-read", action="store_true", help="of the upstream")
    arguments.add_argument("--warm-up", type=int, default=6, help="rounds over a small table")
    options = arguments.parse_args()
    project = make_project(options.format)
    scales = [float(scale) for scale in options.scales.split(",")]
    cases = [
        Refreshed(project, scale, options.changes, options.merge_on_read)
        for scale in (0.02, *scales)
    ]
    config = f"{{{{ config(materialized='backfilled_mv', unique_key={KEY}) }}}}"
    project.write(
        {
            case.mv: f"{config} select * from {{{{ source('lake', '{case.up}') }}}}"
            for case in cases
        },
        sources=[case.up for case in cases],
    )
    figures = Table(
        "rows", "first build / create", "refresh", "told", "create table as", "refresh / told",
        "refresh / create", title=f"{options.changes:,} changes, {options.format}",
    )  # fmt: skip
    console.print(f"load before: {os.getloadavg()[0]:.1f}")
    for case in cases:
        is_warm_up = case is cases[0]
        first, created = case.build()
        refreshes, told, rebuilt = [], [], []
        for number in range(1, 1 + (options.warm_up if is_warm_up else options.rounds)):
            case.change(number)
            clock = Clock()
            told.append(timed(case.tell))
            with intercepted(clock.intercept):
                refreshes.append(timed(case.refresh))
            rebuilt.append(timed(case.rebuild))
            if not is_warm_up:
                case.check()
            console.print(
                f"{case.mv} {number}: refresh {refreshes[-1]:.1f} s, told {told[-1]:.1f} s, "
                f"create table as {rebuilt[-1]:.1f} s"
            )
        if not is_warm_up:
            refresh, plain, create = map(statistics.median, (refreshes, told, rebuilt))
            figures.add_row(
                f"{case.rows:,}", f"{first:.1f} / {created:.1f} s", f"{refresh:.1f} s",
                f"{plain:.1f} s", f"{create:.1f} s", f"{refresh / plain:.2f}",
                f"{refresh / create:.2f}",
            )  # fmt: skip
    console.print(figures)
    console.print(clock.table(1, refreshes[-1], plain, "told"))


if __name__ == "__main__":
    main()
