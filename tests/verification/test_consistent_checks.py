"""Planted faults in consistent tables are found by running the step again and by the second check."""

from __future__ import annotations

import base64
import math
import shutil
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import dprelease
from dprelease.planning.prepare import prepare
from dprelease.postprocess.consistent import normal_equations, second_check
from dprelease.tables.family_tables import published_table
from tests.release.area_family import publish_family, read_family
from tests.release.test_families import reseal
from tests.rewriting import rewrite

ASKED = {
    "asked": "hierarchy: [state, town]\n    marginals: [[], [old], [band, old]]",
    "columns": '{n: {count: "*"}, pay: {sum: pay}}',
    "consistent": "{non_negative: true, method: fast, zeros: [{band: [0-17, 18-64], old: 'true'}]}",
}
RECORDS = {**ASKED, "columns": '{n: {count: "*"}}'}
RECORDS["consistent"] = RECORDS["consistent"].replace("{non", "{publish: {records: true}, non")

Change = Callable[[pa.Table], pa.Table]
"""What is done to one table."""


def changed(column: str, where: Mapping[str, object], by: Callable[[Any], Any]) -> Change:
    """Return a change of the cells of some keys."""

    def change(table: pa.Table) -> pa.Table:
        rows = table.to_pylist()
        for row in rows:
            if all(row.get(name, value) == value for name, value in where.items()):
                row[column] = by(row[column])
        return pa.Table.from_pylist(rows, schema=table.schema)

    return change


def moved(column: str, by: Any) -> dict[str, list[Change]]:
    """Return changes that take something from one town and give it to its neighbour, everywhere.

    All sums stay as they are.
    """
    old = {"old": False, "band": "18-64"}
    one = changed(column, {"town": "Thun", **old}, lambda value: value + by)
    other = changed(column, {"town": "Bern", **old}, lambda value: value - by)
    return {f"pop_town{keys}": [one, other] for keys in ("", "_old", "_band_old")}


def at(name: str, *changes: Change) -> dict[str, list[Change]]:
    return {name: list(changes)}


ONE = {"town": "Thun", "old": False, "band": "18-64"}
FAULTS: dict[str, tuple[str, dict[str, list[Change]], str]] = {
    "one estimate": (
        "estimates", at("pop_town_band_old", changed("n", ONE, lambda n: n + 2.0**-20)), "sum of",
    ),
    "one total": (
        "estimates", at("pop_total", changed("pay", {}, lambda n: n - 2.0**-18)), "sum of",
    ),
    "a town more in all of its tables": (
        "estimates", {
            name: [change] for name, (change, _) in moved("n", 1.0).items()
        }, "is not the sum of 'pop_town",
    ),
    "a whole town more in all of its tables": (
        "tables", {
            name: [change] for name, (change, _) in moved("pay", 1).items()
        }, "is not the sum of 'pop_town",
    ),
    "estimates moved": ("estimates", moved("n", 0.5), "least squares"),
    "sums moved": ("estimates", moved("pay", 16.0), "least squares"),
    "one error": (
        "estimates", at("pop_town_old", changed("n_se", ONE, lambda e: e * 1.001)), "of a solve",
    ),
    "too small errors": (
        "estimates", at("pop_state", changed("pay_se", {}, lambda e: e * 0.9999)), "of a solve",
    ),
    "errors without their share of a total": (
        "estimates", at("pop_total", changed("n_se", {}, lambda e: e * 1.01)), "of a solve",
    ),
    "one whole cell": (
        "tables", at("pop_town_band_old", changed("n", ONE, lambda n: n + 1)), "sum of",
    ),
    "units moved": ("tables", moved("n", 7), "gain by exchange"),
    "below 0": ("tables", moved("n", 10**6), "can't be"),
    "persons who can't be": (
        "tables", {
            f"pop_{area}band_old": [changed("n", {"old": True, "band": "0-17"}, lambda n: n + 1)]
            for area in ("", "state_", "town_")
        }, "can't be",
    ),
}  # fmt: skip


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return publish_family(tmp_path_factory.mktemp("agreed"), **ASKED)


