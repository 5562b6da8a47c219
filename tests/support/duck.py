"""A small Spark in DuckDB: `sqlglot` translates the SQL of the macros, and DuckDB runs it.

    duck.create("lake.up", {"id": "bigint", "tags": "array<string>"}, [(1, ["a"]), (2, None)])
    duck.rows("select id from lake.up where size(tags) = 1")       # [(1,)]
    duck.records("select id from lake.up")                         # [{"id": 1}, {"id": 2}]
    duck.execute("delete from lake.up where id = 2")               # 1

A table name has up to three parts. `lake.up version as of 7` reads the table `lake.up@7`, which a
test creates like any other one.

All three methods also run a script, with the statements `begin`, `end`, `declare`, `set` and
`execute immediate`, but without `if`. Its handlers never run: an error is always raised. A variable
of a script can be given: `duck.rows("select plan.epoch", plan={"epoch": 3})`.

Differences from Spark: xxhash64 is another hash, but it also depends on the types of its arguments.
`cast` returns null if it fails, like Spark's `cast` without ANSI mode. A name in `where` can also
be an alias of the same `select`.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import duckdb
import sqlglot
from duckdb.func import FunctionNullHandling
from sqlglot import exp
from sqlglot.dialects.spark import Spark
from sqlglot.errors import ErrorLevel
from sqlglot.tokenizer_core import Token, TokenType

# Functions that DuckDB lacks, or that have another meaning in DuckDB.
_MACROS = [
    # A text in DuckDB is UTF-8.
    "is_valid_utf8(value) as case when value is not null then true end",
    # Keep the order of the first occurrences; DuckDB's list_distinct returns any order.
    "spark_array_distinct(list) as "
    "list_filter(list, lambda value, i: list_position(list, value) = i)",
    # The correlation with a constant is null, not NaN, which would be greater than any number.
    "spark_not_nan(value) as case when not isnan(value) then value end",
    "spark_pmod(value, divisor) as ((value % divisor) + divisor) % divisor",
    # The bits of a bigint that are shifted out are lost; DuckDB raises an error.
    "spark_shiftleft(value, bits) as cast(((value::hugeint << bits) + 9223372036854775808)"
    " % 18446744073709551616 - 9223372036854775808 as bigint)",
    "spark_hash(value) as cast(hash(value::text)::hugeint - 9223372036854775808 as bigint)",
]


class RaisedError(Exception):
    """The error of `raise_error`, whose argument is the message."""


@dataclass
class _Result:
    columns: list[str] = field(default_factory=list)
    rows: list[tuple[Any, ...]] = field(default_factory=list)
    changed: int = 0

    def add(self, later: _Result) -> None:
        """Add the result of a later statement. The rows are always those of the last query."""
        self.changed += later.changed
        if later.columns:
            self.columns, self.rows = later.columns, later.rows


class Duck:
    """Tables in memory, and Spark's SQL over them.

    `file_name` is a SQL expression over the columns of the table that is read. input_file_name()
    returns its value. monotonically_increasing_id() numbers the rows in the order in which they
    were inserted.
    """

    def __init__(self) -> None:
        self.file_name = "''"
        self._connection = duckdb.connect()
        self._connection.execute("set timezone = 'UTC'")
        # With one thread, DuckDB keeps the order of the rows and the sequence of rand().
        self._connection.execute("set threads = 1")
        self._connection.execute("select setseed(0.5)")
        # This optimizer would evaluate `rand() < (select ...)` once, not for each row.
        self._connection.execute("set disabled_optimizers = 'filter_pushdown'")
        for macro in _MACROS:
            self._connection.execute(f"create macro {macro}")
        self._connection.create_function(
            "spark_to_json",
            _to_json,
            return_type="varchar",
            null_handling=FunctionNullHandling.SPECIAL,
        )

    def close(self) -> None:
        self._connection.close()

    def create(
        self, table: str, columns: Mapping[str, str], rows: Iterable[Sequence[Any]] = ()
    ) -> None:
        """Create a table, or replace it. `columns` maps names to Spark's types."""
        name = exp.to_table(table)
        self._create_schema(name)
        target = name.sql("duckdb", identify=True)
        definitions = ", ".join(
            f"{_quoted(column)} {exp.DataType.build(type_, dialect='spark').sql('duckdb')}"
            for column, type_ in columns.items()
        )
        self._connection.execute(f"create or replace table {target} ({definitions})")
        # Insert all rows at once, as JSON: a parameter cannot be a map, and a statement per row
        # is slow.
        given = [dict(zip(columns, row, strict=True)) for row in rows]
        self._connection.execute(
            f"insert into {target} select unnest(cast(cast(? as json) as struct({definitions})[]),"
            " max_depth := 2)",
            [json.dumps(given, default=_text)],
        )

    def rows(self, sql: str, **variables: Any) -> list[tuple[Any, ...]]:
        """Return the rows of a query, or of the last query of a script.

        Arrays are lists, structs and maps are dicts.
        """
        return self._run_script(sql, variables).rows

    def records(self, sql: str, **variables: Any) -> list[dict[str, Any]]:
        """Return the rows of `rows`, each as a dict of its columns."""
        result = self._run_script(sql, variables)
        return [dict(zip(result.columns, row, strict=True)) for row in result.rows]

    def execute(self, sql: str, **variables: Any) -> int:
        """Run a statement or a script; return how many rows it changed."""
        return self._run_script(sql, variables).changed

    def _run_script(self, sql: str, given: Mapping[str, Any]) -> _Result:
        """Run the statements one by one.

        A variable in `given` keeps its value. So it can replace an expression that only Spark can
        evaluate.
        """
        variables = dict(given)
        result = _Result()
        for tokens in _split(sql):
            first, name = tokens[0].token_type, tokens[min(1, len(tokens) - 1)].text

            def text(start: int, tokens: list[Token] = tokens) -> str:
                return sql[tokens[start].start : tokens[-1].end + 1]

            if first == TokenType.DECLARE:
                variables.setdefault(name, None)
            elif first == TokenType.SET and name not in given:
                [(variables[name],)] = self._run(f"select {text(3)}", variables).rows
            elif first == TokenType.EXECUTE:
                [(immediate,)] = self._run(f"select {text(2)}", variables).rows
                result.add(self._run_script(immediate, variables))
            elif first not in (TokenType.SET, TokenType.CACHE, TokenType.UNCACHE):
                result.add(self._run(text(0), variables))
        return result

    def _run(self, sql: str, variables: Mapping[str, Any]) -> _Result:
        for name, value in variables.items():
            self._connection.execute(f"set variable {_quoted(name)} = ?", [value])
        statement = sqlglot.parse_one(sql, read=_Dialect)
        if isinstance(statement, exp.Command):
            raise NotImplementedError(f"not translated to DuckDB: {sql}")
        translated = self._translate(statement, variables)
        try:
            found = self._connection.execute(translated)
            rows = found.fetchall()
        except duckdb.Error as error:
            if _RAISED in str(error):
                raise RaisedError(str(error).split(_RAISED, 1)[1]) from None
            error.add_note(translated)
            raise
        if isinstance(statement, (exp.Update, exp.Delete, exp.Merge, exp.Insert)):
            return _Result(changed=rows[0][0])
        if isinstance(statement, exp.Query):
            return _Result([column[0] for column in found.description or []], rows)
        return _Result()

    def _translate(self, statement: exp.Expr, variables: Mapping[str, Any]) -> str:
        # From the leaves to the root: the children of a node are replaced before the node.
        for node in reversed(list(statement.walk())):
            replacement = self._replacement(node, variables)
            if replacement is not node:
                node.replace(replacement)
        return statement.sql("duckdb", unsupported_level=ErrorLevel.RAISE)

    def _replacement(self, node: exp.Expr, variables: Mapping[str, Any]) -> exp.Expr:
        if isinstance(node, exp.Column) and (node.table or node.name) in variables:
            return _variable(node)
        if isinstance(node, exp.Anonymous) and node.name.lower() == "input_file_name":
            return sqlglot.parse_one(self.file_name, read="spark")
        if isinstance(node, exp.Merge):
            return self._spell_out(node)
        if isinstance(node, exp.Anonymous) and node.name.lower() in _NAMED:
            return _NAMED[node.name.lower()](node)
        return _TYPED[type(node)](node) if type(node) in _TYPED else node

    def _spell_out(self, merge: exp.Merge) -> exp.Merge:
        """Replace the `*` of `update set *` and `insert *` by the columns of the target."""
        target = merge.this.copy()
        target.set("alias", None)
        found = self._connection.execute(f"select * from {target.sql('duckdb')} limit 0")
        source = merge.args["using"].alias_or_name
        columns = [exp.column(column[0], quoted=True) for column in found.description or []]
        values = [exp.column(column.name, source, quoted=True) for column in columns]
        for when in merge.args["whens"].expressions:
            then = when.args["then"]
            if isinstance(then, exp.Update) and isinstance(then.expressions[0], exp.Star):
                pairs = zip(columns, values, strict=True)
                assignments = [exp.EQ(this=column, expression=value) for column, value in pairs]
                then.set("expressions", [assignment.copy() for assignment in assignments])
            elif isinstance(then, exp.Insert) and isinstance(then.this, exp.Star):
                then.set("this", exp.Tuple(expressions=[column.copy() for column in columns]))
                then.set("expression", exp.Tuple(expressions=[value.copy() for value in values]))
        return merge

    def _create_schema(self, table: exp.Table) -> None:
        """Create the database and the schema of a table, the first two parts of its name."""
        parts = [part.name for part in table.parts]
        if len(parts) > 1:
            database = _quoted(parts[0])
            self._connection.execute(f"attach if not exists ':memory:' as {database}")
        if len(parts) > 2:
            self._connection.execute(f"create schema if not exists {database}.{_quoted(parts[1])}")


