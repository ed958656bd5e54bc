"""The privacy unit, the neighbouring relation, contribution limits and exact sensitivities."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import Self

from dprelease.errors.printable import count_text


class Neighbours(StrEnum):
    """The neighbouring relation: how two neighbouring tables differ in one privacy unit."""

    ADD_REMOVE = "add_remove"
    REPLACE = "replace"


@dataclass(frozen=True, slots=True)
class PrivacyUnit:
    """The privacy unit, and the limits of its contribution to one query.

    `id` is the column that identifies the privacy unit. If it is None, every row is a separate
    privacy unit, and both limits are 1. After contribution limits, a privacy unit has rows in at
    most `max_groups` groups, and at most `max_rows_per_group` rows in each of these groups.
    """

    id: str | None = None
    max_groups: int = 1
    max_rows_per_group: int = 1

    @property
    def contribution_limits_text(self) -> str:
        """Return a text on contribution limits, which is empty if every row is a privacy unit."""
        if self.id is None:
            return ""
        rows = count_text(self.max_rows_per_group, "row", "rows")
        groups = count_text(self.max_groups, "group", "groups")
        within = f"in {groups}" if self.max_groups == 1 else f"in each of at most {groups}"
        return (
            f"computed after contribution limits: each '{self.id}' counts with at most {rows} "
            f"{within}. Further rows, and rows without '{self.id}', are left out; no margin of "
            "error covers this"
        )


@dataclass(frozen=True, slots=True)
class Move:
    """A change of `cells` cells, each by at most `shift` steps, up or down."""

    shift: int
    cells: int


@dataclass(frozen=True, slots=True)
class Sensitivity:
    """The largest changes of a vector of integers that one privacy unit can cause.

    A change that one privacy unit causes has at most `slots` parts, which touch different cells,
    and each part is one of `moves`. So the privacy loss of the vector is at most the loss of
    `slots` independent copies of the worst move.

    If `meeting` is above 1, up to `meeting` parts may touch the same cell, where they add up; see
    `of_sums`. `priced_vector.priced_vector` prepares such a vector for the accountant.
    """

    slots: int
    moves: tuple[Move, ...]
    meeting: int = 1

    def __str__(self) -> str:
        """Return a text slots x cells x shift, such as "3 x 1 x 50" or "2 x (2 x 10 or 1 x 15)"."""
        moves = " or ".join(f"{move.cells} x {move.shift:,}" for move in self.moves)
        together = f", up to {self.meeting} in the same cells" if self.meeting > 1 else ""
        return f"{self.slots} x {moves if len(self.moves) == 1 else f'({moves})'}{together}"

    @classmethod
    def of(
        cls,
        *,
        per_group: int,
        within_group: int,
        unit: PrivacyUnit,
        neighbours: Neighbours,
        cells: int,
    ) -> Self:
        """Return the sensitivity of a vector of `cells` cells, one for each group.

        `per_group` is the largest number of steps by which the cell of a group moves if all rows of
        one privacy unit in this group appear or disappear. `within_group` is the largest number of
        steps by which the cell moves if other rows, or no rows, replace these rows.

        For `ADD_REMOVE`, at most `max_groups` cells move by `per_group`. For `REPLACE`, there are
        two cases for each of the `max_groups` groups: either the privacy unit stays in the group,
        and one cell moves by `within_group`, or the privacy unit leaves for another group, and two
        cells move by `per_group`. If the vector has only one cell, no other group exists.
        """
        slots = min(unit.max_groups, cells)
        if neighbours is Neighbours.ADD_REMOVE:
            return cls(slots=slots, moves=(Move(per_group, 1),))
        if cells == 1:
            return cls(slots=1, moves=(Move(within_group, 1),))
        moves: tuple[Move, ...] = (Move(per_group, 2),)
        if within_group > per_group:
            moves = (Move(within_group, 1), *moves)
        return cls(slots=slots, moves=moves)

    def of_sums(self, cells: int, most: int) -> Self:
        """Return the sensitivity of a vector of `cells` sums over the cells of this vector.

        Each cell of this vector belongs to one sum, and each sum has at most `most` of these cells.

        Proof. Let f be the change of this vector, and d the change of the sums. With n = slots, let
        c_1, ..., c_n be the changes of the sums that the n parts of f cause. Let S be the largest
        squared L2 norm of a move, so |f|^2 <= n S. If a part moves two cells of the same sum by x
        and -y, the sum moves by |x - y|. Replacing the rows of a privacy unit in one group by other
        rows has the same effect, which is also a move (see `within_group` in `of`) or is bounded by
        a move. So |c_i|^2 <= S and |d| <= |c_1| + ... + |c_n| <= n sqrt(S). Each entry d_j is the
        sum of at most `most` entries of f, so |d|^2 <= most |f|^2 by Cauchy and Schwarz. Together,
        |d|^2 <= min(n, most) n S, which is `l2_squared` for `meeting` = min(n, most). The L1 norm
        of d is at most the L1 norm of f. An entry d_j is the sum of at most min(n, most) changes,
        each within the largest shift. If there is only one sum, its sensitivity is one move by n
        times the largest shift.
        """
        meeting = min(self.slots, most)
        if cells == 1:
            return type(self)(1, (Move(self.slots * max(m.shift for m in self.moves), 1),))
        return type(self)(self.slots, self.moves, meeting)

    @property
    def l1(self) -> int:
        """Return the largest L1 norm of a change, in steps."""
        return self.slots * max(move.shift * move.cells for move in self.moves)

    @property
    def l2_squared(self) -> int:
        """Return the largest squared L2 norm of a change, in squared steps."""
        return self.meeting * self.slots * max(move.shift**2 * move.cells for move in self.moves)

    @property
    def largest_shift(self) -> int:
        """Return the largest number of steps by which one cell can move."""
        return self.meeting * max(move.shift for move in self.moves)
