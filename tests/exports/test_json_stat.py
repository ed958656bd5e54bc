"""JSON-stat 2.0: valid, with every number to the last digit, and sparse if most cells are empty."""

from __future__ import annotations

import json
import math
from datetime import date
from decimal import Decimal
from itertools import product
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st
from jsonstat_validator import validate_jsonstat

from dprelease.documents.metadata import Role
from dprelease.exports.json_stat import EXPORT
from tests.exports.build import column, handmade_release, key, publish
from tests.exports.test_csv import KINDS

KEYS = {
    pa.string(): ["", "a", 'say "x"', "</script>", "né\u202e", "=1"],
    pa.int64(): [-(2**63), -1, 0, 2**63 - 1],
    pa.bool_(): [False, True],
    pa.date32(): [date(1, 1, 1), date(2000, 2, 29), date(9999, 12, 31)],
}
NUMBERS = [kind for kind in KINDS if kind not in KEYS] + [pa.int64()]


def read(path: Path) -> dict[str, Any]:
    """Return a dataset, whose numbers are exact, as its validator takes it."""
    text = path.read_text(encoding="utf-8")
    validate_jsonstat(json.loads(text))
    found = json.loads(text, parse_float=Decimal)
    assert isinstance(found, dict)
    return found


def rows_of(data: dict[str, Any]) -> dict[tuple[str, ...], dict[str, Any]]:
    """Return the numbers of every cell by its categories, as a reader of JSON-stat does."""
    metric = data["id"][-1]
    lists = [data["dimension"][name]["category"]["index"] for name in data["id"]]
    values = data["value"]
    rows: dict[tuple[str, ...], dict[str, Any]] = {}
    for i, cell in enumerate(product(*lists)):
        value = values.get(str(i)) if isinstance(values, dict) else values[i]
        rows.setdefault(cell[:-1], {})[cell[-1]] = value
    assert math.prod(data["size"]) == len(rows) * data["size"][-1]
    assert data["role"]["metric"] == [metric]
    return rows


def as_text(value: object) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


@st.composite
def cubes(draw: st.DrawFn) -> tuple[pa.Table, list[Any]]:
    """Return a table of cells by keys with declared or private values, and its metadata."""
    kinds = draw(st.lists(st.sampled_from([*KEYS]), max_size=2))
    declared = draw(st.booleans())
    cells = list(product(*(KEYS[kind] for kind in kinds)))
    if kinds and (not declared or draw(st.booleans())):  # some rows are left out
        cells = [cell for cell in cells if draw(st.booleans())]
    arrays = [pa.array([cell[i] for cell in cells], kind) for i, kind in enumerate(kinds)]
    told = [key(f"k{i}", kind, KEYS[kind] if declared else None) for i, kind in enumerate(kinds)]
    for i, kind in enumerate(draw(st.lists(st.sampled_from(NUMBERS), min_size=1, max_size=3))):
        values = draw(st.lists(KINDS[kind] | st.none(), min_size=len(cells), max_size=len(cells)))
        arrays.append(pa.array(values, kind))
        told.append(column(f"n{i}", kind, Role.VALUE if i == 0 else Role.MARGIN, "n0"))
    return pa.Table.from_arrays(arrays, names=[one.name for one in told]), told


@given(cubes())
def test_json_stat_keeps_every_number(cube: tuple[pa.Table, list[Any]]) -> None:
    table, told = cube
    keys = [one.name for one in told if one.role == Role.KEY]
    with TemporaryDirectory() as folder:
        EXPORT.write(handmade_release(Path(folder), [("cube", table, told)]), Path(folder))
        data = read(Path(folder) / "json-stat/cube.json")
    found = rows_of(data)
    wanted = {tuple(as_text(row.pop(name)) for name in keys): row for row in table.to_pylist()}
    for cell, numbers in found.items():
        exact = {name: None if v is None else Decimal(v) for name, v in numbers.items()}
        other = wanted.get(cell, dict.fromkeys(numbers))
        assert exact == {
            n: None if v is None else Decimal(repr(v) if isinstance(v, float) else v)
            for n, v in other.items()
        }
    assert wanted.keys() <= found.keys()
    missing = [row for row in wanted.values() for value in row.values() if value is None]
    assert len(data.get("status", {})) == len(missing)


def test_json_stat_is_valid_and_has_statuses(tmp_path: Path) -> None:
    """The status of a value is its quality; companion columns are categories of the metric."""
    folder = publish(tmp_path, "formats: [json-stat]\n") / "json-stat"
    names = [path.name for path in sorted(folder.iterdir())]
    assert names == [
        "cells_city.json",
        "cells_city_sex.json",
        "cells_sex.json",
        "cells_total.json",
        "days.json",
    ]
    datasets = {name: read(folder / name) for name in names}
    cells = datasets["cells_city_sex.json"]
    index = cells["dimension"]["metric"]["category"]["index"]
    assert index == [
        "people",
        "people_moe",
        "pay",
        "pay_moe",
        "pay_mean",
        "pay_mean_lower",
        "pay_mean_upper",
    ]
    rated = {int(i) % len(index) for i, status in cells["status"].items() if status not in "OQ"}
    assert rated == {index.index(name) for name in ("people", "pay", "pay_mean")}
    assert set(cells["status"].values()) <= set(cells["extension"]["status"]["label"])
    table = pq.read_table(next(tmp_path.rglob("cells_city_sex.parquet")))
    size = len(index)
    for name in ("people", "pay", "pay_mean"):
        codes = table.column(f"{name}_quality").to_pylist()
        places = [i * size + index.index(name) for i in range(len(codes))]
        assert [cells["status"][str(place)] for place in places] == codes
    assert datasets["days.json"]["role"]["time"] == ["born"]


@pytest.mark.parametrize(("rows", "dense"), [(8, True), (4, True), (3, False), (0, False)])
def test_json_stat_is_sparse_if_most_cells_are_empty(
    rows: int, dense: bool, tmp_path: Path
) -> None:
    table = pa.table({"k": list(range(rows)), "n": list(range(rows))})
    told = [key("k", pa.int64(), range(8)), column("n", pa.int64())]
    EXPORT.write(handmade_release(tmp_path, [("t", table, told)]), tmp_path)
    data = read(tmp_path / "json-stat/t.json")
    assert isinstance(data["value"], list) is dense
    assert sum(value["n"] is not None for value in rows_of(data).values()) == rows


def test_tables_without_numbers_are_no_json_stat(tmp_path: Path) -> None:
    told = [key("k", pa.string(), ["a"]), column("label", pa.string())]
    release = handmade_release(tmp_path, [("t", pa.table({"k": ["a"], "label": ["x"]}), told)])
    assert [one.message for one in EXPORT.problems(release.metadata)] == [
        "no table has readable numbers"
    ]


def test_a_key_called_metric_keeps_its_name(tmp_path: Path) -> None:
    told = [key("metric", pa.string(), ["a"]), column("n", pa.int64())]
    EXPORT.write(
        handmade_release(tmp_path, [("t", pa.table({"metric": ["a"], "n": [1]}), told)]), tmp_path
    )
    assert read(tmp_path / "json-stat/t.json")["id"] == ["metric", "metric_"]
