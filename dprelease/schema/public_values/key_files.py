"""Read files of public values: the values of a column, with their areas and labels if any.

The texts of short CSV files are part of the declaration, like the release file. Long CSV files and
Parquet files are read in batches; a release has a copy of each next to its manifest, which records
the digest.
"""

from __future__ import annotations

import csv
import io
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Literal, NoReturn, Protocol

from pydantic import ValidatorFunctionWrapHandler, WrapValidator

from dprelease.schema.field_types import LONGEST_TEXT, UNUSABLE, LocalPath, Text, refuse
from dprelease.schema.localized_text import Prose
from dprelease.schema.model import Files, Model, normalized_name, shorten, unreadable_text
from dprelease.schema.public_values.large_files import LARGEST
from dprelease.schema.source_texts import UTF_8, Encoding
from dprelease.system.files import size_text

if TYPE_CHECKING:
    import pyarrow as pa

MOST_VALUES = 10_000_000
"""Maximum number of values in a file for one column."""

READ_AT_ONCE = 1 << 24
"""Number of bytes of a long CSV file that are read at a time."""

_NO_CSV = "it is not a CSV file"

DELIMITERS = {",": "a comma", ";": "a semicolon", "\t": "a tab", "|": "a bar"}
"""The delimiters that programs write, with their names."""

Columns = Sequence[Sequence[str]]
"""The values; then the area of each value, if values lie in areas; then the labels."""


class KeyValues(tuple[str, ...]):
    """The values of a column, with a cached hash, because the values are keys of many caches."""

    _hash: int | None = None

    def __hash__(self) -> int:
        if self._hash is None:
            self._hash = super().__hash__()
        return self._hash


def _validate_values(value: object, handler: ValidatorFunctionWrapHandler) -> object:
    """Return values from a file as they are, a list of texts as a tuple, or validate."""
    # They were checked when the file was read; pydantic would check millions of texts one by one.
    if isinstance(value, KeyValues):
        return value
    if isinstance(value, list) and {*map(type, value)} == {str} and are_valid_texts(value):
        return tuple(value)
    return handler(value)


AS_LISTED = WrapValidator(_validate_values)
"""A validator that accepts values from a file unchanged, and checks a long list at once.

An error is still reported for the single value.
"""


def are_valid_texts(texts: Sequence[str]) -> bool:
    """Return whether `to_text` accepts each text."""
    return max(map(len, texts), default=0) <= LONGEST_TEXT and not UNUSABLE.search("".join(texts))


class ValuesFrom(Model):
    """A file of public keys; `column` may be omitted if only one column is possible.

    `labels`: the column of labels of the values, or one per language. `encoding` and `delimiter`:
    of a CSV file, by default UTF-8 and a comma.
    """

    file: LocalPath
    column: Text | None = None
    labels: Prose | None = None
    encoding: Encoding = UTF_8
    delimiter: Literal[",", ";", "\t", "|"] = ","

    @property
    def columns_of_labels(self) -> list[str]:
        """Return the names of the columns of labels."""
        return [] if self.labels is None else [*self.labels.by_language.values()]


def expand_file_name(value: object) -> object:
    """Expand a file name to the long form."""
    return {"file": value} if isinstance(value, str) else value


def values_of_file(spec: ValuesFrom, files: Files, within: Sequence[str]) -> Columns:
    """Return the values of a file, with their areas and labels.

    The areas are the values of the columns `within`; the labels come last.

    Raises PydanticCustomError: DP-SCHEMA-004 if the file can't be read, or lacks one of these
    columns.
    """
    try:
        large = files.large_file(spec.file)
        if large is not None:
            return _large_file_columns(large.content(), large.is_parquet, spec, within)
        # Excel begins UTF-8 files with a byte order mark, which would become a part of the first
        # name.
        text = files.text(spec.file, "utf-8-sig" if spec.encoding == UTF_8 else spec.encoding)
    except UnicodeError:
        _refuse_file(f"'{shorten(spec.file)}' is not in the encoding {spec.encoding}")
    except (OSError, KeyError) as problem:
        _refuse_file(unreadable_text(spec.file, problem))
    try:
        lines = io.StringIO(text, newline=None)  # lines may end with carriage returns alone
        rows = csv.reader(lines, strict=True, delimiter=spec.delimiter)
        return _columns_of_csv(rows, spec, within)
    except csv.Error:
        _refuse_file(_NO_CSV)


