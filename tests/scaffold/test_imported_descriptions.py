"""`dprelease init --from`: descriptions of other tools, whose bounds and keys wait for a yes."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
import yaml
from typer.testing import CliRunner

import dprelease
from dprelease import cli
from dprelease.errors import DpReleaseError, Findings
from dprelease.scaffold.metadata_sketch import translate_description
from dprelease.schema.load import CONFIRM, read_table
from tests.exact.build import ask, exact

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
def test_imported_bounds_must_be_confirmed(form: str, tmp_path: Path) -> None:
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
def test_hostile_descriptions_are_escaped(what: str, tmp_path: Path) -> None:
    """Nothing of it becomes a key, a line or a mark's end."""
    table = {"name": "t\n# x", "url": "a\nb.csv", "tableSchema": {"columns": [HOSTILE[what]]}}
    (tmp_path / "d.json").write_text(json.dumps(table))
    text = translate_description(tmp_path / "d.json")
    values = plain(text)
    assert [*values["columns"]] == [HOSTILE[what]["name"]]
    assert [*values] == ["table", "columns"]  # the address is no path of a file
    for line in text.splitlines()[6:]:
        assert line.isprintable()
        assert (CONFIRM in line) is ("lower:" in line or "values: [" in line.split("# or")[0])


RESOURCE: dict[str, Any] = {
    "name": "visits", "path": "data/visits.csv", "encoding": "iso-8859-1",
    "dialect": {"delimiter": ";", "headerRows": [2], "commentChar": "#", "quoteChar": "'"},
    "schema": {
        "missingValues": ["", "NA"],
        "fields": [
            {"name": "person", "type": "integer"},
            {"name": "sex", "type": "string", "title": "Sex", "categories": [{"value": "f", "label": "Female"}, {"value": "m", "label": "Male"}]},
            {"name": "age", "type": "integer", "constraints": {"minimum": 0, "maximum": 120}, "missingValues": [{"value": "999", "label": "no answer"}, "x9"]},
            {"name": "cost", "type": "number", "decimalChar": ",", "groupChar": ".", "constraints": {"exclusiveMinimum": 0, "maximum": "1e4"}},
            {"name": "day", "type": "date", "format": "%d/%m/%Y", "constraints": {"minimum": "01/02/2020", "maximum": "2021-03-04"}},
            {"name": "at", "type": "datetime", "constraints": {"minimum": "2020-01-01T00:00:00Z", "maximum": "2020-12-31T23:59:59Z"}},
            {"name": "paid", "type": "boolean", "trueValues": ["ja"], "falseValues": ["nein"]},
            {"name": "ok", "type": "boolean", "trueValues": ["True", "1"]},
            {"name": "level", "type": "integer", "constraints": {"enum": [1, 2, 2]}},
            {"name": "since", "type": "year"},
        ],
    },
}  # fmt: skip
DESCRIBED: dict[str, Any] = {
    "person": {"type": "integer"},
    "sex": {"type": "category", "values": {"f": "Female", "m": "Male"}, "label": "Sex"},
    "age": {"type": "integer", "lower": "0", "upper": "120", "missing": ["999"]},
    "cost": {"type": "number", "lower": "0", "upper": "10000"},
    "day": {"type": "date", "lower": "2020-02-01", "upper": "2021-03-04", "format": "%d/%m/%Y"},
    "at": {"type": "timestamp", "lower": "2020-01-01 00:00:00", "upper": "2020-12-31 23:59:59"},
    "paid": {"type": "category", "values": ["nein", "ja"]},
    "ok": {"type": "boolean"},
    "level": {"type": "category", "values": ["1", "2"]},
    "since": {"type": "integer"},
}
SOURCE = {
    "path": "data/visits.csv", "delimiter": ";", "quote": "'", "comment": "#", "header": "2",
    "nulls": ["", "NA"], "encoding": "iso-8859-1", "decimal": ",", "thousands": ".",
}  # fmt: skip


