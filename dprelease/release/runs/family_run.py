"""The tables of one release, family after family: noised, written, told by digest and rows."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from functools import partial

from dprelease.documents.file_records import Written
from dprelease.documents.metadata import Metadata
from dprelease.documents.said_records import field_notes
from dprelease.exact.answering import Answering, Holding, Working
from dprelease.numerics.entropy import BitSource
from dprelease.planning.plan import Plan
from dprelease.postprocess.families import Family
from dprelease.release.execute import Publication
from dprelease.release.runs.streaming import streaming
from dprelease.release.runs.written_tables import write_pieces
from dprelease.system.ahead import Spread, ahead, in_threads
from dprelease.tables.family_tables import MeasuredTables, published_table, step_tables
from dprelease.tables.field_notes import noted, noted_tables
from dprelease.tables.parted import in_parts
from dprelease.tables.published_tables import Tables


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
    parts = family.parts
    written: dict[str, Written] = {}
    for table in family.tables:
        name = table.query.name
        progress(name)
        folder = release.folder  # only its maker gets it: a forked child comes no further
        columns = plan.of_query(name)
        shown = Tables if family.step is None else partial(MeasuredTables, coded=True)
        named = name if family.step is None else table.measured
        with streaming(engines[name], columns, bits, shown=shown) as tables:
            noticed = noted_tables(tables, notes[named])
            pieces = in_parts(named, noticed, parts.get(named))
            written |= write_pieces(folder, pieces, parts, release.notes)
    if family.step is not None:
        for engine in {id(one): one for one in engines.values()}.values():
            if isinstance(engine, Holding):
                engine.let_go()  # the step needs the room, and no row
        noised = [published_table(table, release.folder) for table in family.tables]
        values = family.step.values(noised, _who_works(engines.values()))
        made = step_tables(family.outputs, values, parts)
        noticed = (replace(one, rows=noted(one.rows, notes[one.name])) for one in made)
        with ahead(noticed, "dprelease-step") as made_ahead:
            written |= write_pieces(release.folder, made_ahead, parts, release.notes)
    return written


def _who_works(engines: Iterable[Answering]) -> Spread:
    """Return who works on parts of a family: the machines of its engine, or this one."""
    return next((one.spread for one in engines if isinstance(one, Working)), in_threads)
