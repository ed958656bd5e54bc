"""The manifest of one party's messages: its noise, and what holds under which trust."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from dprelease.documents import manifest
from dprelease.documents.file_records import FileDigest, named_record
from dprelease.documents.metadata import TableMetadata
from dprelease.documents.release_metadata import metadata_of_messages
from dprelease.numerics.rounding import plain_text
from dprelease.planning.bounded_words import counted_words
from dprelease.planning.federated_plan import FederatedPlan, ShareColumn, Trust
from dprelease.privacy.event import Event
from dprelease.query.resolve import Query
from dprelease.schema.load import Declaration

FORMAT = "dprelease-federated-manifest/1"

TRUST = [
    "This folder contains the messages of one party. THEY ARE NOT FOR PUBLICATION: against someone "
    "who sees them, only the noise of one share protects, the last line of `trust`.",
    "The other lines hold against someone who sees only the sum of all parties' messages modulo "
    "2^64, cell by cell: this needs secure aggregation, or a trusted party that adds them.",
    "`honest` parties draw their noise as declared, add it, and reveal it to nobody. Others may "
    "add none, reveal theirs, and choose their messages freely, but not from the honest ones'.",
    "All rows of a privacy unit must be with one party; each party limits their contributions. A "
    "party that reveals its rows protects nobody in them.",
    "Every party rounds its own noise, so the sum is not rounded stable noise. The privacy cost of "
    "this is bounded for every output, and included in epsilon (`rounding_epsilon`) and delta.",
]
POST_PROCESSING = [
    "Before its noise is added, each true value of a party is limited to `largest`, so that the "
    "sum of all parties fits in 62 bits. This does not increase the influence of a privacy unit.",
    "The estimate is the sum of messages modulo 2^64, as a signed number, divided by `refined`, "
    "times the step, without further processing.",
]


def build(
    declaration: Declaration,
    queries: Sequence[Query],
    plan: FederatedPlan,
    digests: Mapping[str, str],
    party: int,
) -> dict[str, Any]:
    """Return the sealed manifest of the messages of a party, whose files have these digests."""
    spec = declaration.spec.federated
    metadata = metadata_of_messages(declaration, queries)
    record = {
        **manifest.opening(FORMAT, declaration, metadata),
        "party": party,
        "parties": plan.parties,
        "honest": spec.least if spec else plan.parties,
        "trust": trust_records(plan.trusts),
        "trust_words": TRUST,
        **manifest.records_of_queries(queries),
        "measurements": [measurement(share, plan.parties) for share in plan.shares],
        "files": [file_record(table, digests[table.name]) for table in metadata.tables],
        "post_processing": POST_PROCESSING,
        "unprotected_quantities": manifest.UNPROTECTED,
    }
    return manifest.with_digest(record)


def trust_records(trusts: Sequence[Trust]) -> list[dict[str, Any]]:
    """Return what holds for how many honest parties."""
    return [trust.to_json() for trust in trusts]


def measurement(share: ShareColumn, parties: int) -> dict[str, Any]:
    """Return the record of one column of messages; scales are in steps over `refined`."""
    event = Event(
        share.query.name,
        share.measurement.name,
        share.law.name,
        share.law.parameters,
        share.measurement.sensitivity,
    )
    return {
        **event.to_json(),
        "aggregate": counted_words(share.query, share.measurement),
        "refined": share.refined,
        "step": plain_text(share.measurement.step),
        "unit": share.measurement.unit,
        "chosen_by": share.chosen_by,
        "sum_scale": repr(share.sum_law(parties).scale),
        "sum_margin_95": plain_text(share.margin(parties)),
        "largest": plain_text(share.reach(parties) * share.measurement.step),
    }


def file_record(told: TableMetadata, digest: str) -> dict[str, Any]:
    """Return the record of one file of messages; its number of rows is public."""
    return named_record(told.name, told, FileDigest(digest, told.rows or 0))
