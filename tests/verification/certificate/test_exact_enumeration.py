"""Composed losses are never below exact enumeration, and hardly above it."""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from fractions import Fraction

import pytest
from flint import arb, ctx
from hypothesis import given
from hypothesis import strategies as st

from dprelease.mechanisms.optimal import Optimal
from dprelease.mechanisms.randomized_response import RandomizedResponse
from dprelease.numerics.balls import ball
from dprelease.privacy.guarantee import Event
from dprelease.privacy.unit import Move, Sensitivity
from dprelease.verification.certificate.closed_forms import concentrated_epsilon, normal_epsilon
from dprelease.verification.certificate.composed_losses import (
    EFFORTS,
    LossResolution,
    composed_losses,
    pointwise_largest,
)
from dprelease.verification.certificate.kinds import vector_kinds_of
from dprelease.verification.certificate.loss_masses import LossMasses
from dprelease.verification.certificate.neighbour_blocks import BlockOptions
from dprelease.verification.certificate.offset_weights import SummedTails
from dprelease.verification.certificate.proven_losses import proven_losses
from tests.covering import examples
from tests.mechanisms.laws import independent_mass, law_of
from tests.reference.read import number, rows

DELTA = Fraction(1, 10**6)
SMALL = Fraction(1, 10**9)
BITS = 90
LOOSE = {"staircase": 1.5, "asymmetric_laplace": 1.2, "truncated_laplace": 1.2}


def delta_of(events: Sequence[Event], epsilon: Fraction, delta: Fraction = DELTA) -> Fraction:
    """Return the delta at an epsilon that the composed losses prove."""
    with ctx.workprec(200):
        return composed_losses(vector_kinds_of(events), delta, EFFORTS[0]).delta_at(epsilon)


def event(law: Optimal | RandomizedResponse, unit: Sensitivity) -> Event:
    return Event("q", "c", law.name, law.parameters, unit)


def truth(pairs: Sequence[tuple[Fraction, Fraction]], times: int, growth: Fraction) -> Fraction:
    """Return the delta of a product of pairs at ln(growth), output by output."""
    total = Fraction(0)
    for outputs in itertools.product(pairs, repeat=times):
        p = q = Fraction(1)
        for own, other in outputs:
            p, q = p * own, q * other
        total += max(Fraction(0), p - growth * q)
    return total


@pytest.mark.parametrize("times", [1, 2, 3])
@pytest.mark.parametrize("shift", [1, 3])
def test_composition_of_rational_probabilities(times: int, shift: int) -> None:
    """Whole-number masses, all outputs of all cells: rational numbers without any rounding."""
    masses = (40, 31, 22, 9, 5, 2, 1)
    law = Optimal(5.0, masses)
    total = 2 * sum(masses) - masses[0]
    outputs = range(-len(masses) - shift, len(masses) + shift + 1)

    def mass(k: int) -> Fraction:
        return Fraction(masses[abs(k)] if abs(k) < len(masses) else 0, total)

    pairs = [(mass(k), mass(k - shift)) for k in outputs if mass(k) or mass(k - shift)]
    found = event(law, Sensitivity(times, (Move(shift, 1),)))
    for growth in (Fraction(1), Fraction(5, 4), Fraction(2), Fraction(7)):
        with ctx.workprec(300):
            whole = (ball(growth).log() * 2**80).floor().unique_fmpz()
        # A rational epsilon just below and just above ln(growth): delta falls.
        assert whole is not None
        near = Fraction(int(whole), 2**80)
        exact = truth(pairs, times, growth)
        below, above = (delta_of([found], near + Fraction(i, 2**79)) for i in (-1, 1))
        assert below >= exact
        assert above <= exact * Fraction(1001, 1000) + SMALL, (growth, float(above), float(exact))


