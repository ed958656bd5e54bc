"""Run a release once on synthetic people, and record all its output."""

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
from dprelease.auditing.replayed_words import ReplayedWords
from dprelease.auditing.stage import Stage
from dprelease.documents.audits.audit_record import AuditFinding
from dprelease.errors import (
    DpReleaseError,
    InternalError,
    LedgerError,
    OutputError,
    RunState,
    State,
)
from dprelease.schema.table import Source
from dprelease.system.deferred_signals import temporary_folder
from dprelease.system.files import reason_of

VARIABLE = "TMPDIR"
"""The environment variable that sets the temporary folder for the processes of a run."""

RELEASE = "release"
"""The name of the folder that a run publishes."""


@contextmanager
def temporary_room() -> Iterator[Path]:
    """Yield a temporary folder for whole runs.

    Raises
    ------
    OutputError
        DP-AUDIT-008 if the operating system refuses.
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

    `drawn` is the number of random words that the run used. `failure` is the error that ended the
    run; None if it published. `other_files` are files that the run left in the temporary folder, or
    next to its folder.
    """

    folder: Path
    drawn: int = 0
    messages: list[str] = field(default_factory=list)
    failure: Exception | None = None
    other_files: list[str] = field(default_factory=list)

    @property
    def exit_code(self) -> int:
        """Return the exit code that a command would have after this run."""
        if self.failure is None:
            return 0
        if isinstance(self.failure, DpReleaseError):
            return self.failure.exit_code
        return InternalError.exit_code

    @property
    def place(self) -> Path:
        """Return the parent folder, which contains the published folder and all files next to
        it."""
        return self.folder.parent

    @property
    def message(self) -> str:
        """Return the message of the failure; empty if the run published."""
        return "" if self.failure is None else str(self.failure)

    @property
    def code(self) -> str:
        """Return the code, or else the class, of the failure; empty if the run published."""
        kind = "" if self.failure is None else type(self.failure).__name__
        return str(getattr(self.failure, "code", kind))

    @property
    def is_refused(self) -> bool:
        """Return whether the run ended before a row was read, because of its declaration or
        types."""
        return isinstance(self.failure, DpReleaseError) and self.failure.state is State.NOTHING


@contextmanager
def _separate_temporary_folder(run: RunOutput) -> Iterator[None]:
    """Use a separate temporary folder during a run, and record the files left in it."""
    known, named = tempfile.tempdir, os.environ.get(VARIABLE)
    with temporary_folder("dprelease-audit-run-") as place:
        tempfile.tempdir = os.environ[VARIABLE] = str(place)
        try:
            yield
        finally:
            tempfile.tempdir = known
            os.environ.pop(VARIABLE)
            if named is not None:
                os.environ[VARIABLE] = named
            run.other_files += ["a file or folder that was to be temporary"] * bool(
                os.listdir(place)
            )


def failed_run_finding(check: Literal["twins", "canaries"], seen: str, pair: str) -> AuditFinding:
    """Return the finding for a run on synthetic people that fails, or leaves other files."""
    claimed = "a release, whatever rows say, and nothing else"
    return AuditFinding(check=check, query="", column="", claimed=claimed, seen=seen, pair=pair)


def refuse_failed_runs(*runs: RunOutput) -> None:
    """Raise OutputError DP-AUDIT-008 for runs that show nothing, because all ended before reading.

    Runs that fail for a reason outside the tables, such as a full disk, show nothing either.
    Failures after rows were read are findings instead.
    """
    alike = all(run.is_refused for run in runs) and len({run.message for run in runs}) == 1
    for failure in (run.failure for run in runs):
        own = isinstance(failure, OutputError | LedgerError)
        if isinstance(failure, DpReleaseError) and (alike or own):
            raise OutputError("DP-AUDIT-008", problem=failure.cause.rstrip("."))


def run_release(
    stage: Stage,
    tables: Tables,
    place: Path,
    stream: str,
    *,
    files: Mapping[str, Source] | None = None,
    ledger: Path | None = None,
    formats: tuple[str, ...] | None = None,
) -> RunOutput:
    """Run the release with the bits of a stream, and return the result.

    `place` is a new folder, in which the run publishes a folder with the same name as in all runs.
    """
    place.mkdir(parents=True)
    folder = place / RELEASE
    bits, run, state = ReplayedWords(stream), RunOutput(folder), RunState()
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
                stage.publish(
                    folder, tables, bits, files=files, ledger=ledger, formats=formats,
                    progress=run.messages.append, state=state,
                )  # fmt: skip
            except Exception as failure:  # noqa: BLE001 - it is compared with that of the twin
                run.failure = failure
    finally:
        logging.getLogger().removeHandler(handler)
    other_files = [path for path in place.iterdir() if path.name != RELEASE]
    run.other_files += ["a file or folder beside the release"] * bool(other_files)
    run.drawn = bits.drawn
    run.messages += [str(one.message) for one in caught]
    run.messages += [text for text in (out.getvalue(), err.getvalue(), log.getvalue()) if text]
    return run
