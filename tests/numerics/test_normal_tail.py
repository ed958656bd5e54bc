"""Tails and quantiles of the normal distribution, few or many at a time, against balls."""

from __future__ import annotations

import math

import numpy as np
import pytest
from flint import arb, ctx

from dprelease.numerics import normal_tail


def error(found: float, exact: arb) -> float:
    return abs(float(arb(found) - exact))


@pytest.mark.parametrize("many", [1, normal_tail.MOST_WITHOUT_SCIPY + 1])
def test_erfc(many: int) -> None:
    x = np.linspace(-5.0, 26.0, 400)
    found = normal_tail.erfc(np.resize(x, max(many, len(x))))[: len(x)]
    with ctx.workprec(120):
        for at, value in zip(x.tolist(), found.tolist(), strict=True):
            exact = arb(at).erfc()
            assert error(value, exact) < 2.0**-42 * float(exact)


@pytest.mark.parametrize("start", [0.0, 2.0**-10, 0.7, 5.6, 22.0])
@pytest.mark.parametrize("reach", [3.0, 15.9, 200.0])
def test_logarithms_of_ratios(start: float, reach: float) -> None:
    x = np.concatenate((np.linspace(start, max(start, reach), 200), [math.inf]))
    found = normal_tail.ln_erfc_over(x, start)
    assert found[-1] == -math.inf
    with ctx.workprec(200):
        for at, value in zip(x[:-1].tolist(), found[:-1].tolist(), strict=True):
            exact = (arb(at).erfc() / arb(start).erfc()).log()
            assert error(value, exact) < 2.0**-43 + 2.0**-50 * at * at


@pytest.mark.parametrize("many", [1, normal_tail.MOST_WITH_STATISTICS + 1])
def test_quantiles(many: int) -> None:
    u = np.concatenate((np.geomspace(1e-300, 0.4, 200), np.linspace(0.41, 0.5, 50)))
    found = np.concatenate(
        [normal_tail.normal_quantile(np.full(many, at))[:1] for at in u.tolist()]
    )
    with ctx.workprec(120):
        for at, z in zip(u.tolist(), found.tolist(), strict=True):
            tail = (-arb(z) / arb(2).sqrt()).erfc() / 2
            slope = float((-(arb(z) ** 2) / 2).exp() / (2 * arb.pi()).sqrt())
            assert error(at, tail) < 2.0**-48 * (1 + abs(z)) * slope
