"""The costs of ranges and changes, compared with plain statements written by hand.

The MV is narrow (6 of lineitem's 16 columns, one filter), and the session is warm:

* 4 ranges: four barriers, compared with four INSERTs of the same intervals;
* 1 % of the rows, scattered: one barrier, compared with one MERGE of the changed rows;
* 3,000 rows in one interval of keys: the same comparison.

Both sides first run over a small table, as in `first_run.py`. The plain MERGE knows which rows have
changed, and the interval of their keys. The barrier must find out.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from itertools import pairwise

from clock import Clock, timed
from lineitem import (
    KEY,
    SMALL,
    SMALL_ROWS,
    copy_rows,
    load_lineitem,
    make_parser,
    make_project,
    plain_properties,
)
from rich.console import Console
from rich.table import Table

from support.project import Project, intercepted

COLUMNS = "l_orderkey, l_linenumber, l_partkey, l_quantity, l_extendedprice, l_shipdate"
QUERY = f"select {COLUMNS} from {{relation}} where l_quantity > 2"
RANGES = 4

console = Console()


@dataclass(frozen=True)
class Step:
    """Seconds of the plain statement, of the barrier, and of the barrier's statements."""

    plain: float
    barrier: float
    clock: Clock


class Case:
    """A model over an upstream, and the plain table of the same rows."""

    def __init__(self, project: Project, upstream: str) -> None:
        self.project, self.upstream = project, upstream
        self.mv, self.plain = f"{upstream}_mv", f"{upstream}_plain"
        rows = project.value(f"select count(*) from {{schema}}.{upstream}")
        self.rate_limit = -(-rows // RANGES)
        self.last = project.value(f"select max(l_orderkey) from {{schema}}.{upstream}")
        self.table = f"{{schema}}.{upstream}"

    def model(self) -> str:
        config = (
            f"materialized='backfilled_mv', unique_key={KEY}, "
            f"backfill_rate_limit={self.rate_limit}, barriers_per_run={RANGES}"
        )
        source = f"{{{{ source('lake', '{self.upstream}') }}}}"
        return f"{{{{ config({config}) }}}} " + QUERY.format(relation=source)

    def begin(self) -> None:
        """Prepare the start: the plain table is empty, and the model has no table."""
        for name in (self.mv, f"{self.mv}__progress", f"{self.mv}__barriers", self.plain):
            self.project.sql(f"drop table if exists {{schema}}.{name}")
        self.project.sql(
            f"create table {{schema}}.{self.plain} using {self.project.file_format} "
            + plain_properties(self.project.file_format)
            + " as "
            + QUERY.format(relation=self.table)
            + " and false"
        )

    def run(self) -> None:
        self.project.run("--select", self.mv)

    def insert_windows(self) -> None:
        """Send four INSERTs. Each one inserts one interval of keys, whose bounds are literals."""
        bounds = [0, *(self.last * n // RANGES for n in range(1, RANGES)), 1 << 62]
        for low, high in pairwise(bounds):
            self.project.sql(
                f"insert into {{schema}}.{self.plain} "
                + QUERY.format(relation=self.table)
                + f" and l_orderkey > {low} and l_orderkey <= {high}"
            )

    def change(self, where: str) -> None:
        self.project.sql(f"update {self.table} set l_quantity = l_quantity + 1 where {where}")

    def merge_changed(self, where: str) -> None:
        """Send one MERGE of the rows that the update has changed; ON contains their interval of
        keys."""
        self.project.sql(
            f"merge into {{schema}}.{self.plain} as mv using ("
            + QUERY.format(relation=self.table)
            + f" and {where}) as changed on mv.l_orderkey = changed.l_orderkey "
            "and mv.l_linenumber = changed.l_linenumber "
            f"and {where.replace('l_orderkey', 'mv.l_orderkey')} "
            "when matched then update set * when not matched then insert *"
        )

    def play(self) -> dict[str, Step]:
        """Run each step as plain statements and as a barrier."""
        self.begin()
        plain, clock = timed(self.insert_windows), Clock()
        with intercepted(clock.intercept):
            steps = {f"{RANGES} ranges": Step(plain, timed(self.run), clock)}
        half = self.last // 2
        for name, where in (
            ("1 % scattered", "l_orderkey % 100 = 7"),
            ("3,000 in a window", f"l_orderkey between {half} and {half + 3000}"),
        ):
            self.change(where)
            plain, clock = timed(partial(self.merge_changed, where)), Clock()
            with intercepted(clock.intercept):
                steps[name] = Step(plain, timed(self.run), clock)
        return steps


def main() -> None:
    arguments = make_parser(__doc__)
    arguments.add_argument("--rounds", type=int, default=2, help="rounds after the warm-up")
    arguments.add_argument("--warm-up", type=int, default=12, help="rounds over a small table")
    options = arguments.parse_args()
    project = make_project(options.format)
    console.print(f"lineitem: {load_lineitem(project, options.scale):,} rows, {options.format}")
    copy_rows(project, SMALL, SMALL_ROWS)
    small, large = Case(project, SMALL), Case(project, "lineitem")
    project.write({case.mv: case.model() for case in (small, large)}, sources=[SMALL, "lineitem"])
    for number in range(options.warm_up):
        steps = small.play().values()
        console.print(f"warm-up {number}: {sum(step.barrier for step in steps):.1f} s")
    table = Table("round", "step", "plain", "barrier", "ratio")
    for number in range(options.rounds + 1):
        steps_of = large.play()
        for name, step in steps_of.items():
            ratio = f"{step.barrier / step.plain:.2f}"
            label = str(number or "warm-up")
            table.add_row(label, name, f"{step.plain:.1f} s", f"{step.barrier:.1f} s", ratio)
    console.print(table)
    for name, step in steps_of.items():
        statements = step.clock.table(1, step.barrier, step.plain, "plain statements")
        statements.title = f"{name}, in the last round"
        console.print(statements)


if __name__ == "__main__":
    main()
