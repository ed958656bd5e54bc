"""Design errors from replicate weights: sensitivity, bias, coverage, releases and refusals."""

from __future__ import annotations

import json
from fractions import Fraction
from itertools import combinations_with_replacement, product
from math import floor
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest

import dprelease
from dprelease.errors import DpReleaseError, Place
from dprelease.exact.duckdb import Engine
from dprelease.mechanisms import registry
from dprelease.mechanisms.base import Mechanism
from dprelease.numerics.lattice import sample
from dprelease.numerics.rounding import plain_text
from dprelease.planning.noise_requests import NoiseRequest
from dprelease.postprocess.derived_values import estimates_of, fractions_of
from dprelease.privacy.unit import Neighbours
from dprelease.query.resolve import Query
from dprelease.schema.aggregate_keywords import DesignErrorSpec
from tests.exact.build import ask, declare, exact
from tests.replay import Keyed

pytestmark = pytest.mark.usefixtures("replayed_noise")

REPLICATES = 20
RELEASES = 20_000
COLUMNS: dict[str, Any] = {
    "k": {"type": "category", "values": ["a", "b"]},
    "x": {"type": "number", "lower": -20, "upper": 100, "step": "0.5", "unit": "EUR"},
    "w": {"type": "number", "lower": 0, "upper": 40, "step": "0.4"},
    "signed": {"type": "integer", "lower": -1, "upper": 5},
    "day": {"type": "date", "lower": "2020-01-01", "upper": "2020-12-31"},
    **{
        f"w{r:02}": {"type": "number", "lower": -10, "upper": 80, "step": "0.1"}
        for r in range(1, REPLICATES + 1)
    },
}
WEIGHTS: dict[str, Any] = {"weight": "w", "replicates": "w01-w20", "scale": "4/20"}
ASKED: dict[str, Any] = {
    "count": {"design_error": WEIGHTS},
    "total": {"design_error": {**WEIGHTS, "of": "x", "max_difference": 20}},
}


def frame(rows: int) -> pd.DataFrame:
    """Return a survey whose replicate weights are the weight, times 0.4 or 1.6."""
    i = np.arange(rows)
    x = np.floor((i * 0.6180339887 % 1) ** 2 * 180) / 2 - 10
    w = np.round(1 + 70 * (i * 0.7548776662 % 1) ** 3) * 0.4
    signs = {r: 2 * (i * 0.5698402910 * r % 1 > 0.5) - 1 for r in range(1, REPLICATES + 1)}
    replicates = {f"w{r:02}": np.round(w * (1 + 0.6 * sign), 1) for r, sign in signs.items()}
    held = pd.DataFrame({"k": np.where(i % 3, "a", "b"), "x": x, "w": w, **replicates})
    held.loc[i % 7 == 3, "x"], held.loc[i % 11 == 5, "w05"] = np.nan, np.nan
    return held


def true_errors(held: pd.DataFrame) -> dict[str, float]:
    """Return the design errors by their definition, from sums of rows without noise."""
    apart = {name: held[name] - held["w"] for name in held if name[1:].isdigit()}
    of_count = [float(one.sum()) for one in apart.values()]
    of_total = [float((one.clip(-20, 20) * held["x"]).sum()) for one in apart.values()]
    return {
        name: float(np.sqrt(0.2 * np.sum(np.square(sums))))
        for name, sums in (("count", of_count), ("total", of_total))
    }


def laws_of(query: Query, name: str, shifts: float) -> dict[str, Mechanism]:
    """Return noise of this many sensitivities for every part."""
    kind = registry.get(name)
    return {
        one.name: kind.design(shifts * one.sensitivity.largest_shift, one.sensitivity)
        for one in query.measurements
    }


def noisy(query: Query, held: pd.DataFrame, laws: dict[str, Mechanism], key: str) -> dict[str, Any]:
    with Engine.open(query.declared, held) as engine:
        found = engine.run(query)
    bits = Keyed(key)
    return {
        part: sample(law.noise_distribution, RELEASES, bits) + found.vector(part)[0]
        for part, law in laws.items()
    }


def test_design_errors_without_noise_follow_the_definition() -> None:
    held = frame(700)
    query = ask(declare(COLUMNS), ASKED)
    vectors, wanted = exact(query, held), true_errors(held)
    for column in query.columns:
        assert fractions_of(column, vectors)[0] == pytest.approx(wanted[column.name], rel=1e-9)
    assert [column.unit for column in query.columns] == ["", "EUR"]
    assert sum(one.weight for one in query.measurements[:REPLICATES]) == 1