@pytest.mark.parametrize("form", ["package", "resource", "schema", "YAML"])
def test_frictionless_descriptions(form: str, tmp_path: Path) -> None:
    """Types, bounds, values with labels, missing values and the form of the file are taken."""
    other = {"name": "codes", "path": "codes.csv", "schema": {"fields": [{"name": "k"}]}}
    forms: dict[str, Any] = {
        "package": {"name": "p", "resources": [{"name": "a", "path": "a.pdf"}, RESOURCE, other]},
        "resource": RESOURCE,
        "schema": RESOURCE["schema"],
    }
    document = forms["package" if form == "YAML" else form]
    text = yaml.safe_dump(document) if form == "YAML" else json.dumps(document)
    (tmp_path / "datapackage.json").write_text(text)
    made = translate_description(tmp_path / "datapackage.json")
    values = plain(made)
    assert values["columns"] == DESCRIBED
    assert ("source" in values) is (form != "schema")
    if form != "schema":
        assert (values["table"], values["source"]) == ("visits", SOURCE)
    assert ('"codes"' in made) is (form in ("package", "YAML"))
    lines = [line for line in made.splitlines() if "{type:" in line]
    for line in lines:
        assert (CONFIRM in line) is ("lower:" in line or "values:" in line), line
    path = tmp_path / "t.yaml"
    path.write_text("\n".join(line.split(f"  {CONFIRM}")[0] for line in made.splitlines()))
    assert [*read_table(path).table.columns] == [*DESCRIBED]
    if form == "package":
        other_table = plain(translate_description(tmp_path / "datapackage.json", name="codes"))
        assert other_table["source"] == "codes.csv"
        with pytest.raises(DpReleaseError, match=r"DP-DATA-023.*'none', only: visits, codes"):
            translate_description(tmp_path / "datapackage.json", name="none")


def test_a_csvw_description_of_a_source(tmp_path: Path) -> None:
    """Dialect, null and datatypes are taken from the column, or from what contains it."""
    number = {"base": "decimal", "format": {"decimalChar": ",", "groupChar": "."}, "minInclusive": 0, "maxExclusive": "1e4"}  # fmt: skip
    columns = [
        {"name": "person", "datatype": "integer"},
        {"name": "age", "datatype": {"base": "integer", "minimum": 0, "maximum": 120}, "null": ["", "NA"]},
        {"name": "cost", "datatype": number},
        {"name": "day", "datatype": {"base": "date", "format": "dd/MM/yyyy", "minimum": "01/02/2020", "maximum": "04/03/2021"}},
        {"name": "o%64d", "titles": {"und": ["odd"], "en": ["odd", "Odd days"]}, "datatype": {"base": "date", "format": "EEE"}},
        {"name": "paid", "datatype": {"base": "boolean", "format": "ja|nein"}},
        {"name": "made", "virtual": True},
    ]  # fmt: skip
    dialect = {"delimiter": ";", "quoteChar": "'", "commentPrefix": "#", "skipRows": 1, "encoding": "iso-8859-1"}  # fmt: skip
    table = {"url": "data/visits.csv", "tableSchema": {"columns": columns}}
    document = {"@context": "x", "dialect": dialect, "null": ["", "NA"], "tables": [table]}
    (tmp_path / "visits.csv-metadata.json").write_text(json.dumps(document))
    values = plain(translate_description(tmp_path / "visits.csv-metadata.json"))
    assert values["source"] == SOURCE
    taken = {name: DESCRIBED[name] for name in ("person", "cost", "day", "paid")}
    age = {"type": "integer", "lower": "0", "upper": "120"}
    assert values["columns"] == taken | {"age": age, "odd": {"type": "date", "label": "Odd days"}}
    columns[1]["null"] = ["999", "x"]
    dialect["header"] = False
    (tmp_path / "m.json").write_text(json.dumps(document))
    values = plain(translate_description(tmp_path / "m.json", folder=tmp_path / "schemas"))
    assert values["columns"]["age"] == age | {"missing": ["999", "x"]}
    assert values["source"]["names"] == ["person", "age", "cost", "day", "odd", "paid"]
    assert (values["source"]["skip"], "nulls" in values["source"]) == ("1", False)
    assert values["source"]["path"] == "../data/visits.csv"


