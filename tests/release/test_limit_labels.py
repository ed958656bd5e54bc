"""Labels of numbers state the contribution limits that may leave out rows, in every output."""

from __future__ import annotations

import io
import json
import zipfile
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
from openpyxl import load_workbook
from typer.testing import CliRunner

import dprelease
from dprelease import cli
from dprelease.documents.release_metadata import metadata_of, metadata_of_sums
from dprelease.exports.workbooks.words import workbook_words
from dprelease.planning.kinds import kind_of
from dprelease.query.resolve import resolve
from dprelease.report.words import words_in
from dprelease.schema.column_spec import KINDS
from dprelease.schema.load import read_declaration
from dprelease.verification.verify import verify

RUN = CliRunner()
LANGUAGES = ("en", "de", "fr", "es", "it", "nl", "pt")
TABLE = """\
table: visits
source: visits.csv
privacy_unit: {id: patient, max_groups: 3, max_rows_per_group: 2}
columns:
  patient: {type: integer, label: PATIENT}
  chapter: {type: category, values: [a, b, c, d, e]}
  sex: {type: category, values: [f, m]}
  cost: {type: integer, lower: 0, upper: 9}
"""
RELEASE = """\
title: Visits
about: {languages: [LANGUAGES]}
tables: [visits.yaml]
budget: {epsilon: 1}
queries:
  QUERIES
output: out
"""
MARGIN = 'columns: {n: {count: "*", margin: true}}'
COLUMNS = {
    "visits": ('{count: "*", margin: 0.995}', [], "visits, at most {} per patient"),
    "patients": ("{count_distinct: patient, margin: true}", [], None),
    "cost": ("{sum: cost, margin: true, label: Cost}", [], "Cost, at most {} rows per patient"),
    "mean": ("{mean: cost}", [], "mean, at most {} rows per patient"),
    "top": ("{median: cost}", [], "top, at most {} rows per patient"),
}


def _write(folder: Path, queries: str, *, languages: str = "en", table: str = TABLE) -> Path:
    """Write a release with these queries, and return its file."""
    (folder / "visits.yaml").write_text(table.replace("PATIENT", "patient"))
    rows = [f"{1 + i % 9},{'abcde'[i % 5]},{'fm'[i % 2]},{i % 10}" for i in range(60)]
    (folder / "visits.csv").write_text("\n".join(["patient,chapter,sex,cost", *rows, ""]))
    text = RELEASE.replace("QUERIES", queries).replace("LANGUAGES", languages)
    path = folder / "release.yaml"
    path.write_text(text)
    return path


def _query(name: str, more: str = "") -> str:
    columns = ", ".join(f"{column}: {spec}" for column, (spec, _, _) in COLUMNS.items())
    return f"{name}: {{from: visits, {more}columns: {{{columns}}}}}"


def _labels(folder: Path) -> dict[str, dict[str, Any]]:
    """Return the labels of the published columns, by file and name."""
    manifest = json.loads((folder / "manifest.json").read_text())
    return {
        file["name"].removesuffix(".parquet"): {
            column["name"]: column.get("label", {}) for column in file["columns"]
        }
        for file in manifest["files"]
    }


@pytest.mark.parametrize(
    ("keys", "product", "groups"),
    [
        ("", "2", None),
        ("group_by: [sex], ", "2 x 2", None),
        ("group_by: [chapter], ", "3 x 2", "3 cells"),
    ],
    ids=["one group", "two groups", "five groups"],
)
def test_labels_state_the_limits_that_may_leave_out_rows(
    keys: str, product: str, groups: str | None, tmp_path: Path
) -> None:
    """Numbers of people are exempt if `max_groups` leaves out none of the groups."""
    path = dprelease.read_release(_write(tmp_path, _query("q", keys))).run()
    labels = _labels(path)["q"]
    for name, (_, _, words) in COLUMNS.items():
        if words is not None:
            assert labels[name].get("en") == words.format(product)
    wanted = {} if groups is None else {"en": f"patients, in at most {groups} per patient"}
    assert labels["patients"] == wanted
    assert labels["visits_moe"]["en"] == (
        "visits, margin of error, 99.5 % confidence about the count after contribution limits"
    )
    assert labels["cost_moe"]["en"].endswith("95 % confidence about the value after contribution "
                                             "limits")  # fmt: skip
    assert bool(labels["patients_moe"]) == (groups is not None)
    assert verify(path).ok


