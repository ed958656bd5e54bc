"""Attack the tables of a rehearsal, and other protected forms of the same tables.

The records are computed in independent blocks: one block for each area, if no cell of a table
covers several areas. The other forms are those that statistical offices have used: exact, rounded,
suppressed and swapped tables.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from time import monotonic

import numpy as np

from dprelease.documents.attack_outcome import (
    FORMS,
    AttackOutcome,
    AttributeRecord,
    Form,
    FormOutcome,
)
from dprelease.documents.manifest import RehearsalManifest
from dprelease.errors import DeclarationError, Place
from dprelease.numerics.entropy import BitSource, Entropy
from dprelease.numerics.lattice import Flags, Floats, Integers
from dprelease.query.grouping.group_keys import KeySpace
from dprelease.reconstruction.cell_likelihoods import (
    ObservedCells,
    cells_within,
    convex_segments,
    exact_cells,
    likelihoods_from_noise,
)
from dprelease.reconstruction.certain_records import (
    SolvedBlock,
    certain_records,
    form_outcome,
    guess_baseline,
    mean_error,
)
from dprelease.reconstruction.counted_tables import CountedTable, counted_tables
from dprelease.reconstruction.guesses import (
    BaselineGuesses,
    expected_rates,
    guess_records,
    log_rates,
)
from dprelease.reconstruction.programs import likeliest_records, record_program
from dprelease.reconstruction.record_combinations import Combinations, combinations_of
from dprelease.reconstruction.swapping import swap_areas
from dprelease.reconstruction.true_counts import (
    OpenedRehearsal,
    TrueCounts,
    open_rehearsal,
    true_counts,
)
from dprelease.rehearsal.column_values import Draws
from dprelease.rehearsal.rehearse import OptionValues
from dprelease.verification.manifest_comparison import read_manifest_as

ROUNDING_BASE = 5
"""The base to whose multiples counts are rounded."""

SUPPRESSION_THRESHOLD = 10
"""The smallest count, other than 0, that is not suppressed."""


def round_counts(true: Integers) -> ObservedCells:
    """Return counts that are rounded to the nearest multiple of 5."""
    # With the odd base 5 there are no ties.
    shown = (ROUNDING_BASE * np.rint(true / ROUNDING_BASE)).astype(np.float64)
    return cells_within(shown, shown - ROUNDING_BASE // 2, shown + ROUNDING_BASE // 2, shown)


def round_randomly(true: Integers, draws: Draws) -> ObservedCells:
    """Return counts that are randomly rounded to one of the two nearest multiples of 5.

    A count is rounded up with the probability remainder / 5, so that the expected published value
    is the count; multiples of 5 are unchanged. A count at a distance d from a published value was
    rounded to this value with the probability 1 - d / 5. The logarithm of this probability is
    concave, as the attacker's linear program needs.
    """
    down, rest = np.divmod(true, ROUNDING_BASE)
    up = draws.uniform(len(true)) * ROUNDING_BASE < rest
    shown = (ROUNDING_BASE * (down + up)).astype(np.float64)
    costs = [-math.log(1.0 - d / ROUNDING_BASE) for d in range(ROUNDING_BASE)]
    slopes = [after - before for before, after in pairwise(costs)]
    falls = convex_segments([1.0] * (ROUNDING_BASE - 1), slopes)
    lower = np.maximum(shown - (ROUNDING_BASE - 1), 0.0)
    return ObservedCells(shown, lower, shown + ROUNDING_BASE - 1, shown, falls, falls)


def suppress_small_counts(true: Integers) -> ObservedCells:
    """Return counts in which the counts from 1 to 9 are suppressed visibly."""
    return _suppressed_cells(
        true, (true > 0) & (true < SUPPRESSION_THRESHOLD), SUPPRESSION_THRESHOLD - 1.0
    )


def suppress_twice(true: Integers, keys: KeySpace) -> ObservedCells:
    """Return counts with secondary suppression, so that subtraction reveals no suppressed count.

    If a line of the table, along any of its keys, has exactly one suppressed count, then the
    smallest other count of the line that is not 0 is suppressed, too. These steps are repeated
    until no such line remains. The attacker knows that suppressed counts are at least 1, but not
    which of them are small.
    """
    hidden = (true > 0) & (true < SUPPRESSION_THRESHOLD)
    shape = tuple(key.size for key in keys.keys)
    table, cover = true.reshape(shape), hidden.reshape(shape).copy()
    while sum(_cover_lines(table, cover, axis) for axis in range(len(shape))):  # along every key
        pass
    return _suppressed_cells(true, cover.reshape(-1), math.inf)


def _cover_lines(table: Integers, cover: Flags, axis: int) -> bool:
    """Suppress a second count in lines with one suppressed count; return whether any was found."""
    counts, hidden = np.moveaxis(table, axis, -1), np.moveaxis(cover, axis, -1)
    free = np.where(hidden | (counts == 0), np.iinfo(np.int64).max, counts)
    least = free.argmin(axis=-1)
    is_reachable = np.take_along_axis(free, least[..., None], -1)[..., 0] < np.iinfo(np.int64).max
    lines = np.argwhere((hidden.sum(axis=-1) == 1) & is_reachable)
    for line in map(tuple, lines):
        hidden[(*line, int(least[line]))] = True
    return len(lines) > 0


def _suppressed_cells(true: Integers, hidden: Flags, upper: float) -> ObservedCells:
    """Return what an attacker knows about cells if the hidden ones are suppressed."""
    shown: Floats = true.astype(np.float64)
    guess = np.where(hidden, SUPPRESSION_THRESHOLD / 2, shown)
    return ObservedCells(
        np.where(hidden, np.nan, shown),
        np.where(hidden, 1.0, shown),
        np.where(hidden, upper, shown),
        guess,
    )


MOST_TOGETHER = 2_000
"""The maximum number of combinations that are solved in one block.

