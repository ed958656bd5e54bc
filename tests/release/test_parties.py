"""Messages of parties and their sum: keys, types, numbers, trust, and noise to the last bit."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from dataclasses import replace
from fractions import Fraction
from pathlib import Path
from typing import Any

import mpmath
import numpy as np
import pyarrow as pa
import pytest
from scipy import stats

import dprelease
from dprelease.documents.encoding import sha256, sha256_of
from dprelease.errors import BudgetError
from dprelease.exact.results.true_table import ExactTable
from dprelease.mechanisms.symmetric_alpha_stable import SymmetricAlphaStable
from dprelease.noise.noised_vectors import noised_messages
from dprelease.numerics import stable
from dprelease.numerics.lattice import LIMIT, sample
from dprelease.planning.calibration import make_accounting_input
from dprelease.planning.federated_plan import FederatedPlan, ShareColumn, prepare_federated
from dprelease.planning.guarantees import guarantee_of
from dprelease.privacy.losses.stable import largest_loss, rounding_exponent
from dprelease.schema.load import read_declaration
from dprelease.verification.verify import verify
from tests.covering import thinned
from tests.replay import Keyed, Replay
from tests.rewriting import rewrite
from tests.verification.forging import opinion, publish, read, seal

ERROR_RATE = 1e-9
PARTIES = 3


@pytest.fixture(autouse=True)
def single_accounting(monkeypatch: pytest.MonkeyPatch) -> None:
    """Compute no privacy cost twice."""
    monkeypatch.setattr("dprelease.verification.second_opinion.second_opinion", opinion)


@pytest.fixture(scope="module")
def folders(tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    base = tmp_path_factory.mktemp("parties")
    return [publish(base / str(party), "party", party) for party in range(1, PARTIES + 1)]


@pytest.fixture
def copies(folders: list[Path], tmp_path: Path) -> list[Path]:
    return [Path(shutil.copytree(f, tmp_path / str(i))) for i, f in enumerate(folders)]


@pytest.fixture(scope="module")
def plan(folders: list[Path]) -> FederatedPlan:
    return prepare_federated(read_declaration(folders[0].parent / "release.yaml"))


def rewrite_table(folder: Path, change: Callable[[pa.Table], pa.Table]) -> None:
    """Change a party's table, and its digest in a manifest that is sealed again."""
    path = folder / "by_city.parquet"
    rewrite(path, change)
    forge(folder, lambda r: r["files"][0].update(sha256=sha256_of(path)))


def forge(folder: Path, change: Callable[[dict[str, Any]], object]) -> None:
    record = read(folder)
    change(record)
    seal(folder, record)


def replace_column(
    name: str, make: Callable[[list[Any]], pa.Array]
) -> Callable[[pa.Table], pa.Table]:
    def change(table: pa.Table) -> pa.Table:
        place = table.column_names.index(name)
        return table.set_column(place, name, make(table.column(name).to_pylist()))

    return change


TABLES: dict[str, Callable[[pa.Table], pa.Table]] = {
    "reordered": lambda t: t.take([1, 0, 2]),
    "one row, which would be added to all": lambda t: t.slice(0, 1),
    "no row": lambda t: t.slice(0, 0),
    "a row too many": lambda t: pa.concat_tables([t, t.slice(0, 1)]),
    "another key": replace_column("city", lambda v: pa.array([*v[:-1], "Paris"])),
    "a key twice": replace_column("city", lambda v: pa.array([v[0], v[0], v[2]])),
    "a key that is missing": replace_column("city", lambda v: pa.array([*v[:-1], None])),
    "keys of another type": replace_column("city", lambda v: pa.array(v, pa.binary())),
    "a message that is missing": replace_column("rows", lambda v: pa.array([*v[:-1], None])),
    "floats": replace_column("rows", lambda v: pa.array(v, pa.float64())),
    "decimals": replace_column("rows", lambda v: pa.array(v, pa.decimal128(20, 0))),
    "32 bits": replace_column("rows", lambda v: pa.array([1, 2, 3], pa.int32())),
    "unsigned": replace_column("rows", lambda v: pa.array([1, 2, 3], pa.uint64())),
    "lists": replace_column("rows", lambda v: pa.array([[x] for x in v])),
    "columns in another order": lambda t: t.select(["city", "pay", "rows"]),
    "a column too few": lambda t: t.drop_columns(["pay"]),
    "a column too many": lambda t: t.append_column("more", t.column("rows")),
}


@pytest.mark.share(0.15)
@pytest.mark.parametrize(("name", "party"), thinned(list(TABLES), [0, 2], together=1))
def test_invalid_message_tables_are_refused(name: str, party: int, copies: list[Path]) -> None:
    """From any party, with right digests."""
    rewrite_table(copies[party], TABLES[name])
    with pytest.raises(BudgetError, match="DP-FED-003"):
        dprelease.federated_sum(copies)
    assert not verify(copies[party]).ok


