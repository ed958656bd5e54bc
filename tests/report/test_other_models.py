"""Reports on local releases and on messages of parties."""

from __future__ import annotations

import json
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
from typer.testing import CliRunner

import dprelease
from dprelease import cli
from dprelease.release.run_options import with_party
from dprelease.release.runs.pipeline import run
from dprelease.report.page import MOST_BYTES
from dprelease.report.words import en, round_up_to_three_digits, words_in
from dprelease.schema.load import read_declaration
from tests.release import test_federated, test_local
from tests.replay import Keyed
from tests.report.reading import HTML, parse_page, text_of

FolderOf = Callable[[str], Path]


@pytest.fixture(scope="module")
def folder_of_kind(tmp_path_factory: pytest.TempPathFactory) -> FolderOf:
    """Return what gives the folder of a release of a kind, made once."""

    def of(kind: str) -> Path:
        folder = tmp_path_factory.mktemp(kind)
        if kind == "records":
            return test_local.publish(folder)
        release = test_federated.write(folder, 1)
        return run(with_party(read_declaration(release), 2), bits=Keyed("party"))

    return cache(of)


def page(folder: Path, tmp_path: Path, **asked: Any) -> Any:
    target = dprelease.write_report(folder, tmp_path / "page.html", overwrite=True, **asked)
    assert target.stat().st_size <= MOST_BYTES
    return parse_page(target.read_bytes())


def rows_of(root: Any, caption: str) -> list[list[str]]:
    """Return the cells of the rows of the table whose caption begins so."""
    for table in root.iter(f"{HTML}table"):
        (head,) = table.iter(f"{HTML}caption")
        if text_of(head).startswith(caption):
            (body,) = table.iter(f"{HTML}tbody")
            return [[text_of(cell) for cell in row] for row in body]
    raise AssertionError(caption)


def test_local_report_shows_estimates(folder_of_kind: FolderOf, tmp_path: Path) -> None:
    """Each estimate with its margin, as `dprelease estimate` computes it; of many values a part."""
    folder = folder_of_kind("records")
    root = page(folder, tmp_path)
    text = text_of(root)
    assert "confidence, the share of all records is between" in text  # of a category, the first
    assert "`" not in text
    for column in ("city", "member", "born", "group", "pay", "age"):
        found = dprelease.local_estimate(folder, column)
        told = rows_of(root, f"{column}, people")
        if column == "pay":
            assert float(told[0][1].replace(",", "")) == pytest.approx(found[0].estimate, rel=1e-3)
            continue
        assert len(told) == min(len(found), 21)
        by_value = {str(one.value).lower(): one for one in found}
        for value, estimate, margin in told[:20]:
            one = by_value[value.lower()]
            assert float(estimate.replace("\u2212", "-")) == pytest.approx(one.estimate, abs=1e-4)
            assert float(margin.removeprefix("± ")) == pytest.approx(one.margin, abs=1e-4)


def test_local_report_explains_the_noise(folder_of_kind: FolderOf, tmp_path: Path) -> None:
    record = json.loads((folder_of_kind("records") / "manifest.json").read_text())
    told = dict(rows_of(page(folder_of_kind("records"), tmp_path), "What the noise does"))
    for held in record["measurements"]:
        says = told[f"people.{held['column']}"]
        if "keep" in held["one_record"]:
            assert f"{100 * held['one_record']['keep']:.1f}".rstrip("0").rstrip(".") in says
        else:
            assert "95 % of all records" in says


def test_local_report_shows_no_records(folder_of_kind: FolderOf, tmp_path: Path) -> None:
    """It shows what all of them tell; single ones are in the table, where nobody reads one alone."""
    text = text_of(page(folder_of_kind("records"), tmp_path))
    pay = pq.read_table(folder_of_kind("records") / "people.parquet")["pay"].to_pylist()
    assert test_local.CANARY not in text
    assert sum(f"{value:,}" in text for value in pay if abs(value) > 10_000) == 0


def test_federated_report_shows_no_messages(folder_of_kind: FolderOf, tmp_path: Path) -> None:
    """Neither a value of them nor their sum: margins, and who has to be trusted."""
    folder = folder_of_kind("parties")
    root = page(folder, tmp_path)
    text = text_of(root)
    assert "Not for publication" in text
    assert "party 2 of 4" in text
    assert en.SENTENCES["sums.trust.seen"] in text
    assert "`" not in text
    record = json.loads((folder / "manifest.json").read_text())
    trust = rows_of(root, en.SENTENCES["sums.trusts"])
    assert [row[0] for row in trust] == [f"{t['honest']} of 4" for t in record["trust"]]
    for row, held in zip(trust, record["trust"], strict=True):
        assert float(row[1]) >= float(held["guarantee"]["epsilon"]) * (1 - 1e-12)
    for file in record["files"]:
        table = pq.read_table(folder / file["name"])
        for name in {m["column"] for m in record["measurements"]} & {*table.column_names}:
            for value in table[name].to_pylist():
                assert str(value) not in text
                assert f"{value:,}" not in text


def test_privacy_label_uses_the_honest_parties(folder_of_kind: FolderOf, tmp_path: Path) -> None:
    """Of all trusts the one that the budget is for: neither that of all, nor that of one alone."""
    record = json.loads((folder_of_kind("parties") / "manifest.json").read_text())
    (counted,) = (t for t in record["trust"] if t["honest"] == record["honest"])
    epsilon = float(counted["guarantee"]["epsilon"])
    (first, *_) = [
        text_of(one) for one in page(folder_of_kind("parties"), tmp_path).iter(f"{HTML}dt")
    ]
    assert first == f"Epsilon {words_in('en').number(round_up_to_three_digits(epsilon))}"
    assert epsilon < float(record["trust"][-1]["guarantee"]["epsilon"])


@pytest.mark.parametrize("kind", ["records", "parties"])
def test_reports_of_other_kinds_are_reproducible(
    kind: str, folder_of_kind: FolderOf, tmp_path: Path
) -> None:
    paths = [dprelease.write_report(folder_of_kind(kind), tmp_path / f"{i}.html") for i in range(2)]
    assert paths[0].read_bytes() == paths[1].read_bytes()
    done = CliRunner().invoke(
        cli.app, ["report", str(folder_of_kind(kind)), "--output", str(tmp_path / "2.html")]
    )
    assert done.exit_code == 0, done.output


def test_report_without_records(tmp_path: Path) -> None:
    folder = test_local.publish(tmp_path / "none", rows=[])
    text = text_of(page(folder, tmp_path))
    assert "nothing to estimate from" in text


def test_labels_in_local_and_federated_reports(tmp_path: Path) -> None:
    """Labels stand in both, escaped, in the language that is asked for."""
    about = 'about: {languages: [en, fr], title: {en: "<b>One</b>", fr: Un}, publisher: "A & B"}\n'
    release = test_local.write(tmp_path, release=test_local.RELEASE + about)
    folder = run(read_declaration(release), bits=Keyed("labels"))
    for language, title in {"en": "<b>One</b>", "fr": "Un"}.items():
        root = page(folder, tmp_path, language=language)
        assert text_of(next(root.iter(f"{HTML}h1"))) == title
        assert "A & B" in text_of(root)
