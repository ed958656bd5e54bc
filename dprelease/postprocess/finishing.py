"""Apply the declared post-processing to noisy values."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np

from dprelease.numerics.lattice import LIMIT, Flags, Floats, Integers
from dprelease.query.post import PostProcessing


def post_process(
    steps: Integers, post: PostProcessing, step: Fraction
) -> tuple[Integers, Flags | None]:
    """Return the values to publish, lattice steps, and a mask of empty cells."""
    empty = None
    if post.suppress_below is not None:
        # Compared before rounding: a value that is rounded up to the limit must not appear.
        empty = steps < _clip_to_limit(math.ceil(post.suppress_below / step))
    published = np.maximum(steps, 0) if post.non_negative else steps
    if post.round_to is not None and post.round_to > step:
        base = int(post.round_to / step)
        # Halves go away from zero, so that a value and its negative are rounded alike.
        sizes = (np.abs(published) + base // 2) // base * base
        published = np.sign(published) * sizes
    return _code_ends(published, post, step), empty


def post_process_end(steps: Integers, post: PostProcessing, step: Fraction, side: int) -> Integers:
    """Return the ends of intervals to publish, in lattice steps; lower ends if `side` is -1.

    They are processed like the values, but rounded outwards and never left empty. So an interval
    around a value contains the processed value.
    """
    published = np.maximum(steps, 0) if post.non_negative else steps
    if post.round_to is not None and post.round_to > step:
        base = int(post.round_to / step)
        # The ceiling for upper ends and the floor for lower ones.
        published = side * -(side * -published // base) * base
    return _code_ends(published, post, step)


def _code_ends(published: Integers, post: PostProcessing, step: Fraction) -> Integers:
    """Return values in lattice steps with the declared bottom code and top code."""
    if post.bottom_code is not None:
        published = np.maximum(published, _clip_to_limit(int(post.bottom_code / step)))
    if post.top_code is not None:
        published = np.minimum(published, _clip_to_limit(int(post.top_code / step)))
    return published


def _clip_to_limit(steps: int) -> int:
    """Return a number of steps, at most 2^62 and at least -2^62."""
    return max(-LIMIT, min(LIMIT, steps))


def finished_fractions(values: Floats, post: PostProcessing) -> Floats:
    """Return fractions to publish; NaN stays NaN."""
    published = values.copy()
    if post.non_negative:
        published = np.maximum(published, 0.0)
    if post.round_to is not None:
        base = float(post.round_to)
        published = np.copysign(np.floor(np.abs(published) / base + 0.5) * base, published)
    if post.bottom_code is not None or post.top_code is not None:
        ends = [None if x is None else float(x) for x in (post.bottom_code, post.top_code)]
        published = np.clip(published, ends[0], ends[1])
    return published


def coded_cells(values: Floats, post: PostProcessing) -> Flags:
    """Return which published values (n,) are at an end to which post-processing moves values."""
    moved = np.zeros(values.shape, dtype=np.bool_)
    for end in (post.bottom_code, post.top_code, Fraction(0) if post.non_negative else None):
        if end is not None:
            moved |= values == float(end)
    return moved
