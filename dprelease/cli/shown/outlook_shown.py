"""What a plan says of the release's ledger on the command line."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from dprelease.errors import DataError, LedgerError
from dprelease.errors.printable import one_line

if TYPE_CHECKING:
    from dprelease.planning.plan import Plan
    from dprelease.query.resolve import Query
    from dprelease.schema.load import Declaration


@dataclass(frozen=True, slots=True)
class ForecastTexts:
    """What the ledger has left, as JSON values and in words; nothing where there is no ledger."""

    answer: Mapping[str, object] | None = None
    words: tuple[str, ...] = ()


def refused_words(refusal: DataError) -> str:
    """Return in words that a run would be refused for a table that its engine can't read."""
    run = "a run would fail, unless a frame is passed instead of the table"
    return f"{run}. {refusal.code}  {refusal.cause} {refusal.fix[:1].upper()}{refusal.fix[1:]}"


def ledger_forecast_texts(
    declaration: Declaration, queries: Sequence[Query], plan: Plan
) -> ForecastTexts:
    """Return what a release's ledger has left for a plan.

    A plan needs no ledger: one that is elsewhere, or that would refuse a run, is told as a problem.
    """
    if declaration.spec.ledger is None:
        return ForecastTexts()
    from dprelease.release.ledger_forecast import outlooks

    name = Path(declaration.spec.ledger).name
    try:
        tables = outlooks(declaration, queries, plan) or ()
    except LedgerError as error:
        problem = f"Warning: the ledger would refuse a run. {error.code}  {error.cause}"
        return ForecastTexts(
            {"file": name, "problem": error.code, "tables": []}, (one_line(problem),)
        )
    answer = {"file": name, "problem": None, "tables": [one.to_json() for one in tables]}
    return ForecastTexts(answer, ("\n".join(one_line(f"{name}, {one.words}") for one in tables),))
