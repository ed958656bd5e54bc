"""The steps of a rehearsal: those of a release, over stand-ins, and then the truth beside it."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from dprelease.documents import manifest
from dprelease.documents.described import metadata_of
from dprelease.documents.file_records import Written
from dprelease.documents.rehearsal_manifest import (
    ERRORS,
    FORMAT,
    NOTE,
    NOTED,
    PEOPLE,
    TRUTH,
    rehearsed,
)
from dprelease.errors import DeclarationError, OutputError, RunState
from dprelease.numerics.entropy import BitSource, Entropy
from dprelease.planning.families.family_plan import families_of
from dprelease.planning.plan import Plan
from dprelease.planning.prepare import prepare
from dprelease.postprocess.families import Family
from dprelease.query.resolve import Query
from dprelease.rehearsal.beside_truth import beside_truth, compared, published_tables
from dprelease.rehearsal.error_summary import rendered, summary
from dprelease.rehearsal.stand_ins import Cast
from dprelease.rehearsal.truth import truths
from dprelease.release.disk import most_bytes
from dprelease.release.execute import publishing
from dprelease.release.own_source import refuse_own_source
from dprelease.release.runs.family_run import publish_family
from dprelease.schema.load import Declaration
from dprelease.system.files import read_file
from dprelease.system.json_text import MOST_BYTES, parsed
from dprelease.tables import formats

if TYPE_CHECKING:
    import pyarrow as pa

BESIDE = 4
"""How many times as large as the published tables those with the truth beside them may be."""

ASIDE = "-rehearsal"
"""What follows the declared folder's name in that of its rehearsal."""


def rehearse(
    declaration: Declaration,
    *,
    output: Path | None = None,
    overwrite: bool = False,
    on: Mapping[str, Path] | None = None,
    rows: Mapping[str, int] | None = None,
    bits: BitSource | None = None,
    progress: Callable[[str], None] = lambda _step: None,
    state: RunState | None = None,
) -> Path:
    """Rehearse a release and return the folder; on any failure nothing becomes readable.

    No declared source is opened, and nothing charged. `on`: public files that stand in for tables,
    by name; `rows`: of the others, which are invented. `bits` is for tests. `output`: by default a
    folder beside that of the release.

    Raises
    ------
    DeclarationError
        DP-REHEARSE-001 for single records or parties, 003 for a file that can't stand in.
    OutputError
        DP-REHEARSE-004 where a release would be replaced; as `publishing`.
    DpReleaseError
        As `pipeline.run`, but for what only a source or a ledger could be the cause of.
    """
    _refuse_others(declaration)
    cast = Cast.of(declaration, on or {}, rows or {})
    queries, plan = prepare(cast.declaration)
    families = families_of(cast.declaration.spec, plan.columns)
    metadata = metadata_of(cast.declaration, queries, families)
    target = output or declaration.folder / f"{declaration.spec.output.rstrip('/')}{ASIDE}"
    refuse_own_source(declaration, plan, target, list(truth_names(families, declaration)))
    source = bits or Entropy()
    blank = dict.fromkeys((n for family in families for n in family.published), Written("", 0))
    draft = manifest.build(cast.unpaid, queries, plan, blank)
    with publishing(
        cast.unpaid,
        queries,
        plan,
        output=target,
        overwrite=overwrite,
        state=state,
        draft=draft,
        tables=most_bytes(families) * (1 + BESIDE),
    ) as release:
        _refuse_release(release.claim.target)
        release = replace(release, notes={NOTED: NOTE})
        progress("people")
        cast = cast.invent(queries, source)
        written: dict[str, Written] = {}
        with cast.engines(queries) as engines:
            for family in families:
                written |= publish_family(
                    family, plan, engines, source, release, metadata, progress
                )
        progress("truth")
        truth = _write_truth(release.folder, cast, queries, plan, families)
        record = manifest.build(cast.unpaid, queries, plan, written)
        release.publish(rehearsed(record, cast.to_json(), truth))
    return release.claim.target


def _refuse_others(declaration: Declaration) -> None:
    """Raise DP-REHEARSE-001 for what publishes no tables of aggregates."""
    spec, kind = declaration.spec, ""
    if spec.mode == "local":
        kind = "single records"
    elif spec.federated is not None:
        kind = "several parties"
    if kind:
        place = declaration.place("mode" if spec.mode == "local" else "federated")
        raise DeclarationError("DP-REHEARSE-001", place=place, kind=kind)


def _refuse_release(target: Path) -> None:
    """Raise DP-REHEARSE-004 if anything but a rehearsal is there, which has been paid for."""
    try:
        record = parsed(read_file(target / manifest.NAME, MOST_BYTES))
    except FileNotFoundError:
        return  # nothing is there: else the claim had been refused
    except (OSError, ValueError, RecursionError):
        record = None
    if not isinstance(record, dict) or record.get("format") != FORMAT:
        raise OutputError("DP-REHEARSE-004", name=target.name)


def truth_names(families: Sequence[Family], declaration: Declaration) -> Iterator[str]:
    """Yield the names of all files that a rehearsal may have beside the published ones."""
    for name, _, _ in published_tables(families):
        yield truth_of(name)
    yield from (people_of(name) for name in declaration.tables)
    yield ERRORS


def truth_of(name: str) -> str:
    """Return the name of the file in which a published table stands beside its truth."""
    return formats.file_of(f"{TRUTH}/{name}")


def people_of(table: str) -> str:
    """Return the name of the file of a table's invented rows."""
    return formats.file_of(f"{PEOPLE}/{table}")


def _write_truth(
    folder: Path, cast: Cast, queries: Sequence[Query], plan: Plan, families: Sequence[Family]
) -> dict[str, Written]:
    """Write what is known of a rehearsal alone, and return digests and rows by file."""
    written: dict[str, Written] = {}
    for name, table in cast.invented.items():
        written[people_of(name)] = _table(folder, people_of(name), table)
    columns = compared(families, plan)
    outputs = [(name, query.name) for name, query, _ in published_tables(families)]
    errors: dict[str, list[dict[str, Any]]] = {}
    for truth in truths(cast, queries):
        for name in (name for name, asked in outputs if asked == truth.query.name):
            asked_of = [column for column in columns if column.table == name]
            table = beside_truth(folder, name, truth, asked_of)
            written[truth_of(name)] = _table(folder, truth_of(name), table)
            errors[name] = summary(asked_of, table)
    text = rendered([told for name, _ in outputs for told in errors[name]])
    (folder / ERRORS).write_bytes(text)
    written[ERRORS] = Written(manifest.sha256(text), 0)
    return dict(sorted(written.items()))


def _table(folder: Path, file: str, table: pa.Table) -> Written:
    path = folder / file
    path.parent.mkdir(exist_ok=True, parents=True)
    noted = table.replace_schema_metadata({NOTED: NOTE})
    rows = formats.write_table(noted, path)
    return Written(manifest.sha256_of(path), rows)
