"""`df.dp` has types, names and docstrings for type checkers, `help` and completion."""

from __future__ import annotations

import inspect
import re
import rlcompleter
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

import dprelease
from dprelease.accessor.frame import DpAccessor, SelectedRows
from dprelease.accessor.grouped_columns import SelectedColumns
from dprelease.accessor.groups import GroupBy
from dprelease.accessor.query_options import OPTIONS
from dprelease.accessor.questions import NAMES
from tests import processes

ROOT = Path(__file__).parents[2]
SCRIPT = (ROOT / "tests" / "accessor" / "typed.py").read_text(encoding="utf-8")
ERROR = re.compile(r"(\w+)\.py:(\d+): error: .*\[([a-z-]+)\]$", re.M)


def test_mypy_accepts_every_query_and_finds_every_mistake(tmp_path: Path) -> None:
    """For `dprelease.dp(df)` and releases, with the cache of `make lint`."""
    releases = (ROOT / "tests" / "release" / "typed_releases.py").read_text(encoding="utf-8")
    scripts = {"called": SCRIPT.replace("df.dp", "dprelease.dp(df)"), "releases": releases}
    for name, script in scripts.items():
        (tmp_path / f"{name}.py").write_text(script)
    done = processes.run(
        [sys.executable, "-m", "mypy", *(tmp_path / f"{name}.py" for name in scripts)],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    found = {(name, int(line), code) for name, line, code in ERROR.findall(done.stdout)}
    wanted = {
        (name, i, line.split("# error: ")[1])
        for name, script in scripts.items()
        for i, line in enumerate(script.splitlines(), 1)
        if "# error: " in line
    }
    assert {name for name, _, _ in wanted} == set(scripts)
    assert found == wanted, done.stdout + done.stderr


def public(kind: type) -> Iterator[tuple[str, Any]]:
    for name in dir(kind):
        if not name.startswith("_") and callable(getattr(kind, name)):
            yield name, getattr(kind, name)


def test_typed_script_calls_all_public_methods() -> None:
    asked = set(re.findall(r"\.(\w+)\(", SCRIPT))
    there = {name for kind in (DpAccessor, GroupBy) for name, _ in public(kind)}
    assert there <= asked
    assert set(NAMES) <= there


OWN_NAMES = {
    "derive": "the names of columns are the caller's",
    "agg": "names of results are the caller's, as in pandas",
    "explain": "arguments are those of the question",
}
METHODS = [
    pytest.param(kind, name, method, id=f"{kind.__name__}.{name}")
    for kind in (DpAccessor, SelectedRows, GroupBy, SelectedColumns)
    for name, method in public(kind)
]


@pytest.mark.parametrize(("kind", "name", "method"), METHODS)
def test_help_names_every_parameter(kind: type, name: str, method: Any) -> None:
    """With its default and type, in the signature and in a NumPy docstring."""
    signature = inspect.signature(method)
    doc = inspect.getdoc(method) or ""
    assert re.match(r"Return |Register ", doc)
    assert signature.return_annotation is not inspect.Signature.empty
    section = doc.partition("\nParameters\n----------\n")[2].partition("\n\n")[0]
    for parameter in list(signature.parameters.values())[1:]:
        assert parameter.annotation is not inspect.Parameter.empty, parameter
        assert re.search(rf"^(.*, )?\**{parameter.name}( :|$|,)", section, re.M), parameter
        if parameter.kind in (parameter.VAR_KEYWORD, parameter.VAR_POSITIONAL):
            assert name in OWN_NAMES
    if name != "use":
        assert "\nReturns\n-------\n" in doc
    if name in NAMES and kind is DpAccessor:
        by = set(OPTIONS) - ({"by"} if name in ("unique", "crosstab", "tables", "sql") else set())
        assert by <= set(signature.parameters)
        assert "\nRaises\n------\n" in doc


def test_names_can_be_completed() -> None:
    """Also before a frame has a session, and without evaluating an attribute."""
    frame = pd.DataFrame({"a": [1]})
    names = {name for name in dir(frame.dp) if not name.startswith("_")}
    ways = {"derive", "explain", "groupby", "session", "use", "where"}
    assert names == {*NAMES, *ways}
    completer = rlcompleter.Completer({"frame": frame, "dprelease": dprelease})
    assert completer.complete("frame.dp.cou", 0) == "frame.dp.count("
    found = completer.complete("frame.dp.sess", 0)
    assert found == "frame.dp.session"
    assert completer.complete("dprelease.dp", 0) == "dprelease.dp("


def test_explicit_defaults_change_nothing() -> None:
    """The plan with the defaults that `help` shows is the same."""
    schema = {"table": "t", "columns": {"a": {"type": "integer", "lower": 0, "upper": 9}}}
    session = dprelease.Session(schema, epsilon=9, delta="1e-6")
    frame = pd.DataFrame({"a": [1]})
    dprelease.dp(frame).use(session)
    shown = {name: option.default for name, option in OPTIONS.items()}
    given = {**shown, "epsilon": 1}
    without = frame.dp.explain("mean", "a", epsilon=1)
    pd.testing.assert_frame_equal(without, frame.dp.explain("mean", "a", **given))
    assert without.attrs == frame.dp.explain("mean", "a", **given).attrs
    assert len(frame.dp.count(**given)) == 1
