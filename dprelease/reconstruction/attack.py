"""An attack on the tables of a rehearsal, and on other forms of the same tables."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from time import monotonic

import numpy as np

from dprelease.documents.outcomes.attack_outcome import (
    FORMS,
    AttackOutcome,
    AttributeRecord,
    Form,
    FormOutcome,
)
from dprelease.errors import DeclarationError, Place
from dprelease.numerics.entropy import BitSource, Entropy
from dprelease.numerics.lattice import Integers
from dprelease.reconstruction.area_blocks import Areas, area_of, divide_by_area
from dprelease.reconstruction.certain_records import certain_records
from dprelease.reconstruction.coarsened import (
    doubly_suppressed,
    randomly_rounded,
    round_counts,
    suppress_small_counts,
)
from dprelease.reconstruction.counted_tables import CountedTable, counted_tables
from dprelease.reconstruction.guesses import Guessed, expected_rates, guess_records, log_rates
from dprelease.reconstruction.noised_cells import likelihoods_from_noise
from dprelease.reconstruction.opened_rehearsal import OpenedRehearsal, open_rehearsal
from dprelease.reconstruction.programs import likeliest, program
from dprelease.reconstruction.record_combinations import Combinations, combinations_of
from dprelease.reconstruction.scored import SolvedBlock, baseline, error_of, outcome
from dprelease.reconstruction.swapped import swap_areas
from dprelease.reconstruction.told_cells import ToldCells, exactly
from dprelease.reconstruction.true_counts import TrueCounts, true_counts
from dprelease.rehearsal.asked_rows import Words
from dprelease.rehearsal.draws import Draws
from dprelease.verification.sealed import read_sealed

SECONDS = 60.0
"""For each form of the tables."""

SWAPPED = 0.1
"""The part of records that changes areas."""


@dataclass(frozen=True, slots=True)
class Asked:
    """What is attacked: the table about people, the column of areas, forms, and how long.

    `seconds`: for each form; `swapped`: the part of records that changes areas.
    """

    table: str | None = None
    area: str | None = None
    forms: Sequence[Form] = FORMS
    seconds: float = SECONDS
    swapped: float = SWAPPED


@dataclass(frozen=True)
class _Attacked:
    """What is known before anything is solved; the truth is used to make forms and for scores."""

    rehearsal: OpenedRehearsal
    combinations: Combinations
    areas: Areas
    true: TrueCounts
    guesses: tuple[Guessed, ...]

    @property
    def tables(self) -> tuple[CountedTable, ...]:
        return self.areas.tables


def attack(
    folder: Path,
    asked: Asked | None = None,
    *,
    on: Words = None,
    bits: BitSource | None = None,
    progress: Callable[[str], None] = lambda _step: None,
) -> AttackOutcome:
    """Attack the counts of a rehearsal, and return what is found of its people.

    The attacker knows the published tables, the declaration and the laws of the noise, and nothing
    else. All counts about one table of people are solved together for numbers of records with each
    combination of attributes: the likeliest ones, given that attributes are independent as long as
    no table says otherwise. The same is done to the same counts in other forms.

    Parameters
    ----------
    folder
        That of a rehearsal.
    asked
        What is attacked, and how long.
    on
        Public files that stood in for tables, which are not in the folder.
    bits
        For tests: random rounding and swapping draw from it.
    progress
        Called with the name of each form.

    Raises
    ------
    VerificationError
        DP-ATTACK-001 for what is no rehearsal, 004 for another truth; what `verify` finds.
    DeclarationError
        DP-ATTACK-002, 003, 005 and 006 for what can't be attacked so.
    """
    wanted = asked or Asked()
    rehearsal = open_rehearsal(folder, on)
    found = counted_tables(rehearsal.families, wanted.table)
    if not found.used:
        reasons = "; ".join(f"{name}: {why}" for name, why in found.left_out.items()) or "none"
        raise DeclarationError("DP-ATTACK-006", place=Place(key="queries"), reasons=reasons)
    combinations = combinations_of(found.used)
    areas = divide_by_area(combinations, found.used, area_of(combinations, found.used, wanted.area))
    true = true_counts(rehearsal, found.used, combinations)
    guesses = tuple(
        guess_records(combinations, block, true.records[block]) for block in areas.blocks
    )
    attacked = _Attacked(rehearsal, combinations, areas, true, guesses)
    beside = baseline(guesses, [true.records[block] for block in areas.blocks])
    draws = Draws(bits or Entropy())
    forms: list[FormOutcome] = []
    for form in wanted.forms:
        progress(form)
        end = monotonic() + wanted.seconds
        told = _likelihoods_of_form(attacked, form, draws, wanted.swapped)
        if told is None:
            continue
        error = error_of([*told.values()], [true.cells[name] for name in told])
        blocks = _solve_blocks(attacked, told, end)
        forms.append(outcome(form, blocks, beside, error))
    area = None if areas.attribute is None else combinations.attributes[areas.attribute].column
    return AttackOutcome(
        format="dprelease-attack/1",
        rehearsal=str(read_sealed(folder)["digest"]),
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
        swapped=wanted.swapped,
        seconds=wanted.seconds,
        baseline=beside,
        forms=forms,
    )


def _likelihoods_of_form(
    attacked: _Attacked, form: Form, draws: Draws, rate: float
) -> dict[str, ToldCells] | None:
    """Return what the tables tell in one form, by name; None for one that these can't have."""
    true, folder = attacked.true.cells, attacked.rehearsal.folder
    if form == "swapped":
        if attacked.areas.attribute is None:
            return None
        true = _cells_after_swaps(attacked, rate, draws)
    make: dict[Form, Callable[[CountedTable, Integers], ToldCells]] = {
        "exact": lambda _, cells: exactly(cells.astype(np.float64)),
        "rounded": lambda _, cells: round_counts(cells),
        "rounded at random": lambda _, cells: randomly_rounded(cells, draws),
        "suppressed": lambda _, cells: suppress_small_counts(cells),
        "suppressed twice": lambda one, cells: doubly_suppressed(cells, one.query.keys),
        "swapped": lambda _, cells: exactly(cells.astype(np.float64)),
        "noised": lambda one, _: likelihoods_from_noise(
            one.read_published(folder), one.law, one.post
        ),
    }
    return {one.name: make[form](one, true[one.name]) for one in attacked.tables}


