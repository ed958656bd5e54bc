"""Options of a run that its declaration lacks: the engine, the party, the signing key."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from dprelease.errors import BudgetError, DataError
from dprelease.planning.kinds import kind_of
from dprelease.schema.load import Declaration
from dprelease.schema.release_parts.engine_names import DEFAULT_ENGINE, ENGINES

if TYPE_CHECKING:
    from dprelease.signatures.keys import SigningKey


def engine_exposures(declaration: Declaration) -> list[str]:
    """Return what the engine exposes to people other than the recipients, without starting it."""
    from dprelease.exact.engines import engine_kind

    return engine_kind(declaration.spec.engine).exposure_texts(declaration.spec)


def with_engine(declaration: Declaration, engine: str | None) -> Declaration:
    """Return the declaration with another engine; its texts, which are published, stay the same.

    Raises
    ------
    DataError
        DP-SPARK-005 if only DuckDB can run the release.
    """
    if engine is None or engine == declaration.spec.engine:
        return declaration
    if engine not in ENGINES:
        raise ValueError(f"engines are {' and '.join(ENGINES)}")
    problem = kind_of(declaration.spec).engine_problem
    if engine != DEFAULT_ENGINE and problem:
        raise DataError("DP-SPARK-005", problem=problem)
    return replace(declaration, spec=declaration.spec.model_copy(update={"engine": engine}))


def with_party(declaration: Declaration, party: int | None) -> Declaration:
    """Return the declaration for one party; unchanged if `party` is None.

    Raises
    ------
    BudgetError
        DP-FED-004 for a number that belongs to no party.
    """
    if party is not None:
        _refuse_unknown_party(declaration, party)
    return replace(declaration, party=party)


def party_of(declaration: Declaration) -> int:
    """Return the number of the party that runs a federated release.

    Raises
    ------
    BudgetError
        DP-FED-004 if the number is missing, or belongs to no party.
    """
    place = declaration.place("federated")
    if declaration.party is None:
        raise BudgetError(
            "DP-FED-004", place=place, problem="It is not stated which party runs this"
        )
    _refuse_unknown_party(declaration, declaration.party)
    return declaration.party


def _refuse_unknown_party(declaration: Declaration, party: int) -> None:
    """Raise BudgetError DP-FED-004 for a number that belongs to no party."""
    spec, place = declaration.spec.federated, declaration.place("federated")
    if spec is None:
        problem = f"There is no party {party}: the release declares no parties"
        raise BudgetError("DP-FED-004", place=place, problem=problem)
    if not 1 <= party <= spec.parties:
        problem = f"There is no party {party} of {spec.parties}"
        raise BudgetError("DP-FED-004", place=place, problem=problem)


def with_signing_key(declaration: Declaration, key: str | Path | SigningKey | None) -> Declaration:
    """Return a declaration whose run signs with this key or key file; unchanged if it is None.

    Raises SignatureError in the same cases as `signing_key`.
    """
    return declaration if key is None else replace(declaration, key=signing_key_of(key))


def signing_key_of(key: str | Path | SigningKey) -> SigningKey:
    """Return a key, or read it from a path; raises the errors of `signing_key`."""
    from dprelease.signatures.keys import signing_key

    return signing_key(key) if isinstance(key, str | Path) else key
