"""The tables of one release, family after family: noised, written, told by digest and rows."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from dprelease.documents.file_records import Written
from dprelease.documents.manifest import sha256_of
from dprelease.documents.metadata import Metadata
from dprelease.documents.said_records import field_notes
from dprelease.exact.answering import Answering
from dprelease.numerics.entropy import BitSource
from dprelease.planning.plan import Plan
from dprelease.postprocess.families import Family
from dprelease.release.execute import Publication
from dprelease.release.runs.streaming import ahead, streaming
from dprelease.tables import formats
from dprelease.tables.family_tables import MeasuredTables, published_table, step_tables
from dprelease.tables.field_notes import noted, noted_tables
from dprelease.tables.formats import file_of, write_table

if TYPE_CHECKING:
    import pyarrow as pa


def publish_family(
    family: Family,
    plan: Plan,
    engines: Mapping[str, Answering],
    bits: BitSource,
    release: Publication,
    metadata: Metadata,
    progress: Callable[[str], None],
) -> dict[str, Written]:
    """Write all tables of a family into a release's private folder, and return them by name.

    Without a step each is written while it is noised. With one, so are the measurements; the step
    reads them from the files that will be published, as who verifies the release does. Files say of
    their columns what `metadata` does.

    Raises
    ------
    DataError
        As `Answering.run`.
    """
    notes = {table.name: field_notes(table) for table in metadata.tables}
    written = {}
    for table in family.tables:
        name = table.query.name
        progress(name)
        folder = release.folder  # only its maker gets it: a forked child comes no further
        columns = plan.of_query(name)
        if family.step is None:
            with streaming(engines[name], columns, bits) as tables:
                noticed = noted_tables(tables, notes[name])
                written[name] = _written(folder, name, _marked(noticed, release.notes))
            continue
        measured = partial(MeasuredTables, coded=True)
        with streaming(engines[name], columns, bits, shown=measured) as tables:
            named = noted_tables(tables, notes[table.measured])
            marked = _marked(named, release.notes)
            written[table.measured] = _written(folder, table.measured, marked)
    if family.step is not None:
        noised = [published_table(table, release.folder) for table in family.tables]
        tables = step_tables(family.outputs, family.step.values(noised))
        noticed = ((name, noted(table, notes[name])) for name, table in tables)
        with ahead(noticed, "dprelease-step") as made:
            written |= _written_at_once(release.folder, made, release.notes)
    return written


def _marked(tables: Iterator[pa.Table], notes: Mapping[str, str]) -> Iterator[pa.Table]:
    """Yield tables that say something of themselves beside their rows."""
    for table in tables:
        yield table.replace_schema_metadata(_beside(table, notes)) if notes else table


def _beside(table: pa.Table, notes: Mapping[str, str]) -> dict[bytes, bytes]:
    more = {name.encode(): text.encode() for name, text in notes.items()}
    return {**(table.schema.metadata or {}), **more}


def _written_at_once(
    folder: Path, tables: Iterator[tuple[str, pa.Table]], notes: Mapping[str, str]
) -> dict[str, Written]:
    """Write tables into the files of their names, all open at once; return what they are."""
    writers: dict[str, formats.Writer] = {}
    rows: dict[str, int] = {}
    with ExitStack() as files:
        for name, table in tables:
            if name not in writers:
                path = _path(folder, name)
                schema = (
                    table.schema.with_metadata(_beside(table, notes)) if notes else table.schema
                )
                writers[name] = files.enter_context(formats.PUBLISHED.writer(path, schema))
            writers[name].write(table)
            rows[name] = rows.get(name, 0) + len(table)
    return {name: Written(sha256_of(_path(folder, name)), number) for name, number in rows.items()}


def _written(folder: Path, name: str, tables: Iterator[pa.Table]) -> Written:
    """Write one table; return its digest and its number of rows."""
    path = _path(folder, name)
    rows = write_table(tables, path)
    return Written(sha256_of(path), rows)


def _path(folder: Path, name: str) -> Path:
    """Return the path of a table's file, whose folder is made."""
    path = folder / file_of(name)
    path.parent.mkdir(exist_ok=True, parents=True)
    return path
