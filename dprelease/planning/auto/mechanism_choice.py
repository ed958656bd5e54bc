"""Find the family and shape of each column, as declared or with the least expected error."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from dprelease.errors import BudgetError
from dprelease.mechanisms import registry
from dprelease.planning.auto.candidates import (
    Candidate,
    Choice,
    ColumnGroup,
    ErrorEstimator,
    candidates_of_family,
    cells_of,
    delta_of_each_cell,
    families_of,
    group_key,
    percent_text,
    varying_parameter,
    with_candidates,
)
from dprelease.planning.budget_shares import Share
from dprelease.planning.calibration import Factors, UnscaledNoise
from dprelease.planning.guarantees import LedgerCost
from dprelease.planning.noise_requests import NoiseRequest
from dprelease.privacy.budget import Budget
from dprelease.privacy.calibrate import parabola_minimum

PROMISING_FACTOR = 1.1
"""If the error of a family with its best common shape is within this factor of the least error,
shapes are searched for each group of columns. Each family also declares such a factor for the
search of a common shape (`AutoRule.largest_error_ratio`)."""

MOST_SEPARATE_GROUPS, MOST_FAMILIES = 6, 4

FAMILY_GAIN = 1 - 1e-3
"""A group of columns gets another family if this reduces the error by one part in a thousand."""

SHAPE_GAIN = 1 - 2e-4
"""A group gets another shape for a fifth of that gain, the precision of approximate costs."""

PARABOLAS, PARABOLA_GAIN = 3, 1e-4
"""Maximum number of parabolas, and the gain of one that justifies the next."""

CLOSE_FACTOR, MOST_EXACT = 1.01, 5
"""Exact errors are computed for choices within this factor of the best, up to so many choices."""


def noises_of(
    requests: Sequence[NoiseRequest],
    share: Share,
    budget: Budget,
    *,
    unlimited: bool = False,
    charged: LedgerCost | None = None,
    known: Factors | None = None,
) -> tuple[list[UnscaledNoise], list[str]]:
    """Return the noises of least expected error, and a text on how each was selected.

    Similar columns form a group, with the same candidate. For each promising family, one shape is
    searched for all groups, then one for each group, then shapes in between. Then each group may
    change to another family. The error is the weighted sum of the errors of all columns, each in
    units of its sensitivity, when the release spends its whole budget. If all columns declare an
    accuracy, the candidates of the least cost are selected.

    Candidates are compared by approximate costs, and the best of them by exact costs. `charged` is
    the ledger's measure, see `ErrorEstimator`. `known` stores the solved factors of the noises.

    Raises BudgetError: DP-BUDGET-003, DP-MECH-001 to 005, and DP-BUDGET-004 if no candidate fits.
    """
    for request in requests:
        request.check(budget)
    factors = {} if known is None else known
    search = _NoiseSearch(ErrorEstimator(requests, share, budget, unlimited, charged, factors))
    if search.groups:
        try:
            search.select_noises()
        except BudgetError:
            if charged is None:
                raise
            # A first release may take a ledger's whole budget with noise that it can't count.
            return noises_of(requests, share, budget, unlimited=unlimited, known=known)
    noises = search.estimator.noises(search.columns(search.selected))
    return noises, [search.origin_text(i, noise) for i, noise in enumerate(noises)]


DECLARED = "declared; its parameters: least expected error"


@dataclass
class _NoiseSearch:
    """Searches the candidates of all groups of columns for the least error of the release."""

    estimator: ErrorEstimator
    groups: list[ColumnGroup] = field(default_factory=list)
    selected: Choice = ()
    _errors: dict[Choice, float] = field(default_factory=dict)
    _origin_texts: dict[int, str] = field(default_factory=dict)
    _family_choices: list[Choice] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.requests = self.estimator.requests
        self.delta = delta_of_each_cell(self.requests, self.estimator.budget)
        self.fixed = {}
        kinds: dict[object, list[int]] = {}
        for i, request in enumerate(self.requests):
            name = request.measurement.mechanism.name
            candidates = [] if request.is_auto else self._candidates(name, request)
            if len(candidates) == 1:
                self.fixed[i] = candidates[0]
            else:
                kinds.setdefault(group_key(request), []).append(i)
        self._set_groups(list(kinds.values()))

    def _set_groups(self, kinds: list[list[int]], *, unpromising: bool = False) -> None:
        """Set the groups of columns, each with its families and its first candidate."""
        open_requests = (self.requests[i] for columns in kinds for i in columns)
        cells = sum(cells_of(request.measurement.sensitivity) for request in open_requests)
        self.groups = []
        for columns in kinds:
            request = self.requests[columns[0]]
            budget, charged = self.estimator.budget, self.estimator.charged
            families = families_of(request, budget, cells, charged=charged, unpromising=unpromising)
            if not families:
                reason = "no mechanism meets the requirements of `auto`"
                raise BudgetError("DP-BUDGET-004", place=request.place, reason=reason)
            self.groups.append(ColumnGroup(columns, families, request))
        self.selected = tuple(self._first_candidate(group) for group in self.groups)

    def _candidates(self, family: str, request: NoiseRequest) -> list[Candidate]:
        return candidates_of_family(family, request, self.delta)

    def _first_candidate(self, group: ColumnGroup, family: str = "") -> Candidate:
        """Return the first candidate of a family, or of the group's families without this one."""
        name = family if family in group.families else group.families[0]
        return self._candidates(name, group.request)[0]

    def columns(self, choice: Choice) -> list[Candidate]:
        """Return the candidates of all columns."""
        candidates = dict(self.fixed)
        for group, candidate in zip(self.groups, choice, strict=True):
            candidates.update(dict.fromkeys(group.columns, candidate))
        return [candidates[i] for i in range(len(self.requests))]

    def select_noises(self) -> None:
        """Select noises; if none of the usual families is possible, search all families."""
        self._select_approximately()
        if self._select_exactly():
            return
        choices = dict.fromkeys([self.selected, *self._family_choices])
        first_error = self.estimator.least_cost_error(map(self.columns, choices))
        if any(group.is_auto for group in self.groups):
            self._errors.clear()
            self._set_groups([group.columns for group in self.groups], unpromising=True)
            self._select_approximately()
            if self._select_exactly():
                return
        place = self.requests[self.groups[0].columns[0]].place
        reason = "no candidate meets the requirements"
        raise first_error or BudgetError("DP-BUDGET-004", place=place, reason=reason)

    def _select_approximately(self) -> None:
        """Select candidates by approximate errors: a family, then shapes, then for each group."""
        autos = [i for i, group in enumerate(self.groups) if group.is_auto]
        declared: dict[object, list[int]] = {}
        for i, group in enumerate(self.groups):
            if not group.is_auto:
                candidates = tuple(self._candidates(group.families[0], group.request))
                declared.setdefault(candidates, []).append(i)
        choice = self.selected
        for indexes in declared.values():
            choice = self._search_shape(choice, indexes)
        if autos:
            choice = self._select_family(choice, autos)
            for index in autos[:MOST_SEPARATE_GROUPS] if len(autos) > 1 else []:
                choice = self._try_other_families(choice, index)
        self.selected = choice

    def _select_family(self, choice: Choice, autos: list[int]) -> Choice:
        """Return the choice with the best family for all groups; store the best few choices."""
        names = dict.fromkeys(name for i in autos for name in self.groups[i].families)
        first = {n: with_candidates(choice, dict(self._first_candidates(autos, n))) for n in names}
        errors = {name: self._error(start) for name, start in first.items()}
        within = {name: registry.get(name).auto_rule.largest_error_ratio for name in names}
        self._search_shapes(self._hill_climb, first, errors, within)
        promising = dict.fromkeys(names, PROMISING_FACTOR)
        self._search_shapes(self._search_shape, first, errors, promising)
        # Ties up to rounding errors are resolved by name, so that a plan is always the same.
        order = sorted(errors, key=lambda name: (float(f"{errors[name]:.9g}"), name))
        self._set_origin_texts(autos, order, errors)
        self._family_choices = [first[name] for name in order[:MOST_FAMILIES]]
        return first[order[0]]

    def _search_shapes(
        self,
        search_shape: Callable[[Choice, Sequence[int]], Choice],
        first: dict[str, Choice],
        errors: dict[str, float],
        within: Mapping[str, float],
    ) -> None:
        """Search shapes of the families whose error is within a factor of the best error.

        The best families come first. The results replace those in `first` and `errors`.
        """
        best = min(errors.values())
        for name in sorted(errors, key=lambda name: errors[name]):
            if errors[name] <= within[name] * best and math.isfinite(errors[name]):
                indexes = [i for i in range(len(self.groups)) if self._may_use_family(i, name)]
                first[name] = search_shape(first[name], indexes)
                errors[name] = self._error(first[name])

    def _may_use_family(self, index: int, name: str) -> bool:
        return self.groups[index].is_auto and name in self.groups[index].families

    def _first_candidates(self, indexes: Sequence[int], family: str) -> list[tuple[int, Candidate]]:
        return [(i, self._first_candidate(self.groups[i], family)) for i in indexes]

    def _set_origin_texts(
        self, autos: list[int], order: list[str], errors: Mapping[str, float]
    ) -> None:
        least = errors[order[0]]
        alternatives = [
            f"{name} +{percent_text(errors[name] / least - 1)} %"
            for name in order[1:4]
            if math.isfinite(errors[name]) and least > 0
        ]
        others = f"; error of others: {', '.join(alternatives)}" if alternatives else ""
        for i in autos:
            self._origin_texts[i] = self._least_error_text(self.groups[i]) + others

    def _least_error_text(self, group: ColumnGroup) -> str:
        counted = self.estimator.charged
        charge = "" if counted is None else f"; for the {counted.value} that the ledger counts"
        return f"auto: least {group.request.options.measure}{charge}"

    def _search_shape(self, choice: Choice, indexes: Sequence[int]) -> Choice:
        """Search shapes for groups of one family: a common shape, then one for each group."""
        choice = self._hill_climb(choice, indexes)
        if 1 < len(indexes) <= MOST_SEPARATE_GROUPS:
            for index in indexes:
                choice = self._hill_climb(choice, [index])
            choice = self._move_together(choice, indexes)
        indexes_of: dict[Candidate, list[int]] = {}
        for index in indexes:
            indexes_of.setdefault(choice[index], []).append(index)
        for equal in indexes_of.values():
            choice = self._fit_parabola(choice, equal)
        return choice

    def _hill_climb(self, choice: Choice, indexes: Sequence[int]) -> Choice:
        """Move groups along the sorted shapes of their family while the error does not rise.

        In a long list of shapes, large strides come first.
        """
        ordered = self._sorted_candidates(choice, indexes[0])
        # A group's gain over the common shape must exceed the inaccuracy of approximate costs.
        least = self._error(choice) * (SHAPE_GAIN if len(indexes) < len(self.groups) else 1.0)
        stride = 2 ** max(0, (len(ordered) // 8).bit_length())
        while stride:
            start = choice[indexes[0]]
            first = ordered.index(start) if start in ordered else 0
            for step in (stride, -stride):
                at, last = first + step, least
                before = self._error(choice)
                while 0 <= at < len(ordered):
                    trial = with_candidates(choice, dict.fromkeys(indexes, ordered[at]))
                    error = self._error(trial)
                    if error < least:
                        least, choice = error, trial
                    if error > before:
                        break
                    at, before = at + step, error
                if least < last:
                    break
            stride //= 2
        return choice

    def _move_together(self, choice: Choice, indexes: Sequence[int]) -> Choice:
        """Move all groups by one step along their sorted shapes, while the error falls."""
        for step in (1, -1):
            while True:
                neighbours = {i: self._next_candidate(choice, i, step) for i in indexes}
                moved = {i: candidate for i, candidate in neighbours.items() if candidate}
                trial = with_candidates(choice, moved)
                if None in neighbours.values() or not self._error(trial) < self._error(choice):
                    break
                choice = trial
        return choice

    def _next_candidate(self, choice: Choice, index: int, step: int) -> Candidate | None:
        """Return the candidate `step` steps from a group's chosen candidate; None at an end."""
        ordered, present = self._sorted_candidates(choice, index), choice[index]
        at = ordered.index(present) + step if present in ordered else -1
        return ordered[at] if 0 <= at < len(ordered) else None

    def _sorted_candidates(self, choice: Choice, index: int) -> list[Candidate]:
        """Return the candidates of a group's family, sorted by the numbers in their shapes."""
        candidates = self._candidates(choice[index].family, self.groups[index].request)
        return sorted(candidates, key=Candidate.numbers)

    def _fit_parabola(self, choice: Choice, indexes: Sequence[int]) -> Choice:
        """Try the shape at the minimum of a parabola through the best shape and its neighbours."""
        ordered = self._sorted_candidates(choice, indexes[0])
        start, name = choice[indexes[0]], varying_parameter(ordered)
        if name is None or start not in ordered or math.isinf(self._error(choice)):
            return choice

        def at(value: float) -> tuple[float, float]:
            trial = dict.fromkeys(indexes, start.with_parameter(name, value))
            return value, self._error(with_candidates(choice, trial))

        nearby = ordered[max(0, ordered.index(start) - 1) : ordered.index(start) + 2]
        points = [at(float(dict(candidate.shape)[name])) for candidate in nearby]
        if len(points) == 2:
            points.append(at(float(f"{(points[0][0] + points[1][0]) / 2:.6g}")))
        for _ in range(PARABOLAS):
            value = parabola_minimum(sorted(points))
            if value is None or any(math.isclose(value, x, rel_tol=1e-3) for x, _ in points):
                break
            least = min(error for _, error in points)
            points.append(at(value))
            if points[-1][1] > least * (1 - PARABOLA_GAIN):
                break
        value, error = min(points, key=lambda point: point[1])
        finer = with_candidates(choice, dict.fromkeys(indexes, start.with_parameter(name, value)))
        return finer if error < self._error(choice) else choice

    def _try_other_families(self, choice: Choice, index: int) -> Choice:
        """Return the choice with another family for one group, if it reduces the error."""
        before = self._error(choice)
        trials = [with_candidates(choice, {index: other[index]}) for other in self._family_choices]
        best = min(trials, key=self._error)
        if not self._error(best) < before * FAMILY_GAIN:
            return choice
        best = self._fit_parabola(self._hill_climb(best, [index]), [index])
        gain = 100 * (1 - self._error(best) / before)
        least = self._least_error_text(self.groups[index])
        gain_text = f"errors of the release {gain:.3g} % smaller than with {choice[index].family}"
        self._origin_texts[index] = f"{least}; {gain_text}"
        return best

    def _error(self, choice: Choice) -> float:
        """Return the approximate error of a choice, which is computed once."""
        if choice not in self._errors:
            self._errors[choice] = self.estimator.approximate_error(self.columns(choice))
        return self._errors[choice]

    def _select_exactly(self) -> bool:
        """Select the best choice by exact errors; return whether any choice is possible.

        If none of the best choices is possible, the next of all evaluated choices is selected.
        """
        choices = dict.fromkeys([*self._family_choices, *self._rounded_choice(), self.selected])
        ranked = sorted(choices, key=self._error)
        limit, possible = math.inf, list[tuple[float, Choice]]()
        for choice in ranked:
            rough = self._error(choice)
            if rough > limit or math.isinf(rough) or len(possible) == MOST_EXACT:
                break
            exact_error = self.estimator.exact_error(self.columns(choice))
            if math.isfinite(exact_error):
                limit = min(limit, CLOSE_FACTOR * rough)
                possible.append((exact_error, choice))
        if not possible:
            possible = self._first_possible(set(ranked))
        if possible:
            self.selected = min(possible, key=lambda pair: pair[0])[1]
        return bool(possible)

    def _first_possible(self, seen: set[Choice]) -> list[tuple[float, Choice]]:
        """Return the exact error and the best possible choice that was evaluated but not `seen`."""
        for choice in sorted(self._errors, key=self._error):
            if choice not in seen and math.isfinite(self._error(choice)):
                exact_error = self.estimator.exact_error(self.columns(choice))
                if math.isfinite(exact_error):
                    return [(exact_error, choice)]
        return []

    def _rounded_choice(self) -> list[Choice]:
        """Return the choice with rounded continuous distributions, if its error is smaller."""
        replacements: dict[int, Candidate] = {}
        for i, group in enumerate(self.groups):
            variant = self.selected[i].rounded_variant
            admits = group.request.options.admits
            if group.is_auto and variant and admits(registry.get(variant.family)):
                replacements[i] = variant
        choice = with_candidates(self.selected, replacements)
        return [choice] if self._error(choice) < self._error(self.selected) * SHAPE_GAIN else []

    def origin_text(self, i: int, noise: UnscaledNoise) -> str:
        """Return a text on how the mechanism of a column was selected."""
        if self.requests[i].determines(noise):
            return "declared"
        index = next((n for n, group in enumerate(self.groups) if i in group.columns), None)
        return self._origin_texts.get(-1 if index is None else index, DECLARED)
