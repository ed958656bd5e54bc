"""Replace the declared sources of a release by stand-ins for a rehearsal.

`StandIns` has a declaration whose tables have no declared source: each table has a synthetic frame
or a public file instead. All engines in this package are opened by `StandIns`, so that no argument
can lead to a declared source.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from pydantic import ValidationError

from dprelease.documents.encoding import sha256_of
from dprelease.documents.rehearsal_manifest import StandInRecord
from dprelease.errors import DataError, DeclarationError
from dprelease.exact.engine_api import QueryEngine, RecordEngine
from dprelease.exact.engines import open_duckdb, open_engines
from dprelease.numerics.entropy import BitSource
from dprelease.query.local_records import Records
from dprelease.query.resolve import Query
from dprelease.rehearsal.column_values import Draws
from dprelease.rehearsal.people import (
    generate_people,
    generate_public_table,
    join_key_values,
    key_columns_of,
    literals_in,
    table_request,
)
from dprelease.release.path_conflicts import is_source_of
from dprelease.schema.load import Declaration, Declared
from dprelease.schema.release_parts.engines_and_formats import DuckDBSpec
from dprelease.schema.release_parts.extension_names import DEFAULT_ENGINE
from dprelease.schema.source_types.source import Source

if TYPE_CHECKING:
    import pyarrow as pa


TEXT_FORMAT_KEYS = (
    "delimiter", "quote", "escape", "nulls", "encoding", "decimal", "thousands", "date_format",
    "timestamp_format", "pivot", "time_zone",
)  # fmt: skip
"""The keys of a source that describe the format of its texts, which stand-in files share."""


@dataclass(frozen=True)
class StandIns:
    """The tables that replace the declared sources of a release in a rehearsal.

    `declaration` is the declaration of the release, without any declared source. `public` has the
    public files that replace tables, and `rows` the requested numbers of synthetic rows, both by
    the name of the table. `invented` has the synthetic tables by name; it is empty before `invent`.
    """

    declaration: Declaration
    public: Mapping[str, Path]
    rows: Mapping[str, int]
    invented: Mapping[str, pa.Table]

    @classmethod
    def of(
        cls, declaration: Declaration, on: Mapping[str, Path], rows: Mapping[str, int]
    ) -> StandIns:
        """Return the stand-ins of a release, without synthetic tables.

        Stand-ins are read by the default engine with default settings, because declared folders and
        clusters may belong to another machine; the answers are the same. A rehearsal is not signed.

        Raises DeclarationError: DP-REHEARSE-003 for a file that can't be a stand-in.
        """
        for name, path in on.items():
            _check_stand_in(declaration, name, path)
        changed = {"engine": DEFAULT_ENGINE, "duckdb": DuckDBSpec()}
        spec = declaration.spec.model_copy(update=changed)
        # Without the key, because a signed rehearsal could be mistaken for a release.
        without_sources = replace(replace_sources(declaration, on), spec=spec, key=None)
        return cls(without_sources, dict(on), dict(rows), {})

    @property
    def without_ledger(self) -> Declaration:
        """Return the declaration without its ledger.

        A rehearsal needs the declaration with its ledger only for the choice of noise.
        """
        spec = self.declaration.spec.model_copy(update={"ledger": None})
        return replace(self.declaration, spec=spec)

    def invent(self, queries: Sequence[Query], bits: BitSource) -> StandIns:
        """Return the stand-ins with a synthetic table for each table that no file replaces."""
        draws, literals = Draws(bits), literals_in(self.declaration)
        invented: dict[str, pa.Table] = {}
        tables = {n: d.table for n, d in self.declaration.tables.items() if n not in self.public}
        for name, table in tables.items():
            if not table.public:
                request = table_request(table, self.rows.get(name), key_columns_of(queries, name))
                invented[name] = generate_people(table, request, draws, literals)
        for name, table in tables.items():
            if table.public:
                keys = join_key_values(queries, invented, name)
                invented[name] = generate_public_table(table, keys, draws, literals)
        return replace(self, invented=invented)

    @contextmanager
    def engines(self, queries: Sequence[Query]) -> Iterator[dict[str, QueryEngine]]:
        """Yield the engine of each query, which reads the stand-ins of the query's tables.

        Raises TypeError if a query belongs to another declaration, which may have declared sources.
        """
        for query in queries:
            joined = [] if query.join is None else [query.join.declared]
            self._refuse_sources([query.declared, *joined])
        with ExitStack() as stack:
            with self._name_files_without_columns():
                opened = open_engines(queries, self.invented, self.declaration.spec)
                engines = stack.enter_context(opened)
            yield engines

    @contextmanager
    def recorders(self, parts: Sequence[Records]) -> Iterator[dict[str, RecordEngine]]:
        """Yield the engine of each table of records, which reads the table's stand-in.

        Raises TypeError if records belong to another declaration, which may have declared sources.
        """
        declared = {part.declared.table.name: part.declared for part in parts}
        self._refuse_sources([part.declared for part in parts])
        with ExitStack() as stack:
            opened = {
                name: stack.enter_context(open_duckdb(one, self.invented.get(name)))
                for name, one in declared.items()
            }
            with self._name_files_without_columns():
                for part in parts:
                    opened[part.declared.table.name].compile_records(part)
            yield opened

    @contextmanager
    def _name_files_without_columns(self) -> Iterator[None]:
        """Raise DP-REHEARSE-003 in place of DP-DATA-002 for a public file that lacks a column."""
        found: DataError | None = None
        try:
            yield
        except DataError as error:
            if error.code != "DP-DATA-002" or error.table not in self.public:
                raise
            found = error
        if found is not None:
            file, problem = self.public[found.table or ""], f"it has no column '{found.column}'"
            raise DeclarationError(
                "DP-REHEARSE-003", file=file.name, table=found.table, problem=problem
            )

    def _refuse_sources(self, tables: Sequence[Declared]) -> None:
        """Raise TypeError for a table whose source is not its stand-in."""
        for declared in tables:
            stand_in = self.declaration.tables[declared.table.name].table.source
            # Identity and not equality: a declared source with the same fields is still a declared
            # source.
            if declared.table.source is not stand_in:
                raise TypeError("a rehearsal asks stand-ins alone")

    def of_party(self, rows: Mapping[str, pa.Table], files: Mapping[str, Path]) -> StandIns:
        """Return the stand-ins of one party.

        `rows` has its part of each synthetic table, and `files` its part of each public file. These
        files have the format of the public stand-in files, but are not compressed.
        """
        tables = dict(self.declaration.tables)
        for name, path in files.items():
            source = tables[name].table.source
            if source is None or name not in self.public:
                raise TypeError("a party has rows of what stands in alone")
            changes = {"path": str(path.absolute()), "compression": "none"}
            changes |= {"delimiter": source.separator} if source.kind == "csv" else {}
            own = source.model_copy(update=changes)
            table = tables[name].table.model_copy(update={"source": own})
            tables[name] = replace(tables[name], table=table)
        return replace(
            self,
            declaration=replace(self.declaration, tables=tables),
            invented={**self.invented, **rows},
        )

    def manifest_records(self) -> Iterator[StandInRecord]:
        """Yield the manifest's record of the stand-in of each table."""
        for name in self.declaration.tables:
            if name in self.public:
                file, digest = self.public[name].name, sha256_of(self.public[name])
                yield StandInRecord(table=name, by="public", file=file, sha256=digest)
            else:
                yield StandInRecord(table=name, by="invention", rows=len(self.invented[name]))


