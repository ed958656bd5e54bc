"""From a declaration to what is said of its published tables: labels, roles, lists of codes.

All of it follows from the declaration, so that who verifies a release makes it again.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from dprelease.documents.column_metadata import Teller
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
    """Return what is said of a release of aggregates, its tables as the manifest orders them.

    `families`: those of the queries; tables of queries that are in none with a step are published
    for themselves. `rows`: numbers of rows that are known once they are written.
    """
    told = ReleaseMetadata(declaration.spec)
    known = rows or {}
    in_family = {t.query.name: family for family in families if family.step for t in family.tables}
    tables: list[TableMetadata] = []
    done: set[str] = set()
    for query in queries:
        family = in_family.get(query.name)
        if family is None:
            tables.append(told.published_table(query, known.get(query.name)))
        elif family.name not in done:
            done.add(family.name)
            tables += [told.measured_table(table) for table in family.tables]
            tables += [told.output(family, one, known.get(one.name)) for one in family.outputs]
    return told.together(tables)


def metadata_of_records(
    declaration: Declaration, parts: Sequence[Records], rows: Rows | None = None
) -> Metadata:
    """Return what is said of a release of single records: columns of values, and no keys."""
    told = ReleaseMetadata(declaration.spec)
    known = rows or {}
    return told.together([told.records(part, known.get(part.name)) for part in parts])


def metadata_of_messages(declaration: Declaration, queries: Sequence[Query]) -> Metadata:
    """Return what is said of one party's messages, none of which is published to be read."""
    told = ReleaseMetadata(declaration.spec)
    return told.together([told.messages(query) for query in queries])


def metadata_of_sums(declaration: Declaration, queries: Sequence[Query]) -> Metadata:
    """Return what is said of the sums of all parties' messages."""
    told = ReleaseMetadata(declaration.spec)
    return told.together([told.sums(query) for query in queries])


@dataclass(frozen=True)
class ReleaseMetadata:
    """What is said of the tables of one release, each as it is known before it is drawn."""

    spec: ReleaseSpec
    teller: Teller = field(init=False)
    asked_by: Mapping[str, str] = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "teller", Teller(languages_of(self.spec)))
        object.__setattr__(self, "asked_by", self.spec.query_of_table)

    def together(self, tables: Sequence[TableMetadata]) -> Metadata:
        """Return what is said of the release, with these tables."""
        return Metadata(self.about, self.teller.languages, tuple(tables))

    def published_table(self, query: Query, rows: int | None = None) -> TableMetadata:
        """Return what is said of a table that is published as it was noised."""
        declared = self.asked_by[query.name]
        asked = self.teller.columns_of_table(query, self.spec.queries[declared])
        columns = [*self._keys(query), *asked]
        size = rows if query.private is not None else query.keys.size
        return self._table(query.name, declared, columns, size)

    def measured_table(self, table: FamilyTable) -> TableMetadata:
        """Return what is said of the noised integers of a family's table."""
        names = [name for name, _ in schema_of_measured(table)[len(table.query.key_columns) :]]
        return self._integers(table.measurements_name, table.query, names)

    def messages(self, query: Query) -> TableMetadata:
        """Return what is said of a party's messages, which are sums' parts and nothing to read."""
        names = [measurement.name for measurement in query.measurements]
        return self._integers(query.name, query, names)

    def sums(self, query: Query) -> TableMetadata:
        """Return what is said of the sums of all parties' messages, and of their margins."""
        declared = self.asked_by[query.name]
        asked = self.teller.sums(query, self.spec.queries[declared], margin_names(query))
        return self._table(query.name, declared, [*self._keys(query), *asked], query.keys.size)

    def output(self, family: Family, output: Output, rows: int | None = None) -> TableMetadata:
        """Return what is said of a table that a step publishes.

        Rows without any value beside their keys, such as invented persons, are no cells: their
        columns are values.
        """
        tables = {table.query.name: table.query for table in family.tables}
        query = tables.get(output.name.rpartition("/")[2], family.tables[0].query)
        declared = self.asked_by[query.name]
        asked = self.spec.queries[declared]
        role = Role.KEY if output.columns else Role.VALUE
        keys = self.teller.keys(output.keys.keys, query, role)
        columns = [*keys, *self.teller.of_step(output, query, asked)]
        return self._table(output.name, declared, columns, rows)

    def records(self, part: Records, rows: int | None = None) -> TableMetadata:
        """Return what is said of records that are published one by one."""
        from dprelease.tables.record_table import schema_of_records  # of single records alone

        asked = self.spec.records[part.name]
        declared = part.declared.table.columns
        columns = [
            self.teller.record(column, kind, asked.columns[name], declared)
            for column, (name, kind) in zip(part.columns, schema_of_records(part), strict=True)
        ]
        return self._table(part.name, part.name, columns, rows)

    def _keys(self, query: Query) -> list[ColumnMetadata]:
        return list(self.teller.keys(query.key_columns, query, Role.KEY))

    def _integers(self, name: str, query: Query, measured: Sequence[str]) -> TableMetadata:
        """Return what is said of integers that are published for who checks: lattice steps."""
        columns = self._keys(query)
        columns += [ColumnMetadata(one, "int64", Role.MEASUREMENT, one) for one in measured]
        declared, rows = self.asked_by[query.name], query.keys.size
        return self._table(name, declared, columns, rows, measured=True)

    def _table(
        self,
        name: str,
        declared: str,
        columns: Sequence[ColumnMetadata],
        rows: int | None,
        *,
        measured: bool = False,
    ) -> TableMetadata:
        """Return a table with what its query, or itself if that stands for several, is called."""
        asked: Documented = self.spec.records.get(declared) or self.spec.queries[declared]
        several = asked.told if isinstance(asked, QuerySpec) else {}
        own = several.get(name.rpartition("/")[2], Documented())
        teller = self.teller
        return TableMetadata(
            name,
            formats.file_of(name),
            declared,
            tuple(columns),
            rows,
            measured,
            _by_step(teller.texts(own.label) or self._with_keys(asked, columns), name),
            teller.texts(own.description) or teller.texts(asked.description),
            teller.several(asked.footnotes + own.footnotes),
        )

    def _with_keys(self, asked: Documented, columns: Sequence[ColumnMetadata]) -> dict[str, str]:
        """Return the label of a query; of one that stands for several tables, with the keys."""
        label = self.teller.texts(asked.label)
        if not isinstance(asked, QuerySpec) or not asked.is_several:
            return label
        keys = [column for column in columns if column.role is Role.KEY]
        return {
            tag: f"{text}: {', '.join(key.title(tag) for key in keys)}" if keys else text
            for tag, text in label.items()
        }

    @property
    def about(self) -> About:
        """Return what is said of the release as a whole."""
        told, texts = self.spec.about or AboutSpec(), self.teller.texts
        return About(
            title=one_line(self.spec.title),
            publisher=told.publisher or "",
            contact=told.contact or "",
            licence=told.licence or "",
            period=told.period or "",
            area=told.area or "",
            version=told.version or "",
            replaces=told.replaces or "",
            methodology=told.methodology or "",
            description=texts(told.description),
            notes=self.teller.several(told.notes),
            titles=texts(told.title),
        )


def _by_step(label: Mapping[str, str], name: str) -> dict[str, str]:
    """Return a label with what its table is of those that a step makes of the same keys.

    These are whole tables, which go without, estimates, measurements and records.
    """
    folder = name.rpartition("/")[0]
    more = f" ({folder})" if folder not in ("", "tables") else ""
    return {tag: text + more for tag, text in label.items()}
