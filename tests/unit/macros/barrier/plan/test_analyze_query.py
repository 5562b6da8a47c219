"""The analysis of a model's query, which a run makes before it plans a barrier."""

from __future__ import annotations

from typing import Any

import pytest

from support.macros import Macros, Table

TIME_ZONE = "spark.sql.session.timeZone"


# -- analyze_time_zone -----------------------------------------------------------------------------


MOMENTS = [("until", 1), ("at", 2)]


def test_a_partition_that_is_derived_from_a_field_is_refused(
    macros: Macros, backfill: Any, refused: Any
) -> None:
    relation = backfill["upstream"]["relation"]
    plan = "== Optimized Logical Plan ==\nFilter ((day#2 = 1) AND (s#1.at = 3))\n"
    plan += "+- Relation up[s#1,day#2] parquet\n\n== Physical Plan ==\n"
    columns = {"s": "struct<n:int,at:timestamp,local:timestamp_ntz>", "day": "date"}
    macros.tables["lake.up"] = Table(columns=columns)
    macros.results = [[(plan,)]]
    with refused("lake.up is partitioned by the column 'day', which Delta generates from a times"):
        macros.call("delta_reads_by_zone", {"relation": relation, "partitions": "['day']"}, [])
    assert "where `s`.`at` = current_timestamp()" in macros.statements[-1].sql


@pytest.mark.parametrize("partitions", ["['at']", '["Year","AT"]', "[]", "['atom', 'hat']"])
@pytest.mark.parametrize(
    ("anew", "version", "query_hash", "noted", "asked"),
    [
        (False, None, "q1", False, True),  # nothing has been read yet
        (True, "16", "q1", False, True),  # after a gap, the upstream may be another table
        (False, "16", "q0", False, True),  # the committed plan has another query
        (False, "16", "q1", False, False),
        (False, "16", "q1", True, False),
    ],
)
def test_a_moment_that_partitions_the_upstream_depends_on_the_zone(
    macros: Macros, backfill: Any, analysis: Any, make_state: Any, make_plan: Any,
    partitions: str, anew: bool, version: str | None, query_hash: str, noted: bool, asked: bool,
) -> None:  # fmt: skip
    settings = {TIME_ZONE: "UTC"} if noted else {}
    committed = make_plan(query_hash=query_hash, settings=settings)
    state = make_state(upstream_version=version, committed=committed)
    backfill["query_hash"] = "q1"
    plan = "== Optimized Logical Plan ==\nFilter ({}#{} = 3)\n+- Relation up[until#1,at#2] parquet"
    plans = [[(f"{plan.format(*each)}\n\n== Physical Plan ==\n",)] for each in MOMENTS]
    detail = {"id": "u1", "properties": {}, "partitionColumns": partitions}
    macros.tables["lake.up"] = Table(columns={"until": "timestamp", "at": "timestamp"})
    macros.results = [[detail], *plans]
    known = {**analysis, "used_settings": ["other"], "moments": ["until", "at"]}
    observed = {"relation": backfill["upstream"]["relation"], "version": "17"}

    known = macros.call("analyze_time_zone", backfill, state, observed, known, anew)
    depends = partitions in ("['at']", '["Year","AT"]') if asked else noted
    assert known["used_settings"] == ["other", *([TIME_ZONE] if depends else [])]
    explained = [sql.sql for sql in macros.statements if "explain extended" in sql.sql]
    assert len(explained) == (2 if asked and partitions != "[]" else 0)
    assert known["moments"] is None


def test_the_zone_is_not_asked_for_where_it_is_known(
    macros: Macros, backfill: Any, analysis: Any, make_state: Any
) -> None:
    state = make_state(upstream_version=None)
    observed = {"relation": backfill["upstream"]["relation"], "partitions": "['at']"}
    plan = "== Optimized Logical Plan ==\nFilter (at#1 = 3)\n+- Relation up[at#1] parquet"
    macros.tables["lake.up"] = Table(columns={"at": "timestamp"})
    macros.results = [[(f"{plan}\n\n== Physical Plan ==\n",)]] * 2
    known = {**analysis, "used_settings": [TIME_ZONE], "moments": ["at"]}
    zoned = macros.call("analyze_time_zone", backfill, state, observed, known, True)
    assert zoned == {**known, "moments": None}
    known = {**analysis, "used_settings": [], "moments": ["at"]}
    known = macros.call("analyze_time_zone", backfill, state, observed, known, False)
    assert known["used_settings"] == [TIME_ZONE]  # known from what was read of the upstream
    assert not [sql for sql in macros.statements if "describe detail" in sql.sql]


# -- check_query_at -----------------------------------------------------------------------------


@pytest.mark.parametrize("columns", [None, "k: bigint"])
def test_a_version_that_lacks_columns_of_the_query_is_refused(
    macros: Macros, backfill: Any, analysis: Any, refused: Any, columns: str | None
) -> None:
    macros.stub("explain_comparably", lambda *_, scan: columns and {"columns": columns})

    with refused("the columns of lake.up were changed, but its snapshot 17 does not have "):
        macros.call("check_query_at", backfill, {"altered": True}, analysis, 17)
