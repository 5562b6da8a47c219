"""The profiles and settings that a reader copies from docs/install.md and docs/profiles.md."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import yaml

from support.project import REPOSITORY

INSTALL = REPOSITORY / "docs" / "install.md"
PROFILES = REPOSITORY / "docs" / "profiles.md"
LAKE = "/data/lake"
"""The directory of the lake in the profile of a session."""


def yaml_blocks(page: Path) -> list[Any]:
    texts = re.findall(r"^```yaml\n(.*?)^```", page.read_text(), re.MULTILINE | re.DOTALL)
    return [yaml.safe_load(text) for text in texts]


def session_output(page: Path = PROFILES) -> dict[str, Any]:
    """Return the profile of a page that uses a session, as an entry of `outputs`."""
    profiles = [block["my_profile"] for block in yaml_blocks(page) if "my_profile" in block]
    outputs = [profile["outputs"]["dev"] for profile in profiles]
    [output] = [output for output in outputs if output["method"] == "session"]
    return dict(output)


def iceberg_settings() -> dict[str, str]:
    """Return the settings that make this profile create Iceberg tables by default."""
    [settings] = [block for block in yaml_blocks(PROFILES) if "spark.sql.defaultCatalog" in block]
    return dict(settings)
