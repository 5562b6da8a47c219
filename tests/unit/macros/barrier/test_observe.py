"""Step 1: which tables exist, and whether they belong together."""

from __future__ import annotations

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest
from dbt.adapters.spark.relation import SparkRelation
from dbt_common.exceptions import CompilationError

from support.macros import Macros
from support.messages import facts_of

Observe = Callable[..., Any]

# The plan of epoch 0. Nothing was merged into its MV yet.
CREATED = {"epoch": 0, "kind": "create", "backfill_id": "b1", "vnode_count": 4}
OURS = {"dbt_backfill.id": "b1", "dbt_backfill.format": "2"}
DROP = "dbt run-operation drop_backfill --args '{model: mv}'"


@pytest.fixture
def observe(
    macros: Macros, backfill: Any, analysis: Any, stored: Callable[..., str], no_questions: None
) -> Observe:
    """Return the result of observe_state if these tables exist: m(v), p(rogress), b(arriers),
    c(ontrols).
    """
    macros.context["model"] = SimpleNamespace(name="mv", unique_id="model.p.mv")
    macros.stub("_is_of_another_model", lambda backfill, missing, left: False)
    macros.stub("analyze_query", lambda backfill, nothing: analysis)

    def observe(
        exist: str = "mpb",
        properties: Any = None,
        type: str = "table",
        created: Any = None,
        **state: Any,
    ) -> Any:
        names = {"m": "mv", "p": "mv__progress", "b": "mv__barriers", "c": "mv__controls"}
        existing = {names[letter] for letter in exist}
        macros.stub(
            "load_table",
            lambda relation: (
                SparkRelation.create(schema="lake", identifier=relation.identifier, type=type)
                if relation.identifier in existing
                else None
            ),
        )
        macros.stub("find_table", lambda relation: created)
        ours = OURS if properties is None else properties
        macros.stub("read_table_properties", lambda relation: ours)
        macros.results = [[[stored(**state)]]] * (1 if "m" in exist or created else 2)
        return macros.call("observe_state", backfill)

    return observe


# -- the history --------------------------------------------------------------------------------


def test_an_mv_without_its_history_is_read(macros: Macros, observe: Observe) -> None:
    """The history is for people: no decision of a run depends on it."""
    state = observe("mp")["state"]

    assert (state["epoch"], state["written"]) == (2, None)
    assert "mv__barriers" not in macros.statements[0].sql


@pytest.mark.parametrize(("written", "known"), [(2, 2), (1, 1), (None, -1)])
def test_it_is_known_how_far_the_history_of_this_very_mv_is_written(
    observe: Observe, written: int | None, known: int
) -> None:
    assert observe(written=written)["state"]["written"] == known


# -- which tables exist -------------------------------------------------------------------------


def test_an_mv_that_is_not_there_yet_is_about_to_be_created(
    macros: Macros, observe: Observe, analysis: Any
) -> None:
    explained: list[Any] = []
    macros.stub("analyze_query", lambda backfill, known: explained.append(known) or analysis)
    observed = observe("")
    state = observed.pop("state")
    committed = state.pop("committed")

    assert observed == {"mv": None, "analysis": analysis}
    assert committed["backfill_id"]
    assert (state["missing"], state["epoch"], state["row_count"]) == (True, 0, 0)
    assert not state["finished"] and not state["dirty"]
    assert (committed["kind"], committed["epoch"]) == ("create", 0)
    assert (committed["next_bounds"], committed["bounds_complete"]) == ([], False)
    assert explained == [macros.call("new_analysis")]
    assert macros.statements == []


