"""Compare a manifest with the one rebuilt from its declaration and its events."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any, TypeVar

from dprelease.documents.ledger_record import LedgerRecord, RenewalRecord
from dprelease.documents.party_manifest import PartiesManifest
from dprelease.documents.release_manifest import GuaranteedManifest, NoiseRecord, ReleaseManifest
from dprelease.errors import DpReleaseError
from dprelease.planning.guarantees import meets_budget
from dprelease.planning.plan import PlannedColumn, guarantee_of_columns
from dprelease.privacy.guarantee import Guarantee
from dprelease.schema.load import Declaration
from dprelease.schema.release import BudgetSpec
from dprelease.verification.report import Report

ROUNDING = 2.0**-36
"""The relative difference that is allowed between numbers from different machines.

Matrix products and exponentials differ in their last bits between kinds of processors, and costs
and errors computed from them differ by about 10^-13. A claim that is lower by such a small amount
than the result here is equally valid: both are bounds, and their safety margins are larger.
"""

TEXTS = frozenset({"epsilon", "pure_epsilon", "rho", "rho_delta"})
"""Keys of manifests with a cost, which is a float written as a text."""

PRICES = frozenset({"guarantee", "privacy_parameters", "trust"})
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
    return replace(guarantee, epsilon=guarantee.epsilon * (1.0 - ROUNDING), rho=rho)


def check_rebuilt(report: Report, record: ReleaseManifest, wanted: ReleaseManifest) -> None:
    """Compare a whole manifest with the one rebuilt from its declaration and its events.

    The versions of the tool (`tool`) are not compared, nor the digest, which is checked before.
    Earlier findings are not repeated.
    """
    held, rebuilt = record.to_json(), wanted.to_json()
    reported_keys = {finding.place.key for finding in report.findings}
    for name in sorted({*held, *rebuilt} - {"tool", "digest"}):
        for path in differences(held.get(name), rebuilt.get(name), name):
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
    elif part in PRICES:
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
            "DP-VERIFY-002", path, problem=f"`{path}` is not what follows from the rest"
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
