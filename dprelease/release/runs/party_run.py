"""The steps of one party's run: its own rows, its share of the noise, its messages."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path

from dprelease.documents import party_manifest as manifest
from dprelease.documents.manifest import sha256
from dprelease.documents.metadata_json import field_notes
from dprelease.documents.release_metadata import ReleaseMetadata
from dprelease.errors import RunState
from dprelease.exact.engines import open_engines
from dprelease.exact.settings import Settings
from dprelease.noise.noise_shares import messages
from dprelease.numerics.entropy import BitSource, Entropy
from dprelease.planning.federated_plan import prepare_federated, resolve_federated
from dprelease.release.execute import publishing
from dprelease.release.party import party_of
from dprelease.schema.load import Declaration
from dprelease.tables.field_notes import with_field_notes
from dprelease.tables.formats import write_table
from dprelease.tables.summed_messages import messages_to_arrow


def run_federated(
    declaration: Declaration,
    *,
    output: Path | None,
    overwrite: bool,
    bits: BitSource | None,
    frames: Mapping[str, object],
    progress: Callable[[str], None],
    state: RunState | None,
) -> Path:
    """Write one party's messages and return their folder; raises as `pipeline.run`."""
    queries, plan = resolve_federated(declaration), prepare_federated(declaration)
    party, described = party_of(declaration), ReleaseMetadata(declaration.spec)
    source = bits or Entropy()
    blank = dict.fromkeys((query.name for query in queries), "")
    draft = manifest.build(declaration, queries, plan, blank, party)
    with publishing(
        declaration, queries, plan, output=output, overwrite=overwrite, state=state, draft=draft
    ) as release:
        settings = Settings.of(declaration)
        digests: dict[str, str] = {}
        with open_engines(queries, frames, declaration.spec, settings) as engines:
            release.read()
            for query in queries:
                progress(query.name)
                columns = plan.of_shares(query.name)
                vectors = messages(engines[query.name].run(query), columns, plan.parties, source)
                told = described.messages(query)
                path = release.folder / told.file
                write_table(
                    with_field_notes(messages_to_arrow(query, vectors), field_notes(told)), path
                )
                digests[query.name] = sha256(path.read_bytes())
        progress("manifest")
        release.publish(manifest.build(declaration, queries, plan, digests, party))
    return release.claim.target
