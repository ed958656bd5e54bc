"""`make bench`: exact noise and exact aggregation, each beside its plain counterpart."""

from __future__ import annotations

import argparse
import json
import tempfile
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path

from tests.benchmarks import (
    aggregation,
    calibration,
    census,
    growth,
    large,
    noise,
    on_spark,
    peers,
    questions,
)

SIZES = (1_000_000, 10_000_000, 50_000_000)


def main() -> None:
    """Print the tables; write them as JSON where `--json FILE` says."""
    parser = argparse.ArgumentParser(prog="make bench")
    parser.add_argument("--rows", type=int, nargs="+")
    parser.add_argument("--json", type=Path)
    parser.add_argument("--spark", action="store_true", help="beside Spark's own SQL, alone")
    parser.add_argument("--compare", type=Path, help="an earlier JSON: what got slower")
    parser.add_argument("--census", action="store_true", help="tables that agree, alone")
    parser.add_argument("--nation", action="store_true", help="with --census: all 51 states")
    parser.add_argument("--large", action="store_true", help="200 tables of --rows rows, alone")
    parser.add_argument("--only", nargs="+", help="workloads whose names start so, alone, once")
    parser.add_argument("--picture", type=Path, help="draw how costs grow as an SVG, alone")
    given = parser.parse_args()
    if not _is_alone(given):
        _all_of_it(given)


def _all_of_it(given: argparse.Namespace) -> None:
    beside = peers.run()
    draws = noise.run(beside)
    print()
    calibrations = calibration.run()
    plans = calibration.plan_many()
    print()
    asked = questions.run(_folder("bench", questions.ROWS))
    print()
    found = []
    by_hand = peers.can_aggregate()
    for rows in given.rows or SIZES:
        found += aggregation.compare(_folder("bench", rows), rows, by_hand)
        aggregation.show([row for row in found if row.rows == rows])
        print()
    print("\n".join(aggregation.growth(found)))
    if given.compare:
        old = json.loads(given.compare.read_text())["aggregation"]
        print("\n".join(aggregation.slower([asdict(row) for row in found], old)) or "none slower")
    if given.json:
        record = {
            "noise": [asdict(row) for row in draws],
            "peers": beside,
            "calibration": [asdict(row) for row in calibrations],
            "planning": [asdict(row) for row in plans],
            "questions": [asdict(row) for row in asked],
            "aggregation": [asdict(r) for r in found],
        }
        _write(given.json, record)


def _is_alone(given: argparse.Namespace) -> bool:
    """Measure what is asked for by itself, if anything is."""
    if given.census:
        states = census.NATION_WIDE if given.nation else census.STATES
        census.run(Path(tempfile.gettempdir()) / "dprelease-census", states=states)
        return True
    if given.large:
        for rows in given.rows or [large.ROWS]:
            large.run(_folder("large", rows), rows)
        return True
    if given.picture:
        growth.draw(given.picture, growth.measure(_folder("growth", growth.ROWS[-1])))
        return True
    if given.spark:
        on_sparks = _on_spark(given.rows or SIZES[:2], tuple(given.only or ()))
        if given.json:
            _write(given.json, {"spark": [asdict(row) for row in on_sparks]})
        return True
    if given.only:
        for rows in given.rows or SIZES:
            names = tuple(given.only)
            aggregation.show(aggregation.once(_folder("bench", rows), rows, names))
        return True
    return False


def _on_spark(sizes: Sequence[int], names: tuple[str, ...]) -> list[on_spark.OnSpark]:
    found = []
    for rows in sizes:
        found += on_spark.show(on_spark.compare(_folder("bench", rows), rows, names))
    return found


def _write(file: Path, record: dict[str, object]) -> None:
    file.write_text(json.dumps(record, indent=2) + "\n")


def _folder(name: str, rows: int) -> Path:
    return Path(tempfile.gettempdir()) / f"dprelease-{name}-{rows}"


if __name__ == "__main__":
    main()
