"""The configurations that are accepted, and the refusals of all other configurations."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from support.macros import Macros


@pytest.fixture
def read(macros: Macros) -> Any:
    """Read a model's configuration. unique_key is set, unless a test changes it."""

    def read(**config: Any) -> dict[str, Any]:
        macros.config.update({"unique_key": "id", **config})
        return macros.call("read_config")

    return read


def test_only_unique_key_has_to_be_given(read: Any) -> None:
    assert read() == {
        "unique_key": ["id"],
        "upstream_key": None,
        "volatile_columns": None,
        "backfill_rate_limit": None,
        "barriers_per_run": 1,
        "backfill_mode": "arrangement",
        "vnode_count": 256,
        "backfill_vnodes": None,
        "backfill_order": "ascending",
        "backfill_partitions": 1,
        "check_key": True,
        "on_query_change": "fail",
        "on_schema_change": "ignore",
        "on_gap": "reanchor",
        "on_foreign_write": "reanchor",
        "full_refresh_mode": "in_place",
        "live_view": False,
        "replace_existing": False,
        "file_format": "delta",
        "change_feed": None,
        "run_minutes": None,
        "run_rows": None,
        "barrier_seconds": None,
        "take_turns": False,
        "replicate": "auto",
        "replica_rows": None,
        "compact_every": None,
        "sort_when_finished": False,
    }


@pytest.mark.parametrize(("option", "value"), [("run_minutes", 5), ("run_rows", 100)])
def test_a_run_with_a_budget_goes_on_until_it_is_spent_unless_barriers_are_counted(
    read: Any, option: str, value: int
) -> None:
    assert read(barrier_seconds=20)["barriers_per_run"] == 1
    assert read(**{option: value})["barriers_per_run"] is None
    assert read(**{option: value}, barriers_per_run=3)["barriers_per_run"] == 3


@pytest.mark.parametrize(
    ("option", "value", "read_as"),
    [
        ("run_minutes", 0.5, 0.5),
        ("run_rows", 1, 1),
        ("barrier_seconds", 20, 20),
        ("take_turns", True, True),
        ("replicate", "always", "always"),
        ("replicate", "never", "never"),
        ("replica_rows", 1, 1),
        ("compact_every", 50, 50),
        ("sort_when_finished", True, True),
        ("unique_key", "id", ["id"]),
        ("unique_key", ["id"], ["id"]),
        ("unique_key", ["b", "a"], ["b", "a"]),
        ("unique_key", ("b", "a"), ["b", "a"]),
        ("upstream_key", "k", ["k"]),
        ("upstream_key", None, None),
        ("volatile_columns", "v", ["v"]),
        ("backfill_rate_limit", 0, 0),
        ("backfill_rate_limit", 10**12, 10**12),
        ("backfill_rate_limit", None, None),
        ("barriers_per_run", 1, 1),
        ("barriers_per_run", 40, 40),
        ("barriers_per_run", "all", None),
        ("backfill_mode", "arrangement", "arrangement"),
        ("backfill_mode", "no_shuffle", "no_shuffle"),
        ("backfill_mode", "snapshot", "snapshot"),
        ("backfill_order", "ascending", "ascending"),
        ("backfill_order", "descending", "descending"),
        ("backfill_partitions", 4, 4),
        ("vnode_count", 1, 1),
        ("vnode_count", 32768, 32768),
        ("backfill_vnodes", [3], [3]),
        ("backfill_vnodes", [3, 0, 3, 255], [0, 3, 255]),
        ("backfill_vnodes", "3", [3]),
        ("backfill_vnodes", "0-3", [0, 1, 2, 3]),
        ("backfill_vnodes", " 32, 0 - 2,1-1 ", [0, 1, 2, 32]),
        ("check_key", True, True),
        ("check_key", False, False),
        ("on_query_change", "fail", "fail"),
        ("on_query_change", "rebuild", "rebuild"),
        ("on_schema_change", "ignore", "ignore"),
        ("on_schema_change", "fail", "fail"),
        ("on_schema_change", "append_new_columns", "append_new_columns"),
        ("on_schema_change", "sync_all_columns", "sync_all_columns"),
        ("on_gap", "reanchor", "reanchor"),
        ("on_gap", "sweep", "sweep"),
        ("on_gap", "fail", "fail"),
        ("on_foreign_write", "sweep", "sweep"),
        ("full_refresh_mode", "beside", "beside"),
        ("file_format", "delta", "delta"),
        ("file_format", "iceberg", "iceberg"),
    ],
)
def test_a_value_is_accepted(read: Any, option: str, value: Any, read_as: Any) -> None:
    assert read(**{option: value})[option] == read_as


