"""Unit tests call macros without Spark. Their folders are the same as those of `macros/`."""

from __future__ import annotations

import pytest

from support.macros import Macros


@pytest.fixture
def macros() -> Macros:
    """All macros of the package, with a mocked dbt; see `support/macros.py`."""
    return Macros()
