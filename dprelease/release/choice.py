"""Which family and shape each column gets: declared, or the one with the least expected error."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction

from dprelease.errors import BudgetError, Place
from dprelease.mechanisms import registry
from dprelease.numerics.rounding import exact
from dprelease.privacy.budget import Budget
from dprelease.privacy.unit import Move, Sensitivity
from dprelease.query.resolve import Measure
from dprelease.release.draft import Draft, Shape, priced, typical_error
from dprelease.release.shares import Share, spend
from dprelease.schema.release import AUTO, DEFAULT_CONFIDENCE

AUTO_FAMILIES = ("discrete_laplace", "discrete_gaussian")
"""What `auto` chooses from: laws on the integers themselves, whose answers stay whole."""

ALONE = Fraction(1, 10**10)
"""Least delta at which what the accountant allows for its own errors is well below 1/1024 of it."""

COARSE = 64
"""Steps that sensitivities are scaled down to while candidates are compared."""


@dataclass(frozen=True, slots=True)
class Wish:
    """What is declared about one column's noise."""

    measure: Measure
    place: Place

    @property
    def is_auto(self) -> bool:
        """Return whether the plan chooses the family."""
        return self.measure.mechanism.name == AUTO

    def fixes(self, draft: Draft) -> bool:
        """Return whether the declaration leaves nothing of a draft's family and shape open."""
        searched = {name for found in draft.kind.search for name in found}
        return not self.is_auto and searched <= set(self.measure.mechanism.shape)

    def draft(self, family: str, shape: Shape) -> Draft:
        """Return the draft of a family and a shape."""
        measure = self.measure
        kind = registry.get(family, self.place)
        return Draft(
            kind,
            shape,
            measure.sensitivity,
            measure.weight,
            self.place,
            None if measure.wanted is None else measure.wanted / measure.step,
            float(measure.margin or DEFAULT_CONFIDENCE),
        )


def drafts_of(
    wishes: Sequence[Wish], share: Share, budget: Budget, *, unlimited: bool = False
) -> tuple[list[Draft], str]:
    """Return the drafts of least expected error, and how open choices were made.

    One candidate serves all open columns of a kind: the one whose errors, each in units of its
    column's sensitivity, have the least sum while the whole release spends its whole budget. Where
    all columns settle themselves, the candidate of the least price.

    Raises
    ------
    BudgetError
        DP-BUDGET-003, DP-MECH-001 to 005, and DP-BUDGET-004 if no candidate fits.
    """
    for wish in wishes:
        _check(wish, budget)
    delta = _delta_share(wishes, budget)
    options = [list(_candidates(wish, budget, delta)) for wish in wishes]
    longest = max(len(found) for found in options)
    choices = [[found[min(i, len(found) - 1)] for found in options] for i in range(longest)]
    if longest == 1:
        return choices[0], "declared"
    errors = [_error(choice, share, budget, unlimited) for choice in choices]
    best = min(range(longest), key=errors.__getitem__)
    return choices[best], "auto: least expected error"


def _check(wish: Wish, budget: Budget) -> None:
    if wish.is_auto:
        if wish.measure.mechanism.shape:
            name = next(iter(wish.measure.mechanism.shape))
            raise BudgetError(
                "DP-MECH-002", place=wish.place, mechanism=AUTO, name=name, known="none"
            )
        return
    kind = registry.get(wish.measure.mechanism.name, wish.place)
    if budget.needs_pure_noise and not kind.pure:
        raise BudgetError(
            "DP-BUDGET-003",
            place=wish.place,
            column=wish.measure.name,
            mechanism=kind.name,
            pure=", ".join(registry.pure_names()),
        )


