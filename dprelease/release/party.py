"""Set which party runs a federated release: the only difference between their declarations."""

from __future__ import annotations

from dataclasses import replace

from dprelease.errors import BudgetError
from dprelease.schema.load import Declaration


def as_party(declaration: Declaration, party: int | None) -> Declaration:
    """Return the declaration for one party; unchanged without a number.

    Raises
    ------
    BudgetError
        DP-FED-004 for a number that no party has.
    """
    if party is not None:
        _check(declaration, party)
    return replace(declaration, party=party)


def party_of(declaration: Declaration) -> int:
    """Return the number of the party that runs a federated release.

    Raises
    ------
    BudgetError
        DP-FED-004 if the number is missing, or no party has it.
    """
    place = declaration.place("federated")
    if declaration.party is None:
        raise BudgetError(
            "DP-FED-004", place=place, problem="It is not stated which party runs this"
        )
    _check(declaration, declaration.party)
    return declaration.party


def _check(declaration: Declaration, party: int) -> None:
    spec, place = declaration.spec.federated, declaration.place("federated")
    if spec is None:
        problem = f"There is no party {party}: the release declares no parties"
        raise BudgetError("DP-FED-004", place=place, problem=problem)
    if not 1 <= party <= spec.parties:
        problem = f"There is no party {party} of {spec.parties}"
        raise BudgetError("DP-FED-004", place=place, problem=problem)
