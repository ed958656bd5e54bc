"""Divide the rows of stand-ins among the parties of a rehearsed federated release.

All rows of a unit belong to one party.
"""

from __future__ import annotations

import csv
import json
from collections.abc import Iterator, Mapping
from io import TextIOWrapper
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO
from zlib import crc32

import numpy as np

from dprelease.errors import DeclarationError
from dprelease.numerics.lattice import Integers
from dprelease.rehearsal.stand_ins import StandIns
from dprelease.schema.source_types.source import Source
from dprelease.schema.table import Table

if TYPE_CHECKING:
    import pandas as pd
    import pyarrow as pa


ROWS_AT_ONCE = 1 << 16
"""The maximum number of rows of a text file that are in memory at a time."""


def split_among_parties(stand_ins: StandIns, parties: int, scratch: Path) -> Iterator[StandIns]:
    """Yield the stand-ins of each party; all rows of a unit, in all tables, belong to one party.

    Rows without an id are distributed to the parties in turn. Every party has all public tables.
    `scratch` is an empty folder for the files with each party's rows of public stand-in files.

    Raises DeclarationError: DP-REHEARSE-003 for a stand-in file whose rows can't be divided among
    parties.
    """
    tables = {name: declared.table for name, declared in stand_ins.declaration.tables.items()}
    people = {name: table for name, table in tables.items() if not table.public}
    files = {
        name: _split_file(table, stand_ins.public[name], parties, scratch)
        for name, table in people.items()
        if name in stand_ins.public
    }
    rows = {
        name: (stand_ins.invented[name], _parties_of_rows(stand_ins.invented[name], table, parties))
        for name, table in people.items()
        if name in stand_ins.invented
    }
    for party in range(parties):
        own_rows = {name: _rows_of_party(*parts, party) for name, parts in rows.items()}
        own_files = {name: paths[party] for name, paths in files.items()}
        yield stand_ins.of_party(own_rows, own_files)


def party_of_unit(unit: object, parties: int) -> int:
    """Return the index of a unit's party, computed from the text of its id."""
    return crc32(str(unit).encode("utf-8", "surrogatepass")) % parties


def _parties_of_rows(table: pa.Table, declared: Table, parties: int) -> Integers:
    name, rows = declared.unit.id, len(table)
    if name is None or name not in table.column_names:
        return np.arange(rows, dtype=np.int64) % parties
    coded = table.column(name).combine_chunks().dictionary_encode(null_encoding="encode")
    by_code = [party_of_unit(unit, parties) for unit in coded.dictionary.to_pylist()]
    codes = coded.indices.to_numpy(zero_copy_only=False)
    return np.array(by_code, dtype=np.int64)[codes] if rows else np.zeros(0, dtype=np.int64)


def _rows_of_party(table: pa.Table, party_of_row: Integers, party: int) -> pa.Table:
    import pyarrow as pa

    return table.filter(pa.array(party_of_row == party))


def _split_file(table: Table, path: Path, parties: int, scratch: Path) -> list[Path]:
    """Divide a stand-in file into a file for each party, in the same format; return their paths."""
    source = table.source
    kind = None if source is None else source.kind
    splits = {"parquet": _split_parquet, "csv": _split_csv, "json_lines": _split_json_lines}
    split = splits.get(kind or "")
    if source is None or split is None:
        problem = "only rows of Parquet, CSV and JSON lines files can be divided among parties"
        raise DeclarationError("DP-REHEARSE-003", file=path.name, table=table.name, problem=problem)
    ending = {"parquet": ".parquet", "csv": ".csv", "json_lines": ".jsonl"}[str(kind)]
    paths = [scratch / f"{table.name}-{party + 1}{ending}" for party in range(parties)]
    failure = ""
    try:
        split(table, source, path, paths)
    except (OSError, ValueError, LookupError) as problem:
        failure = f"its rows can't be read ({type(problem).__name__})"
    if failure:
        raise DeclarationError("DP-REHEARSE-003", file=path.name, table=table.name, problem=failure)
    return paths


def _split_parquet(table: Table, _source: Source, path: Path, paths: list[Path]) -> None:
    """Write the rows of a Parquet file into the files of the parties."""
    import pyarrow.parquet as pq

    table_read = pq.read_table(path)
    party_of_row = _parties_of_rows(table_read, table, len(paths))
    for party, party_path in enumerate(paths):
        pq.write_table(_rows_of_party(table_read, party_of_row, party), party_path.absolute())


def _split_csv(table: Table, source: Source, path: Path, paths: list[Path]) -> None:
    """Write the rows of a CSV file into the files of the parties, as texts in the same dialect.

    Rows that can't be parsed are left out.
    """
    import pandas as pd

    csv_options: dict[str, Any] = {"sep": source.separator, "encoding": source.encoding}
    if source.quote_character:
        csv_options |= {"quotechar": source.quote, "escapechar": source.escape}
        csv_options["doublequote"] = source.escape is None
    else:
        csv_options["quoting"] = csv.QUOTE_NONE
    rows_read = 0
    with _open_decompressed(path, source) as stream:
        for chunk in pd.read_csv(
            stream,
            dtype=str,
            keep_default_na=False,
            na_filter=False,
            on_bad_lines="skip",
            chunksize=ROWS_AT_ONCE,
            **csv_options,
        ):
            party_of_row = _parties_of_texts(chunk, table, len(paths), rows_read)
            for party, party_path in enumerate(paths):
                part, mode = chunk[party_of_row == party], "a" if rows_read else "w"
                part.to_csv(party_path, index=False, header=not rows_read, mode=mode, **csv_options)
            rows_read += len(chunk)
    if not rows_read:
        raise ValueError("there is no row")


def _open_decompressed(path: Path, source: Source) -> BinaryIO:
    """Return an open stream of the decompressed bytes of a file."""
    import pyarrow as pa

    packed = None if source.effective_compression == "none" else source.effective_compression
    stream: BinaryIO = pa.input_stream(str(path), compression=packed)
    return stream


def _parties_of_texts(chunk: pd.DataFrame, table: Table, parties: int, rows_read: int) -> Integers:
    """Return the party of each row in a chunk of texts, by its unit or by the number of the row."""
    name = table.unit.id
    if name is None or name not in chunk.columns:
        return (np.arange(len(chunk), dtype=np.int64) + rows_read) % parties
    return np.array([party_of_unit(unit, parties) for unit in chunk[name]], dtype=np.int64)


def _split_json_lines(table: Table, source: Source, path: Path, paths: list[Path]) -> None:
    """Write the lines of a file of JSON objects, unchanged, into the files of the parties."""
    name, encoding = table.unit.id, source.encoding
    lines: list[list[str]] = [[] for _ in paths]
    with _open_decompressed(path, source) as stream:
        for i, line in enumerate(TextIOWrapper(stream, encoding)):
            row: Mapping[str, Any] = json.loads(line) if name is not None and line.strip() else {}
            party = i % len(paths) if name is None else party_of_unit(row.get(name), len(paths))
            lines[party].append(str(line))
    for party_path, lines_of_party in zip(paths, lines, strict=True):
        party_path.write_text("".join(lines_of_party), encoding=encoding)
