"""Which family and shape each column gets: declared, or the one with the least expected error."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from fractions import Fraction

from dprelease.errors import BudgetError
from dprelease.mechanisms import registry
from dprelease.mechanisms.randomizer import Randomizer
from dprelease.privacy.budget import Budget
from dprelease.privacy.unit import Move, Sensitivity
from dprelease.release.draft import Draft, Factors, Shape, priced
from dprelease.release.shares import Share, spend
from dprelease.release.wish import Options, Wish

FEW_CELLS = 8
"""Cells up to which laws that spend a delta of their own can be the best."""

PROMISING = 1.25
"""Families whose first shape is within this of the best have their shapes searched."""

MOST_GROUPS, MOST_FAMILIES = 6, 4
BETTER = 1 - 1e-3
"""A column of its own kind changes its mechanism for a gain of a part in a thousand."""

ALONE = Fraction(1, 10**10)
"""Least delta at which what the accountant allows for its own errors is well below 1/1024 of it."""

COARSE = 64
"""Steps that sensitivities are scaled down to while candidates are compared."""

DOUBLES = frozenset({"laplace", "gaussian", "offset_symmetric_gaussian", "asymmetric_laplace"})
"""What `auto` leaves out unless it is allowed by name: rounded twins of laws on the integers, which
are no better, and asymmetric noise, whose best k is 1."""


@dataclass(frozen=True, slots=True)
class Candidate:
    """A family with a shape."""

    family: str
    shape: tuple[tuple[str, str | float], ...] = ()

    @classmethod
    def of(cls, family: str, shape: Shape) -> Candidate:
        """Return the candidate of a mapping."""
        return cls(family, tuple(sorted(shape.items())))


def drafts_of(
    wishes: Sequence[Wish],
    share: Share,
    budget: Budget,
    *,
    unlimited: bool = False,
    known: Factors | None = None,
) -> tuple[list[Draft], list[str]]:
    """Return the drafts of least expected error, and how each was chosen.

    Columns of a kind share one candidate. First one candidate for all open columns: the one whose
    errors, each in units of its column's sensitivity and times its weight, have the least sum while
    the whole release spends its whole budget. Then each kind by itself, where that gains. If all
    columns settle themselves by an accuracy, the candidate of the least price.

    Candidates are compared by rough prices; `known` learns where the factor of the drafts is.

    Raises
    ------
    BudgetError
        DP-BUDGET-003, DP-MECH-001 to 005, and DP-BUDGET-004 if no candidate fits.
    """
    for wish in wishes:
        wish.check(budget)
    search = _Search(wishes, share, budget, unlimited, {} if known is None else known)
    if search.groups:
        search.run()
    return [search.draft(i) for i in range(len(wishes))], [
        search.how(i) for i in range(len(wishes))
    ]


@dataclass
class _Group:
    """Open columns of one kind, which get the same candidate."""

    columns: list[int]
    families: tuple[str, ...]
    is_auto: bool
    measure: str
    chosen: Candidate


@dataclass
class _Search:
    wishes: Sequence[Wish]
    share: Share
    budget: Budget
    unlimited: bool
    factors: Factors
    rough: bool = True
    groups: list[_Group] = field(default_factory=list)
    _known: dict[tuple[Candidate, ...], float] = field(default_factory=dict)
    _notes: dict[int, str] = field(default_factory=dict)
    _good: list[dict[int, Candidate]] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.delta = _delta_share(self.wishes, self.budget)
        kinds: dict[object, list[int]] = {}
        for i, wish in enumerate(self.wishes):
            if wish.is_auto or len(self._line(wish.measure.mechanism.name, wish)) > 1:
                kinds.setdefault(_kind(wish), []).append(i)
        cells = sum(
            _cells(self.wishes[i].measure.sensitivity) for found in kinds.values() for i in found
        )
        for found in kinds.values():
            wish = self.wishes[found[0]]
            families = self._families(wish, cells)
            first = self._line(families[0], wish)[0]
            measure = wish.options.measure
            self.groups.append(_Group(found, families, wish.is_auto, measure, first))
        self._group_of = {i: group for group in self.groups for i in group.columns}

    def _families(self, wish: Wish, cells: int) -> tuple[str, ...]:
        if not wish.is_auto:
            return (wish.measure.mechanism.name,)
        found = tuple(
            name
            for name in registry.names()
            if self._admits(wish.options, registry.get(name), cells)
        )
        if not found:
            raise BudgetError(
                "DP-BUDGET-004",
                place=wish.place,
                reason="no mechanism keeps what `auto` is asked to keep",
            )
        return found

    def _admits(self, options: Options, kind: type[Randomizer], cells: int) -> bool:
        if not options.admit(kind) or (self.budget.needs_pure_noise and not kind.pure):
            return False
        if self.budget.needs_concentration and kind.bounded:
            return False
        if options.allowed:
            return True
        if kind.bounded and not (cells <= FEW_CELLS or "bounded" in options.constraints):
            return False
        return kind.name not in DOUBLES and (self.budget.delta > 0 or not _only_composed(kind))

    def _line(self, family: str, wish: Wish) -> list[Candidate]:
        """Return the candidates of a family, good ones first."""
        kind = registry.randomizer(family)
        declared = dict(wish.shape)
        names = {shape.name for shape in kind.shapes}
        if "delta" in names and "delta" not in declared and self.delta:
            declared["delta"] = repr(float(self.delta))
        found = dict.fromkeys(
            Candidate.of(family, {**searched, **declared}) for searched in kind.search
        )
        return list(found)

    def run(self) -> None:
        """Choose; with fine prices where rough ones leave no candidate."""
        self._choose()
        if math.isinf(self._error({})):
            self.rough = False
            self._known.clear()
            self._choose()
        if math.isinf(self._error({})):
            raise self._reason()

    def _choose(self) -> None:
        """Choose: all groups together, then shapes, then each kind by itself."""
        autos = [group for group in self.groups if group.is_auto]
        if autos:
            self._together(autos)
        for group in self.groups:
            if not group.is_auto:
                self._climb([group], group.families[0])
        for group in autos[:MOST_GROUPS] if len(autos) > 1 else []:
            self._apart(group)

    def _reason(self) -> BudgetError:
        try:
            spend(
                self.share,
                [self.draft(i) for i in range(len(self.wishes))],
                self.budget,
                unlimited=self.unlimited,
            )
        except BudgetError as error:
            return error
        wish = self.wishes[self.groups[0].columns[0]]
        return BudgetError(
            "DP-BUDGET-004", place=wish.place, reason="no candidate keeps what is asked"
        )

    def _together(self, autos: list[_Group]) -> None:
        """Give all groups one candidate, and note the others."""
        families = dict.fromkeys(name for group in autos for name in group.families)
        first = {name: self._try(autos, name) for name in families}
        ranked = sorted(first, key=lambda name: first[name])
        best: dict[str, tuple[float, dict[int, Candidate]]] = {}
        for name in ranked:
            self._try(autos, name)
            if first[name] <= PROMISING * first[ranked[0]]:
                self._climb([group for group in autos if name in group.families], name)
            best[name] = (self._error({}), {id(g): g.chosen for g in autos})
        # Equal up to what floats leave of a tie: by name, so that a plan is always the same.
        order = sorted(best, key=lambda name: (float(f"{best[name][0]:.9g}"), name))
        self._good = [best[name][1] for name in order[:MOST_FAMILIES]]
        for group in autos:
            group.chosen = self._good[0][id(group)]
        least = best[order[0]][0]
        beside = [
            f"{name} +{100 * max(0.0, best[name][0] / least - 1):.3f} %"
            for name in order[1:4]
            if math.isfinite(best[name][0]) and least > 0
        ]
        for group in autos:
            note = f"auto: least {group.measure}"
            if beside:
                note += f"; beside it {', '.join(beside)}"
            self._notes.update(dict.fromkeys(group.columns, note))

    def _try(self, groups: list[_Group], family: str) -> float:
        """Give the groups that admit it the family's first candidate; return the error."""
        for group in groups:
            name = family if family in group.families else group.families[0]
            group.chosen = self._line(name, self.wishes[group.columns[0]])[0]
        return self._error({})

    def _climb(self, groups: list[_Group], family: str, start: Candidate | None = None) -> None:
        """Move along the family's shapes, from the first or `start`, while the error falls."""
        line = self._line(family, self.wishes[groups[0].columns[0]])
        ordered = sorted(
            line, key=lambda candidate: [float(v) for _, v in candidate.shape if _is_number(v)]
        )
        place = ordered.index(start or line[0])
        error = self._error(dict.fromkeys(map(id, groups), ordered[place]))
        for step in (1, -1):
            moved = False
            while 0 <= place + step < len(ordered):
                found = self._error(dict.fromkeys(map(id, groups), ordered[place + step]))
                if found >= error:
                    break
                place, error, moved = place + step, found, True
            if moved:
                break
        for group in groups:
            group.chosen = ordered[place]

    def _apart(self, group: _Group) -> None:
        """Let one group leave the common candidate where that gains."""
        before, kept = self._error({}), group.chosen
        best = (before * BETTER, kept)
        for shapes in self._good:
            found = self._error({id(group): shapes[id(group)]})
            best = min(best, (found, shapes[id(group)]), key=lambda pair: pair[0])
        group.chosen = best[1]
        if best[1] is not kept:
            self._climb([group], best[1].family, best[1])
            best = (self._error({}), group.chosen)
        if best[1] is not kept:
            gain = 100 * (1 - best[0] / before)
            note = f"auto: least {group.measure}; the release gains {gain:.3g} % over {kept.family}"
            self._notes.update(dict.fromkeys(group.columns, note))

    def _error(self, instead: Mapping[int, Candidate]) -> float:
        """Return the release's error, with other candidates for some groups (by id)."""
        chosen = tuple(instead.get(id(group), group.chosen) for group in self.groups)
        if chosen not in self._known:
            kept = [group.chosen for group in self.groups]
            for group, candidate in zip(self.groups, chosen, strict=True):
                group.chosen = candidate
            self._known[chosen] = self._priced_error()
            for group, candidate in zip(self.groups, kept, strict=True):
                group.chosen = candidate
        return self._known[chosen]

    def _priced_error(self) -> float:
        drafts = [_coarse(self.draft(i)) for i in range(len(self.wishes))]
        try:
            found = spend(
                self.share,
                drafts,
                self.budget,
                unlimited=self.unlimited,
                known=self.factors,
                rough=self.rough,
            )
        except BudgetError:
            return math.inf
        total, counted = 0.0, False
        known: dict[tuple[Options, Randomizer], float] = {}
        for wish, law, draft in zip(self.wishes, found, drafts, strict=True):
            if draft.width is not None:
                continue
            counted = True
            if (wish.options, law) not in known:
                known[wish.options, law] = wish.options.error(law)
            error = known[wish.options, law] / draft.sensitivity.largest_shift
            total += error * float(draft.weight)
        if counted:
            return total
        return self.budget.price(
            [priced(m, d.sensitivity) for m, d in zip(found, drafts, strict=True)]
        )

    def draft(self, i: int) -> Draft:
        """Return the draft of a column."""
        wish, group = self.wishes[i], self._group_of.get(i)
        if group is None:
            (candidate,) = self._line(wish.measure.mechanism.name, wish)
        else:
            candidate = group.chosen
        return wish.draft(candidate.family, dict(candidate.shape))

    def how(self, i: int) -> str:
        """Return how a column's mechanism was chosen."""
        if self.wishes[i].fixes(self.draft(i)):
            return "declared"
        return self._notes.get(i, "declared; its shape: least expected error")


