"""Group the noisy vectors of a release by kind, bound their loss, and combine normal vectors.

**Normal vectors.** Discrete Gaussian noise is nearly a post-processing of normal noise with a
smaller variance. So all such vectors together are bounded by one normal distribution.

Let K have the probabilities exp(-(k - m)^2 / (2 v)) / S on the integers, for an integer m, and let
w < v. Let Y be normal around m with variance v - w. Publish, instead of Y = y, an integer J with
the probabilities exp(-(J - y)^2 / (2 w)) / Z(y): for every y, this is post-processing of Y. The
integral over y of the product of both exponentials is such an exponential again, so

    P(J = k) = exp(-(k - m)^2 / (2 v)) / sqrt(2 pi v), times sqrt(2 pi w) / Z within their bounds.

By Poisson's summation formula, Z(y) / sqrt(2 pi w) is 1 + 2 sum over j > 0 of exp(-2 pi^2 w j^2)
cos(2 pi j y), which is between 1 - h and 1 + h for h = 2 x / (1 - x), x = exp(-2 pi^2 w). And S /
sqrt(2 pi v) is between 1 and 1 + h, as v > w. So P(K = k) is at most (1 + h) P(J = k), and at least
(1 - h) / (1 + h) P(J = k), for every m. With the first bound for P and the second one for Q, in
each of n cells,

    delta(epsilon) <= (1 + h)^n delta'(epsilon - n ln((1 + h)^2 / (1 - h))),

where delta' is the delta of the normal vectors. Their squares of mu, shift^2 / (v - w), add up over
all cells, also if several parts of a change touch the same cell, and also if the moves depend on
earlier answers.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction

from flint import arb, ctx

from dprelease.errors import BudgetError
from dprelease.mechanisms import registry
from dprelease.mechanisms.randomizer import Randomizer
from dprelease.numerics.balls import ball
from dprelease.privacy.guarantee import Event
from dprelease.privacy.unit import Move, Sensitivity
from dprelease.verification.certificate.closed_forms import upper_end
from dprelease.verification.certificate.neighbour_blocks import (
    START,
    Block,
    BlockOptions,
    ProvenLosses,
)
from dprelease.verification.certificate.proven_losses import proven_losses


@dataclass(frozen=True, slots=True)
class VectorKind:
    """All vectors with one mechanism and one sensitivity; `columns` has the name of each vector.

    Parts of a change that touch different cells have independent noise, and so have different
    vectors. So the composition of distributions that dominate the loss of each part dominates the
    loss of all parts together (Zhu, Dong and Wang 2022, arXiv 2106.08567v4, Theorem 10), also for
    adaptive composition.

    If several parts touch the same cell, their shifts add up there. The largest loss at a shift x +
    y is at most the sum of the largest losses at x and at y. The loss of normal noise, and the
    bound rho of discrete Gaussian noise, depend only on the L2 norm of the shift. No other facts
    about such cells are used.

    If only the sum of all changes is limited (`of_all_rows`), the proof of `Sensitivity` replaces
    the changes of any cells by those of `slots` parts.
    """

    mechanism: Randomizer
    losses: ProvenLosses
    sensitivity: Sensitivity
    columns: tuple[str, ...]

    @property
    def vector_count(self) -> int:
        """Return the number of vectors."""
        return len(self.columns)

    @property
    def parts_can_meet(self) -> bool:
        """Return whether several parts of a change may touch the same cell."""
        return self.sensitivity.meeting > 1

    @property
    def cells_of_unit(self) -> int:
        """Return the number of cells, in all vectors together, that one privacy unit can touch."""
        most = max(move.cells for move in self.sensitivity.moves)
        return self.vector_count * self.sensitivity.slots * most

    @property
    def largest_loss(self) -> Fraction | None:
        """Return a bound of the largest loss of all vectors together; None if unknown."""
        return self._sum_over_worst_moves(self.losses.largest, 1)

    @property
    def largest_loss_of_one(self) -> Fraction | None:
        """Return a bound of the largest loss of one vector; None if unknown."""
        largest = self.largest_loss
        return None if largest is None else largest / self.vector_count

    @property
    def mu_squared(self) -> Fraction | None:
        """Return mu^2 of all vectors together, if normal losses dominate theirs; otherwise None."""
        return self._sum_over_worst_moves(self.losses.mu_squared, self.sensitivity.meeting)

    def mu_squared_for_variance(self, variance: Fraction) -> Fraction | None:
        """Return mu^2 of all vectors together if their noise were normal with this variance."""
        return self._sum_over_worst_moves(
            lambda shift: Fraction(shift**2) / variance, self.sensitivity.meeting
        )

    @property
    def rho(self) -> Fraction | None:
        """Return a closed-form bound of D_a / a, over all orders a, for all vectors together.

        For noise with a largest loss epsilon and without a sharper bound, this is epsilon^2 / 2 for
        each part (Bun and Steinke 2016, arXiv 1605.02065v1, Proposition 1.4).
        """
        if not self.parts_can_meet:
            known = self._sum_over_worst_moves(self.losses.rho, 1)
            if known is not None:
                return known
            return self._sum_over_worst_moves(self._half_squared_loss, 1)
        if self.losses.by_squares:
            return self._sum_over_worst_moves(self.losses.rho, self.sensitivity.meeting)
        largest = self.largest_loss_of_one
        # A vector that is L-DP is L^2 / 2-zCDP, and the rhos of the vectors add up.
        return None if largest is None else self.vector_count * largest**2 / 2

    @property
    def exempt(self) -> Fraction:
        """Return the probability of the outputs of all vectors for which `rho` does not hold."""
        return self.cells_of_unit * self.losses.exempt

    @property
    def is_bounded_by_moments(self) -> bool:
        """Return whether D_a / a is bounded by moments of losses instead of a closed form."""
        # Largest losses are enough: they bound the moments, too.
        known = self.losses.moments is not None or self.largest_loss is not None
        return (
            known
            and not self.parts_can_meet
            and self._sum_over_worst_moves(self.losses.rho, 1) is None
        )

    def _half_squared_loss(self, shift: int) -> Fraction | None:
        """Return half of the squared largest loss at a shift; None if unknown."""
        largest = self.losses.largest(shift)
        return None if largest is None else largest**2 / 2

    def _sum_over_worst_moves(
        self, known: Callable[[int], Fraction | None], times: int
    ) -> Fraction | None:
        """Return the sum of a bound over the worst moves of all parts; None if unknown."""
        worst = Fraction(0)
        for move in self.sensitivity.moves:
            one = known(move.shift)
            if one is None:
                return None
            # A privacy unit makes one of these moves in each slot, so the worst one counts.
            worst = max(worst, move.cells * one)
        return self.vector_count * self.sensitivity.slots * times * worst


def vector_kinds_of(events: Sequence[Event]) -> list[VectorKind]:
    """Return the kinds of recorded vectors, at the current precision of the flint context.

    Raises BudgetError: DP-MECH-001 to 005 for an unknown mechanism or invalid parameters;
    DP-BUDGET-012 if the sensitivity follows from a limit of all rows, and holds only for other
    mechanisms.
    """
    named: dict[tuple[Randomizer, Sensitivity], list[str]] = {}
    for event in events:
        mechanism = registry.mechanism_of_event(event)
        if event.sensitivity.of_all_rows and not mechanism.costs_most_in_few_cells:
            raise BudgetError("DP-BUDGET-012", column=event.column, mechanism=mechanism.name)
        named.setdefault((mechanism, event.sensitivity), []).append(f"{event.query}.{event.column}")
    # All sensitivities of a mechanism share its losses, so its tails are summed once.
    proven = {mechanism: proven_losses(mechanism) for mechanism, _ in named}
    return [
        VectorKind(mechanism, proven[mechanism], sensitivity, tuple(columns))
        for (mechanism, sensitivity), columns in named.items()
    ]


def sum_if_known(parts: Sequence[Fraction | None]) -> Fraction | None:
    """Return the sum of several numbers; None if a number is unknown."""
    return None if None in parts else sum((part or Fraction(0) for part in parts), Fraction(0))


UNSEEN = 35
"""The bounds by h in all cells together cost at most 2 to the power of minus this number."""

PRECISION = 128


@dataclass(frozen=True, slots=True)
class Smoothing:
    """The cost of publishing normal noise as integers, for n cells, as in the module docstring.

    `variance` is w, `raised` is at least (1 + h)^n, and `slack` is at least n ln((1 + h)^2 / (1 -
    h)).
    """

    variance: Fraction
    raised: Fraction
    slack: Fraction


def smoothing_for(cells: int) -> Smoothing:
    """Return a smoothing whose effect on this many cells together is negligible."""
    if not cells:
        return Smoothing(Fraction(0), Fraction(1), Fraction(0))
    with ctx.workprec(PRECISION):
        bits = UNSEEN + cells.bit_length()
        variance = Fraction(bits, 28)  # 2 pi^2 > 28 ln 2: x < 2^-bits
        x = (-2 * arb.pi() ** 2 * ball(variance)).exp()
        h = 2 * x / (1 - x)
        one = (2 * h.log1p() - (-h).log1p()).upper()
        return Smoothing(
            variance, upper_end((cells * h.log1p()).exp()), upper_end(cells * arb(one))
        )


ANY, CLOSE = 2, 2**14
"""The smallest variances of discrete Gaussian noise, as multiples of the variance of its smoothing.
With such a variance, smoothing increases mu^2 by a factor of 1 + 2^-14, which is less than the
error of the planner's grids."""


