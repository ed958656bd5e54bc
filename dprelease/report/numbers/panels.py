"""Draw a table of cells: bars for one key, columns for a time, heat tables for more keys."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise, product

import numpy as np
from markupsafe import Markup

from dprelease.documents.metadata import Code, ColumnMetadata
from dprelease.numerics.lattice import Floats
from dprelease.query.forms.centred_moments import SUM
from dprelease.query.forms.single_part import MEASURED
from dprelease.report.accuracy.quality import ColumnQuality
from dprelease.report.numbers.cells import Number, Row, TableCells, first_number
from dprelease.report.numbers.charts import (
    MOST_BARS,
    TICK_HEIGHT,
    Bar,
    HeatCell,
    Panel,
    Scale,
    class_edges,
    columns_of,
    down,
    heat_cell,
    mark_of,
    round_lines,
)
from dprelease.report.numbers.number_texts import NumberText, NumberTexts
from dprelease.report.section_context import Context

# Draw many columns of one unit together, such as deciles: as bars or as a heat table.

FEW = 4
"""Maximum number of columns of one unit that each have a picture."""


def series_places(cells: TableCells) -> list[int]:
    """Return the positions of columns that are drawn together: more than `FEW` of one unit."""
    if len(cells.table.keys) > 1:
        return []
    units = Counter(cells.columns[place].column.unit for place in cells.numeric)
    return [place for place in cells.numeric if units[cells.columns[place].column.unit] > FEW]


def series_panels(context: Context, cells: TableCells) -> Iterator[Panel]:
    """Yield a picture for each unit of many columns: bars without keys, a heat table with one."""
    by_unit: dict[str, list[int]] = {}
    for place in series_places(cells) if cells.rows else ():
        by_unit.setdefault(cells.columns[place].column.unit, []).append(place)
    for unit, places in by_unit.items():
        title = context.unit_name(unit) if unit else context.names.table(cells.table)
        draw = _heat_of_columns if cells.table.keys else _bars_of_columns
        yield draw(context, cells, places[:MOST_BARS], title)


def _bars_of_columns(
    context: Context, cells: TableCells, places: Sequence[int], title: Markup
) -> Panel:
    """Return a bar chart of several columns of a table with one row."""
    numbers = [cells.rows[0].numbers[place] for place in places]
    scale = Scale.around(numbers)
    bars = [
        Bar(
            context.names.column(cells.columns[place].column),
            NumberTexts(context, cells.columns[place]).of(number),
            mark_of(number, scale),
        )
        for place, number in zip(places, numbers, strict=True)
    ]
    return Panel("bars", title, Markup(""), bars=bars)


def _heat_of_columns(
    context: Context, cells: TableCells, places: Sequence[int], title: Markup
) -> Panel:
    """Return a heat table of several columns of a table with one key: its first rows."""
    (key,), words = cells.table.keys, context.words
    texts = [NumberTexts(context, cells.columns[place]) for place in places]
    heads = [context.names.column(cells.columns[place].column) for place in places]
    drawn = cells.rows[: min(context.most, MOST_BARS)]
    largest = max(row.numbers[place].number or 0.0 for row in drawn for place in places)
    rows = [
        (
            context.names.value(key, row.keys[0]),
            [
                heat_cell(text, row.numbers[place], largest)
                for text, place in zip(texts, places, strict=True)
            ],
        )
        for row in drawn
    ]
    left = cells.size - len(rows)
    note = words.many("numbers.heat.first", left) if left else words.say("numbers.heat")
    return Panel("heat", title, note, heads=heads, rows=rows, corner=context.names.column(key))


LARGEST = 12
"""Number of bars of a table with more rows than bars."""

MOST_COLUMNS = 12
"""Maximum number of columns of a heat table."""

MOST_PANELS = 4
"""Maximum number of pictures of one table."""

MOST_IN_SERIES = 6
"""Maximum number of dates or numbers that are drawn as bars instead of columns."""

FULL = 30
"""Number of rows of a page's tables from which on it is small enough for all its pictures."""


def panels_of(context: Context, cells: TableCells) -> list[Panel]:
    """Return the pictures of a table: at most `MOST_PANELS`, each of one value column.

    Many columns of one unit, such as deciles, have a picture together. A page that would be too
    large has fewer pictures.
    """
    keys = cells.table.keys
    panels = list(series_panels(context, cells))
    alone = [place for place in cells.numeric if place not in series_places(cells)]
    for place in alone:
        picture = _Picture(context, cells, place)
        if len(keys) == 1 and _is_time(context, keys[0], cells):
            panels.append(picture.time_columns())
        elif len(keys) >= 2 and cells.is_whole and (found := picture.heat_tables()):
            panels += found
        elif keys:
            panels.append(picture.bars())
        if len(panels) >= MOST_PANELS:
            break
    return panels[: MOST_PANELS if context.most >= FULL else 1]


