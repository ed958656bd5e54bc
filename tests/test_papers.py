"""The papers' scripts: what they print and draw, and that each of their checks can fail."""

from __future__ import annotations

import math
import re
import sys
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any
from xml.etree import ElementTree

import pytest

from dprelease.mechanisms.asymmetric_laplace import AsymmetricLaplace
from dprelease.mechanisms.offset_symmetric_gaussian import OffsetSymmetricGaussian
from dprelease.mechanisms.symmetric_alpha_stable import SymmetricAlphaStable
from dprelease.mechanisms.truncated_laplace import TruncatedLaplace
from dprelease.numerics import stable
from dprelease.privacy.losses.offset_gaussian import OffsetGaussianLoss
from examples.papers import asymmetric_and_truncated_laplace as poster
from examples.papers import offset_symmetric_gaussian as osgt
from examples.papers import page, stable_figures
from examples.papers import symmetric_alpha_stable as sas
from examples.papers.report import Report, rounds_to, run
from tests import processes

ROOT = Path(__file__).parents[1]
Plant = Callable[[pytest.MonkeyPatch], None]
FIGURES = {
    sas: [f"Figure {i}" for i in range(2, 11)],
    osgt: [f"Figure {i}" for i in range(2, 7)],
    poster: ["Figure 1", "Figure 2", "Comparison"],
}
"""Every figure of the three papers that draws a law or a number."""


@pytest.mark.parametrize(
    ("printed", "inside", "outside"),
    [
        ("1.1289", (1.12894, 1.12886), (1.12896, 1.12884)),
        ("0.94", (0.9449, 0.9351), (0.946, 0.934)),
        ("7.8e-12", (7.847e-12, 7.751e-12), (7.86e-12, 7.74e-12)),
        ("1.44e-14", (1.4449e-14, 1.4351e-14), (1.446e-14, 1.229e-14)),
        ("2.0", (2.04, 1.96), (2.06, 1.94)),
        ("40", (40.4, 39.6), (40.6, 39.4)),
        ("27.7047", (27.70467,), (27.7048, math.nan, math.inf)),
    ],
)
def test_rounding_to_printed_digits(
    printed: str, inside: tuple[float, ...], outside: tuple[float, ...]
) -> None:
    assert all(rounds_to(value, printed) for value in inside)
    assert not any(rounds_to(value, printed) for value in outside)


