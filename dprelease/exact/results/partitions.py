"""Partitions that occur in the data, before any of them is selected."""

from __future__ import annotations

from typing import NoReturn

from dprelease.exact.results.true_table import Integers
from dprelease.system.late_dataclasses import dataclass


@dataclass(frozen=True, slots=True, repr=False, eq=False)
class Partitions:
    """Texts of partitions, in no order that tells anything, and how many units each has.

    Not even their number may be told: it can't be printed, copied or pickled.
    """

    names: list[str]
    units: Integers

    def __repr__(self) -> str:
        return "<Partitions>"

    def __reduce__(self) -> NoReturn:
        raise TypeError("true partitions can't be pickled or copied")
