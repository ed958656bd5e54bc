"""Find the best shares of the budget for an aim, with a bound on their distance from optimal.

    maximise t   subject to   p_j(w) >= t  or  p_j(w) >= 1,   sum w = 1,   w >= 0,

where p_j = 1 / (a variance relative to its limit), or 1 / (the weighted sum of mean variances).
Sequential quadratic programming solves it (SciPy's SLSQP). Precisions are concave and nearly linear
in the shares, so that its linear constraints fit well: a limit written as a variance, r_j <= 1, has
a boundary along which steps stay short. 1 / r is concave, as 1 / (q' M^-1 q) is the least x' M x of
all x with q' x = 1: linear in M for each of them; and so is 1 / (sum of r), a concave and rising
function of the 1 / r. A limit holds at every area; each round adds the areas where the last shares
have the greatest variance.

**Certificate.** Let h = sum_j y_j r_j, with y the weights of the means plus any non-negative
multipliers of the limits. h is convex, and h(2 w) = h(w) / 2, so that for all shares w' of sum 1
and all s > 0
    h(w') = s h(s w') >= s (h(w) + grad h(w) (s w' - w)) >= s (2 h(w) - s M),
M = max_i (-dh/dw_i), as grad h(w) w = -h(w). At s = h / M this is h(w)^2 / M: no shares have less.
The least greatest r is then at least h^2 / M for multipliers of sum 1, and the least weighted sum
under limits r_j <= 1 at least h^2 / M - sum of the multipliers. (Frank and Wolfe's bound, sharpened
by the scaling. At the optimum M = h, and the bound is the optimum.) The multipliers that make the
bound for s = 1 the greatest are the solution of a linear program.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache
from typing import Any

import numpy as np
from scipy.optimize import linprog, minimize

from dprelease.consistency.fixed_point import Floats
from dprelease.consistency.shares.design import Design, Numbers, Placed, final_variances, unknown

# Variances of published cells as functions of the shares, with exact slopes.
#
# Slopes come from the complex step: f(x + ih) = f(x) + ih f'(x) up to h^2, so that with h far below
# float accuracy the imaginary part is the derivative, without cancellation. Source: Squire and
# Trapp, "Using complex variables to estimate derivatives of real functions", SIAM Review 40 (1998).
# Residual spaces are independent of each other, so one complex step for each level serves all of
# them.

MEAN = -1  # used instead of a class, for the mean over all areas of the level
_BATCH_SIZE = 1 << 18  # numbers of one array
_STEP = 1e-30  # of a complex step, relative to the precision


@dataclass(frozen=True)
class Row:
    """One function of the shares: the variance of a table's cell at one class, or its mean.

    - `placed`: the level and the table.
    - `node`: the class of areas of that level, or MEAN.
    """

    placed: Placed
    node: int


def values_and_slopes(design: Design, rows: Sequence[Row], shares: Floats) -> tuple[Floats, Floats]:
    """Return the rows' values (rows,) and their derivatives by shares (rows, items).

    No share may be 0, and all variances must be finite.
    """
    shape, levels = design.shape, design.shape.levels
    coefficients = np.array([design.coefficients(row.placed[1]) for row in rows])
    values, slopes = np.zeros(len(rows)), np.zeros((len(rows), len(shares)))
    for some in _slices(design, levels):
        by_share = design.precision[:, some]
        precisions = by_share @ shares
        moved = precisions[:, None, :] * (1 + 1j * _STEP * np.eye(levels)[:, :, None])
        sources = design.sources(shares).of(some).repeated(levels)
        final = final_variances(shape, sources, unknown(shape, sources), moved.reshape(levels, -1))
        found = _select(design, rows, final).reshape(len(rows), levels, -1)
        found *= coefficients[:, None, some]
        values += found[:, 0].real.sum(axis=1)
        # The step was relative, and a precision of 0 has no share to change it.
        relative = found.imag / _STEP / np.where(precisions > 0, precisions, np.inf)
        slopes += relative.reshape(len(rows), -1) @ by_share.reshape(-1, len(shares))
    return values, slopes


def _select(design: Design, rows: Sequence[Row], final: Sequence[Numbers]) -> Numbers:
    """Return F of each row's class, or its mean: (rows, spaces)."""
    means = {
        level: design.shape.fractions(level) @ final[level]
        for level in {row.placed[0] for row in rows if row.node == MEAN}
    }
    return np.array(
        [
            means[row.placed[0]] if row.node == MEAN else final[row.placed[0]][row.node]
            for row in rows
        ]
    )


