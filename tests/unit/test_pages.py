"""The pages of docs/ only show messages, commands, files and statements that exist."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path

import click
import jinja2
import pytest
import yaml

from dbt.adapters.spark_backfill.cli.main import main
from support.errors import PAGE, render, unexplained
from support.messages import errors, raised_texts
from support.pages import DOCS, Block, blocks
from support.project import REPOSITORY

PAGES = [REPOSITORY / "README.md", *sorted(DOCS.glob("*.md"))]
# Other programs that a page may ask its reader to run. `test_readme.py` checks their arguments.
PROGRAMS = {"cp", "export", "git", "make", "mkdir", "mv", "pip", "python", "python3.11"}


def blocks_of(language: str) -> list[object]:
    found = [(page, block) for page in PAGES for block in blocks(page)]
    return [
        pytest.param(page, block, id=f"{page.stem}-{number}")
        for number, (page, block) in enumerate(found)
        if block.language == language
    ]


def test_the_page_of_errors_has_the_messages_of_the_macros() -> None:
    """`make errors` writes the rows. Then each new row needs an explanation."""
    page = PAGE.read_text()

    assert render(page) == page, "run `make errors`"
    assert unexplained(page) == []


def test_an_anchor_of_the_page_of_errors_is_of_one_row() -> None:
    page = PAGE.read_text()
    anchors = re.findall(r'<a id="(.+?)">', page)
    headings = re.findall(r"^##+ (.+)$", page, re.MULTILINE)
    anchors += [re.sub(r"[^\w\- ]", "", text.lower()).replace(" ", "-") for text in headings]

    assert len(anchors) == len(set(anchors))


def test_a_new_refusal_gets_a_row_and_an_old_one_loses_it() -> None:
    page = PAGE.read_text()
    said = dict(errors())
    old = said.pop("view-fails")
    said["view-unread"] = replace(old, id="view-unread")

    rendered = render(page, said)

    assert unexplained(rendered) == ["view-unread"]
    assert '<a id="view-fails">' not in rendered
    lines = rendered.splitlines()
    [row] = [n for n, line in enumerate(lines) if '<a id="view-unread">' in line]
    assert "`its query reads the view …" in lines[row - 1]


def test_every_error_that_a_statement_raises_is_found_by_its_words() -> None:
    _, _, section = PAGE.read_text().partition("## Errors that a statement raises")
    section = section.partition("\n## ")[0]
    rows = re.findall(r'^\| <a id="raised-\S+"></a>`(.+?)` \|', section, re.MULTILINE)
    raised = [text for _, text in raised_texts()]
    found = [[all(part in text for part in row.split("…")) for text in raised] for row in rows]

    assert len(rows) > 5
    assert all(map(any, found)), "no statement says one of these any more"
    assert all(map(any, zip(*found, strict=True))), "docs/messages.md lacks one of these"


@pytest.mark.parametrize(("page", "block"), blocks_of("yaml"))
def test_yaml_is_yaml(page: Path, block: Block) -> None:
    assert yaml.safe_load(block.text) is not None


@pytest.mark.parametrize(("page", "block"), blocks_of("sql"))
def test_what_dbt_would_render_is_jinja(page: Path, block: Block) -> None:
    jinja2.Environment(extensions=["jinja2.ext.do"]).parse(block.text)


@pytest.mark.parametrize(("page", "block"), blocks_of("sh"))
def test_commands_are_those_of_dbt_and_their_operations_are_macros(
    page: Path, block: Block
) -> None:
    macros = "".join(path.read_text() for path in REPOSITORY.glob("macros/**/*.sql"))
    macros += "".join(b.text for b in blocks(page) if b.language == "sql")
    for command in block.commands:
        if command[0] == "dbt-backfill":
            assert main.get_command(click.Context(main), command[1]) is not None, command
        elif command[0] != "dbt":
            assert command[0] in PROGRAMS, command
        elif command[1] == "run-operation":
            assert re.search(rf"macro {command[2]}\(", macros), command
            if "--args" in command:
                arguments = yaml.safe_load(command[command.index("--args") + 1])
                assert isinstance(arguments, dict)
