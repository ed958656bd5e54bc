"""Read manifests of untrusted folders strictly, and compare them with rebuilt ones."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, TypeVar, get_args

from pydantic import ValidationError

from dprelease.documents.encoding import NAME, digest_of, is_canonical
from dprelease.documents.file_records import LedgerRecord, RenewalRecord
from dprelease.documents.local_manifest import LocalManifest, LocalRehearsalManifest
from dprelease.documents.manifest import Manifest, RehearsalManifest
from dprelease.documents.party_manifest import (
    FederatedManifest,
    FederatedRehearsalManifest,
    PartiesManifest,
)
from dprelease.documents.release_manifest import GuaranteedManifest, NoiseRecord, ReleaseManifest
from dprelease.errors import DpReleaseError, Place, State, VerificationError
from dprelease.planning.guarantees import meets_budget
from dprelease.planning.plan import PlannedColumn, guarantee_of_columns
from dprelease.privacy.guarantee import Guarantee
from dprelease.schema.load import Declaration
from dprelease.schema.release import BudgetSpec
from dprelease.system.files import TooLarge, read_file
from dprelease.system.json_text import MOST_BYTES, parse_json
from dprelease.verification.report import Report

ROUNDING = 2.0**-36
"""The relative difference that is allowed between numbers from different machines.