def _first_number(row: Row) -> float:
    """Return the first number of a row; minus infinity if it has none."""
    number = first_number(row)
    return -math.inf if number is None else number


def _half_width(number: Number) -> float | None:
    """Return half of the width of the interval of a number; None without a number or interval."""
    if number.number is None or number.low is None or number.high is None:
        return number.margin if number.number is not None else None
    return (number.high - number.low) / 2


def _is_time(context: Context, key: ColumnMetadata, cells: TableCells) -> bool:
    """Return whether a key is a date or a number without labels, whose order is a scale.

    Few values are drawn as bars, and too many for a page are not drawn in order.
    """
    fits = MOST_IN_SERIES < len(cells.rows) <= 5 * context.most and cells.is_whole
    labelled = key.codes is not None and bool(key.codes.labels)
    return fits and (key.kind.startswith("date") or ("int" in key.kind and not labelled))


@dataclass(frozen=True)
class _Picture:
    """Draws one value column of a table."""

    context: Context
    cells: TableCells
    place: int

    @property
    def one(self) -> ColumnQuality:
        """Return the value column."""
        return self.cells.columns[self.place]

    @property
    def texts(self) -> NumberTexts:
        """Return how the numbers of the column are written."""
        return NumberTexts(self.context, self.one)

    def number(self, row: Row) -> Number:
        """Return the number of the column in a row."""
        return row.numbers[self.place]

    def key_text(self, row: Row) -> Markup:
        """Return the labels of the keys of a row."""
        names = self.context.names
        parts = [
            names.value(key, code)
            for key, code in zip(self.cells.table.keys, row.keys, strict=True)
        ]
        return Markup(" · ").join(parts)

    def bars(self) -> Panel:
        """Return a bar chart of all rows, or of the rows with the largest values."""
        rows = list(self.cells.rows)
        has_order = all(key.codes is not None for key in self.cells.table.keys)
        if len(rows) > MOST_BARS or not self.cells.is_whole or not has_order:
            # All pictures of a table show the same rows, chosen by their first numbers.
            rows.sort(key=self._rank)
            rows = rows[: LARGEST if len(rows) > MOST_BARS else MOST_BARS]
        scale = Scale.around(map(self.number, rows))
        bars = [
            Bar(self.key_text(row), self.texts.of(number), mark_of(number, scale))
            for row in rows
            for number in [self.number(row)]
        ]
        return Panel("bars", self.texts.title, self._note(len(rows)), bars=bars)

    def _note(self, shown: int) -> Markup:
        """Return what is drawn, if not everything is."""
        words = self.context.words
        if shown == self.cells.size:
            return Markup("")
        first = NumberTexts(self.context, self.cells.columns[self.cells.numeric[0]]).title
        says = {"shown": words.number(shown), "all": words.number(self.cells.size)}
        name = "numbers.largest" if self.is_ranked_by_size else "numbers.surest"
        return words.say(name, column=first, **says)

    @property
    def is_ranked_by_size(self) -> bool:
        """Whether the rows with the largest first numbers are drawn.

        The largest means, medians and quotients are often the most uncertain ones, so of these the
        rows with the narrowest intervals are drawn.
        """
        first = self.cells.columns[self.cells.numeric[0]]
        declared = self.context.facts.query_column(first.table, first.column)
        return declared is None or declared.form in (SUM, MEASURED)

    def _rank(self, row: Row) -> float:
        """Return the rank of a row among those that are drawn; the least is drawn first."""
        if self.is_ranked_by_size:
            return -_first_number(row)
        width = _half_width(row.numbers[self.cells.numeric[0]])
        return math.inf if width is None else width

    def time_columns(self) -> Panel:
        """Return a column chart in the order of the key."""
        rows = sorted(self.cells.rows, key=lambda row: row.keys[0])
        numbers = [self.number(row) for row in rows]
        names = [self.context.names.plain_value(self.cells.table.keys[0], r.keys[0]) for r in rows]
        alts = [
            f"{name}: {self.texts.plain(one)}" for name, one in zip(names, numbers, strict=True)
        ]
        scale = Scale.around(numbers)
        columns = columns_of(numbers, names, alts, scale)
        lines = [(down(scale, 0.0), "")]
        for place in round_lines(scale):
            if (top := down(scale, place)) > TICK_HEIGHT:
                lines.append((top, self.context.words.number(place)))
        alt = self.context.words.plain("numbers.columns.alt", columns="; ".join(alts[:50]))
        return Panel("columns", self.texts.title, Markup(""), alt, columns=columns, lines=lines)

    def heat_tables(self) -> list[Panel]:
        """Return heat tables of the two largest keys, one for each combination of the others.

        The result is empty if no arrangement has few columns.
        """
        keys, rows = self.cells.table.keys, self.cells.rows
        codes = [_codes_in_order(key, [row.keys[i] for row in rows]) for i, key in enumerate(keys)]
        order = sorted(range(len(keys)), key=lambda i: -len(codes[i]))
        fitting = [i for i in order[1:] if len(codes[i]) <= MOST_COLUMNS]
        others = [i for i in order[1:] if fitting and i != fitting[0]]
        combinations = list(product(*(codes[i] for i in others)))
        if not fitting or len(combinations) > MOST_PANELS:
            return []
        by_keys = {row.keys: self.number(row) for row in rows}
        largest = max((n.number or 0.0 for n in by_keys.values()), default=0.0)
        heat = _Heat(self, order[0], fitting[0], codes, by_keys, largest)
        return [heat.panel(dict(zip(others, fixed, strict=True))) for fixed in combinations]


