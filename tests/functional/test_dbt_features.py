"""The features that dbt and dbt-spark have for tables also work for a `backfilled_mv`."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from support.checks import (
    assert_made_nothing,
    assert_refused,
    assert_writes_nothing,
    existing_tables,
    model,
    source,
    tables_of,
)
from support.profiles import not_on_hadoop
from support.project import MakeProject, Project, RunResult, crash_before

QUERY = f"select id, name, city from {source('people')}"
DESCRIPTION = 'People who aren\'t "gone": 100 % of ${them}, C:\\new'

AUDIT = "insert into {{ this.schema }}.audit select '%s', %s"
COUNT = "(select count(*) from {{ this }})"


def outside(sql: str) -> dict[str, Any]:
    """Return a dbt hook that runs outside a transaction, like `before_begin` and `after_commit`."""
    return {"sql": sql, "transaction": False}


MODELS = {
    "hooked": model(
        QUERY,
        pre_hook=[AUDIT % ("before", "-1"), outside(AUDIT % ("begin", "-2"))],
        post_hook=[
            outside(AUDIT % ("committed", COUNT)),
            AUDIT % ("after", COUNT),
            "select count(*) from {{ ref('protected') }}",
        ],
        tags=["nightly"],
    ),
    "dressed": model(
        QUERY,
        alias="dressed_up",
        tblproperties={"team": "it's ours"},
        partition_by="city",
        persist_docs={"relation": True, "columns": True},
    ),
    "protected": model(QUERY, full_refresh=False),
    "kept_contract": model(QUERY, contract={"enforced": True}),
    "broken_contract": model(QUERY, contract={"enforced": True}),
    "short_contract": model(QUERY, contract={"enforced": True}),
    "constrained": model(QUERY),
    "misconstrained": model(QUERY),
    "versioned_v2": model(QUERY),
    "limited": model(QUERY, backfill_rate_limit=2, barriers_per_run="all"),
    "granted": model(QUERY, grants={"select": ["bob"]}),
    "headed": "{% call set_sql_header(config) %} set a = 1 {% endcall %}" + model(QUERY),
    "elsewhere": model(QUERY, database="other"),
    "taken": model(QUERY),
    "taken__progress": "{{ config(materialized='table') }} select 1 as id",
}

LAYOUTS = {
    "clustered": model(QUERY, clustered_by=["city", "id"]),
    "bucketed": model(QUERY, clustered_by="id", buckets=4),
    "laid_out_twice": model(QUERY, clustered_by="id", partition_by="city"),
}

REFUSED = {
    "headed": ("sql_header has no effect on a backfilled_mv", "Set a pre_hook"),
    "elsewhere": ("database has no effect on a backfilled_mv",),
    "taken": (".taken__progress is the name of its state", "the model taken__progress creates"),
}

PEOPLE_COLUMNS = [
    {"name": "id", "data_type": "int"},
    {"name": "name", "data_type": "string"},
    {"name": "city", "data_type": "string"},
]

PROPERTIES: dict[str, Any] = {
    "models": [
        {
            "name": "dressed",
            "description": DESCRIPTION,
            "columns": [
                {"name": "id", "description": "The person's number"},
                {"name": "name", "description": DESCRIPTION},
            ],
        },
        {"name": "versioned", "versions": [{"v": 2}]},
        {"name": "kept_contract", "columns": PEOPLE_COLUMNS},
        {
            "name": "constrained",
            "config": {"contract": {"enforced": True}},
            "columns": [
                {**column, "constraints": [{"type": "not_null"}] if number < 2 else []}
                for number, column in enumerate(PEOPLE_COLUMNS)
            ],
            "constraints": [{"type": "check", "name": "Known", "expression": "city <> 'nowhere'"}],
        },
        {
            "name": "misconstrained",
            "config": {"contract": {"enforced": True}},
            "columns": PEOPLE_COLUMNS,
            "constraints": [{"type": "check", "expression": "town <> 'nowhere'"}],
        },
        {
            "name": "broken_contract",
            "columns": [{"name": "id", "data_type": "bigint"}, *PEOPLE_COLUMNS[1:]],
        },
        {"name": "short_contract", "columns": PEOPLE_COLUMNS[:2]},
    ],
    "unit_tests": [
        {
            "name": "hooked_carries_all_columns",
            "model": "hooked",
            "given": [
                {
                    "input": "source('lake', 'people')",
                    "rows": [{"id": 7, "name": "gil", "city": "rome"}],
                }
            ],
            "expect": {"rows": [{"id": 7, "name": "gil", "city": "rome"}]},
        }
    ],
}


@pytest.fixture(scope="module")
def location(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("located")


@pytest.fixture(scope="module")
def project(shared_project: MakeProject, location: Path) -> Project:
    project = shared_project("features")
    project.keeps_artifacts = True
    project.create_table("people", "id int, name string, city string")
    project.sql(
        "insert into {schema}.people values (1, 'ann', 'rome'), (2, 'bob', 'oslo'),"
        " (3, 'cid', 'oslo')"
    )
    project.create_table("audit", "event string, rows int")
    if project.file_format == "delta":
        project.write(LAYOUTS)
    if project.lake.profile.name in not_on_hadoop.args:
        project.write({"located": model(QUERY, location_root=str(location))})
    return project.write(MODELS, sources=["people"], properties=PROPERTIES)


@pytest.fixture(scope="module")
def first(project: Project) -> RunResult:
    """Run all models of the project in four threads."""
    return project.dbt("run", "--threads", "4", expect=False)


def partition_columns(project: Project, table: str) -> list[str]:
    rows = [row["col_name"] for row in project.sql(f"describe extended {{schema}}.{table}")]
    if "# Partition Information" not in rows:
        return []
    below = rows[rows.index("# Partition Information") + 1 :]
    return [name for name in below[: below.index("")] if not name.startswith("#")]


def comment(project: Project, table: str) -> str:
    [found] = [
        row["data_type"]
        for row in project.sql(f"describe extended {{schema}}.{table}")
        if row["col_name"] == "Comment"
    ]
    return str(found)


def column_comments(project: Project, table: str) -> dict[str, str | None]:
    return {row["col_name"]: row["comment"] for row in project.sql(f"describe {{schema}}.{table}")}


def test_hooks_run_before_and_after_the_barrier(project: Project, first: RunResult) -> None:
    assert first["hooked"].status == "success", first.message("hooked")
    assert project.rows("select * from {schema}.audit") == [
        ("after", 3),
        ("before", -1),
        ("begin", -2),
        ("committed", 3),
    ]


@pytest.mark.parametrize("name", REFUSED)
def test_what_would_do_nothing_or_harm_is_refused(
    project: Project, first: RunResult, name: str
) -> None:
    assert_refused(first, name, *REFUSED[name])
    made = ["taken__progress"] if name == "taken" else []
    assert existing_tables(project, *tables_of(name)) == made


@pytest.mark.profiles("session-delta", "thrift-delta", reason="Delta has no such layout")
def test_a_layout_that_there_is_not_is_refused(project: Project, first: RunResult) -> None:
    assert_refused(first, "bucketed", "buckets is 4, but a Delta table has no buckets")
    assert_refused(first, "laid_out_twice", "partition_by and clustered_by are both set")
    for name in ("bucketed", "laid_out_twice"):
        assert_made_nothing(project, name)


@pytest.mark.parametrize("selector", ["tag:nightly", "config.materialized:backfilled_mv"])
def test_models_are_selected_by_tag_and_materialization(project: Project, selector: str) -> None:
    listed = project.dbt("ls", "--quiet", "--resource-type", "model", "--select", selector).output

    assert "tested.hooked" in listed
    assert ("tested.protected" in listed) == (selector != "tag:nightly")


def test_an_alias_names_all_three_tables(project: Project, first: RunResult) -> None:
    assert first["dressed"].status == "success", first.message("dressed")
    for table in tables_of("dressed_up"):
        assert project.exists(table)
    assert not project.exists("dressed")


def test_a_version_of_a_model_is_called_as_dbt_calls_it(project: Project, first: RunResult) -> None:
    assert "versioned.v2 [BARRIER 1 " in first.output
    for table in tables_of("versioned_v2"):
        assert project.exists(table)

    verified = project.dbt("run-operation", "verify_backfill", "--args", "{model: versioned.v2}")
    assert "versioned.v2: 3 rows" in verified.output


@pytest.mark.every_profile
def test_table_properties_and_partitions_are_the_users(project: Project, first: RunResult) -> None:
    assert first["dressed"].status == "success", first.message("dressed")

    assert project.table_properties("dressed_up")["team"] == "it's ours"
    assert partition_columns(project, "dressed_up") == ["city"]
    for table in ("dressed_up__progress", "dressed_up__barriers"):
        assert partition_columns(project, table) == []


def test_a_column_that_was_described_before_it_came_gets_its_comment(
    new_project: Callable[[], Project],
) -> None:
    """dbt's own list of columns ends at a column whose name begins with `#`.

    The new column comes after such a column.
    """
    project = new_project()
    mapped = {"delta.columnMapping.mode": "name"}
    project.create_table("visits", "id int, `#at` int, place string", mapped)
    project.sql("insert into {schema}.visits values (1, 2, 'a')")
    described = [{"name": name, "description": f"its {name}"} for name in ("id", "place")]
    config = {"on_schema_change": "append_new_columns", "persist_docs": {"columns": True}}

    def write(columns: str) -> None:
        query = model(f"select {columns} from {source('visits')}", **config)
        properties = {"models": [{"name": "mv", "columns": described}]}
        project.write({"mv": query}, sources=["visits"], properties=properties)
        project.run()

    write("id, `#at`")
    write("id, `#at`, place")
    comments = column_comments(project, "mv")
    assert (comments["id"], comments["place"]) == ("its id", "its place")


@pytest.mark.profiles("session-delta", "thrift-delta", reason="only Delta clusters so")
def test_clustered_by_without_buckets_is_liquid_clustering(
    project: Project, first: RunResult
) -> None:
    assert first["clustered"].status == "success", first.message("clustered")
    [detail] = project.sql("describe detail {schema}.clustered")
    assert detail["clusteringColumns"] == ["city", "id"]


@not_on_hadoop
def test_the_three_tables_lie_side_by_side_in_a_location_of_the_users(
    first: RunResult, location: Path
) -> None:
    assert first["located"].status == "success", first.message("located")
    assert sorted(path.name for path in location.iterdir()) == [
        "located",
        "located__barriers",
        "located__progress",
    ]


@pytest.mark.profiles("session-delta", "thrift-delta", reason="Iceberg rebuilds it elsewhere")
def test_a_table_in_a_location_is_rebuilt_where_it_stands(
    project: Project, first: RunResult, location: Path
) -> None:
    assert first["located"].status == "success", first.message("located")
    project.write({"located": model(QUERY, location_root=str(location / "other"))})
    refused = project.fail("--select", "located", "--full-refresh")
    assert_refused(refused, "located", "the table is at file:", "it would be at", "drop the table")
    project.write({"located": model(QUERY, location_root=f"{location}/")})

    rebuilt = project.run("--select", "located", "--full-refresh")

    assert rebuilt.message("located") == "BARRIERS 2 to 3 (100.0 %)"
    assert project.rows("select * from {schema}.located") == project.rows(
        "select id, name, city from {schema}.people"
    )


@pytest.mark.core("session-iceberg")
@pytest.mark.every_profile
def test_docs_are_persisted_once_and_again_when_they_change(
    project: Project, first: RunResult
) -> None:
    assert first.nodes
    columns = column_comments(project, "dressed_up")
    assert comment(project, "dressed_up") == DESCRIPTION
    assert columns["id"] == "The person's number"
    assert columns["name"] == DESCRIPTION

    caught_up = assert_writes_nothing(
        project, lambda: project.run("--select", "dressed"), mv="dressed_up"
    )
    assert caught_up.message("dressed") == "CAUGHT UP"

    described = json.loads(json.dumps(PROPERTIES).replace("The person's number", "A number"))
    project.write({}, properties=described)
    assert project.run("--select", "dressed").message("dressed") == "CAUGHT UP"
    assert column_comments(project, "dressed_up")["id"] == "A number"
    project.run("--select", "dressed", "--full-refresh")
    assert comment(project, "dressed_up") == DESCRIPTION
    assert column_comments(project, "dressed_up")["id"] == "A number"
    assert partition_columns(project, "dressed_up") == ["city"]
    assert project.table_properties("dressed_up")["team"] == "it's ours"


def test_an_enforced_contract_holds(project: Project, first: RunResult) -> None:
    assert first["kept_contract"].status == "success", first.message("kept_contract")
    assert [tuple(row)[:2] for row in project.sql("describe {schema}.kept_contract")] == [
        ("id", "int"),
        ("name", "string"),
        ("city", "string"),
    ]


def constraints(project: Project, table: str) -> dict[str, str]:
    prefix = "delta.constraints."
    properties = project.table_properties(table)
    return {name[len(prefix) :]: properties[name] for name in properties if prefix in name}


@pytest.mark.profiles("session-delta", "thrift-delta", reason="Iceberg has no constraints")
def test_constraints_of_a_contract_are_those_of_the_table(
    project: Project, first: RunResult
) -> None:
    assert first["constrained"].status == "success", first.message("constrained")
    kept = {
        "known": "city <> 'nowhere'",
        "not_null_id": "`id` is not null",
        "not_null_name": "`name` is not null",
    }
    assert constraints(project, "constrained") == kept
    with pytest.raises(Exception, match="not_null_name"):
        project.sql("insert into {schema}.constrained values (9, null, 'rome')")

    project.run("--select", "constrained", "--full-refresh")
    assert constraints(project, "constrained") == kept

    project.sql("alter table {schema}.constrained add constraint theirs check (id < 1000)")
    changed = json.loads(json.dumps(PROPERTIES).replace("city <> 'nowhere'", "id <> 1"))
    project.write({}, properties=changed)
    refused = project.fail("--select", "constrained")
    assert_refused(refused, "constrained", "new constraint (id <> 1)", "1 row of the MV")

    [ours] = [listed for listed in changed["models"] if listed["name"] == "constrained"]
    ours["constraints"][0]["expression"] = "id > 0"
    ours["columns"][1]["constraints"] = []
    project.write({}, properties=changed)
    project.run("--select", "constrained")
    assert constraints(project, "constrained") == {
        "known": "id > 0",
        "not_null_id": kept["not_null_id"],
        "theirs": "id < 1000",
    }
    project.run("--select", "constrained")  # records the version that the new constraints made
    assert_writes_nothing(project, lambda: project.run("--select", "constrained"), mv="constrained")
    project.write({}, properties=PROPERTIES)


@pytest.mark.profiles("session-delta", "thrift-delta", reason="Iceberg has no constraints")
def test_a_constraint_that_spark_does_not_show_is_followed(
    new_project: Callable[[], Project],
) -> None:
    """Spark hides a constraint that contains `url`, because the text may be a secret."""
    project = new_project()
    project.create_table("visits", "id int, url string")
    project.sql("insert into {schema}.visits values (1, 'a'), (2, 'b')")
    columns = [
        {"name": "id", "data_type": "int", "constraints": [{"type": "not_null"}]},
        {"name": "url", "data_type": "string", "constraints": [{"type": "not_null"}]},
    ]
    properties = {"models": [{"name": "mv", "columns": columns}]}
    query = model(f"select id, url from {source('visits')}", contract={"enforced": True})
    project.write({"mv": query}, sources=["visits"], properties=properties)
    project.run()
    project.run()  # records the version that the new constraint made
    assert assert_writes_nothing(project, project.run).message("mv") == "CAUGHT UP"

    columns[1]["constraints"] = []
    project.write({}, properties=properties)
    project.run()
    project.sql("insert into {schema}.visits values (3, null)")
    project.run()
    assert project.rows("select id, url from {schema}.mv where id = 3") == [(3, None)]


@pytest.mark.profiles("session-delta", "thrift-delta", reason="Iceberg has no constraints")
def test_a_constraint_that_cannot_be_evaluated_is_refused(
    project: Project, first: RunResult
) -> None:
    assert_refused(first, "misconstrained", "the constraints of its contract", "`town`")
    assert_made_nothing(project, "misconstrained")


@pytest.mark.parametrize("name", ["broken_contract", "short_contract"])
def test_a_violated_contract_fails_before_anything_is_made(
    project: Project, first: RunResult, name: str
) -> None:
    assert first[name].status == "error"
    assert "This model has an enforced contract that failed" in first.message(name)
    assert ("id" if name == "broken_contract" else "city") in first.message(name)
    assert_made_nothing(project, name)


def test_full_refresh_false_protects_an_mv(project: Project, first: RunResult) -> None:
    assert first.nodes

    result = project.run("--full-refresh", "--select", "protected")

    assert result.message("protected") == "CAUGHT UP"
    assert "emptied" not in result.output


def test_a_unit_test_of_the_model_runs(project: Project, first: RunResult) -> None:
    assert first.nodes
    result = project.test("--select", "test_type:unit")
    assert [node.status for node in result.nodes] == ["pass"]

    project.write({"hooked": MODELS["hooked"].replace("select id, name", "select id, 'x' as name")})
    failed = project.fail("test", "--select", "test_type:unit")
    assert "actual differs from expected" in failed.error
    project.write({"hooked": MODELS["hooked"]})


def test_docs_generate_lists_the_mv_with_its_columns(project: Project, first: RunResult) -> None:
    assert first.nodes

    project.dbt("docs", "generate")

    catalog = json.loads((project.root / "target" / "catalog.json").read_text())
    columns = catalog["nodes"]["model.tested.hooked"]["columns"]
    assert list(columns) == ["id", "name", "city"]
    manifest = json.loads((project.root / "target" / "manifest.json").read_text())
    assert manifest["nodes"]["model.tested.hooked"]["config"]["materialized"] == "backfilled_mv"


def test_compile_and_show_treat_the_model_as_plain_sql(project: Project, first: RunResult) -> None:
    assert first.nodes
    compiled = project.dbt("compile", "--select", "hooked").output
    assert "select id, name, city from features.people" in compiled

    shown = project.dbt("show", "--select", "hooked", "--limit", "5").output
    assert "ann" in shown


@pytest.fixture(scope="module")
def failed(project: Project, first: RunResult) -> RunResult:
    """Change the upstream, then run three models at the same time. One run is killed before its
    commit.
    """
    assert first.nodes
    project.sql("insert into {schema}.people values (4, 'dan', 'bonn')")
    project.sql("update {schema}.people set name = 'new' where id = 2")
    project.sql("delete from {schema}.people where id = 1")
    crash = crash_before("features.kept_contract: commit")
    names = ("kept_contract", "limited", "protected")
    return project.fail("--threads", "4", "--select", *names, intercept=crash)


def test_retry_goes_on_after_a_failure(project: Project, failed: RunResult) -> None:
    assert failed["protected"].status == "success"
    assert failed["kept_contract"].status == "error"

    retried = project.dbt("retry")

    assert [node.name for node in retried.nodes] == ["kept_contract"]
    assert retried.message("kept_contract") == "BARRIER 2 (100.0 %)"
    expected = project.rows("select id, name, city from {schema}.people")
    assert project.rows("select * from {schema}.kept_contract") == expected


@not_on_hadoop
def test_an_mv_that_is_renamed_with_its_state_goes_on(project: Project, failed: RunResult) -> None:
    assert failed.nodes
    for old, new in zip(tables_of("dressed_up"), tables_of("renamed"), strict=True):
        project.sql(f"alter table {{schema}}.{old} rename to {{schema}}.{new}")
    project.write({"dressed": MODELS["dressed"].replace("dressed_up", "renamed")})
    name = f"{project.schema}.renamed"
    told = f"ALTER TABLE {name} SET TBLPROPERTIES ('dbt_backfill.mv' = '{name}')"
    refused = project.fail("--select", "dressed").error
    assert f"If you only renamed the MV and its state: {told}" in refused
    project.sql(told)

    message = project.run("--select", "dressed").message("dressed")

    assert message.startswith("BARRIER ")
    assert not message.startswith("BARRIER 1 ")
    expected = project.rows("select id, name, city from {schema}.people")
    assert project.rows("select * from {schema}.renamed") == expected
    assert "no orphans in features" in project.operation("backfill_orphans").output


def test_mvs_of_one_upstream_run_in_parallel(
    project: Project, first: RunResult, failed: RunResult
) -> None:
    for name in ("limited", "protected"):
        assert first[name].status == "success", first.message(name)
    assert "BARRIERS 1 to 2 (100.0 %)" in first.message("limited")
    expected = project.rows("select id, name, city from {schema}.people")
    for name in ("limited", "protected"):
        assert failed[name].status == "success", failed.message(name)
        assert project.rows(f"select * from {{schema}}.{name}") == expected


def test_a_contract_is_checked_before_a_changed_query_is_to_be_approved(
    project: Project, first: RunResult
) -> None:
    assert first.nodes
    query = QUERY.replace("city", "city, 1 as extra")
    project.write({"kept_contract": model(query, contract={"enforced": True})})

    refused = project.fail("--select", "kept_contract")

    assert "This model has an enforced contract that failed" in refused.message("kept_contract")
    assert "extra" in refused.message("kept_contract")


def test_grants_fail_on_open_source_spark_as_for_any_model(
    project: Project, first: RunResult
) -> None:
    """Open-source Spark has no GRANT. A `table` model with grants fails in the same way."""
    assert first["granted"].status == "error"
    assert "The statement or clause: GRANT is not valid" in first.message("granted")
    assert "org.apache.spark" not in first.message("granted")
    # Spark refused the GRANT after the barrier was committed, so the MV has its rows.
    assert project.value("select max(epoch) from {schema}.granted__progress") == 1
    assert project.value("select count(*) from {schema}.granted") == 3
