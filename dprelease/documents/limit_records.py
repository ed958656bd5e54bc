"""The part of a manifest on contribution limits that were chosen privately."""

from __future__ import annotations

from dataclasses import replace
from typing import Literal

from dprelease.documents.release_manifest import GuaranteeRecord, NoiseRecord
from dprelease.numerics.rounding import plain_text
from dprelease.privacy.guarantee import Guarantee
from dprelease.query.limit_release import limit_release
from dprelease.schema.document_part import Part
from dprelease.schema.load import Declaration
from dprelease.schema.release_parts.limit_choice import with_limits

FOLDER: Literal["limits"] = "limits"
"""The folder of a release that contains the release of its limits."""


class LimitRecord(Part):
    """One limit that was chosen privately, and the noise of its choice.

    The limit is that of `queries`, and was chosen from 1 to `up_to` for a `share` of the budget. It
    is a quantile of the persons, at `persons`, of their numbers of groups or of rows in one group.
    """

    queries: list[str]
    limit: Literal["max_groups", "max_rows_per_group"]
    value: int
    up_to: int
    share: str
    persons: str
    noise: NoiseRecord


class LimitsRecord(Part):
    """The release of limits, which `folder` contains, and the guarantees that add up.

    `manifest`: the digest of the manifest of the release of limits. `files`: the SHA-256 of each of
    its files. `guarantee`: its guarantee. `tables`: the guarantee of the tables without the limits.
    The guarantee of the whole release is the sum of both.
    """

    folder: Literal["limits"]
    manifest: str
    files: dict[str, str]
    chosen: list[LimitRecord]
    guarantee: GuaranteeRecord
    tables: GuaranteeRecord


def published_declaration(
    declaration: Declaration, chooses: str | None, limits: LimitsRecord | None
) -> Declaration:
    """Return the release that a manifest is about, from the declaration of its texts.

    It is the declared one with the recorded limits, or the release that chooses the limits.
    `chooses` and `limits` are those of the manifest.
    """
    choices = declaration.choices
    if choices is None or (chooses is None and limits is None):
        return declaration
    if limits is None:
        return limit_release(declaration)
    values = {one.noise.query: one.value for one in limits.chosen}
    return replace(declaration, spec=with_limits(declaration.spec, choices, values))


COMPOSITION = (
    " The contribution limits were chosen privately before, by a small release; its guarantee and "
    "that of the tables add up (basic composition of adaptive releases; rhos add up, too)."
)
"""What the composition of a manifest adds for limits that were chosen privately."""


def limits_record(declaration: Declaration, tables: Guarantee) -> LimitsRecord | None:
    """Return the record of the chosen limits of a release; None if it has chosen none.

    `tables`: the guarantee of the tables without the limits.
    """
    chosen, choices = declaration.chosen, declaration.choices
    if chosen is None or choices is None:
        return None
    records = [
        {
            "queries": list(one.queries),
            "limit": one.limit,
            "value": chosen.values[one.name],
            "up_to": one.up_to,
            "share": plain_text(one.share),
            "persons": plain_text(one.persons),
            "noise": chosen.noise[one.name],
        }
        for one in choices.limits
    ]
    return LimitsRecord.model_validate(
        {
            "folder": FOLDER,
            "manifest": chosen.digest,
            "files": dict(chosen.files),
            "chosen": records,
            "guarantee": GuaranteeRecord.of(chosen.guarantee),
            "tables": GuaranteeRecord.of(tables),
        }
    )
