"""Find the inputs of an engine: the declared table, and the table that queries join to it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

import duckdb

from dprelease.errors import DataError
from dprelease.exact.connection import MOST_CACHED_FILES, WITHOUT_METADATA_CACHE
from dprelease.exact.reading.frames import object_columns, to_arrow
from dprelease.exact.reading.sources import (
    BatchSource,
    OpenedSource,
    file_identity,
    file_label,
    file_stamp,
    locate_errors,
    source_fields,
    unreadable_error,
)
from dprelease.exact.reading.streams import frame_batches
from dprelease.exact.sources.source_reader import Opening, reader_of
from dprelease.query.unread import spark_only_error
from dprelease.schema.load import Declared
from dprelease.schema.source_types.registry import source_type
from dprelease.schema.source_types.source import Source
from dprelease.schema.source_types.source_type import SourceType
from dprelease.schema.source_types.without_format import FILES
from dprelease.statements.layers import JOINED, SOURCE
from dprelease.statements.values.source_equality import (
    RELATION,
)
from dprelease.system.deferred_signals import reraise_handler_errors

if TYPE_CHECKING:
    from dprelease.exact.postgres.server_link import Servers

Found = TypeVar("Found")

DATABASES = ("dp_database", "dp_database_2", "dp_database_3", "dp_database_4")
"""The names of attached databases: of both tables, and of their correspondence tables."""


@dataclass
class Input:
    """One table of an engine: files, batches or an Arrow table, with the name of its relation."""

    declared: Declared
    relation: str
    opened: OpenedSource | None = None
    arrow: object | None = None
    rows: dict[str, BatchSource] = field(default_factory=dict)
    """Rows that arrive as Arrow batches, by the name of the table that they will fill. They are
    removed when they are fetched."""
    physical: dict[str, str] = field(default_factory=dict)
    """The engine's types of the stored columns; empty until they are known."""
    collations: Mapping[str, str] = field(default_factory=dict)
    """Columns that the source does not compare character by character, with its comparison."""
    millisecond_columns: dict[str, str] = field(default_factory=dict)
    """Columns of timestamps in Parquet files that the engine can't read unchanged, with types."""
    object_columns: dict[str, str] = field(default_factory=dict)
    """Columns of Python objects, with the type for which a query that reads them is refused."""
    copies: dict[Path, Path] = field(default_factory=dict)
    """The plain copy of each text file, which the engine reads in place of the file."""
    pending_copies: set[Path] = field(default_factory=set)
    """Text files whose copies are empty until rows are read."""
    types_differ: bool = False
    """Whether files store the same column with different types; each file is then read by its own
    types."""
    parts: list[Input] = field(default_factory=list)
    """The inputs from which the relation is made: files, or with `has_lookup` two tables."""
    has_lookup: bool = False
    """Whether the parts are the rows and the correspondence table that names their persons."""

    @property
    def nested(self) -> Iterator[Input]:
        """Yield the parts of this input, and the parts of each."""
        for part in self.parts:
            yield part
            yield from part.nested

    @property
    def leaves(self) -> Sequence[Input]:
        """Return the inputs that are read: those without parts."""
        return [given for given in (self, *self.nested) if not given.parts]

    @property
    def files(self) -> tuple[Path, ...]:
        """Return the files that the engine may read for this table."""
        if self.parts:
            return tuple(file for part in self.parts for file in part.files)
        return self.opened.files if self.opened else ()

    @property
    def has_changed(self) -> bool:
        """Return whether a file has changed since it was opened, before any byte was read."""
        if self.parts:
            return any(part.has_changed for part in self.parts)
        return self.opened is not None and self.opened.stamps != tuple(map(file_stamp, self.files))

    @property
    def readable_files(self) -> tuple[Path, ...]:
        """Return the files that the engine itself reads: plain copies where there are some."""
        if self.opened is not None and not self.opened.relation:
            return ()
        return tuple(self.copies.get(file, file) for file in self.files)

    @property
    def accessible_paths(self) -> tuple[Path, ...]:
        """Return the paths that the engine may open: files that it reads, and targets of links."""
        if self.parts:
            return tuple(path for part in self.parts for path in part.accessible_paths)
        # A copy may be a symbolic link (`TextDecoding.write`), and the engine checks the path to
        # which it leads.
        links = [file for file in self.files if file in self.copies]
        return (*self.readable_files, *links)

    @property
    def kind(self) -> str:
        """Return the declared source type in words, for messages."""
        return source_type_label(self.declared)

    @property
    def source_type(self) -> SourceType:
        """Return the source type that is read: the declared type, unless a frame is read."""
        source = self.declared.table.source
        if self.has_lookup:
            return self.parts[0].source_type
        if source is not None and self.parts:
            return source_type(FILES)
        if self.opened is None or source is None:
            return source_type("frame" if self.arrow is not None else RELATION)
        return source.type

    def describe(self, link: duckdb.DuckDBPyConnection) -> None:
        """Register the frame, and create empty tables for rows that arrive in batches.

        After this the columns are known, and no row about people has been read: only the tables of
        public sources are filled now.
        """
        if self.arrow is not None:
            link.register(self.relation, self.arrow)
        for name, rows in self.rows.items():
            link.register("dp_rows", rows.schema.empty_table())
            # The table is created from no rows: statements can be compiled against its types before
            # the charge.
            link.execute(f"CREATE TABLE {name} AS SELECT * FROM dp_rows")
            link.unregister("dp_rows")
        if self.declared.table.public:
            self.fetch(link)

    def place_copies(self, folder: Path) -> str:
        """Return the relation to read; create empty copies of files that the engine can't read.

        `folder`: the private folder of the copies, which `fetch` fills.
        """
        if self.opened is None:
            return self.relation
        if self.opened.reader is None:
            return self.opened.relation
        for i, file in enumerate(self.files):
            self.copies[file] = folder / f"{self.relation}_{i}"
            # The engine looks for files when it defines a view. The rows arrive later, because
            # nothing about people may be read before the budget is charged.
            self.copies[file].touch()
        self.pending_copies = set(self.copies)
        return self.opened.reader.relation(self.readable_files)

    def fetch(self, link: duckdb.DuckDBPyConnection) -> None:
        """Copy batches into their tables, and text files into their plain copies, each once.

        Raises OSError if a file does not have the declared format, or there is no space.
        """
        for part in self.parts:
            part.fetch(link)
        while self.rows:
            # Removed before it is read: some sources can be read only once, so a second attempt
            # would silently find fewer rows.
            name, rows = self.rows.popitem()
            link.register("dp_rows", rows.reader())
            link.execute(f"INSERT INTO {name} SELECT * FROM dp_rows")
            link.unregister("dp_rows")
        while self.pending_copies and self.opened is not None and self.opened.reader is not None:
            file = self.pending_copies.pop()
            self.opened.reader.packing.write(file, self.copies[file])


