"""Federated releases: the cost of rounding, messages, their sum, and what verify finds."""

from __future__ import annotations

import json
import math
import shutil
from collections.abc import Callable
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy import stats
from typer.testing import CliRunner

import dprelease
from dprelease import cli
from dprelease.documents.encoding import NAME, canonical
from dprelease.errors import BudgetError
from dprelease.exact.results.true_table import ExactTable
from dprelease.mechanisms import registry
from dprelease.mechanisms.gaussian import Gaussian
from dprelease.mechanisms.symmetric_alpha_stable import SymmetricAlphaStable
from dprelease.noise.noised_vectors import noised_messages
from dprelease.numerics import stable
from dprelease.numerics.lattice import LIMIT, exact_draw, sample
from dprelease.planning.federated_plan import prepare_federated
from dprelease.privacy.losses.stable import largest_loss, log_slope_bound, rounding_exponent
from dprelease.release.run_options import with_party
from dprelease.release.runs.pipeline import run
from dprelease.schema.load import Declaration, read_declaration
from dprelease.verification.verify import Report, verify
from tests.manifest_files import with_digest
from tests.mechanisms.laws import law_of
from tests.replay import Keyed, Replay

ERROR_RATE = 1e-9
SCHEMA = """\
table: people
source: people.csv
columns:
  city: {type: category, values: [Bern, Oslo], fill: drop, others: drop}
  pay: {type: integer, lower: 0, upper: 1000}
"""
RELEASE = """\
title: People of all registers
tables: [people.yaml]
federated: {parties: 4, honest: 3}
budget: {epsilon: 1}
queries:
  by_city:
    from: people
    group_by: [city]
    columns:
      persons: {count: "*"}
      pay: {sum: pay, mechanism: {name: symmetric_alpha_stable, alpha: 1.8}}
output: out/share
"""


def write(folder: Path, party: int, release: str = RELEASE) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    rows = [f"{('Bern', 'Oslo')[i % 2]},{i % 900}\n" for i in range(500 * (party + 1))]
    (folder / "people.csv").write_text("city,pay\n" + "".join(rows))
    (folder / "people.yaml").write_text(SCHEMA)
    (folder / "release.yaml").write_text(release)
    return folder / "release.yaml"