def replace_sources(declaration: Declaration, on: Mapping[str, Path]) -> Declaration:
    """Return the declaration of a rehearsal: with public files as sources, and no other source.

    The stand-ins have the ids of persons, so that none is looked up. Raises DeclarationError:
    DP-REHEARSE-003 for a file that has an unknown format.
    """
    tables = {
        name: replace(declared, table=declared.table.with_source(source))
        for name, declared in declaration.tables.items()
        for source in [_stand_in_source(declared, on[name]) if name in on else None]
    }
    return replace(declaration, tables=tables)


def _check_stand_in(declaration: Declaration, name: str, path: Path) -> None:
    """Raise DP-REHEARSE-003 for a file that does not exist, or is a source of any table.

    A declared source is refused because a rehearsal publishes the true values of its stand-ins.
    """
    problem = "" if path.is_file() else "the file does not exist"
    if not problem:
        # Any table's source, not only this one's: the file would be published in any case.
        owners = (owner for owner in declaration.tables.values() if is_source_of(owner, path))
        table = declaration.tables[name]
        problem = next((_declared_source_problem(owner, table) for owner in owners), "")
    if problem:
        raise DeclarationError("DP-REHEARSE-003", file=path.name, table=name, problem=problem)


def _stand_in_source(declared: Declared, path: Path) -> Source:
    """Return the source that describes a public file which replaces a table."""
    own, problem = declared.table.source, ""
    source: Source | None = None
    written = {"path": str(path.absolute())}
    try:
        source = Source.model_validate(written)
        declared_fields = (
            own.model_fields_set if own is not None and own.kind == source.kind else ()
        )
        shared_format = {
            key: getattr(own, key) for key in TEXT_FORMAT_KEYS if key in declared_fields
        }
        source = Source.model_validate({**written, **shared_format})
    except ValidationError:
        problem = "its extension is not that of a Parquet, CSV or JSON lines file"
    if source is None or problem or source.type.has_tables:
        problem, name = problem or "it must be a file of one table", declared.table.name
        raise DeclarationError("DP-REHEARSE-003", file=path.name, table=name, problem=problem)
    return source


def _declared_source_problem(owner: Declared, declaration: Declared) -> str:
    """Return the text of an error for a file that is a declared source of the table `owner`."""
    other = "" if owner is declaration else f" of the table '{owner.table.name}'"
    return f"it is the declared source itself{other}"