KEYWORDS = {
    "count": '"*"',
    "count_distinct": "sex",
    "sum": "cost",
    "mean": "cost",
    "variance": "cost",
    "stddev": "cost",
    "ratio": "[cost, price]",
    "share": '"*"',
    "quantile_ratio": "{of: cost, over: 0.8, under: 0.2}",
    "covariance": "[cost, price]",
    "covariance_pop": "[cost, price]",
    "correlation": "[cost, price]",
    "slope": "{of: cost, on: price}",
    "intercept": "{of: cost, on: price}",
    "weighted_count": "cost",
    "weighted_sum": "{of: cost, weight: price}",
    "weighted_mean": "{of: cost, weight: price}",
    "effective_size": "price",
    "design_error": "{weight: price, replicates: [cost], scale: 1}",
    "median": "cost",
    "quantile": "{of: cost, at: 0.9}",
    "min": "cost",
    "max": "cost",
    "mode": "sex",
    "top_k": "sex",
}


@pytest.mark.each
@pytest.mark.parametrize("keyword", KINDS)
@pytest.mark.parametrize("private", [False, True], ids=["public keys", "private keys"])
def test_every_aggregate_states_its_limits(keyword: str, private: bool, tmp_path: Path) -> None:
    """A new keyword needs an entry here; with private keys, the number of groups is not known."""
    if keyword == "share" and private:
        pytest.skip("shares need public keys")
    table = TABLE + "  price: {type: integer, lower: 1, upper: 9}\n"
    keys = "group_by: [chapter], " + "private_keys: true, " * private
    column = f"value: {{{keyword}: {KEYWORDS[keyword]}{', k: 2' * (keyword == 'top_k')}}}"
    release = _write(tmp_path, f"q: {{from: visits, {keys}columns: {{{column}}}}}", table=table)
    release.write_text(release.read_text().replace("epsilon: 1", "epsilon: 1, delta: 1e-9"))
    declaration = read_declaration(release)
    (described,) = metadata_of(declaration, resolve(declaration)).tables
    assert described.values
    for value in described.values:
        rows = "" if keyword in ("count", "share") else " rows"
        assert value.label["en"].endswith(f", at most 3 x 2{rows} per patient")


def test_limits_of_families_are_those_of_finest_cells(tmp_path: Path) -> None:
    """The rows of a person may be in three finest cells, which add up in the total."""
    family = f"marginals: [[], [chapter]], consistent: {{non_negative: true}}, {MARGIN}"
    release = _write(tmp_path, f"q: {{from: visits, {family}}}")
    release.write_text(release.read_text().replace("epsilon: 1", "epsilon: 1, delta: 1e-9"))
    path = dprelease.read_release(release).run()
    labels = _labels(path)
    for name in ("estimates/q_total", "tables/q_total", "estimates/q_chapter"):
        assert labels[name]["n"] == {"en": "n, at most 3 x 2 per patient"}
        about = "95 % confidence about the count after contribution limits"
        assert about in labels[name]["n_moe"]["en"]
    assert "after contribution limits" in (path / "manifest.json").read_text()
    assert verify(path).ok


def test_sums_of_parties_state_the_limits(tmp_path: Path) -> None:
    """In the metadata of the sums of their messages."""
    release = _write(tmp_path, f"q: {{from: visits, group_by: [chapter], {COUNT}}}")
    release.write_text(release.read_text() + "federated: {parties: 2}\n")
    declaration = read_declaration(release)
    (described,) = metadata_of_sums(
        declaration, kind_of(declaration.spec).resolve(declaration)
    ).tables
    by_name = {column.name: column.label for column in described.columns}
    assert by_name["n"] == {"en": "n, at most 3 x 2 per patient"}
    assert "after contribution limits" in by_name["n_moe"]["en"]


WEIGHTED = """\
{from: visits, columns: {
  n: {weighted_count: price, margin: true, label: NUMBER}, total: {weighted_sum: {of: cost, weight: price}},
  mean: {weighted_mean: {of: cost, weight: price}},
  n_se: {design_error: {weight: price, replicates: [w], scale: 1}},
  total_se: {design_error: {weight: price, replicates: [w], scale: 1, of: cost}},
  other_se: {design_error: {weight: w, replicates: [price], scale: 1}}}}"""


