"""Covariances, correlations and regressions, with intervals, from a noisy matrix of moments.

The matrix G of `query/forms/joint_moments.py` is linear in the noisy vectors: G = sum of T_p v_p
over the parts p, with constant matrices T_p. So is its error, in the noise of the parts.

Covariances and correlations. With t the means, u = (-t_x, 1, 0) and v = (-t_y, 0, 1), the centred
moments are C = u'Gv, V_x = u'Gu and V_y = v'Gv. A correlation r is the root of
C - r (k V_x + V_y / k) / 2 for k^2 = V_y / V_x, and a covariance that of C - r (N - 1). For the
true r, t and k, the left sides are the noise u'(dG)v and so on, which is linear. At the true t and
k, the derivatives with respect to both are 0. So noisy means t + d change the left side by products
of two errors only: N d_x d_y for C, and N d_x^2 for V_x. These products are bounded by the margins
of the means. The interval contains all r for which the left side is within the quantile of the
noise, plus these bounds (Fieller 1954). The bounds hold as often as the confidence says, and a
product reaches its bound much more rarely; `tests/postprocess/test_joint_moments.py` shows that
intervals contain the truth at least as often as declared, in cells of all sizes.

Regressions. The coefficients b solve A b = m, for the noisy parts A and m of G. With noise dG, the
error is exactly A^-1 (dm - dA b) for the true b (Fuller 1987, Measurement error models, 1.2): it is
linear in the noise. The interval is the quantile of this noise at the noisy b, with the
coefficients enlarged by the error that b itself may have. There is no value where A is not clearly
positive definite: where the noisy count, or what remains of the variation of a predictor after the
others, is not larger than its own margin.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from dprelease.mechanisms.base import Mechanism
from dprelease.numerics.lattice import Flags, Floats
from dprelease.postprocess.estimates import (
    Ends,
    FractionArithmetic,
    Vectors,
    estimates_in_batches,
    values_at_ends,
    values_in_batches,
)
from dprelease.postprocess.margins import Estimates
from dprelease.postprocess.noise_table import noise_width
from dprelease.query.aggregates.aggregate import narrow_aggregate
from dprelease.query.aggregates.product_sum import ProductSum
from dprelease.query.aggregates.sum import Sum
from dprelease.query.forms.joint_moments import (
    CORRELATION,
    COVARIANCE,
    COVARIANCE_POP,
    INTERCEPT,
    SLOPE,
    entries_of,
)
from dprelease.query.measurement import Form, OutputColumn

HALVINGS = 40


@dataclass(frozen=True)
class JointMoments:
    """Noisy moments of several columns, each divided by half of the range of the column.

    `matrix` is G (n, size, size), `tensor` are the T_p (parts, size, size), `sums` the centred sums
    of the columns, and `halves` half of the range of each column in steps, after a 1.
    """

    matrix: Floats
    tensor: Floats
    sums: tuple[Sum, ...]
    halves: Floats

    @classmethod
    def of(cls, column: OutputColumn, vectors: Vectors) -> JointMoments:
        """Return the moments of a column's parts."""
        entries = entries_of(column)
        size = 1 + max(j for _, j in entries)
        sums = tuple(
            narrow_aggregate(part.aggregate, Sum)
            for (i, j), part in zip(entries, column.parts, strict=True)
            if i == 0 < j
        )
        # Columns of unlike size would make the matrix ill-conditioned, and its least eigenvalue
        # meaningless.
        halves = np.array([1.0, *((one.upper - one.lower) / 2 or 1.0 for one in sums)])
        tensor = np.zeros((len(entries), size, size))
        for p, ((i, j), part) in enumerate(zip(entries, column.parts, strict=True)):
            scale = 1.0 / (halves[i] * halves[j])
            if i > 0:
                product = narrow_aggregate(part.aggregate, ProductSum)
                scale *= product.coarse
                tensor[0, i, j] += product.offset * scale
                tensor[0, j, i] = tensor[0, i, j]
            tensor[p, i, j] += scale
            tensor[p, j, i] = tensor[p, i, j]
        noised = np.array([vectors[part.name] for part in column.parts], dtype=np.float64)
        return cls(np.einsum("pij,pn->nij", tensor, noised), tensor, sums, halves)

    @property
    def count(self) -> Floats:
        """Return the noisy numbers of rows (n,)."""
        return self.matrix[:, 0, 0]

    def form_values(self, left: Floats, right: Floats) -> Floats:
        """Return left' G right (n,) of vectors (n, size)."""
        values: Floats = np.einsum("ni,nij,nj->n", left, self.matrix, right)
        return values

    def coefficients(self, left: Floats, right: Floats) -> Floats:
        """Return the coefficients (parts, n) of the noise in left' G right."""
        found: Floats = np.einsum("ni,pij,nj->pn", left, self.tensor, right)
        return found


