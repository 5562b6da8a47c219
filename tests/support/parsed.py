"""Let dbt reuse a parsed project with another profile that differs only in its schema.

python -m support.parsed run --project-dir ...     runs dbt itself in a separate process
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
    # A shell makes its background processes ignore Ctrl-C. This process would inherit that.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    with any_profile():
        cli()
