"""Options that are unknown, have a wrong type or contradict each other are refused by name."""

from __future__ import annotations

from typing import Any

import pytest

from support.checks import (
    assert_made_nothing,
    assert_refused,
    model,
    source,
)
from support.project import MakeProject, Project, RunResult

CASES: dict[str, tuple[dict[str, Any], tuple[str, ...]]] = {
    "misspelt_rate": ({"backfill_rate": 10}, ("'backfill_rate'", "backfill_rate_limit")),
    "misspelt_barriers": ({"barrier_per_run": 2}, ("'barrier_per_run'", "barriers_per_run")),
    "misspelt_vnodes": ({"vnodes": 4}, ("'vnodes'", "vnode_count")),
    "misspelt_check": ({"chek_key": False}, ("'chek_key'", "check_key")),
    "of_another_tool": ({"elementary": {"x": 1}}, ("'elementary'", "meta")),
    "schema_change": (
        {"on_configuration_change": "apply"},
        ("on_configuration_change has no effect on", "on_query_change"),
    ),
    "strategy": ({"incremental_strategy": "merge"}, ("incremental_strategy has no effect",)),
    "cluster_by": ({"cluster_by": "id"}, ("cluster_by has no effect on", "clustered_by")),
    "rate_negative": ({"backfill_rate_limit": -1}, ("backfill_rate_limit is -1", "0 or more")),
    "rate_text": ({"backfill_rate_limit": "100"}, ('backfill_rate_limit is "100"', "whole number")),
    "rate_fraction": ({"backfill_rate_limit": 1.5}, ("backfill_rate_limit is 1.5",)),
    "rate_boolean": ({"backfill_rate_limit": True}, ("backfill_rate_limit is true",)),
    "barriers_zero": ({"barriers_per_run": 0}, ("barriers_per_run is 0", "1 or more")),
    "barriers_text": ({"barriers_per_run": "some"}, ('barriers_per_run is "some"', "'all'")),
    "mode_unknown": (
        {"backfill_mode": "fast"},
        ('backfill_mode is "fast"', "arrangement or no_shuffle or snapshot"),
    ),
    "vnode_count_zero": ({"vnode_count": 0}, ("vnode_count is 0", "1 to 32768")),
    "vnode_count_large": ({"vnode_count": 32769}, ("vnode_count is 32769", "1 to 32768")),
    "vnodes_beyond": ({"backfill_vnodes": [0, 4]}, ("vnode 4", "0 to 3")),
    "vnodes_text": ({"backfill_vnodes": "0-"}, ('backfill_vnodes is "0-"', "'0-15,32'")),
    "vnodes_empty": ({"backfill_vnodes": []}, ("backfill_vnodes is []",)),
    "vnodes_no_shuffle": (
        {"backfill_vnodes": [0], "backfill_mode": "no_shuffle"},
        ("backfill_vnodes needs a position per vnode", "no_shuffle"),
    ),
    "check_key_text": ({"check_key": "no"}, ('check_key is "no"', "true or false")),
    "query_change_unknown": (
        {"on_query_change": "apply"},
        ('on_query_change is "apply"', "fail or rebuild"),
    ),
    "format_unknown": ({"file_format": "parquet"}, ('file_format is "parquet"', "delta")),
    "append_only": (
        {"tblproperties": {"delta.appendOnly": True}},
        ("tblproperties have 'delta.appendOnly': 'True'", "set it to false"),
    ),
    "key_empty": ({"unique_key": []}, ("unique_key is missing",)),
    "key_twice": ({"unique_key": ["id", "id"]}, ("unique_key is", "different columns")),
    "upstream_key_longer": (
        {"upstream_key": ["id", "name"]},
        ("upstream_key has 2 columns, but unique_key has 1",),
    ),
}


FOLDER = "set_for_a_folder"


@pytest.fixture(scope="module")
def project(shared_project: MakeProject) -> Project:
    project = shared_project("refused_config")
    project.create_table("people", "id int, name string")
    query = f"select id, name from {source('people')}"
    models = {name: model(query, **options) for name, (options, _) in CASES.items()}
    models[FOLDER] = model(query)
    config = {"incremental_strategy": "merge", "elementary": {"x": 1}, "on_schema_change": "ignore"}
    properties = {"models": [{"name": FOLDER, "config": config}]}
    return project.write(models, sources=["people"], properties=properties)


@pytest.fixture(scope="module")
def run(project: Project) -> RunResult:
    return project.fail()


@pytest.mark.parametrize("name", CASES)
def test_an_option_that_cannot_be_meant_is_refused(
    project: Project, run: RunResult, name: str
) -> None:
    _, facts = CASES[name]

    assert_refused(run, name, *facts)
    assert_made_nothing(project, name)


def test_what_may_be_set_for_others_is_no_error(run: RunResult) -> None:
    """dbt does not show if `incremental_strategy` was set for this model or for its whole folder.

    So the package only warns.
    """
    assert run[FOLDER].status == "success", run.message(FOLDER)
    [warning] = [line for line in run.messages if f"backfilled_mv {FOLDER}: " in line]
    assert "incremental_strategy is set for this model, but has no effect on a" in warning


@pytest.mark.profiles("session-delta", "thrift-delta", reason="it is a setting of Delta")
def test_a_session_whose_merges_add_columns_is_refused(project: Project) -> None:
    setting = "spark.databricks.delta.schema.autoMerge.enabled"
    project.write({"evolving": model(f"select id, name from {source('people')}")})
    project.configure({setting: "true"})
    try:
        refused = project.fail("--select", "evolving")
    finally:
        project.configure({setting: "false"})

    assert_refused(refused, "evolving", f"the session has {setting} on", "Set it to false")
    assert_made_nothing(project, "evolving")


@pytest.mark.profiles("session-delta", reason="it is a setting of Delta and of the session")
def test_a_session_that_skips_repeated_writes_is_refused(project: Project) -> None:
    """In such a session, Delta skips the second MERGE of a barrier, but the run commits it."""
    settings = {f"spark.databricks.delta.write.txn{name}": "7" for name in ("AppId", "Version")}
    project.write({"skipped": model(f"select id, name from {source('people')}")})
    for makes_nothing in (True, False):
        if not makes_nothing:
            project.run("--select", "skipped")
        project.configure(settings)
        try:
            refused = project.fail("--select", "skipped")
        finally:
            for name in settings:
                del project.settings[name]
                project.sql(f"reset {name}")
            project.configure({})
        assert_refused(refused, "skipped", "spark.databricks.delta.write.txnAppId", "Unset it")
        if makes_nothing:
            assert_made_nothing(project, "skipped")
