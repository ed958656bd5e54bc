"""Releases with true totals: every format with a statement on privacy lists them."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from dprelease.exports import dcat, deployment_registry, dp_event, mbi
from dprelease.exports.export import PublishedRelease
from tests.exports import full_release
from tests.release.area_family import read_family

ASKED = {
    "budget": "epsilon: 1, delta: 1e-6, neighbours: replace",
    "columns": '{n: {count: "*"}}',
    "consistent": (
        "{non_negative: true, invariants: [{level: state}], "
        "acknowledge: invariants are published exactly}"
    ),
}


@pytest.fixture(scope="module")
def release(tmp_path_factory: pytest.TempPathFactory) -> PublishedRelease:
    return full_release.release_with_metadata(
        read_family(tmp_path_factory.mktemp("invariants"), **ASKED)
    )


def test_formats_list_invariants(release: PublishedRelease, tmp_path: Path) -> None:
    names = release.record.to_json()["guarantee"]["invariants"]
    assert names
    for export in (dcat, deployment_registry):
        (file,) = export.EXPORT.write(release, tmp_path)
        text = (tmp_path / file).read_text(encoding="utf-8")
        assert all(name in text for name in names), file
        assert "ublished exactly, outside" in text


def test_invariants_have_no_privacy_event(release: PublishedRelease, tmp_path: Path) -> None:
    (file,) = dp_event.EXPORT.write(release, tmp_path)
    record = json.loads((tmp_path / file).read_text())
    exact = [(one["query"], one["column"]) for one in release.record.to_json()["invariants"]]
    assert exact
    assert len(record["outside_the_guarantee"]) == len(exact)
    assert not {(one["query"], one["column"]) for one in record["measurements"]} & set(exact)


def test_invariants_are_no_mbi_measurements(release: PublishedRelease, tmp_path: Path) -> None:
    mbi.EXPORT.write(release, tmp_path)
    record = json.loads((tmp_path / "mbi/index.json").read_text(encoding="utf-8"))
    left_out = {(one["table"], one["column"]): one["reason"] for one in record["left_out"]}
    for one in release.record.to_json()["invariants"]:
        place = (f"measurements/{one['query']}", one["column"])
        assert left_out[place] == "it is no noised measurement, but computed or exact"
    told = [one for group in record["groups"] for one in group["measurements"]]
    assert told
    assert all(np.load(tmp_path / "mbi" / one["file"]).size and one["stddev"] > 0 for one in told)
