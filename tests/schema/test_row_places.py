"""Whether two sources may have rows in common: a public one must not be one about people."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from dprelease.schema.load import read_table
from dprelease.schema.source_types.row_places import have_common_rows, places_of


def places(folder: Path, source: Any) -> Any:
    """Return the places of a table with a source."""
    declared = {"table": "t", "source": source, "columns": {"id": {"type": "integer"}}}
    path = folder / "t.yaml"
    path.write_text(json.dumps(declared))
    return places_of(read_table(path))


def excel(sheet: str | None = None, path: str = "p.xlsx") -> dict[str, str]:
    return {"path": path, **({} if sheet is None else {"sheet": sheet})}


def server(address: str, table: str = "people") -> dict[str, str]:
    return {"path": f"postgresql://{address}", "table": table}


SAME: list[tuple[Any, Any]] = [
    ("p.csv", "./x/../p.csv"),
    ("p.csv", "link.csv"),
    ("p.csv", "*.csv"),
    (excel(), excel("S1")),
    (excel("S1"), excel("s1")),
    (excel(), excel(path="./p.xlsx")),
    ("s3://b/p.parquet", "s3a://b/p.parquet"),
    ("s3://b/p.parquet", "s3://b/*.parquet"),
    ("s3://b/x/p.parquet", "s3://b/x/"),
    ("s3://b/x/p.parquet", "s3://b/"),
    ("s3://b/x/*.parquet", "s3://b/**/p.parquet"),
    ("hdfs://n/p.parquet", "hdfs://n:8020/p.parquet"),
    (server("h/db"), server("user@h:5432/db")),
    (server("h/db"), server("H/db", "public.People")),
]
OTHERS: list[tuple[Any, Any]] = [
    ("p.csv", "q.csv"),
    (excel("S1"), excel("S2")),
    ("s3://b/p.parquet", "s3://c/p.parquet"),
    ("s3://b/p.parquet", "s3://b/q.parquet"),
    ("s3://b/x/", "s3://b/xy/p.parquet"),
    (server("h/db"), server("h/other")),
    (server("h/db"), server("h/db", "codes")),
    (server("h:5433/db"), server("h/db")),
]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    for name in ("p.csv", "q.csv", "p.xlsx", "p.parquet"):
        (tmp_path / name).write_text("id\n")
    (tmp_path / "x").mkdir()
    (tmp_path / "link.csv").symlink_to("p.csv")
    return tmp_path


@pytest.mark.parametrize(("one", "other"), SAME)
def test_spellings_of_one_place_overlap(folder: Path, one: Any, other: Any) -> None:
    found = places(folder, one), places(folder, other)
    assert have_common_rows(*found)
    assert have_common_rows(*reversed(found))


@pytest.mark.parametrize(("one", "other"), OTHERS)
def test_different_places_do_not_overlap(folder: Path, one: Any, other: Any) -> None:
    found = places(folder, one), places(folder, other)
    assert not have_common_rows(*found)
    assert not have_common_rows(*reversed(found))


@pytest.mark.parametrize("path", ["p.parquet", "*.parquet", "%70.parquet"])
def test_uris_of_local_files_are_paths(folder: Path, path: str) -> None:
    """As engines read them that take URIs."""
    found = places(folder, f"file://{folder}/{path}")
    assert have_common_rows(found, places(folder, "p.parquet"))
