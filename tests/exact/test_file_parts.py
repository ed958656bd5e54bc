"""Files of several years are one table: each with its own names, codes, encoding and format."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
import yaml

import dprelease
from dprelease.errors import DpReleaseError
from dprelease.exact.duckdb import Engine
from dprelease.planning.declaration_findings import single_errors
from dprelease.query.resolve import resolve
from dprelease.query.unread import unreadable_table_errors
from dprelease.schema.load import read_declaration, read_table
from tests.exact.build import ask, declare, exact

AREAS = ["103", "111", "Évry"]
COLUMNS: dict[str, Any] = {
    "id": {"type": "integer"},
    "sex": {"type": "category", "values": ["m", "f"]},
    "age": {"type": "integer", "lower": 0, "upper": 100},
    "area": {"type": "category", "values": AREAS},
    "day": {"type": "date", "lower": "2019-01-01", "upper": "2021-12-31"},
    "year": {"type": "integer", "lower": 2019, "upper": 2021},
}
FILES: list[dict[str, Any]] = [
    {
        "path": "first.csv",
        "encoding": "latin-1",
        "delimiter": ";",
        "date_format": "%d.%m.%Y",
        "columns": {"sex": "SEXE", "area": "commune"},
        "constants": {"year": 2019},
        "codes": {"area": "codes.csv", "sex": {1: "m", 2: "f"}},
    },
    {"path": "second.dat", "format": "fixed_width", "constants": {"year": 2020}},
    {"path": "third.parquet", "columns": {"sex": None, "age": "Age"}, "constants": {"year": 2021}},
]
PLACES = {"id": [1, 3], "sex": [4, 4], "age": [5, 7], "area": [8, 11], "day": [12, 21]}
CODES = "old,new\n101,111\n102,111\nEvry,Évry\n"
CHANGED = {"101": "111", "102": "111", "Evry": "Évry"}


def rows() -> list[dict[str, Any]]:
    """Return rows of 60 people, each in one to three years, with old codes in the first year."""
    found = []
    for i in range(150):
        year, areas = 2019 + i % 3, ["101", "102", "Évry", "Evry", "103", "999"]
        found.append(
            {
                "id": i % 60 if i % 7 else i % 5,
                "sex": "mf?"[i * i % 3],
                "age": i % 90,
                "area": areas[i % 6] if year == 2019 else [*AREAS, "999"][i % 4],
                "day": f"{year}-{1 + i % 12:02}-{1 + i % 27:02}",
                "year": year,
            }
        )
    return found


def write(folder: Path) -> list[dict[str, Any]]:
    """Write the rows of each year into a file of its own; return them as the table means them."""
    table = pd.DataFrame(rows())
    old, middle, new = (table[table.year == year] for year in (2019, 2020, 2021))
    days = old.day.str.replace(r"(\d+)-(\d+)-(\d+)", r"\3.\2.\1", regex=True)
    first = old.assign(day=days, sex=old.sex.map({"m": "1", "f": "02", "?": "9"}))
    first = first.rename(columns={"sex": "SEXE", "area": "commune"}).drop(columns="year")
    first.to_csv(folder / "first.csv", sep=";", encoding="latin-1", index=False)
    lines = (f"{r.id:3}{r.sex}{r.age:3}{r.area:>4}{r.day}" for r in middle.itertuples())
    (folder / "second.dat").write_text("\n".join(lines))
    numbers = new.assign(Age=new.age.astype(float), day=pd.to_datetime(new.day).dt.date)
    numbers.drop(columns=["sex", "age", "year"]).to_parquet(folder / "third.parquet")
    (folder / "codes.csv").write_text(CODES)
    meant = [{**r, "area": CHANGED.get(r["area"], r["area"]) if r["year"] == 2019 else r["area"]}
             for r in rows()]  # fmt: skip
    return [{**r, "sex": None} if r["year"] == 2021 else r for r in meant]


def schema(folder: Path, *files: dict[str, Any], unit: dict[str, Any] | None = None) -> Path:
    """Write the schema of a table over the files; a change of a file replaces its keys."""
    of_all = [{**one, **change} for one, change in zip(FILES, files or [{}] * 3, strict=True)]
    of_all[1] = {"columns": PLACES, **of_all[1]}
    keys = {"table": "t", "source": {"files": of_all}, "columns": COLUMNS}
    keys |= {} if unit is None else {"privacy_unit": unit}
    path = folder / "t.yaml"
    path.write_text(yaml.safe_dump(keys, allow_unicode=True))
    return path


def test_rows_are_read_by_the_options_of_their_file(tmp_path: Path) -> None:
    meant = write(tmp_path)
    table = read_table(schema(tmp_path))
    for by, values in {
        "area": AREAS, "sex": ["m", "f"], "year": [2019, 2020, 2021],
    }.items():  # fmt: skip
        found = exact(ask(table, {"n": {"count": "*"}, "s": {"sum": "age"}}, [by]), None)
        counts = Counter(one[by] for one in meant)
        assert list(found["n"]) == [counts[value] for value in values], by
        sums = [sum(one["age"] for one in meant if one[by] == value) for value in values]
        assert list(found["s"]) == sums, by
    late = ask(table, {"n": {"count": "*"}}, where="day >= '2019-07-01' AND day < '2021-03-01'")
    assert exact(late, None)["n"][0] == sum("2019-07" <= r["day"] < "2021-03" for r in meant)


def test_contribution_limits_hold_across_file_parts(tmp_path: Path) -> None:
    """In neighbouring tables, too: without the person, no other count changes."""
    meant = write(tmp_path)
    table = read_table(schema(tmp_path, unit={"id": "id", "max_rows": 1}))
    query = ask(table, {"n": {"count": "*"}, "u": {"count": "id"}})
    assert list(exact(query, None)["n"]) == [len({one["id"] for one in meant})]
    limited = read_table(
        schema(tmp_path, unit={"id": "id", "max_groups": 2, "max_rows_per_group": 1})
    )
    years = exact(ask(limited, {"n": {"count": "*"}}, ["year"]), None)["n"]
    has = Counter(person for person, _ in {(one["id"], one["year"]) for one in meant})
    assert sum(years) == sum(min(2, groups) for groups in has.values()) < 150


def open_source(path: Path) -> None:
    """Open the source of a schema, without reading a row."""
    with Engine.open(read_table(path)):
        pass


@pytest.mark.parametrize(
    ("change", "code"),
    [
        ({"columns": {"sex": "SEXE", "area": "comune"}}, "DP-DATA-024"),  # which the file lacks
        ({"columns": {"sexes": "SEXE"}}, "DP-DECL-003"),
        ({"columns": {"sex": "commune", "area": "commune"}}, "DP-DECL-003"),
        ({"columns": {"sex": [1, 2], "area": "commune"}}, "DP-DECL-003"),
        ({"columns": {"id": None}}, "DP-DECL-003"),
        ({"constants": {"year": 2030}}, "DP-DECL-003"),
        ({"constants": {"day": "2019-01-01"}}, "DP-DECL-003"),
        ({"codes": {"id": {1: 2}}}, "DP-DECL-003"),
        ({"codes": {"area": {"file": "twice.csv"}}}, "DP-DECL-003"),
        ({"codes": {"sex": {1: "M", 2: "f"}}}, "DP-DECL-003"),  # the declared value is m
        ({"codes": {"area": "none.csv"}}, "DP-SCHEMA-004"),
        ({"codes": {"area": {"file": "twice.csv", "old": "code"}}}, "DP-SCHEMA-004"),
        ({"codes": {"area": {"file": "twice.csv", "new": [1]}}}, "DP-DECL-003"),
        ({"codes": {"area": {"file": "same.csv", "old": "new"}}}, "DP-DECL-003"),
        ({"path": "third.parquet", "format": "parquet"}, "DP-SCHEMA-014"),
        ({"path": "t.sqlite", "table": "t"}, "DP-SCHEMA-014"),
        ({"path": "none.csv"}, "DP-DATA-001"),
        ({"date_format": "%d.%m.%y"}, "DP-YEAR-001"),
    ],
)
def test_wrong_file_parts_are_refused_before_reading(
    change: dict[str, Any], code: str, tmp_path: Path
) -> None:
    write(tmp_path)
    (tmp_path / "twice.csv").write_text("old,new\n1,2\n1,3\n")
    (tmp_path / "same.csv").write_text("old,new\n1,111\n")
    with pytest.raises(DpReleaseError) as caught:
        open_source(schema(tmp_path, change, {}, {}, unit={"id": "id", "max_rows": 1}))
    assert code in [one.code for one in single_errors(caught.value)]


def test_columns_of_a_correspondence_table_have_any_names(tmp_path: Path) -> None:
    """A table of another office has more columns, and names of its own for both."""
    write(tmp_path)
    lines = [
        "Nr;Code 2020;Code 2019",
        *(f"{i};{b};{a}" for i, (a, b) in enumerate(CHANGED.items())),
    ]
    (tmp_path / "office.csv").write_text("\n".join(lines), encoding="latin-1")
    keys = {"delimiter": ";", "encoding": "latin-1", "old": "Code 2019", "new": "Code 2020"}
    change = {"codes": {**FILES[0]["codes"], "area": {"file": "office.csv", **keys}}}
    for one in ({}, change):
        source = read_table(schema(tmp_path, one, {}, {})).table.source
        assert source is not None
        assert source.files[0].codes["area"] == CHANGED


def test_files_listed_twice_are_refused(tmp_path: Path) -> None:
    """By whatever name: a pattern counts it once, and `files` with two of its names are refused."""
    for ending in ("csv", "parquet"):
        frame, first = pd.DataFrame({"x": [1, 2, 3]}), tmp_path / f"first.{ending}"
        frame.to_csv(first, index=False) if ending == "csv" else frame.to_parquet(first)
        (tmp_path / f"hard.{ending}").hardlink_to(first)
        (tmp_path / f"soft.{ending}").symlink_to(first)
        assert count_of([f"*.{ending}"], tmp_path) == 3
        for path in (first.name, f"fir*.{ending}", f"./{first.name}", first, f"hard.{ending}"):
            with pytest.raises(DpReleaseError, match="DP-DATA-024"):
                count_of([first.name, path], tmp_path)
            with pytest.raises(DpReleaseError, match="DP-DATA-024"):
                count_of([path, f"soft.{ending}"], tmp_path)


def test_a_sheet_is_read_once(tmp_path: Path) -> None:
    """A workbook with one sheet needs no name of it."""
    one, two = {"path": "one.xlsx"}, {"path": "two.xlsx"}
    for book, names in ((one, ["S"]), (two, ["S", "T"])):
        with pd.ExcelWriter(tmp_path / book["path"]) as writer:
            for name in names:
                pd.DataFrame({"x": [1, 2, 3]}).to_excel(writer, sheet_name=name, index=False)
    assert count_of([{**two, "sheet": "S"}, {**two, "sheet": "T"}, one], tmp_path) == 9
    for files in (
        [one, one],
        [one, {**one, "sheet": "S"}],
        [{**one, "sheet": "S"}, one],
        [two, {**two, "sheet": "T"}],
        [{**two, "sheet": "T"}, {**two, "sheet": "T"}],
    ):
        with pytest.raises(DpReleaseError, match="DP-DATA-024"):
            count_of(files, tmp_path)


@pytest.mark.parametrize(
    ("of_all", "zones"),
    [
        ("UTC", ["Europe/Zurich", None]),
        ("Asia/Tokyo", ["UTC", None]),
        ("Europe/Zurich", ["UTC"] * 2),
    ],
)
def test_times_are_those_of_the_zone_of_their_file(
    of_all: str, zones: list[str | None], tmp_path: Path
) -> None:
    """As texts and as stored times, for dates too: 23 h in UTC is 0 h in Zurich, and 8 h in Tokyo."""
    time = pd.Timestamp("2024-01-01T23:30:00Z")
    text = pd.DataFrame({"t": [time.isoformat()], "d": [time.isoformat()]})
    text.to_csv(tmp_path / "a.csv", index=False)
    pd.DataFrame({"t": [time], "d": [time]}).to_parquet(tmp_path / "b.parquet")
    bounds = {"lower": "2023-01-01", "upper": "2025-01-01"}
    columns = {"t": {"type": "timestamp", **bounds}, "d": {"type": "date", **bounds}}
    files = [
        {"path": str(tmp_path / name), **({"time_zone": zone} if zone else {})}
        for name, zone in zip(("a.csv", "b.parquet"), zones, strict=True)
    ]
    table = declare(columns, source={"files": files, "time_zone": of_all})
    hours = [{"UTC": 23, "Europe/Zurich": 0, "Asia/Tokyo": 8}[zone or of_all] for zone in zones]
    conditions = {"d = '2024-01-02'": 2 - hours.count(23), "hour(t) = 0": hours.count(0)}
    for where, count in conditions.items():
        assert exact(ask(table, {"n": {"count": "*"}}, where=where), None)["n"].tolist() == [count]


def test_codes_are_changed_before_missing_values_are_found(tmp_path: Path) -> None:
    """So `missing` has new codes: an old code that is also one of them keeps its new value."""
    (tmp_path / "a.csv").write_text("k,t\n" + "".join(f"{c},{c}\n" for c in "1998887"))
    changes = {"1": "m", "9": "f", "8": "9"}
    source = {"path": str(tmp_path / "a.csv"), "codes": {"k": changes, "t": changes}}
    category = {"type": "category", "values": ["m", "f"], "missing": ["9"]}
    columns = {"k": category, "t": {"type": "text", "missing": ["9"]}}
    query = ask(declare(columns, source=source), {"n": {"count": "*"}, "c": {"count": "t"}}, ["k"])
    found = exact(query, None)
    assert [found[name].tolist() for name in ("n", "c")] == [[1, 2], [1, 2]]
    total = exact(ask(declare(columns, source=source), {"c": {"count": "t"}}), None)
    assert total["c"].tolist() == [4]


def count_of(files: list[Any], folder: Path) -> int:
    """Return the number of rows of files in a folder."""
    table = {"table": "t", "source": {"files": files}, "columns": {"x": {"type": "integer"}}}
    (folder / "files.yaml").write_text(json.dumps(table, default=str))
    query = ask(read_table(folder / "files.yaml"), {"n": {"count": "*"}})
    return int(exact(query, None)["n"][0])


def test_release_of_file_parts_is_verified(tmp_path: Path) -> None:
    """It is verified from its files alone; Spark refuses such a table."""
    meant = write(tmp_path)
    schema(tmp_path)
    release = {
        "title": "Years",
        "tables": ["t.yaml"],
        "budget": {"epsilon": 100},
        "queries": {"by": {"from": "t", "group_by": ["area"], "columns": {"n": {"count": "*"}}}},
        "output": "out",
    }
    path = tmp_path / "release.yaml"
    path.write_text(yaml.safe_dump(release))
    dprelease.run(path)
    counts = Counter(one["area"] for one in meant)
    assert list(pd.read_parquet(tmp_path / "out" / "by.parquet")["n"]) == [counts[a] for a in AREAS]
    (treatment,) = json.loads((tmp_path / "out" / "manifest.json").read_text())["treatments"]
    assert treatment["columns"]["area"].endswith("3 codes of 'first.csv'")
    (tmp_path / "codes.csv").unlink()
    assert dprelease.verify(tmp_path / "out").ok
    write(tmp_path)
    (query,) = resolve(read_declaration(path))
    assert query.table.parts
    path.write_text(yaml.safe_dump({**release, "engine": "spark"}))
    declaration = read_declaration(path)
    assert [e.code for e in unreadable_table_errors(declaration, [query])] == ["DP-SPARK-001"]