@pytest.mark.parametrize("exist", ["p", "pb"])
def test_what_a_run_that_died_has_not_created_is_created_before_anything_else(
    macros: Macros, observe: Observe, exist: str
) -> None:
    created: list[Any] = []
    macros.stub("create_backfill", lambda backfill, state: created.append(state))
    planned = {"epoch": 1, "kind": "advance", "backfill_id": "b1"}
    observed = observe(exist, epoch=0, last_epoch=0, planned=planned, committed=CREATED)
    state = observed["state"]

    assert observed["analysis"]["explained"]
    assert observed["mv"] is None  # its comments must be written
    assert [state["missing"] for state in created] == [True]
    assert state["planned"] == planned
    assert not state.get("missing")


def test_a_plan_of_an_earlier_mv_is_removed(
    macros: Macros, observe: Observe, progress: Any, make_plan: Any, with_plan: Any
) -> None:
    """A late script of the earlier MV has stored it."""
    late = make_plan(plan_id="late", backfill_id="b0")
    state = observe(planned=late)["state"]
    [_, removal] = macros.statements

    assert state["planned"] is None
    assert (state["epoch"], state["committed"]["backfill_id"]) == (2, "b1")

    columns = ("epoch", "plan_id", "plan_kind", "plan", "last")
    progress.fill(last="the committed plan", **with_plan(plan_id="late", backfill_id="b0"))
    [kept, *_] = progress.read("last")
    assert progress.run(removal.sql) == 2
    assert progress.read(*columns) == [(2, None, None, None, kept), (2, None, None, None, None)]

    # A plan that was stored meanwhile stays.
    progress.fill(**with_plan())
    assert progress.run(removal.sql) == 0
    assert progress.read("plan_id", "plan_kind") == [("p3", "advance")] * 2


def test_a_plan_of_this_mv_stays(macros: Macros, observe: Observe, make_plan: Any) -> None:
    planned = make_plan(plan_id="left")

    assert observe(planned=planned)["state"]["planned"] == planned
    assert len(macros.statements) == 1


def test_what_was_begun_for_another_model_is_created_anew(macros: Macros, observe: Observe) -> None:
    macros.stub("_is_of_another_model", lambda backfill, missing, left: True)
    macros.stub("create_backfill", lambda *_: pytest.fail("created"))

    state = observe("p", epoch=0, last_epoch=0, committed=CREATED)["state"]
    assert state["missing"] and state["committed"]["replaces"] == CREATED["backfill_id"]


def test_an_mv_that_was_created_since_dbt_listed_the_tables_is_read(
    macros: Macros, observe: Observe
) -> None:
    """Another run may be executing its first barrier. The state belongs to the other run."""
    macros.stub("_is_of_another_model", lambda *_: pytest.fail("gives way"))
    there = SparkRelation.create(schema="lake", identifier="mv", type="table")
    observed = observe("pb", created=there)

    assert observed["mv"]["properties"]["dbt_backfill.id"] == "b1"
    assert not observed["state"].get("missing")


def missing(analysis: Any) -> dict[str, Any]:
    """Return what a run observes if there is no MV, in the session of `make_state`."""
    settings = {"spark.sql.session.timeZone": "UTC", "spark.sql.ansi.enabled": "false"}
    return {"analysis": analysis, "state": {"settings": settings}}


@pytest.mark.parametrize("begun", ["committed", "planned"])
@pytest.mark.parametrize(
    ("left", "gives_way"),
    [
        ({}, False),
        ({"query_hash": "h2", "query": "select 2 as k"}, True),
        ({"vnode_count": 8}, False),
    ],
)
def test_what_was_begun_for_another_model_gives_way(
    macros: Macros, backfill: Any, analysis: Any, make_state: Any, make_plan: Any, begun: str,
    left: Any, gives_way: bool,
) -> None:  # fmt: skip
    found = make_state(
        epoch=0, **({"committed": CREATED} | {begun: make_plan(kind="create", **left)})
    )

    assert macros.call("_is_of_another_model", backfill, missing(analysis), found) is gives_way


