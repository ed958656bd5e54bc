"""`make bench`: exact noise and exact aggregation, each beside its plain counterpart."""

from __future__ import annotations

import argparse
import json
import tempfile
from dataclasses import asdict
from pathlib import Path

from tests.benchmarks import aggregation, calibration, noise, on_spark, peers

SIZES = (1_000_000, 10_000_000, 50_000_000)


def main() -> None:
    """Print the tables; write them as JSON where `--json FILE` says."""
    parser = argparse.ArgumentParser(prog="make bench")
    parser.add_argument("--rows", type=int, nargs="+", default=SIZES)
    parser.add_argument("--json", type=Path)
    parser.add_argument("--spark", action="store_true", help="beside Spark's own SQL, too")
    parser.add_argument("--compare", type=Path, help="an earlier JSON: what got slower")
    given = parser.parse_args()
    beside = peers.run()
    draws = noise.run(beside)
    print()
    calibrations = calibration.run()
    plans = calibration.plan_many()
    print()
    found = []
    by_hand = peers.can_aggregate()
    for rows in given.rows:
        folder = Path(tempfile.gettempdir()) / f"dprelease-bench-{rows}"
        found += aggregation.compare(folder, rows, by_hand)
        aggregation.show([row for row in found if row.rows == rows])
        print()
    print("\n".join(aggregation.growth(found)))
    on_sparks = _on_spark(given.rows) if given.spark else []
    if given.compare:
        old = json.loads(given.compare.read_text())["aggregation"]
        print("\n".join(aggregation.slower([asdict(row) for row in found], old)) or "none slower")
    if given.json:
        record = {
            "noise": [asdict(row) for row in draws],
            "peers": beside,
            "calibration": [asdict(row) for row in calibrations],
            "planning": [asdict(row) for row in plans],
            "aggregation": [asdict(r) for r in found],
            "spark": [asdict(r) for r in on_sparks],
        }
        given.json.write_text(json.dumps(record, indent=2) + "\n")


def _on_spark(sizes: list[int]) -> list[on_spark.OnSpark]:
    found = []
    for rows in sizes:
        found += on_spark.compare(Path(tempfile.gettempdir()) / f"dprelease-bench-{rows}", rows)
        on_spark.show([row for row in found if row.rows == rows])
    return found


if __name__ == "__main__":
    main()