COLUMNS = "Set it to a column or a list of different columns."
LIMIT = "Set it to a whole number of 0 or more, or leave it out."
BARRIERS = "Set it to a whole number of 1 or more, or 'all'."
MODE = "Set it to arrangement or no_shuffle or snapshot."
NUMBER = "Set it to a number above 0, or leave it out."
COUNT = "Set it to a whole number of 1 to 32768."
VNODES = "Set it to a list of vnode numbers, or text such as '0-15,32', or leave it out."


@pytest.mark.parametrize(
    ("option", "value", "refusal"),
    [
        ("unique_key", ["a", "a"], f'unique_key is ["a", "a"]. {COLUMNS}'),
        ("unique_key", ["a", "A"], f'unique_key is ["a", "A"]. {COLUMNS}'),
        ("unique_key", [1], f"unique_key is [1]. {COLUMNS}"),
        ("unique_key", {"a": 1}, f'unique_key is {{"a": 1}}. {COLUMNS}'),
        ("unique_key", 7, f"unique_key is 7. {COLUMNS}"),
        ("upstream_key", [], f"upstream_key is []. {COLUMNS}"),
        ("upstream_key", "", f'upstream_key is "". {COLUMNS}'),
        ("upstream_key", False, f"upstream_key is false. {COLUMNS}"),
        ("backfill_rate_limit", -1, f"backfill_rate_limit is -1. {LIMIT}"),
        ("backfill_rate_limit", 1.5, f"backfill_rate_limit is 1.5. {LIMIT}"),
        ("backfill_rate_limit", "1000", f'backfill_rate_limit is "1000". {LIMIT}'),
        ("backfill_rate_limit", True, f"backfill_rate_limit is true. {LIMIT}"),
        ("barriers_per_run", 0, f"barriers_per_run is 0. {BARRIERS}"),
        ("barriers_per_run", "ALL", f'barriers_per_run is "ALL". {BARRIERS}'),
        ("barriers_per_run", 2.0, f"barriers_per_run is 2.0. {BARRIERS}"),
        ("barriers_per_run", True, f"barriers_per_run is true. {BARRIERS}"),
        ("run_minutes", 0, f"run_minutes is 0. {NUMBER}"),
        ("run_minutes", True, f"run_minutes is true. {NUMBER}"),
        ("barrier_seconds", "20", f'barrier_seconds is "20". {NUMBER}'),
        ("run_rows", 0, "run_rows is 0. Set it to a whole number of 1 or more, or leave it out."),
        ("backfill_mode", "shuffle", f'backfill_mode is "shuffle". {MODE}'),
        ("backfill_mode", "", f'backfill_mode is "". {MODE}'),
        ("vnode_count", 0, f"vnode_count is 0. {COUNT}"),
        ("vnode_count", 32769, f"vnode_count is 32769. {COUNT}"),
        ("vnode_count", "256", f'vnode_count is "256". {COUNT}'),
        ("backfill_vnodes", [], f"backfill_vnodes is []. {VNODES}"),
        ("backfill_vnodes", 3, f"backfill_vnodes is 3. {VNODES}"),
        ("backfill_vnodes", "", f'backfill_vnodes is "". {VNODES}'),
        ("backfill_vnodes", "3-1", f'backfill_vnodes is "3-1". {VNODES}'),
        ("backfill_vnodes", "0-1-2", f'backfill_vnodes is "0-1-2". {VNODES}'),
        ("backfill_vnodes", "0,", f'backfill_vnodes is "0,". {VNODES}'),
        ("backfill_vnodes", "-1", f'backfill_vnodes is "-1". {VNODES}'),
        ("backfill_vnodes", "0-100000", f'backfill_vnodes is "0-100000". {VNODES}'),
        ("backfill_vnodes", ["3"], f'backfill_vnodes is ["3"]. {VNODES}'),
        ("backfill_vnodes", [True], f"backfill_vnodes is [true]. {VNODES}"),
        ("backfill_vnodes", [2, -1], f"backfill_vnodes is [2, -1]. {VNODES}"),
        ("check_key", "no", 'check_key is "no". Set it to true or false.'),
        ("check_key", 0, "check_key is 0. Set it to true or false."),
        ("take_turns", 2, "take_turns is 2. Set it to true or false."),
        (
            "compact_every",
            0,
            "compact_every is 0. Set it to a whole number of 1 or more, or leave it out.",
        ),
        ("sort_when_finished", "key", 'sort_when_finished is "key". Set it to true or false.'),
        ("on_query_change", "ignore", 'on_query_change is "ignore". Set it to fail or rebuild.'),
        (
            "on_schema_change",
            "sync",
            'on_schema_change is "sync". Set it to ignore or fail or append_new_columns or '
            "sync_all_columns.",
        ),
        ("on_gap", "ignore", 'on_gap is "ignore". Set it to reanchor or sweep or fail.'),
        ("file_format", "parquet", 'file_format is "parquet". Set it to delta or iceberg.'),
    ],
)
def test_any_other_value_is_refused_with_what_to_set_instead(
    read: Any, refused: Any, option: str, value: Any, refusal: str
) -> None:
    with refused(refusal):
        read(**{option: value})


