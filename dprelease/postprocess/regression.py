"""Coefficients of linear regressions, with intervals, from a noisy matrix of moments."""

from __future__ import annotations

import math

import numpy as np

from dprelease.mechanisms.base import Mechanism
from dprelease.numerics.lattice import Flags, Floats
from dprelease.postprocess.estimates import (
    Ends,
    FractionArithmetic,
    Vectors,
    estimates_in_batches,
    values_in_batches,
)
from dprelease.postprocess.joint_moments import JointMoments
from dprelease.postprocess.margins import Estimates
from dprelease.postprocess.noise_table import noise_width
from dprelease.query.forms.joint_moments import INTERCEPT, SLOPE
from dprelease.query.measurement import Form, OutputColumn


def _inverses(joint: JointMoments) -> tuple[Floats, Flags]:
    """Return the inverses of A (n, size - 1, size - 1), and where A is positive definite.

    Elsewhere, the inverse is that of the identity matrix.
    """
    a = joint.matrix[:, :-1, :-1]
    # A is divided by the number of rows: the least eigenvalue is compared with rounding errors.
    per_row = a / np.maximum(joint.count, 1.0)[:, None, None]
    definite = (joint.count >= 1.0) & (np.linalg.eigvalsh(per_row)[:, 0] > 1e-9)
    return np.linalg.inv(np.where(definite[:, None, None], a, np.eye(a.shape[1]))), definite


def _weights_and_constant(column: OutputColumn, joint: JointMoments) -> tuple[Floats, float]:
    """Return by which weights, and plus which constant, the value follows from scaled coefficients.

    The value is in the column's unit. An intercept is that of the columns themselves, and not of
    their differences from the centers.
    """
    steps = np.array([float(one.step) for one in joint.sums])
    units = joint.halves[1:] * steps
    per_unit = units[-1] / units[:-1]
    if column.form == SLOPE:
        weights = np.zeros(len(units))
        weights[1] = per_unit[0]
        return weights, 0.0
    centers = np.array([one.center for one in joint.sums]) * steps
    return np.array([units[-1], *(-centers[:-1] * per_unit)]), float(centers[-1])


def _coefficients(joint: JointMoments) -> tuple[Floats, Floats, Flags]:
    """Return scaled coefficients (n, size - 1), inverses of A, and where A is definite."""
    inverses, definite = _inverses(joint)
    found = np.einsum("nij,nj->ni", inverses, joint.matrix[:, :-1, -1])
    return np.where(definite[:, None], found, math.nan), inverses, definite


def _values(column: OutputColumn, vectors: Vectors) -> Floats:
    """Return slopes or intercepts (n,) in the column's unit."""
    joint = JointMoments.of(column, vectors)
    weights, constant = _weights_and_constant(column, joint)
    values: Floats = _coefficients(joint)[0] @ weights + constant
    return values


def _estimates(
    column: OutputColumn, vectors: Vectors, parts: list[Mechanism], confidence: float
) -> Estimates:
    """Return slopes or intercepts with their intervals, in the column's unit."""
    mechanisms, joint = tuple(parts), JointMoments.of(column, vectors)
    weights, constant = _weights_and_constant(column, joint)
    coefficients, inverses, definite = _coefficients(joint)
    width = noise_width(mechanisms, confidence)
    unsure = ~definite | ~(joint.count > parts[0].half_width(confidence))
    with_y = np.where(definite[:, None], coefficients, 0.0)
    with_y = np.concatenate((with_y, -np.ones_like(unsure, dtype=np.float64)[:, None]), axis=1)

    def derivatives(of: Floats) -> Floats:
        """Return by how much the noise (parts, n, size) of each column of G moves A^-1 of."""
        padded = np.concatenate((of, np.zeros_like(unsure, dtype=np.float64)[:, None]), axis=1)
        found: Floats = np.einsum("ni,pij->pnj", padded, joint.tensor)
        return found

    moved = [derivatives(inverses[:, :, i]) for i in range(inverses.shape[1])]
    first = [np.einsum("pnj,nj->pn", one, with_y) for one in moved]
    errors = np.stack([width.of(one) for one in first], axis=1)
    for i in range(inverses.shape[1]):
        own = inverses[:, i, i]  # its inverse is what remains of the variation after the others
        margin = width.of(np.einsum("pnj,nj->pn", moved[i][:, :, :-1], inverses[:, :, i]))
        unsure |= ~(own > margin)
    total = sum(weight * one for weight, one in zip(weights, moved, strict=True))
    enlarged = np.abs(np.einsum("pnj,nj->pn", total, with_y))
    enlarged += np.einsum("pnj,nj->pn", np.abs(total[:, :, :-1]), errors)
    half = width.of(enlarged)
    values = coefficients @ weights + constant
    low = np.where(unsure, -math.inf, values - half)
    high = np.where(unsure, math.inf, values + half)
    return Estimates(values, low, high, unsure, np.zeros_like(unsure))


def _ends(_column: OutputColumn) -> Ends:
    """Return that nothing limits coefficients."""
    return -math.inf, math.inf


REGRESSIONS: dict[Form, FractionArithmetic] = {
    form: FractionArithmetic(values_in_batches(_values), estimates_in_batches(_estimates), _ends)
    for form in (SLOPE, INTERCEPT)
}