# -- from Spark's grammar to DuckDB's -------------------------------------------------------------

_RAISED = "raise_error: "


class _Dialect(Spark):
    """Spark's grammar, in which `execute immediate` is also parsed."""

    class Tokenizer(Spark.Tokenizer):
        COMMANDS = Spark.Tokenizer.COMMANDS - {TokenType.EXECUTE}


def _split(script: str) -> Iterator[list[Token]]:
    """Yield the tokens of each statement, without `begin`, `end` and the handlers."""
    statement: list[Token] = []
    depth = 0  # number of open `begin` blocks in a handler
    for token in _Dialect().tokenize(script):
        is_handler = len(statement) > 2 and statement[2].text.lower() == "handler"
        if not statement and token.token_type in (TokenType.BEGIN, TokenType.END):
            continue
        if is_handler:
            depth += token.token_type == TokenType.BEGIN
            depth -= token.token_type == TokenType.END
        if token.token_type == TokenType.SEMICOLON and not depth:
            if statement and not is_handler:
                yield statement
            statement = []
        else:
            statement.append(token)
    if statement:
        yield statement


def _quoted(name: str) -> str:
    return exp.to_identifier(name, quoted=True).sql("duckdb")


def _call(name: str, *arguments: exp.Expr) -> exp.Expr:
    return exp.Anonymous(this=name, expressions=list(arguments))


