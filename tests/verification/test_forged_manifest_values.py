"""A change at any place of a resealed manifest is found, or listed as an exception."""

from __future__ import annotations

import copy
import re
import shutil
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from dprelease.documents.encoding import sha256_of
from dprelease.planning import guarantees as guarantee
from dprelease.planning.guarantees import Guarantee
from dprelease.privacy.priced_vector import PricedVector
from dprelease.schema.release import BudgetSpec
from dprelease.verification.manifest_comparison import ROUNDING
from dprelease.verification.verify import verify
from tests.rewriting import rewrite
from tests.verification.forging import (
    RELEASES,
    Spot,
    at,
    changed,
    opinion,
    places,
    publish,
    read,
    seal,
    words,
)

EXCEPTIONS = {
    r"tool\..*": "the versions that it was made with: whoever verifies may have others",
    r"ledger\.(reservation|entry|digest)": "the ledger's own: compared where it is at hand",
    r"ledger\.renewals|ledger\.renewals\.0\.table": "likewise: that a budget renews, and whose",
    r"party": "only the party knows its number; the sum compares those of all parties",
}
"""What can be edited without a finding, and why. Beside these: what `auto` says that other
mechanisms would have cost (numbers in `chosen_by`), a second plan, on which no guarantee rests; and
texts of the declaration together with their digests, as far as they declare the same, such as
comments, which a ledger or a signature tells apart."""


@pytest.fixture(autouse=True)
def single_accounting(monkeypatch: pytest.MonkeyPatch) -> None:
    """Compute no privacy cost twice."""
    monkeypatch.setattr("dprelease.verification.second_opinion.second_opinion", opinion)


