"""Prove bounds of the losses of each mechanism, from its record in the manifest.

The losses of the planner are not used. The input is the name of the mechanism, its parameters as
exact rationals, and the balls around its tails that also decide draws.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from fractions import Fraction
from functools import partial
from typing import Any

from flint import arb

from dprelease.mechanisms.randomizer import Randomizer
from dprelease.mechanisms.selection.selection import Selection
from dprelease.numerics.balls import ball
from dprelease.verification.certificate.closed_forms import upper_end
from dprelease.verification.certificate.neighbour_blocks import (
    Block,
    BlockOptions,
    Known,
    MirroredLaw,
    Moments,
    ProvenLosses,
    ShiftedLaw,
    Tails,
    binary_blocks,
    unknown_bound,
)
from dprelease.verification.certificate.offset_weights import (
    LARGEST_SCALE,
    OffsetMoments,
    SummedTails,
    falling_loss,
)
from dprelease.verification.certificate.stable_losses import StableLosses

FALLING = (
    "log-concave masses on the integers: losses fall from one to the next, and the move by the "
    "whole sensitivity covers smaller ones (Prekopa 1973 where the law is rounded)"
)
MASSES = "masses that never rise away from 0: the move by the whole sensitivity covers smaller ones"
STAIRS = "three losses, whose masses are in closed form (Geng and Viswanath 2012, arXiv 1212.1186)"
RESPONSE = "three losses, of the value and of any two others (Kairouz, Oh and Viswanath 2014)"
BIT = (
    "the law of one bit covers whatever loses no more (Kairouz, Oh and Viswanath 2015, Theorem 10)"
)
KEY_FOUND = "the key of one unit is found with the probability of the tail above the threshold"
CAUCHY = "the largest loss of Cauchy noise is 2 asinh(s / (2 scale)) (Zawacki and Abed, eq. 73)"
MIXTURE = (
    "stable noise is normal noise of a random variance: the logarithm of its density is convex in "
    "the square of the noise, which bounds losses between outputs"
)


def proven_losses(mechanism: Randomizer) -> ProvenLosses:
    """Return proven losses of a mechanism, at the current precision of the flint context."""
    if isinstance(mechanism, Selection):
        return _choice_losses(mechanism)
    known = KNOWN.get(mechanism.name)
    return NOTHING if known is None else known(mechanism)


def _single_block(_shift: int, _options: BlockOptions) -> list[list[Block]]:
    """Return one block with all outputs, without a bound of the loss."""
    return [[Block(arb(1), arb(0))]]


# Not tight, so that a claim about this mechanism stays open, and is not refused.
NOTHING = ProvenLosses(_single_block, "nothing is proved about this mechanism", tight=False)


def _log_concave_losses(
    mechanism: Any,
    tails: Tails | None = None,
    *,
    losses: Callable[[int], Callable[[int], arb]] | None = None,
    largest: Known = unknown_bound,
    usual: Known = unknown_bound,
    mu_squared: Known = unknown_bound,
    rho: Known = unknown_bound,
    variance: Fraction | None = None,
    moments: Moments | None = None,
) -> ProvenLosses:
    """Return the proven losses of noise with log-concave probabilities, whose losses decrease.

    `tails` replaces the tails of the mechanism. `losses` returns, for a move by a number of steps,
    the function from an output to its loss, if this has a closed form.
    """
    middle = int(getattr(mechanism, "mode", 0))

    def block_lists(shift: int, options: BlockOptions) -> list[list[Block]]:
        """Return the blocks of a move upwards and, if it differs, of one downwards."""
        of_one = None if losses is None else losses(shift)
        up = ShiftedLaw(tails or mechanism, shift, middle, largest(shift), of_one)
        if mechanism.is_symmetric:
            return [up.blocks(options)]
        down = ShiftedLaw(MirroredLaw(mechanism), shift, -middle, largest(shift))
        return [up.blocks(options), down.blocks(options)]

    squares = mu_squared is not unknown_bound or rho is not unknown_bound
    return ProvenLosses(
        block_lists,
        FALLING,
        largest,
        usual if largest is unknown_bound else largest,
        mu_squared,
        rho,
        by_squares=squares,
        variance=variance,
        moments=moments,
    )


def _shift_over_scale(scale: Fraction) -> Known:
    """Return the function shift / scale, the largest loss of an exponential distribution."""
    return lambda shift: shift / scale


def _squared_shift_over(variance: Fraction) -> Known:
    """Return the function shift^2 / variance."""
    return lambda shift: shift**2 / variance


def _laplace_losses(mechanism: Any) -> ProvenLosses:
    """Return the losses of discrete, rounded or asymmetric Laplace noise.

    `scale` is that of the steeper side.
    """
    return _log_concave_losses(mechanism, largest=_shift_over_scale(Fraction(mechanism.scale)))


def _gaussian_losses(mechanism: Any) -> ProvenLosses:
    """Return the losses of rounded normal noise, which is post-processing of N(0, scale^2)."""
    variance = Fraction(mechanism.scale) ** 2
    return _log_concave_losses(
        mechanism, mu_squared=_squared_shift_over(variance), rho=_squared_shift_over(2 * variance)
    )


def _truncated_laplace_losses(mechanism: Any) -> ProvenLosses:
    """Return the losses of truncated Laplace noise: losses above shift / scale are infinite."""
    return _log_concave_losses(mechanism, usual=_shift_over_scale(Fraction(mechanism.scale)))


def _generalized_gaussian_losses(mechanism: Any) -> ProvenLosses:
    """Return the losses of generalized normal noise of any order p."""
    scale = Fraction(mechanism.scale)
    if mechanism.p == 1:
        return _log_concave_losses(mechanism, largest=_shift_over_scale(scale))
    if mechanism.p == 2:  # normal noise with the standard deviation scale / sqrt(2)
        return _log_concave_losses(
            mechanism,
            mu_squared=_squared_shift_over(scale**2 / 2),
            rho=_squared_shift_over(scale**2),
        )
    return _log_concave_losses(mechanism)


def _integer_gaussian_losses(mechanism: Any) -> ProvenLosses:
    """Return the losses of integers with weights exp(-(k / scale)^2 / 2 - offset |k| / scale).

    With offset 0 this is discrete Gaussian noise, whose rho is shift^2 / (2 scale^2) (Canonne,
    Kamath and Steinke 2020, arXiv 2004.00010v5, Theorem 4).
    """
    scale, offset = Fraction(mechanism.scale), Fraction(mechanism.offset)
    # Wider noise has too many weights to sum; then the mechanism's own balls are used.
    tails = SummedTails(scale, offset) if scale <= LARGEST_SCALE else None
    losses = partial(falling_loss, scale, offset)
    if offset:
        moments = OffsetMoments(scale, offset, integers=True)
        return _log_concave_losses(mechanism, tails, losses=losses, moments=moments)
    known = _squared_shift_over(2 * scale**2)
    return _log_concave_losses(mechanism, tails, losses=losses, rho=known, variance=scale**2)


def _offset_gaussian_losses(mechanism: Any) -> ProvenLosses:
    """Return the losses of rounded offset-symmetric Gaussian noise."""
    scale, offset = Fraction(mechanism.scale), Fraction(mechanism.ratio)
    return _log_concave_losses(mechanism, moments=OffsetMoments(scale, offset, integers=False))


def _staircase_losses(mechanism: Any) -> ProvenLosses:
    """Return the losses of staircase noise, with stairs of `width`.

    Rounded noise is post-processing of continuous noise, which has three losses for a move of at
    most one width. The probability A of the largest loss follows from the total variation A (1 -
    b), b = exp(-width / scale), which is the probability of |Y| <= shift / 2 for a unimodal
    symmetric distribution. Larger moves are divided into several moves, whose losses add up.
    """
    width, scale, gamma = (
        Fraction(mechanism.width),
        Fraction(mechanism.scale),
        Fraction(mechanism.gamma),
    )

    def largest(shift: int) -> Fraction:
        """Return the sum of the losses of the moves into which a move by `shift` is divided."""
        return math.ceil(shift / width) * width / scale

    def block_lists(shift: int, _options: BlockOptions) -> list[list[Block]]:
        """Return the blocks of three losses; of two, for moves that are divided."""
        if shift > width:
            return [binary_blocks(largest(shift))]
        half = Fraction(shift) / (2 * width)
        fall, top = (-ball(width / scale)).exp(), ball(width / scale)
        inside = ball(min(half, gamma)) + fall * ball(max(half - gamma, Fraction(0)))
        share = inside / (ball(gamma) + fall * ball(1 - gamma))
        middle = (1 - share * (1 + fall)).max(arb(0))
        return [
            [
                Block(share, share * fall, top, top),
                Block(middle, middle, arb(0), arb(0)),
                Block(share * fall, share, -top, -top),
            ]
        ]

    return ProvenLosses(block_lists, STAIRS, largest, largest)


def _whole_weight_losses(mechanism: Any) -> ProvenLosses:
    """Return the losses of noise that is defined by integer weights, with one block per output.

    The weights never increase with the distance from 0.
    """
    masses = mechanism.masses
    total = 2 * sum(masses) - masses[0]

    def block_lists(shift: int, _options: BlockOptions) -> list[list[Block]]:
        """Return one block for each output with a positive probability."""
        blocks = []
        for k in range(1 - len(masses), len(masses)):
            moved = abs(k - shift)
            p = ball(Fraction(masses[abs(k)], total))
            if moved >= len(masses):
                blocks.append(Block(p, arb(0)))
                continue
            ratio = ball(Fraction(masses[abs(k)], masses[moved])).log()
            q = ball(Fraction(masses[moved], total))
            blocks.append(Block(p, q, ratio, ratio))
        return [blocks]

    return ProvenLosses(block_lists, MASSES, usual=_shift_over_scale(Fraction(mechanism.scale)))


def _stable_losses(mechanism: Any) -> ProvenLosses:
    """Return the losses of rounded stable noise, from those of the continuous noise."""
    scale = Fraction(mechanism.scale)

    def largest(shift: int) -> Fraction:
        """Return an upper bound of the losses of a move by `shift` steps."""
        if mechanism.alpha == 1:
            return upper_end(2 * ball(shift / (2 * scale)).asinh())
        return StableLosses(mechanism.alpha, shift / scale).largest()

    def block_lists(shift: int, options: BlockOptions) -> list[list[Block]]:
        """Return the blocks of a move in one direction; the other one has the same losses."""
        losses = StableLosses.at_precision_of(mechanism.alpha, shift / scale, options.least)
        return [losses.blocks(options, ball(largest(shift)))]

    return ProvenLosses(block_lists, CAUCHY if mechanism.alpha == 1 else MIXTURE, largest)


def _response_losses(mechanism: Any) -> ProvenLosses:
    """Return the losses of randomized response among n values.

    Its probabilities are p = 1 / (1 + (n - 1) exp(-epsilon)) for the true value, and q =
    exp(-epsilon) p for every other value.
    """
    epsilon, values = 1 / Fraction(mechanism.scale), int(mechanism.values)

    def block_lists(_shift: int, _options: BlockOptions) -> list[list[Block]]:
        """Return the blocks of the true value, of the value after the change, and of all others."""
        loss, fall = ball(epsilon), (-ball(epsilon)).exp()
        keep = 1 / (1 + (values - 1) * fall)
        other, rest = keep * fall, (values - 2) * keep * fall
        return [
            [
                Block(keep, other, loss, loss),
                *([Block(rest, rest, arb(0), arb(0))] if values > 2 else []),
                Block(other, keep, -loss, -loss),
            ]
        ]

    return ProvenLosses(block_lists, RESPONSE, lambda _shift: epsilon, lambda _shift: epsilon)


def _choice_losses(mechanism: Any) -> ProvenLosses:
    """Return the losses of a choice among candidates, which are at most shift / scale.

    For the exponential mechanism D_a / a is at most an eighth of the square of this loss (Cesar and
    Rogers 2021, arXiv 2004.07223v4), for other mechanisms half of the square (Bun and Steinke 2016,
    Proposition 1.4).
    """
    largest = _shift_over_scale(Fraction(mechanism.scale))
    part = 8 if mechanism.has_bounded_range else 2

    def block_lists(shift: int, _options: BlockOptions) -> list[list[Block]]:
        """Return the blocks of a binary output with the largest loss, shift / scale."""
        return [binary_blocks(shift / Fraction(mechanism.scale))]

    return ProvenLosses(
        block_lists,
        BIT,
        largest,
        largest,
        rho=lambda shift: (shift / Fraction(mechanism.scale)) ** 2 / part,
    )


def _key_selection_losses(mechanism: Any) -> ProvenLosses:
    """Return the losses of a key selection: (1 / scale, delta) for each key.

    Source: Desfontaines et al. 2020, Theorem 1.
    """
    epsilon, chance = 1 / Fraction(mechanism.scale), Fraction(mechanism.delta)

    def block_lists(_shift: int, _options: BlockOptions) -> list[list[Block]]:
        """Return the blocks of a binary output that reveals all with probability delta."""
        return [binary_blocks(epsilon, chance)]

    return ProvenLosses(
        block_lists,
        BIT,
        usual=lambda _shift: epsilon,
        rho=lambda _shift: epsilon**2 / 2,
        exempt=chance,
    )


def _threshold_losses(mechanism: Any) -> ProvenLosses:
    """Return the losses of a key that discrete Gaussian noise and a threshold select.

    A key of several units loses what the noise loses. A key of one unit is selected if the noise is
    at least `threshold` - 1, which reveals everything; otherwise nothing is lost.
    """
    noise = _integer_gaussian_losses(mechanism)
    tails = (
        SummedTails(Fraction(mechanism.scale), Fraction(0))
        if mechanism.scale <= LARGEST_SCALE
        else mechanism
    )
    chance = upper_end(tails.tail(int(mechanism.threshold) - 1, True))

    def block_lists(shift: int, options: BlockOptions) -> list[list[Block]]:
        """Return the blocks of a key of several units, and of a key of one unit."""
        return [*noise.block_lists(shift, options), binary_blocks(Fraction(0), chance)]

    return ProvenLosses(
        block_lists,
        f"{noise.theorem}; {KEY_FOUND}",
        usual=noise.usual,
        rho=noise.rho,
        exempt=chance,
    )


KNOWN: dict[str, Callable[[Any], ProvenLosses]] = {
    "asymmetric_laplace": _laplace_losses,
    "discrete_gaussian": _integer_gaussian_losses,
    "discrete_laplace": _laplace_losses,
    "discrete_offset_symmetric_gaussian": _integer_gaussian_losses,
    "gaussian": _gaussian_losses,
    "gaussian_threshold": _threshold_losses,
    "generalized_gaussian": _generalized_gaussian_losses,
    "laplace": _laplace_losses,
    "offset_symmetric_gaussian": _offset_gaussian_losses,
    "optimal": _whole_weight_losses,
    "partition_selection": _key_selection_losses,
    "randomized_response": _response_losses,
    "staircase": _staircase_losses,
    "symmetric_alpha_stable": _stable_losses,
    "truncated_laplace": _truncated_laplace_losses,
}
