"""What queries see: computed columns and joined tables are resolved, or refused with a reason."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from dprelease.errors import DpReleaseError, Findings
from dprelease.query.expressions.computed_order import (
    DEEPEST,
    computation_levels,
    with_input_columns,
)
from dprelease.statements.layers import columns_by_stage, needed_columns, needed_joined_columns
from tests.exact.build import ask, declare

NUMBER = {"type": "number", "lower": 0, "upper": 9, "step": 1}
COLUMNS: dict[str, Any] = {
    "id": {"type": "integer"},
    "n": {"type": "integer", "lower": 0, "upper": 9},
    "t": {"type": "text"},
    "day": {"type": "date"},
    "unused": {"type": "text"},
}
NUMBER_OF = {"expression": "n", "type": "number"}
ROWS = {"rows": {"count": "*"}}
ONE = {"max_groups": 1, "max_rows_per_group": 1}
CODES: dict[str, Any] = {
    "code": {"type": "text"},
    "size": {"type": "integer", "lower": 0, "upper": 9},
    "wide": {"cut": "size", "edges": [0, 5, 10]},
    "square": {"expression": "size * size", "type": "integer", "lower": 0, "upper": 81},
    "left": {"type": "text"},
}


def codes_of(**asked: Any) -> list[str]:
    """Return the codes that a query over both tables is refused with."""
    columns = asked.pop("columns", COLUMNS)
    unit = asked.pop("unit", {})
    other = asked.pop("other", declare(CODES, table="codes", public="true"))
    base = declare(columns, **({"privacy_unit": {**ONE, **unit}} if unit else {}))
    try:
        ask(base, ROWS, other=other, **asked)
    except Findings as several:
        return [error.code for error in several.errors]
    except DpReleaseError as error:
        return [error.code]
    return []


def with_computed(expression: str, kind: str = "number") -> dict[str, Any]:
    return {"derive": {"d": {"expression": expression, "type": kind}}}


def chain(length: int) -> dict[str, Any]:
    """Return columns of which each is computed from the one before."""
    names = ["n", *(f"d{i}" for i in range(length))]
    pairs = zip(names, names[1:], strict=False)
    return {name: {**NUMBER, "expression": f"{before} + 1"} for before, name in pairs}


@pytest.mark.parametrize(
    ("asked", "codes"),
    [
        (with_computed("n + 1"), []),
        (with_computed("n + 1", "category") | {"derive": {"d": {"expression": "n", "type": "text"}}}, ["DP-DERIVE-003"]),
        (with_computed("day"), ["DP-DERIVE-003"]),
        (with_computed("NULL"), ["DP-DERIVE-003"]),
        (with_computed("1 + 1"), ["DP-DERIVE-003"]),
        (with_computed("t", "number"), []),
        (with_computed("day", "boolean"), ["DP-DERIVE-003"]),
        (with_computed("sum(n)"), ["DP-WHERE-003"]),
        (with_computed("row_number() OVER ()"), ["DP-WHERE-003"]),
        (with_computed("(SELECT max(n) FROM dp_source)"), ["DP-WHERE-002"]),
        (with_computed("random()"), ["DP-WHERE-004"]),
        (with_computed("read_text('/etc/passwd')", "text"), ["DP-WHERE-004"]),
        (with_computed("getenv('HOME')", "text"), ["DP-WHERE-004"]),
        (with_computed("sin(n)"), ["DP-WHERE-004"]),
        (with_computed("n::TEXT"), ["DP-WHERE-006"]),
        (with_computed("n; DROP TABLE x"), ["DP-WHERE-001"]),
        (with_computed("d + 1"), ["DP-DERIVE-002"]),
        ({"derive": {"a": {**NUMBER, "expression": "b"}, "b": {**NUMBER, "expression": "if(c = '0-4', 1, n)"}, "c": {"cut": "a", "edges": [0, 5, 9]}}}, ["DP-DERIVE-002"] * 3),
        ({"derive": {"c": {"cut": "t", "edges": [0, 5, 9]}}}, ["DP-SCHEMA-007"]),
        ({"derive": {"c": {"cut": "nothing", "edges": [0, 5, 9]}}}, ["DP-SCHEMA-007"]),
        ({"derive": {"T": {"expression": "n", "type": "number"}}}, ["DP-DERIVE-004"]),
        ({"derive": chain(DEEPEST)}, []),
        ({"derive": chain(DEEPEST + 1)}, ["DP-DERIVE-003"]),
        ({"columns": {**COLUMNS, "d": {"expression": "d", "type": "number"}}}, ["DP-DERIVE-002"]),
        ({"join": {"table": "codes", "on": {"t": "code"}}}, []),
        ({"join": {"table": "codes", "on": {"t": "left"}}}, []),
        ({"join": {"table": "codes", "on": {"n": "square"}}}, []),
        ({"join": {"table": "codes", "on": {"t": "wide"}}}, []),
        ({"join": {"table": "codes", "on": {"day": "code"}}}, ["DP-JOIN-004"]),
        ({"join": {"table": "codes", "on": {"nothing": "code"}}}, ["DP-QUERY-001"]),
        ({"join": {"table": "codes", "on": {"t": "nothing"}}}, ["DP-QUERY-001"]),
        ({"join": {"table": "nothing", "on": {"t": "code"}}}, ["DP-JOIN-003"]),
        ({"join": {"table": "t", "on": {"t": "t"}}}, ["DP-JOIN-003"]),
        ({"join": {"table": "codes", "on_unit": "true"}}, ["DP-JOIN-003"]),
        ({"join": {"table": "codes", "on": {"t": "code"}}, "derive": {"code": {"expression": "n", "type": "number"}}}, ["DP-DERIVE-004"]),
        ({"join": {"table": "codes", "on": {"d": "code"}}, **with_computed("left", "text")}, ["DP-JOIN-004"]),
        ({"join": {"table": "codes", "on": {"d": "code"}}, **with_computed("lower(t)", "text")}, []),
        ({"join": {"table": "codes", "on": {"d": "size"}}, **with_computed("n")}, ["DP-JOIN-004"]),
        ({"join": {"table": "codes", "on": {"t": "code"}, "max_groups": 2}}, ["DP-JOIN-001"]),
        ({"join": {"table": "codes", "on": {"t": "code"}, "unmatched": "drop"}}, []),
        ({"join": {"table": "codes", "on": {"t": "code"}, "without": ["size"]}, "derive": {"size": NUMBER_OF, "wide": NUMBER_OF}}, []),
        ({"join": {"table": "codes", "on": {"t": "code"}}, "derive": {"size": NUMBER_OF}}, ["DP-DERIVE-004"]),
        ({"join": {"table": "codes", "on": {"t": "code"}, "without": ["nothing"]}}, ["DP-QUERY-001"]),
        ({"join": {"table": "codes", "on_unit": "true", "unmatched": "drop"}}, ["DP-JOIN-001"]),
        ({"join": {"table": "codes", "on": {"t": "code", "unused": "code"}}}, ["DP-JOIN-001"]),
    ],
    ids=str,
)  # fmt: skip
def test_impossible_views_are_refused(asked: dict[str, Any], codes: list[str]) -> None:
    assert codes_of(**asked) == codes


@pytest.mark.parametrize(
    ("mine", "theirs", "codes"),
    [
        ("id", {"id": {"type": "integer"}}, []),
        ("id", {"id": {"type": "text"}}, ["DP-JOIN-003"]),
        ("id", {"person": {"type": "integer"}}, ["DP-JOIN-003"]),
        ("id", {}, ["DP-JOIN-003"]),
        (None, {"id": {"type": "integer"}}, ["DP-JOIN-003"]),
    ],
    ids=str,
)
def test_joined_tables_must_share_their_id(
    mine: str | None, theirs: dict[str, Any], codes: list[str]
) -> None:
    """Two ids are two people, whatever the steward thinks (V29)."""
    unit = {"privacy_unit": {"id": next(iter(theirs)), **ONE}} if theirs else {}
    other = declare({**theirs, "x": {"type": "text"}}, table="visits", **unit)
    asked = {"join": {"table": "visits", "on_unit": "true"}}
    assert codes_of(unit={"id": mine} if mine else {}, other=other, **asked) == codes


@pytest.mark.parametrize(("path", "codes"), [("./x/../t.csv", ["DP-JOIN-003"]), ("u.csv", [])])
def test_private_table_declared_public_is_refused(path: str, codes: list[str]) -> None:
    other = declare(CODES, table="codes", public="true", source=path)
    base = declare(COLUMNS, source="t.csv")
    asked = {"join": {"table": "codes", "on": {"t": "code"}}}
    if codes:
        with pytest.raises(DpReleaseError, match="source is that of a table about people"):
            ask(base, ROWS, other=other, **asked)
    else:
        ask(base, ROWS, other=other, **asked)


@pytest.mark.parametrize(
    "path", ["link.csv", "hard.csv", "people*.csv", "linked/people.csv", "//{folder}/people.csv"]
)
def test_links_to_private_tables_are_refused_as_public(path: str, tmp_path: Path) -> None:
    """Links, patterns and folders reach the same rows."""
    file = tmp_path / "people.csv"
    file.write_text("t\na\n")
    (tmp_path / "link.csv").symlink_to(file)
    (tmp_path / "hard.csv").hardlink_to(file)
    (tmp_path / "linked").symlink_to(tmp_path)
    source = path.format(folder=tmp_path) if path.startswith("//") else str(tmp_path / path)
    public = declare(CODES, table="codes", public="true", source=source)
    people = declare(COLUMNS, source=str(file))
    with pytest.raises(DpReleaseError, match="source is that of a table about people"):
        ask(people, ROWS, other=public, join={"table": "codes", "on": {"t": "code"}})


@pytest.mark.parametrize("table", ["people", "PEOPLE", "main.people"])
def test_names_of_private_tables_are_refused_as_public(table: str) -> None:
    source = {"path": "all.duckdb", "table": "people"}
    people = declare(COLUMNS, source=source)
    public = declare(CODES, table="codes", public="true", source={**source, "table": table})
    with pytest.raises(DpReleaseError, match="source is that of a table about people"):
        ask(people, ROWS, other=public, join={"table": "codes", "on": {"t": "code"}})


def test_only_needed_columns_are_read() -> None:
    query = ask(
        declare(COLUMNS),
        {"size": {"sum": "square"}},
        ["wide"],
        other=declare(CODES, table="codes", public="true"),
        derive={"key": {"expression": "lower(t)", "type": "text"}, **chain(2)},
        join={"table": "codes", "on": {"key": "code"}},
    )
    assert needed_columns(query) == ("t",)
    assert needed_joined_columns(query) == ("code", "size")
    found = columns_by_stage(query)
    assert (found.joined, found.before, found.after) == (("size", "square"), [["key"]], [])


def test_columns_are_computed_level_by_level() -> None:
    query = ask(declare(COLUMNS), ROWS, derive=chain(3))
    columns = query.table.columns
    assert computation_levels(columns, query.formulas, ["d2", "n"]) == [["d0"], ["d1"], ["d2"]]
    assert with_input_columns(columns, query.formulas, ["d1"]) == ("n", "d0", "d1")


def test_id_must_be_a_stored_column() -> None:
    with pytest.raises(DpReleaseError, match="DP-SCHEMA-008"):
        declare(
            {**COLUMNS, "who": {"expression": "id", "type": "integer"}},
            privacy_unit={"id": "who", **ONE},
        )
