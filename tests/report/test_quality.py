"""Quality numbers, compared with plain Python over the published rows."""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from dprelease.documents.metadata import ColumnMetadata, Role, TableMetadata
from dprelease.mechanisms.discrete_gaussian import DiscreteGaussian
from dprelease.mechanisms.discrete_laplace import DiscreteLaplace
from dprelease.mechanisms.symmetric_alpha_stable import SymmetricAlphaStable
from dprelease.planning.plan_charts import spread_labels
from dprelease.release.runs.pipeline import run
from dprelease.report.accuracy import doubtful_numbers as totals_module
from dprelease.report.accuracy.doubtful_numbers import bias_at_zero, disagreements
from dprelease.report.accuracy.quality import ColumnQuality, class_bounds, quality_of, size_class_of
from dprelease.report.accuracy.rehearsal_errors import TruthFiles, simulated_errors
from dprelease.report.facts import ErrorBeforeRun, Facts
from dprelease.report.words import round_up_to_three_digits, words_in
from dprelease.schema.load import read_declaration
from dprelease.tables import formats
from tests.report.releases import read_release

FolderOf = Callable[[str], Path]


def test_size_classes_are_right() -> None:
    values = np.array([0, -3, 9, 9.99, 10, -99, 100, 999, 1e5, 1e15, 1e30])
    classes = size_class_of(values).tolist()
    for value, size in zip(values.tolist(), classes, strict=True):
        low, high = class_bounds(size)
        assert low <= abs(value) < high or size == 15
    assert classes == sorted(classes)


