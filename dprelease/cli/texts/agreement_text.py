"""The part of a plan on consistent tables, for a terminal."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from dprelease.cli.texts.text_tables import number_text, table_text
from dprelease.errors.printable import one_line

if TYPE_CHECKING:
    from dprelease.planning.families.family_errors import AgreedErrors
    from dprelease.planning.plan import Plan
    from dprelease.schema.load import Declaration

NUMBERS = ("areas", "cells", "measured", "one table", "estimate", "largest", "margin")


def family_errors(declaration: Declaration, plan: Plan) -> list[AgreedErrors]:
    """Return the expected errors of consistent tables; an empty list if the release has none."""
    consistent = [query.consistent for query in declaration.spec.queries.values()]
    if not any(consistent):
        return []
    from dprelease.planning.families.family_errors import agreed_errors

    errors = list(agreed_errors(plan))
    if not any(spec is not None and spec.non_negative for spec in consistent):
        return errors
    from dprelease.auditing.replayed_words import ReplayedBits
    from dprelease.documents.audit_record import digest_of_declaration
    from dprelease.rehearsal.integer_errors import integer_table_errors

    # Bits from the declaration alone: the counts are invented, and a plan must print the same
    # errors again.
    found = integer_table_errors(plan, ReplayedBits(digest_of_declaration(declaration)))
    return [
        replace(
            one, integers={t: x for (t, column), x in found.items() if column == one.agreed.name}
        )
        for one in errors
    ]


def draw_errors(declaration: Declaration, plan: Plan, path: Path) -> None:
    """Write charts of consistent tables next to the other charts of a plan.

    Raises the same exceptions as `draw_plan`, which draws the other charts.
    """
    if any(query.consistent for query in declaration.spec.queries.values()):
        from dprelease.planning.families.family_errors import draw_agreed_errors

        draw_agreed_errors(plan, path)


def standard_error_texts(errors: Sequence[AgreedErrors], plan: Plan, *, wide: bool) -> list[str]:
    """Return a table of standard errors for each column of consistent tables, and its accuracy."""
    shared = [one_line(f"Shares of the budget: {share}.") for share in plan.shared]
    return [
        *(_standard_errors_text(one, wide=wide) for one in errors),
        *("\n".join(_method_texts(one)) for one in errors if one.refinement),
        *(["\n".join(shared)] if shared else []),
    ]


def _method_texts(one: AgreedErrors) -> list[str]:
    """Return sentences on how the integer tables of a column are computed, by method."""
    levels: dict[str, list[str]] = {}
    for record in one.refinement:
        if record.shared is None:  # the first clique; others have the same methods
            chain = " then ".join(f"[{', '.join(keys)}]" for keys in record.steps)
            along = {"least_squares": "by least squares", "fast": f"fast, along {chain}"}
            levels.setdefault(along[record.method], []).append(record.level)
    return [
        one_line(
            f"Integer tables of '{one.family}.{one.agreed.name}' at {', '.join(names)}: {how}."
        )
        for how, names in levels.items()
    ]


def _standard_errors_text(one: AgreedErrors, *, wide: bool) -> str:
    """Return the standard errors of one column, by table and level, as a table."""
    confidence = f"{100 * float(one.agreed.confidence):g} %"
    more = ("integers",) if one.integers else ()
    rows: list[tuple[str, ...]] = [("consistent tables", "level", *NUMBERS, *more)]
    rows += [
        (
            f"{row['table']}.{row['column']}",
            row["level"],
            f"{row['areas']:,}",
            f"{row['cells']:,}",
            *(number_text(row[name]) for name in ("measured", "one_table", "estimate", "largest")),
            number_text(row["margin"]),
            *(number_text(row[name]) for name in more),
        )
        for row in one.to_json()
    ]
    text = table_text(rows, wide=wide, more=("level", "cells"), right=(*NUMBERS, *more))
    note = (
        "\nIntegers: mean absolute error of integer tables, simulated on invented counts."
        if more
        else ""
    )
    return (
        f"{text}\n"
        "Standard errors of a cell: of its own noise, from the best single table of its level,\n"
        f"of its estimate (median and largest of all areas); margin at {confidence} of the largest."
        f"{note if more else ''}"
    )
