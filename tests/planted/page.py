"""The page of the manual about planted faults: `python -m tests.planted.page` writes it."""

from __future__ import annotations

from docs.from_code import markdown
from tests.planted.changes import ROOT
from tests.planted.faults import Fault, Promise, promises

PAGE = ROOT / "docs" / "project" / "planted-faults.md"

START = """\
# Planted faults

<!-- written by `python -m tests.planted.page` from tests/planted/faults; don't edit it -->

A test that can't fail proves nothing. So the tests run on a package with faults in it: each of the {number}
faults below changes one function, such that a promise is broken and no error shows it. `make audit` plants
one fault after the other into a copy of the package, and runs there the tests that the table names. Each of
these must fail by an assertion; without a fault, all of them pass. `make test` checks that every change can
still be made, and that this page agrees with the list (`tests/planted/test_faults.py`).

The last column names the small releases (`tests/planted/releases`) in which the command `dprelease audit`
finds the fault. It looks at the answers of one release; where these don't show a fault, the column says why.
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
