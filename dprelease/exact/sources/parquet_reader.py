"""Read Parquet files, each by the types of its own schema, so that no value can stop a run."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pydantic_core import PydanticCustomError

from dprelease.errors import DataError
from dprelease.errors.catalogue.data_errors import CONVERT
from dprelease.exact.reading.parquet_batches import FileBatches
from dprelease.exact.reading.sources import (
    OpenedSource,
    escape_pattern,
    file_label,
    file_stamp,
    files_of_source,
    parquet_sql,
    pattern_list_sql,
    stored_columns,
    unreadable_error,
)
from dprelease.exact.reading.stored_types import (
    HALF_FLOAT,
    IN_MILLISECONDS,
    MILLISECOND_TIMESTAMP,
    SCHEMA_SQL,
    WIDE_DECIMAL,
    Part,
    Types,
    are_exact_types,
    column_types,
    group_by_types,
    millisecond_columns,
    union_sql,
)
from dprelease.exact.sources.source_reader import (
    Description,
    Opening,
    RunMetadataQuery,
    SourceReader,
)
from dprelease.query import quoting
from dprelease.schema.load import Declared
from dprelease.schema.source_texts import to_time_zone
from dprelease.schema.source_types.source import Source
from dprelease.statements.values.lossy_types import may_lose_values
from dprelease.statements.values.physical import INT96, ZONED_MS
from dprelease.statements.values.source_equality import SPARK_NOTE, spark_collations
from dprelease.statements.values.spelling import UTC

if TYPE_CHECKING:
    import pyarrow as pa

    from dprelease.exact.detection.csv_layout import KeyValue
    from dprelease.exact.inputs import Input

ARROW_ONLY_TYPES = {
    WIDE_DECIMAL: "a decimal of more than 38 digits",
    HALF_FLOAT: "a float of 16 bits",
}
"""Types of numbers that only Arrow reads unchanged, and their names in messages."""

TYPES_READ_BY_ARROW = IN_MILLISECONDS | frozenset(ARROW_ONLY_TYPES)
"""All types of columns that the engine does not read unchanged, but Arrow does."""

DAMAGED_FILE_REMEDY = "write it again, or remove it from the path or the folder"
SPELLING_REMEDY = "use the same column names in all files, including upper and lower case"

SPARK_NOTE_SQL = f"SELECT value FROM parquet_kv_metadata({{}}) WHERE key = '{SPARK_NOTE}'::BLOB"

LOCAL_TYPES = {ZONED_MS: MILLISECOND_TIMESTAMP, INT96: "TIMESTAMP"}
"""Types of timestamps in UTC, and the corresponding types of local timestamps."""


class ParquetReader(SourceReader):
    """Reads Parquet files."""

    def open(self, declared: Declared, source: Source, opening: Opening) -> OpenedSource:
        """Return the relation by which the engine reads all files at once."""
        files = files_of_source(declared, source, opening.copies)
        return OpenedSource(files, tuple(map(file_stamp, files)), relation=parquet_sql(files))

    def relation(
        self, given: Input, relation: str, ask: RunMetadataQuery, *, can_use_arrow: bool
    ) -> str:
        """Return the relation of a table's Parquet files, each read by its own types.

        `can_use_arrow`: whether Arrow later reads the rows of files with timestamps at which the
        engine could fail. Otherwise the columns of such timestamps are only recorded in
        `given.millisecond_columns`.

        Raises
        ------
        DataError
            DP-DATA-002 or 003 for names that differ in case, 004, 005 or 015 for types; 024 for one
            of several files that can't be read, lacks a column, or spells it in another case.
        """
        names = stored_columns(given.declared)
        files = {file: types_of_file(given, file, ask) for file in given.files}
        _refuse_missing_columns(given, files)
        runs = group_by_types(files, given.declared)
        given.types_differ = bool(runs)
        stored = {
            name: {kinds[name] for kinds in files.values() if name in kinds} for name in names
        }
        given.collations = noted_collations(given.files, stored, ask)
        given.millisecond_columns = millisecond_columns(stored)
        alone = any(kinds & ARROW_ONLY_TYPES.keys() for kinds in stored.values())
        if not runs and not ((given.millisecond_columns or alone) and can_use_arrow):
            _refuse_arrow_only_types(given, files)
            (first, *others) = files.values()
            types = {name: first[name] for name in names if name in first}
            if not others and are_exact_types(types.values()):
                given.physical = types
            return relation
        found = parts_of_files(given, files, can_use_arrow=can_use_arrow)
        return union_sql(found, given.declared) if runs else found[0][0]

    def describe(self, file: Path, table: str | None) -> Description:
        """Return the columns of a file, by its Arrow schema."""
        import pyarrow as pa
        import pyarrow.parquet as pq

        try:
            fields = list(pq.read_schema(file.absolute()))
        except (pa.ArrowException, OSError):
            return Description()
        columns = [(field.name, _propose_type(str(field.type))) for field in fields]
        return Description(columns, _time_zone_key(fields))

    def peek(self, file: Path, table: str | None) -> pa.Table:
        """Return all rows of a file."""
        import pyarrow.parquet as pq

        return pq.read_table(file.absolute())


def parts_of_files(given: Input, files: Mapping[Path, Types], *, can_use_arrow: bool) -> list[Part]:
    """Return a relation for each run of files with the same types.

    Rows that Arrow must read are added to `given.rows`; without Arrow, DP-DATA-004 is raised for
    columns that only Arrow reads unchanged.
    """
    if not can_use_arrow:
        _refuse_arrow_only_types(given, files)
    names, parts = stored_columns(given.declared), []
    runs = group_by_types(files, given.declared) or [(list(files), files[given.files[0]])]
    for i, (run, kinds) in enumerate(runs):
        if can_use_arrow and any(kinds.get(name) in TYPES_READ_BY_ARROW for name in names):
            name = f"{given.relation}_{i}"
            given.rows[name] = FileBatches(given.declared, tuple(run), kinds)
            kinds = _types_after_arrow(kinds, given.declared)
        else:
            name = parquet_sql(run)
        parts.append((name, kinds, file_label(run[0], given.files)))
    return parts


def noted_collations(
    files: Sequence[Path], stored: Mapping[str, set[str]], ask: RunMetadataQuery
) -> dict[str, str]:
    """Return the columns for which Spark noted a collation in files, with its name.

    `stored`: the types of each column in all files; only texts have collations.
    """
    if not any("VARCHAR" in kinds for kinds in stored.values()):
        return {}
    noted = ask(SPARK_NOTE_SQL.format(pattern_list_sql(files)))
    return {name: found for (note,) in noted for name, found in spark_collations(note).items()}


def _refuse_arrow_only_types(given: Input, files: Mapping[Path, Types]) -> None:
    """Raise DP-DATA-004 for a column with a type that only Arrow reads unchanged."""
    for name in sorted(stored_columns(given.declared)):
        faulty = [file for file, types in files.items() if types.get(name) in ARROW_ONLY_TYPES]
        if not faulty:
            continue
        kind = getattr(given.declared.table.columns[name], "type", "cut")
        found = min(ARROW_ONLY_TYPES[files[file][name]] for file in faulty)
        fault = DataError("DP-DATA-004", column=name, physical=found, declared=kind, way=CONVERT)
        if len(faulty) < len(files):
            fault.add_file_to_cause(file_label(faulty[0], given.files))
        raise fault


def _types_after_arrow(types: Types, declared: Declared) -> Types:
    """Return the engine's types that columns have after Arrow has read and converted them."""
    wide = {name for name in stored_columns(declared) if types.get(name) == WIDE_DECIMAL}
    columns = declared.table.columns
    read_as = {n: "DECIMAL" if may_lose_values(columns[n], "DECIMAL") else "VARCHAR" for n in wide}
    halves = {name: "FLOAT" for name, kind in types.items() if kind == HALF_FLOAT}
    return {**types, **read_as, **halves}