Matrix products and exponentials differ in their last bits between kinds of processors, and costs
and errors computed from them differ by about 10^-13. A claim that is lower by such a small amount
than the result here is equally valid: both are bounds, and their safety margins are larger.
"""

TEXTS = frozenset({"epsilon", "pure_epsilon", "rho", "rho_delta"})
"""Keys of manifests with a cost, which is a float written as a text."""

COSTS = frozenset({"guarantee", "privacy_parameters", "trust"})
"""Parts of a manifest that contain privacy costs."""


Measured = TypeVar("Measured", bound=NoiseRecord)


def match_measurements(
    report: Report, measurements: Sequence[Measured], wanted: Sequence[tuple[str, str]]
) -> list[Measured | None]:
    """Return the record of each declared vector; None, and a finding, for a missing record.

    A record of an undeclared vector is a finding, too. `wanted` has the names of query and column
    of each declared vector.
    """
    recorded = {(held.query, held.column): held for held in measurements}
    if len(recorded) != len(measurements):
        report.add_finding("DP-VERIFY-002", "measurements", problem="a column is recorded twice")
    # Both directions: noise that is missing, and noise of a column that is not declared.
    for query, column in sorted(recorded.keys() ^ {*wanted}):
        report.add_finding(
            "DP-VERIFY-007", "measurements", what="noise", query=query, column=column
        )
    return [recorded.get(name) for name in wanted]


def ledger_record(declaration: Declaration, held: LedgerRecord | None) -> LedgerRecord | None:
    """Return the ledger record that the manifest must have: that of the declared file, or None.

    The reservation, the entry, its digest and the renewal of budgets are copied from the manifest,
    because only the ledger knows them; `verify` compares them if it has the ledger. The explanation
    of the renewal is computed again.
    """
    if declaration.spec.ledger is None:
        return None
    name = (declaration.folder / declaration.spec.ledger).name
    if held is None:
        return LedgerRecord(file=name, reservation="", entry=0, digest="")
    renewals = [one for renewal in held.renewals for one in _recomputed_renewal(renewal)]
    return held.model_copy(update={"file": name, "renewals": renewals})


def _recomputed_renewal(held: RenewalRecord) -> Iterator[RenewalRecord]:
    """Yield the renewal record, computed again from its budget; nothing for an invalid budget."""
    from dprelease.ledger.lifetime import recomputed_record

    try:
        again = recomputed_record(held.to_json())
    except (ValueError, TypeError, OverflowError):
        return
    yield RenewalRecord.model_validate({"table": held.table, **again})


def recompute_guarantee(
    report: Report, recorded: str, columns: Sequence[PlannedColumn], budget: BudgetSpec
) -> Guarantee | None:
    """Return the cost of the columns; None, and a finding, if the cost is over the budget.

    `recorded` is the epsilon in the manifest.
    """
    try:
        guarantee = guarantee_of_columns(columns, budget)
    except (DpReleaseError, OverflowError):  # with so little noise, the cost is not a float
        report.add_finding("DP-VERIFY-008", "guarantee", found="nothing finite", recorded=recorded)
        return None
    report.guarantee = guarantee
    if not meets_budget(_minus_rounding(guarantee), budget):
        report.add_finding(
            "DP-VERIFY-008", "guarantee", found=repr(guarantee.epsilon), recorded=recorded
        )
        return None
    return guarantee


def _minus_rounding(guarantee: Guarantee) -> Guarantee:
    """Return a guarantee minus the rounding differences between machines."""
    rho = None if guarantee.rho is None else guarantee.rho * (1.0 - ROUNDING)
    # Otherwise an honest release could be over its budget by the last bits of another processor.
    return replace(guarantee, epsilon=guarantee.epsilon * (1.0 - ROUNDING), rho=rho)


def check_rebuilt(report: Report, record: ReleaseManifest, wanted: ReleaseManifest) -> None:
    """Compare a whole manifest with the one rebuilt from its declaration and its events.

    The versions of the tool (`tool`) are not compared, nor the digest, which is checked before.
    Earlier findings are not repeated.
    """
    held, rebuilt = record.to_json(), wanted.to_json()
    reported_keys = {finding.place.key for finding in report.findings}
    # Another version of the tool may verify a release, and the digest is checked when it is read.
    for name in sorted({*held, *rebuilt} - {"tool", "digest"}):
        for path in differences(held.get(name), rebuilt.get(name), name):
            # A difference inside of a part with a finding says nothing new.
            if not any(path.startswith(key) for key in reported_keys if key):
                _add_difference(report, record, rebuilt, path)
    report.checked.append("all its statements follow from the declaration and the recorded noise")


def differences(held: object, wanted: object, path: str) -> Iterator[str]:
    """Yield the paths at which two JSON values differ, types included."""
    if isinstance(held, dict) and isinstance(wanted, dict):
        for name in sorted({*held, *wanted}):
            inner = f"{path}.{name}"
            if name in held and name in wanted:
                yield from differences(held[name], wanted[name], inner)
            else:
                yield inner
    elif isinstance(held, list) and isinstance(wanted, list) and len(held) == len(wanted):
        for i, (one, other) in enumerate(zip(held, wanted, strict=True)):
            yield from differences(one, other, f"{path}[{i}]")
    # In Python, 1 == 1.0 == True, but the tool writes each of them for another kind of value.
    elif type(held) is not type(wanted) or not _is_equal(held, wanted, path):
        yield path


def _is_equal(held: object, wanted: object, path: str) -> bool:
    """Return whether two values of one type are equal: for costs and errors, up to `ROUNDING`."""
    if isinstance(held, float) and isinstance(wanted, float):
        return math.isclose(held, wanted, rel_tol=ROUNDING)
    if path.rpartition(".")[2] in TEXTS and isinstance(held, str) and isinstance(wanted, str):
        one, other = _float_from_repr(held), _float_from_repr(wanted)
        if one is not None and other is not None:
            return math.isclose(one, other, rel_tol=ROUNDING)
    return held == wanted


def _float_from_repr(text: str) -> float | None:
    """Return the float whose `repr` a text is; None for other texts."""
    try:
        number = float(text)
    except ValueError:
        return None
    # Other spellings are compared as texts, because the tool writes each float in one way.
    return number if repr(number) == text and math.isfinite(number) else None


def _add_difference(
    report: Report, record: ReleaseManifest, rebuilt: Mapping[str, Any], path: str
) -> None:
    """Add the finding that a part of the manifest differs from the rebuilt manifest."""
    part = path.split(".")[0].split("[")[0]
    if part == "files":
        report.add_finding("DP-VERIFY-006", path, name=_item_name(rebuilt, path, "name"))
    elif part in COSTS:
        epsilon = report.guarantee.epsilon if report.guarantee else "nothing"
        report.add_finding(
            "DP-VERIFY-008", path, found=repr(epsilon), recorded=_recorded_epsilon(record)
        )
    elif part == "measurements":
        what = path.partition(".")[2] or "noise"
        query, column = (_item_name(rebuilt, path, name) for name in ("query", "column"))
        report.add_finding("DP-VERIFY-007", path, what=what, query=query, column=column)
    else:
        report.add_finding(
            "DP-VERIFY-002", path, problem=f"`{path}` differs from what the rest implies"
        )


def _item_name(rebuilt: Mapping[str, Any], path: str, name: str) -> str:
    """Return a name for the list item that a path goes through."""
    part, _, rest = path.partition("[")
    if not rest:
        return part
    return str(rebuilt[part][int(rest.split("]")[0])][name])


def _recorded_epsilon(record: ReleaseManifest) -> str:
    """Return the recorded epsilon; the first one if there are several guarantees."""
    if isinstance(record, GuaranteedManifest):
        return record.guarantee.epsilon
    trust = record.trust if isinstance(record, PartiesManifest) else []
    return trust[0].guarantee.epsilon if trust else "nothing"


Rehearsal = RehearsalManifest | LocalRehearsalManifest | FederatedRehearsalManifest
AnyManifest = Manifest | LocalManifest | FederatedManifest | Rehearsal
Wanted = TypeVar("Wanted", bound=ReleaseManifest)

HELD: dict[type[ReleaseManifest], tuple[str, str]] = {
    Manifest: ("manifest", "a release of tables"),
    LocalManifest: ("local_manifest", "a release of single records"),
    FederatedManifest: ("federated_manifest", "one party's messages"),
    RehearsalManifest: ("rehearsal_manifest", "a rehearsal, not a release"),
    LocalRehearsalManifest: (
        "local_rehearsal_manifest",
        "a rehearsal of single records, not a release",
    ),
    FederatedRehearsalManifest: (
        "federated_rehearsal_manifest",
        "a rehearsal of several parties, not a release",
    ),
}
"""The models of manifests, each with the name of its JSON Schema and the content of the folder."""

FORMS: dict[str, type[ReleaseManifest]] = {
    get_args(model.model_fields["format"].annotation)[0]: model for model in HELD
}
"""The models of manifests, by format."""


def read_any_manifest(folder: Path) -> AnyManifest:
    """Return the manifest of a folder, of any kind; raise the errors of `read_manifest_as`."""
    found = read_manifest_as(folder, *HELD)
    assert isinstance(found, AnyManifest)
    return found


def read_manifest_as(folder: Path, *models: type[Wanted]) -> Wanted:
    """Return the manifest of a folder: canonical bytes with a valid digest, of a known format.

    `models` are the models of the expected kinds of manifests.

    Raises VerificationError: DP-VERIFY-001 if there is no manifest, 002 for bytes that the tool
    would not write, 003 for an unknown format, 025 for an unexpected format. No other error is
    raised, whatever the folder contains.
    """
    raw = _read_bytes(folder / NAME)
    try:
        record: Any = parse_json(raw, _refuse_constant)
        same = isinstance(record, dict) and is_canonical(record, raw)
    except (ValueError, RecursionError):
        raise _manifest_error("DP-VERIFY-002", problem="it is not strict JSON") from None
    if not same:
        raise _manifest_error(
            "DP-VERIFY-002", problem="its bytes are not in the canonical encoding"
        )
    if record.get("digest") != digest_of(record):
        raise _manifest_error("DP-VERIFY-002", problem="its digest does not match")
    model = _model_of(record.get("format"), models)
    found = None
    try:
        found = model.model_validate(record)
        # The model accepts 0 for 0.0, for instance, but the tool writes each value in one way.
        same = is_canonical(found.to_json(), raw)
    except (ValidationError, RecursionError):
        same = False
    if found is None or not same:
        problem = f"it does not fit what `dprelease schema {HELD[model][0]}` prints"
        raise _manifest_error("DP-VERIFY-002", problem=problem)
    return found


def _model_of(format_: object, models: tuple[type[Wanted], ...]) -> type[Wanted]:
    """Return the model of a format; raise an error for an unknown or unexpected format."""
    known = {name: model for name, model in FORMS.items() if model in models}
    if isinstance(format_, str) and format_ in FORMS and format_ not in known:
        wanted = " or ".join(HELD[model][1] for model in models)
        raise _manifest_error("DP-VERIFY-025", found=HELD[FORMS[format_]][1], wanted=wanted)
    for model in models:
        if isinstance(format_, str) and FORMS.get(format_) is model:
            return model
    raise _manifest_error("DP-VERIFY-003", found=str(format_)[:40], known=", ".join(known))


def _read_bytes(path: Path) -> bytes:
    """Return the bytes of a regular file within the size limit of manifests."""
    problem = ""
    try:
        return read_file(path, MOST_BYTES)
    except TooLarge as refused:
        problem = str(refused.strerror)
    except OSError:
        pass
    if problem:
        raise _manifest_error("DP-VERIFY-002", problem=problem)
    raise _manifest_error("DP-VERIFY-001")


def _manifest_error(code: str, **fields: str) -> VerificationError:
    named: dict[str, Any] = dict(fields)
    # Without a manifest it is unknown whether there was a release.
    state = State.NOTHING if code == "DP-VERIFY-001" else State.RELEASED
    return VerificationError(code, place=Place(NAME), state=state, **named)


def _refuse_constant(name: str) -> float:
    """Raise ValueError for a constant that JSON does not have, such as NaN."""
    raise ValueError(name)
