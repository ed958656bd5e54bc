"""A release on Spark has the same formats as any other."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

import dprelease
from dprelease.release.runs.pipeline import run
from dprelease.schema.load import read_declaration
from tests.exact.spark import local_spark
from tests.exports import build
from tests.replay import Keyed

FORMATS = "formats: [csv, excel, ods, sdmx-csv, json-stat, px, mbi, datapackage]\nwide: [sex]\n"


@pytest.mark.audit
@pytest.mark.skipif(shutil.which("java") is None, reason="Spark needs Java")
@pytest.mark.filterwarnings("ignore")  # of pyspark
def test_formats_of_a_release_on_spark(tmp_path: Path) -> None:
    """They verify, and equal those of the same release on DuckDB."""
    one = build.publish(tmp_path / "one", FORMATS)
    path = build.write(tmp_path / "two", FORMATS + "engine: spark\n")
    with local_spark():
        two = run(read_declaration(path), bits=Keyed("exports"))
    report = dprelease.verify(two)
    assert report.ok, report.findings
    parts = json.loads((two / "manifest.json").read_text())["exports"]
    assert len(parts) == 8
    for name in (file["name"] for part in parts for file in part["files"]):
        assert (one / name).read_bytes() == (two / name).read_bytes(), name
