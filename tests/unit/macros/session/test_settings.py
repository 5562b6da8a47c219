"""Settings of the session under which an MV would not be exact."""

from __future__ import annotations

from typing import Any

import pytest
from dbt.adapters.spark.relation import SparkRelation

from support.macros import Macros

CACHE = "spark.sql.catalog.{}.cache-enabled"


@pytest.fixture
def check(macros: Macros, backfill: Any, options: Any) -> Any:
    def check(file_format: str = "iceberg", schema: str = "lake", **settings: str) -> None:
        options["file_format"] = file_format
        backfill["mv"] = backfill["mv"].incorporate(path={"schema": schema})
        catalogs = {CACHE.format(name): value for name, value in settings.items()}
        default = catalogs.pop(CACHE.format("default"), None)
        if default:
            catalogs["spark.sql.defaultCatalog"] = default
        macros.call("check_catalog_cache", backfill, {"spark.master": "local", **catalogs})

    return check


@pytest.mark.parametrize("value", ["false", "FALSE"])
def test_a_catalog_without_a_cache_is_let_pass(check: Any, value: str) -> None:
    check(spark_catalog=value)


@pytest.mark.parametrize("settings", [{}, {"spark_catalog": "true"}, {"other": "false"}])
def test_a_catalog_that_caches_as_it_does_by_default_is_refused(
    check: Any, refused: Any, settings: dict[str, str]
) -> None:
    with refused(
        "the Iceberg catalog spark_catalog of lake.mv caches tables, so a run would not see what "
        "another one committed. Set spark.sql.catalog.spark_catalog.cache-enabled to false where "
        "the catalog is configured (server_side_parameters, or the Spark server)."
    ):
        check(**settings)


def test_the_sessions_default_catalog_is_the_one_that_counts(check: Any, refused: Any) -> None:
    check(default="prod", prod="false")
    with refused("the Iceberg catalog prod of lake.mv caches tables, "):
        check(default="prod", spark_catalog="false")


def test_the_catalog_of_a_three_part_name_is_the_one_that_counts(check: Any, refused: Any) -> None:
    check(schema="prod.lake", prod="false")
    with refused("the Iceberg catalog prod of prod.lake.mv caches tables, "):
        check(schema="prod.lake", spark_catalog="false", default="spark_catalog")


@pytest.mark.parametrize("caches", [["false"], ["false", "false"]])
def test_what_the_state_was_read_with_spares_a_statement(
    macros: Macros, backfill: Any, options: Any, caches: list[str]
) -> None:
    options["file_format"] = "iceberg"
    macros.call("check_settings_in_doubt", backfill, {"caches": caches, "txn_app_id": "app"})

    assert macros.statements == []


@pytest.mark.parametrize("told", ["", "true", "${spark.sql.catalog.spark_catalog.cache-enabled}"])
def test_what_the_state_does_not_tell_is_asked_once(
    macros: Macros, backfill: Any, options: Any, refused: Any, told: str
) -> None:
    """It stays as it stands where a session substitutes no settings."""
    options["file_format"] = "iceberg"
    name = CACHE.format("spark_catalog")
    macros.results = [[[name, "false"]], [[name, "true"]]]
    macros.call("check_settings_in_doubt", backfill, {"caches": [told]})
    assert len(macros.statements) == 1

    macros.call("check_settings_in_doubt", backfill, {"caches": [told]}, {name: "false"})
    assert len(macros.statements) == 1
    with refused("the Iceberg catalog spark_catalog of lake.mv caches tables, "):
        macros.call("check_settings_in_doubt", backfill, {"caches": [told]})


@pytest.fixture
def follow(backfill: Any) -> Any:
    """Follows an upstream and a change table of the given kinds, each of a catalog of its own."""

    def follow(upstream: str, feed: str | None) -> None:
        for name, kind in {"upstream": upstream, "feed": feed}.items():
            relation = SparkRelation.create(schema=f"{name}.lake", identifier="t")
            backfill[name] = {"relation": relation, "kind": kind} if kind else None

    return follow


@pytest.mark.parametrize("caches", ["upstream", "feed"])
def test_an_upstream_behind_its_change_table_is_refused_too(
    check: Any, follow: Any, refused: Any, caches: str
) -> None:
    settings = {"upstream": "false", "feed": "false"}
    follow("iceberg", "iceberg")
    check("delta", **settings)
    with refused(f"the Iceberg catalog {caches} of {caches}.lake.t caches tables, "):
        check("delta", **{**settings, caches: "true"})


@pytest.mark.parametrize("tables", [("delta", "delta"), ("iceberg", None)])
def test_other_tables_may_come_from_a_cache(
    macros: Macros, backfill: Any, check: Any, follow: Any, tables: tuple[str, str | None]
) -> None:
    """An upstream alone is just followed later."""
    follow(*tables)
    check("delta")
    macros.call("check_settings_in_doubt", backfill, {})

    assert macros.statements == []


def test_delta_has_no_such_cache(macros: Macros, backfill: Any, check: Any) -> None:
    check(file_format="delta")
    macros.call("check_settings_in_doubt", backfill, {})

    assert macros.statements == []


# -- schema evolution -------------------------------------------------------------------------


@pytest.fixture
def check_evolution(macros: Macros, backfill: Any, options: Any) -> Any:
    def check(file_format: str = "delta", **settings: str) -> None:
        options["file_format"] = file_format
        prefix = "spark.databricks.delta.schema."
        named = {prefix + name: value for name, value in settings.items()}
        macros.call("check_settings", backfill, named)

    return check


