"""`verify` finds every change of a release, and every forgery that it can recompute."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from dprelease.documents import manifest
from dprelease.documents.encoding import NAME, canonical, sha256, sha256_of
from dprelease.documents.file_records import FileDigest
from dprelease.documents.release_manifest import GuaranteeRecord
from dprelease.documents.release_metadata import metadata_of
from dprelease.mechanisms import registry
from dprelease.mechanisms.randomized_response import RandomizedResponse
from dprelease.planning.calibration import make_accounting_input
from dprelease.planning.guarantees import budget_of, guarantee_of, meets_budget
from dprelease.planning.plan import Plan, PlannedColumn
from dprelease.privacy.guarantee import Event
from dprelease.query.measurement import Measurement
from dprelease.query.resolve import resolve
from dprelease.release.runs.pipeline import run
from dprelease.schema.load import declaration_from_texts, read_declaration
from dprelease.tables import formats
from dprelease.verification.recorded_noise import NUMBER
from dprelease.verification.verify import Report, verify
from tests.manifest_files import with_digest
from tests.release.build import RELEASE, publish, write
from tests.replay import Keyed
from tests.rewriting import rewrite


@pytest.fixture(scope="module")
def published(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return publish(tmp_path_factory.mktemp("release"))[0]


@pytest.fixture
def copy(published: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(published, tmp_path / "copy"))


def codes(report: Report) -> set[str]:
    return {finding.code for finding in report.findings}


def test_unchanged_release_verifies(published: Path) -> None:
    report = verify(published)
    assert report.ok, [str(finding) for finding in report.findings]
    assert len(report.checked) == 10
    assert report.opinion is not None
    # From the masses of the integers alone, nearly the whole price is confirmed.
    assert 0.99 * report.opinion.claimed < report.opinion.at_least <= report.opinion.claimed
    assert report.guarantee is not None
    assert 0.999 <= report.guarantee.epsilon <= 1.0


@pytest.mark.parametrize("every", [11, pytest.param(1, marks=pytest.mark.audit)])
def test_any_changed_byte_of_the_manifest_is_found(every: int, copy: Path) -> None:
    path = copy / NAME
    raw = path.read_bytes()
    for at in range(0, len(raw), every):
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


def test_any_changed_byte_of_a_table_is_found(copy: Path) -> None:
    for path in sorted(copy.glob("*.parquet")):
        raw = path.read_bytes()
        for at in range(0, len(raw), max(1, len(raw) // 40)):
            path.write_bytes(raw[:at] + bytes([raw[at] ^ 1]) + raw[at + 1 :])
            assert "DP-VERIFY-004" in codes(verify(copy)), at
        path.write_bytes(raw)
    assert verify(copy).ok


def test_changed_missing_and_foreign_files_are_found(copy: Path) -> None:
    (copy / "notes.txt").write_text("hello")
    assert codes(verify(copy)) == {"DP-VERIFY-005"}
    (copy / "notes.txt").unlink()
    (copy / "all.parquet").rename(copy.parent / "elsewhere.parquet")
    assert codes(verify(copy)) == {"DP-VERIFY-004", "DP-VERIFY-006"}
    (copy / "all.parquet").symlink_to(copy.parent / "elsewhere.parquet")
    assert codes(verify(copy)) == {"DP-VERIFY-004"}


def test_missing_manifest_is_found(tmp_path: Path) -> None:
    assert codes(verify(tmp_path)) == {"DP-VERIFY-001"}
    assert codes(verify(tmp_path / "nothing")) == {"DP-VERIFY-001"}


def test_other_manifest_format_is_found(copy: Path) -> None:
    forge(copy, lambda record: record.update(format="dprelease-manifest/99"))
    assert codes(verify(copy)) == {"DP-VERIFY-003"}


def forge(folder: Path, change: Callable[[dict[str, Any]], object]) -> None:
    """Change a manifest and seal it again, as somebody would who knows how."""
    path = folder / NAME
    record = json.loads(path.read_text())
    change(record)
    path.write_bytes(canonical(with_digest(record)))


def first(record: dict[str, Any]) -> dict[str, Any]:
    return record["measurements"][0]


def move(record: dict[str, Any], i: int) -> dict[str, Any]:
    found: dict[str, Any] = record["measurements"][i]["sensitivity"]["moves"][0]
    return found


def half_the_noise(record: dict[str, Any]) -> None:
    parameters = first(record)["parameters"]
    parameters["scale"] = repr(float(parameters["scale"]) / 2)


FORGERIES: dict[str, tuple[str, Callable[[dict[str, Any]], object]]] = {
    "fewer slots": ("DP-VERIFY-007", lambda r: first(r)["sensitivity"].update(slots=1)),
    "a smaller shift": ("DP-VERIFY-007", lambda r: move(r, 1).update(shift=10000)),
    "a larger shift": ("DP-VERIFY-007", lambda r: move(r, 1).update(shift=40000)),
    "no shift": ("DP-VERIFY-007", lambda r: move(r, 0).update(shift=0)),
    "fewer cells": ("DP-VERIFY-007", lambda r: move(r, 2).update(cells=0)),
    "more cells": ("DP-VERIFY-007", lambda r: move(r, 2).update(cells=2)),
    "no move": ("DP-VERIFY-007", lambda r: r["measurements"][1]["sensitivity"]["moves"].clear()),
    "a move twice": (
        "DP-VERIFY-007",
        lambda r: r["measurements"][1]["sensitivity"]["moves"].append(move(r, 1)),
    ),
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
def test_forged_manifests_are_found(name: str, copy: Path) -> None:
    code, change = FORGERIES[name]
    forge(copy, change)
    assert code in codes(verify(copy))


def test_randomized_response_for_tables_is_found(tmp_path: Path) -> None:
    """A ledger can account for randomized response, but tables don't use it."""
    path = write(tmp_path)
    path.write_text(RELEASE.replace("mechanism: discrete_gaussian", "mechanism: auto"))
    copy = run(read_declaration(path), bits=Keyed("records"))
    declared = resolve(read_declaration(path))[0]
    measurement = declared.measurements[0]

    def change(record: dict[str, Any]) -> None:
        law = RandomizedResponse(40.0, 3.0)
        column = PlannedColumn(declared, measurement, law, first(record)["chosen_by"])
        record["measurements"][0] = manifest.measurement_record(column).to_json()
        events = [Event.from_json(held) for held in record["measurements"]]
        vectors = [
            make_accounting_input(registry.mechanism_of_event(one), one.sensitivity)
            for one in events
        ]
        budget = read_declaration(path).spec.budget
        record["guarantee"] = guarantee_of(vectors, budget).to_json()

    forge(copy, change)
    assert "DP-VERIFY-007" in codes(verify(copy))


