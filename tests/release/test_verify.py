"""`verify` finds every change of a release, and every forgery that it can recompute."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from dprelease.mechanisms.randomized_response import RandomizedResponse
from dprelease.privacy.event import Event
from dprelease.query.resolve import resolve
from dprelease.release import manifest
from dprelease.release.pipeline import run
from dprelease.release.plan import PlannedColumn, price
from dprelease.release.verify import Report, verify
from dprelease.schema.load import read_declaration
from tests.release.build import RELEASE, publish, write
from tests.replay import Keyed


@pytest.fixture(scope="module")
def published(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return publish(tmp_path_factory.mktemp("release"))[0]


@pytest.fixture
def copy(published: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(published, tmp_path / "copy"))


def codes(report: Report) -> set[str]:
    return {finding.code for finding in report.findings}


def test_an_untouched_release_verifies(published: Path) -> None:
    report = verify(published)
    assert report.ok, [str(finding) for finding in report.findings]
    assert len(report.checked) == 9
    assert report.opinion is not None
    # From the masses of the integers alone, nearly the whole price is confirmed.
    assert 0.99 * report.opinion.claimed < report.opinion.at_least <= report.opinion.claimed
    assert report.guarantee is not None
    assert 0.999 <= report.guarantee.epsilon <= 1.0


def test_every_single_byte_of_the_manifest_counts(copy: Path) -> None:
    path = copy / manifest.NAME
    raw = path.read_bytes()
    for at in range(len(raw)):
        for change in (raw[at] ^ 1, raw[at] ^ 0x20):
            path.write_bytes(raw[:at] + bytes([change]) + raw[at + 1 :])
            assert codes(verify(copy)) == {"DP-VERIFY-002"}, at
    for changed in (
        raw[:-1],
        raw + b"\n",
        b"\xef\xbb\xbf" + raw,
        raw.replace(b"\n", b"\r\n"),
        b"[]\n",
        b"",
    ):
        path.write_bytes(changed)
        assert codes(verify(copy)) == {"DP-VERIFY-002"}


def test_every_single_byte_of_a_table_counts(copy: Path) -> None:
    for path in sorted(copy.glob("*.parquet")):
        raw = path.read_bytes()
        for at in range(0, len(raw), max(1, len(raw) // 40)):
            path.write_bytes(raw[:at] + bytes([raw[at] ^ 1]) + raw[at + 1 :])
            assert "DP-VERIFY-004" in codes(verify(copy)), at
        path.write_bytes(raw)
    assert verify(copy).ok


def test_changed_missing_and_foreign_files(copy: Path) -> None:
    (copy / "notes.txt").write_text("hello")
    assert codes(verify(copy)) == {"DP-VERIFY-005"}
    (copy / "notes.txt").unlink()
    (copy / "all.parquet").rename(copy.parent / "elsewhere.parquet")
    assert codes(verify(copy)) == {"DP-VERIFY-004", "DP-VERIFY-006"}
    (copy / "all.parquet").symlink_to(copy.parent / "elsewhere.parquet")
    assert codes(verify(copy)) == {"DP-VERIFY-004"}


def test_no_manifest(tmp_path: Path) -> None:
    assert codes(verify(tmp_path)) == {"DP-VERIFY-001"}
    assert codes(verify(tmp_path / "nothing")) == {"DP-VERIFY-001"}


def test_another_format(copy: Path) -> None:
    forge(copy, lambda record: record.update(format="dprelease-manifest/99"))
    assert codes(verify(copy)) == {"DP-VERIFY-003"}


def forge(folder: Path, change: Callable[[dict[str, Any]], object]) -> None:
    """Change a manifest and seal it again, as somebody would who knows how."""
    path = folder / manifest.NAME
    record = json.loads(path.read_text())
    change(record)
    path.write_bytes(manifest.canonical(manifest.sealed(record)))


def first(record: dict[str, Any]) -> dict[str, Any]:
    return record["measurements"][0]


def half_the_noise(record: dict[str, Any]) -> None:
    parameters = first(record)["parameters"]
    parameters["scale"] = repr(float(parameters["scale"]) / 2)


FORGERIES: dict[str, tuple[str, Callable[[dict[str, Any]], object]]] = {
    "sensitivity": ("DP-VERIFY-007", lambda r: first(r)["sensitivity"].update(slots=1)),
    "less noise": ("DP-VERIFY-008", half_the_noise),
    "margin": ("DP-VERIFY-007", lambda r: first(r).update(margin_95="1")),
    "mechanism": ("DP-VERIFY-007", lambda r: first(r).update(mechanism="laplace")),
    "no such mechanism": ("DP-VERIFY-007", lambda r: first(r).update(mechanism="gauss")),
    "measurement left out": ("DP-VERIFY-007", lambda r: r["measurements"].pop()),
    "measurement twice": ("DP-VERIFY-002", lambda r: r["measurements"].append(first(r))),
    "smaller epsilon": ("DP-VERIFY-008", lambda r: r["guarantee"].update(epsilon="0.5")),
    "other rows": ("DP-VERIFY-006", lambda r: r["files"][0].update(rows=7)),
    "file left out": ("DP-VERIFY-006", lambda r: r["files"].pop()),
    "text without its digest": (
        "DP-VERIFY-002",
        lambda r: r["declaration"]["texts"].update({"people.yaml": "table: p"}),
    ),
    "another unit": ("DP-VERIFY-002", lambda r: r["privacy_unit"][0].update(max_groups=1)),
    "another treatment": ("DP-VERIFY-002", lambda r: r["treatments"][0]["columns"].popitem()),
    "a join that was none": ("DP-VERIFY-002", lambda r: r["treatments"][0].update(join="public")),
    "treatment twice": ("DP-VERIFY-002", lambda r: r["treatments"].append(r["treatments"][0])),
    "unknown key": ("DP-VERIFY-002", lambda r: r.update(surprise=1)),
    "a text is gone": ("DP-VERIFY-009", lambda r: r["declaration"]["texts"].pop("people.yaml")),
}


@pytest.mark.parametrize("name", FORGERIES)
def test_forged_manifests(name: str, copy: Path) -> None:
    code, change = FORGERIES[name]
    forge(copy, change)
    assert code in codes(verify(copy))


def test_only_records_are_answered_at_random(tmp_path: Path) -> None:
    """A law that a ledger can price is not one that noises a table."""
    path = write(tmp_path)
    path.write_text(RELEASE.replace("mechanism: discrete_gaussian", "mechanism: auto"))
    copy = run(read_declaration(path), bits=Keyed("records"))
    declared = resolve(read_declaration(path))[0]
    measure = declared.measures[0]

    def change(record: dict[str, Any]) -> None:
        law = RandomizedResponse(40.0, 3.0)
        column = PlannedColumn(declared, measure, law, first(record)["chosen_by"])
        record["measurements"][0] = manifest.measurement(column)
        events = [Event.from_json(held) for held in record["measurements"]]
        record["guarantee"] = price(events, read_declaration(path).spec.budget).to_json()

    forge(copy, change)
    assert "DP-VERIFY-007" in codes(verify(copy))


def test_a_smaller_budget_in_a_forged_declaration_is_exceeded(copy: Path) -> None:
    def change(record: dict[str, Any]) -> None:
        texts = record["declaration"]["texts"]
        texts["release.yaml"] = texts["release.yaml"].replace("epsilon: 1", "epsilon: 0.5")
        record["declaration"]["sha256"]["release.yaml"] = manifest.sha256(
            texts["release.yaml"].encode()
        )

    forge(copy, change)
    assert "DP-VERIFY-008" in codes(verify(copy))


def test_parquet_holds_nothing_beside_the_noised_table(published: Path) -> None:
    """No statistics, no pandas metadata, no schema of another system, no dictionary of lost keys."""
    for path in published.glob("*.parquet"):
        held = pq.ParquetFile(path)
        assert held.metadata.metadata is None
        for group in range(held.metadata.num_row_groups):
            for column in range(held.metadata.num_columns):
                assert held.metadata.row_group(group).column(column).statistics is None
                assert held.metadata.row_group(group).column(column).compression == "ZSTD"
    table = pq.read_table(published / "by_city.parquet")
    assert table["city"].to_pylist() == ["Bern", "Oslo", "Rome"]
    assert table.schema.field("pay").type == pa.decimal128(38, 1)
    assert table.schema.field("people_moe").type == pa.int64()


def test_the_manifest_says_what_was_promised(published: Path) -> None:
    record = json.loads((published / manifest.NAME).read_text())
    assert record["privacy_parameters"] == {
        "epsilon": record["guarantee"]["epsilon"],
        "delta": "0.00000001",
    }
    assert 0.53 < record["reading"]["least_total_error"] < 0.54  # 2 / (1 + e)
    assert record["privacy_unit"][0]["id"] == "person"
    people = first(record)
    assert people["sensitivity"] == {"slots": 2, "moves": [{"shift": 1, "cells": 1}]}
    assert record["measurements"][1]["sensitivity"]["moves"] == [{"shift": 20000, "cells": 1}]
    assert record["measurements"][2]["sensitivity"] == {
        "slots": 1,
        "moves": [{"shift": 2, "cells": 1}],
    }
    assert not set(record) & {"created", "time", "rows_read", "duration", "salt"}
