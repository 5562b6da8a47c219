"""dbt's commands on three MVs: build, refresh one MV, fail and retry, defer, rename, clean up.

The second MV reads the first MV, and the third MV reads the second MV. The project sets
`query-comment`, so every statement ends with a comment.
"""

from __future__ import annotations

import json
import re
import shutil
from collections.abc import Callable
from typing import Any

import pytest
import yaml

from support.checks import (
    assert_refused,
    data_tests,
    existing_tables,
    model,
    source,
    tables_of,
)
from support.project import MakeProject, Project, RunResult, crash_before

SCHEMA = """
{% macro generate_schema_name(custom_schema_name, node) %}
    {{- target.schema }}_{{ var('env', 'prod') -}}
{% endmacro %}
"""
COMMENT = {"comment": "it's {{ node.name if node else 'dbt' }}; it's; --", "append": True}

FIRST = f"select id, city, n from {source('orders')}"
MIDDLE = "select id, city, n * 10 as n from {{ ref('first') }} where n < 100"
LAST = "select id, upper(city) as city, n + 1 as n from {{ ref('middle') }}"
REPORT = "select city, sum(n) as n from {{ ref('last') }} group by city"
HISTORY = """
{%% snapshot history %%}
{{ config(unique_key='id', strategy='check', check_cols=['n'], file_format='%s') }}
select * from {{ ref('last') }}
{%% endsnapshot %%}
"""
SELECTORS = "selectors: [{name: at_night, definition: {method: tag, value: nightly}}]"

PROPERTIES: dict[str, Any] = {
    "groups": [{"name": "sales", "owner": {"name": "Ann"}}],
    "exposures": [
        {
            "name": "dashboard",
            "type": "dashboard",
            "owner": {"name": "Ann"},
            "depends_on": ["ref('report')"],
        }
    ],
    "unit_tests": [
        {
            "name": "middle_takes_tens",
            "model": "middle",
            "given": [{"input": "ref('first')", "rows": [{"id": 1, "n": 2}, {"id": 2, "n": 100}]}],
            "expect": {"rows": [{"id": 1, "n": 20}]},
        }
    ],
}


@pytest.fixture(scope="module")
def project(shared_project: MakeProject) -> Project:
    project = shared_project("life")
    project.keeps_artifacts = True
    project.create_table("orders", "id int, city string, n int")
    row = "cast(id as int), concat('c', id % 3), cast(id as int)"
    project.sql(f"insert into {{schema}}.orders select {row} from range(1, 9)")
    path = project.root / "dbt_project.yml"
    path.write_text(yaml.safe_dump({**yaml.safe_load(path.read_text()), "query-comment": COMMENT}))
    return project.write(
        {
            "first": model(FIRST, tags=["nightly"], group="sales", access="public"),
            "middle": model(MIDDLE),
            "last": model(LAST, tags=["nightly"]),
            "report": f"{{{{ config(materialized='table') }}}} {REPORT}",
        },
        sources=["orders"],
        properties={**PROPERTIES, **data_tests(project, "first", "middle", "last")},
        files={
            "macros/schema.sql": SCHEMA,
            "snapshots/history.sql": HISTORY % project.file_format,
            "selectors.yml": SELECTORS,
        },
    )


def set_in_project(project: Project, name: str, value: Any) -> None:
    path = project.root / "dbt_project.yml"
    path.write_text(yaml.safe_dump({**yaml.safe_load(path.read_text()), name: value}))


def rows(project: Project, mv: str, env: str = "prod") -> list[tuple[Any, ...]]:
    return project.rows(f"select * from {{schema}}_{env}.{mv}")


def assert_chain_is_exact(project: Project) -> None:
    """Assert that each MV equals its query, and that the last MV equals one query over `orders`."""
    whole = "select id, upper(city), n * 10 + 1 from {schema}.orders where n < 100"
    assert rows(project, "last") == project.rows(whole)
    assert_each_follows_the_one_before(project)


def assert_each_follows_the_one_before(project: Project, middle: str = "n < 100") -> None:
    queries = {
        "first": "select id, city, n from {schema}.orders",
        "middle": f"select id, city, n * 10 from {{schema}}_prod.first where {middle}",
        "last": "select id, upper(city), n + 1 from {schema}_prod.middle",
    }
    for mv, query in queries.items():
        assert rows(project, mv) == project.rows(query), mv


def assert_leaves_no_views(project: Project) -> None:
    """Assert that the runs left no temporary views in the session, which all tests share."""
    left = [row["viewName"] for row in project.sql("show views") if row["isTemporary"]]
    assert [name for name in left if name.partition("__")[0] in ("first", "middle", "last")] == []