def _variable(column: exp.Column) -> exp.Expr:
    """Return a variable's text: `name` or `name.field`."""
    name = column.table or column.name
    value = _call("getvariable", exp.Literal.string(name))
    return exp.Dot(this=value, expression=column.this.copy()) if column.table else value


def _raise(node: exp.Expr) -> exp.Expr:
    [message] = node.expressions
    return _call("error", exp.Concat(expressions=[exp.Literal.string(_RAISED), message]))


def _hash(node: exp.Expr) -> exp.Expr:
    """Keep the types, because Spark's hash of an int differs from that of the same bigint."""
    parts = [part for value in node.expressions for part in (_call("typeof", value.copy()), value)]
    return _call("spark_hash", _call("row", *parts))


def _collect_list(node: exp.Expr) -> exp.Expr:
    """Translate `collect_list`: Spark's list is empty if there are no rows."""
    return exp.Coalesce(this=node.copy(), expressions=[exp.Array(expressions=[])])


def _from_json(node: exp.Expr) -> exp.Expr:
    schema = exp.DataType.build(node.expression.name, dialect="spark")
    return exp.cast(exp.cast(node.this, "json"), schema)


def _struct(node: exp.Expr) -> exp.Expr:
    """Translate `struct(*)`, also with `except`."""
    if [type(value) for value in node.expressions] == [exp.Star]:
        return _call("struct_pack", exp.Columns(this=node.expressions[0], unpack=True))
    return node


