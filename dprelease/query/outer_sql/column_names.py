"""Names of the declared columns that hold the aggregates of a statement."""

from __future__ import annotations

import itertools
import re
from collections.abc import Collection

from dprelease.query.roles import WITH_COMPANIONS
from dprelease.schema.field_types import NAME, RESERVED

MOST_LETTERS = 50
"""Maximum length of a name that is derived from a column's, so that a number can be appended."""


def is_valid_column_name(name: str, taken: Collection[str]) -> bool:
    """Return whether a declared column may have this name; columns of results may have any."""
    is_name = bool(re.fullmatch(NAME, name)) and name.casefold() not in RESERVED
    return is_name and _is_unused(name, taken)


def _is_unused(name: str, taken: Collection[str]) -> bool:
    """Return whether neither a name nor the name of a companion column is taken."""
    return all(f"{name}{part}".casefold() not in taken for part in WITH_COMPANIONS)


def unused_name(new_name: str, taken: Collection[str]) -> str:
    """Return an unused name that a release file may declare, derived from a column's name."""
    name = re.sub("[^A-Za-z0-9_]+", "_", new_name)[:MOST_LETTERS]
    numbered = (f"{name}_{number}" for number in itertools.count(2))
    return next(free for free in itertools.chain([name], numbered) if _is_unused(free, taken))