@pytest.mark.parametrize(
    ("name", "shape", "scale"),
    [
        ("discrete_laplace", 0, 3.0),
        ("discrete_gaussian", 0, 3.0),
        ("laplace", 0, 2.5),
        ("asymmetric_laplace", 2, 2.0),
        ("truncated_laplace", 1, 2.0),
        ("staircase", 2, 5.0),
        ("discrete_offset_symmetric_gaussian", 1, 6.0),
    ],
)
def test_composition_of_probabilities_from_definitions(name: str, shape: int, scale: float) -> None:
    """Two cells of a law, moved up or down, output by output, by definitions in another place."""
    shift, reach = 2, int(12 * scale) + 6
    law = law_of(name, scale, shape, shift)
    found = Event("q", "c", name, law.parameters, Sensitivity(2, (Move(shift, 1),)))
    with ctx.workprec(200):
        masses = {k: independent_mass(law, k) for k in range(-reach, reach + shift + 1)}
        for epsilon in (Fraction(0), Fraction(1, 2), Fraction(5, 4)):
            most = max(
                _two_cells(masses, shift, signs, epsilon) for signs in ((1, 1), (1, -1), (-1, -1))
            )
            proved = delta_of([found], epsilon)
            assert proved >= most * (1 - Fraction(1, 2**60)), (name, epsilon)
            # Stairs are those before rounding; of two directions each cell may take the worse.
            loose = Fraction(LOOSE.get(name, 1.01))
            assert proved <= most * loose + SMALL, (name, float(proved), float(most))


def _two_cells(
    masses: dict[int, arb], shift: int, signs: tuple[int, int], epsilon: Fraction
) -> Fraction:
    """Return a lower bound of delta, of masses in balls that are cut off far out."""
    ends = [k for k in masses if k - shift in masses and k + shift in masses]
    pairs = [[(masses[k], masses[k - sign * shift]) for k in ends] for sign in signs]
    growth = float(ball(epsilon).exp())
    total = 0.0
    floats = [[(float(p), float(q)) for p, q in cell] for cell in pairs]
    for p, q in floats[0]:
        total += sum(max(0.0, p * own - growth * q * other) for own, other in floats[1])
    return Fraction(total) * (1 - Fraction(1, 10**9))


@pytest.mark.share(0.25)
@pytest.mark.parametrize(
    ("name", "shape"),
    [
        ("gaussian", 0),
        ("discrete_gaussian", 0),
        ("discrete_offset_symmetric_gaussian", 0),
        ("generalized_gaussian", 1),
    ],
)
def test_coarse_grids_are_upper_bounds(name: str, shape: int) -> None:
    """Blocks of many outputs each, whose losses differ widely: still never below the truth."""
    scale, shift = 40.0, 30
    law = law_of(name, scale, shape, shift)
    found = Event("q", "c", name, law.parameters, Sensitivity(1, (Move(shift, 1),)))
    coarse = LossResolution(1, 48, 2**12, 20, 0.0)
    with ctx.workprec(160):
        masses = {k: independent_mass(law, k) for k in range(-300, 331)}
        proved = composed_losses(vector_kinds_of([found]), DELTA, coarse)
        for epsilon in (Fraction(i, 5) for i in range(1, 16)):
            growth = ball(epsilon).exp()
            gains = (masses[k] - growth * masses[k - shift] for k in range(-270, 301))
            least = sum((gain for gain in gains if gain > 0), arb(0))
            assert ball(proved.delta_at(epsilon)) >= least.lower(), (name, epsilon)


@pytest.mark.parametrize("name", ["discrete_gaussian", "discrete_offset_symmetric_gaussian"])
def test_losses_in_closed_form_equal_enumerated_ones(name: str) -> None:
    """Of blocks of one output both ends are its loss; of wider ones they lie on either side."""
    law = law_of(name, 3.0, 0, 4)
    with ctx.workprec(200):
        proven = proven_losses(law)
        for fine in (1e-9, 0.3):
            (blocks,) = proven.block_lists(4, BlockOptions(fine, 2.0**-60, 2**10))
            losses = [(block.p / block.q).log() for block in blocks]
            for block, loss in list(zip(blocks, losses, strict=True))[1:-1]:
                assert block.low is not None
                assert block.high is not None
                assert not loss < block.low
                assert not loss > block.high
                assert fine > 0.1 or (block.low.overlaps(loss) and block.high.overlaps(loss))
            first, last = blocks[0], blocks[-1]
            assert first.high is None
            assert first.low is not None
            assert first.low < losses[0]
            assert last.low is None
            assert last.high is not None
            assert last.high > losses[-1]