@dataclass(frozen=True)
class _Heat:
    """Draws heat tables of one value column: a key down, another one across."""

    picture: _Picture
    down: int
    across: int
    codes: Sequence[Sequence[Code]]
    numbers: dict[tuple[Code, ...], Number]
    largest: float

    def panel(self, fixed: dict[int, Code]) -> Panel:
        """Return the heat table of the rows with some fixed keys."""
        picture = self.picture
        keys, names = picture.cells.table.keys, picture.context.names
        labels = [names.value(keys[i], code) for i, code in fixed.items()]
        title = Markup(": ").join(
            [picture.texts.title, *([Markup(" · ").join(labels)] * bool(labels))]
        )
        shown = list(self.codes[self.down])
        most = min(picture.context.most, MOST_BARS)
        if len(shown) > most:
            ranked = sorted(shown, key=lambda code: self._rank_of(code, fixed))[:most]
            shown = [code for code in shown if code in ranked]
        rows = [
            (
                names.value(keys[self.down], code),
                [self._cell(code, c, fixed) for c in self.codes[self.across]],
            )
            for code in shown
        ]
        left = len(self.codes[self.down]) - len(shown)
        words = picture.context.words
        rest = "numbers.heat.left" if picture.is_ranked_by_size else "numbers.heat.first"
        note = words.many(rest, left) if left else words.say("numbers.heat")
        heads = [names.value(keys[self.across], code) for code in self.codes[self.across]]
        return Panel(
            "heat", title, note, heads=heads, rows=rows, corner=names.column(keys[self.down])
        )

    def _number(self, down: Code, across: Code, fixed: dict[int, Code]) -> Number:
        """Return the number of one cell; a missing one if the table has no such row."""
        codes = {**fixed, self.down: down, self.across: across}
        return self.numbers.get(tuple(codes[i] for i in range(len(codes))), Number(None))

    def _rank_of(self, code: Code, fixed: dict[int, Code]) -> float:
        """Return the rank of a row among those that are drawn; the least is drawn first."""
        numbers = [self._number(code, c, fixed) for c in self.codes[self.across]]
        if self.picture.is_ranked_by_size:
            return -max(number.number or 0.0 for number in numbers)
        return min((w for w in map(_half_width, numbers) if w is not None), default=math.inf)

    def _cell(self, down: Code, across: Code, fixed: dict[int, Code]) -> HeatCell:
        return heat_cell(self.picture.texts, self._number(down, across, fixed), self.largest)


def _codes_in_order(key: ColumnMetadata, found: Sequence[Code]) -> list[Code]:
    """Return the values of a key that a table has, in their declared order or as they come."""
    there = dict.fromkeys(found)
    if key.codes is None:
        return list(there)
    return [code for code in key.codes.values if code in there]


def distribution_panel(context: Context, one: ColumnQuality, values: Floats) -> Panel:
    """Return how many published values of a column lie in each of about ten classes."""
    words, edges = context.words, class_edges(values.tolist())
    counts, _ = np.histogram(values, bins=np.asarray(edges))
    number: Callable[[float], str] = words.number
    names = [
        words.plain(
            "numbers.class.first" if math.isinf(low) else "numbers.class",
            low=number(low),
            high=number(high),
        )
        for low, high in pairwise(edges)
    ]
    alts = [f"{name}: {number(int(count))}" for name, count in zip(names, counts, strict=True)]
    counted = [Number(int(count)) for count in counts]
    scale = Scale.around(counted)
    texts = NumberTexts(context, one)
    bars = [
        Bar(Markup.escape(name), NumberText.plain_number(number(each.value)), mark_of(each, scale))
        for name, each in zip(names, counted, strict=True)
    ]
    says = {"column": texts.title, "all": number(len(values))}
    title = words.say("numbers.distribution", **says)
    return Panel("bars", title, Markup(""), "; ".join(alts), bars=bars)
