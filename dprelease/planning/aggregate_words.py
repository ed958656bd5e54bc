"""What a measurement counts or adds up, in the words of plan and manifest."""

from __future__ import annotations

from dprelease.numerics.rounding import plain_text
from dprelease.query.aggregate import Count, CountDistinct, Frequent, Quantile, SquareSum, Sum, Tree
from dprelease.query.measurement import Measurement
from dprelease.query.resolve import Query


def counted_words(query: Query, measurement: Measurement) -> str:
    """Return what is counted or added up, and whether bounds leave out rows of a unit."""
    return aggregate_words(measurement) + (", of bounded rows" if query.unit.bounded_rows else "")


def aggregate_words(measurement: Measurement) -> str:
    """Return what is counted or added up, and of which rows, for plan and manifest."""
    match measurement.aggregate:
        case Count(column=None):
            return "count of rows"
        case Count(column=column):
            return f"count of rows in which '{column}' is not missing"
        case CountDistinct(column=column, values=None):
            return f"count of distinct '{column}'"
        case CountDistinct(column=column):
            return f"count of distinct declared values of '{column}'"
        case Sum(column=column, center=center, step=step, beside=beside):
            less = f", less {plain_text(center * step)} each" if center else ""
            both = "" if beside is None else f", of rows in which '{beside}' is not missing either"
            return (
                f"sum of '{column}', each value clamped to its bounds and rounded to the step{less}"
                f"{both}"
            )
        case SquareSum(column=column, center=center, base=base, offset=offset):
            return (
                f"sum of squares of '{column}' around {plain_text(center * base)}, each rounded to "
                f"the step, less {offset} steps each"
            )
    return _of_candidates(measurement)


def _of_candidates(measurement: Measurement) -> str:
    match measurement.aggregate:
        case Quantile():
            return _of_ranks(measurement.aggregate)
        case Tree(column=column, levels=levels):
            return f"counts of '{column}' in halves of its values, {levels} times halved"
        case Frequent(column=column, rank=rank):
            return f"the declared value of '{column}' with rank {rank} by number of rows"
    return "keys that enough units have"


def _of_ranks(asked: Quantile) -> str:
    apart = plain_text(asked.stride * asked.base)
    among = f", among values {apart} apart, rounded down to these" if asked.stride > 1 else ""
    if asked.at in (0, 1):
        end = "largest" if asked.at else "smallest"
        return f"about the {end} value of '{asked.column}', rather inside than beyond it{among}"
    below, above = plain_text(asked.at), plain_text(1 - asked.at)
    return (
        f"a value of '{asked.column}' with at most {below} of the values below it and at most "
        f"{above} above it, up to the error in ranks{among}"
    )
