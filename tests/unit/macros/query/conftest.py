"""EXPLAIN EXTENDED as Spark 4.1 prints it."""

from __future__ import annotations

from typing import Any

import pytest

from support.macros import Macros

# The plans of `select th as k1, carrier, v from lake.up where v > 3` with the key k1.
EXPLAINED = """\
== Parsed Logical Plan ==
'Project ['k1 AS __bf_key_1#11, * EXCEPT (__bf_read), 0 AS __bf_end#12, __bf_read.*]
+- 'SubqueryAlias __auto_generated_subquery_name

== Analyzed Logical Plan ==
__bf_key_1: timestamp, k1: timestamp, carrier: string, v: bigint, __bf_end: int, \
th: timestamp, carrier: string, v: bigint, d: date
Project [k1#34 AS __bf_key_1#11, k1#34, carrier#43, v#45L, 0 AS __bf_end#12, \
__bf_read#10.th AS th#13, __bf_read#10.carrier AS carrier#14, \
__bf_read#10.v AS v#15L, __bf_read#10.d AS d#16]
+- SubqueryAlias __auto_generated_subquery_name
   +- Project [k1#34, carrier#43, v#45L, scalar-subquery#9 [] AS __bf_read#10]
      :  +- Project [struct(th, th#52, carrier, carrier#53) AS struct(th, carrier, v, d)#57]
      :     +- Filter false
      :        +- SubqueryAlias spark_catalog.lake.up
      :           +- Relation spark_catalog.lake.up[th#52,carrier#53,v#55L,d#56] parquet
      +- SubqueryAlias __bf_query
         +- WithCTE
            :- CTERelationDef 0, false
            :  +- SubqueryAlias up
            :     +- GlobalLimit 2147483647
            :        +- LocalLimit 2147483647
            :           +- Project [th#42, carrier#43, v#45L, d#46]
            :              +- SubqueryAlias spark_catalog.lake.up
            :                 +- Relation spark_catalog.lake.up[th#42,carrier#43,v#45L,d#46] parquet
            +- Project [th#42 AS k1#34, carrier#43, v#45L]
               +- Filter (v#45L > cast(3 as bigint))
                  +- SubqueryAlias up
                     +- CTERelationRef 0, true, [th#42, carrier#43, v#45L, d#46], false, false

== Optimized Logical Plan ==
Project [th#62 AS __bf_key_1#11, th#62 AS k1#34, carrier#63, v#65L, 0 AS __bf_end#12, \
null AS th#13, null AS carrier#14, null AS v#15L, null AS d#16]
+- Filter (isnotnull(v#65L) AND (v#65L > 3))
   +- GlobalLimit 2147483647
      +- LocalLimit 2147483647
         +- Project [th#62, carrier#63, v#65L]
            +- Relation spark_catalog.lake.up[th#62,carrier#63,v#65L,d#66] parquet

== Physical Plan ==
*(1) Project [th#62 AS __bf_key_1#11, th#62 AS k1#34, carrier#63, v#65L, 0 AS __bf_end#12]
"""

# The plans of the same query with a key that the query does not have. There is no optimized plan.
FAILED = """\
== Parsed Logical Plan ==
'Project ['nokey AS __bf_key_1#11, * EXCEPT (__bf_read), 0 AS __bf_end#12, __bf_read.*]
+- 'SubqueryAlias __auto_generated_subquery_name

== Analyzed Logical Plan ==
org.apache.spark.sql.AnalysisException: {error} SQLSTATE: 42703; line 1 pos 24;
'Project ['nokey AS __bf_key_1#11, * EXCEPT (__bf_read), 0 AS __bf_end#12, __bf_read.*]
+- SubqueryAlias __auto_generated_subquery_name
"""


@pytest.fixture
def explained_text() -> str:
    return EXPLAINED


@pytest.fixture
def failed_text() -> str:
    """Return EXPLAIN of a query that Spark cannot analyze.

    `{error}` is replaced by Spark's message.
    """
    return FAILED


@pytest.fixture
def explain(macros: Macros, up: Any) -> Any:
    """Return a function that explains a query while Spark answers with the given text."""

    def explain(text: str, unique_key: list[str], query: str = "select th as k1") -> Any:
        macros.results = [[[text]]]
        return macros.call("explain_query", query, up, unique_key, up.render())

    return explain
