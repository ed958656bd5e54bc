"""Build the metadata of published tables from a declaration: labels, roles, lists of codes.

All of it follows from the declaration, so that a verifier can compute it again.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from dprelease.documents.column_metadata import ColumnMetadataBuilder
from dprelease.documents.limit_labels import companion_word
from dprelease.documents.metadata import About, ColumnMetadata, Metadata, Role, TableMetadata
from dprelease.errors.printable import one_line
from dprelease.postprocess.families import Family, FamilyTable, Output
from dprelease.query.resolve import Query
from dprelease.schema.languages import languages_of
from dprelease.schema.load import Declaration
from dprelease.schema.localized_text import Documented
from dprelease.schema.release import QuerySpec, ReleaseSpec
from dprelease.schema.release_parts.about import AboutSpec
from dprelease.tables import formats
from dprelease.tables.family_tables import schema_of_measured
from dprelease.tables.summed_messages import margin_names

if TYPE_CHECKING:
    from dprelease.query.local_records import Records

Rows = Mapping[str, int]
"""Numbers of rows of published tables, by name."""


def metadata_of(
    declaration: Declaration,
    queries: Sequence[Query],
    families: Sequence[Family] = (),
    rows: Rows | None = None,
) -> Metadata:
    """Return the metadata of a release of aggregates, its tables in the order of the manifest.

    `families`: the families of the queries. A query that is in no family with a step is published
    directly. `rows`: the numbers of rows that are known only after the tables are written.
    """
    metadata = ReleaseMetadata(declaration.spec)
    known = rows or {}
    in_family = {t.query.name: family for family in families if family.step for t in family.tables}
    tables: list[TableMetadata] = []
    done: set[str] = set()
    for query in queries:
        family = in_family.get(query.name)
        if family is None:
            tables.append(metadata.published_table(query, known.get(query.name)))
        elif family.name not in done:
            done.add(family.name)
            tables += [metadata.measured_table(table) for table in family.tables]
            tables += [metadata.output(family, one, known.get(one.name)) for one in family.outputs]
    return metadata.with_tables(tables)


def metadata_of_records(
    declaration: Declaration, parts: Sequence[Records], rows: Rows | None = None
) -> Metadata:
    """Return the metadata of a release of single records, whose columns are values, not keys."""
    metadata = ReleaseMetadata(declaration.spec)
    known = rows or {}
    return metadata.with_tables([metadata.records(part, known.get(part.name)) for part in parts])


def metadata_of_messages(declaration: Declaration, queries: Sequence[Query]) -> Metadata:
    """Return the metadata of one party's messages, none of which are for readers."""
    metadata = ReleaseMetadata(declaration.spec)
    return metadata.with_tables([metadata.messages(query) for query in queries])


def metadata_of_sums(declaration: Declaration, queries: Sequence[Query]) -> Metadata:
    """Return the metadata of the sums of all parties' messages."""
    release = ReleaseMetadata(declaration.spec)
    return release.with_tables([release.sums(query) for query in queries])


