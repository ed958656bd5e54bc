"""Decompose the attributes of a family into cliques, whose tables have all declared tables as sums.

Two attributes are linked if a declared table has both. The graph is made chordal by eliminating one
attribute after another, always the one that links the smallest table (min-weight elimination). Its
maximal cliques form a junction tree: in the order of `cliques`, the attributes that a clique shares
with all earlier ones lie in a single one of these, its separator. So tables of cliques agree if
each agrees with one earlier table in the separator, and they can be computed one after another.

Source: Koller and Friedman, "Probabilistic Graphical Models" (2009), sections 9.4 and 10.4.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable
from dataclasses import dataclass

from dprelease.consistency.algebra import Table, cell_count


@dataclass(frozen=True)
class Clique:
    """The attributes of one table, and those that it shares with earlier ones.

    - `table`: the attributes.
    - `separator`: the shared attributes; None for the first clique.
    """

    table: Table
    separator: Table | None


def cliques(sizes: tuple[int, ...], tables: Iterable[Table]) -> list[Clique]:
    """Return cliques of which every table is a subset, each after the one with its separator.

    - `sizes`: the number of values of each attribute.
    """
    found = _maximal(_eliminated(sizes, list(tables)))
    first = max(found, key=lambda clique: (cell_count(sizes, clique), clique))
    ordered, waiting = [Clique(first, None)], [one for one in found if one != first]
    while waiting:  # Prim's algorithm: a spanning tree with the largest separators
        shared = {
            (earlier.table, later): tuple(i for i in later if i in earlier.table)
            for earlier in ordered
            for later in waiting
        }
        (_, following), separator = max(
            shared.items(), key=lambda one: (len(one[1]), cell_count(sizes, one[0][1]), one[0])
        )
        ordered.append(Clique(following, separator))
        waiting.remove(following)
    return ordered


def _eliminated(sizes: tuple[int, ...], tables: list[Table]) -> list[Table]:
    """Return the cliques that arise when attributes are eliminated one after another."""
    linked: dict[int, set[int]] = {i: {i} for table in tables for i in table}
    for one, other in itertools.chain.from_iterable(
        itertools.permutations(table, 2) for table in tables
    ):
        linked[one].add(other)
    found: list[Table] = [()] if not linked else []
    while linked:
        attribute = min(linked, key=lambda i: (cell_count(sizes, linked[i]), i))
        together = linked.pop(attribute)
        found.append(tuple(sorted(together)))
        for other in together - {attribute}:
            linked[other] |= together
            linked[other].discard(attribute)
    return found


def _maximal(tables: list[Table]) -> list[Table]:
    """Return the tables that are not part of another one."""
    return sorted({t for t in tables if not any(set(t) < set(other) for other in tables)})