@pytest.fixture(scope="module")
def built(project: Project) -> RunResult:
    """Build the project, and keep a copy of `target`, to which later tests defer."""
    result = project.dbt("build", "--threads", "4")
    shutil.copytree(project.root / "target", project.root / "state")
    return result


def test_the_first_build_makes_and_tests_what_reads_one_another(
    project: Project, built: RunResult
) -> None:
    statuses = {node.name: node.status for node in built.nodes if node.status != "pass"}
    assert statuses == {
        **dict.fromkeys(("first", "middle", "last", "report", "history"), "success"),
        "dashboard": "no-op",
    }
    assert len(built.nodes) == len(statuses) + 7
    assert_chain_is_exact(project)
    assert rows(project, "report") == project.rows(
        "select upper(city), sum(n * 10 + 1) from {schema}.orders group by all"
    )
    assert project.value("select count(*) from {schema}_prod.history") == 8
    assert_leaves_no_views(project)


@pytest.mark.parametrize(
    ("arguments", "models"),
    [
        (("--selector", "at_night"), {"first", "last"}),
        (("--select", "+exposure:dashboard"), {"first", "middle", "last", "report"}),
        (("--select", "group:sales"), {"first"}),
    ],
)
def test_models_are_selected_as_any(
    project: Project, built: RunResult, arguments: tuple[str, str], models: set[str]
) -> None:
    assert built.success
    listed = project.dbt("ls", "--quiet", "--resource-type", "model", *arguments).output

    assert set(re.findall(r"^tested\.(\w+)$", listed, re.MULTILINE)) == models


def test_an_mv_in_the_middle_is_refreshed_and_the_last_one_follows_it(
    project: Project, built: RunResult
) -> None:
    """Every run updates the last MV, even while the middle MV has only a part of its rows."""
    assert built.success
    project.sql("update {schema}.orders set n = 50 where id = 2")
    project.sql("delete from {schema}.orders where id = 3")
    project.write({"middle": model(MIDDLE, full_refresh=True, backfill_rate_limit=3)})

    refreshed = project.run("--select", "first", "middle", "last", "--threads", "4")

    assert "full_refresh is true for this model, so every run empties the MV" in refreshed.output
    assert "middle [BARRIER 2 · 0.0 % · emptied: full refresh" in refreshed.output
    assert "last [BARRIER 2 · 100.0 % · " in refreshed.output
    assert "re-anchored: the upstream was r" in refreshed.output
    assert_each_follows_the_one_before(project, middle="n < 100 and id <= 4")
    project.write({"middle": model(MIDDLE)})


def test_a_build_that_fails_in_the_middle_is_retried(project: Project, built: RunResult) -> None:
    """After a failure, dbt does not run the remaining models, because of `--fail-fast`."""
    assert built.success
    project.sql("insert into {schema}.orders values (3, 'c3', 33), (9, 'c9', 99)")
    crash = crash_before("_prod.middle: commit the barrier")
    chain = ("--select", "first+", "--exclude", "resource_type:unit_test", "--threads", "4")

    failed = project.fail("build", *chain, "--fail-fast", intercept=crash)

    assert failed["first"].status == "success"
    assert failed["middle"].status == "error"
    assert failed["last"].status == "skipped"

    retried = project.dbt("retry")
    assert "first" not in {node.name for node in retried.nodes}
    assert retried.message("middle").endswith("(100.0 %)")
    assert {node.status for node in retried.nodes} <= {"success", "pass", "no-op"}
    assert_chain_is_exact(project)


def test_the_catalog_has_mvs_with_their_columns_and_no_state(
    project: Project, built: RunResult
) -> None:
    assert built.success
    project.dbt("docs", "generate")

    catalog = json.loads((project.root / "target" / "catalog.json").read_text())
    assert catalog["errors"] is None
    assert {node["metadata"]["name"] for node in catalog["nodes"].values()} == {
        "first", "middle", "last", "report", "history"
    }  # fmt: skip
    columns = catalog["nodes"]["model.tested.last"]["columns"]
    assert [(name, column["type"]) for name, column in columns.items()] == [
        ("id", "int"),
        ("city", "string"),
        ("n", "int"),
    ]


@pytest.mark.profiles("session-delta", reason="the session is the tests' own")
def test_an_operation_leaves_no_view(project: Project, built: RunResult) -> None:
    assert built.success
    project.operation("verify_backfill", model="first")

    staged = [row["viewName"] for row in project.sql("show views") if row["isTemporary"]]
    assert [name for name in staged if "differing" in name] == []


