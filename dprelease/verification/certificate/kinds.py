"""Group the noisy vectors of a release by kind, and bound the total loss of each kind."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from fractions import Fraction

from dprelease.errors import BudgetError
from dprelease.mechanisms import registry
from dprelease.mechanisms.randomizer import Randomizer
from dprelease.privacy.event import Event
from dprelease.privacy.unit import Sensitivity
from dprelease.verification.certificate.neighbour_blocks import ProvenLosses
from dprelease.verification.certificate.proven_losses import proven_losses


@dataclass(frozen=True, slots=True)
class VectorKind:
    """All vectors with one mechanism and one sensitivity; `columns` has the name of each vector.

    Parts of a change that touch different cells have independent noise, and so have different
    vectors. So the composition of distributions that dominate the loss of each part dominates the
    loss of all parts together (Zhu, Dong and Wang 2022, arXiv 2106.08567v4, Theorem 10), also for
    adaptive composition.

    If several parts touch the same cell, their shifts add up there. The largest loss at a shift x +
    y is at most the sum of the largest losses at x and at y. The loss of normal noise, and the
    bound rho of discrete Gaussian noise, depend only on the L2 norm of the shift. No other facts
    about such cells are used.

    If only the sum of all changes is limited (`of_all_rows`), the proof of `Sensitivity` replaces
    the changes of any cells by those of `slots` parts.
    """

    mechanism: Randomizer
    losses: ProvenLosses
    sensitivity: Sensitivity
    columns: tuple[str, ...]

    @property
    def vector_count(self) -> int:
        """Return the number of vectors."""
        return len(self.columns)

    @property
    def parts_can_meet(self) -> bool:
        """Return whether several parts of a change may touch the same cell."""
        return self.sensitivity.meeting > 1

    @property
    def cells_of_unit(self) -> int:
        """Return the number of cells, in all vectors together, that one privacy unit can touch."""
        most = max(move.cells for move in self.sensitivity.moves)
        return self.vector_count * self.sensitivity.slots * most

    @property
    def largest_loss(self) -> Fraction | None:
        """Return a bound of the largest loss of all vectors together; None if unknown."""
        return self._sum_over_worst_moves(self.losses.largest, 1)

    @property
    def largest_loss_of_one(self) -> Fraction | None:
        """Return a bound of the largest loss of one vector; None if unknown."""
        largest = self.largest_loss
        return None if largest is None else largest / self.vector_count

    @property
    def mu_squared(self) -> Fraction | None:
        """Return mu^2 of all vectors together, if normal losses dominate theirs; otherwise None."""
        return self._sum_over_worst_moves(self.losses.mu_squared, self.sensitivity.meeting)

    def mu_squared_for_variance(self, variance: Fraction) -> Fraction | None:
        """Return mu^2 of all vectors together if their noise were normal with this variance."""
        return self._sum_over_worst_moves(
            lambda shift: Fraction(shift**2) / variance, self.sensitivity.meeting
        )

    @property
    def rho(self) -> Fraction | None:
        """Return a closed-form bound of D_a / a, over all orders a, for all vectors together.

        For noise with a largest loss epsilon and without a sharper bound, this is epsilon^2 / 2 for
        each part (Bun and Steinke 2016, arXiv 1605.02065v1, Proposition 1.4).
        """
        if not self.parts_can_meet:
            known = self._sum_over_worst_moves(self.losses.rho, 1)
            if known is not None:
                return known
            return self._sum_over_worst_moves(self._half_squared_loss, 1)
        if self.losses.by_squares:
            return self._sum_over_worst_moves(self.losses.rho, self.sensitivity.meeting)
        largest = self.largest_loss_of_one
        # A vector that is L-DP is L^2 / 2-zCDP, and the rhos of the vectors add up.
        return None if largest is None else self.vector_count * largest**2 / 2

    @property
    def exempt(self) -> Fraction:
        """Return the probability of the outputs of all vectors for which `rho` does not hold."""
        return self.cells_of_unit * self.losses.exempt

    @property
    def is_bounded_by_moments(self) -> bool:
        """Return whether D_a / a is bounded by moments of losses instead of a closed form."""
        # Largest losses are enough: they bound the moments, too.
        known = self.losses.moments is not None or self.largest_loss is not None
        return (
            known
            and not self.parts_can_meet
            and self._sum_over_worst_moves(self.losses.rho, 1) is None
        )

    def _half_squared_loss(self, shift: int) -> Fraction | None:
        """Return half of the squared largest loss at a shift; None if unknown."""
        largest = self.losses.largest(shift)
        return None if largest is None else largest**2 / 2

    def _sum_over_worst_moves(
        self, known: Callable[[int], Fraction | None], times: int
    ) -> Fraction | None:
        """Return the sum of a bound over the worst moves of all parts; None if unknown."""
        worst = Fraction(0)
        for move in self.sensitivity.moves:
            one = known(move.shift)
            if one is None:
                return None
            # A privacy unit makes one of these moves in each slot, so the worst one counts.
            worst = max(worst, move.cells * one)
        return self.vector_count * self.sensitivity.slots * times * worst


def vector_kinds_of(events: Sequence[Event]) -> list[VectorKind]:
    """Return the kinds of recorded vectors, at the current precision of the flint context.

    Raises BudgetError: DP-MECH-001 to 005 for an unknown mechanism or invalid parameters;
    DP-BUDGET-012 if the sensitivity follows from a limit of all rows, and holds only for other
    mechanisms.
    """
    named: dict[tuple[Randomizer, Sensitivity], list[str]] = {}
    for event in events:
        mechanism = registry.mechanism_of_event(event)
        if event.sensitivity.of_all_rows and not mechanism.costs_most_in_few_cells:
            raise BudgetError("DP-BUDGET-012", column=event.column, mechanism=mechanism.name)
        named.setdefault((mechanism, event.sensitivity), []).append(f"{event.query}.{event.column}")
    # All sensitivities of a mechanism share its losses, so its tails are summed once.
    proven = {mechanism: proven_losses(mechanism) for mechanism, _ in named}
    return [
        VectorKind(mechanism, proven[mechanism], sensitivity, tuple(columns))
        for (mechanism, sensitivity), columns in named.items()
    ]


def sum_if_known(parts: Sequence[Fraction | None]) -> Fraction | None:
    """Return the sum of several numbers; None if a number is unknown."""
    return None if None in parts else sum((part or Fraction(0) for part in parts), Fraction(0))
