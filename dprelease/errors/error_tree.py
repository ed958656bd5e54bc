"""The exception classes, whose messages are built from the catalogue by error code."""

from __future__ import annotations

import signal
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, ClassVar

from dprelease.errors.catalogue import (
    Template,
    budget_errors,
    data_errors,
    declaration_errors,
    option_errors,
    query_errors,
    session_errors,
    verification_errors,
)
from dprelease.errors.printable import one_line
from dprelease.errors.state import State
from dprelease.system.resource_errors import is_exhausted

EXIT_UNEXPECTED, EXIT_INPUT, EXIT_BUDGET, EXIT_VERIFICATION, EXIT_PUBLISHED = 1, 2, 3, 4, 5

SYSTEM_CODES = frozenset({"DP-DATA-006", "DP-OUTPUT-007", "DP-OUTPUT-008", "DP-OUTPUT-015"})
"""Codes of errors that the system or a failing engine caused, whatever exception class has them."""


@dataclass(frozen=True, slots=True)
class Place:
    """The position of an error: a file with a line, and the path of keys inside the file."""

    file: str | None = None
    line: int | None = None
    key: str = ""

    def __str__(self) -> str:
        spot = ""
        if self.file is not None:
            spot = self.file if self.line is None else f"{self.file}:{self.line}"
        return "  ".join(part for part in (spot, self.key) if part)


class DpReleaseError(Exception):
    """The base class. `code`, `place`, `cause`, `fix`, `state` and `exit_code` are public.

    `column` and `table` are the column and the table that the error is about; None for no such one.

    The attributes hold names unchanged; the message, which a traceback prints, escapes them.
    `refused_by`: the exception of the system, which decides whether an input is to blame.
    """

    templates: ClassVar[dict[str, Template]] = {}
    exit_code: int = EXIT_UNEXPECTED

    def __init__(
        self,
        code: str,
        *,
        place: Place | None = None,
        state: State = State.NOTHING,
        refused_by: object = None,
        **fields: object,
    ) -> None:
        template = self.templates[code]
        if code in SYSTEM_CODES or is_exhausted(refused_by):
            self.exit_code = EXIT_UNEXPECTED
        self.code = code
        self.place = place or Place()
        self.state = state
        self.column = None if fields.get("column") is None else str(fields["column"])
        self.table = None if fields.get("table") is None else str(fields["table"])
        self.cause = template.cause.format(**fields)
        self.fix = template.fix.format(**fields)
        # The message in `args` is escaped, because a traceback prints it to the terminal.
        super().__init__(str(self))

    # The default would call the class with the message alone, which has no code; workers of
    # `multiprocessing` pickle exceptions.
    def __reduce__(self) -> tuple[Any, ...]:
        return (_restore_error, (type(self), dict(self.__dict__)))

    def __str__(self) -> str:
        lines = [one_line(str(self.place))] if str(self.place) else []
        lines.append(f"{self.code}  {one_line(self.cause)}")
        lines.append(f"  Fix    {one_line(self.fix)}")
        lines.append(f"  State  {self.state.value}.")
        return "\n".join(lines)

    def set_state(self, state: State) -> None:
        """Set the state at which the run ended, and adapt the fix to this state.

        A run doesn't know that rows were read to find an error of the layout of a source.
        """
        if state is State.NOTHING and self.state is State.READ:
            return
        self.state, self.fix = state, state.advice_after(self.fix)
        self.args = (str(self),)

    def set_place(self, place: Place) -> None:
        """Set another position, which the code that raised the error could not know."""
        self.place = place
        self.args = (str(self),)

    def add_file_to_cause(self, file: str) -> None:
        """Append to the cause the name of the file, if the error may be about several files."""
        self.cause = f"{self.cause.removesuffix('.')}: so it is in {file}."
        self.args = (str(self),)

    def to_json(self) -> dict[str, object]:
        """Return code, place, cause, fix and state as JSON values."""
        return {
            "code": self.code,
            "file": self.place.file,
            "line": self.place.line,
            "key": self.place.key,
            "cause": self.cause,
            "fix": self.fix,
            "state": self.state.value,
        }


def _restore_error(kind: type[DpReleaseError], attributes: dict[str, object]) -> DpReleaseError:
    """Return an error from its class and its attributes, when it is unpickled."""
    error = kind.__new__(kind)
    error.__dict__.update(attributes)
    error.args = (str(error),)
    return error