@pytest.mark.parametrize("heads", [1, 2])
def test_columns_get_the_names_of_a_description(heads: int, tmp_path: Path) -> None:
    """The header of the file has the titles of CSVW, or the parts of the names of Frictionless."""
    lines = ["Survey;2026", *["School;Days"] * heads, "S1;3", "S2;9"]
    (tmp_path / "t.csv").write_text("\n".join(lines) + "\n")
    days = {"name": "days", "titles": "Days", "default": "0", "datatype": {"base": "nonNegativeInteger", "maximum": 9}}  # fmt: skip
    csvw = {"url": "t.csv", "dialect": {"delimiter": ";", "skipRows": 1, "headerRowCount": heads, "trim": True},
            "tableSchema": {"columns": [{"name": "id", "titles": ["School", "Code"]}, days]}}  # fmt: skip
    fields = [{"name": "id"}, {"name": "days", "type": "integer", "bareNumber": False, "constraints": {"maximum": 9}}]  # fmt: skip
    dialect = {"delimiter": ";", "commentRows": [1], "headerRows": [2, 3][:heads], "skipInitialSpace": True}  # fmt: skip
    package = {"path": "t.csv", "dialect": dialect, "schema": {"fields": fields}}
    for document, words in (
        (csvw, ("trim", "default")),
        (package, ("skipInitialSpace", "`strip`", 'only upper "9"')),
    ):
        if document is package and heads == 1:
            fields[0]["name"], fields[1]["name"] = "School", "Days"
        (tmp_path / "d.json").write_text(json.dumps(document))
        text = translate_description(tmp_path / "d.json", folder=tmp_path)
        assert all(word in text for word in words)
        (tmp_path / "t.yaml").write_text(text.replace("# CONFIRM", "#"))
        declared = read_table(tmp_path / "t.yaml")
        name = [*declared.table.columns][1]
        assert list(exact(ask(declared, {"n": {"count": name}}), None)["n"]) == [2]


def test_rows_of_headers_of_frictionless_sheets(tmp_path: Path) -> None:
    fields = [{"name": "J_m"}]
    dialect = {"headerRows": [2, 3], "headerJoin": "_", "sheetName": "a", "commentRows": [1]}
    document = {"path": "t.xlsx", "dialect": dialect, "schema": {"fields": fields}}
    (tmp_path / "d.json").write_text(json.dumps(document))
    text = translate_description(tmp_path / "d.json")
    assert plain(text)["source"]["header"] == ["2", "3"]
    assert "Not taken from the description: skip" in text


LED_ELSEWHERE = [
    "/etc/passwd", "../x.csv", "a/../../x.csv", "https://x/y.csv", "s3://x/y.csv", "C:\\x.csv",
    "..\\x.csv", "*.csv", "file:x.csv", "a?.csv", "x\n.csv",
]  # fmt: skip


def test_what_strangers_write_stays_in_its_place(tmp_path: Path) -> None:
    """No path leads elsewhere; options and formats that a schema can't hold are left out."""
    hostile = {"delimiter": ";\nx: y", "quoteChar": "\u00e9", "sheetName": "a\nb", "headerRows": ["9" * 40]}  # fmt: skip
    fields = [
        {"name": "a", "type": "date", "format": "%x}\n b: {", "missingValues": ["n\nx: y"]},
        {"name": "b", "type": ["integer"], "constraints": [1], "missingValues": 3},
        {"name": "c", "type": "number", "decimalChar": "}", "constraints": {"enum": {"x": 1}}},
        {"name": "d", "type": "boolean", "trueValues": "yes: {", "categories": [{"value": None}]},
    ]
    schema = {"fields": fields, "missingValues": ["\u202e", "# x"], "primaryKey": {}}
    for path in [*LED_ELSEWHERE, ["a.csv", "b.csv"], {"a": 1}, None]:
        resource = {"path": path, "dialect": hostile, "schema": schema, "encoding": "rot13"}
        (tmp_path / "d.json").write_text(json.dumps({"resources": [resource, 3, {"schema": "s"}]}))
        text = translate_description(tmp_path / "d.json")
        assert all(line.isprintable() for line in text.splitlines()), text
        values = plain(text)
        assert [*values] == ["table", "columns"], path
        assert [*values["columns"]] == ["a", "b", "c", "d"]
    for document in ({"schema": "elsewhere.json"}, {"resources": []}, {"fields": [3]}):
        (tmp_path / "d.json").write_text(json.dumps(document))
        with pytest.raises(DpReleaseError, match="DP-DATA-023"):
            translate_description(tmp_path / "d.json")