def test_an_empty_build_makes_the_tables_and_passes(project: Project, built: RunResult) -> None:
    assert built.success
    project.vars = {"env": "ci"}
    made = project.dbt("build", "--empty", "--select", "first")
    project.vars = {}

    assert made.message("first") == "NO-OP (--empty)"
    assert [node.status for node in made.nodes] == ["success", "pass", "pass"]
    assert rows(project, "first", "ci") == []


@pytest.fixture(scope="module")
def deferred(project: Project, built: RunResult) -> Project:
    """Change one MV, and switch to the environment `dev`, in which no table exists yet."""
    assert built.success
    project.vars = {"env": "dev"}
    return project.write({"middle": model(MIDDLE.replace("* 10", "* 100"))})


def defer(project: Project, *arguments: str, fails: bool = False) -> RunResult:
    state = ("--state", str(project.root / "state"))
    favor = [argument for argument in arguments if argument == "--favor-state"]
    rest = [argument for argument in arguments if argument not in favor]
    return project.dbt(*rest, "--defer", *favor, *state, expect=not fails)


def test_a_changed_mv_follows_an_upstream_that_is_deferred(deferred: Project) -> None:
    changed = ("--select", "state:modified", "report", "--exclude", "resource_type:unit_test")
    result = defer(deferred, "build", *changed)

    assert {node.name for node in result.nodes if node.status == "success"} == {
        "middle", "report"
    }  # fmt: skip
    shown = deferred.sql("show tables in {schema}_dev")
    made = {row["tableName"] for row in shown if not row["isTemporary"]}
    assert made - {"report"} == set(tables_of("middle"))
    hundreds = "select id, city, n * 100 from {schema}_prod.first where n < 100"
    assert rows(deferred, "middle", "dev") == deferred.rows(hundreds)
    assert rows(deferred, "report", "dev") == rows(deferred, "report")
    assert {n.status for n in defer(deferred, "test", "--select", "last").nodes} == {"pass"}


def test_an_upstream_that_is_there_by_now_is_another_one(deferred: Project) -> None:
    """The upstream now exists in both environments, so the user must choose one of the tables."""
    before = rows(deferred, "middle", "dev")
    deferred.run("--select", "first")

    refused = defer(deferred, "run", "--select", "middle", fails=True)
    assert_refused(refused, "middle", "its upstream changed from life_prod.first to life_dev.first")

    favored = defer(deferred, "run", "--select", "middle", "--favor-state")
    assert favored.message("middle") == "CAUGHT UP"
    assert rows(deferred, "middle", "dev") == before


def test_what_stands_in_a_schema_of_before_is_listed_where_it_is_named(deferred: Project) -> None:
    deferred.vars = {}
    listed = deferred.operation("backfill_orphans", schema="life_dev").output
    deferred.vars = {"env": "dev"}

    assert "2 orphans in life_dev, which no model of this project and target makes" in listed
    assert "drop_backfill --args '{mv: life_dev.middle}'" in listed


@pytest.mark.profiles(
    "session-delta", "session-iceberg", reason="a Hive metastore has no names to be quoted"
)
def test_names_are_quoted_as_the_project_says(new_project: Callable[[], Project]) -> None:
    """The metastore of Delta tables refuses special characters, so the Delta test uses a SQL
    keyword.
    """
    project = new_project()
    odd = "odd-name" if project.file_format == "iceberg" else "select"
    project.create_table("orders", "id int, city string, n int")
    project.sql("insert into {schema}.orders values (1, 'rome', 1), (2, 'oslo', 2)")
    set_in_project(project, "quoting", {"identifier": True, "schema": True})
    lower = model(FIRST, alias=odd, persist_docs={"relation": True, "columns": True})
    project.write(
        {"lower": lower, "upper": model("select id, n from {{ ref('lower') }}")},
        sources=["orders"],
        properties={
            "models": [{"name": "lower", "columns": [{"name": "id", "description": "a number"}]}]
        },
    )
    project.run()
    project.sql("update {schema}.orders set n = 20 where id = 2")

    followed = project.run()

    assert {node.message for node in followed.nodes} == {"BARRIER 2 (100.0 %)"}
    assert project.rows("select * from {schema}.upper") == [(1, 1), (2, 20)]
    for mv in ("lower", "upper"):
        verified = project.operation("verify_backfill", model=mv)
        assert f"{mv}: 2 rows compared, all equal" in verified.output
    project.operation("drop_backfill", model="lower")
    assert existing_tables(project, *tables_of(odd)) == []
    assert existing_tables(project, *tables_of("upper")) == [*tables_of("upper")]
