"""The location of the macros.

A wheel holds `macros/` and `dbt_project.yml` next to this file. In a checkout (an editable
install), both are only at the repository's top level, where `packages: - git:` needs them.
"""

from pathlib import Path

_HERE = Path(__file__).resolve().parent
_REPOSITORY = _HERE.parents[2]

PACKAGE_PATH = _HERE if (_HERE / "dbt_project.yml").is_file() else _REPOSITORY
