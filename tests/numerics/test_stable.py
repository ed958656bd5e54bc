"""Stable distributions: floats against balls, balls against references, and error bounds."""

from __future__ import annotations

import math
import signal
from types import FrameType

import mpmath
import numpy as np
import pytest
from flint import arb, ctx
from hypothesis import given, settings
from hypothesis import strategies as st

from dprelease.numerics import stable
from tests.reference.read import rows

ALPHAS = [
    1.0,
    1 + 1e-6,
    1.001,
    1.05,
    1.3,
    1.5,
    1.75,
    1.9,
    1.99,
    1.999,
    2 - 1e-5,
    stable.LARGEST_ALPHA,
]
ROWS = rows("sas_density")


def error(found: float, exact: arb) -> float:
    return abs(float((arb(found) - exact) / exact))


@pytest.mark.parametrize("alpha", sorted({row["alpha"] for row in ROWS}))
def test_reference(alpha: str) -> None:
    for row in (row for row in ROWS if row["alpha"] == alpha):
        a, x = float(alpha), float(row["x"])
        for column, function, ball in (
            ("pdf", stable.pdf, stable.pdf_ball),
            ("sf", stable.sf, stable.sf_ball),
        ):
            found = float(function(a, np.array([x]))[0])
            # The reference holds for the decimal alpha and x; the floats differ by half a unit.
            assert found == pytest.approx(float(row[column]), rel=3e-13)
            with ctx.workprec(96):
                assert error(float(row[column]), ball(a, arb(x))) < 3e-13


@pytest.mark.parametrize("alpha", ALPHAS)
def test_floats_are_within_error_bounds(alpha: float) -> None:
    """pdf, sf and quantile against balls, dense where two expansions meet."""
    grid = np.concatenate(
        ([0.0, 1e-300, 1e-9], np.linspace(0.05, 24.0, 60), np.geomspace(25, 1e12, 25))
    )
    f, g = stable.pdf(alpha, grid), stable.sf(alpha, grid)
    with ctx.workprec(70):
        for x, found_f, found_g in zip(grid.tolist(), f.tolist(), g.tolist(), strict=True):
            assert error(found_f, stable.pdf_ball(alpha, arb(x))) < stable.RELATIVE_ERROR
            assert error(found_g, stable.sf_ball(alpha, arb(x))) < stable.RELATIVE_ERROR


@pytest.mark.parametrize("alpha", ALPHAS[1:])
def test_polynomials_equal_integrals(alpha: float) -> None:
    """Within a small part of the bound, and at the ends of all panels, where they err most."""
    from dprelease.numerics.stable import stable_tables
    from dprelease.numerics.stable import stable_tables as tables

    end = math.log1p(tables._tables_of_alpha(alpha).start)
    edges = np.linspace(0.0, end, tables.PANELS + 1)[1:]
    s = np.concatenate((edges * (1 - 1e-15), edges[:-1], np.linspace(0.0, end, 4001)))
    x = np.minimum(np.expm1(s), tables._tables_of_alpha(alpha).start)
    for found, exact in zip(
        (stable.pdf(alpha, x), stable.sf(alpha, x)),
        stable_tables.density_and_tail(alpha, x),
        strict=True,
    ):
        assert np.max(np.abs(found / exact - 1)) < stable.RELATIVE_ERROR / 4


@settings(max_examples=150)
@given(st.floats(1.0, stable.LARGEST_ALPHA), st.floats(-3.0, 27.0))
def test_floats_are_within_error_bounds_at_random_points(alpha: float, log_x: float) -> None:
    x = math.exp(log_x)
    with ctx.workprec(70):
        f, g = stable.pdf_ball(alpha, arb(x)), stable.sf_ball(alpha, arb(x))
    assert error(float(stable.pdf(alpha, np.array([x]))[0]), f) < stable.RELATIVE_ERROR
    assert error(float(stable.sf(alpha, np.array([x]))[0]), g) < stable.RELATIVE_ERROR


@settings(max_examples=60)
@given(st.floats(1.0, stable.LARGEST_ALPHA), st.floats(math.log(2.0**-20), math.log(0.5)))
def test_quantiles_are_within_error_bounds(alpha: float, log_u: float) -> None:
    u = math.exp(log_u)
    x = float(stable.quantile(alpha, np.array([u]))[0])
    slack = stable.QUANTILE_RELATIVE_ERROR * (1 + x)
    with ctx.workprec(90):
        assert stable.sf_ball(alpha, arb(x) + arb(slack)) < arb(u)
        if x > slack:
            assert stable.sf_ball(alpha, arb(x) - arb(slack)) > arb(u)


@pytest.mark.parametrize("alpha", ALPHAS)
def test_deep_quantiles_are_good_guesses(alpha: float) -> None:
    u = np.array([1e-8, 1e-15, 1e-40, 1e-300])
    x = stable.quantile(alpha, u)
    reached = x < 1e250
    assert np.allclose(np.log(stable.sf(alpha, x))[reached], np.log(u)[reached], rtol=1e-9)
    assert np.all(np.isfinite(x))


