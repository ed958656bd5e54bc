"""Read the release of contribution limits that were chosen privately for another release."""

from __future__ import annotations

from collections.abc import Mapping
from fractions import Fraction
from pathlib import Path
from typing import Any

from dprelease.documents.encoding import NAME, SIGNATURE, digest_of, is_canonical, sha256_of
from dprelease.documents.file_records import listed_files
from dprelease.documents.manifest import Manifest
from dprelease.documents.release_manifest import GuaranteeRecord
from dprelease.privacy.guarantee import Guarantee
from dprelease.privacy.unit import Neighbours
from dprelease.schema.load import Declaration
from dprelease.schema.release_parts.limit_choice import ChosenLimits, LimitChoice
from dprelease.system.files import entries, read_file
from dprelease.system.json_text import MOST_BYTES, parse_json
from dprelease.tables import formats

HIGHEST_COST = 1e6
"""A higher epsilon or rho is no cost of a release: budgets are at most 100."""


def read_chosen_limits(declaration: Declaration, folder: Path) -> ChosenLimits:
    """Return the limits that a folder publishes for a declaration.

    The folder must be a complete release of the limits of this very declaration. What its manifest
    states is checked by `verify`, not here.

    Raises OSError if a file can't be read. Raises ValueError if the folder is not such a release;
    the text says why, and quotes nothing.
    """
    record = _read_manifest(folder)
    if record.declaration.chooses != "limits":
        raise ValueError("it is not a release of contribution limits")
    held, texts = record.declaration, declaration.texts
    if held.texts != texts or held.variables != declaration.variables:
        raise ValueError("its limits were chosen for a declaration with other texts")
    if {name: copy.sha256 for name, copy in held.files.items()} != {
        name: file.sha256 for name, (file, _) in declaration.copies.items()
    }:
        raise ValueError("its limits were chosen for a declaration with other files")
    if held.replaced_sources != list(declaration.replaced_sources):
        raise ValueError("its limits were chosen from tables with other sources")
    files = _digests_of_files(folder, record)
    choices = () if declaration.choices is None else declaration.choices.limits
    noise = {one.query: _noise_fields(one.to_json()) for one in record.measurements}
    if noise.keys() != {one.name for one in choices}:
        raise ValueError("its manifest records other choices")
    return ChosenLimits(
        values={one.name: _published_limit(folder, one) for one in choices},
        digest=record.digest,
        guarantee=_guarantee(record.guarantee),
        files=files,
        noise=noise,
        paid=None if record.ledger is None else record.ledger.to_json(),
        folder=folder,
    )


def _read_manifest(folder: Path) -> Manifest:
    """Return the manifest of a release of tables, with its own digest; raise ValueError if none."""
    raw = read_file(folder / NAME, MOST_BYTES)
    problem = "its manifest is damaged"
    try:
        content: Any = parse_json(raw)
        is_sound = isinstance(content, dict) and is_canonical(content, raw)
        if is_sound and content.get("digest") == digest_of(content):
            return Manifest.model_validate(content)
    except (ValueError, RecursionError):
        pass
    raise ValueError(problem)


def _digests_of_files(folder: Path, record: Manifest) -> dict[str, str]:
    """Return the SHA-256 of each file of a release, which must be those of its manifest.

    Anybody may have written the folder. So names are looked up in its listing, and links, pipes and
    devices are not opened.
    """
    listed = listed_files(record.to_json())
    there = dict(entries(folder, listed))
    names = {NAME, *listed, *({SIGNATURE} & there.keys())}
    if folder.is_symlink() or not all(
        name in there and there[name].is_file(follow_symlinks=False) for name in names
    ):
        raise ValueError("one of its files is missing, or is a link or no regular file")
    found = {name: sha256_of(folder / name) for name in sorted(names)}
    if any(found[name] != digest for name, digest in listed.items()):
        raise ValueError("one of its files has another digest than its manifest states")
    return found


def _noise_fields(record: Mapping[str, Any]) -> dict[str, Any]:
    """Return the fields of a recorded measurement that describe its noise."""
    names = (
        "query", "column", "mechanism", "parameters", "sensitivity", "step", "unit", "chosen_by",
    )  # fmt: skip
    return {name: record[name] for name in names}


def _published_limit(folder: Path, choice: LimitChoice) -> int:
    """Return the limit that the only cell of a table publishes; raise ValueError if it has none."""
    import pyarrow as pa

    found: list[object] = []
    try:
        path = folder / formats.table_file_name(choice.name)
        # The number of rows is in the footer: a forged table with billions of rows is not read.
        if formats.PUBLISHED_FORMAT.shape(path)[1] == 1:
            table = formats.PUBLISHED_FORMAT.read(path, [choice.limit])
            found = table.column(choice.limit).to_pylist()
    except (pa.ArrowException, KeyError, UnicodeDecodeError):
        found = []
    match found:
        # In Python, True is an integer.
        case [int(value)] if not isinstance(value, bool) and 1 <= value <= choice.up_to:
            return value
    raise ValueError("it publishes no possible limit")


def _guarantee(record: GuaranteeRecord) -> Guarantee:
    """Return the recorded guarantee of a release of limits, whose epsilon is pure."""
    numbers = (record.epsilon, record.pure_epsilon or "inf", record.rho or "0")
    try:
        # NaN is refused as well: it compares as false.
        if not all(0.0 <= float(number) <= HIGHEST_COST for number in numbers):
            raise ValueError("a cost is out of range")
        return Guarantee(
            epsilon=float(record.epsilon),
            delta=Fraction(record.delta),
            neighbours=Neighbours(record.neighbours),
            accountant=record.accountant,
            pure_epsilon=float(record.pure_epsilon or "inf"),
            rho=None if record.rho is None else float(record.rho),
        )
    except (ValueError, ZeroDivisionError):
        raise ValueError("its manifest states no guarantee") from None