def _refuse_file(reason: str) -> NoReturn:
    """Raise DP-SCHEMA-004 for a file, with the reason."""
    refuse("DP-SCHEMA-004", reason=reason)


class CsvRows(Protocol):
    """Rows of a CSV file, with the number of lines read so far."""

    line_num: int

    def __iter__(self) -> Iterator[list[str]]: ...

    def __next__(self) -> list[str]: ...


def _columns_of_csv(rows: CsvRows, spec: ValuesFrom, within: Sequence[str]) -> Columns:
    """Return the columns of a CSV file that hold values, areas and labels."""
    header = next(rows, [])
    columns_to_read = _columns_to_read(header, spec, within)
    positions = [header.index(name) for name in columns_to_read]
    found: list[list[str]] = [[] for _ in columns_to_read]
    for row in rows:
        if len(row) not in (0, len(header)):
            _refuse_file(_row_length_problem(rows, row, header))
        if row:
            for values, position in zip(found, positions, strict=True):
                values.append(row[position])
        _refuse_many(len(found[0]))
    return _check_values(found)


def _row_length_problem(rows: CsvRows, row: Sequence[str], header: Sequence[str]) -> str:
    """Return the problem of a line with more or fewer cells than the first, without its content."""
    has = f"has {len(row):,} cell{'' if len(row) == 1 else 's'}"
    return f"its line {rows.line_num:,} {has}, and its first line {len(header):,}"


def _first_length_problem(content: bytes, delimiter: str) -> str | None:
    """Return the problem of the first line of another length, which Arrow ignores; or None."""
    try:
        text = content.decode("utf-8-sig")
        rows = csv.reader(io.StringIO(text, newline=""), strict=True, delimiter=delimiter)
        header = next(rows, [])
        odd = next((row for row in rows if len(row) not in (0, len(header))), None)
    except (UnicodeDecodeError, csv.Error):
        return None
    return None if odd is None else _row_length_problem(rows, odd, header)


def _columns_to_read(header: Sequence[str], spec: ValuesFrom, within: Sequence[str]) -> list[str]:
    """Return the columns to read: values, areas if any, and labels."""
    named, labels = spec.column, spec.columns_of_labels
    if not header:
        _refuse_file("its first line has no column names")
    if len(header) == 1 and header[0] != named:
        # The header of a file without one is a row, so errors name the sign alone.
        sign = next((sign for sign in DELIMITERS if sign in header[0]), None)
        if sign is not None:  # the whole line would silently become a single column
            _refuse_file(
                f"its first line has {DELIMITERS[sign]} where {DELIMITERS[spec.delimiter]} must "
                "separate columns: declare it, as in `{file: ..., delimiter: ';'}`"
            )
    lacking = next((name for name in within if name not in header), None)
    if lacking is not None:
        _refuse_file(_missing_column_text(header, lacking))
    for name in labels:  # the message quotes no other column
        if name not in header:
            _refuse_file(f"it has no column '{shorten(name)}' of labels")
    others = [name for name in header if name not in within and name not in labels]
    own = _only_column(others, within) if named is None else named
    columns_to_read = [own, *within, *labels]
    for name in columns_to_read:
        if name not in header:
            _refuse_file(_missing_column_text(header, name))
        if header.count(name) > 1:
            _refuse_file(f"it has two columns '{shorten(name)}'")
    return columns_to_read


def _missing_column_text(header: Sequence[str], name: str) -> str:
    """Return the problem of a missing column, without quoting any other part of the first line.

    A file without a header has confidential values in its first line, instead of names.
    """
    like = next(
        (other for other in header if normalized_name(other) == normalized_name(name)), None
    )
    reason = f"it has no column '{shorten(name)}'"
    return reason if like is None else f"{reason}, but '{like}'"


def _only_column(others: Sequence[str], within: Sequence[str]) -> str:
    """Return the only possible column of values, if the declaration names none."""
    if len(others) != 1:
        reason = "it has more than one column, and the schema does not name one"
        if not others:
            reason = "it has no column of values"
        known = " and ".join(f"'{name}'" for name in within)
        _refuse_file(f"{reason} besides {known}" if within else reason)
    if others[0].strip().isdecimal():  # don't quote it: it may be a value
        _refuse_file("its first line has a number, not column names: add a line of names above it")
    return others[0]


