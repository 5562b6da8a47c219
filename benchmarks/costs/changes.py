"""Changes of an upstream between two refreshes, and the facts that a hand-written MERGE knows.

A change is a few statements with placeholders: `{table}`, `{keys}` and the columns of
`upstreams.Source`; `{n}` is the number of the round, so that each round changes other rows.
"""

from __future__ import annotations

from dataclasses import dataclass

from costs.upstreams import Upstream

DAY = "date_add(date'2000-01-01', {n})"
"""The day that a change sets: after all days of TPC-H, and of earlier changes."""


@dataclass(frozen=True)
class Change:
    """Statements, and predicates of the rows that they change and delete, with literal values."""

    statements: tuple[str, ...]
    changed: str
    gone: str | None = None

    def on(self, upstream: Upstream, table: str, n: int) -> Change:
        """Return the change for a table with an upstream's rows: its placeholders are replaced."""

        def fill(text: str) -> str:
            source = upstream.source
            return text.replace("{day}", DAY).format(
                table=table,
                keys=", ".join(upstream.key_columns),
                order=source.order,
                quantity=source.quantity,
                date=source.date,
                n=n,
            )

        gone = fill(self.gone) if self.gone else None
        return Change(tuple(map(fill, self.statements)), fill(self.changed), gone)


def updates(one_in: int) -> Change:
    """Return a change that updates one row in `one_in`, anywhere in the table."""
    picked = f"pmod(xxhash64({{keys}}), {one_in}) = {{n}} % {one_in}"
    return Change((f"{_UPDATE} where {picked}",), picked)


def hot_keys(one_in: int, commits: int) -> Change:
    """Return a change of several commits that update the same few keys in every round."""
    picked = f"pmod(xxhash64({{keys}}), {one_in}) = 0"
    return Change((f"{_UPDATE} where {picked}",) * commits, picked)


def refreshes(one_in: int) -> Change:
    """Return a change like TPC-H's RF1 and RF2: it inserts one order in `one_in`, and deletes one.

    Their lines are inserted and deleted too. New orders get keys that TPC-H leaves out.
    """
    native = "{order} % 32 < 8"
    taken = f"pmod(xxhash64({{order}}), {one_in})"
    taken_of_copy = f"pmod(xxhash64({{order}} - 8), {one_in})"
    gone = f"{native} and {taken} = {{n}} + {one_in // 2}"
    return Change(
        statements=(
            "insert into {table} by name select {order} + 8 as {order}, {day} as {date}, "
            f"* except ({{order}}, {{date}}) from {{table}} where {native} and {taken} = {{n}}",
            f"delete from {{table}} where {gone}",
        ),
        changed=f"{{order}} % 32 between 8 and 15 and {taken_of_copy} = {{n}}",
        gone=gone,
    )


_UPDATE = "update {table} set {quantity} = {quantity} + 1, {date} = {day}"
