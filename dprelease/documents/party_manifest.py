"""The manifest of one party's messages: its noise, and the guarantee by trust assumption."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Literal

from pydantic import Field

from dprelease.documents.file_records import FileDigest, FileRecord, file_record
from dprelease.documents.manifest import UNPROTECTED
from dprelease.documents.rehearsal_manifest import (
    OF_PARTIES,
    PartiesRecord,
)
from dprelease.documents.release_manifest import (
    GuaranteeRecord,
    NoiseRecord,
    ReleaseManifest,
    UnitRecord,
    first_keys,
    unit_record,
)
from dprelease.documents.release_metadata import metadata_of_messages
from dprelease.numerics.rounding import plain_text
from dprelease.planning.bounded_words import measured_value_text
from dprelease.planning.federated_plan import FederatedPlan, ShareColumn
from dprelease.planning.treatments import (
    DifferentlyBoundedRecord,
    bounding_records,
    treatment_record,
)
from dprelease.privacy.guarantee import Event
from dprelease.query.resolve import Query
from dprelease.schema.document_part import Part
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


class TrustRecord(Part):
    """The guarantee for a number of honest parties."""

    honest: int
    guarantee: GuaranteeRecord
    rounding_epsilon: float


class ShareRecord(NoiseRecord):
    """One column of messages: one party's share of the noise, and the noise of the sum."""

    mechanism: Literal["symmetric_alpha_stable"]
    aggregate: str
    refined: int
    sum_scale: str
    sum_margin_95: str
    largest: str


class PartiesManifest(ReleaseManifest):
    """What the manifests of a federated release and of its rehearsal have in common."""

    dp_variant: Literal["pure", "approximate"]
    parties: int
    honest: int
    trust: list[TrustRecord]
    trust_words: list[str]
    privacy_unit: list[UnitRecord]
    differently_bounded: list[DifferentlyBoundedRecord] = Field(default_factory=list)
    measurements: list[ShareRecord]
    files: list[FileRecord]


class FederatedManifest(PartiesManifest):
    """The manifest of one party's messages."""

    format: Literal["dprelease-federated-manifest/1"]
    party: int


class FederatedRehearsalManifest(PartiesManifest):
    """The manifest of a rehearsal of all parties, whose files are the sums of their messages."""

    format: Literal["dprelease-federated-rehearsal/1"]
    rehearsal: PartiesRecord

    @classmethod
    def of(
        cls, release: FederatedManifest, files: Sequence[FileRecord], rehearsal: PartiesRecord
    ) -> FederatedRehearsalManifest:
        """Return the manifest of a rehearsal of all parties, from the manifest of one of them.

        `files`: the records of the sums, which replace the records of one party's messages.
        """
        return release.as_form(cls, format=OF_PARTIES, files=list(files), rehearsal=rehearsal)


def build(
    declaration: Declaration,
    queries: Sequence[Query],
    plan: FederatedPlan,
    digests: Mapping[str, str],
    party: int,
) -> FederatedManifest:
    """Return the sealed manifest of one party's messages; `digests`: the digests of its files."""
    spec = declaration.spec.federated
    metadata = metadata_of_messages(declaration, queries)
    fields = {
        **first_keys(FORMAT, declaration, metadata),
        "party": party,
        "parties": plan.parties,
        "honest": spec.least if spec else plan.parties,
        "trust": [TrustRecord.model_validate(trust.to_json()) for trust in plan.trusts],
        "trust_words": TRUST,
        "privacy_unit": [unit_record(query) for query in queries],
        "differently_bounded": bounding_records(queries),
        "treatments": [treatment_record(query) for query in queries],
        "measurements": [share_record(share, plan.parties) for share in plan.shares],
        "files": [
            file_record(table.name, table, FileDigest(digests[table.name], table.rows or 0))
            for table in metadata.tables
        ],
        "post_processing": POST_PROCESSING,
        "unprotected_quantities": UNPROTECTED,
    }
    return FederatedManifest.model_validate(fields).sealed()


def share_record(share: ShareColumn, parties: int) -> ShareRecord:
    """Return the record of one column of messages; scales are in steps over `refined`."""
    event = Event(
        share.query.name,
        share.measurement.name,
        share.mechanism.name,
        share.mechanism.parameters,
        share.measurement.sensitivity,
    )
    return ShareRecord(
        **event.to_json(),
        aggregate=measured_value_text(share.query, share.measurement),
        refined=share.refined,
        step=plain_text(share.measurement.step),
        unit=share.measurement.unit,
        chosen_by=share.chosen_by,
        sum_scale=repr(share.sum_mechanism(parties).scale),
        sum_margin_95=plain_text(share.margin(parties)),
        largest=plain_text(share.clamping_bound(parties) * share.measurement.step),
    )