With more combinations, each area is solved separately.
"""


@dataclass(frozen=True, slots=True)
class Areas:
    """The division of all combinations into blocks, one for each area.

    `attribute` is the index of the attribute whose values are the areas, and may be None for a
    single block. `blocks` has the indices of the combinations in each block. `tables` are the
    tables that distinguish areas, so that each of their cells belongs to one area. `left_out` has
    the reasons why other tables are not used.
    """

    attribute: int | None
    blocks: tuple[Integers, ...]
    tables: tuple[CountedTable, ...]
    left_out: dict[str, str]


def area_attribute(
    combinations: Combinations, tables: Sequence[CountedTable], column: str | None
) -> int | None:
    """Return the index of the attribute with areas: `column`, or the attribute in most tables.

    The result is None without `column` if there are fewer than two attributes.

    Raises DeclarationError: DP-ATTACK-005 for a column that no table counts by.
    """
    names = [attribute.column for attribute in combinations.attributes]
    if column is not None:
        for i, attribute in enumerate(combinations.attributes):
            if column == attribute.column or column in attribute.places:
                return i
        known = ", ".join(names) or "none"
        raise DeclarationError("DP-ATTACK-005", place=Place(key="area"), column=column, known=known)
    if len(names) < 2:
        return None
    separating_tables = [
        sum(attribute.separates_values(one.query.keys.keys) for one in tables)
        for attribute in combinations.attributes
    ]
    return int(np.argmax(separating_tables))


def divide_by_area(
    combinations: Combinations, tables: Sequence[CountedTable], attribute: int | None
) -> Areas:
    """Return one block of all combinations if they are few, and otherwise one block per area.

    Raises DeclarationError: DP-ATTACK-005 for too many combinations, if no table distinguishes
    areas.
    """
    if len(combinations) <= MOST_TOGETHER:
        return Areas(attribute, (np.arange(len(combinations)),), tuple(tables), {})
    separate: list[CountedTable] = []
    if attribute is not None:
        areas = combinations.attributes[attribute]
        separate = [one for one in tables if areas.separates_values(one.query.keys.keys)]
    if attribute is None or not separate:
        column = "" if attribute is None else combinations.attributes[attribute].column
        known = ", ".join(one.column for one in combinations.attributes)
        raise DeclarationError("DP-ATTACK-005", place=Place(key="area"), column=column, known=known)
    values = combinations.values[:, attribute]
    inside = areas.complete[values]
    counted = np.any([combinations.cells[one.name] >= 0 for one in separate], axis=0) & inside
    blocks = [np.flatnonzero(counted & (values == value)) for value in range(areas.size)]
    why = f"it has no cell for each '{areas.column}', by which all tables are solved"
    left_out = {one.name: why for one in tables if one not in separate}
    return Areas(attribute, tuple(b for b in blocks if len(b)), tuple(separate), left_out)


SECONDS = 60.0
"""The default number of seconds for the attack on each form of the tables."""

SWAPPED = 0.1
"""The default share of records that change areas by swapping."""


@dataclass(frozen=True, slots=True)
class AttackRequest:
    """The options of an attack.

    `table` is the table about people, `area` is the column with areas, and `forms` are the forms of
    the tables that are attacked. `seconds` is the time for each form. `swapped` is the share of
    records that swapping moves to other areas.
    """

    table: str | None = None
    area: str | None = None
    forms: Sequence[Form] = FORMS
    seconds: float = SECONDS
    swapped: float = SWAPPED


@dataclass(frozen=True)
class _AttackSetup:
    """The input of an attack; the true counts are used only to make forms and to score."""

    rehearsal: OpenedRehearsal
    combinations: Combinations
    areas: Areas
    true: TrueCounts
    guesses: tuple[BaselineGuesses, ...]

    @property
    def tables(self) -> tuple[CountedTable, ...]:
        """Return the tables that are solved together."""
        return self.areas.tables


def attack(
    folder: Path,
    request: AttackRequest | None = None,
    *,
    on: OptionValues = None,
    bits: BitSource | None = None,
    progress: Callable[[str], None] = lambda _step: None,
) -> AttackOutcome:
    """Attack the counts of a rehearsal, and return how many of its records the attack finds.

    The attacker knows only the published tables, the declaration and the noise distributions. From
    all counts about one table of people together, the attack computes the number of records with
    each combination of attributes. It finds the likeliest numbers under the assumption that
    attributes are independent, except where a table shows that they are not. The same attack is run
    on other forms of the same counts.

    - `on`: the public files that replaced tables in the rehearsal; they are not in its folder.
    - `bits`: the source of random bits for rounding and swapping; for tests only.
    - `progress`: a function that is called with the name of each form.

    Raises VerificationError: DP-ATTACK-001 for a folder that is not a rehearsal, 004 if its true
    values can't be reproduced; also the errors of `verify`. Raises DeclarationError: DP-ATTACK-002,
    003, 005 and 006 for rehearsals or options that can't be attacked.
    """
    settings = request or AttackRequest()
    rehearsal = open_rehearsal(folder, on)
    found = counted_tables(rehearsal.families, settings.table)
    if not found.used:
        reasons = "; ".join(f"{name}: {why}" for name, why in found.left_out.items()) or "none"
        raise DeclarationError("DP-ATTACK-006", place=Place(key="queries"), reasons=reasons)
    combinations = combinations_of(found.used)
    areas = divide_by_area(
        combinations, found.used, area_attribute(combinations, found.used, settings.area)
    )
    true = true_counts(rehearsal, found.used, combinations)
    guesses = tuple(
        guess_records(combinations, block, true.records[block]) for block in areas.blocks
    )
    setup = _AttackSetup(rehearsal, combinations, areas, true, guesses)
    # True marginals, which no attacker has: the attack has to beat the best guesser, not a weak
    # one.
    guesses_baseline = guess_baseline(guesses, [true.records[block] for block in areas.blocks])
    draws = Draws(bits or Entropy())
    forms: list[FormOutcome] = []
    for form in settings.forms:
        progress(form)
        end = monotonic() + settings.seconds
        likelihoods = _likelihoods_of_form(setup, form, draws, settings.swapped)
        if likelihoods is None:
            continue
        error = mean_error([*likelihoods.values()], [true.cells[name] for name in likelihoods])
        blocks = _solve_blocks(setup, likelihoods, end)
        forms.append(form_outcome(form, blocks, guesses_baseline, error))
    area = None if areas.attribute is None else combinations.attributes[areas.attribute].column
    return AttackOutcome(
        format="dprelease-attack/1",
        rehearsal=read_manifest_as(folder, RehearsalManifest).digest,
        table=found.table,
        area=area,
        attributes=[
            AttributeRecord(column=one.column, values=int(one.complete.sum()))
            for one in combinations.attributes
        ],
        tables=[one.name for one in areas.tables],
        left_out={**found.left_out, **areas.left_out},
        records=int(true.records.sum()),
        partial=true.partial,
        alone=int((true.records == 1).sum()),
        swapped=settings.swapped,
        seconds=settings.seconds,
        baseline=guesses_baseline,
        forms=forms,
    )


def _likelihoods_of_form(
    setup: _AttackSetup, form: Form, draws: Draws, rate: float
) -> dict[str, ObservedCells] | None:
    """Return the information in the tables of one form, by name; None if the form is impossible."""
    true, folder = setup.true.cells, setup.rehearsal.folder
    # Only with areas: swapping exchanges nothing else.
    if form == "swapped":
        if setup.areas.attribute is None:
            return None
        true = _cells_after_swaps(setup, rate, draws)
    make: dict[Form, Callable[[CountedTable, Integers], ObservedCells]] = {
        "exact": lambda _, cells: exact_cells(cells.astype(np.float64)),
        "rounded": lambda _, cells: round_counts(cells),
        "rounded at random": lambda _, cells: round_randomly(cells, draws),
        "suppressed": lambda _, cells: suppress_small_counts(cells),
        "suppressed twice": lambda one, cells: suppress_twice(cells, one.query.keys),
        "swapped": lambda _, cells: exact_cells(cells.astype(np.float64)),
        "noised": lambda one, _: likelihoods_from_noise(
            one.read_published(folder), one.law, one.post
        ),
    }
    return {one.name: make[form](one, true[one.name]) for one in setup.tables}


def _cells_after_swaps(setup: _AttackSetup, rate: float, draws: Draws) -> dict[str, Integers]:
    """Return the counts of all tables after swapping, which moves only complete records."""
    combinations, area = setup.combinations, setup.areas.attribute or 0
    records = setup.true.records
    moved = swap_areas(records, combinations, area, rate, draws) - records
    found = {}
    for one in setup.tables:
        cells = combinations.cells[one.name]
        inside = cells >= 0
        size = one.query.keys.size
        change = np.bincount(cells[inside], moved[inside], size).astype(np.int64)
        found[one.name] = setup.true.cells[one.name] + change
    return found


def _solve_blocks(
    setup: _AttackSetup, likelihoods: dict[str, ObservedCells], end: float
) -> list[SolvedBlock]:
    """Return all solved blocks, the smallest first.

    Each block gets an equal share of the remaining time. `end` is the deadline for all blocks, by
    the monotonic clock.
    """
    areas, combinations = setup.areas, setup.combinations
    order = np.argsort([len(block) for block in areas.blocks], kind="stable")
    done = []
    for i, number in enumerate(order):
        block = areas.blocks[number]
        # The smallest blocks come first, and what they leave of their time goes to the larger ones.
        share = max(0.5, (end - monotonic()) / (len(order) - i))
        rates = expected_rates(combinations, block, setup.tables, likelihoods)
        problem = record_program(combinations, block, setup.tables, likelihoods, float(rates.sum()))
        begun = monotonic()
        solved = likeliest_records(problem, log_rates(rates), 0.6 * share)
        left = max(0.2, share - (monotonic() - begun))
        certain = certain_records(problem, solved.records, left)
        complete, records = combinations.complete[block], setup.true.records[block]
        done.append(SolvedBlock(solved, certain, complete, records, setup.guesses[number]))
    return done
