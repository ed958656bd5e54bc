"""The part of a plan on consistent tables, for a terminal."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from dprelease.cli.shown.shown_tables import table_text
from dprelease.errors.printable import one_line

if TYPE_CHECKING:
    from dprelease.planning.families.family_errors import AgreedErrors
    from dprelease.planning.plan import Plan
    from dprelease.schema.load import Declaration

NUMBERS = ("areas", "cells", "measured", "one table", "estimate", "largest", "margin")


def family_errors(declaration: Declaration, plan: Plan) -> list[AgreedErrors]:
    """Return the expected errors of consistent tables; an empty list if the release has none."""
    if not any(query.consistent for query in declaration.spec.queries.values()):
        return []
    from dprelease.planning.families.family_errors import agreed_errors

    return list(agreed_errors(plan))


def draw_errors(declaration: Declaration, plan: Plan, path: Path) -> None:
    """Write charts of consistent tables next to the other charts of a plan.

    Raises the same exceptions as `draw_plan`, which draws the other charts.
    """
    if any(query.consistent for query in declaration.spec.queries.values()):
        from dprelease.planning.families.family_errors import draw_agreed_errors

        draw_agreed_errors(plan, path)


def standard_error_texts(errors: Sequence[AgreedErrors], plan: Plan, *, wide: bool) -> list[str]:
    """Return a table of standard errors for each column of consistent tables, and its accuracy."""
    shared = [one_line(f"Certified: {certified}.") for certified in plan.shared]
    return [
        *(_standard_errors_text(one, wide=wide) for one in errors),
        *(["\n".join(shared)] if shared else []),
    ]


def _standard_errors_text(one: AgreedErrors, *, wide: bool) -> str:
    """Return the standard errors of one column, by table and level, as a table."""
    confidence = f"{100 * float(one.agreed.confidence):g} %"
    rows: list[tuple[str, ...]] = [("consistent tables", "level", *NUMBERS)]
    rows += [
        (
            f"{row['table']}.{row['column']}",
            row["level"],
            f"{row['areas']:,}",
            f"{row['cells']:,}",
            *(_number_text(row[name]) for name in ("measured", "one_table", "estimate", "largest")),
            _number_text(row["margin"]),
        )
        for row in one.to_json()
    ]
    text = table_text(rows, wide=wide, more=("level", "cells"), right=NUMBERS)
    return (
        f"{text}\n"
        "Standard errors of a cell: of its own noise, from the best single table of its level,\n"
        f"of its estimate (median and largest of all areas); margin at {confidence} of the largest."
    )


def _number_text(value: float | None) -> str:
    """Return a number with four significant digits; empty if there is none."""
    return "" if value is None else f"{value:,.4g}"
