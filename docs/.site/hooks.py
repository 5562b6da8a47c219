"""Turn the pages of this repository, which GitHub shows as they are, into pages of MkDocs.

Some of them are outside docs/, links lead to files of the repository, and GitHub's Markdown
accepts lists that Python's does not.
"""

from __future__ import annotations

import posixpath
import re
from importlib.resources import files
from pathlib import Path

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.exceptions import PluginError
from mkdocs.structure.files import File, Files
from mkdocs.structure.pages import Page
from pymdownx.superfences import fence_code_format

REPOSITORY = Path(__file__).resolve().parents[2]
HERE = Path(__file__).resolve().parent

# The name of a repository's file on the site.
PAGES = {
    "README.md": "index.md",
    "docs/README.md": "contents.md",
    "example_project/README.md": "example_project.md",
    "example_cdc/README.md": "example_cdc.md",
    "benchmarks/README.md": "benchmarks.md",
    "benchmarks/RESULTS.md": "results.md",
    "CONTRIBUTING.md": "CONTRIBUTING.md",
    "CHANGELOG.md": "CHANGELOG.md",
}
IMAGES = {
    f"benchmarks/{image.name}": f"images/{image.name}"
    for image in sorted((REPOSITORY / "benchmarks").glob("results-*.svg"))
}
PLACES = {
    "docs/decisions": "contents.md#decisions",
    "example_project": "example_project.md",
    "example_cdc": "example_cdc.md",
}

LINK = re.compile(r"(\[(?:[^\[\]]|\[[^\]]*\])*\])\(([^)\s]+)\)")


def on_config(config: MkDocsConfig) -> None:
    config.mdx_configs["toc"]["slugify"] = _anchor
    config.mdx_configs["pymdownx.superfences"] = {
        "custom_fences": [{"name": "mermaid", "class": "mermaid", "format": fence_code_format}]
    }


def _anchor(heading: str, _: str) -> str:
    """The anchor of a heading, as on GitHub."""
    return re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-")


def on_files(files_: Files, config: MkDocsConfig) -> Files:
    for source in [file for file in files_ if file.src_uri == "README.md"]:
        files_.remove(source)
    for path, name in PAGES.items():
        files_.append(File.generated(config, name, content=(REPOSITORY / path).read_text()))
    for path, name in IMAGES.items():
        files_.append(File.generated(config, name, content=(REPOSITORY / path).read_bytes()))
    css = (HERE / "extra.css").read_text()
    files_.append(File.generated(config, "assets/extra.css", content=css))
    mermaid = files("mermaidx").joinpath("assets", "mermaid.js").read_text(encoding="utf-8")
    files_.append(File.generated(config, "assets/mermaid.min.js", content=mermaid))
    return files_


def on_post_page(output: str, page: Page, config: MkDocsConfig) -> None:
    """Fail if the page loads something: the site must work without a network."""
    loaded = re.findall(
        r"<(?:script|img|iframe|link)\b[^>]*(?:src|href)=.?((?:https?:)?//[^\s\">]+)", output
    )
    if loaded:
        raise PluginError(f"{page.file.src_uri} loads {', '.join(loaded)}")


def on_page_markdown(markdown: str, page: Page, config: MkDocsConfig, files: Files) -> str:
    path = next((p for p, name in PAGES.items() if name == page.file.src_uri), None)
    path = path or f"docs/{page.file.src_uri}"
    lines = []
    fence: str | None = None
    for line in markdown.splitlines():
        opens = re.match(r"^( *)```", line)
        if fence is None and not opens:
            lines += _prose(line, lines, path, page)
            continue
        if fence is None:
            assert opens is not None
            fence = opens[1]
            if fence:
                lines.append("")
        lines.append(_indented(line.removeprefix(fence), bool(fence)))
        if opens and lines[-1].strip() == "```":
            fence = None
    return "\n".join(lines) + "\n"


def _prose(line: str, before: list[str], path: str, page: Page) -> list[str]:
    """A line outside code; with a blank line before it if a list begins without one."""
    spaces = len(line) - len(line.lstrip(" "))
    text = " " * (4 * ((spaces + 1) // 2)) + line.lstrip(" ")
    text = LINK.sub(lambda m: _link(m, path, page), text)
    item = re.match(r"(\*|-|\d+\.) ", line)
    starts = item and before and before[-1].strip() and not re.match(r"(\*|-|\d+\.) | ", before[-1])
    return ["", text] if starts else [text]


def _indented(line: str, nested: bool) -> str:
    return f"    {line}" if nested and line else line


def _link(match: re.Match[str], path: str, page: Page) -> str:
    text, target = match.groups()
    in_code = match.string[: match.start()].count("`") % 2 == 1
    if in_code or re.match(r"[a-z]+:", target) or target.startswith("#"):
        return match[0]
    name, _, fragment = target.partition("#")
    found = posixpath.normpath(posixpath.join(posixpath.dirname(path), name))
    if found in PLACES:
        uri = PLACES[found]
    elif found in PAGES or found in IMAGES:
        uri = {**PAGES, **IMAGES}[found]
    elif found.startswith("docs/"):
        uri = found.removeprefix("docs/")
    else:
        return text[1:-1]  # the site has no copy of it
    uri = f"{uri}#{fragment}" if fragment else uri
    return f"{text}({posixpath.relpath(uri, posixpath.dirname(page.file.src_uri) or '.')})"