def declared_shape(wish: Wish) -> Shape:
    """Return the declared shape, checked by name; lengths become lattice steps.

    Raises
    ------
    BudgetError
        DP-MECH-002 for a key that the mechanism does not have, DP-MECH-003 for what is no number,
        DP-MECH-005 for a word that is not one of the choices.
    """
    spec = wish.measure.mechanism
    kind = registry.get(spec.name, wish.place)
    known = {shape.name: shape for shape in kind.shapes}
    found: dict[str, str | float] = {}
    for name, text in spec.shape.items():
        if name not in known:
            raise BudgetError(
                "DP-MECH-002",
                place=wish.place,
                mechanism=kind.name,
                name=name,
                known=", ".join(known) or "none",
            )
        shape = known[name]
        if shape.choices and text not in shape.choices:
            raise BudgetError(
                "DP-MECH-005",
                place=wish.place,
                mechanism=kind.name,
                name=name,
                admissible=" or ".join(shape.choices),
            )
        if not shape.choices and not _is_number(text):
            raise BudgetError("DP-MECH-003", place=wish.place, mechanism=kind.name, known=name)
        found[name] = float(exact(text) / wish.measure.step) if shape.in_units else text
    return found


def _is_number(text: str) -> bool:
    try:
        exact(text)
    except ValueError:
        return False
    return True


def _candidates(wish: Wish, budget: Budget, share: Fraction) -> Iterator[Draft]:
    families = AUTO_FAMILIES if wish.is_auto else (wish.measure.mechanism.name,)
    for family in families:
        kind = registry.get(family)
        if budget.needs_pure_noise and not kind.pure:
            continue
        declared = {} if wish.is_auto else declared_shape(wish)
        names = {shape.name for shape in kind.shapes}
        if "delta" in names and "delta" not in declared and share:
            declared = {**declared, "delta": repr(float(share))}
        seen = []
        for searched in kind.search:
            shape = {**searched, **declared}
            if shape not in seen:
                seen.append(shape)
                yield wish.draft(family, shape)


def _delta_share(wishes: Sequence[Wish], budget: Budget) -> Fraction:
    """Return the delta of one cell of laws that need one: equal shares of the budget's."""
    cells = 0
    for wish in wishes:
        if not wish.is_auto:
            kind = registry.get(wish.measure.mechanism.name)
            if any(shape.name == "delta" for shape in kind.shapes):
                sensitivity = wish.measure.sensitivity
                cells += sensitivity.slots * max(move.cells for move in sensitivity.moves)
    return delta_of_cell(budget.delta, cells) if cells else Fraction(0)


def delta_of_cell(delta: Fraction, cells: int) -> Fraction:
    """Return the delta of one cell's law; the rest is what composing the cells needs."""
    if cells == 1 and delta >= ALONE:
        return delta * Fraction(1023, 1024)
    return delta / (2 * cells)


def _error(drafts: Sequence[Draft], share: Share, budget: Budget, unlimited: bool) -> float:
    """Return the sum of expected errors in units of sensitivities; infinity where nothing fits.

    Columns whose accuracy is declared add nothing; if there are no others, the price.
    """
    coarse = [
        replace(draft, sensitivity=_coarse(draft.sensitivity)) if draft.width is None else draft
        for draft in drafts
    ]
    try:
        found = spend(share, coarse, budget, unlimited=unlimited)
    except BudgetError:
        return float("inf")
    errors = [
        typical_error(mechanism) / draft.sensitivity.largest_shift
        for mechanism, draft in zip(found, coarse, strict=True)
        if draft.width is None
    ]
    if errors:
        return sum(errors)
    return budget.price([priced(m, d.sensitivity) for m, d in zip(found, coarse, strict=True)])


def _coarse(sensitivity: Sensitivity) -> Sensitivity:
    """Return the sensitivity with shifts of at most `COARSE` steps, so that alike columns merge."""
    largest = sensitivity.largest_shift
    if largest <= COARSE:
        return sensitivity
    moves = tuple(
        Move(max(1, round(move.shift * COARSE / largest)), move.cells) for move in sensitivity.moves
    )
    return replace(sensitivity, moves=moves)
