"""Table schemas and release files: defaults, bounds, and JSON Schemas that do not drift."""

from __future__ import annotations

import json
from fractions import Fraction
from pathlib import Path
from typing import Any

import jsonschema
import pytest
import yaml

from dprelease.documents import json_schemas as json_schema
from dprelease.errors import DpReleaseError
from dprelease.schema.load import read_declaration, read_table, table_from_mapping
from dprelease.schema.table import Table

ROOT = Path(__file__).parents[2]
READY = sorted((ROOT / "schemas").glob("*.yaml"))


def table(columns: dict[str, Any], **more: Any) -> Table:
    return table_from_mapping({"table": "t", "columns": columns, **more}, Path()).table


@pytest.mark.parametrize("path", READY, ids=lambda path: path.stem)
def test_ready_schemas_load(path: Path) -> None:
    declared = read_table(path).table
    assert declared.source is not None
    assert len(declared.columns) >= 7


def test_json_schemas_do_not_drift(tmp_path: Path) -> None:
    json_schema.write_schemas(tmp_path)
    for path in tmp_path.iterdir():
        assert path.read_text() == (ROOT / "schemas" / "json" / path.name).read_text(), (
            "run `make schemas`"
        )
    ready = {path.name for path in (ROOT / "schemas" / "json").iterdir()}
    assert {path.name for path in tmp_path.iterdir()} == ready


def test_examples_fit_their_json_schemas() -> None:
    for kind, paths in {
        "table": [*READY, *ROOT.glob("examples/*/schemas/*.yaml")],
        "release": list(ROOT.glob("examples/*/release.yaml")),
    }.items():
        schema = json.loads((ROOT / "schemas" / "json" / f"{kind}.schema.json").read_text())
        assert paths
        for path in paths:
            jsonschema.validate(
                json.loads(json.dumps(yaml.safe_load(path.read_text()), default=str)), schema
            )


@pytest.mark.parametrize(
    ("source", "reason"),
    [
        ({"path": "s3a://id:word@bucket/t.parquet"}, "password"),
        ({"path": "s3a://bucket/t.csv"}, "s3a"),
        ({"path": "s3a://bucket/t"}, "s3a"),
        ({"path": "t.parquet", "frame": "t"}, "a path and a frame"),
        ({"path": "t.parquet", "table": "t"}, "DuckDB"),
        ({"path": "t.duckdb"}, "DuckDB"),
        ({"table": "db.t", "format": "csv"}, "does not say where"),
        ({}, "declare a path"),
    ],
)
def test_incomplete_and_contradicting_sources_are_refused(
    source: dict[str, Any], reason: str
) -> None:
    with pytest.raises(DpReleaseError, match=reason) as found:
        table({"a": {"type": "integer", "lower": 0, "upper": 1}}, source=source)
    assert found.value.code == "DP-SCHEMA-011"


def test_sources_of_spark() -> None:
    columns = {"a": {"type": "integer", "lower": 0, "upper": 1}}
    for source in (
        {"table": "db.t"},
        {"path": "s3a://bucket/t", "format": "parquet"},
        {"path": "abfss://container@account.example/t.parquet"},
    ):
        declared = table(columns, source=source).source
        assert declared is not None
        assert declared.is_only_for_spark
    local = table(columns, source="c/t.parquet").source
    assert local is not None
    assert not local.is_only_for_spark


@pytest.mark.parametrize(
    ("lower", "upper", "step"),
    [
        ("0", "200000", "0.1"),
        ("0", "1", "0.0000001"),
        ("-5", "5", "0.000001"),
        ("1000000", "1000001", "0.1"),
        ("0", "0", "1"),
        ("-1e9", "0", "100"),
    ],
)
def test_default_step_follows_from_bounds(lower: str, upper: str, step: str) -> None:
    lattice = table({"x": {"type": "number", "lower": lower, "upper": upper}}).columns["x"].lattice
    assert lattice.step == Fraction(step)
    assert lattice.lower * lattice.step <= Fraction(lower)
    assert lattice.upper * lattice.step >= Fraction(upper)


def test_cut_labels() -> None:
    columns = {
        "n": {"type": "integer"},
        "whole": {"cut": "n", "edges": [0, 1, 18, 65]},
        "parts": {"cut": "n", "edges": ["0.5", 1, 2]},
    }
    declared = table(columns).columns
    assert declared["whole"].values == ("0", "1-17", "18-64")
    assert declared["parts"].values == ("[0.5, 1)", "[1, 2)")


@pytest.mark.parametrize(
    "name",
    ["../x", "a/b", "a.b", "", "con", "NUL", "1a", "a b", "ｘ", "a\n", "x" * 64, "a;b", 'a"b'],
)
def test_invalid_file_names_are_refused(name: str, tmp_path: Path) -> None:
    """(V67)"""
    text = (ROOT / "examples" / "nist_acs" / "release.yaml").read_text()
    spec = yaml.safe_load(text)
    spec["queries"] = {name: spec["queries"]["persons"]}
    spec["tables"] = [str(ROOT / "examples" / "nist_acs" / "schemas" / "persons.yaml")]
    (tmp_path / "release.yaml").write_text(yaml.safe_dump(spec))
    with pytest.raises(DpReleaseError, match="DP-DECL-005"):
        read_declaration(tmp_path / "release.yaml")


@pytest.mark.parametrize(
    "output", ["../out", "/tmp/out", "a/../../b", "C:\\out", "~/out", ".", "a\\..\\b"]
)
def test_outputs_outside_the_folder_are_refused(output: str, tmp_path: Path) -> None:
    text = (ROOT / "tests" / "bad" / "DP-RELEASE-003_output_outside_the_folder.yaml").read_text()
    (tmp_path / "good.table.yaml").write_text(
        (ROOT / "tests" / "bad" / "good.table.yaml").read_text()
    )
    (tmp_path / "release.yaml").write_text(text.replace("../out", json.dumps(output)))
    with pytest.raises(DpReleaseError, match="DP-RELEASE-003"):
        read_declaration(tmp_path / "release.yaml")


