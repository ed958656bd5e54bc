"""Synthetic people follow their declaration, for every type and number."""

from __future__ import annotations

import time
from datetime import date
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

import dprelease
from dprelease.errors import DpReleaseError
from dprelease.numerics.entropy import Entropy
from dprelease.planning.prepare import prepare
from dprelease.rehearsal.column_values import Draws, Literals, parent_areas_first
from dprelease.rehearsal.people import TableRequest, generate_people, literals_in
from dprelease.rehearsal.stand_ins import StandIns
from dprelease.schema.load import read_declaration, table_from_mapping
from dprelease.schema.table import Table
from tests.rehearsal.build import write
from tests.replay import Keyed

CATEGORY = {"type": "category", "values": ["a", "b", "c"]}


def table(columns: dict[str, Any], **more: Any) -> Table:
    return table_from_mapping({"table": "t", "columns": columns, **more}, Path()).table


def people(
    made: Table, rows: int, keys: frozenset[str] = frozenset(), key: str = "p"
) -> pd.DataFrame:
    wanted = TableRequest(rows, None, keys)
    return generate_people(made, wanted, Draws(Keyed(key)), Literals()).to_pandas()


def test_draws_are_within_their_ranges() -> None:
    draws = Draws(Keyed("draws"))
    assert 0 <= draws.uniform(10**5).min() <= draws.uniform(10**5).max() < 1
    assert set(draws.integers(10**5, -2, 3).tolist()) == {-2, -1, 0, 1, 2, 3}
    weights = np.array([0.0, 3.0, 0.0, 1.0])
    counts = np.bincount(draws.weighted_indices(40_000, weights), minlength=4)
    assert counts[0] == counts[2] == 0
    assert abs(counts[1] - 30_000) < 6.2 * np.sqrt(40_000 * 3 / 16)
    numbers = draws.log_uniform_integers(10**5, 7, 0.1)
    assert set(numbers.tolist()) == set(range(1, 15))
    assert abs((numbers > 7).mean() - 0.1) < 0.01
    assert set(draws.log_uniform_integers(10**4, 1, 0.0).tolist()) == {1}
    at_its_end = Draws(
        type("Ones", (), {"words": lambda _, n: np.full(n, 2**64 - 1, dtype=np.uint64)})()
    )
    assert at_its_end.weighted_indices(3, np.array([1.0, 1e-300, 1.0])).tolist() == [2, 2, 2]
    assert at_its_end.integers(1, 0, 9).tolist() == [9]


@pytest.mark.parametrize(
    "column",
    [
        {"type": "integer", "lower": -3, "upper": 40},
        {"type": "integer", "lower": 5, "upper": 5},
        {"type": "integer", "lower": -(2**61), "upper": 2**61},
        {"type": "integer"},
        {"type": "number", "lower": "-0.3", "upper": "0.7", "step": "0.1"},
        {"type": "number", "lower": 0, "upper": 10**9},
        {"type": "number"},
        {"type": "date", "lower": "2024-02-28", "upper": "2024-03-01"},
        {"type": "date"},
        {"type": "timestamp"},
        {"type": "boolean"},
        {"type": "text"},
        {**CATEGORY},
        {**CATEGORY, "others": "b"},
    ],
    ids=lambda column: "-".join(map(str, column.values()))[:40],
)
def test_values_cover_their_bounds(column: dict[str, Any]) -> None:
    made = people(table({"v": column}), 20_000)["v"]
    assert abs(made.isna().mean() - 0.02) < 0.007
    known = made.dropna()
    if "lower" in column:
        low, high = column["lower"], column["upper"]
        if column["type"] == "date":
            low, high = date.fromisoformat(low), date.fromisoformat(high)
            assert set(known) == {date(2024, 2, 28), date(2024, 2, 29), date(2024, 3, 1)}
        else:
            known = known.astype(float)
            assert (known.min(), known.max()) == (float(low), float(high))
            assert (known == float(low)).mean() > 0.01
            assert (known == float(high)).mean() > 0.01
            span = float(high) - float(low)
            quarters = np.histogram(known, bins=4, range=(float(low), float(high) + (span == 0)))[0]
            assert (quarters > 0).all() or span == 0
    elif column["type"] == "category":
        shares = known.value_counts(normalize=True)
        assert shares["a"] > shares["b"] > shares["c"]
        assert ("undeclared" in shares) is ("others" in column)
    else:
        assert known.nunique() > 1


