"""How near a change comes to its claim: exact on both sides of it."""

from __future__ import annotations

import pytest

from dprelease.auditing.claims import largest_share_of_claim
from dprelease.privacy.unit import Move, Sensitivity

GROUPS = Sensitivity(3, (Move(5, 1),))
REPLACED = Sensitivity(2, (Move(7, 1), Move(5, 2)))
MEETING = Sensitivity(4, (Move(2, 1),), meeting=2)
LARGE = Sensitivity(1, (Move(2**61, 1),))

CASES = {
    "nothing": (GROUPS, [], 0.0),
    "the whole claim": (GROUPS, [5, -5, 5], 1.0),
    "a shift more": (GROUPS, [6], 1.2),
    "a group more": (GROUPS, [1, 1, 1, 1], 4 / 3),
    "within a group": (REPLACED, [7, 7], 1.0),
    "in and out of groups": (REPLACED, [5, -5, 5, -5], 1.0),
    "more than two moves do": (REPLACED, [7, 1, 1, 1], 1.5),
    "met": (MEETING, [4, 4], 1.0),
    "met by too many": (MEETING, [5], 1.25),
    "as large as integers get": (LARGE, [2**61], 1.0),
}


@pytest.mark.parametrize("case", CASES)
def test_share_of_the_claim(case: str) -> None:
    claim, change, ratio = CASES[case]
    near = largest_share_of_claim(change, claim)
    assert near.ratio == pytest.approx(ratio)
    assert near.holds is (ratio <= 1)


def test_rounding_hides_no_breach() -> None:
    """One step more than 2^61, which no float tells apart."""
    assert not largest_share_of_claim([2**61 + 1], LARGE).holds
    assert largest_share_of_claim([2**61 - 1], LARGE).holds