@pytest.mark.parametrize("kind", ["adopt", "replace"])
def test_the_state_of_a_table_that_was_to_be_taken_and_is_gone_gives_way(
    macros: Macros, backfill: Any, analysis: Any, make_state: Any, make_plan: Any, kind: str
) -> None:
    found = make_state(epoch=0, committed=make_plan(epoch=0, kind=kind))

    assert macros.call("_is_of_another_model", backfill, missing(analysis), found) is True


def test_a_progress_table_without_a_state_gives_way_to_nothing(
    macros: Macros, backfill: Any, analysis: Any, make_state: Any
) -> None:
    damaged = make_state() | {"committed": None}
    assert not macros.call("_is_of_another_model", backfill, missing(analysis), damaged)


@pytest.mark.parametrize("exist", ["mpb", "p"])
@pytest.mark.parametrize("format", ["1", None, "3"])
def test_a_state_of_another_format_is_refused_by_its_number(
    macros: Macros, observe: Observe, refused: Any, exist: str, format: str | None
) -> None:
    """States of the first format have no format number. No statement may read a state of another
    format, because its columns may differ.
    """
    properties = {"dbt_backfill.id": "b1", **({"dbt_backfill.format": format} if format else {})}
    with refused(
        f"its state lake.mv__progress has the format {format or 1}, but this version of the "
        "package reads 2. Use the version of the package that created the state, or drop lake.mv, "
        "lake.mv__progress and lake.mv__barriers to build the MV again."
    ):
        observe(exist, properties)
    assert macros.statements == []


@pytest.mark.parametrize(
    ("file_format", "name", "value", "needed"),
    [
        ("iceberg", "write.wap.enabled", "true", "false"),
        ("iceberg", "write.merge.isolation-level", "snapshot", "serializable"),
        ("delta", "delta.appendOnly", "true", "false"),
    ],
)
def test_an_mv_that_was_altered_to_be_inexact_is_refused(
    macros: Macros,
    observe: Observe,
    options: Any,
    refused: Any,
    file_format: str,
    name: str,
    value: str,
    needed: str,
) -> None:
    options["file_format"] = file_format
    properties = {**OURS, "format": f"{file_format}/parquet", name: value}
    with refused(
        f"lake.mv has the table property '{name}' = '{value}', so barriers would not be exact. "
        f"Execute ALTER TABLE lake.mv SET TBLPROPERTIES ('{name}' = '{needed}')."
    ):
        observe(properties=properties)
    assert macros.statements == []


def test_an_mv_that_is_gone_is_refused(observe: Observe, refused: Any) -> None:
    with refused(
        "lake.mv does not exist, but its state does (lake.mv__progress). Restore the MV, or drop "
        f"its state to build the MV again: {DROP}."
    ):
        observe("pb", epoch=1)


@pytest.mark.parametrize(
    ("exist", "properties", "hint"),
    [
        ("m", None, "Restore the state, or drop lake.mv to build the MV again: "),
        ("pb", None, "Restore the MV, or drop its state to build the MV again: "),
        ("m", {}, "Drop or rename that table."),
    ],
)
def test_the_way_out_of_a_next_generation_leaves_the_mv_in_use(
    observe: Observe, backfill: Any, exist: str, properties: Any, hint: str
) -> None:
    backfill["generation"] = "next"
    with pytest.raises(CompilationError) as raised:
        observe(exist, properties, epoch=1)

    message = facts_of(raised.value.msg)
    assert hint in message
    drop = "drop_backfill --args '{model: mv, generation: next}'."
    assert message.endswith(hint if properties == {} else drop)


@pytest.mark.parametrize("exist", ["m", "mb"])
def test_a_state_that_is_missing_is_refused(observe: Observe, refused: Any, exist: str) -> None:
    with refused(
        "its state is missing: lake.mv__progress does not exist. Restore the state, or drop "
        f"lake.mv to build the MV again: {DROP}. Or have its rows compared with the query: dbt run-"
        "operation adopt_table --args '{model: mv}'."
    ):
        observe(exist)