def test_a_merge_that_would_add_columns_is_refused(check_evolution: Any, refused: Any) -> None:
    with refused(
        "the session has spark.databricks.delta.schema.autoMerge.enabled on, under which a MERGE "
        "would add columns to lake.mv. Set it to false for dbt (server_side_parameters, or the "
        "Spark server)."
    ):
        check_evolution(**{"autoMerge.enabled": "True"})


@pytest.mark.parametrize("file_format", ["delta", "iceberg"])
def test_a_session_in_which_a_backslash_is_no_escape_is_refused(
    macros: Macros, backfill: Any, options: Any, refused: Any, file_format: str
) -> None:
    options["file_format"] = file_format
    name = "spark.sql.parser.escapedStringLiterals"

    with refused(f"the session has {name} on, under which the texts "):
        macros.call("check_settings", backfill, {name: "true"})


def test_a_session_without_schema_evolution_is_let_pass(check_evolution: Any) -> None:
    check_evolution()
    check_evolution(**{"autoMerge.enabled": "false"})
    check_evolution("iceberg", **{"autoMerge.enabled": "true"})


def test_a_session_in_which_delta_skips_repetitions_is_refused(
    macros: Macros, backfill: Any, refused: Any
) -> None:
    """The state tells in most runs that it is none, which spares a statement."""
    name = "spark.databricks.delta.write.txnAppId"
    macros.call("check_settings_in_doubt", backfill, {"txn_app_id": ""})
    assert macros.statements == []
    with refused(f"the session has {name} set, under which Delta skips all writes to a table but "):
        macros.results = [[[name, "app"]]]
        macros.call("check_settings_in_doubt", backfill, {"txn_app_id": "app"})
    assert len(macros.statements) == 1


REFUSED = {
    "spark.sql.files.ignoreMissingFiles": ("on", "Spark leaves out rows, and says nothing: those "),
    "spark.sql.files.ignoreCorruptFiles": ("on", "Spark leaves out rows, and says nothing: those "),
    "spark.sql.parser.quotedRegexColumnNames": ("on", "Spark takes a name in backticks for a pat"),
    "spark.sql.readSideCharPadding": (
        "off",
        "Spark does not pad what it reads of a char(n). Set it to true ",
    ),
    "spark.sql.legacy.charVarcharAsString": (
        "on",
        "Spark pads neither what it reads of a char(n) ",
    ),
    "spark.databricks.delta.stalenessLimit": (
        "set",
        "Spark may read a Delta table as it was before the last commits. Set it to 0 for dbt ",
    ),
}
WRONG_AND_RIGHT = {
    "on": (("TRUE",), ("false",)),
    "off": (("False",), ("true",)),
    "set": (("1h", "10s", "60000"), ("0", "0ms", "0S")),
}


@pytest.mark.parametrize(("name", "refusal"), REFUSED.items())
def test_a_session_in_which_spark_reads_less_or_otherwise_is_refused(
    macros: Macros, backfill: Any, refused: Any, name: str, refusal: tuple[str, str]
) -> None:
    """By the first run, and by each later one, to which the state tells it."""
    fact = f"the session has {name} {refusal[0]}, under which {refusal[1]}"
    wrong, right = WRONG_AND_RIGHT[refusal[0]]
    for value in wrong:
        with refused(fact):
            macros.call("check_settings", backfill, {name: value})
    for value in right:
        macros.call("check_settings", backfill, {name: value})
    macros.call("check_settings", backfill, {})

    macros.call("check_settings_in_doubt", backfill, {"refused_setting": None})
    with refused(fact):
        macros.call("check_settings_in_doubt", backfill, {"refused_setting": name})
    assert macros.statements == []


def test_the_settings_of_a_session_are_a_dict_of_texts(macros: Macros) -> None:
    macros.results = [[["spark.master", "local"], ["a", "1"]]]

    assert macros.call("read_settings") == {"spark.master": "local", "a": "1"}


@pytest.mark.parametrize("value", ["true", "false"])
def test_a_catalog_that_overrides_what_exactness_needs_is_refused(
    macros: Macros, backfill: Any, options: Any, refused: Any, value: str
) -> None:
    options["file_format"] = "iceberg"
    name = "spark.sql.catalog.prod.table-override.write.wap.enabled"
    settings = {"spark.sql.defaultCatalog": "prod", name: value}
    if value == "false":
        macros.call("check_table_overrides", backfill, settings)
        return
    with refused(f"the session has {name} = true, under which barriers are not exact. Set it to "):
        macros.call("check_table_overrides", backfill, settings)


# -- settings that give a query other values ---------------------------------------------------


def test_a_setting_that_is_not_what_it_was_is_found(macros: Macros) -> None:
    def find(was: dict[str, str] | None, **settings: str) -> Any:
        return macros.call("find_changed_setting", {"settings": was}, settings)

    assert find({"a": "true", "b": "false"}, a="true", b="false", c="true") is None
    assert find(None, a="true") is None
    assert find({"gone": "true"}, a="true") is None
    assert find({"a": "true", "b": "false"}, a="true", b="true") == {
        "setting": "b", "words": "b, on which its query may depend,", "was": "false", "is": "true",
    }  # fmt: skip