def cell_variances(design: Design, shares: Floats, tables: Sequence[Placed]) -> list[Floats]:
    """Return for each table the variance of its cells by class; infinite where it is unknown."""
    found = [np.zeros(design.shape.counts[level]) for level, _table in tables]
    precisions = design.precision @ shares
    for some in _slices(design, 1):
        sources = design.sources(shares).of(some)
        lost = unknown(design.shape, sources)
        final = final_variances(design.shape, sources, lost, precisions[:, some])
        for each, (level, table) in zip(found, tables, strict=True):
            factors = design.coefficients(table)[some]
            each += final[level].real @ factors
            each[lost.final[level] @ (factors > 0)] = np.inf
    return found


def _slices(design: Design, copies: int) -> Iterator[slice]:
    """Yield the spaces in parts small enough for memory."""
    step = max(1, _BATCH_SIZE // (design.shape.size * copies))
    return (slice(start, start + step) for start in range(0, len(design.spaces), step))


_minimize: Any = minimize  # its stubs have no constraints whose functions are lambdas
ROUNDS = 12
NEAR = 2e-5  # distance from the bound at which the search ends; rounding may double it
_STEPS = 40  # largest number of steps of one round
_ACCURACY = 1e-8  # of the objective in the first round; a tenth of it in each further round
_LIMIT_MARGIN = (
    2e-7  # margin by which limits are over-fulfilled, so that rounded shares still satisfy them
)
_PENALTY = 1e3  # of a violated limit, in parts of the objective
_LARGE_TREE = 250  # classes of areas, from which the search starts on an averaged tree
_LEAST_SHARE = 1e-8  # what it alone determines has variances up to 1e8, of which 8 digits are left
_LEAST_SCALED_SHARE = 1e-6  # shares below it count as much as this when steps are scaled


@dataclass(frozen=True)
class Aim:
    """The objective that shares minimise, and its constraints.

    - `weights`: for a level and a table, the weight of the mean variance of the table's cells over
      the areas of the level. The weighted sum of these is minimised.
    - `limits`: for a level and a table, the limit of the variance of a cell at every area of the
      level. Without weights the greatest ratio of a variance to its limit is minimised; with
      weights all limits are constraints.
    """

    weights: Mapping[Placed, float] = field(default_factory=dict)
    limits: Mapping[Placed, float] = field(default_factory=dict)


@dataclass(frozen=True)
class EvaluatedShares:
    """Shares and the variances that they achieve.

    - `shares`: the shares, which sum to 1.
    - `total`: the weighted sum of mean variances; 0 without weights.
    - `parts`: for each limit, the greatest ratio of a variance to it.
    - `worst`: for each limit, the class of areas with the greatest variance.
    """

    shares: Floats
    total: float
    parts: dict[Placed, float]
    worst: list[Row]

    @property
    def greatest(self) -> float:
        """Return the greatest ratio of a variance to its limit; 0 without limits."""
        return max(self.parts.values(), default=0.0)

    @property
    def merit(self) -> float:
        """Return the objective, including the penalty of violated limits."""
        if not self.total:
            return self.greatest
        return self.total * (1 + _PENALTY * max(0.0, self.greatest - 1))


def evaluate_shares(design: Design, aim: Aim, shares: Floats) -> EvaluatedShares:
    """Return the variances that shares achieve; infinite if a share of 0 makes a table unknown."""
    tables = [*aim.weights, *aim.limits]
    variances = cell_variances(design, shares, tables)
    means, limited = variances[: len(aim.weights)], variances[len(aim.weights) :]
    total = sum(
        weight * float(design.shape.fractions(level) @ each)
        for ((level, _), weight), each in zip(aim.weights.items(), means, strict=True)
    )
    parts, worst = {}, []
    for (placed, limit), each in zip(aim.limits.items(), limited, strict=True):
        parts[placed] = float(each.max()) / limit
        worst.append(Row(placed, int(each.argmax())))
    return EvaluatedShares(shares, total, parts, worst)


def best_shares(design: Design, aim: Aim) -> tuple[EvaluatedShares, float]:
    """Return the best shares found, and a lower bound of the objective for all shares.

    All tables of the aim must be estimable, and none may be exact. On a large tree the search
    starts with the best shares of a tree whose areas all have the average number of children.
    """
    start = np.full(len(design.items), 1 / len(design.items))
    if design.shape.size > _LARGE_TREE:
        with_average_fans = replace(design, areas=design.shape.with_average_fans())
        if np.isfinite(evaluate_shares(with_average_fans, aim, start).merit):
            start = best_shares(with_average_fans, aim)[0].shares
    rows = [Row(placed, MEAN) for placed in aim.weights]
    best = here = evaluate_shares(design, aim, start)
    bound = 0.0
    for turn in range(ROUNDS):
        rows += [row for row in here.worst if row not in rows]
        relative = RelativeRows(design, aim, tuple(rows))
        bound = max(bound, relative.lower_bound(here.shares))
        if best.merit <= bound * (1 + NEAR):
            break
        shares = relative.improve(here.shares, _ACCURACY * 0.1**turn)
        here = evaluate_shares(design, aim, shares)
        # A round may be worse, because it knows only some of the areas with limits.
        best = min(best, here, key=lambda one: one.merit)
    return best, bound


class RelativeRows:
    """The functions r_j of an aim: the sum of means if there are weights, and the limited rows."""

    def __init__(self, design: Design, aim: Aim, rows: Sequence[Row]) -> None:
        self.design, self.rows = design, rows
        number = len(aim.weights)
        limits = [1 / aim.limits[row.placed] for row in rows[number:]]
        self.factors = np.diag([*aim.weights.values(), *limits])
        if aim.weights:  # one function
            self.factors = np.vstack(
                (self.factors[:number].sum(axis=0, keepdims=True), self.factors[number:])
            )
        self.raised = np.array([not aim.weights or j == 0 for j in range(len(self.factors))])
        """For each function, whether its constraint is p_j >= t; otherwise it is p_j >= 1."""

    def at(self, shares: Floats) -> tuple[Floats, Floats]:
        """Return the values (functions,) and their derivatives by shares (functions, items)."""
        values, slopes = values_and_slopes(self.design, self.rows, shares)
        return self.factors @ values, self.factors @ slopes

    def lower_bound(self, shares: Floats) -> float:
        """Return the best bound that values and slopes at these shares prove: the certificate."""
        values, slopes = self.at(shares)
        largest = float(values[self.raised].max())
        unit = np.where(self.raised, largest, 1.0)
        r, falls = values / unit, -slopes / unit[:, None]
        charges = np.where(self.raised, 0.0, 1.0)
        found = linprog(  # of multipliers y and M: the greatest 2 h - M - charges
            np.append(charges - 2 * r, 1.0),
            A_ub=np.hstack((falls.T, np.full((falls.shape[1], 1), -1.0))),
            b_ub=np.zeros(falls.shape[1]),
            A_eq=np.append(self.raised, 0.0)[None, :],
            b_eq=[1.0],
        )
        if found.x is None:
            return 0.0
        y = np.maximum(found.x[:-1], 0.0)
        y[self.raised] /= y[self.raised].sum()
        h = float(y @ r)
        # Valid for any y >= 0, so that it does not matter how well the linear program was solved.
        return largest * (h * h / float((y @ falls).max()) - float(y @ charges))

    def improve(self, shares: Floats, accuracy: float) -> Floats:
        """Return shares of sum 1 with a smaller objective under these rows' limits."""
        largest = float(self.at(shares)[0][self.raised].max())
        unit = np.where(self.raised, largest, 1.0)
        least = np.where(self.raised, 0.0, 1 + _LIMIT_MARGIN)
        scale = np.sqrt(
            np.maximum(shares, _LEAST_SCALED_SHARE)
        )  # second derivatives are about 1 / share

        @lru_cache(maxsize=1)
        def precisions(point: bytes) -> tuple[Floats, Floats]:
            values, slopes = self.at(np.frombuffer(point)[:-1] * scale)
            p = unit / values
            by_share = -slopes * scale * (p / values)[:, None]
            return p, np.column_stack((by_share, -self.raised.astype(float)))

        def constraint_slack(x: Floats) -> Floats:
            found: Floats = precisions(x.tobytes())[0] - least - self.raised * x[-1]
            return found

        start = [*(shares / scale).tolist(), 1.0]
        budget, objective = np.append(scale, 0.0), np.append(np.zeros(len(scale)), -1.0)
        constraints: Any = [
            {"type": "eq", "fun": lambda x: budget @ x - 1, "jac": lambda _: budget[None, :]},
            {"type": "ineq", "fun": constraint_slack, "jac": lambda x: precisions(x.tobytes())[1]},
        ]
        problem: dict[str, Any] = {
            "jac": lambda _: objective,
            "bounds": [*((_LEAST_SHARE / one, None) for one in scale), (0.0, None)],
            "constraints": constraints,
            "options": {"maxiter": _STEPS, "ftol": accuracy},
        }
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", RuntimeWarning)  # of steps outside the bounds
            found = _minimize(lambda x: float(objective @ x), start, method="SLSQP", **problem)
        better: Floats = np.maximum(found.x[:-1] * scale, _LEAST_SHARE)
        return better / better.sum() if np.isfinite(better).all() else shares
