"""The pages of docs/ only show messages, commands, files and statements that exist."""

from __future__ import annotations

import re
from pathlib import Path

import click
import jinja2
import pytest
import yaml

from dbt.adapters.spark_backfill.cli.main import main
from support.messages import fixed_words, messages
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


def test_every_refusal_is_found_by_its_words() -> None:
    rows = re.findall(r"^\| `(.+?)` \|", (DOCS / "messages.md").read_text(), re.MULTILINE)
    assert len(rows) == len(set(rows))

    missing = {message: path for message, path in messages().items() if message not in rows}
    assert missing == {}, "docs/messages.md lacks these"
    assert set(rows) - set(messages()) == set(), "no macro says these any more"


@pytest.mark.parametrize(
    ("expression", "words"),
    [
        ("'its key ' ~ key ~ ' is null'", "its key … is null"),
        ('mv.render() ~ " isn\'t ours"', "… isn't ours"),
        ("'{:,}'.format(n) ~ ' rows' ~ ('s' if n else '')", "… rows…"),
    ],
)
def test_the_words_of_a_message_are_what_no_value_changes(expression: str, words: str) -> None:
    assert fixed_words(expression) == words


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