def test_declared_frequencies_and_parts_hold() -> None:
    spec = {
        "missing": 0, "undeclared": "0.25", "zipf": 0,
        "frequencies": {"a": {"c": 1, "a": 3}, "b": {"true": 1}},
    }  # fmt: skip
    made = people(
        table(
            {"a": {**CATEGORY, "others": "a"}, "b": {"type": "boolean"}, "z": CATEGORY},
            rehearsal=spec,
        ),
        40_000,
    )
    shares = made["a"].value_counts(normalize=True)
    assert shares.to_dict() == pytest.approx(
        {"a": 0.5625, "undeclared": 0.25, "c": 0.1875}, abs=0.02
    )
    assert made["b"].all()
    assert made["z"].value_counts(normalize=True).to_list() == pytest.approx([1 / 3] * 3, abs=0.02)
    assert made.notna().all(axis=None)


def test_nested_areas_are_consistent() -> None:
    """Whatever the order in which columns are declared, and with two that lie in one."""
    columns = {
        "town": {"type": "category", "within": "state", "values": {"S": ["s1", "s2"], "T": ["t1"]}},
        "court": {"type": "category", "within": "state", "values": {"T": ["ct"], "S": ["cs"]}},
        "block": {"type": "category", "within": "town", "values": {"s1": ["1"], "s2": ["2", "3"], "t1": ["4"]}},
        "state": {"type": "category", "values": ["T", "S"]},
    }  # fmt: skip
    made = people(table(columns, rehearsal={"missing": 0}), 5_000)
    assert parent_areas_first(table(columns).columns)[0] == "state"
    assert set(zip(made["state"], made["town"], made["block"], made["court"], strict=True)) == {
        ("S", "s1", "1", "cs"), ("S", "s2", "2", "cs"), ("S", "s2", "3", "cs"), ("T", "t1", "4", "ct"),
    }  # fmt: skip


@pytest.mark.each
@pytest.mark.parametrize("groups", [1, 2, 40, 10**6])
@pytest.mark.parametrize("rows_of_group", [1, 3, 10**9])
@pytest.mark.parametrize("rows", [1, 17, 5_000])
def test_units_have_declared_numbers_of_groups_and_rows(
    groups: int, rows_of_group: int, rows: int
) -> None:
    columns = {
        "id": {"type": "integer"},
        "k": CATEGORY,
        "x": {"type": "integer", "lower": 0, "upper": 10**9},
    }
    unit = {"id": "id", "max_groups": groups, "max_rows_per_group": rows_of_group}
    made = people(table(columns, privacy_unit=unit, rehearsal={"missing": 0}), rows)
    assert len(made) == rows
    assert made["id"].notna().all()
    ids = np.sort(made["id"].unique())
    assert ids.tolist() == list(range(1, len(ids) + 1))
    if rows == 5_000:
        assert len(ids) >= 10
        most = made.groupby("id").size().max()
        assert most <= 2 * groups * 2 * rows_of_group
        if groups * rows_of_group < 50:
            assert most > groups * rows_of_group  # some are beyond: bounds have something to cut
            strict = table(columns, privacy_unit=unit, rehearsal={"missing": 0, "beyond": 0})
            sizes = people(strict, rows).groupby("id").size()
            assert sizes.max() <= groups * rows_of_group
            assert sizes.nunique() >= min(groups * rows_of_group, 3)


def test_size_is_a_number_of_persons() -> None:
    unit = {"id": "id", "max_groups": 2, "max_rows_per_group": 2}
    declared = table({"id": {"type": "text"}}, privacy_unit=unit, size=500)
    made = generate_people(
        declared, TableRequest(None, 500, frozenset()), Draws(Keyed("s")), Literals()
    )
    assert made["id"].to_pandas().nunique() == 500