@pytest.fixture(scope="module")
def folders(tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    base = tmp_path_factory.mktemp("parties")
    paths = (write(base / str(party), party) for party in range(4))
    return [
        run(read_party(path, party), bits=Keyed(str(party))) for party, path in enumerate(paths, 1)
    ]


def read_party(path: Path, party: int = 1) -> Declaration:
    return with_party(read_declaration(path), party)


def finding_codes(report: Report) -> set[str]:
    return {finding.code for finding in report.findings}


@pytest.mark.parametrize("alpha", [1.0, 1.3, 1.7, 1.95, 1.999])
def test_log_slope_bound_holds_and_is_tight(alpha: float) -> None:
    y = np.linspace(0.0, 60.0, 120_001)
    slope = float(np.max(np.abs(np.gradient(stable.log_pdf(alpha, y), y))))
    assert slope <= log_slope_bound(alpha) < slope * 1.01
    if alpha == 1.0:
        assert log_slope_bound(alpha) >= 1.0  # 2x / (1 + x^2) at 1


def rounded_probabilities(alpha: float, scale: float, reach: int) -> np.ndarray:
    """Return P(round(Y) = k) for |k| <= reach, each with relative precision."""
    k = np.arange(reach + 1, dtype=np.float64)
    upper = stable.sf(alpha, np.maximum(k - 0.5, 0.0) / scale)
    lower = stable.sf(alpha, (k + 0.5) / scale)
    near = stable.pdf(alpha, k / scale) / scale
    right = np.where(k > 40 * scale + 50, near, upper - lower)
    right[0] = 1 - 2 * lower[0]
    return np.concatenate((right[:0:-1], right))


def convolved(one: np.ndarray, parties: int) -> np.ndarray:
    """Return the probabilities of a sum of so many, with the reach of those of one."""
    if parties == 1:
        return one
    half = convolved(one, parties // 2)
    total = np.convolve(half, half, mode="same")
    return np.convolve(total, one, mode="same") if parties % 2 else total


def middle_of_sum(one: np.ndarray, parties: int, near: int) -> np.ndarray:
    """Return the probabilities of a sum, from -near to near."""
    few, more = convolved(one, parties // 2), convolved(one, parties - parties // 2)
    return np.convolve(np.pad(more, near), few, mode="valid")


@pytest.mark.share(0.4)
@pytest.mark.parametrize("alpha", [1.0, 1.5, 1.9])
@pytest.mark.parametrize(("parties", "share"), [(2, 4.0), (3, 2.0), (8, 6.0)])
def test_distribution_of_sum_is_within_claimed_distance(
    alpha: float, parties: int, share: float
) -> None:
    """Exact convolution of rounded shares against the rounded sum, value by value, both ways."""
    reach, seen, shifts = 12_000, 120, (1, 5, 20)
    one = rounded_probabilities(alpha, share, reach)
    near = seen + max(shifts)
    total = middle_of_sum(one, parties, near)
    scale = share * parties ** (1 / alpha)
    wanted = rounded_probabilities(alpha, scale, reach)[reach - near : reach + near + 1]
    middle = slice(near - seen, near + seen + 1)
    ratio = np.abs(np.log(total[middle] / wanted[middle]))
    bound = rounding_exponent(alpha, share, parties)
    assert float(ratio.max()) <= bound
    # So every shift costs at most what is claimed, and a claim without rounding may be too small.
    for shift in shifts:
        moved = slice(middle.start + shift, middle.stop + shift)
        loss = np.abs(np.log(total[middle] / total[moved]))
        assert float(loss.max()) <= largest_loss(alpha, shift / scale) + 2 * bound


def test_delta_without_rounding_cost_is_refuted() -> None:
    """On a coarse grid the delta without rounding is too small."""
    alpha, share, parties, reach = 1.95, 0.1, 16, 1500
    total = convolved(rounded_probabilities(alpha, share, reach), parties)
    gain = float(np.sum(np.maximum(0.0, total[1:] - math.e * total[:-1])))
    (loss,) = SymmetricAlphaStable(share * parties ** (1 / alpha), alpha).losses(1)
    assert gain > loss.delta(1.0) + 0.05


def test_distributions_that_parties_can_share() -> None:
    law = SymmetricAlphaStable(10.0, 1.5)
    share = law.federated(8)
    assert share.scale >= 10 * 8 ** (-1 / 1.5)
    assert share.scale == pytest.approx(10 * 8 ** (-1 / 1.5), rel=1e-15)
    assert Gaussian(10.0).federated(4).scale == pytest.approx(5.0)
    assert Gaussian(10.0).federated(4).scale >= 5.0
    for name in registry.names():
        if name in ("gaussian", "symmetric_alpha_stable"):
            with pytest.raises(ValueError, match="at least one"):
                law_of(name, 3.0).federated(0)
            continue
        with pytest.raises(BudgetError, match="DP-FED-001"):
            law_of(name, 3.0, shift=1).federated(2)


@pytest.mark.parametrize("alpha", [1.0, 1.8])
def test_sums_of_shares_follow_the_closed_form(alpha: float) -> None:
    """Rounded shares on a fine grid against the distribution of the sum; other scales are rejected."""
    share, parties, times = SymmetricAlphaStable(3000.0, alpha), 5, 40_000
    sums = sample(share, parties * times, Keyed("shares"), modular=True)
    sums = sums.view(np.uint64).reshape(times, parties).sum(axis=1, dtype=np.uint64).view(np.int64)

    def p_value(scale: float) -> float:
        u = np.linspace(0.02, 0.48, 24)
        cuts = scale * stable.quantile(alpha, u)
        edges = np.concatenate((-cuts, cuts[::-1]))
        below = np.concatenate((u, 1 - u[::-1]))
        masses = np.diff(np.concatenate(([0.0], below, [1.0])))
        counts = np.bincount(np.searchsorted(edges, sums), minlength=len(masses))
        return float(stats.chisquare(counts, masses * times).pvalue)

    scale = 3000.0 * parties ** (1 / alpha)
    assert p_value(scale) > ERROR_RATE
    assert p_value(scale * 1.1) < ERROR_RATE
    assert p_value(scale / 1.1) < ERROR_RATE


def test_modular_draws_do_not_saturate() -> None:
    """A draw beyond 64 bits is the true integer modulo 2^64, not the end of the range."""
    law = SymmetricAlphaStable(2.0**40, 1.0)
    cell = 1  # the word that proposes a cell of the block that U lies in
    saturated = exact_draw(law, 0, Replay([cell, 12345], fill=987654321))
    modular = exact_draw(law, 0, Replay([cell, 12345], fill=987654321), modular=True)
    assert saturated == 2**62
    # U is about 12345 * 2^-128, so the draw is scale / (pi U), a number of some 150 bits.
    assert -(2**63) <= modular < 2**63
    assert modular != saturated
    near = [exact_draw(law, 5 << 60, Replay([cell]), modular=m) for m in (True, False)]
    assert near[0] == near[1]


def test_plan_keeps_budget_with_honest_parties(tmp_path: Path) -> None:
    plan = prepare_federated(read_declaration(write(tmp_path, 0)))
    every, least, one = plan.trusts
    assert (every.honest, least.honest, one.honest) == (4, 3, 1)
    assert 0.997 < least.guarantee.epsilon <= 1.0
    assert every.guarantee.epsilon < least.guarantee.epsilon < one.guarantee.epsilon
    assert one.rounding == 0.0 < least.rounding < 1e-3
    for share in plan.shares:
        alpha = share.mechanism.alpha
        total = share.mechanism.scale / share.refined * 3 ** (1 / alpha)
        planned = next(c for c in plan.columns if c.measurement.name == share.measurement.name)
        assert total == pytest.approx(planned.mechanism.scale, rel=1e-12)
    assert plan.guarantee == least.guarantee


@pytest.mark.audit  # of the budget of all other tests here, verification is tested each time
@pytest.mark.parametrize("budget", ["{epsilon: 0.1}", "{epsilon: 1, delta: 1e-6}"])
def test_federated_release_with_other_budgets(tmp_path: Path, budget: str) -> None:
    path = write(tmp_path, 0, RELEASE.replace("{epsilon: 1}", budget))
    report = verify(run(read_party(path), bits=Keyed("x")))
    assert report.ok, [str(finding) for finding in report.findings]


def test_sum_of_all_parties(folders: list[Path]) -> None:
    for folder in folders:
        report = verify(folder)
        assert report.ok, [str(finding) for finding in report.findings]
        held = json.loads((folder / NAME).read_text())
        assert "NOT FOR PUBLICATION" in held["trust_words"][0]
    found = dprelease.federated_sum(folders)
    assert found.columns.tolist() == ["city", "persons", "persons_moe", "pay", "pay_moe"]
    assert found["city"].tolist() == ["Bern", "Oslo"]
    pays = [
        sum(i % 900 for n in (500, 1000, 1500, 2000) for i in range(n) if i % 2 == j)
        for j in (0, 1)
    ]
    held = json.loads((folders[0] / NAME).read_text())["measurements"]
    for name, true, measurement in zip(("persons", "pay"), ([2500, 2500], pays), held, strict=True):
        unit = Fraction(measurement["step"]) / measurement["refined"]
        noise = [Fraction(x) - t for x, t in zip(found[name], true, strict=True)]
        steps = [round(x / unit) for x in noise]
        assert steps == drawn_noise(folders, len(true))[name]
        assert all(steps)
    assert found.attrs["dprelease"]["trust"][0]["honest"] == 4


def drawn_noise(folders: list[Path], cells: int) -> dict[str, list[int]]:
    """Return the noise of all parties together, in their own steps, from the same streams."""
    shares = prepare_federated(read_declaration(folders[0].parents[1] / "release.yaml")).shares
    found = {share.measurement.name: [0] * cells for share in shares}
    for party in range(1, len(folders) + 1):
        bits = Keyed(str(party))
        for share in shares:
            noise = sample(share.mechanism, cells, bits, modular=True).tolist()
            before = found[share.measurement.name]
            found[share.measurement.name] = [x + y for x, y in zip(before, noise, strict=True)]
    return found


def test_true_values_are_clamped_before_noise(tmp_path: Path) -> None:
    """Each value is clamped such that the sum of all parties fits modulo 2^64."""
    shares = prepare_federated(read_declaration(write(tmp_path, 0))).shares
    for parties in (2, 1000):
        true = np.array([LIMIT, -LIMIT, 12, 0])
        exact = ExactTable("q", len(true), {share.measurement.name: true for share in shares})
        found, stream = noised_messages(exact, shares, parties, Keyed("one")), Keyed("one")
        for share in shares:
            noise = sample(share.mechanism, len(true), stream, modular=True).view(np.uint64)
            sent = found[share.measurement.name].view(np.uint64) - noise
            reach = share.clamping_bound(parties) * share.refined
            assert sent.view(np.int64).tolist() == [reach, -reach, 12 * share.refined, 0]
            assert reach * parties <= LIMIT


def test_messages_of_different_releases_are_refused(folders: list[Path], tmp_path: Path) -> None:
    other = write(tmp_path / "other", 0, RELEASE.replace("epsilon: 1", "epsilon: 2"))
    stranger = run(read_party(other, 4), bits=Keyed("other"))
    copy = Path(shutil.copytree(folders[0], tmp_path / "copy"))
    for given in (
        folders[:3],
        [*folders[:3], folders[0]],
        [*folders[:3], copy],
        [*folders[:3], stranger],
        [*folders[:3], tmp_path],
        [],
    ):
        with pytest.raises(BudgetError, match="DP-FED-003"):
            dprelease.federated_sum(given)
    with pytest.raises(BudgetError, match="DP-FED-003"):
        dprelease.federated_sum(folders, "nothing")
    (copy / "by_city.parquet").write_bytes(b"")
    with pytest.raises(BudgetError, match="DP-FED-003"):
        dprelease.federated_sum([copy, *folders[1:]])


@pytest.mark.parametrize(
    ("change", "code"),
    [
        (lambda r: r["trust"][1]["guarantee"].update(epsilon="0.5"), "DP-VERIFY-008"),
        (lambda r: r["trust"][1].update(rounding_epsilon=0.0), "DP-VERIFY-008"),
        (lambda r: r.update(honest=4), "DP-VERIFY-002"),
        (lambda r: r.update(parties=5), "DP-VERIFY-002"),
        (lambda r: r["trust_words"].pop(), "DP-VERIFY-002"),
        (lambda r: r["measurements"][0].update(refined=1), "DP-VERIFY-007"),
        (lambda r: r["measurements"][0].update(refined=3), "DP-VERIFY-007"),
        (lambda r: r["measurements"][1]["parameters"].update(alpha="1.7"), "DP-VERIFY-007"),
        (lambda r: r["measurements"][1]["parameters"].update(scale="1.0"), "DP-VERIFY-008"),
        (lambda r: r["measurements"].pop(), "DP-VERIFY-007"),
        (lambda r: r["files"][0].update(rows=3), "DP-VERIFY-006"),
        (lambda r: r["declaration"]["texts"].update({"people.yaml": "x"}), "DP-VERIFY-002"),
    ],
)
def test_forged_manifests_are_found(
    folders: list[Path], tmp_path: Path, change: Callable[[dict[str, Any]], None], code: str
) -> None:
    copy = Path(shutil.copytree(folders[0], tmp_path / "copy"))
    path = copy / NAME
    record = json.loads(path.read_text())
    change(record)
    path.write_bytes(canonical(with_digest(record)))
    assert code in finding_codes(verify(copy))


def test_less_noise_than_claimed_is_found_by_its_cost(folders: list[Path], tmp_path: Path) -> None:
    copy = Path(shutil.copytree(folders[0], tmp_path / "copy"))
    path = copy / NAME
    record = json.loads(path.read_text())
    held = record["measurements"][0]
    share = SymmetricAlphaStable(
        float(held["parameters"]["scale"]) / 2, float(held["parameters"]["alpha"])
    )
    held["parameters"] = dict(share.parameters)
    from dprelease.documents.party_manifest import share_record
    from dprelease.planning.federated_plan import ShareColumn, resolve_federated
    from dprelease.schema.load import declaration_from_texts

    declared = record["declaration"]
    (query,) = resolve_federated(declaration_from_texts(declared["texts"], declared["release"]))
    column = ShareColumn(query, query.measurements[0], share, held["refined"], held["chosen_by"])
    record["measurements"][0] = share_record(column, 4).to_json()
    path.write_bytes(canonical(with_digest(record)))
    assert finding_codes(verify(copy)) == {"DP-VERIFY-008"}


def test_command_line(tmp_path: Path) -> None:
    release = str(write(tmp_path, 0))
    call = CliRunner().invoke
    assert call(cli.app, ["check", release]).exit_code == 0
    told = call(cli.app, ["plan", release]).stdout
    assert "3 of 4" in told
    assert "not for publication" in told
    assert (
        json.loads(call(cli.app, ["plan", release, "--json"]).stdout)["federated"]["parties"] == 4
    )
    assert "dp_source" in call(cli.app, ["run", release, "--dry-run"]).stdout
    assert "DP-FED-004" in call(cli.app, ["run", release]).stderr
    assert call(cli.app, ["run", release, "--party", "5"]).exit_code == 3
    assert call(cli.app, ["run", release, "--party", "4"]).exit_code == 0
    done = call(cli.app, ["verify", str(tmp_path / "out/share")])
    assert (done.exit_code, "if 3 of 4 parties are honest" in done.stdout) == (0, True)


def test_margins_of_the_sum(folders: list[Path]) -> None:
    """The margin of the stable distribution, and half a fine step of every party."""
    held = json.loads((folders[0] / NAME).read_text())["measurements"][1]
    alpha = float(held["parameters"]["alpha"])
    width = float(stable.quantile(alpha, np.array([0.025]))[0]) * float(held["sum_scale"])
    margin = Fraction(held["sum_margin_95"]) * held["refined"]
    assert float(margin) == pytest.approx(width, abs=4.0, rel=1e-6)
