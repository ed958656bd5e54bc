"""Selection among candidates: exact probabilities, exact draws, and the guarantee."""

from __future__ import annotations

import math
from collections.abc import Iterator
from fractions import Fraction
from itertools import permutations, product

import numpy as np
import pytest
from flint import arb, ctx, fmpq
from scipy import stats

from dprelease.errors import BudgetError
from dprelease.mechanisms import registry
from dprelease.mechanisms.selection.exponential import Exponential
from dprelease.mechanisms.selection.selection import ScoreRuns, Selection
from dprelease.numerics.lattice import LazyUniform
from tests.replay import Keyed, OutOfBits, Replay
from tests.two_arm import ERROR_RATE

NAMES = registry.selection_names()
KINDS = [registry.selection_class(name) for name in NAMES]
EPSILON = Fraction(7, 5)
ALL_ONES = 2**64 - 1


@pytest.fixture(autouse=True)
def precise() -> Iterator[None]:
    before, ctx.prec = ctx.prec, 150
    yield
    ctx.prec = before


def reference_probabilities(name: str, rate: Fraction, scores: tuple[int, ...]) -> list[arb]:
    """Return the probabilities from the papers' algorithms, by sums over all orders."""

    def coin(score: int) -> arb:
        exponent = rate * (score - max(scores))
        return arb(fmpq(exponent.numerator, exponent.denominator)).exp()

    if name == "exponential":
        total = sum((coin(score) for score in scores), arb(0))
        return [coin(score) / total for score in scores]
    found = [arb(0) for _ in scores]
    for order in permutations(range(len(scores))):
        left = arb(1) / math.factorial(len(scores))
        for i in order:
            found[i] += left * coin(scores[i])
            left *= 1 - coin(scores[i])
    return found


def chooser(
    kind: type[Selection], epsilon: Fraction, sensitivity: int = 1, monotonic: bool = False
) -> Selection:
    """Return the choice with a guarantee for scores that each move by up to `sensitivity`."""
    range_ = sensitivity * (1 if monotonic else 2)
    return kind(scale=float(range_ / epsilon))


SCORES = [(0,), (4, 4), (5, 3), (2, 2, 1), (0, -7, 3, 3), (10, 9, 8, 7, 0), (1, 1, 1, 1, 1)]


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("scores", SCORES, ids=str)
@pytest.mark.parametrize(("sensitivity", "monotonic"), [(1, False), (3, False), (1, True)])
def test_probabilities_equal_the_papers(
    kind: type[Selection], scores: tuple[int, ...], sensitivity: int, monotonic: bool
) -> None:
    choice = chooser(kind, EPSILON, sensitivity, monotonic)
    found = choice.probabilities(scores)
    for own, direct in zip(
        found, reference_probabilities(kind.name, choice.rate, scores), strict=True
    ):
        assert own.overlaps(direct)
        assert own.rad() < 1e-40
    assert sum(found, arb(0)).overlaps(arb(1))


def test_ties_share_equally() -> None:
    for kind in KINDS:
        law = chooser(kind, EPSILON).probabilities((3, 3, 3, -5))
        assert law[0].overlaps(law[1])
        assert law[1].overlaps(law[2])
        assert law[0] > law[3]


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("sensitivity", [1, 2])
@pytest.mark.parametrize("monotonic", [False, True])
def test_neighbouring_scores_differ_by_at_most_epsilon(
    kind: type[Selection], sensitivity: int, monotonic: bool
) -> None:
    choice = chooser(kind, EPSILON, sensitivity, monotonic)
    bound = arb(7) / 5 * (1 + arb(2) ** -50)
    worst = -math.inf
    moves = range(-sensitivity, sensitivity + 1)
    for scores in [(0, 0, 0), (0, 4, 5), (0, 30, 30), (9, 0, 1)]:
        law = choice.probabilities(scores)
        for move in product(moves, repeat=3):
            if monotonic and min(move) < 0 < max(move):
                continue
            other = choice.probabilities(
                [score + step for score, step in zip(scores, move, strict=True)]
            )
            for p, q in zip(law, other, strict=True):
                loss = (p / q).log()
                assert loss < bound + arb(2) ** -100
                worst = max(worst, float(loss))
    assert worst > 0.5 * float(bound)


