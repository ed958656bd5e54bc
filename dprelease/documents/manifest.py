"""The manifest: what was published, under which guarantee, and all that it takes to check it."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Mapping, Sequence
from functools import cache
from importlib import metadata
from pathlib import Path
from typing import Any

from dprelease.documents.audits.audit_name import named_record
from dprelease.documents.encoding import digest_of, pieces
from dprelease.documents.file_records import FileDigest, family_records, file_records
from dprelease.documents.metadata import Metadata
from dprelease.documents.metadata_json import about_record
from dprelease.documents.treatments import treatment
from dprelease.numerics.rounding import finite, plain_text
from dprelease.planning.bounded_words import bounded_words, counted_words
from dprelease.planning.guarantees import budget_of, reading
from dprelease.planning.invariant_plans import invariant_name
from dprelease.planning.plan import Plan, PlannedColumn
from dprelease.postprocess.families import Family
from dprelease.privacy.guarantee import Guarantee
from dprelease.privacy.unit import Neighbours
from dprelease.query.resolve import Query
from dprelease.schema.load import Declaration
from dprelease.schema.public_values.large_files import KeptFile
from dprelease.version import __version__

FORMAT = "dprelease-manifest/1"
NAME = "manifest.json"
SIGNATURE = "manifest.json.sig"
"""Beside the manifest where somebody signed it; no file of the release itself."""
DEPENDENCIES = ("duckdb", "numpy", "scipy", "pyarrow", "python-flint", "dp-accounting")

UNPROTECTED = [
    "How long the run took, how much memory it used, and whether it ran out of resources.",
    "Effects of a wrong declaration: keys, bounds or public tables taken from the data, ids that "
    "do not identify the privacy unit.",
    "Other releases about the same privacy units: their guarantees add to this one.",
    "CSV sources with quotes that are never closed, with texts that contain line breaks outside "
    "quotes, or with records above 64 MB: these hide or add rows of other privacy units.",
    "Failures of the engine on sources that violate their format, such as text that is not UTF-8 "
    "in a Parquet file.",
    "Facts about a privacy unit that can be inferred from others, for example by a statistical "
    "model.",
]
POST_PROCESSING = [
    "Noise and noised values are limited to 2^62 steps, for any data.",
    "The mean of asymmetric noise, rounded to the nearest step, is subtracted; `bias` is the rest.",
    "Published values are exact multiples of the declared step.",
]


def canonical(record: dict[str, Any]) -> bytes:
    """Return the one encoding of a record: sorted keys, two spaces, UTF-8, one final newline."""
    return b"".join(pieces(record))


def with_digest(record: dict[str, Any]) -> dict[str, Any]:
    """Return the record with the SHA-256 of its encoding without that digest."""
    return {**record, "digest": digest_of(record)}


def with_exports(record: dict[str, Any], exports: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """Return the sealed record with what is said of formats beside Parquet; unchanged without."""
    return with_digest({**record, "exports": list(exports)}) if exports else record


def sha256(data: bytes) -> str:
    """Return the hexadecimal SHA-256 of some bytes."""
    return hashlib.sha256(data).hexdigest()


def sha256_of(path: Path) -> str:
    """Return the hexadecimal SHA-256 of a file's bytes, which are read a piece at a time."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def build(
    declaration: Declaration,
    plan: Plan,
    metadata: Metadata,
    written: Mapping[str, FileDigest],
    ledger: dict[str, Any] | None = None,
) -> dict[str, Any]:
    """Return the sealed manifest of a release whose files were written, by the name of each table.

    `ledger`: what binds it to the entry of a ledger that paid for it.
    """
    return with_digest(draft(declaration, plan, metadata, written, ledger))


def draft(
    declaration: Declaration,
    plan: Plan,
    metadata: Metadata,
    written: Mapping[str, FileDigest],
    ledger: dict[str, Any] | None = None,
) -> dict[str, Any]:
    """Return what `build` does before it is sealed: of blank files `fill_draft` makes it whole."""
    return {
        **opening(FORMAT, declaration, metadata),
        **guarantee_record(plan.guarantee),
        "ledger": ledger,
        "composition": composition(plan.guarantee),
        "reading": reading(plan.guarantee),
        "measurements": [measurement(column) for column in plan.noisy_columns],
        **_invariants(plan),
        **records_of_queries(plan.queries),
        **family_records(plan.families),
        "files": list(file_records(plan.families, written, metadata)),
        "post_processing": POST_PROCESSING,
        "unprotected_quantities": [*_exactly(plan.guarantee), *UNPROTECTED],
    }


def fill_draft(
    blank: Mapping[str, Any],
    families: Sequence[Family],
    metadata: Metadata,
    written: Mapping[str, FileDigest],
    ledger: dict[str, Any] | None,
) -> dict[str, Any]:
    """Return what `build` does, of the draft of blank files: but for these it is the same."""
    files = list(file_records(families, written, metadata))
    return with_digest({**blank, "ledger": ledger, "files": files})


def _invariants(plan: Plan) -> dict[str, list[dict[str, Any]]]:
    """Return what the manifest tells of vectors without noise; nothing where there are none."""
    records = [
        {
            "query": column.query.name,
            "column": column.measurement.name,
            "exact": column.measurement.exact,
            "name": invariant_name(column.query, column.measurement),
            "cells": column.query.cells,
            "step": plain_text(column.measurement.step),
        }
        for column in plan.columns
        if column.measurement.exact
    ]
    return {"invariants": records} if records else {}


def _exactly(guarantee: Guarantee) -> list[str]:
    """Return in words what invariants leave unprotected."""
    return [
        f"Published exactly, outside the guarantee, as the declaration acknowledges: {name}. "
        "Someone who knows all privacy units but one learns from it where that one counts."
        for name in guarantee.invariants
    ]


