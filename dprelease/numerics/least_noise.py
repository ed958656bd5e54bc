"""The symmetric unimodal pmf of least error under (epsilon, delta): a small linear program.

The unknowns are the probabilities p_0 >= p_1 >= ... of a symmetric distribution on the integers. It
is private for a shift D if the sum over k of (p_k - e^epsilon p_{k+D})+ is at most delta. For such
a distribution that sum grows with the shift at every epsilon >= 0: a term differs from 0 only where
|k| < |k + s|, that is k > -s/2; there 0 < k + s <= k + D, so p_{k+D} <= p_{k+s}. So only the shift
D needs constraints.

Delta is best spent far out: a reduction of p_k reduces p at k + D, k + 2D, ... by e^-epsilon times
as much each, and later steps are further away. So p_{k+D} = e^-epsilon p_k up to a window of the
last few blocks of D integers, and only the first block and that window are unknown; the tests solve
the program without this shortcut too. In units of delta inside the window, all numbers are of
similar size, so a solver with tolerances near 1e-9 suffices.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING, cast

import numpy as np

from dprelease.numerics.lattice import Floats

if TYPE_CHECKING:
    from scipy import sparse

TOLERANCE = 1e-10


@dataclass(frozen=True)
class Noise:
    """A solution: the first block (shift,), its number of repetitions, and the window.

    Block j <= `blocks` has the probabilities first * e^(-j epsilon); `window` (n,) follows. `spent`
    (shift + n,) is the part of delta spent by each step from block `blocks` on. `error` is the mean
    absolute or mean square error, up to the solver's tolerance.
    """

    first: Floats
    blocks: int
    window: Floats
    spent: Floats
    error: float


class _Rows:
    """Rows of `coefficients x <= bound`, added one at a time."""

    def __init__(self, columns: int) -> None:
        self.columns = columns
        self.bounds: list[float] = []
        self._row: list[int] = []
        self._column: list[int] = []
        self._value: list[float] = []

    def add(self, coefficients: dict[int, float], bound: float = 0.0) -> None:
        """Add one row."""
        self._row += [len(self.bounds)] * len(coefficients)
        self._column += coefficients.keys()
        self._value += coefficients.values()
        self.bounds.append(bound)

    def matrix(self) -> sparse.csr_array:
        """Return the coefficients."""
        from scipy import sparse  # slow to load; `auto` needs only the class of this noise

        shape = (len(self.bounds), self.columns)
        return sparse.csr_array((self._value, (self._row, self._column)), shape=shape)


@lru_cache(maxsize=256)
def solve(epsilon: float, delta: float, shift: int, power: int) -> Noise:
    """Return the distribution of least E |K|^power, power 1 or 2.

    Contract: 0 < epsilon <= 20, 1e-20 <= delta < 1; time grows with the shift alone (64: 20 ms).

    Raises
    ------
    ArithmeticError
        If the solver finds no solution.
    """
    from scipy.optimize import linprog

    program = _Program(epsilon, delta, shift)
    weights, errors = program.sums(power)
    rows = program.rows()
    size = errors.max()
    result = linprog(
        errors / size,
        A_ub=cast("Floats", rows.matrix()),  # the type stubs know no sparse arrays
        b_ub=rows.bounds,
        A_eq=weights[None, :],
        b_eq=[1.0],
        method="highs",
        options={
            "primal_feasibility_tolerance": TOLERANCE,
            "dual_feasibility_tolerance": TOLERANCE,
        },
    )
    if result.x is None or result.fun is None:
        raise ArithmeticError("the linear program has no solution")
    ends = [shift, program.spent, program.early]
    first, window, spent, _ = np.split(np.maximum(result.x, 0.0), ends)
    error = float(result.fun) * float(size)
    return Noise(first, program.blocks, window * delta, spent * delta, error)


class _Program:
    """Columns: the first block, the window / delta, the delta spent by each step / delta."""

    def __init__(self, epsilon: float, delta: float, shift: int) -> None:
        self.epsilon, self.delta, self.shift = epsilon, delta, shift
        # The end of truncated Laplace noise of this epsilon and delta (Geng et al. 2018).
        end = math.ceil(math.log1p(math.expm1(epsilon) / (2 * delta)) / epsilon)
        self.blocks = max(0, end - 2)
        self.window = (end + 1 - self.blocks) * shift
        self.start = self.blocks * shift  # delta is spent from here on, or nearly from -shift / 2
        self.negative = range(-((shift - 1) // 2), 0)
        self.spent = shift + self.window
        self.early = self.spent + shift + self.window
        self.columns = self.early + (len(self.negative) if self.blocks == 0 else 0)

    def sums(self, power: int) -> tuple[Floats, Floats]:
        """Return the contribution of one unit of each column to total probability and error."""
        total, error = np.zeros(self.columns), np.zeros(self.columns)
        k = np.arange(self.shift)
        for block in range(self.blocks + 1):
            share = 2.0 * math.exp(-block * self.epsilon)
            total[k] += share
            error[k] += share * (k + block * self.shift) ** float(power)
        total[0] -= 1.0
        beyond = np.arange(self.shift, self.spent)
        total[beyond] = 2.0 * self.delta
        error[beyond] = 2.0 * self.delta * (beyond + self.start) ** float(power)
        return total, error

    def rows(self) -> _Rows:
        """Return all inequalities."""
        rows = _Rows(self.columns)
        self._falls(rows)
        self._never_rises(rows)
        rows.add(dict.fromkeys(range(self.spent, self.columns), 1.0), 1.0)
        return rows

    def _falls(self, rows: _Rows) -> None:
        """Add e^-epsilon (p_k - spent_k) <= p_{k + shift}; where k >= 0 in units of delta."""
        fall = math.exp(-self.epsilon)
        last = math.exp(-self.blocks * self.epsilon) / self.delta
        for i in range(self.spent):
            size = last if i < self.shift else 1.0
            follower = {self.shift + i: -1.0} if self.shift + i < self.spent else {}
            rows.add({i: size * fall, self.spent + i: -fall, **follower})
        for n, k in enumerate(self.negative):
            spent = {self.early + n: -self.delta * fall} if self.blocks == 0 else {}
            rows.add({-k: fall, k + self.shift: -1.0, **spent})

    def _never_rises(self, rows: _Rows) -> None:
        """Add p_{k+1} <= p_k inside the first block, after it, and where blocks meet."""
        edge = self.shift - 1
        last = math.exp(-self.blocks * self.epsilon) / self.delta
        for i in range(self.spent - 1):
            rows.add({i: -last if i == edge else -1.0, i + 1: 1.0})
        if self.blocks and self.shift > 1:
            rows.add({0: math.exp(-self.epsilon), edge: -1.0})
