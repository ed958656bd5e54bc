"""Warnings of a plan: valid declarations that are probably not intended, and negligible noise."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from fractions import Fraction
from typing import TYPE_CHECKING

from dprelease.mechanisms.base import Mechanism
from dprelease.planning.guarantees import interpretation_of
from dprelease.privacy.guarantee import Guarantee
from dprelease.query.resolve import Query

if TYPE_CHECKING:
    from dprelease.planning.plan import PlannedColumn

LARGE_EPSILON = 10.0
NEARLY_CERTAIN = Fraction(999, 1000)
"""The plan warns of noise that is 0 with at least this probability."""


def negligible_noise_warnings(columns: Sequence[PlannedColumn]) -> Iterator[str]:
    """Yield a warning for each column whose noise is nearly always 0."""
    for column in columns:
        mechanism = column.mechanism
        if isinstance(mechanism, Mechanism) and mechanism.half_width(float(NEARLY_CERTAIN)) == 0:
            yield (
                f"the noise of '{column.query.name}.{column.measurement.name}' is 0 with a "
                f"probability above {100 * float(NEARLY_CERTAIN):g} %: with that probability the "
                "true numbers are published."
            )


def declaration_warnings(queries: Sequence[Query], guarantee: Guarantee) -> Iterator[str]:
    """Yield a warning for each valid but probably unintended declaration."""
    for table in {query.table.name: query.table for query in queries}.values():
        if table.size is not None and guarantee.delta * table.size >= 1:
            yield (
                f"delta {float(guarantee.delta):g} is not below 1 / {table.size:,}, the declared "
                f"size of '{table.name}': publishing a few complete records would satisfy it."
            )
    if guarantee.epsilon > LARGE_EPSILON:
        yield (
            f"epsilon {guarantee.epsilon:.4g} promises little: a belief of 1 % may rise to "
            f"{100 * interpretation_of(guarantee)['largest_posterior'][0]['posterior']:.4g} %."
        )