def _refuse_many(number: int) -> None:
    """Raise DP-SCHEMA-004 for a file with too many values."""
    if number > MOST_VALUES:
        _refuse_file(f"it has more than {MOST_VALUES:,} values")


def _check_values(found: Columns) -> Columns:
    """Return the columns; refuse a file without values, or with a line of empty cells."""
    if not found[0]:
        _refuse_file("it lists no value")
    empty = [i for i, value in enumerate(found[0]) if not value.strip()] if len(found) > 1 else []
    if any(not any(column[i].strip() for column in found[1:]) for i in empty):
        # An empty line would silently declare the empty text as a value.
        _refuse_file("it has a line of empty cells, which spreadsheets often leave: remove it")
    return found


def _large_file_columns(
    content: bytes, is_parquet: bool, spec: ValuesFrom, within: Sequence[str]
) -> Columns:
    """Return the columns of a large file, read batch by batch.

    Values in the same area share one text object.
    """
    import pyarrow as pa

    found: list[list[str]] = []
    known: dict[str, str] = {}
    size = 0
    try:
        if not is_parquet and spec.encoding != UTF_8:
            content = content.decode(spec.encoding).encode()
        read = _parquet_columns if is_parquet else _csv_columns
        for columns in read(content, spec, within):
            size += sum(column.nbytes for column in columns)
            if size > LARGEST:
                _refuse_file(f"its values are together longer than {size_text(LARGEST)}")
            found = found or [[] for _ in columns]
            for i, column in enumerate(columns):
                texts = _texts(column)
                areas = 1 <= i <= len(within)
                found[i] += [known.setdefault(t, t) for t in texts] if areas else texts
            _refuse_many(len(found[0]))
    except (OSError, UnicodeDecodeError, csv.Error, pa.ArrowException):
        ragged = None if is_parquet else _first_length_problem(content, spec.delimiter)
        _refuse_file(ragged or ("it is not a Parquet file" if is_parquet else _NO_CSV))
    values, *other_columns = _check_values(found or [[]])
    return [KeyValues(values), *other_columns]


def _texts(column: pa.Array) -> list[str]:
    """Return the texts of a column; integers are read as their digits."""
    import pyarrow as pa

    kind = column.type.value_type if pa.types.is_dictionary(column.type) else column.type
    if pa.types.is_integer(kind) or pa.types.is_large_string(kind):
        column = column.cast(pa.string())
    elif not pa.types.is_string(kind):
        _refuse_file("one of its columns contains neither texts nor whole numbers")
    # An empty CSV cell of a text column is an empty text in Arrow; only Parquet files have nulls.
    if column.null_count:
        _refuse_file("one of its values is missing")
    texts: list[str] = column.to_pylist()
    if not are_valid_texts(texts):
        _refuse_file(
            f"one of its values has more than {LONGEST_TEXT} characters, or an invalid character"
        )
    return texts


def _csv_columns(
    content: bytes, spec: ValuesFrom, within: Sequence[str]
) -> Iterator[list[pa.Array]]:
    """Yield the columns of a large CSV file, batch by batch."""
    import pyarrow as pa
    from pyarrow import csv as arrow_csv

    first = io.StringIO(content[: content.find(b"\n") + 1].decode("utf-8-sig"))
    header = csv.reader(first, strict=True, delimiter=spec.delimiter)
    columns_to_read = _columns_to_read(next(header, []), spec, within)
    kinds = dict.fromkeys(columns_to_read, pa.string())
    reader = arrow_csv.open_csv(
        pa.BufferReader(content),
        read_options=arrow_csv.ReadOptions(block_size=READ_AT_ONCE),
        parse_options=arrow_csv.ParseOptions(delimiter=spec.delimiter),
        convert_options=arrow_csv.ConvertOptions(
            # Without types, Arrow infers them from the first block: the code 007 would become the
            # number 7.
            column_types=kinds,
            include_columns=columns_to_read,
        ),
    )
    yield from (batch.columns for batch in reader)


def _parquet_columns(
    content: bytes, spec: ValuesFrom, within: Sequence[str]
) -> Iterator[list[pa.Array]]:
    """Yield the columns of a Parquet file, batch by batch."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    file = pq.ParquetFile(pa.BufferReader(content))
    _refuse_many(file.metadata.num_rows)
    columns_to_read = _columns_to_read(file.schema_arrow.names, spec, within)
    for batch in file.iter_batches(batch_size=1 << 16, columns=columns_to_read):
        yield [batch.column(name) for name in columns_to_read]
