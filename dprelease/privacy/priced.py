"""What the accountant needs of a noisy vector."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass, field

from dprelease.privacy.loss import PrivacyLoss
from dprelease.privacy.unit import Sensitivity


@dataclass(frozen=True)
class Priced:
    """One noisy vector, as far as its price goes; equal keys have equal losses."""

    key: Hashable
    losses: Callable[[int], tuple[PrivacyLoss, ...]] = field(compare=False)
    sensitivity: Sensitivity


Kind = tuple[Priced, int]
"""A vector, and the slots of all vectors like it together."""


def kinds_of(vectors: Sequence[Priced]) -> list[Kind]:
    """Return one vector of every kind, and the slots of all vectors of its kind together."""
    counts: Counter[tuple[Hashable, Sensitivity]] = Counter()
    kinds: dict[tuple[Hashable, Sensitivity], Priced] = {}
    for vector in vectors:
        key = (vector.key, vector.sensitivity)
        counts[key] += vector.sensitivity.slots
        kinds[key] = vector
    return [(vector, counts[key]) for key, vector in kinds.items()]
