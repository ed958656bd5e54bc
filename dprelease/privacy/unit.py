"""Privacy unit, neighbouring relation, contribution limits and exact sensitivities."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import Self

from dprelease.errors.printable import count_text


class Neighbours(StrEnum):
    """The neighbouring relation: two tables differ in one privacy unit."""

    ADD_REMOVE = "add_remove"
    REPLACE = "replace"


@dataclass(frozen=True, slots=True)
class PrivacyUnit:
    """The privacy unit, and how much one of them may contribute to one query.

    `id` is the column that identifies the privacy unit. None makes every row a separate privacy
    unit, with both limits 1. Guarantee: after contribution limits, a privacy unit has rows in at
    most `max_groups` groups and at most `max_rows_per_group` rows in each of them.
    """

    id: str | None = None
    max_groups: int = 1
    max_rows_per_group: int = 1

    @property
    def contribution_limits_text(self) -> str:
        """Return a text on which rows are counted; empty if every row is a privacy unit."""
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
    """`cells` cells, each moved by at most `shift` lattice steps, in either direction."""

    shift: int
    cells: int


@dataclass(frozen=True, slots=True)
class Sensitivity:
    """How far one privacy unit can move a vector of integers.

    A change of one privacy unit has at most `slots` parts that touch different cells; each part is
    any one of `moves`. So the privacy loss of the vector is at most that of `slots` independent
    copies of the worst move.

    `meeting`: number of parts that may touch the same cells, where they add up; see `over`.
    `priced_vector.priced_of` computes the cost.
    """

    slots: int
    moves: tuple[Move, ...]
    meeting: int = 1

    def __str__(self) -> str:
        """Return slots x cells x shift, such as "3 x 1 x 50" or "2 x (2 x 10 or 1 x 15)"."""
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

        `per_group`: steps by which all rows of one privacy unit in one group can move its cell,
        when they appear or disappear. `within_group`: steps by which the cell can move when the
        rows of the privacy unit in that group are replaced by other rows, or by none.

        add_remove: at most `max_groups` cells by `per_group`. replace: for each of the `max_groups`
        groups, either the privacy unit stays in the group (one cell by `within_group`), or leaves
        it and enters another (two cells by `per_group`). With one cell there is no other group.
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

    def over(self, cells: int, most: int) -> Self:
        """Return the sensitivity of sums of this vector's cells, each in one of `cells` cells.

        `most`: largest number of cells of this vector in one of those cells.

        Proof. Let f be the change of this vector and d that of the sums, c_1 ... c_n with n = slots
        the parts of f as they arrive in the sums, and S the largest squared norm of a move, so that
        |f|^2 <= n S. A part that moves two cells of this vector by x and -y, which lie in the same
        cell of the sums, moves that by |x - y|: of a unit's rows in one group that are replaced by
        others, which is a move as well (`of`, within_group), or bounded by one. So |c_i|^2 <= S and
        |d| <= |c_1| + ... + |c_n| <= n sqrt(S). And d_j is the sum of at most `most` entries of f:
        by Cauchy and Schwarz |d|^2 <= most |f|^2. Together |d|^2 <= min(n, most) n S, which is what
        `l2_squared` says with `meeting` = min(n, most). The L1 norm of sums is no larger than that
        of f. One entry d_j is the sum of at most `most` changes, and of n parts, each within the
        largest shift. With one cell the sensitivity is one move, by n times the largest shift.
        """
        meeting = min(self.slots, most)
        if cells == 1:
            return type(self)(1, (Move(self.slots * max(m.shift for m in self.moves), 1),))
        return type(self)(self.slots, self.moves, meeting)

    @property
    def l1(self) -> int:
        """Return the largest L1 norm of the change, lattice steps."""
        return self.slots * max(move.shift * move.cells for move in self.moves)

    @property
    def l2_squared(self) -> int:
        """Return the largest squared L2 norm of the change, squared lattice steps."""
        return self.meeting * self.slots * max(move.shift**2 * move.cells for move in self.moves)

    @property
    def largest_shift(self) -> int:
        """Return the most that one cell can move, lattice steps."""
        return self.meeting * max(move.shift for move in self.moves)