def rebuild(folder: Path, change: Callable[[Measurement], Measurement], factor: float) -> None:
    """Write the manifest of a planner with other sensitivities.

    The manifest is consistent, and the noise of changed columns is smaller by a factor.
    """
    record = json.loads((folder / NAME).read_text())
    held = record["declaration"]
    declaration = declaration_from_texts(held["texts"], held["release"])
    queries = tuple(
        replace(
            query, measurements=tuple(change(measurement) for measurement in query.measurements)
        )
        for query in resolve(declaration)
    )
    honest = {m.name: m for query in resolve(declaration) for m in query.measurements}
    columns = []
    measured = ((query, measurement) for query in queries for measurement in query.measurements)
    for (query, measurement), noise in zip(measured, record["measurements"], strict=True):
        parameters = dict(noise["parameters"])
        if measurement != honest[measurement.name]:
            parameters["scale"] = repr(float(parameters["scale"]) * factor)
        law = registry.randomizer_class(noise["mechanism"]).of(**parameters)
        columns.append(PlannedColumn(query, measurement, law, noise["chosen_by"]))
    budget = declaration.spec.budget
    guarantee = guarantee_of([column.accounting_input for column in columns], budget)
    assert meets_budget(guarantee, budget)
    written = {f["query"]: FileDigest(f["sha256"], f["rows"]) for f in record["files"]}
    plan = Plan(tuple(columns), guarantee, budget_of(budget))
    metadata = metadata_of(declaration, plan.queries, plan.families)
    made = manifest.build(declaration, plan, metadata, written)
    (folder / NAME).write_bytes(canonical(made.to_json()))


