"""Codes that changed between releases, and cells of one release: sums with exact standard errors."""

from __future__ import annotations

import itertools
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from scipy import stats
from typer.testing import CliRunner

import dprelease
from dprelease.cli import app
from dprelease.errors import QueryError
from dprelease.mechanisms.base import Mechanism
from dprelease.mechanisms.discrete_gaussian import DiscreteGaussian
from dprelease.mechanisms.discrete_laplace import DiscreteLaplace
from dprelease.numerics.lattice import sample
from dprelease.postprocess.consistent.family_columns import consistent_columns
from dprelease.postprocess.consistent.family_shape import Shape
from dprelease.query.quality import CONFIDENCE
from dprelease.verification.after_publication.changes import code_links
from dprelease.verification.after_publication.comparison_errors import (
    Estimates,
    JointErrors,
    change_between,
    sum_width,
)
from dprelease.verification.after_publication.release_tables import read_release_tables
from tests.release.area_family import GROUPED, TOWNS, TREE, publish_family, write_family
from tests.release.test_groupings import LeastSquares, read_frame
from tests.replay import Keyed

GROUPS = {**GROUPED, "consistent": "{groupings: [size, market]}"}
PLAIN = """\
  plain: {from: people, group_by: [town, sex], columns: {n: {count: "*"}, mean: {mean: pay}}}
"""
NAMES = [town for some in TOWNS.values() for town in some]