SMALL: dict[str, Any] = {
    "w": {"type": "integer", "lower": 0, "upper": 2, "step": 2},
    "w1": {"type": "integer", "lower": -1, "upper": 3},
    "w2": {"type": "integer", "lower": 0, "upper": 4, "fill": 3},
    "x": {"type": "integer", "lower": -2, "upper": 3},
}
VALUES: dict[str, list[int | None]] = {
    "w": [-9, 2, None], "w1": [-9, 0, 1, 9, None], "w2": [0, 4, None], "x": [-9, 0, 2, 9, None]
}  # fmt: skip
MEANT = {"w": {-9: 0}, "w1": {-9: -1, 9: 3}, "w2": {None: 3}, "x": {-9: -2, 9: 3}}


@pytest.mark.parametrize("neighbours", list(Neighbours))
@pytest.mark.parametrize("limit", [None, 1])
@pytest.mark.parametrize("of", [None, "x"])
def test_sensitivity_of_design_errors_is_exact(
    of: str | None, limit: int | None, neighbours: Neighbours
) -> None:
    """For all pairs of tables that differ in up to two rows of one person: each part, and both."""
    names = ["w", "w1", "w2", *([of] if of else [])]
    rows = list(product(*(VALUES[name] for name in names)))
    cells = [str(i) for i in range(len(rows))]
    table = pa.table({"k": cells, **dict(zip(names, zip(*rows, strict=True), strict=True))})
    spec = {"weight": "w", "replicates": "w1-w2", "scale": 1, "of": of, "max_difference": limit}
    spec = {key: value for key, value in spec.items() if value is not None}
    keyed = declare({**SMALL, "k": {"type": "category", "values": cells}})
    found = np.stack(
        list(exact(ask(keyed, {"e": {"design_error": spec}}, ["k"]), table).values()), axis=1
    )
    for row, added in zip(rows, found.tolist(), strict=True):
        meant = {n: MEANT[n].get(v, v) for n, v in zip(names, row, strict=True)}
        for name, sum_of_row in zip(("w1", "w2"), added, strict=True):
            read = [meant[one] for one in ("w", name, *([of] if of else []))]
            apart = 0 if None in read else read[1] - read[0]
            apart = apart if limit is None else min(max(apart, -limit), limit)
            assert sum_of_row == (0 if None in read else apart * (read[2] if of else 1))
    unit = {"privacy_unit": {"id": "id", "max_groups": 1, "max_rows_per_group": 2}}
    ids = {"id": {"type": "integer"}}
    query = ask(
        declare({**SMALL, **ids}, **unit), {"e": {"design_error": spec}}, neighbours=neighbours
    )
    single = {tuple(one) for one in found.tolist()} | {(0, 0)}
    sums = {tuple(np.add(a, b).tolist()) for a, b in combinations_with_replacement(single, 2)}
    others = {(0, 0)} if neighbours is Neighbours.ADD_REMOVE else sums
    moves = np.array([np.subtract(a, b) for a in sums for b in others])
    claims = [one.sensitivity for one in query.measurements]
    assert np.abs(moves).max(axis=0).tolist() == [claim.largest_shift for claim in claims]
    assert (moves**2).sum(axis=1).max() <= sum(claim.l2_squared for claim in claims)


@pytest.mark.parametrize("steps", [("0.1", "0.4"), ("0.15", "0.1"), (2, 3), (4096, 1)])
def test_weights_with_other_steps_are_subtracted_exactly(steps: Any) -> None:
    fine = [Fraction(str(one)) for one in steps]
    columns = {
        name: {
            "type": "number",
            "lower": plain_text(low * step),
            "upper": plain_text(2**40 * step),
            "step": plain_text(step),
        }
        for name, low, step in (("w1", -(2**40), fine[0]), ("w", 0, fine[1]))
    }
    columns["x"] = {"type": "integer", "lower": -(2**20), "upper": 2**20}
    cells = [*product((-(2**40), -3, 2**39 + 1), (0, 5, 2**40), (-(2**20), 7, 2**20))]
    columns["cell"] = {"type": "integer", "lower": 0, "upper": len(cells) - 1}
    spec = {"weight": "w", "replicates": ["w1"], "scale": 1, "of": "x"}
    query = ask(declare(columns), {"e": {"design_error": spec}}, ["cell"])
    (one,) = query.measurements
    held = pa.table(
        {
            "w1": [float(a * fine[0]) for a, _, _ in cells],
            "w": [float(b * fine[1]) for _, b, _ in cells],
            "x": [x for _, _, x in cells],
            "cell": range(len(cells)),
        }
    )
    wanted = [
        floor((a * fine[0] - b * fine[1]) * x / one.step + Fraction(1, 2)) for a, b, x in cells
    ]
    assert exact(query, held)[one.name].tolist() == wanted


