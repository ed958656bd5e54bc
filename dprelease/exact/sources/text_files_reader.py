"""The base class of readers of text files with one record per line.

A function of the engine reads the lines. Nothing about a file is ever inferred from its values.
"""

from __future__ import annotations

import zipfile
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar

from dprelease.errors import DataError, Place
from dprelease.exact.connection import memory_limit, thread_count
from dprelease.exact.reading.line_selection import MissingNotesError
from dprelease.exact.reading.plain import TextDecoding, open_file
from dprelease.exact.reading.sources import (
    EngineCall,
    OpenedSource,
    file_label,
    file_stamp,
    files_of_source,
    missing_notes_error,
    source_fields,
    stored_columns,
)
from dprelease.exact.sources.source_reader import (
    TEXT_OR_NUMBER,
    Description,
    Opening,
    SourceReader,
    reader_of,
)
from dprelease.query import quoting
from dprelease.schema.columns import Column, IntegerColumn, NumberColumn
from dprelease.schema.load import Declared
from dprelease.schema.source_texts import HeaderRows
from dprelease.schema.source_types.source import Source
from dprelease.statements.values.spelling import matches_sql
from dprelease.statements.values.written_texts import number_pattern, plain_number_sql, stripped_sql

if TYPE_CHECKING:
    import duckdb
    import pyarrow as pa

    from dprelease.exact.detection.dialect import DetectedFormat
    from dprelease.exact.inputs import Input

BYTES_BESIDE_BUFFERS = 2 << 20
"""Bytes of memory that each file or thread takes in addition to its buffers."""

NO_HEADER_NOTE = (
    "The file is read as one without a header, because its first line looks like a row of values, "
    "which are not shown. Replace the names in `names`; if the first line has the names, sketch "
    "with --header 1."
)

FIXED_WIDTH_NOTE = (
    "No delimiter was found, and all lines have the same length. If their columns have fixed "
    "places, write in `source` instead: `format: fixed_width`, and the places of the characters of "
    "each column, as in `columns: {id: [1, 6], sex: [7, 7]}`."
)

UNITS_NOTE = (
    "The first row has texts above numbers. If these are units, leave the row out by its number, "
    "as in `skip: [2]`, and declare its columns as numbers."
)

MISFITS_NOTE = (
    "Some of the first lines don't fit the header, so a run leaves them out. If they are rows, see "
    "`ragged`, `quote`, `escape` and `delimiter`."
)

NO_TEXT_IN_ZIP = "it is no ZIP archive of one text file", "use an archive of one text file"


class TextFilesReader(SourceReader):
    """Reads text files, or plain copies of text files that the engine can't read unchanged.

    A subclass writes two methods: `text_reader`, the function of the engine that reads the files,
    with its options; and `form`, the format that `init` proposes for a file. The methods of this
    class raise NotImplementedError.
    """

    keeps_carriage_returns: ClassVar[bool] = True
    """Whether carriage returns are left in the text that the engine reads."""

    def header_lines(self, source: Source) -> int:
        """Return how many lines of the text that the engine reads are no records."""
        return 0

    def packing(self, source: Source) -> TextDecoding:
        """Return how the bytes of a source's files are decoded."""
        return TextDecoding.of(source, keeps_carriage_returns=self.keeps_carriage_returns)

    def text_reader(self, declared: Declared, source: Source, files: Sequence[Path]) -> EngineCall:
        """Return the call of the engine that reads the files of a source; a subclass writes it.

        Raises
        ------
        DataError
            If the beginnings of the files are not as declared.
        """
        raise NotImplementedError

    def needs_copy(self, file: Path) -> bool:
        """Return whether the engine needs a plain copy of a file, although the file is UTF-8."""
        return False

    def least_memory_bytes(self, sizes: Sequence[int], threads: int) -> int:
        """Return the minimum bytes of memory that the engine needs for files of these sizes."""
        return 0

    def form(self, file: Path, header: HeaderRows | None = None) -> DetectedFormat:
        """Return the format of a file, detected from its first bytes; a subclass writes it.

        `header`: the number of the header's line or of its lines, or one of its names; None if it
        is not known.

        Raises
        ------
        OSError, ValueError
            If the first bytes can't be read.
        """
        raise NotImplementedError

    def open(self, declared: Declared, source: Source, opening: Opening) -> OpenedSource:
        """Return the relation of the files; if a file needs a plain copy, all files get copies."""
        files = files_of_source(declared, source, opening.copies)
        stamps = tuple(map(file_stamp, files))
        reader = self.text_reader(declared, source, files)
        if source.until is not None or source.footer:
            self._refuse_missing_notes(declared, source, files)
        is_plain = reader.packing.is_plain and not any(map(self.needs_copy, files))
        call_on_copies = None if is_plain else reader
        return OpenedSource(files, stamps, relation=reader.relation(files), reader=call_on_copies)

    def _refuse_missing_notes(
        self, declared: Declared, source: Source, files: Sequence[Path]
    ) -> None:
        """Raise DP-DATA-024 if a file lacks its notes, before a run is charged.

        The lines are looked at as when the rows are read.
        """
        packing = self.packing(source)
        for file in files:
            lacking = ""
            try:
                with open_file(file) as raw:
                    for _ in packing.chunks(raw):
                        pass
            except MissingNotesError as missing:
                lacking = str(missing)
            if lacking:
                raise missing_notes_error(declared, file_label(file, files), lacking)

    def describe(self, file: Path, table: str | None) -> Description:
        """Return the column names of a file, and the format of its first cells."""
        return self._described(file, None)

    def describe_below(self, file: Path, table: str | None, header: HeaderRows) -> Description:
        """Return the description of a file with a header in a known place."""
        return self._described(file, header)

    def _described(self, file: Path, header: HeaderRows | None) -> Description:
        """Return the description of a file."""
        try:
            form = self.form(file, header)
        except DataError as error:
            error.set_place(Place(file=file.name))  # there is no schema yet
            raise
        except (OSError, ValueError):
            return Description(problem=NO_TEXT_IN_ZIP if zipfile.is_zipfile(file) else None)
        columns = [(name, kind.refusal or TEXT_OR_NUMBER) for name, kind in form.columns.items()]
        has_no_header = "names" in form.source and "header" not in form.source
        notes = {
            NO_HEADER_NOTE: has_no_header,
            FIXED_WIDTH_NOTE: form.has_equal_lines,
            names_below_note(form.names_below): form.names_below is not None,
            UNITS_NOTE: form.has_units and form.names_below is None,
            MISFITS_NOTE: form.has_misfits and form.rows != 0,
        }
        note = " ".join(text for text, is_needed in notes.items() if is_needed)
        return Description(columns, form.source, form.names, form=form, note=note)

    def plain_text(self, file: Path, source: Source) -> pa.BufferReader:
        """Return the whole text of a file in UTF-8."""
        import pyarrow as pa

        with open_file(file) as raw:
            return pa.BufferReader(b"".join(self.packing(source).chunks(raw)))


