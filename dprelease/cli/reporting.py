"""Print results, progress and failures of commands.

If a signal ends a command, the command cleans up and prints what it had done, as after a failure.
"""

from __future__ import annotations

import errno
import functools
import json
import os
import signal
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from types import FrameType
from typing import Annotated, Any, NoReturn

import typer
from typer.core import TyperGroup

from dprelease.errors import DpReleaseError, EndedError, Findings, OutputError, RunState, State
from dprelease.errors.local_paths import check_paths
from dprelease.errors.printable import one_line, printable
from dprelease.system.deferred_signals import ENDING_SIGNALS
from dprelease.system.resource_errors import is_exhausted

REPLACED_HANDLERS = (signal.SIG_DFL, signal.default_int_handler)
"""The signal handlers that are replaced; a signal that the caller ignores or handles is left alone.
"""


@contextmanager
def interrupt_on_signals() -> Iterator[list[int]]:
    """Raise KeyboardInterrupt for signals during a block, and yield the list of their numbers.

    A library may replace this exception by another one; the list then still shows that a signal was
    the cause. Only the main thread can have signal handlers.
    """
    received: list[int] = []
    before: dict[signal.Signals, object] = {}

    def interrupt(number: int, _frame: FrameType | None) -> None:
        """Note the number of a signal, and raise KeyboardInterrupt."""
        received.append(number)
        raise KeyboardInterrupt

    if threading.current_thread() is threading.main_thread():
        for number in ENDING_SIGNALS:
            if signal.getsignal(number) in REPLACED_HANDLERS:
                before[number] = signal.signal(number, interrupt)
    try:
        yield received
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)  # type: ignore[arg-type]


NO_THREAD_MESSAGE = "can't start new thread"
"""Message of the RuntimeError that Python raises if it can't start a thread."""

UNPRINTED = "DP-OUTPUT-007"

BROKEN_PIPE_EXIT_CODE = 128 + signal.SIGPIPE
"""Exit code of a command whose output is no longer read, as shells report a broken pipe."""

USAGE_ERROR: Any = typer.BadParameter.__base__
"""Base class of errors on the command line; typer defines it under different names."""

Wide = Annotated[bool, typer.Option("--wide", help="Print all columns, without wrapping lines.")]
AsJson = Annotated[bool, typer.Option("--json", help="Print JSON, for programs.")]
LedgerToCheck = Annotated[
    Path | None, typer.Option(help="Also check that the release was charged to this ledger.")
]
SignersToCheck = Annotated[
    Path | None, typer.Option(help="A list of who may sign, an allowed_signers file of OpenSSH.")
]


class PrintableUsageGroup(TyperGroup):
    """A group of commands whose usage errors are printed without control characters.

    The errors quote arguments of the command line, which may be file names: `dprelease check *`.
    """

    def make_context(self, *args: Any, **named: Any) -> Any:
        """Parse the arguments of the command line."""
        with _printable_usage_errors():
            return super().make_context(*args, **named)

    def invoke(self, ctx: Any) -> Any:
        """Run the command that the arguments name."""
        with _printable_usage_errors():
            return super().invoke(ctx)


Command = Callable[..., Any]


class Commands(typer.Typer):
    """Commands whose path arguments must be local paths, not URIs."""

    def command(self, *args: Any, **options: Any) -> Callable[[Any], Any]:
        """Return a decorator that registers a function as a command."""
        register = super().command(*args, **options)

        def decorator(function: Command) -> Command:
            """Register a function as a command, and return the function unchanged."""
            register(_with_local_paths(function))
            return function

        return decorator


def _with_local_paths(function: Command) -> Command:
    """Return a command that first checks that all of its path arguments are local."""

    @functools.wraps(function)
    def wrapper(**given: Any) -> None:
        """Check the paths among the arguments, and run the command."""
        with report_failures(given.get("as_json", False)):
            for value in given.values():
                several = value if isinstance(value, list) else [value]
                check_paths([one for one in several if isinstance(one, Path)])
        function(**given)

    return wrapper


@contextmanager
def _printable_usage_errors() -> Iterator[None]:
    """Escape control characters in the usage errors that the block raises."""
    try:
        yield
    except USAGE_ERROR as complaint:
        # Pydantic, which checks values for typer, names its own class of error first.
        complaint.message = one_line(complaint.message.removeprefix("Value error, "))
        raise


def print_result(as_json: bool, answer: object, words: str) -> None:
    """Print a result: as JSON for programs, as text for people.

    Raises OutputError: DP-OUTPUT-007 if the result can't be written to standard output.
    """
    print_text(json.dumps(answer, indent=2, ensure_ascii=False) if as_json else words)


def print_text(text: str, *, end: bool = True) -> None:
    """Print a text to standard output, without characters that a terminal would obey.

    Raises OutputError: DP-OUTPUT-007 if the text can't be written.
    """
    failure: OutputError | None = None
    try:
        encoding = getattr(sys.stdout, "encoding", None) or "utf-8"
        shown = printable(f"{text}\n" if end else text)
        # A terminal with an old encoding can't show all characters, which is no reason to fail
        # after a run.
        _write_all(shown.encode(encoding, "backslashreplace"), encoding)
    except (OSError, ValueError) as problem:  # the disk is full, or an end is closed
        reason = getattr(problem, "strerror", None) or "it is closed"
        failure = OutputError(UNPRINTED, reason=str(reason).lower())
        if getattr(problem, "errno", None) == errno.EPIPE:
            failure.exit_code = BROKEN_PIPE_EXIT_CODE
    if failure is not None:
        _discard_output()
        raise failure


