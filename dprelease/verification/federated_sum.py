"""Sum the messages of all parties; the sum is the result of a federated release."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, NoReturn

from dprelease.documents.encoding import NAME
from dprelease.documents.metadata import TableMetadata
from dprelease.documents.party_manifest import FederatedManifest
from dprelease.errors import BudgetError, Place, VerificationError
from dprelease.errors.argument_types import checked_arguments
from dprelease.errors.local_paths import check_paths
from dprelease.numerics.lattice import Integers
from dprelease.numerics.rounding import exact
from dprelease.query.resolve import Query
from dprelease.tables.summed_messages import (
    are_exact_sums,
    margin_names,
    sum_messages,
    sums_in_unit,
)
from dprelease.verification.manifest_comparison import differences
from dprelease.verification.manifest_reader import read_sealed
from dprelease.verification.party_messages import checked_messages, declared_queries
from dprelease.verification.verify import verify

if TYPE_CHECKING:
    import pandas as pd

FEW = 4
"""With at least this number of messages, two parties never have identical messages by chance."""


@checked_arguments
def federated_sum(folders: Sequence[str | Path], query: str | None = None) -> pd.DataFrame:
    """Return the sums of the messages of all parties, with keys and margins of error.

    The margins are those at 95 %, in the columns `<column>_moe` (with more underscores if such a
    column exists already). `attrs["dprelease"]` of the frame has the guarantees.

    The caller sees the messages of every party, so only the guarantee of a single share protects
    against the caller. This function is for parties that trust the caller. It also serves as a
    model of secure aggregation, because it computes sums modulo 2^64, cell by cell.

    One folder is verified. The manifests in the other folders must be equal to the verified one,
    except for the number of the party and the digests of files. The files must have the same keys
    in the same order, and whole numbers.

    Parameters
    ----------
    folders
        The folders of messages, one for each party, in any order.
    query
        The name of the query, if the release has several queries.

    Raises
    ------
    BudgetError
        DP-FED-003 unless there is one complete folder for every party, all folders are of the same
        release and version, and all sums fit into 64 bits.
    """
    check_paths(folders)
    paths = [Path(folder) for folder in folders]
    if not paths:
        _raise_sum_error("no folder is named")
    records = [_read_party_manifest(path) for path in paths]
    report = verify(paths[0])
    if not report.ok:
        _raise_sum_error(f"{paths[0].name} does not verify ({report.findings[0].code})")
    _compare_manifests(paths, records)
    _check_parties(records)
    declared = {
        each.name: (each, table_metadata)
        for each, table_metadata in declared_queries(paths[0], records[0])
    }
    chosen = query or (next(iter(declared)) if len(declared) == 1 else "")
    if chosen not in declared:
        _raise_sum_error(f"name one of the queries {', '.join(declared)}")
    return _sum_table(paths, records, *declared[chosen])


def _raise_sum_error(problem: str) -> NoReturn:
    """Raise BudgetError DP-FED-003 with the problem of the messages."""
    raise BudgetError("DP-FED-003", place=Place(NAME), problem=problem)


def _read_party_manifest(path: Path) -> FederatedManifest:
    """Return the manifest of a party's messages; raise DP-FED-003 if invalid."""
    try:
        return read_sealed(path, FederatedManifest)
    except VerificationError as error:
        code = error.code
    _raise_sum_error(f"{path.name} contains no messages, or changed ones ({code})")


def _common_manifest(record: FederatedManifest) -> FederatedManifest:
    """Return a party's manifest with the same value for every key that differs between parties."""
    files = [file.model_copy(update={"sha256": ""}) for file in record.files]
    tool = record.tool.model_copy(update={"dependencies": {}})
    declared = record.declaration.model_copy(update={"replaced_sources": [], "table_versions": {}})
    own = {"files": files, "tool": tool, "declaration": declared, "party": 0, "digest": ""}
    return record.model_copy(update=own)


def _compare_manifests(paths: Sequence[Path], records: Sequence[FederatedManifest]) -> None:
    """Raise DP-FED-003 if the manifests of two parties are of different releases."""
    first = _common_manifest(records[0]).to_json()
    for path, record in zip(paths, records, strict=True):
        for difference in differences(_common_manifest(record).to_json(), first, "manifest"):
            _raise_sum_error(
                f"{path.name} and {paths[0].name} differ at {difference.partition('.')[2]}"
            )


def _check_parties(records: Sequence[FederatedManifest]) -> None:
    """Raise DP-FED-003 unless there is exactly one folder for each declared party."""
    wanted, given = range(1, records[0].parties + 1), Counter(r.party for r in records)
    for party, times in given.items():
        if times > 1 or party not in wanted:
            _raise_sum_error(
                f"party {party} stands there {'twice' if times > 1 else 'and is none'}"
            )
    for party in wanted:
        if party not in given:
            _raise_sum_error(
                f"party {party} is missing: {len(records)} were named of {len(wanted)}"
            )
    sent = [tuple(file.sha256 for file in record.files) for record in records]
    values = sum(f.rows for f in records[0].files) * len(records[0].measurements)
    if values >= FEW and len(set(sent)) != len(sent):
        _raise_sum_error("two parties have identical messages")


def _sum_table(
    paths: Sequence[Path],
    records: Sequence[FederatedManifest],
    query: Query,
    table_metadata: TableMetadata,
) -> pd.DataFrame:
    """Return the sums of one query over the messages of all parties, with margins."""
    columns = {m.column: m for m in records[0].measurements if m.query == query.name}
    shown: pd.DataFrame | None = None
    totals: dict[str, Integers] = {}
    for path, record in zip(paths, records, strict=True):
        table = checked_messages(path, record, query, table_metadata)
        if table is None:
            _raise_sum_error(f"a file of {path.name} is missing, or another one than was written")
        if shown is None:
            keys = [name for name in table.column_names if name not in columns]
            shown = table.select(keys).to_pandas()
        for name in columns:
            sent = [table.column(name).to_numpy()]
            totals[name] = sum_messages([totals[name], *sent] if name in totals else sent)
    assert shown is not None  # a release has at least two parties
    margins = margin_names(query)
    for name, held in columns.items():
        if not are_exact_sums(totals[name]):
            _raise_sum_error(f"the sums of {name} do not fit 64 bits")
        shown[name] = sums_in_unit(totals[name], exact(held.step) / held.refined)
        shown[margins[name]] = float(exact(held.sum_margin_95))
    shown.attrs["dprelease"] = {
        "trust": [trust.to_json() for trust in records[0].trust],
        "words": records[0].trust_words,
    }
    return shown
