"""One whole run of a release about invented people, with all that it says."""

from __future__ import annotations

import io
import logging
import warnings
from collections.abc import Mapping
from contextlib import redirect_stderr, redirect_stdout
from dataclasses import dataclass, field
from pathlib import Path

from dprelease.auditing.pairs import Tables
from dprelease.auditing.replayed_words import Replayed
from dprelease.auditing.stage import Stage
from dprelease.errors import DpReleaseError, RunState
from dprelease.schema.table import Source


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
    def message(self) -> str:
        """Return what the failure says; nothing without one."""
        return "" if self.failure is None else str(self.failure)


def ran(
    stage: Stage,
    tables: Tables,
    folder: Path,
    stream: str,
    *,
    files: Mapping[str, Source] | None = None,
    ledger: Path | None = None,
    formats: tuple[str, ...] | None = None,
) -> Ran:
    """Run the release with the bits of a stream, and return all that came of it."""
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