COPIED = {**OURS, "dbt_backfill.mv": "prod.mv"}


def test_a_copy_without_its_state_is_refused_as_a_clone_with_both_ways(
    observe: Observe, refused: Any
) -> None:
    with refused(
        "lake.mv is a clone of the MV prod.mv, but the state of that MV was not cloned. To "
        "continue from the state of that MV: dbt run-operation clone_backfill --args '{model: mv, "
        "source: prod.mv, replace: true}'. To have the rows of the clone compared with the query: "
        "dbt run-operation adopt_table --args '{model: mv}'."
    ):
        observe("m", COPIED)
    with refused(
        "lake.mv is a clone of the MV prod.mv, but the state of that MV was not cloned. To "
        "continue from the state of that MV: "
    ):
        observe("m", {**OURS, "dbt_backfill.mv": "lake.mv", "dbt_backfill.clone": "prod.mv"})


def test_a_copy_with_a_state_that_was_copied_beside_it_is_refused(
    observe: Observe, refused: Any
) -> None:
    """The two copies may be of different barriers, although their ids are equal."""
    with refused(
        "lake.mv and its state are copies of the MV prod.mv and its state, but clone_backfill did "
        "not make these copies, so they may be of different barriers. "
    ):
        observe(properties=COPIED)


@pytest.mark.parametrize(
    ("name", "original"),
    [
        (None, None),
        ("lake.mv", None),
        ("Lake.`MV`", None),
        ("spark_catalog.lake.mv", None),
        ("other.mv", "other.mv"),
        ("lake.mv2", "lake.mv2"),
        # Spark shows this text instead of a name that contains `secret`.
        ("*********(redacted)", None),
    ],
)
def test_a_copy_is_known_by_the_name_of_the_original(
    macros: Macros, relations: Any, name: str | None, original: str | None
) -> None:
    properties = OURS | ({"dbt_backfill.mv": name} if name else {})

    assert macros.call("find_original", relations["mv"], properties) == original


@pytest.mark.parametrize("left", ["b", "c", "bc"])
def test_what_an_mv_of_before_has_left_is_not_a_state(observe: Observe, left: str) -> None:
    assert observe(left)["state"]["missing"]


NO_CONTROLS = (
    "lake.mv__controls has the name of its controls table, but was not created by this package. "
    "Rename that table, or give the model another alias."
)


@pytest.mark.parametrize(("type", "properties"), [("table", {}), ("view", OURS)])
def test_controls_of_others_are_refused_before_an_mv_is_made(
    macros: Macros, observe: Observe, refused: Any, type: str, properties: Any
) -> None:
    with refused(NO_CONTROLS):
        observe("c", properties, type)


def test_controls_in_another_catalog_are_not_looked_for(
    macros: Macros, backfill: Any, relations: Any
) -> None:
    macros.stub("load_table", lambda relation: pytest.fail("looked for it"))
    controls = relations["controls"].incorporate(path={"schema": "other.lake"})
    there = {"barriers": None}
    macros.call("check_leftovers_are_ours", {**backfill, "controls": controls}, there)


def test_controls_of_others_that_appear_later_are_refused(
    macros: Macros, observe: Observe, refused: Any
) -> None:
    with refused(NO_CONTROLS):
        observe(control='{"foreign": true}')


FOREIGN = (
    "lake.mv exists, but was not made by this materialization. To keep its rows: dbt run-operation "
    "adopt_table --args '{model: mv}'. To replace the table: set replace_existing to true, and run "
    "the model once with --full-refresh. Or drop or rename the table."
)


@pytest.mark.parametrize("exist", ["m", "mpb"])
@pytest.mark.parametrize("properties", [{}, {"delta.minReaderVersion": "1"}])
def test_a_table_without_our_id_is_refused(
    observe: Observe, refused: Any, exist: str, properties: dict[str, str]
) -> None:
    with refused(FOREIGN):
        observe(exist, properties)


