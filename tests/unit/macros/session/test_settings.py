"""Session settings with which an MV would not be exact."""

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
        macros.call("check_iceberg_catalogs", backfill, {"spark.master": "local", **catalogs})

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
        "another run has committed. Set spark.sql.catalog.spark_catalog.cache-enabled to false "
        "where the catalog is configured (server_side_parameters, or the Spark server)."
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


@pytest.fixture
def follow(backfill: Any) -> Any:
    """Follow an upstream and a change table of these kinds. Each of them has its own catalog."""

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
    check: Any, follow: Any, tables: tuple[str, str | None]
) -> None:
    """If a cache shows an old version, an upstream without a change table is followed later."""
    follow(*tables)
    check("delta")


def test_delta_has_no_such_cache(check: Any) -> None:
    check(file_format="delta")


# -- settings that are refused ------------------------------------------------------------------


LEAVES_OUT = "Spark silently leaves out the rows of files that"
DELTA = "spark.databricks.delta."
REFUSED = {
    "spark.sql.parser.escapedStringLiterals": ("on", "Spark would misread backslashes in the st"),
    "spark.sql.files.ignoreMissingFiles": ("on", f"{LEAVES_OUT} no longer exist"),
    "spark.sql.files.ignoreCorruptFiles": ("on", f"{LEAVES_OUT} it cannot read"),
    "spark.sql.parser.quotedRegexColumnNames": ("on", "Spark reads a name in backticks as a pat"),
    "spark.sql.readSideCharPadding": (
        "off",
        "Spark does not pad the values of a char(n) that it reads. Set it to ",
    ),
    "spark.sql.legacy.charVarcharAsString": ("on", "Spark pads neither the values of a char(n)"),
    "spark.sql.legacy.ctePrecedencePolicy": (
        "set to LEGACY",
        "Spark may read the upstream instead of a common table expression with the same name",
    ),
    "spark.sql.storeAssignmentPolicy": (
        "set to another value than ANSI",
        "a MERGE into an Iceberg table may fail even if the types are equal. Set it to ANSI for",
    ),
    f"{DELTA}stalenessLimit": (
        "set",
        "Spark may read a Delta table as it was before the last commits. Set it to 0 for dbt ",
    ),
    f"{DELTA}schema.autoMerge.enabled": ("on", "a MERGE would add columns to a Delta MV"),
    f"{DELTA}write.txnAppId": ("set", "Delta skips all writes to a table except the first. Unset"),
}
OF_ONE_FORMAT = {
    "spark.sql.storeAssignmentPolicy": "iceberg",
    f"{DELTA}schema.autoMerge.enabled": "delta",
    f"{DELTA}write.txnAppId": "delta",
}
WRONG_AND_RIGHT = {
    "on": (("TRUE",), ("false",)),
    "off": (("False",), ("true",)),
    "set": (("1h", "10s", "60000"), ("",)),
    "set to LEGACY": (("LEGACY", "legacy"), ("CORRECTED", "exception")),
    "set to another value than ANSI": (("LEGACY", "strict"), ("ANSI",)),
}


@pytest.mark.parametrize("file_format", ["delta", "iceberg"])
@pytest.mark.parametrize(("name", "refusal"), REFUSED.items())
def test_a_session_in_which_an_mv_is_not_exact_is_refused_by_the_setting(
    macros: Macros, backfill: Any, options: Any, refused: Any, file_format: str, name: str,
    refusal: tuple[str, str],
) -> None:  # fmt: skip
    options["file_format"] = file_format
    others = {CACHE.format("spark_catalog"): "false"}
    wrong, right = WRONG_AND_RIGHT[refusal[0]]
    if OF_ONE_FORMAT.get(name, file_format) != file_format:
        wrong, right = (), wrong
    for value in wrong:
        with refused(f"the session has {name} {refusal[0]}, so {refusal[1]}"):
            macros.call("check_settings", backfill, {**others, name: value})
    for value in right:
        macros.call("check_settings", backfill, {**others, name: value})
    macros.call("check_settings", backfill, others)


@pytest.mark.parametrize("value", ["0", "0ms", "0S"])
def test_a_staleness_of_nothing_is_let_pass(macros: Macros, backfill: Any, value: str) -> None:
    macros.call("check_settings", backfill, {f"{DELTA}stalenessLimit": value})


def test_the_settings_of_a_session_are_a_dict_of_texts(macros: Macros) -> None:
    macros.results = [[["spark.master", "local"], ["a", "1"]]]

    assert macros.call("read_settings") == {"spark.master": "local", "a": "1"}


