"""The chart of a plan shows every column, grouped by unit, without overlaps."""

from __future__ import annotations

import math
from itertools import combinations
from pathlib import Path
from xml.etree import ElementTree

import pytest
import yaml
from typer.testing import CliRunner

from dprelease import cli
from dprelease.planning.plan_charts import LEAST_DISTANCE, MOST_LINES, NO_MARGIN, charts_of
from tests.release.build import RELEASE, write

ERRORS = {
    "one": {"a": [8.0, 4.0, 2.0]},
    "the same": {"a": [8.0, 4.0, 2.0], "b": [8.0, 4.0, 2.0], "c": [1.0, 0.5, 0.2]},
    "nearly": {"a": [8.0, 4.0, 2.0], "b": [8.01, 4.02, 2.01], "c": [4.0, 2.0, 1.0]},
    "crossing": {"a": [8.0, 4.0, 2.0], "b": [6.0, 4.0, 3.0]},
    "none at all": {"a": [math.inf] * 3, "b": [math.inf] * 3, "c": [3.0, 2.0, 1.0]},
    "only none": {"a": [math.inf] * 3, "b": [0.0] * 3},
    "many": {f"c{i}": [2.0**i, 1.9**i, 1.7**i] for i in range(45)},
    "so many alike": {f"c{i}": [2.0 ** (i % 3), 1.5 ** (i % 3), 1.0] for i in range(200)},
}


@pytest.mark.parametrize("name", ERRORS)
def test_chart_has_every_column_without_overlaps(name: str) -> None:
    errors = {f"q.{column}": tuple(values) for column, values in ERRORS[name].items()}
    charts = charts_of(errors)
    found = [column for c in charts for names, _ in c.lines for column in names]
    assert sorted(found) == sorted(errors)
    values = [v for drawn in errors.values() for v in drawn if 0 < v < math.inf]
    near = LEAST_DISTANCE * math.log(max(values) / min(values)) if values else 0.0
    for chart in charts:
        assert len(chart.lines) <= MOST_LINES
        for (_, one), (_, other) in combinations(chart.lines, 2):
            pairs = [(a, b) for a, b in zip(one, other, strict=True) if a != b]
            finite = [p for p in pairs if all(0 < v < math.inf for v in p)]
            assert len(finite) < len(pairs) or any(abs(math.log(a / b)) > near for a, b in finite)
        for names, known in chart.lines:
            for column in names:
                for a, b in zip(errors[column], known, strict=True):
                    assert a == b or abs(math.log(a / b)) <= near
    labels = " ".join(" ".join(chart.labels()) for chart in charts)
    assert (NO_MARGIN.split()[-1] in labels) == ("none" in name)


UNITS = [r"$\nothing$", "_hidden", "", "US$"]


def test_chart_of_a_release_names_all_columns(tmp_path: Path) -> None:
    """More columns than lines, and names that mean something to matplotlib."""
    path = write(tmp_path)
    release = yaml.safe_load(RELEASE)
    schema = yaml.safe_load((tmp_path / "people.yaml").read_text())
    columns = {}
    for i, unit in enumerate(UNITS):
        for j in range(4):
            bounds = {"lower": 0, "upper": 10 ** (j // 2 + 1)}  # two of each error
            schema["columns"][f"x{i}_{j}"] = {"type": "integer", "unit": unit, **bounds}
            columns[f"c{i}_{j}"] = {"sum": f"x{i}_{j}"}
    release["queries"] = {"_q": {"from": "people", "columns": columns}}
    (tmp_path / "people.yaml").write_text(yaml.safe_dump(schema))
    path.write_text(yaml.safe_dump(release))
    for kind in ("svg", "png"):
        words = ["plan", str(path), "--plot", str(tmp_path / f"plan.{kind}")]
        done = CliRunner().invoke(cli.app, words)
        assert done.exit_code == 0, done.output
    comments = ElementTree.XMLParser(target=ElementTree.TreeBuilder(insert_comments=True))
    tree = ElementTree.parse(tmp_path / "plan.svg", comments)
    texts = " ".join((node.text or "").strip() for node in tree.iter() if node.text)
    for name in columns:
        assert f"_q.{name}" in texts, texts
    assert "margin, % of the value" in texts
