"""The profiles and settings that a reader copies from the README and from docs/profiles.md."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import yaml

from support.project import REPOSITORY

README = REPOSITORY / "README.md"
PROFILES = REPOSITORY / "docs" / "profiles.md"
LAKE = "/data/lake"
"""The directory of the lake in the README's profile."""


def yaml_blocks(page: Path) -> list[Any]:
    texts = re.findall(r"^```yaml\n(.*?)^```", page.read_text(), re.MULTILINE | re.DOTALL)
    return [yaml.safe_load(text) for text in texts]


def session_output() -> dict[str, Any]:
    """Return the README's profile, which uses a session, as an entry of `outputs`."""
    [profile] = [block["my_profile"] for block in yaml_blocks(README) if "my_profile" in block]
    return dict(profile["outputs"]["dev"])


def iceberg_settings() -> dict[str, str]:
    """Return the settings that make this profile create Iceberg tables by default."""
    [settings] = [block for block in yaml_blocks(PROFILES) if "spark.sql.defaultCatalog" in block]
    return dict(settings)
