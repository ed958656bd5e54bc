"""CSV for programs: one file per table, its CSVW metadata, and code lists; RFC 4180 in UTF-8."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Set
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from dprelease.documents.metadata import (
    CodeList,
    ColumnMetadata,
    Metadata,
    Role,
    TableMetadata,
    code_text,
)
from dprelease.exports.csv_tables.csvw import ENDING, code_table, csvw_metadata, label_column_names
from dprelease.exports.export import Export, PublishedRelease
from dprelease.exports.layout import TableLayout, layout_of
from dprelease.exports.names import create_parent_folder, safe_names, write_json

if TYPE_CHECKING:
    import pyarrow as pa


FOLDER = "csv"
QUALITY = "quality"
"""Name of the code list that all columns of quality share."""


class CsvFiles(Export):
    """The format with CSV files (RFC 4180), and their metadata as CSV on the Web."""

    name = "csv"

    def write(self, release: PublishedRelease, folder: Path) -> list[str]:
        """Write the CSV files, code lists and metadata of all tables; return their names."""
        metadata, files = release.metadata, []
        tables = [layout_of(table, metadata) for table in metadata.tables_for_readers]
        lists = code_lists(tables)
        used = _used_quality_codes(release)
        for key, file in lists.items():
            _write_codes(key, folder / file, metadata, used)
            files.append(file)
        for layout in tables:
            file = csv_file(layout.table)
            _write_table(layout, release, folder / file)
            listed = listed_keys(layout)
            mine = {key.field: lists[key] for key in listed}
            codes = [
                code_table(lists[key], label_languages(key, metadata), key.column)
                for key in dict.fromkeys(listed)
            ]
            write_json(folder / (file + ENDING), csvw_metadata(layout, metadata, file, mine, codes))
            files += [file, file + ENDING]
        return files


@dataclass(frozen=True)
class ListedKey:
    """A column with a code list; columns of one name with equal codes have the same file.

    `name`: the name of the key, or the one name of all columns of quality. `field`: the name of the
    column in its table.
    """

    name: str
    codes: CodeList
    column: ColumnMetadata
    field: str

    def __eq__(self, other: object) -> bool:
        return isinstance(other, ListedKey) and (self.name, self.codes) == (other.name, other.codes)

    def __hash__(self) -> int:
        # Without the values, of which there may be millions; equal lists still have equal hashes.
        return hash((self.name, len(self.codes.values)))


def csv_file(table: TableMetadata) -> str:
    """Return the name of a table's CSV file, relative to the folder of all formats."""
    return f"{FOLDER}/{table.name}.csv"


def code_lists(tables: list[TableLayout]) -> dict[ListedKey, str]:
    """Return the file of every code list of the tables, by key."""
    keys = list(dict.fromkeys(key for layout in tables for key in listed_keys(layout)))
    names = safe_names([key.name for key in keys], "key")
    return {key: f"{FOLDER}/codes/{name}.csv" for key, name in zip(keys, names, strict=True)}


def listed_keys(layout: TableLayout) -> list[ListedKey]:
    """Return the columns of a table that have code lists.

    These are keys of texts, keys with labels, and columns of quality.
    """
    return [
        ListedKey(
            QUALITY if column.metadata.role == Role.QUALITY else column.name,
            column.metadata.codes,
            column.metadata,
            column.name,
        )
        for column in layout.columns
        if column.metadata.role in (Role.KEY, Role.QUALITY)
        and column.metadata.codes is not None
        and (column.metadata.kind == "string" or column.metadata.codes.labels)
    ]


def label_languages(key: ListedKey, metadata: Metadata) -> tuple[str, ...]:
    """Return the languages of the labels of a key's codes; empty without labels."""
    return metadata.languages if key.codes.labels else ()


def _write_table(layout: TableLayout, release: PublishedRelease, path: Path) -> None:
    """Write a table as a CSV file."""
    names = [column.name for column in layout.columns]
    with create_parent_folder(path).open("wb") as file:
        for piece in csv_lines(names, layout.batches(release)):
            file.write(piece)


