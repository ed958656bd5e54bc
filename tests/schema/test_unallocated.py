"""Values for rows without a declared code: their place, labels, and refusals."""

from __future__ import annotations

from typing import Any

import pytest

from dprelease.documents.column_metadata import value_labels
from dprelease.errors import DpReleaseError
from dprelease.query.grouping.group_keys import Key, key_of
from dprelease.schema.load import table_from_mapping

LANGUAGES = ("en", "de", "fr", "es", "it", "nl", "pt")
REGION = {"type": "category", "values": {"R": "Riverland", "S": {"en": "South", "de": "Süd"}}}
STATE = {"type": "category", "values": {"S": ["C", "A"], "R": ["B"]}, "within": "region"}
SEX = {"type": "category", "values": ["f", "m"]}
BAND = {"cut": "age", "edges": [0, 18, 100]}
AGE = {"type": "integer", "lower": 0, "upper": 99}
ON = {"unallocated": True}


def columns(tmp_path: Any, **declared: Any) -> Any:
    return table_from_mapping({"table": "t", "columns": declared}, tmp_path).table.columns


def key(columns: Any, name: str) -> Key:
    found = key_of(name, columns[name])
    assert isinstance(found, Key)
    return found


@pytest.mark.parametrize(("name", "column"), [("sex", SEX), ("band", BAND)])
def test_unallocated_rows_have_a_cell(tmp_path: Any, name: str, column: dict[str, Any]) -> None:
    plain = key(columns(tmp_path, age=AGE, **{name: column}), name)
    whole = key(columns(tmp_path, age=AGE, **{name: {**column, **ON}}), name)
    assert plain.leaves_out_rows
    assert not whole.leaves_out_rows
    assert [*whole.values] == [*plain.values, "_X"]
    assert whole.nulls == whole.others == len(plain.values)


def test_fill_and_others_are_kept(tmp_path: Any) -> None:
    """Missing values are not stated, and undeclared codes still belong to a declared value."""
    found = key(columns(tmp_path, sex={**SEX, **ON, "others": "m"}), "sex")
    assert (found.values[found.nulls or 0], found.values[found.others or 0]) == ("_X", "m")


def test_each_area_has_an_unallocated_part(tmp_path: Any) -> None:
    county = {"type": "category", "values": {"A": ["a1"], "B": ["b1"], "C": ["c1"]}}
    found = columns(
        tmp_path, region={**REGION, **ON}, county={**county, **ON, "within": "state"},
        state={**STATE, **ON},
    )  # fmt: skip
    assert found["region"].values == ("R", "S", "_X")
    assert found["state"].values == ("B", "R_X", "C", "A", "S_X", "_X")
    assert found["state"].parent_areas == ("R", "R", "S", "S", "S", "_X")
    assert [*zip(found["county"].values, found["county"].parent_areas, strict=True)] == [
        ("b1", "B"), ("B_X", "B"), ("R_X_X", "R_X"), ("c1", "C"), ("C_X", "C"), ("a1", "A"),
        ("A_X", "A"), ("S_X_X", "S_X"), ("_X", "_X"),
    ]  # fmt: skip
    assert {*found["county"].allocated_values} == {"a1", "b1", "c1"}


def test_labels_in_all_languages(tmp_path: Any) -> None:
    """Also in one without a built-in label, in which only a declared label can be given."""
    found = columns(tmp_path, sex={**SEX, **ON}, region={**REGION, **ON}, state={**STATE, **ON})
    texts = value_labels(found["sex"])["_X"].texts(LANGUAGES)
    assert len({*texts.values()}) == len(LANGUAGES)
    parts = value_labels(found["state"])
    assert parts["S_X"].texts(("en", "de"))["en"].startswith("South, ")
    assert parts["S_X"].texts(("en", "de"))["de"].startswith("Süd, ")
    assert all(text.startswith("Riverland, ") for text in parts["R_X"].texts(LANGUAGES).values())
    assert value_labels(found["sex"])["_X"].texts(("da", "de-CH")) == {
        "da": texts["en"], "de-CH": texts["de"],
    }  # fmt: skip
    own = columns(tmp_path, sex={**SEX, "unallocated": {"da": "Uoplyst"}}, age=AGE,
                  band={**BAND, "unallocated": "n/a"})  # fmt: skip
    assert value_labels(own["sex"])["_X"].texts(("da",)) == {"da": "Uoplyst"}
    assert value_labels(own["band"])["_X"].texts(("en",)) == {"en": "n/a"}


WRONG: dict[str, dict[str, Any]] = {
    "only the part": {"region": REGION, "state": {**STATE, **ON}},
    "only the area": {"region": {**REGION, **ON}, "state": STATE},
    "another substitute of a part": {
        "region": {**REGION, **ON}, "state": {**STATE, **ON, "fill": "A"},
    },
    "nothing is left": {"sex": {**SEX, **ON, "fill": "f", "others": "f"}},
    "the code is taken": {"sex": {"type": "category", "values": ["f", "_X"], **ON}},
    "the code of a part is taken": {
        "region": {**REGION, **ON},
        "state": {**STATE, **ON, "values": {"S": ["R_X"], "R": ["B"]}},
    },
    "no values": {"age": {**AGE, **ON}},
}  # fmt: skip


@pytest.mark.parametrize("wrong", WRONG)
def test_misleading_unallocated_values_are_refused(tmp_path: Any, wrong: str) -> None:
    with pytest.raises(DpReleaseError) as caught:
        columns(tmp_path, **WRONG[wrong])
    assert "unallocated" in str(caught.value)
