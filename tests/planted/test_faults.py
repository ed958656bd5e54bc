"""Every planted fault can still be planted, its tests exist, and the manual lists it.

`test_planted.py` runs the tests with the fault, in audits.
"""

from __future__ import annotations

import ast
import builtins
import dis
from collections import Counter
from types import CodeType

import pytest

from tests.planted import page
from tests.planted.changes import ROOT, Change
from tests.planted.faults import RELEASES, faults, is_test, promises

FEWEST = 40
ALL = faults()


def test_promises_have_faults_with_unique_names() -> None:
    assert len(ALL) >= FEWEST
    assert all(promise.faults for promise in promises())
    assert Counter(fault.name for fault in ALL).most_common(1)[0][1] == 1


def test_every_fault_can_be_planted() -> None:
    for fault in ALL:
        source = (ROOT / fault.change.path).read_text(encoding="utf-8")
        module = ast.Module([fault.change.changed_function(source)], [])
        code = compile(module, fault.name, "exec")
        assert global_names(code) <= {*dir(builtins), *names_of_module(source)}, fault.name


def global_names(code: CodeType) -> set[str]:
    """Return the names that a function reads from outside of it: a renamed variable is one."""
    own = {one.argval for one in dis.get_instructions(code) if one.opname == "LOAD_GLOBAL"}
    inner = [one for one in code.co_consts if isinstance(one, CodeType)]
    return own.union(*map(global_names, inner))


def names_of_module(source: str) -> set[str]:
    """Return all names that a module binds anywhere."""
    nodes = list(ast.walk(ast.parse(source)))
    return {
        *(
            alias.asname or alias.name
            for node in nodes
            for alias in getattr(node, "names", ())
            if isinstance(alias, ast.alias)
        ),
        *(node.name for node in nodes if isinstance(node, ast.FunctionDef | ast.ClassDef)),
        *(
            node.id
            for node in nodes
            if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store)
        ),
    }


def test_tests_and_releases_of_every_fault_exist() -> None:
    for fault in ALL:
        assert fault.tests, fault.name
        assert [test for test in fault.tests if not is_test(test)] == [], fault.name
        assert [one for one in fault.audit if not (RELEASES / one).is_dir()] == [], fault.name
        assert bool(fault.audit) is not bool(fault.no_audit), fault.name
    assert not is_test("tests/planted/test_faults.py::test_of_nothing")
    assert not is_test("tests/planted/nowhere.py::test_manual_lists_all_faults")


def test_manual_lists_all_faults() -> None:
    """`python -m tests.planted.page` writes the page again."""
    assert page.PAGE.read_text(encoding="utf-8") == page.text()


SOURCE = """
class Box:
    def size(self, n):
        def double():
            return 2 * n
        if n:
            n += 1
        return double()
"""


@pytest.mark.parametrize(
    ("change", "expected"),
    [
        ({"returns": "result + 1"}, [1, 9]),
        ({"returns": "result, n"}, [(0, 0), (8, 4)]),
        ({"before": "n += 1"}, [4, 10]),
        ({"body": "return n"}, [0, 3]),
        ({"replace": "2", "by": "5"}, [0, 20]),
        ({"replace": "n += 1", "by": "n += 1; n += 1"}, [0, 10]),
    ],
)
def test_each_kind_of_change_changes_one_function(
    change: dict[str, str], expected: list[object]
) -> None:
    names: dict[str, type] = {}
    exec(Change("box:Box.size", **change).apply(SOURCE), names)
    sizes = [names["Box"]().size(n) for n in (0, 3)]
    assert sizes == expected


def test_impossible_changes_are_refused() -> None:
    with pytest.raises(LookupError, match="nothing to change"):
        Change("box:Box.size", replace="3", by="4").apply(SOURCE)
    with pytest.raises(LookupError, match="0 functions"):
        Change("box:Box.depth", body="pass").apply(SOURCE)
    with pytest.raises(LookupError, match="0 modules"):
        _ = Change("no_such_module:size", body="pass").path
    with pytest.raises(ValueError, match="a change is one of"):
        Change("box:Box.size", replace="3")
