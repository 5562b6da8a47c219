"""The exactness tests remove texts from the macros. Each of these texts must exist there."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pytest

from exactness.mutants import Replacement, mutated
from exactness.test_postgres import WRONG_ORDERS
from exactness.test_protections import PROTECTIONS

TAKEN_OUT = {
    **{protection.name: protection.replacements for protection in PROTECTIONS},
    **WRONG_ORDERS,
}


@pytest.mark.parametrize("replacements", TAKEN_OUT.values(), ids=TAKEN_OUT)
def test_it_is_there_to_be_taken_out(tmp_path: Path, replacements: Sequence[Replacement]) -> None:
    mutated(tmp_path, replacements)
