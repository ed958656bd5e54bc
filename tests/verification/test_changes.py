"""Changes between releases: coverage by enumeration, agreement with exact data, and refusals."""

from __future__ import annotations

import json
import shutil
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from typer.testing import CliRunner

import dprelease
from dprelease.cli import app
from dprelease.errors import QueryError, VerificationError
from dprelease.mechanisms.discrete_laplace import DiscreteLaplace
from dprelease.postprocess.margins import difference_width
from dprelease.release.runs.pipeline import run
from dprelease.schema.load import read_declaration
from dprelease.verification.after_publication.comparison_errors import Estimates, change_between
from tests.replay import Keyed

SCHEMA = """\
table: people
source: people{year}.csv
privacy_unit: {{id: id, max_groups: {groups}, max_rows_per_group: 1{more}}}
columns:
  id: {{type: integer}}
  sex: {{type: category, values: [f, m]}}
  kind: {{type: category, values: [a, b, c]}}
  income: {{type: integer, lower: 0, upper: {upper}}}
"""
RELEASE = """\
title: People
tables: [people{year}.yaml]
budget: {{epsilon: 50, delta: 1e-9}}
mechanism: laplace
queries:
  by_sex:
    from: people
    where: income >= {least}
    group_by: [sex]
    columns:
      n: {{count: "*"}}
      income: {{sum: income}}
      mean: {{mean: income}}
      median: {{median: income}}
      tens: {{count: "*", round_to: 10}}
      positive: {{count: "*", non_negative: true}}
  family:
    from: people
    marginals: [[], [sex], [sex, kind]]
    consistent: true
    columns: {{n: {{count: "*"}}, income: {{sum: income}}, mean: {{mean: income}}}}
output: out{year}
"""


def people(seed: int) -> pd.DataFrame:
    """Return invented people."""
    rng = np.random.default_rng(seed)
    n = 900 + 10 * seed
    kinds = {"sex": rng.choice(["f", "m"], n), "kind": rng.choice(["a", "b", "c"], n)}
    return pd.DataFrame({"id": range(n), **kinds, "income": rng.integers(1, 1000, n)})


def publish(
    folder: Path, year: int, *, groups: int = 1, upper: int = 1000, least: int = 1, more: str = ""
) -> Path:
    """Return the folder of a release about the people of a year."""
    people(year).to_csv(folder / f"people{year}.csv", index=False)
    schema = SCHEMA.format(year=year, groups=groups, upper=upper, more=more)
    (folder / f"people{year}.yaml").write_text(schema)
    release = folder / f"release{year}.yaml"
    release.write_text(RELEASE.format(year=year, least=least))
    return dprelease.read_release(release).run()


