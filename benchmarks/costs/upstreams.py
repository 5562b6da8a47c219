"""The upstreams of the workloads: TPC-H's tables, some with another key, columns or row order."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

FILES = 24

Order = Literal["ordered", "shuffled"]
KeyKind = Literal["native", "integer", "string", "uuid"]


@dataclass(frozen=True)
class Source:
    """A table of TPC-H, and the columns that changes use.

    TPC-H uses only the first 8 of every 32 order keys.
    """

    table: str
    key: tuple[str, ...]
    order: str
    quantity: str
    date: str
    """The date of a row's last change. A change sets the date to a day after all earlier days."""

    number: str
    """A whole number that identifies each row."""


LINEITEM = Source(
    table="lineitem",
    key=("l_orderkey", "l_linenumber"),
    order="l_orderkey",
    quantity="l_quantity",
    date="l_receiptdate",
    number="l_orderkey * 8 + l_linenumber",
)
ORDERS = Source(
    table="orders",
    key=("o_orderkey",),
    order="o_orderkey",
    quantity="o_totalprice",
    date="o_orderdate",
    number="o_orderkey",
)

# Expressions that compute the column `id` from the number of a row. This column replaces TPC-H's
# own key.
ID: dict[str, str] = {
    "integer": "{number}",
    "string": "concat('line ', lpad({number}, 12, '0'))",
    "uuid": (
        "regexp_replace(md5(cast({number} as string)), "
        "'^(.{{8}})(.{{4}})(.{{4}})(.{{4}})', '$1-$2-$3-$4-')"
    ),
}


@dataclass(frozen=True)
class Upstream:
    """Rows of a table of TPC-H.

    :param key: `native` is TPC-H's own key; any other key is a column `id` instead of it
    :param columns: the number of lineitem's columns with an `id`: 3, 16 or 100; None for TPC-H's
    :param order: the order of the rows in the files: by the key, or each file has keys of all parts
    :param limit: None for all rows
    :param label: distinguishes two upstreams with the same rows
    """

    source: Source = LINEITEM
    key: KeyKind = "native"
    columns: int | None = None
    order: Order = "ordered"
    limit: int | None = None
    label: str = ""

    @property
    def name(self) -> str:
        width = f"{self.columns}_columns" if self.columns else ""
        size = f"{self.limit}_rows" if self.limit else ""
        parts = (self.source.table, self.key, width, self.order, size, self.label)
        return "_".join(part for part in parts if part)

    @property
    def key_columns(self) -> tuple[str, ...]:
        return self.source.key if self.key == "native" else ("id",)

    @property
    def has_text_key(self) -> bool:
        return self.key in ("string", "uuid")

    def query(self, table: str) -> str:
        """Return a query for the rows. It reads a relation with all rows of TPC-H's table."""
        limited = f"(select * from {table} limit {self.limit})" if self.limit else table
        rows = f"(select {self._listed()} from {limited})"
        if self.order == "shuffled":
            return f"select /*+ repartition({FILES}) */ * from {rows}"
        keys = ", ".join(self.key_columns)
        in_ranges = f"select /*+ repartition_by_range({FILES}, {keys}) */ * from {rows}"
        return f"select * from ({in_ranges}) sort by {keys}"

    def _listed(self) -> str:
        if self.key == "native":
            return "*"
        source = self.source
        identity = ID[self.key].format(number=f"({source.number})") + " as id"
        if self.columns == 3:
            return f"{identity}, {source.quantity}, {source.date}"
        more = [f"{source.quantity} + {n} as more_{n}" for n in range((self.columns or 16) - 16)]
        return ", ".join([identity, f"* except ({source.order})", *more])
