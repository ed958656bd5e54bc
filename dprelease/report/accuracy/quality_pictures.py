"""Draw the pictures of the quality section: for each unit, rows of dots and lines on one scale."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np

from dprelease.report.accuracy.quality import CLASSES, ColumnQuality, class_bounds
from dprelease.report.dots import PictureRow, PictureScale, can_be_drawn
from dprelease.report.localization import round_up_to_three_digits, to_three_digits
from dprelease.report.pictures import Picture
from dprelease.report.safe import printable_text
from dprelease.report.sheet import ticks_between

if TYPE_CHECKING:
    from dprelease.report.accuracy.quality_part import SimulatedErrors
    from dprelease.report.section_context import Context

MOST_UNITS = 8
"""Maximum number of pictures of one kind; further units are only in the tables."""

MOST_ROWS = 24
"""Maximum number of rows of a picture; with more tables, a row stands for a query."""

MOST_RINGS = 60
"""Maximum number of rings in a row.

If there are more columns, only every n-th column, in the order of margins, gets a ring.
"""


def _columns_by_unit(columns: Iterable[ColumnQuality]) -> Mapping[str, list[ColumnQuality]]:
    """Return columns by their unit, for as many units as there are pictures."""
    units: dict[str, list[ColumnQuality]] = {}
    for one in columns:
        units.setdefault(one.column.unit, []).append(one)
    return dict(list(units.items())[:MOST_UNITS])


def _unit_title(context: Context, unit: str) -> dict[str, str]:
    """Return the part of a picture's title that names a unit."""
    return {"unit": unit or context.words.plain("errors.unit.none")}


def error_pictures(context: Context, columns: Sequence[ColumnQuality]) -> list[Picture]:
    """Return pictures of the expected margins of all columns, one for each unit."""
    by_unit: dict[str, list[ColumnQuality]] = {}
    for one in columns:
        if one.expected is not None and can_be_drawn(one.expected.margin):
            by_unit.setdefault(one.expected.unit, []).append(one)
    pictures = []
    for unit, group in list(by_unit.items())[:MOST_UNITS]:
        name = _unit_title(context, unit)["unit"]
        parts = _rows_of_margins(context, group)
        every = tuple(row for rows in parts.values() for row in rows)
        axis = context.words.plain("errors.axis", unit=name)
        scale = PictureScale(axis, context.words.number, others=every)
        for of, rows in parts.items():
            kind = "errors_range" if any(row.line for row in rows) else "errors"
            title = {"unit": f"{name}, {of}" if of else name}
            pictures.append(context.gallery.picture_of_rows(kind, rows, scale, title=title))
    return pictures[: 2 * MOST_UNITS]


def _rows_of_margins(
    context: Context, columns: Sequence[ColumnQuality]
) -> Mapping[str, list[PictureRow]]:
    """Return the rows of pictures: one for each table or, for many tables, one for each query."""
    from dprelease.report.accuracy.quality_part import group_columns, group_name

    groups = group_columns(columns)
    if len(columns) <= MOST_ROWS:
        return {
            "": [_row_of_margins(context, _column_title(context, one), [one]) for one in columns]
        }
    if len(groups) <= MOST_UNITS and all(len(group) <= MOST_ROWS for group in groups):
        return {
            printable_text(f"{group_name(group)}: {group[0].column.name}", 60): [
                _row_of_margins(context, _table_title(context, one), [one]) for one in group
            ]
            for group in groups
        }
    rows = [
        _row_of_margins(context, f"{group_name(group)}: {group[0].column.name}", group)
        for group in groups[:MOST_ROWS]
    ]
    return {"": rows}


def _table_title(context: Context, one: ColumnQuality) -> str:
    """Return the title of a column's table as plain text."""
    return context.names.plain(one.table.label, one.table.name.rpartition("/")[2])


def _column_title(context: Context, one: ColumnQuality) -> str:
    """Return the title of a column, preceded by the title of its table, as plain text."""
    return f"{_table_title(context, one)}: {context.names.plain(one.column.label, one.column.name)}"


