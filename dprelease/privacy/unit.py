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
    most `max_groups` groups, at most `max_rows_per_group` rows in each of these groups, and at most
    `max_rows` rows in all groups together (without limit if None).
    """

    id: str | None = None
    max_groups: int = 1
    max_rows_per_group: int = 1
    max_rows: int | None = None

    @property
    def most_groups(self) -> int:
        """Return the largest number of groups in which a privacy unit can have rows."""
        return min(self.max_groups, self.max_rows or self.max_groups)

    @property
    def most_rows_per_group(self) -> int:
        """Return the largest number of rows that a privacy unit can have in one group."""
        return min(self.max_rows_per_group, self.max_rows or self.max_rows_per_group)

    @property
    def most_rows(self) -> int:
        """Return the largest number of rows that a privacy unit can have in all groups."""
        most = self.max_groups * self.max_rows_per_group
        return most if self.max_rows is None else min(most, self.max_rows)

    def limits_groups(self, cells: int) -> bool:
        """Return whether `max_groups` has to be applied to a table of `cells` cells.

        If `max_rows` is applied, and is at most `max_groups`, it limits the groups as well. It is
        not applied where the other limits imply it, so these must then be applied: of `max_groups`
        and `max_rows`, one may be left out only because of the other one, and never both.
        """
        if self.max_rows is not None and self.max_rows <= self.max_groups:
            return self.max_groups < cells and not self.limits_all_rows(cells)
        return self.max_groups < cells

    def limits_all_rows(self, cells: int) -> bool:
        """Return whether `max_rows` can leave out rows that the other limits leave in."""
        most = min(self.max_groups, cells) * self.max_rows_per_group
        return self.max_rows is not None and self.max_rows < most

    @property
    def contribution_limits_text(self) -> str:
        """Return a text on contribution limits, which is empty if every row is a privacy unit."""
        if self.id is None:
            return ""
        return (
            f"computed after contribution limits: each '{self.id}' counts with at most "
            f"{self.row_limits_text}. Further rows, and rows without '{self.id}', are left out; no "
            "margin of error covers this"
        )

    @property
    def row_limits_text(self) -> str:
        """Return a text on the number of rows that count, such as "2 rows in 1 group"."""
        rows = count_text(self.max_rows_per_group, "row", "rows")
        groups = count_text(self.max_groups, "group", "groups")
        within = f"in {groups}" if self.max_groups == 1 else f"in each of at most {groups}"
        if self.max_rows is None:
            return f"{rows} {within}"
        total = f"{count_text(self.max_rows, 'row', 'rows')} in all groups together"
        if min(self.max_groups, self.max_rows_per_group) >= self.max_rows:
            return total
        return f"{total}, of these at most {rows} {within}"


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

    If `of_all_rows`, the bound follows from a limit of a unit's rows in all groups together. A unit
    may then touch more cells, by less, than `slots` parts would. The privacy loss is still at most
    that of the parts, but only for selections and for symmetric log-concave noise; see `of`.
    """

    slots: int
    moves: tuple[Move, ...]
    meeting: int = 1
    of_all_rows: bool = False

    def __str__(self) -> str:
        """Return a text slots x cells x shift, such as "3 x 1 x 50" or "2 x (2 x 10 or 1 x 15)"."""
        moves = " or ".join(f"{move.cells} x {move.shift:,}" for move in self.moves)
        together = f", up to {self.meeting} in the same cells" if self.meeting > 1 else ""
        together += ", or the same sum in more cells" if self.of_all_rows else ""
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
        per_row: int | None = None,
        is_choice: bool = False,
    ) -> Self:
        """Return the sensitivity of a vector of `cells` cells, one for each group.

        `per_group` is the largest number of steps by which the cell of a group moves if all rows of
        one privacy unit in this group appear or disappear. `within_group` is the largest number of
        steps by which the cell moves if other rows, or no rows, replace these rows. `per_row` is
        the largest number of steps by which one row moves a cell; None if fewer rows do not move a
        cell less. `is_choice` says that the cells are scores of selections.

        For `ADD_REMOVE`, at most `max_groups` cells move by `per_group`. For `REPLACE`, there are
        two cases for each of the `max_groups` groups: either the privacy unit stays in the group,
        and one cell moves by `within_group`, or the privacy unit leaves for another group, and two
        cells move by `per_group`. If the vector has only one cell, no other group exists.

        If `max_rows` limits the rows of all groups together, the sum of all changes is at most
        T = `max_rows` x `per_row` (2 T for `REPLACE`), in whatever cells. Of this bound and the one
        above, the result is the one with the smaller product of norms; see `_of_all_rows`.
        """
        slots = min(unit.most_groups, cells)
        if neighbours is Neighbours.ADD_REMOVE:
            separate = cls(slots=slots, moves=(Move(per_group, 1),))
        elif cells == 1:
            separate = cls(slots=1, moves=(Move(within_group, 1),))
        else:
            moves: tuple[Move, ...] = (Move(per_group, 2),)
            if within_group > per_group:
                # Otherwise a change within the group is covered: it moves one cell by no more than
                # one of two.
                moves = (Move(within_group, 1), *moves)
            separate = cls(slots=slots, moves=moves)
        if per_row is None or unit.max_rows is None or not unit.limits_all_rows(cells):
            return separate
        total, largest, sides = unit.max_rows * per_row, per_group, 1
        if neighbours is Neighbours.REPLACE and within_group > per_group:
            total, largest = 2 * total, within_group
        elif neighbours is Neighbours.REPLACE:
            sides = 2
        if not largest:  # of a column with the bounds 0 and 0, which no rows change
            return separate
        found = cls._of_all_rows(total, largest, sides, is_choice=is_choice)
        # Both bounds are valid for every mechanism. The product serves pure noise, which needs L1,
        # and Gaussian noise, which needs L2.
        return min([separate, *found], key=lambda one: one.l1**2 * one.l2_squared)

    @classmethod
    def _of_all_rows(
        cls, total: int, largest: int, sides: int = 1, *, is_choice: bool = False
    ) -> list[Self]:
        """Return bounds of changes that have a limited sum, in whatever cells.

        The absolute changes of one sign (`sides` is 2) or of both signs (1) add up to at most
        `total`, and each is at most `largest`.

        Proof for noise. Let p be the log-concave probabilities of the noise, which is independent
        in each cell, and let two cells move by x >= y >= 0 steps. Fix the sum K of both noisy
        values, and all other cells. On this diagonal, the probabilities are g(u) = p(u) p(K - u)
        without the unit and G(u) = p(u - x) p(K - y - u) with it. Both are log-concave, so their
        level sets are intervals, symmetric around K/2 and (K + x - y)/2. Any hockey-stick
        divergence is a constant minus the sum of min(a g, b G) with constants a and b, and this sum
        is an integral of the sizes of intersections of two level sets. If x grows by 1 and y falls
        by 1, the centres move apart, so the intersections and the sum don't grow, and the
        divergence doesn't fall. So the divergence, at any epsilon and in both directions, grows if
        steps move from a cell to another one that moves at least as far.

        So a change whose values are at most `shift` each, and at most `slots` x `shift` together,
        costs no more than `slots` cells that move by `shift`. First add steps to cells that move by
        less than `shift`, also to further cells that did not move, until the total is `slots` x
        `shift`; log-concave noise never makes a change cheaper by more steps. (If no cell moves by
        less, at most `slots` cells move by `shift`; add the others.) Then, while two cells move by
        x >= y with x < `shift` and y > 0, move one step from the second to the first. The sum of
        squares grows each time, so this ends, with at most one cell strictly between 0 and `shift`.
        As the total is a multiple of `shift`, there is no such cell, and `slots` cells move by
        `shift`. No step of this made the change cheaper.

        Changes up and changes down are each bounded so; for symmetric noise, a change down costs as
        much as a change up, and all changes are bounded together. The number of rows n_i that a
        unit has in cell i moves this cell by at most n_i x `per_row` and at most `largest`, so the
        condition holds if `shift` >= `largest` and `slots` x `shift` >= `total`.

        Of all such pairs of whole numbers, the two with `total` // `largest` slots and with one
        more are the smallest. They are exact if `largest` divides `total`; otherwise the L1 norm is
        rounded up by less than `largest`.

        Proof for selections. The privacy loss of a selection is at most proportional to the change
        of its scores. So two selections with changes x and y satisfy what one with the change x + y
        satisfies, and so do more: changes of a total of `total`, in whatever cells, cost at most
        one change by `total`. Also, two changes with a sum of at most `largest` can be replaced by
        one; if no such two remain, there are less than 2 `total` / `largest` changes.
        """
        if is_choice:
            total, few = sides * total, -(-2 * sides * total // largest) - 1
            pairs = [(1, total), (max(1, few), largest)]
            return [cls(n, (Move(shift, 1),), of_all_rows=True) for n, shift in pairs]
        slots, rest = divmod(total, largest)
        pairs = [(slots, largest)] if not rest else [(slots + 1, largest)]
        if rest and slots:
            pairs.append((slots, -(-total // slots)))
        return [cls(n, (Move(shift, sides),), of_all_rows=True) for n, shift in pairs]

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

        If `of_all_rows`, the changes of one sign add up to at most the total of the parts, in the
        sums as in the cells, and each sum changes by at most `most` times the largest shift. So the
        sums are bounded in the same way as the cells, and no parts meet.
        """
        meeting = min(self.slots, most)
        if cells == 1:
            return type(self)(1, (Move(self.slots * max(m.shift for m in self.moves), 1),))
        if self.of_all_rows:
            ((shift, sides),) = [(move.shift, move.cells) for move in self.moves]
            total = self.slots * shift
            bounds = self._of_all_rows(total, min(total, most * shift), sides)
            return min(bounds, key=lambda one: one.l1**2 * one.l2_squared)
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
