"""The tables of one release, family after family: noised, written, told by digest and rows."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

from dprelease.documents.file_records import Written
from dprelease.documents.metadata import Metadata
from dprelease.documents.said_records import field_notes
from dprelease.exact.answering import Answering
from dprelease.numerics.entropy import BitSource
from dprelease.planning.plan import Plan
from dprelease.postprocess.families import Family, FamilyStep, FamilyTable
from dprelease.release.execute import Publication
from dprelease.release.runs.streaming import streaming
from dprelease.release.runs.table_writers import TableWriters, table_writers
from dprelease.release.runs.written_tables import write_pieces
from dprelease.system.ahead import ahead
from dprelease.tables.family_tables import MeasuredTables, Piece, published_table, step_tables
from dprelease.tables.field_notes import Notes, noted_tables, with_field_notes
from dprelease.tables.formats import ROW_GROUP
from dprelease.tables.parted import in_parts
from dprelease.tables.published_tables import Tables


def publish_families(
    families: Sequence[Family],
    plan: Plan,
    engines: Mapping[str, Answering],
    bits: BitSource,
    release: Publication,
    metadata: Metadata,
    progress: Callable[[str], None],
) -> dict[str, Written]:
    """Write all tables into a release's private folder, and return them by name.

    A table of few cells is written while the next one is noised. Files say of their columns what
    `metadata` does.

    Raises
    ------
    DataError
        As `Answering.run`.
    """
    notes = {table.name: field_notes(table) for table in metadata.tables}
    with table_writers(sum(len(family.tables) for family in families)) as writers:
        run = _Run(plan, engines, bits, release, notes, progress, writers)
        for family in families:
            run.publish(family)
        return writers.finish()


@dataclass(frozen=True, slots=True)
class _Run:
    """What the families of a release have in common."""

    plan: Plan
    engines: Mapping[str, Answering]
    bits: BitSource
    release: Publication
    notes: Mapping[str, Notes]
    progress: Callable[[str], None]
    writers: TableWriters

    def publish(self, family: Family) -> None:
        """Write all tables of a family.

        Without a step each is written while it, or the next one, is noised. With one, so are the
        measurements; the step reads them from the files that will be published, as who verifies the
        release does.
        """
        for table in family.tables:
            self.progress(table.query.name)
            self._measure(family, table)
        if family.step is not None:
            self.writers.finish()
            self._take(family, family.step)

    def _measure(self, family: Family, table: FamilyTable) -> None:
        """Write the noised table of one query."""
        name, query = table.query.name, table.query
        folder = self.release.folder  # only its maker gets it: a forked child comes no further
        shown = Tables if family.step is None else partial(MeasuredTables, coded=True)
        named = name if family.step is None else table.measurements_name
        planned = self.plan.of_query(name)
        engine = self.engines[name]
        with streaming(engine, planned, self.bits, shown=shown) as tables:
            noticed = noted_tables(tables, self.notes[named])
            pieces = in_parts(named, noticed, family.parts.get(named))
            is_whole = query.private is not None or query.keys.size <= ROW_GROUP
            if is_whole:  # made here: bits and balls are one thread's
                pieces = iter(list(pieces))
            self._write(folder, pieces, family, at_once=not is_whole)

    def _take(self, family: Family, step: FamilyStep) -> None:
        """Write what a step makes of a family's measurements."""
        engines = list({id(one): one for one in self.engines.values()}.values())
        for engine in engines:
            engine.let_go()  # the step needs the room, and no row
        noised = [published_table(table, self.release.folder) for table in family.tables]
        values = step.values(noised, engines[0].spread)
        made = step_tables(family.outputs, values, family.parts)
        noticed = (
            replace(one, rows=with_field_notes(one.rows, self.notes[one.name])) for one in made
        )
        with ahead(noticed, "dprelease-step") as made_ahead:
            self._write(self.release.folder, made_ahead, family, at_once=True)

    def _write(
        self, folder: Path, pieces: Iterator[Piece], family: Family, *, at_once: bool = False
    ) -> None:
        """Write tables; `at_once`: they are made while they are written."""
        work = partial(write_pieces, folder, pieces, family.parts, self.release.notes)
        self.writers.write(work, at_once=at_once)
