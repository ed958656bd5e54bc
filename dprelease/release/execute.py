"""The steps of a run, in order; kinds of releases differ only in the tables that they write.

`execute` runs a planned release, which `kinds.plan_release` has planned. Its steps are:
claim the target, charge the ledger, record that rows are read, read them, add noise, post-process,
write, record that the release will be published, publish, record that it is published. Each record
is on the disk before the step that it announces, and nothing is charged before the run has the
exclusive right to the target. After a kill the records show what happened: without the first record
no output depends on a row; with it the run is charged.

Answers in memory take the shorter way of `answer_family`, which claims and publishes nothing.
"""

from __future__ import annotations

import hashlib
import logging
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from dprelease.documents.encoding import AUDIT, NAME, SIGNATURE, canonical, encoded_pieces
from dprelease.documents.file_records import listed_files
from dprelease.documents.limit_records import FOLDER as LIMITS
from dprelease.documents.release_manifest import GuaranteedManifest, ReleaseManifest
from dprelease.errors import DeclarationError, OutputError, Place, RunState
from dprelease.exact.engine_api import QueryEngine
from dprelease.noise.noised_answers import answer_query
from dprelease.numerics.entropy import BitSource, Entropy
from dprelease.planning.plan import Plan, PlannedColumn
from dprelease.postprocess.families import Family, FamilyTable
from dprelease.release.charging import ChargedRelease, charge_release, refuse_missing_ledger
from dprelease.release.disk import ROOM, refuse_full_disk, temporary_space
from dprelease.release.folder import Claim, claim_target
from dprelease.release.path_conflicts import refuse_own_source
from dprelease.schema.load import Declaration
from dprelease.schema.public_values.large_files import FileCopy
from dprelease.schema.release_parts.limit_choice import ChosenLimits
from dprelease.signatures.sshsig import MANIFESTS
from dprelease.system.deferred_signals import defer_signals
from dprelease.system.files import OPEN_FLAGS, PIECE_BYTES, require_regular_file, size_text
from dprelease.system.json_text import MOST_BYTES
from dprelease.tables.family_tables import published_answers
from dprelease.tables.published_tables import to_arrow

if TYPE_CHECKING:
    import pyarrow as pa

    from dprelease.release.kinds import Exports, PlannedRelease
    from dprelease.signatures.keys import SigningKey

logger = logging.getLogger("dprelease")
"""The only logger of the package; it gets names, steps and digests, and never a value."""


@dataclass(frozen=True, slots=True)
class RunRequest:
    """What a caller asks of a run; the arguments of `pipeline.run`."""

    output: Path | None = None
    """A folder in place of the declared one."""
    overwrite: bool = False
    bits: BitSource = field(default_factory=Entropy)
    frames: Mapping[str, object] = field(default_factory=dict)
    progress: Callable[[str], None] = lambda _step: None
    state: RunState = field(default_factory=RunState)
    check_claimed: Callable[[], None] = lambda: None
    """Called when the folder is claimed and nothing is charged; raises to stop the run."""


def execute(release: PlannedRelease, request: RunRequest) -> tuple[Path, ReleaseManifest]:
    """Publish a planned release; return its folder and its manifest, or raise as `pipeline.run`."""
    # Check: raises for formats that the tables can't have, or a manifest that readers would
    # refuse.
    draft = release.draft()
    exports, tables = release.exports(), release.max_table_bytes
    if exports is not None and tables is not None:
        tables += exports.max_bytes
    claim_and_charge = open_publication(
        release.declaration,
        release.plan,
        output=request.output,
        overwrite=request.overwrite,
        check_claimed=request.check_claimed,
        state=request.state,
        draft=draft,
        tables=tables or 0,
        exports=exports,
    )
    with claim_and_charge as publication, release.open_engines(request.frames) as engines:
        # Read, add noise, post-process and write. After the first record nothing is refunded.
        publication.charged.record_reading()
        logger.info("reads rows for %s", publication.claim.target.name)
        written = release.write(engines, publication, request.bits, request.progress)
        # Describe and publish.
        record = release.manifest(draft, written, publication.charged.record())
        if exports is not None and isinstance(record, GuaranteedManifest):
            record = exports.write_all(record, publication.folder, request.progress)
        request.progress("manifest")
        publication.publish(record)
        logger.info("published %s, digest %s", publication.claim.target.name, record.digest)
    return publication.claim.target, record


