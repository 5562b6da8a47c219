"""The SQL scripts (`begin … end`) of the materialization, which contain several statements."""

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

READS = ("select", "with", "describe", "explain", "show", "declare", "set", "end")

_END_OF_STATEMENT = re.compile(r";[ \t]*(?:\n|$)")
_OPENING = re.compile(r"(?:\s*(?:begin|else|if\b.*?\bthen)\b)+", re.DOTALL | re.IGNORECASE)
_END_OF_BLOCK = re.compile(r"^([ \t]*end;)(?=[ \t]*\S)", re.MULTILINE)
_DIES = "if cast(raise_error('died inside a script') as boolean) then select 1; end if;\n"


def is_script(sql: str) -> bool:
    return _first_word(_without_comment(sql)) == "begin"


def statements_of(sql: str) -> list[str]:
    """Return the statements of a script, or the single statement."""
    text = _without_comment(sql)
    if not is_script(sql):
        return [text]
    inner = _inside_of(text).rsplit("end", 1)[0]
    return [part for part in _END_OF_STATEMENT.split(inner) if part.strip()]


def writes(statement: str) -> bool:
    """True if a statement, or the statement after its `if … then`, writes a table."""
    words = _bare(statement).lower().split() or [""]
    if words[:2] == ["execute", "immediate"]:
        if words[2].startswith(("'set", "'reset", "'select", "'declare")):
            return False
        return "temporary" not in words[2:7] and not _reads_into(" ".join(words))
    return words[0] in WRITES and "temporary" not in words[:4] and words[:2] != ["drop", "view"]


def leaves_something(sql: str) -> bool:
    """True if the SQL writes a table, or leaves a temporary or cached view in its session."""
    parts = [_bare(part) for part in statements_of(sql)]
    return any(_first_word(part) not in READS and not _reads_into(part) for part in parts)


def writes_of(sql: str) -> list[str]:
    """Return the writing statements of a script.

    If the script has variables, return the whole script, because a statement with variables cannot
    be executed alone.
    """
    statements = statements_of(sql)
    if not any(map(writes, statements)):
        return []
    if any(_first_word(_bare(statement)) == "declare" for statement in statements):
        return [sql]
    return list(filter(writes, statements))


def dying_after(sql: str, number: int) -> str | None:
    """Return the script, changed so that it fails after the `number`-th statement that writes.

    Return None if the script has fewer such statements. If the statement is in a block with an
    error handler, the script fails after this block. Inside the block the handler would catch the
    failure.
    """
    seen, start, depth = 0, 0, 0
    text = _inside_of(_without_comment(sql))
    for end in _END_OF_STATEMENT.finditer(text):
        statement = text[start : end.start()]
        depth += _blocks_opened(statement) - (statement.strip().lower() == "end")
        seen += writes(statement)
        start = end.end()
        if seen >= number and depth == 0:
            return f"begin{text[:start]}{_DIES}{text[start:]}"
    return None


def _inside_of(script: str) -> str:
    """Return the text after the `begin` of a script, with a line break after each inner block."""
    return _END_OF_BLOCK.sub(r"\1\n", script.strip()[len("begin") :])


def _without_comment(sql: str) -> str:
    return re.sub(r"\A(\s*/\*.*?\*/)+", "", sql, flags=re.DOTALL)


def _reads_into(statement: str) -> bool:
    """True for `execute immediate … into`, a query whose result goes to a variable."""
    words = statement.lower().split()
    return words[:2] == ["execute", "immediate"] and "into" in (*words[2:5], *words[-2:-1])


def _bare(statement: str) -> str:
    """Return the first statement of a block without the words that open the block."""
    opening = _OPENING.match(statement)
    return statement[opening.end() :] if opening else statement


def _blocks_opened(statement: str) -> int:
    opening = _OPENING.match(statement)
    return len(re.findall(r"\bbegin\b", opening[0], re.IGNORECASE)) if opening else 0


def _first_word(sql: str) -> str:
    return (sql.split() or [""])[0].lower()
