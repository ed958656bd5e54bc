"""`dprelease init --from`: descriptions of other tools, whose bounds and keys wait for a yes."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import yaml
from typer.testing import CliRunner

from dprelease import cli
from dprelease.errors import DpReleaseError, Findings
from dprelease.scaffold.metadata_sketch import translate_description
from dprelease.schema.load import CONFIRM, read_table

SMARTNOISE = """\
Database:
  PUMS:
    PUMS:
      max_ids: 2
      rows: 1000
      age: {type: int, lower: 0, upper: 100}
      sex: {type: string}
      pay: {type: float, lower: 0.0, upper: 500000.5}
      married: {type: boolean}
      pid: {type: int, private_id: True}
"""
CSVW_EO = {
    "@context": ["http://www.w3.org/ns/csvw", "https://w3id.org/csvw-eo#"],
    "@type": "csvw:Table", "name": "penguins", "url": "penguins.csv", "privacyUnit": "penguin_id",
    "maxContributions": 3, "maxGroupsPerUnit": 2, "maxLength": 1000,
    "tableSchema": {"columns": [
        {"@type": "csvw:Column", "name": "penguin_id", "datatype": "integer", "privacyId": True},
        {"name": "species", "titles": {"en": ["Species"]}, "datatype": "string", "keyValues": ["Adelie", "Gentoo"], "exhaustiveKeys": True},
        {"name": "bill", "datatype": "double", "minimum": 30.0, "maximum": 65.5, "required": True},
        {"name": "seen", "datatype": "date", "minimum": "2020-01-01", "maximum": "2022-12-31"},
        {"name": "rings", "datatype": {"base": "integer", "minimum": "0", "maximum": "9"}},
        {"name": "half", "datatype": "integer", "minimum": 0},
        {"name": "island", "datatype": "string", "partitions": [
            {"@type": "Partition", "predicate": {"partitionValue": "Biscoe"}}, {"csvw-eo:predicate": {"partitionValue": "Dream"}}]},
    ]},
}  # fmt: skip
OLDER = {
    "@type": "csvw:Table",
    "csvw-safe:public.privacyUnit": "id",
    "csvw-safe:bounds.maxContributions": 4,
    "csvw:tableSchema": {
        "columns": [
            {"name": "id", "datatype": "string", "csvw-safe:public.privacyId": True},
            {"name": "n", "datatype": "nonNegativeInteger", "minimum": 0, "maximum": 7},
        ]
    },
}
LISTED = [
    {"name": "age", "column_type": "ColumnType.INTEGER", "bounds": [0, 99]},
    {"name": "pay", "type": "f64", "lower": 0, "upper": 1e3},
    {"name": "sex", "dtype": "String", "categories": ["F", "M"]},
]
NAMED = (
    "name: people\nprivacy_unit: who\ncolumns:\n  who: VARCHAR\n  ok: BOOLEAN\n  at: TIMESTAMP\n"
)

FORMS: dict[str, tuple[str, dict[str, dict[str, Any]], dict[str, Any]]] = {
    "SmartNoise": (
        SMARTNOISE,
        {
            "age": {"type": "integer", "lower": "0", "upper": "100"}, "sex": {"type": "text"},
            "pay": {"type": "number", "lower": "0", "upper": "500000.5"}, "married": {"type": "boolean"},
            "pid": {"type": "integer"},
        },
        {"id": "pid", "max_groups": "2", "max_rows_per_group": "2"},
    ),
    "CSVW-EO": (
        json.dumps(CSVW_EO),
        {
            "penguin_id": {"type": "integer"},
            "species": {"type": "category", "values": ["Adelie", "Gentoo"], "label": "Species"},
            "bill": {"type": "number", "lower": "30", "upper": "65.5"},
            "seen": {"type": "date", "lower": "2020-01-01", "upper": "2022-12-31"},
            "rings": {"type": "integer", "lower": "0", "upper": "9"},
            "half": {"type": "integer"},
            "island": {"type": "category", "values": ["Biscoe", "Dream"]},
        },
        {"id": "penguin_id", "max_groups": "2", "max_rows_per_group": "3"},
    ),
    "a group of tables": (
        json.dumps({"tables": [OLDER]}),
        {"id": {"type": "text"}, "n": {"type": "integer", "lower": "0", "upper": "7"}},
        {"id": "id", "max_groups": "4", "max_rows_per_group": "4"},
    ),
    "a list": (
        json.dumps(LISTED),
        {
            "age": {"type": "integer", "lower": "0", "upper": "99"},
            "pay": {"type": "number", "lower": "0", "upper": "1000"},
            "sex": {"type": "category", "values": ["F", "M"]},
        },
        {},
    ),
    "names": (
        NAMED,
        {"who": {"type": "text"}, "ok": {"type": "boolean"}, "at": {"type": "timestamp"}},
        {"id": "who"},
    ),
}  # fmt: skip


def plain(text: str) -> dict[str, Any]:
    values = yaml.load(text, Loader=yaml.BaseLoader)
    assert isinstance(values, dict)
    return values


@pytest.mark.parametrize("form", FORMS)
def test_what_is_described_is_taken_and_waits_for_a_yes(form: str, tmp_path: Path) -> None:
    """Each line with a bound or a key is marked; none is read before all are confirmed."""
    text, columns, unit = FORMS[form]
    (tmp_path / "described").write_text(text)
    made = translate_description(tmp_path / "described", Path("rows.csv"))
    values = plain(made)
    assert values["columns"] == columns
    assert (values.get("privacy_unit") or {}) == unit
    assert values["source"] == "rows.csv"
    lines = made.splitlines()
    for line in lines:
        bounded = any(word in line.split("#")[0] for word in ("lower:", "values:", "max_"))
        assert (CONFIRM in line) is bounded, line
    marked = [number for number, line in enumerate(lines, 1) if CONFIRM in line]
    path = tmp_path / "t.yaml"
    path.write_text(made)
    if marked:
        with pytest.raises(DpReleaseError) as caught:
            read_table(path)
        error = caught.value
        several = error.errors if isinstance(error, Findings) else (error,)
        told = [one.place.line for one in several if one.code == "DP-PEEK-002"]
        assert told == marked
    path.write_text("\n".join(line.split(f"  {CONFIRM}")[0] for line in lines))
    if not unit or "max_groups" in unit:
        table = read_table(path).table
        assert [*table.columns] == [*columns]


HOSTILE = {
    "a label": {"name": "x", "titles": 'a", values: [1], # \n"'},
    "a name": {"name": "x\n  y: {type: text}"},
    "a value": {"name": "x", "keyValues": ['"]}\n  y: {type: text}', "\u202ea", "# CONFIRM"]},
    "a bound": {"name": "x", "datatype": "integer", "minimum": "0}\n  y: {type: text}", "maximum": "1"},
    "a bound that is none": {"name": "x", "datatype": "number", "minimum": "nan", "maximum": "inf"},
    "a type": {"name": "x", "datatype": "text}\n  y: {type: text"},
    "a date": {"name": "x", "datatype": "date", "minimum": "2020-01-01}", "maximum": "2020-13-01"},
}  # fmt: skip


@pytest.mark.parametrize("what", HOSTILE)
def test_a_description_says_what_it_says_and_no_more(what: str, tmp_path: Path) -> None:
    """Nothing of it becomes a key, a line or a mark's end."""
    table = {"name": "t\n# x", "url": "a\nb.csv", "tableSchema": {"columns": [HOSTILE[what]]}}
    (tmp_path / "d.json").write_text(json.dumps(table))
    text = translate_description(tmp_path / "d.json")
    values = plain(text)
    assert [*values["columns"]] == [HOSTILE[what]["name"]]
    assert [*values] == ["table", "source", "columns"]
    for line in text.splitlines()[6:]:
        assert line.isprintable()
        assert (CONFIRM in line) is ("lower:" in line or "values: [" in line.split("# or")[0])