def test_large_weights_with_a_small_difference_fit() -> None:
    """The terms of the difference have more than 64 bits, and the difference has 20."""
    first = 2**46 * 1_001_000  # a float has all of its digits
    bounds = {"type": "number", "lower": first, "upper": first + 1_001_000}
    columns = {"w1": {**bounds, "step": 1001}, "w": {**bounds, "step": 1000}}
    spec = {"weight": "w", "replicates": ["w1"], "scale": 1}
    query = ask(declare(columns), {"e": {"design_error": spec}})
    held = pa.table({"w1": [2.0**80], "w": [0.0]})
    assert exact(query, held)[query.measurements[0].name].tolist() == [1_001_000]


@pytest.mark.each
@pytest.mark.parametrize("shifts", [0.5, 10.0, 40.0])
@pytest.mark.parametrize("name", ["discrete_gaussian", "laplace"])
def test_design_variances_are_unbiased_and_covered(name: str, shifts: float) -> None:
    """A mean differs by 6.5 standard errors, or a coverage of 95 % is below 94 %, by a chance of
    less than 1e-10. Without the subtraction, or with the variance of noise a tenth smaller, both
    are rejected wherever noise matters.
    """
    held = frame(1500)
    query = ask(declare(COLUMNS), ASKED)
    laws, wanted = laws_of(query, name, shifts), true_errors(held)
    vectors = noisy(query, held, laws, f"design {name} {shifts}")
    claim = query.measurements[0].sensitivity
    smaller = {part: type(law).design(law.scale * 0.9, claim) for part, law in laws.items()}
    for column in query.columns:
        true = wanted[column.name]
        found = estimates_of(column, vectors, laws, 0.95)
        variances = squares(column, vectors, laws)
        assert abs(deviation(variances, true**2)) < 6.5
        shown = ~np.isnan(found.values)
        assert found.values[shown] ** 2 == pytest.approx(variances[shown], rel=1e-6)
        assert (shown == (variances > 0)).all()
        covered = (found.lower <= true) & (true <= found.upper)
        assert covered.mean() >= 0.94
        published = ~found.unsure
        assert (found.unsure == (found.lower == 0)).all()
        assert (found.lower <= found.values)[published].all()
        assert (found.values <= found.upper)[published].all()
        assert np.isfinite(found.upper).all()
        if shifts >= 10:
            assert abs(deviation(squares(column, vectors, {}), true**2)) > 6.5
            narrow = estimates_of(column, vectors, smaller, 0.95)
            assert ((narrow.lower <= true) & (true <= narrow.upper)).mean() < 0.94
        if name == "discrete_gaussian":  # no wider than needed
            assert covered.mean() <= 0.965


def test_only_symmetric_noise_with_a_variance_may_be_subtracted() -> None:
    """Intervals under asymmetric noise would cover less for differences below 0."""
    (one, *_) = ask(declare(COLUMNS), ASKED).measurements
    kinds = map(registry.get, registry.names())
    names = {kind.name for kind in kinds if NoiseRequest(one, Place()).may_use(kind)}
    assert not names & {"asymmetric_laplace", "truncated_laplace", "symmetric_alpha_stable"}
    assert {"discrete_gaussian", "discrete_laplace", "gaussian", "laplace"} <= names


def squares(column: Any, vectors: dict[str, Any], laws: dict[str, Mechanism]) -> np.ndarray:
    """Return variances (n,) by their definition; without noise to subtract, if it has no entry."""
    total = np.zeros(RELEASES)
    for part in column.parts:
        law = laws.get(part.name)
        variance, _ = (0, 0) if law is None else law.variance_bound_and_mean or (0, 0)
        total += (vectors[part.name] ** 2 - float(variance)) * float(part.step) ** 2
    return total * float(column.scale)


def deviation(values: np.ndarray, wanted: float) -> float:
    """Return how far a mean lies from its expectation, in standard errors."""
    return float((values.mean() - wanted) / (values.std() / np.sqrt(len(values))))


@pytest.mark.each
@pytest.mark.parametrize("confidence", [0.5, 0.95, 0.99, 0.9999])
@pytest.mark.parametrize("replicates", [1, 2, 5])
@pytest.mark.parametrize("name", ["discrete_gaussian", "laplace"])
def test_few_replicates_and_other_confidences_are_covered(
    name: str, replicates: int, confidence: float
) -> None:
    """From no design variance to one far above the noise; one part may have all of it.

    Differences below 0, or of both signs, are covered as often.
    """
    names = [f"w{r:02}" for r in range(1, replicates + 1)]
    spec = {"weight": "w", "replicates": names, "scale": 1}
    query = ask(declare(COLUMNS), {"e": {"design_error": spec}})
    laws, bits = laws_of(query, name, 2.0), Keyed(f"few {name} {replicates} {confidence}")
    noise = {part: sample(law.noise_distribution, RELEASES, bits) for part, law in laws.items()}
    slack = 6 * np.sqrt(confidence * (1 - confidence) / RELEASES)
    shapes = [1, 1, 1, 1, 1], [1, 0, 0, 0, 0], [-1, -1, -1, -1, -1], [-1, 1, 0, 0, 1]
    for size, shape in product((0, 300, 3000, 30_000), shapes):
        sums = [size * one for one in shape[:replicates]]
        vectors = {part: drawn + by for (part, drawn), by in zip(noise.items(), sums, strict=True)}
        found = estimates_of(query.columns[0], vectors, laws, confidence)
        true = 0.1 * float(np.sqrt(np.sum(np.square(sums))))
        covered = (found.lower <= true + 1e-9) & (true <= found.upper + 1e-9)
        assert covered.mean() >= confidence - slack
        if size == 0:
            assert found.unsure.mean() >= confidence - slack


