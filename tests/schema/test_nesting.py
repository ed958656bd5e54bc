"""Areas within areas: parents and order of values, and refusals."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from dprelease.errors import DpReleaseError, Findings
from dprelease.query.grouping.group_keys import Key, key_of
from dprelease.schema.columns import CategoryColumn
from dprelease.schema.load import Declared, read_table, table_from_mapping

STATES = {"type": "category", "values": ["ZH", "BE"]}


def declare_areas(folder: Path, columns: dict[str, Any], **files: str) -> Declared:
    for name, text in files.items():
        (folder / f"{name}.csv").write_text(text)
    return table_from_mapping({"table": "t", "columns": columns}, folder)


def county(file: str | None = "c", **more: Any) -> dict[str, Any]:
    named = {} if file is None else {"values_from": f"{file}.csv"}
    return {"type": "category", "within": "state", **named, **more}


FORMS: dict[str, tuple[dict[str, Any], str]] = {
    "two columns": (county(), "county,state\nThun,BE\nUster,ZH\nBern,BE\n"),
    "the other way round": (county(), "state,county\nBE,Thun\nZH,Uster\nBE,Bern\n"),
    "more columns": (
        county(None, values_from={"file": "c.csv", "column": "name"}),
        "name,size,state\nThun,1,BE\nUster,2,ZH\nBern,3,BE\n\n",
    ),
    "a row a municipality": (
        county(None, values_from={"file": "c.csv", "column": "name"}),
        "name,state,place\nThun,BE,1\nThun,BE,2\nUster,ZH,3\nBern,BE,4\nThun,BE,5\n",
    ),
    "lists by area": (county(None, values={"BE": ["Thun", "Bern"], "ZH": ["Uster"]}), ""),
}


@pytest.mark.parametrize("form", FORMS)
def test_nested_values_by_area(tmp_path: Path, form: str) -> None:
    """Whatever the form, and wherever the level above is declared."""
    column, text = FORMS[form]
    for columns in ({"state": STATES, "county": column}, {"county": column, "state": STATES}):
        found = declare_areas(tmp_path, columns, c=text).table.columns["county"]
        key = key_of("county", found)
        assert isinstance(key, Key)
        assert list(key.values) == ["Uster", "Thun", "Bern"]
        assert getattr(found, "parent_areas", None) == ("ZH", "BE", "BE")


def test_levels_above_are_ordered_first(tmp_path: Path) -> None:
    columns = {
        "tract": {"type": "category", "within": "county", "values": {
            "Thun": ["t1"], "Bern": ["b1", "b2"], "Uster": ["u"]}},
        "county": county(None, values={"BE": ["Bern", "Thun"], "ZH": ["Uster"]}),
        "state": STATES,
    }  # fmt: skip
    table = declare_areas(tmp_path, columns).table
    assert getattr(table.columns["tract"], "values", None) == ("u", "b1", "b2", "t1")


def test_column_within_several_others(tmp_path: Path) -> None:
    """Values stand in the order of the first; each of the others has an area for each value."""
    text = "name,size,state\nThun,1,BE\nUster,2,ZH\nBern,3,BE\n"
    columns = {
        "state": STATES,
        "county": county(
            None, values_from={"file": "c.csv", "column": "name"}, within=["state", "size"]
        ),
        "size": {"type": "category", "values": ["1", "2", "3"], "within": "kind"}
        | {"values": {"a": ["3", "1"], "b": ["2"]}},
        "kind": {"type": "category", "values": ["b", "a"]},
    }
    for order in (columns, dict(reversed(columns.items()))):
        table = declare_areas(tmp_path, order, c=text).table
        found = table.columns["county"]
        assert isinstance(found, CategoryColumn)
        assert list(found.values or ()) == ["Uster", "Thun", "Bern"]
        assert found.parent_areas == found.areas_in("state") == ("ZH", "BE", "BE")
        assert found.areas_in("size") == ("2", "1", "3")
    everything = {name: {**column, "unallocated": True} for name, column in columns.items()}
    found = declare_areas(tmp_path, everything, c=text).table.columns["county"]
    assert isinstance(found, CategoryColumn)
    assert list(found.values or ()) == ["Uster", "ZH_X", "Thun", "Bern", "BE_X", "_X"]
    assert found.areas_in("size") == ("2", "_X", "1", "3", "_X", "_X")


FULL = "county,state\nThun,BE\nUster,ZH\n"
BAD: dict[str, tuple[dict[str, Any], str, str]] = {
    "lists within two columns": (
        {
            "state": STATES,
            "size": STATES,
            "county": county(
                None, values={"ZH": ["Uster"], "BE": ["Thun"]}, within=["state", "size"]
            ),
        },
        FULL,
        "DP-SCHEMA-016",
    ),
    "one of two columns twice": (
        {"state": STATES, "county": county(within=["state", "state"])},
        FULL,
        "DP-DECL-003",
    ),
    "two areas of the second column": (
        {
            "state": STATES,
            "size": {"type": "category", "values": ["1", "2"]},
            "county": county(
                None, values_from={"file": "c.csv", "column": "county"}, within=["state", "size"]
            ),
        },
        "county,state,size\nThun,BE,1\nThun,BE,2\nUster,ZH,1\n",
        "DP-SCHEMA-017",
    ),
    "no such area of the second column": (
        {
            "state": STATES,
            "size": {"type": "category", "values": ["1"]},
            "county": county(
                None, values_from={"file": "c.csv", "column": "county"}, within=["state", "size"]
            ),
        },
        "county,state,size\nThun,BE,1\nUster,ZH,2\n",
        "DP-SCHEMA-018",
    ),
    "no level above": ({"county": county()}, FULL, "DP-SCHEMA-016"),
    "a number above": (
        {"state": {"type": "integer", "lower": 0, "upper": 3}, "county": county()},
        FULL,
        "DP-SCHEMA-016",
    ),
    "within itself": (
        {"county": {"type": "category", "within": "county", "values": {"a": ["a"]}}},
        "",
        "DP-SCHEMA-016",
    ),
    "a circle": (
        {
            "a": {"type": "category", "within": "b", "values": {"y": ["x"]}},
            "b": {"type": "category", "within": "a", "values": {"x": ["y"]}},
        },
        "",
        "DP-SCHEMA-016",
    ),
    "values that lie nowhere": (
        {"state": STATES, "county": county(None, values=["a", "b"])},
        "",
        "DP-SCHEMA-016",
    ),
    "two areas": (
        {"state": STATES, "county": county()},
        "county,state\nThun,BE\nThun,ZH\n",
        "DP-SCHEMA-017",
    ),
    "the same value with two labels": (
        {
            "state": STATES,
            "county": county(
                None, values_from={"file": "c.csv", "column": "county", "labels": "name"}
            ),
        },
        "county,state,name\nThun,BE,Thun\nUster,ZH,Uster\nThun,BE,Thoune\n",
        "DP-SCHEMA-003",
    ),
    "an unknown area": (
        {"state": STATES, "county": county()},
        "county,state\nThun,BE\nUster,ZG\nUri,ZH\n",
        "DP-SCHEMA-018",
    ),
    "no area": (
        {"state": STATES, "county": county()},
        "county,state\nThun,BE\nUster,ZH\nUri,\n",
        "DP-SCHEMA-018",
    ),
    "an area without parts": (
        {"state": STATES, "county": county()},
        "county,state\nThun,BE\n",
        "DP-SCHEMA-019",
    ),
    "no column of areas": (
        {"state": STATES, "county": county()},
        "county\nThun\n",
        "DP-SCHEMA-004",
    ),
    "a ragged line": (
        {"state": STATES, "county": county()},
        "county,state\nThun,BE\nUster\n",
        "DP-SCHEMA-004",
    ),
    "areas twice": (
        {"state": STATES, "county": county()},
        "county,state,state\nThun,BE,BE\nUster,ZH,ZH\n",
        "DP-SCHEMA-004",
    ),
    "an empty file": ({"state": STATES, "county": county()}, "", "DP-SCHEMA-004"),
    "a header alone": ({"state": STATES, "county": county()}, "county,state\n", "DP-SCHEMA-004"),
    "no list": (
        {"state": STATES, "county": county(None, values={"BE": "Bern", "ZH": ["Uster"]})},
        "",
        "DP-DECL-003",
    ),
    "fill of another level": (
        {"state": STATES, "county": county(fill="BE")},
        FULL,
        "DP-SCHEMA-005",
    ),
}


@pytest.mark.parametrize("case", BAD)
def test_invalid_nesting_is_refused(tmp_path: Path, case: str) -> None:
    columns, text, code = BAD[case]
    with pytest.raises(DpReleaseError) as caught:
        declare_areas(tmp_path, columns, c=text)
    error = caught.value
    several = error.errors if isinstance(error, Findings) else (error,)
    assert {one.code for one in several} == {code}, str(error)
    assert all(one.place.key.startswith("columns") for one in several), str(error)


def test_place_of_nesting_errors(tmp_path: Path) -> None:
    (tmp_path / "t.yaml").write_text(
        "table: t\ncolumns:\n  state: {type: category, values: [a]}\n"
        "  county: {type: category, within: stat, values: {a: [b]}}\n"
    )
    with pytest.raises(DpReleaseError) as caught:
        read_table(tmp_path / "t.yaml")
    assert (caught.value.code, caught.value.place.line) == ("DP-SCHEMA-016", 4)
    assert caught.value.place.key == "columns.county.within"


HEADERS = {
    "": "its first line has no column names",
    "county,state\n": "it lists no value",
    "state\nBE\n": "it has no column of values besides 'state'",
    "county, state\nThun, BE\n": "it has no column 'state', but ' state'",
    "County,State\nThun,BE\n": "it has no column 'state', but 'State'",
    "county;state\nThun;BE\n": "its first line has a semicolon",
    "1042,51000\nThun,BE\n": "it has no column 'state'.",
    "county,state,area\nThun,BE,3\n": "does not name one besides 'state'",
}


@pytest.mark.parametrize("text", HEADERS)
def test_wrong_headers_are_explained(text: str, tmp_path: Path) -> None:
    """Of a line that may not be a header, nothing is shown but what is like the declared name."""
    with pytest.raises(DpReleaseError) as caught:
        declare_areas(tmp_path, {"state": STATES, "county": county()}, c=text)
    assert HEADERS[text] in str(caught.value)
    assert "51000" not in str(caught.value)


def test_conflicting_rows_are_both_named(tmp_path: Path) -> None:
    """Also where the rows before them are repeated."""
    text = "county,state\nUster,ZH\nUster,ZH\nThun,BE\nThun,ZH\n"
    with pytest.raises(DpReleaseError) as caught:
        declare_areas(tmp_path, {"state": STATES, "county": county()}, c=text)
    assert "DP-SCHEMA-017" in str(caught.value)
    assert "rows 3 and 4" in str(caught.value)
