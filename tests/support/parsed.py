"""Let dbt reuse a parsed project with another profile that only differs in its schema.

python -m support.parsed run --project-dir ...     dbt itself, in a process of its own
"""

from __future__ import annotations

import contextlib
import signal
from collections.abc import Iterator
from dataclasses import replace
from typing import Any
from unittest.mock import patch

from dbt.artifacts.resources.base import FileHash
from dbt.cli.main import cli
from dbt.contracts.graph.manifest import ManifestStateCheck
from dbt.parser.manifest import ManifestLoader

PARSED = "partial_parse.msgpack"
"""The file in a target directory that contains the parsed project."""


@contextlib.contextmanager
def any_profile() -> Iterator[None]:
    build: Any = ManifestLoader.build_manifest_state_check

    def of_any_profile(self: ManifestLoader) -> ManifestStateCheck:
        state: ManifestStateCheck = build(self)
        return replace(state, profile_hash=FileHash.from_contents("any"))

    with patch.object(ManifestLoader, "build_manifest_state_check", of_any_profile):
        yield


if __name__ == "__main__":
    # A shell lets its background processes ignore Ctrl-C, and this process inherits that.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    with any_profile():
        cli()
