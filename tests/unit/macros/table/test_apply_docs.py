"""Comments are only written if they have changed, because each comment is a commit of the MV."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from support.macros import Macros


@pytest.fixture
def apply(macros: Macros, backfill: dict[str, Any]) -> Any:
    """Apply the docs of a model. Return the recorded hash, or None if nothing was written."""
    macros.context["validate_doc_columns"] = lambda relation, columns, present: {
        name: column for name, column in columns.items() if name.lower() in present
    }

    def apply(
        description: str = "it's flights",
        key: str = "key",
        docs: str | None = None,
        made: bool = False,
        present: str = "k: bigint, undescribed: string",
    ) -> str | None:
        columns = {"K": key, "undescribed": "", "gone": "not in the MV"}
        macros.context["model"] = SimpleNamespace(
            name="mv",
            description=description,
            columns={name: SimpleNamespace(description=text) for name, text in columns.items()},
        )
        macros.statements.clear()
        state = {"committed": {"query_columns": present}}
        macros.call("apply_docs", backfill, None if made else {"docs": docs}, state)
        if not macros.statements:
            return None
        return macros.statements[-1].sql.split("'dbt_backfill.docs' = '")[1].split("'")[0]

    return apply


def test_docs_are_written_once(macros: Macros, apply: Any) -> None:
    macros.config["persist_docs"] = {"relation": True, "columns": True}

    noted = apply()

    assert noted
    assert "comment on table lake.mv is 'it\\'s flights'" in macros.statements[0].sql
    assert "alter table lake.mv alter column `K` comment 'key'" in macros.statements[1].sql
    assert len(macros.statements) == 3
    assert apply(docs=noted) is None


def test_docs_are_written_again_once_they_changed(macros: Macros, apply: Any) -> None:
    macros.config["persist_docs"] = {"relation": True}
    noted = apply()

    assert apply("departures", docs=noted) not in (None, noted)
    assert apply(key="another", docs=noted) is None  # the model does not persist docs of columns


def test_docs_of_columns_are_written_again_once_they_changed(macros: Macros, apply: Any) -> None:
    macros.config["persist_docs"] = {"columns": True}
    noted = apply()

    assert apply(key="another", docs=noted) not in (None, noted)
    assert apply("departures", docs=noted) is None


def test_a_comment_goes_with_its_description(macros: Macros, apply: Any) -> None:
    """A column without a description gets an empty comment, because it may have had a comment
    before. A new MV gets no empty comments.
    """
    macros.config["persist_docs"] = {"columns": True}
    noted = apply()
    assert not any("undescribed" in statement.sql for statement in macros.statements)

    assert apply(key="", docs=noted) not in (None, noted)
    written = [statement.sql for statement in macros.statements[:-1]]
    assert [sql.split(" alter column ")[1].strip() for sql in written] == [
        "`K` comment ''",
        "`undescribed` comment ''",
    ]


def test_docs_are_written_again_to_an_mv_that_was_made_anew(macros: Macros, apply: Any) -> None:
    macros.config["persist_docs"] = {"relation": True}
    noted = apply()

    assert apply(docs=noted) is None
    assert apply(made=True) == noted