def test_notes_on_weights_stand_where_there_are_margins(tmp_path: Path) -> None:
    """A note on a design error names the number of which it is the standard error."""
    weights = "".join(f"  {w}: {{type: integer, lower: 0, upper: 9}}\n" for w in ("price", "w"))
    text = ", ".join([*LANGUAGES, "pl"])
    release = _write(tmp_path, f"q: {WEIGHTED}", languages=text, table=TABLE + weights)
    declaration = read_declaration(release)
    (table,) = metadata_of(declaration, resolve(declaration)).tables
    notes = {column.name: column.footnotes for column in table.columns if column.footnotes}
    assert {*notes} == {"n", "mean", "n_se", "total_se", "other_se"}
    assert notes["n"][0]["en"].startswith("The margin of error covers")
    assert notes["mean"][0]["en"].startswith("The interval covers")
    assert "Fehlerspanne" in notes["n"][0]["de"]
    assert "NUMBER, gewichtete Anzahl (Gewicht: price)" in notes["n_se"][0]["de"]
    assert "total, weighted sum of cost (weight: price)" in notes["total_se"][0]["en"]
    assert ": weighted count (weight: w)" in notes["other_se"][0]["en"]
    for (note,) in notes.values():
        assert note["pl"] == note["en"]
        assert len({*note.values()}) == len(LANGUAGES)


def test_labels_without_id_have_no_limits(tmp_path: Path) -> None:
    """No texts or labels are added if each row is a privacy unit."""
    table = TABLE.replace("privacy_unit: {id: patient, max_groups: 3, max_rows_per_group: 2}\n", "")
    query = '{from: visits, columns: {visits: {count: "*", margin: true}}}'
    path = dprelease.read_release(_write(tmp_path, f"q: {query}", table=table)).run()
    assert set(map(str, _labels(path)["q"].values())) == {"{}"}


def test_limit_labels_in_every_language(tmp_path: Path) -> None:
    """All seven languages have different words; others have the English words."""
    tags = [*LANGUAGES, "pl"]
    path = dprelease.read_release(
        _write(tmp_path, _query("q", "group_by: [chapter], "), languages=", ".join(tags))
    ).run()
    for name in COLUMNS:
        texts = [_labels(path)["q"][name][tag].partition(",")[2] for tag in tags]
        assert texts[-1] == texts[0] != ""
        assert all("3" in text and "patient" in text for text in texts)
        assert len(set(texts[:-1])) == len(LANGUAGES)
    moe = _labels(path)["q"]["visits_moe"]
    assert len({moe[tag] for tag in LANGUAGES}) == len(LANGUAGES)
    assert "99.5" in moe["en"]
    assert all("99,5" in moe[tag] for tag in LANGUAGES[1:])


CHOICE = "max_rows_per_group: {choose: {share: 10 %}}, "
FORMATS = "parquet, csv, excel, ods, json-stat, px, sdmx-csv, report, datapackage"


@pytest.mark.parametrize("is_chosen", [False, True])
def test_limit_labels_in_every_format(is_chosen: bool, tmp_path: Path) -> None:
    """Parquet fields, CSVW, workbook, JSON-stat, SDMX, report and data package."""
    keys = "group_by: [chapter], " + CHOICE * is_chosen
    release = _write(tmp_path, _query("q", keys).replace(", top: {median: cost}", ""))
    release.write_text(release.read_text() + f"formats: [{FORMATS}]\n")
    path = dprelease.read_release(release).run()
    words = "visits, at most 3 x 2 per patient"
    if is_chosen:
        (limit,) = pq.read_table(path / "limits" / "max_rows_per_group_1.parquet").to_pylist()
        words = words.replace("2", str(limit["max_rows_per_group"])) + " (limit chosen privately)"
    fields = pq.read_schema(path / "q.parquet")
    assert fields.field("visits").metadata[b"label"].decode() == words
    for folder in ("csv", "json-stat", "px", "sdmx-csv", "excel", "ods"):
        assert any(words in text for text in _texts_in(path / folder)), folder
    for file in ("datapackage.json", "report.html", "manifest.json"):
        assert words in (path / file).read_text(), file


def _texts_in(folder: Path) -> list[str]:
    """Return the contents of all files of a folder, and of the parts of its workbooks."""
    texts = []
    for file in folder.rglob("*"):
        if file.suffix in (".xlsx", ".ods"):
            with zipfile.ZipFile(io.BytesIO(file.read_bytes())) as book:
                texts += [book.read(name).decode(errors="replace") for name in book.namelist()]
        elif file.is_file():
            texts.append(file.read_text())
    return texts