@dataclass(frozen=True)
class PairMoments:
    """Centred moments of two columns: u, v (n, 3), C, V_x, V_y and the divisor's k (n,)."""

    joint: JointMoments
    u: Floats
    v: Floats
    cross: Floats
    x: Floats
    y: Floats

    @classmethod
    def of(cls, joint: JointMoments) -> PairMoments:
        """Return the centred moments; NaN where the noisy count is below 2."""
        count = np.where(joint.count >= 2.0, joint.count, math.nan)
        means = [
            np.clip(joint.matrix[:, 0, i] / count, one.least / half, one.most / half)
            for i, one, half in zip((1, 2), joint.sums, joint.halves[1:], strict=True)
        ]
        one, none = np.ones_like(count), np.zeros_like(count)
        u = np.stack((-means[0], one, none), axis=1)
        v = np.stack((-means[1], none, one), axis=1)
        moments = (joint.form_values(a, b) for a, b in ((u, v), (u, u), (v, v)))
        return cls(joint, u, v, *moments)

    def mean_errors(self, mechanisms: tuple[Mechanism, ...], confidence: float) -> list[Floats]:
        """Return the margins (n,) of both means."""
        width = noise_width(mechanisms, confidence)
        first = np.zeros_like(self.u)
        first[:, 0] = 1.0
        count = np.maximum(self.joint.count, 1.0)
        return [width.of(self.joint.coefficients(first, side)) / count for side in (self.u, self.v)]


Widths = Callable[[Floats], Floats]


def _compatible(values: Floats, divisor: Floats, end: float, width: Widths) -> Floats:
    """Return the r (n,) farthest from `values` towards `end` with |r - value| divisor <= width(r).

    The width is convex, so r is found by halving; `end` itself counts if it is compatible.
    """
    # `far` is returned: the end that may be slightly too far, never too near.
    near, far = values.copy(), np.full_like(values, end)
    for _ in range(HALVINGS):
        middle = (near + far) / 2
        fits = np.abs(middle - values) * divisor <= width(middle)
        near, far = np.where(fits, middle, near), np.where(fits, far, middle)
    return far


def _correlation_terms(
    pair: PairMoments, errors: list[Floats]
) -> tuple[Floats, Callable[[Floats], tuple[Floats, Floats]]]:
    """Return the divisors (n,), and a function of r that returns coefficients and slack."""
    positive = (pair.x > 0.0) & (pair.y > 0.0)
    ratio = np.sqrt(np.where(positive, pair.y / np.where(positive, pair.x, 1.0), 1.0))
    divisor = np.sqrt(np.where(positive, pair.x * pair.y, math.nan))
    joint, n = pair.joint, pair.joint.count
    cross = joint.coefficients(pair.u, pair.v)
    spread = ratio * joint.coefficients(pair.u, pair.u)
    spread += joint.coefficients(pair.v, pair.v) / ratio

    def terms(r: Floats) -> tuple[Floats, Floats]:
        """Return the coefficients (parts, n) of the noise, and the bound (n,) of products."""
        squares = ratio * errors[0] ** 2 + errors[1] ** 2 / ratio
        return cross - r / 2 * spread, n * (errors[0] * errors[1] + np.abs(r) / 2 * squares)

    return divisor, terms


def _covariance_terms(
    pair: PairMoments, errors: list[Floats], ddof: int
) -> tuple[Floats, Callable[[Floats], tuple[Floats, Floats]]]:
    """Return the divisors (n,), and a function of r that returns coefficients and slack."""
    joint, n = pair.joint, pair.joint.count
    cross = joint.coefficients(pair.u, pair.v)

    def terms(r: Floats) -> tuple[Floats, Floats]:
        """Return the coefficients (parts, n) of the noise, and the bound (n,) of products."""
        coefficients = cross.copy()
        coefficients[0] -= r
        return coefficients, n * errors[0] * errors[1]

    return np.where(n >= 2.0, n - ddof, math.nan), terms


def _ddof(column: OutputColumn) -> int:
    """Return what is subtracted from the number of rows in the divisor of a covariance."""
    return 0 if column.form == COVARIANCE_POP else 1


