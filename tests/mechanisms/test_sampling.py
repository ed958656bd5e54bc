"""Every mechanism samples exactly its declared distribution: proofs first, then statistics."""

from __future__ import annotations

import math
from collections.abc import Iterator
from fractions import Fraction

import numpy as np
import pytest
from flint import arb, ctx

from dprelease.mechanisms import registry
from dprelease.mechanisms.base import Mechanism
from dprelease.numerics.lattice import LIMIT, exact_draw, sample
from tests.covering import spread
from tests.mechanisms.laws import KINDS, independent_mass, law_of, laws, mass
from tests.replay import Keyed, Led, Replay
from tests.two_arm import ERROR_RATE, p_value

NAMES = registry.names()
SCALES = (0.05, 0.3, 1.0, 7.5, 100.0, 1023.5, 1024.0, 5000.0, 2.0**21, 2.0**40)
LAWS = laws(SCALES)
ALL_ONES = 2**64 - 1


@pytest.fixture(autouse=True)
def precise() -> Iterator[None]:
    before, ctx.prec = ctx.prec, 200
    yield
    ctx.prec = before


@pytest.mark.parametrize(("name", "shape", "scale"), spread(laws((0.3, 1.0, 7.5, 20.25))))
def test_tails_equal_the_definition(name: str, shape: int, scale: float) -> None:
    law = law_of(name, scale, shape)
    for k in (-9, -1, 0, 1, 2, 5, 30):
        assert abs(mass(law, k) - independent_mass(law, k)) < arb(2) ** -150


@pytest.mark.parametrize(("name", "shape", "scale"), spread(laws((7.99, 8.0, 8.01))))
def test_both_tails_give_the_same_probabilities(name: str, shape: int, scale: float) -> None:
    law = law_of(name, scale, shape)
    for k in (1, 3, 25):
        assert (
            mass(law, k).overlaps(independent_mass(law, k))
            or abs(mass(law, k) - independent_mass(law, k)) < arb(2) ** -150
        )


