"""A model reads its upstream through views and ephemeral models.

The oracle reads the view itself, so it does not depend on how the package reads the view's text.
"""

from __future__ import annotations

from collections.abc import Callable

import pytest

from support.checks import assert_made_nothing, assert_refused, model, source
from support.profiles import at_home_on_iceberg, with_views
from support.project import Project

pytestmark = at_home_on_iceberg

VIEW = "{{ config(materialized='view') }}\n"
EPHEMERAL = "{{ config(materialized='ephemeral') }}\n"
STAGED = f"select id as order_id, upper(v) as name, n * 2 as twice from {source('up')} where n >= 0"
MV = (
    "select order_id, name as label, twice + 1 as odd from {{ ref('stg') }} as s where s.twice < 90"
)


def new_upstream(project: Project) -> Project:
    # Iceberg stores no settings with a view, and Spark evaluates such a view without ANSI mode.
    project.configure({"spark.sql.ansi.enabled": "false"})
    project.create_table("up", "id bigint, v string, n int")
    project.sql(
        "insert into {schema}.up select id, concat('v', id), cast(id % 60 as int) from range(200)"
    )
    return project


def change(project: Project, turn: int) -> None:
    project.sql(f"update {{schema}}.up set v = 'new{turn}', n = n + 1 where id % 7 = {turn}")
    project.sql(f"delete from {{schema}}.up where id % 11 = {turn}")
    project.sql(f"update {{schema}}.up set n = -n where id % 13 = {turn}")
    project.sql(f"insert into {{schema}}.up values ({500 + turn}, 'late', 3)")


def mv_of(query: str = MV, **config: object) -> str:
    settings = {"unique_key": "order_id", "backfill_rate_limit": 60, "vnode_count": None}
    return model(query, **{**settings, **config})


def assert_exact(project: Project, query: str) -> None:
    wanted = project.rows(query.replace("{schema}", project.schema) + " order by 1")
    assert project.rows("select * from {schema}.mv order by 1") == wanted


STAGES = {
    "view": {"stg": VIEW + STAGED},
    "ephemeral": {"stg": EPHEMERAL + STAGED},
    "view_of_view": {
        "base": VIEW + f"with up as (select * from {source('up')}) select * from up -- all of them",
        "stg": VIEW + STAGED.replace(source("up"), "{{ ref('base') }}"),
    },
    "ephemeral_of_view": {
        "base": VIEW + f"select *, v as unread from {source('up')} /* ; */",
        "stg": EPHEMERAL + STAGED.replace(source("up"), "{{ ref('base') }}"),
    },
}
OF_UP = (
    "select id as order_id, upper(v) as label, n * 2 + 1 as odd from {schema}.up"
    " where n >= 0 and n * 2 < 90"
)


@with_views
@pytest.mark.every_profile
@pytest.mark.parametrize(
    "stage",
    [
        pytest.param("view_of_view", marks=pytest.mark.core("session-delta", "thrift-iceberg")),
        "view",
    ],
)
def test_views_are_read_through(new_project: Callable[[], Project], stage: str) -> None:
    follow(new_upstream(new_project()), stage)


@pytest.mark.every_profile
@pytest.mark.parametrize(
    "stage", ["ephemeral", pytest.param("ephemeral_of_view", marks=with_views)]
)
def test_ephemeral_models_are_read_through(new_project: Callable[[], Project], stage: str) -> None:
    follow(new_upstream(new_project()), stage)


def follow(project: Project, stage: str) -> None:
    project.write({"mv": mv_of(), **STAGES[stage]}, sources=["up"])
    for turn in range(6):
        project.run()
        change(project, turn)
    while (last := project.run()).message("mv") != "CAUGHT UP":
        assert "re-anchored" not in last.output
    assert_exact(project, OF_UP)
    if "view" in stage:
        project.run("--full-refresh")
    project.test()


