"""Show the errors of a rehearsal of single records or of parties, from its file of errors."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from markupsafe import Markup

from dprelease.documents.rehearsal_truth import ColumnErrors
from dprelease.report.localization import to_three_digits
from dprelease.report.pictures import PageTable
from dprelease.report.section_context import Context

Errors = Sequence[ColumnErrors]

NAME = "simulated"
"""The name of the section."""


@dataclass(frozen=True)
class SimulatedPart:
    """The content of the section on simulated errors, ready for the page."""

    lead: Markup
    errors: PageTable


def with_error_section(
    parts: Sequence[str], context: Context, errors: Errors | None, lead: str
) -> dict[str, Any]:
    """Return the parts of a page by name; for a rehearsal, with a section on its errors.

    `lead`: the name of the sentence that introduces the errors.
    """
    if errors is None:
        return {"parts": parts}
    part = SimulatedPart(context.words.say(lead), _error_table(context, errors))
    return {"parts": (*parts[:-1], NAME, parts[-1]), NAME: part, "rehearsed": True}


def _error_table(context: Context, errors: Errors) -> PageTable:
    """Return the table of expected and true errors of each column, over all its cells."""
    words, names, rows = context.words, context.names, []
    for one in errors[: context.most]:
        rows.append(
            context.cells(
                names.name(f"{one.table}.{one.column}"),
                words.number(one.cells),
                _number_text(context, one.expected),
                _number_text(context, one.mean_absolute_error),
                words.percent(one.covered),
                _number_text(context, one.bias),
                context.unit_name(one.unit),
            )
        )
    heads = ["column", "cells", "expected", "found", "covered", "bias", "unit"]
    caption = words.say("quality.simulated")
    return PageTable(caption, [words.say(f"simulated.head.{head}") for head in heads], rows)


def _number_text(context: Context, value: float | None) -> str:
    """Return a number with three significant digits; a dash if there is none."""
    return context.words.number(None if value is None else to_three_digits(value))
