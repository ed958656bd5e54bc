"""Declared post-processing: values, manifest, and no effect on the budget."""

from __future__ import annotations

import json
from decimal import Decimal
from fractions import Fraction
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

import dprelease
from dprelease.postprocess.finishing import post_process
from dprelease.query.post import PostProcessing
from tests.release.build import RELEASE, publish, write

pytestmark = pytest.mark.usefixtures("replayed_noise")

LARGE = 2**62


@given(
    st.lists(st.integers(-LARGE, LARGE), min_size=1, max_size=20),
    st.integers(1, 2**61),
    st.booleans(),
    st.one_of(st.none(), st.integers(-LARGE, LARGE)),
)
def test_post_processing_equals_python_integers(
    values: list[int], base: int, non_negative: bool, below: int | None
) -> None:
    """Integer arithmetic in Python, value by value; nothing overflows."""
    steps = np.array(values, dtype=np.int64)
    threshold = None if below is None else Fraction(below)
    post = PostProcessing(threshold, non_negative, Fraction(base))
    found, empty = post_process(steps, post, Fraction(1))
    for i, value in enumerate(values):
        kept = max(value, 0) if non_negative else value
        size = (abs(kept) + base // 2) // base * base
        expected = -size if kept < 0 else size
        assert int(found[i]) == (expected if base > 1 else kept)
        assert (empty is not None and bool(empty[i])) == (below is not None and value < below)
    assert steps.tolist() == values  # the noised table itself stays as it is


OPTIONS = "margin: true, non_negative: true, round_to: 5, suppress_below: 8"


def test_release_with_post_processing(tmp_path: Path) -> None:
    plain, _ = publish(tmp_path / "plain")
    path = write(tmp_path / "finished")
    text = RELEASE.replace("margin: true", OPTIONS)
    text = text.replace("mechanism: laplace", "mechanism: laplace, round_to: 2.5")
    path.write_text(text)
    shaped = dprelease.read_release(path).run()
    table = pq.read_table(shaped / "by_city.parquet")
    counts = table["people"].to_pylist()
    assert all(value is None or (value >= 5 and value % 5 == 0) for value in counts)
    assert all(value % Decimal("2.5") == 0 for value in table["pay"].to_pylist())
    assert table.schema == pq.read_table(plain / "by_city.parquet").schema
    assert dprelease.verify(shaped).ok
    records = [
        json.loads((folder / "manifest.json").read_text(encoding="utf-8"))
        for folder in (plain, shaped)
    ]
    assert records[0]["guarantee"] == records[1]["guarantee"]
    words = records[1]["files"][0]["post_processing"]["people"]
    assert len(words) == 3
    assert "are left empty" in words[0]
    assert records[0]["files"][0]["post_processing"] == {}


def test_suppressed_values_are_not_in_the_file(tmp_path: Path) -> None:
    """The buffers of the file do not contain the hidden noisy value."""
    path = write(tmp_path)
    path.write_text(RELEASE.replace("margin: true", "suppress_below: 1000000"))
    shaped = dprelease.read_release(path).run()
    column = pq.read_table(shaped / "by_city.parquet")["people"].combine_chunks()
    assert column.null_count == len(column)
    assert pytest.approx(0) == sum(column.fill_null(0).to_pylist())


CODED = """\
title: Codes
tables: [people.yaml]
budget: {epsilon: 100}
mechanism: discrete_laplace
queries:
  by_city:
    from: people
    group_by: [city]
    columns:
      rows: {count: "*", bottom_code: 30, top_code: 42, labels: true, suppress_above: 50 %}
      age: {mean: age, round_to: 5, bottom_code: 10, top_code: 100, suppress_above: 50 %}
      persons: {count_distinct: person}
      tiny: {mean: pay, suppress_below: {people: 1000000}}
output: out/coded
"""


def test_missing_codes_labels_and_quality_are_published(tmp_path: Path) -> None:
    path = write(tmp_path, [f"{i},{('Bern', 'Oslo')[i % 2]},{i % 80},{i}.0\n" for i in range(72)])
    path.write_text(CODED)
    out = dprelease.read_release(path).run()
    found = pq.read_table(out / "by_city.parquet").to_pydict()
    bern, oslo, none = found["rows"]  # noise of scale 0.2: six off has a chance of e**-30
    assert abs(bern - 36) < 6 > abs(oslo - 36)
    assert none == 30
    assert found["rows_label"] == [str(bern), str(oslo), "30 or less"]
    rated = ["at_bound" if value in (30, 42) else "A" for value in (bern, oslo)]
    assert found["rows_quality"] == [*rated, "at_bound"]  # at such a budget there is no margin
    shown = [value for value in found["age"] if value is not None]
    assert all(value % 5 == 0 and 10 <= value <= 100 for value in shown)
    # The noisy number of ages of the empty cell is 0, or rarely 1 with a margin above 50 %.
    assert found["age_quality"][2] in ("unsure_divisor", "unreliable")
    assert found["tiny"] == [None] * 3
    assert found["tiny_quality"] == ["few_people"] * 3
    assert found["tiny_lower"] == found["tiny_upper"] == [None] * 3
    assert dprelease.verify(out).ok
    record = json.loads((out / "manifest.json").read_text(encoding="utf-8"))
    words = record["files"][0]["post_processing"]
    assert [len(words[name]) for name in ("rows", "age", "tiny")] == [3, 4, 1]
    path.write_text(CODED.replace("epsilon: 100", "epsilon: 0.1"))
    noisy = pq.read_table(
        dprelease.read_release(path).run(output=tmp_path / "noisy") / "by_city.parquet"
    )
    assert noisy["rows"].to_pylist() == [None] * 3  # a margin of some rows of forty
    assert noisy["rows_quality"].to_pylist() == ["unreliable"] * 3