@pytest.mark.share(0.25)
@pytest.mark.parametrize(("alpha", "x"), [(1.1, 0.7), (1.5, 3.0), (1.9, 8.0), (1.999, 12.0)])
def test_balls_contain_independent_quadrature(alpha: float, x: float) -> None:
    """The plain Fourier integral by mpmath, on the real axis."""
    with mpmath.workdps(50):
        length = mpmath.mpf(120) ** (1 / mpmath.mpf(alpha))
        points = [length * i / 60 for i in range(61)]
        f = mpmath.quad(lambda t: mpmath.cos(x * t) * mpmath.exp(-(t**alpha)), points) / mpmath.pi
        g = (
            mpmath.mpf(1) / 2
            - mpmath.quad(lambda t: mpmath.sin(x * t) / t * mpmath.exp(-(t**alpha)), points)
            / mpmath.pi
        )
        with ctx.workprec(80):
            for value, ball in ((f, stable.pdf_ball), (g, stable.sf_ball)):
                text = mpmath.nstr(value, 28)
                assert abs(ball(alpha, arb(x)) - arb(text)) < arb(10) ** -20


@pytest.mark.parametrize("alpha", [1.0, 1.02, 1.5, 1.97, 2.0])
@pytest.mark.parametrize("x", [0.0, 0.4, 6.0, 30.0, 1e9])
def test_balls_of_all_precisions_overlap(alpha: float, x: float) -> None:
    """Every precision tells of the same number: balls overlap, and shrink as told."""
    found = []
    for bits in (53, 100, 170):
        with ctx.workprec(bits):
            found.append((stable.pdf_ball(alpha, arb(x)), stable.sf_ball(alpha, arb(x)), bits))
    with ctx.workprec(300):
        for f, g, bits in found:
            assert f.overlaps(found[-1][0])
            assert g.overlaps(found[-1][1])
            # At alpha 2 and far out, the tail is exp(-x^2 / 4): no ball needs to hold it.
            assert g.rel_accuracy_bits() >= bits - 8 or alpha == 2.0


def test_series_and_integral_agree() -> None:
    """Where the series starts to serve, both ways give the same balls."""
    from dprelease.numerics.stable import stable_balls as balls

    for alpha, x in ((1.3, 12.0), (1.75, 25.0), (1.95, 40.0)):
        terms = balls.terms_needed(alpha, x, 100)
        assert terms is not None
        with ctx.workprec(160):
            near = balls.density_and_tail_balls(arb(alpha), arb(x), terms)
            far = (balls._density(arb(alpha), arb(x)), balls._tail(arb(alpha), arb(x)))
            for a, b in zip(near, far, strict=True):
                assert a.overlaps(b)
                assert abs(a - b) < a * arb(2) ** -80


@pytest.mark.parametrize("alpha", [1.1, 1.6, 1.95])
def test_density_is_the_derivative_of_the_tail(alpha: float) -> None:
    x = np.linspace(0.0, 60.0, 200_001)
    f, g = stable.pdf(alpha, x), stable.sf(alpha, x)
    area = np.cumsum((f[1:] + f[:-1]) / 2 * np.diff(x))
    assert np.allclose(g[0] - g[1:], area, rtol=1e-7)
    assert g[0] == pytest.approx(0.5, rel=1e-12)
    assert np.all(np.diff(g) < 0)
    assert np.all(np.diff(f)[1:] < 0)
    assert np.allclose(stable.sf(alpha, -x) + g, 1.0, rtol=1e-12)
    assert np.array_equal(stable.pdf(alpha, -x), f)


def test_wrong_alpha_exceeds_error_bounds() -> None:
    """An alpha that is 1e-9 off shows: the check sees errors of that size."""
    with ctx.workprec(70):
        exact = stable.sf_ball(1.5, arb(4.0))
    wrong = float(stable.sf(1.5 + 1e-9, np.array([4.0]))[0])
    assert error(wrong, exact) > stable.RELATIVE_ERROR


@pytest.mark.parametrize("alpha", [0.99, 1.9999999, 2.1, math.nan])
def test_alphas_out_of_range_are_refused(alpha: float) -> None:
    with pytest.raises(ValueError, match="alpha lies in"):
        stable.pdf(alpha, np.array([1.0]))


def test_signal_during_an_integral_raises_the_exception_of_its_handler() -> None:
    """Flint calls Python for each value of the integrand, and replaces what a handler raises."""

    class EndedError(Exception):
        pass

    def end(_number: int, _frame: FrameType | None) -> None:
        raise EndedError

    before = signal.signal(signal.SIGVTALRM, end)
    try:
        for delay in (0.01, 0.02, 0.03):
            with pytest.raises(EndedError):  # noqa: PT012
                signal.setitimer(signal.ITIMER_VIRTUAL, delay)
                while True:
                    stable.sf_ball(1.01, arb(0.5))
    finally:
        signal.setitimer(signal.ITIMER_VIRTUAL, 0)
        signal.signal(signal.SIGVTALRM, before)
