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
    "This folder holds one party's messages. THEY ARE NOT FOR PUBLICATION: whoever sees them has "
    "the guarantee of one share of the noise alone, the last line of `trust`.",
    "The other lines hold for whoever sees nothing but the sum of all parties' messages modulo "
    "2^64, cell by cell: that takes secure aggregation, or a summing party that is trusted.",
    "`honest` parties draw their noise as declared, add it, and tell it to nobody. The others may "
    "add none, tell theirs, and choose their messages freely, but not by the honest ones'.",
    "All rows of one privacy unit are with one party; each party bounds what its units contribute. "
    "A party that tells its rows protects nobody among them.",
    "Every party rounds its own noise, so the sum is not rounded stable noise. What that can cost "
    "is bounded for every output, and is in epsilon (`rounding_epsilon`) and delta.",
]
POST_PROCESSING = [
    "Before its noise is added, each true value of a party saturates at `largest`, so that those "
    "of all parties together fit 62 bits. No unit moves a value any farther for that.",
    "The sum of messages modulo 2^64, as a signed number, over `refined`, times the step, is the "
    "estimate; nothing else is done to it.",
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
