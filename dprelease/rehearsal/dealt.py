"""Stand-ins of a federated release, dealt to its parties: each unit's rows to one of them."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from io import TextIOWrapper
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO
from zlib import crc32

import numpy as np

from dprelease.errors import DeclarationError
from dprelease.numerics.lattice import Integers
from dprelease.rehearsal.stand_ins import Cast
from dprelease.schema.table import Source, Table

if TYPE_CHECKING:
    import pandas as pd
    import pyarrow as pa

ROWS_AT_ONCE = 1 << 16
"""Rows of a text file that are held at a time."""


def split_among_parties(cast: Cast, parties: int, scratch: Path) -> Iterator[Cast]:
    """Yield the cast of each party, all tables of which have the same units.

    Rows of one unit are with one party, of every table; rows without an id go round. Public tables
    are every party's. `scratch`: an empty folder, for the parties' files of public stand-ins.

    Raises
    ------
    DeclarationError
        DP-REHEARSE-003 for a file whose rows can't be told apart.
    """
    tables = {name: declared.table for name, declared in cast.declaration.tables.items()}
    people = {name: table for name, table in tables.items() if not table.public}
    files = {
        name: _dealt_file(table, cast.public[name], parties, scratch)
        for name, table in people.items()
        if name in cast.public
    }
    rows = {
        name: (cast.invented[name], _dealt_rows(cast.invented[name], table, parties))
        for name, table in people.items()
        if name in cast.invented
    }
    for party in range(parties):
        yield cast.of_party(
            {name: _of(table, to, party) for name, (table, to) in rows.items()},
            {name: paths[party] for name, paths in files.items()},
        )


def dealt_to(unit: object, parties: int) -> int:
    """Return the place of the party that a unit is with, by what its id says as a text."""
    return crc32(str(unit).encode("utf-8", "surrogatepass")) % parties


def _dealt_rows(table: pa.Table, declared: Table, parties: int) -> Integers:
    """Return the place of the party of every row."""
    name = declared.unit.id
    if name is None or name not in table.column_names:
        return np.arange(len(table), dtype=np.int64) % parties
    coded = table.column(name).combine_chunks().dictionary_encode(null_encoding="encode")
    by_code = [dealt_to(unit, parties) for unit in coded.dictionary.to_pylist()]
    codes = coded.indices.to_numpy(zero_copy_only=False)
    return np.array(by_code, dtype=np.int64)[codes] if len(table) else np.zeros(0, dtype=np.int64)


def _of(table: pa.Table, to: Integers, party: int) -> pa.Table:
    import pyarrow as pa

    return table.filter(pa.array(to == party))


def _dealt_file(table: Table, path: Path, parties: int, scratch: Path) -> list[Path]:
    """Return the file of each party, each written as the public one; as `dealt`."""
    source = table.source
    kind = None if source is None else source.kind
    deal = {"parquet": _deal_parquet, "csv": _deal_csv, "json_lines": _deal_lines}.get(kind or "")
    if source is None or deal is None:
        problem = "the rows of Parquet, CSV and JSON lines files alone can be dealt to parties"
        raise DeclarationError("DP-REHEARSE-003", file=path.name, table=table.name, problem=problem)
    ending = {"parquet": ".parquet", "csv": ".csv", "json_lines": ".jsonl"}[str(kind)]
    paths = [scratch / f"{table.name}-{party + 1}{ending}" for party in range(parties)]
    failure = ""
    try:
        deal(table, source, path, paths)
    except (OSError, ValueError, LookupError) as problem:
        failure = f"its rows can't be read ({type(problem).__name__})"
    if failure:
        raise DeclarationError("DP-REHEARSE-003", file=path.name, table=table.name, problem=failure)
    return paths


def _deal_parquet(table: Table, _source: Source, path: Path, paths: list[Path]) -> None:
    import pyarrow.parquet as pq

    held = pq.read_table(path)
    to = _dealt_rows(held, table, len(paths))
    for party, own in enumerate(paths):
        pq.write_table(_of(held, to, party), own.absolute())


def _deal_csv(table: Table, source: Source, path: Path, paths: list[Path]) -> None:
    """Write the rows of a CSV file as texts, with its marks; broken ones are left out."""
    import pandas as pd

    how: dict[str, Any] = {"sep": source.separator, "quotechar": source.quote}
    how["encoding"] = source.encoding
    seen = 0
    with _open_decompressed(path, source) as stream:
        for chunk in pd.read_csv(
            stream,
            dtype=str,
            keep_default_na=False,
            na_filter=False,
            on_bad_lines="skip",
            chunksize=ROWS_AT_ONCE,
            **how,
        ):
            to = _dealt_texts(chunk, table, len(paths), seen)
            for party, own in enumerate(paths):
                part, mode = chunk[to == party], "a" if seen else "w"
                part.to_csv(own, index=False, header=not seen, mode=mode, **how)
            seen += len(chunk)
    if not seen:
        raise ValueError("there is no row")


def _open_decompressed(path: Path, source: Source) -> BinaryIO:
    import pyarrow as pa

    packed = None if source.effective_compression == "none" else source.effective_compression
    stream: BinaryIO = pa.input_stream(str(path), compression=packed)
    return stream


def _dealt_texts(chunk: pd.DataFrame, table: Table, parties: int, seen: int) -> Integers:
    name = table.unit.id
    if name is None or name not in chunk.columns:
        return (np.arange(len(chunk), dtype=np.int64) + seen) % parties
    return np.array([dealt_to(unit, parties) for unit in chunk[name]], dtype=np.int64)


def _deal_lines(table: Table, source: Source, path: Path, paths: list[Path]) -> None:
    """Write the lines of a file of JSON objects, as they are."""
    name, encoding = table.unit.id, source.encoding
    lines: list[list[str]] = [[] for _ in paths]
    with _open_decompressed(path, source) as stream:
        for i, line in enumerate(TextIOWrapper(stream, encoding)):
            row: Mapping[str, Any] = json.loads(line) if name is not None and line.strip() else {}
            party = i % len(paths) if name is None else dealt_to(row.get(name), len(paths))
            lines[party].append(str(line))
    for own, held in zip(paths, lines, strict=True):
        own.write_text("".join(held), encoding=encoding)