@dataclass(frozen=True)
class ReleaseMetadata:
    """Builds the metadata of the tables of one release, before the tables are drawn."""

    spec: ReleaseSpec
    builder: ColumnMetadataBuilder = field(init=False)
    query_of_table: Mapping[str, str] = field(init=False)

    def __post_init__(self) -> None:
        # A frozen data class can set its computed fields only in this way.
        object.__setattr__(self, "builder", ColumnMetadataBuilder(languages_of(self.spec)))
        object.__setattr__(self, "query_of_table", self.spec.query_of_table)

    def with_tables(self, tables: Sequence[TableMetadata]) -> Metadata:
        """Return the metadata of the release with these tables."""
        return Metadata(self.about, self.builder.languages, tuple(tables))

    def published_table(self, query: Query, rows: int | None = None) -> TableMetadata:
        """Return the metadata of a table that is published without post-processing."""
        declared = self.query_of_table[query.name]
        values = self.builder.columns_of_table(query, self.spec.queries[declared])
        columns = [*self._key_columns(query), *values]
        size = rows if query.private is not None else query.keys.size
        return self._table_metadata(query.name, declared, columns, size, counts=query)

    def measured_table(self, table: FamilyTable) -> TableMetadata:
        """Return the metadata of the noised integers of a family's table."""
        names = [name for name, _ in schema_of_measured(table)[len(table.query.key_columns) :]]
        return self._integer_table(table.measurements_name, table.query, names)

    def messages(self, query: Query) -> TableMetadata:
        """Return the metadata of a party's messages, which are summands and not for readers."""
        names = [measurement.name for measurement in query.measurements]
        return self._integer_table(query.name, query, names)

    def sums(self, query: Query) -> TableMetadata:
        """Return the metadata of the sums of all parties' messages, and of their margins."""
        declared = self.query_of_table[query.name]
        values = self.builder.sum_columns(query, self.spec.queries[declared], margin_names(query))
        return self._table_metadata(
            query.name, declared, [*self._key_columns(query), *values], query.keys.size
        )

    def output(self, family: Family, output: Output, rows: int | None = None) -> TableMetadata:
        """Return the metadata of a table that a step publishes.

        Tables without value columns, such as synthetic persons, have no cells: their columns have
        the role of values instead of keys.
        """
        tables = {table.query.name: table.query for table in family.tables}
        name = output.summed or output.name.rpartition("/")[2]
        query = tables.get(name, family.tables[0].query)
        declared = self.query_of_table[query.name]
        spec = self.spec.queries[declared]
        role = Role.KEY if output.columns else Role.VALUE
        keys = self.builder.key_columns(output.keys.keys, query, role)
        columns = [*keys, *self.builder.step_columns(output, query, spec)]
        return self._table_metadata(output.name, declared, columns, rows, counts=query)

    def records(self, part: Records, rows: int | None = None) -> TableMetadata:
        """Return the metadata of single records."""
        from dprelease.tables.record_table import (
            schema_of_records,
        )  # only releases of single records need it

        spec = self.spec.records[part.name]
        declared = part.declared.table.columns
        columns = [
            self.builder.record_column(column, kind, spec.columns[name], declared)
            for column, (name, kind) in zip(part.columns, schema_of_records(part), strict=True)
        ]
        return self._table_metadata(part.name, part.name, columns, rows)

    def _key_columns(self, query: Query) -> list[ColumnMetadata]:
        return list(self.builder.key_columns(query.key_columns, query, Role.KEY))

    def _integer_table(self, name: str, query: Query, measured: Sequence[str]) -> TableMetadata:
        """Return the metadata of integers that are published for verification, in steps."""
        columns = self._key_columns(query)
        columns += [ColumnMetadata(one, "int64", Role.MEASUREMENT, one) for one in measured]
        declared, rows = self.query_of_table[query.name], query.keys.size
        return self._table_metadata(name, declared, columns, rows, measured=True)

    def _table_metadata(
        self,
        name: str,
        declared: str,
        columns: Sequence[ColumnMetadata],
        rows: int | None,
        *,
        measured: bool = False,
        counts: Query | None = None,
    ) -> TableMetadata:
        """Return the metadata of a table, with the texts of its query or with its own texts.

        `counts`: the query whose rows a table for readers counts.
        """
        spec: Documented = self.spec.records.get(declared) or self.spec.queries[declared]
        several = spec.documented_tables if isinstance(spec, QuerySpec) else {}
        own = several.get(name.rpartition("/")[2], Documented())
        builder = self.builder
        return TableMetadata(
            name,
            formats.table_file_name(name),
            declared,
            tuple(columns),
            rows,
            measured,
            label_with_kind(builder.texts(own.label) or self._label_with_keys(spec, columns), name),
            builder.texts(own.description) or builder.texts(spec.description),
            builder.several_texts(spec.footnotes + own.footnotes)
            + (() if counts is None else builder.notes_on_rows(counts)),
        )

    def _label_with_keys(
        self, spec: Documented, columns: Sequence[ColumnMetadata]
    ) -> dict[str, str]:
        """Return the label of a query, followed by the table's keys if it has several tables."""
        label = self.builder.texts(spec.label)
        if not isinstance(spec, QuerySpec) or not spec.has_several_tables:
            return label
        keys = [column for column in columns if column.role is Role.KEY]
        return {
            tag: f"{text}: {', '.join(key.title(tag) for key in keys)}" if keys else text
            for tag, text in label.items()
        }

    @property
    def about(self) -> About:
        """Return the declared facts about the release as a whole."""
        about, texts = self.spec.about or AboutSpec(), self.builder.texts
        return About(
            title=one_line(self.spec.title),
            publisher=about.publisher or "",
            contact=about.contact or "",
            licence=about.licence or "",
            period=about.period or "",
            area=about.area or "",
            version=about.version or "",
            replaces=about.replaces or "",
            methodology=about.methodology or "",
            description=texts(about.description),
            notes=self.builder.several_texts(about.notes),
            titles=texts(about.title),
        )


def label_with_kind(label: Mapping[str, str], name: str) -> dict[str, str]:
    """Return a label, followed by the kind of the table among those of one family.

    The kinds are estimates, measurements and records; integer tables have no addition.
    """
    folder = name.rpartition("/")[0]
    if folder in ("", "tables"):
        return dict(label)
    return {tag: f"{text} ({companion_word(folder, tag)})" for tag, text in label.items()}