@pytest.fixture(scope="module")
def published(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    return {kind: publish(tmp_path_factory.mktemp(kind), kind) for kind in RELEASES}


def others(value: Any) -> Iterator[Any]:
    """Yield other values of a leaf's own type, as near as they can be, and one of another type.

    Numbers that another kind of processor would compute are the same: those are no forgeries.
    """
    if value is None:
        yield from ("1", 1.0)
    elif isinstance(value, bool):
        yield not value
    elif isinstance(value, int):
        yield from (value + 1, float(value))
    elif isinstance(value, float):
        yield from (value * (1 + 4 * ROUNDING) + 1e-300, value * (1 - 4 * ROUNDING) - 1e-300, None)
    elif re.fullmatch(r"[0-9]+([.][0-9]+)?(e-?[0-9]+)?", value):
        yield from (str(float(value) / 2), f"{value}0" if "." in value else f"{value}.0")
    else:
        yield value + "x"


def forgeries(record: dict[str, Any]) -> Iterator[tuple[Spot, dict[str, Any]]]:
    """Yield every place, and a manifest that was changed there and nowhere else."""
    for spot in places(record):
        value = at(record, spot)
        if spot == ("digest",):
            continue
        if isinstance(value, dict):
            yield spot, changed(record, spot, lambda part, name: part[name].update(more="x"))
        elif isinstance(value, list):
            if value:
                yield (
                    spot,
                    changed(record, spot, lambda part, name: part[name].append(part[name][0])),
                )
            if len(value) > 1:
                yield spot, changed(record, spot, lambda part, name: part[name].reverse())
        else:
            for other in (found for found in others(value) if repr(found) != repr(value)):

                def put(part: Any, name: str | int, other: Any = other) -> None:
                    part[name] = other

                yield spot, changed(record, spot, put)
        yield spot, changed(record, spot, lambda part, name: part.pop(name))


@pytest.fixture
def known_prices(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let the same noise be priced once: most forgeries leave it as it is."""
    known: dict[object, Guarantee] = {}

    def guarantee_of(vectors: Sequence[PricedVector], budget: BudgetSpec) -> Guarantee:
        key = (tuple((v.key, v.sensitivity) for v in vectors), repr(budget))
        if key not in known:
            known[key] = guarantee.guarantee_of(vectors, budget)
        return known[key]

    monkeypatch.setattr("dprelease.planning.plan.guarantee_of", guarantee_of)


def is_exception(spot: Spot) -> bool:
    return any(re.fullmatch(pattern, words(spot)) for pattern in EXCEPTIONS)


@pytest.mark.share(0.25)
@pytest.mark.usefixtures("known_prices")
@pytest.mark.parametrize("every", [16, pytest.param(1, marks=pytest.mark.audit)])
@pytest.mark.parametrize("kind", RELEASES)
def test_changed_value_at_any_place_is_found(
    kind: str, every: int, published: dict[str, Path], tmp_path: Path
) -> None:
    folder = Path(shutil.copytree(published[kind], tmp_path / "copy"))
    assert verify(folder).ok
    record, seen = read(folder), 0
    missed = []
    for seen, (spot, forged) in enumerate(forgeries(record), 1):
        if seen % every:
            continue
        seal(folder, forged)
        if verify(folder).ok and not is_exception(spot):
            missed.append((words(spot), at(record, spot)))
    assert not missed
    assert seen > 250
    seal(folder, record)
    assert verify(folder).ok


def test_ledger_leaves_no_exceptions(published: dict[str, Path], tmp_path: Path) -> None:
    """With the ledger at hand no place of the manifest is an exception, not even the versions."""
    folder = Path(shutil.copytree(published["paid"], tmp_path / "copy"))
    ledger = published["paid"].parent / "ledger.sqlite"
    assert verify(folder, ledger=ledger).ok
    record = read(folder)
    for spot, forged in forgeries(record):
        if is_exception(spot):
            seal(folder, forged)
            assert not verify(folder, ledger=ledger).ok, spot


def test_only_numbers_of_the_choice_of_auto_may_change(
    published: dict[str, Path], tmp_path: Path
) -> None:
    folder = Path(shutil.copytree(published["central"], tmp_path / "copy"))
    record = read(folder)
    said = record["measurements"][0]["chosen_by"]
    assert said.startswith("auto: least mae; ")
    for other, is_ok in (
        (re.sub(r"\+[0-9.]+", "+99.9", said), True),
        ("declared", False),
        ("auto: least rmse", False),
        (f"{said}; approved by the statistics office", False),
    ):
        forged = copy.deepcopy(record)
        forged["measurements"][0]["chosen_by"] = other
        seal(folder, forged)
        assert verify(folder).ok is is_ok, other


@pytest.mark.parametrize(
    "kind", ["central", "paid", "local", pytest.param("party", marks=pytest.mark.audit)]
)
def test_exchanged_tables_are_found_by_the_ledger(
    kind: str, published: dict[str, Path], tmp_path: Path
) -> None:
    """Whoever can write the folder can exchange tables; whoever also has a ledger finds it."""
    ours = Path(shutil.copytree(published[kind], tmp_path / "ours"))
    theirs = publish(tmp_path / "theirs", kind, key="another")
    record, other = read(ours), read(theirs)
    for file, exchanged in zip(record["files"], other["files"], strict=True):
        shutil.copy(theirs / file["name"], ours / file["name"])
        file.update(sha256=exchanged["sha256"], rows=exchanged["rows"])
    if kind == "local":
        record["measurements"] = other["measurements"]
    seal(ours, record)
    assert verify(ours).ok, "nothing but the ledger can tell"
    if kind == "paid":
        found = verify(ours, ledger=published["paid"].parent / "ledger.sqlite").findings
        assert [finding.code for finding in found] == ["DP-VERIFY-010"]
        assert "another digest" in found[0].cause


def test_forged_private_keys_are_found(published: dict[str, Path], tmp_path: Path) -> None:
    """Nobody but the run knows them; but each stands there once, in order, and none is missing."""
    folder = Path(shutil.copytree(published["central"], tmp_path / "copy"))
    path, record = folder / "ages.parquet", read(folder)
    table = pq.read_table(path)
    assert table["age"].to_pylist() == [20, 30]
    for keys, is_ok in (
        ([20, 31], True),
        ([30, 20], False),
        ([20, 20], False),
        ([20, None], False),
    ):
        ages = pa.array(keys, pa.int64())
        rewrite(path, lambda table, ages=ages: table.set_column(0, "age", ages))
        record["files"][1]["sha256"] = sha256_of(path)
        seal(folder, record)
        assert verify(folder).ok is is_ok, keys
