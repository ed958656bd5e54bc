"""Files of SPSS, Stata and SAS: labels, missing codes and dates, to the last row."""

from __future__ import annotations

import datetime
import importlib.util
from pathlib import Path
from typing import Any
from unittest import mock

import pandas as pd
import pyarrow.parquet as pq
import pytest
import yaml
from typer.testing import CliRunner

import dprelease
from dprelease import cli
from dprelease.errors import DpReleaseError
from dprelease.query.resolve import resolve
from dprelease.release.runs.pipeline import run
from dprelease.schema.load import read_declaration
from tests.exact.build import ask, declare, exact

N = 40
COLUMNS: dict[str, Any] = {
    "id": {"type": "integer"},
    "sex": {"type": "category", "values": ["1", "2"]},
    "name": {"type": "text"},
    "born": {"type": "date", "lower": "1500-01-01", "upper": "2024-12-31"},
    "pay": {"type": "number", "lower": 0, "upper": 100, "step": 0.1},
}
UNIT = {"id": "id", "max_groups": 1, "max_rows_per_group": 1}
ENDINGS = (".sav", ".zsav", ".dta", ".xpt")


def frame() -> pd.DataFrame:
    return pd.DataFrame(
        {
            "id": [float(i // 2) for i in range(N)],
            "sex": [9.0 if i % 10 == 0 else 1.0 + i % 2 for i in range(N)],
            "name": ["" if i % 4 == 0 else "é" for i in range(N)],
            "born": [None if i % 8 == 0 else datetime.date(1990, 1, 1 + i % 28) for i in range(N)],
            "pay": [0.7] * N,
        }
    )


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The same rows in a file of each kind."""
    package = pytest.importorskip("pyreadstat")
    folder, rows, labels = tmp_path_factory.mktemp("packages"), frame(), {"sex": {1: "M", 2: "F"}}
    whole = {**labels["sex"], 9: "not stated"}
    titles = {"sex": "Sex of the person"}
    spss: dict[str, Any] = {"variable_value_labels": {"sex": whole}, "column_labels": titles}
    for name, more in (("p.sav", {}), ("p.zsav", {"compress": True})):
        package.write_sav(rows, folder / name, missing_ranges={"sex": [9]}, **spss, **more)
    rows.loc[rows["sex"] == 9, "sex"] = None
    package.write_dta(rows, folder / "p.dta", variable_value_labels=labels, column_labels=titles)
    package.write_xport(rows, folder / "p.xpt", column_labels=titles)
    return folder


@pytest.mark.parametrize("ending", ENDINGS)
def test_values_of_statistical_packages_are_read(ending: str, folder: Path) -> None:
    """Missing codes, empty texts and dates; ids are accepted although stored as floats."""
    names = {"q1": "*", "q2": "sex", "q3": "born", "q4": "name"}
    columns = {name: {"count": column} for name, column in names.items()} | {"s": {"sum": "pay"}}
    table = declare(COLUMNS, source=str(folder / f"p{ending}"))
    found = {name: int(one[0]) for name, one in exact(ask(table, columns), None).items()}
    rows = {"q1": N, "q2": N - N // 10, "q3": N - N // 8, "q4": N - N // 4, "s": 7 * N}
    assert found == {name: rows[name] for name in found}
    people = declare(COLUMNS, source=str(folder / f"p{ending}"), privacy_unit=UNIT)
    assert exact(ask(people, {"n": {"count": "*"}}), None)["n"][0] == N // 2
    for text in ("id", "born"):  # the number 26 may have been the id 00026 of another file
        columns = COLUMNS | {text: {"type": "text"}}
        spelled = declare(columns, source=str(folder / f"p{ending}"), privacy_unit=UNIT)
        with pytest.raises(DpReleaseError, match="DP-DATA-004"):
            exact(ask(spelled, {"n": {"count": text}}), None)
    early = ask(table, {"n": {"count": "*"}}, where="born <= '1990-01-02'")
    assert exact(early, None)["n"][0] == sum(str(day) <= "1990-01-02" for day in frame()["born"])


@pytest.mark.parametrize("ending", ENDINGS)
def test_package_file_from_sketch_to_release(ending: str, folder: Path) -> None:
    """The sketch has the labels of the file, marked, without labels of missing codes."""
    schema, release = folder / f"people{ending}.yaml", folder / f"release{ending}.yaml"
    words = ["init", str(folder / f"p{ending}"), "--output", str(schema), "--release", str(release)]
    done = CliRunner().invoke(cli.app, words)
    assert done.exit_code == 0, done.output
    text = schema.read_text()
    assert "é" not in text
    columns = yaml.safe_load(text)["columns"]
    assert (columns["id"]["type"], columns["born"]["type"]) == ("integer", "date")
    assert columns["sex"].pop("label") == "Sex of the person"
    assert not any("label" in column for column in columns.values())
    if ending != ".xpt":
        assert columns["sex"] == {"type": "category", "values": {"1": "M", "2": "F"}}
        assert "# CONFIRM: the codes and labels" in text
    schema.write_text(text.replace("# CONFIRM", "# confirmed"))
    release.write_text(release.read_text().replace("epsilon: 1}", "epsilon: 50}"))
    declaration = read_declaration(release)
    assert int(exact(resolve(declaration)[0], None)["rows"][0]) == N
    made = run(declaration, output=folder / f"out{ending}")
    assert pq.read_table(made / "total.parquet")["rows"].to_pylist() == [N]
    assert dprelease.verify(made).ok


@pytest.mark.parametrize("ending", ENDINGS)
def test_sketched_ids_have_a_type_that_a_run_reads(ending: str, folder: Path) -> None:
    """A number can't be an id of type text, which a run refuses."""
    found = {}
    for unit in ("id", "name"):
        words = ["init", str(folder / f"p{ending}"), "--unit", unit]
        columns = yaml.safe_load(CliRunner().invoke(cli.app, words).stdout)["columns"]
        found[unit] = columns[unit]["type"]
        people = declare(
            COLUMNS | {unit: columns[unit]},
            source=str(folder / f"p{ending}"),
            privacy_unit={**UNIT, "id": unit},
        )
        exact(ask(people, {"n": {"count": "*"}}), None)
    assert found == {"id": "integer", "name": "text"}


def test_labels_of_some_values_propose_no_category(tmp_path: Path) -> None:
    """Labels of the ends of a scale or of missing codes are not all values of a column."""
    package = pytest.importorskip("pyreadstat")
    rows = pd.DataFrame(
        {"mood": [1, 2, 5], "age": [97, 30, -9], "sex": [1, 2, 2], "no": [None] * 3}
    )
    pair = {1: "a", 2: "b"}
    labels: Any = {"mood": {1: "a", 5: "b"}, "age": {97: "a", -9: "b"}, "sex": pair, "no": pair}
    package.write_sav(rows, tmp_path / "p.sav", variable_value_labels=labels)
    rows["no"] = rows["no"].astype(float)
    package.write_dta(rows, tmp_path / "p.dta", variable_value_labels=labels)
    for name in ("p.sav", "p.dta"):
        done = CliRunner().invoke(cli.app, ["init", str(tmp_path / name)])
        columns = yaml.safe_load(done.stdout)["columns"]
        types = {column: one["type"] for column, one in columns.items()}
        assert {types["mood"], types["age"]}.isdisjoint({"category"})
        assert types["sex"] == types["no"] == "category"
        (line,) = [one for one in done.stdout.splitlines() if one.startswith("  age")]
        assert "97, -9" in line.replace("-9, 97", "97, -9").partition("#")[2]


def test_dates_and_floats_beyond_python_are_read(folder: Path) -> None:
    """Dates out of range are missing, and 32-bit floats are read as their short decimals."""
    package = pytest.importorskip("pyreadstat")
    rows = pd.DataFrame({"born": [1e15, -1e15, 12850617600.0, float("nan")], "pay": [0.7] * 4})
    package.write_sav(rows, folder / "far.sav", variable_format={"born": "DATE11"})
    small = rows.assign(pay=rows["pay"].astype("float32"))
    small[["pay"]].to_stata(folder / "far.dta")
    columns = {name: COLUMNS[name] for name in ("born", "pay")}
    table = declare(columns, source=str(folder / "far.sav"))
    assert exact(ask(table, {"n": {"count": "born"}}), None)["n"][0] == 1
    plain = declare({"pay": columns["pay"]}, source=str(folder / "far.dta"))
    assert exact(ask(plain, {"n": {"count": "*"}}, where="pay >= 0.7"), None)["n"][0] == 4


@pytest.mark.parametrize("ending", [".sav", ".dta", ".sas7bdat", ".xpt"])
def test_damaged_package_files_are_refused(ending: str, tmp_path: Path) -> None:
    pytest.importorskip("pyreadstat")
    (tmp_path / f"p{ending}").write_bytes(b"$FL2 secret")
    table = declare(COLUMNS, source=str(tmp_path / f"p{ending}"))
    with pytest.raises(DpReleaseError) as caught:
        exact(ask(table, {"n": {"count": "*"}}), None)
    assert caught.value.code == "DP-DATA-001"
    assert "secret" not in str(caught.value)
    assert CliRunner().invoke(cli.app, ["init", str(tmp_path / f"p{ending}")]).exit_code == 2


def test_missing_pyreadstat_error_names_the_extra(tmp_path: Path) -> None:
    (tmp_path / "p.sav").write_bytes(b"$FL2")
    with (
        mock.patch.object(importlib.util, "find_spec", return_value=None),
        pytest.raises(DpReleaseError, match=r"dprelease\[stata\]"),
    ):
        exact(ask(declare(COLUMNS, source=str(tmp_path / "p.sav")), {"n": {"count": "*"}}), None)
