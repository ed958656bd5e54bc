"""Draft a table schema from the names and types of columns, and from the format of a text file.

The schema quotes no value. A Parquet file has types in its metadata, a CSV file has names in its
first line, and a JSON lines file has names in its first rows; the first bytes of a text file show
the format of texts, numbers and days. Bounds and lists of keys are left open, because they must
come from public knowledge: with bounds from the data, the guarantee would not hold.
"""

from __future__ import annotations

import glob
import json
import os
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from textwrap import wrap

from dprelease.errors import DataError, Place
from dprelease.errors.printable import one_line
from dprelease.exact.detection.csv_layout import KeyValue
from dprelease.exact.detection.dialect import ApparentType, DetectedFormat
from dprelease.exact.lakes.lake_version import LakeProblem
from dprelease.exact.sources.source_reader import TEXT_OR_NUMBER, Description, reader_of
from dprelease.scaffold.yaml_texts import (
    label_text,
    labelled_category,
    quote_yaml,
    some_labels_text,
    yaml_text,
)
from dprelease.schema.load import CONFIRM
from dprelease.schema.model import shorten
from dprelease.schema.public_values.key_files import are_valid_texts
from dprelease.schema.public_values.odd_characters import odd_texts
from dprelease.schema.source_files import find_files, problem_of, source_of_path, to_table_name
from dprelease.schema.source_texts import HeaderRows
from dprelease.statements.values.source_equality import comparison_of, inexact_comparison_error
from dprelease.system.lake_tables import Problem


def first_file(path: Path) -> Path:
    """Return the first file, by name, of a pattern or of a folder; return a file itself.

    The folder of a table whose log lists its files is also returned itself.

    Raises
    ------
    DataError
        DP-DATA-018 if there is no file, 024 for files of which a run may not read all rows.
    """
    source = source_of_path(path)
    if source.table_folder is not None:
        return path
    found, place = find_files(Path(), source), Place(file=path.name)
    problem = problem_of(Path(), source, found)
    if problem is not None:
        raise file_error(path, problem)
    if not found:
        raise DataError("DP-DATA-018", place=place, path=path)
    return found[0]


def file_error(path: Path, problem: Problem) -> DataError:
    """Return the error DP-DATA-024 for a file, a pattern or a folder with a problem."""
    (reason, way), place = problem, Place(file=path.name)
    source = source_of_path(path)
    table, stored = (
        table_name_from_path(path),
        "a table" if source.kind is None else source.type.label,
    )
    return DataError(
        "DP-DATA-024", place=place, table=table, named="", format=stored, reason=reason, way=way
    )


def first_file_comment(path: Path, first: Path) -> list[str]:
    """Return a comment that names the examined file if there are several; empty for one file."""
    if path == first:
        return []
    return [
        f"# Looked at was the first of its files, {one_line(first.name)}: all need its columns."
    ]


def table_name_from_path(path: Path) -> str:
    """Return a name for the table: the name of the file, up to a pattern, or of the folder."""
    name = path.name.split(".")[0]
    if not path.is_file() and glob.has_magic(name):
        name = name.partition("*")[0].rstrip("_-")
    if name and not glob.has_magic(name):
        return name
    return next(part for part in reversed(path.absolute().parts[:-1]) if not glob.has_magic(part))


def relative_path(path: Path, folder: Path | None) -> str:
    """Return the path of a source as text, relative to `folder`.

    Without `folder`, the absolute path of a file is relative to its own folder, and all other paths
    are returned unchanged. The path of a folder ends with a slash.
    """
    if folder is not None:
        text = os.path.relpath(path, folder)
    else:
        text = path.name if path.is_file() and path.is_absolute() else str(path)
    return f"{text}/" if path.is_dir() else text


