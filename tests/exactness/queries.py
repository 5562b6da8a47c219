"""Queries of models. Each one is given as SQL and as a Python function with the same result."""

from __future__ import annotations

from exactness.oracle import MvRow, Query, Row
from exactness.upstream import Schema

MORE = "more"
"""The column that `with_more` adds."""

LESS = "less"
"""The column that `with_less` adds to the SQL of a query. `with_more` does not have it."""

UPSTREAM = "__upstream__"
"""This text represents the model's upstream in `Query.sql`."""


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

    The filter drops nulls; updates change its column.
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
    """Return a query with the key columns in reverse order, under names that sort differently.

    Its filter keeps nulls.
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
    """Return `positive` with a further column.

    It is not the last column of the SELECT list, but it becomes the last column of the MV.
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
    """Return the SQL of `positive` with a column that `with_more` drops."""
    doubled = "amount * 2 as doubled,"
    assert doubled in sql
    return sql.replace(doubled, f"{doubled} amount - 1 as {LESS},")


QUERIES = {"everything": everything, "positive": positive, "unhidden": unhidden}
