"""A Data Package is valid for Frictionless, and describes its CSV files."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from frictionless import Package

from dprelease.documents.encoding import sha256_of
from tests.exports.build import publish


def read_package(folder: Path) -> dict[str, Any]:
    found = json.loads((folder / "datapackage.json").read_text(encoding="utf-8"))
    assert isinstance(found, dict)
    return found


@pytest.fixture(scope="module", params=["", "wide: [sex]\n"])
def folder(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A release with a package, long and wide."""
    more = f"formats: [datapackage, csv]\n{request.param}"
    return publish(tmp_path_factory.mktemp("package"), more)


def test_every_file_is_described_once(folder: Path) -> None:
    package = read_package(folder)
    paths = [resource["path"] for resource in package["resources"]]
    there = {
        p.relative_to(folder).as_posix()
        for p in folder.rglob("*")
        if p.suffix in (".csv", ".parquet")
    }
    assert sorted(paths) == sorted(there)
    assert len({resource["name"] for resource in package["resources"]}) == len(paths)
    for resource in package["resources"]:
        path = folder / resource["path"]
        assert resource["bytes"] == path.stat().st_size
        assert resource["hash"] == f"sha256:{sha256_of(path)}"


def test_frictionless_reads_every_csv(folder: Path) -> None:
    """Types, keys, codes and digests are those of the files."""
    package = read_package(folder)
    package["resources"] = [one for one in package["resources"] if one["format"] == "csv"]
    assert list(Package.metadata_validate(read_package(folder))) == []
    report = Package.from_descriptor(package, basepath=str(folder)).validate()
    assert report.valid, report.flatten(["title", "note"])


def test_data_package_refuses_undeclared_values(folder: Path) -> None:
    """The description is strict: a code that is not listed makes the package invalid."""
    package = read_package(folder)
    package["resources"] = [one for one in package["resources"] if one["format"] == "csv"]
    for resource in package["resources"]:
        resource.pop("hash"), resource.pop("bytes")
        if resource["path"] == "csv/codes/city.csv":
            path = folder / resource["path"]
            was = path.read_bytes()
            path.write_bytes(was.replace(b"Bern", b"Basel"))
    report = Package.from_descriptor(package, basepath=str(folder)).validate()
    path.write_bytes(was)
    assert not report.valid