def test_a_described_file_is_read_as_described(tmp_path: Path) -> None:
    """A draft, once confirmed, reads the numbers that the description promises."""
    rows = (
        "title\nperson;cost;day\n1;1.000,5;01/02/2020\n# note\n2;NA;02/02/2020\n3;'2';03/02/2020\n"
    )
    (tmp_path / "data").mkdir()
    (tmp_path / "data/visits.csv").write_text(rows, encoding="latin-1")
    chosen = [
        one for one in RESOURCE["schema"]["fields"] if one["name"] in ("person", "cost", "day")
    ]
    resource = RESOURCE | {"schema": {**RESOURCE["schema"], "fields": chosen}}
    (tmp_path / "datapackage.json").write_text(json.dumps({"resources": [resource]}))
    made = translate_description(tmp_path / "datapackage.json", folder=tmp_path)
    table = "\n".join(line.split(f"  {CONFIRM}")[0] for line in made.splitlines())
    (tmp_path / "t.yaml").write_text(table)
    wanted = {"day >= '2020-02-02'": 2, "cost > 1000": 1, "cost < 3": 1, "person < 9": 3}
    queries = {
        f"q{i}": {"from": "visits", "where": where, "columns": {"n": {"count": "*"}}}
        for i, where in enumerate(wanted)
    }
    release = {"title": "t", "tables": ["t.yaml"], "budget": {"epsilon": 100}, "output": "out"}
    (tmp_path / "r.yaml").write_text(json.dumps(release | {"queries": queries}))
    out = dprelease.read_release(tmp_path / "r.yaml").run()
    found = [pq.read_table(out / f"{name}.parquet")["n"].to_pylist() for name in queries]
    assert found == [[number] for number in wanted.values()]


DICTIONARIES = {
    "first and last": "Variable,Start,End,Type\nperson,1,3,Num(3)\nsex,4,4,Char\n,,,code 1: male\n",
    "width": "\ufeffname;first;length;data type;label\nperson;1;3;int;Person\nsex;4;1;;\n",
    "one cell": "Field Name\tPosition\tformat\nperson\t1 - 3\tN\nsex\t4\tA\n",
}


@pytest.mark.parametrize("written", DICTIONARIES.values(), ids=list(DICTIONARIES))
def test_data_dictionaries_have_the_places_of_columns(written: str, tmp_path: Path) -> None:
    (tmp_path / "places.csv").write_text(written, encoding="utf-8")
    (tmp_path / "rows.txt").write_text("001m\n002f\n003f\n")
    text = translate_description(tmp_path / "places.csv", tmp_path / "rows.txt", folder=tmp_path)
    (tmp_path / "t.yaml").write_text(text)
    assert "declare `encoding`" in text
    declared = read_table(tmp_path / "t.yaml")
    assert declared.table.name == "rows"
    assert declared.table.columns["person"].type in ("integer", "number")
    query = ask(declared, {"n": {"count": "*"}}, where="person > 1 and sex = 'f'")
    assert list(exact(query, None)["n"]) == [2]