@pytest.fixture(scope="module")
def releases(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    folder = tmp_path_factory.mktemp("changes")
    return publish(folder, 1), publish(folder, 2)


def laplace_pmf(scale: int, reach: int) -> dict[int, float]:
    """Return the probabilities of discrete Laplace noise of a whole scale."""
    ratio = float(np.exp(-1 / scale))
    return {k: (1 - ratio) / (1 + ratio) * ratio ** abs(k) for k in range(-reach, reach + 1)}


@pytest.mark.parametrize("scales", [(3, 3), (2, 9), (7, 1)])
def test_change_of_counts_has_stated_coverage(scales: tuple[int, int]) -> None:
    """The width is the quantile of the difference of both noises, by enumeration of all pairs."""
    noises = [DiscreteLaplace(Fraction(scale)) for scale in scales]
    width = difference_width(noises[0], noises[1], 1.0, 0.95)
    one, other = (laplace_pmf(scale, 40 * scale) for scale in scales)

    def missed(width: float) -> float:
        pairs = ((j - k, p * q) for j, p in one.items() for k, q in other.items())
        return sum(p for difference, p in pairs if abs(difference) > width)

    assert missed(width) < 0.0501
    assert missed(width - 1.5) > 0.05


def test_ratio_interval_has_1_iff_change_interval_has_0() -> None:
    """Fieller's interval contains the ratio 1 if and only if the difference may be 0."""
    noise = DiscreteLaplace(Fraction(4))
    rng = np.random.default_rng(3)
    old, new = rng.integers(60, 160, (2, 400)).astype(float)
    sides = [
        Estimates(x, x, x, Fraction(19, 20), noise=noise, step=0.5) for x in (old / 2, new / 2)
    ]
    change = change_between(*sides, is_same=False)
    _, low, high = change.difference
    _, least, most = change.ratio
    sure = np.minimum(np.abs(low), np.abs(high)) > 0.02  # ends at 0 are decided by rounding
    assert ((low > 0) | (high < 0))[sure].any()
    assert np.array_equal(((low > 0) | (high < 0))[sure], ((least > 1) | (most < 1))[sure])


def test_normal_ratios_equal_fieller_intervals() -> None:
    """The ends are the ratios t at which |new - t old| is the margin of this difference."""
    errors = np.array([3.0, 2.0]), np.array([1.5, 4.0])
    old, new = np.array([40.0, 100.0]), np.array([44.0, 80.0])
    sides = [
        Estimates(x, x, x, Fraction(19, 20), errors=e, quantile=1.96)
        for x, e in zip((old, new), errors, strict=True)
    ]
    _, *ends = change_between(*sides, is_same=False).ratio
    for t in ends:
        margin = 1.96 * np.sqrt(errors[1] ** 2 + (t * errors[0]) ** 2)
        assert np.allclose(np.abs(new - t * old), margin)


def values(release: Path, table: str) -> pd.DataFrame:
    """Return a published table with its keys as index."""
    frame = pd.read_parquet(release / f"{table}.parquet")
    return frame.set_index([name for name in ("sex", "kind") if name in frame])


def test_changes_equal_differences_of_published_values(releases: tuple[Path, Path]) -> None:
    old, new = (values(release, "by_sex") for release in releases)
    found = dprelease.compare(*releases, table="by_sex").set_index(["column", "sex"])
    for name in ("n", "income", "mean", "median", "tens", "positive"):
        rows = found.loc[name].loc[["f", "m"]]
        assert rows["change"].tolist() == (new[name] - old[name]).tolist()
        assert rows["percent"].tolist() == pytest.approx(
            (100 * new[name] / old[name] - 100).tolist()
        )
        confidence = 0.9 if name in ("mean", "median") else 0.95
        assert rows["confidence"].tolist() == pytest.approx([confidence] * 2)
    for name in ("change", "percent"):
        assert (found[f"{name}_lower"] < found[name]).all()
        assert (found[name] < found[f"{name}_upper"]).all()
    rounded = found.loc[("tens", "f")]  # two roundings to tens move a change by up to 10
    plain = found.loc[("positive", "f")]
    widths = (one["change_upper"] - one["change_lower"] for one in (rounded, plain))
    assert next(widths) == pytest.approx(next(widths) + 20)


def test_changes_of_consistent_tables_have_both_errors(releases: tuple[Path, Path]) -> None:
    old, new = (values(release, "estimates/family_sex_kind") for release in releases)
    found = dprelease.compare(*releases, table="family_sex_kind")
    rows = found[found["column"] == "n"].set_index(["sex", "kind"]).loc[new.index]
    assert rows["change"].tolist() == pytest.approx((new["n"] - old["n"]).tolist())
    quantiles = (rows["change_upper"] - rows["change"]) / np.hypot(old["n_se"], new["n_se"])
    assert quantiles.tolist() == pytest.approx([quantiles.iloc[0]] * 6)
    assert quantiles.iloc[0] > 1.95  # of a normal distribution, or more for small noise


def test_cells_of_one_release_are_compared(releases: tuple[Path, Path]) -> None:
    data = values(releases[0], "estimates/family_sex_kind")
    cells: dict[str, Any] = {"old_cells": {"sex": "f"}, "new_cells": {"sex": "m"}}
    found = dprelease.compare(releases[0], releases[0], table="family_sex_kind", **cells)
    rows = found[found["column"] == "n"].set_index("kind")
    assert rows["change"].tolist() == pytest.approx(
        (data.loc["m", "n"] - data.loc["f", "n"]).tolist()
    )
    # Estimates of one family are correlated: a total that is known well bounds them together.
    assert rows["confidence"].tolist() == [0.95] * len(rows)
    errors = data.loc["m", "n_se"] + data.loc["f", "n_se"]
    others = dprelease.compare(*releases, table="family_sex_kind")
    of_two = others[others["column"] == "n"].iloc[0]
    quantile = (of_two["change_upper"] - of_two["change"]) / (2**0.5 * data["n_se"].iloc[0])
    assert (rows["change_upper"] - rows["change"] <= quantile * errors).all()
    assert (rows["change_upper"] - rows["change"] >= errors / 2).all()
    means = found[found["column"] == "mean"]  # the covariance of quotients is not known
    assert means["confidence"].tolist() == pytest.approx([0.9] * len(means))


def test_two_cells_of_a_table_with_one_key(releases: tuple[Path, Path]) -> None:
    data = values(releases[0], "by_sex")
    cells: dict[str, Any] = {"old_cells": {"sex": "f"}, "new_cells": {"sex": "m"}}
    found = dprelease.compare(releases[0], releases[0], table="by_sex", **cells)
    (change,) = found[found["column"] == "n"]["change"]
    assert change == data.loc["m", "n"] - data.loc["f", "n"]


def test_change_of_total_without_keys(releases: tuple[Path, Path]) -> None:
    found = dprelease.compare(*releases, table="family_total").set_index("column")
    old, new = (pd.read_parquet(one / "estimates/family_total.parquet") for one in releases)
    assert found.loc["n", "change"] == pytest.approx(new["n"][0] - old["n"][0])


@pytest.mark.parametrize(
    ("words", "code"),
    [
        ({}, "DP-COMPARE-001"),
        ({"table": "by_kind"}, "DP-COMPARE-001"),
        ({"table": "by_sex", "old_cells": {"age": 1}}, "DP-COMPARE-002"),
        ({"table": "by_sex", "old_cells": {"sex": "x"}}, "DP-COMPARE-002"),
        ({"table": "by_sex", "old_cells": {"sex": "f"}}, "DP-COMPARE-002"),
    ],
)
def test_wrong_tables_and_cells_are_refused(
    releases: tuple[Path, Path], words: dict[str, Any], code: str
) -> None:
    with pytest.raises(QueryError) as caught:
        dprelease.compare(*releases, **words)
    assert caught.value.code == code


def test_same_cells_of_one_release_are_refused(releases: tuple[Path, Path]) -> None:
    same: dict[str, Any] = {"old_cells": {"sex": "f"}, "new_cells": {"sex": np.str_("f")}}
    for cells in ({}, same):
        with pytest.raises(QueryError) as caught:
            dprelease.compare(releases[0], releases[0], table="by_sex", **cells)
        assert caught.value.code == "DP-COMPARE-002"


@pytest.mark.parametrize(
    "declared", [{"groups": 2}, {"upper": 2000}, {"groups": 2, "more": ", max_rows: 1"}]
)
def test_other_measures_are_refused(
    releases: tuple[Path, Path], tmp_path: Path, declared: dict[str, Any]
) -> None:
    other = publish(tmp_path, 2, **declared)
    with pytest.raises(QueryError) as caught:
        dprelease.compare(releases[0], other, table="by_sex")
    assert caught.value.code == "DP-COMPARE-002"


def test_other_conditions_are_named(releases: tuple[Path, Path], tmp_path: Path) -> None:
    other = publish(tmp_path, 2, least=500)
    differences = dprelease.compare(releases[0], other, table="by_sex").attrs["dprelease"][
        "differences"
    ]
    assert any("income >= 500" in sentence for sentence in differences)
    words = ["compare", str(releases[0]), str(other), "--table", "by_sex"]
    assert "income >= 500" in CliRunner().invoke(app, words).stdout


def test_changed_files_are_refused(releases: tuple[Path, Path], tmp_path: Path) -> None:
    changed = tmp_path / "changed"
    shutil.copytree(releases[1], changed)
    (changed / "by_sex.parquet").write_bytes(b"PAR1")
    with pytest.raises(VerificationError) as caught:
        dprelease.compare(releases[0], changed, table="by_sex")
    assert caught.value.code == "DP-VERIFY-004"


def test_compare_command(releases: tuple[Path, Path], tmp_path: Path) -> None:
    words = ["compare", *map(str, releases), "--table", "by_sex"]
    rows = json.loads(CliRunner().invoke(app, [*words, "--json"]).stdout)
    expected = dprelease.compare(*releases, table="by_sex")
    assert len(rows) == len(expected)
    assert CliRunner().invoke(app, [*words, "--output", str(tmp_path / "c.csv")]).exit_code == 0
    assert pd.read_csv(tmp_path / "c.csv")["change"].tolist() == expected["change"].tolist()
    cells = [*words[:2], words[1], "--table", "by_sex", "--old-cells", "sex=f"]
    text = CliRunner().invoke(app, [*cells, "--new-cells", "sex=m"]).stdout
    assert "95 %" in text
    assert CliRunner().invoke(app, [*words, "--old-cells", "sex"]).exit_code == 2


TABLES = """\
table: people
source: people.csv
columns:
  sex: {type: category, values: [f, m], label: Sex}
  kind: {type: category, values: [a, b, c], fill: c, others: c}
  code: {type: integer, lower: 1, upper: 2, labels: {1: male, 2: female}}
  region: {type: category, values: [north, south]}
  county: {type: category, within: region, values: {north: [n1, n2], south: [s1]}}
  income: {type: integer, lower: 0, upper: 1000, missing: ["-9"]}
  extra: {type: integer, lower: 0, upper: 1000, expression: income + 1}
  size: {type: category, values: [small, big], expression: "if(income < 500, 'small', 'big')"}
"""
QUERIES = """\
title: People
tables: [people.yaml]
budget: {epsilon: 50}
queries:
  sexes: {from: people, where: "size = 'small'", group_by: [sex],
    columns: {n: {count: "*"}, extra: {sum: extra}}}
  kinds: {from: people, group_by: [kind], columns: {n: {count: "*"}}}
  codes: {from: people, group_by: [code], columns: {n: {count: "*"}}}
  sizes: {from: people, group_by: [size], columns: {n: {count: "*", suppress_below: 1}}}
  areas: {from: people, hierarchy: [region, county], consistent: true,
    columns: {n: {count: "*"}}}
output: out
"""


@pytest.fixture(scope="module")
def declared_releases(tmp_path_factory: pytest.TempPathFactory) -> Any:
    """Return a function that publishes a release with some texts replaced in its declarations."""
    folder, known = tmp_path_factory.mktemp("declared"), dict[Any, Path]()
    frame = people(1).assign(code=1, region="north", county="n1")
    frame.drop(columns="id").to_csv(folder / "people.csv", index=False)

    def release(*changes: tuple[str, str]) -> Path:
        if changes not in known:
            schema, queries = TABLES, QUERIES
            for old, new in changes:
                assert (old in schema) != (old in queries)
                schema, queries = schema.replace(old, new), queries.replace(old, new)
            (folder / "people.yaml").write_text(schema)
            (folder / "release.yaml").write_text(queries)
            known[changes] = dprelease.read_release(folder / "release.yaml").run(
                output=folder / f"out{len(known)}"
            )
        return known[changes]

    return release


REFUSED = {
    "another expression": ("sexes", "expression: income + 1", "expression: income + 2"),
    "a key with another expression": ("sizes", "income < 500", "income < 400"),
    "another target of missing values": ("kinds", "fill: c", "fill: a"),
    "another target of other values": ("kinds", "others: c", "others: a"),
    "a key of another type": (
        "codes",
        "{type: integer, lower: 1, upper: 2, labels: {1: male, 2: female}}",
        '{type: category, values: ["1", "2"]}',
    ),
    "areas with other parts": (
        "areas_region", "{north: [n1, n2], south: [s1]}", "{north: [n1], south: [s1, n2]}",
    ),
    "another unit": ("sexes", "expression: income + 1", "unit: EUR, expression: income + 1"),
}  # fmt: skip
LISTED = {
    "another condition": ("sexes", "size = 'small'", "size = 'big'", "size = 'big'"),
    "a condition on other values": ("sexes", "income < 500", "income < 400", "reads 'size'"),
    "other missing codes": ("sexes", '"-9"', '"-8"', "values of 'income' are declared as missing"),
    "other values of a key": ("kinds", "[a, b, c]", "[a, b, c, d]", "only the new table has 'd'"),
    "other labels": ("codes", "1: male, 2: female", "1: female, 2: male", "'1' is 'male'"),
    "other suppression": ("sizes", "below: 1", "below: 2", "rounded, coded or left empty"),
    "other parts of all areas": (
        "areas_region", "{north: [n1, n2], south: [s1]}", "{north: [n1, n2, n3], south: [s1]}",
        "only the new table has 'n3'",
    ),
    "rows with another key": (
        "areas_region", "county], consistent: true", "county], marginals: [[], [sex]], "
        "consistent: true", "and of county, sex in the new table",
    ),
}  # fmt: skip


@pytest.mark.parametrize("what", REFUSED)
def test_incomparable_declarations_are_refused(declared_releases: Any, what: str) -> None:
    table, *change = REFUSED[what]
    with pytest.raises(QueryError) as caught:
        dprelease.compare(declared_releases(), declared_releases(tuple(change)), table=table)
    assert caught.value.code == "DP-COMPARE-002"


@pytest.mark.parametrize("what", LISTED)
def test_other_rows_and_labels_are_listed(declared_releases: Any, what: str) -> None:
    table, *change, sentence = LISTED[what]
    found = dprelease.compare(declared_releases(), declared_releases(tuple(change)), table=table)
    assert any(sentence in one for one in found.attrs["dprelease"]["differences"]), found.attrs


def test_equal_declarations_have_no_differences(declared_releases: Any) -> None:
    again = declared_releases(("title: People", "title: People again"), ("label: Sex", "label: S"))
    for table in ("sexes", "kinds", "codes", "sizes", "estimates/areas_county", "areas_county"):
        found = dprelease.compare(declared_releases(), again, table=table)
        assert found.attrs["dprelease"]["differences"] == []
        assert found.attrs["dprelease"]["table"].rpartition("/")[2] == table.rpartition("/")[2]


def test_limits_of_different_groups_are_refused(
    releases: tuple[Path, Path], tmp_path: Path
) -> None:
    """The finest cells of a family decide which rows are left out."""
    folder = Path(shutil.copytree(releases[1].parent, tmp_path / "declared"))
    declared = (folder / "release2.yaml").read_text()

    def published(margins: str) -> Path:
        text = declared.replace("[[], [sex], [sex, kind]]", margins)
        assert text != declared
        (folder / "release2.yaml").write_text(text.replace("out2", f"{len(margins)}"))
        return dprelease.read_release(folder / "release2.yaml").run()

    same_keys = published("[[], [sex], [kind]]")
    assert len(dprelease.compare(releases[0], same_keys, table="by_sex"))
    with pytest.raises(QueryError, match="groups by kind, sex, and by sex"):
        dprelease.compare(releases[0], published("[[], [sex]]"), table="family_sex")


@pytest.mark.share(0.2)
@pytest.mark.parametrize("draw", range(5))
def test_intervals_cover_the_true_change(tmp_path: Path, draw: int) -> None:
    """Also after rounding and coding, and for sums of values of both signs that were raised to 0."""
    columns = (
        'n: {count: "*"}, tens: {count: "*", round_to: 10}, few: {count: "*", bottom_code: 20}, '
        'most: {count: "*", top_code: 30}, gain: {sum: gain}, '
        "least: {sum: gain, non_negative: true}"
    )
    schema = (
        f"table: t\nsource: t{draw}.csv\ncolumns:\n"
        "  cell: {type: integer, lower: 1, upper: 400}\n"
        "  gain: {type: integer, lower: -20, upper: 10}\n"
    )
    rng, exact, folders = np.random.default_rng(draw), [], []
    for side in ("old", "new"):
        frame = pd.DataFrame(
            {"cell": rng.integers(1, 401, 9000), "gain": rng.integers(-20, 11, 9000)}
        )
        frame.to_csv(tmp_path / f"t{draw}.csv", index=False)
        (tmp_path / "t.yaml").write_text(schema)
        (tmp_path / "release.yaml").write_text(
            "title: t\ntables: [t.yaml]\nbudget: {epsilon: 3}\noutput: out\n"
            f"queries: {{q: {{from: t, group_by: [cell], columns: {{{columns}}}}}}}\n"
        )
        groups = frame.groupby("cell")["gain"]
        exact.append({"n": groups.size(), "gain": groups.sum()})
        declared = read_declaration(tmp_path / "release.yaml")
        folders.append(run(declared, output=tmp_path / side, bits=Keyed(f"{draw} {side}")))
    changes = {name: exact[1][name] - exact[0][name] for name in ("n", "gain")}
    found = dprelease.compare(*folders).set_index(["column", "cell"])
    for name in ("n", "tens", "few", "most", "gain", "least"):
        rows = found.loc[name]
        true = changes["gain" if name in ("gain", "least") else "n"].reindex(rows.index)
        missed = (true < rows["change_lower"]) | (true > rows["change_upper"])
        assert missed.mean() < 0.05 + 4 * (0.05 * 0.95 / 400) ** 0.5, name
