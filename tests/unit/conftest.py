"""Unit tests call macros without Spark; they mirror the folders of `macros/`."""

from __future__ import annotations

import pytest

from support.macros import Macros


@pytest.fixture
def macros() -> Macros:
    """All macros of the package, with a mocked dbt; see `support/macros.py`."""
    return Macros()