def _is_correlation(column: OutputColumn) -> bool:
    """Return whether a column is a correlation, and no covariance."""
    return column.form == CORRELATION


def _largest(column: OutputColumn) -> float:
    """Return the largest value, with both columns divided by half of their range."""
    return 1.0 if _is_correlation(column) or _ddof(column) == 0 else 2.0


def _pair_scale(column: OutputColumn) -> float:
    """Return the factor from columns divided by half of their range to the column's unit."""
    if _is_correlation(column):
        return 1.0
    sums = [part.aggregate for part in column.parts[1:3]]
    found = 1.0
    for one in (narrow_aggregate(total, Sum) for total in sums):
        found *= (one.upper - one.lower) / 2 * float(one.step)
    return found


def _pair_ends(column: OutputColumn) -> Ends:
    """Return the bounds of covariances or correlations, in the column's unit."""
    largest = _largest(column) * _pair_scale(column)
    return -largest, largest


def _pair_values(column: OutputColumn, vectors: Vectors) -> Floats:
    """Return covariances or correlations (n,) in the column's unit."""
    pair = PairMoments.of(JointMoments.of(column, vectors))
    nothing = [np.zeros_like(pair.cross)] * 2
    divisor = _pair_terms(column, pair, nothing)[0]
    with np.errstate(divide="ignore", invalid="ignore"):
        values = np.clip(pair.cross / divisor, -_largest(column), _largest(column))
    return values * _pair_scale(column)


def _pair_terms(
    column: OutputColumn, pair: PairMoments, errors: list[Floats]
) -> tuple[Floats, Callable[[Floats], tuple[Floats, Floats]]]:
    """Return the divisors, and the function of coefficients, of a covariance or correlation."""
    if _is_correlation(column):
        return _correlation_terms(pair, errors)
    return _covariance_terms(pair, errors, _ddof(column))


def _pair_estimates(
    column: OutputColumn, vectors: Vectors, parts: list[Mechanism], confidence: float
) -> Estimates:
    """Return covariances or correlations with their intervals, in the column's unit."""
    mechanisms, joint = tuple(parts), JointMoments.of(column, vectors)
    pair, largest = PairMoments.of(joint), _largest(column)
    errors = pair.mean_errors(mechanisms, confidence)
    divisor, terms = _pair_terms(column, pair, errors)
    width = noise_width(mechanisms, confidence)

    def reach(r: Floats) -> Floats:
        """Return how far the left side may be from 0 at r."""
        coefficients, slack = terms(r)
        return width.of(coefficients) + slack

    with np.errstate(divide="ignore", invalid="ignore"):
        raw = pair.cross / divisor
        values = np.clip(raw, -largest, largest)
        unsure = ~(joint.count - 1.0 > parts[0].half_width(confidence))
        unsure |= _unsure_spread(column, pair, mechanisms, errors, confidence)
        low, high = (_compatible(values, divisor, end, reach) for end in (-largest, largest))
    low = np.where(unsure | np.isnan(low), -largest, np.fmin(low, values))
    high = np.where(unsure | np.isnan(high), largest, np.fmax(high, values))
    scale = _pair_scale(column)
    found = Estimates(values, low, high, unsure, np.zeros_like(unsure)).scaled(scale)
    moved = values_at_ends(found.values, _pair_ends(column))
    return Estimates(found.values, found.lower, found.upper, unsure, moved)


def _unsure_spread(
    column: OutputColumn, pair: PairMoments, mechanisms: tuple[Mechanism, ...],
    errors: list[Floats], confidence: float,
) -> Flags:  # fmt: skip
    """Return where (n,) the variation of a column is not clearly above 0, for correlations."""
    unsure = np.zeros(pair.cross.shape, dtype=np.bool_)
    if not _is_correlation(column):
        return unsure
    width = noise_width(mechanisms, confidence)
    for side, spread, error in zip((pair.u, pair.v), (pair.x, pair.y), errors, strict=True):
        margin = width.of(pair.joint.coefficients(side, side)) + pair.joint.count * error**2
        unsure |= ~(spread > margin)
    return unsure


PAIRS: dict[Form, FractionArithmetic] = {
    form: FractionArithmetic(
        values_in_batches(_pair_values), estimates_in_batches(_pair_estimates), _pair_ends
    )
    for form in (COVARIANCE, COVARIANCE_POP, CORRELATION)
}