def source_type_label(declared: Declared) -> str:
    """Return the declared source type of a table in words, for messages."""
    source = declared.table.source
    return source_type("frame").label if source is None else source.type.label


RELATION_NAMES = (SOURCE, JOINED)
"""The names of an engine's relations: of the declared table, and of the joined table."""


def find_inputs(tables: Sequence[tuple[Declared, object | None]], servers: Servers) -> list[Input]:
    """Return the inputs of an engine for pairs of a table and a frame.

    The frame of a pair is read instead of the table's source; it is None if the source is read.

    Raises DataError: an error of `find_input`, to which the place in the declaration is added.
    """
    inputs: list[Input] = []
    for name, (declared, frame) in zip(RELATION_NAMES, tables, strict=False):
        with locate_errors([Input(declared, name)], is_read=frame is None):
            inputs.append(find_input(declared, name, frame, inputs, servers))
    return inputs


def cache_statements(inputs: Sequence[Input]) -> Iterator[str]:
    """Yield the statement that turns off the engine's metadata cache for many files."""
    if sum(len(given.files) for given in inputs) > MOST_CACHED_FILES:
        yield WITHOUT_METADATA_CACHE


def find_input(
    declared: Declared,
    relation: str,
    frame: object | None,
    before: Sequence[Input] = (),
    servers: Servers | None = None,
) -> Input:
    """Return the input for a table's source, or for the frame that is read instead of the source.

    `before`: other inputs of the same engine; if several inputs read the same DuckDB file, the file
    is attached only once. `servers`: the connections for tables on servers.

    Raises DataError: DP-DATA-001, 003, 004, 008, 009, 014, 024, 025 or 027 if the source is not as
    declared, DP-SPARK-006 if only Spark could read it.
    """
    lookup = declared.lookup
    if lookup is not None:
        rows_with_ids = find_input(declared.rows, f"{relation}_rows", frame, before, servers)
        with locate_errors([Input(lookup, relation)]):
            known = [*before, rows_with_ids]
            lines = find_input(lookup, f"{relation}_lookup", None, known, servers)
        return Input(declared, relation, parts=[rows_with_ids, lines], has_lookup=True)
    batches = None if frame is None else frame_batches(frame, declared)
    if batches is not None:
        rows: dict[str, BatchSource] = {relation: batches}
        return Input(declared, relation, rows=rows, collations=batches.collations)
    if frame is not None:
        return _frame_input(declared, relation, frame)
    if declared.table.parts:
        return Input(declared, relation, parts=_find_parts(declared, relation, servers))
    source = declared.table.source
    refusal = spark_only_error(declared)
    if refusal is not None:
        raise refusal
    if source is None or source.path is None:
        raise DataError("DP-DATA-008", table=declared.table.name)
    opened = _open_apart(declared, source, before, servers)
    rows = {} if opened.rows is None else {relation: opened.rows}
    return Input(declared, relation, opened, rows=rows, collations=opened.collations)


