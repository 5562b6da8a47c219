"""The SQL scripts (`begin … end`) that the materialization sends: several statements in one."""

from __future__ import annotations

import re

WRITES = (
    "merge",
    "insert",
    "create",
    "replace",
    "update",
    "delete",
    "truncate",
    "drop",
    "alter",
)

_END_OF_STATEMENT = re.compile(r";[ \t]*(?:\n|$)")
_DIES = "if cast(raise_error('died inside a script') as boolean) then select 1; end if;\n"


def is_script(sql: str) -> bool:
    return _first_word(_without_comment(sql)) == "begin"


def statements_of(sql: str) -> list[str]:
    """The statements of a script, or the one that it is."""
    text = _without_comment(sql)
    if not is_script(sql):
        return [text]
    inner = text.strip()[len("begin") :].rsplit("end", 1)[0]
    return [part for part in _END_OF_STATEMENT.split(inner) if part.strip()]


def writes(statement: str) -> bool:
    """Whether a statement, or the one behind `if … then`, writes a table."""
    words = re.split(r"\bthen\b", statement, maxsplit=1)[-1].lower().split()
    if words[:2] == ["execute", "immediate"]:
        return "temporary" not in words[2:7] and "into" not in words[2:5]
    return words[0] in WRITES and "temporary" not in words[:4] and words[:2] != ["drop", "view"]


def writes_of(sql: str) -> list[str]:
    """What of it can be executed on its own and writes: the whole, if it has variables."""
    statements = statements_of(sql)
    if not any(map(writes, statements)):
        return []
    if any(_first_word(statement) == "declare" for statement in statements):
        return [sql]
    return list(filter(writes, statements))


def dying_after(sql: str, number: int) -> str | None:
    """The script with its end after the `number`-th statement that writes; None if none."""
    seen, start = 0, 0
    text = _without_comment(sql).strip()[len("begin") :]
    for end in _END_OF_STATEMENT.finditer(text):
        seen += writes(text[start : end.start()])
        start = end.end()
        if seen == number:
            return f"begin{text[:start]}{_DIES}{text[start:]}"
    return None


def _without_comment(sql: str) -> str:
    return re.sub(r"\A(\s*/\*.*?\*/)+", "", sql, flags=re.DOTALL)


def _first_word(sql: str) -> str:
    return (sql.split() or [""])[0].lower()