def test_all_mistakes_are_told_at_once(read: Any, refused: Any) -> None:
    with refused(f"vnode_count is 0. {COUNT} run_minutes is 0. {NUMBER}"):
        read(vnode_count=0, run_minutes=0)


@pytest.mark.parametrize(
    ("adapter", "threads", "says"),
    [
        ("spark", 4, "models can take turns only with the adapter (type: spark_backfill)"),
        ("spark_backfill", 1, "dbt runs with one thread"),
        ("spark_backfill", 2, None),
    ],
)
def test_turns_that_cannot_be_taken_are_warned_of(
    macros: Macros, read: Any, adapter: str, threads: int, says: str | None
) -> None:
    macros.context["adapter"].type = lambda: adapter
    macros.context["target"]["threads"] = threads

    assert read(take_turns=True)["take_turns"] is True
    assert [says in line for line in macros.logged] == ([True] if says else [])
    assert all("dbt-backfill run --turns takes turns" in line for line in macros.logged)


def test_a_turn_of_the_command_line_is_one_barrier(macros: Macros, read: Any) -> None:
    macros.context["env_var"] = {"DBT_BACKFILL_TURNS": "1"}.get
    options = read(take_turns=True, barriers_per_run="all", run_minutes=5, run_rows=10)

    assert options["barriers_per_run"] == 1
    assert (options["run_minutes"], options["run_rows"]) == (None, None)
    assert macros.logged == []


@pytest.mark.parametrize("value", [None, "", []])
def test_a_missing_unique_key_is_refused_with_an_example(
    read: Any, refused: Any, value: Any
) -> None:
    with refused(
        "unique_key is missing. Name the model's columns that carry the primary key of the "
        "upstream, such as unique_key=['id']."
    ):
        read(unique_key=value)


@pytest.mark.parametrize(
    "name",
    [
        *("backfill_ratelimit", "backfil_mode", "barrier_per_run", "vnodes", "vnode_counts"),
        *("check_keys", "on_query_changed", "on_gaps", "upstream_keys", "change_feeds"),
        "volatile_column",
        *("run_minute", "run_row", "barriers_seconds", "take_turn", "compact_ever"),
    ],
)
def test_a_misspelt_option_is_refused_with_the_names_there_are(
    read: Any, refused: Any, name: str
) -> None:
    text = (
        f"there is no option '{name}'. Correct or remove it, or move it into meta if another tool "
        "reads it. The options of a backfilled_mv are unique_key, "
        "upstream_key, volatile_columns, backfill_rate_limit, barriers_per_run, "
        "backfill_mode, vnode_count, "
        "backfill_vnodes, backfill_order, backfill_partitions, check_key, on_query_change, "
        "on_schema_change, on_gap, on_foreign_write, replace_existing, full_refresh_mode, "
        "live_view, file_format, change_feed, run_minutes, run_rows, barrier_seconds, take_turns, "
        "replicate, replica_rows, compact_every, sort_when_finished, and dbt's own."
    )
    with refused(text):
        read(**{name: 1})
    with refused(text):
        read(meta={name: 1})


