"""The pages of docs/ whose files, commands and statements a test follows word for word.

The kind of a block follows from its first line or its language:

* a first line that is a comment with a path (`-- models/orders.sql`): a file of the project
* `sh`: dbt commands, one in each line
* `sql`: a statement that another program sends to Spark
* `text`: lines, or parts of lines, that the previous command prints; durations are not compared
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from support.project import REPOSITORY, Project, RunResult

DOCS = REPOSITORY / "docs"
# A reader creates these files; in a test `Project` creates them.
OF_THE_READER = ("dbt_project.yml", "packages.yml", "profiles.yml")


@dataclass(frozen=True)
class Block:
    """A block of code: its language, its lines, and the file that it shows, if any."""

    language: str
    text: str

    @property
    def file(self) -> str | None:
        first = self.text.partition("\n")[0]
        named = re.fullmatch(r"(?:--|#) ([\w/.]+\.(?:sql|yml|md))", first)
        return named[1] if named else None

    @property
    def commands(self) -> list[list[str]]:
        lines = self.text.replace("\\\n", " ").splitlines()
        return [shlex.split(line, comments=True) for line in lines if line.strip()]


def blocks(page: Path) -> list[Block]:
    """Return the blocks of a page, in order."""
    found = re.findall(r"^```(\w*)\n(.*?)^```$", page.read_text(), re.MULTILINE | re.DOTALL)
    return [Block(language, text) for language, text in found]


def follow(project: Project, page: str) -> Iterator[RunResult]:
    """Follow a page and yield the result of each dbt command.

    The output of a command must contain the lines of the following `text` block.
    """
    results: list[RunResult] = []
    for block in blocks(DOCS / page):
        if block.file is not None:
            if block.file not in OF_THE_READER:
                project.write({}, files={block.file: block.text})
        elif block.language == "sh":
            results = []
            for command in block.commands:
                assert command[0] == "dbt", command
                result = project.dbt(*command[1:], expect=False)
                results.append(result)
                yield result
        elif block.language == "sql":
            project.sql(block.text)
        elif block.language == "text":
            printed = _without_durations("\n".join(seen for r in results for seen in _seen(r)))
            for line in block.text.splitlines():
                assert _without_durations(line) in printed, f"{page}: {line!r} is not in\n{printed}"


def _seen(result: RunResult) -> list[str]:
    return [*result.messages, *(node.message for node in result.nodes)]


def _without_durations(text: str) -> str:
    text = re.sub(r"\d[\d,.]*(?: [MG])? rows/s", "0 rows/s", text)
    return re.sub(r"\d[\d.]* (?:s|min|h)\b", "0 s", text)