@with_views
@pytest.mark.every_profile
def test_another_text_of_the_view_is_another_query(new_project: Callable[[], Project]) -> None:
    project = new_upstream(new_project())
    project.write({"mv": mv_of(), "stg": VIEW + STAGED}, sources=["up"])
    project.run()
    commented = STAGED.replace("where", "-- only these\n where")
    project.write({"mv": mv_of(), "stg": VIEW + commented}, sources=["up"])
    assert "120" in project.run().output
    project.write({"mv": mv_of(), "stg": VIEW + STAGED.replace("upper", "lower")}, sources=["up"])

    assert_refused(
        project.fail(), "mv", "its query changed since its last barrier", "--full-refresh"
    )
    project.write({"mv": mv_of(on_query_change="rebuild")}, sources=["up"])
    while project.run().message("mv") != "CAUGHT UP":
        pass
    assert_exact(project, OF_UP.replace("upper", "lower"))


REFUSED = {
    "joins": (
        "select a.id from {t} a join {t} b on a.id = b.id",
        ["whose query reads {t}, {t}"],
        True,
    ),
    "groups": ("select id, count(*) as n from {t} group by id", ["has an aggregate"], True),
    "picks": ("select distinct id from {t}", ["has a DISTINCT"], True),
    "reads_the_clock": (
        "select id, current_timestamp() as at from {t}",
        ["current_timestamp()", "another value"],
        False,
    ),
    "reads_nothing": ("select 1 as id", ["no table that is named with its schema"], True),
    "inner": ("select id from {s}.groups", ["the view {s}.groups has an aggregate"], True),
}


@with_views
@pytest.mark.every_profile
def test_a_view_that_is_not_row_wise_is_refused_by_name(
    new_project: Callable[[], Project],
) -> None:
    project = new_upstream(new_project())
    for name, (query, _, _) in sorted(REFUSED.items()):
        text = query.format(t=f"{project.schema}.up", s=project.schema)
        project.sql(f"create view {{schema}}.{name} as {text}")
    models = {f"of_{name}": model(f"select id from {source(name)}") for name in REFUSED}
    project.write(models, sources=list(REFUSED))

    refused = project.fail()

    for name, (_, facts, names_view) in REFUSED.items():
        named = [f"{project.schema}.{name}"] if names_view and name != "inner" else []
        told = [fact.format(t=f"{project.schema}.up", s=project.schema) for fact in facts]
        assert_refused(refused, f"of_{name}", *named, *told)
        assert_made_nothing(project, f"of_{name}")


@pytest.mark.profiles("session-delta", reason="sets the session by SQL")
def test_a_view_with_other_settings_is_refused_if_they_matter(
    new_project: Callable[[], Project],
) -> None:
    project = new_upstream(new_project())
    project.sql("set spark.sql.ansi.enabled = true")
    project.sql("create view {schema}.plain as select id, v from {schema}.up")
    project.sql("create view {schema}.divides as select id, 10 / n as part from {schema}.up")
    project.sql("set spark.sql.ansi.enabled = false")
    project.write(
        {
            name: model(f"select * from {source(of)}")
            for name, of in (("p", "plain"), ("d", "divides"))
        },
        sources=["plain", "divides"],
    )
    refused = project.fail()

    assert_refused(
        refused,
        "d",
        "divides, which Spark evaluates with the stored value of spark.sql.ansi.enabled, true",
    )
    assert refused.message("p").startswith("BARRIER 1")


@pytest.mark.profiles("session-delta", reason="sets the session by SQL")
def test_a_view_that_names_no_schema_is_refused(new_project: Callable[[], Project]) -> None:
    project = new_upstream(new_project())
    here = project.value("select current_schema()")
    project.sql("use {schema}")
    project.sql("create view {schema}.unnamed as select id, v from up")
    project.sql(f"use {here}")
    project.write({"mv": model(f"select * from {source('unnamed')}")}, sources=["unnamed"])

    assert_refused(project.fail(), "mv", "was created with the current schema", project.schema)


@with_views
@pytest.mark.every_profile
def test_a_table_that_is_followed_through_a_view_gets_a_change_feed(
    new_project: Callable[[], Project],
) -> None:
    project = new_upstream(new_project())
    first = model(f"select id, v, n from {source('up')}", backfill_rate_limit=60)
    stage = VIEW + STAGED.replace(source("up"), "{{ ref('first') }}")
    project.write({"first": first, "stg": stage, "mv": mv_of()}, sources=["up"])
    for turn in range(3):
        project.run()
        change(project, turn)
    for _ in range(8):
        project.run()
    assert_exact(project, OF_UP)


