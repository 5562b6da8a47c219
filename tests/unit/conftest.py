"""Unit tests call macros without Spark.

Their folders have the same names as the folders of `macros/`.
"""

from __future__ import annotations

import pytest

from support.macros import Macros


@pytest.fixture
def macros() -> Macros:
    """Return all macros of the package, with a mocked dbt; see `support/macros.py`."""
    return Macros()