def _row_of_margins(context: Context, name: str, group: Sequence[ColumnQuality]) -> PictureRow:
    """Return the row of a group of columns: the middle of their margins, and the range."""
    expected = [one.expected for one in group if one.expected is not None]
    margins = sorted(one.margin for one in expected)
    margin = margins[len(margins) // 2]
    ends = min(one.least for one in expected), max(one.largest for one in expected)
    line = ends if ends[1] > 1.0005 * ends[0] and can_be_drawn(ends[0]) else None
    note = context.words.plain(
        "quality.margin", margin=context.words.number(round_up_to_three_digits(margin))
    )
    return PictureRow(name, note, ((margin, "dot"),), line)


def size_pictures(context: Context, columns: Sequence[ColumnQuality]) -> list[Picture]:
    """Return pictures of margins as shares of the values, by size of the value."""
    pictures = []
    for unit, group in _columns_by_unit(one for one in columns if one.classes).items():
        rows = [row for size in range(CLASSES) if (row := _row_of_size(context, group, size))]
        if not rows:
            continue
        axis = context.words.plain("size.axis")
        scale = PictureScale(axis, context.words.percent, ticks=_scale_shares(rows))
        key = [("dot", context.words.plain("size.dot"))]
        if any(look == "faint" for row in rows for _, look in row.marks):
            key.insert(0, ("faint", context.words.plain("size.ring")))
        title = _unit_title(context, unit)
        pictures.append(context.gallery.picture_of_rows("size", rows, scale, key, title))
    return pictures


def _scale_shares(rows: Sequence[PictureRow]) -> tuple[float, ...]:
    """Return round shares on the scale of some rows, with free space at both ends."""
    places = [place for row in rows for place, _ in row.marks]
    low, high = min(places), max(places)
    if high < 3.0 * low:
        middle = (low * high) ** 0.5
        low, high = middle / 3.0**0.5, middle * 3.0**0.5
    return tuple(ticks_between(low, high))


def _row_of_size(context: Context, group: Sequence[ColumnQuality], size: int) -> PictureRow | None:
    """Return the row of a size class; None if no cell in this class has a margin."""
    cells = sum(float(one.counted.by_class[size]) for one in group)
    sizes = sum(float(one.counted.sizes[size]) for one in group)
    margins = sum(float(one.counted.margins[size]) for one in group)
    if not cells or not sizes or not can_be_drawn(margins / sizes):
        return None
    each = sorted(
        part for one in group if (part := one.relative_margin_in(size)) and can_be_drawn(part)
    )
    rings = each if len(group) > 1 else []
    if len(rings) > MOST_RINGS:
        picked = np.linspace(0, len(rings) - 1, MOST_RINGS).round().astype(int)
        rings = [rings[i] for i in picked.tolist()]
    part = margins / sizes
    note = context.words.plain(
        context.words.sentence_name("size.told", int(cells)),
        cells=context.words.number(cells),
        part=context.words.percent(part),
    )
    marks = (*((ring, "faint") for ring in rings), (part, "dot"))
    return PictureRow(class_text(context, size), note, marks)


def class_text(context: Context, size: int) -> str:
    """Return the name of a size class as text."""
    low, high = class_bounds(size)
    ends = {"low": context.words.number(low), "high": context.words.number(high)}
    return context.words.plain("size.row" if low else "size.row.first", **ends)


def _columns_by_class(
    group: Sequence[ColumnQuality], simulated: SimulatedErrors
) -> Mapping[int, list[tuple[ColumnQuality, float]]]:
    """Return columns with true values in each size class, each with its number of cells."""
    found: dict[int, list[tuple[ColumnQuality, float]]] = {}
    for one in group:
        errors = simulated.get((one.table.name, one.column.name))
        for size in () if errors is None else errors.classes:
            if errors is not None:
                found.setdefault(size, []).append((one, float(errors.cells[size])))
    return dict(sorted(found.items()))


def simulated_pictures(
    context: Context, columns: Sequence[ColumnQuality], simulated: SimulatedErrors
) -> list[Picture]:
    """Return pictures of simulated and expected errors by the size of the true value."""
    pictures = []
    words = context.words
    for unit, group in _columns_by_unit(columns).items():
        rows = []
        for size, of_class in _columns_by_class(group, simulated).items():
            errors = [simulated[one.table.name, one.column.name] for one, _ in of_class]
            cells = sum(number for _, number in of_class)
            error = sum(float(one.sizes[size]) for one in errors) / cells
            known = [
                (one.expected_error, number)
                for one, number in of_class
                if one.expected_error is not None
            ]
            marks = [(error, "dot")] if can_be_drawn(error) else []
            if len(known) == len(of_class):
                ring = sum(mean * number for mean, number in known) / cells
                marks = [(ring, "ring"), *marks] if can_be_drawn(ring) else marks
            note = words.plain(
                words.sentence_name("simulated.told", int(cells)),
                cells=words.number(cells),
                error=words.number(to_three_digits(error)),
            )
            rows.append(PictureRow(class_text(context, size), note, tuple(marks)))
        if rows:
            scale = PictureScale(
                words.plain("simulated.axis", **_unit_title(context, unit)), words.number
            )
            key = (
                ("dot", words.plain("simulated.dot")),
                ("ring", words.plain("simulated.ring")),
            )
            title = _unit_title(context, unit)
            pictures.append(context.gallery.picture_of_rows("simulated", rows, scale, key, title))
    return pictures


def bias_pictures(
    context: Context, columns: Sequence[ColumnQuality], simulated: SimulatedErrors
) -> list[Picture]:
    """Return pictures of the simulated bias by the size of the true value, with random errors."""
    pictures = []
    words = context.words
    for unit, group in _columns_by_unit(columns).items():
        found = []
        for size, of_class in _columns_by_class(group, simulated).items():
            errors = [simulated[one.table.name, one.column.name] for one, _ in of_class]
            cells = sum(number for _, number in of_class)
            bias = sum(float(one.off[size]) for one in errors) / cells
            square = sum(float(one.squares[size]) for one in errors) / cells
            doubt = 2.0 * (max(square - bias**2, 0.0) / max(cells - 1.0, 1.0)) ** 0.5
            found.append((size, bias, doubt if cells > 1 else abs(bias)))
        if not found:
            continue
        rows = [
            PictureRow(
                class_text(context, size),
                words.plain("bias.told", bias=words.number(to_three_digits(bias))),
                ((bias, "dot"),),
                (bias - doubt, bias + doubt),
            )
            for size, bias, doubt in found
        ]
        far = 1.05 * max(abs(bias) + doubt for _, bias, doubt in found) or 1.0
        near = float(f"{far / 1.4:.1g}")
        axis = words.plain("bias.axis", **_unit_title(context, unit))
        scale = PictureScale(axis, words.number, (-far, far), (-near, 0.0, near))
        pictures.append(
            context.gallery.picture_of_rows("bias", rows, scale, title=_unit_title(context, unit))
        )
    return pictures
