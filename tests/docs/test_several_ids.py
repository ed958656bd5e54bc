"""The correspondence table of the guide on databases names the patients that the guide says."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

from dprelease.exact.duckdb import Engine
from dprelease.schema.load import read_table
from dprelease.statements.layers import SOURCE
from tests.docs.fences import DOCS, blocks


def test_prescriptions_count_for_patients(tmp_path: Path) -> None:
    page = (DOCS / "how-to" / "databases.md").read_text(encoding="utf-8")
    files = {block.file: block.text for block in blocks(page) if block.file and not block.is_part}
    for name in ("prescriptions.csv", "ids.csv", "prescriptions.yaml"):
        (tmp_path / name).write_text(files[name], encoding="utf-8")
    with Engine.open(read_table(tmp_path / "prescriptions.yaml")) as engine:
        statement = f"SELECT patient, drug FROM {SOURCE}"
        rows = engine._read_rows(lambda link: link.execute(statement).fetchall())
    wanted = [("A", "metformin"), ("A", "insulin"), ("A", "metformin"), (None, "aspirin")]
    assert Counter(rows) == Counter(wanted)