def test_a_view_is_refused(macros: Macros, observe: Observe, refused: Any) -> None:
    with refused(FOREIGN):
        observe(type="view")
    with refused(FOREIGN):
        observe("m", {}, type="view")


@pytest.mark.parametrize(
    ("properties", "made_as", "file_format"),
    [
        ({}, "delta", "iceberg"),
        ({"format": "iceberg/parquet"}, "iceberg", "delta"),
    ],
)
def test_another_format_than_the_mv_was_made_in_is_refused(
    observe: Observe,
    refused: Any,
    options: Any,
    properties: dict[str, str],
    made_as: str,
    file_format: str,
) -> None:
    options["file_format"] = file_format
    with refused(
        f"file_format changed from {made_as} to {file_format} since lake.mv was created. Undo the "
        f"change, or drop the MV and its state to build the MV again: {DROP}."
    ):
        observe(properties={**OURS, **properties})


@pytest.mark.parametrize("exist", ["", "mpb"])
def test_a_catalog_that_caches_is_refused_before_the_state_counts(
    macros: Macros, observe: Observe, options: Any, exist: str
) -> None:
    class CachesError(Exception):
        pass

    def read_settings(backfill: Any) -> None:
        raise CachesError

    options["file_format"] = "iceberg"
    macros.stub("read_settings", read_settings)
    with pytest.raises(CachesError):
        observe(exist, rows=3)
    assert macros.statements == []


ANOTHER = (
    "its state lake.mv__progress belongs to another MV. Restore the state that was created "
    f"with lake.mv, or drop both to build the MV again: {DROP}. Or drop only the state to adopt "
    "the table: dbt run-operation drop_backfill --args '{model: mv, keep_mv: true}'."
)


def test_a_state_of_another_mv_is_refused(observe: Observe, refused: Any, make_plan: Any) -> None:
    with refused(ANOTHER):
        observe(committed=make_plan(epoch=2, backfill_id="b2"))


def test_an_mv_with_another_id_is_refused(observe: Observe, refused: Any) -> None:
    with refused(ANOTHER):
        observe(properties={**OURS, "dbt_backfill.id": "b2"})


def test_a_progress_table_without_a_committed_plan_is_refused(
    macros: Macros, observe: Observe, refused: Any, make_state: Any
) -> None:
    state = make_state()
    del state["committed"]
    macros.stub("read_state", lambda *_, **__: {**state, "committed": None})
    with refused(ANOTHER):
        observe()


@pytest.mark.parametrize(
    ("state", "damage"),
    [
        ({"rows": 3}, "it has 3 rows for 4 vnodes, and the epochs of these rows are 2 to 2"),
        ({"rows": 5}, "it has 5 rows for 4 vnodes, and the epochs of these rows are 2 to 2"),
        ({"last_epoch": 3}, "it has 4 rows for 4 vnodes, and the epochs of these rows are 2 to 3"),
        (
            {"epoch": 3, "last_epoch": 3},
            "it has 4 rows for 4 vnodes, and the epochs of these rows are 3 to 3",
        ),
    ],
    ids=["a row is gone", "a row too many", "epochs differ", "not that of its last plan"],
)
def test_a_damaged_progress_table_is_refused(
    observe: Observe, refused: Any, state: Any, damage: str
) -> None:
    with refused(
        f"lake.mv__progress is damaged: {damage}. Restore an earlier version of this table, or "
        f"drop this table and lake.mv to build the MV again: {DROP}."
    ):
        observe(**state)


def test_the_progress_table_keeps_its_vnodes_when_a_reset_is_given_up(
    observe: Observe, make_plan: Callable[..., Any], make_source: Any
) -> None:
    unread = [make_source(version=None)]
    given_up = make_plan(epoch=2, kind="abandon", sources=unread, vnode_count=8)

    assert observe(rows=4, committed=given_up)["state"]["epoch"] == 2
