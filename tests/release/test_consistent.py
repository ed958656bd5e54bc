"""Releases of consistent tables add up, state their errors, and pass verify."""

from __future__ import annotations

import json
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import dprelease
from dprelease.consistency.estimates import pieces
from dprelease.consistency.family import integer_pieces
from tests.covering import spread
from tests.release.area_family import BY_ID, DEFAULTS, TOWNS, TREE, people_rows, publish_family

WHOLE = "{non_negative: true}"
CASES: dict[str, dict[str, str]] = {
    "areas": {},
    "areas alone": {"asked": "hierarchy: [state, town]"},
    "one level": {"asked": "hierarchy: [town]\n    cube: [sex, band]"},
    "a cube": {"asked": "cube: [sex, band]"},
    "marginals": {"asked": "marginals: [[], [sex], [band]]"},
    "a rollup": {"asked": "rollup: [band, sex, old]"},
    "one table": {"asked": "group_by: [sex]"},
    "one cell": {"asked": "group_by: []"},
    "a histogram": {
        "asked": "hierarchy: [town]\n    histogram: {column: pay, edges: [0, 50, 100]}",
    },
    "whole": {"consistent": WHOLE},
    "whole areas alone": {"asked": "hierarchy: [state, town]", "consistent": WHOLE},
    "a whole cube": {"asked": "cube: [sex, band]", "consistent": WHOLE},
    "a whole rollup": {"asked": "rollup: [old, band, sex]", "consistent": WHOLE},
    "a whole cell": {"asked": "group_by: []", "consistent": WHOLE},
    "whole sums": {"columns": '{n: {count: "*"}, pay: {sum: pay}}', "consistent": WHOLE},
    "whole sums of cents": {
        "columns": "{pay: {sum: pay, margin: 0.9}}", "step": "0.25", "consistent": WHOLE,
    },
    "sums below 0": {"columns": "{pay: {sum: pay}}", "least": "-10", "step": "0.01"},
    "counts of a column": {"columns": "{n: {count: pay, margin: true}}"},
    "zeros": {
        "asked": "hierarchy: [state, town]\n    marginals: [[], [old], [band, old]]",
        "consistent": "{non_negative: true, zeros: [{band: 0-17, old: 'true'}, "
        "{band: [18-64], old: [true]}]}",
    },
    "fast": {"consistent": "{non_negative: true, method: fast}"},
    "least squares": {"consistent": "{non_negative: true, method: least_squares}"},
    "no table by all keys": {
        "asked": "hierarchy: [state, town]\n    marginals: [[sex, band], [band, old]]",
        "consistent": "{non_negative: true, publish: {records: true}}",
    },
    "composed": {"consistent": "{non_negative: true, composition: parent}"},
    "down to states": {"consistent": "{non_negative: true, publish: {down_to: state}}"},
    "estimates down to states": {"consistent": "{publish: {down_to: state}}"},
    "records": {"consistent": "{non_negative: true, publish: {records: true}}"},
    "laplace": {"mechanism": "laplace", "consistent": WHOLE},
    "discrete laplace": {"mechanism": "discrete_laplace", "budget": "epsilon: 1"},
    "gaussian": {"mechanism": "gaussian"},
    "offset gaussian": {"mechanism": "{name: discrete_offset_symmetric_gaussian, ratio: 1}"},
    "asymmetric": {"mechanism": "{name: asymmetric_laplace, k: 1.5, debias: false}"},
    "ids": {"unit": BY_ID, "consistent": WHOLE},
    "replaced": {"budget": "epsilon: 1, delta: 1e-6, neighbours: replace"},
    "rho": {"budget": "rho: 0.1, delta: 1e-6"},
}  # fmt: skip


def read_tables(folder: Path, kind: str) -> dict[str, pa.Table]:
    return {path.stem: pq.read_table(path) for path in sorted((folder / kind).glob("*.parquet"))}


def sums(table: pa.Table, column: str) -> list[float]:
    """Return the total of a column in each area, by the first key if that is one."""
    first = table.column_names[0]
    if first not in ("state", "town"):
        return [sum(table[column].to_pylist())]
    by_area: dict[str, float] = {}
    for area, value in zip(table[first].to_pylist(), table[column].to_pylist(), strict=True):
        by_area[area] = by_area.get(area, 0) + value
    return list(by_area.values())


@pytest.mark.share(0.2)
@pytest.mark.parametrize("what", spread([(what,) for what in CASES], 0.6))
def test_published_tables_add_up_and_verify(what: str, tmp_path: Path) -> None:
    """Every total in every table, exactly: floats of multiples of a power of two too."""
    folder = publish_family(tmp_path, **CASES[what])
    report = dprelease.verify(folder)
    assert report.ok, [str(finding) for finding in report.findings]
    assert "they pass the second check of 'consistent'" in report.checked
    names = {"columns": "n", **CASES[what]}["columns"]
    columns = [name for name in ("n", "pay") if f"{name}: {{" in names or names == name]
    exact = CASES[what].get("step") != "0.01"
    for kind in ("estimates", "tables"):
        held = read_tables(folder, kind)
        for column in columns:
            totals = {name: sum(sums(table, column)) for name, table in held.items()}
            least, most = min(totals.values(), default=0), max(totals.values(), default=0)
            assert least == most if exact else abs(most - least) < 1e-6, (kind, totals)
    for table in read_tables(folder, "tables").values():
        for column in columns:
            assert min(table[column].to_pylist(), default=0) >= 0