def test_worst_move_of_each_part_counts() -> None:
    """A unit chooses: one cell by 5 steps, or two by 4; either may be the worse one."""
    law = law_of("discrete_laplace", 9.0)
    moves = (Move(5, 1), Move(4, 2))

    def proved(chosen: tuple[Move, ...]) -> Fraction:
        found = Event("q", "c", law.name, law.parameters, Sensitivity(2, chosen))
        return delta_of([found], Fraction(1, 2))

    both = proved(moves)
    assert both >= max(proved((move,)) for move in moves) * (1 - Fraction(1, 10**5))
    assert both >= proved(moves[::-1]) * (1 - Fraction(1, 10**5))


def test_overlapping_parts_add_up_to_l2_norm() -> None:
    """Two of three parts in one cell: the squared L2 norm is 2 x 3 x 4^2 steps."""
    law = law_of("discrete_gaussian", 20.0)
    unit = Sensitivity(3, (Move(4, 1),), 2)
    with ctx.workprec(200):
        (kind,) = vector_kinds_of([Event("q", "c", law.name, law.parameters, unit)])
    assert kind.rho == Fraction(unit.l2_squared, 2 * 400)


def test_randomized_response_is_exact_on_its_grid() -> None:
    """Randomized response on a grid that meets its losses: nothing but rounded units is added."""
    law = RandomizedResponse(0.5, 4.0)
    unit = Sensitivity(1, (Move(1, 1),))
    with ctx.workprec(200):
        growth = arb(2).exp()
        for epsilon in (Fraction(0), Fraction(1), Fraction(3, 2)):
            exact = (growth - ball(epsilon).exp()) / (growth + 3)
            proved = ball(delta_of([event(law, unit)], epsilon))
            assert proved > exact
            assert proved < exact + arb(2) ** -45


@pytest.mark.parametrize(
    ("table", "name", "key", "shift"),
    [
        ("composition_discrete_laplace", "discrete_laplace", "scale_t", 1),
        ("composition_laplace", "laplace", "scale", 1),
    ],
)
def test_reference_compositions(table: str, name: str, key: str, shift: int) -> None:
    """Continuous noise from below: rounded to steps of 2^-9 of a move it loses nearly as much."""
    steps = 512 if name == "laplace" else 1
    for row in rows(table)[::4]:
        law = law_of(name, float(row[key]) * steps, 0, shift * steps)
        unit = Sensitivity(int(row["count"]), (Move(shift * steps, 1),))
        found = Event("q", "c", name, law.parameters, unit)
        wanted = float(row["delta"])
        proved = float(delta_of([found], Fraction(row["epsilon"]), Fraction(1, 10**9)))
        assert proved >= wanted * (1 - (1e-12 if steps == 1 else 1e-4))
        assert proved <= wanted * 1.001 + 1e-12


def test_reference_conversions() -> None:
    """From rho, and of normal losses: never below the reference, and hardly above."""
    for row in rows("zcdp_epsilon"):
        found = concentrated_epsilon(Fraction(row["rho"]), Fraction(row["delta"]))
        assert found is not None
        assert 0 <= float(found) / float(row["epsilon_cks"]) - 1 + 1e-15 < 1e-9
    for row in rows("gaussian_delta"):
        mu = Fraction(row["l2_sensitivity"]) / Fraction(row["sigma"])
        if not 1e-250 < float(row["delta"]) < 0.5 or number(row["epsilon"]) < 0:
            continue
        found = normal_epsilon(mu**2, Fraction(row["delta"]))
        assert found is not None
        assert math.isclose(float(found), number(row["epsilon"]), rel_tol=1e-9, abs_tol=1e-9)


