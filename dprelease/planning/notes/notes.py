"""All notes on a release, in the order in which `check` prints them.

Bands: their names may not cover all values, and edges may leave out values.

Codes: conditions see stored values, and expressions see declared codes.

Booleans read from texts: all but a few words are silently treated as missing.

Declared values that a header line, or surrounding spaces, may have changed.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import sqlglot
from sqlglot import exp

from dprelease.errors.printable import count_text
from dprelease.query.expressions.nodes import declared_codes
from dprelease.query.resolve import Query
from dprelease.schema.columns import (
    BooleanColumn,
    CategoryColumn,
    Column,
    CutColumn,
    IntegerColumn,
    NumberColumn,
)
from dprelease.schema.field_types import DROP
from dprelease.schema.load import Declared
from dprelease.statements.layers import needed_columns, needed_joined

HEADINGS = "Values of files: {}. The first line of each is the column name, not a value."
SPACES = "Spaces around values: {}. A stored code without these spaces is a different code."
"""Text of the note."""


def listed_below_headings(queries: Sequence[Query]) -> list[str]:
    """Return the numbers of values in files whose column is not named, each once.

    Without a header the first value would be taken for it, and its rows would be lost. That line is
    not printed: in an unexpected file it could be a row of data.
    """
    found: dict[str, None] = {}
    for name, column in _categories(queries):
        listed = column.values_from
        if listed is not None and listed.column is None:
            number = count_text(len(column.values or ()), "value", "values")
            found[f"{name} has {number} from '{listed.file}'"] = None
    return list(found)


def with_spaces(queries: Sequence[Query]) -> list[str]:
    """Return how many values of columns begin or end with a space, each once."""
    found: dict[str, None] = {}
    for name, column in _categories(queries):
        number = sum(value != value.strip() for value in column.values or ())
        if number:
            found[f"{count_text(number, 'value', 'values')} of {name}"] = None
    return list(found)


def _categories(queries: Sequence[Query]) -> Iterator[tuple[str, CategoryColumn]]:
    for query in queries:
        for name, column in query.table.columns.items():
            if isinstance(column, CategoryColumn):
                yield name, column


TRUTHS_FROM_TEXTS = (
    "Truth values read from texts: {}. Only true, t, 1, false, f and 0 are truth values; any other "
    "text, such as Yes, counts as missing, and is replaced as `nulls` declares. For such texts, "
    "declare a category; `dprelease profile` counts them."
)
"""Text of the note."""


def truths_from_texts(queries: Sequence[Query]) -> list[str]:
    """Return the boolean columns that queries use and sources store as texts, each once.

    From the declaration alone: only `profile` sees whether a text is another word, such as Yes or
    ja.
    """
    found: dict[str, None] = {}
    for query in queries:
        tables = [(query.declared, needed_columns(query))]
        if query.join is not None:
            tables.append((query.join.declared, needed_joined(query)))
        for declared, names in tables:
            found |= dict.fromkeys(_in_texts(declared, names))
    return list(found)


def _in_texts(declared: Declared, names: Sequence[str]) -> Iterator[str]:
    source = declared.table.source
    if source is None or not source.type.has_texts_for_booleans:
        return
    for name in names:
        if isinstance(declared.table.columns[name], BooleanColumn):
            yield f"{declared.table.name}.{name}"


COMPARISONS = (exp.EQ, exp.NEQ, exp.In, exp.NullSafeEQ, exp.NullSafeNEQ)
COMPARED_CELLS = (
    "Compared in `where`: {}. A condition compares stored values: rows that count in that cell "
    "because their code is undeclared or missing do not match."
)
CODES_READ = (
    "Codes read: {}. An expression sees only the declared codes of a category; all others are the "
    "same text, such as '?'. Declare the codes that it must distinguish, or the column as `text`."
)
"""Text of the note."""


def compared_cells(queries: Sequence[Query]) -> list[str]:
    """Return the comparisons of `where` with a value that `others` or `nulls` names, each once.

    A condition sees stored values, before other codes and missing values become a declared value.
    So of that cell it keeps only rows that store exactly this text, perhaps none.
    """
    found: dict[str, None] = {}
    for query in queries:
        if query.predicate is not None:
            tree = _parse_sql(query.predicate.sql)
            for case, _ in _codes_read(tree, query.table.columns):
                case.replace(exp.Null())
            found |= dict.fromkeys(_codes_in_comparisons(tree, query.table.columns))
    return list(found)


def codes_read(queries: Sequence[Query]) -> list[str]:
    """Return where codes of categories are processed, rather than compared, each once."""
    found: dict[str, None] = {}
    for query in queries:
        places = {name: formula.sql for name, formula in query.formulas.items()}
        if query.predicate is not None:
            places["`where`"] = query.predicate.sql
        for place, sql in places.items():
            names = [name for _, name in _codes_read(_parse_sql(sql), query.table.columns)]
            found |= dict.fromkeys(f"{name} in {place}" for name in names)
    return list(found)


def _parse_sql(sql: str) -> exp.Expr:
    # In a SELECT, so that the expression as a whole can be replaced, too.
    return sqlglot.parse_one(f"SELECT {sql}", dialect="duckdb")


def _codes_read(tree: exp.Expr, columns: Mapping[str, Column]) -> list[tuple[exp.Expr, str]]:
    """Return the expressions that read codes of a category, each with its column."""
    found: list[tuple[exp.Expr, str]] = []
    for case in tree.find_all(exp.Case):
        read = case.find(exp.Column)
        column = None if read is None else columns.get(read.name)
        if read is None or not isinstance(column, CategoryColumn):
            continue
        if case == sqlglot.parse_one(declared_codes(read.name, column), dialect="duckdb"):
            found.append((case, read.name))
    return found


def _codes_in_comparisons(tree: exp.Expr, columns: Mapping[str, Column]) -> Iterator[str]:
    for node in tree.find_all(*COMPARISONS):
        texts = {item.name for item in node.find_all(exp.Literal) if item.is_string}
        for name in dict.fromkeys(item.name for item in node.find_all(exp.Column)):
            column = columns.get(name)
            if isinstance(column, CategoryColumn | CutColumn):
                cells = sorted({column.others, column.nulls} - {DROP})
                yield from (f"{name} with '{cell}'" for cell in cells if cell in texts)


BANDS = "Bands: {}. Use `labels` to name them, and `others` to include values outside the edges."
"""Text of the note."""


def band_descriptions(queries: Sequence[Query]) -> list[str]:
    """Return the description of the bands that queries group by, each once.

    From the declaration alone. Integer edges without labels name bands by the integers in them, and
    values of a `number` may lie in between; edges may leave out declared values.
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
        yield f"{name} is named by whole numbers; values between them are in the band {there}"
    if isinstance(cut, IntegerColumn | NumberColumn) and column.others == DROP:
        left = column.closed == "left"
        first, last = column.edges[0], column.edges[-1]
        low = cut.lower is not None and (cut.lower < first or (cut.lower == first and not left))
        high = cut.upper is not None and (cut.upper > last or (cut.upper == last and left))
        ends = " and ".join(["the lower"] * low + ["the upper"] * high)
        if ends:
            yield f"{name} leaves out declared values of {column.cut} at {ends} end"


@dataclass(frozen=True, slots=True)
class Note:
    """The items of a note, which may be empty, and the text with a placeholder for them."""

    name: str
    """Its key in `check --json`."""
    words: str
    found: list[str]

    def __str__(self) -> str:
        """Return the note in words."""
        return self.words.format("; ".join(self.found))


def notes(queries: Sequence[Query]) -> list[Note]:
    """Return the notes on the queries of a release."""
    return [
        Note("truths_from_texts", TRUTHS_FROM_TEXTS, truths_from_texts(queries)),
        Note("compared_cells", COMPARED_CELLS, compared_cells(queries)),
        Note("codes_read", CODES_READ, codes_read(queries)),
        Note("bands", BANDS, band_descriptions(queries)),
        Note("listed_below_headings", HEADINGS, listed_below_headings(queries)),
        Note("with_spaces", SPACES, with_spaces(queries)),
    ]
