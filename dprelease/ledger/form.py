"""Check the form of an entry's body: whoever can write the file can write anything into it."""

from __future__ import annotations

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

LARGEST = 10**12
"""Maximum of any budget: commands open far smaller ones."""

Size = Annotated[int, Field(ge=0, lt=2**127)]


def _is_written_so(cost: str) -> str:
    """Return a price; raise ValueError unless it is spelled as a ledger spells floats."""
    if repr(float(cost)) != cost:
        raise ValueError("no price")
    return cost


Price = Annotated[str, AfterValidator(_is_written_so)]


class _Part(BaseModel):
    """Known keys of known types; later versions may have written other keys as well."""

    model_config = ConfigDict(strict=True, extra="allow")


class _Move(_Part):
    shift: Size
    cells: Size


class _Sensitivity(_Part):
    slots: Size
    moves: list[_Move]
    meeting: Annotated[int, Field(ge=1, le=2**62)] = 1


class _Event(_Part):
    query: str
    column: str
    mechanism: str
    parameters: dict[str, str]
    sensitivity: _Sensitivity


class _Charge(_Part):
    table: str
    price: Price
    counted: Literal["epsilon", "rho"]
    takes_all: bool
    events: list[_Event]
    period: Annotated[int, Field(ge=0, lt=MOST_PERIODS)] | None = None
    invariants: list[str] | None = None
    functions: dict[str, str] | None = None


class _Process(_Part):
    host: str
    pid: Annotated[int, Field(ge=0, lt=2**31)]
    started: str


class _Renewal(_Part):
    every: Literal["month", "year"]
    begins: str
    periods: int | None

    @model_validator(mode="after")
    def _is_one(self) -> Self:
        Renewal.from_json(self.model_dump())
        return self


class _Account(_Part):
    table: str
    neighbours: str
    unit: str
    epsilon: str | None
    delta: str
    rho: str | None
    renews: _Renewal | None = None
    invariants: list[str] | None = None

    @model_validator(mode="after")
    def _is_a_budget(self) -> Self:
        amounts = [exact(text) for text in (self.epsilon, self.rho) if text is not None]
        if len(amounts) != 1 or not 0 < amounts[0] <= LARGEST or not 0 <= exact(self.delta) < 1:
            raise ValueError("no budget")
        return self


class _Open(_Part):
    kind: Literal["open"]
    time: str
    account: _Account


class _Signers(_Part):
    kind: Literal["signers"]
    time: str
    signers: Annotated[str, Field(max_length=1 << 20)]
    signature: str


class _Reserve(_Part):
    kind: Literal["reserve"]
    time: str
    id: str
    title: str
    process: _Process
    locked: bool = False
    charges: list[_Charge]


class _Step(_Part):
    kind: Literal["read", "publish", "commit", "cancel"]
    time: str
    id: str
    manifest: str | None = None


_ENTRY: TypeAdapter[Any] = TypeAdapter(
    Annotated[_Open | _Signers | _Reserve | _Step, Field(discriminator="kind")]
)


def is_entry(body: object) -> bool:
    """Return whether a body has the form of an entry."""
    try:
        _ENTRY.validate_python(body)
    except (ValidationError, RecursionError):
        return False
    return True
