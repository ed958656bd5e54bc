"""The command line.

Exit codes: 0 if the command is done; 1 for an unexpected failure, or a system that has run out of a
resource; 2 for wrong input; 3 if the budget does not allow the release; 4 if the verification
failed; 5 if the release is already published; 128 plus the number of a signal that ended the
command. Results go to standard output, everything else to standard error.
"""

from __future__ import annotations

import ctypes
import os
import resource
from collections.abc import Callable
from contextlib import suppress
from typing import Annotated

import typer

from dprelease.cli import audit_command as auditing
from dprelease.cli import export_command as exporting
from dprelease.cli import init_command, reference_commands, releases, signing, table_commands
from dprelease.cli import ledger_commands as ledger
from dprelease.cli import local_commands as local
from dprelease.cli import profile_command as confidential
from dprelease.cli import rehearsal_command as attacking
from dprelease.cli import rehearsal_command as rehearsal
from dprelease.cli import sql_command as question
from dprelease.cli.reporting import Commands, PrintableUsageGroup, print_text, report_failures
from dprelease.version import __version__

# Commands import what they need when they run, so that `--help` loads neither pydantic nor an
# engine.
COMMANDS: dict[str, Callable[..., None] | typer.Typer] = {
    "check": releases.check,
    "plan": releases.plan,
    "rehearse": rehearsal.rehearse,
    "attack": attacking.attack,
    "audit": auditing.audit,
    "profile": confidential.profile,
    "run": releases.run,
    "verify": releases.verify,
    "report": exporting.report,
    "sign": signing.sign,
    "export": exporting.export,
    "sql": question.ask,
    "init": init_command.init,
    "areas": table_commands.areas,
    "compare": table_commands.compare,
    "estimate": local.estimate,
    "mechanisms": reference_commands.app,
    "schema": reference_commands.show,
    "ledger": ledger.app,
}


def application() -> typer.Typer:
    """Return the command line with all its commands."""
    made = Commands(
        cls=PrintableUsageGroup,
        help="Differentially private data releases.",
        no_args_is_help=True,
        add_completion=False,
        # Typer's own tracebacks can show local variables, which may hold rows.
        pretty_exceptions_enable=False,
        rich_markup_mode=None,
    )
    made.callback()(_version_option)  # makes a group even of a single command
    for name, command in COMMANDS.items():
        if isinstance(command, typer.Typer):
            made.add_typer(command, name=name)
        else:
            made.command(name)(command)
    return made


def _print_version(is_set: bool) -> None:
    """Print the version and end the command, if --version is set."""
    if is_set:
        with report_failures(False, prints_only=True):
            print_text(f"dprelease {__version__}")
        raise typer.Exit


def _version_option(
    version: Annotated[
        bool,
        typer.Option(
            "--version", help="Print the version.", callback=_print_version, is_eager=True
        ),
    ] = False,
) -> None:
    """Declare the option --version of the command line."""
    pass


app = application()


def main() -> None:
    """Run the command line, which ends the process with its exit code."""
    prepare_process()
    try:
        app()
    finally:
        # If an interrupt left code that runs from a string, as data classes do, `python -m` would
        # end as if by SIGINT, even after the interrupt was handled: until other such code has run.
        eval("None")


SET_DUMPABLE = 4
"""Number of the option PR_SET_DUMPABLE of prctl(2)."""


def prepare_process() -> None:
    """Open closed standard streams, forbid core files, and disable plugins of pydantic."""
    _open_standard_streams()
    _forbid_core_files()
    # An installed plugin of pydantic would receive all values that are validated.
    os.environ.setdefault("PYDANTIC_DISABLE_PLUGINS", "__all__")


def _open_standard_streams() -> None:
    """Open the null device in place of every standard stream that is closed.

    Otherwise the next opened file would get the file number of a standard stream, and would receive
    everything that libraries print to it.
    """
    for number in (0, 1, 2):
        try:
            os.fstat(number)
        except OSError:
            os.open(os.devnull, os.O_RDWR)  # the system takes the smallest free file number


def _forbid_core_files() -> None:
    """Prevent core files of this process and of its children, because they would contain rows.

    Children inherit the limit, and none can raise it again. A kernel that passes core files to a
    program (see core(5)) ignores this limit. It checks whether the process is dumpable; a process
    that is not dumpable is also protected from other processes of the same user that read its
    memory.
    """
    with suppress(OSError, ValueError):  # fails only in unusual sandboxes
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    with suppress(AttributeError, OSError):  # only Linux has prctl
        ctypes.CDLL(None).prctl(SET_DUMPABLE, 0, 0, 0, 0)