def types_of_file(given: Input, file: Path, ask: RunMetadataQuery) -> dict[str, str]:
    """Return the types of a Parquet file's columns.

    Names that differ only in case, from each other or from a declared name, are refused: the engine
    would rename a column, or confuse columns of different files. If there are several files, the
    error names the file.
    """
    declared, is_one = given.declared, len(given.files) == 1
    names, types = column_types(schema_rows(given, file, ask))
    for name in stored_columns(declared):
        same = [other for other in names if other.casefold() == name.casefold()]
        if same in ([], [name]):
            continue
        if len(same) == 1 and not is_one:
            file_name = file_label(file, given.files)
            raise unreadable_error(
                declared,
                f"{file_name} has the column '{name}' with other upper or lower case",
                SPELLING_REMEDY,
            )
        code = "DP-DATA-003" if len(same) > 1 else "DP-DATA-002"
        fault = DataError(code, table=declared.table.name, column=name)
        if not is_one:
            fault.add_file_to_cause(file_label(file, given.files))
        raise fault
    if declared.table.time_zone == UTC:  # then local time is UTC
        types = {name: LOCAL_TYPES.get(kind, kind) for name, kind in types.items()}
    return types


def schema_rows(given: Input, file: Path, ask: RunMetadataQuery) -> list[Any]:
    """Return the rows of `SCHEMA_SQL` for a Parquet file.

    Raises
    ------
    DataError
        DP-DATA-001 or 024 if the file is invalid.
    """
    try:
        return ask(SCHEMA_SQL.format(quoting.text(escape_pattern(file))))
    except DataError as problem:
        if len(given.files) == 1 or problem.code != "DP-DATA-001":
            raise
    file_name = file_label(file, given.files)
    raise unreadable_error(
        given.declared, f"{file_name} can't be opened, or is incomplete", DAMAGED_FILE_REMEDY
    )


