"""Validate the bodies of entries, because a file may have been written by any program."""

from __future__ import annotations

from fractions import Fraction
from typing import Annotated, Any, Literal, Self

from pydantic import (
    AfterValidator,
    BaseModel,
    ConfigDict,
    Field,
    TypeAdapter,
    ValidationError,
    model_validator,
)

from dprelease.ledger.periods import MOST_PERIODS, Renewal
from dprelease.numerics.rounding import exact

LARGEST_BUDGET = 10**12
"""The maximum of any budget; the budgets that commands can open are far smaller."""

NonNegativeInteger = Annotated[int, Field(ge=0, lt=2**127)]


def _check_cost_spelling(cost: str) -> str:
    """Return the text of a cost; raise ValueError unless it is the `repr` of a float."""
    if repr(float(cost)) != cost:
        raise ValueError("no price")
    return cost


CostText = Annotated[str, AfterValidator(_check_cost_spelling)]


class _EntryPart(BaseModel):
    """A part of an entry, whose known keys have known types; later versions may add other keys."""

    model_config = ConfigDict(strict=True, extra="allow")


class _Move(_EntryPart):
    shift: NonNegativeInteger
    cells: NonNegativeInteger


class _Sensitivity(_EntryPart):
    slots: NonNegativeInteger
    moves: list[_Move]
    meeting: Annotated[int, Field(ge=1, le=2**62)] = 1
    of_all_rows: bool = False


class _Event(_EntryPart):
    query: str
    column: str
    mechanism: str
    parameters: dict[str, str]
    sensitivity: _Sensitivity


class _Charge(_EntryPart):
    table: str
    price: CostText
    counted: Literal["epsilon", "rho"]
    takes_all: bool
    events: list[_Event]
    period: Annotated[int, Field(ge=0, lt=MOST_PERIODS)] | None = None
    invariants: list[str] | None = None
    functions: dict[str, str] | None = None


class _Process(_EntryPart):
    host: str
    pid: Annotated[int, Field(ge=0, lt=2**31)]
    started: str


class _Renewal(_EntryPart):
    every: Literal["month", "year"]
    begins: str
    periods: int | None

    @model_validator(mode="after")
    def _check_renewal(self) -> Self:
        """Return the renewal; raise ValueError if its period or its beginning is invalid."""
        Renewal.from_json(self.model_dump())
        return self


class _Account(_EntryPart):
    table: str
    neighbours: str
    unit: str
    epsilon: str | None
    delta: str
    rho: str | None
    renews: _Renewal | None = None
    invariants: list[str] | None = None
    rho_delta: str | None = None

    @model_validator(mode="after")
    def _check_amounts(self) -> Self:
        """Return the account; raise ValueError unless it has one valid amount and a valid delta."""
        amounts = [exact(text) for text in (self.epsilon, self.rho) if text is not None]
        if (
            len(amounts) != 1
            or not 0 < amounts[0] <= LARGEST_BUDGET
            or not 0 <= exact(self.delta) < 1
        ):
            raise ValueError("no budget")
        most = exact(self.delta) if self.rho is None else Fraction(1)
        if self.rho_delta is not None and not 0 < exact(self.rho_delta) < most:
            raise ValueError("no rho_delta")
        return self


class _OpenEntry(_EntryPart):
    kind: Literal["open"]
    time: str
    account: _Account


class _SignersEntry(_EntryPart):
    kind: Literal["signers"]
    time: str
    signers: Annotated[str, Field(max_length=1 << 20)]
    signature: str


class _ReserveEntry(_EntryPart):
    kind: Literal["reserve"]
    time: str
    id: str
    title: str
    process: _Process
    locked: bool = False
    charges: list[_Charge]


class _StepEntry(_EntryPart):
    kind: Literal["read", "publish", "commit", "cancel"]
    time: str
    id: str
    manifest: str | None = None


_ENTRY_ADAPTER: TypeAdapter[Any] = TypeAdapter(
    Annotated[_OpenEntry | _SignersEntry | _ReserveEntry | _StepEntry, Field(discriminator="kind")]
)


def is_entry(body: object) -> bool:
    """Return whether a JSON value is a valid body of an entry."""
    try:
        _ENTRY_ADAPTER.validate_python(body)
    except (ValidationError, RecursionError):
        return False
    return True
