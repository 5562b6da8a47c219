"""The cost of a column that is added to a large MV, slice by slice, while the upstream changes.

A narrow MV (6 of lineitem's columns, one filter) gets a further column. The cost is compared with
statements written by hand: ALTER TABLE and one MERGE of the column over all rows. Before each
barrier some rows change all over the upstream. After each barrier the MV is compared with the
query: the previous columns in all rows, and the new column up to the second position.
"""

from __future__ import annotations

import json
import re

from barriers import COLUMNS
from clock import timed
from lineitem import (
    KEY,
    count_differing,
    load_lineitem,
    make_parser,
    make_project,
    plain_properties,
)
from rich.console import Console
from rich.table import Table

from support.project import Project

OLD = f"select {COLUMNS} from {{relation}} where l_linenumber < 7"
NEW = OLD.replace(" from", ", l_extendedprice * (1 - l_discount) as revenue from")

console = Console()


def write(project: Project, query: str, rate_limit: int | None = None) -> None:
    limit = f", backfill_rate_limit={rate_limit}" if rate_limit else ""
    config = (
        f"materialized='backfilled_mv', unique_key={KEY}, "
        f"on_schema_change='append_new_columns'{limit}"
    )
    text = query.format(relation="{{ source('lake', 'lineitem') }}")
    project.write({"mv": f"{{{{ config({config}) }}}} {text}"}, sources=["lineitem"])


def second_position(project: Project) -> str | None:
    """Return a predicate for the rows up to the second position; None once the column is filled."""
    last = json.loads(project.value("select last from {schema}.mv__progress where vnode = 0"))
    if last.get("last_fill") or "fills" not in last:
        return None
    order, line = last["fill_high"]
    return f"(l_orderkey < {order} or (l_orderkey = {order} and l_linenumber <= {line}))"


def wrong_rows(project: Project, where: str) -> int:
    """Return the number of rows by which the MV and its query differ.

    The new column is compared only in the rows that meet the predicate `where`. Equal rows have
    equal sums of hashes. The rows themselves are compared only if these sums differ.
    """
    columns = f"{COLUMNS}, case when {where} then revenue end as revenue"
    wanted = f"select {columns} from ({NEW.format(relation='{schema}.lineitem')})"
    found = f"select {columns} from {{schema}}.mv"
    sums = "count(*) || ' ' || sum(cast(xxhash64({}) as decimal(20, 0))) || ' ' || sum(hash({}))"
    sums = sums.format(*[f"{COLUMNS}, revenue"] * 2)
    if project.value(f"select {sums} from ({wanted})") == project.value(
        f"select {sums} from ({found})"
    ):
        return 0
    return count_differing(project, wanted, found)


def main() -> None:
    arguments = make_parser(__doc__)
    arguments.add_argument("--rate", type=int, default=500_000, help="backfill_rate_limit")
    options = arguments.parse_args()
    project = make_project(options.format)
    console.print(f"lineitem: {load_lineitem(project, options.scale):,} rows, {options.format}")
    write(project, OLD)
    project.run()
    project.sql(
        f"create table {{schema}}.plain using {options.format} {plain_properties(options.format)}"
        " as select * from {schema}.mv"
    )
    by_hand = (
        "alter table {schema}.plain add columns (revenue decimal(32, 4))",
        f"merge into {{schema}}.plain as mv using ({NEW.format(relation='{schema}.lineitem')})"
        " as new on mv.l_orderkey = new.l_orderkey and mv.l_linenumber = new.l_linenumber "
        "when matched then update set *",
    )
    plain = timed(lambda: [project.sql(statement) for statement in by_hand])
    console.print(f"plain ALTER TABLE and MERGE: {plain:.1f} s")

    write(project, NEW, options.rate)
    table, total, number = Table("barrier", "seconds", "line", "wrong"), 0.0, 0
    where: str | None = "true"
    while where:
        project.sql(
            "update {schema}.lineitem set l_extendedprice = l_extendedprice + 1 "
            f"where l_orderkey % 2001 = {number}"
        )
        project.sql(f"delete from {{schema}}.lineitem where l_orderkey % 20001 = {1000 + number}")
        seconds = timed(project.run)
        assert project.last is not None
        total, number = total + seconds, number + 1
        where = second_position(project)
        wrong = wrong_rows(project, where or "true")
        [line] = [m for m in project.last.messages if re.match(r"\w+ \[BARRIER", m)]
        table.add_row(str(number), f"{seconds:.1f}", line.split("[", 1)[1], str(wrong))
    console.print(table)
    console.print(f"all barriers: {total:.1f} s, {total / plain:.2f} times the plain statements")


if __name__ == "__main__":
    main()
