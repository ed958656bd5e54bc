"""Run a release once on synthetic people, with replayed random bits, and record all its output."""

from __future__ import annotations

import io
import logging
import os
import tempfile
import warnings
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, redirect_stderr, redirect_stdout
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

from dprelease.auditing.pairs import Tables
from dprelease.auditing.replayed_words import ReplayedBits
from dprelease.auditing.stage import AuditedRelease
from dprelease.documents.audit_record import AuditFinding
from dprelease.errors import (
    DpReleaseError,
    InternalError,
    LedgerError,
    OutputError,
    RunState,
    State,
)
from dprelease.schema.source_types.source import Source
from dprelease.system.deferred_signals import temporary_folder
from dprelease.system.files import reason_of

TEMPORARY_FOLDER_VARIABLE = "TMPDIR"
"""The environment variable with the temporary folder for the processes of a run."""

RELEASE_FOLDER = "release"
"""The name of the folder that a run publishes."""


@contextmanager
def folder_for_runs() -> Iterator[Path]:
    """Yield a temporary folder for whole runs.

    Raises OutputError: DP-AUDIT-008 if the operating system can't create the folder.
    """
    problem = ""
    try:
        with temporary_folder("dprelease-audit-") as folder:
            yield folder
    except OSError as refused:
        problem = reason_of(refused)
    except LedgerError as refused:
        problem = refused.cause.rstrip(".")
    if problem:
        raise OutputError("DP-AUDIT-008", problem=problem)


@dataclass
class RunOutput:
    """The output of a run.

    `drawn_words` is the number of random 64-bit words that the run used. `messages` are the steps,
    warnings and printed texts of the run. `failure` is the error that ended the run, and None if
    the run published a release. `other_files` describes files that the run left in the temporary
    folder, or next to the published folder.
    """

    folder: Path
    drawn_words: int = 0
    messages: list[str] = field(default_factory=list)
    failure: Exception | None = None
    other_files: list[str] = field(default_factory=list)

    @property
    def exit_code(self) -> int:
        """Return the exit code of a command with the outcome of this run."""
        if self.failure is None:
            return 0
        if isinstance(self.failure, DpReleaseError):
            return self.failure.exit_code
        return InternalError.exit_code

    @property
    def place(self) -> Path:
        """Return the parent of the published folder, which contains all files of the run."""
        return self.folder.parent

    @property
    def message(self) -> str:
        """Return the message of the failure; empty if the run published a release."""
        return "" if self.failure is None else str(self.failure)

    @property
    def code(self) -> str:
        """Return the code or else the class of the failure; empty for a published release."""
        kind = "" if self.failure is None else type(self.failure).__name__
        return str(getattr(self.failure, "code", kind))

    @property
    def is_refused(self) -> bool:
        """Return whether the run ended with an error before any row was read."""
        return isinstance(self.failure, DpReleaseError) and self.failure.state is State.NOTHING


@contextmanager
def _separate_temporary_folder(run: RunOutput) -> Iterator[None]:
    """Use a separate temporary folder during a run, and record whether files were left in it."""
    known, named = tempfile.tempdir, os.environ.get(TEMPORARY_FOLDER_VARIABLE)
    with temporary_folder("dprelease-audit-run-") as place:
        tempfile.tempdir = os.environ[TEMPORARY_FOLDER_VARIABLE] = str(place)
        try:
            yield
        finally:
            tempfile.tempdir = known
            os.environ.pop(TEMPORARY_FOLDER_VARIABLE)
            if named is not None:
                os.environ[TEMPORARY_FOLDER_VARIABLE] = named
            run.other_files += ["a file or folder that was to be temporary"] * bool(
                os.listdir(place)
            )


def failed_run_finding(check: Literal["twins", "canaries"], seen: str, pair: str) -> AuditFinding:
    """Return the finding on a run that failed, or that left other files."""
    claimed = "a release, whatever rows say, and nothing else"
    return AuditFinding(check=check, query="", column="", claimed=claimed, seen=seen, pair=pair)


def refuse_failed_runs(*runs: RunOutput) -> None:
    """Raise OutputError DP-AUDIT-008 for failed runs that test nothing.

    These are runs that all ended with the same error before they read any row, and runs that failed
    for a reason outside the tables, such as a full disk. Other failures are findings.
    """
    alike = all(run.is_refused for run in runs) and len({run.message for run in runs}) == 1
    for failure in (run.failure for run in runs):
        own = isinstance(failure, OutputError | LedgerError)
        if isinstance(failure, DpReleaseError) and (alike or own):
            raise OutputError("DP-AUDIT-008", problem=failure.cause.rstrip("."))


def run_release(
    audited: AuditedRelease,
    tables: Tables,
    place: Path,
    stream: str,
    *,
    files: Mapping[str, Source] | None = None,
    ledger: Path | None = None,
    formats: tuple[str, ...] | None = None,
) -> RunOutput:
    """Run the release once, and return its output.

    `stream` is the text from which the random bits of the run are derived. `place` is a new folder,
    in which each run publishes a folder with the name `RELEASE_FOLDER`.
    """
    place.mkdir(parents=True)
    folder = place / RELEASE_FOLDER
    bits, run, state = ReplayedBits(stream), RunOutput(folder), RunState()
    out, err, log = io.StringIO(), io.StringIO(), io.StringIO()
    handler = logging.StreamHandler(log)
    logging.getLogger().addHandler(handler)
    try:
        with (
            redirect_stdout(out),
            redirect_stderr(err),
            _separate_temporary_folder(run),
            warnings.catch_warnings(record=True) as caught,
        ):
            warnings.simplefilter("always")
            try:
                audited.publish(
                    folder, tables, bits, files=files, ledger=ledger, formats=formats,
                    progress=run.messages.append, state=state,
                )  # fmt: skip
            except Exception as failure:  # noqa: BLE001 - compared with the twin's failure
                run.failure = failure
    finally:
        logging.getLogger().removeHandler(handler)
    other_files = [path for path in place.iterdir() if path.name != RELEASE_FOLDER]
    run.other_files += ["a file or folder beside the release"] * bool(other_files)
    run.drawn_words = bits.drawn_words
    run.messages += [str(one.message) for one in caught]
    run.messages += [text for text in (out.getvalue(), err.getvalue(), log.getvalue()) if text]
    return run
