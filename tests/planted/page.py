"""The page of the manual about planted faults: `python -m tests.planted.page` writes it."""

from __future__ import annotations

from docs.from_code import markdown
from tests.planted.changes import ROOT
from tests.planted.faults import Fault, Promise, promises

PAGE = ROOT / "docs" / "project" / "planted-faults.md"

START = """\
# Planted faults

<!-- written by `python -m tests.planted.page` from tests/planted/faults; don't edit it -->

A test that can't fail proves nothing. A planted fault is a mistake that is added to a copy of the package, to
check that a test finds it. Each of the {number} faults below changes one function, such that a promise of
dprelease is broken and no error message shows it. `make audit` plants one fault after the other, and runs the
tests that the table names. Each of these tests must fail by an assertion. Without a fault, all these tests
pass. `make test` checks that every fault can still be planted, and that this page agrees with the list of
faults (`tests/planted/test_faults.py`).

The last column names the small releases (`tests/planted/releases`) in which the command `dprelease audit`
finds the fault. An audit tests the results and files of one release. If these don't show a fault, the column
says why.
"""


def text() -> str:
    """Return the whole page."""
    found = promises()
    number = sum(len(promise.faults) for promise in found)
    return "\n".join([START.format(number=number), *map(_section, found)]).rstrip("\n") + "\n"


def _section(promise: Promise) -> str:
    rows = [_row(fault) for fault in promise.faults]
    table = markdown.table(["fault", "function", "found by", "`dprelease audit`"], rows)
    return f"## {promise.title}\n\n{promise.about}\n\n{table}\n"


def _row(fault: Fault) -> list[str]:
    tests = ", ".join(markdown.code(test.removeprefix("tests/")) for test in fault.tests)
    audit = ", ".join(markdown.code(one) for one in fault.audit) or f"no: {fault.no_audit}"
    return [fault.name, markdown.code(fault.change.function), tests, audit]


if __name__ == "__main__":
    PAGE.write_text(text(), encoding="utf-8")