def enumerated_probabilities(law: Mechanism, depth: int) -> tuple[dict[int, Fraction], Fraction]:
    """Return lower bounds of P(K = k), and the probability that `depth` bits leave open.

    A draw falls as U grows, so all U of one prefix give one k if both of its ends do.
    """
    found: dict[int, Fraction] = {}
    open_mass = Fraction(0)
    rest = 64 - depth
    for prefix in range(2**depth):
        if prefix in (0, 2 ** (depth - 1)):  # U = 0 stands for an infinite draw: never decided
            open_mass += Fraction(1, 2**depth)
            continue
        # Endless zeros never leave a boundary that is a dyadic number (Cauchy noise has some).
        low = exact_draw(law, prefix << rest, Replay([0] * 2, fill=ALL_ONES // 3))
        high = exact_draw(law, (prefix << rest) | (2**rest - 1), Replay([ALL_ONES] * 2, fill=1))
        if low == high:
            found[low] = found.get(low, Fraction(0)) + Fraction(1, 2**depth)
        else:
            open_mass += Fraction(1, 2**depth)
    return found, open_mass


@pytest.mark.share(0.25, by="name")
@pytest.mark.parametrize(("name", "shape", "scale"), spread(laws((0.3, 1.0, 3.5))))
def test_enumeration_brackets_the_probabilities(name: str, shape: int, scale: float) -> None:
    """P(K = k) is between the enumerated bound and the bound plus the open probability, for all k."""
    law = law_of(name, scale, shape)
    found, open_mass = enumerated_probabilities(law, 8 if law.half_width(0.9) < 10 else 10)
    assert open_mass < Fraction(1, 4)
    for k in range(-30, 31):
        low = found.get(k, Fraction(0))
        true = independent_mass(law, k)
        assert arb(low.numerator) / low.denominator <= true + arb(2) ** -100
        high = low + open_mass
        assert true <= arb(high.numerator) / high.denominator + arb(2) ** -100


@pytest.mark.share(0.2, by="name")
@pytest.mark.parametrize(("name", "shape"), KINDS)
def test_enumeration_rejects_planted_mistakes(name: str, shape: int) -> None:
    """The bracket of a law excludes the law of a scale 10 % off: the check can fail."""
    law = law_of(name, 1.0, shape)
    found, open_mass = enumerated_probabilities(law, 9 if law.half_width(0.9) < 6 else 12)
    for wrong in (0.9, 1.1):
        other = law_of(name, wrong, shape)
        off = []
        for k in range(-20, 21):
            low, true = found.get(k, Fraction(0)), independent_mass(other, k)
            high = low + open_mass
            off.append(true < float(low) or true > float(high))
        assert any(off)


def boundary_words(law: Mechanism, ks: list[int]) -> list[int]:
    """Return words beside the boundaries of cells, where a wrong error bound would show."""
    words = []
    for k in ks:
        for upper in (True, False):
            tail = law.tail(k if upper else -k, upper)
            edge = int((tail * arb(2) ** 64).floor().unique_fmpz() or 0)
            for exponent in (0, 8, 16, 20, 24, 30, 40):
                for side in (-1, 1):
                    word = edge + side * 2**exponent
                    if 0 <= word < 2**63:
                        words.append(word if upper else word | 2**63)
    return words


@pytest.mark.share(0.16, by="name")
@pytest.mark.parametrize(("name", "shape", "scale"), spread(LAWS))
def test_floats_agree_with_balls_near_boundaries(name: str, shape: int, scale: float) -> None:
    law = law_of(name, scale, shape)
    wide = max(1, int(scale / 3))
    ks = [1, 2, 3, *(wide * i for i in range(1, 12, 2)), *(wide * i + 1 for i in (4, 9))]
    words = boundary_words(law, ks)
    for word in words:
        # Bits that are always the same would propose one cell of a block for ever.
        slow = exact_draw(law, word, Keyed("beside"))
        fast = sample(law, 1, Led([word], "beside"))[0]
        assert fast == slow


@pytest.mark.share(0.25, by="name")
@pytest.mark.parametrize(("name", "shape", "scale"), spread(LAWS))
def test_fast_and_exact_draws_agree(name: str, shape: int, scale: float) -> None:
    law = law_of(name, scale, shape)
    words = Keyed("slow").words(40)
    fast = sample(law, 40, Keyed("slow"))
    slow = [exact_draw(law, int(word), Keyed("rest")) for word in words]
    certain = fast == np.array(slow)
    if law.segment_sampler is None:
        assert certain.all()
    else:  # the cell of the block comes from other bits in the two runs
        assert np.array_equal(
            fast >> law.segment_sampler.width, np.array(slow) >> law.segment_sampler.width
        )


@pytest.mark.share(0.25, by="name")
@pytest.mark.parametrize(("name", "shape", "scale"), spread(laws((0.05, 1.0, 50.0, 2.0**21))))
def test_extreme_bits_give_finite_far_noise(name: str, shape: int, scale: float) -> None:
    """All-zero bits go far out, all-one bits stay near the middle; nothing fails (V03)."""
    law = law_of(name, scale, shape)
    far = exact_draw(law, 0, Led([0] * 8, "far"))
    assert law.half_width(1 - 1e-12) / 2 - abs(law.mean) - 1 <= far <= LIMIT
    low = exact_draw(law, 2**63, Led([0] * 8, "far"))
    assert low == -far if law.is_symmetric else low < 0
    middle = exact_draw(law, 2**63 - 1, Led([ALL_ONES] * 8, "middle"))
    assert -law.half_width(0.9) <= middle <= law.half_width(0.9) + 1


@pytest.mark.share(0.5, by="name")
@pytest.mark.parametrize(("name", "shape"), KINDS)
def test_draws_decrease_in_the_random_bits(name: str, shape: int) -> None:
    law = law_of(name, 7.5, shape)
    words = [i << 54 for i in range(1, 2**9)]
    draws = [exact_draw(law, word, Replay([0] * 2, fill=ALL_ONES // 3)) for word in words]
    assert all(a >= b for a, b in zip(draws, draws[1:], strict=False))


@pytest.mark.share(0.15, by="name")
@pytest.mark.parametrize(("name", "shape", "scale"), spread(laws((0.7, 7.5, 300.0, 2.0**10))))
def test_draws_fit_their_distribution_and_no_other(name: str, shape: int, scale: float) -> None:
    """A million draws agree with their law and disagree with one 3 % off on either side."""
    draws = sample(law_of(name, scale, shape), 10**6, Keyed(f"two arms {name} {scale}"))
    assert p_value(draws, law_of(name, scale, shape)) > ERROR_RATE
    for wrong in (0.97, 1.03):
        other = law_of(name, scale * wrong, shape)
        ends = [one.half_width(0.9) for one in (law_of(name, scale, shape), other)]
        # Where delta alone sets the ends, the law is nearly even and hardly knows its scale.
        if scale < 100 or abs(ends[1] - ends[0]) > max(1, 0.01 * ends[0]):
            assert p_value(draws, other) < ERROR_RATE


@pytest.mark.share(0.12, by="name")
@pytest.mark.parametrize(("name", "shape"), KINDS)
@pytest.mark.parametrize("mistake", ["toward zero", "one side", "shifted"])
def test_planted_sampling_mistakes_are_found(name: str, shape: int, mistake: str) -> None:
    law = law_of(name, 7.5, shape)
    draws = sample(law, 10**6, Keyed("mistakes"))
    if mistake == "toward zero":
        draws = np.trunc(draws * 0.999).astype(np.int64)
    elif mistake == "one side":
        draws = np.where(draws == -1, 1, draws)
    else:
        draws = draws + 1
    assert p_value(draws, law) < ERROR_RATE


@pytest.mark.share(0.25, by="name")
@pytest.mark.parametrize(("name", "shape", "scale"), spread(laws((0.3, 7.5, 2000.0))))
def test_moments_and_bias(name: str, shape: int, scale: float) -> None:
    """Mean, spread and mean absolute error of a million draws lie within 6 standard errors (V08)."""
    law = law_of(name, scale, shape)
    if not math.isfinite(law.standard_deviation):
        pytest.skip("a law without a variance: its median and quantiles are tested instead")
    n = 10**6
    draws = sample(law, n, Keyed(f"moments {name} {scale}")).astype(float)
    error = law.standard_deviation / n**0.5
    assert abs(draws.mean() - law.mean) < 6 * error
    size = law.root_mean_square_error / n**0.5
    assert abs(np.abs(draws).mean() - law.mean_absolute_error) < 6 * size
    centred = draws - law.mean
    seen = float(np.mean(centred**4)) / law.standard_deviation**4
    kurtosis = max(3.0, seen, law.standard_deviation**-2)  # the last: one step, hardly ever
    tolerance = 6 * law.standard_deviation**2 * (kurtosis / n) ** 0.5
    assert abs(np.mean(centred**2) - law.standard_deviation**2) < tolerance


@pytest.mark.share(0.5, by="name")
@pytest.mark.parametrize(("name", "shape", "scale"), spread(LAWS))
@pytest.mark.parametrize("confidence", [0.5, 0.95, 0.999])
def test_half_width_is_the_smallest_that_covers(
    name: str, shape: int, scale: float, confidence: float
) -> None:
    law = law_of(name, scale, shape)
    width = law.half_width(confidence)
    miss = 1 - arb(confidence)

    def beyond(w: int) -> arb:
        return law.tail(w + 1, True) + law.tail(-w - 1, False)

    assert beyond(width) <= miss + arb(2) ** -50
    assert width == 0 or beyond(width - 1) > miss - arb(2) ** -50


@pytest.mark.share(0.5, by="name")
@pytest.mark.parametrize(("name", "shape", "scale"), spread(laws((0.3, 7.5, 3000.0))))
@pytest.mark.parametrize("confidence", [0.5, 0.95, 0.999])
def test_margins_have_the_stated_coverage(
    name: str, shape: int, scale: float, confidence: float
) -> None:
    law = law_of(name, scale, shape)
    n = 10**5
    draws = np.abs(sample(law, n, Keyed(f"margins {name} {scale} {confidence}")))
    width = law.half_width(confidence)
    error = 6.5 * (confidence * (1 - confidence) / n) ** 0.5
    assert np.mean(draws <= width) > confidence - error
    assert width == 0 or np.mean(draws <= width - 1) < confidence + error


def test_number_of_words_does_not_depend_on_values() -> None:
    """Noise is drawn independently of the values (V43)."""
    law = law_of("gaussian", 1000.0)
    streams = [Keyed("same"), Keyed("same")]
    first, second = (sample(law, 10**5, stream) for stream in streams)
    assert streams[0].drawn == streams[1].drawn
    assert np.array_equal(first, second)


@pytest.mark.share(0.25, by="name")
@pytest.mark.parametrize(("name", "shape"), KINDS)
def test_neighbours_have_the_same_outputs(name: str, shape: int) -> None:
    """Sets of outputs of q and q + 1 coincide, on the integers: no low bits tell q (V01, V02)."""
    scale = next(
        s for s in (2.0, 8.0, 32.0, 128.0) if law_of(name, s, shape).half_width(0.999) >= 6
    )
    draws = np.unique(sample(law_of(name, scale, shape), 10**6, Keyed("outputs"))).tolist()
    for value in (0, 2**53 - 1, 2**53, 2**53 + 2):
        near, other = {d + value for d in draws}, {d + value + 1 for d in draws}
        inner = set(range(value - 5, value + 6))
        assert inner <= near
        assert inner <= other