def test_monotonic_rate_fails_for_other_scores() -> None:
    """The check can fail: scores that move apart lose more than epsilon at the double rate."""
    for kind in KINDS:
        choice = chooser(kind, EPSILON, 1, True)
        losses = [
            float((p / q).log())
            for p, q in zip(
                choice.probabilities((0, 12, 12)), choice.probabilities((-1, 13, 13)), strict=True
            )
        ]
        assert max(losses) > float(EPSILON) * 1.5


def test_permute_and_flip_has_no_lower_expected_score() -> None:
    """Its expected score is at least that of the exponential mechanism (ibid., Theorem 3)."""
    for scores in SCORES:
        means = []
        for name in ("exponential", "permute_and_flip"):
            law = chooser(registry.selection_class(name), EPSILON).probabilities(scores)
            means.append(sum((p * score for p, score in zip(law, scores, strict=True)), arb(0)))
        assert means[1] >= means[0] or means[1].overlaps(means[0])


@pytest.mark.parametrize("scores", [(4, 4), (5, 3), (2, 2, 1), (0, -7, 3)], ids=str)
def test_exponential_mechanism_by_enumeration(scores: tuple[int, ...]) -> None:
    """All prefixes of 8 bits: the mass of the decided ones brackets every probability."""
    choice = chooser(registry.selection_class("exponential"), EPSILON)
    found, open_mass = [Fraction(0)] * len(scores), Fraction(0)
    for prefix in range(2**8):
        low = choice.choose(scores, Replay([prefix << 56], fill=0))
        high = choice.choose(scores, Replay([(prefix << 56) | (2**56 - 1)], fill=ALL_ONES // 3))
        if low == high:
            found[low] += Fraction(1, 2**8)
        else:
            open_mass += Fraction(1, 2**8)
    assert open_mass <= Fraction(len(scores), 2**8)
    for low_mass, p in zip(found, choice.probabilities(scores), strict=True):
        assert float(low_mass) <= p
        assert p <= float(low_mass + open_mass)


def test_permute_and_flip_by_enumeration() -> None:
    """Two candidates, 4 bits for each coin and for the choice among heads."""
    choice = chooser(registry.selection_class("permute_and_flip"), EPSILON)
    scores, depth = (5, 3), 4
    found, open_mass = [Fraction(0)] * 2, Fraction(0)
    ends = (0, 2 ** (64 - depth) - 1)
    for prefix in product(range(2**depth), repeat=3):
        words = [[(word << (64 - depth)) | end for word in prefix] for end in ends]
        results = {
            choice.choose(scores, Replay([a, b, c], fill=ALL_ONES // 3))
            for a in (words[0][0], words[1][0])
            for b in (words[0][1], words[1][1])
            for c in (words[0][2], words[1][2])
        }
        if len(results) == 1:
            found[results.pop()] += Fraction(1, 2 ** (3 * depth))
        else:
            open_mass += Fraction(1, 2 ** (3 * depth))
    assert open_mass < Fraction(1, 4)
    for low_mass, p in zip(found, choice.probabilities(scores), strict=True):
        assert float(low_mass) <= p
        assert p <= float(low_mass + open_mass)


def p_value(choice: Selection, law: tuple[arb, ...], scores: tuple[int, ...], n: int) -> float:
    bits = Keyed(f"{choice.name} {scores}")
    counts = np.bincount([choice.choose(scores, bits) for _ in range(n)], minlength=len(scores))
    expected = np.array([float(p) for p in law]) * n
    statistic = float(np.sum((counts - expected) ** 2 / expected))
    return float(stats.chi2.sf(statistic, len(scores) - 1))


@pytest.mark.share(0.4, by="kind")
@pytest.mark.parametrize("kind", KINDS)
def test_choices_fit_their_probabilities_and_no_other(kind: type[Selection]) -> None:
    """Draws agree with their law, and disagree with laws of a rate 30 % off."""
    scores, n = (3, 1, 0, 3, -2), 10000
    choice = chooser(kind, EPSILON)
    assert p_value(choice, choice.probabilities(scores), scores, n) > ERROR_RATE
    for wrong in (Fraction(7, 10), Fraction(13, 10)):
        assert (
            p_value(choice, chooser(kind, EPSILON * wrong).probabilities(scores), scores, n)
            < ERROR_RATE
        )


@pytest.mark.parametrize("kind", KINDS)
def test_number_of_words_depends_on_candidates_only(
    kind: type[Selection],
) -> None:
    drawn = set()
    for scores in ((0, 0, 0, 0), (100, 0, 0, 0), (-(10**30), 10**30, 5, 5)):
        bits = Keyed("same")
        chooser(kind, EPSILON).choose(scores, bits)
        drawn.add(bits.drawn)
    assert len(drawn) == 1


def test_word_on_a_boundary_is_refined() -> None:
    """Two equal sums: U just below 1/2 in all 64 bits needs no more, a boundary inside does."""
    half = [arb(1), arb(2)]
    assert LazyUniform(Replay([2**63 - 1])).interval_index(lambda: half) == 0
    assert LazyUniform(Replay([2**63])).interval_index(lambda: half) == 1
    third = [arb(1), arb(3)]
    word = 2**64 // 3  # its interval holds 1/3 = 0.0101...
    with pytest.raises(OutOfBits):
        LazyUniform(Replay([word])).interval_index(lambda: third)
    assert LazyUniform(Replay([word, 0])).interval_index(lambda: third) == 0
    assert LazyUniform(Replay([word, word, ALL_ONES])).interval_index(lambda: third) == 1


def test_extreme_scores() -> None:
    for kind in KINDS:
        choice = chooser(kind, Fraction(100))
        assert {choice.choose((0, 10**40, 0), Keyed(str(i))) for i in range(50)} == {1}
        assert {choice.choose((7,), Keyed(str(i))) for i in range(5)} == {0}
        assert choice.choose(np.array([1, 50]), Keyed("numpy")) == 1


def test_bad_parameters_are_refused() -> None:
    for kind in KINDS:
        for scale in (0.0, -1.0, 1e-4, math.inf, math.nan):
            with pytest.raises((BudgetError, ValueError)):
                kind(scale=scale)
        for scores in ((), (1.5, 2), ("1",)):
            with pytest.raises(BudgetError, match=r"DP-MECH-005.*'scores'"):
                kind(scale=1.0).choose(scores, Keyed("bad"))


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("shift", [1, 3])
def test_claimed_loss_bounds_all_scores(kind: type[Selection], shift: int) -> None:
    """All moves whose differences span `shift`: pure, at every delta, and concentrated."""
    choice = kind(scale=1.7)
    (loss,) = choice.losses(shift)
    largest, rho = 0.0, 0.0
    for scores in [(0, 0, 0), (0, 4, 5), (0, 30, 30), (9, 0, 1), (2, 1, 0)]:
        law = [float(p) for p in choice.probabilities(scores)]
        for move in product(range(shift + 1), repeat=3):
            other = [
                float(p)
                for p in choice.probabilities([s + m for s, m in zip(scores, move, strict=True)])
            ]
            for p, q in ((law, other), (other, law)):
                losses = [math.log(a / b) for a, b in zip(p, q, strict=True)]
                largest = max(largest, *losses)
                for epsilon in (0.0, 0.1, 0.4, 1.0):
                    delta = sum(
                        max(0.0, a - math.exp(epsilon) * b) for a, b in zip(p, q, strict=True)
                    )
                    assert delta <= loss.delta(epsilon) + 1e-12
                for order in (1.1, 2.0, 8.0):
                    moment = sum(a * (a / b) ** (order - 1) for a, b in zip(p, q, strict=True))
                    divergence = math.log(moment) / (order - 1)
                    assert divergence <= loss.renyi(order) + 1e-12
                    rho = max(rho, divergence / order)
                if choice.has_bounded_range:
                    assert max(losses) - min(losses) <= loss.pure_epsilon + 1e-12
    assert 0.6 * loss.pure_epsilon < largest <= loss.pure_epsilon + 1e-12
    assert rho <= loss.rho


def runs_of(scores: list[list[int]], lengths: list[list[int]]) -> ScoreRuns:
    starts = np.cumsum([0, *map(len, scores)])
    flat = [np.array([x for row in rows for x in row]) for rows in (scores, lengths)]
    return ScoreRuns(starts.astype(np.int64), *flat)


def test_runs_have_the_probabilities_of_their_candidates() -> None:
    """Two arms: the law of all candidates one by one, and not that of a rate 15 % off."""
    choice, wrong = Exponential(scale=2.0), Exponential(scale=2.3)
    scores, lengths, n = [-3, 0, -1, -6], [4, 2, 3, 20], 40_000
    runs = runs_of([scores] * n, [lengths] * n)
    counts = np.bincount(choice.choose_from_runs(runs, Keyed("runs")), minlength=sum(lengths))
    each = [s for s, length in zip(scores, lengths, strict=True) for _ in range(length)]
    values = []
    for law in (choice, wrong):
        expected = np.array([float(p) for p in law.probabilities(each)]) * n
        statistic = float(np.sum((counts - expected) ** 2 / expected))
        values.append(float(stats.chi2.sf(statistic, len(each) - 1)))
    assert values[0] > ERROR_RATE > values[1]


def test_floats_and_balls_choose_alike() -> None:
    """Every word that floats decide is decided alike by balls; boundaries are left to these."""
    choice = Exponential(scale=1.3)
    rng = np.random.default_rng(5)
    undecided = 0
    for i in range(400):
        size = int(rng.integers(1, 9))
        scores, lengths = -rng.integers(0, 60, size), rng.integers(1, 1000, size)
        word = int(rng.integers(0, 2**64, dtype=np.uint64))
        if i % 4 == 0:  # right at the end of the first run
            weights = [float(p) for p in choice.weights(scores.tolist())]
            mass = [w * n for w, n in zip(weights, lengths.tolist(), strict=True)]
            word = min(2**64 - 1, int(Fraction(mass[0]) / Fraction(sum(mass)) * 2**64))
        fast = choice.choose_by_word(scores, lengths, word)
        slow = choice.choose_exactly(scores, lengths, LazyUniform(Keyed(str(i)), word))
        undecided += fast is None
        assert fast in (None, slow)
    assert 0 < undecided < 150


@pytest.mark.share(0.4, by="kind")
@pytest.mark.parametrize("kind", KINDS)
def test_forbidden_candidates_are_never_chosen(kind: type[Selection]) -> None:
    """Two arms: the probabilities among allowed candidates; a forbidden one is never chosen."""
    choice, n = kind(scale=1.5), 40_000
    scores = np.tile(np.array([3, 9, 1, 3, -2]), (n, 1))
    allowed = np.tile(np.array([True, False, True, True, True]), (n, 1))
    counts = np.bincount(choice.choose_allowed(scores, allowed, Keyed("open")), minlength=5)
    assert counts[1] == 0
    values = []
    for law in (choice, kind(scale=1.8)):
        expected = np.array([float(p) for p in law.probabilities((3, 1, 3, -2))]) * n
        statistic = float(np.sum((counts[[0, 2, 3, 4]] - expected) ** 2 / expected))
        values.append(float(stats.chi2.sf(statistic, 3)))
    assert values[0] > ERROR_RATE > values[1]


def test_registry_has_all_selections() -> None:
    assert NAMES == ("exponential", "permute_and_flip")
    assert [kind.name for kind in KINDS] == list(NAMES)
    assert "selection" not in registry.names()
    with pytest.raises(BudgetError, match="did you mean 'exponential'"):
        registry.selection_class("exponentail")