def _write_all(text: bytes, encoding: str) -> None:
    """Print a whole text, because an unbuffered stream may write only a part of it at once."""
    stream = getattr(sys.stdout, "buffer", None)
    if stream is None:  # there is no standard output, or it is in memory
        typer.echo(text.decode(encoding), nl=False)
        return
    sys.stdout.flush()
    rest = memoryview(text)
    while rest:
        written = stream.write(rest)
        if not written:
            raise BlockingIOError(errno.EAGAIN, os.strerror(errno.EAGAIN))
        rest = rest[written:]
    stream.flush()


def _discard_output() -> None:
    """Redirect standard output to the null device, so that nothing is printed at exit."""
    with suppress(OSError, ValueError):
        nowhere = os.open(os.devnull, os.O_WRONLY)
        # Python flushes the stream at exit, and would print a second error.
        os.dup2(nowhere, sys.stdout.fileno())
        os.close(nowhere)


@contextmanager
def progress_bar(steps: int) -> Iterator[Callable[[str], None]]:
    """Yield a callback that advances a progress bar at a terminal, and does nothing elsewhere."""
    if sys.stderr is None or not sys.stderr.isatty():
        yield lambda _step: None
        return
    from rich.console import Console
    from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

    parts = (TextColumn("{task.description}", markup=False), BarColumn(), TimeElapsedColumn())
    with Progress(*parts, console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task("starting", total=steps)

        def show(step: str) -> None:
            """Advance the bar by one step, and show the name of the step."""
            bar.update(task, description=one_line(step), advance=1)

        yield show


@contextmanager
def report_failures(as_json: bool, *, prints_only: bool = False) -> Iterator[RunState]:
    """Turn every failure in a block into a message and an exit code, without a traceback.

    Yields the state of the run. The block must advance it, because every message contains it.
    `prints_only`: the block only prints its result, so that nothing is reported if its output is
    not read.
    """
    state = RunState()
    failure: DpReleaseError | None = None
    with interrupt_on_signals() as signals:
        try:
            yield state
            return
        except (typer.Exit, typer.BadParameter):
            raise
        except DpReleaseError as error:
            failure = error
        except KeyboardInterrupt:
            signals = signals or [signal.SIGINT]  # another handler raised it
        except Exception as problem:  # noqa: BLE001 - its text may quote data: print only its type
            failure = _resource_error(problem) or _internal_error(type(problem).__name__)
    if signals or failure is None:  # the signal is the cause, whatever exception followed
        failure = EndedError(signals[0], state.message_state)
    if state.message_state is not State.NOTHING:
        failure.set_state(state.message_state)
    if failure.exit_code == BROKEN_PIPE_EXIT_CODE and prints_only:
        raise typer.Exit(BROKEN_PIPE_EXIT_CODE)
    exit_with_error(failure, as_json)


def _resource_error(problem: Exception) -> DpReleaseError | None:
    """Return the error for an exhausted resource of the system; None for any other exception."""
    reason = ""
    if isinstance(problem, MemoryError) or _is_unmapped(problem):
        reason = "there is no more memory"
    elif isinstance(problem, OSError) and problem.errno and is_exhausted(problem):
        reason = os.strerror(problem.errno).lower()
    elif isinstance(problem, RuntimeError) and str(problem) == NO_THREAD_MESSAGE:
        reason = "it can't start more threads"
    elif isinstance(problem, FileNotFoundError) and not _current_folder_exists():
        reason = "the folder that it was started in no longer exists"
    if not reason:
        return None
    from dprelease.errors import SystemRefusedError

    return SystemRefusedError("DP-SYSTEM-001", reason=reason)


def _is_unmapped(problem: Exception) -> bool:
    """Return whether the loader reports that a library can't be loaded for lack of memory."""
    said = str(problem).lower() if isinstance(problem, ImportError) else ""
    return "failed to map" in said or "cannot allocate" in said


def _current_folder_exists() -> bool:
    try:
        os.getcwd()
    except FileNotFoundError:
        return False
    return True


def _internal_error(kind: str) -> DpReleaseError:
    """Return the error for an exception of an unexpected type."""
    from dprelease.errors import InternalError

    return InternalError("DP-INTERNAL-001", check=f"a {kind} was not expected here")


def exit_with_error(error: DpReleaseError, as_json: bool) -> NoReturn:
    """Print an error, then end with its exit code even if the error can't be printed."""
    as_json = as_json and error.code != UNPRINTED
    if as_json:
        several = list(error.errors) if isinstance(error, Findings) else [error]
        try:
            print_text(
                json.dumps({"ok": False, "findings": [e.to_json() for e in several]}, indent=2)
            )
        except OutputError:
            as_json = False
    if not as_json:
        with suppress(OSError, ValueError):
            typer.echo(printable(str(error)), err=True)
    raise typer.Exit(error.exit_code)
