"""CSV files of public values: those of one column, and maybe where each of them lies."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterator

from dprelease.schema.field_types import Text, refuse
from dprelease.schema.model import Files, Model, not_read, same_name, shortened
from dprelease.schema.said import Prose
from dprelease.schema.yaml_text.reader import not_utf8

MOST_VALUES = 1_000_000
"""Values that one file may list for a column."""


class ValuesFrom(Model):
    """A CSV file of public keys; `column` may be left out if there is no other to be meant.

    `labels`: the column that holds labels of the values, or one for each language.
    """

    file: Text
    column: Text | None = None
    labels: Prose | None = None


def short_file(value: object) -> object:
    """Return the long form of what may be the name of a file alone."""
    return {"file": value} if isinstance(value, str) else value


def values_of(spec: ValuesFrom, files: Files, within: str | None) -> list[list[str]]:
    """Return the values of a file, each with what stands beside it.

    That is the value of the column `within`, if that is given, and then those of labels.

    Raises
    ------
    PydanticCustomError
        DP-SCHEMA-004 if the file can't be read, or has not these columns.
    """
    try:
        text = files.text(spec.file)
    except UnicodeDecodeError as problem:
        refuse("DP-SCHEMA-004", reason=f"'{shortened(spec.file)}' is {not_utf8(problem)}")
    except (OSError, KeyError) as problem:
        refuse("DP-SCHEMA-004", reason=not_read(spec.file, problem))
    try:
        return _columns_of(csv.reader(io.StringIO(text), strict=True), spec, within)
    except csv.Error:
        refuse("DP-SCHEMA-004", reason="it is not a CSV file")


def _columns_of(rows: Iterator[list[str]], spec: ValuesFrom, within: str | None) -> list[list[str]]:
    named, labels = spec.column, [] if spec.labels is None else [*spec.labels.by_language.values()]
    header = next(rows, [])
    if not header:
        refuse("DP-SCHEMA-004", reason="its first line names no column")
    if within is not None and within not in header:
        # Nothing else of the line is told: without a header it is no line of names.
        like = next((name for name in header if same_name(name) == same_name(within)), None)
        reason = f"it has no column '{shortened(within)}'"
        refuse("DP-SCHEMA-004", reason=reason if like is None else f"{reason}, but '{like}'")
    _find_labels(header, labels)
    others = [name for name in header if name != within and name not in labels]
    if named is None and len(others) != 1:
        reason = "it has more than one column and none is named"
        if not others:
            reason = "it has no column of values"
        refuse("DP-SCHEMA-004", reason=reason if within is None else f"{reason} beside '{within}'")
    wanted = [named or others[0], *([] if within is None else [within]), *labels]
    known = all(header.count(name) == 1 for name in wanted)
    places = [header.index(name) for name in wanted] if known else []
    values: list[list[str]] = []
    for row in rows:
        if not places or len(row) not in (0, len(header)):
            break
        values += [[row[place] for place in places]] if row else []
        if len(values) > MOST_VALUES:
            refuse("DP-SCHEMA-004", reason=f"it has more than {MOST_VALUES:,} values")
    else:
        if places and not values:
            refuse("DP-SCHEMA-004", reason="it lists no value")
        if places:
            return values
    refuse("DP-SCHEMA-004", reason="the named column is missing, twice, or a line is ragged")


def _find_labels(header: list[str], labels: list[str]) -> None:
    """Refuse a column of labels that there is not; of others' names nothing is told."""
    for name in labels:
        if name not in header:
            refuse("DP-SCHEMA-004", reason=f"it has no column '{shortened(name)}' of labels")
