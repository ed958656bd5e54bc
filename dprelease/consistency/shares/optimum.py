"""Find the best shares of the budget for an aim, with a bound on their distance from optimal.

The program (see `barrier`) needs second derivatives, which are cheap on a few hundred classes of
areas and expensive on hundreds of thousands. It is therefore solved on an averaged shape, corrected
so that values and slopes agree with the tree itself at the last shares: r(w) ~ s m(w) + d w, m the
function on the averaged shape. Each round needs slopes of the whole tree once; where the tree is
small, nothing is averaged. The result is evaluated on the tree itself:

**Certificate.** Let h = sum_j y_j r_j, y the weights of the means plus multipliers of the limits,
any that are not negative. h is convex, and h(2 w) = h(w) / 2, so that for all shares w' of sum 1
and all s > 0
    h(w') = s h(s w') >= s (h(w) + grad h(w) (s w' - w)) >= s (2 h(w) - s M),
M = max_i (-dh/dw_i), as grad h(w) w = -h(w). At s = h / M this is h(w)^2 / M: no shares have less.
The least greatest r is then at least h^2 / M for multipliers of sum 1, and the least weighted sum
under limits r_j <= 1 at least h^2 / M - sum of the multipliers. (Frank and Wolfe's bound, sharpened
by the scaling. At the optimum M = h, and the bound is the optimum.)
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

import numpy as np

from dprelease.consistency.fixed_point import Floats, Whole
from dprelease.consistency.shares.barrier import Program, minimise
from dprelease.consistency.shares.design import Design, Placed
from dprelease.consistency.shares.jets import BENDS, SLOPES
from dprelease.consistency.shares.shape_variances import unknown
from dprelease.consistency.shares.shapes import Mask, Shape
from dprelease.consistency.shares.share_functions import MEAN, Row, RowValues, ShareFunctions

CLASSES = 250  # of an averaged shape
ROUNDS = 25
NEAR = 2e-5  # of the bound, where the search ends; rounding the shares may cost as much again
_ACCURACY = 2e-6  # of a solved program
_ROOM = 2e-7  # margin by which limits are over-fulfilled, so that rounded shares still satisfy them
_WORSE = 1e-6  # what makes another area the worst
_SLOW, _STILL = 0.9, 3  # rounds that leave so much of the gap, and how many end the search


@dataclass(frozen=True)
class Aim:
    """The objective of the shares.

    Parameters
    ----------
    weights
        Of the mean variance of a table's cells over the areas of a level; their sum is minimised.
    limits
        Of a table's variance at every area of a level. Without weights the greatest ratio of a
        variance to its limit is minimised; with weights all limits are constraints.
    """

    weights: Mapping[Placed, float] = field(default_factory=dict)
    limits: Mapping[Placed, float] = field(default_factory=dict)


@dataclass(frozen=True)
class EvaluatedShares:
    """Shares and the variances that they achieve on the tree itself.

    Parameters
    ----------
    shares
        Of sum 1.
    total
        The weighted sum of mean variances; 0 without weights.
    parts
        Of each limit, the greatest part of it that a variance has.
    """

    shares: Floats
    total: float
    parts: dict[Placed, float]

    @property
    def greatest(self) -> float:
        """Return the greatest of the parts; 0 without limits."""
        return max(self.parts.values(), default=0.0)


def evaluate_shares(design: Design, aim: Aim, shares: Floats) -> EvaluatedShares:
    """Return the variances of shares, infinite if a table becomes unknown; shares may be 0."""
    on_tree = ShareFunctions(design, design.shape, [])
    means = on_tree.means(shares, list(aim.weights))
    worst = on_tree.greatest(shares, list(aim.limits))
    total = sum(weight * means[placed] for placed, weight in aim.weights.items())
    parts = {placed: variance / aim.limits[placed] for placed, (_, variance) in worst.items()}
    return EvaluatedShares(shares, float(total), parts)


def bound_of(factors: Floats, found: RowValues) -> float:
    """Return a lower bound of a weighted sum of rows, for any shares."""
    total = float(factors @ found.values)
    steepest = float((-(factors @ found.slopes)).max())
    return total * total / steepest if steepest > 0 else 0.0


class Search:
    """The rounds of one aim.

    Parameters
    ----------
    design, aim
        All tables of the aim have to be estimable, and one of them has to be in doubt.
    penalty
        The penalty of a violated limit, in units of the objective; for aims of both kinds.
    """

    def __init__(self, design: Design, aim: Aim, penalty: float = 1e3) -> None:
        self.design, self.aim, self.penalty = design, aim, penalty
        self.model = simplify_shape(design)
        self.rows = [Row(placed, MEAN) for placed in aim.weights]
        self.likes = list(self.rows)  # the rows' classes in the model
        self.bound = 0.0
        self.rounds = 0

    def run(self, start: Floats) -> EvaluatedShares:
        """Return the best shares found; `bound` is then a lower bound for all shares."""
        shares, multipliers = start / start.sum(), np.zeros(0)
        best: EvaluatedShares | None = None
        still, gap = 0, np.inf
        for self.rounds in range(1, ROUNDS + 1):
            here, found = self._look(shares)
            self._raise_bound(found, multipliers)
            worse = best is not None and self.merit(here) > self.merit(best)
            if best is None or not worse:
                best = here
            last, gap = gap, self.merit(best) / max(self.bound, 1e-300) - 1
            still = still + 1 if gap > last * _SLOW else 0
            if gap <= NEAR or still == _STILL:
                break
            if worse and self.rounds > 2:  # the model led too far
                shares = (shares + best.shares) / 2
                continue
            shares, multipliers = self._next(shares, here, found)
        assert best is not None
        return best

    def merit(self, of: EvaluatedShares) -> float:
        """Return the objective, including the penalty of violated limits."""
        if not self.aim.weights:
            return of.greatest
        return of.total * (1 + self.penalty * max(0.0, of.greatest - 1))

    def _factors(self) -> Floats:
        """Return the factor of each row's variance that scales its limit to 1."""
        limits = self.aim.limits
        room = 1 - _ROOM if self.aim.weights else 1.0
        return np.array(
            [1.0 if r.node == MEAN else 1 / (limits[r.placed] * room) for r in self.rows]
        )

    def _weights(self) -> Floats:
        return np.array(
            [self.aim.weights[r.placed] if r.node == MEAN else 0.0 for r in self.rows], float
        )

    def _look(self, shares: Floats) -> tuple[EvaluatedShares, RowValues]:
        """Return the variances of shares, and all rows there; add the currently worst areas."""
        parts = self._worst(shares) if self.aim.limits else {}
        on_tree = ShareFunctions(self.design, self.design.shape, self.rows)
        found = on_tree.at(shares, SLOPES)
        return EvaluatedShares(shares, float(self._weights() @ found.values), parts), found

    def _worst(self, shares: Floats) -> dict[Placed, float]:
        """Return the greatest ratio of a variance to each limit; add the areas that have it."""
        on_tree = ShareFunctions(self.design, self.design.shape, self.rows)
        known = dict.fromkeys(self.aim.limits, 0.0)
        for row, value in zip(self.rows, on_tree.at(shares).values, strict=True):
            if row.node != MEAN:
                known[row.placed] = max(float(value), known[row.placed])
        worst = on_tree.greatest(shares, list(self.aim.limits))
        self._watch(
            shares, {at: one for at, one in worst.items() if one[1] > known[at] * (1 + _WORSE)}
        )
        return {at: variance / self.aim.limits[at] for at, (_, variance) in worst.items()}

    def _watch(self, shares: Floats, new: Mapping[Placed, tuple[int, float]]) -> None:
        """Add rows for classes of areas with their variances."""
        likes = {placed: node for placed, (node, _) in new.items()}
        if self.model is not self.design.shape:
            on_model = ShareFunctions(self.design, self.model, [])
            likes = on_model.nearest(shares, {at: variance for at, (_, variance) in new.items()})
        self.rows += [Row(placed, node) for placed, (node, _) in new.items()]
        self.likes += [Row(placed, likes[placed]) for placed in new]

    def _limit_mask(self) -> Mask:
        return np.array([row.node != MEAN for row in self.rows], bool)

    def _raise_bound(self, found: RowValues, multipliers: Floats) -> None:
        """Raise `bound` to the bound that the rows' slopes at these shares prove.

        Multipliers are those of precisions, dp = -dr / r^2.
        """
        factors, weights = self._factors(), self._weights()
        pressed = np.zeros(len(self.rows))
        pressed[: len(multipliers)] = multipliers
        pressed = np.where(self._limit_mask(), pressed / (factors * found.values) ** 2, 0.0)
        if not self.aim.weights:
            if not pressed.any():
                return
            pressed /= pressed.sum()
        proved = bound_of(factors * (weights + pressed), found)
        if self.aim.weights:
            proved -= float(pressed.sum()) / (1 - _ROOM)
        self.bound = max(self.bound, proved)

    def _next(
        self, shares: Floats, here: EvaluatedShares, found: RowValues
    ) -> tuple[Floats, Floats]:
        """Return the model's best shares and multipliers."""
        factors, limited = self._factors(), self._limit_mask()
        model = ShareFunctions(self.design, self.model, self.likes)
        if self.aim.weights:
            scale, budget, penalty = here.total, 1.0, self.penalty
        else:  # the least part of this budget that keeps limits `greatest` times as large
            scale, budget, penalty = 1.0, 0.0, 1.0
            factors = factors / here.greatest
        rows = CorrectedRows(model, shares, found, factors, limited, exactly=self.rounds > 1)
        program = Program(rows, self._weights() / scale, limited, budget, penalty)
        optimum = minimise(program, shares, _ACCURACY)
        return optimum.shares / optimum.shares.sum(), optimum.multipliers * scale


