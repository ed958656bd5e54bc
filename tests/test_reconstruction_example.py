"""The comparison of forms of tables: it can be made again, and the manual says what it found."""

from __future__ import annotations

import json
import re
from pathlib import Path

from examples.reconstruction import comparison

ROOT = Path(__file__).parents[1]
PICTURES = ROOT / "docs" / "pictures"
TOLD = ("error", "right", "alone_found", "certain", "certain_right", "certain_alone")


def test_comparison_runs_and_is_drawn(tmp_path: Path) -> None:
    """Of few records and in little time: what is found then depends on the machine, its form not."""
    rows = comparison.PUBLIC.read_text(encoding="utf-8").splitlines()
    public = tmp_path / "public.csv"
    public.write_text(
        "\n".join(rows[:1] + [row for row in rows if row.startswith("01-01301")][:40])
    )
    folder = tmp_path / "made"
    comparison.compare(folder, public, budgets=("2",), seconds=2, forms=("exact", "noised"))
    found = comparison.numbers(folder)
    assert [row["form"] for row in found] == ["all", "drawn", "apportioned", "exact", "noised"]
    assert found[0]["right"] == "40"
    told = json.loads((folder / "attack-at-2.json").read_text())
    assert [one["right"] for one in told["forms"]] == [int(row["right"]) for row in found[3:]]
    drawn = {name: (folder / name).read_bytes() for name in (comparison.FOUND, comparison.ERRORS)}
    comparison.draw(folder)
    assert drawn == {name: (folder / name).read_bytes() for name in drawn}


def test_manual_shows_the_results() -> None:
    """Every number of the page's table is one of those that the script wrote; so are its texts."""
    rows = comparison.numbers(PICTURES)
    page = (ROOT / "docs" / "why-noise.md").read_text(encoding="utf-8")
    for row in rows:
        if row["form"] in comparison.FORMS:
            label = comparison.label(row)
            (line,) = re.findall(rf"^\| {re.escape(label)} \|(.*)\|$", page, re.MULTILINE)
            told = [cell.strip().replace(",", "") for cell in line.split("|")]
            assert told == [row[name] for name in TOLD], label
            assert label in (PICTURES / comparison.FOUND).read_text(encoding="utf-8")
    known = {row["form"]: row for row in rows}
    for name in ("all", "drawn", "apportioned"):
        assert f"{int(known[name]['right']):,}" in page
