"""The `about` section of a release is valid in each format, by the format's own validator."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from frictionless import Package
from jsonstat_validator import validate_jsonstat

from dprelease.documents.metadata import About, Metadata
from dprelease.exports import data_package, json_stat
from dprelease.exports.csv_tables import csv_files
from dprelease.exports.export import PublishedRelease
from tests.exports import full_release, test_dcat

ABOUTS: dict[str, dict[str, Any]] = {
    **test_dcat.ABOUTS,
    "licence of one word": {"licence": "Internal"},
    "licence of Creative Commons": {"licence": "CC-BY-4.0"},
    "licence by its address": {"licence": "https://office.example/terms"},
    "methods in words": {"methodology": "Handbook, page 7"},
    "methods by their address": {"methodology": "https://office.example/methods"},
    "mail of somebody": {"publisher": "Office", "contact": "data@office.example"},
    "no mail, with a publisher": {"publisher": "Office", "contact": "a @ b"},
    "nearly mail": {"publisher": "Office", "contact": "a@b"},
    "two marks": {"publisher": "Office", "contact": "a@b@c.example"},
    "a version in words": {"version": "second, corrected"},
    "a title without letters": {"title": "???"},
}


@pytest.fixture(scope="module")
def release(tmp_path_factory: pytest.TempPathFactory) -> PublishedRelease:
    return full_release.publish_release(tmp_path_factory.mktemp("abouts"))


@pytest.mark.parametrize("about", ABOUTS)
def test_every_about_section_is_valid_in_all_formats(
    release: PublishedRelease, tmp_path: Path, about: str
) -> None:
    """The file contains the licence and the contact."""
    from csvw import CSVW

    fields = {"title": "T", **ABOUTS[about]}
    said = Metadata(About(**fields), ("en",), release.metadata.tables)
    told = replace(release, metadata=said, written={})
    data_package.EXPORT.write(told, tmp_path)
    (statistics, *_) = json_stat.EXPORT.write(told, tmp_path)
    written = csv_files.EXPORT.write(told, tmp_path)
    package = json.loads((tmp_path / "datapackage.json").read_text(encoding="utf-8"))
    assert list(Package.metadata_validate({**package, "resources": [ONE]})) == []
    validate_jsonstat(json.loads((tmp_path / statistics).read_text(encoding="utf-8")))
    (described,) = (
        tmp_path / name for name in written if name.endswith("by_kind.csv-metadata.json")
    )
    assert CSVW(str(described), validate=True).is_valid
    for name in ("datapackage.json", statistics, described):
        text = (tmp_path / name).read_text(encoding="utf-8")
        assert all(fields[key] in text for key in ("licence", "contact") if key in fields), name


ONE = {"name": "one", "path": "one.csv", "schema": {"fields": []}}
"""A package has resources; those of the release are tried by its own test."""
