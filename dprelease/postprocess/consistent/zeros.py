"""Structural zeros: impossible combinations of values, which are 0 in every integer table."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from datetime import date

import numpy as np

from dprelease.numerics.lattice import Flags
from dprelease.postprocess.consistent.family_shape import Shape
from dprelease.query.grouping.group_keys import Key

SHOWN = 8
"""Number of values of a key that a message lists."""

Zeros = Sequence[Mapping[str, Sequence[str]]]


def key_texts(key: Key) -> list[str]:
    """Return the values of a key as written in a release file."""
    if key.kind == "boolean":
        return ["false", "true"]
    return [value.isoformat() if isinstance(value, date) else str(value) for value in key.values]


def wrong_zeros(shape: Shape, zeros: Zeros) -> Iterator[tuple[int, str, str]]:
    """Yield entries with an unknown key or value: number, key and reason."""
    keys = {key.column: key for key in shape.attributes}
    for i, entry in enumerate(zeros):
        for name, values in entry.items():
            if name not in keys:
                yield i, name, f"'{name}' is not a key of these tables other than areas"
                continue
            known = key_texts(keys[name])
            some = ", ".join(known[:SHOWN]) + (", ..." if len(known) > SHOWN else "")
            for value in dict.fromkeys(value for value in values if value not in known):
                yield i, name, f"'{value}' is no value of '{name}', which are {some}"


def zeros_of(shape: Shape, zeros: Zeros) -> Flags:
    """Return (n_i of all attributes) which finest cells are 0 everywhere."""
    found = np.zeros(shape.sizes, bool)
    for entry in zeros:
        is_impossible = np.ones(shape.sizes, bool)
        for i, key in enumerate(shape.attributes):
            if key.column in entry:
                is_listed = np.isin(key_texts(key), list(entry[key.column]))
                is_impossible &= is_listed.reshape(
                    [-1 if j == i else 1 for j in range(len(shape.sizes))]
                )
        found |= is_impossible
    return found