@dataclass(frozen=True, slots=True)
class NormalVectors:
    """Normal vectors, which together have the shift mu of `mu_squared`, and all other vectors.

    `smoothing` is the cost of treating discrete Gaussian noise as normal noise.
    """

    mu_squared: Fraction
    smoothing: Smoothing
    kinds: tuple[VectorKind, ...]
    others: tuple[VectorKind, ...]

    @property
    def all_kinds(self) -> list[VectorKind]:
        """Return the kinds of all vectors, with the normal vectors combined into one."""
        one = replace(
            self.kinds[0],
            losses=normal_losses(self.mu_squared),
            sensitivity=Sensitivity(1, (Move(1, 1),)),
            columns=("",),
        )
        return [one, *self.others]


def vectors_with_gaussian_noise(kinds: Sequence[VectorKind], least: int) -> NormalVectors | None:
    """Return the vectors with normal or wide discrete Gaussian noise; None if there are none.

    `least`: the smallest variance of wide noise, as a multiple of the variance of its smoothing. If
    parts of a change can meet in a cell, `ANY` replaces it.
    """
    on_integers = [kind for kind in kinds if kind.losses.variance is not None]
    smooth = smoothing_for(sum(kind.cells_of_unit for kind in on_integers))
    total, found, others = Fraction(0), [], []
    for kind in kinds:
        mu_squared = kind.mu_squared
        variance = kind.losses.variance
        if variance is not None:
            wide = ANY if kind.parts_can_meet else least
            if variance >= wide * smooth.variance:
                mu_squared = kind.mu_squared_for_variance(variance - smooth.variance)
        if mu_squared is None:
            others.append(kind)
        else:
            total += mu_squared
            found.append(kind)
    return NormalVectors(total, smooth, tuple(found), tuple(others)) if found else None


