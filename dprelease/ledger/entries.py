"""Ledger entries: the chain of their digests, their signatures, and the checks of their bodies.

The digest of an entry covers the entry itself and the previous entry.

A reservation is charged from the moment at which it is written. The step `read` is written before
the first row about people is read, and so before there is any result that depends on a row, with or
without noise. A reservation without `read` has certainly released nothing, and may be refunded. A
reservation with `read` stays charged permanently, however its run ends. A reservation of format 1,
which has no step `read`, also stays charged: its run may have left noisy answers in a private
folder. The step `publish` is written right before the rename that makes a release readable, and
`commit` after the rename. A `commit` has the digest of the manifest, an empty text for an answer
without a manifest, or null for a run that failed.

**Signatures** prevent somebody who can write the file, but has no key, from forging entries. From
the first entry of kind `signers` on, every entry is signed by a key in the latest list before it.
The first list is signed by one of its own keys. A signature covers the number of the entry, its
body, and the digest of the previous entry, which in turn covers all entries before it.

The validity of a key is checked at the time of the entry, or at the latest time of all earlier
entries if that time is later. So an expired key can't sign an entry with a time before that of the
last entry.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime
from fractions import Fraction
from functools import lru_cache
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

from dprelease.errors import SignatureError
from dprelease.ledger.periods import MOST_PERIODS, Renewal, parse_utc_time
from dprelease.numerics.rounding import exact
from dprelease.signatures.signers import Signers, signers_of
from dprelease.signatures.sshsig import ENTRIES, Signature, fingerprint

FIRST_DIGEST = "0" * 64


@dataclass(frozen=True, slots=True)
class Entry:
    """One entry of the ledger, whose `body` is a JSON object with the key "kind"."""

    number: int
    body: dict[str, Any]
    previous: str
    digest: str

    @property
    def kind(self) -> str:
        """Return the kind: open, signers, reserve, read, publish, commit or cancel."""
        return str(self.body["kind"])


def canonical_json_text(body: dict[str, Any]) -> str:
    """Return the canonical JSON text of an entry's body."""
    # NaN is not JSON: another program could not read the body, or compute its digest.
    return json.dumps(body, sort_keys=True, ensure_ascii=False, allow_nan=False)


def entry_digest(number: int, text: str, previous: str) -> str:
    """Return the SHA-256 digest of an entry: of its number, its text, and the previous digest."""
    return hashlib.sha256(_hashed_bytes(number, text, previous)).hexdigest()


def signed_text(entry: Entry) -> bytes:
    """Return the bytes that the signature of an entry covers.

    These are its number, the previous digest, and its body without the signature.
    """
    body = {name: value for name, value in entry.body.items() if name != "signature"}
    return _hashed_bytes(entry.number, canonical_json_text(body), entry.previous)


def _hashed_bytes(number: int, text: str, previous: str) -> bytes:
    """Return the bytes of an entry, whose digest links the entry to the previous entry."""
    return f"{number}\n{previous}\n{text}".encode()


def first_broken_entry(entries: Iterable[tuple[int, str, str, str]]) -> int | None:
    """Return the number of the first entry that breaks the chain; None if the chain is intact.

    Each entry is a tuple (number, text, digest of the previous entry, digest).
    """
    expected, before = 1, FIRST_DIGEST
    for number, text, previous, digest in entries:
        if (
            number != expected
            or previous != before
            or digest != entry_digest(number, text, previous)
        ):
            return expected
        expected, before = number + 1, digest
    return None


OPEN, SIGNERS, RESERVE, READ, PUBLISH, COMMIT, CANCEL = (
    "open", "signers", "reserve", "read", "publish", "commit", "cancel",
)  # fmt: skip

FOLLOWING: dict[tuple[str, ...], frozenset[str]] = {
    # Ledgers of format 1 have no `read`: the step after the reservation was `publish` or `commit`.
    (): frozenset({READ, PUBLISH, COMMIT, CANCEL}),
    (READ,): frozenset({PUBLISH, COMMIT}),
    (PUBLISH,): frozenset({COMMIT}),
    (READ, PUBLISH): frozenset({COMMIT}),
}
"""The allowed kinds of the next step, by the previous steps."""


def problem_of(steps: Sequence[str], body: dict[str, Any]) -> str | None:
    """Return why a step can't follow the earlier steps of its reservation; None if it can."""
    kind = str(body["kind"])
    if kind not in FOLLOWING.get(tuple(steps), ()):
        return f"'{kind}' can't follow '{steps[-1] if steps else RESERVE}'"
    if kind == COMMIT and body.get("manifest") is not None:
        if not steps:
            return "an answer was committed for which no row was read"
        if body["manifest"] and PUBLISH not in steps:
            return "a release was committed that was never published"
    return None


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


LIST_NAME = "signers"
"""The name in messages of a list of signers that is stored in the ledger."""


def signers_of_entry(entry: Entry) -> Signers:
    """Return the list of signers in a `signers` entry; raise SignatureError if it is invalid."""
    return signers_of(str(entry.body["signers"]), LIST_NAME)


def signers_without_local_times(text: str) -> Signers:
    """Return the list of signers in a text that is to be stored in a ledger.

    Raises SignatureError: DP-SIGN-007 for an invalid text, or for a text with times in local time.
    In another time zone, the signer of a valid entry might not be accepted, and the ledger would
    count as damaged.
    """
    signers = signers_of(text, LIST_NAME)
    if any(line.is_local for line in signers.lines):
        problem = "a ledger is read in several time zones, and so its times end with Z"
        raise SignatureError("DP-SIGN-007", problem=problem)
    return signers


def signature_problem(entry: Entry, signers: Signers, at: datetime | None) -> str | None:
    """Return why an entry has no valid signature at a time; None if it has one."""
    text = entry.body.get("signature")
    if not isinstance(text, str):
        return "it is not signed"
    signature = _valid_signature(text, signed_text(entry))
    if signature is None:
        return "its signature does not belong to it"
    verdict = signers.judge(
        signature.public, ENTRIES, at or parse_utc_time(str(entry.body["time"]))
    )
    if verdict.is_accepted:
        return None
    who = fingerprint(signature.public)
    return f"it is signed by {who}, {verdict.refusal or 'which is not one of the signers'}"


@lru_cache(maxsize=1 << 14)
def _valid_signature(armored: str, message: bytes) -> Signature | None:
    """Return the signature in a text; None unless it is valid for a message. Results are cached."""
    try:
        signature = Signature.from_armor(armored.encode())
    except ValueError:
        return None
    known = signature.namespace == ENTRIES and signature.holds(message)
    return signature if known else None


def problem_with_signers(entries: Sequence[Entry], signers: Signers) -> str | None:
    """Return why entries are not signed by the signers in a reader's list; None if they are.

    Somebody who can write the file can replace the whole history, including the list of signers.
    Only a comparison with the reader's list detects this.
    """
    first = next((i for i, entry in enumerate(entries) if entry.kind == SIGNERS), None)
    if first is None:
        return "none of its entries is signed"
    at = None
    for entry in entries[first:]:
        now = parse_utc_time(str(entry.body["time"]))
        at = now if at is None else max(now, at)
        problem = signature_problem(entry, signers, at)
        if problem is not None:
            return f"entry {entry.number}: {problem}"
    return None