HEAD = """\
# A sketch from the names and types of the columns; no row was read. Take what you FILL IN from
# public knowledge (a code list, a tariff, the law), never from the data.
"""
CSV_HEAD = """\
# A sketch from the names of the columns and the form of the first rows; it contains none of their
# values. Check `source` and the types: a cell that does not have the declared form counts as
# missing, and a line that does not is left out. Take what you FILL IN from public knowledge (a code
# list, a tariff, the law), never from the data.
"""
NULLS = (
    f"  {CONFIRM}: some of the first rows have these common signs for missing values. If they mean "
    "a missing value in every column, remove this comment"
)
PIVOT = (
    f"  {CONFIRM}: years have two digits, and this is the latest year that they can mean: {{last}} "
    "is {year}, and {next} is {before}. If days lie ahead, write a later year"
)
CODES = f"{CONFIRM}: these values look like missing ones. If one of them is real, remove it"
INTEGER = "{type: integer}  # FILL IN lower and upper, to sum it or to group by it"
NUMBER = "{type: number}  # FILL IN lower, upper and step, to sum it"
NO_ROWS = (
    "NONE OF THE FIRST LINES FITS THE HEADER, so no type was found: check `delimiter`, `quote` and "
    "`header` in `source`."
)
FEW = (
    "{type: text}  # few different numbers: {type: category, values: [FILL IN]} for codes; or "
    "{type: integer}, and FILL IN lower and upper, to sum it"
)
TEXT = "{type: text}  # or {type: category, values: [FILL IN]}, to group by it"
DATE = "{type: date}  # FILL IN lower and upper, to group by it"
MIXED = "most of its first cells are numbers; {type: integer} or {type: number} leaves out others"
OTHERS = {"boolean": "{type: boolean}", "timestamp": "{type: timestamp}"}


def sketch(
    source: Path,
    unit: str | None = None,
    folder: Path | None = None,
    *,
    head: str | None = None,
    proposals: Mapping[str, str] | None = None,
    table: str | None = None,
    header: HeaderRows | None = None,
) -> str:
    """Return the text of a table schema for a file, or for a pattern or folder of files.

    `source` is a file of a source type that the registry lists. Of several files, the
    first one by name is read, because all files have the same columns. `unit` is the column that
    identifies the privacy units. `folder` is the folder in which the schema will be, by default
    that of the file. `head` is the comment at the top of the schema. `proposals` has the texts of
    some columns, instead of texts from their types. `table` is a table of a DuckDB or SQLite file,
    or a sheet of an Excel file. `header` is the row or line of the column names, or several rows,
    or one of the names.

    Raises
    ------
    DataError
        DP-DATA-018 if the file does not exist, 024 for a file whose rows can't be read, 010 if it
        has no column names, 011 if `unit` is not one of its columns, 003 for names that differ only
        in case, 026 if the file does not compare `unit` by its characters.
    """
    place, path = Place(file=source.name), source
    source = first_file(path)
    source_type = source_of_path(source).type
    found, problem = Description(), None
    try:
        reader = reader_of(source_type)
        if header is None:
            found = reader.describe(source, table)
        elif "header" in source_type.options:
            found = reader.describe_below(source, table, header)
        else:
            problem = "its names are in no row of it", "omit --header"
        problem = problem or found.problem
    except UnicodeError:
        problem = "the name of a column is not UTF-8", "rename it"
    except LakeProblem as unread:
        problem = unread.args
    if problem is not None:
        raise file_error(path, problem)
    if len(found.several) > 1:
        way = "name one with --table: " + ", ".join(f"'{name}'" for name in found.several[:20])
        raise file_error(path, ("it has several tables or sheets", way))
    if not found.columns:
        raise DataError("DP-DATA-010", place=place, path=source.name)
    names = [name for name, _ in found.columns if are_valid_texts([name])]
    if unit is not None and unit not in names:
        raise DataError("DP-DATA-011", place=place, column=unit, known=", ".join(names[:40]))
    refuse_collated(unit, source_type.name, found.collations, place)
    table_name = to_table_name(table or table_name_from_path(path))
    refuse_equal_names(found.header or names, place, table_name)
    head = head or (HEAD if found.form is None else CSV_HEAD)
    lines = [head.rstrip(), *first_file_comment(path, source), f"table: {table_name}"]
    lines += source_lines(relative_path(path, folder), found.form, found.source)
    notes = [found.note, NO_ROWS if found.form is not None and found.form.rows == 0 else ""]
    lines += [f"# {line}" for note in notes for line in wrap(note, 90)]
    labelled = {name: labelled_category(found.labels[name]) for name in found.labels}
    some = {name: some_labels_text(codes) for name, codes in found.some_labels.items()}
    titles = {name: label_text(name, text) for name, text in found.titles.items()}
    return schema_text(
        lines, found.columns, unit, proposals or {}, found.form, some, labelled, titles
    )


