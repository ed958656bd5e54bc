"""The part of a plan on the release's ledger, for a terminal."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from dprelease.errors import DataError, DeclarationError, DpReleaseError, LedgerError
from dprelease.errors.printable import one_line

if TYPE_CHECKING:
    from dprelease.planning.plan import Plan
    from dprelease.query.resolve import Query
    from dprelease.schema.load import Declaration


@dataclass(frozen=True, slots=True)
class ForecastTexts:
    """The remaining budget in a ledger as JSON values and as text; empty without a ledger."""

    answer: Mapping[str, object] | None = None
    words: tuple[str, ...] = ()


def refusal_text(refusal: DataError) -> str:
    """Return a text that a run would be refused for a table that its engine can't read."""
    run = "a run would fail, unless a frame is passed instead of the table"
    return f"{run}. {_sentence(refusal)}"


def warning_text(warning: DeclarationError) -> str:
    """Return the text of a warning with its position in a declaration."""
    return f"{warning.place}: {_sentence(warning)}"


def _sentence(error: DpReleaseError) -> str:
    return f"{error.code}  {error.cause} {error.fix[:1].upper()}{error.fix[1:]}"


def ledger_forecast_texts(
    declaration: Declaration, queries: Sequence[Query], plan: Plan
) -> ForecastTexts:
    """Return the forecast of a release's ledger for a plan.

    A plan needs no ledger. If the ledger is on another machine, or would refuse a run, the text
    reports this as a problem.
    """
    if declaration.spec.ledger is None:
        return ForecastTexts()
    from dprelease.release.ledger_forecast import ledger_outlooks

    name = Path(declaration.spec.ledger).name
    try:
        tables = ledger_outlooks(declaration, queries, plan) or ()
    except LedgerError as error:
        problem = f"Warning: the ledger would refuse a run. {error.code}  {error.cause}"
        return ForecastTexts(
            {"file": name, "problem": error.code, "tables": []}, (one_line(problem),)
        )
    answer = {"file": name, "problem": None, "tables": [one.to_json() for one in tables]}
    return ForecastTexts(answer, ("\n".join(one_line(f"{name}, {one.words}") for one in tables),))