COUNT = 'columns: {n: {count: "*"}}'
SUM = "columns: {cost: {sum: cost}}"
PEOPLE = "columns: {people: {count_distinct: patient}}"
DIFFERENT: dict[str, tuple[dict[str, str], list[str]]] = {
    "total and groups": ({"a": COUNT, "b": f"group_by: [sex], {COUNT}"}, ["a", "b"]),
    "a condition": ({"a": COUNT, "b": f"where: \"sex = 'f'\", {COUNT}"}, ["a", "b"]),
    "marginals without consistency": (
        {"a": f"marginals: [[], [sex], [chapter, sex]], {COUNT}"},
        ["a_total", "a_sex", "a_chapter_sex"],
    ),
    "one table of another measure": (
        {"a": COUNT, "b": SUM, "c": f"group_by: [sex], {COUNT}"},
        ["a", "c"],
    ),
    "a mean and a count": ({"a": "columns: {m: {mean: cost}}", "b": f"group_by: [sex], {SUM}"},
                           ["a", "b"]),
    "the same keys": ({"a": f"group_by: [sex], {COUNT}", "b": f"group_by: [sex], {COUNT}"}, []),
    "keys in another order": (
        {"a": f"group_by: [sex, chapter], {COUNT}", "b": f"group_by: [chapter, sex], {COUNT}"},
        [],
    ),
    "different measures": ({"a": COUNT, "b": f"group_by: [sex], {SUM}"}, []),
    "people": ({"a": PEOPLE, "b": f"group_by: [chapter], {PEOPLE}"}, []),
    "a family": ({"a": f"marginals: [[], [sex]], consistent: true, {COUNT}"}, []),
    "a family with a limit that is chosen privately": (
        {"a": f"marginals: [[], [sex]], consistent: true, {CHOICE}{COUNT}"},
        [],
    ),
    "groups with a limit that is chosen privately": (
        {"a": COUNT, "b": f"group_by: [sex], {CHOICE}{COUNT}"},
        ["a", "b"],
    ),
    "a formula of another query": (
        {
            "a": f"derive: {{k: {{expression: cost > 1, type: boolean}}}}, group_by: [k], {COUNT}",
            "b": f"derive: {{k: {{expression: cost > 2, type: boolean}}}}, group_by: [k], {COUNT}",
        },
        ["a", "b"],
    ),
}  # fmt: skip


@pytest.mark.share(0.4)
@pytest.mark.parametrize("case", DIFFERENT)
def test_tables_with_different_limits_are_named(case: str, tmp_path: Path) -> None:
    """In check, plan, manifest, report and workbook, with the reason and the way to add them up."""
    queries, wanted = DIFFERENT[case]
    text = "\n  ".join(f"{name}: {{from: visits, {spec}}}" for name, spec in queries.items())
    release = _write(tmp_path, text)
    release.write_text(release.read_text() + "formats: [excel, report]\n")
    checked = json.loads(RUN.invoke(cli.app, ["check", str(release), "--json"]).stdout)
    planned = json.loads(RUN.invoke(cli.app, ["plan", str(release), "--json"]).stdout)
    path = dprelease.read_release(release).run()
    manifest = json.loads((path / "manifest.json").read_text())
    recorded = manifest.get("differently_bounded", [])
    assert bool(checked["differently_bounded"]) == bool(wanted)
    named = [list(one["tables"]) for one in planned["differently_bounded"]]
    assert named == [one["tables"] for one in recorded] == ([wanted] if wanted else [])
    for words in (["check"], ["plan"], ["plan", "--explain"]):
        shown = RUN.invoke(cli.app, [words[0], str(release), *words[1:]]).stdout
        assert ("need not add up" in shown) == bool(wanted)
        assert ("`consistent`" in shown) == (bool(wanted) and words != ["plan"])
    assert verify(path).ok
    page = (path / "report.html").read_text().partition('id="quality"')[0]
    for name in ("numbers.bounded", "quality.totals.bounded"):
        page = page.replace(words_in("en").sentences[name].partition("{")[0], "NOTED")
    assert ("NOTED" in page) == bool(wanted)
    _, _, noted = workbook_words("en").sentences["bounded"].partition("{tables}")
    sheets = load_workbook(path / "excel/release.xlsx").worksheets
    below = [any(noted[:30] in str(v) for r in one.values for v in r) for one in sheets]
    assert below[2] == bool(wanted)  # the notes
    assert sum(below[3:]) == len({name for name in queries if _is_named(name, wanted)})