@pytest.mark.parametrize("name", ["several", "family", "wide"])
def test_quality_counts_equal_published_rows(
    name: str, folder_of: FolderOf, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(formats, "BATCH_ROWS", 7)
    release = read_release(folder_of(name))
    facts = Facts(release.record)
    found = list(quality_of(release, facts))
    numbers = [
        (table.name, column.name)
        for table in release.metadata.tables_for_readers
        for column in table.values
        if column.kind in ("int64", "double") or column.kind.startswith("decimal")
    ]
    assert [(one.table.name, one.column.name) for one in found] == numbers
    for one in found[:: 9 if name == "wide" else 1]:
        _check_counts(release.folder, one)


def _check_counts(folder: Path, one: ColumnQuality) -> None:
    rows = pq.read_table(folder / one.table.file).to_pylist()
    column, counted = one.column.name, one.counted
    margins = [_margin_of(row, one) for row in rows]
    values = [None if row[column] is None else float(row[column]) for row in rows]
    both = [
        (value, margin)
        for value, margin in zip(values, margins, strict=True)
        if value is not None and margin is not None
    ]
    there = [value for value in values if value is not None]
    assert counted.cells == len(rows)
    assert counted.empty == len(rows) - len(there)
    assert counted.cells_with_margin_count == len(both)
    assert counted.wide == sum(margin > abs(value) for value, margin in both)
    if one.never_negative:
        assert counted.negative == sum(value < 0 for value in there)
    for size in range(16):
        low, high = class_bounds(size)
        cells = [(abs(v), m) for v, m in both if low <= abs(v) < high]
        assert counted.by_class[size] == len(cells)
        assert math.isclose(counted.sizes[size], sum(v for v, _ in cells), rel_tol=1e-9)
        assert math.isclose(counted.margins[size], sum(m for _, m in cells), rel_tol=1e-9)
    quality = one.table.companion_of(column, Role.QUALITY)
    found = {} if quality is None else Counter(row[quality.name] for row in rows)
    assert {code: int(sizes.sum()) for code, sizes in counted.codes.items()} == found


def _margin_of(row: dict[str, Any], one: ColumnQuality) -> float | None:
    for ending, times in (("_moe", 1.0), ("_se", 1.959964)):
        held = row.get(f"{one.column.name}{ending}")
        if held is not None or f"{one.column.name}{ending}" in row:
            return None if held is None else float(held) * times
    ends = [row.get(f"{one.column.name}_{end}") for end in ("lower", "upper")]
    if f"{one.column.name}_lower" in row:
        return None if None in ends else (float(ends[1]) - float(ends[0])) / 2.0
    fixed = one.expected
    if fixed is None or fixed.rows is not None or fixed.unit != one.column.unit:
        return None
    return fixed.margin


@pytest.mark.parametrize("name", ["several", "family"])
def test_quality_totals_equal_sums_of_rows(
    name: str, folder_of: FolderOf, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(formats, "BATCH_ROWS", 7)  # rows of one total lie in several batches
    release = read_release(folder_of(name))
    facts = Facts(release.record)
    found, left = disagreements(release, facts)
    assert not left
    tables = {table.name: table for table in release.metadata.tables_for_readers}
    assert len(found) >= 12
    for one in found:
        rows = {
            table.name: pq.read_table(release.folder / tables[table.name].file).to_pylist()
            for table in (one.fine, one.coarse)
        }
        keys = [key.name for key in one.coarse.keys]
        assert set(keys) < {key.name for key in one.fine.keys}
        sums: dict[tuple[Any, ...], float] = defaultdict(float)
        for row in rows[one.fine.name]:
            value = row[one.column.name]
            sums[tuple(row[key] for key in keys)] += math.nan if value is None else float(value)
        off = [
            sums[tuple(row[key] for key in keys)] - float(row[one.column.name])
            for row in rows[one.coarse.name]
            if row[one.column.name] is not None
        ]
        off = [abs(one) for one in off if math.isfinite(one)]
        assert one.totals == len(off)
        assert math.isclose(one.largest, max(off), abs_tol=1e-9)
        mean = math.sqrt(sum(x * x for x in off) / len(off))
        assert math.isclose(one.root_mean_square, mean, rel_tol=1e-9, abs_tol=1e-9)
        assert one.differing == (0 if name == "family" else sum(x > 1e-9 for x in off))
    monkeypatch.setattr(totals_module, "MOST_PAIRS", 3)
    few, rest = disagreements(release, facts)
    assert len({(one.fine.name, one.coarse.name) for one in few}) <= 3 < rest


def test_disagreements_of_tables_are_within_noise(folder_of: FolderOf) -> None:
    """Of 7 cubes, within what chance leaves: far more than one in 10^9 would be off by a factor."""
    release = read_release(folder_of("wide"))
    found, _ = disagreements(release, Facts(release.record))
    counts = [one for one in found if one.column.name == "rows" and one.fine.query == "q0"]
    assert all(one.expected is not None for one in counts)
    # Rows without a city or a side are in no finer table by these: the data has such.
    same = [one for one in counts if {"city", "side"} <= {key.name for key in one.coarse.keys}]
    assert same
    for one in same:
        assert one.expected is not None
        assert one.root_mean_square < 12 * one.expected


def exact_bias(law: Any, true: int) -> float:
    """Return E max(t + K, 0) - t for noise without a mean, summed over probabilities."""
    lifted, k = 0.0, -true - 1
    while (below := float(law.tail(k, False).mid())) > 1e-18:
        lifted += below
        k -= 1
    return lifted


@pytest.mark.parametrize("scale", [1.0, 7.5, 40.0])
@pytest.mark.parametrize("kind", [DiscreteGaussian, DiscreteLaplace])
def test_bias_at_zero(kind: Any, scale: float) -> None:
    law = kind(scale)
    found = bias_at_zero(law)
    assert found[0][0] == 0
    assert [true for true, _ in found] == sorted({true for true, _ in found})
    for true, mean in found:
        assert math.isclose(mean, exact_bias(law, true), rel_tol=0.02, abs_tol=1e-7)
    assert all(one[1] > other[1] for one, other in pairwise(found))


def test_noise_without_variance_has_no_bias() -> None:
    assert bias_at_zero(SymmetricAlphaStable(10.0, 1.5)) == ()


TRUE = [0.0, 4.0, 9.0, 12.0, 55.0, 130.0, 131.0, 7000.0]
NOISED = [3, -2, 9, 20, 50, None, 141, 6000]


@pytest.mark.parametrize("pieces", [1, 3, 8])
def test_simulated_errors(pieces: int, tmp_path: Path) -> None:
    """By classes of the true value, however the files are cut into batches."""
    margin = ErrorBeforeRun(10.0, 0.95, 10.0, 10.0, "rows", 4.0)
    columns = (
        ColumnMetadata("true_n", "string", Role.KEY, "true_n"),
        ColumnMetadata("n", "int64", Role.VALUE, "n", "rows"),
    )
    table = TableMetadata("t", "t.parquet", "t", columns, len(TRUE))
    one = ColumnQuality(table, columns[1], margin)
    batches = pa.table({"n": pa.array(NOISED, pa.int64())}).to_batches(max_chunksize=pieces)
    release: Any = SimpleNamespace(batches=lambda _table, _columns=None: iter(batches))
    (tmp_path / "truth").mkdir()
    truth = {"true_n": ["a"] * 8, "n": NOISED, "true_n_": TRUE}  # a key took the usual name
    pq.write_table(pa.table(truth), tmp_path / "truth" / "t.parquet", row_group_size=5)
    errors = simulated_errors(release, TruthFiles(tmp_path), [one])["t", "n"]
    pairs = [(t, n) for t, n in zip(TRUE, NOISED, strict=True) if n is not None]
    assert errors.cells.sum() == errors.cells_with_margin_count == len(pairs)
    assert errors.covered == sum(abs(n - t) <= 10 for t, n in pairs)
    for size in errors.classes:
        low, high = class_bounds(size)
        off = [n - t for t, n in pairs if low <= t < high]
        assert math.isclose(errors.bias_in(size), sum(off) / len(off))
        assert math.isclose(errors.sizes[size] / errors.cells[size], sum(map(abs, off)) / len(off))
    assert errors.error == sum(abs(n - t) for t, n in pairs) / len(pairs)


def test_truth_with_other_rows_is_ignored(tmp_path: Path) -> None:
    column = ColumnMetadata("n", "int64", Role.VALUE, "n")
    table = TableMetadata("t", "t.parquet", "t", (column,), 2)
    assert TruthFiles(tmp_path).batches(table, ["n"]) is None
    (tmp_path / "truth").mkdir()
    for held in ({"true_n": [1.0]}, {"n": [1.0, 2.0]}):
        pq.write_table(pa.table(held), tmp_path / "truth" / "t.parquet")
        assert TruthFiles(tmp_path).batches(table, ["n"]) is None


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (0, "0"), (-0.0, "0"), (7, "7"), (1234567, "1,234,567"), (-12, "\u221212"),
        (0.12345, "0.123"), (1.5, "1.5"), (2.0, "2"), (99.96, "100"), (1e-9, "1e\u221209"),
        (1e300, "1e+300"), (math.inf, "\u2013"), (math.nan, "\u2013"), (None, "\u2013"),
    ],
)  # fmt: skip
def test_number_format(value: float | None, text: str) -> None:
    assert words_in("en").number(value) == text


