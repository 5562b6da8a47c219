"""Copies the package and changes its macros. The tests must find an error in such a copy."""

from __future__ import annotations

import shutil
from collections.abc import Sequence
from pathlib import Path

from support.project import REPOSITORY

Replacement = tuple[str, str, str]
"""A file under `macros/`, a text that occurs in it exactly once, and the new text."""


def mutated(directory: Path, replacements: Sequence[Replacement]) -> Path:
    """Copy the package into `directory` and apply the replacements to its macros."""
    package = directory / "dbt_backfill"
    shutil.copytree(REPOSITORY / "macros", package / "macros")
    shutil.copy(REPOSITORY / "dbt_project.yml", package)
    for path, text, instead in replacements:
        file = package / "macros" / path
        found = file.read_text()
        assert found.count(text) == 1, f"{path} contains {text!r} {found.count(text)} times"
        file.write_text(found.replace(text, instead))
    return directory
