"""Charts: no bars on logarithmic scales, and nothing covers the data."""

from __future__ import annotations

import math
from itertools import combinations
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from matplotlib.figure import Figure
from matplotlib.patches import FancyArrowPatch, Rectangle

from dprelease.mechanisms.discrete_laplace import DiscreteLaplace
from dprelease.mechanisms.symmetric_alpha_stable import SymmetricAlphaStable
from dprelease.planning import charts, plan_charts
from dprelease.planning.charts import draw_comparison
from dprelease.planning.families import family_errors
from dprelease.planning.families.family_errors import draw_family_errors
from dprelease.planning.plan_charts import draw_plan
from dprelease.planning.prepare import prepare
from dprelease.schema.load import read_declaration
from tests.planning.test_family_chart import LEVELS, TABLES, rows_of
from tests.release.build import write
from tests.report.reading import contrast

LAWS = [DiscreteLaplace(3.0), DiscreteLaplace(400.0), SymmetricAlphaStable(9.0, 1.0)]
ROWS: Any = [SimpleNamespace(mechanism=law) for law in LAWS]


def comparison(_folder: Path) -> None:
    draw_comparison(ROWS, Path("comparison.svg"))


def family(_folder: Path) -> None:
    draw_family_errors(rows_of("all measured"), LEVELS, TABLES, Path("family.svg"))


def plan(folder: Path) -> None:
    declaration = read_declaration(write(folder))
    draw_plan(prepare(declaration)[1], Path("plan.svg"))


DRAWN = {"comparison": comparison, "family": family, "plan": plan}


@pytest.fixture
def figures(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> list[Figure]:
    """Return the list of figures that are saved, each as it was: no name is a formula by then."""
    found: list[Figure] = []
    save = charts.save_chart

    def kept(figure: Figure, path: Path) -> None:
        save(figure, tmp_path / path.name)
        found.append(figure)

    for module in (charts, family_errors, plan_charts):
        monkeypatch.setattr(module, "save_chart", kept)
    return found


@pytest.mark.parametrize("name", DRAWN)
def test_charts_have_dots_with_labels_and_no_bars(
    name: str, figures: list[Figure], tmp_path: Path
) -> None:
    DRAWN[name](tmp_path)
    figure = figures[0]
    figure.draw_without_rendering()
    for axes in figure.axes:
        assert axes.get_legend() is None
        bars = [one for one in axes.patches if isinstance(one, Rectangle)]
        assert not bars or "log" not in (axes.get_xscale(), axes.get_yscale())
        texts = [one for one in axes.texts if one.get_text().strip()]
        boxes = [one.get_window_extent() for one in texts]
        for (one, box), (other, beside) in combinations(zip(texts, boxes, strict=True), 2):
            assert not box.overlaps(beside), (one.get_text(), other.get_text())
        for text in texts:
            assert contrast(_hex(text.get_color())) >= 4.5, text.get_text()
        arrows = [one for one in axes.patches if isinstance(one, FancyArrowPatch)]
        assert len(axes.lines) >= len(arrows)


def _hex(colour: Any) -> str:
    from matplotlib.colors import to_hex

    return str(to_hex(colour))


def test_comparison_chart_marks_each_error(figures: list[Figure]) -> None:
    """Also of noise without a mean, of which this is said."""
    comparison(Path())
    (axes,) = figures[0].axes
    marks = {
        (round(float(line.get_ydata()[0])), float(line.get_xdata()[0]))
        for line in axes.get_lines()
        if line.get_linestyle() == "None"
    }
    wanted = {
        (at, float(error))
        for at, law in enumerate(LAWS)
        for error in (law.mean_absolute_error, law.half_width(0.95), law.half_width(0.999))
        if math.isfinite(error)
    }
    assert marks == wanted
    written = [text.get_text() for text in axes.texts]
    assert "no mean" in written
    assert {"mean", "95 %", "99.9 %"} <= set(written)
    low, high = axes.get_xlim()
    assert all(low < place < high for _, place in marks)