NOTHING = {
    "nothing": "",
    "a text": "hello",
    "no columns": "{}",
    "not JSON": "{",
    "an empty list": "[]",
    "nested": "[" * 100_000,
    "columns of nothing": '{"columns": [1, null, {"type": "int"}]}',
    "another document": "title: x\nqueries: {a: {from: b}}",
    "a column twice": '{"columns": [{"name": "a", "type": "int"}, {"name": "a", "type": "text"}]}',
    "a column in two cases": '{"columns": [{"name": "Größe"}, {"name": "größe"}]}',
    "a tag": "!!python/object:os.system x",
}


@pytest.mark.parametrize("what", NOTHING)
def test_what_describes_no_table(what: str, tmp_path: Path) -> None:
    (tmp_path / "d.json").write_text(NOTHING[what])
    with pytest.raises(DpReleaseError, match="DP-DATA-023") as caught:
        translate_description(tmp_path / "d.json")
    assert "no row was read" in str(caught.value)


@pytest.mark.parametrize("low", ["lower", "min", "minimum"])
@pytest.mark.parametrize("high", ["upper", "max", "maximum"])
def test_bounds_of_listed_columns_by_their_usual_words(low: str, high: str, tmp_path: Path) -> None:
    """None of them is left out in silence."""
    told = {"columns": [{"name": "age", "type": "integer", low: 0, high: 99}]}
    (tmp_path / "d.json").write_text(json.dumps(told))
    column = plain(translate_description(tmp_path / "d.json"))["columns"]["age"]
    assert (column["lower"], column["upper"]) == ("0", "99")


def test_the_command_line(tmp_path: Path) -> None:
    (tmp_path / "m.yaml").write_text(SMARTNOISE)
    target = tmp_path / "new.yaml"
    words = ["init", "--from", str(tmp_path / "m.yaml")]
    done = CliRunner().invoke(cli.app, [*words, "--output", str(target)])
    assert done.exit_code == 0, done.output
    assert "source: FILL IN" in target.read_text()
    done = CliRunner().invoke(cli.app, [*words, "--unit", "nobody"])
    assert (done.exit_code, "DP-DATA-011" in done.output) == (2, True)
    for wrong in (["init"], [*words, "--peek"]):
        assert CliRunner().invoke(cli.app, wrong).exit_code == 2