def forge_declaration(old: str, new: str) -> Callable[[dict[str, Any]], None]:
    """Return the forgery of a declaration, with its digest made again."""

    def change(record: dict[str, Any]) -> None:
        held = record["declaration"]
        held["texts"]["release.yaml"] = text = held["texts"]["release.yaml"].replace(old, new)
        held["sha256"]["release.yaml"] = sha256(text.encode())

    return change


MANIFESTS: dict[str, Callable[[dict[str, Any]], object]] = {
    "another number of parties": lambda r: r.update(parties=2),
    "another party's number": lambda r: r.update(party=2),
    "no party's number": lambda r: r.update(party=0),
    "a party that is none": lambda r: r.update(party=PARTIES + 1),
    "a huge number": lambda r: r.update(parties=10**300, party=10**300),
    "another version": lambda r: r["tool"].update(version="0.0.9"),
    "another tool": lambda r: r["tool"].update(name="other"),
    "another title": forge_declaration("all registers", "some registers"),
    "another comment in what is declared": forge_declaration("title:", "# hello\ntitle:"),
    "another budget": forge_declaration("epsilon: 1", "epsilon: 0.5"),
    "another number of parties, declared": forge_declaration("parties: 3", "parties: 4"),
    "another step": lambda r: r["measurements"][1].update(step="1"),
    "a finer lattice": lambda r: r["measurements"][0].update(
        refined=2 * r["measurements"][0]["refined"]
    ),
    "another margin": lambda r: r["measurements"][0].update(sum_margin_95="1"),
    "another promise": lambda r: r["trust"].pop(),
    "another file": lambda r: r["files"][0].update(rows=4),
    "a longer name": lambda r: r["files"][0].update(name="x" * 300),
    "another format": lambda r: r.update(format="dprelease-federated-manifest/2"),
}


@pytest.mark.share(0.5)
@pytest.mark.parametrize("party", [0, 2])
@pytest.mark.parametrize("name", MANIFESTS)
def test_differing_manifests_are_refused(name: str, party: int, copies: list[Path]) -> None:
    forge(copies[party], MANIFESTS[name])
    with pytest.raises(BudgetError, match="DP-FED-003"):
        dprelease.federated_sum(copies)


@pytest.mark.parametrize(
    "name", [n for n in MANIFESTS if n not in ("another version", "another tool")]
)
def test_equally_forged_manifests_are_refused(name: str, copies: list[Path]) -> None:
    """The manifests agree with each other, but not with their declarations."""
    for copy in copies:
        forge(copy, MANIFESTS[name])
    if name in ("another title", "another comment in what is declared"):
        forge(copies[0], lambda r: r.update(title="People"))  # else it is a release of its own
    with pytest.raises(BudgetError, match="DP-FED-003"):
        dprelease.federated_sum(copies)


def test_missing_and_duplicate_parties_are_refused(copies: list[Path], tmp_path: Path) -> None:
    """One twice and one missing, by folder, by another run of the same party, by an edited number."""
    again = publish(tmp_path / "again", "party", 2, key="another run")
    edited = Path(shutil.copytree(copies[1], tmp_path / "edited"))
    forge(edited, lambda r: r.update(party=3))
    one, two, three = copies
    for given in (
        [one, two],
        [one, two, two],
        [one, two, again],
        [one, two, edited],
        [*copies, again],
    ):
        with pytest.raises(BudgetError, match="DP-FED-003"):
            dprelease.federated_sum(given)
    whole = dprelease.federated_sum([one, two, three])
    assert whole.equals(dprelease.federated_sum([three, one, two]))
    assert dprelease.federated_sum([one, again, three])["city"].tolist() == ["Bern", "Oslo", "Rome"]


def test_library_versions_may_differ(copies: list[Path]) -> None:
    whole = dprelease.federated_sum(copies)
    forge(copies[2], lambda r: r["tool"]["dependencies"].update(numpy="9.9"))
    assert dprelease.federated_sum(copies).equals(whole)