@pytest.mark.parametrize("value", ["true", "false"])
def test_a_catalog_that_overrides_what_exactness_needs_is_refused(
    macros: Macros, backfill: Any, options: Any, refused: Any, value: str
) -> None:
    options["file_format"] = "iceberg"
    name = "spark.sql.catalog.prod.table-override.write.wap.enabled"
    settings = {
        "spark.sql.defaultCatalog": "prod", CACHE.format("prod"): "false", name: value
    }  # fmt: skip
    if value == "false":
        macros.call("check_iceberg_catalogs", backfill, settings)
        return
    with refused(f"the session has {name} = true, so barriers would not be exact. Set it to "):
        macros.call("check_iceberg_catalogs", backfill, settings)


# -- settings that give a query other values ---------------------------------------------------


NTZ = {"spark.sql.timestampType": "TIMESTAMP_NTZ"}
ZONE = {"spark.sql.session.timeZone": "UTC"}


def test_of_the_settings_that_are_set_those_count_that_give_other_values(macros: Macros) -> None:
    session = {**NTZ, "spark.sql.shuffle.partitions": "2", "spark.sql.legacy.unheardOf": "true"}
    settings = macros.call("get_result_settings", {**session, **ZONE}, ZONE)

    assert settings == {**ZONE, **NTZ, "spark.sql.legacy.unheardOf": "true"}
    recorded = {name: value for name, value in settings.items() if name not in ZONE}
    assert macros.call("get_result_settings", settings, []) == recorded
    assert macros.call("get_result_settings", settings, list(ZONE)) == settings


LEGACY = "spark.sql.legacy."
BEFORE = {
    "spark.sql.parser.escapedStringLiterals": "false",
    f"{LEGACY}typeCoercion.datetimeToString.enabled": "false",
    f"{LEGACY}sizeOfNull": "true",
    "spark.sql.columnNameOfCorruptRecord": "another",
}


@pytest.mark.parametrize(
    ("was", "now", "found"),
    [
        (ZONE, ZONE, None),
        ({}, ZONE, None),  # the query does not depend on it
        (None, NTZ, None),  # an earlier version recorded no settings
        (NTZ, NTZ, None),
        # A setting that is not set has its default. An earlier version recorded the default too.
        ({"spark.sql.timestampType": "TIMESTAMP_LTZ"}, {}, None),
        ({f"{LEGACY}sizeOfNull": "true", f"{LEGACY}interval.enabled": "false"}, {}, None),
        ({}, {f"{LEGACY}interval.enabled": "FALSE"}, None),
        # An earlier version recorded exactly these settings, whether they were set or not.
        (BEFORE, {"spark.sql.caseSensitive": "true", f"{LEGACY}sizeOfNull": "false"}, None),
        (BEFORE, {"spark.sql.parser.escapedStringLiterals": "true"},
         ("escapedStringLiterals, on which its query may depend,", "false", "true")),
        ({}, {"spark.sql.caseSensitive": "true"},
         ("caseSensitive, on which its query may depend,", "false", "true")),
        ({"spark.sql.columnNameOfCorruptRecord": "_Bad"},
         {"spark.sql.columnNameOfCorruptRecord": "_bad"},
         ("columnNameOfCorruptRecord, on which its query may depend,", "_Bad", "_bad")),
        # With EXCEPTION a query fails where LEGACY and CORRECTED read different values.
        ({}, {f"{LEGACY}timeParserPolicy": "EXCEPTION"}, None),
        ({f"{LEGACY}timeParserPolicy": "CORRECTED"}, {f"{LEGACY}timeParserPolicy": "LEGACY"},
         ("timeParserPolicy, on which its query may depend,", "CORRECTED", "LEGACY")),
        ({}, NTZ, ("timestampType, on which its query may depend,", "TIMESTAMP_LTZ",
                   "TIMESTAMP_NTZ")),
        (NTZ, {}, ("timestampType, on which its query may depend,", "TIMESTAMP_NTZ",
                   "TIMESTAMP_LTZ")),
        ({}, {f"{LEGACY}unheardOf": "true"},
         ("unheardOf, on which its query may depend,", "false", "true")),
        ({"spark.sql.ansi.enabled": "true"}, {"spark.sql.ansi.enabled": "false"},
         ("enabled, on which its query depends,", "true", "false")),
        (ZONE, {"spark.sql.session.timeZone": "Asia/Tokyo"},
         ("time zone, on which its query depends,", "UTC", "Asia/Tokyo")),
    ],
)  # fmt: skip
def test_a_setting_that_is_not_what_it_was_is_found(
    macros: Macros, was: Any, now: Any, found: tuple[str, str, str] | None
) -> None:
    changed = macros.call("find_changed_setting", {"settings": was}, now)

    if found is None:
        assert changed is None
    else:
        assert changed["words"].endswith(found[0])
        assert (changed["was"], changed["is"]) == found[1:]