def schema_text(
    head: Sequence[str],
    columns: Sequence[tuple[str, str]],
    unit: str | None,
    proposals: Mapping[str, str],
    form: DetectedFormat | None,
    notes: Mapping[str, str] | None = None,
    labelled: Mapping[str, str] | None = None,
    titles: Mapping[str, str] | None = None,
) -> str:
    """Return the text of a schema that begins with `head`, from names and kinds of columns.

    `notes` has additions to the comments of columns, `labelled` the texts of categories, and
    `titles` the keys `label` of columns.
    """
    lines = list(head)
    if unit is None:
        lines.append(
            "# Every row is a privacy unit. If people have several rows, declare which column"
        )
        lines.append(
            "# is their id: privacy_unit: {id: ..., max_groups: ..., max_rows_per_group: ...}"
        )
    else:
        lines += [
            "privacy_unit:",
            f"  id: {yaml_text(unit)}",
            "  # max_groups: FILL IN, the groups in which one privacy unit may count in a query",
            "  # max_rows_per_group: FILL IN, the rows of one privacy unit that count in a group",
            "  # Further rows are left out: lower limits mean less noise, and a larger bias.",
        ]
    lines.append("columns:")
    for name, kind in columns:
        body = _type_of_kind(kind, is_unit=name == unit)
        if form is not None and name != unit:
            body = _type_from_cells(form.columns[name], form)
        body = _type_from_values(name, proposals, form) or body
        body = (labelled or {}).get(name, body) if name != unit else body
        if not are_valid_texts([name]):
            body, kind = "", "a name that is not UTF-8, or too long, can't be declared"
        kind_text = re.match(r"\{type: \w+", body)
        if kind_text is not None:
            body = kind_text[0] + (titles or {}).get(name, "") + body.removeprefix(kind_text[0])
        note = (notes or {}).get(name, "")
        body += f"{'; ' if '  # ' in body else '  # '}{note}" if body and note else ""
        word = shorten(yaml_text(name)) if not body else yaml_text(name)
        lines.append(f"  {word}: {body}" if body else f"  # {word}: left out, {kind}")
    return "\n".join(lines) + "\n"


def refuse_equal_names(names: Sequence[str], place: Place, table_name: str) -> None:
    """Raise DP-DATA-003 for column names that a run could not distinguish."""
    seen: set[str] = set()
    for name in filter(None, names):
        # The engine finds columns without regard to case.
        if name.casefold() in seen:
            raise DataError("DP-DATA-003", place=place, table=table_name, column=name)
        seen.add(name.casefold())


def refuse_collated(
    unit: str | None, kind: str, collations: Mapping[str, str], place: Place
) -> None:
    """Raise DP-DATA-026 for an id that its source does not compare by its characters."""
    comparison = "" if unit is None else comparison_of(kind, collations, unit)
    if unit is not None and comparison:
        raise inexact_comparison_error(kind, comparison, unit, "id", place)


