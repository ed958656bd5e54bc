"""`make bench`: exact noise and exact aggregation, each beside its plain counterpart."""

from __future__ import annotations

import argparse
import json
import tempfile
from dataclasses import asdict
from pathlib import Path

from tests.benchmarks import aggregation, calibration, noise, peers


def main() -> None:
    """Print the tables; write them as JSON where `--json FILE` says."""
    parser = argparse.ArgumentParser(prog="make bench")
    parser.add_argument("--rows", type=int, default=10_000_000)
    parser.add_argument("--json", type=Path)
    given = parser.parse_args()
    beside = peers.run()
    draws = noise.run(beside)
    print()
    calibrations = calibration.run()
    plans = calibration.plan_many()
    print()
    folder = Path(tempfile.gettempdir()) / f"dprelease-bench-{given.rows}"
    found = aggregation.compare(folder, given.rows)
    print(
        f"{'workload, ' + format(given.rows, ',') + ' rows':<40}{'ours s':>9}{'DuckDB s':>10}",
        end="",
    )
    print(f"{'ratio':>7}{'ours MB':>9}{'DuckDB MB':>11}")
    for row in found:
        memory = f"{row.ours_mb:>9.0f}{row.plain_mb:>11.0f}" if row.ours_mb else ""
        print(f"{row.name:<40}{row.ours:>9.3f}{row.plain:>10.3f}{row.ratio:>7.2f}{memory}")
    if given.json:
        record = {
            "noise": [asdict(row) for row in draws],
            "peers": beside,
            "calibration": [asdict(row) for row in calibrations],
            "planning": [asdict(row) for row in plans],
            "aggregation": [asdict(r) for r in found],
        }
        given.json.write_text(json.dumps(record, indent=2) + "\n")


if __name__ == "__main__":
    main()