@pytest.fixture
def read_in_model(macros: Macros, read: Any) -> Any:
    """Read options that are set in the model's own config()."""

    def read_in_model(**config: Any) -> dict[str, Any]:
        macros.context["model"]["config_call_dict"] = {"unique_key": "id", **config}
        macros.context["model"]["unrendered_config"] = {"unique_key": "id", **config}
        return read(**config)

    return read_in_model


@pytest.fixture
def read_outside(macros: Macros, read: Any) -> Any:
    """Read options that are set in dbt_project.yml or in a properties file."""

    def read_outside(**config: Any) -> dict[str, Any]:
        macros.context["model"]["config_call_dict"] = {"unique_key": "id"}
        macros.context["model"]["unrendered_config"] = {"unique_key": "id", **config}
        return read(**config)

    return read_outside


OF_DBT = {
    "materialized": "backfilled_mv", "tags": ["x"], "partition_by": "d", "clustered_by": "d",
    "tblproperties": {"a": "b"}, "pre-hook": [], "post_hook": "select 1", "meta": {"cron": "daily"},
    "event_time": "d", "contract": {"enforced": True}, "on_schema_change": "ignore",
    "incremental_strategy": None,
}  # fmt: skip


def test_options_of_dbt_are_let_pass(read_in_model: Any, macros: Macros) -> None:
    assert read_in_model(**OF_DBT)
    assert macros.logged == []


@pytest.mark.parametrize("name", ["chek_key", "uniqe_key", "elementary", "table"])
def test_an_option_that_nobody_knows_is_refused_in_the_model(
    read_in_model: Any, refused: Any, name: str
) -> None:
    with refused(f"there is no option '{name}'."):
        read_in_model(**{name: 1})


def test_an_option_that_nobody_knows_is_let_pass_where_it_may_be_for_others(
    read_outside: Any, macros: Macros
) -> None:
    assert read_outside(elementary={"x": 1}, chek_key=False, my_vnode=1)
    assert macros.logged == []


WITHOUT_EFFECT = [
    ("on_configuration_change", "apply", "Remove it: on_query_change and on_schema_change say"),
    ("incremental_strategy", "merge", "Remove it: changes are always merged by unique_key"),
    ("merge_exclude_columns", ["a"], "Remove it: changes are always merged by unique_key"),
    ("lookback", 3, "Remove it: backfill_rate_limit says how many rows one barrier reads"),
    ("cluster_by", ["a"], "Set clustered_by, which is liquid clustering on Delta"),
    ("sql_header", "set x=1", "Set a pre_hook, which runs in the same session"),
    ("database", "other", 'Remove it, or follow "Other catalogs"'),
    ("delete_condition", "a = 1", "Remove it: changes are always merged by unique_key"),
    ("row_filter", "a = 1", "Set a post_hook that alters the table"),
    ("table_format", "iceberg", "Set file_format to 'iceberg' or 'delta'"),
]


@pytest.mark.parametrize(("name", "value", "instead"), WITHOUT_EFFECT)
def test_an_option_without_effect_is_refused_in_the_model(
    read_in_model: Any, refused: Any, name: str, value: Any, instead: str
) -> None:
    with refused(f"{name} has no effect on a backfilled_mv. {instead}"):
        read_in_model(**{name: value})


