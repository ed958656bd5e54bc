"""Totals of areas that are badly measured, estimated from what their parent is made of.

A child's cells z_j say its total t in two ways: their sum, and each z_j over the share p_j that the
cell has in the parent. Where children are made as their parent is, z_j is p_j t and noise; least
squares then gives
    t = sum_j p_j z_j / sum_j p_j^2,
whose error is far less than that of the sum, for most cells of the parent are empty or nearly so.
Where children are made otherwise it is biased: large, untypical areas lose by it. So it is a choice
of the declaration, for whole tables alone: estimates stay what they are.

In whole numbers, as all else: shares are multiples of 2**-20, each product one correctly rounded
float.
"""

from __future__ import annotations

import numpy as np

from dprelease.consistency.fixed_point import Whole, whole

SHARE_BITS = 20


def composed_totals(estimates: Whole, parents: Whole, families: Whole) -> Whole:
    """Return the totals of children as their parents' composition says them: (children,).

    Parameters
    ----------
    estimates
        (children, cells) layer 1 of the finest table, in units of values.
    parents
        (parents, cells) the parents' whole tables.
    families
        (parents + 1,) where each parent's children start.
    """
    count = parents.shape[1]
    total = np.maximum(parents.sum(axis=1), 1).astype(np.float64)
    scaled = np.ldexp(parents.astype(np.float64), SHARE_BITS)
    shares = whole(scaled / total[:, None])
    squares = np.maximum((shares * shares).sum(axis=1), 1).astype(np.float64)
    weights = np.ldexp(shares.astype(np.float64), SHARE_BITS) / squares[:, None]
    most = float(1 << 60) / max(1, count)  # sums of so many stay below 2**60
    own = np.repeat(weights, np.diff(families), axis=0)
    terms = np.clip(own * estimates.astype(np.float64), -most, most)
    totals: Whole = whole(terms).sum(axis=1)
    return totals
