"""Warnings about valid declarations that are probably not what their author means.

Those of a plan are texts: about its guarantee, and about negligible noise. Those of files are
errors of the catalogue with a position, which stop nothing.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from fractions import Fraction
from typing import TYPE_CHECKING

from dprelease.errors import DeclarationError, Place
from dprelease.errors.printable import count_text
from dprelease.mechanisms.base import Mechanism
from dprelease.numerics.rounding import plain_text
from dprelease.planning.guarantees import interpretation_of
from dprelease.privacy.guarantee import Guarantee
from dprelease.query.resolve import Query
from dprelease.schema.columns import CategoryColumn, Column, CutColumn, IntegerColumn, NumberColumn
from dprelease.schema.load import Declaration
from dprelease.schema.model import shorten
from dprelease.schema.public_values.odd_characters import odd_texts
from dprelease.schema.yaml_text.reader import Document, KeyPath, Plain

if TYPE_CHECKING:
    from dprelease.planning.plan import PlannedColumn

LARGE_EPSILON = 10.0
NEARLY_CERTAIN = Fraction(999, 1000)
"""The plan warns of noise that is 0 with at least this probability."""


def negligible_noise_warnings(columns: Sequence[PlannedColumn]) -> Iterator[str]:
    """Yield a warning for each column whose noise is nearly always 0."""
    for column in columns:
        mechanism = column.mechanism
        if isinstance(mechanism, Mechanism) and mechanism.half_width(float(NEARLY_CERTAIN)) == 0:
            yield (
                f"the noise of '{column.query.name}.{column.measurement.name}' is 0 with a "
                f"probability above {100 * float(NEARLY_CERTAIN):g} %: with that probability the "
                "true numbers are published."
            )


def guarantee_warnings(queries: Sequence[Query], guarantee: Guarantee) -> Iterator[str]:
    """Yield a warning for each valid but probably unintended declaration."""
    for table in {query.table.name: query.table for query in queries}.values():
        if table.size is not None and guarantee.delta * table.size >= 1:
            yield (
                f"delta {float(guarantee.delta):g} is not below 1 / {table.size:,}, the declared "
                f"size of '{table.name}': publishing a few complete records would satisfy it."
            )
    if guarantee.epsilon > LARGE_EPSILON:
        yield (
            f"epsilon {guarantee.epsilon:.4g} promises little: a belief of 1 % may rise to "
            f"{100 * interpretation_of(guarantee)['largest_posterior'][0]['posterior']:.4g} %."
        )


NINES = re.compile("99+")
SHOWN = 3
"""Number of texts with odd characters that a warning names."""

TEXT_LITERAL = re.compile("'((?:[^']|'')*)'")


def declaration_warnings(declaration: Declaration) -> list[DeclarationError]:
    """Return the warnings about a release file and its tables, in the order of files and lines."""
    documents = [declaration.document, *(one.document for one in declaration.tables.values())]
    found: list[DeclarationError] = []
    for document in documents:
        found += [*_earlier_keys(document), *_odd_literals(document)]
    for declared in declaration.tables.values():
        for name, column in declared.table.columns.items():
            found += _bounds_of_nines(declared.document, name, column)
            found += _odd_values(declared.document, name, column)
    order = {str(document.path.name): i for i, document in enumerate(documents)}
    found.sort(key=lambda one: (order.get(one.place.file or "", 0), one.place.line or 0))
    return found


def _earlier_keys(document: Document) -> Iterator[DeclarationError]:
    """Yield a warning for each column that has `nulls`, the earlier name of `fill`."""
    for keys, _ in _values_of(document.values):
        if keys[-1:] == ("nulls",) and len(keys) > 2 and keys[-3] in ("columns", "derive"):
            yield DeclarationError("DP-MISSING-004", place=document.place(*keys), column=keys[-2])


def _bounds_of_nines(document: Document, name: str, column: Column) -> Iterator[DeclarationError]:
    """Yield a warning for a column of numbers whose upper bound looks like a missing value."""
    if not isinstance(column, IntegerColumn | NumberColumn) or "missing" in column.model_fields_set:
        return
    upper = None if column.upper is None else plain_text(Fraction(column.upper))
    if upper is not None and NINES.fullmatch(upper):
        place = document.place("columns", name, "upper")
        yield DeclarationError("DP-MISSING-005", place=place, column=name, upper=upper)


def _odd_values(document: Document, name: str, column: Column) -> Iterator[DeclarationError]:
    """Yield warnings about odd characters in the values and the missing codes of a column."""
    values = column.values or () if isinstance(column, CategoryColumn | CutColumn) else ()
    listed = "values" if isinstance(column, CategoryColumn) else "labels"
    if getattr(column, "values_from", None) is not None:
        listed = "values_from"
    for key, texts in ((listed, values), ("missing", getattr(column, "missing", ()))):
        yield from _odd_text_warning(document, ("columns", name, key), texts, name)


def _odd_literals(document: Document) -> Iterator[DeclarationError]:
    """Yield warnings about odd characters in the texts of conditions and expressions."""
    for keys, value in _values_of(document.values):
        if keys[0] in ("queries", "columns") and keys[-1] in ("where", "expression"):
            texts = [text.replace("''", "'") for text in TEXT_LITERAL.findall(str(value))]
            yield from _odd_text_warning(document, keys, texts, ".".join(map(str, keys[1:])))


def _odd_text_warning(
    document: Document, keys: KeyPath, texts: Sequence[str], name: str
) -> Iterator[DeclarationError]:
    """Yield one warning about all texts at a key that have odd characters."""
    odd = list(odd_texts(texts))
    if odd:
        shown = [f"'{shorten(text)}' has {', '.join(found)}" for text, found in odd[:SHOWN]]
        if len(odd) > SHOWN:
            shown.append(count_text(len(odd) - SHOWN, "further text", "further texts"))
        what = count_text(len(odd), "text", "texts")
        yield DeclarationError(
            "DP-CHAR-001", place=_closest_place(document, keys, odd[0][0]), column=name,
            what=what, verb="has" if len(odd) == 1 else "have", found="; ".join(shown),
        )  # fmt: skip


def _closest_place(document: Document, keys: KeyPath, text: str) -> Place:
    """Return the position of a listed text, or of the closest key above it that exists."""
    value: Plain = document.values
    path: list[str | int] = []
    for key in keys:
        if not isinstance(value, dict) or key not in value:
            break
        value = value[str(key)]
        path.append(key)
    if isinstance(value, list) and text in value:
        path.append(value.index(text))
    elif isinstance(value, dict) and text in value:
        path.append(text)
    return document.place(*path)


def _values_of(value: Plain, keys: KeyPath = ()) -> Iterator[tuple[KeyPath, Plain]]:
    """Yield all values below a value of a document, each with its key path."""
    parts: Sequence[tuple[str | int, Plain]] = ()
    if isinstance(value, Mapping):
        parts = list(value.items())
    elif isinstance(value, list):
        parts = list(enumerate(value))
    for key, inner in parts:
        yield (*keys, key), inner
        yield from _values_of(inner, (*keys, key))
