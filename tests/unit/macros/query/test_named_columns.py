"""The columns of its upstream that a query reads.

The result may have a column too many, but must not lack one.
"""

from __future__ import annotations

import pytest

from support.macros import Macros

COLUMNS = ["id", "note", "Body", "a.b", "a`b", "not_read"]


@pytest.mark.parametrize(
    ("query", "named"),
    [
        ("select id, upper(NOTE) as n from `t`", ["id", "note"]),
        ("select t.`body`, `a.b` from `t`", ["Body", "a.b"]),
        ("select * from `t`", COLUMNS),
        ("select t.* from `t`", COLUMNS),
        ("select id,\n  * from `t`", COLUMNS),
        ("select /*+ coalesce(1) */ distinct * from `t`", COLUMNS),
        ("select md5(to_json(struct( * ))) as h from `t`", COLUMNS),
        ("select id * 2 as n, (note)* 3 as m, `body` * 4 as b from `t`", ["id", "note", "Body"]),
        ("select id, '(*' as n, 'x' * 2 as m from `t`", ["id"]),
        ("select id -- note, not_read\nfrom `t` /* body */", ["id"]),
        ("select id, notes, anote from `t`", ["id"]),
        ("select `a``b` from `t`", ["a`b"]),
        ("select k as id from `t` as u(k, v)", COLUMNS),
        ("select k as id from ( `t` ) \n `u` (k, v)", COLUMNS),
        ('select k as id from `t` as "u"(k, v)', COLUMNS),
        ("select k as id from (`t` as u) as s(k, v)", COLUMNS),
        ("select k as id from ((`t` u) s) r (k, v)", COLUMNS),
        ("select k as id from ((`t` as `u`) s)\n as `r` (k, v)", COLUMNS),
        ("select id from (`t` as u) where (note) > 1", ["id", "note"]),
        ("select id from (select id from `t` u) as s where coalesce(id, 1) > 0", ["id"]),
        ("select id, identifier('no' || 'te') as n from `t`", COLUMNS),
        ("select id from `t` as u where (note) > 1", ["id", "note"]),
        ("select id from `t` where (note > 1) and extract(year from note) in (1)", COLUMNS),
        ("table `t`", COLUMNS),
        ("with c as (select 1 as one) table `t`", COLUMNS),
        ("select id from (table `t`)", COLUMNS),
        ("from `t`", COLUMNS),
        ("with c as (from `t`) select id from c", COLUMNS),
        ("select id from `t` |> where note > 1", COLUMNS),
        (
            "with c as (select id from `t` where (note) in (cast(1 as dec(3)))) select id from c",
            ["id", "note"],
        ),
        (
            "select id, case when (note) = 1 then (`body`) else (id) end as b from `t`",
            ["id", "note", "Body"],
        ),
        (
            "select id, 'from table' as note from (select coalesce(id, 1) as id from `t`)",
            ["id", "note"],
        ),
    ],
)
def test_columns_are_found_by_their_names(macros: Macros, query: str, named: list[str]) -> None:
    assert macros.call("get_named_columns", query, COLUMNS) == named
