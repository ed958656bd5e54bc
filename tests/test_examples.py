"""Every example folder is a whole release: it runs, has its expected shape, and verifies."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pyarrow.parquet as pq
import pytest

import dprelease

EXAMPLES = Path(__file__).parents[1] / "examples"
FOLDERS = sorted(path.parent for path in EXAMPLES.glob("*/release.yaml"))


def shape_of(folder: Path) -> dict[str, object]:
    """Return names and types of columns, number of rows, first and last key of each file."""
    shapes: dict[str, object] = {}
    for path in sorted(folder.glob("*.parquet")):
        table = pq.read_table(path)
        keys = [
            name for name in table.column_names if str(table.schema.field(name).type) == "string"
        ]
        ends = table.select(keys).take([0, table.num_rows - 1]).to_pylist()
        shapes[path.name] = {
            "columns": {field.name: str(field.type) for field in table.schema},
            "rows": table.num_rows,
            "first": ends[0],
            "last": ends[1],
        }
    return shapes


def test_the_examples_are_there() -> None:
    """The two whole releases that the README speaks of are found."""
    assert {"nist_acs", "bike_trips"} <= {folder.name for folder in FOLDERS}


@pytest.mark.parametrize("folder", FOLDERS, ids=lambda folder: folder.name)
def test_example_has_its_expected_shape(folder: Path, tmp_path: Path) -> None:
    """A copy of the folder releases files of the declared shape, and they verify."""
    work = tmp_path / folder.name
    shutil.copytree(folder, work, ignore=shutil.ignore_patterns("out"))
    published = dprelease.read_release(work / "release.yaml").run()
    expected = json.loads((folder / "expected.json").read_text(encoding="utf-8"))
    assert shape_of(published) == expected
    assert dprelease.verify(published).ok