class DeclarationError(DpReleaseError):
    """A table schema, a release file or a path is incomplete, contradictory or unreadable."""

    templates = declaration_errors.TEMPLATES | option_errors.TEMPLATES
    exit_code = EXIT_INPUT


class QueryError(DpReleaseError):
    """A query has no bounded meaning over the declared tables."""

    templates = query_errors.TEMPLATES | query_errors.CONSISTENT_TABLES
    exit_code = EXIT_INPUT


class DataError(DpReleaseError):
    """A source can't be opened, or lacks the declared columns or types."""

    templates = data_errors.TEMPLATES
    exit_code = EXIT_INPUT


class FrameError(DataError, TypeError):
    """An argument in Python is not a frame; also a TypeError, as Python raises."""

    templates = data_errors.FRAME_ARGUMENTS


class OutputError(DpReleaseError):
    """The release can't be written to the declared folder."""

    templates = option_errors.OUTPUT
    exit_code = EXIT_INPUT


class BudgetError(DpReleaseError):
    """The budget is spent, too small, or unusable for the mechanism."""

    templates = budget_errors.TEMPLATES
    exit_code = EXIT_BUDGET
    price: float = float("inf")
    """The privacy cost of the rejected request, if the cost is what is wrong."""


class LedgerError(DpReleaseError):
    """The ledger can't be used; nothing was read, nothing was spent."""

    templates = budget_errors.LEDGERS
    exit_code = EXIT_INPUT


class VerificationError(DpReleaseError):
    """The files of a release differ from its manifest."""

    templates = verification_errors.TEMPLATES
    exit_code = EXIT_VERIFICATION


class SignatureError(DpReleaseError):
    """A key, or a list of signers, can't be used."""

    templates = verification_errors.SIGNATURES
    exit_code = EXIT_INPUT


class SessionError(DpReleaseError):
    """A frame or a session of the pandas accessor can't be used in this way."""

    templates = session_errors.TEMPLATES
    exit_code = EXIT_INPUT


class UsageError(SessionError, TypeError):
    """A query method of the pandas accessor is called with invalid arguments."""

    templates = session_errors.CALL_ERRORS


class UnavailableError(SessionError, AttributeError):
    """A method of pandas or polars is not available for queries; also an AttributeError."""

    templates = session_errors.ATTRIBUTE_ERRORS


class InternalError(DpReleaseError):
    """An assumption of this library does not hold; the run was stopped."""

    templates = session_errors.INTERNAL
    exit_code = EXIT_UNEXPECTED


class SystemRefusedError(DpReleaseError):
    """The system lacks a resource that the command needs, such as memory; the input is valid."""

    templates = session_errors.REFUSED
    exit_code = EXIT_UNEXPECTED


class EndedError(DpReleaseError):
    """A signal ended the command; the exit code is that of a shell, 128 plus the signal's number.

    `number`: the number of the signal.
    """

    templates = session_errors.ENDED

    def __init__(self, number: int, state: State) -> None:
        super().__init__("DP-SIGNAL-001", state=state, signal=signal.Signals(number).name)
        self.exit_code = 128 + number


class Findings(DpReleaseError):
    """Several errors that were found together, in the order of files and lines."""

    def __init__(self, errors: Iterable[DpReleaseError]) -> None:
        self.errors = tuple(errors)
        first = self.errors[0]
        self.code, self.place, self.state = first.code, first.place, first.state
        self.cause, self.fix = first.cause, first.fix
        Exception.__init__(self, str(self))

    @property
    def exit_code(self) -> int:  # type: ignore[override]
        """Return the exit code of the first error."""
        return self.errors[0].exit_code

    def set_state(self, state: State) -> None:
        """Set the state of every error."""
        for error in self.errors:
            error.set_state(state)
        super().set_state(state)

    def with_each_cause_once(self) -> DpReleaseError:
        """Return the errors without those whose code and cause repeat an earlier one."""
        several = list({(one.code, one.cause): one for one in reversed(self.errors)}.values())
        return several[0] if len(several) == 1 else Findings(reversed(several))

    def __str__(self) -> str:
        return "\n\n".join(str(error) for error in self.errors)


def raise_all(errors: Iterable[DpReleaseError]) -> None:
    """Return if `errors` is empty; raise the only error, or several errors as `Findings`."""
    several = list(errors)
    if len(several) == 1:
        raise several[0]
    if several:
        raise Findings(several)