def test_tables_share_people_and_use_public_keys(tmp_path: Path) -> None:
    declaration = read_declaration(write(tmp_path))
    stand_ins = StandIns.of(declaration, {}, {"visits": 2_000})
    queries, _ = prepare(stand_ins.declaration)
    made = {n: t.to_pandas() for n, t in stand_ins.invent(queries, Keyed("same")).invented.items()}
    assert set(made["visits"]["person"]) <= set(made["stays"]["person"])
    assert made["regions"]["code"].tolist() == ["BE", "ZH", "GE"]
    assert "gone" in set(made["visits"]["note"])  # a condition asks for it
    literals = literals_in(declaration)
    assert (literals.texts, [int(n) for n in literals.numbers]) == (("gone",), [18, 12])


@pytest.mark.parametrize(
    ("condition", "met"),
    [
        ("year(seen) = 1987", True),
        ("extract(year FROM seen) IN (1987, 1988)", True),
        ("seen >= DATE '1987-03-01'", True),
        ("age <> 1987", False),  # no year: instants are those of nowadays
    ],
)
def test_times_match_conditions_on_years(condition: str, met: bool, tmp_path: Path) -> None:
    path = write(tmp_path)
    path.write_text(path.read_text().replace("note <> 'gone' AND age >= 18", condition))
    literals = literals_in(read_declaration(path))
    declared = table({"seen": {"type": "timestamp"}})
    made = generate_people(
        declared, TableRequest(500, None, frozenset()), Draws(Keyed("s")), literals
    )
    years = [seen.year for seen in made.column("seen").to_pylist() if seen is not None]
    assert (years.count(1987) > 50) is met


def test_rehearsals_have_different_people(tmp_path: Path) -> None:
    declared = table({"x": {"type": "integer", "lower": 0, "upper": 10**9}})
    frames = [
        generate_people(declared, TableRequest(50, None, frozenset()), Draws(Entropy()), Literals())
        for _ in range(2)
    ]
    assert not frames[0].equals(frames[1])


def test_million_rows_take_seconds(tmp_path: Path) -> None:
    """Of processor time; half a second for a million rows of one table, where nothing else runs."""
    declaration = read_declaration(write(tmp_path))
    stand_ins = StandIns.of(declaration, {}, {"visits": 1_000_000, "stays": 10, "homes": 10})
    queries, _ = prepare(stand_ins.declaration)
    began = time.process_time()
    assert len(stand_ins.invent(queries, Entropy()).invented["visits"]) == 1_000_000
    assert time.process_time() - began < 8


@pytest.mark.parametrize(
    ("spec", "found"),
    [
        ({"missing": 2}, "from 0 to 1"),
        ({"beyond": "-0.1"}, "from 0 to 1"),
        ({"zipf": 5}, "from 0 to 4"),
        ({"rows": 0}, ""),
        ({"frequencies": {"a": {"x": 1}}}, "no value"),
        ({"frequencies": {"a": {"a": 0}}}, "above 0"),
        ({"frequencies": {"a": {"a": -1, "b": 2}}}, "above 0"),
        ({"frequencies": {"a": {}}}, "above 0"),
        ({"frequencies": {"n": {"1": 1}}}, "no category"),
        ({"frequencies": {"gone": {"1": 1}}}, "no category"),
        ({"row": 5}, "no key 'row'"),
    ],
)
def test_invalid_rehearsal_declarations_are_refused(spec: dict[str, Any], found: str) -> None:
    with pytest.raises(DpReleaseError) as caught:
        table({"a": CATEGORY, "n": {"type": "integer", "lower": 0, "upper": 3}}, rehearsal=spec)
    assert caught.value.code.startswith("DP-DECL")
    assert found in caught.value.cause


@pytest.mark.usefixtures("replayed_noise")
def test_example_is_rehearsed_without_its_data(tmp_path: Path) -> None:
    """27,253 invented persons of the NIST excerpt's schema, with the excerpt nowhere in reach."""
    example = Path(dprelease.__file__).parents[1] / "examples/nist_acs"
    (tmp_path / "schemas").mkdir()
    for path in [example / "release.yaml", *(example / "schemas").iterdir()]:
        (tmp_path / path.relative_to(example)).write_bytes(path.read_bytes())
    done = dprelease.rehearse(tmp_path / "release.yaml", rows=27_253)
    errors = done.errors.query("rows == 'all'").set_index(["table", "column"])
    assert len(errors) == 9
    persons = errors.loc["persons", "persons"]
    assert persons["mean_absolute_error"] == pytest.approx(persons["expected"], rel=0.25)
    assert persons["covered"] > 0.9
