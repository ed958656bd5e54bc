"""Read published numbers on a lattice as numbers of steps."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING

import numpy as np

from dprelease.numerics.lattice import Flags, Integers
from dprelease.postprocess.finishing import post_process
from dprelease.query.measurement import OutputColumn

if TYPE_CHECKING:
    import pyarrow as pa

MOST = 2**63 - 1
"""Maximum of a published value in steps, which is larger than any noised vector or sum of them."""


@dataclass(frozen=True, slots=True)
class Steps:
    """Published numbers (n,) of a column in steps; `known`: which of them are not empty."""

    numbers: Integers
    known: Flags


def values_in_steps(values: pa.Array, step: Fraction) -> Steps | None:
    """Return values as numbers of noise steps; None if a value is not a multiple of the step."""
    import pyarrow as pa

    known = values.is_valid().to_numpy(zero_copy_only=False)
    if pa.types.is_date32(values.type):
        values = values.cast(pa.int32()).cast(pa.int64())
    if pa.types.is_timestamp(values.type):
        micros = values.cast(pa.int64()).fill_null(0).to_numpy()
        seconds, rest = np.divmod(micros, 1_000_000)
        return None if rest.any() else Steps(seconds, known)
    if step == 1:
        return Steps(values.fill_null(0).to_numpy(), known)
    found = [Fraction(value or 0) / step for value in values.to_pylist()]
    if any(value.denominator != 1 or abs(value) > MOST for value in found):
        return None
    return Steps(np.array([int(value) for value in found], dtype=np.int64), known)


def is_postprocessed(steps: Integers, column: OutputColumn) -> bool:
    """Return whether post-processing leaves values unchanged; bounds may be unrounded."""
    post, step = column.post, column.step or Fraction(1)
    ends = [int(end / step) for end in (post.bottom_code, post.top_code) if end is not None]
    again, _ = post_process(steps, post, step)
    return bool(((again == steps) | np.isin(steps, ends)).all())
