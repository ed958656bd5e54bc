"""`make demo`: plan, run, verify and report on a release of census persons, then show it."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pyarrow.parquet as pq

HERE = Path(__file__).parent / "nist_acs"
OUT = HERE / "out" / "persons"


def step(*words: str) -> None:
    """Show a command as a person would type it, and run it."""
    print(f"\n$ dprelease {' '.join(words)}", flush=True)
    subprocess.run([sys.executable, "-m", "dprelease", *words], cwd=HERE, check=True)


def main() -> None:
    """Run the commands and print the first cells of each published table."""
    step("check", "release.yaml")
    step("plan", "release.yaml")
    step("run", "release.yaml", "--overwrite")
    step("verify", "out/persons")
    step("report", "out/persons", "--overwrite")
    for path in sorted(OUT.glob("*.parquet")):
        table = pq.read_table(path)
        print(f"\n{path.name}: {table.num_rows} cells, the first five:")
        print(table.slice(0, 5).to_pandas().to_string(index=False))


if __name__ == "__main__":
    main()
