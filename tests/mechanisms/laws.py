"""Mechanisms for the conformance suite: every mechanism of the folder, at each of its example shapes."""

from __future__ import annotations

import importlib
from functools import cache, lru_cache

from flint import arb, ctx

from dprelease.errors import BudgetError
from dprelease.mechanisms import registry
from dprelease.mechanisms.base import Mechanism
from dprelease.privacy.unit import Move, Sensitivity

KINDS = [
    (name, i) for name in registry.names() for i in range(len(registry.get(name).example_shapes))
]
"""(name, index of the example shape)."""


@cache
def law_of(name: str, scale: float, shape: int = 0, shift: int = 1) -> Mechanism:
    """Return the mechanism of a scale, designed for cells that move by up to `shift` steps."""
    kind = registry.get(name)
    return kind.design(scale, Sensitivity(1, (Move(shift, 1),)), **kind.example_shapes[shape])


def exists(name: str, scale: float, shape: int = 0, shift: int = 1) -> bool:
    """Return whether the mechanism has a law at this scale, or refuses it as inadmissible."""
    try:
        law_of(name, scale, shape, shift)
    except BudgetError:
        return False
    return True


def laws(scales: tuple[float, ...], shift: int = 1) -> list[tuple[str, int, float]]:
    """Return (name, shape, scale) of the laws that exist; each mechanism has at least one."""
    found = [(n, i, scale) for n, i in KINDS for scale in scales if exists(n, scale, i, shift)]
    assert {name for name, _, _ in found} == set(registry.names())
    return found


def independent_mass(law: Mechanism, k: int) -> arb:
    """Return P(K = k) from the definition of the law, not from the code under test."""
    found: arb = importlib.import_module(f"tests.mechanisms.definitions.{law.name}").mass(law, k)
    return found


def mass(law: Mechanism, k: int) -> arb:
    """Return P(K = k) from the tails, on the side where less is lost."""
    if law.tail(k, True) < 0.5:
        return law.tail(k, True) - law.tail(k + 1, True)
    return law.tail(k, False) - law.tail(k - 1, False)


@lru_cache(maxsize=8)
def masses(law: Mechanism, reach: int) -> tuple[arb, ...]:
    """Return P(K = k) for k from -reach to reach, as balls."""
    with ctx.workprec(160):
        return tuple(mass(law, k) for k in range(-reach, reach + 1))


def renyi(law: Mechanism, shift: int, order: float) -> float:
    """Return about the larger of both Rényi divergences, from the masses that are there."""
    reach = int(60 * law.scale) + 20 + 2 * shift
    found = []
    with ctx.workprec(160):
        p = masses(law, reach)
        a = arb(order)
        for sign in (1, -1):
            pairs = ((p[i], p[i - sign * shift]) for i in range(shift, len(p) - shift))
            terms = (q * ((x / q).log() * a).exp() for x, q in pairs if x > 0 and q > 0)
            found.append(float(sum(terms, arb(0)).log() / (a - 1)))
    return max(found)


def hockey_sticks(law: Mechanism, shift: int, epsilon: float) -> tuple[float, float]:
    """Return lower bounds of sum over k of max(0, P(k) - e^eps P(k - s)) for s = +-shift."""
    reach = int(40 * law.scale) + 20 + shift
    with ctx.workprec(160):
        p = masses(law, reach)
        factor = arb(epsilon).exp()
        found = []
        for sign in (1, -1):
            total = arb(0)
            for i in range(shift, len(p) - shift):
                gain = p[i] - factor * p[i - sign * shift]
                total += gain if gain > 0 else 0
            found.append(float(total.lower()))
    return found[0], found[1]
