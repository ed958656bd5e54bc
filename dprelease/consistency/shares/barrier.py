"""The convex program of shares, by Newton's method on a logarithmic barrier.

    minimise    sum over free rows of c_j r_j(w) + P t
    subject to  p_j(w) >= 1  for limited rows,   sum w <= b + t,   t >= 0,   w > 0,

r_j convex (variances) and p_j concave (precisions 1 / r_j, relative to the required ones).
Precisions are nearly linear in the shares: a limit written as a variance, r_j <= 1, has a boundary
along which Newton's steps stay short. With P = 1, b = 0 and no free rows it is the least budget
that keeps all limits, whose shares also minimise the greatest variance for a fixed budget; with
b = 1 and a large P it is the least weighted sum that keeps them. Any shares, scaled up, are a
start.

At the centre for a weight tau of the objective, y_j = 1 / (tau (p_j - 1)) are multipliers, and the
objective is within (constraints) / tau of the least one.

Source: Boyd and Vandenberghe, "Convex Optimization" (2004), sections 11.2 and 11.3. 1 / r is
concave, as 1 / (q' M^-1 q) is the least x' M x of all x with q' x = 1: linear in M for each of
them; and so is 1 / (sum of r), a concave and rising function of the 1 / r.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from dprelease.consistency.fixed_point import Floats

_FASTER = 20.0  # by what the objective's weight grows from one centre to the next
_NEAR, _AT = 1e-2, 1e-12  # half a squared Newton decrement: near a centre, and at the last one
_STEPS = 60  # of one centre; seldom more than 10


class BarrierRows(Protocol):
    """r_j of free rows, p_j of limited ones."""

    def values(self, w: Floats) -> Floats:
        """Return (rows,)."""
        ...

    def values_and_derivatives(
        self, w: Floats
    ) -> tuple[Floats, Floats, Callable[[Floats], Floats]]:
        """Return values, slopes (rows, items), and second derivatives of a sum of rows."""
        ...


@dataclass(frozen=True)
class Program:
    """The program to minimise; names as in the module docstring, c of limited rows 0."""

    rows: BarrierRows
    weights: Floats  # c
    limited: NDArray[np.bool_]
    budget: float  # b
    penalty: float  # P


@dataclass(frozen=True)
class Optimum:
    """The minimum of a program: shares w, and multipliers y of limited rows (0 for others)."""

    shares: Floats
    multipliers: Floats


def minimise(program: Program, start: Floats, accuracy: float) -> Optimum:
    """Return the optimum of a program.

    Parameters
    ----------
    start
        Positive shares.
    accuracy
        Largest distance of the objective from the minimum.
    """
    least = float(program.rows.values(start)[program.limited].min(initial=np.inf))
    w = start * max(0.9, 1.1 / least if program.limited.any() else 0.0)
    t = max(0.0, float(w.sum()) - program.budget) + 0.2
    constraints = len(w) + 2 + int(program.limited.sum())
    tau = constraints / _objective(program, program.rows.values(w), t)
    while True:
        last = constraints / tau <= accuracy
        w, t = _find_center(program, w, t, tau, _AT if last else _NEAR)
        if last:  # multipliers are as good as the centre is
            break
        tau = min(tau * _FASTER, constraints / accuracy * (1 + 1e-9))
    room = np.where(program.limited, program.rows.values(w) - 1, 1.0)
    return Optimum(w, np.where(program.limited, 1 / (tau * room), 0.0))


def _objective(program: Program, values: Floats, t: float) -> float:
    return float(program.weights @ values) + program.penalty * t


def _potential(program: Program, w: Floats, t: float, tau: float) -> float:
    """Return the objective with its barrier; infinite outside."""
    rest = program.budget + t - w.sum()
    if (w <= 0).any() or rest <= 0 or t <= 0:
        return np.inf
    values = program.rows.values(w)
    room = (values - 1)[program.limited]
    if not np.isfinite(values).all() or (room <= 0).any():
        return np.inf
    logs = np.log(w).sum() + np.log(rest) + np.log(room).sum() + np.log(t)
    return tau * _objective(program, values, t) - float(logs)


def _find_center(
    program: Program, w: Floats, t: float, tau: float, near: float
) -> tuple[Floats, float]:
    """Return the centre for a weight of the objective, near enough."""
    for _ in range(_STEPS):
        slope, bend = _derivatives(program, w, t, tau)
        scale = np.append(w, t)  # Newton's step relative to current values
        step = -np.linalg.solve(bend * scale[:, None] * scale, slope * scale) * scale
        decrement = -float(slope @ step)
        if decrement <= 2 * near:
            break
        here, length = _potential(program, w, t, tau), 1.0
        while length > 1e-10:
            there = _potential(program, w + length * step[:-1], t + length * step[-1], tau)
            if there <= here - 0.1 * length * decrement:
                break
            length *= 0.5
        else:
            break  # float accuracy is exhausted
        w, t = w + length * step[:-1], t + length * float(step[-1])
    return w, t


def _derivatives(program: Program, w: Floats, t: float, tau: float) -> tuple[Floats, Floats]:
    """Return first and second derivatives of the potential by (w, t)."""
    values, slopes, bent = program.rows.values_and_derivatives(w)
    items = len(w)
    pressed = np.where(program.limited, 1 / np.where(program.limited, values - 1, 1.0), 0.0)
    rest = program.budget + t - w.sum()
    factors = tau * program.weights - pressed
    slope = np.empty(items + 1)
    slope[:items] = factors @ slopes - 1 / w + 1 / rest
    slope[items] = tau * program.penalty - 1 / rest - 1 / t
    towards = slopes * pressed[:, None]
    bend = np.empty((items + 1, items + 1))
    bend[:items, :items] = bent(factors) + towards.T @ towards + 1 / rest**2
    bend[:items, :items][np.diag_indices(items)] += 1 / w**2
    bend[items, :items] = bend[:items, items] = -1 / rest**2
    bend[items, items] = 1 / rest**2 + 1 / t**2
    return slope, bend
