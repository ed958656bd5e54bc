"""The page of the manual about planted faults: `python -m tests.planted.page` writes it."""

from __future__ import annotations

from docs.from_code import markdown
from tests.planted.faults import ROOT, Fault, Kind, kinds

PAGE = ROOT / "docs" / "project" / "planted-faults.md"

START = """\
# Planted faults

<!-- written by `python -m tests.planted.page` from tests/planted/faults; don't edit it -->

A test that can't fail proves nothing. So the package is tried with faults in it: each of the {number} below
is one change of one file, of the kind that would break a promise in silence. `make audit` plants them one
after the other into a copy of the package, and runs there the tests that are named beside it. Each of these
has to fail by what it asserts; without a fault, all of them pass. That each change can still be made, and
that this page is what follows from it, is tested every time (`tests/planted/test_faults.py`).

The last column tells which of the small releases in `tests/planted/releases` a steward's own command,
`dprelease audit`, finds the fault in. It looks at a release from outside: what is no property of the answers
of one release, it can't see, and then it is told why.
"""


def text() -> str:
    """Return the whole page."""
    found = kinds()
    number = sum(len(kind.faults) for kind in found)
    return "\n".join([START.format(number=number), *map(_section, found)]).rstrip("\n") + "\n"


def _section(kind: Kind) -> str:
    rows = [_row(fault) for fault in kind.faults]
    table = markdown.table(["fault", "in", "found by", "`dprelease audit`"], rows)
    return f"## {kind.title}\n\n{kind.about}\n\n{table}\n"


def _row(fault: Fault) -> list[str]:
    tests = ", ".join(markdown.code(test.removeprefix("tests/")) for test in fault.tests)
    audit = ", ".join(markdown.code(one) for one in fault.audit) or f"no: {fault.unseen}"
    return [fault.name, markdown.plain(fault.file), tests, audit]


if __name__ == "__main__":
    PAGE.write_text(text(), encoding="utf-8")
