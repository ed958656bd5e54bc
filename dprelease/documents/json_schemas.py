"""JSON Schemas of all documents: `python -m dprelease.documents.json_schemas FOLDER`."""

from __future__ import annotations

import sys
from pathlib import Path

from pydantic import BaseModel

from dprelease.documents.attack_outcome import AttackOutcome
from dprelease.documents.audit_record import Audit
from dprelease.documents.local_manifest import LocalManifest, LocalRehearsalManifest
from dprelease.documents.manifest import Manifest, RehearsalManifest
from dprelease.documents.party_manifest import FederatedManifest, FederatedRehearsalManifest
from dprelease.schema import json_schema

FORMS: dict[str, type[BaseModel]] = {
    **json_schema.DOCUMENTS,
    "manifest": Manifest,
    "local_manifest": LocalManifest,
    "federated_manifest": FederatedManifest,
    "rehearsal_manifest": RehearsalManifest,
    "local_rehearsal_manifest": LocalRehearsalManifest,
    "federated_rehearsal_manifest": FederatedRehearsalManifest,
    "attack": AttackOutcome,
    "audit": Audit,
}
"""The models of all documents, by name."""


def render_schema(name: str) -> str:
    """Return the JSON Schema of a document by its name, as text."""
    return json_schema.render_schema(name, FORMS[name])


def write_schemas(folder: Path) -> None:
    """Write the JSON Schemas of all documents into a folder."""
    for name in FORMS:
        (folder / f"{name}.schema.json").write_text(render_schema(name), encoding="utf-8")


if __name__ == "__main__":
    write_schemas(Path(sys.argv[1]))
