"""The queries of the tests' models.

Each query is SQL and a Python function with the same result.
"""

from __future__ import annotations

from exactness.oracle import MvRow, Query, Row
from exactness.upstream import Schema

MORE = "more"

LESS = "less"
"""The column that `with_less` adds to the SQL of a query, but `with_more` does not."""

UPSTREAM = "__upstream__"
"""A placeholder for the model's upstream in `Query.sql`."""


def everything(schema: Schema) -> Query:
    """Return a query of all columns and rows, with unchanged names."""
    columns = tuple(schema.columns)
    return Query(
        sql=f"select {', '.join(columns)} from {UPSTREAM}",
        columns=columns,
        key_columns=schema.key,
        evaluate=lambda row: tuple(row[name] for name in columns),
    )


def positive(schema: Schema) -> Query:
    """Return a query with an expression, a renamed key and a filter.

    The filter drops rows whose amount is NULL. Updates change the amount, so rows enter and leave
    the MV.
    """
    keys = tuple(f"{name}_of_row" for name in schema.key)
    renamed = ", ".join(f"{old} as {new}" for old, new in zip(schema.key, keys, strict=True))

    def evaluate(row: Row) -> MvRow | None:
        if row["amount"] is None or row["amount"] <= 0:
            return None
        return (row["amount"] * 2, *schema.key_of(row), row["label"])

    return Query(
        sql=f"select amount * 2 as doubled, {renamed}, label from {UPSTREAM} where amount > 0",
        columns=("doubled", *keys, "label"),
        key_columns=keys,
        evaluate=evaluate,
    )


def unhidden(schema: Schema) -> Query:
    """Return a query whose key columns have new names and the reverse order.

    The names sort differently from the upstream's names. The filter keeps rows whose label is NULL.
    """
    keys = {name: f"{chr(ord('z') - number)}_key" for number, name in enumerate(schema.key)}
    turned = tuple(reversed(schema.key))
    renamed = ", ".join(f"t.{name} as {keys[name]}" for name in turned)

    def evaluate(row: Row) -> MvRow | None:
        if row["label"] == "hide":
            return None
        text = "-" if row["label"] is None else row["label"]
        return (*(row[name] for name in turned), text + "!", row["amount"])

    return Query(
        sql=f"select {renamed}, concat(coalesce(t.label, '-'), '!') as text, t.amount\n"
        f"from {UPSTREAM} as t\nwhere t.label is null or t.label <> 'hide'",
        columns=(*(keys[name] for name in turned), "text", "amount"),
        key_columns=tuple(keys[name] for name in schema.key),
        evaluate=evaluate,
    )


def with_more(query: Query) -> Query:
    """Return the query `positive` with a new column.

    The new column is not the last column of the SELECT list, but the last column of the MV.
    """
    doubled = "amount * 2 as doubled,"
    assert doubled in query.sql

    def evaluate(row: Row) -> MvRow | None:
        shown = query.evaluate(row)
        return None if shown is None else (*shown, row["amount"] + 1)

    return Query(
        sql=query.sql.replace(doubled, f"{doubled} amount + 1 as {MORE},"),
        columns=(*query.columns, MORE),
        key_columns=query.key_columns,
        evaluate=evaluate,
    )


def with_less(sql: str) -> str:
    """Return the SQL of the query `positive` with a column that `with_more` does not return."""
    doubled = "amount * 2 as doubled,"
    assert doubled in sql
    return sql.replace(doubled, f"{doubled} amount - 1 as {LESS},")


QUERIES = {"everything": everything, "positive": positive, "unhidden": unhidden}