@pytest.mark.parametrize(
    ("part", "up", "text"),
    [
        (0.0, False, "0 %"), (0.0004, False, "< 0.1 %"), (0.5, False, "50 %"), (1.0, False, "100 %"),
        (0.99951, False, "> 99.9 %"), (0.7311, False, "73.1 %"), (0.7311, True, "73.2 %"),
        (0.5, True, "50 %"), (4.421, False, "442.1 %"), (123.4, False, "12,000 %"),
        (math.nan, False, "\u2013"),
    ],
)  # fmt: skip
def test_percent_format(part: float, up: bool, text: str) -> None:
    assert words_in("en").percent(part, up=up).replace("\u00a0", " ") == text


@pytest.mark.parametrize("value", [0.1234, 1.0, 17.0, 12.345, 999.0, 1000.0, 123456.0, 99999.0])
def test_promised_errors_are_rounded_up(value: float) -> None:
    assert value <= round_up_to_three_digits(value) * (1 + 1e-12)
    assert round_up_to_three_digits(value) <= value * 1.011


@pytest.mark.parametrize(
    "places", [[0.5], [0.1, 0.1, 0.1], [0.0, 0.0, 1.0, 1.0], [0.4, 0.41, 0.9], [-1.0, 0.2, 3.0]]
)
@pytest.mark.parametrize("height", [0.02, 0.1, 0.2])
def test_line_labels_do_not_overlap(places: list[float], height: float) -> None:
    found = spread_labels(places, [height] * len(places))
    assert found == sorted(found)
    for one, other in pairwise(found):
        assert other - one >= height - 1e-12
    assert found[0] >= height / 2 - 1e-12
    assert found[-1] <= 1 - height / 2 + 1e-12


