"""One tree of errors, each with a stable code, a place, a cause, a fix and the state of the world.

DpReleaseError
├── DeclarationError   the schema or the release file is wrong; nothing was read   (exit 2)
├── QueryError         a query has no bounded meaning; nothing was read            (exit 2)
├── DataError          a source cannot be used as it was declared                  (exit 2)
│   └── FrameError     something else than frames was given, also a TypeError
├── OutputError        the release cannot be written                               (exit 2)
├── BudgetError        the budget does not allow it                                (exit 3)
├── LedgerError        the ledger can't be used; nothing was read                  (exit 2)
├── VerificationError  a release is not what its manifest says                     (exit 4)
├── SignatureError     a key or a list of signers can't be used                    (exit 2)
├── SessionError       a frame or a session of `df.dp` is used wrongly             (exit 2)
│   └── UsageError     a question is called wrongly, also a TypeError
├── SystemRefusedError no memory, no open file, no disk is to be had               (exit 1)
├── EndedError         a signal ended the command                       (exit 128 + its number)
├── InternalError      a promise of this library does not hold: please report      (exit 1)
└── Findings           several of the above, reported together

No error ever carries a value of the data: not in its message, not in `args`, not in its cause.
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
    "UsageError",
    "VerificationError",
    "raise_all",
]