@pytest.mark.profiles("session-delta", "thrift-delta", reason="Spark cannot read such a view")
@pytest.mark.every_profile
def test_a_view_names_the_columns_of_its_query(new_project: Callable[[], Project]) -> None:
    """The table has another column since the view was created. The view does not have it."""
    project = new_upstream(new_project())
    project.sql("create view {schema}.named (order_id, name, number) as select * from {schema}.up")
    project.sql("alter table {schema}.up add columns (more int)")
    project.sql("insert into {schema}.up values (300, 'more', 1, 2)")
    project.write({"mv": mv_of(f"select * from {source('named')}")}, sources=["named"])
    for turn in range(6):
        project.run()
        project.sql(f"update {{schema}}.up set v = 'new', more = 3 where id % 7 = {turn}")
    project.run()
    assert_exact(project, "select id as order_id, v as name, n as number from {schema}.up")


@pytest.mark.profiles("thrift-iceberg", reason="only Iceberg stores no settings with a view")
def test_a_view_without_stored_settings_is_refused_if_they_matter(
    new_project: Callable[[], Project],
) -> None:
    project = new_upstream(new_project())
    project.configure({"spark.sql.ansi.enabled": "true"})
    project.sql("create view {schema}.plain as select id, v from {schema}.up")
    project.sql("create view {schema}.divides as select id, 10 / n as part from {schema}.up")
    # Spark reads the view without ANSI mode: the division by zero gives a null, and no error.
    nulls = project.value("select count(*) from {schema}.divides where part is null")
    assert nulls > 0
    models = {"p": model(f"select * from {source('plain')}")}
    models["mv"] = model(f"select * from {source('divides')}")
    project.write(models, sources=["plain", "divides"])
    refused = project.fail()

    assert_refused(refused, "mv", "divides", "spark.sql.ansi.enabled, not set, but in this session")
    assert refused.message("p").startswith("BARRIER 1")


@pytest.mark.profiles("session-delta", reason="reads Delta's paths and versions")
def test_a_view_that_is_no_plain_query_of_one_table_is_refused(
    new_project: Callable[[], Project],
) -> None:
    project = new_upstream(new_project())
    path = project.sql("describe detail {schema}.up")[0].location
    views = {
        "evolves": "{schema}.up",
        "fixed": "{schema}.up version as of 1",
        "path": f"delta.`{path}`",
    }
    for name, table in views.items():
        mode = "with schema evolution" if name == "evolves" else ""
        project.sql(f"create view {{schema}}.{name} {mode} as select * from {table}")
    project.sql(
        "create view {schema}.item as select id, named_struct('item', n) as s from {schema}.up"
    )
    models = {f"of_{n}": model(f"select id from {source(n)}") for n in ("evolves", "fixed", "path")}
    twice = f"select id, {project.schema}.item as n from {source('item')}"
    models["twice"] = model(twice.replace(f"{project.schema}.item", "{{ this.schema }}.item"))
    project.write(models, sources=["evolves", "fixed", "path", "item"])

    refused = project.fail()

    assert_refused(refused, "of_evolves", "whose columns change with its table")
    assert_refused(refused, "of_fixed", "at a fixed version")
    assert_refused(refused, "of_path", "delta.", "Read one table in the view")
    assert_refused(refused, "twice", "contains the name of the view", "2 times")


@pytest.mark.profiles("session-delta", reason="sets the session by SQL")
def test_a_view_that_is_created_again_with_other_settings_is_refused_without_changes(
    new_project: Callable[[], Project],
) -> None:
    project = new_upstream(new_project())
    create = "create or replace view {schema}.divides as select id, 10 / n as part from {schema}.up"
    project.sql(create)
    project.write({"mv": model(f"select * from {source('divides')}")}, sources=["divides"])
    project.run()
    assert project.run().message("mv") == "CAUGHT UP"
    project.sql("set spark.sql.ansi.enabled = true")
    project.sql(create)
    project.sql("set spark.sql.ansi.enabled = false")

    assert_refused(project.fail(), "mv", "the stored value of spark.sql.ansi.enabled, true")
    project.sql(create)
    assert project.run().message("mv") == "CAUGHT UP"
