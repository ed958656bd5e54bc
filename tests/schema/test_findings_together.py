"""Independent errors are reported together; possible consequences of others wait."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pytest

from dprelease.errors import DpReleaseError
from dprelease.planning.declaration_findings import load_declaration, single_errors
from dprelease.release.api import read_release
from dprelease.schema.load import read_table
from tests.messages import write_with

R, S = "release.yaml", "people.yaml"
AGE, ID = "lower: 0, upper: 115", "id: person"
NOTE = "note: {type: text}"
Edits = Sequence[tuple[str, str, str]]


def add_columns(*columns: str) -> tuple[str, str, str]:
    """Return the edit that adds columns to the table."""
    return S, f"  {NOTE}\n", "".join(f"  {column}\n" for column in (NOTE, *columns))


UNTOLD_COLUMN = "ex: {expression: nosuch + 1, type: integer, lower: 0, upper: 1}"
CUT, LIES = (
    "band: {cut: agee, edges: [0, 1]}",
    "{type: category, values: {a: [b]}, within: nowhere}",
)
WRONG_EPSILON, WRONG_KEY = (R, "epsilon: 1", "epsilon: 1000"), (R, "[sex]", "[nokey]")
BUDGET = "DP-BUDGET-001 budget.epsilon"
KEY = "DP-QUERY-001 queries.by_sex.group_by[0]"
BOUNDS = "DP-SCHEMA-001 columns.age.lower"


def reported_errors(folder: Path, edits: Edits) -> list[str]:
    """Return the code and key of every error, in the reported order."""
    write_with(folder, edits)
    with pytest.raises(DpReleaseError) as caught:
        read_release(folder / R).plan()
    return [f"{error.code} {error.place.key}" for error in single_errors(caught.value)]


TOGETHER: dict[str, tuple[Edits, list[str]]] = {
    "all that five rounds told": (
        [
            (S, AGE, "lower: 5, upper: 1"),
            (S, ID, "id: persn"),
            add_columns(CUT, UNTOLD_COLUMN),
            WRONG_EPSILON,
            (R, "[sex]", "[nokey]"),
            (R, "    where: age >= 18\n", ""),
        ],
        [
            "DP-SCHEMA-008 privacy_unit.id",
            BOUNDS,
            "DP-SCHEMA-007 columns.band.cut",
            "DP-WHERE-005 columns.ex.expression",
            BUDGET,
            KEY,
        ],
    ),
    "columns that lean on others, each wrongly": (
        [
            add_columns(CUT, "other: {cut: note, edges: [0, 1]}", f"area: {LIES}"),
            (S, ID, "id: age2"),
        ],
        [
            "DP-SCHEMA-008 privacy_unit.id",
            "DP-SCHEMA-007 columns.band.cut",
            "DP-SCHEMA-007 columns.other.cut",
            "DP-SCHEMA-016 columns.area.within",
        ],
    ),
    "a formula hides no key of queries without it": (
        [add_columns(UNTOLD_COLUMN), WRONG_KEY],
        ["DP-WHERE-005 columns.ex.expression", KEY],
    ),
    "a table that can't be read hides no budget": (
        [(S, "table: people", "tabel: people"), WRONG_EPSILON],
        ["DP-DECL-002 ", "DP-DECL-001 tabel", BUDGET],
    ),
    "a fault of a column hides no table that there is not": (
        [(S, AGE, "lower: 5, upper: 1"), (R, "from: people", "from: peopel")],
        [BOUNDS, "DP-RELEASE-001 queries.by_sex.from"],
    ),
}


@pytest.mark.parametrize(("edits", "told"), TOGETHER.values(), ids=TOGETHER)
def test_independent_errors_are_reported_together(
    tmp_path: Path, edits: Edits, told: list[str]
) -> None:
    assert reported_errors(tmp_path, edits) == told


FOLLOWING: dict[str, tuple[Edits, list[str]]] = {
    "a cut of a faulty column": (
        [(S, AGE, "lower: 5, upper: 1"), add_columns("band: {cut: age, edges: [0, 1]}")],
        [BOUNDS],
    ),
    "a level within a faulty one, and one within that": (
        [
            (S, "values: [F, M]", "values: [F, F]"),
            add_columns(
                "b: {type: category, values: {F: [x]}, within: sex}",
                "c: {type: category, values: {x: [y]}, within: b}",
            ),
        ],
        ["DP-SCHEMA-003 columns.sex.values"],
    ),
    "an id whose column is faulty": (
        [(S, "person: {type: integer}", "person: {type: integer, lower: 2, upper: 1}")],
        ["DP-SCHEMA-001 columns.person.lower"],
    ),
    "formulas of a faulty column, and one of these": (
        [
            (S, AGE, "lower: 5, upper: 1"),
            add_columns(
                "twice: {expression: age * 2, type: integer, lower: 0, upper: 9}",
                "more: {expression: twice + 1, type: integer, lower: 0, upper: 9}",
            ),
            (R, "sum: income", "sum: more"),
        ],
        [BOUNDS],
    ),
    "what is asked of a faulty formula": (
        [add_columns(UNTOLD_COLUMN), (R, "sum: income", "sum: ex")],
        ["DP-WHERE-005 columns.ex.expression"],
    ),
    "groupings of areas that are faulty": (
        [
            (S, "values: [F, M]", "values: [F, F]"),
            add_columns(),
            (
                R,
                "    group_by: [sex]\n",
                "    hierarchy: [sex]\n    consistent: {groupings: [note]}\n",
            ),
        ],
        ["DP-SCHEMA-003 columns.sex.values"],
    ),
    "tables of groups, and of their areas with a faulty column": (
        [
            (S, AGE, "lower: 5, upper: 1"),
            add_columns(
                "region: {type: category, values: [X]}",
                "town: {type: category, values: {X: [t]}, within: region}",
                "half: {cut: age, edges: [0, 50, 116]}",
            ),
            (
                R,
                "    group_by: [sex]\n",
                "    hierarchy: [town]\n    marginals: [[], [sex], [half]]\n"
                "    marginals_at: {region: [[sex]]}\n    consistent: {groupings: [region]}\n",
            ),
        ],
        [BOUNDS],
    ),
    "frequencies of a faulty column": (
        [
            (S, "values: [F, M]", "values: [F, F]"),
            add_columns(),
            (S, "columns:", "rehearsal: {frequencies: {sex: {F: 1}}}\ncolumns:"),
        ],
        ["DP-SCHEMA-003 columns.sex.values"],
    ),
    "bounds of a unit whose id is not there": (
        [(S, ID, "id: persn"), (R, 'count: "*"', "count_distinct: person")],
        ["DP-SCHEMA-008 privacy_unit.id"],
    ),
    "noise for a budget that is not declared": (
        [(R, "budget: {epsilon: 1}", "mechanism: discrete_gaussian")],
        ["DP-DECL-002 "],
    ),
    "groupings of a hierarchy whose level is faulty": (
        [
            add_columns(
                "size: {type: category, values: [big]}",
                "part: {type: category, values: {F: [x], N: [y]}, within: sex}",
            ),
            (R, "group_by: [sex]", "hierarchy: [sex, part]\n    consistent: {groupings: [size]}"),
        ],
        ["DP-SCHEMA-018 columns.part"],
    ),
    "a unit of a public table": (
        [(S, "privacy_unit:", "public: true\nprivacy_unit:")],
        ["DP-JOIN-002 privacy_unit"],
    ),
}


@pytest.mark.parametrize(("edits", "told"), FOLLOWING.values(), ids=FOLLOWING)
def test_dependent_errors_are_not_reported(tmp_path: Path, edits: Edits, told: list[str]) -> None:
    assert reported_errors(tmp_path, edits) == told


def test_valid_declaration_has_no_errors(tmp_path: Path) -> None:
    write_with(tmp_path, [])
    assert list(load_declaration(tmp_path / R).tables) == ["people"]


def test_schema_errors_are_reported_together(tmp_path: Path) -> None:
    """In one reading, whatever their number: as a session has it."""
    cuts = [f"band_{i}: {{cut: no_{i}, edges: [0, 1]}}" for i in range(90)]
    write_with(tmp_path, [add_columns(*cuts), (S, ID, "id: persn")])
    with pytest.raises(DpReleaseError) as caught:
        read_table(tmp_path / S)
    codes = [error.code for error in single_errors(caught.value)]
    assert codes == ["DP-SCHEMA-008", *["DP-SCHEMA-007"] * 90]


def test_key_of_other_types_names_these_types(tmp_path: Path) -> None:
    """A key that other types of columns have is reported with these types."""
    table = tmp_path / "t.yaml"
    columns = "  s: {type: text, values: [a]}\n  c: {type: category, values: [a], lower: 0}\n"
    table.write_text(f"table: t\nsource: t.csv\ncolumns:\n{columns}")
    with pytest.raises(DpReleaseError) as caught:
        read_table(table)
    text = str(caught.value)
    assert "columns of type category have it" in text
    assert "columns of type integer or number or date or timestamp have it" in text
    table.write_text("table: t\nsource: t.csv\ncolumns:\n  c: {type: category, labels: {1: a}}\n")
    with pytest.raises(DpReleaseError, match=r"'labels'.*`values: \{"):
        read_table(table)