def source_lines(
    path: str, form: DetectedFormat | None, format_keys: Mapping[str, KeyValue]
) -> list[str]:
    """Return the lines of a schema about its source: its path and its format."""
    if not format_keys:
        lines = [f"source: {yaml_text(path)}"]
    else:
        marks = {"nulls": NULLS, "pivot": _pivot_mark(format_keys.get("pivot"))}
        format_lines = [
            f"  {key}: {quote_yaml(value)}{marks.get(key, '')}"
            for key, value in format_keys.items()
        ]
        lines = ["source:", f"  path: {yaml_text(path)}", *format_lines]
    if form is not None and form.shadowed:
        lines += [
            "# Some of `nulls` also occur among other texts, where they may be values. Columns:",
            f"# {', '.join(map(yaml_text, form.shadowed))}",
        ]
    if form is not None and form.encoding_is_unknown:
        lines.append(
            "# The first rows are plain ASCII. If later ones are not UTF-8, declare `encoding`."
        )
    return lines


def _pivot_mark(year: KeyValue | None) -> str:
    """Return the comment on a proposed pivot; empty without one."""
    if not isinstance(year, int):
        return ""
    ends = {"last": f"{year % 100:02}", "next": f"{(year + 1) % 100:02}"}
    return PIVOT.format(**ends, year=year, before=year - 99)


def odd_characters_text(values: Sequence[str]) -> str:
    """Return an addition to a comment that names odd characters in values; empty without any."""
    odd = {words: None for _, found in odd_texts(values) for words in found}
    return f"; some characters can't be seen or look like others: {', '.join(odd)}" if odd else ""


def _type_from_values(name: str, proposals: Mapping[str, str], form: DetectedFormat | None) -> str:
    """Return the proposal from values for a column; empty for categories of numbers or days."""
    proposal = proposals.get(name, "")
    kind = "text" if form is None else form.columns[name].name
    return "" if kind != "text" and proposal.startswith("{type: category") else proposal


def _type_from_cells(kind: ApparentType, form: DetectedFormat) -> str:
    """Return the text of a column of a text file, by the format of its first cells."""
    if kind.is_mixed:
        return f"{TEXT}; {MIXED}"
    if kind.name == "text":
        numbers = f"; or {INTEGER.split('  ')[0]}, {NUMBER.split('  ')[0]}"
        return f"{TEXT}{numbers if kind.has_numbers or kind.is_code else ''}"
    body = FEW if kind.are_few else _type_of_kind(kind.name, is_unit=False)
    signs = {"strip": kind.strip, "negative": kind.negative}
    for key, found in signs.items():
        if found:
            texts = json.dumps([*found], ensure_ascii=False)
            body = body.replace("}", f", {key}: {texts}}}", 1)
    if kind.layout is not None and f"{kind.name}_format" not in form.source:
        inside = f"{{type: {kind.name}"
        body = body.replace(inside, f"{inside}, format: {json.dumps(kind.layout)}")
    if kind.codes:
        declared, _, comment = body.partition("  # ")
        listed = ", ".join(map(json.dumps, kind.codes))
        body = f"{declared[:-1]}, missing: [{listed}]}}  {CODES}{'. ' * bool(comment)}{comment}"
    if kind.is_unsure:
        body += "  # FILL IN" * ("#" not in body) + "; which is first, the day or the month?"
    return body


def _type_of_kind(kind: str, *, is_unit: bool) -> str:
    """Return the YAML of a column with this apparent type."""
    if kind == TEXT_OR_NUMBER:
        if is_unit:
            return "{type: text}  # or {type: integer}, if all ids are whole numbers"
        return f"{TEXT}; or {INTEGER.split('  ')[0]}, {NUMBER.split('  ')[0]}"
    if is_unit:
        return f"{{type: {kind}}}" if kind in ("integer", "text") else "{type: text}"
    known = {"integer": INTEGER, "number": NUMBER, "text": TEXT, "date": DATE, **OTHERS}
    return known.get(kind, "")
