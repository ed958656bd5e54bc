"""`make audit`: each planted fault is found by the tests that are said to find it.

Each in a process of its own over a copy of the repository; and without a fault they all pass there.
"""

from __future__ import annotations

import pytest

from tests.planted.faults import Fault, faults
from tests.planted.planting import copied, missed, tested

pytestmark = pytest.mark.audit

WHOLE = 1800.0
"""Seconds for all of these tests without a fault."""


@pytest.mark.parametrize("fault", faults(), ids=lambda fault: fault.name)
def test_a_planted_fault_is_found(fault: Fault) -> None:
    with copied(fault) as folder:
        outcome = tested(folder, fault.tests)
    assert outcome.code == 1, outcome.printed
    assert missed(fault, outcome) == [], outcome.printed


@pytest.mark.timeout(WHOLE + 60)
def test_without_a_fault_they_pass() -> None:
    tests = dict.fromkeys(test for fault in faults() for test in fault.tests)
    with copied(None) as folder:
        outcome = tested(folder, list(tests), patience=WHOLE)
    assert (outcome.code, outcome.failures) == (0, ()), outcome.printed