def test_data_dictionaries_have_codes_and_widths(tmp_path: Path) -> None:
    """Codes become a marked category; widths may be those of a CSV file, and are a comment."""
    cells = "1=male; 2 = fe,male;9 = no: answer", "1: a, 2: b", "0-120", "see annex; a=b", ""
    rows = [f'{name},1,"{cell}"' for name, cell in zip("abcde", cells, strict=True)]
    (tmp_path / "d.csv").write_text("\n".join(["name,width,values", *rows]))
    text = translate_description(tmp_path / "d.csv")
    columns = plain(text)["columns"]
    assert columns["a"]["values"] == {"1": "male", "2": "fe,male", "9": "no: answer"}
    assert columns["b"]["values"] == {"1": "a", "2": "b"}
    assert not any("values" in columns[name] for name in "cde")
    assert text.count("CONFIRM: is it") == 2
    assert "missing" not in text
    (comment,) = (line for line in text.splitlines() if "fixed width" in line)
    assert comment.startswith("#")
    assert "columns: {a: [1, 1], b: [2, 2], c: [3, 3], d: [4, 4], e: [5, 5]}" in comment


def test_data_dictionaries_have_codes_for_missing_values(tmp_path: Path) -> None:
    """If a column has other codes, too, nobody knows whether it has a cell of unknown values.

    None is a number, such as that of children.
    """
    cells = "999=Unknown", "998: refused; 999: no answer", "1=m; 9=unknown", "9=", "0=none"
    rows = [f'{name},number,"{cell}"' for name, cell in zip("abcde", cells, strict=True)]
    (tmp_path / "d.csv").write_text("\n".join(["name,type,values", *rows]))
    columns = plain(translate_description(tmp_path / "d.csv"))["columns"]
    missing = [columns[name].get("missing") for name in "abcde"]
    assert missing == [["999"], ["998", "999"], None, None, None]
    assert "values" not in columns["b"]


def test_hostile_dictionaries_are_escaped(tmp_path: Path) -> None:
    """No name, place or label becomes a key or a line."""
    rows = '"x\ny: 1",?,"2\nz: 3","l\nw: 4"\nb,1,3,\u202eok\n'
    (tmp_path / "d.csv").write_text('name,width,codes\n"x\ny: 1",2,"1=\u202e\n2=a"\n')
    assert all(line.isprintable() for line in translate_description(tmp_path / "d.csv").split("\n"))
    (tmp_path / "d.csv").write_text(f"name,start,end,label\n{rows}", encoding="utf-8")
    text = translate_description(tmp_path / "d.csv")
    values = plain(text)
    assert ([*values], [*values["columns"]]) == (["table", "columns"], ["x\ny: 1", "b"])
    assert all(line.isprintable() for line in text.splitlines())


@pytest.mark.parametrize(
    ("places", "left_out"),
    [("9,1", "the places of columns"), ("0,1", "the places of columns"), (",", 'the place of "a"')],
)
def test_impossible_places_are_named(places: str, left_out: str, tmp_path: Path) -> None:
    (tmp_path / "d.csv").write_text(f"name,start,end\na,{places}\nb,1,3\n")
    text = translate_description(tmp_path / "d.csv")
    assert f"# Not taken from the description: {left_out}" in text
    (tmp_path / "d.csv").write_text(f"what,start,end\na,{places}\n")
    with pytest.raises(DpReleaseError, match="DP-DATA-023"):
        translate_description(tmp_path / "d.csv")


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
def test_invalid_descriptions_are_refused(what: str, tmp_path: Path) -> None:
    (tmp_path / "d.json").write_text(NOTHING[what])
    with pytest.raises(DpReleaseError, match="DP-DATA-023") as caught:
        translate_description(tmp_path / "d.json")
    assert "no row was read" in str(caught.value)


@pytest.mark.parametrize("low", ["lower", "min", "minimum"])
@pytest.mark.parametrize("high", ["upper", "max", "maximum"])
def test_usual_names_of_bounds_are_read(low: str, high: str, tmp_path: Path) -> None:
    """None of them is left out in silence."""
    told = {"columns": [{"name": "age", "type": "integer", low: 0, high: 99}]}
    (tmp_path / "d.json").write_text(json.dumps(told))
    column = plain(translate_description(tmp_path / "d.json"))["columns"]["age"]
    assert (column["lower"], column["upper"]) == ("0", "99")


def test_init_from_command(tmp_path: Path) -> None:
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