def normal_losses(mu_squared: Fraction) -> ProvenLosses:
    """Return the proven losses of N(0, 1) against N(mu, 1).

    The loss at x is mu^2 / 2 - mu x, which decreases in x.
    """

    def block_lists(_shift: int, options: BlockOptions) -> list[list[Block]]:
        """Return the blocks of a normal distribution; its shift is already in mu."""
        if not mu_squared:
            return [[Block(arb(1), arb(1), arb(0), arb(0))]]
        mu = ball(mu_squared).sqrt()
        reach = _negligible_distance(options.least)
        span = 2 * reach
        fine = max(options.fine / math.sqrt(float(mu_squared)), span / options.most)
        parts = max(START, math.ceil(span / fine))
        edges = [ball(-reach + Fraction(span * i, parts)) for i in range(parts + 1)]
        losses = [mu * (mu / 2 - x) for x in edges]
        p, q = _normal_probabilities(edges), _normal_probabilities([x - mu for x in edges])
        pairs = zip(p, q, [*losses, None], [None, *losses], strict=True)
        return [[Block(own, other, low, high) for own, other, low, high in pairs]]

    return ProvenLosses(block_lists, "normal losses", mu_squared=lambda _shift: mu_squared)


def _negligible_distance(least: float) -> int:
    """Return an integer x above which N(0, 1) has a probability of at most `least`.

    This probability is at most exp(-x^2 / 2).
    """
    return math.ceil(math.sqrt(max(0.0, -2.0 * math.log(least)))) + 1


def _normal_probabilities(edges: Sequence[arb]) -> list[arb]:
    """Return the probabilities of N(0, 1) below all edges, between edges, and above all edges."""
    root = arb(2).sqrt()
    upper = [bool(x > 0) for x in edges]
    # The smaller tail at each edge keeps its digits; 1 minus it would lose them.
    signed = zip(edges, upper, strict=True)
    tails = [((x if above else -x) / root).erfc() / 2 for x, above in signed]
    found = [1 - tails[0] if upper[0] else tails[0]]
    for i in range(1, len(edges)):
        if upper[i - 1]:
            found.append(tails[i - 1] - tails[i])
        elif upper[i]:
            found.append(1 - tails[i - 1] - tails[i])
        else:
            found.append(tails[i] - tails[i - 1])
    found.append(tails[-1] if upper[-1] else 1 - tails[-1])
    return found