@contextmanager
def open_publication(
    declaration: Declaration,
    plan: Plan,
    *,
    output: Path | None,
    overwrite: bool,
    state: RunState | None,
    draft: ReleaseManifest,
    tables: int = 0,
    exports: Exports | None = None,
    check_claimed: Callable[[], None] = lambda: None,
) -> Iterator[Publication]:
    """Claim the target, charge the release, and yield the publication.

    `output` replaces the declared folder. `draft`: the manifest without the values that are known
    only after rows are read. `state` is updated by every step, and is reported by exceptions from
    the block. At the end of the block only published files remain. `tables`: the maximum bytes of
    the tables. `exports`: the formats of the release. They are tried in the private folder before
    anything is charged, because a later failure would cost budget. `check_claimed` is called before
    the charge, and may raise.

    Raises OutputError: DP-OUTPUT-012, raised by `refuse_own_source`; 001 to 003, 006 and 008 to
    010, raised by `claim_target`; 015 if a disk lacks space for the release, or for its temporary
    files. Raises DeclarationError, BudgetError or LedgerError: the errors of `charge_release`;
    DP-RELEASE-020, raised by `copy_declared_files`.
    """
    state = RunState() if state is None else state
    refuse_own_source(declaration, plan, output)
    written = _refuse_large_manifest(declaration, _draft_with_formats(draft, exports))
    refuse_missing_ledger(declaration, plan)
    target = output or declaration.folder / declaration.spec.output
    copies = sum(file.size for file, _ in declaration.copies.values())
    with state.add_state_to_errors(), claim_target(target, overwrite, state) as claim:
        check_claimed()
        # Checked before the charge, which a run that fails for lack of space would have spent for
        # nothing.
        place, needed = declaration.place("output"), tables + written + copies + ROOM
        temporary = temporary_space(declaration, plan.queries)
        refuse_full_disk(claim.folder, claim.target.name, needed, place, temporary)
        if exports is not None and isinstance(draft, GuaranteedManifest):
            exports.try_on_blank_tables(draft, claim.folder)
        # Everything in this folder will be published, so nothing may be left of the trial.
        claim.refuse_leftovers()
        with charge_release(declaration, plan, state, claim.target) as charged:
            # After the charge, but before a row is read: an error here still returns the charge.
            copy_declared_files(declaration, claim.folder)
            yield Publication(claim, charged, state, declaration.key)


@dataclass(frozen=True, slots=True)
class Publication:
    """A release in progress: its private folder, its reservation, and its last steps."""

    claim: Claim
    charged: ChargedRelease
    state: RunState
    key: SigningKey | None = None
    notes: Mapping[str, str] = field(default_factory=dict)
    """Metadata that is written into every published table; empty for central releases."""

    @property
    def folder(self) -> Path:
        """Return the private folder into which tables are written."""
        return self.claim.folder

    def publish(self, record: ReleaseManifest) -> None:
        """Add a manifest, sign it if there is a key, and make everything readable in one step.

        Raises OutputError: DP-OUTPUT-017 if another process removed files from the private folder,
        or added files to it. Raises LedgerError or OSError if the system refuses; `state` records
        whether the release is readable nevertheless.
        """
        content = record.to_json()
        manifest, files = canonical(content), {NAME, *listed_files(content)}
        (self.folder / NAME).write_bytes(manifest)
        if self.key is not None:
            signature = self.key.sign(manifest, MANIFESTS)
            (self.folder / SIGNATURE).write_bytes(signature.to_armor())
            files.add(SIGNATURE)
        # On the disk before the ledger records that they may be readable.
        self.claim.sync_files()
        self.charged.record_publication()
        # A signal between the two steps would permanently lose the manifest's digest for the
        # ledger.
        with defer_signals():
            try:
                self.claim.refuse_others(files)
                self.claim.publish(self.state)
            finally:
                # Also if the step above raised an error: the system may have renamed the folder all
                # the same.
                if self.state.released:
                    self.charged.record_result(record.digest)


def copy_declared_files(declaration: Declaration, folder: Path) -> None:
    """Copy the files of a declaration, except texts, into the folder of its release.

    The file of the audit that the release names is also copied, and the release of its limits.

    Raises DeclarationError or OutputError: DP-RELEASE-020 or DP-OUTPUT-023 for a file that has
    changed since it was read. Raises OSError if a copy can't be written.
    """
    if declaration.audit is not None:
        (folder / AUDIT).write_bytes(declaration.audit)
    for name, (file, path) in declaration.copies.items():
        copy = folder / file.copy
        copy.parent.mkdir(exist_ok=True)
        if not _copy_unchanged(path, copy, file):
            raise DeclarationError("DP-RELEASE-020", place=Place(name), name=Path(name).name)
    if declaration.chosen is not None:
        _copy_limits(declaration.chosen, folder / LIMITS)