@pytest.mark.parametrize(
    ("sent", "fits"),
    [
        ([2**61, 2**61 - 1, 0], True),
        ([2**61, 2**61, 0], False),
        ([2**62, 2**62, 2**62], False),
        ([-(2**63), 0, 0], False),
        ([-(2**61), -(2**61), 1], True),
        ([2**63 - 1, 2**63 - 1, 2], True),  # 2^64 in all: messages wrap, sums are what count
    ],
)
def test_sums_beyond_64_bits_are_refused(sent: list[int], fits: bool, copies: list[Path]) -> None:
    """The sum modulo 2^64 decides, not the single messages."""
    for copy, value in zip(copies, sent, strict=True):
        rewrite_table(
            copy, replace_column("rows", lambda v, value=value: pa.array([value, *v[1:]]))
        )
    if not fits:
        with pytest.raises(BudgetError, match="do not fit 64 bits"):
            dprelease.federated_sum(copies)
        return
    refined = read(copies[0])["measurements"][0]["refined"]
    whole = (sum(sent) + 2**63) % 2**64 - 2**63
    assert dprelease.federated_sum(copies)["rows"][0] == whole / refined


def test_sum_is_truth_plus_noise_of_all_parties(folders: list[Path], plan: FederatedPlan) -> None:
    """The noise of each party is drawn again and agrees to the last bit."""
    found = dprelease.federated_sum(folders)
    # 400 persons, 100 of each of four cities, the last of which stands for Rome; 2 of 3 rows count.
    true = {"rows": [PARTIES * 200, PARTIES * 200, PARTIES * 400]}
    noise = {share.measurement.name: np.zeros(3, dtype=object) for share in plan.shares}
    for party in range(1, PARTIES + 1):
        bits = Keyed(f"forged party {party}")
        for share in plan.of_shares("by_city"):
            noise[share.measurement.name] += sample(share.mechanism, 3, bits, modular=True).astype(
                object
            )
    share = next(s for s in plan.shares if s.measurement.name == "rows")
    assert share.measurement.sensitivity.slots == 2
    off = [Fraction(int(n), share.refined) for n in noise["rows"]]
    assert found["rows"].tolist() == [
        float(count + step) for count, step in zip(true["rows"], off, strict=True)
    ]
    assert all(noise["rows"] != 0)
    assert set(found["rows_moe"]) == {float(share.margin(PARTIES))}


@pytest.mark.parametrize("alpha", [1.0, 1.5, 1.9])
def test_margins_of_sums_hold_and_are_tight(alpha: float, plan: FederatedPlan) -> None:
    """1 in 20 sums lies outside, not 4 or 6 in 100: a margin that is 5 % off would be seen."""
    law, times = SymmetricAlphaStable(900.0, alpha), 400_000
    share = replace(plan.shares[0], mechanism=law)
    draws = sample(law, PARTIES * times, Keyed(f"margin {alpha}"), modular=True)
    sums = np.abs(draws.reshape(PARTIES, times).sum(axis=0).astype(np.float64))
    width = float(share.margin(PARTIES) * share.refined / share.measurement.step)
    for factor, holds in ((1.0, True), (0.95, False), (1.05, False)):
        missed = int((sums > width * factor).sum())
        p_value = stats.binomtest(missed, times, 0.05).pvalue
        assert bool(p_value > ERROR_RATE) is holds, (factor, missed)


def epsilon_by_hand(plan: FederatedPlan, honest: int) -> float:
    """Return the pure epsilon of so many shares: closed forms, every coordinate and rounding."""
    total = 0.0
    for share in plan.shares:
        (move,) = share.measurement.sensitivity.moves
        scale = share.mechanism.scale * honest ** (1 / share.mechanism.alpha)
        loss = largest_loss(share.mechanism.alpha, move.shift * share.refined / scale)
        rounding = rounding_exponent(share.mechanism.alpha, share.mechanism.scale, honest)
        total += share.measurement.sensitivity.slots * move.cells * (loss + 2 * rounding)
    return total


def test_guarantees_by_number_of_honest_parties(plan: FederatedPlan) -> None:
    """Closed forms for all parties, for those that the budget assumes, and for one."""
    assert [trust.honest for trust in plan.trusts] == [3, 2, 1]
    for trust in plan.trusts:
        wanted = epsilon_by_hand(plan, trust.honest)
        assert wanted <= trust.guarantee.epsilon <= wanted * (1 + 1e-6), trust.honest
        assert trust.guarantee.pure_epsilon == trust.guarantee.epsilon
    # A cost computed for the next larger number of parties is far off.
    assert (
        epsilon_by_hand(plan, 1) > 1.3 * epsilon_by_hand(plan, 2) > 1.3 * epsilon_by_hand(plan, 3)
    )


def test_cost_of_one_message_is_the_cost_of_its_share(tmp_path: Path) -> None:
    """Also under (epsilon, delta): the last line of trust is for the noise of one party."""
    publish(tmp_path, "party")
    path = tmp_path / "release.yaml"
    path.write_text(path.read_text().replace("epsilon: 1}", "epsilon: 1, delta: 1e-6}"))
    declaration = read_declaration(path)
    plan = prepare_federated(declaration)
    budget = declaration.spec.budget

    def fine(share: ShareColumn) -> Any:
        held = share.measurement.sensitivity
        return replace(
            held, moves=tuple(replace(m, shift=m.shift * share.refined) for m in held.moves)
        )

    vectors = [make_accounting_input(share.mechanism, fine(share)) for share in plan.shares]
    alone = guarantee_of(vectors, budget)
    one = plan.trusts[-1]
    assert (one.honest, one.rounding) == (1, 0.0)
    assert alone.epsilon <= one.guarantee.epsilon < 1.01 * alone.epsilon


