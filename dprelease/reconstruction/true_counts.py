"""Count the true records of a rehearsal by combination, and by cell of each table.

An engine counts the synthetic people, or the rows of public files, again. These counts are compared
with the true answers in the rehearsal.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from dprelease.documents.encoding import NAME, sha256_of
from dprelease.documents.manifest import RehearsalManifest
from dprelease.documents.rehearsal_manifest import RehearsalRecord, truth_columns
from dprelease.errors import DeclarationError, InternalError, Place, VerificationError, raise_all
from dprelease.numerics.lattice import Integers
from dprelease.planning.kinds import CENTRAL
from dprelease.planning.plan import PlannedColumn
from dprelease.postprocess.families import Family, families_of
from dprelease.query.expressions.used_columns import Formula
from dprelease.query.grouping.group_keys import Key, KeySpace, key_of
from dprelease.query.resolve import Query, resolve
from dprelease.reconstruction.attributes import Attribute, columns_of
from dprelease.reconstruction.counted_tables import CountedTable
from dprelease.reconstruction.record_combinations import Combinations
from dprelease.rehearsal.rehearsal_folder import synthetic_rows_file, truth_file
from dprelease.rehearsal.rehearse import OptionValues, requested_files
from dprelease.rehearsal.stand_ins import StandIns
from dprelease.rehearsal.truth import truths
from dprelease.rehearsal.truth_comparison import published_tables
from dprelease.schema.load import Declaration
from dprelease.tables import formats
from dprelease.tables.published_tables import schema_of
from dprelease.verification.central import recorded_columns
from dprelease.verification.manifest_comparison import read_any_manifest
from dprelease.verification.report import Report, resolve_declaration
from dprelease.verification.verify import verify

# Verify and open a rehearsal for an attack; its rows are about stand-ins only.


@dataclass(frozen=True, slots=True)
class OpenedRehearsal:
    """A verified rehearsal: its folder, declaration, queries, planned noise and stand-ins."""

    folder: Path
    declaration: Declaration
    queries: tuple[Query, ...]
    columns: tuple[PlannedColumn, ...]
    families: tuple[Family, ...]
    stand_ins: StandIns


def open_rehearsal(folder: Path, on: OptionValues = None) -> OpenedRehearsal:
    """Verify a rehearsal and return it; `on` are the public stand-in files that it names.

    Raises VerificationError: DP-VERIFY-001 to 003 for a folder without a manifest; DP-ATTACK-001
    for a release, whose true values must stay unknown; all errors of `verify`. Raises
    DeclarationError: DP-ATTACK-002 for public files that are missing or different; also the errors
    of `requested_files`.
    """
    record = read_any_manifest(folder)
    if not isinstance(record, RehearsalManifest):
        place = Place(NAME, None, "format")
        raise VerificationError("DP-ATTACK-001", place=place, found=record.format)
    raise_all(verify(folder, rehearsal=True).findings)
    report = Report(folder)
    resolved = resolve_declaration(report, record, CENTRAL)
    if resolved is None:
        raise_all(report.findings)
        raise AssertionError("what verifies can be resolved")
    declaration, queries = resolved
    columns = recorded_columns(report, record.measurements, queries)
    if columns is None:
        raise_all(report.findings)
        raise AssertionError("what verifies has its noise")
    families = families_of(columns)
    stand_ins = _opened_stand_ins(
        folder, record.rehearsal, declaration, requested_files(declaration, on)
    )
    return OpenedRehearsal(folder, declaration, queries, columns, families, stand_ins)


def _opened_stand_ins(
    folder: Path, rehearsal: RehearsalRecord, declaration: Declaration, on: Mapping[str, Path]
) -> StandIns:
    """Return the stand-ins: public files with the digests in the manifest, and synthetic people."""
    stand_in_records = {one.table: one for one in rehearsal.stand_ins}
    public = {name: one for name, one in stand_in_records.items() if one.by == "public"}
    for name, one in public.items():
        problem = _stand_in_problem(on.get(name), one.sha256)
        if problem:
            file = f"{one.file}={name}"
            raise DeclarationError("DP-ATTACK-002", table=name, file=file, problem=problem)
    for name in on.keys() - public.keys():
        problem = "its people were invented, and are stored in the rehearsal"
        raise DeclarationError("DP-ATTACK-002", table=name, file=on[name].name, problem=problem)
    stand_ins = StandIns.of(declaration, dict(on), {})
    invented = {
        name: formats.PUBLISHED_FORMAT.read(folder / synthetic_rows_file(name))
        for name in stand_in_records.keys() - public.keys()
    }
    return replace(stand_ins, invented=invented)


def _stand_in_problem(path: Path | None, digest: str | None) -> str:
    """Return why a file is not the public stand-in in the manifest; empty if it is."""
    if path is None:
        return "it is not given"
    try:
        same = sha256_of(path) == digest
    except OSError:
        return "the file does not exist"
    return "" if same else "the SHA-256 of the file is not that in the manifest"


MOST_CELLS = 50_000_000
"""The maximum number of cells of a table by all keys together."""


@dataclass(frozen=True, slots=True)
class TrueCounts:
    """The true counts of a rehearsal.

    `records` has the number of records of each combination, which is 0 for incomplete combinations.
    `cells` has the counts in each cell, by table. `partial` is the number of records that are in no
    cell of some key. These records have no complete combination, so no guess of them can be right,
    but some tables count them.
    """

    records: Integers
    cells: dict[str, Integers]
    partial: int


def true_counts(
    rehearsal: OpenedRehearsal, tables: Sequence[CountedTable], combinations: Combinations
) -> TrueCounts:
    """Return the true counts of a rehearsal, by combination and by cell.

    Raises VerificationError: DP-ATTACK-004 if the counts differ from the true answers in the
    rehearsal. Raises DeclarationError: DP-ATTACK-003 for keys that have too many joint cells.
    """
    queries_by_name = {query.name: query for query in resolve(rehearsal.stand_ins.declaration)}
    queries = [queries_by_name[one.name] for one in tables]
    first = queries[0]
    key_sets = [_keys_of_attribute(attribute, first) for attribute in combinations.attributes]
    keys = KeySpace(tuple(key for keys_of_attribute in key_sets for key in keys_of_attribute))
    joint = _joint_query(first, [one.query for one in tables], keys)
    if joint.keys.size > MOST_CELLS:
        description = " x ".join(f"{key.column} {key.size:,}" for key in joint.keys.keys)
        place = Place(key="queries")
        raise DeclarationError("DP-ATTACK-003", place=place, found=description, limit=MOST_CELLS)
    without_keys = replace(joint, name="all rows", keys=KeySpace(()))
    found = {
        truth.query.name: truth.rows
        for truth in truths(rehearsal.stand_ins, [joint, without_keys, *queries])
    }
    rows = found.pop(joint.name)
    all_rows = int(found.pop(without_keys.name)[0])
    records = _records_by_combination(rows, joint.keys, key_sets, combinations)
    # Every row in a joint cell has a combination, so a difference is an error of this package.
    if records.sum() != rows.sum():
        check = "records have combinations that no declaration admits"
        raise InternalError("DP-INTERNAL-001", check=check)
    for one in tables:
        _refuse_other_truth(rehearsal, one.name, found[one.name])
    return TrueCounts(records, found, all_rows - int(rows.sum()))


def _keys_of_attribute(attribute: Attribute, query: Query) -> tuple[Key, ...]:
    """Return the keys that distinguish all values of an attribute.

    For an attribute with areas, this is one key with the declared areas.
    """
    if not attribute.leaf:
        return attribute.keys
    key = key_of(attribute.column, query.table.columns[attribute.column])
    if not isinstance(key, Key):
        raise TypeError("areas are declared values")
    return (key,)


def _joint_query(first: Query, queries: Sequence[Query], keys: KeySpace) -> Query:
    """Return a query that counts rows by all keys jointly, made from the query `first`."""
    formulas: dict[str, Formula] = {}
    for query in queries:
        names = {key.column for key in query.keys.keys}
        formulas |= {name: formula for name, formula in query.formulas.items() if name in names}
    for query in queries:
        formulas = {**query.formulas, **formulas}
    view = first.table.model_copy(update={"columns": columns_of(queries)})
    return replace(
        first,
        name="all keys",
        keys=keys,
        measurements=first.measurements[:1],  # every answer also has the number of rows per cell
        columns=(),
        view=view,
        formulas=formulas,
        finest=None,
    )


def _records_by_combination(
    rows: Integers, keys: KeySpace, key_sets: Sequence[tuple[Key, ...]], combinations: Combinations
) -> Integers:
    """Return the number of records of each combination, from the counts of all joint cells."""
    cells = np.zeros(len(combinations), dtype=np.int64)
    strides = iter(keys.strides)
    for i, (attribute, keys_of_attribute) in enumerate(
        zip(combinations.attributes, key_sets, strict=True)
    ):
        for key in keys_of_attribute:
            if attribute.leaf:
                at = {str(value): place for place, value in enumerate(key.values)}
                places = np.array([*(at[text] for text in attribute.leaf), 0], dtype=np.int64)
            else:
                places = attribute.places[key.column]
            cells += np.maximum(places, 0)[combinations.values[:, i]] * next(strides)
    found: Integers = np.where(combinations.complete, rows[cells], 0)
    return found


def _refuse_other_truth(rehearsal: OpenedRehearsal, query: str, rows: Integers) -> None:
    """Raise DP-ATTACK-004 if the true answers to a query in the rehearsal differ from `rows`."""
    outputs = {one.name: one for family in rehearsal.families for one in family.outputs}
    for name, truth_query, as_noised in published_tables(rehearsal.families):
        if truth_query.name != query:
            continue
        keys = {key.column for key in truth_query.key_columns}
        names = [*dict(schema_of(truth_query))] if as_noised else [*outputs[name].columns]
        file = truth_file(name)
        column = truth_columns(sorted(keys), (one for one in names if one not in keys)).rows
        published = (
            formats.PUBLISHED_FORMAT.read(rehearsal.folder / file, [column]).column(0).to_numpy()
        )
        # If a step publishes only some of the cells, only the sum of these cells is checked.
        same = (
            np.array_equal(published, rows)
            if len(published) == len(rows)
            else published.sum() <= rows.sum()
        )
        if not same:
            place = Place(NAME, None, "rehearsal.truth")
            raise VerificationError("DP-ATTACK-004", place=place, file=file)