@pytest.mark.parametrize("column", ["people", "pay", "rows"])
@pytest.mark.parametrize("part", ["slots", "shift"])
def test_wrong_sensitivities_with_fitting_cost_are_found(
    copy: Path, column: str, part: str
) -> None:
    """A planner at fault, or a forger who makes everything again: half the shift, half the noise."""

    def change(measurement: Measurement) -> Measurement:
        held = measurement.sensitivity
        if measurement.name != column:
            return measurement
        if part == "slots":
            return replace(measurement, sensitivity=replace(held, slots=max(1, held.slots // 2)))
        moves = tuple(replace(m, shift=max(1, m.shift // 2)) for m in held.moves)
        return replace(measurement, sensitivity=replace(held, moves=moves))

    rebuild(copy, lambda measurement: measurement, 1.0)
    assert verify(copy).ok
    rebuild(copy, change, 0.5 if part == "shift" and column != "people" else 1.0)
    same = (column, part) in {("people", "shift"), ("rows", "slots")}  # these are 1, and stay it
    assert verify(copy).ok is same


def test_undeclared_measurement_is_found(copy: Path) -> None:
    """At the end or among the others; the guarantee includes its cost."""
    record = json.loads((copy / NAME).read_text())
    budget = declaration_from_texts(
        record["declaration"]["texts"], record["declaration"]["release"]
    ).spec.budget
    for query, column in (("by_city", "salary"), ("hidden", "people")):
        for place in (0, len(record["measurements"])):
            forged = json.loads(json.dumps(record))
            held = {**first(forged), "query": query, "column": column, "mechanism": "laplace"}
            held["parameters"] = {"scale": repr(2.0**50)}
            forged["measurements"].insert(place, held)
            events = [Event.from_json(found) for found in forged["measurements"]]
            vectors = [
                make_accounting_input(registry.mechanism_of_event(e), e.sensitivity) for e in events
            ]
            guarantee = guarantee_of(vectors, budget)
            assert meets_budget(guarantee, budget)
            held = GuaranteeRecord.of(guarantee)
            forged["guarantee"] = held.to_json()
            forged["privacy_parameters"] = held.parameters.to_json()
            (copy / NAME).write_bytes(canonical(with_digest(forged)))
            report = verify(copy)
            assert "DP-VERIFY-007" in codes(report)
            assert any(f"{query}.{column}" in finding.cause for finding in report.findings)


def test_noise_that_the_declaration_forbids_is_found(tmp_path: Path) -> None:
    """What `auto` may choose, and a declared margin of error, as far as the record can tell."""
    text = RELEASE.replace("mechanism: gaussian, ", "moe: 40, mechanism: discrete_gaussian, ")
    auto = "mechanism: {name: auto, allowed: [discrete_laplace, staircase], measure: rmse}"
    path = write(tmp_path)
    path.write_text(text.replace("mechanism: laplace", auto))
    folder = run(read_declaration(path), bits=Keyed("declared"))
    assert verify(folder).ok
    record = json.loads((folder / NAME).read_text())
    people, pay, rows = record["measurements"]
    assert people["mechanism"] == "discrete_gaussian"
    assert pay["mechanism"] in ("discrete_laplace", "staircase")
    for held, change in (
        (people, {"mechanism": "gaussian"}),
        (pay, {"mechanism": "laplace", "parameters": {"scale": "80000.0"}}),
        (
            pay,
            {"mechanism": "symmetric_alpha_stable", "parameters": {"scale": "9e4", "alpha": "1.8"}},
        ),
        (pay, {"mechanism": "exponential", "parameters": {"scale": "9e4", "candidates": "2.0"}}),
        (rows, {"parameters": {"scale": repr(2 * float(rows["parameters"]["scale"]))}}),
    ):
        kept = dict(held)
        held.update(change)
        (folder / NAME).write_bytes(canonical(with_digest(record)))
        found = [f.cause for f in verify(folder).findings if f.code == "DP-VERIFY-007"]
        assert found == [
            f"The recorded mechanism of {held['query']}.{held['column']} does not follow from the "
            "declaration."
        ]
        held.clear()
        held.update(kept)


def test_keys_that_are_not_declared_are_found(copy: Path) -> None:
    """Even if the digest of the table is right."""
    path = copy / "by_city.parquet"
    for keys in (["Oslo", "Bern", "Rome"], ["Bern", "Oslo", "Paris"], ["Bern", "Oslo", None]):
        rewrite(path, lambda table, keys=keys: table.set_column(0, "city", pa.array(keys)))
        forge(copy, lambda r: r["files"][0].update(sha256=sha256_of(path)))
        assert "DP-VERIFY-006" in codes(verify(copy)), keys


def test_smaller_budget_in_declaration_is_found(copy: Path) -> None:
    def change(record: dict[str, Any]) -> None:
        texts = record["declaration"]["texts"]
        texts["release.yaml"] = texts["release.yaml"].replace("epsilon: 1", "epsilon: 0.5")
        record["declaration"]["sha256"]["release.yaml"] = sha256(texts["release.yaml"].encode())

    forge(copy, change)
    assert "DP-VERIFY-008" in codes(verify(copy))


def test_parquet_files_contain_only_the_noised_table(published: Path) -> None:
    """No statistics, no pandas metadata, no dictionary of lost keys; of columns what is declared."""
    for path in published.glob("*.parquet"):
        held = pq.ParquetFile(path)
        assert [*held.metadata.metadata] == [b"ARROW:schema"]
        assert formats.PUBLISHED_FORMAT.notes(path) == {}
        for group in range(held.metadata.num_row_groups):
            for column in range(held.metadata.num_columns):
                assert held.metadata.row_group(group).column(column).statistics is None
                assert held.metadata.row_group(group).column(column).compression == "ZSTD"
    table = pq.read_table(published / "by_city.parquet")
    assert table["city"].to_pylist() == ["Bern", "Oslo", "Rome"]
    assert table.schema.field("pay").type == pa.decimal128(38, 1)
    assert table.schema.field("people_moe").type == pa.int64()


def test_manifest_states_the_guarantee(published: Path) -> None:
    record = json.loads((published / NAME).read_text())
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


LARGE = """
title: Ages
tables: [people.yaml]
budget: {{epsilon: {epsilon}}}
queries: {{ages: {{from: people, group_by: [city], columns: {{total: {{sum: age}}, rows: {{count: "*"}}}}}}}}
output: out
"""


@pytest.mark.parametrize("epsilon", ["20", "60", "100"])
def test_release_with_large_budget_verifies(epsilon: str, tmp_path: Path) -> None:
    """The best mechanism may be better than the next by many powers of ten."""
    path = write(tmp_path)
    schema = tmp_path / "people.yaml"
    rows = [line for line in schema.read_text().splitlines(True) if "privacy_unit" not in line]
    schema.write_text("".join(rows))
    path.write_text(LARGE.format(epsilon=epsilon))
    folder = run(read_declaration(path))
    assert "error of others" in (folder / "manifest.json").read_text()
    report = verify(folder)
    assert report.ok, [str(finding) for finding in report.findings]


def test_large_numbers_of_earlier_versions_are_numbers() -> None:
    assert NUMBER.fullmatch("+205805811458283995136.000")