@pytest.mark.parametrize("budget", [{"rho": 100}, {"epsilon": 90}])
def test_design_errors_in_releases_and_frames(tmp_path: Path, budget: dict[str, Any]) -> None:
    """The noise of a release is known to `verify`, and a count beside it has half of the budget."""
    held = frame(5000)
    held.to_parquet(tmp_path / "survey.parquet")
    schema = {"table": "survey", "source": "survey.parquet", "columns": COLUMNS}
    columns = {"people": {"weighted_count": "w"}, **ASKED}
    queries = {"q": {"from": "survey", "columns": columns}}
    release = {"title": "t", "tables": ["survey.yaml"], "budget": budget, "output": "out"}
    (tmp_path / "survey.yaml").write_text(json.dumps(schema, default=str))
    (tmp_path / "r.yaml").write_text(json.dumps({**release, "queries": queries}))
    published = dprelease.read_release(tmp_path / "r.yaml").run()
    assert dprelease.verify(published).ok
    record = json.loads((published / "manifest.json").read_text())
    assert len(record["measurements"]) == 1 + 2 * REPLICATES
    row = pd.read_parquet(published / "q.parquet").iloc[0]
    for name, wanted in true_errors(held).items():
        assert row[f"{name}_lower"] <= 1.5 * wanted
        assert row[f"{name}_upper"] >= 0.5 * wanted
        if "rho" in budget and name == "total":  # noise grows with the root of the number of parts
            assert row[name] == pytest.approx(wanted, rel=0.2)
    session = dprelease.Session({k: v for k, v in schema.items() if k != "source"}, rho=100)
    held.dp.use(session)
    answer = held.dp.design_error(
        "w", "w01-w20", "4/20", column="x", max_difference=20, by="k", rho=90
    )
    errors = [true_errors(part)["total"] for _, part in held.groupby("k")]
    assert answer["value"].to_numpy() == pytest.approx(errors, rel=0.2)
    assert list(answer.columns) == ["k", "value", "lower", "upper", "quality"]


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        ("w1-w3", ["w1", "w2", "w3"]),
        ("PWGTP9-PWGTP11", ["PWGTP9", "PWGTP10", "PWGTP11"]),
        ("w08 - w10", ["w08", "w09", "w10"]),
        ("w2_1-w2_2", ["w2_1", "w2_2"]),
    ],
)
def test_numbered_replicates_are_expanded(text: str, wanted: list[str]) -> None:
    spec = DesignErrorSpec.model_validate({"weight": "w", "replicates": text, "scale": "4/80"})
    assert list(spec.replicates) == wanted
    assert spec.scale == Fraction(1, 20)


@pytest.mark.parametrize(
    ("changes", "code"),
    [
        ({"replicates": "w01"}, "DP-DECL-003"),
        ({"replicates": "w01-v20"}, "DP-DECL-003"),
        ({"replicates": "w20-w01"}, "DP-DECL"),
        ({"replicates": "w1-w9999"}, "DP-DECL"),
        ({"replicates": []}, "DP-DECL"),
        ({"replicates": ["w01", "w02", "w01"]}, "DP-QUERY-024"),
        ({"replicates": ["w01", "w"]}, "DP-QUERY-024"),
        ({"replicates": ["day"]}, "DP-QUERY-004"),
        ({"replicates": "w01-w21"}, "DP-QUERY-001"),
        ({"weight": "signed"}, "DP-QUERY-023"),
        ({"of": "k"}, "DP-QUERY-004"),
        ({"scale": 0}, "DP-RELEASE-004"),
        ({"scale": "1/0"}, "DP-DECL-004"),
        ({"max_difference": "0.05"}, "DP-QUERY-010"),
        ({"max_difference": -1}, "DP-RELEASE-004"),
    ],
    ids=str,
)
def test_wrong_design_errors_are_refused(changes: dict[str, Any], code: str) -> None:
    with pytest.raises(DpReleaseError) as refused:
        ask(declare(COLUMNS), {"c": {"design_error": {**WEIGHTS, **changes}}})
    assert code in str(refused.value)
