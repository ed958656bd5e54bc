"""A finding about a source names the column's line in the schema, and the one of several files."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
from typer.testing import CliRunner

from dprelease import cli
from dprelease.errors import DataError
from dprelease.release.api import read_release

SCHEMA = """\
table: people
source: {source}
privacy_unit: {{id: id, max_groups: 1, max_rows_per_group: 1}}
columns:
  id: {{type: text}}
  n: {{type: integer, lower: 0, upper: 9}}
"""
RELEASE = """\
title: People
tables: [people.yaml]
budget: {epsilon: 1}
queries: {q: {from: people, columns: {total: {sum: n}}}}
output: out
"""
ROWS = {"id": ["a", "b"], "n": [1, 2]}
ID = "people.yaml:5  columns.id"
N = "people.yaml:6  columns.n"


def error_message(folder: Path, source: str) -> str:
    """Return the message that a run over a source ends with, without its last lines."""
    (folder / "people.yaml").write_text(SCHEMA.format(source=source), encoding="utf-8")
    (folder / "release.yaml").write_text(RELEASE, encoding="utf-8")
    with pytest.raises(DataError) as caught:
        read_release(folder / "release.yaml").run()
    return "\n".join(str(caught.value).splitlines()[:2])


def write_parquet_file(path: Path, **changed: object) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    pd.DataFrame({**ROWS, **changed}).to_parquet(path)


AT_FAULT: Mapping[str, tuple[dict[str, Any], str]] = {
    "ids in whole numbers": (
        {"id": [1, 2]},
        f"{ID}\nDP-DATA-004  The column 'id' is stored as BIGINT, which can't be read as text: "
        "so it is in 'part_07.parquet'.",
    ),
    "ids in floats": (
        {"id": [1.0, 2.0]},
        f"{ID}\nDP-DATA-005  The id 'id' is stored as a floating-point number: so it is in "
        "'part_07.parquet'.",
    ),
    "a day for a number": (
        {"n": pd.to_datetime(["2020-01-01", "2020-01-02"]).astype("datetime64[us]")},
        f"{N}\nDP-DATA-004  The column 'n' is stored as TIMESTAMP, which can't be read as "
        "integer: so it is in 'part_07.parquet'.",
    ),
    "twins but for their case": (
        {"N": [1, 2]},
        f"{N}\nDP-DATA-003  The source of 'people' has several columns named 'n', or names that "
        "differ only by case: so it is in 'part_07.parquet'.",
    ),
}


@pytest.mark.parametrize(("changed", "message"), AT_FAULT.values(), ids=AT_FAULT)
def test_first_faulty_file_is_named(tmp_path: Path, changed: dict[str, Any], message: str) -> None:
    for i in range(12):
        write_parquet_file(
            tmp_path / f"people/part_{i:02}.parquet", **(changed if i in (7, 9) else {})
        )
    assert error_message(tmp_path, "people/*.parquet") == message


def test_no_file_is_named_if_all_are_faulty(tmp_path: Path) -> None:
    for i in range(3):
        write_parquet_file(tmp_path / f"people/part_{i}.parquet", id=[1, 2])
    cause = "DP-DATA-004  The column 'id' is stored as BIGINT, which can't be read as text."
    assert error_message(tmp_path, "people/") == f"{ID}\n{cause}"


def test_errors_do_not_show_folder_names(tmp_path: Path) -> None:
    for i, state in enumerate(("AK", "NY", "WY")):
        write_parquet_file(
            tmp_path / f"people/state={state}/a.parquet", **({"id": [1, 2]} if i == 1 else {})
        )
    message = error_message(tmp_path, "people/")
    assert message.endswith("so it is in 'a.parquet' (file 2 of 3, in the order of their paths).")
    assert "NY" not in message


def test_errors_of_csv_files_do_not_show_folder_names(tmp_path: Path) -> None:
    for state, names in (("AK", "id,n"), ("NY", "n,id")):
        (tmp_path / state).mkdir()
        (tmp_path / state / "a.csv").write_text(f"{names}\n1,2\n", encoding="utf-8")
    message = error_message(tmp_path, '"*/a.csv"')
    assert "the header of 'a.csv' (file 2 of 2, in the order of their paths) is another" in message
    assert "NY" not in message


def _csv_without(path: Path) -> None:
    path.write_text("id,m\na,1\n", encoding="utf-8")


def _view(path: Path) -> None:
    import duckdb

    with duckdb.connect(str(path)) as link:
        link.execute("CREATE VIEW people AS SELECT 'a' AS id, 1 AS n")


def _sqlite_view(path: Path) -> None:
    import sqlite3

    with sqlite3.connect(path) as link:
        link.execute("CREATE VIEW people AS SELECT 'a' AS id, 1 AS n")


SINGLE: Mapping[str, tuple[Callable[[Path], None], str, str, str]] = {
    "a column that is not there": (_csv_without, "p.csv", "p.csv", f"{N}\nDP-DATA-002"),
    "a view": (_view, "p.duckdb", "{path: p.duckdb, table: people}", "people.yaml:2  source\n"),
    "a view of SQLite": (
        _sqlite_view,
        "p.sqlite",
        "{path: p.sqlite, table: people}",
        "people.yaml:2  source\nDP-DATA-014",
    ),
}


@pytest.mark.parametrize(("write", "name", "source", "start"), SINGLE.values(), ids=SINGLE)
def test_errors_about_a_single_file_have_a_location(
    tmp_path: Path, write: Callable[[Path], None], name: str, source: str, start: str
) -> None:
    write(tmp_path / name)
    assert error_message(tmp_path, source).startswith(start)


def test_error_in_a_joined_table_names_its_schema(tmp_path: Path) -> None:
    """Also if both tables have a column of this name and one is faulty."""
    write_parquet_file(tmp_path / "people.parquet")
    write_parquet_file(tmp_path / "visits.parquet", id=[1, 2])
    for name in ("people", "visits"):
        text = SCHEMA.format(source=f"{name}.parquet").replace("table: people", f"table: {name}")
        text = text.replace("  n:", f"  {name}_n:") if name == "visits" else text
        (tmp_path / f"{name}.yaml").write_text(text, encoding="utf-8")
    joined = RELEASE.replace("[people.yaml]", "[people.yaml, visits.yaml]").replace(
        "from: people,", "from: people, join: {table: visits, on_unit: true},"
    )
    (tmp_path / "release.yaml").write_text(joined, encoding="utf-8")
    done = CliRunner().invoke(cli.app, ["run", str(tmp_path / "release.yaml")])
    assert "visits.yaml:5  columns.id\nDP-DATA-004" in done.output.replace("\r", "")


def test_folder_without_files_is_reported(tmp_path: Path) -> None:
    (tmp_path / "people").mkdir()
    (tmp_path / "people/_unfinished.parquet").touch()
    message = error_message(tmp_path, "people/")
    assert message.startswith("people.yaml:2  source\nDP-DATA-024")
    assert message.endswith("can't be read as Parquet: the folder contains no Parquet file.")


def test_missing_folder_is_reported(tmp_path: Path) -> None:
    assert "DP-DATA-001" in error_message(tmp_path, "people/")


def test_error_explains_that_folder_keys_are_not_read(tmp_path: Path) -> None:
    pd.DataFrame({"id": ["a"]}).to_parquet(_with_parent(tmp_path / "people/n=1/a.parquet"))
    error_message(tmp_path, "people/")
    with pytest.raises(
        DataError, match=r"DP-DATA-002(?s:.*)folder names, such as year=2024/, are not read"
    ):
        read_release(tmp_path / "release.yaml").run()


def _with_parent(path: Path) -> Path:
    path.parent.mkdir(parents=True)
    return path
