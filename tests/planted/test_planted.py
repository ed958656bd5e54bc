"""`make audit`: the tests of a planted fault find it, and so does `dprelease audit` where it can.

Each run is a process over a copy of the repository; without a fault, all tests pass there.
"""

from __future__ import annotations

import pytest

from dprelease.cli.audit_command import FINDING_EXIT_CODE
from tests.planted.faults import RELEASES, Fault, faults
from tests.planted.planting import audited, copied, missed, outcome_of

pytestmark = pytest.mark.audit

WHOLE = 1800.0
"""Seconds for all of these tests without a fault."""


@pytest.mark.parametrize("fault", faults(), ids=lambda fault: fault.name)
def test_tests_find_the_planted_fault(fault: Fault) -> None:
    with copied(fault) as folder:
        outcome = outcome_of(folder, fault.tests)
    assert outcome.code == 1, outcome.printed
    assert missed(fault, outcome) == [], outcome.printed


@pytest.mark.timeout(WHOLE + 60)
def test_tests_pass_without_a_fault() -> None:
    tests = dict.fromkeys(test for fault in faults() for test in fault.tests)
    with copied(None) as folder:
        outcome = outcome_of(folder, list(tests), patience=WHOLE)
    assert (outcome.code, outcome.failures) == (0, ()), outcome.printed


AUDITED = [(fault, release) for fault in faults() for release in fault.audit]


@pytest.mark.parametrize(
    ("fault", "release"), AUDITED, ids=lambda part: getattr(part, "name", part)
)
def test_audit_finds_the_planted_fault(fault: Fault, release: str) -> None:
    with copied(fault) as folder:
        code, outcome = audited(folder, release, drawn=fault.draws)
    assert (code, outcome["holds"]) == (FINDING_EXIT_CODE, False)
    assert outcome["findings"]


@pytest.mark.parametrize("release", sorted(path.name for path in RELEASES.iterdir()))
def test_audit_finds_nothing_without_a_fault(release: str) -> None:
    with copied(None) as folder:
        code, outcome = audited(folder, release, drawn=False)
    assert (code, outcome["findings"]) == (0, [])