@pytest.mark.share(0.2)
@pytest.mark.parametrize("what", ["areas", "whole sums", "fast", "zeros", "records"])
def test_same_measurements_give_same_bytes(what: str, tmp_path: Path) -> None:
    one = publish_family(tmp_path / "one", **CASES[what])
    other = publish_family(tmp_path / "other", **CASES[what])
    names = sorted(path.relative_to(one) for path in one.rglob("*.parquet"))
    for name in names:
        assert (one / name).read_bytes() == (other / name).read_bytes()
    assert dprelease.verify(other).ok


@pytest.mark.share(0.2)
@pytest.mark.parametrize("what", ["areas", "whole sums", "fast", "zeros", "records"])
def test_piece_sizes_do_not_change_results(
    what: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Pieces of the tree and pieces of files."""
    whole = publish_family(tmp_path / "whole", **CASES[what])
    for held in (pieces, integer_pieces):  # the last default is how many cells a piece may have
        monkeypatch.setattr(held, "__defaults__", (*(held.__defaults__ or ())[:-1], 1))
    monkeypatch.setattr("dprelease.tables.formats.BATCH_ROWS", 3)
    monkeypatch.setattr("dprelease.postprocess.consistent.normal_equations.AT_ONCE", 5)
    monkeypatch.setattr("dprelease.postprocess.consistent.additivity.AT_ONCE", 5)
    monkeypatch.setattr("dprelease.postprocess.consistent.piece_rows.AT_ONCE", 7)
    cut = publish_family(tmp_path / "cut", **CASES[what])
    for path in whole.rglob("*.parquet"):
        assert path.read_bytes() == (cut / path.relative_to(whole)).read_bytes()
    assert dprelease.verify(cut).ok


def test_synthetic_records_match_the_tables(tmp_path: Path) -> None:
    folder = publish_family(tmp_path, **CASES["records"])
    persons = pq.read_table(folder / "records/pop_invented.parquet")
    assert persons.column_names == ["town", "sex", "band"]
    assert b"no row is a real person" in persons.schema.metadata[b"dprelease"]
    counted: dict[tuple[str, ...], int] = {}
    rows = list(zip(*(persons[name].to_pylist() for name in persons.column_names), strict=True))
    for row in rows:
        counted[row] = counted.get(row, 0) + 1
    table = pq.read_table(folder / "tables/pop_town_band_sex.parquet").to_pylist()
    assert counted == {
        (row["town"], row["sex"], row["band"]): row["n"] for row in table if row["n"]
    }
    towns = [town for some in TOWNS.values() for town in some]
    order = [towns, ["f", "m"], ["0-17", "18-64", "65-99"]]
    assert rows == sorted(
        rows, key=lambda row: [known.index(value) for known, value in zip(order, row, strict=True)]
    )
    record = json.loads((folder / "manifest.json").read_text())["families"][0]["record"]
    assert record["records"]["name"] == "records/pop_invented"
    assert any("no row is a real person" in words for words in record["words"])


def test_marginals_without_full_table_add_up(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """There is no table by all keys, because it would have too many cells."""
    monkeypatch.setattr("dprelease.postprocess.consistent.values.FEW_CELLS", 1)
    asked = "hierarchy: [state, town]\n    marginals: [[sex, band], [band, old]]"
    folder = publish_family(
        tmp_path, asked=asked, consistent="{non_negative: true, publish: {records: true}}"
    )
    report = dprelease.verify(folder)
    assert report.ok, [str(finding) for finding in report.findings]
    record = json.loads((folder / "manifest.json").read_text())["families"][0]["record"]
    keys = {
        (*one["keys"], one["shared"] and tuple(one["shared"]))
        for one in record["columns"][0]["refinement"]
    }
    assert keys == {("band", "old", None), ("sex", "band", ("band",))}
    held = read_tables(folder, "tables")
    for kind in ("tables", "estimates"):
        for area in ("", "state_", "town_"):
            first, second = (
                read_tables(folder, kind)[f"pop_{area}{name}"]
                .to_pandas()
                .groupby("band")["n"]
                .sum()
                for name in ("sex_band", "band_old")
            )
            assert first.equals(second)
    persons = pq.read_table(folder / "records/pop_invented.parquet").to_pandas()
    for keys_of in (["town", "sex", "band"], ["town", "band", "old"]):
        table = held["pop_" + "_".join(keys_of)].to_pandas().set_index(keys_of)["n"]
        assert (
            table[table > 0]
            .sort_index()
            .equals(persons.groupby(keys_of).size().rename("n").sort_index())
        )


def test_too_many_synthetic_records_are_not_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("dprelease.postprocess.consistent.values.MOST_RECORDS", 100)
    monkeypatch.setattr("dprelease.postprocess.consistent.record.MOST_RECORDS", 100)
    monkeypatch.setattr("dprelease.postprocess.consistent.second_check.MOST_RECORDS", 100)
    folder = publish_family(tmp_path, **CASES["records"])
    assert pq.read_metadata(folder / "records/pop_invented.parquet").num_rows == 0
    assert dprelease.verify(folder).ok


def test_large_integer_tables_list_nonzero_cells(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    dense = publish_family(tmp_path / "dense", rows=30, **CASES["whole sums"])
    for module in ("values", "second_check"):
        monkeypatch.setattr(f"dprelease.postprocess.consistent.{module}.DENSE", 3)
    folder = publish_family(tmp_path / "sparse", rows=30, **CASES["whole sums"])
    assert dprelease.verify(folder).ok
    for name, table in read_tables(dense, "tables").items():
        rows = [row for row in table.to_pylist() if len(table) <= 3 or row["n"] or row["pay"]]
        assert read_tables(folder, "tables")[name].to_pylist() == rows
    assert len(read_tables(folder, "tables")["pop_town_band_sex"]) < 36
    record = json.loads((folder / "manifest.json").read_text())["families"][0]["record"]
    told = {one["name"]: one["cells"] for one in record["whole_tables"]}
    assert told["pop_total"] == "all"
    assert told["pop_town_band_sex"] == "those that are not 0"


def test_structural_zeros_have_zero_intervals(tmp_path: Path) -> None:
    folder = publish_family(tmp_path, **CASES["zeros"])
    for name, table in read_tables(folder, "tables").items():
        for row in table.to_pylist() if "band" in name else ():
            if row["band"] != "65-99" and row["old"]:
                assert [row[f"n{part}"] for part in ("", "_lower", "_upper", "_moe")] == [0] * 4
    # Of no band under 65 is anybody old: the old of all bands are those of the last.
    for row in read_tables(folder, "tables")["pop_old"].to_pylist():
        assert row["n"] >= 0


def test_manifest_record_of_the_family(tmp_path: Path) -> None:
    folder = publish_family(tmp_path, **CASES["whole sums of cents"])
    record = json.loads((folder / "manifest.json").read_text())["families"][0]["record"]
    assert record["levels"] == [
        {"name": "whole", "areas": 1}, {"name": "state", "areas": 3}, {"name": "town", "areas": 6},
    ]  # fmt: skip
    (column,) = record["columns"]
    assert (column["step"], column["confidence"]) == ("0.25", "0.9")
    assert len(column["measured"]) == len(column["standard_errors"]) == 9
    held = read_tables(folder, "estimates")
    for told in column["standard_errors"]:
        errors = sorted(held[told["table"]]["pay_se"].to_pylist())
        assert (told["least"], told["largest"]) == (errors[0], errors[-1])
    chains = {one["level"]: one["steps"] for one in column["refinement"]}
    assert all(chain == [] for chain in chains.values())
    assert {one["method"] for one in column["refinement"]} == {"least_squares"}
    unseen = [one["sha256"] for one in json.loads((folder / "manifest.json").read_text())["files"]]
    assert len(unseen) == len(set(unseen)) == 27


def test_margins_cover_the_true_values(tmp_path: Path) -> None:
    """About as many cells and totals as promised are inside."""
    inside = seen = 0
    for bits in range(4):
        folder = publish_family(tmp_path / str(bits), bits=str(bits), **CASES["whole sums"])
        truth: dict[tuple[str, str], list[int]] = {}
        for _, town, sex, _, _, pay in people_rows(DEFAULTS["rows"]):
            held = truth.setdefault((str(town), str(sex)), [0, 0])
            held[0], held[1] = held[0] + 1, held[1] + int(str(pay))
        for row in read_tables(folder, "tables")["pop_town_sex"].to_pylist():
            true = truth.get((row["town"], row["sex"]), [0, 0])
            for name, value in zip(("n", "pay"), true, strict=True):
                seen += 1
                inside += row[f"{name}_lower"] <= value <= row[f"{name}_upper"]
                covered = abs(row[name] - value) <= row[f"{name}_moe"]
                assert covered or not row[f"{name}_lower"] <= value <= row[f"{name}_upper"]
    assert inside >= 0.8 * seen


def test_family_next_to_other_queries(tmp_path: Path) -> None:
    """The other query is published without changes."""
    more = "  alone:\n    from: people\n    group_by: [sex]\n    columns: {k: {count: '*'}}\n"
    folder = publish_family(tmp_path, more=more)
    assert dprelease.verify(folder).ok
    assert sorted(path.name for path in folder.glob("*.parquet")) == ["alone.parquet"]
    assert TREE in DEFAULTS["asked"]