def test_verify_recomputes_the_cost_of_messages(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A planner that takes one honest party for two is contradicted by the integers it sends."""
    report = verify(publish(tmp_path, "party"))
    assert report.ok
    assert report.opinion is not None
    assert 0.97 * report.opinion.claimed < report.opinion.at_least <= report.opinion.claimed
    kept = ShareColumn.sum_mechanism
    monkeypatch.setattr(ShareColumn, "sum_mechanism", lambda share, n: kept(share, max(n, 2)))
    report = verify(publish(tmp_path, "party"))
    assert [finding.code for finding in report.findings] == ["DP-VERIFY-011"]


def share_of(
    plan: FederatedPlan, name: str, law: SymmetricAlphaStable, refined: int
) -> ShareColumn:
    found = next(share for share in plan.shares if share.measurement.name == name)
    return replace(found, mechanism=law, refined=refined)


def test_messages_wrap_for_noise_beyond_64_bits(plan: FederatedPlan) -> None:
    """Cauchy noise from known words, compared with 200 digits: no step is lost."""
    law = SymmetricAlphaStable(2.0**40, 1.0)
    share = share_of(plan, "rows", law, 8)
    words, fill = [12345, 1 << 63 | 77, 3], 987654321
    exact = ExactTable("by_city", 3, {"rows": np.array([7, -9, 10**6])})
    sent = noised_messages(exact, [share], PARTIES, Replay(words, fill=fill))["rows"]
    with mpmath.workdps(200):
        tail = [mpmath.mpf(w % 2**63) / 2**64 + mpmath.mpf(fill) / 2**128 for w in words]
        # P(Y >= y) = u: y = scale / tan(pi u); the words after the second change no integer here.
        noise = [int(mpmath.nint(2**40 / mpmath.tan(mpmath.pi * u))) for u in tail]
    noise[1] = -noise[1]
    assert all(abs(found) > 2 * LIMIT for found in noise)
    for value, true, drawn in zip(sent.tolist(), [7, -9, 10**6], noise, strict=True):
        near = (value - 8 * true - drawn + 2**63) % 2**64 - 2**63
        # 128 bits of a tail of 2^-50 fix a number of 2^88 to 2^10 steps: saturated it would be 2^62.
        assert abs(near) < 2**24, (value, drawn)


def test_true_values_are_clamped_if_sums_would_overflow(plan: FederatedPlan) -> None:
    """Values are clamped cell by cell, so no neighbour moves farther than before."""
    share = share_of(plan, "rows", SymmetricAlphaStable(0.01, 1.9), 2**20)
    reach = share.clamping_bound(PARTIES)
    assert PARTIES * reach * 2**20 <= LIMIT < PARTIES * (reach + 1) * 2**20
    true = np.array([reach, reach + 1, 2**62, -reach, -(2**62), 5])
    exact = ExactTable("by_city", 6, {"rows": true})
    sent = noised_messages(exact, [share], PARTIES, Replay([], fill=(1 << 62) + 12345))["rows"]
    bare = ExactTable("by_city", 6, {"rows": np.zeros(6, dtype=np.int64)})
    noise = noised_messages(bare, [share], PARTIES, Replay([], fill=(1 << 62) + 12345))["rows"]
    assert ((sent - noise) // 2**20).tolist() == [reach, reach, reach, -reach, -reach, 5]


def test_runs_of_parties_need_a_party_number(tmp_path: Path) -> None:
    publish(tmp_path, "party")
    release = dprelease.read_release(tmp_path / "release.yaml")
    for party in (None, 0, -1, 4):
        with pytest.raises(BudgetError, match="DP-FED-004"):
            release.run(party=party, overwrite=True)
    assert read(release.run(party=3, overwrite=True))["party"] == 3
    publish(tmp_path / "other", "central")
    with pytest.raises(BudgetError, match="DP-FED-004"):
        dprelease.read_release(tmp_path / "other" / "release.yaml").run(party=1, overwrite=True)


def test_stable_quantiles_equal_the_closed_form() -> None:
    """P(Y >= y) of a Cauchy variable."""
    u = np.array([0.025, 0.3])
    assert stable.quantile(1.0, u) == pytest.approx(1 / np.tan(np.pi * u))
