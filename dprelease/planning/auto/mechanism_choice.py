"""Find each column's family and shape: declared, or the one with the least expected error."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from dprelease.errors import BudgetError
from dprelease.mechanisms import registry
from dprelease.planning.auto.candidates import (
    Candidate,
    Group,
    cells_of,
    delta_share,
    families_of,
    kind_of,
    line_of,
    open_number,
)
from dprelease.planning.auto.expected_error import Pricing, percent
from dprelease.planning.auto.ledger_cost import LedgerCost
from dprelease.planning.budget_shares import Share
from dprelease.planning.calibration import Factors, UnscaledNoise
from dprelease.planning.noise_requests import NoiseRequest
from dprelease.privacy.budget import Budget
from dprelease.privacy.calibrate import lowest

PROMISING = 1.1
"""Families whose best common shape is within this factor of the best get a shape for each kind of
column; each family declares whether other shapes are tried at all (`auto.within`)."""

MOST_GROUPS, MOST_FAMILIES = 6, 4

BETTER = 1 - 1e-3
"""A kind of column changes its mechanism for a gain of one part in a thousand."""

SHAPED = 1 - 2e-4
"""And its shape for a fifth of that gain, about the precision of approximate costs."""

STEPS, ENOUGH = 3, 1e-4
"""Parabolas through the best shape and its neighbours, and the gain that justifies another."""

CLOSE, MOST_CLOSE = 1.01, 5
"""Choices within this approximate factor of the best are computed exactly, up to so many."""


def noises_of(
    requests: Sequence[NoiseRequest],
    share: Share,
    budget: Budget,
    *,
    unlimited: bool = False,
    charged: LedgerCost | None = None,
    known: Factors | None = None,
) -> tuple[list[UnscaledNoise], list[str]]:
    """Return the noises of least expected error, and how each was selected.

    Columns of a kind share one candidate. For each promising family, one shape is sought for all
    open columns, then one for each kind, then finer ones in between. The error is the sum over all
    columns, each in units of its sensitivity and times its weight, when the release spends its
    whole budget. Then each kind may change to another family if that gains. If all columns declare
    an accuracy, the candidate of the least cost is selected.

    Candidates are compared by approximate costs; those that are close, by exact ones, and
    impossible ones are dropped. `charged`: the ledger's measure, see `Pricing`; `known` stores the
    solved factors of the noises.

    Raises
    ------
    BudgetError
        DP-BUDGET-003, DP-MECH-001 to 005, and DP-BUDGET-004 if no candidate fits.
    """
    for request in requests:
        request.check(budget)
    factors = {} if known is None else known
    search = _Search(Pricing(requests, share, budget, unlimited, charged, factors))
    if search.groups:
        try:
            search.run()
        except BudgetError:
            if charged is None:
                raise
            # Noise that the ledger can't count is left to a first release, which may take the whole
            # budget.
            return noises_of(requests, share, budget, unlimited=unlimited, known=known)
    noises = search.pricing.noises(search.columns(search.chosen))
    return noises, [search.how(i, noise) for i, noise in enumerate(noises)]


DECLARED = "declared; its parameters: least expected error"

Chosen = tuple[Candidate, ...]
"""One candidate for each group."""


@dataclass
class _Search:
    pricing: Pricing
    groups: list[Group] = field(default_factory=list)
    chosen: Chosen = ()
    _errors: dict[Chosen, float] = field(default_factory=dict)
    _notes: dict[int, str] = field(default_factory=dict)
    _settled: list[Chosen] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.requests = self.pricing.requests
        self.delta = delta_share(self.requests, self.pricing.budget)
        self.fixed = {}
        kinds: dict[object, list[int]] = {}
        for i, request in enumerate(self.requests):
            name = request.measurement.mechanism.name
            line = [] if request.is_auto else self._line(name, request)
            if len(line) == 1:
                self.fixed[i] = line[0]
            else:
                kinds.setdefault(kind_of(request), []).append(i)
        self._group(list(kinds.values()))

    def _group(self, kinds: list[list[int]], *, all_of_them: bool = False) -> None:
        open_requests = (self.requests[i] for columns in kinds for i in columns)
        cells = sum(cells_of(request.measurement.sensitivity) for request in open_requests)
        self.groups = []
        for columns in kinds:
            request = self.requests[columns[0]]
            budget = self.pricing.budget
            families = families_of(
                request, budget, cells, charged=self.pricing.charged, all_of_them=all_of_them
            )
            if not families:
                reason = "no mechanism meets the requirements of `auto`"
                raise BudgetError("DP-BUDGET-004", place=request.place, reason=reason)
            self.groups.append(Group(columns, families, request))
        self.chosen = tuple(self._first(group) for group in self.groups)

    def _line(self, family: str, request: NoiseRequest) -> list[Candidate]:
        return line_of(family, request, self.delta)

    def _first(self, group: Group, family: str = "") -> Candidate:
        """Return a family's first candidate; the group's own first one if it is not admitted."""
        name = family if family in group.families else group.families[0]
        return self._line(name, group.request)[0]

    def columns(self, choice: Chosen) -> list[Candidate]:
        """Return the candidates of all columns."""
        candidates = dict(self.fixed)
        for group, candidate in zip(self.groups, choice, strict=True):
            candidates.update(dict.fromkeys(group.columns, candidate))
        return [candidates[i] for i in range(len(self.requests))]

    def run(self) -> None:
        """Select noises; try all families if the usual ones leave nothing possible."""
        self._choose()
        if self._settle():
            return
        first = self.pricing.why(map(self.columns, dict.fromkeys([self.chosen, *self._settled])))
        if any(group.is_auto for group in self.groups):
            self._errors.clear()
            self._group([group.columns for group in self.groups], all_of_them=True)
            self._choose()
            if self._settle():
                return
        place = self.requests[self.groups[0].columns[0]].place
        reason = "no candidate meets the requirements"
        raise first or BudgetError("DP-BUDGET-004", place=place, reason=reason)

    def _choose(self) -> None:
        """Select approximately: all groups together, then shapes, then each kind separately."""
        autos = [i for i, group in enumerate(self.groups) if group.is_auto]
        declared: dict[object, list[int]] = {}
        for i, group in enumerate(self.groups):
            if not group.is_auto:
                line = tuple(self._line(group.families[0], group.request))
                declared.setdefault(line, []).append(i)
        choice = self.chosen
        for places in declared.values():
            choice = self._shape(choice, places)
        if autos:
            choice = self._by_family(choice, autos)
            for place in autos[:MOST_GROUPS] if len(autos) > 1 else []:
                choice = self._leave_family(choice, place)
        self.chosen = choice

    def _by_family(self, choice: Chosen, autos: list[int]) -> Chosen:
        """Return all groups with the best single family; store the errors of the best few."""
        names = dict.fromkeys(name for i in autos for name in self.groups[i].families)
        first = {name: _with(choice, dict(self._first_of_family(autos, name))) for name in names}
        errors = {name: self._error(start) for name, start in first.items()}
        within = {name: registry.get(name).auto.within for name in names}
        self._shape_families(self._climb, first, errors, within)
        self._shape_families(self._shape, first, errors, dict.fromkeys(names, PROMISING))
        # Ties up to rounding errors are resolved by name, so that a plan is always the same.
        order = sorted(errors, key=lambda name: (float(f"{errors[name]:.9g}"), name))
        self._note(autos, order, errors)
        self._settled = [first[name] for name in order[:MOST_FAMILIES]]
        return first[order[0]]

    def _shape_families(
        self,
        shaped: Callable[[Chosen, Sequence[int]], Chosen],
        first: dict[str, Chosen],
        errors: dict[str, float],
        within: Mapping[str, float],
    ) -> None:
        """Search the shapes of families that are within a factor of the best, best first."""
        best = min(errors.values())
        for name in sorted(errors, key=lambda name: errors[name]):
            if errors[name] <= within[name] * best and math.isfinite(errors[name]):
                families = [group.families for group in self.groups]
                places = [i for i, own in enumerate(families) if self._is_of(i, name, own)]
                first[name] = shaped(first[name], places)
                errors[name] = self._error(first[name])

    def _is_of(self, place: int, name: str, families: Sequence[str]) -> bool:
        return self.groups[place].is_auto and name in families

    def _first_of_family(self, places: Sequence[int], family: str) -> list[tuple[int, Candidate]]:
        return [(i, self._first(self.groups[i], family)) for i in places]

    def _note(self, autos: list[int], order: list[str], errors: Mapping[str, float]) -> None:
        least = errors[order[0]]
        alternatives = [
            f"{name} +{percent(errors[name] / least - 1)} %"
            for name in order[1:4]
            if math.isfinite(errors[name]) and least > 0
        ]
        for i in autos:
            note = self._least(self.groups[i])
            if alternatives:
                note += f"; error of others: {', '.join(alternatives)}"
            self._notes[i] = note

    def _least(self, group: Group) -> str:
        counted = self.pricing.charged
        charge = "" if counted is None else f"; for the {counted.value} that the ledger counts"
        return f"auto: least {group.request.options.measure}{charge}"

    def _shape(self, choice: Chosen, places: Sequence[int]) -> Chosen:
        """Search the shapes of groups with one family: of all, then of each, then finer."""
        choice = self._climb(choice, places)
        if 1 < len(places) <= MOST_GROUPS:
            for place in places:
                choice = self._climb(choice, [place])
            choice = self._slide(choice, places)
        shared: dict[Candidate, list[int]] = {}
        for place in places:
            shared.setdefault(choice[place], []).append(place)
        for alike in shared.values():
            choice = self._refine(choice, alike)
        return choice

    def _climb(self, choice: Chosen, places: Sequence[int]) -> Chosen:
        """Move along a family's shapes from the current ones, while the error does not rise.

        In a long list, large strides come first.
        """
        row = self._row(choice, places[0])
        # A kind's gain over the common shape must exceed the noise of approximate costs.
        least = self._error(choice) * (SHAPED if len(places) < len(self.groups) else 1.0)
        stride = 2 ** max(0, (len(row) // 8).bit_length())
        while stride:
            start = choice[places[0]]
            first = row.index(start) if start in row else 0
            for step in (stride, -stride):
                at, last = first + step, least
                before = self._error(choice)
                while 0 <= at < len(row):
                    tried = _with(choice, dict.fromkeys(places, row[at]))
                    error = self._error(tried)
                    if error < least:
                        least, choice = error, tried
                    if error > before:
                        break
                    at, before = at + step, error
                if least < last:
                    break
            stride //= 2
        return choice

    def _slide(self, choice: Chosen, places: Sequence[int]) -> Chosen:
        """Move all groups by one step of their lists, while that gains: along a ridge of shapes."""
        for step in (1, -1):
            while True:
                moved = {place: self._alternatives(choice, place, step) for place in places}
                tried = _with(choice, {i: near for i, near in moved.items() if near is not None})
                if None in moved.values() or not self._error(tried) < self._error(choice):
                    break
                choice = tried
        return choice

    def _alternatives(self, choice: Chosen, place: int, step: int) -> Candidate | None:
        row, present = self._row(choice, place), choice[place]
        at = row.index(present) + step if present in row else -1
        return row[at] if 0 <= at < len(row) else None

    def _row(self, choice: Chosen, place: int) -> list[Candidate]:
        """Return the candidates of a group's present family, by their numbers."""
        line = self._line(choice[place].family, self.groups[place].request)
        return sorted(line, key=Candidate.numbers)

    def _refine(self, choice: Chosen, places: Sequence[int]) -> Chosen:
        """Try the minimum of a parabola through the best shape and its neighbours."""
        row = self._row(choice, places[0])
        start, name = choice[places[0]], open_number(row)
        if name is None or start not in row or math.isinf(self._error(choice)):
            return choice

        def at(value: float) -> tuple[float, float]:
            tried = dict.fromkeys(places, start.but(name, value))
            return value, self._error(_with(choice, tried))

        near = row[max(0, row.index(start) - 1) : row.index(start) + 2]
        points = [at(float(dict(candidate.shape)[name])) for candidate in near]
        if len(points) == 2:
            points.append(at(float(f"{(points[0][0] + points[1][0]) / 2:.6g}")))
        for _ in range(STEPS):
            value = lowest(sorted(points))
            if value is None or any(math.isclose(value, x, rel_tol=1e-3) for x, _ in points):
                break
            least = min(error for _, error in points)
            points.append(at(value))
            if points[-1][1] > least * (1 - ENOUGH):
                break
        value, error = min(points, key=lambda point: point[1])
        finer = _with(choice, dict.fromkeys(places, start.but(name, value)))
        return finer if error < self._error(choice) else choice

    def _leave_family(self, choice: Chosen, place: int) -> Chosen:
        """Let one group leave the common family if that gains."""
        before = self._error(choice)
        tried = [_with(choice, {place: other[place]}) for other in self._settled]
        best = min(tried, key=self._error)
        if not self._error(best) < before * BETTER:
            return choice
        best = self._refine(self._climb(best, [place]), [place])
        gain = 100 * (1 - self._error(best) / before)
        least = self._least(self.groups[place])
        over = choice[place].family
        self._notes[place] = f"{least}; errors of the release {gain:.3g} % smaller than with {over}"
        return best

    def _error(self, choice: Chosen) -> float:
        if choice not in self._errors:
            self._errors[choice] = self.pricing.rough(self.columns(choice))
        return self._errors[choice]

    def _settle(self) -> bool:
        """Compare the approximately best choices exactly; return whether one is possible.

        An impossible choice is replaced by the next of all that were tried.
        """
        ranked = sorted(
            dict.fromkeys([*self._settled, *self._twins(), self.chosen]), key=self._error
        )
        limit, priced = math.inf, list[tuple[float, Chosen]]()
        for choice in ranked:
            rough = self._error(choice)
            if rough > limit or math.isinf(rough) or len(priced) == MOST_CLOSE:
                break
            true = self.pricing.true(self.columns(choice))
            if math.isfinite(true):
                limit = min(limit, CLOSE * rough)
                priced.append((true, choice))
        if not priced:
            priced = self._any(set(ranked))
        if priced:
            self.chosen = min(priced, key=lambda pair: pair[0])[1]
        return bool(priced)

    def _any(self, seen: set[Chosen]) -> list[tuple[float, Chosen]]:
        """Return the first possible one of all other choices, approximately best first."""
        for choice in sorted(self._errors, key=self._error):
            if choice not in seen and math.isfinite(self._error(choice)):
                true = self.pricing.true(self.columns(choice))
                if math.isfinite(true):
                    return [(true, choice)]
        return []

    def _twins(self) -> list[Chosen]:
        """Return the choice with rounded distributions instead of integer ones, if better."""
        instead: dict[int, Candidate] = {}
        for i, group in enumerate(self.groups):
            twin = self.chosen[i].twin
            if group.is_auto and twin and group.request.options.admit(registry.get(twin.family)):
                instead[i] = twin
        choice = _with(self.chosen, instead)
        return [choice] if self._error(choice) < self._error(self.chosen) * SHAPED else []

    def how(self, i: int, noise: UnscaledNoise) -> str:
        """Return how a column's mechanism was selected, in words."""
        if self.requests[i].fixes(noise):
            return "declared"
        place = next((n for n, group in enumerate(self.groups) if i in group.columns), None)
        return self._notes.get(-1 if place is None else place, DECLARED)


def _with(choice: Chosen, instead: Mapping[int, Candidate]) -> Chosen:
    return tuple(instead.get(i, candidate) for i, candidate in enumerate(choice))