@pytest.mark.parametrize(("scale", "offset"), [(0.5, 0.0), (7.5, 0.25), (40.0, 4.0)])
def test_tails_of_discrete_gaussians(scale: float, offset: float) -> None:
    """Tails from the definition alone agree with those by which noise is drawn."""
    name = "discrete_gaussian" if not offset else "discrete_offset_symmetric_gaussian"
    law = law_of("discrete_gaussian", scale)
    if offset:
        law = type(law_of(name, scale)).of(scale=scale, ratio=offset)
    with ctx.workprec(160):
        tails = SummedTails(Fraction(scale), Fraction(offset))
        for k in (-30, -1, 0, 1, 2, 17, 200):
            for upper in (True, False):
                assert tails.tail(k, upper).overlaps(law.tail(k, upper))
                far = tails.tail(k, upper) < arb(2) ** -500
                assert far or tails.tail(k, upper).rel_accuracy_bits() > 80


def _laws(draw_first: int, masses: list[int], infinite: int) -> LossMasses:
    return LossMasses(Fraction(1, 8), draw_first, masses, infinite, BITS)


laws = st.builds(
    _laws,
    st.integers(-9, 9),
    st.lists(st.integers(0, 2**80), min_size=1, max_size=12),
    st.sampled_from([0, 1, 2**60]),
)
EPSILONS = [Fraction(i, 16) for i in range(-24, 40, 9)]


def at_least(one: LossMasses, other: LossMasses) -> bool:
    """Return whether the curve of one law is nowhere below that of another."""
    pairs = [(one.delta_at(e), other.delta_at(e)) for e in EPSILONS]
    return all(not a.upper() < b.lower() for a, b in pairs)


@given(laws, laws)
@examples(60)
def test_coarser_grids_and_maxima_dominate(one: LossMasses, other: LossMasses) -> None:
    """Coarser grids, ends that are raised, the larger of two curves, and their compositions."""
    assert at_least(one.on_coarser_grid(), one)
    assert at_least(one.trim(2**78), one)
    both = pointwise_largest([one, other])
    assert at_least(both, one)
    assert at_least(both, other)
    with ctx.workprec(200):
        few = arb(2) ** -(BITS - 8)
        lowest = min(
            one.first, other.first
        )  # below, a mass may lie at the first loss that there is
        for epsilon in (Fraction(i, 8) for i in range(lowest, 20, 4)):  # the larger one
            most = max(one.delta_at(epsilon).upper(), other.delta_at(epsilon).upper())
            assert both.delta_at(epsilon) < most + few
        composed, coarse = (
            one.compose(other),
            one.on_coarser_grid().compose(other.on_coarser_grid()),
        )
        for epsilon in EPSILONS:  # but for what rounding up has added to the finer one
            assert not coarse.delta_at(epsilon) + few < composed.delta_at(epsilon)
    total = Fraction(one.total * other.total, 2**BITS)
    assert 0 <= composed.total - total < 2 * len(composed.masses) + 2


@given(laws, st.sampled_from([Fraction(1, 2**12), Fraction(1, 2**20), Fraction(3, 2**29)]))
@examples(60)
def test_epsilon_and_delta_agree(law: LossMasses, delta: Fraction) -> None:
    found = law.epsilon_at(delta)
    if found is None:
        assert Fraction(law.infinite, 2**BITS) >= delta
        return
    mantissa, exponent = (int(part) for part in found.upper().man_exp())
    epsilon = Fraction(mantissa) * Fraction(2) ** exponent
    assert law.delta_at(epsilon + Fraction(1, 2**60)) <= ball(delta)
    if epsilon > Fraction(1, 2**40):
        assert law.delta_at(epsilon - Fraction(1, 2**40)) >= ball(delta)