def names_below_note(number: int | None) -> str:
    """Return a note on the row below a header, which may be its second row.

    `number`: the number of the row; 0 if it is not known.
    """
    words = f"--header {number - 1},{number}" if number else "both numbers, as in --header 4,5"
    return (
        "The row below the names has texts below empty cells, as below merged cells. If these are "
        f"names, too, sketch with {words}."
    )


def remove_null_texts(held: pa.Table, nulls: Sequence[str]) -> pa.Table:
    """Return a table in which texts that stand for missing values are missing."""
    import pyarrow as pa
    import pyarrow.compute as pc

    missing = pa.array(nulls, pa.string())
    for i, (name, column) in enumerate(zip(held.column_names, held.columns, strict=True)):
        if pa.types.is_string(column.type):
            known = pc.invert(pc.is_in(column, value_set=missing))
            held = held.set_column(i, name, pc.if_else(known, column, None))
    return held


def plain_number_columns(
    declared: Declared, source: Source, stored: Sequence[str], *, has_plain_numbers: bool
) -> tuple[tuple[str, str], ...]:
    """Return SQL that rewrites numbers with the source's separators, for each numeric column.

    The SQL returns the number with a decimal point and without thousands separators. The result is
    empty if the source declares no other separators. `has_plain_numbers`: whether cells of the
    file format may also be numbers, as in JSON, which always have a decimal point.
    """
    if source.decimal == "." and source.thousands is None:
        return ()
    columns = declared.table.columns
    return tuple(
        (
            name,
            plain_number_sql(
                _stripped_number_sql(quoting.identifier(name), source, columns[name]),
                source.decimal,
                source.thousands,
                has_plain_numbers,
            ),
        )
        for name in stored_columns(declared)
        if name in stored and isinstance(columns[name], IntegerColumn | NumberColumn)
    )


def marked_columns(declared: Declared, stored: Sequence[str]) -> tuple[str, ...]:
    """Return the stored columns that declare marks."""
    columns = declared.table.columns
    return tuple(
        name
        for name in stored_columns(declared)
        if name in stored and getattr(columns[name], "marks", {})
    )


def _stripped_number_sql(text: str, source: Source, column: Column) -> str:
    """Return SQL of a text without its signs, unless it is a number with them."""
    stripped = stripped_sql(text, column)
    if stripped is None:
        return text
    is_number = matches_sql(text, number_pattern(source.decimal, source.thousands))
    return f"CASE WHEN {is_number} THEN {text} ELSE {stripped} END"


def struct_of_texts_sql(names: Sequence[str]) -> str:
    """Return a SQL struct that gives every column the type of texts: no type is ever detected."""
    return "{" + ", ".join(f"{quoting.text(name)}: 'VARCHAR'" for name in names) + "}"


def require_memory_for_text_files(link: duckdb.DuckDBPyConnection, inputs: Iterable[Input]) -> None:
    """Raise DP-ENGINE-005 if the buffers of text files alone exceed the engine's memory limit.

    Otherwise the engine would fail at the first row, after the budget is charged. The memory that
    the engine needs was measured, with an error of a few MiB. Compressed files are assumed to have
    at least their compressed size when they are decompressed.
    """
    for given in (leaf for one in inputs for leaf in one.leaves):
        reader = reader_of(given.source_type)
        if given.opened is None or not isinstance(reader, TextFilesReader):
            continue
        limit = memory_limit(link)
        needed = reader.least_memory_bytes(given.opened.sizes, thread_count(link))
        if limit is not None and needed > limit:
            raise DataError("DP-ENGINE-005", **source_fields(given.declared), format=given.kind)
