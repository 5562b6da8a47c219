"""Call the package's macros without dbt and without Spark.

    macros.call("tuple_predicate", ["a", "b"], ">", ["1", "2"])
    macros.stub("run_json", lambda step, sql: [{"version": 7}])
    macros.statements            # the SQL that was passed to `statement()`
    macros.tables["lake.mv"] = Table(properties={"dbt_backfill.id": "b1"}, columns={"k": "int"})
    with pytest.raises(CompilationError, match="unique_key is missing"):
        macros.call("read_config")

The Jinja environment is dbt's own. So `return`, `{% test %}` and `{% materialization %}` behave as
in a run, and a macro that calls another one without `dbt_backfill.` fails as in a run. Unlike in a
run, an undefined name also fails, see `_Undefined`.
"""

from __future__ import annotations

import functools
import hashlib
import json
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from types import SimpleNamespace
from typing import Any, NoReturn

import jinja2
from dbt.adapters.contracts.relation import RelationType
from dbt.adapters.spark.relation import SparkRelation
from dbt.context.base import get_context_modules
from dbt_common.clients.jinja import get_environment
from dbt_common.exceptions import CompilationError
from dbt_common.exceptions.macros import MacroReturn

MACROS = Path(__file__).resolve().parents[2] / "macros"
PREFIX = "dbt_macro__"


def _fromjson(text: str, default: Any = None) -> Any:
    """Return what dbt's `fromjson` returns: the default if the text is not JSON."""
    try:
        return json.loads(text)
    except ValueError:
        return default


@dataclass(frozen=True)
class Statement:
    """One `statement()` block."""

    name: str
    sql: str


@dataclass
class Table:
    """The catalog's description of a table."""

    type: str = "table"
    file_format: str = "delta"
    properties: dict[str, str] = field(default_factory=dict)
    columns: dict[str, str] = field(default_factory=dict)
    information: str | None = None

    @property
    def described(self) -> str:
        kind = "VIEW" if self.type == "view" else "MANAGED"
        return f"Type: {kind}\nProvider: {self.file_format}\n{self.information or ''}"


class Config(dict[str, Any]):
    """The model's `config`: a dict whose `get` takes dbt's arguments."""

    def get(self, name: str, default: Any = None, validator: Any = None) -> Any:
        return super().get(name, default)

    def persist_relation_docs(self) -> bool:
        return bool((self.get("persist_docs") or {}).get("relation"))

    def persist_column_docs(self) -> bool:
        return bool((self.get("persist_docs") or {}).get("columns"))