class CorrectedRows:
    """Rows on the model, with values and slopes of the tree at some shares.

    Parameters
    ----------
    model
        The same rows on an averaged shape.
    shares, found
        Where the tree's rows are known.
    factors
        What each variance is multiplied by.
    limited
        Rows of which the precision is meant, 1 / variance.
    exactly
        Whether slopes are put right too; far from the optimum the model is better without.
    """

    def __init__(
        self,
        model: ShareFunctions,
        shares: Floats,
        found: RowValues,
        factors: Floats,
        limited: Mask,
        exactly: bool,
    ) -> None:
        self.model, self.limited = model, limited
        one, other = model.at(shares, SLOPES), found
        ratio = np.divide(other.values, one.values, out=np.ones(len(factors)), where=one.values > 0)
        self.scale = factors * ratio
        apart = factors[:, None] * other.slopes - self.scale[:, None] * one.slopes
        steep = np.where(limited, -1 / (factors * other.values) ** 2, 1.0)  # of 1 / r by r
        self.linear = steep[:, None] * apart * (1.0 if exactly else 0.0)

    def values(self, w: Floats) -> Floats:
        """Return (rows,)."""
        found = self.scale * self.model.at(w).values
        turned: Floats = np.where(self.limited, 1 / found, found) + self.linear @ w
        return turned

    def values_and_derivatives(
        self, w: Floats
    ) -> tuple[Floats, Floats, Callable[[Floats], Floats]]:
        """Return values, slopes, and a function for the second derivatives of a sum of rows."""
        found = self.model.at(w, BENDS)
        plain = self.scale * found.values
        steep = np.where(self.limited, -1 / plain**2, 1.0)
        values = np.where(self.limited, 1 / plain, plain) + self.linear @ w
        slopes = self.scale[:, None] * found.slopes
        turned = steep[:, None] * slopes + self.linear

        def bent(factors: Floats) -> Floats:
            both = np.where(self.limited, 2 * factors / plain**3, 0.0)
            straight = self.model.bent(found, factors * steep * self.scale)
            whole: Floats = straight + (slopes * both[:, None]).T @ slopes
            return whole

        return values, turned, bent


def simplify_shape(design: Design) -> Shape:
    """Return a shape of few classes: that of the design where it is small enough."""
    shape = design.shape
    if shape.size <= CLASSES:
        return shape
    sources = design.sources(np.ones(len(design.items)))
    lost = unknown(shape, sources)
    kinds = [
        _kinds(shape, level, lost.below[level], lost.children[level])
        for level in range(shape.levels)
    ]
    for parts in (8, 6, 5, 4, 3, 2):
        found = shape.merge_siblings(kinds, parts)
        if found.size <= CLASSES:
            return found
    return shape.merge_siblings(kinds, 1)


def _kinds(shape: Shape, level: int, below: Mask, children: Floats) -> Whole:
    """Return a number for each class: which spaces are unknown there, and whether it is a leaf."""
    kind = np.ones(shape.counts[level], np.int64)
    kind[shape.inner(level)] = 0
    for free, among in zip(below.T, children.T, strict=True):
        which = free + 2 * np.minimum(among, 2)
        if (which != which[0]).any():
            kind = np.unique(kind * 6 + which.astype(np.int64), return_inverse=True)[1]
    return kind
