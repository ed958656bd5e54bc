"""Second check of whole tables: from 0 up, structural zeros kept, nothing gained by exchanging."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np

from dprelease.consistency.family import Refinement
from dprelease.numerics.lattice import Flags, Integers
from dprelease.postprocess.consistent.additivity import spans
from dprelease.postprocess.consistent.family_shape import Placed, Shape
from dprelease.postprocess.consistent.outputs import lowest
from dprelease.postprocess.consistent.published import PublishedColumn
from dprelease.schema.release_parts.consistent import ConsistentSpec

SAMPLED = 64
"""Areas of each level whose parts are looked at."""


def impossible_cells(
    shape: Shape, tables: Sequence[Placed], published: PublishedColumn, never: Flags
) -> Iterator[str]:
    """Yield tables with cells below 0, or with some where there can't be any."""
    for placed in tables:
        axes = tuple(i for i in range(len(shape.sizes)) if i not in placed.attributes)
        zero = never.all(axis=axes)
        for span in spans(shape, placed):
            held = published.whole(placed, *span)
            if (held < 0).any() or held[:, zero].any():
                yield f"'{placed.name}' has cells that can't be"
                break


def gainful_exchanges(
    published: PublishedColumn, how: Refinement, spec: ConsistentSpec
) -> Iterator[str]:
    """Yield areas of which two parts could exchange a unit and both tables be nearer together.

    Of the first table that is made at each level, which is an exact optimum: no unit of a part
    costs more than the next one of another part would. Distances are those to the estimates.
    """
    shape = published.shape
    for level in range(1, lowest(shape, spec) + 1):
        if how.composed and how.composed[level]:
            continue  # its totals are not those next to the estimates'
        made = how.chains[level][0]
        known = [one for one in shape.at(level) if set(one.attributes) >= set(made)]
        if not known:
            continue  # nothing is published of it here
        finest = max(known, key=shape.cells)
        left = tuple(1 + i for i, a in enumerate(finest.attributes) if a not in made)
        starts = shape.tree.starts[level - 1]
        areas = shape.tree.counts[level - 1]
        for area in np.unique(np.linspace(0, areas - 1, min(SAMPLED, areas)).astype(int)).tolist():
            start, stop = int(starts[area]), int(starts[area + 1])
            if stop - start < 2:
                continue
            x = published.whole(finest, start, stop).sum(axis=left)
            z = published.estimates(finest, start, stop).sum(axis=left)
            if _gains(x, z, published.bits):
                yield f"parts of area {area} of level '{shape.levels[level - 1]}' gain by exchange"


def _gains(x: Integers, z: Integers, bits: int) -> bool:
    """Return whether moving a unit from one part to another brings any cell nearer to z."""
    length = int(x.sum(axis=0).max()).bit_length() + len(x).bit_length()
    if length + bits > 61:
        return False  # such are solved in a coarser unit
    last = np.where(x > 0, ((2 * x - 1) << bits) - 2 * z, -(1 << 62)).max(axis=0)
    following = (((2 * x + 1) << bits) - 2 * z).min(axis=0)
    return bool((last > following).any())