def _cells_after_swaps(attacked: _Attacked, rate: float, draws: Draws) -> dict[str, Integers]:
    """Return the counts of all tables after swaps; records that lack a value stay there."""
    combinations, area = attacked.combinations, attacked.areas.attribute or 0
    records = attacked.true.records
    moved = swap_areas(records, combinations, area, rate, draws) - records
    found = {}
    for one in attacked.tables:
        cells = combinations.cells[one.name]
        inside = cells >= 0
        size = one.query.keys.size
        change = np.bincount(cells[inside], moved[inside], size).astype(np.int64)
        found[one.name] = attacked.true.cells[one.name] + change
    return found


def _solve_blocks(attacked: _Attacked, told: dict[str, ToldCells], end: float) -> list[SolvedBlock]:
    """Return all blocks solved, those of few cells first; each gets its part of the time left.

    `end`: when all are to be solved, by the monotonic clock.
    """
    areas, combinations = attacked.areas, attacked.combinations
    order = np.argsort([len(block) for block in areas.blocks], kind="stable")
    done = []
    for i, number in enumerate(order):
        block = areas.blocks[number]
        share = max(0.5, (end - monotonic()) / (len(order) - i))
        rates = expected_rates(combinations, block, attacked.tables, told)
        asked = program(combinations, block, attacked.tables, told, float(rates.sum()))
        begun = monotonic()
        solved = likeliest(asked, log_rates(rates), 0.6 * share)
        left = max(0.2, share - (monotonic() - begun))
        certain = certain_records(asked, solved.records, left)
        complete, records = combinations.complete[block], attacked.true.records[block]
        done.append(SolvedBlock(solved, certain, complete, records, attacked.guesses[number]))
    return done
