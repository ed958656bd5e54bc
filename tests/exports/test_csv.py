"""CSV: every value as in Parquet, for common readers; with CSVW metadata."""

from __future__ import annotations

import csv
import io
import json
import math
import re
from datetime import date
from decimal import Decimal
from pathlib import Path
from urllib.parse import unquote

import duckdb
import pandas as pd
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dprelease.documents.metadata import Role
from dprelease.exports.csv_tables.csv_files import EXPORT, csv_lines
from dprelease.exports.csv_tables.csvw import uri_template_name
from dprelease.exports.layout import LayoutColumn
from tests.exports.build import column, handmade_release, key

KINDS = {
    pa.int64(): st.integers(-(2**63), 2**63 - 1),
    pa.string(): st.text(st.characters(exclude_categories=["Cs"]), max_size=8)
    | st.sampled_from(['"', "a,b", "\r\n", " x", "", "=1+1", "-", "\t", "NULL", "nan"]),
    pa.bool_(): st.booleans(),
    pa.date32(): st.dates(),
    pa.float64(): st.floats(allow_nan=False, allow_infinity=False),
    pa.decimal128(38, 2): st.decimals(-(10**35), 10**35, places=2),
    pa.decimal128(38, 17): st.decimals(-(10**20), 10**20, places=17),
    pa.decimal128(38, 0): st.integers(-(10**37), 10**37).map(Decimal),
}
NULLABLE = [kind for kind in KINDS if kind != pa.string()]


@st.composite
def tables(draw: st.DrawFn) -> pa.Table:
    """Return a table of any kinds of columns, whose numbers may be missing."""
    kinds = draw(st.lists(st.sampled_from([*KINDS]), min_size=1, max_size=5))
    rows = draw(st.integers(0, 6))
    arrays = []
    for kind in kinds:
        value = KINDS[kind] if kind == pa.string() else KINDS[kind] | st.none()
        values = draw(st.lists(value, min_size=rows, max_size=rows))
        arrays.append(pa.array(values, type=kind))
    return pa.Table.from_arrays(arrays, names=[f"c{i}" for i in range(len(kinds))])


def read_back(text: str, kind: pa.DataType) -> object:
    """Return the value that a field says."""
    if text == "" and kind != pa.string():
        return None
    if kind == pa.bool_():
        return {"true": True, "false": False}[text]
    if pa.types.is_date(kind):
        return date.fromisoformat(text)
    if pa.types.is_decimal(kind):
        assert "e" not in text.lower()
        return Decimal(text)
    return {pa.int64(): int, pa.float64(): float}.get(kind, str)(text)


@given(tables())
def test_csv_keeps_every_value(table: pa.Table) -> None:
    """To the last digit, read by Python's csv module; line ends follow RFC 4180."""
    raw = b"".join(csv_lines(table.column_names, table.to_batches()))
    assert raw.endswith(b"\r\n")
    head, *rows = csv.reader(io.StringIO(raw.decode(), newline=""))
    assert head == table.column_names
    told = [
        {
            name: read_back(text, table.schema.field(name).type)
            for name, text in zip(head, row, strict=True)
        }
        for row in rows
    ]
    assert told == table.to_pylist()
    zeros = [value for value in table.to_pydict().values() for value in value if value == 0.0]
    assert all(math.copysign(1, zero) in (1, -1) for zero in zeros if isinstance(zero, float))


def hard() -> tuple[pa.Table, list[object]]:
    """Return a table of extremes with hostile keys, and what is said of its columns."""
    keys = ["", "a,b", 'say "x"', "=1+1", "né\u202e", " x ", "01", "NULL"]
    table = pa.table(
        {
            "key": pa.array(keys),
            "day": pa.array([date(1900, 1, 1)] * 8),
            "whole": pa.array([2**63 - 1, -(2**63), 0, None, 2**53 + 1, 1, -1, 10]),
            "exact": pa.array(
                [Decimal("0.00000000000000001"), None, *map(Decimal, range(6))],
                pa.decimal128(38, 17),
            ),
            "real": pa.array(
                [0.1 + 0.2, 1e300, -0.0, None, 5e-324, 1 / 3, 1e22, 123456789.123456789]
            ),
            "is": pa.array([True, False] * 4),
        }
    )
    told = [
        key(
            "key", pa.string(), keys, labels={"01": {"en": "=cmd|' /C calc'!A0", "fr": "Un, deux"}}
        ),
        key("day", pa.date32(), [date(1900, 1, 1)]),
        column("whole", pa.int64()),
        column("exact", pa.decimal128(38, 17), Role.MARGIN, "whole"),
        column("real", pa.float64()),
        column("is", pa.bool_(), Role.FLAG, "whole"),
    ]
    return table, told


