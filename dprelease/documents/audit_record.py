"""The outcome of an audit: how close observed changes came to each claim.

It contains no value of any table, not even of the tables that were made for the audit.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, Literal

from pydantic import Field, ValidationError

from dprelease.documents.encoding import digest_of, encoded_pieces, is_canonical
from dprelease.documents.release_manifest import DeclarationRecord
from dprelease.schema.document_part import Part
from dprelease.schema.load import Declaration
from dprelease.system.json_text import parse_json
from dprelease.version import __version__

FORMAT = "dprelease-audit/1"
Digest = Annotated[str, Field(pattern="^[0-9a-f]{64}$")]


class SensitivityCheck(Part):
    """One measurement: its largest change between neighbouring tables, relative to the claim.

    `ratio`: the largest ratio to its claim of the largest shift, the L1 or L2 norm, or the number
    of changed parts. `worst`: the privacy unit of the pair with that ratio, in words.
    """

    query: str
    column: str
    claimed: str
    pairs: int
    ratio: float
    worst: str
    holds: bool


class Twins(Part):
    """Complete runs on neighbouring tables with the same random bits.

    The results of `silent` runs must be equal byte by byte.
    """

    runs: int
    silent: int
    files: int
    compared: list[str]
    excepted: list[str]
    holds: bool


class Canaries(Part):
    """Unique values that were planted in columns, and the locations that were searched for them."""

    columns: int
    searched: int
    failures: int
    holds: bool


class EpsilonBound(Part):
    """A lower bound of one measurement's epsilon from many draws, at a delta.

    `claimed`: the epsilon of the measurement at `delta` in the plan. `statistic`: the test
    statistic that distinguished the two tables best. The names of query and column are empty for
    the release as a whole. `draws`: the number of answers from each table. `tested`: the number of
    these answers among which hits were counted. `hits`: the hits of the event that was selected on
    the other answers, first in the table where it is more frequent.
    """

    query: str
    column: str
    mechanism: str
    draws: int
    tested: int
    hits: list[int]
    claimed: float
    delta: float
    bound: float
    statistic: str
    holds: bool


class UntestedPart(Part):
    """A part of the release about which the audit says nothing; named as an `EpsilonBound`.

    Either the time limit was reached, or no pair changes the measurement, or a claim has no proof.
    """

    query: str
    column: str
    mechanism: str


class AuditFinding(Part):
    """A claim that did not hold: the measurement or file, what was claimed, what was observed."""

    check: Literal["sensitivity", "engine errors", "twins", "canaries", "composition", "black box"]
    query: str
    column: str
    claimed: str
    seen: str
    pair: str


class Audit(Part):
    """The outcome of an audit."""

    format: Literal["dprelease-audit/1"]
    version: str
    title: str
    declaration: Digest
    engine: str
    queries: list[str]
    """The audited queries; all queries of the release if `whole`."""
    whole: bool
    complete: bool
    """Whether exact integers and complete runs left nothing out."""
    tried: list[str]
    """The number of pairs, and how they were stored, in words."""
    left_out: list[str]
    """What was not tried, because time ran out or the engine fails on it, in words."""
    holds: bool
    sensitivities: list[SensitivityCheck]
    twins: Twins | None
    canaries: Canaries | None
    black_box: list[EpsilonBound] | None
    not_tried: list[UntestedPart] = Field(default_factory=list)
    """Parts that draws should have tested and did not, and unproven claims about the release.
    """
    findings: list[AuditFinding]
    digest: Digest


def digest_of_declaration(declaration: Declaration) -> str:
    """Return the SHA-256 of the whole declaration: every text, every file, every variable."""
    copies = {name: file.sha256 for name, (file, _) in declaration.copies.items()}
    name = declaration.document.path.name
    return _digest_of_parts(name, declaration.texts, declaration.variables, copies)


def digest_of_recorded_declaration(held: DeclarationRecord) -> str:
    """Return the SHA-256 of the declaration in a manifest, as `digest_of_declaration`."""
    copies = {name: file.sha256 for name, file in held.files.items()}
    return _digest_of_parts(held.release, held.texts, held.variables, copies)


def _digest_of_parts(
    name: str, texts: Mapping[str, str], variables: Mapping[str, str], copies: Mapping[str, str]
) -> str:
    """Return the SHA-256 of the parts of a declaration, in the encoding of manifests."""
    parts = {"texts": {**texts}, "variables": {**variables}, "files": {**copies}}
    return digest_of({"release": name, **parts})


# Anybody can write an outcome with a right digest, so the numbers themselves are compared.
def is_self_consistent(audit: Audit) -> bool:
    """Return whether the recorded results of an audit follow from the numbers that it records."""
    bounds = audit.black_box or []
    by_numbers = [(one.holds, one.ratio <= 1.0) for one in audit.sensitivities]
    by_numbers += [(one.holds, one.bound <= one.claimed) for one in bounds]
    wholes = [one.holds for one in (audit.twins, audit.canaries) if one is not None]
    held = not audit.findings and all(wholes) and all(recorded for recorded, _ in by_numbers)
    counted = all(one.pairs >= 0 for one in audit.sensitivities)
    return (
        counted
        and audit.holds == held
        and all(recorded == computed for recorded, computed in by_numbers)
    )


def parse_audit(raw: bytes) -> Audit:
    """Return the outcome of an audit from the bytes of its file.

    Raises ValueError with a message, if the file is not an outcome, or was changed.
    """
    problem = ""
    try:
        record = parse_json(raw)
        if not isinstance(record, dict) or record.get("format") != FORMAT:
            problem = f"its format is not {FORMAT}"
        elif not is_canonical(record, raw):
            problem = "its bytes are not those that were written"
        elif record.get("digest") != digest_of(record):
            problem = "its digest does not match"
        else:
            audit = Audit.model_validate(record)
            if is_self_consistent(audit):
                return audit
            problem = "what it says of all is not what it says of each"
    except ValidationError:
        problem = "it does not fit what `dprelease schema audit` prints"
    except (ValueError, RecursionError):
        problem = "it is not strict JSON"
    raise ValueError(problem)


def seal_audit(declaration: Declaration, outcome: Mapping[str, Any]) -> Audit:
    """Return the outcome of an audit with the digests of its declaration and of itself."""
    record = {
        "format": FORMAT,
        "version": __version__,
        "title": declaration.spec.title,
        "declaration": digest_of_declaration(declaration),
        **outcome,
    }
    draft = Audit.model_validate({**record, "digest": "0" * 64})
    return draft.model_copy(update={"digest": digest_of(audit_to_json(draft))})


def audit_to_json(audit: Audit) -> dict[str, Any]:
    """Return an outcome as JSON values, with all its keys."""
    return audit.model_dump()


def encode_audit(audit: Audit) -> bytes:
    """Return the bytes of an audit's file, which has exactly one valid encoding."""
    return b"".join(encoded_pieces(audit_to_json(audit)))
