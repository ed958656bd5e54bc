"""What readers of bands would take for granted: that names say all, and that all are in a band."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from dprelease.query.resolve import Query
from dprelease.schema.columns import Column, CutColumn, IntegerColumn, NumberColumn
from dprelease.schema.field_types import DROP

BANDS = "Bands: {}. `labels` names them otherwise, and `others` takes in what edges leave out."
"""What `check` says of them."""


def told_bands(queries: Sequence[Query]) -> list[str]:
    """Return what `check` tells of the bands that queries group by, in words, each once.

    By the declaration alone. Whole edges without labels name bands by the whole numbers in them,
    and values of a `number` may lie between these; edges may leave out values that are declared.
    """
    found: dict[str, None] = {}
    for query in queries:
        columns = (query.view or query.declared.table).columns
        for key in query.keys.keys:
            column = columns.get(key.column)
            if isinstance(column, CutColumn):
                found |= dict.fromkeys(_band_notes(key.column, column, columns))
    return list(found)


def _band_notes(name: str, column: CutColumn, columns: Mapping[str, Column]) -> Iterator[str]:
    cut = columns.get(column.cut)
    whole = column.labels is None and all(edge.denominator == 1 for edge in column.edges)
    if isinstance(cut, NumberColumn) and whole:
        there = "below" if column.closed == "left" else "above"
        yield f"{name} is named by whole numbers, and what lies between two is in the band {there}"
    if isinstance(cut, IntegerColumn | NumberColumn) and column.others == DROP:
        left = column.closed == "left"
        first, last = column.edges[0], column.edges[-1]
        low = cut.lower is not None and (cut.lower < first or (cut.lower == first and not left))
        high = cut.upper is not None and (cut.upper > last or (cut.upper == last and left))
        ends = " and ".join(["the lower"] * low + ["the upper"] * high)
        if ends:
            yield f"{name} leaves out values of {column.cut} that are declared, at {ends} end"
