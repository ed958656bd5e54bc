"""Invariants: totals of consistent tables that are published exactly, outside the guarantee.

A declared invariant names a table of a family at a level. Every coarser table, with some of the
same keys at the same level or a higher one, is a sum of the cells of the invariant. So such a table
is known exactly as well, and is published without noise and without privacy cost.

**What remains of the guarantee.** Let M be the noised measurements and I(x) the invariants of the
rows x. If x and x' are neighbours and I(x) = I(x') = c, the release (M, I) has the same privacy
bound as M for x and x', because (M(x), c) is post-processing of M(x). The release promises nothing
between neighbours that differ in I. Under `add_remove`, all neighbours differ in the total of every
invariant in which the privacy unit counts. No guarantee would remain, so `replace` is required.
Then the guarantee holds if a privacy unit is replaced by another one with as many rows in each cell
of the invariants. If the invariants are persons by state, it protects all attributes of a person
within the state. By group privacy it also holds for several units at once, such as two persons who
exchange their states.

Sources: Gong and Meng, "Congenial differential privacy under mandated disclosure" (FODS 2020, arXiv
2008.08953); Bailie, Gong and Meng, "Refreshment stirred, not shaken" (II, 2025, arXiv 2501.08449),
whose data universes are our sets of tables with the same I; He, Machanavajjhala and Ding, "Blowfish
privacy" (SIGMOD 2014, arXiv 1312.3913): with constraints, neighbours are nearest pairs that satisfy
them, which may differ in several units.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from dprelease.privacy.unit import Neighbours
from dprelease.query.measurement import DECLARED, IMPLIED
from dprelease.schema.release import QuerySpec
from dprelease.schema.release_parts.consistent import InvariantSpec

ACKNOWLEDGEMENT = "invariants are published exactly"
"""The exact text that `acknowledge` must have."""

Refuse = Callable[..., None]


@dataclass(frozen=True, slots=True)
class _FamilyTable:
    """A table of a family: its level of areas, 0 for the whole area, and its other keys."""

    level: int
    keys: frozenset[str]

    def follows_from(self, other: _FamilyTable) -> bool:
        """Return whether the cells of this table are sums of cells of another table."""
        return self.level <= other.level and self.keys <= other.keys


def exact_columns(family: QuerySpec, keys: Sequence[str]) -> Mapping[str, str]:
    """Return the columns of one table that are published exactly; empty if all get noise.

    - `family`: the query to which the table belongs.
    - `keys`: the keys of the table; the level of areas comes first if there is one.

    Returns for each such column, "declared" for an invariant, or "implied" for a sum of an
    invariant.
    """
    if family.consistent is None or not family.consistent.invariants:
        return {}
    table = _family_table(family, keys)
    found: dict[str, str] = {}
    for spec in family.consistent.invariants:
        declared = _invariant_table(family, spec)
        if declared is None or not table.follows_from(declared):
            continue
        for column in _invariant_columns(family, spec):
            found[column] = DECLARED if table == declared else found.get(column, IMPLIED)
    return found


def refuse_invariants(family: QuerySpec, neighbours: Neighbours, refuse: Refuse) -> None:
    """Add errors for invariants that are not acknowledged, leave no guarantee, or don't exist."""
    consistency = family.consistent
    if consistency is None or (not consistency.invariants and consistency.acknowledge is None):
        return
    if not consistency.invariants:
        reason = "no `invariants` are declared"
        refuse("DP-CONSIST-013", "consistent", "acknowledge", key="acknowledge", reason=reason)
        return
    if consistency.acknowledge != ACKNOWLEDGEMENT:
        where = "invariants" if consistency.acknowledge is None else "acknowledge"
        refuse("DP-CONSIST-003", "consistent", where, words=ACKNOWLEDGEMENT)
    if neighbours is not Neighbours.REPLACE:
        refuse("DP-CONSIST-006", "consistent", "invariants", neighbours=neighbours.value)
    for place, reason in _problems_of_invariants(family):
        key = ".".join(part for part in place if isinstance(part, str))
        refuse("DP-CONSIST-013", "consistent", *place, key=key, reason=reason)


def _problems_of_invariants(family: QuerySpec) -> Iterator[tuple[tuple[str | int, ...], str]]:
    """Yield the key path of each impossible invariant, and the reason."""
    invariants = () if family.consistent is None else family.consistent.invariants
    tables = [_family_table(family, keys) for keys in family.keys_of_tables]
    open_columns = set(family.columns)
    for i, spec in enumerate(invariants):
        declared = _invariant_table(family, spec)
        if declared not in tables:
            level = f"level '{spec.level}'" if spec.level is not None else "the whole"
            reason = f"no table of {level} is by the keys [{', '.join(spec.table)}]"
            yield ("invariants", i), reason
            continue
        if spec.column is None and len(family.columns) > 1:
            names = ", ".join(family.columns)
            yield ("invariants", i), f"it needs a `column`, which are {names}"
        elif spec.column is not None and spec.column not in family.columns:
            names = ", ".join(family.columns)
            yield ("invariants", i, "column"), f"'{spec.column}' is not one of the columns {names}"
        if declared is not None and all(one.follows_from(declared) for one in tables):
            open_columns -= {*_invariant_columns(family, spec)}
    for column in family.columns:
        if column not in open_columns:
            yield ("invariants",), f"nothing of '{column}' would be left that noise protects"


def _invariant_columns(family: QuerySpec, spec: InvariantSpec) -> Sequence[str]:
    """Return the columns of a family that an invariant fixes: the named column, or all columns."""
    return [*family.columns] if spec.column is None else [spec.column]


def _invariant_table(family: QuerySpec, spec: InvariantSpec) -> _FamilyTable | None:
    """Return the table that an invariant names; None for an unknown level."""
    if spec.level is None:
        return _FamilyTable(0, frozenset(spec.table))
    if spec.level not in family.hierarchy:
        return None
    return _FamilyTable(1 + family.hierarchy.index(spec.level), frozenset(spec.table))


def _family_table(family: QuerySpec, keys: Sequence[str]) -> _FamilyTable:
    areas = [key for key in keys if key in family.hierarchy]
    level = 1 + family.hierarchy.index(areas[0]) if areas else 0
    return _FamilyTable(level, frozenset(keys) - {*areas})