@dataclass
class Macros:
    """All macros under `directory` in one namespace, `dbt_backfill`, with a mocked dbt around them.

    A test may change `context` before it calls a macro. `results` are the rows of the next
    statements, in order. When `results` is empty, a statement returns no rows. A statement that
    looks up one of `tables` by its name gets its answer from `tables`, and is not recorded.
    """

    directory: Path = MACROS
    config: Config = field(default_factory=Config)
    results: list[Sequence[Sequence[Any]]] = field(default_factory=list)
    statements: list[Statement] = field(default_factory=list)
    logged: list[str] = field(default_factory=list)
    tables: dict[str, Table] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self._stubs: dict[str, Callable[..., Any]] = {}
        self._loaded: dict[str, Any] = {}
        self._made_for: dict[str, Any] = {}
        self._modules: dict[jinja2.Template, Any] = {}
        self.relation = SparkRelation.create(
            schema="lake", identifier="mv", type=RelationType.Table
        )
        self.context: dict[str, Any] = self._default_context()
        self._templates = _templates(self.directory)

    def names(self) -> list[str]:
        return sorted(self._templates)

    def call(self, name: str, *args: Any, **kwargs: Any) -> Any:
        """Return the result of the macro; for a macro without `return`, its rendered text."""
        if name in self._stubs:
            return self._stubs[name](*args, **kwargs)
        if name not in self._templates:
            raise CompilationError(f"dbt_backfill has no macro {name}")
        try:
            return getattr(self._module(name), PREFIX + name)(*args, **kwargs)
        except MacroReturn as returned:
            return returned.value

    def _module(self, name: str) -> Any:
        """Return the compiled file of a macro, with the current `context`."""
        context = {**self.context, "config": self.config}
        if self._made_for != context:
            self._made_for, self._modules = context, {}
        template = self._templates[name]
        if template not in self._modules:
            self._modules[template] = template.make_module(
                vars=context | {"dbt_backfill": _Namespace(self)}
            )
        return self._modules[template]

    def stub(self, name: str, replacement: Callable[..., Any]) -> None:
        """Replace the macro `name` by `replacement`."""
        if name not in self._templates:
            raise KeyError(f"dbt_backfill has no macro {name}")
        self._stubs[name] = replacement

    def answer(self, question: str, replacement: Callable[..., Any]) -> None:
        """Replace a macro of the upstreams' contract by `replacement` for every kind."""
        for kind in ("delta", "iceberg", "postgres"):
            if f"{kind}_{question}" in self._templates:
                self.stub(f"{kind}_{question}", replacement)

    # -- the mocked dbt -----------------------------------------------------------------------

    def _default_context(self) -> dict[str, Any]:
        return {
            "return": _return,
            "exceptions": SimpleNamespace(
                raise_compiler_error=_raise_compiler_error, warn=self.logged.append
            ),
            "adapter": SimpleNamespace(type=lambda: "spark", get_relation=self._get_relation),
            "api": SimpleNamespace(Relation=SparkRelation),
            "statement": self._statement,
            "load_result": self._loaded.get,
            "log": self._log,
            "model": {
                "name": "mv",
                "unique_id": "model.p.mv",
                "config": self.config,
                "raw_code": "",
                "compiled_code": "",
            },
            "this": self.relation,
            "target": {"type": "spark", "schema": "lake", "name": "test", "threads": 1},
            "execute": True,
            "dbt_version": "1.11.0",
            "invocation_id": "00000000-0000-0000-0000-000000000000",
            "modules": get_context_modules(),
            "graph": SimpleNamespace(
                nodes={"model.p.mv": {"schema": "lake", "resource_type": "test"}}, sources={}
            ),
            "tojson": lambda value, default=None, sort_keys=False: json.dumps(
                value, sort_keys=sort_keys
            ),
            "fromjson": _fromjson,
            "local_md5": _local_md5,
            "env_var": lambda name, default=None: default,
            "var": lambda name, default=None: default,
            "flags": SimpleNamespace(FULL_REFRESH=False, EMPTY=False, WHICH="run"),
            "should_full_refresh": lambda: False,
            "invocation_args_dict": {},
        }

    def _log(self, message: str, info: bool = False) -> str:
        self.logged.append(message)
        return ""

    def _statement(self, name: str | None = None, *, caller: Callable[[], str], **_: object) -> str:
        self._run(name or "", caller())
        return ""

    def _run(self, name: str, sql: str) -> SimpleNamespace:
        rows: Sequence[Sequence[Any]] | None = self._look_up(sql)
        if rows is None:
            self.statements.append(Statement(name, sql))
            rows = self.results.pop(0) if self.results else []
        result = SimpleNamespace(table=rows)
        self._loaded[name] = result
        return result

    def _look_up(self, sql: str) -> list[tuple[Any, ...]] | None:
        if self.tables and (named := _FIND.search(sql)):
            name = f"{named[1]}.{named[2]}"
            table = self.tables.get(name)
            return [(named[1], named[2], False, table.described)] if table else []
        found = _LOOKUP.search(sql)
        table = self.tables.get(found[2].replace("`", "")) if found else None
        if not found or not table:
            return None
        if found[1] == "show tblproperties":
            return list(table.properties.items())
        if found[1] == "describe extended":
            return [("Provider", table.file_format)]
        return list(table.columns.items())

    def _get_relation(self, _: None, schema: str, identifier: str) -> SparkRelation | None:
        table = self.tables.get(f"{schema}.{identifier}")
        if table is None:
            return None
        return SparkRelation.create(
            schema=schema,
            identifier=identifier,
            type=RelationType(table.type),
            information=table.information,
            is_delta=table.file_format == "delta" and table.type == "table",
            is_iceberg=table.file_format == "iceberg" and table.type == "table",
        )


@functools.cache
def _templates(directory: Path) -> dict[str, jinja2.Template]:
    """Return the compiled file of each macro. Compiling takes seconds."""
    environment = get_environment()
    environment.undefined = _Undefined
    found: dict[str, jinja2.Template] = {}
    for path in sorted(directory.rglob("*.sql")):
        template = environment.from_string(path.read_text())
        names = [name for name in vars(template.make_module()) if name.startswith(PREFIX)]
        found |= {name.removeprefix(PREFIX): template for name in names}
    return found


_FIND = re.compile(r"show table extended in (\S+) like '(.*)'")
_LOOKUP = re.compile(
    r"\*/\s*(show tblproperties|describe extended|describe query\s+select \* from) (.+?)\s*$"
)


class _Undefined(jinja2.StrictUndefined):
    """Fail for an undefined name, which dbt would render as an empty text.

    A missing key of a dict is false, as in dbt.
    """

    def __bool__(self) -> bool:  # type: ignore[override]
        if isinstance(self._undefined_obj, dict):
            return False
        return super().__bool__()


class _Namespace:
    """The namespace of `dbt_backfill.x` in a macro.

    `x` is an item, because dbt's sandbox hides attributes such as `_x`.
    """

    def __init__(self, macros: Macros) -> None:
        self._macros = macros

    def __getitem__(self, name: str) -> Callable[..., Any]:
        return lambda *args, **kwargs: self._macros.call(name, *args, **kwargs)


def _return(value: Any = None) -> NoReturn:
    raise MacroReturn(value)


def _raise_compiler_error(message: str, node: object = None) -> NoReturn:
    raise CompilationError(message)


def _local_md5(text: str) -> str:
    return hashlib.md5(text.encode(), usedforsecurity=False).hexdigest()