def opening(form: str, declaration: Declaration, metadata: Metadata) -> dict[str, Any]:
    """Return what every manifest has first: its format, the tool, and what was declared."""
    texts = declaration.texts
    return {
        "format": form,
        "title": declaration.spec.title,
        **about_record(declaration, metadata),
        "tool": tool(),
        "declaration": {
            "release": declaration.document.path.name,
            "texts": texts,
            "sha256": {name: sha256(text.encode()) for name, text in texts.items()},
            **({"variables": declaration.variables} if declaration.variables else {}),
            **declaration_file_records(declaration),
            **named_record(declaration),
        },
        "dp_variant": budget_of(declaration.spec.budget).variant.value,
    }


def declaration_file_records(declaration: Declaration) -> dict[str, dict[str, dict[str, Any]]]:
    """Return what the manifest tells of files that are no texts; nothing without any."""
    kept = {
        name: {"form": file.form, "sha256": file.sha256, "size": file.size}
        for name, (file, _) in declaration.kept.items()
    }
    return {"files": kept} if kept else {}


def declaration_files(record: Mapping[str, Any]) -> dict[str, KeptFile]:
    """Return the files of a manifest's declaration that are no texts, by name."""
    return {
        name: KeptFile(held["sha256"], held["size"], held["form"])
        for name, held in record["declaration"].get("files", {}).items()
    }


def guarantee_record(guarantee: Guarantee) -> dict[str, Any]:
    """Return the guarantee, and its parameters by themselves."""
    return {
        "privacy_parameters": {
            "epsilon": repr(guarantee.epsilon),
            "delta": plain_text(guarantee.delta),
        },
        "guarantee": guarantee.to_json(),
    }


def records_of_queries(queries: Sequence[Query]) -> dict[str, list[dict[str, Any]]]:
    """Return what the manifest tells of each query's unit, columns and joined table."""
    return {
        "privacy_unit": [_unit(query) for query in queries],
        "treatments": [treatment(query) for query in queries],
    }


def tool() -> dict[str, Any]:
    """Return the tool and what it runs on."""
    versions = {name: _version(name) for name in DEPENDENCIES}
    return {"name": "dprelease", "version": __version__, "dependencies": versions}


@cache
def _version(name: str) -> str:
    """Return the installed version of a package.

    Not `metadata.version`: it parses all that a package says of itself, as if it were a mail.
    """
    text = metadata.distribution(name).read_text("METADATA") or ""
    match = re.search(r"^Version: *(\S+)", text, re.MULTILINE)
    return metadata.version(name) if match is None else match[1]


def composition(guarantee: Guarantee) -> str:
    """Return in words how losses were composed."""
    if guarantee.accountant == "pure":
        return (
            "The exact sum of the largest privacy losses of all noisy vectors (basic composition)."
        )
    if guarantee.accountant == "zcdp":
        return (
            "The sum of Rényi curves, rounded up; rho bounds it at all orders. Epsilon at delta is "
            "the smaller result of privacy-loss distributions and of the conversion of rho."
        )
    return (
        "Privacy-loss distributions, rounded to the safe side, composed by sums of positive "
        "floating-point numbers, whose relative errors are bounded and included; or the sum of "
        "pure losses or the closed form of normal noise where that is smaller."
    )


UNLIMITED = "No contribution limit leaves out rows; the treatments state which rows count."


def _unit(query: Query) -> dict[str, Any]:
    unit = query.unit
    who = "each row" if unit.id is None else f"all rows with the same '{unit.id}'"
    change = (
        "one privacy unit more or less"
        if query.neighbours is Neighbours.ADD_REMOVE
        else "one privacy unit replaced by another"
    )
    return {
        "query": query.name,
        "table": query.table.name,
        "id": unit.id,
        "max_groups": unit.max_groups,
        "max_rows_per_group": unit.max_rows_per_group,
        "neighbours": query.neighbours.value,
        "words": (
            f"A privacy unit is {who}. Neighbouring tables differ by {change}. "
            + (f"Values are {bounded_words(query)}." if unit.bounded_rows else UNLIMITED)
        ),
    }


def measurement(column: PlannedColumn) -> dict[str, Any]:
    """Return the record of one noisy vector."""
    measurement = column.measurement
    return {
        **column.event.to_json(),
        "aggregate": counted_words(column.query, measurement),
        "sensitivity_derivation": _derivation(column),
        "cells": column.query.cells,
        "step": plain_text(measurement.step),
        "unit": measurement.unit,
        "error_unit": measurement.error_unit,
        "weight": plain_text(measurement.weight),
        "chosen_by": column.chosen_by,
        "bias": column.bias,
        "expected_absolute_error": finite(column.mean_absolute_error),
        "standard_deviation": finite(column.standard_deviation),
        "margin_95": plain_text(column.margin()),
    }


def _derivation(column: PlannedColumn) -> str:
    sensitivity = column.measurement.sensitivity
    each = column.measurement.aggregate.each(column.query.unit.max_rows_per_group)
    moves = " or ".join(
        f"{move.cells} cell{'s' * (move.cells > 1)} by {move.shift} steps"
        for move in sensitivity.moves
    )
    how = f"by {column.query.neighbours.value}."
    finest = column.query.finest
    if finest is None:
        return f"{sensitivity.slots} groups at most, each with {each}: in each, {moves}, {how}"
    several = min(column.query.unit.max_groups, finest.size)
    met = f"; up to {sensitivity.meeting} of these may add up in one cell"
    return (
        f"{several} finest cells of the family at most, each with {each}, so {sensitivity.slots} "
        f"parts at most: in each, {moves}, {how[:-1]}{met if sensitivity.meeting > 1 else ''}."
    )
