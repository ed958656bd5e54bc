"""Wrong arguments of methods of sessions, releases and results, and their representation."""

from __future__ import annotations

import inspect
from collections.abc import Iterator
from fractions import Fraction
from pathlib import Path
from typing import Any

import pandas as pd
import polars as pl
import pytest

import dprelease
from dprelease.errors import DpReleaseError, UnavailableError, UsageError
from tests.accessor.test_wrong_arguments import WRONG
from tests.ledger.test_ledger import release_with_ledger

INTERNAL = {
    "add_finding", "get", "items", "keys", "values", "fits_within", "place", "margin",
}  # fmt: skip
"""Methods that other stages of the package call, and those of all mappings."""

FREE = {"frames"}
"""Parameters that may be objects of other libraries, which those libraries check."""


@pytest.fixture(scope="module")
def things(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, Any]]:
    folder = tmp_path_factory.mktemp("things")
    path = release_with_ledger(folder)
    release = dprelease.read_release(path)
    result = release.publish()
    session = dprelease.Session(folder / "people.yaml", epsilon=Fraction(190, 3))
    rows = [(i, ("Bern", "Oslo", "Rome")[i % 3], 20 + i % 3 * 10, 1.5) for i in range(300)]
    frame = pd.DataFrame(rows, columns=["person", "city", "age", "pay"])
    frame.dp.use(session)
    found = {
        "published": dprelease.PublishedRelease(result.folder),
        "release": release,
        "session": session,
        "tables": frame.dp.tables(cube=["city"], epsilon=Fraction(1, 3)),
        "plan": release.plan(),
        "report": dprelease.verify(result.folder),
        "check": dprelease.check(path),
        "result": result,
        "balances": dprelease.read_ledger(folder / "ledger.sqlite"),
        "rows": frame.dp.where("age > 3").derive(old={"cut": "age", "edges": [0, 50]}),
        "groups": frame.dp.groupby("city"),
        "columns": frame.dp.groupby("city")["age"],
        "accessor": frame.dp,
        "column of a plan": release.plan().columns[0],
        "declaration": release.declaration,
        "spent": session.spent,
        "frame without a session": pd.DataFrame({"a": [1]}).dp,
    }
    yield found
    assert session is not None


def methods(thing: object) -> Iterator[tuple[str, Any, list[str]]]:
    """Yield the public methods of an object with their parameters."""
    for name in dir(type(thing)):
        if name.startswith("_") or name in INTERNAL:
            continue
        member = inspect.getattr_static(type(thing), name)
        if inspect.isfunction(member):
            bound = getattr(thing, name)
            yield name, bound, [*inspect.signature(bound).parameters]


def problem_with(function: Any, parameter: str, value: object) -> str:
    """Return our error for a call with one argument; any other error fails the test."""
    try:
        function(**{parameter: value})
    except DpReleaseError as problem:
        return str(problem)
    except Exception as problem:
        raise AssertionError(f"{function}({parameter}={value!r})") from problem
    return ""


@pytest.mark.parametrize("name", ["published", "release", "session", "report", "check", "tables"])
def test_wrong_method_arguments_raise_our_errors(
    name: str, things: dict[str, Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    for method, bound, parameters in methods(things[name]):
        for parameter in parameters:
            if parameter in FREE:
                continue
            for what, value in WRONG.items():
                message = problem_with(bound, parameter, value)
                assert "4711" not in message, f"{method}({parameter}={what})"


def test_wrong_method_signatures_raise_our_errors(things: dict[str, Any]) -> None:
    every = [bound for thing in things.values() for _, bound, _ in methods(thing)]
    assert len(every) > 100
    for bound in every:
        known = inspect.signature(bound).parameters.values()
        kinds = {one.kind for one in known}
        if inspect.Parameter.VAR_POSITIONAL not in kinds:
            with pytest.raises(UsageError, match="DP-SESSION-022"):
                bound(*[None] * 30)
        if inspect.Parameter.VAR_KEYWORD not in kinds:
            with pytest.raises(UsageError, match="DP-SESSION-012"):
                bound(nothing=4711)
        if any(one.default is one.empty and one.kind is one.POSITIONAL_OR_KEYWORD for one in known):
            with pytest.raises(UsageError, match="DP-SESSION-022"):
                bound()


@pytest.mark.parametrize("name", ["accessor", "rows", "groups", "columns"])
def test_unknown_attributes_suggest_alternatives(things: dict[str, Any], name: str) -> None:
    thing = things[name]
    assert not hasattr(thing, "skew")
    for missing, advice in (("skew", "quantile"), ("meann", "mean"), ("head", "single row")):
        with pytest.raises(UnavailableError, match=rf"(?s)DP-SESSION-023.*{advice}"):
            getattr(thing, missing)
    every = {*dir(pd.DataFrame), *dir(pd.api.typing.DataFrameGroupBy), *dir(pl.DataFrame)}
    for missing in (one for one in every if not one.startswith("_") and not hasattr(thing, one)):
        with pytest.raises(DpReleaseError):
            getattr(thing, missing)


@pytest.mark.parametrize("name", ["accessor", "rows", "groups", "columns"])
def test_rows_have_no_length_items_or_iteration(things: dict[str, Any], name: str) -> None:
    thing = things[name]
    assert thing
    attempts = [(len, "size"), (list, "answer"), (iter, "answer"), (lambda one: 4 in one, "answer")]
    if name != "groups":
        attempts.append((lambda one: one["pay"], "groupby"))
    for attempt, advice in attempts:
        with pytest.raises(UnavailableError, match=rf"(?s)DP-SESSION-023.*{advice}"):
            attempt(thing)


@pytest.mark.parametrize("what", WRONG)
def test_tables_are_a_mapping(things: dict[str, Any], what: str) -> None:
    tables, value = things["tables"], WRONG[what]
    with pytest.raises((KeyError, TypeError, DpReleaseError)):
        tables[value]


def test_representations_are_short(things: dict[str, Any]) -> None:
    for name, thing in things.items():
        text = repr(thing)
        assert "Fraction" not in text, name
        assert " object at 0x" not in text, name
        assert len(text) < 2000, name
        shown = getattr(thing, "_repr_html_", None)
        if shown is not None:
            html = shown()
            assert html.startswith("<table"), name
            assert "Fraction" not in html, name
    assert "1 condition" in repr(things["rows"])
    assert "by city, columns age" in repr(things["columns"])
