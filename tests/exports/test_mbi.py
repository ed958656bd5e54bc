"""Marginals for private-pgm: the noisy counts in its order, and a list of omitted columns."""

from __future__ import annotations

import json
from itertools import product
from math import prod
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet as pq
import pytest

from dprelease.exports.export import PublishedRelease
from dprelease.exports.mbi import EXPORT
from tests.exports import full_release

MORE = """\
  cube:
    from: people
    cube: [area, old]
    columns:
      n: {count: "*", mechanism: discrete_gaussian}
      pay: {sum: pay}
      with_pay: {count: pay}
      five: {count: "*", round_to: 5, mechanism: gaussian}
      wild: {count: "*", mechanism: {name: symmetric_alpha_stable, alpha: 1.5}}
      people: {count_distinct: person}
output: out
"""
RELEASE = full_release.RELEASE.replace("output: out\n", MORE)


@pytest.fixture(scope="module")
def release(tmp_path_factory: pytest.TempPathFactory) -> PublishedRelease:
    return full_release.publish_release(tmp_path_factory.mktemp("mbi"), RELEASE)


@pytest.fixture(scope="module")
def folder(release: PublishedRelease, tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("mbi written")
    files = EXPORT.write(release, out)
    assert sorted(files) == sorted(str(p.relative_to(out)) for p in out.rglob("*.*"))
    return out / "mbi"


def index(folder: Path) -> dict[str, Any]:
    record: dict[str, Any] = json.loads((folder / "index.json").read_text(encoding="utf-8"))
    return record


def test_mbi_groups_have_their_domain(folder: Path) -> None:
    groups = {(g["query"], g["column"]): g for g in index(folder)["groups"]}
    cliques = {place: [m["clique"] for m in g["measurements"]] for place, g in groups.items()}
    assert cliques == {
        ("by_kind", "n"): [["old", "year", "day"]],
        ("total", "n"): [[]],
        ("agreed", "n"): [[], ["Größe"], ["old"], ["Größe", "old"]],
        ("cube", "n"): [[], ["area"], ["old"], ["area", "old"]],
    }
    domain = groups["cube", "n"]["domain"]
    assert (domain["attributes"], domain["shape"]) == (
        ["area", "old"],
        [len(full_release.AREAS), 2],
    )
    assert domain["values"] == {"area": full_release.AREAS, "old": [False, True]}
    days = ["2024-01-01", "2024-01-02", "2024-01-03"]
    assert groups["by_kind", "n"]["domain"]["values"]["day"] == days


def test_mbi_vectors_are_noisy_counts_in_row_major_order(
    release: PublishedRelease, folder: Path
) -> None:
    measured = {(m["query"], m["column"]): m for m in release.record.to_json()["measurements"]}
    files = {
        file["query"]: file for file in release.record.to_json()["files"] if "/" not in file["name"]
    }
    files |= {
        file["query"]: file
        for file in release.record.to_json()["files"]
        if file["name"].startswith("measurements/")
    }
    compared = 0
    for group in index(folder)["groups"]:
        values = group["domain"]["values"]
        for one in group["measurements"]:
            vector = np.load(folder / one["file"])
            query = one["file"].removeprefix("measurements-").removesuffix("-n.npy")
            cells = list(product(*(values[key] for key in one["clique"])))
            assert vector.shape == (prod(map(len, (values[key] for key in one["clique"]))),)
            table = pq.read_table(release.folder / files[query]["name"]).to_pylist()
            there = {tuple(plain(row[key]) for key in one["clique"]): row["n"] for row in table}
            assert vector.tolist() == [there[cell] for cell in cells]
            assert one["stddev"] == measured[query, "n"]["standard_deviation"]
            compared += 1
    assert compared == 10


def plain(value: Any) -> Any:
    return value if isinstance(value, (str, int)) else str(value)


def test_mbi_lists_omitted_columns_with_reasons(folder: Path) -> None:
    left_out = {(one["table"], one["column"]): one["reason"] for one in index(folder)["left_out"]}
    wanted = {
        ("by_area", "n"): "finished for readers",
        ("by_area", "paid"): "computed or exact",
        ("by_area", "coded"): "finished for readers",
        ("by_kind", "job"): "computed or exact",
        ("cube_area", "pay"): "no count of rows: sum of",
        ("cube_area", "with_pay"): "no count of rows: count of rows in which",
        ("cube_area", "five"): "finished for readers",
        ("cube_area", "wild"): "no standard deviation",
        ("cube_area", "people"): "no count of rows: ",
        ("estimates/agreed_old", "n"): "computed or exact",
        ("tables/agreed_old", "n"): "computed or exact",
    }
    assert {place: words in left_out[place] for place, words in wanted.items()} == dict.fromkeys(
        wanted, True
    )


def test_private_keys_are_no_mbi_domain(tmp_path: Path) -> None:
    asked = """\
title: Found
about: {languages: [en, de]}
tables: [people.yaml]
budget: {epsilon: 8, delta: 1e-4}
queries:
  found:
    from: people
    group_by: [job]
    private_keys: true
    columns: {n: {count: "*", mechanism: gaussian}}
output: out
"""
    release = full_release.publish_release(tmp_path, asked)
    EXPORT.write(release, tmp_path)
    record = index(tmp_path / "mbi")
    assert record["groups"] == []
    assert record["left_out"] == [
        {
            "table": "found",
            "column": "n",
            "reason": "its keys are not all combinations of declared values",
        }
    ]


def test_least_squares_of_mbi_vectors_equal_the_estimates(
    release: PublishedRelease, folder: Path
) -> None:
    """This checks order, cliques and standard deviations independently."""
    (group,) = [g for g in index(folder)["groups"] if g["query"] == "agreed"]
    attributes, shape = group["domain"]["attributes"], group["domain"]["shape"]
    cells = np.eye(prod(shape)).reshape(*shape, prod(shape))
    rows, answers = [], []
    for one in group["measurements"]:
        summed = tuple(i for i, name in enumerate(attributes) if name not in one["clique"])
        assert one["clique"] == [name for name in attributes if name in one["clique"]]
        marginal = cells.sum(axis=summed).reshape(-1, prod(shape))
        rows.append(marginal / one["stddev"])
        answers.append(np.load(folder / one["file"]) / one["stddev"])
    found, *_ = np.linalg.lstsq(np.concatenate(rows), np.concatenate(answers))
    ours = pq.read_table(release.folder / "estimates/agreed_3.parquet")["n"].to_pylist()
    assert found.tolist() == pytest.approx(ours, abs=1e-4)


def test_mbi_bytes_are_reproducible(
    release: PublishedRelease, folder: Path, tmp_path: Path
) -> None:
    for file in EXPORT.write(release, tmp_path):
        assert (tmp_path / file).read_bytes() == (folder.parent / file).read_bytes()