def _kind(wish: Wish) -> object:
    """Return what columns of a kind have in common."""
    sensitivity = wish.measure.sensitivity
    largest = sensitivity.largest_shift
    moves = tuple((move.cells, move.shift == largest) for move in sensitivity.moves)
    declared = tuple(sorted(wish.measure.mechanism.shape.items()))
    # One step is the lattice's own scale; finer lattices are alike.
    fine = largest if largest <= 2 else 3
    accurate = wish.measure.wanted is not None
    return wish.measure.mechanism.name, declared, sensitivity.slots, moves, fine, accurate


def _cells(sensitivity: Sensitivity) -> int:
    return sensitivity.slots * max(move.cells for move in sensitivity.moves)


def _only_composed(kind: type[Randomizer]) -> bool:
    """Return whether a law gains under composition alone: never the best of a pure budget."""
    return kind.name == "symmetric_alpha_stable"


def _is_number(value: object) -> bool:
    try:
        float(str(value))
    except ValueError:
        return False
    return True


def _delta_share(wishes: Sequence[Wish], budget: Budget) -> Fraction:
    """Return the delta of one cell of laws that need one: equal shares of the budget's."""
    cells = sum(
        _cells(wish.measure.sensitivity)
        for wish in wishes
        if wish.is_auto
        or any(s.name == "delta" for s in registry.randomizer(wish.measure.mechanism.name).shapes)
    )
    return delta_of_cell(budget.delta, cells) if cells else Fraction(0)


def delta_of_cell(delta: Fraction, cells: int) -> Fraction:
    """Return the delta of one cell's law; the rest is what composing the cells needs."""
    if cells == 1 and delta >= ALONE:
        return delta * Fraction(1023, 1024)
    return delta / (2 * cells)


def _coarse(draft: Draft) -> Draft:
    """Return the draft with shifts of at most `COARSE` steps, so that alike columns merge.

    A draft with a declared accuracy, or with lengths in its shape, keeps its lattice.
    """
    largest = draft.sensitivity.largest_shift
    lengths = {shape.name for shape in draft.kind.shapes if shape.in_units} & draft.shape.keys()
    if largest <= COARSE or draft.width is not None or lengths:
        return draft
    moves = tuple(
        Move(max(1, round(move.shift * COARSE / largest)), move.cells)
        for move in draft.sensitivity.moves
    )
    return replace(draft, sensitivity=replace(draft.sensitivity, moves=moves))
