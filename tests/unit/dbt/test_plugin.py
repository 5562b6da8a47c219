"""The features that the adapter plugin adds to dbt-spark."""

from __future__ import annotations

import json
from dataclasses import fields
from decimal import Decimal
from functools import partial
from types import SimpleNamespace
from typing import Any

import pytest
import yaml
from dbt.adapters.spark.impl import SparkConfig
from dbt_common.exceptions import CompilationError, DbtRuntimeError

from dbt.adapters.spark_backfill import Plugin, SparkBackfillAdapter
from dbt.adapters.spark_backfill.config import SparkBackfillConfig
from dbt.adapters.spark_backfill.errors import RefusalError, SparkStatementError
from dbt.include.spark_backfill import PACKAGE_PATH
from support.macros import Macros


def barrier_response(message: str, **values: Any) -> Any:
    return SparkBackfillAdapter.barrier_response(None, message, **values)  # type: ignore[arg-type]


def test_a_response_is_json_with_numbers_as_numbers() -> None:
    response = barrier_response(
        "BARRIER 3 (40.0 %)",
        kind="advance",
        epoch=Decimal(3),
        progress=Decimal("0.4"),
        backfill_finished=False,
        rows_backfilled="50000",
        rows_changed=Decimal(7),
        rows_deleted=None,
        upstream_version=17,
    )

    assert str(response) == "BARRIER 3 (40.0 %)"
    assert json.loads(json.dumps(response.to_dict(omit_none=True))) == {
        "_message": "BARRIER 3 (40.0 %)",
        "code": "BARRIER",
        "rows_affected": 50007,
        "kind": "advance",
        "epoch": 3,
        "progress": 0.4,
        "backfill_finished": False,
        "rows_backfilled": 50000,
        "rows_changed": 7,
        "upstream_version": "17",
    }


def test_a_run_without_barriers_is_none() -> None:
    assert barrier_response("CAUGHT UP", barriers=0).code == "NO-OP"
    assert barrier_response("BARRIER 3 (40.0 %)", barriers=Decimal(1)).code == "BARRIER"


def test_a_response_has_no_other_fields() -> None:
    with pytest.raises(DbtRuntimeError, match="no field rows_backfiled"):
        barrier_response("", rows_backfiled=1)


@pytest.mark.parametrize("stops", [False, True])
def test_an_attempt_returns_the_error_unless_dbt_is_being_stopped(stops: bool) -> None:
    def execute(sql: str, auto_begin: bool, fetch: bool) -> Any:
        if sql == "fails":
            raise SparkStatementError("[DISK] full")
        return "OK", [[sql, fetch]]

    stop = SimpleNamespace(is_set=stops)
    adapter = SimpleNamespace(execute=execute, connections=SimpleNamespace(stop=stop))
    attempt = partial(SparkBackfillAdapter.attempt, adapter)  # type: ignore[arg-type]

    assert attempt("works") == {"table": [["works", True]], "error": None}
    if not stops:
        assert attempt("fails") == {"table": None, "error": "[DISK] full"}
        return
    with pytest.raises(SparkStatementError):
        attempt("fails")


def test_a_refusal_has_dbts_heading_and_no_macros(macros: Macros) -> None:
    """For a `CompilationError`, dbt would add one line for each macro."""
    macros.context["adapter"] = SimpleNamespace(
        type=lambda: "spark_backfill",
        refuse=partial(SparkBackfillAdapter.refuse, None),
    )
    with pytest.raises(RefusalError) as raised:
        macros.call("refuse", "a fact", "A change", id="some-fact")

    raised.value.add_node(SimpleNamespace(resource_type="model", name="mv"))
    assert str(raised.value) == (
        "Compilation Error in model mv\n"
        "  backfilled_mv mv: a fact. A change.\n"
        "  See docs/messages.md#some-fact"
    )
    assert not isinstance(raised.value, CompilationError)


def test_the_bundled_macros_are_not_internal_to_dbt() -> None:
    """If the two names were equal, dbt could not resolve `dbt_backfill.x()`."""
    project = yaml.safe_load((PACKAGE_PATH / "dbt_project.yml").read_text())

    assert project["name"] == "dbt_backfill"
    assert Plugin.project_name != project["name"]


def test_every_option_of_the_macros_has_a_typed_config(macros: Macros) -> None:
    macros.config.update(unique_key="id")
    options = macros.call("read_config")
    for name in ("unique_key", "on_schema_change"):  # dbt's own
        del options[name]
    own = {f.name: f.default for f in fields(SparkBackfillConfig)}

    assert set(options) <= set(own)
    assert {f.name for f in fields(SparkConfig)} <= set(own)
    assert {name: own[name] for name in options} == options
