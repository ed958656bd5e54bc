"""How the commands answer: results, progress and failures.

Signals that end a command: it cleans up, and says what it had done, as after a failure.
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
from dprelease.system.deferred_signals import ENDING
from dprelease.system.resource_errors import gives_no_more

OURS = (signal.SIG_DFL, signal.default_int_handler)
"""What is replaced: who ignores a signal, or handles it, keeps to that."""


@contextmanager
def ending_signals() -> Iterator[list[int]]:
    """Turn signals into KeyboardInterrupt for a block, and yield the list of those that came.

    Libraries may turn the exception into one of their own: the list tells why it came. Only a main
    thread can have handlers.
    """
    came: list[int] = []
    before: dict[signal.Signals, object] = {}

    def interrupt(number: int, _frame: FrameType | None) -> None:
        came.append(number)
        raise KeyboardInterrupt

    if threading.current_thread() is threading.main_thread():
        for number in ENDING:
            if signal.getsignal(number) in OURS:
                before[number] = signal.signal(number, interrupt)
    try:
        yield came
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)  # type: ignore[arg-type]


NO_THREAD = "can't start new thread"
"""What Python says then, as an error of no other type than many."""

UNPRINTED = "DP-OUTPUT-007"

NOBODY_READS = 128 + signal.SIGPIPE
"""How shells show that a command ended because the next one of a pipe reads no more."""

USAGE_ERROR: Any = typer.BadParameter.__base__
"""What is said of words on the command line; typer has its class under different names."""

Wide = Annotated[bool, typer.Option("--wide", help="Print all columns, without wrapping lines.")]
AsJson = Annotated[bool, typer.Option("--json", help="Print JSON, for programs.")]


class ShownGroup(TyperGroup):
    """A group of commands whose complaints are printed as a terminal may have them.

    They quote words of the command line, which may be names of files: `dprelease check *`.
    """

    def make_context(self, *args: Any, **named: Any) -> Any:
        """Read the words."""
        with _usage_text():
            return super().make_context(*args, **named)

    def invoke(self, ctx: Any) -> Any:
        """Run the command that they name."""
        with _usage_text():
            return super().invoke(ctx)


Command = Callable[..., Any]


class Commands(typer.Typer):
    """Commands that take paths of this machine, and no URI in the place of one."""

    def command(self, *args: Any, **options: Any) -> Callable[[Any], Any]:
        """Register a function as a command."""
        register = super().command(*args, **options)

        def decorator(function: Command) -> Command:
            register(_with_local_paths(function))
            return function

        return decorator


def _with_local_paths(function: Command) -> Command:
    @functools.wraps(function)
    def wrapper(**given: Any) -> None:
        with reporting(given.get("as_json", False)):
            for value in given.values():
                several = value if isinstance(value, list) else [value]
                check_paths([one for one in several if isinstance(one, Path)])
        function(**given)

    return wrapper


@contextmanager
def _usage_text() -> Iterator[None]:
    try:
        yield
    except USAGE_ERROR as complaint:
        complaint.message = one_line(complaint.message)
        raise


def respond(as_json: bool, answer: object, words: str) -> None:
    """Print a result: JSON for programs, words for people.

    Raises
    ------
    OutputError
        DP-OUTPUT-007 if the standard output does not take it.
    """
    say(json.dumps(answer, indent=2, ensure_ascii=False) if as_json else words)


def say(text: str, *, end: bool = True) -> None:
    """Print a text to the standard output, as a terminal may have it.

    Raises
    ------
    OutputError
        DP-OUTPUT-007 if it does not take it.
    """
    failure: OutputError | None = None
    try:
        encoding = getattr(sys.stdout, "encoding", None) or "utf-8"
        shown = printable(f"{text}\n" if end else text)
        _print(shown.encode(encoding, "backslashreplace"), encoding)
    except (OSError, ValueError) as problem:  # it is full, or closed, at one end or the other
        reason = getattr(problem, "strerror", None) or "it is closed"
        failure = OutputError(UNPRINTED, reason=str(reason).lower())
        if getattr(problem, "errno", None) == errno.EPIPE:
            failure.exit_code = NOBODY_READS
    if failure is not None:
        _give_up_output()
        raise failure


def _print(text: bytes, encoding: str) -> None:
    """Print all of a text: an unbuffered stream writes what there is room for, and no more."""
    stream = getattr(sys.stdout, "buffer", None)
    if stream is None:  # there is none, or something in memory
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


def _give_up_output() -> None:
    """Let what could not be printed go nowhere: the end of the process would try it once more."""
    with suppress(OSError, ValueError):
        nowhere = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nowhere, sys.stdout.fileno())
        os.close(nowhere)


@contextmanager
def progress_bar(steps: int) -> Iterator[Callable[[str], None]]:
    """Yield a callback that shows a bar to people at a terminal, and nothing to programs."""
    if sys.stderr is None or not sys.stderr.isatty():
        yield lambda _step: None
        return
    from rich.console import Console
    from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

    parts = (TextColumn("{task.description}", markup=False), BarColumn(), TimeElapsedColumn())
    with Progress(*parts, console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task("starting", total=steps)

        def show(step: str) -> None:
            bar.update(task, description=one_line(step), advance=1)

        yield show


@contextmanager
def reporting(as_json: bool, *, prints_only: bool = False) -> Iterator[RunState]:
    """Turn every failure into a message and an exit code; no traceback, no local variable.

    Yields what the block's run has done, which it has to advance: every message reads it.
    `prints_only`: nothing else comes of it, so that there is nothing to tell where nobody reads.
    """
    state = RunState()
    failure: DpReleaseError | None = None
    with ending_signals() as signals:
        try:
            yield state
            return
        except (typer.Exit, typer.BadParameter):
            raise
        except DpReleaseError as error:
            failure = error
        except KeyboardInterrupt:
            signals = signals or [signal.SIGINT]  # somebody else's handler answered it
        except Exception as problem:  # noqa: BLE001 - its text may quote data, so only its type is told
            failure = _resource_error(problem) or _internal_error(type(problem).__name__)
    if signals or failure is None:  # whatever came of it, the cause was the signal
        failure = EndedError(signals[0], state.message_state)
    if state.message_state is not State.NOTHING:
        failure.tell(state.message_state)
    if failure.exit_code == NOBODY_READS and prints_only:
        raise typer.Exit(NOBODY_READS)
    fail(failure, as_json)


def _resource_error(problem: Exception) -> DpReleaseError | None:
    """Return the error for a system that gives no more; None where that is not what is wrong."""
    reason = ""
    if isinstance(problem, MemoryError) or _is_unmapped(problem):
        reason = "there is no more memory"
    elif isinstance(problem, OSError) and problem.errno and gives_no_more(problem):
        reason = os.strerror(problem.errno).lower()
    elif isinstance(problem, RuntimeError) and str(problem) == NO_THREAD:
        reason = "it can't start more threads"
    elif isinstance(problem, FileNotFoundError) and not _has_folder():
        reason = "the folder that it was started in no longer exists"
    if not reason:
        return None
    from dprelease.errors import SystemRefusedError

    return SystemRefusedError("DP-SYSTEM-001", reason=reason)


def _is_unmapped(problem: Exception) -> bool:
    """Return whether a library can't be loaded for want of memory: the loader says it in words."""
    said = str(problem).lower() if isinstance(problem, ImportError) else ""
    return "failed to map" in said or "cannot allocate" in said


def _has_folder() -> bool:
    try:
        os.getcwd()
    except FileNotFoundError:
        return False
    return True


def _internal_error(kind: str) -> DpReleaseError:
    from dprelease.errors import InternalError

    return InternalError("DP-INTERNAL-001", check=f"a {kind} was not expected here")


def fail(error: DpReleaseError, as_json: bool) -> NoReturn:
    """Print what is wrong, and end with its exit code, whether or not it can be printed."""
    as_json = as_json and error.code != UNPRINTED
    if as_json:
        several = list(error.errors) if isinstance(error, Findings) else [error]
        try:
            say(json.dumps({"ok": False, "findings": [e.to_json() for e in several]}, indent=2))
        except OutputError:
            as_json = False
    if not as_json:
        with suppress(OSError, ValueError):
            typer.echo(printable(str(error)), err=True)
    raise typer.Exit(error.exit_code)
