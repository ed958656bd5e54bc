"""Draws by blocks of cells: the proof's premises in balls, both ways of drawing, and the law itself."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace

import numpy as np
import pytest
from flint import arb, ctx
from scipy import stats

from dprelease.errors import BudgetError
from dprelease.mechanisms import registry
from dprelease.mechanisms.base import Mechanism
from dprelease.numerics import stable
from dprelease.numerics.lattice import LIMIT, exact_draw, sample
from dprelease.numerics.segments import SegmentSampler
from dprelease.privacy.unit import Move, Sensitivity
from tests.covering import spread
from tests.mechanisms.laws import KINDS, law_of, mass
from tests.replay import Keyed, Led, OutOfBits, Replay
from tests.two_arm import ERROR_RATE, p_value

LARGE = (2.0**33, 2.0**45)
ALL_ONES = 2**64 - 1
EXTREME = (
    ("asymmetric_laplace", {"k": 64.0}),
    ("asymmetric_laplace", {"k": 1 / 64, "debias": "false"}),
    ("discrete_offset_symmetric_gaussian", {"ratio": 32.0}),
    ("generalized_gaussian", {"p": 1.0}),
    ("generalized_gaussian", {"p": 8.0}),
    ("offset_symmetric_gaussian", {"ratio": 32.0}),
    ("staircase", {"gamma": 0.0}),
    ("symmetric_alpha_stable", {"alpha": stable.LARGEST_ALPHA}),
    ("symmetric_alpha_stable", {"alpha": 1.0009765625}),
    ("truncated_laplace", {"delta": "0.4"}),
)
"""Shapes at the ends of their domains."""


def wide_law(name: str, scale: float, shape: dict[str, str | float]) -> Mechanism | None:
    """Return the law for cells that move by up to a scale; None where it can't be made."""
    try:
        shift = Sensitivity(1, (Move(max(1, int(scale)), 1),))
        return registry.get(name).design(scale, shift, **shape)
    except BudgetError:
        return None


EXAMPLES = tuple((name, registry.get(name).example_shapes[i]) for name, i in KINDS)


def wide_laws(
    kinds: Iterable[tuple[str, Mapping[str, str | float]]], *scales: float
) -> list[Mechanism]:
    """Return the laws of shapes that there are."""
    found = (wide_law(name, s, dict(shape)) for s in scales for name, shape in kinds)
    return [law for law in found if law is not None]


NARROW_STAIRS = [law_of("staircase", scale) for scale in (2.0**33, 2.0**45)]
PLAIN = wide_laws(EXAMPLES, *LARGE)
BLOCKED = [
    *PLAIN,
    *wide_laws(EXTREME, 2.0**45),
    *wide_laws(EXAMPLES, 2.0**23.5),
    *NARROW_STAIRS,
    registry.get("staircase").of(scale=2.0**33, width=2.0**12, gamma=0.3),
]


@pytest.fixture(autouse=True)
def precise() -> Iterator[None]:
    before, ctx.prec = ctx.prec, 256
    yield
    ctx.prec = before


def name_of(law: Mechanism) -> str:
    """Return a short name of a law for the reports of tests."""
    shape = [v for k, v in law.parameters if k in {"alpha", "gamma", "k", "p", "ratio", "width"}]
    return f"{law.name} {' '.join(shape)} 2^{math.log2(law.scale):g}"


def test_only_large_scales_use_blocks() -> None:
    for name in registry.names():
        for scale in (1e-3, 0.3, 1.0, 10.0, 1023.0, 1024.0, 2.0**17):
            for shape in registry.get(name).example_shapes:
                law = wide_law(name, scale, dict(shape))
                assert law is None or law.segment_sampler is None
    assert {law.name for law in BLOCKED} == set(registry.names()) - {"optimal"}


def some_blocks(law: Mechanism) -> list[int]:
    """Return blocks of ten draws, and those beside what a law may have at its mode and its ends."""
    blocks = law.segment_sampler
    assert blocks is not None
    draws = sample(law, 10, Keyed(f"blocks {law}"))
    places = {int(draw) for draw in draws} | {law.mode}
    for end in ("lower", "upper"):
        places |= {int(getattr(law, end)) + law.mode} if hasattr(law, end) else set()
    if hasattr(law, "width"):
        places |= {int(law.width * (j + law.gamma)) for j in (0, 1, -2)}
    found = {place >> blocks.width for place in places if abs(place) < LIMIT}
    return sorted({h + i for h in found for i in (-1, 0, 1)})


