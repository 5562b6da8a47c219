"""Find Jinja that dbt 2 renders differently from dbt 1 in the macros: `make lint`.

    python -m support.dbt_2

dbt 2 renders Jinja with an engine of its own, in Rust. Each rule below finds one difference. The
rules `hook` and `sort_keys` are from the source of dbt 2. All others were tried with `dbt parse` of
dbt 2.0.0-alpha.4. The rules read the syntax tree of Jinja2, which has no types. If a rule cannot
decide, it reports the line. `EXCEPTIONS` lists the files that may break a rule.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass

from dbt_common.clients.jinja import get_environment
from jinja2 import nodes

from support.macros import MACROS

EXCEPTIONS = {
    ("upstreams/contract.sql", "information"): "dbt 2 asks Spark for the provider instead",
    ("operations/drop_backfill.sql", "information"): "in dbt 2 a message does not say where "
    "the files of an external table stay",
    ("upstreams/postgres/read_upstream.sql", "sort_keys"): "the text is stored in plans. dbt 2 "
    "sorts only the outer keys, and macros compare the parsed values",
}
"""The rules that a file may break, with the reason."""

CHANGING = {"append", "clear", "extend", "insert", "pop", "remove", "setdefault", "sort", "update"}
"""The methods that change a list or a dict."""


@dataclass(frozen=True)
class Finding:
    """A line that dbt 2 renders differently."""

    file: str
    line: int
    rule: str
    text: str


Find = Callable[[nodes.Node], Iterable[nodes.Node]]
RULES: dict[str, tuple[str, Find]] = {}


def rule(name: str, reason: str, change: str) -> Callable[[Find], Find]:
    def add(find: Find) -> Find:
        RULES[name] = (f"in dbt 2 {reason}: {change}", find)
        return find

    return add


def _names(node: nodes.Node) -> set[str]:
    """Return the names in an expression."""
    found = {name.name for name in node.find_all(nodes.Name)}
    return found | {node.name} if isinstance(node, nodes.Name) else found


def _method(node: nodes.Node) -> str | None:
    """Return `x` of a call `y.x(...)`."""
    is_call = isinstance(node, nodes.Call) and isinstance(node.node, nodes.Getattr)
    return str(node.node.attr) if is_call else None  # type: ignore[attr-defined]


def _calls(tree: nodes.Node, *methods: str) -> Iterator[nodes.Call]:
    """Yield the calls of the methods."""
    return (call for call in tree.find_all(nodes.Call) if _method(call) in methods)


def _receiver(call: nodes.Call) -> nodes.Node:
    """Return `y` of a call `y.x(...)`."""
    assert isinstance(call.node, nodes.Getattr)
    return call.node.node


def _of_re(node: nodes.Node, *functions: str) -> bool:
    """True if the node calls one of these functions of `re`."""
    if not isinstance(node, nodes.Call) or _method(node) not in functions:
        return False
    module = _receiver(node)
    return getattr(module, "attr", getattr(module, "name", None)) == "re"


def _assigned(tree: nodes.Node) -> Iterator[tuple[nodes.Node, nodes.Node]]:
    """Yield the targets and values of `set`, also of `set a, b = 1, 2`."""
    for assign in tree.find_all(nodes.Assign):
        if isinstance(assign.target, nodes.Tuple) and isinstance(assign.node, nodes.Tuple):
            yield from zip(assign.target.items, assign.node.items, strict=False)
        else:
            yield assign.target, assign.node


def _macros(tree: nodes.Node) -> list[nodes.Node]:
    """Return the macros of a file; a materialization and a test are macros, too."""
    return [*tree.find_all(nodes.Macro)] or [tree]


def _variables(macro: nodes.Node, is_meant: Callable[[nodes.Node], bool]) -> set[str]:
    """Return the variables that a macro sets to such a value."""
    return {getattr(to, "name", "") for to, value in _assigned(macro) if is_meant(value)}


def _used(
    tree: nodes.Node, methods: Iterable[str], is_meant: Callable[[nodes.Node], bool]
) -> Iterable[nodes.Node]:
    """Yield the calls of `methods` on such a value, or on a variable with such a value."""
    for macro in _macros(tree):
        variables = _variables(macro, is_meant)
        for call in _calls(macro, *methods):
            receiver = _receiver(call)
            if is_meant(receiver) or getattr(receiver, "name", None) in variables:
                yield call


@rule("loop", "it filters all items before the body runs", "put an `if` inside the loop")
def _filtered_loops(tree: nodes.Node) -> Iterable[nodes.Node]:
    for loop in tree.find_all(nodes.For):
        changed = {ref.name for part in loop.body for ref in part.find_all(nodes.NSRef)}
        for part in loop.body:
            changed |= set().union(*(_names(_receiver(c)) for c in _calls(part, *CHANGING)))
        if loop.test is not None and changed & _names(loop.test):
            yield loop


@rule("finditer", "`re` has no finditer", "use `re.split` with a group, or `re.findall`")
def _finditer(tree: nodes.Node) -> Iterable[nodes.Node]:
    return _calls(tree, "finditer")


@rule("fullmatch", "`re.fullmatch` returns a list", "use `re.search('^…$', …)`")
def _groups_of_fullmatch(tree: nodes.Node) -> Iterable[nodes.Node]:
    groups = {"group", "groups", "groupdict", "expand"}
    return _used(tree, groups, lambda value: _of_re(value, "fullmatch"))


@rule("item of a match", "a match has no items", "use `group(1)`")
def _items_of_matches(tree: nodes.Node) -> Iterable[nodes.Node]:
    for macro in _macros(tree):
        matches = _variables(macro, lambda value: _of_re(value, "search", "match"))
        for item in macro.find_all(nodes.Getitem):
            is_match = isinstance(item.node, nodes.Name) and item.node.name in matches
            if is_match or _of_re(item.node, "search", "match"):
                yield item


@rule("alternatives", "only the first alternative is anchored", "use `re.search('^(?:…)$', …)`")
def _alternatives(tree: nodes.Node) -> Iterable[nodes.Node]:
    """Find patterns of `match` and `fullmatch` that are not constant or have alternatives.

    `fullmatch` only looks if the first match is the whole text, so also find lazy quantifiers.
    """
    for call in tree.find_all(nodes.Call):
        if _of_re(call, "match", "fullmatch"):
            pattern = call.args[0]
            text = pattern.value if isinstance(pattern, nodes.Const) else "|"
            text = re.sub(r"\\.|\[\^?\]?[^]]*\]", "", text, flags=re.DOTALL)
            if "|" in text or "?" in re.findall(r"[*+?}](\?)", text):
                yield call


@rule("position", "it counts bytes, not characters", "use the groups of `re.split` or `re.search`")
def _positions(tree: nodes.Node) -> Iterable[nodes.Node]:
    return _calls(tree, "start", "end", "span")


@rule("braces", "`format` ignores what follows a colon", "use get_count_text or `'%.1f' | format`")
def _formats(tree: nodes.Node) -> Iterable[nodes.Node]:
    for call in _calls(tree, "format"):
        texts = [const.value for const in call.node.find_all(nodes.Const)]
        if any(re.search(r"\{\w*[:!]", text) for text in texts if isinstance(text, str)):
            yield call


@rule("hexadecimal", "`format` has no %X and %x for numbers", "take the digits from a text")
def _hexadecimal(tree: nodes.Node) -> Iterable[nodes.Node]:
    for filter_ in tree.find_all(nodes.Filter):
        text = filter_.node.value if isinstance(filter_.node, nodes.Const) else ""
        if filter_.name == "format" and re.search(r"%[-+ #0-9.]*[xXo]", str(text)):
            yield filter_


@rule("timedelta", "its arithmetic and comparisons fail or are wrong", "use `total_seconds()`")
def _timedelta(tree: nodes.Node) -> Iterable[nodes.Node]:
    """Find each timedelta, and each difference of times of which nobody takes the seconds."""
    yield from (attr for attr in tree.find_all(nodes.Getattr) if attr.attr == "timedelta")
    taken = {id(_receiver(call)) for call in _calls(tree, "total_seconds")}
    for difference in tree.find_all(nodes.Sub):
        sides = {_method(difference.left), _method(difference.right)}
        if sides & {"now", "utcnow", "fromisoformat"} and id(difference) not in taken:
            yield difference


@rule("sort_keys", "`tojson` sorts only the outermost keys", "write the keys in their order")
def _sort_keys(tree: nodes.Node) -> Iterable[nodes.Node]:
    return (keyword for keyword in tree.find_all(nodes.Keyword) if keyword.key == "sort_keys")


@rule("fixed list", "this list cannot be changed", "begin with `[]`, and use `extend`")
def _fixed_lists(tree: nodes.Node) -> Iterable[nodes.Node]:
    def is_fixed(value: nodes.Node) -> bool:
        """True for the result of `re.split` or `re.findall`, and for `[0] * n`."""
        sides = [value.left, value.right] if isinstance(value, nodes.Mul) else []
        return _of_re(value, "split", "findall") or any(isinstance(s, nodes.List) for s in sides)

    return _used(tree, CHANGING, is_fixed)


@rule("hook", "a hook is not a dict", "write the dict: `{'sql': hook.sql, …}`")
def _hooks(tree: nodes.Node) -> Iterable[nodes.Node]:
    for call in tree.find_all(nodes.Call):
        is_dict = getattr(call.node, "name", None) == "dict" and call.args
        if is_dict and any("hook" in name for name in _names(call.args[0])):
            yield call


@rule("replace", "a relation has no `replace`", "use `incorporate`")
def _replaced_relations(tree: nodes.Node) -> Iterable[nodes.Node]:
    return (call for call in _calls(tree, "replace") if not call.args)


@rule("information", "a relation has no information", "ask Spark: read_information")
def _information(tree: nodes.Node) -> Iterable[nodes.Node]:
    return (attr for attr in tree.find_all(nodes.Getattr) if attr.attr == "information")


@rule("sample", "the arguments do not list `--sample`", "if `dbt_version` is 2, read the query")
def _sample(tree: nodes.Node) -> Iterable[nodes.Node]:
    for call in _calls(tree, "get"):
        is_flag = bool(call.args) and getattr(call.args[0], "value", None) == "sample"
        if is_flag and "invocation_args_dict" in _names(call):
            guarded = (g for g in tree.find_all(nodes.Or) if "dbt_version" in _names(g.right))
            if not any(call in set(g.left.find_all(nodes.Call)) for g in guarded):
                yield call


def find_in(text: str, file: str = "") -> list[Finding]:
    """Return the findings in the text of a file of macros."""
    tree = get_environment().parse(text)
    return [
        Finding(file, node.lineno, name, advice)
        for name, (advice, find) in RULES.items()
        for node in find(tree)
    ]


def main() -> int:
    found = [
        finding
        for path in sorted(MACROS.rglob("*.sql"))
        for finding in find_in(path.read_text(), path.relative_to(MACROS).as_posix())
    ]
    new = [finding for finding in found if (finding.file, finding.rule) not in EXCEPTIONS]
    for finding in new:
        print(f"macros/{finding.file}:{finding.line}: {finding.rule}: {finding.text}")
    used = {(finding.file, finding.rule) for finding in found}
    for file, name in EXCEPTIONS.keys() - used:
        print(f"macros/{file}: remove the exception from the rule {name!r}, which finds nothing")
    return 1 if new or EXCEPTIONS.keys() - used else 0


if __name__ == "__main__":
    sys.exit(main())
