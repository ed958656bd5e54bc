"""Declared post-processing of noised integers."""

from __future__ import annotations

import numpy as np

from dprelease.numerics.lattice import Flags, Integers
from dprelease.query.post import PostProcessing


def finished(steps: Integers, post: PostProcessing) -> tuple[Integers, Flags | None]:
    """Return the values to publish, lattice steps, and where cells are left empty."""
    empty = None if post.suppress_below is None else steps < post.suppress_below
    found = np.maximum(steps, 0) if post.non_negative else steps
    if post.round_to > 1:
        base = post.round_to
        # Halves go away from zero, so that a value and its negative are rounded alike.
        sizes = (np.abs(found) + base // 2) // base * base
        found = np.sign(found) * sizes
    return found, empty