def _used_quality_codes(release: PublishedRelease) -> set[object]:
    """Return the quality codes that occur in the tables for readers."""
    found: set[object] = set()
    for table in release.metadata.tables_for_readers:
        names = [column.name for column in table.columns if column.role == Role.QUALITY]
        for batch in release.batches(table, names) if names else ():
            found.update(*(column.unique().to_pylist() for column in batch.columns))
    return found


def _write_codes(key: ListedKey, path: Path, metadata: Metadata, used: Set[object]) -> None:
    """Write a code list as a CSV file: each code with its labels; of quality codes those used."""
    tags = label_languages(key, metadata)
    lines = [["code", *label_column_names(tags)]]
    for value in key.codes.values:
        if key.column.role == Role.QUALITY and value not in used:
            continue
        lines.append([code_text(value), *(key.codes.label(value, tag) for tag in tags)])
    text = "".join(",".join(map(quote_field, line)) + "\r\n" for line in lines)
    create_parent_folder(path).write_bytes(text.encode())


EXPORT = CsvFiles()


END = "\r\n"
QUOTED = r'^$|[",\r\n]|^\s|\s$'
"""Pattern of texts that need quotes; an empty text is quoted, since it is not a missing value."""

CELLS = 1 << 19
"""Maximum number of cells that are converted to text at once."""

PLAIN_SCALE = 6
"""Maximum number of decimals that Arrow writes without an exponent."""


def csv_lines(names: Iterable[str], batches: Iterable[pa.RecordBatch]) -> Iterator[bytes]:
    """Yield a CSV file in pieces: a header line, then one line per row.

    A missing value is an empty field. In a file with a single column, this empty field is quoted,
    because readers skip empty lines.
    """
    yield (",".join(map(quote_field, names)) + END).encode()
    for batch in batches:
        size = max(1, CELLS // max(1, batch.num_columns))
        for first in range(0, batch.num_rows, size):
            yield _batch_lines(batch.slice(first, size))


def quote_field(text: str) -> str:
    """Return a text as a CSV field."""
    plain = text and text == text.strip() and not set('",\r\n') & set(text)
    return text if plain else '"' + text.replace('"', '""') + '"'


def _batch_lines(batch: pa.RecordBatch) -> bytes:
    """Return the rows of a batch as lines of a CSV file."""
    import pyarrow.compute as pc

    fields = [fields_of(column) for column in batch.columns]
    nothing = "" if len(fields) > 1 else '""'
    rows = pc.binary_join_element_wise(
        *fields, ",", null_handling="replace", null_replacement=nothing
    )
    # RFC 4180 ends lines with CR and LF.
    ended = pc.binary_join_element_wise(rows, "", END)
    return "".join(ended.to_pylist()).encode()


def fields_of(column: pa.Array) -> pa.Array:
    """Return values as CSV fields, which are quoted if necessary; null stays null."""
    import pyarrow as pa
    import pyarrow.compute as pc

    if not pa.types.is_string(column.type):
        return plain_texts(column)
    marked = pc.replace_substring(column, pattern='"', replacement='""')
    marked = pc.binary_join_element_wise('"', marked, '"', "")
    return pc.if_else(pc.match_substring_regex(column, QUOTED), marked, column)


def plain_texts(column: pa.Array) -> pa.Array:
    """Return values as texts, with all digits of numbers; null stays null."""
    import pyarrow as pa

    kind = column.type
    if pa.types.is_floating(kind):  # the shortest text that parses as the same number
        shortest = [None if value is None else repr(value) for value in column.to_pylist()]
        return pa.array(shortest, type=pa.string())
    if pa.types.is_decimal(kind) and kind.scale > PLAIN_SCALE:
        plain = [None if value is None else f"{value:f}" for value in column.to_pylist()]
        return pa.array(plain, type=pa.string())
    if pa.types.is_timestamp(kind):
        import pyarrow.compute as pc

        seconds = column.cast(pa.timestamp("s")).cast(pa.string())
        # The type dateTime of XML Schema, which the metadata names, has a T.
        return pc.replace_substring(seconds, " ", "T")
    return column if pa.types.is_string(kind) else column.cast(pa.string())
