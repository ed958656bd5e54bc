"""One whole run of a release about invented people, with all that it says."""

from __future__ import annotations

import io
import logging
import tempfile
import warnings
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, redirect_stderr, redirect_stdout
from dataclasses import dataclass, field
from pathlib import Path

from dprelease.auditing.pairs import Tables
from dprelease.auditing.replayed_words import Replayed
from dprelease.auditing.stage import Stage
from dprelease.errors import DpReleaseError, LedgerError, OutputError, RunState
from dprelease.schema.table import Source

RELEASE = "release"
"""The folder that a run publishes, in a place of its own."""


@contextmanager
def room() -> Iterator[Path]:
    """Yield a temporary folder for whole runs.

    Raises
    ------
    OutputError
        DP-AUDIT-008 where the system refuses.
    """
    problem = ""
    try:
        with tempfile.TemporaryDirectory(prefix="dprelease-audit-") as made:
            yield Path(made)
    except OSError as refused:
        problem = (refused.strerror or type(refused).__name__).lower()
    except LedgerError as refused:
        problem = refused.cause.rstrip(".")
    if problem:
        raise OutputError("DP-AUDIT-008", problem=problem)


@dataclass
class Ran:
    """What a run left and said. `drawn`: words of its stream. `failure`: None if it published."""

    folder: Path
    drawn: int = 0
    said: list[str] = field(default_factory=list)
    failure: DpReleaseError | None = None

    @property
    def exit_code(self) -> int:
        """Return the code that a command would end with."""
        return 0 if self.failure is None else self.failure.exit_code

    @property
    def place(self) -> Path:
        """Return the folder of all that the run left: its own, and what it left beside it."""
        return self.folder.parent

    @property
    def message(self) -> str:
        """Return what the failure says; nothing without one."""
        return "" if self.failure is None else str(self.failure)


def refuse_unrun(*runs: Ran) -> None:
    """Raise OutputError DP-AUDIT-008 for runs that tell nothing: all failed, and in the same way.

    Nor do those tell anything that failed on what no table says, as on a disk that is full.
    """
    failures = [run.failure for run in runs if run.failure is not None]
    alike = len(failures) == len(runs) and len({run.message for run in runs}) == 1
    for failure in failures:
        if alike or isinstance(failure, OutputError | LedgerError):
            raise OutputError("DP-AUDIT-008", problem=failure.cause.rstrip("."))


def ran(
    stage: Stage,
    tables: Tables,
    place: Path,
    stream: str,
    *,
    files: Mapping[str, Source] | None = None,
    ledger: Path | None = None,
    formats: tuple[str, ...] | None = None,
) -> Ran:
    """Run the release with the bits of a stream, and return all that came of it.

    `place`: a new folder, in which the release is published under the same name for every run.
    """
    place.mkdir(parents=True)
    folder = place / RELEASE
    bits, run, state = Replayed(stream), Ran(folder), RunState()
    out, err, log = io.StringIO(), io.StringIO(), io.StringIO()
    handler = logging.StreamHandler(log)
    logging.getLogger().addHandler(handler)
    try:
        with (
            redirect_stdout(out),
            redirect_stderr(err),
            warnings.catch_warnings(record=True) as told,
        ):
            warnings.simplefilter("always")
            try:
                stage.publish(
                    folder, tables, bits, files=files, ledger=ledger, formats=formats,
                    progress=run.said.append, state=state,
                )  # fmt: skip
            except DpReleaseError as failure:
                run.failure = failure
    finally:
        logging.getLogger().removeHandler(handler)
    run.drawn = bits.drawn
    run.said += [str(one.message) for one in told]
    run.said += [text for text in (out.getvalue(), err.getvalue(), log.getvalue()) if text]
    return run
