"""The models that a run-operation accepts."""

from __future__ import annotations

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any, NoReturn

import pytest
from dbt_common.exceptions import CompilationError

from support.macros import Macros
from support.messages import facts_of


def node(name: str, package: str = "ours", **config: Any) -> dict[str, Any]:
    return {
        "unique_id": f"model.{package}.{name}",
        "resource_type": "model",
        "package_name": package,
        "name": name,
        "alias": name,
        "schema": "lake",
        "config": {"materialized": "backfilled_mv", **config},
    }


@pytest.fixture
def graph(macros: Macros) -> Callable[..., None]:
    def graph(*nodes: dict[str, Any]) -> None:
        found = {each["unique_id"]: each for each in nodes}
        macros.context["graph"] = SimpleNamespace(nodes=found)

    return graph


def refusal(macros: Macros, macro: str, *arguments: Any) -> str:
    with pytest.raises(CompilationError) as raised:
        macros.call(macro, *arguments)
    return facts_of(raised.value.msg)


@pytest.mark.parametrize("name", ["mv", "ours.mv"])
def test_a_model_is_found_by_its_name_with_or_without_its_package(
    macros: Macros, graph: Callable[..., None], name: str
) -> None:
    graph(node("other"), node("mv"), node("mv2"))

    assert (
        macros.call("find_backfilled_mv", name, "verify_backfill")["unique_id"] == "model.ours.mv"
    )


def test_a_model_with_versions_is_found_by_the_name_of_one(
    macros: Macros, graph: Callable[..., None]
) -> None:
    versions = [
        {**node("mv"), "version": version, "unique_id": f"model.ours.mv.v{version}"}
        for version in (1, "2b")
    ]
    graph(*versions)

    for name in ("mv.v2b", "ours.mv.v2b"):
        assert macros.call("find_backfilled_mv", name, "verify_backfill")["version"] == "2b"
    assert refusal(macros, "find_backfilled_mv", "mv", "verify_backfill") == (
        "backfilled_mv mv: there are 2 models of this name. Name one of ours.mv.v1, ours.mv.v2b."
    )


def test_a_name_that_two_packages_have_is_refused(
    macros: Macros, graph: Callable[..., None]
) -> None:
    graph(node("mv"), node("mv", "theirs"))

    assert refusal(macros, "find_backfilled_mv", "mv", "verify_backfill") == (
        "backfilled_mv mv: there are 2 models of this name. Name one of ours.mv, theirs.mv."
    )


@pytest.mark.parametrize("name", [None, "", ["mv"]])
def test_a_name_has_to_be_given(macros: Macros, name: Any) -> None:
    assert refusal(macros, "find_backfilled_mv", name, "verify_backfill") == (
        "backfilled_mv verify_backfill: the argument model is missing. Name the model:"
        " --args '{model: my_mv}'."
    )


def test_a_model_of_another_materialization_is_refused(
    macros: Macros, graph: Callable[..., None]
) -> None:
    graph(node("mv", materialized="table"))

    assert refusal(macros, "find_backfilled_mv", "mv", "verify_backfill").startswith(
        "backfilled_mv mv: its materialization is 'table', so it is not a backfilled_mv. "
    )


def test_the_maker_of_a_table_is_found_by_its_alias_in_any_case_of_letters(
    macros: Macros, graph: Callable[..., None], up: Any
) -> None:
    seed = {**node("seeded"), "alias": "UP", "resource_type": "seed"}
    elsewhere = {**node("elsewhere"), "alias": "up", "schema": "other"}
    ephemeral = {**node("ephemeral", materialized="ephemeral"), "alias": "up"}
    graph(elsewhere, ephemeral, seed, node("mv"))

    assert macros.call("find_maker", up)["name"] == "seeded"
    assert macros.call("find_maker", up, ["model"]) is None


@pytest.mark.parametrize("url", [None, "https://docs.example.com/messages.html"])
@pytest.mark.parametrize("adapter", ["spark", "spark_backfill"])
def test_the_last_line_of_a_refusal_is_the_place_to_read(
    macros: Macros, url: str | None, adapter: str
) -> None:
    if url:
        macros.context["var"] = {"backfill_docs_url": url}.get
    macros.context["adapter"] = SimpleNamespace(type=lambda: adapter, refuse=_raise)
    with pytest.raises(CompilationError) as raised:
        macros.call("refuse", "it has no key", "Name its key", id="key-missing")

    assert raised.value.msg == (
        "backfilled_mv mv: it has no key. Name its key.\n"
        f"See {url or 'docs/messages.md'}#key-missing"
    )


def test_a_check_is_refused_with_its_id(macros: Macros) -> None:
    checks = [
        {"when": when, "id": id, "fact": "a fact", "change": "Change it"}
        for when, id in [(False, "first-check"), (True, "second-check"), (True, "third-check")]
    ]
    with pytest.raises(CompilationError, match=r"#second-check$"):
        macros.call("refuse_first", checks)


def test_several_wrong_options_lead_to_the_first(macros: Macros) -> None:
    macros.config.update(unique_key=None, check_key="no")
    with pytest.raises(CompilationError, match=r"#unique-key-missing$"):
        macros.call("read_config")


def _raise(message: str) -> NoReturn:
    raise CompilationError(message)
