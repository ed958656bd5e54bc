"""Every planted fault can still be planted, is told in the manual, and has tests that are there.

Whether these find it is tried by `test_planted.py`, in audits.
"""

from __future__ import annotations

from collections import Counter

import pytest

from tests.planted import page
from tests.planted.faults import RELEASES, ROOT, Fault, faults, is_there, kinds

FEWEST = 40
EVERY = faults()


def test_there_are_many_of_every_class() -> None:
    assert len(EVERY) >= FEWEST
    assert all(kind.faults for kind in kinds())
    assert Counter(fault.name for fault in EVERY).most_common(1)[0][1] == 1


@pytest.mark.parametrize("fault", EVERY, ids=lambda fault: fault.name)
def test_a_fault_can_be_planted(fault: Fault) -> None:
    """What it replaces stands in its file once, and what is then there is Python."""
    text = (ROOT / fault.path).read_text(encoding="utf-8")
    planted = fault.planted(text)
    assert planted != text
    compile(planted, fault.file, "exec")


def test_who_has_to_find_a_fault_is_there() -> None:
    for fault in EVERY:
        assert fault.tests, fault.name
        assert [test for test in fault.tests if not is_there(test)] == [], fault.name
        assert [one for one in fault.audit if not (RELEASES / one).is_dir()] == [], fault.name
        assert bool(fault.audit) is not bool(fault.unseen), fault.name


def test_the_manual_tells_of_all_of_them() -> None:
    """`python -m tests.planted.page` writes the page again."""
    assert page.PAGE.read_text(encoding="utf-8") == page.text()


def test_a_fault_that_is_lost_is_told() -> None:
    lost = Fault("lost", "none", "unit.py", "what nobody wrote", "", ())
    with pytest.raises(LookupError, match="0 times"):
        lost.planted((ROOT / lost.path).read_text(encoding="utf-8"))
    with pytest.raises(LookupError, match="0 files"):
        _ = Fault("lost", "none", "no_such_file.py", "", "", ()).path
    assert not is_there("tests/planted/test_faults.py::test_that_there_is_not")
    assert not is_there("tests/planted/nowhere.py::test_the_manual_tells_of_all_of_them")
