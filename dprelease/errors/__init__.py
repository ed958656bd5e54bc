"""The tree of exceptions, each with a stable code, a position, a cause, a fix and a state.

DpReleaseError
├── DeclarationError   the schema or the release file is wrong; nothing was read   (exit 2)
├── QueryError         a query has no bounded meaning; nothing was read            (exit 2)
├── DataError          a source differs from its declaration, or can't be opened   (exit 2)
│   └── FrameError     an argument is not a frame; also a TypeError
├── OutputError        the release cannot be written                               (exit 2)
├── BudgetError        the budget does not allow the release                       (exit 3)
├── LedgerError        the ledger can't be used; nothing was read                  (exit 2)
├── VerificationError  the files of a release differ from its manifest             (exit 4)
├── SignatureError     a key or a list of signers can't be used                    (exit 2)
├── SessionError       a frame or a session of `df.dp` can't be used in this way   (exit 2)
│   ├── UsageError     a function has invalid arguments; also a TypeError
│   └── UnavailableError   a method that queries don't have; also an AttributeError
├── SystemRefusedError memory, files or disk space are exhausted                   (exit 1)
├── EndedError         a signal ended the command                       (exit 128 + its number)
├── InternalError      an assumption of this library fails: please report it       (exit 1)
└── Findings           several of these errors, reported together

No exception contains a value of the data: not in its message, its `args` or its cause.
"""

from dprelease.errors.error_tree import (
    BudgetError,
    DataError,
    DeclarationError,
    DpReleaseError,
    EndedError,
    Findings,
    FrameError,
    InternalError,
    LedgerError,
    OutputError,
    Place,
    QueryError,
    SessionError,
    SignatureError,
    SystemRefusedError,
    UnavailableError,
    UsageError,
    VerificationError,
    raise_all,
)
from dprelease.errors.state import ChargeState, RunState, State

__all__ = [
    "BudgetError",
    "ChargeState",
    "DataError",
    "DeclarationError",
    "DpReleaseError",
    "EndedError",
    "Findings",
    "FrameError",
    "InternalError",
    "LedgerError",
    "OutputError",
    "Place",
    "QueryError",
    "RunState",
    "SessionError",
    "SignatureError",
    "State",
    "SystemRefusedError",
    "UnavailableError",
    "UsageError",
    "VerificationError",
    "raise_all",
]
