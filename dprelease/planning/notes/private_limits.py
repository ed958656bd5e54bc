"""What a plan says about contribution limits that the release chooses privately."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

from dprelease.errors.printable import count_text, one_line
from dprelease.numerics.rounding import plain_text
from dprelease.planning.plan import Plan
from dprelease.schema.load import Declaration
from dprelease.schema.release import BudgetSpec
from dprelease.schema.release_parts.limit_choice import LimitChoice


@dataclass(frozen=True, slots=True)
class PrivateLimit:
    """The private choice of one limit. `error`: how many persons it may miss its share by."""

    choice: LimitChoice
    error: int

    @property
    def least_persons(self) -> int:
        """The number of persons above which no limit is chosen that is higher than needed.

        Of n persons, the limits above the highest number of any person miss the quantile by
        n (1 - persons). If this is more than the error, none of them is chosen, at the same
        confidence.
        """
        return math.ceil(self.error / (1 - self.choice.persons))

    @property
    def words(self) -> str:
        """Sentences on the choice, its error, and the data for which it is useful."""
        one, errors = self.choice, count_text(self.error, "person", "persons")
        return (
            f"{one.limit} of {one_line(', '.join(one.queries))}: a number from 1 to "
            f"{one.up_to:,} that is enough for about {plain_text(100 * one.persons)} % of the "
            f"persons (to within {errors}, with 95 % confidence). This is useful for at least "
            f"{self.least_persons:,} persons. For fewer, it may be any number up to "
            f"{one.up_to:,}, whatever the persons need: declare a number, or a larger `share`."
        )

    def to_json(self) -> dict[str, Any]:
        """Return the choice as JSON values."""
        return {
            "queries": list(self.choice.queries),
            "limit": self.choice.limit,
            "up_to": self.choice.up_to,
            "share": plain_text(self.choice.share),
            "persons": plain_text(self.choice.persons),
            "error_in_persons": self.error,
            "least_persons": self.least_persons,
        }


def private_limits(declaration: Declaration, plan: Plan) -> list[PrivateLimit]:
    """Return the private choices of limits of a release, with their errors."""
    found = []
    for one in () if declaration.choices is None else declaration.choices.limits:
        columns = () if plan.limits is None else plan.limits.of_query(one.name)
        found += [PrivateLimit(one, math.ceil(column.margin())) for column in columns]
    return found


def private_limit_texts(declaration: Declaration, plan: Plan) -> list[str]:
    """Return texts on private choices of limits, if any: on their budget, and on each of them."""
    choices = declaration.choices
    if choices is None:
        return []
    before, rest = _amount_text(choices.budget), _amount_text(declaration.spec.budget)
    share = (
        f"A run first chooses limits privately, for {plain_text(100 * choices.share)} % of the "
        f"budget ({before}). For the tables, {rest} remains; their margins are those of the "
        "highest limits."
    )
    return [share, *(one.words for one in private_limits(declaration, plan))]


def _amount_text(budget: BudgetSpec) -> str:
    """Return the epsilon or the rho of a budget."""
    if budget.rho is not None:
        return f"rho {float(budget.rho):.6g}"
    return f"epsilon {float(budget.epsilon or 0):.6g}"
