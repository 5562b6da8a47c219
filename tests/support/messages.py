"""The messages that a run can end with, read from the macros.

A message is a Jinja expression that joins texts and values. `wordings` returns its texts with `…`
for each value. If a part of the expression has several texts, such as `'a' if x else 'b'` or a
variable that is set twice, each of them makes a wording of its own.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cache

from dbt_common.clients.jinja import get_environment
from jinja2 import nodes

from support.macros import MACROS

PLACE = "docs/messages.md"
"""The page that the last line of a message names, unless the dbt var `backfill_docs_url` is set."""

MOST_TEXTS = 6
"""A variable with more texts than this is `…`."""

MOST_WORDINGS = 3
"""A part of an expression that would give the expression more wordings than this is `…`."""

Expressions = dict[str, list[nodes.Node]]


@dataclass(frozen=True)
class Refusal:
    """A call of `refuse`, or a dict {'id', 'fact', 'change'} for it.

    `id` is None if the code gives none.
    """

    file: str
    line: int
    id: str | None
    fact: nodes.Node
    change: nodes.Node
    scope: Scope

    @property
    def facts(self) -> list[str]:
        """Return the wordings of what is wrong. Variables count as values."""
        return wordings(self.fact)

    @property
    def changes(self) -> list[str]:
        """Return the wordings of what to do, with the texts of variables and parameters."""
        return wordings(self.change, self.scope)


@dataclass(frozen=True)
class Scope:
    """The expressions that a name can have in a macro."""

    variables: Expressions = field(default_factory=dict)
    entries: Expressions = field(default_factory=dict)
    arguments: dict[str, list[tuple[nodes.Node, Scope]]] = field(default_factory=dict)

    def find(self, node: nodes.Node) -> list[tuple[nodes.Node, Scope]]:
        """Return the expressions of a variable, of a parameter, or of an entry of a dict.

        Of a variable, only the assignments above the node count.
        """
        if isinstance(node, nodes.Name):
            values = self.variables.get(node.name, [])
            above = [(value, self) for value in values if value.lineno <= node.lineno]
            return above or self.arguments.get(node.name, [])
        if isinstance(node, nodes.Getattr):
            return [(value, self) for value in self.entries.get(node.attr, [])]
        return []


@dataclass(frozen=True)
class Error:
    """What a page says about the refusals with the same id."""

    id: str
    facts: list[str]
    changes: list[str]
    file: str


def errors() -> dict[str, Error]:
    """Return the refusals by their id, in the order of the files."""
    found: dict[str, Error] = {}
    for refusal in refusals():
        if refusal.id is not None:
            new = Error(refusal.id, [], [], refusal.file)
            error = found.setdefault(refusal.id, new)
            error.facts.extend(text for text in refusal.facts if text not in error.facts)
            error.changes.extend(text for text in refusal.changes if text not in error.changes)
    return found


@cache
def refusals() -> list[Refusal]:
    """Return each call of `refuse`, and each dict that is passed to it.

    A call that passes the entries of such a dict on is not listed.
    """
    return [
        Refusal(file, node.lineno, _text(given.get("id")), given["fact"], given["change"], scope)
        for file, macro, scope in _macros()
        for node in macro.find_all((nodes.Call, nodes.Dict))
        if (given := _given(node)) and not _is_passed_on(given.get("id"))
    ]


def raised_texts() -> Iterator[tuple[str, str]]:
    """Return (file, text) for each `raise_error` in the SQL of a macro.

    If Jinja joins the argument, the text has all texts of the macro.
    """
    for path in sorted(MACROS.rglob("*.sql")):
        source = re.sub(r"\{#.*?#\}", "", path.read_text(), flags=re.DOTALL)
        for macro in re.split(r"(?=\{% macro )", source):
            for call in re.finditer(r"\braise_error\(", macro):
                argument = _argument(macro[call.end() :])
                joined = _join_texts(macro if "~" in argument else argument)
                yield path.relative_to(MACROS).as_posix(), joined


def facts_of(message: str) -> str:
    """Return a refusal without its last line, which names the page to read."""
    text, _, place = message.rpartition("\n")
    assert place.startswith(f"See {PLACE}#"), message
    return text


def wordings(expression: nodes.Node | str, scope: Scope | None = None) -> list[str]:
    """Return the texts of a Jinja expression, with `…` for each value."""
    if isinstance(expression, str):
        expression = _parse_expression(expression)
    found = [re.sub("…+", "…", text).strip() for text in _texts(expression, scope or Scope(), 0)]
    return list(dict.fromkeys(found))


def _texts(node: nodes.Node, scope: Scope, depth: int) -> list[str]:
    if (text := _text(node)) is not None:
        return [text]
    if isinstance(node, nodes.Concat):
        names = [_variable(part) for part in node.nodes]
        joined = [""]
        for part, name in zip(node.nodes, names, strict=True):
            texts = _texts(part, scope, depth)
            # If a variable or a dict occurs twice, its texts belong together.
            is_repeated = name is not None and names.count(name) > 1
            if (is_repeated and len(texts) > 1) or len(joined) * len(texts) > MOST_WORDINGS:
                texts = ["…"]
            joined = [before + text for before in joined for text in texts]
        return joined
    if isinstance(node, nodes.CondExpr):
        other = _texts(node.expr2, scope, depth) if node.expr2 else [""]
        return list(dict.fromkeys(_texts(node.expr1, scope, depth) + other))
    if isinstance(node, nodes.Filter) and node.name == "replace" and node.node is not None:
        return _texts(node.node, scope, depth)
    if depth < 4 and (values := scope.find(node)):
        found = [text for value, its in values for text in _texts(value, its, depth + 1)]
        found = list(dict.fromkeys(found))
        return found if len(found) <= MOST_TEXTS else ["…"]
    return ["…"]


@cache
def _macros() -> list[tuple[str, nodes.Macro, Scope]]:
    """Return (file, macro, what its names can be) for each macro."""
    environment = get_environment()
    found = []
    for path in sorted(MACROS.rglob("*.sql")):
        tree = environment.parse(path.read_text())
        entries: Expressions = {}
        for pair in tree.find_all(nodes.Pair):
            if (key := _text(pair.key)) is not None:
                entries.setdefault(key, []).append(pair.value)
        for macro in tree.find_all(nodes.Macro):
            scope = Scope(_variables(macro), entries)
            found.append((path.relative_to(MACROS).as_posix(), macro, scope))
    _add_arguments({macro.name.removeprefix("dbt_macro__"): (macro, s) for _, macro, s in found})
    return found


def _variables(macro: nodes.Macro) -> Expressions:
    found: Expressions = {}
    for assign in macro.find_all(nodes.Assign):
        pairs: list[tuple[nodes.Node, nodes.Node]] = [(assign.target, assign.node)]
        if isinstance(assign.target, nodes.Tuple) and isinstance(assign.node, nodes.Tuple):
            pairs = list(zip(assign.target.items, assign.node.items, strict=False))
        for target, value in pairs:
            if isinstance(target, nodes.Name):
                found.setdefault(target.name, []).append(value)
    return found


def _add_arguments(macros: dict[str, tuple[nodes.Macro, Scope]]) -> None:
    """Add to each scope what the calls of the macro pass as its parameters."""
    for macro, scope in macros.values():
        with_default = macro.args[len(macro.args) - len(macro.defaults) :]
        for parameter, default in zip(with_default, macro.defaults, strict=True):
            scope.arguments.setdefault(parameter.name, []).append((default, scope))
    for caller, its_scope in macros.values():
        for call in caller.find_all(nodes.Call):
            called = macros.get(_name(call) or "")
            if called:
                macro, scope = called
                names = [parameter.name for parameter in macro.args]
                given = [*zip(names, call.args, strict=False)]
                given += [(keyword.key, keyword.value) for keyword in call.kwargs]
                for name, value in given:
                    scope.arguments.setdefault(name, []).append((value, its_scope))


def _name(call: nodes.Call) -> str | None:
    """Return `x` of a call `dbt_backfill.x(...)`."""
    called = call.node
    is_ours = isinstance(called, nodes.Getattr) and isinstance(called.node, nodes.Name)
    return called.attr if is_ours and called.node.name == "dbt_backfill" else None  # type: ignore[attr-defined]


def _given(node: nodes.Node) -> dict[str, nodes.Node] | None:
    """Return the id, fact and change of a refusal; None for another call or dict."""
    if isinstance(node, nodes.Call) and _name(node) == "refuse":
        named = {keyword.key: keyword.value for keyword in node.kwargs}
        return {"fact": node.args[0], "change": node.args[1], **named}
    if isinstance(node, nodes.Dict):
        entries: dict[str, nodes.Node] = {_text(pair.key) or "": pair.value for pair in node.items}
        return entries if "fact" in entries else None
    return None


def _variable(node: nodes.Node) -> str | None:
    """Return `x` of `x` and of `x.y`."""
    named = node.node if isinstance(node, nodes.Getattr) else node
    return named.name if isinstance(named, nodes.Name) else None


def _is_passed_on(id: nodes.Node | None) -> bool:
    return isinstance(id, nodes.Getattr) and id.attr == "id"


def _text(node: nodes.Node | None) -> str | None:
    is_text = isinstance(node, nodes.Const) and isinstance(node.value, str)
    return node.value if is_text else None  # type: ignore[union-attr]


def _parse_expression(expression: str) -> nodes.Node:
    output = get_environment().parse("{{ " + expression + " }}").find(nodes.Output)
    assert output is not None
    return output.nodes[0]


# -- SQL ---------------------------------------------------------------------------------------

_BRACKETS = {"(": 1, "[": 1, "{": 1, ")": -1, "]": -1, "}": -1}
_TEXT = re.compile(r"""'(?:[^'\\]|\\.)*'|"(?:[^"\\]|\\.)*\"""")


def _join_texts(expression: str) -> str:
    """Return all texts of an expression, with `…` between them."""
    return "…".join(text[0][1:-1].replace("\\'", "'") for text in _TEXT.finditer(expression))


def _argument(source: str) -> str:
    """Return the text up to the comma or the bracket that ends the first argument of a call."""
    depth, position = 0, 0
    while depth or source[position] not in ",)":
        text = _TEXT.match(source, position)
        if not text:
            depth += _BRACKETS.get(source[position], 0)
        position = text.end() if text else position + 1
    return source[:position].strip()