def _inverses(joint: JointMoments) -> tuple[Floats, Flags]:
    """Return the inverses of A (n, size - 1, size - 1), and where A is positive definite.

    Elsewhere, the inverse is that of the identity matrix.
    """
    a = joint.matrix[:, :-1, :-1]
    # A is divided by the number of rows: the least eigenvalue is compared with rounding errors.
    per_row = a / np.maximum(joint.count, 1.0)[:, None, None]
    definite = (joint.count >= 1.0) & (np.linalg.eigvalsh(per_row)[:, 0] > 1e-9)
    return np.linalg.inv(np.where(definite[:, None, None], a, np.eye(a.shape[1]))), definite


def _weights_and_constant(column: OutputColumn, joint: JointMoments) -> tuple[Floats, float]:
    """Return by which weights, and plus which constant, the value follows from scaled coefficients.

    The value is in the column's unit. An intercept is that of the columns themselves, and not of
    their differences from the centers.
    """
    steps = np.array([float(one.step) for one in joint.sums])
    units = joint.halves[1:] * steps
    per_unit = units[-1] / units[:-1]
    if column.form == SLOPE:
        weights = np.zeros(len(units))
        weights[1] = per_unit[0]
        return weights, 0.0
    centers = np.array([one.center for one in joint.sums]) * steps
    return np.array([units[-1], *(-centers[:-1] * per_unit)]), float(centers[-1])


def _coefficients(joint: JointMoments) -> tuple[Floats, Floats, Flags]:
    """Return scaled coefficients (n, size - 1), inverses of A, and where A is definite."""
    inverses, definite = _inverses(joint)
    found = np.einsum("nij,nj->ni", inverses, joint.matrix[:, :-1, -1])
    return np.where(definite[:, None], found, math.nan), inverses, definite


def _values(column: OutputColumn, vectors: Vectors) -> Floats:
    """Return slopes or intercepts (n,) in the column's unit."""
    joint = JointMoments.of(column, vectors)
    weights, constant = _weights_and_constant(column, joint)
    values: Floats = _coefficients(joint)[0] @ weights + constant
    return values


def _estimates(
    column: OutputColumn, vectors: Vectors, parts: list[Mechanism], confidence: float
) -> Estimates:
    """Return slopes or intercepts with their intervals, in the column's unit."""
    mechanisms, joint = tuple(parts), JointMoments.of(column, vectors)
    weights, constant = _weights_and_constant(column, joint)
    coefficients, inverses, definite = _coefficients(joint)
    width = noise_width(mechanisms, confidence)
    unsure = ~definite | ~(joint.count > parts[0].half_width(confidence))
    with_y = np.where(definite[:, None], coefficients, 0.0)
    with_y = np.concatenate((with_y, -np.ones_like(unsure, dtype=np.float64)[:, None]), axis=1)

    def derivatives(of: Floats) -> Floats:
        """Return by how much the noise (parts, n, size) of each column of G moves A^-1 of."""
        padded = np.concatenate((of, np.zeros_like(unsure, dtype=np.float64)[:, None]), axis=1)
        found: Floats = np.einsum("ni,pij->pnj", padded, joint.tensor)
        return found

    moved = [derivatives(inverses[:, :, i]) for i in range(inverses.shape[1])]
    first = [np.einsum("pnj,nj->pn", one, with_y) for one in moved]
    errors = np.stack([width.of(one) for one in first], axis=1)
    for i in range(inverses.shape[1]):
        own = inverses[:, i, i]  # its inverse is what remains of the variation after the others
        margin = width.of(np.einsum("pnj,nj->pn", moved[i][:, :, :-1], inverses[:, :, i]))
        unsure |= ~(own > margin)
    total = sum(weight * one for weight, one in zip(weights, moved, strict=True))
    enlarged = np.abs(np.einsum("pnj,nj->pn", total, with_y))
    enlarged += np.einsum("pnj,nj->pn", np.abs(total[:, :, :-1]), errors)
    half = width.of(enlarged)
    values = coefficients @ weights + constant
    low = np.where(unsure, -math.inf, values - half)
    high = np.where(unsure, math.inf, values + half)
    return Estimates(values, low, high, unsure, np.zeros_like(unsure))


def _ends(_column: OutputColumn) -> Ends:
    """Return that nothing limits coefficients."""
    return -math.inf, math.inf


REGRESSIONS: dict[Form, FractionArithmetic] = {
    form: FractionArithmetic(values_in_batches(_values), estimates_in_batches(_estimates), _ends)
    for form in (SLOPE, INTERCEPT)
}