def _find_parts(declared: Declared, relation: str, servers: Servers | None) -> list[Input]:
    """Return the inputs of a table's files; refuse a file that is read twice."""
    parts: list[Input] = []
    known: dict[tuple[int, ...] | Path, set[str | None]] = {}
    for i, table in enumerate(declared.table.parts):
        part = find_input(replace(declared, table=table), f"{relation}_{i}", None, (), servers)
        sheet = None if table.source is None else table.source.sheet
        for file in part.files:
            sheets = known.setdefault(file_identity(file) or file, set())
            # A workbook that is read without the name of a sheet has only one.
            if sheet in sheets or (sheets and None in {sheet, *sheets}):
                reason = f"two of its `files` are the same, {file_label(file, part.files)}"
                raise unreadable_error(declared, reason, "declare each file once")
            sheets.add(sheet)
        parts.append(part)
    return parts


def latest_version(declared: Declared, source: Source) -> int:
    """Return the latest version of a table of a source type whose tables have versions.

    Raises DataError: DP-DATA-001 or 024 if the source can't be read.
    """
    reader = reader_of(source.type)
    with locate_errors([Input(declared, SOURCE)]):
        return _without_message(declared, source, lambda: reader.latest_version(declared, source))


def _open_apart(
    declared: Declared, source: Source, before: Iterable[Input], servers: Servers | None
) -> OpenedSource:
    """Return an opened source, whose database is attached unless an input before it did so."""
    opened = [leaf.opened for given in before for leaf in given.leaves if leaf.opened is not None]
    attached = [one.attach for one in opened if one.attach]
    for database, known in zip(DATABASES, attached, strict=False):
        found = _open_source(declared, source, Opening(servers, database))
        if not found.attach:
            return found
        if found.attach == known:
            # DuckDB refuses to attach the same file twice.
            return replace(found, attach=())
    return _open_source(declared, source, Opening(servers, DATABASES[len(attached)]))


def _open_source(declared: Declared, source: Source, opening: Opening) -> OpenedSource:
    reader = reader_of(source.type)
    return _without_message(declared, source, lambda: reader.open(declared, source, opening))


def _without_message(declared: Declared, source: Source, work: Callable[[], Found]) -> Found:
    """Return what a reader returns; its own messages are dropped, because they may quote values."""
    with reraise_handler_errors():
        try:
            return work()
        except (OSError, ValueError, LookupError):
            pass
    raise DataError("DP-DATA-001", **source_fields(declared), format=source.type.label)


def _frame_input(declared: Declared, relation: str, frame: object) -> Input:
    """Return the input of a data frame, which is converted to an Arrow table."""
    table = to_arrow(frame, declared)
    return Input(declared, relation, arrow=table, object_columns=object_columns(table))
