"""The MERGE of changes is exact with every form of its filter of the staged keys.

The macros choose the form by the number of keys, so each test forces one form for every barrier:
macros/core/barrier/key_filter.sql.

DBT_BACKFILL_FILTERED=100   the number of random histories for each form (default 4)
"""

from __future__ import annotations

import itertools
import json
import os
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import HealthCheck, Phase, given, settings

from exactness.conftest import summary
from exactness.histories import History, histories
from exactness.mutants import mutated
from exactness.play import Player
from support.checks import model, source
from support.lake import Lake
from support.macros import Macros
from support.project import Project

HISTORIES = int(os.environ.get("DBT_BACKFILL_FILTERED", "4"))
LIMITS = "{'listed': 64, 'hashed': 500000, 'words': 65536}"
FORMS = {
    "a list of any length": "{'listed': 500000, 'hashed': 500000, 'words': 65536}",
    "a Bloom filter for any number": "{'listed': -1, 'hashed': 500000, 'words': 65536}",
    "64 bits, which other keys have, too": "{'listed': -1, 'hashed': 500000, 'words': 1}",
    "no filter": "{'listed': -1, 'hashed': -1, 'words': 1}",
}

MakeFiltered = Callable[[str], Project]
_numbers = itertools.count(1)


@pytest.fixture
def make_filtered(
    lake: Lake, parsed: Callable[[str], Path], tmp_path_factory: pytest.TempPathFactory
) -> MakeFiltered:
    def make(form: str) -> Project:
        directory = tmp_path_factory.mktemp("filtered")
        replacement = ("core/barrier/key_filter.sql", LIMITS, FORMS[form])
        packages = mutated(directory / "packages", [replacement])
        name = f"filtered_{next(_numbers)}"
        return Project(directory / "project", lake, name, packages=packages, parsed=parsed("spark"))

    return make


@settings(
    max_examples=HISTORIES,
    deadline=None,
    derandomize=True,
    database=None,
    phases=(Phase.explicit, Phase.generate),
    suppress_health_check=list(HealthCheck),
)
@given(history=histories())
@pytest.mark.every_profile
@pytest.mark.profiles("session-delta", "session-iceberg", reason="all runs share one session")
@pytest.mark.parametrize("form", FORMS)
def test_every_version_is_exact(make_filtered: MakeFiltered, form: str, history: History) -> None:
    summary.add(Player(make_filtered(form), history, f"f{next(_numbers)}").play())


KEYS = {
    "id": "id bigint, part int",
    "name": "name string, part int",
    "day": "day date, part int",
    "at": "at timestamp, part int",
    "amount": "amount decimal(20, 3), part int",
    "code": "code binary, part int",
}
VALUES = {
    "id": "id * 1000003",
    "name": "concat('na\\'me ${x} ', id)",
    "day": "date_add(date'1500-01-01', cast(id as int))",
    "at": "timestamp_micros(id * 1000003)",
    "amount": "cast(id as decimal(20, 3)) / 7",
    "code": "unhex(hex(id))",
}


@pytest.mark.every_profile
@pytest.mark.profiles("session-delta", "session-iceberg", reason="all runs share one session")
@pytest.mark.parametrize("form", FORMS)
def test_a_key_of_any_type_is_found(make_filtered: MakeFiltered, form: str) -> None:
    """Of 400 rows, 100 are updated, 40 deleted and 20 inserted. They lie all over the table."""
    project = make_filtered(form)
    models = {}
    for key, columns in KEYS.items():
        project.create_table(f"up_{key}", f"{columns}, v int")
        value = f"select {VALUES[key]}, cast(id % 4 as int), cast(id as int)"
        project.sql(f"insert into {project.table(f'up_{key}')} {value} from range(400)")
        query = f"select v, part as p, {key} as k from {source(f'up_{key}')}"
        models[f"mv_{key}"] = model(query, unique_key=["k", "p"])
    project.write(models, sources=[f"up_{key}" for key in KEYS])
    project.run()
    for key in KEYS:
        up = project.table(f"up_{key}")
        project.sql(f"update {up} set v = -v where v % 4 = 1")
        project.sql(f"delete from {up} where v % 10 = 2")
        value = f"select {VALUES[key]}, cast(id % 4 as int), cast(id as int)"
        project.sql(f"insert into {up} {value} from range(1000, 1020)")
    ran = project.run()
    for key in KEYS:
        assert "re-anchored" not in ran.message(f"mv_{key}")
        upstream = f"select v, part as p, {key} as k from {project.table(f'up_{key}')}"
        for one, other in itertools.permutations([upstream, f"select * from {{schema}}.mv_{key}"]):
            assert project.rows(f"({one}) except all ({other})") == []
    if project.file_format == "delta":
        # Delta logs the name of the variable that has the words of the filter, not the words.
        log = project.sql("describe history {schema}.mv_id limit 1")[0]["operationParameters"]
        assert form.startswith("a list") or len(log["predicate"]) < 2000


COUNTS = [*range(1, 9), 64, 65, 300]
COLUMNS = {"id": "bigint", "name": "string", "day": "date"}


@pytest.mark.core("session-delta", "session-iceberg")
@pytest.mark.profiles("session-delta", "session-iceberg", reason="the session has the variables")
@pytest.mark.every_profile
@pytest.mark.parametrize("names", [["id"], ["name"], ["day", "id"]], ids=" and ".join)
def test_the_filter_passes_each_staged_key(project: Project, names: list[str]) -> None:
    """The filter is made by the statements of the planning script, for few and for many keys."""
    macros, view = Macros(), f"`{project.schema}_keys`"
    keys = [{"name": name, "upstream": name, "type": COLUMNS[name]} for name in names]
    backfill = {"options": {"file_format": project.file_format}}
    made = macros.call("get_merged_statements", backfill, keys, view)
    for count in COUNTS:
        rows = (
            "select 7 * id as id, concat('k', id) as name, id % 3 = 0 as __bf_dropped, "
            "date_add(date'2020-01-01', cast(id % 50 as int)) as day"
        )
        project.sql(f"create or replace temporary view {view} as {rows} from range({count})")
        [[merged]] = project.sql(
            f"""begin
                declare staged struct<count: bigint>;
                declare reread struct<count: bigint>;
                declare merged struct<upserts: bigint, drops: bigint, filter: string>;
                declare __bf_keys bigint;
                declare __bf_words int;
                set staged = named_struct('count', {count});
                {made};
                select to_json(merged);
            end"""
        )
        found = json.loads(merged)
        assert found["drops"] == (count + 2) // 3
        assert found["upserts"] + found["drops"] == count
        passed = f"select count(*) from ({rows} from range(5000)) as mv where {found['filter']}"
        assert project.value(f"{passed} and id < {7 * count}") == count
        assert project.value(passed) < count + 500, "the filter passes too many other keys"
