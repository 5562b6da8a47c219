"""The folders of macros need each other in one direction.

What is found by its name (of_kind) is no need: who asks knows the question only.
"""

from __future__ import annotations

import re
from graphlib import TopologicalSorter

from support.macros import MACROS


def _needs() -> dict[str, set[str]]:
    """The folders that each folder's macros call macros of."""
    texts: dict[str, str] = {}
    for path in sorted(MACROS.rglob("*.sql")):
        folder = path.parent.relative_to(MACROS).as_posix()
        texts[folder] = texts.get(folder, "") + path.read_text()
    home = {
        name: folder
        for folder, text in texts.items()
        for name in re.findall(r"^\{%-? macro (\w+)", text, re.MULTILINE)
    }
    return {
        folder: {home[name] for name in re.findall(r"dbt_backfill\.(\w+)", text) if name in home}
        - {folder}
        for folder, text in texts.items()
    }


def test_no_two_folders_need_each_other() -> None:
    order = list(TopologicalSorter(_needs()).static_order())

    assert order.index("statement") < order.index("state") < order.index("barrier/steps")
    assert order.index("barrier/steps") < order.index("barrier/plan") < order.index("barrier")
