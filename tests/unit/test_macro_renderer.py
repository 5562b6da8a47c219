"""The renderer that all unit tests use must behave as dbt does."""

from __future__ import annotations

from pathlib import Path

import jinja2
import pytest
from dbt_common.exceptions import CompilationError

from support.macros import Macros, Statement, Table


@pytest.fixture
def load(tmp_path: Path):  # type: ignore[no-untyped-def]
    """Return a function that makes `Macros` from texts. Each text becomes a file."""

    def load(*files: str) -> Macros:
        for number, text in enumerate(files):
            (tmp_path / f"{number}.sql").write_text(text)
        return Macros(tmp_path)

    return load


def test_a_macro_calls_one_of_another_file(load) -> None:  # type: ignore[no-untyped-def]
    macros = load(
        "{% macro outer(x) %}{{ return([dbt_backfill._inner(x), 'b']) }}{% endmacro %}",
        "{% macro _inner(x) %}{{ x }}1{% endmacro %}",
    )

    assert macros.call("outer", "a") == ["a1", "b"]


def test_an_unqualified_call_fails_as_in_an_installed_package(load) -> None:  # type: ignore[no-untyped-def]
    macros = load("{% macro f() %}1{% endmacro %}{% macro g() %}{{ f() }}{% endmacro %}")

    with pytest.raises(jinja2.UndefinedError, match="'f' is undefined"):
        macros.call("g")


def test_statements_are_recorded_and_answered(load) -> None:  # type: ignore[no-untyped-def]
    macros = load(
        "{% macro f() %}{% call statement('s', fetch_result=true) %}select 1{% endcall %}"
        "{% call statement('t', fetch_result=true) %}select 2{% endcall %}"
        "{{ return(load_result('s').table[0][0] + load_result('t').table[0][0]) }}{% endmacro %}"
    )
    macros.results = [[[40]], [[2]]]

    assert macros.call("f") == 42
    assert macros.statements == [Statement("s", "select 1"), Statement("t", "select 2")]


def test_a_refusal_raises(load) -> None:  # type: ignore[no-untyped-def]
    macros = load("{% macro f() %}{% do exceptions.raise_compiler_error('no') %}{% endmacro %}")

    with pytest.raises(CompilationError, match="no"):
        macros.call("f")


def test_a_stub_answers_instead_of_a_macro(load) -> None:  # type: ignore[no-untyped-def]
    macros = load(
        "{% macro f() %}1{% endmacro %}{% macro g() %}{{ dbt_backfill.f() }}{% endmacro %}"
    )
    macros.stub("f", lambda: 2)

    assert macros.call("g") == "2"
    with pytest.raises(KeyError, match="no macro h"):
        macros.stub("h", lambda: 2)


def test_tables_are_looked_up_and_not_among_the_statements(load) -> None:  # type: ignore[no-untyped-def]
    macros = load(
        "{% macro look_up() %}{% call statement('s') %}/* x */ show tblproperties lake.`t`"
        "{% endcall %}{{ return(load_result('s').table) }}{% endmacro %}"
        "{% macro find(name) %}{{ return(adapter.get_relation(none, 'lake', name)) }}{% endmacro %}"
    )
    macros.tables["lake.t"] = Table(file_format="iceberg", properties={"a": "1"})

    assert macros.call("look_up") == [("a", "1")]
    assert macros.statements == []
    assert macros.call("find", "t").is_iceberg
    assert macros.call("find", "u") is None


def test_a_materialization_is_a_macro(load) -> None:  # type: ignore[no-untyped-def]
    macros = load(
        "{% materialization mv, adapter='spark' %}{{ return({'relations': [this]}) }}"
        "{% endmaterialization %}"
    )

    assert macros.call("materialization_mv_spark") == {"relations": [macros.relation]}


def test_an_absent_key_of_a_dict_is_false_and_cannot_be_rendered(load) -> None:  # type: ignore[no-untyped-def]
    macros = load(
        "{% macro f(x) %}{{ 'yes' if x.a else 'no' }}{% endmacro %}"
        "{% macro g(x) %}{{ x.a }}{% endmacro %}"
    )

    assert macros.call("f", {}) == "no"
    with pytest.raises(jinja2.UndefinedError, match="no attribute 'a'"):
        macros.call("g", {})
    with pytest.raises(jinja2.UndefinedError, match="no attribute 'a'"):
        macros.call("f", "text")


def test_a_misspelt_variable_fails(load) -> None:  # type: ignore[no-untyped-def]
    macros = load("{% macro f(keys) %}{{ kyes }}{% endmacro %}")

    with pytest.raises(jinja2.UndefinedError, match="kyes"):
        macros.call("f", [])