@pytest.fixture(scope="module")
def release_with_records(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return publish_family(tmp_path_factory.mktemp("records"), **RECORDS)


def problems(folder: Path, asked: dict[str, str], changes: Mapping[str, list[Change]]) -> list[str]:
    """Return what the second check says of a release of which some tables are changed."""
    declaration = read_family(folder.parents[1], **asked)
    plan = prepare(declaration)[1]
    (family,) = plan.families
    noised = [published_table(table, folder) for table in family.tables]

    def reader(name: str) -> Callable[[], Iterator[Any]]:
        table = pq.read_table(folder / f"{name}.parquet")
        for change in changes.get(name, ()):
            table = change(table)
        return lambda: iter(table.to_batches(max_chunksize=4))

    assert family.step is not None
    files = {output.name: reader(output.name) for output in family.outputs}
    return list(family.step.problems(noised, files))


@pytest.mark.share(0.25)
@pytest.mark.parametrize("what", FAULTS)
def test_second_check_finds_faults(what: str, folder: Path) -> None:
    kind, changes, words = FAULTS[what]
    named = {f"{kind}/{name}": change for name, change in changes.items() if change}
    found = problems(folder, ASKED, named)
    assert any(words in problem for problem in found), found


def test_second_check_accepts_a_sound_release(folder: Path) -> None:
    assert problems(folder, ASKED, {}) == []


@pytest.mark.parametrize(
    ("what", "change", "words"),
    [
        ("one less", lambda table: table.slice(1), "not as many"),
        (
            "another order",
            lambda table: table.take(pa.array(range(len(table) - 1, -1, -1))),
            "order",
        ),
        ("none", lambda table: table.slice(0, 0), "not as many"),
    ],
)
def test_synthetic_records_are_checked(
    what: str, change: Change, words: str, release_with_records: Path
) -> None:
    found = problems(release_with_records, RECORDS, {"records/pop_invented": [change]})
    assert any(words in problem for problem in found), (what, found)


@pytest.mark.parametrize("what", ["one error", "too small errors"])
def test_large_families_are_solved_in_parts(
    what: str, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The upper levels, and one family of leaves: of a whole that is too large for one solve."""
    monkeypatch.setattr(second_check, "MOST_UNKNOWNS", 4)
    assert problems(folder, ASKED, {}) == []
    kind, changes, words = FAULTS[what]
    named = {f"{kind}/{name}": change for name, change in changes.items()}
    assert any(words in problem for problem in problems(folder, ASKED, named))


@pytest.mark.parametrize("what", ["estimates moved", "sums moved"])
def test_many_combinations_are_checked_by_sample(
    what: str, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Equations hold in every finest cell, of which a family may have far more than its tables."""
    some = normal_equations._evenly_spaced_indexes((500, 2, 1000, 1))
    assert [values[-1] for values in some] == [499, 1, 999, 0]
    assert 2**18 < math.prod(map(len, some)) <= 2**20
    monkeypatch.setattr(normal_equations, "MOST_CELLS", 4)
    assert problems(folder, ASKED, {}) == []
    kind, changes, words = FAULTS[what]
    named = {f"{kind}/{name}": change for name, change in changes.items()}
    assert any(words in problem for problem in problems(folder, ASKED, named))


def test_costs_of_giant_numbers_do_not_wrap(folder: Path) -> None:
    import numpy as np

    x = np.array([[2**45], [0]])
    assert not second_check._improves_by_exchange(x, x << 4, 20)
    assert second_check._improves_by_exchange(np.array([[3], [0]]), np.array([[0], [3 << 20]]), 20)


@pytest.mark.share(0.3)
@pytest.mark.parametrize("what", FAULTS)
def test_running_again_finds_faults(what: str, tmp_path: Path) -> None:
    """Also with right digests."""
    folder = publish_family(tmp_path, **ASKED)
    kind, changes, _ = FAULTS[what]
    for name, steps in changes.items():
        path = folder / kind / f"{name}.parquet"
        for change in steps:
            rewrite(path, change)
    reseal(folder)
    codes = {finding.code for finding in dprelease.verify(folder).findings}
    assert codes == {"DP-VERIFY-012"}


Schemas = Callable[[pa.Schema], pa.Schema]


def fields(change: Callable[[dict[bytes, bytes]], object]) -> Schemas:
    """Return the change of what every column says of itself."""

    def work(schema: pa.Schema) -> pa.Schema:
        changed = []
        for field in schema:
            said = dict(field.metadata or {})
            change(said)
            changed.append(field.with_metadata(said))
        return pa.schema(changed, metadata=schema.metadata)

    return work


def also(**said: str) -> Schemas:
    return lambda schema: schema.with_metadata({**(schema.metadata or {}), **said})


SAID: dict[str, tuple[Schemas, bool]] = {
    "the same": (lambda schema: schema, True),
    "another note": (also(dprelease="The rows are of persons."), False),
    "one more note": (also(by="somebody"), False),
    "nothing of columns": (fields(lambda said: said.clear()), False),
    "another role": (fields(lambda said: said.update({b"role": b"value of the truth"})), False),
    "no role": (fields(lambda said: said.pop(b"role")), False),
    "a label that nobody declared": (fields(lambda said: said.update({b"label": b"All"})), False),
}


@pytest.fixture(scope="module")
def synthetic_release(tmp_path_factory: pytest.TempPathFactory) -> Path:
    asked = {"asked": "group_by: [band]", "consistent": "{non_negative: true, publish: "
             "{records: true}}"}  # fmt: skip
    return publish_family(tmp_path_factory.mktemp("invented"), **asked)


FILES = ("records/pop_invented", "estimates/pop", "measurements/pop")


@pytest.mark.each
@pytest.mark.parametrize("name", FILES)
@pytest.mark.parametrize("what", SAID)
def test_changed_file_metadata_is_found(
    name: str, what: str, synthetic_release: Path, tmp_path: Path
) -> None:
    """A file may not call synthetic records real, or contain anything else but its rows."""
    change, is_ok = SAID[what]
    folder = Path(shutil.copytree(synthetic_release, tmp_path / "copy"))
    path = folder / f"{name}.parquet"
    held = pq.read_table(path)
    with pq.ParquetWriter(path, change(held.schema), compression="zstd") as writer:
        writer.write_table(held)
    reseal(folder)
    assert dprelease.verify(folder).ok is is_ok


@pytest.mark.parametrize("name", FILES)
def test_missing_note_on_synthetic_records_is_found(
    name: str, synthetic_release: Path, tmp_path: Path
) -> None:
    """The file itself says that its records are synthetic."""
    folder = Path(shutil.copytree(synthetic_release, tmp_path / "copy"))
    path = folder / f"{name}.parquet"
    held = pq.read_table(path)
    had_one = held.schema.metadata is not None
    pq.write_table(held.replace_schema_metadata(None), path, compression="zstd")
    reseal(folder)
    assert dprelease.verify(folder).ok is not had_one


HIDDEN: dict[str, Callable[[pa.Schema], bytes]] = {
    "as it is read": lambda schema: bytes(schema.serialize()),
    "a note inside": lambda schema: bytes(schema.with_metadata({"by": "somebody"}).serialize()),
}


@pytest.mark.parametrize("what", HIDDEN)
def test_extra_texts_in_the_stored_schema_are_found(
    what: str, synthetic_release: Path, tmp_path: Path
) -> None:
    """Readers of Parquet ignore texts there, but other programs may show them."""
    folder = Path(shutil.copytree(synthetic_release, tmp_path / "copy"))
    path = folder / "estimates/pop.parquet"
    held = pq.read_table(path)
    stored = base64.b64encode(HIDDEN[what](held.schema))
    with pq.ParquetWriter(path, held.schema, compression="zstd", store_schema=False) as writer:
        writer.write_table(held)
        writer.add_key_value_metadata({"ARROW:schema": stored})
    reseal(folder)
    assert dprelease.verify(folder).ok is (what == "as it is read")
