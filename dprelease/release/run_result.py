"""The result of a run, and runs of a declaration that may already be published."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from decimal import Decimal
from pathlib import Path
from typing import Any, Literal, Self

from dprelease.documents.encoding import NAME, digest_of
from dprelease.documents.file_records import listed_files
from dprelease.documents.release_manifest import (
    GuaranteedManifest,
    GuaranteeRecord,
    ReleaseManifest,
    declaration_record,
)
from dprelease.errors import OutputError, RunState, State
from dprelease.errors.argument_types import checked_methods
from dprelease.errors.error_tree import EXIT_PUBLISHED
from dprelease.schema.load import Declaration
from dprelease.system.files import read_file
from dprelease.system.json_text import MOST_BYTES, parse_json
from dprelease.system.summaries import Summarized, Summary

logger = logging.getLogger("dprelease")

IfPublished = Literal["fail", "skip"]
"""What a run does if the same declaration is already published in its folder."""


@dataclass(frozen=True, slots=True, repr=False)
class PrivacySpent(Summarized):
    """The guarantee of a release: epsilon and delta, and rho if the budget is one of zCDP.

    Rho does not hold for events with a probability of `rho_delta` in total.
    """

    epsilon: Decimal
    delta: Decimal
    rho: Decimal | None = None
    neighbours: str = "add_remove"
    rho_delta: Decimal = Decimal(0)

    def _summary(self) -> Summary:
        """Return the numbers of the guarantee."""
        exempt = self.rho_delta or None
        numbers = {"epsilon": self.epsilon, "delta": self.delta, "rho": self.rho}
        numbers["rho_delta"] = exempt
        rows = [(name, f"{number:g}") for name, number in numbers.items() if number is not None]
        return "PrivacySpent", ("", ""), [*rows, ("neighbours", self.neighbours)]

    @classmethod
    def of(cls, record: ReleaseManifest) -> Self | None:
        """Return the guarantee of a manifest; None for a party's messages, which have several."""
        if not isinstance(record, GuaranteedManifest):
            return None
        return cls.of_guarantee(record.guarantee)

    @classmethod
    def of_guarantee(cls, guarantee: GuaranteeRecord) -> Self:
        """Return the guarantee of the record in a manifest."""
        rho = None if guarantee.rho is None else Decimal(guarantee.rho)
        epsilon, delta = Decimal(guarantee.epsilon), Decimal(guarantee.delta)
        exempt = Decimal(guarantee.rho_delta or 0)
        return cls(epsilon, delta, rho, guarantee.neighbours, exempt)

    def to_json(self) -> dict[str, Any]:
        """Return the guarantee as JSON values, with decimal texts."""
        return {
            "epsilon": f"{self.epsilon:f}",
            "delta": f"{self.delta:f}",
            "rho": None if self.rho is None else f"{self.rho:f}",
            **({"rho_delta": f"{self.rho_delta:f}"} if self.rho_delta else {}),
            "neighbours": self.neighbours,
        }


@dataclass(frozen=True, slots=True, repr=False)
@checked_methods
class RunResult(Summarized):
    """The result of a run: the folder of the release, its files, and the digest of its manifest.

    `published`: whether this run has published the release; False if it was skipped, because the
    same declaration had already been published there. `spent`: the guarantee of the release; None
    for a party's messages, whose guarantee depends on the honest parties. `ledger_entry`: the
    number of the entry that charged the release; None without a ledger.
    """

    folder: Path
    files: tuple[str, ...]
    digest: str
    spent: PrivacySpent | None = None
    ledger_entry: int | None = None
    published: bool = True

    def _summary(self) -> Summary:
        """Return the folder, the budget and the number of files."""
        spent = self.spent
        rows = [
            ("folder", self.folder),
            ("files", len(self.files)),
            *([] if spent is None else [("epsilon", f"{spent.epsilon:g}")]),
            *([] if spent is None else [("delta", f"{spent.delta:g}")]),
            *([] if self.ledger_entry is None else [("ledger entry", self.ledger_entry)]),
            ("digest", self.digest),
        ]
        return f"RunResult: {'published' if self.published else 'was published'}", ("", ""), rows

    @classmethod
    def of(cls, folder: Path, record: ReleaseManifest) -> Self:
        """Return the result of a run that has published this manifest."""
        paid = record.ledger_entry
        entry = None if paid is None else paid.entry
        return cls(folder, _files_in(folder), record.digest, PrivacySpent.of(record), entry)

    def to_json(self) -> dict[str, Any]:
        """Return the result as JSON values."""
        return {
            "output": str(self.folder),
            "files": list(self.files),
            "digest": self.digest,
            "spent": None if self.spent is None else self.spent.to_json(),
            "ledger_entry": self.ledger_entry,
            "published": self.published,
        }