@pytest.mark.parametrize(("name", "value", "instead"), WITHOUT_EFFECT)
def test_an_option_without_effect_is_warned_of_where_it_may_be_for_others(
    read_outside: Any, macros: Macros, name: str, value: Any, instead: str
) -> None:
    assert read_outside(**{name: value})
    (warning,) = macros.logged
    assert warning.startswith(
        f"backfilled_mv mv: {name} is set for this model, but has no effect on a backfilled_mv. "
        f"{instead}"
    )
    assert warning.endswith(f" To turn this warning off, set {name}=none in the model.")


def test_a_default_of_dbt_is_nobodys_setting(read: Any, macros: Macros) -> None:
    assert read(on_configuration_change="apply", lookback=1)
    assert macros.logged == []


def test_a_model_can_take_a_setting_of_its_folder_back(read_outside: Any, macros: Macros) -> None:
    assert read_outside(incremental_strategy=None, on_configuration_change="ignore")
    assert macros.logged == []


def test_a_database_has_an_effect_where_the_adapter_knows_one(
    read_in_model: Any, macros: Macros
) -> None:
    """Another adapter renders the database; `spark_backfill` makes it a part of the schema."""
    for database, schema in [("other", "lake"), (None, "other.lake")]:
        macros.context["this"] = SimpleNamespace(database=database, schema=schema)
        assert read_in_model(database="other")


def test_a_rebuild_at_every_run_is_warned_of(read: Any, macros: Macros) -> None:
    assert read(full_refresh=False)
    assert macros.logged == []
    assert read(full_refresh=True)
    (warning,) = macros.logged
    assert warning.startswith("backfilled_mv mv: full_refresh is true for this model, so every ")


def test_an_option_may_stand_in_meta(read: Any) -> None:
    """Some dbt engines warn about unknown options outside of `meta`."""
    assert read(meta={"backfill_rate_limit": 7, "owner": "me"})["backfill_rate_limit"] == 7


def test_an_option_in_meta_is_checked_as_any(read: Any, refused: Any) -> None:
    with refused("vnode_count is 0."):
        read(meta={"vnode_count": 0})


def test_an_option_of_the_config_goes_before_the_one_in_meta(read: Any) -> None:
    assert read(vnode_count=8, meta={"vnode_count": 16})["vnode_count"] == 8


def test_a_key_is_not_volatile(read: Any, refused: Any) -> None:
    assert read(unique_key="a", volatile_columns=["b"])["volatile_columns"] == ["b"]
    with refused(
        "volatile_columns contains 'b', which unique_key contains as well. Remove it from "
        "volatile_columns: a key must have the same value in each run."
    ):
        read(unique_key=["a", "b"], volatile_columns=["c", "B"])


def test_upstream_key_needs_a_column_for_each_of_unique_key(read: Any, refused: Any) -> None:
    assert read(unique_key=["a", "b"], upstream_key=["x", "y"])["upstream_key"] == ["x", "y"]
    with refused(
        "upstream_key has 1 columns, but unique_key has 2. Name, for each column of unique_key, "
        "the column of the upstream that it carries, in the same order."
    ):
        read(unique_key=["a", "b"], upstream_key="x")


@pytest.mark.parametrize("mode", ["no_shuffle", "snapshot"])
def test_vnodes_can_be_selected_only_where_each_has_a_position(
    read: Any, refused: Any, mode: str
) -> None:
    with refused(
        f"backfill_vnodes needs a position per vnode, but backfill_mode '{mode}' does not keep "
        "these positions. Remove backfill_vnodes, or set backfill_mode to 'arrangement'."
    ):
        read(backfill_vnodes=[0], backfill_mode=mode)


def test_a_selected_vnode_has_to_be_one_of_vnode_count(read: Any, refused: Any) -> None:
    assert read(backfill_vnodes=[7], vnode_count=8)["backfill_vnodes"] == [7]
    with refused(
        "the option backfill_vnodes contains vnode 8, but vnode_count is 8. Use vnode numbers from "
        "0 to 7."
    ):
        read(backfill_vnodes=[7, 8], vnode_count=8)


def test_a_refusal_names_another_mv_where_it_is_about_that_one(macros: Macros) -> None:
    with pytest.raises(Exception, match=r"backfilled_mv other: a fact\. A change\."):
        macros.call("refuse", "a fact", "A change", mv="other")