@pytest.mark.parametrize(
    "number",
    [
        ".nan",
        ".inf",
        "-.inf",
        "1e400000",
        "1_000",
        "0x1f",
        "one",
        "true",
        "1e9999",
        "[1]",
        "{a: 1}",
    ],
)
def test_nan_and_infinity_are_refused(number: str, tmp_path: Path) -> None:
    """(V45)"""
    (tmp_path / "t.yaml").write_text(
        f"table: t\ncolumns:\n  x: {{type: number, lower: 0, upper: {number}}}\n"
    )
    with pytest.raises(DpReleaseError, match=r"DP-DECL-00[34]"):
        read_table(tmp_path / "t.yaml")


def test_values_files_may_start_with_a_byte_order_mark(tmp_path: Path) -> None:
    (tmp_path / "v.csv").write_bytes("\ufeffcode\nÄ\nb\n".encode())
    (tmp_path / "t.yaml").write_text(
        "table: t\ncolumns:\n  k: {type: category, values_from: v.csv}\n"
    )
    assert read_table(tmp_path / "t.yaml").table.columns["k"].values == ("Ä", "b")


@pytest.mark.parametrize("where", ["date", "timestamp", "date_format", "timestamp_format"])
@pytest.mark.parametrize(
    "layout", ["dd/mm/yyyy", "yyyy-MM-dd", "%d/%m", "%H:%M", "%d.%m.yyyy", "", "%q", "%Y %z"]
)
def test_date_formats_without_year_are_refused(where: str, layout: str) -> None:
    """No text would ever be read by them: every row would count as missing, without a word."""
    source, column = {"path": "t.csv"}, {"type": "date"}
    if "_" in where:
        source[where] = layout
    else:
        column = {"type": where, "format": layout}
    with pytest.raises(DpReleaseError, match=r"%Y is the year"):
        table({"a": column}, source=source)


def test_duplicate_values_are_named_together(tmp_path: Path) -> None:
    """So that users can fix all of them at once."""
    path = tmp_path / "t.yaml"
    for number, named in [(2, "'v0', 'v1' twice"), (7, "'v0', 'v1', 'v2', 'v3', 'v4' and 2 more")]:
        values = ", ".join([*[f"v{i}" for i in range(number)] * 2, "apart"])
        path.write_text(f"table: t\ncolumns:\n  k: {{type: category, values: [{values}]}}\n")
        with pytest.raises(DpReleaseError, match=f"DP-SCHEMA-003.*'k' has {named}"):
            read_table(path)


@pytest.mark.parametrize("way", ["values", "values_from", "labels"])
def test_duplicate_value_is_named(way: str, tmp_path: Path) -> None:
    """In a file of a million values nobody finds it by hand."""
    (tmp_path / "v.csv").write_text("k\na\nbee\nc\nbee\n")
    column = {
        "values": "{type: category, values: [a, bee, c, bee]}",
        "values_from": "{type: category, values_from: v.csv}",
        "labels": "{cut: n, edges: [0, 1, 2, 3], labels: [bee, a, bee]}",
    }[way]
    path = tmp_path / "t.yaml"
    number = "{type: integer, lower: 0, upper: 9}"
    path.write_text(f"table: t\ncolumns:\n  k: {column}\n  n: {number}\n")
    with pytest.raises(DpReleaseError, match=r"DP-SCHEMA-003.*'k' has 'bee' twice"):
        read_table(path)


def test_empty_list_item_is_reported_at_its_area(tmp_path: Path) -> None:
    """It was said to be a list, and told at the column."""
    path = tmp_path / "t.yaml"
    state = "  state: {type: category, values: [CT, ME]}\n"
    county = "  county: {type: category, within: state, values: {CT: [a], ME: [b, null]}}\n"
    path.write_text(f"table: t\ncolumns:\n{state}{county}")
    with pytest.raises(DpReleaseError) as raised:
        read_table(path)
    assert "columns.county.values.ME" in str(raised.value)
    assert "it must be a text, not an empty value (null)" in str(raised.value)
    age = "  age: {type: integer, lower: 0, upper: [9]}\n"
    cut = "  of: {cut: age, edges: [0, null, 9]}\n"
    path.write_text(f"table: t\ncolumns:\n{age}{cut}")
    with pytest.raises(DpReleaseError) as raised:
        read_table(path)
    assert "decimal number: it is an empty value (null)" in str(raised.value)
    assert "decimal number: it is a list" in str(raised.value)


@pytest.mark.parametrize(
    ("nulls", "problem"),
    [
        ("[]", "it must be a list of texts"),
        ("[NA, b]", "'b' is missing there, and a declared value of 'k'"),
        ("['', NA]", None),
        ("['']", None),
    ],
)
def test_invalid_nulls_of_a_source_are_refused(
    nulls: str, problem: str | None, tmp_path: Path
) -> None:
    """The cell of such a value would be empty, in silence, and no list at all was an odd file."""
    path = tmp_path / "t.yaml"
    source = f"{{path: t.csv, nulls: {nulls}}}"
    column = "{type: category, values: ['', a, b]}"
    path.write_text(f"table: t\nsource: {source}\ncolumns:\n  k: {column}\n")
    if problem is None:
        assert read_table(path).table.columns
        return
    with pytest.raises(DpReleaseError) as raised:
        read_table(path)
    assert "source.nulls" in str(raised.value)
    assert problem in str(raised.value)
