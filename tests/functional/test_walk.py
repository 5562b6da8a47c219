"""Count the code that a reader of one ordinary barrier has to read, in a real run.

The reader opens each macro once, at its first call, and reads depth first. `make test` prints the
figures.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from typing import Any
from unittest.mock import patch

import pytest
from dbt.clients.jinja import MacroGenerator

from support.checks import model, source
from support.project import Project

MV = model(
    f"select id, v from {source('up')} where v is not null",
    vnode_count=None,
    backfill_rate_limit=50,
)


@dataclass(frozen=True)
class Walk:
    """`changes` counts how often the reader goes to another file. `sql` counts characters."""

    macros: int
    files: int
    changes: int
    sql: int
    statements: int


MOST = {
    "delta": Walk(macros=208, files=31, changes=182, sql=27_700, statements=8),
    "iceberg": Walk(macros=212, files=33, changes=186, sql=36_900, statements=7),
}
"""The present figures, with a small margin because some of them depend on the clock.

Only lower them.
"""


@dataclass
class Reader:
    opened: set[str] = field(default_factory=set)
    files: list[str] = field(default_factory=list)
    """The files in the order in which the reader looks at them, with each return to a caller."""
    statements: list[str] = field(default_factory=list)

    @contextmanager
    def follows(self, name: str, file: str) -> Iterator[None]:
        is_new = name not in self.opened
        self.opened.add(name)
        before = self.files[-1:] if is_new else []
        if is_new:
            self.files.append(file)
        yield
        self.files += before if is_new else []

    def send(self, sql: str, proceed: Callable[[], None]) -> None:
        if '"node_id"' in sql and "model.tested.mv" in sql:
            self.statements.append(sql)
        proceed()

    @property
    def walk(self) -> Walk:
        return Walk(
            macros=len(self.opened),
            files=len(set(self.files)),
            changes=sum(a != b for a, b in zip(self.files, self.files[1:], strict=False)),
            sql=sum(map(len, self.statements)),
            statements=len(self.statements),
        )


@pytest.mark.core("session-delta", "session-iceberg")
@pytest.mark.profiles("session-delta", "session-iceberg", reason="counts macros, in a process")
@pytest.mark.every_profile
def test_a_barrier_can_be_read(
    project: Project, record_property: Callable[[str, Any], None]
) -> None:
    project.create_table("up", "id bigint, v string")
    up = project.table("up")
    project.sql(f"insert into {up} select id, concat('v', id) from range(400)")
    project.write({"mv": MV}, sources=["up"])
    reader, call = Reader(), MacroGenerator.__call__

    def read(generator: Any, *args: Any, **kwargs: Any) -> Any:
        if generator.macro.package_name != "dbt_backfill":
            return call(generator, *args, **kwargs)
        with reader.follows(generator.macro.name, generator.macro.original_file_path):
            return call(generator, *args, **kwargs)

    for turn in range(3):
        project.sql(f"update {up} set v = 'new{turn}' where id = {turn + 1}")
        project.sql(f"delete from {up} where id = {turn + 20}")
        project.sql(f"insert into {up} values ({1000 + turn}, 'late')")
        if turn < 2:
            project.run()
    with patch.object(MacroGenerator, "__call__", read):
        project.run(intercept=reader.send)

    walk = reader.walk
    print(f"one barrier: {walk}")
    record_property("walk", asdict(walk))
    most = asdict(MOST[project.file_format])
    assert {name: max(count, most[name]) for name, count in asdict(walk).items()} == most
