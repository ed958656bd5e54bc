"""Every way by which an epsilon at a delta is proved here, the shortest first."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction

from flint import ctx

from dprelease.verification.certificate.closed_forms import concentrated_epsilon, normal_epsilon
from dprelease.verification.certificate.composed_losses import (
    Effort,
    TooLongError,
    composed_losses,
    efforts,
)
from dprelease.verification.certificate.concentration import concentration
from dprelease.verification.certificate.kinds import VectorKind, added_up
from dprelease.verification.certificate.normal_vectors import (
    ANY,
    CLOSE,
    NormalVectors,
    normal_vectors,
)

ADDED = "largest losses, added up (Dwork, McSherry, Nissim and Smith 2006)"
NORMAL = "normal losses, whose squares of mu add up (Balle and Wang 2018, Theorem 8)"
SMOOTHED = f"{NORMAL}: discrete Gaussian noise is these told as integers, by Poisson's sum"
JOINED = "of these, normal ones as one, and discrete Gaussian noise as these told as integers"
COMPOSED = "losses of all parts, composed in whole numbers (Zhu, Dong and Wang 2022, Theorem 10)"
DIVERGENCES = "Rényi divergences, added up (Canonne, Kamath and Steinke 2020, Corollary 13)"
APART = "these at a part of delta, losses composed in whole numbers at the rest"

PARTS = (Fraction(1, 2), Fraction(1, 64))
"""Parts of delta tried for what only divergences are known of."""


UNBOUNDED = Fraction(2**2000)
"""What is told where there is no price: more than any float."""


@dataclass(frozen=True, slots=True)
class Bound:
    """What is proved: a price that is never too low, by which theorem."""

    at_most: Fraction
    by: str
    delta: Fraction | None = None
    """A delta at the claimed epsilon, where it follows."""


def pure_bounds(kinds: Sequence[VectorKind]) -> Iterator[Bound]:
    """Yield the sum of all largest losses."""
    largest = added_up([kind.largest for kind in kinds])
    yield Bound(UNBOUNDED if largest is None else largest, ADDED)


def rho_bounds(kinds: Sequence[VectorKind], aim: Fraction) -> Iterator[Bound]:
    """Yield bounds of rho, ever finer."""
    for effort in efforts(len(kinds)):
        rho = concentration(kinds, aim, effort)
        if rho is None:
            yield Bound(UNBOUNDED, DIVERGENCES)
            return
        yield Bound(rho, DIVERGENCES)
        if not any(kind.by_moments for kind in kinds) or _is_vain(rho, aim, effort):
            return


def epsilon_bounds(
    kinds: Sequence[VectorKind], delta: Fraction, aim: Fraction, rho: Fraction | None
) -> Iterator[Bound]:
    """Yield bounds of epsilon at a delta above 0; `rho`: one that is proved of all vectors."""
    yield from pure_bounds(kinds)
    together = normal_vectors(kinds, ANY)
    if together is not None and not together.others:
        yield from _by_normals(together, delta)
    if rho is not None:
        yield from _by_rho(rho, delta)
    curves = [kind for kind in kinds if kind.meets and kind.largest is None]
    if curves:
        yield from _by_curves(kinds, curves, delta, aim)
    close = normal_vectors(kinds, CLOSE)
    if close is not None and close.others:
        yield from _beside_normals(close, delta, aim)
    if not curves:
        yield from _composition_bounds(kinds, delta, aim)


def _by_normals(normals: NormalVectors, delta: Fraction) -> Iterator[Bound]:
    """Yield the closed form of vectors that are all normal, but for what smooths them."""
    smooth = normals.smoothing
    found = normal_epsilon(normals.mu_squared, delta / smooth.raised)
    if found is not None:
        yield Bound(found + smooth.slack, SMOOTHED if smooth.slack else NORMAL)


def _beside_normals(normals: NormalVectors, delta: Fraction, aim: Fraction) -> Iterator[Bound]:
    """Yield bounds where all normal vectors are composed as one, and what smooths them is added."""
    smooth = normals.smoothing
    for bound in _composition_bounds(normals.every, delta / smooth.raised, aim - smooth.slack):
        near = None if bound.delta is None else bound.delta * smooth.raised
        yield Bound(bound.at_most + smooth.slack, f"{COMPOSED}; {JOINED}", near)


def _by_curves(
    kinds: Sequence[VectorKind], curves: Sequence[VectorKind], delta: Fraction, aim: Fraction
) -> Iterator[Bound]:
    """Yield bounds of vectors of which some have Rényi divergences alone.

    From those of all; or from theirs at a part of delta, and the losses of others at the rest
    (basic composition: Dwork and Roth 2014, Theorem 3.16).
    """
    alone = added_up([kind.rho for kind in curves])
    if alone is None:
        return
    others = [kind for kind in kinds if kind not in curves]
    together = concentration(kinds, alone, efforts(len(kinds))[0]) if others else alone
    if together is not None:
        yield from _by_rho(together, delta)
    for part in PARTS if others else ():
        of_few = concentrated_epsilon(alone, delta * part)
        if of_few is not None:
            for bound in _composition_bounds(others, delta * (1 - part), aim - of_few):
                yield Bound(bound.at_most + of_few, f"{DIVERGENCES}: {APART}")


def _by_rho(rho: Fraction, delta: Fraction) -> Iterator[Bound]:
    found = concentrated_epsilon(rho, delta)
    if found is not None:
        yield Bound(found, DIVERGENCES)


def _is_vain(found: Fraction, aim: Fraction, effort: Effort) -> bool:
    """Return whether a bound is so far above a claim that no finer look proves it."""
    return found * Fraction(1 - effort.gains) > aim


def _composition_bounds(
    kinds: Sequence[VectorKind], delta: Fraction, aim: Fraction
) -> Iterator[Bound]:
    for effort in efforts(len(kinds)):
        try:
            with ctx.workprec(64):  # every step asks for the bits that it takes
                composed = composed_losses(kinds, delta, effort)
                found = composed.epsilon_at(delta)
                near = None if found is None else composed.delta_at(aim)
        except TooLongError:
            return
        yield Bound(UNBOUNDED if found is None else found, COMPOSED, near)
        if found is None or _is_vain(found, aim, effort):
            return
