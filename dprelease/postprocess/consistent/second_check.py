"""What `verify` asks beside running the step again: the same claims by other ways."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np

from dprelease.postprocess.consistent.additivity import spans, unequal_sums
from dprelease.postprocess.consistent.dense_errors import wrong_errors
from dprelease.postprocess.consistent.exchanges import gainful_exchanges, impossible_cells
from dprelease.postprocess.consistent.family_columns import Agreed
from dprelease.postprocess.consistent.invariants import contradictions, exact_places
from dprelease.postprocess.consistent.normal_equations import wrong_equations
from dprelease.postprocess.consistent.outputs import lowest, records_of, tables_with_estimates
from dprelease.postprocess.consistent.published import Cells, Files, PublishedColumn
from dprelease.postprocess.consistent.reading import Measured, on_lattice
from dprelease.postprocess.consistent.values import (
    DENSE,
    MOST_RECORDS,
    refinement_of,
    wanted_tables,
)
from dprelease.postprocess.consistent.zeros import zeros_of
from dprelease.postprocess.families import NoisedTable
from dprelease.schema.release_parts.consistent import ConsistentSpec


def second_check(
    family: str,
    columns: Sequence[Agreed],
    spec: ConsistentSpec,
    noised: Sequence[NoisedTable],
    files: Files,
) -> Iterator[str]:
    """Yield what is wrong with the published tables of a family; nothing for sound ones."""
    shape = columns[0].shape
    for column in (one for one in columns if one.is_shown):
        measured = Measured(column, noised)
        wanted = wanted_tables(shape, spec)
        wrong = list(contradictions(measured, non_negative=spec.non_negative))
        yield from wrong
        variances = on_lattice(measured, wanted, sound=not wrong)
        published = PublishedColumn(column, variances.structure.bits, files)
        yield from unequal_sums(shape, tables_with_estimates(shape, spec), published.estimates)
        yield from _other_invariants(published, measured, spec)
        if not measured.is_cut and lowest(shape, spec) == len(shape.levels) - 1:
            yield from wrong_equations(variances, measured, published)
        if not measured.is_cut:
            yield from wrong_errors(variances, published, spec)
        if spec.non_negative:
            yield from unequal_sums(shape, shape.placed, published.whole)
            never = zeros_of(shape, spec.zeros)
            yield from impossible_cells(shape, shape.placed, published, never)
            yield from gainful_exchanges(published, refinement_of(column, spec), spec)
            if spec.publish.records:
                yield from _wrong_records(family, published, files)


def _other_invariants(
    published: PublishedColumn, measured: Measured, spec: ConsistentSpec
) -> Iterator[str]:
    """Yield tables that are not the invariants that they have to be."""
    shape, bits = published.shape, published.bits
    for placed in exact_places(published.column):
        estimated_too = placed.level <= lowest(shape, spec)
        for span in spans(shape, placed):
            exact = measured.read(placed.level, placed.attributes, *span)
            same = not estimated_too or np.array_equal(
                published.estimates(placed, *span), exact << bits
            )
            if spec.non_negative:
                same = same and np.array_equal(published.whole(placed, *span), exact)
            if not same:
                yield f"'{placed.name}' is not the invariant that was published"
                break


def _wrong_records(family: str, published: PublishedColumn, files: Files) -> Iterator[str]:
    """Yield that persons are not as many, in each finest cell, as the whole tables say."""
    shape = published.shape
    keys = shape.leaves
    total = int(published.whole(shape.at(0)[0], 0, 1).sum())
    if total > MOST_RECORDS or keys.size > DENSE:
        return
    counts, last, cells_of = np.zeros(keys.size, np.int64), 0, Cells(keys).of
    for batch in files[records_of(family)]():
        cells = cells_of(batch)
        if len(cells):
            if cells[0] < last or (np.diff(cells) < 0).any():
                yield "invented persons are not in the order of their cells"
            last = int(cells[-1])
        counts += np.bincount(cells, minlength=keys.size)
    finest = next(
        one for one in shape.at(len(shape.levels) - 1) if one.attributes == shape.everything
    )
    held = published.whole(finest, 0, shape.tree.counts[-1])
    if not np.array_equal(counts.reshape(held.shape), held):
        yield "invented persons are not as many as the whole tables say"