def _refuse_missing_columns(given: Input, files: Mapping[Path, Types]) -> None:
    """Raise DP-DATA-024 for a column that only some files have, because rows would lack a value."""
    for name in stored_columns(given.declared):
        lacking = [file for file, types in files.items() if name not in types]
        if 0 < len(lacking) < len(files):
            more = len(lacking) - 1
            verb = f" and {more} other{'s' if more > 1 else ''} lack" if more else " lacks"
            file_name = file_label(lacking[0], given.files)
            reason = f"{file_name}{verb} the column '{name}', which the other files have"
            way = "use the same columns in all files, or declare only columns that all have"
            raise unreadable_error(given.declared, reason, way)


def _time_zone_key(fields: Sequence[pa.Field]) -> dict[str, KeyValue]:
    """Return the key `time_zone` of `source` if the timestamps of a Parquet file have a time zone.

    Hours are then local. The timestamps themselves are stored in UTC, which a schema without
    `time_zone` assumes.
    """
    zones = {field.type.tz for field in fields if str(field.type).startswith("timestamp")}
    try:
        zone = to_time_zone((zones - {None}).pop())
    except (KeyError, PydanticCustomError):  # none; or an offset, which is not a zone
        return {}
    return {} if zone == UTC or len(zones - {None}) > 1 else {"time_zone": zone}


def _propose_type(arrow: str) -> str:
    """Return the declared type that `init` proposes for an Arrow type, which is given by name."""
    # The text after the first bracket may hold names, such as those of a struct's fields.
    value = re.split(r"[<,(\[]", arrow.removeprefix("dictionary<values="))[0]
    starts = {
        ("int", "uint"): "integer",
        ("float", "double", "halffloat", "decimal"): "number",
        ("bool",): "boolean",
        ("date",): "date",
        ("timestamp",): "timestamp",
        ("string", "large_string", "string_view"): "text",
    }
    for words, kind in starts.items():
        if value.startswith(words):
            return kind
    return f"{value} columns can't be used"


READER = ParquetReader()