@pytest.fixture
def exported_csv(tmp_path: Path) -> Path:
    table, told = hard()
    release = handmade_release(tmp_path, [("hard", table, told)], languages=("en", "fr"))
    files = EXPORT.write(release, tmp_path)
    assert files == ["csv/codes/key.csv", "csv/hard.csv", "csv/hard.csv-metadata.json"]
    return tmp_path / "csv/hard.csv"


def test_duckdb_pandas_and_polars_read_csv(exported_csv: Path) -> None:
    """With the types of the metadata, all read the values of Parquet."""
    table, _ = hard()
    wanted = table.to_pylist()
    types = "{'key': 'VARCHAR', 'day': 'DATE', 'whole': 'BIGINT', 'exact': 'DECIMAL(38, 17)', 'real': 'DOUBLE', 'is': 'BOOLEAN'}"
    found = duckdb.sql(
        f"SELECT * FROM read_csv('{exported_csv}', columns={types}, nullstr='', force_not_null=['key'])"
    )
    assert found.to_arrow_table().to_pylist() == wanted
    frame = pd.read_csv(
        exported_csv,
        dtype={"key": str, "whole": "Int64", "exact": str},
        keep_default_na=False,
        na_values={"whole": [""], "exact": [""]},
        converters={"real": lambda v: float(v) if v else None},  # to the bit in any version
    )
    assert frame["key"].tolist() == table["key"].to_pylist()
    assert [None if pd.isna(v) else int(v) for v in frame["whole"]] == table["whole"].to_pylist()
    assert [None if pd.isna(v) else float(v) for v in frame["real"]] == table["real"].to_pylist()
    polars = pytest.importorskip("polars")
    schema = {
        "key": polars.String,
        "day": polars.Date,
        "whole": polars.Int64,
        "exact": polars.Decimal(38, 17),
        "real": polars.Float64,
        "is": polars.Boolean,
    }
    read = polars.read_csv(exported_csv, schema=schema)
    assert read.to_dicts() == wanted


def test_csvw_has_types_keys_and_codes(exported_csv: Path) -> None:
    """The package csvw validates both files, and reads the same values."""
    from csvw import CSVW

    read = CSVW(str(exported_csv), validate=True)
    assert read.is_valid, read.warnings
    (group,) = [read.t]
    (table,) = [one for one in group.tables if str(one.url) == "hard.csv"]
    told = list(table)
    wanted, _ = hard()
    names = ["whole", "exact", "real", "is"]
    for row, other in zip(told, wanted.to_pylist(), strict=True):
        assert {name: row[name] for name in names} == {name: other[name] for name in names}
        assert row["key"] == other["key"]
    assert group.check_referential_integrity()


def test_csvw_has_labels_and_code_lists(exported_csv: Path) -> None:
    said = json.loads((exported_csv.parent / "hard.csv-metadata.json").read_text())
    table, codes = said["tables"]
    assert table["tableSchema"]["primaryKey"] == ["key", "day"]
    by_name = {one["name"]: one for one in table["tableSchema"]["columns"]}
    assert by_name["exact"]["dc:relation"] == "whole"
    assert by_name["whole"]["datatype"] == "long"
    assert codes["url"] == "codes/key.csv"
    lines = (exported_csv.parent / "codes/key.csv").read_bytes().decode().split("\r\n")
    assert lines[0] == "code,label_en,label_fr"
    assert lines[7] == """01,=cmd|' /C calc'!A0,"Un, deux\""""


@pytest.mark.parametrize("name", ["plain", "Größe / m²", "a.b", "a-b~c", "=1", "%41", "persons.F"])
def test_csvw_names_are_uri_template_names(name: str) -> None:
    """By RFC 6570, as CSVW requires; plain names stay, and distinct names stay distinct."""
    made = uri_template_name(LayoutColumn(name, column(name, pa.int64())))
    assert re.fullmatch(r"(?:[A-Za-z0-9_.]|%[0-9A-F]{2})+", made)
    assert unquote(made) == name