@pytest.fixture(scope="module")
def before(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return publish_family(tmp_path_factory.mktemp("before"), **GROUPS, more=PLAIN)


@pytest.fixture(scope="module")
def after(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a release of the same people: Biel was merged into Bern, and Thun has another name."""
    folder = tmp_path_factory.mktemp("after")
    write_family(folder, **GROUPS, more=PLAIN)
    for name, change in (
        ("people.csv", {"Biel": "Bern"}),
        ("towns.csv", {"Biel,BE,small,M3\n": ""}),
    ):
        text = (folder / name).read_text()
        for old, new in {**change, "Thun": "Thoune"}.items():
            text = text.replace(old, new)
        (folder / name).write_text(text)
    return dprelease.read_release(folder / "release.yaml").run()


OLD, NEW = ["a", "b", "c", "d"], ["a", "d", "x", "y"]
LINKED: dict[str, tuple[list[tuple[str, str]], dict[str, str], dict[str, str]]] = {
    "nothing": ([], {}, {}),
    "another name": ([("c", "x")], {"c": "x"}, {"x": "x"}),
    "merged": ([("b", "x"), ("c", "x")], {"b": "x", "c": "x"}, {"x": "x"}),
    "merged into one of them": ([("a", "a"), ("c", "a")], {"a": "a", "c": "a"}, {"a": "a"}),
    "split": ([("c", "x"), ("c", "y"), ("c", "x")], {"c": "c"}, {"x": "c", "y": "c"}),
    "split in itself and another": ([("a", "a"), ("a", "x")], {"a": "a"}, {"a": "a", "x": "a"}),
}


@pytest.mark.parametrize("case", LINKED)
@pytest.mark.parametrize("delimiter", ["", ",", ";", "\t"])
def test_codes_are_linked(case: str, delimiter: str, tmp_path: Path) -> None:
    """From a frame, or from a file whose delimiter stands between its two names."""
    rows, old, new = LINKED[case]
    given: Any = pd.DataFrame(rows, columns=["old", "new"])
    if delimiter:
        given.to_csv(tmp_path / "codes.csv", index=False, sep=delimiter)
        given = tmp_path / "codes.csv"
    found = code_links("town", given, OLD, NEW)
    assert found.old == {c: c for c in OLD} | old
    assert found.new == {c: c for c in NEW} | new


BAD: dict[str, tuple[Any, str]] = {
    "an old code that is none": ({"old": ["z"], "new": ["x"]}, "'z' is no code of the old table"),
    "a new code that is none": ({"old": ["a"], "new": ["b"]}, "'b' is no code of the new table"),
    "shares": ({"old": ["a"], "new": ["x"], "share": [0.5]}, "shares of codes"),
    "no columns": ({"from": ["a"], "to": ["x"]}, "exactly the columns"),
    "a chain": ({"old": ["b", "b", "c"], "new": ["x", "y", "x"]}, "linked with further codes"),
    "a code that stays": ({"old": ["a", "c"], "new": ["x", "x"]}, "add the row 'a,a'"),
    "another length": ({"old": ["a", "b"], "new": ["x"]}, "different lengths"),
    "a number": (3, "not a file"),
}


@pytest.mark.parametrize("case", BAD)
def test_impossible_links_are_refused(case: str) -> None:
    given, text = BAD[case]
    with pytest.raises(QueryError, match="DP-COMPARE-004") as caught:
        code_links("town", given, OLD, NEW)
    assert text in str(caught.value)


@pytest.mark.parametrize("measured", ["", "\n    marginals_at: {market: [[], [band, sex]]}"])
def test_errors_equal_dense_least_squares(measured: str, before: Path, tmp_path: Path) -> None:
    """Of sums and differences of cells, in tables of all levels and of groupings."""
    folder = publish_family(tmp_path, **GROUPS, asked=TREE + measured) if measured else before
    exact = LeastSquares(folder)
    release = read_release_tables(folder)
    (family,) = (one for one in release.families if one.name == "pop")
    shape = Shape.of(family.tables)
    (column,) = consistent_columns(shape)
    levels = [None, list(TOWNS), NAMES, ["large", "small"], ["M3", "M1", "M2"]]
    seen = 0
    for placed in [*shape.placed, *(one for tables in shape.grouped for one, _ in tables)]:
        errors = JointErrors(column, placed)
        codes = levels[placed.level]
        name = None if errors.area_key is None else errors.area_key.column
        values = [list(key.texts) for key in errors.attributes]

        def q(area: int, *cell: int, name: Any = name, codes: Any = codes, of: Any = errors) -> Any:
            known = {} if name is None else {name: codes[area]}
            keys = zip(of.attributes, cell, strict=True)
            return exact.weights(known | {key.column: list(key.texts)[i] for key, i in keys})

        areas = range(len(codes or [0]))
        cells = list(itertools.product(areas, *(range(len(some)) for some in values)))
        for one, other in itertools.islice(itertools.combinations(cells, 2), 0, None, 3):
            same = [a == b for a, b in zip(one[1:], other[1:], strict=True)]
            difference = q(*one) - q(*other)
            wanted = (difference @ exact.covariance @ difference) ** 0.5
            assert errors.of_difference(one[0], other[0], same) == pytest.approx(wanted, rel=1e-6)
            seen += 1
        some = [*areas][:2]
        total = sum(q(a, *c) for a, *c in cells if a in some and all(i < 2 for i in c))
        wanted = (total @ exact.covariance @ total) ** 0.5
        assert errors.of_sum(some, [2] * len(values)) == pytest.approx(wanted, rel=1e-6)
    assert seen > 300


CODES = {"town": {"old": ["Bern", "Biel", "Thun"], "new": ["Bern", "Bern", "Thoune"]}}
BACK = {"town": {"old": CODES["town"]["new"], "new": CODES["town"]["old"]}}


@pytest.mark.parametrize("table", ["pop_town", "pop_town_sex", "pop_town_band_sex"])
def test_sums_of_codes_have_exact_errors(table: str, before: Path, after: Path) -> None:
    """Merged codes are compared as the sum of the old ones; the way back, as split ones."""
    exact = LeastSquares(before)
    old, new = (read_frame(one, f"estimates/{table}") for one in (before, after))
    keys = [key for key in ("town", "sex", "band") if key in old]
    found = dprelease.compare(before, after, table=table, codes=CODES).set_index(keys)
    back = dprelease.compare(after, before, table=table, codes=BACK)
    back["town"] = back["town"].replace({"Thun": "Thoune"})  # a new name is that of the new table
    back = back.set_index(keys)
    assert len(found) == len(back) == len(new)
    old["town"] = old["town"].replace(dict(zip(*CODES["town"].values(), strict=True)))
    sums = old.groupby(keys)["n"].sum()
    quantiles = []
    for row in new.to_dict("records"):
        cell = tuple(row[key] for key in keys) if len(keys) > 1 else row["town"]
        names = {"Bern": ["Bern", "Biel"], "Thoune": ["Thun"]}.get(row["town"], [row["town"]])
        rest = {key: row[key] for key in keys[1:]}
        q = sum(exact.weights({**rest, "town": name}) for name in names)
        error = np.hypot((q @ exact.covariance @ q) ** 0.5, row["n_se"])
        assert found.loc[cell, "old"] == pytest.approx(sums[cell])
        assert found.loc[cell, "change"] == pytest.approx(row["n"] - sums[cell])
        assert back.loc[cell, "change"] == pytest.approx(sums[cell] - row["n"])
        for one in (found, back):
            quantiles.append((one.loc[cell, "change_upper"] - one.loc[cell, "change"]) / error)
    assert quantiles == pytest.approx([quantiles[0]] * len(quantiles), rel=1e-5)
    assert 1.95 < quantiles[0] < 2.1


def test_sums_of_plain_tables(before: Path, after: Path) -> None:
    """Counts of codes are added up, with the noise of their sum; means are not."""
    found = dprelease.compare(before, after, table="plain", codes=CODES)
    old, new = (read_frame(one, "plain").set_index(["town", "sex"])["n"] for one in (before, after))
    rows = found.set_index(["column", "town", "sex"])
    for sex in ("f", "m"):
        merged, alone = rows.loc[("n", "Bern", sex)], rows.loc[("n", "Uster", sex)]
        total = old["Bern", sex] + old["Biel", sex]
        assert merged["change"] == new["Bern", sex] - total
        widths = [one["change_upper"] - one["change"] for one in (merged, alone)]
        assert widths[0] / widths[1] == pytest.approx(1.5**0.5, rel=0.1)
        assert np.isnan(rows.loc[("mean", "Bern", sex), "change"])
        means = [
            read_frame(one, "plain").set_index(["town", "sex"])["mean"] for one in (before, after)
        ]
        change = means[1]["Zurich", sex] - means[0]["Zurich", sex]
        assert rows.loc[("mean", "Zurich", sex), "change"] == pytest.approx(change, nan_ok=True)


@pytest.mark.parametrize("noise", [DiscreteLaplace(3.0), DiscreteGaussian(5.0)])
def test_sums_of_noise_are_covered(noise: Mechanism) -> None:
    """Two-armed: at 95 % between 94 and 97 % of sums of noise with another noise lie within."""
    other, n = DiscreteLaplace(8.0), 20_000
    for k, m in ((2, 1), (3, 5), (40, 2)):
        drawn = sample(noise, n * k, Keyed(f"one {k}")).reshape(n, k).sum(axis=1) * 2.0
        drawn = drawn + sample(other, n * m, Keyed(f"two {m}")).reshape(n, m).sum(axis=1)
        numbers = np.array([[float(k)], [float(m)]])
        (width,) = sum_width([noise, other], numbers, 0.95, np.array([[2.0], [1.0]]))
        inside = int((np.abs(drawn) <= width).sum())
        assert stats.binom.ppf(1e-6, n, 0.945) <= inside <= stats.binom.isf(1e-6, n, 0.975)


@pytest.mark.parametrize("correlation", [-0.8, 0.0, 0.6])
def test_correlated_estimates_are_covered(correlation: float) -> None:
    """Intervals of differences and of ratios hold as often as they say, and no more often."""
    n, rng = 20_000, np.random.default_rng(7)
    sizes, truth = np.array([4.0, 9.0]), np.array([60.0, 140.0])
    covariance = np.outer(sizes, sizes) * np.array([[1, correlation], [correlation, 1]])
    values = truth + rng.multivariate_normal([0, 0], covariance, n)
    error = np.full(n, (covariance[0, 0] + covariance[1, 1] - 2 * covariance[0, 1]) ** 0.5)
    sides = [
        Estimates(v, v, v, CONFIDENCE, errors=np.full(n, s), quantile=1.96)
        for v, s in zip(values.T, sizes, strict=True)
    ]
    change = change_between(sides[0], sides[1], is_same=True, joint=error)
    for (_, lower, upper), wanted in ((change.difference, 80.0), (change.ratio, 140 / 60)):
        inside = int(((lower <= wanted) & (wanted <= upper)).sum())
        assert stats.binom.ppf(1e-6, n, 0.95) <= inside <= stats.binom.isf(1e-6, n, 0.951)


def test_code_links_in_cli_and_python(before: Path, after: Path, tmp_path: Path) -> None:
    (tmp_path / "codes.csv").write_text("old,new\nBiel,Bern\nBern,Bern\nThun,Thoune\n")
    words = ["compare", str(before), str(after), "--table", "pop_town", "--json"]
    result = CliRunner().invoke(app, [*words, "--codes", f"town={tmp_path / 'codes.csv'}"])
    assert result.exit_code == 0, result.output
    assert "Thoune" in result.output
    assert '"Biel"' not in result.output
    (tmp_path / "named.csv").write_text("a;n;b\nBiel;1;Bern\nBern;2;Bern\nThun;3;Thoune\n")
    named = CliRunner().invoke(app, [*words, "--codes", f"town={tmp_path / 'named.csv'},a,b"])
    assert named.stdout == result.stdout
    wrong = CliRunner().invoke(app, [*words, "--codes", f"town={tmp_path / 'named.csv'},a,c"])
    assert "'c'" in wrong.output
    newer = dprelease.PublishedRelease(after)
    codes = {"town": tmp_path / "codes.csv"}
    assert newer.change(before, table="pop_town", codes=codes)["change"].notna().all()
    ratios = newer.ratio(before, table="pop_town", codes=codes).set_index("town")["ratio"]
    assert not np.isnan(ratios["Bern"])
    assert newer.change(along="size", table="pop_size")["confidence"].tolist() == [0.95]
    with pytest.raises(QueryError, match="DP-COMPARE-002"):
        newer.change(before, table="pop_total", codes=codes)
