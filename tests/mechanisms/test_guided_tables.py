"""Buckets of probabilities that are looked up: k and certainty are those of the whole table."""

from __future__ import annotations

from unittest import mock

import numpy as np
import pytest

from dprelease.mechanisms.common import offset_lattice
from dprelease.mechanisms.common.offset_lattice import BUCKETS, TABLE_ERROR, OffsetLattice
from dprelease.mechanisms.discrete_gaussian import DiscreteGaussian
from dprelease.mechanisms.discrete_offset_symmetric_gaussian import DiscreteOffsetSymmetricGaussian
from dprelease.numerics import theta
from dprelease.numerics.lattice import Floats

SCALES = [0.05, 0.3, 1.0, 3.2, 6.5, 40.0, 200.0, 1000.0]
LAWS: list[OffsetLattice] = [
    *map(DiscreteGaussian, SCALES),
    *(DiscreteOffsetSymmetricGaussian(scale, 0.7) for scale in SCALES),
]


def probes(tails: Floats) -> Floats:
    """Return probabilities where a decision changes, their neighbours, and others at random."""
    cuts = tails[1:][tails[1:] > 1e-290]
    certain = [cuts * (1 - TABLE_ERROR), cuts, cuts * (1 + TABLE_ERROR)]
    at = np.concatenate([*certain, np.arange(BUCKETS + 1) / (2 * BUCKETS), [2.0**-64, 1e-300]])
    near = np.concatenate([at, np.nextafter(at, 0.0), np.nextafter(at, 1.0)])
    drawn = np.random.default_rng(3).random(1 << 16) / 2
    return np.clip(np.concatenate([near, drawn]), 1e-300, 0.5)


@pytest.mark.parametrize("law", LAWS, ids=str)
def test_buckets_do_not_change_quantiles(law: OffsetLattice) -> None:
    tails = theta.tails(law.scale, law.offset)
    u = probes(tails)
    found, wanted = law.upper_quantile(u), offset_lattice._quantiles_from_table(tails, u)
    assert np.array_equal(found[0], wanted[0])
    assert np.array_equal(found[1], wanted[1])
    guide = offset_lattice._bucket_table(law.scale, law.offset)
    if law in (DiscreteGaussian(1000.0), DiscreteGaussian(200.0)):  # else one way alone was taken
        assert (guide is None) is (law.scale == 1000.0)


@pytest.mark.parametrize("beside", [0.0, 2.0**-38, -(2.0**-38)])
def test_cells_ending_at_bucket_ends_are_uncertain(beside: float) -> None:
    """What is beside the end of a cell is certain on neither side, though buckets have one cell."""
    tails = 2.0 ** -np.arange(60.0) * (1 + beside)
    law = DiscreteGaussian(3.0)
    u = probes(tails)
    with (
        mock.patch.object(theta, "tails", return_value=tails),
        mock.patch.object(
            offset_lattice, "_bucket_table", offset_lattice._bucket_table.__wrapped__
        ),
    ):
        found, wanted = law.upper_quantile(u), offset_lattice._quantiles_from_table(tails, u)
    assert np.array_equal(found[0], wanted[0])
    assert np.array_equal(found[1], wanted[1])
    assert not wanted[1].all()
