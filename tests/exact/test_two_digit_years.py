"""Years of two digits mean a year of the hundred that end with the declared pivot, everywhere."""

from __future__ import annotations

import json
from datetime import date, timedelta
from itertools import product
from pathlib import Path
from typing import Any

import pandas as pd
import pyarrow as pa
import pytest

from dprelease.errors import DpReleaseError
from dprelease.exact.duckdb import Engine
from dprelease.schema.load import table_from_mapping
from tests.exact.build import ask, declare

PIVOTS = (1899, 1900, 1968, 1969, 1999, 2000, 2025, 2068, 2099, 2100)
LAYOUTS = ("%d.%m.%y", "%m/%d/%y", "%y%m%d", "%y-%m-%d", "%d %b %y")


def days_by_text(layout: str, pivot: int) -> dict[str, date]:
    """Return the one day in the hundred years up to the pivot that each text means."""
    days = (date(pivot - 99, 1, 1) + timedelta(days=n) for n in range(36_600))
    return {day.strftime(layout): day for day in days if day.year <= pivot}


@pytest.mark.each
@pytest.mark.parametrize(("pivot", "layout"), list(product(PIVOTS, LAYOUTS)))
def test_two_digit_years_end_with_the_pivot(pivot: int, layout: str) -> None:
    """For all texts of a hundred years; 29 February exists only in leap years."""
    known = days_by_text(layout, pivot)
    texts = [date(2000 + i, 7, 15).strftime(layout) for i in range(100)]
    texts += [date(year, 2, 29).strftime(layout) for year in (2000, 2004, 2096)]
    texts += ["99.99.99", "15.07.2001", ""]
    first, last = date(pivot - 99, 1, 1), date(pivot, 12, 31)
    column = {"type": "date", "format": layout, "pivot": pivot, "lower": first, "upper": last}
    declared = declare({"d": {key: str(value) for key, value in column.items()}})
    query = ask(declared, {"n": {"count": "*"}}, ["d"])
    wanted = [0] * ((last - first).days + 1)
    for text in texts:
        if text in known:
            wanted[(known[text] - first).days] += 1
    with Engine.open(declared, pa.table({"d": texts})) as engine:
        assert engine.run(query).vector("n").tolist() == wanted
    assert sum(wanted) >= 102


@pytest.mark.parametrize("pivot", [1968, 2025, 2099])
def test_dates_stored_as_numbers_use_the_pivot(pivot: int) -> None:
    """A number has lost the leading zeros of its year."""
    declared = declare({"d": {"type": "date", "format": "%y%m%d", "pivot": pivot}})
    year = pivot - (pivot - 1) % 100  # ends with 01
    query = ask(declared, {"n": {"count": "*"}}, where=f"d = DATE '{year}-02-03'")
    with Engine.open(declared, pa.table({"d": pa.array([10203, 10204, None])})) as engine:
        assert engine.run(query).vector("n").tolist() == [1]
    ordinal = declare({"d": {"type": "date", "format": "%y%j", "pivot": pivot}})
    days = [date(pivot, 1, 1) + timedelta(days=n - 1) for n in (59, 60, 365)]
    for n, day in zip((59, 60, 365), days, strict=True):
        asked = ask(ordinal, {"n": {"count": "*"}}, where=f"d = DATE '{day}'")
        with Engine.open(ordinal, pa.table({"d": [f"{pivot % 100:02}{n:03}"]})) as engine:
            assert engine.run(asked).vector("n").tolist() == [1], day


TEXTS = ["31.12.99", "01.02.03", "30.06.26", "30.06.25", "", "x"]
COLUMNS: dict[str, Any] = {"d": {"type": "date"}, "t": {"type": "timestamp"}}


def sources(folder: Path) -> list[tuple[dict[str, Any] | None, object]]:
    frame = pd.DataFrame({"d": TEXTS, "t": [f"{text} 10:30" for text in TEXTS]})
    frame.to_csv(folder / "t.csv", index=False)
    lines = [json.dumps(row) for row in frame.to_dict("records")]
    (folder / "t.jsonl").write_text("\n".join([*lines, ""]))
    formats = {"date_format": "%d.%m.%y", "timestamp_format": "%d.%m.%y %H:%M", "pivot": 2025}
    return [
        ({"path": str(folder / "t.csv"), **formats}, None),
        ({"path": str(folder / "t.jsonl"), **formats}, None),
        (None, frame),
        (None, pa.Table.from_pandas(frame)),
    ]


def test_formats_of_source_and_column_are_equivalent(tmp_path: Path) -> None:
    own = {
        "d": {"type": "date", "format": "%d.%m.%y", "pivot": 2025},
        "t": {"type": "timestamp", "format": "%d.%m.%y %H:%M", "pivot": 2025},
    }
    for source, frame in sources(tmp_path):
        declared = declare(own) if source is None else declare(COLUMNS, source=source)
        found = []
        for day in ("1999-12-31", "2003-02-01", "1926-06-30", "2025-06-30", "2026-06-30"):
            with Engine.open(declared, frame) as engine:
                for where in (f"d = DATE '{day}'", f"t = TIMESTAMP '{day} 10:30:00'"):
                    query = ask(declared, {"n": {"count": "*"}}, where=where)
                    found.append(int(engine.run(query).vector("n")[0]))
        assert found == [1, 1, 1, 1, 1, 1, 1, 1, 0, 0]


CSV = {"path": "t.csv"}


@pytest.mark.parametrize(
    ("source", "column", "code", "key"),
    [
        (CSV, {"format": "%d.%m.%y"}, "DP-YEAR-001", "columns.d.format"),
        ({**CSV, "date_format": "%d.%m.%y"}, {}, "DP-YEAR-001", "source.date_format"),
        (CSV, {"format": "%d.%m.%Y", "pivot": 2025}, "DP-YEAR-002", "columns.d.pivot"),
        ({**CSV, "pivot": 2025}, {}, "DP-YEAR-002", "source.pivot"),
        ({**CSV, "pivot": 2025}, {"format": "%d.%m.%y"}, "", ""),
        ({**CSV, "pivot": 2025, "date_format": "%y%m%d"}, {}, "", ""),
        ({"path": "t.parquet"}, {"format": "%d.%m.%y"}, "DP-YEAR-001", "columns.d.format"),
        ({"path": "t.parquet", "pivot": 2025}, {}, "DP-SCHEMA-014", "source.pivot"),
        (CSV, {"format": "%d.%m.%y", "pivot": 25}, "DP-DECL-003", "columns.d.pivot"),
    ],
)
def test_two_digit_years_need_a_pivot(
    source: dict[str, Any], column: dict[str, Any], code: str, key: str, tmp_path: Path
) -> None:
    values = {"table": "t", "source": source, "columns": {"d": {"type": "date", **column}}}
    if not code:
        read = table_from_mapping(values, tmp_path).table.columns["d"]
        assert getattr(read, "pivot", None) == 2025
        return
    with pytest.raises(DpReleaseError, match=code) as raised:
        table_from_mapping(values, tmp_path)
    assert raised.value.place.key == key


def test_computed_two_digit_years_need_a_pivot() -> None:
    text = declare({"s": {"type": "text"}})
    derived = {"d": {"type": "date", "expression": "s", "format": "%d.%m.%y"}}
    with pytest.raises(DpReleaseError, match="DP-YEAR-001"):
        ask(text, {"n": {"count": "*"}}, derive=derived)
