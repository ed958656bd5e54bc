"""The privacy cost of every choice of `auto` has a proved upper bound."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from dprelease.documents.release_manifest import GuaranteeRecord
from dprelease.mechanisms import registry
from dprelease.release.api import read_release
from dprelease.verification.certificate.certify import certify, claims_of
from dprelease.verification.certificate.proven_losses import KNOWN, proven_losses
from tests.mechanisms.laws import KINDS, law_of
from tests.planning.test_published_columns import SCHEMA, TEN, write_release

BUDGETS: dict[str, dict[str, Any]] = {
    "pure": {"epsilon": 1},
    "a usual delta": {"epsilon": 1, "delta": "1e-9"},
    "a small epsilon": {"epsilon": "0.05", "delta": "1e-6"},
    "rho": {"rho": "0.1", "delta": "1e-9"},
    "a large epsilon": {"epsilon": 8, "delta": "1e-9"},
}
COLUMNS: dict[str, dict[str, Any]] = {
    "one count": {"n": {"count": "*"}},
    "ten columns": TEN,
}


@pytest.mark.share(0.15)
@pytest.mark.parametrize("limits", [1, 4])
@pytest.mark.parametrize("columns", COLUMNS)
@pytest.mark.parametrize("budget", BUDGETS)
def test_auto_is_proved(budget: str, columns: str, limits: int, tmp_path: Path) -> None:
    unit = {"id": "person", "max_groups": limits, "max_rows_per_group": limits}
    schema = {**SCHEMA, "privacy_unit": unit}
    path = write_release(
        tmp_path, COLUMNS[columns], schema, budget=BUDGETS[budget], mechanism="auto"
    )
    plan = read_release(path).plan()
    events = [column.event for column in plan.columns]
    certificate = certify(events, claims_of(GuaranteeRecord.of(plan.guarantee)))
    assert certificate.is_proved, certificate


def test_every_mechanism_has_a_proof() -> None:
    """Its losses are known to the certificate, as sharply as desired."""
    assert {*registry.names()} <= {*KNOWN}
    for name, shape in KINDS:
        assert proven_losses(law_of(name, 20.0, shape)).tight, name
