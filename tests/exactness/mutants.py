"""The package with other words in its macros: what the tests must then find wrong."""

from __future__ import annotations

import shutil
from collections.abc import Sequence
from pathlib import Path

from support.project import REPOSITORY

Replacement = tuple[str, str, str]
"""File under `macros/`, text that is in it exactly once, what replaces it."""


def mutated(directory: Path, replacements: Sequence[Replacement]) -> Path:
    """The package with these replacements, where dbt finds packages."""
    package = directory / "dbt_backfill"
    shutil.copytree(REPOSITORY / "macros", package / "macros")
    shutil.copy(REPOSITORY / "dbt_project.yml", package)
    for path, text, instead in replacements:
        file = package / "macros" / path
        found = file.read_text()
        assert found.count(text) == 1, f"{path} has {text!r} {found.count(text)} times"
        file.write_text(found.replace(text, instead))
    return directory