@pytest.mark.parametrize(
    ("off", "compare"),
    [
        (0, lambda report: report.printed("x", "3.14", math.pi)),
        (1, lambda report: report.printed("x", "3.15", math.pi)),
        (0, lambda report: report.misprint("x", "3.24", "3.14", math.pi)),
        (1, lambda report: report.misprint("x", "3.14", "3.24", math.pi)),
        (1, lambda report: report.misprint("x", "3.142", "3.14", math.pi)),
        (0, lambda report: report.same("x", 1.0, 1.0 + 1e-10)),
        (1, lambda report: report.same("x", 1.0, 1.0 + 1e-8)),
        (1, lambda report: report.same("x", 0.0, 1e-300)),
        (1, lambda report: report.same("x", 1.0, math.nan)),
        (1, lambda report: report.holds("x", False)),
    ],
)
def test_wrong_lines_are_counted(
    off: int,
    compare: Callable[[Report], None],
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setattr(sys, "argv", ["x"])

    def tell(report: Report) -> None:
        report.section("numbers")
        compare(report)

    assert run("title", tell) == off
    assert ("OFF" in capsys.readouterr().out) == bool(off)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Draw the page as `make papers` does."""
    found = tmp_path_factory.mktemp("papers")
    words = [sys.executable, "-W", "error", "-m", "examples.papers.page", str(found)]
    done = processes.run(words, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "all agree" in done.stdout
    return found


def test_page_is_complete_and_self_contained(folder: Path) -> None:
    text = (folder / "index.html").read_text(encoding="utf-8")
    assert "All agree." in text
    assert "<td>delta(0.9)</td><td>1.44e-14</td><td>1.229e-14</td>" in text  # a known misprint
    for paper, numbers in FIGURES.items():
        part = text.split(f"<h2>{paper.TITLE}</h2>")[1].split("<h2>")[0]
        assert re.findall(r"<h3>((?:Figure \d+|Comparison))</h3>", part) == numbers
        assert part.count("<dt>In the paper</dt>") == part.count("<svg ") == len(numbers)
    fetched = re.findall(r"(?:src|href)=[\"\']?([^\"\' >]+)", text)
    assert all(one.startswith("#") for one in fetched)
    assert "<script" not in text
    assert "@import" not in text
    pictures = re.findall(r"<svg .*?</svg>", text, flags=re.DOTALL)
    ids = []
    for picture in pictures:
        tree = ElementTree.fromstring(picture)
        assert tree.get("aria-label")
        ids += [one.get("id") for one in tree.iter("{http://www.w3.org/2000/svg}clipPath")]
    assert len(set(ids)) == len(ids)  # a clip of one picture would cut another


def test_every_figure_has_points(folder: Path) -> None:
    files = sorted((folder / "curves").glob("*.csv"))
    assert len(files) == sum(map(len, FIGURES.values()))
    for path in files:
        rows = [line.rsplit(",", 2)[1:] for line in path.read_text().splitlines()[1:]]
        assert len(rows) > 20
        assert all(math.isfinite(float(x)) for x, _ in rows)


@pytest.fixture(autouse=True)
def no_memory() -> None:
    """Forget what was computed with another test's fault."""
    for cached in (stable_figures.scale_for, stable_figures.unit_distortion):
        cached.cache_clear()


def told(paper: ModuleType) -> Report:
    report = Report(paper.TITLE)
    paper.tell(report)
    return report


def more(owner: Any, name: str, factor: float) -> Plant:
    """Make a function, or a property, answer too much by a factor."""
    found = vars(owner)[name]

    def faulty(*words: Any, **named: Any) -> Any:
        return (found.fget if isinstance(found, property) else found)(*words, **named) * factor

    value = property(faulty) if isinstance(found, property) else faulty
    return lambda patch: patch.setattr(owner, name, value)


def wrong_shares(law: SymmetricAlphaStable, parties: int) -> SymmetricAlphaStable:
    """Return a share of a Gaussian's scale, whatever the alpha."""
    return SymmetricAlphaStable(law.scale / math.sqrt(parties), law.alpha)


def symmetric(rate: float, k: float) -> Callable[[float], float]:
    """Return a density without its asymmetry."""
    return lambda x: rate * math.exp(-rate * abs(x)) / 2


FAULTS: dict[str, tuple[ModuleType, Plant]] = {
    "density": (sas, more(stable, "pdf", 1 + 1e-8)),
    "tail": (sas, more(stable, "sf", 1 + 1e-8)),
    "epsilon": (sas, more(stable_figures, "largest_loss", 1 - 2e-6)),
    "closed form": (sas, more(sas, "largest_loss", 1 - 1e-8)),
    "distortion": (sas, more(SymmetricAlphaStable, "mean_absolute_error", 1 + 1e-8)),
    "shares": (sas, lambda patch: patch.setattr(SymmetricAlphaStable, "federated", wrong_shares)),
    "delta of OSGT": (osgt, more(OffsetGaussianLoss, "_delta", 1 + 1e-8)),
    "Rényi of OSGT": (osgt, more(OffsetGaussianLoss, "renyi", 1 + 1e-8)),
    "variance of OSGT": (osgt, more(osgt, "variance", 1 + 1e-8)),
    "error of OSGT": (osgt, more(OffsetSymmetricGaussian, "mean_absolute_error", 1 + 1e-8)),
    "bound (16)": (osgt, more(osgt, "closed_bound", 1 - 1e-3)),
    "error when cut": (poster, more(TruncatedLaplace, "mean_absolute_error", 1 + 1e-5)),
    "far end": (poster, more(poster, "far_end", 1 + 1e-3)),
    "error when skewed": (poster, more(AsymmetricLaplace, "mean_absolute_error", 1 + 1e-8)),
    "skew": (poster, lambda patch: patch.setattr(poster, "asymmetric_density", symmetric)),
}


EACH_TIME = ("tail", "shares", "variance of OSGT", "bound (16)", "error when cut", "skew")


@pytest.mark.share(0.25)
@pytest.mark.parametrize(
    "name",
    [pytest.param(name, marks=[] if name in EACH_TIME else pytest.mark.audit) for name in FAULTS],
)
def test_planted_faults_in_formulas_are_found(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """No formula is compared with itself: each of these faults leaves some line off."""
    paper, plant = FAULTS[name]
    plant(monkeypatch)
    assert told(paper).off > 0


@pytest.mark.parametrize("paper", page.PAPERS, ids=lambda paper: paper.__name__.split(".")[-1])
def test_each_script_prints_its_tables(
    paper: ModuleType,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setattr(sys, "argv", ["x", "--curves", str(tmp_path)])
    assert run(paper.TITLE, paper.tell) == 0
    text = capsys.readouterr().out
    assert "all agree" in text
    assert "OFF" not in text
    assert len(list(tmp_path.iterdir())) == len(FIGURES[paper])