def _copy_limits(chosen: ChosenLimits, folder: Path) -> None:
    """Copy the release of chosen limits; raise DP-OUTPUT-023 if it changed since it was read."""
    for name, digest in chosen.files.items():
        source, copy = chosen.folder / name, folder / name
        copy.parent.mkdir(exist_ok=True, parents=True)
        size = source.stat().st_size if source.is_file() else 0
        if not _copy_unchanged(source, copy, FileCopy(digest, size, "")):
            problem = "its files have changed during this run"
            raise OutputError("DP-OUTPUT-023", name=chosen.folder.name, problem=problem)


def _copy_unchanged(path: Path, copy: Path, file: FileCopy) -> bool:
    """Copy a file; return whether the copied bytes are the bytes that the declaration read.

    At most as many bytes are copied as the declaration read.
    """
    # One byte more than the declaration read, which only a file that has grown can have.
    digest, left = hashlib.sha256(), file.size + 1
    try:
        source = os.open(path, OPEN_FLAGS)
    except (OSError, ValueError):
        return False
    with open(source, "rb", buffering=0) as read, copy.open("wb") as written:
        require_regular_file(os.fstat(source))
        while left and (piece := read.read(min(PIECE_BYTES, left))):
            digest.update(piece)
            written.write(piece)
            left -= len(piece)
    return left == 1 and digest.hexdigest() == file.sha256


def _draft_with_formats(draft: ReleaseManifest, exports: Exports | None) -> ReleaseManifest:
    """Return a draft manifest with the largest possible entries for its formats."""
    if exports is None or not isinstance(draft, GuaranteedManifest):
        return draft
    return exports.add_to_draft(draft)


def _refuse_large_manifest(declaration: Declaration, draft: ReleaseManifest) -> int:
    """Return a draft's bytes; raise DP-RELEASE-019 if readers would refuse a manifest of that size.

    Readers have a size limit, because anybody may have written the manifest. Without this check, a
    release would be charged that all readers refuse.
    """
    size = sum(map(len, encoded_pieces(draft.to_json())))
    if size > MOST_BYTES - ROOM:
        place, limit = Place(declaration.document.path.name), size_text(MOST_BYTES)
        raise DeclarationError("DP-RELEASE-019", place=place, limit=limit)
    return size


@contextmanager
def charge_answer(declaration: Declaration, plan: Plan, state: RunState) -> Iterator[None]:
    """Charge a ledger for an answer that stays in memory; raise the errors of `charge_release`.

    The caller runs in the same process as the noise, and could end the process after looking at the
    noise. So nothing is refunded once the first row is read.
    """
    with charge_release(declaration, plan, state) as charged:
        charged.record_reading()
        yield
        charged.record_result("")


def answer_single_query(
    columns: Sequence[PlannedColumn],
    opening: AbstractContextManager[QueryEngine],
    charged: AbstractContextManager[None],
) -> pa.Table:
    """Return the noised table of a single query; raises the same errors as `answer_family`.

    `columns`: all planned columns of the query.
    """
    query = columns[0].query
    mechanisms = {column.measurement.name: column.mechanism for column in columns}
    family = Family(query.name, (FamilyTable(query, mechanisms),))
    return answer_family(family, columns, opening, charged)[query.name]


def answer_family(
    family: Family,
    columns: Sequence[PlannedColumn],
    opening: AbstractContextManager[QueryEngine],
    charged: AbstractContextManager[None],
) -> dict[str, pa.Table]:
    """Compile the query, charge it, read, and return all tables of a family by name.

    `columns`: all planned columns of the family's queries, which read one source. `opening`: yields
    the engine over that source. `charged`: charges the answer while it is drawn.

    Raises DataError before the charge if a source is not as declared; after the charge the errors
    of `QueryEngine.run`.
    """
    queries = [table.query for table in family.tables]
    with opening as engine:
        for query in queries:  # raises for a missing column or an unreadable type before the charge
            engine.compile(query)
        with charged:
            bits = Entropy()
            drawn = [
                answer_query(engine, [c for c in columns if c.query.name == query.name], bits)
                for query in queries
            ]
            return published_answers(family, drawn)


def answer_queries(
    plan: Plan,
    opening: AbstractContextManager[Mapping[str, QueryEngine]],
    charged: AbstractContextManager[None],
) -> dict[str, pa.Table]:
    """Charge a plan, read, and return the noised table of each of its queries, by name.

    `opening`: yields an engine for each query, which has compiled it. `charged`: charges the answer
    while it is drawn.

    Raises DataError before the charge if a source is not as declared; after the charge the errors
    of `QueryEngine.run`.
    """
    with opening as engines, charged:
        bits = Entropy()
        answers = (
            answer_query(engines[query.name], plan.of_query(query.name), bits)
            for query in plan.queries
        )
        return {answer.query.name: to_arrow(answer) for answer in answers}
