"""All notes on a release, in the order in which `check` prints them.

A note warns about a valid declaration with effects that its author may not expect:

- Bands may have names that do not cover all of their values, and edges that leave out values.
- Conditions see stored values, while expressions see declared codes.
- Booleans that are read from texts count as missing for all but a few texts.
- Ids of the same person may be written in two ways in a table and in its correspondence table.
- Values in a file may contain a header line.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import sqlglot
from sqlglot import exp

from dprelease.errors import Place, QueryError
from dprelease.errors.printable import count_text
from dprelease.planning.bounded_words import differently_bounded, differently_counted
from dprelease.planning.budget_shares import query_shares_texts
from dprelease.query.expressions.nodes import declared_code_sql
from dprelease.query.resolve import Query
from dprelease.schema.columns import (
    BooleanColumn,
    CategoryColumn,
    Column,
    CutColumn,
    IntegerColumn,
    NumberColumn,
    TextColumn,
)
from dprelease.schema.field_types import DROP
from dprelease.schema.load import Declared
from dprelease.schema.release import ReleaseSpec
from dprelease.statements.layers import needed_columns, needed_joined_columns

HEADINGS_TEXT = "Values of files: {}. The first line of each is the column name, not a value."
"""The text of the note on values in files, for a list of columns."""


def columns_listed_below_headings(queries: Sequence[Query]) -> list[str]:
    """Return the columns with values from files without a named column, each with a count.

    In a file without a header line, the first value would be taken for the header, and all rows
    with this value would be lost. The note does not print the first line, because it could be a row
    of data if the file is not the expected one.
    """
    items: dict[str, None] = {}
    for name, column in _categories(queries):
        listed = column.values_from
        if listed is not None and listed.column is None:
            number = count_text(len(column.values or ()), "value", "values")
            items[f"{name} has {number} from '{listed.file}'"] = None
    return list(items)


def _categories(queries: Sequence[Query]) -> Iterator[tuple[str, CategoryColumn]]:
    """Yield the name and the declaration of each category column of the queries."""
    for query in queries:
        for name, column in query.table.columns.items():
            if isinstance(column, CategoryColumn):
                yield name, column


TRUTHS_TEXT = (
    "Truth values read from texts: {}. Only true, t, 1, false, f and 0 are truth values; any other "
    "text, such as Yes, counts as missing, and is replaced as `fill` declares. For such texts, "
    "declare a category; `dprelease profile` counts them."
)
"""The text of the note on booleans that are read from texts."""


def booleans_stored_as_texts(queries: Sequence[Query]) -> list[str]:
    """Return the boolean columns that queries use and sources store as texts, without repetitions.

    The columns follow from the declaration alone. Only `profile` reads the data, and finds other
    texts, such as Yes or ja.
    """
    items: dict[str, None] = {}
    for query in queries:
        tables = [(query.declared, needed_columns(query))]
        if query.join is not None:
            tables.append((query.join.declared, needed_joined_columns(query)))
        for declared, names in tables:
            items |= dict.fromkeys(_booleans_in_texts(declared, names))
    return list(items)


def _booleans_in_texts(declared: Declared, names: Sequence[str]) -> Iterator[str]:
    """Yield the boolean columns that a source stores as texts."""
    source = declared.table.source
    if source is None or not source.type.has_texts_for_booleans:
        return
    for name in names:
        if isinstance(declared.table.columns[name], BooleanColumn):
            yield f"{declared.table.name}.{name}"


LOOKED_UP_TEXT = (
    "Ids that are looked up as texts: {}. A row whose id the correspondence table writes in "
    "another way, such as 1 and 01, counts for nobody, and a release does not report it; "
    "`dprelease profile` does. If all ids are whole numbers, `type: integer` compares them as such."
)
"""The text of the note on ids that a correspondence table gives to persons."""


def ids_looked_up_as_texts(queries: Sequence[Query]) -> list[str]:
    """Return the columns of texts whose ids are looked up, without repetitions."""
    items: dict[str, None] = {}
    for query in queries:
        joined = [] if query.join is None else [query.join.declared]
        for declared in (query.declared, *joined):
            lookup = declared.table.privacy_unit.lookup
            if lookup is not None and isinstance(declared.table.columns[lookup.key], TextColumn):
                items[f"{declared.table.name}.{lookup.key}"] = None
    return list(items)


COMPARISONS = (exp.EQ, exp.NEQ, exp.In, exp.NullSafeEQ, exp.NullSafeNEQ)
COMPARED_CELLS_TEXT = (
    "Compared in `where`: {}. A condition compares stored values: rows that count in that cell "
    "because their code is undeclared or missing do not match."
)
CODES_READ_TEXT = (
    "Codes read: {}. An expression sees only the declared codes of a category; all others are the "
    "same text, such as '?'. Declare the codes that it must distinguish, or the column as `text`."
)
"""The text of the note on comparisons with substitutes, and of the note on processed codes."""


def comparisons_with_substitutes(queries: Sequence[Query]) -> list[str]:
    """Return the comparisons in `where` with a value that `others` or `fill` declares.

    A condition sees stored values, before undeclared codes and missing values are replaced with the
    declared value. So the condition keeps only rows that store exactly this text, perhaps none.
    """
    items: dict[str, None] = {}
    for query in queries:
        if query.predicate is not None:
            tree = _parse_sql(query.predicate.sql)
            for case, _ in _codes_read(tree, query.table.columns):
                case.replace(exp.Null())
            items |= dict.fromkeys(_codes_in_comparisons(tree, query.table.columns))
    return list(items)


def refuse_comparisons_with_others(queries: Sequence[Query], place: Place) -> None:
    """Raise QueryError DP-WHERE-006 for a comparison in `where` with the cell of undeclared codes.

    For queries without `check`, which notes such comparisons of release files.
    """
    others = {
        f"{name} with '{column.others}'"
        for query in queries
        for name, column in query.table.columns.items()
        if isinstance(column, CategoryColumn | CutColumn) and column.others != DROP
    }
    for item in comparisons_with_substitutes(queries):
        if item in others:
            because = ", because a condition compares stored codes, and rows with undeclared codes "
            because += "would not match, though they count in that cell"
            advice = "compare with the other declared codes, as in state NOT IN ('CT', 'VT'); or "
            advice += "use the column as a key, and select the cell after the noise"
            what = item.replace(" with ", " = ")
            raise QueryError("DP-WHERE-006", place=place, what=what, reason=because, advice=advice)


def columns_processed_as_codes(queries: Sequence[Query]) -> list[str]:
    """Return each category column that an expression does more with than compare it, and where."""
    items: dict[str, None] = {}
    for query in queries:
        places = {name: formula.sql for name, formula in query.formulas.items()}
        if query.predicate is not None:
            places["`where`"] = query.predicate.sql
        for place, sql in places.items():
            names = [name for _, name in _codes_read(_parse_sql(sql), query.table.columns)]
            items |= dict.fromkeys(f"{name} in {place}" for name in names)
    return list(items)


def _parse_sql(sql: str) -> exp.Expr:
    """Return the syntax tree of an expression."""
    # In a SELECT, so that the expression as a whole can be replaced, too.
    return sqlglot.parse_one(f"SELECT {sql}", dialect="duckdb")


def _codes_read(tree: exp.Expr, columns: Mapping[str, Column]) -> list[tuple[exp.Expr, str]]:
    """Return the expressions that read codes of a category, each with its column."""
    items: list[tuple[exp.Expr, str]] = []
    for case in tree.find_all(exp.Case):
        read = case.find(exp.Column)
        column = None if read is None else columns.get(read.name)
        if read is None or not isinstance(column, CategoryColumn):
            continue
        if case == sqlglot.parse_one(declared_code_sql(read.name, column), dialect="duckdb"):
            items.append((case, read.name))
    return items


def _codes_in_comparisons(tree: exp.Expr, columns: Mapping[str, Column]) -> Iterator[str]:
    """Yield each category column that is compared with its cell for other or missing values."""
    for node in tree.find_all(*COMPARISONS):
        texts = {item.name for item in node.find_all(exp.Literal) if item.is_string}
        for name in dict.fromkeys(item.name for item in node.find_all(exp.Column)):
            column = columns.get(name)
            if isinstance(column, CategoryColumn | CutColumn):
                cells = sorted({column.others, column.fill} - {DROP})
                yield from (f"{name} with '{cell}'" for cell in cells if cell in texts)


BOUNDED_TEXT = "Tables that are bounded differently: {}."

SHARES_TEXT = "Shares of the budget: {}."

COUNTED_TEXT = "Tables that leave out different rows because of their keys: {}."

BANDS_TEXT = (
    "Bands: {}. Use `labels` to name them, and `others` to include values outside the edges."
)
"""The text of the note on bands."""


def band_descriptions(queries: Sequence[Query]) -> list[str]:
    """Return descriptions of unexpected bands that queries group by, without repetitions.

    They follow from the declaration alone. Without labels, integer edges name a band by its
    integers, but values of a `number` may lie between these. Edges may leave out declared values.
    """
    items: dict[str, None] = {}
    for query in queries:
        columns = (query.view or query.declared.table).columns
        for key in query.keys.keys:
            column = columns.get(key.column)
            if isinstance(column, CutColumn):
                items |= dict.fromkeys(_band_notes(key.column, column, columns))
    return list(items)


def _band_notes(name: str, column: CutColumn, columns: Mapping[str, Column]) -> Iterator[str]:
    """Yield what may surprise in the bands of a cut column."""
    cut = columns.get(column.cut)
    whole = column.labels is None and all(edge.denominator == 1 for edge in column.edges)
    if isinstance(cut, NumberColumn) and whole:
        side = "below" if column.closed == "left" else "above"
        yield f"{name} is named by whole numbers; values between them are in the band {side}"
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
    """A note: its text with a placeholder for a list of items, and the items.

    A note without items is not printed.
    """

    name: str
    """The key of the note in `check --json`."""
    words: str
    items: list[str]

    def __str__(self) -> str:
        return self.words.format("; ".join(self.items))


def notes(queries: Sequence[Query]) -> list[Note]:
    """Return the notes on the queries of a release."""
    return [
        Note("truths_from_texts", TRUTHS_TEXT, booleans_stored_as_texts(queries)),
        Note("looked_up_texts", LOOKED_UP_TEXT, ids_looked_up_as_texts(queries)),
        Note("compared_cells", COMPARED_CELLS_TEXT, comparisons_with_substitutes(queries)),
        Note("codes_read", CODES_READ_TEXT, columns_processed_as_codes(queries)),
        Note("bands", BANDS_TEXT, band_descriptions(queries)),
        Note("listed_below_headings", HEADINGS_TEXT, columns_listed_below_headings(queries)),
        Note("differently_bounded", BOUNDED_TEXT, [x.words for x in differently_bounded(queries)]),
        Note("differently_counted", COUNTED_TEXT, [x.words for x in differently_counted(queries)]),
    ]


def share_note(spec: ReleaseSpec, queries: Sequence[Query]) -> Note:
    """Return the note on the shares of a release's queries; without items for records."""
    return Note("shares", SHARES_TEXT, query_shares_texts(spec, queries) if spec.queries else [])