def _cast(node: exp.Expr) -> exp.Expr:
    """Translate a cast: bytes are UTF-8, and the fields of a struct are cast by position."""
    if isinstance(node.this, exp.HexString) and node.args["to"].is_type("text"):
        return _call("decode", node.this)
    _name_fields(node.this, node.args["to"])
    return node


def _name_fields(value: exp.Expr, type_: exp.Expr) -> None:
    """Rename the fields of a struct, because DuckDB casts a struct by its field names."""
    if isinstance(value, exp.Array):
        for element in value.expressions:
            _name_fields(element, type_.expressions[0])
    elif isinstance(value, exp.Struct):
        fields = []
        for given, field_type in zip(value.expressions, type_.expressions, strict=True):
            inner = given.expression if isinstance(given, exp.PropertyEQ) else given.unalias()
            _name_fields(inner, field_type.args["kind"])
            fields.append(exp.PropertyEQ(this=field_type.this.copy(), expression=inner.copy()))
        value.set("expressions", fields)


def _table(node: exp.Expr) -> exp.Expr:
    """Translate `range(...)`: its column is `id`, and its fourth argument has no effect here."""
    if isinstance(node.this, exp.Anonymous) and node.this.name.lower() == "range":
        node.this.set("expressions", node.this.expressions[:3])
        return exp.alias_(node, node.alias or "range", table=["id"])
    version = node.args.get("version")
    if version:
        node.set("version", None)
        node.set("this", exp.to_identifier(f"{node.name}@{version.expression.name}", quoted=True))
    return node


_NAMED: dict[str, Callable[[exp.Expr], exp.Expr]] = {
    "input_file_block_start": lambda node: exp.Literal.number(0),
    "monotonically_increasing_id": lambda node: sqlglot.parse_one("row_number() over () - 1"),
    "pmod": lambda node: _call("spark_pmod", *node.expressions),
    "raise_error": _raise,
    "xxhash64": _hash,
}

_TYPED: dict[type[exp.Expr], Callable[[exp.Expr], exp.Expr]] = {
    exp.ArrayAgg: _collect_list,
    exp.ArrayDistinct: lambda node: _call("spark_array_distinct", node.this),
    exp.BitwiseLeftShift: lambda node: _call("spark_shiftleft", node.this, node.expression),
    exp.Cast: _cast,
    # DuckDB's count_if returns null if there are no rows.
    exp.CountIf: lambda node: exp.Count(this=exp.Case().when(node.this.copy(), exp.true())),
    exp.Corr: lambda node: _call("spark_not_nan", node.copy()),
    exp.FromJson: _from_json,
    # Call a function instead of `->>`, because `->>` has the same precedence as `||`.
    exp.JSONExtractScalar: lambda node: _call("json_extract_string", node.this, node.expression),
    exp.JSONFormat: lambda node: _call("spark_to_json", node.this),
    exp.MapContainsKey: lambda node: _call("map_contains", node.this, node.args["key"]),
    exp.Struct: _struct,
    exp.Table: _table,
    exp.TryCast: _cast,
}


def _text(value: Any) -> str:
    """Return a text that DuckDB can cast to the value. JSON cannot represent the value itself."""
    if isinstance(value, bytes):
        return "".join(f"\\x{byte:02x}" for byte in value)
    return str(value)


def _to_json(value: Any) -> str | None:
    return None if value is None else json.dumps(_without_nulls(value), default=_text)


def _without_nulls(value: Any) -> Any:
    """Leave out fields that are null, as Spark's to_json does."""
    if isinstance(value, dict):
        return {name: _without_nulls(one) for name, one in value.items() if one is not None}
    if isinstance(value, list):
        return [_without_nulls(one) for one in value]
    return value
