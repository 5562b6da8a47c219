"""EXPLAIN EXTENDED as Spark 4.1 prints it."""

from __future__ import annotations

from typing import Any

import pytest

from support.macros import Macros

# Of `select k1, __bf_query.*, (select struct(*) from lake.up where false) as __bf_upstream
# from (select th as k1, carrier, v from lake.up where v > 3) as __bf_query`.
EXPLAINED = """\
== Parsed Logical Plan ==
'Project ['k1, '__bf_query.*]
+- 'SubqueryAlias __bf_query
   +- 'Project ['th AS k1#1134, 'carrier, 'v]
      +- 'Filter ('v > 3)
         +- 'UnresolvedRelation [lake, up], [], false

== Analyzed Logical Plan ==
k1: timestamp, k1: timestamp, carrier: string, v: bigint, __bf_upstream: \
struct<th:timestamp,carrier:string,v:bigint,d:date>
Project [k1#1134, k1#1134, carrier#1143, v#1145L, scalar-subquery#1135 [] AS __bf_upstream#1136]
:  +- Project [struct(th, th#1152, carrier, carrier#1153) AS struct(th, carrier, v, d)#1157]
:     +- Filter false
:        +- SubqueryAlias spark_catalog.lake.up
:           +- Relation spark_catalog.lake.up[th#1152,carrier#1153,v#1155L,d#1156] parquet
+- SubqueryAlias __bf_query
   +- Project [th#1142 AS k1#1134, carrier#1143, v#1145L]
      +- Filter (v#1145L > cast(3 as bigint))
         +- SubqueryAlias spark_catalog.lake.up
            +- Relation spark_catalog.lake.up[th#1142,carrier#1143,v#1145L,d#1146] parquet

== Optimized Logical Plan ==
Project [th#1142 AS k1#1134, th#1142 AS k1#1134, carrier#1143, v#1145L, null AS __bf_upstream#1136]
+- Filter (isnotnull(v#1145L) AND (v#1145L > 3))
   +- Relation spark_catalog.lake.up[th#1142,carrier#1143,v#1145L,d#1146] parquet

== Physical Plan ==
*(1) Project [th#1142 AS k1#1134, th#1142 AS k1#1134, carrier#1143, v#1145L]
+- *(1) Filter (isnotnull(v#1145L) AND (v#1145L > 3))
   +- *(1) ColumnarToRow
      +- FileScan parquet spark_catalog.lake.up[th#1142,carrier#1143,v#1145L] Batched: true
"""

# The same with a column that the query does not have: no optimized plan.
FAILED = """\
== Parsed Logical Plan ==
'Project ['nokey, '__bf_query.*]
+- 'SubqueryAlias __bf_query
   +- 'Project [1 AS 1#2]
      +- OneRowRelation

== Analyzed Logical Plan ==
org.apache.spark.sql.AnalysisException: {error} SQLSTATE: 42703; line 1 pos 24;
'Project ['nokey, '__bf_query.*]
+- SubqueryAlias __bf_query
   +- Project [1 AS 1#2]
      +- OneRowRelation

== Physical Plan ==
org.apache.spark.sql.AnalysisException: {error} SQLSTATE: 42703; line 1 pos 24;
"""


@pytest.fixture
def explained_text() -> str:
    return EXPLAINED


@pytest.fixture
def failed_text() -> str:
    """EXPLAIN of a query that cannot be analyzed, with `{error}` for Spark's message."""
    return FAILED


@pytest.fixture
def explain(macros: Macros, up: Any) -> Any:
    """A function that lets Spark answer with one text and explains a query."""

    def explain(text: str, unique_key: list[str], query: str = "select th as k1") -> Any:
        macros.results = [[[text]]]
        return macros.call("explain_query", query, unique_key, up.render())

    return explain
