"""Changes of a model since its last plan: which of them require a rebuild?"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from dbt.adapters.spark.relation import SparkRelation

from support.macros import Macros

OTHER_QUERY = {"query_hash": "h2", "query": "select id as k, 2 as shard from `up`"}

# Each entry: changes, options, and the fact that is reported.
CHANGES: dict[str, tuple[dict[str, Any], dict[str, Any], str]] = {
    "query": (OTHER_QUERY, {}, "its query changed"),
    "upstream": (
        {
            "upstream": {
                "relation": SparkRelation.create(schema="lake", identifier="up2"),
                "kind": "delta",
            }
        },
        {},
        "its upstream changed from lake.up to lake.up2",
    ),
    "unique_key": (
        {},
        {"unique_key": ["k"]},
        "unique_key changed from k, shard to k",
    ),
    "key type": (
        {"key": [{"name": "k", "upstream": "id", "type": "string"},
                 {"name": "shard", "upstream": "shard", "type": "int"}]},
        {},
        "the type of id changed from bigint to string",
    ),
    "lineage": (
        {"key": [{"name": "k", "upstream": "no", "type": "bigint"},
                 {"name": "shard", "upstream": "shard", "type": "int"}]},
        {},
        "the columns of the upstream that unique_key carries changed",
    ),
    "columns": (
        {"columns": "k: bigint, shard: int, v: int"},
        {},
        "the columns of its query changed from (k: bigint, shard: int) to (k: bigint, shard: int, "
        "v: int)",
    ),
}  # fmt: skip


@pytest.fixture
def find(macros: Macros, backfill: Any, analysis: Any, make_state: Callable[..., Any]) -> Any:
    """Return a function that returns the reason why the MV must be rebuilt, or None."""

    def find(changes: Any = None, options: Any = None, **state: Any) -> str | None:
        """Return why the MV must be rebuilt, or None.

        `changes` replaces entries of the model, or of the analysis of its query.
        """
        backfill["options"].update(options or {})
        changes = changes or {}
        backfill.update({name: value for name, value in changes.items() if name in backfill})
        known = {name: value for name, value in changes.items() if name in analysis}
        assert len(changes) == len(known) + len(changes.keys() & backfill.keys())
        found = {**analysis, **known}
        reason = macros.call("find_change", backfill, make_state(**state), found)["rebuild"]
        assert reason is None or isinstance(reason, str)
        return reason

    return find


@pytest.mark.parametrize("explained", [True, False])
def test_a_model_that_means_the_same_goes_on(find: Any, explained: bool) -> None:
    assert find({"explained": explained}) is None


@pytest.mark.parametrize(("changes", "settings", "reason"), CHANGES.values(), ids=CHANGES)
def test_a_change_is_refused_with_what_changed(
    find: Any, refused: Any, changes: Any, settings: Any, reason: str
) -> None:
    with refused(
        f"{reason} since its last barrier. Undo the change, or rebuild the MV: once with "
        "--full-refresh, or always with on_query_change='rebuild'."
    ):
        find(changes, settings)


@pytest.mark.parametrize(("changes", "settings", "reason"), CHANGES.values(), ids=CHANGES)
def test_a_change_rebuilds_the_mv_where_the_user_said_so(
    find: Any, changes: Any, settings: Any, reason: str
) -> None:
    assert find(changes, {**settings, "on_query_change": "rebuild"}) == reason


@pytest.mark.parametrize("broken", ["observe_upstream", "analyze_query"])
def test_what_is_wrong_with_the_query_of_today_is_said_before_that_it_changed(
    find: Any, macros: Macros, refused: Any, broken: str
) -> None:
    """Otherwise a user would rebuild the MV for a query that is refused afterwards."""
    for name in ("observe_upstream", "analyze_query"):
        macros.stub(name, lambda *_: None)
    macros.stub(
        broken, lambda *_: macros.call("refuse", "it cannot be followed", "Change it", id="a-b")
    )
    changed = {**OTHER_QUERY, "explained": False}

    with refused("it cannot be followed. Change it."):
        find(changed)
    assert find(changed, {"on_query_change": "rebuild"}) == "its query changed"


def test_quotes_are_no_change_of_the_upstream(find: Any, up: Any) -> None:
    quoted = up.quote(schema=True, identifier=True)

    assert find({"upstream": {"relation": quoted, "kind": "delta"}}) is None


@pytest.fixture
def found(macros: Macros) -> list[Any]:
    """Return the results of find_other_columns, one after the other."""
    answers: list[Any] = []
    macros.stub("find_other_columns", lambda *_: answers.pop(0))
    return answers


APPENDS = {"on_schema_change": "append_new_columns"}


def test_new_columns_alone_need_no_rebuild(
    macros: Macros, backfill: Any, analysis: Any, make_state: Any, found: list[Any]
) -> None:
    columns = {"fills": [{"name": "x", "type": "int"}], "drops": []}
    found.append({"columns": columns, "why": None})
    backfill["options"].update(APPENDS, on_query_change="rebuild")
    model = {**backfill, **OTHER_QUERY}

    change = macros.call("find_change", model, make_state(), analysis)
    assert change == {"rebuild": None, "columns": columns}


def test_where_other_things_changed_too_it_is_said_which(
    find: Any, refused: Any, found: list[Any]
) -> None:
    found += [{"columns": None, "why": "it no longer returns x"}] * 3

    with refused(
        "its query changed since its last barrier, and more than new columns changed: it no "
        "longer returns x. Undo the change, or rebuild the MV: once with --full-refresh, or"
    ):
        find(OTHER_QUERY, APPENDS)
    with refused("its query changed since its last barrier, and more than its columns changed:"):
        find(OTHER_QUERY, {"on_schema_change": "sync_all_columns"})
    assert find(OTHER_QUERY, {**APPENDS, "on_query_change": "rebuild"}) == "its query changed"


def test_new_columns_are_not_looked_for_where_nothing_or_everything_changes(
    find: Any, make_plan: Any, found: list[Any], refused: Any
) -> None:
    assert find(None, APPENDS) is None
    with refused("its query changed since its last barrier. Undo"):
        find(OTHER_QUERY, APPENDS, planned=make_plan(kind="reset"))


def test_other_columns_are_refused_where_the_user_said_so(find: Any, refused: Any) -> None:
    options = {"on_schema_change": "fail", "on_query_change": "rebuild"}

    with refused(
        "the columns of its query changed from (k: bigint, shard: int) to (k: bigint) since its "
        "last barrier. Undo the change, rebuild the MV once with --full-refresh, or remove "
        "on_schema_change='fail'."
    ):
        find({**OTHER_QUERY, "columns": "k: bigint"}, options)
    assert find({**OTHER_QUERY, "columns": "k: bigint, shard: int"}, options) == "its query changed"


def test_a_change_of_rate_or_mode_is_no_change_of_the_query(find: Any) -> None:
    options = {"backfill_rate_limit": 99, "backfill_mode": "snapshot", "check_key": False}

    assert find(None, options) is None


def test_another_time_zone_is_a_change_of_a_query_that_depends_on_it(
    find: Any, refused: Any, make_plan: Callable[..., Any]
) -> None:
    committed = make_plan(settings={"spark.sql.session.timeZone": "Europe/Berlin"})

    with refused(
        "the session's time zone, on which its query depends, changed from Europe/Berlin to UTC "
        "since its last barrier"
    ):
        find(committed=committed)
    assert find(committed=committed, settings=dict(committed["settings"])) is None


def test_another_time_zone_is_no_change_of_any_other_query(find: Any) -> None:
    assert find(settings={"spark.sql.session.timeZone": "Asia/Tokyo"}) is None


def test_another_ansi_mode_is_a_change_of_a_query_that_depends_on_it(
    find: Any, refused: Any, make_plan: Callable[..., Any]
) -> None:
    committed = make_plan(settings={"spark.sql.ansi.enabled": "true"})

    with refused(
        "spark.sql.ansi.enabled, on which its query depends, changed from true to false since its "
        "last barrier"
    ):
        find(committed=committed)
    assert find(committed=committed, settings=dict(committed["settings"])) is None
    assert find(settings={"spark.sql.ansi.enabled": "true"}) is None


def test_another_setting_that_may_give_other_values_is_a_change(find: Any, refused: Any) -> None:
    with refused(
        "spark.sql.timestampType, on which its query may depend, changed from TIMESTAMP_LTZ to "
        "TIMESTAMP_NTZ since its last barrier. Undo the change, or rebuild the MV: "
    ):
        find(settings={"spark.sql.timestampType": "TIMESTAMP_NTZ"})


def test_a_key_in_another_case_is_no_change(find: Any) -> None:
    assert find(None, {"unique_key": ["K", "Shard"]}) is None


def test_a_key_that_spark_tells_apart_by_its_case_is_a_change(
    find: Any, refused: Any, keys: Any
) -> None:
    """With spark.sql.caseSensitive, two column names may differ only in their case."""
    key = [{**keys[0], "name": "K"}, keys[1]]

    with refused("unique_key changed from k, shard to K, shard since its last barrier"):
        find({"key": key}, {"unique_key": ["K", "shard"]})


def test_a_planned_reset_is_what_the_model_is_compared_with(
    find: Any, make_plan: Callable[..., Any]
) -> None:
    """If a run plans a reset and dies, the next run compares the model with the planned query."""
    reset = make_plan(kind="reset", **OTHER_QUERY)

    assert find(OTHER_QUERY, planned=reset) is None


def test_a_plan_of_another_kind_is_not_what_the_model_is_compared_with(
    find: Any, refused: Any, make_plan: Callable[..., Any]
) -> None:
    with refused("its query changed since its last barrier"):
        find(OTHER_QUERY, planned=make_plan(**OTHER_QUERY))


def test_a_query_that_was_not_explained_is_compared_by_its_text(find: Any, macros: Macros) -> None:
    """A run that has nothing to do does not explain its query."""
    assert find(macros.call("new_analysis")) is None


def test_an_mv_about_to_be_created_has_nothing_to_differ_from(find: Any) -> None:
    assert find(OTHER_QUERY, missing=True) is None