def _is_named(query: str, tables: list[str]) -> bool:
    """Return whether some tables of a query are among tables."""
    return any(table == query or table.startswith(f"{query}_") for table in tables)


def test_no_different_limits_without_an_id(tmp_path: Path) -> None:
    """Without an id, no limit applies."""
    table = TABLE.replace("privacy_unit: {id: patient, max_groups: 3, max_rows_per_group: 2}\n", "")
    text = f"a: {{from: visits, {COUNT}}}\n  b: {{from: visits, group_by: [sex], {COUNT}}}"
    release = _write(tmp_path, text, table=table)
    planned = json.loads(RUN.invoke(cli.app, ["plan", str(release), "--json"]).stdout)
    assert planned["differently_bounded"] == []


COUNTED = {
    "a total and a table by a key that drops": (
        {"all": COUNT, "by": f"group_by: [sex], {COUNT}"}, ["all", "by"],
    ),
    "a table of other values": (
        {"all": "columns: {cost: {sum: cost}}", "by": f"group_by: [sex], {COUNT}"}, [],
    ),
    "the same keys": (
        {"one": f"group_by: [sex], {COUNT}", "by": f"group_by: [sex], {COUNT}"}, [],
    ),
    "a key in which all rows have a cell": (
        {"all": COUNT, "by": f"group_by: [chapter], {COUNT}"}, [],
    ),
    "tables of a family": (
        {"one": f"marginals: [[], [sex]], consistent: true, {COUNT}"}, [],
    ),
}  # fmt: skip


@pytest.mark.parametrize("case", COUNTED)
def test_tables_that_drop_undeclared_codes_are_named(case: str, tmp_path: Path) -> None:
    """Without contribution limits, in check, plan and report; not if all rows have a cell."""
    queries, wanted = COUNTED[case]
    table = TABLE.replace("privacy_unit: {id: patient, max_groups: 3, max_rows_per_group: 2}\n", "")
    table = table.replace("d, e]}", "d, e], others: e, fill: e}")
    text = "\n  ".join(f"{name}: {{from: visits, {spec}}}" for name, spec in queries.items())
    release = _write(tmp_path, text, table=table)
    for command in ("check", "plan"):
        found = json.loads(RUN.invoke(cli.app, [command, str(release), "--json"]).stdout)
        assert bool(found["differently_counted"]) == bool(wanted)
    planned = json.loads(RUN.invoke(cli.app, ["plan", str(release), "--json"]).stdout)
    assert [one["tables"] for one in planned["differently_counted"]] == ([wanted] if wanted else [])
    shown = RUN.invoke(cli.app, ["plan", str(release)]).stdout
    assert ("may count in others" in " ".join(shown.split())) == bool(wanted)
    path = dprelease.read_release(release).run()
    page = dprelease.write_report(path, tmp_path / "page.html").read_text()
    words = words_in("en").sentences["quality.totals.counted"].split("}")[1].partition("{")[0]
    assert (words in page) == bool(wanted)


def test_labels_of_clipped_sums(tmp_path: Path) -> None:
    """The labels of the sum and of its margin, in every language."""
    query = (
        "q: {from: visits, columns: {cost: {sum: cost, max_sum: 12, margin: true, label: Cost}}}"
    )
    release = _write(tmp_path, query, languages=", ".join(LANGUAGES))
    path = dprelease.read_release(release).run()
    labels = _labels(path)["q"]
    assert labels["cost"]["en"] == (
        "Cost, at most 2 rows per patient, sums clipped at 12 per patient"
    )
    assert labels["cost_moe"]["en"].endswith(", sums clipped at 12 per patient")
    for name in ("cost", "cost_moe"):
        ends = {text.rpartition(", ")[2] for text in labels[name].values()}
        assert len(ends) == len(LANGUAGES)
        assert all("12" in text and "patient" in text for text in ends)
    exported = dprelease.export(path, ["csv", "excel"])
    notes = (exported.folder / "csv" / "q.csv-metadata.json").read_text(encoding="utf-8")
    assert "sums clipped at 12 per patient" in notes
    books = map(load_workbook, sorted((exported.folder / "excel").glob("*.xlsx")))  # by language
    texts = [
        str(cell.value) for book in books for sheet in book for row in sheet.rows for cell in row
    ]
    assert any("sums clipped at 12 per patient" in text for text in texts)
    assert verify(path).ok