def publish(
    declaration: Declaration,
    *,
    output: Path | None = None,
    overwrite: bool = False,
    frames: Mapping[str, object] | None = None,
    if_published: IfPublished = "fail",
    progress: Callable[[str], None] = lambda _step: None,
    state: RunState | None = None,
) -> RunResult:
    """Publish a release, unless the same declaration is already published in its folder.

    If it is, "skip" does nothing, also with `overwrite`, which then replaces only releases of other
    declarations. Raises OutputError: DP-OUTPUT-018, with its own exit code, if it is published,
    `if_published` is "fail", and `overwrite` is False. Raises DpReleaseError: the errors of
    `pipeline.run`.
    """
    from dprelease.release.execute import RunRequest
    from dprelease.release.runs.pipeline import publish as publish_planned

    if if_published not in ("fail", "skip"):
        raise OutputError("DP-OUTPUT-019", found=str(if_published)[:40])
    target = output or declaration.folder / declaration.spec.output
    skips = if_published == "skip"

    def check() -> None:
        found = None if overwrite and not skips else _published_result(declaration, target)
        if found is not None and skips:
            raise _AlreadyPublishedError(found)
        if found is not None:
            error = OutputError("DP-OUTPUT-018", name=target.name)
            error.exit_code = EXIT_PUBLISHED
            raise error

    request = RunRequest(
        output,
        overwrite,
        frames=frames or {},
        progress=progress,
        state=state or RunState(),
        check_claimed=check,
    )
    try:
        check()  # before the release is planned, which takes time
        try:
            return RunResult.of(*publish_planned(declaration, request))
        except OutputError as error:
            if error.code == "DP-OUTPUT-001" and request.state.message_state is State.NOTHING:
                check()  # again: another run may have published it in the meantime
            raise
    except _AlreadyPublishedError as already:
        logger.info("already published in %s, nothing was read or charged", target.name)
        return already.result


class _AlreadyPublishedError(Exception):
    """The declaration is already published, so its run is skipped."""

    def __init__(self, result: RunResult) -> None:
        super().__init__()
        self.result = result


def _published_result(declaration: Declaration, target: Path) -> RunResult | None:
    """Return the result of the run that has published a declaration; None if there is none.

    The texts, the variables and the other declared files must be those of the declaration, and all
    files of the release must exist. `verify` checks more.
    """
    try:
        record = parse_json(read_file(target / NAME, MOST_BYTES))
        names = sorted({NAME, *listed_files(record)})
        is_whole = record["digest"] == digest_of(record)
        held = {**record["declaration"]}
        for key in ("audit", "table_versions"):  # the texts have the version that is declared
            held.pop(key, None)
        if not is_whole or not all((target / name).is_file() for name in names):
            return None
        same = held == declaration_record(declaration, with_audit=False).to_json()
        if not same or record.get("party") != declaration.party:
            return None
        guarantee = record.get("guarantee")
        spent = None
        if guarantee is not None:
            spent = PrivacySpent.of_guarantee(GuaranteeRecord.model_validate(guarantee))
        paid = record.get("ledger")
        entry = None if paid is None else int(paid["entry"])
        return RunResult(target, _files_in(target), record["digest"], spent, entry, published=False)
    except (OSError, ValueError, TypeError, KeyError, AttributeError, RecursionError):
        return None  # it is no release: the run refuses the folder


def _files_in(folder: Path) -> tuple[str, ...]:
    """Return the names of all files in a folder, sorted."""
    files = (path for path in folder.rglob("*") if path.is_file())
    return tuple(sorted(path.relative_to(folder).as_posix() for path in files))
