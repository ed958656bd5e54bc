"""The outcome of an audit: what was compared with what was claimed, and how near it came.

It holds no value of any table, not even of those that were made for it.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, Literal

from pydantic import Field, ValidationError

from dprelease.documents.encoding import digest_of, is_canonical, pieces
from dprelease.documents.release_manifest import DeclarationRecord
from dprelease.schema.document_part import Part
from dprelease.schema.load import Declaration
from dprelease.system.json_text import parse_json
from dprelease.version import __version__

FORMAT = "dprelease-audit/1"
Digest = Annotated[str, Field(pattern="^[0-9a-f]{64}$")]


class SensitivityCheck(Part):
    """One measurement: the most that neighbours moved it by, in parts of what is claimed.

    `ratio`: of the largest shift, the L1 or L2 norm or the number of parts of a change, whichever
    came nearest to its claim. `worst`: what the unit of that pair was like, in words.
    """

    query: str
    column: str
    claimed: str
    pairs: int
    ratio: float
    worst: str
    holds: bool


class Twins(Part):
    """Whole runs on neighbours with the same bits; `silent` ones have to be equal to the byte."""

    runs: int
    silent: int
    files: int
    compared: list[str]
    excepted: list[str]
    holds: bool


class Canaries(Part):
    """Values that stand nowhere else, planted in columns, and where they were looked for."""

    columns: int
    searched: int
    failures: int
    holds: bool


class EpsilonBound(Part):
    """A lower bound of epsilon of one measurement from many draws, at a delta.

    `claimed`: the epsilon that the plan claims of it at `delta`. `statistic`: what told the two
    tables apart best. Both names are empty for the release as a whole. `draws`: answers of each
    table. `tested`: those of them that hits were counted among, and `hits`: of the event that was
    chosen on the others, first in the table where it is the more frequent one.
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
    """A question that nothing is said of; named as `Bounded`.

    The time did not reach it, no pair moves its measurement, or there is no proof of a claim.
    """

    query: str
    column: str
    mechanism: str


class AuditFinding(Part):
    """What did not hold: which measurement or file, what was claimed, what was seen."""

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
    """Those that were audited; all of the release where `whole`."""
    whole: bool
    complete: bool
    """Whether exact integers and whole runs left nothing out."""
    tried: list[str]
    """How many pairs, and how they were stored, in words."""
    left_out: list[str]
    """What was not tried, for want of time or because the engine fails on it, in words."""
    holds: bool
    sensitivities: list[SensitivityCheck]
    twins: Twins | None
    canaries: Canaries | None
    black_box: list[EpsilonBound] | None
    not_tried: list[UntestedPart] = Field(default_factory=list)
    """What draws were to be about and were not, and claims of the whole that have no proof."""
    findings: list[AuditFinding]
    digest: Digest


def digest_of_declaration(declaration: Declaration) -> str:
    """Return the SHA-256 of all that was declared: every text, every kept file, every variable."""
    kept = {name: file.sha256 for name, (file, _) in declaration.kept.items()}
    name = declaration.document.path.name
    return _digest(name, declaration.texts, declaration.variables, kept)


def digest_of_declared(held: DeclarationRecord) -> str:
    """Return the same of what a manifest holds of its declaration."""
    kept = {name: file.sha256 for name, file in held.files.items()}
    return _digest(held.release, held.texts, held.variables, kept)


def _digest(
    name: str, texts: Mapping[str, str], variables: Mapping[str, str], kept: Mapping[str, str]
) -> str:
    told = {"texts": {**texts}, "variables": {**variables}, "files": {**kept}}
    return digest_of({"release": name, **told})


def agrees(audit: Audit) -> bool:
    """Return whether what held in all is what held in each, and each what its numbers say."""
    bounds = audit.black_box or []
    by_numbers = [(one.holds, one.ratio <= 1.0) for one in audit.sensitivities]
    by_numbers += [(one.holds, one.bound <= one.claimed) for one in bounds]
    wholes = [one.holds for one in (audit.twins, audit.canaries) if one is not None]
    held = not audit.findings and all(wholes) and all(told for told, _ in by_numbers)
    counted = all(one.pairs >= 0 for one in audit.sensitivities)
    return counted and audit.holds == held and all(told == true for told, true in by_numbers)


def parsed_audit(raw: bytes) -> Audit:
    """Return the outcome that a file holds.

    Raises
    ------
    ValueError
        With words, if it is none, or was changed.
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
            if agrees(audit):
                return audit
            problem = "what it says of all is not what it says of each"
    except ValidationError:
        problem = "it does not fit what `dprelease schema audit` prints"
    except (ValueError, RecursionError):
        problem = "it is not strict JSON"
    raise ValueError(problem)


def seal_audit(declaration: Declaration, told: Mapping[str, Any]) -> Audit:
    """Return the outcome with what it is of, and with its digest."""
    record = {
        "format": FORMAT,
        "version": __version__,
        "title": declaration.spec.title,
        "declaration": digest_of_declaration(declaration),
        **told,
    }
    draft = Audit.model_validate({**record, "digest": "0" * 64})
    return draft.model_copy(update={"digest": digest_of(plain(draft))})


def plain(audit: Audit) -> dict[str, Any]:
    """Return an outcome as JSON values, with all its keys."""
    return audit.model_dump()


def encode_audit(audit: Audit) -> bytes:
    """Return the one encoding of an outcome."""
    return b"".join(pieces(plain(audit)))