@pytest.mark.share(0.1)
@pytest.mark.parametrize("law", BLOCKED, ids=name_of)
def test_quick_acceptance_is_below_probability_ratios(law: Mechanism) -> None:
    """p(k) / M is at least 1 - unevenness: balls, at cells where it is least and at some between."""
    blocks = law.segment_sampler
    size = 1 << blocks.width
    chosen = some_blocks(law) if law.name != "symmetric_alpha_stable" else some_blocks(law)[::4]
    first = np.array(chosen, dtype=np.float64) * size
    bounds = np.broadcast_to(law.largest_relative_drop(first, float(size)), first.shape)
    for h, bound in zip(chosen, bounds, strict=True):
        tail = min(law.tail(h * size, True), law.tail((h + 1) * size - 1, False), key=float)
        if tail < 2.0**-20 or bound >= 1.0:
            continue
        cells = {h * size, h * size + size // 3, (h + 1) * size - 1}
        for cell in cells:
            own, most = blocks._probabilities(cell, h)
            assert own >= most * (1 - arb(bound)) - most * arb(2) ** -120
            assert own <= most * (1 + arb(2) ** -120)


@pytest.mark.share(0.2)
@pytest.mark.parametrize("scale", [1.0, 4.5])
@pytest.mark.parametrize(("name", "shape"), [kind for kind in KINDS if kind[0] != "optimal"])
def test_largest_probability_of_each_block_is_found(name: str, shape: int, scale: float) -> None:
    law = law_of(name, scale, shape)
    for width in (1, 2, 3):
        blocks = SegmentSampler(law, width, law.mode)
        for h in range(-4, 4):
            masses = [mass(law, (h << width) + i) for i in range(1 << width)]
            found = blocks._probabilities(h << width, h)[1]
            assert all(own <= found + arb(2) ** -150 for own in masses)
            assert any(own >= found - arb(2) ** -150 for own in masses)
            whole = blocks.tail(h, True) - blocks.tail(h + 1, True)
            assert abs(whole - sum(masses, arb(0))) < arb(2) ** -150
            below = blocks.tail(h, False) - blocks.tail(h - 1, False)
            assert abs(whole - below) < arb(2) ** -150


@pytest.mark.share(0.25)
@pytest.mark.parametrize(("name", "shape"), [kind for kind in KINDS if kind[0] != "optimal"])
def test_acceptance_rate_equals_probability_ratio(name: str, shape: int) -> None:
    """Of evenly spaced shares of each cell, as many are kept as p(k) / M says, to one of them."""
    law = law_of(name, 2.0, shape)
    blocks = SegmentSampler(law, 2, law.mode)
    for h, offset in itertools.product((-2, 0, 1), range(4)):
        own, most = blocks._probabilities((h << 2) + offset, h)
        kept = 0
        for i in range(32):
            word = offset << 62 | i << 57 | 1 << 56
            try:
                kept += blocks._accepted_integer(h, word, Replay([])) == (h << 2) + offset
            except OutOfBits:  # turned down: the next word would propose another cell
                continue
        assert abs(kept - 32 * float(own / most)) <= 1


def edge_words(law: Mechanism) -> list[int]:
    """Return words beside the edges of blocks."""
    words = []
    for h in some_blocks(law)[:6]:
        for upper in (True, False):
            edge = int(
                (law.segment_sampler.tail(h, upper) * arb(2) ** 64).floor().unique_fmpz() or 0
            )
            near = [
                edge + side * 2**exponent for exponent in (0, 24, 32, 38, 44) for side in (-1, 1)
            ]
            words += [w if upper else w | 2**63 for w in near if 0 <= w < 2**63]
    return words


def is_slow(law: Mechanism) -> bool:
    """Return whether balls of a law take long: its tests take fewer words."""
    return law.name == "symmetric_alpha_stable" and law.alpha > 1.0


@pytest.mark.share(0.2)
@pytest.mark.parametrize("law", BLOCKED, ids=name_of)
def test_floats_and_balls_give_the_same_draws(law: Mechanism) -> None:
    for i, word in enumerate(edge_words(law)[:: 17 if is_slow(law) else 3]):
        low = int(Keyed(f"low {i}").words(1)[0])
        if i % 3 == 0:
            low |= (
                2 ** (64 - law.segment_sampler.width) - 1
            )  # a share beside 1: floats can't keep it
        by_floats = sample(law, 1, Led([word, low], f"rest {i}"))[0]
        assert by_floats == exact_draw(law, word, Led([low], f"rest {i}"))


@pytest.mark.share(0.5)
@pytest.mark.parametrize("law", [law for law in BLOCKED if law.scale == 2.0**45], ids=name_of)
def test_vectorized_draws_equal_single_draws(law: Mechanism) -> None:
    """With the words of a chunk put in the order of single draws, which each take two of them."""
    n = 200
    words = Keyed("pairs").words(2 * n)
    together = sample(law, n, Replay([int(w) for w in words], fill=ALL_ONES // 3))
    single = [
        sample(law, 1, Replay([int(words[i]), int(words[n + i])], fill=ALL_ONES // 3))[0]
        for i in range(n)
    ]
    assert np.array_equal(together, single)


@pytest.mark.share(0.25)
@pytest.mark.parametrize("law", BLOCKED, ids=name_of)
def test_draws_rarely_need_balls(law: Mechanism, monkeypatch: pytest.MonkeyPatch) -> None:
    """The cost of a draw does not grow with the scale (V91): few tails are asked for."""
    asked = 0
    tail = type(law).tail

    def counted(self: Mechanism, k: int, upper: bool) -> arb:
        nonlocal asked
        asked += 1
        return tail(self, k, upper)

    sample(law, 1, Keyed("tables"))
    monkeypatch.setattr(type(law), "tail", counted)
    stream = Keyed("cost")
    n = 2**16
    sample(law, n, stream)
    assert asked < n / 100
    assert stream.drawn < 2.01 * n


@pytest.mark.share(0.25)
@pytest.mark.parametrize("law", PLAIN, ids=name_of)
def test_low_bits_are_uniform(law: Mechanism) -> None:
    """The last bits of draws, and those up to the width of a block, are uniform to about 1e-6."""
    blocks = law.segment_sampler
    assert blocks is not None
    draws = sample(law, 2**17, Keyed(f"low bits {law}"))
    assert np.max(np.abs(draws)) <= LIMIT
    inner = draws[np.abs(draws) < LIMIT]
    for shift in (0, max(0, blocks.width - 8)):
        counts = np.bincount(inner >> shift & 255, minlength=256)
        assert stats.chisquare(counts).pvalue > ERROR_RATE
    planted = inner & ~np.int64(1)
    assert stats.chisquare(np.bincount(planted & 255, minlength=256)).pvalue < ERROR_RATE


@pytest.mark.share(0.2)
@pytest.mark.parametrize("law", spread([(law,) for law in PLAIN], 0.6), ids=name_of)
def test_two_arms_at_large_scales(law: Mechanism) -> None:
    """Draws agree with their law and disagree with one 3 % off on either side."""
    draws = sample(law, 6 * 10**5, Keyed(f"two arms {law}"))
    assert p_value(draws, law) > ERROR_RATE
    for wrong in (0.97, 1.03):
        assert p_value(draws, replace(law, scale=law.scale * wrong)) < ERROR_RATE


@pytest.mark.parametrize("modular", [False, True])
def test_far_draws_saturate_or_wrap_exactly(modular: bool) -> None:
    """Cauchy noise of scale 2^50 is beyond 2^62 once in 6,000 draws, and may be beyond 2^64."""
    law = law_of("symmetric_alpha_stable", 2.0**50)
    beyond = 0
    for i, low in enumerate(Keyed("far").words(60)):
        word = (1 << (43 + i // 6)) + i % 6 + (i % 2 << 63)  # tails from 2^-21 to 2^-11
        exact = law.segment_sampler.draw(word, Led([int(low)], "rest"))
        beyond += abs(exact) > 2**64
        expected = (exact + 2**63) % 2**64 - 2**63 if modular else max(-LIMIT, min(LIMIT, exact))
        assert sample(law, 1, Led([word, int(low)], "rest"), modular=modular)[0] == expected
        assert exact_draw(law, word, Led([int(low)], "rest"), modular=modular) == expected
    assert beyond > 5


def test_float_bound_is_not_used_outside_its_range() -> None:
    """Far out the density of p = 8 falls more than twice as fast as the bound says."""
    law = wide_law("generalized_gaussian", 2.0**45, {"p": 8.0})
    assert law is not None
    rest = 64 - law.segment_sampler.width
    bound = float(law.largest_relative_drop(np.zeros(1), 2.0**law.segment_sampler.width))
    low = ALL_ONES - int(1.5 * bound * 2**rest)  # the last cell, a share below what is kept
    assert sample(law, 1, Led([1, low], "rest"))[0] == exact_draw(law, 1, Led([low], "rest"))
