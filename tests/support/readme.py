"""What the README gives its readers to copy."""

from __future__ import annotations

import re
from typing import Any

import yaml

from support.project import REPOSITORY

README = REPOSITORY / "README.md"
LAKE = "/data/lake"
"""Where its session keeps everything."""


def yaml_blocks() -> list[Any]:
    texts = re.findall(r"^```yaml\n(.*?)^```", README.read_text(), re.MULTILINE | re.DOTALL)
    return [yaml.safe_load(text) for text in texts]


def session_output() -> dict[str, Any]:
    """The one profile of a session, as `profiles.yml` has it under `outputs`."""
    profiles = [block["my_profile"] for block in yaml_blocks() if "my_profile" in block]
    outputs = [profile["outputs"]["dev"] for profile in profiles]
    [output] = [output for output in outputs if output["method"] == "session"]
    return dict(output)


def iceberg_settings() -> dict[str, str]:
    """The lines that are added to it where plain names are Iceberg tables."""
    [settings] = [block for block in yaml_blocks() if "spark.sql.defaultCatalog" in block]
    return dict(settings)