@pytest.mark.parametrize(
    ("asked", "low", "never"),
    [
        ("{a: {sum: pay}}", 0, True),
        ("{a: {sum: pay}, b: {mean: pay}}", 0, True),
        ("{a: {sum: pay}, b: {mean: pay}}", -1, False),
        ("{a: {sum: pay}}", -1, False),
        ("{a: {mean: pay}}", 0, True),
        ("{a: {mean: pay}}", -1, False),
        ("{a: {variance: pay}}", -1, True),
        ("{a: {stddev: pay}}", -1, True),
        ("{a: {ratio: [pay, age]}}", 0, True),
        ("{a: {ratio: [pay, age]}}", -1, False),
        ("{a: {count: pay}}", -1, True),
        ("{a: {median: pay}}", 0, False),
    ],
)
def test_columns_that_can_not_be_negative(
    tmp_path: Path, asked: str, low: int, never: bool
) -> None:
    """However it is computed: a sum beside a mean is counted from the middle of its bounds."""
    (tmp_path / "t.yaml").write_text(
        f"table: t\nsource: t.csv\ncolumns:\n  pay: {{type: integer, lower: {low}, upper: 9}}\n"
        "  age: {type: integer, lower: 1, upper: 9}\n  sex: {type: category, values: [f, m]}\n"
    )
    (tmp_path / "t.csv").write_text("pay,age,sex\n1,2,f\n")
    (tmp_path / "r.yaml").write_text(
        "title: t\ntables: [t.yaml]\nbudget: {epsilon: 1}\noutput: out\n"
        f"queries: {{q: {{from: t, group_by: [sex], columns: {asked}}}}}\n"
    )
    release = read_release(run(read_declaration(tmp_path / "r.yaml")))
    (table,) = release.metadata.tables
    column = next(column for column in table.columns if column.name == "a")
    assert Facts(release.record).is_never_negative(table, column) is never


def test_bounds_of_values(tmp_path: Path) -> None:
    """Means and quantiles lie within the bounds of their column, which cut no count and no sum."""
    (tmp_path / "t.yaml").write_text(
        "table: t\nsource: t.csv\ncolumns:\n  pay: {type: number, lower: 2, upper: 9, step: 0.5}\n"
    )
    (tmp_path / "t.csv").write_text("pay\n2.5\n")
    (tmp_path / "r.yaml").write_text(
        "title: t\ntables: [t.yaml]\nbudget: {epsilon: 1}\noutput: out\nqueries: {q: {from: t, columns:"
        ' {n: {count: "*"}, s: {sum: pay}, m: {mean: pay}, q: {median: pay}}}}\n'
    )
    release = read_release(run(read_declaration(tmp_path / "r.yaml")))
    (table,) = release.metadata.tables
    facts = Facts(release.record)
    found = {column.name: facts.bounds_of(table, column) for column in table.values}
    assert found == {"n": None, "s": None, "m": (2.0, 9.0), "q": (2.0, 9.0)}
