"""Summaries in release files: Gini coefficients and standardised rates, end to end."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import duckdb
import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import dprelease
from dprelease.errors import DpReleaseError
from tests.postprocess.test_inequality import gini
from tests.release.test_families import reseal

pytestmark = pytest.mark.usefixtures("replayed_noise")

AGES = ("0-39", "40-69", "70-99")
COLUMNS: dict[str, Any] = {
    "county": {"type": "category", "values": ["A", "B", "C"]},
    "sex": {"type": "category", "values": ["F", "M"]},
    "age": {"type": "integer", "lower": 0, "upper": 99},
    "age_group": {"cut": "age", "edges": [0, 40, 70, 100]},
    "income": {"type": "integer", "lower": 0, "upper": 1000},
    "balance": {"type": "integer", "lower": -9, "upper": 9},
    "died": {"type": "boolean"},
}
STANDARD = {"0-39": 50, "40-69": 35, "70-99": 15}
ROWS = 9000


def frame() -> pd.DataFrame:
    """Return rows of two counties; the third one has none."""
    i = np.arange(ROWS)
    age = i * 37 % 100
    return pd.DataFrame(
        {
            "county": np.where(i % 3 == 0, "B", "A"), "sex": np.where(i % 2 == 0, "F", "M"),
            "age": age, "income": (999 * (i * 7919 % ROWS / ROWS) ** 2).astype(int), "balance": 0,
            "died": i * 31 % 1000 < age * 3,
        }
    )  # fmt: skip


RATE: dict[str, Any] = {
    "events": "deaths", "population": "persons", "over": "age_group", "standard": STANDARD,
}  # fmt: skip
DEATHS: dict[str, Any] = {
    "from": "people", "group_by": ["county", "age_group", "sex"],
    "columns": {"persons": {"count": "*"}, "deaths": {"sum": "died"}},
}  # fmt: skip
BANDS = {"column": "income", "edges": [0, 50, 150, 300, 500, 750, 1001]}
INCOMES: dict[str, Any] = {
    "from": "people", "group_by": ["county"], "histogram": BANDS,
    "columns": {"n": {"count": "*"}},
}  # fmt: skip
GINI = {"count": "n", "over": "income_band"}


def write(folder: Path, queries: dict[str, Any], epsilon: float = 4, **more: Any) -> Path:
    (folder / "people.yaml").write_text(json.dumps({"table": "people", "columns": COLUMNS}))
    release = {"title": "t", "tables": ["people.yaml"], "budget": {"epsilon": epsilon}}
    path = folder / "r.yaml"
    path.write_text(json.dumps({**release, "queries": queries, "output": "out", **more}))
    return path


def population_file(folder: Path) -> None:
    counted = frame().assign(
        age_group=lambda x: pd.cut(x["age"], [0, 40, 70, 100], right=False, labels=AGES)
    )
    cells = counted.groupby(["sex", "age_group", "county"], observed=False).size().reset_index()
    rest = [(s, a, "C", 400) for s in "FM" for a in AGES]
    cells = pd.concat([cells, pd.DataFrame(rest, columns=cells.columns)])
    cells.to_csv(folder / "people.csv", index=False)


QUERIES: dict[str, Any] = {
    "mortality": {
        **DEATHS,
        "summaries": {
            "rate": {"standardised_rate": RATE, "label": "Deaths", "decimals": 1},
            "known": {
                "standardised_rate": {
                    **{key: value for key, value in RATE.items() if key != "population"},
                    "population_from": "people.csv", "standard": "standard.csv", "per": 1000,
                },
            },
        },
    },
    "incomes": {**INCOMES, "summaries": {"inequality": {"gini": GINI}}},
}  # fmt: skip


def release_summaries(folder: Path, **more: Any) -> Path:
    population_file(folder)
    lines = [f"{age},{weight}" for age, weight in STANDARD.items()]
    (folder / "standard.csv").write_text("\n".join(["age_group,weight", *lines]))
    path = write(folder, QUERIES, **more)
    return dprelease.read_release(path).run(frames={"people": frame()})


def table(out: Path, name: str) -> pd.DataFrame:
    found: pd.DataFrame = pq.read_table(out / f"{name}.parquet").to_pandas()
    return found


def test_rates_and_coefficients_are_near_the_true_ones(tmp_path: Path) -> None:
    """They are computed in SQL, or from all pairs of values."""
    out = release_summaries(tmp_path)
    assert dprelease.verify(out).ok
    people = frame()
    link = duckdb.connect()
    link.register("people", people)
    wanted = link.sql(
        """SELECT county, sex, SUM(w * deaths / persons) AS rate FROM (
            SELECT county, sex, age >= 40 AS a, age >= 70 AS b, SUM(died::INT) AS deaths,
                COUNT(*) AS persons, 0.5 - 0.15 * a::INT - 0.2 * b::INT AS w
            FROM people GROUP BY ALL) GROUP BY ALL ORDER BY ALL"""
    ).df()
    for name, per in (("rate", 100_000), ("known", 1000)):
        found = table(out, f"summaries/mortality_{name}")
        assert list(found.columns) == [
            "county", "sex", name, f"{name}_lower", f"{name}_upper", f"{name}_quality",
        ]  # fmt: skip
        two = found[found["county"] != "C"]
        assert (
            two[["county", "sex"]].to_numpy().tolist()
            == wanted[["county", "sex"]].to_numpy().tolist()
        )
        truth = per * wanted["rate"].to_numpy()
        assert np.abs(two[name] / truth - 1).max() < 0.2
        assert (two[f"{name}_lower"] < two[name]).all()
        assert (two[name] < two[f"{name}_upper"]).all()
    inequality = table(out, "summaries/incomes_inequality")
    for county in "AB":
        truth = gini(people["income"][people["county"] == county].to_numpy(float))
        one = inequality[inequality["county"] == county].iloc[0]
        assert abs(one["inequality"] - truth) < 0.05
        assert one["inequality_lower"] < truth < one["inequality_upper"]


def test_cells_without_a_clear_divisor_are_empty(tmp_path: Path) -> None:
    """County C has no rows; a public population is clearly above 0 also there."""
    out = release_summaries(tmp_path)
    for name in ("mortality_rate", "incomes_inequality"):
        found = table(out, f"summaries/{name}")
        column = name.partition("_")[2]
        empty = found[found["county"] == "C"]
        assert empty[column].isna().all()
        assert (empty[f"{column}_quality"] == "unsure_divisor").all()
        assert (empty[f"{column}_lower"] == 0).all()
    known = table(out, "summaries/mortality_known")
    assert known["known"].notna().all()


def test_counts_are_published_with_their_margins(tmp_path: Path) -> None:
    out = release_summaries(tmp_path)
    found = table(out, "tables/mortality")
    assert [name for name in found.columns if name.startswith("persons")] == [
        "persons", "persons_moe", "persons_quality",
    ]  # fmt: skip
    measured = table(out, "measurements/mortality")
    assert (found["persons"] == measured["persons"]).all()


@pytest.mark.parametrize(
    "name", ["mortality_rate", "mortality_known", "incomes_inequality", "tables/mortality"]
)
def test_changed_summary_is_found(tmp_path: Path, name: str) -> None:
    """`verify` computes all summaries again, even if the digest of the file fits."""
    out = release_summaries(tmp_path)
    path = out / (f"{name}.parquet" if "/" in name else f"summaries/{name}.parquet")
    held = pq.read_table(path)
    place = held.schema.get_field_index(held.column_names[-2])
    values = held.column(place).to_pylist()
    values[0] = (values[0] or 0) + 1
    changed = held.set_column(
        place, held.schema.field(place), pa.array(values, held.schema.types[place])
    )
    pq.write_table(changed, path)
    reseal(out)
    codes = {finding.code for finding in dprelease.verify(out).findings}
    assert "DP-VERIFY-012" in codes


@pytest.mark.parametrize("formats", [["csv", "excel", "json-stat"], ["sdmx", "frictionless"]])
def test_formats_have_all_tables(tmp_path: Path, formats: list[str]) -> None:
    from dprelease.schema.release_parts.extension_names import FORMATS

    known = [name for name in formats if name in FORMATS]
    out = release_summaries(tmp_path, formats=known)
    assert dprelease.verify(out).ok


def changed_query(summary: dict[str, Any], query: dict[str, Any], **more: Any) -> dict[str, Any]:
    return {"q": {**query, "summaries": {"s": summary}, **more}}


WRONG: dict[str, dict[str, Any]] = {
    "no bands": changed_query({"gini": {"count": "n", "over": "county"}}, INCOMES),
    "no key": changed_query({"gini": {"count": "n", "over": "income"}}, INCOMES),
    "no column": changed_query({"gini": {"count": "m", "over": "income_band"}}, INCOMES),
    "another age": changed_query(
        {"standardised_rate": {**RATE, "standard": {**STANDARD, "100+": 1}}}, DEATHS
    ),
    "no age": changed_query({"standardised_rate": {**RATE, "standard": {"0-39": 1}}}, DEATHS),
    "one column": changed_query({"standardised_rate": {**RATE, "events": "persons"}}, DEATHS),
    "negative": changed_query(
        {"standardised_rate": RATE}, DEATHS,
        columns={"persons": {"count": "*"}, "deaths": {"sum": "balance"}},
    ),
    "rounded": changed_query(
        {"gini": GINI}, INCOMES, columns={"n": {"count": "*", "round_to": 5}}
    ),
    "a mean": changed_query(
        {"gini": GINI}, INCOMES, columns={"n": {"count": "*"}, "m": {"mean": "income"}}
    ),
    "a key's name": {"q": {**INCOMES, "summaries": {"county": {"gini": GINI}}}},
}  # fmt: skip


@pytest.mark.parametrize("name", WRONG)
def test_impossible_summaries_are_refused(tmp_path: Path, name: str) -> None:
    path = write(tmp_path, WRONG[name])
    with pytest.raises(DpReleaseError, match="DP-QUERY-022"):
        dprelease.read_release(path).plan()


FILES = {
    "no number": "age_group,weight\n0-39,many\n",
    "one column": "weight\n5\n",
    "twice": "age_group,weight\n0-39,5\n0-39,6\n",
    "negative": "age_group,weight\n0-39,-5\n",
    "empty": "",
    "ragged": "age_group,weight\n0-39,5,6\n",
}


@pytest.mark.parametrize("name", [*FILES, "missing"])
def test_invalid_standard_files_are_refused(tmp_path: Path, name: str) -> None:
    if name in FILES:
        (tmp_path / "standard.csv").write_text(FILES[name])
    summary = {"standardised_rate": {**RATE, "standard": "standard.csv"}}
    with pytest.raises(DpReleaseError, match="DP-DECL-003"):
        dprelease.read_release(write(tmp_path, changed_query(summary, DEATHS)))


def test_selected_values_and_private_keys_are_refused(tmp_path: Path) -> None:
    median = {"n": {"count": "*"}, "m": {"median": "income"}}
    for more in ({"columns": median}, {"private_keys": True, "histogram": None}):
        path = write(tmp_path, changed_query({"gini": GINI}, INCOMES, **more))
        with pytest.raises(DpReleaseError):
            dprelease.read_release(path).plan()


def test_summaries_of_consistent_tables_are_refused(tmp_path: Path) -> None:
    """Consistent tables don't have independent noise."""
    path = write(tmp_path, changed_query({"standardised_rate": RATE}, DEATHS, consistent=True))
    with pytest.raises(DpReleaseError, match="DP-QUERY-022"):
        dprelease.read_release(path).plan()


def test_summary_is_exactly_one_number(tmp_path: Path) -> None:
    both = {"gini": GINI, "standardised_rate": RATE}
    for summary in ({}, both):
        with pytest.raises(DpReleaseError, match="DP-DECL-003"):
            dprelease.read_release(write(tmp_path, changed_query(summary, INCOMES)))
