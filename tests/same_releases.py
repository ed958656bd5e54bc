"""Whether two checkouts make the same releases from the same bits, to the byte.

`python tests/same_releases.py OLD NEW` publishes twenty releases with each checkout, every mechanism and
every kind of release among them, in a process of its own with replayed bits, and compares all files.
It ends with 1 and tells which differ if any does. For changes that should change nothing. Of a Parquet
file its rows are compared as well: a change of what it says beside them changes its bytes alone.
"""

from __future__ import annotations

import hashlib
import json
import os
import subprocess
import sys
from collections.abc import Callable
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

TABLE: dict[str, Any] = {
    "table": "people",
    "owner": "office",
    "size": 5000,
    "source": "people.csv",
    "privacy_unit": {"id": "id", "max_groups": 2, "max_rows_per_group": 2},
    "columns": {
        "id": {"type": "integer"},
        "sex": {"type": "category", "values": ["F", "M"]},
        "state": {"type": "category", "values": [f"{i:02}" for i in range(12)]},
        "town": {"type": "text"},
        "age": {"type": "integer", "lower": 0, "upper": 99},
        "pay": {"type": "number", "lower": 0, "upper": 1000, "step": "0.01", "fill": 0},
        "band": {"cut": "age", "edges": [0, 18, 65, 100]},
    },
}
NOISES: list[Any] = [
    "discrete_laplace", "laplace", "staircase", "discrete_gaussian", "gaussian", "truncated_laplace",
    "discrete_offset_symmetric_gaussian", "generalized_gaussian", "auto",
    {"name": "symmetric_alpha_stable", "alpha": "1.5"}, {"name": "asymmetric_laplace", "k": "1.2"},
]  # fmt: skip
COUNTS = {"from": "people", "group_by": ["state", "sex"], "columns": {"n": {"count": "*"}}}
SUMS: dict[str, Any] = {
    "from": "people",
    "group_by": ["band"],
    "where": "sex = 'F' OR age >= 18",
    "columns": {"n": {"count": "*"}, "pay": {"sum": "pay"}, "mean": {"mean": "age"}},
}
CHOICES: dict[str, Any] = {
    "from": "people",
    "group_by": ["sex"],
    "columns": {
        "median": {"median": "age"},
        "mode": {"mode": "state"},
        "spread": {"variance": "age"},
        "part": {"ratio": ["pay", "age"]},
        "together": {"correlation": ["pay", "age"]},
        "line": {"slope": {"of": "pay", "on": "age"}},
        "heavy": {"weighted_mean": {"of": "pay", "weight": "age"}},
        "ids": {"count_distinct": "id"},
    },
}
PRIVATE = {
    "from": "people",
    "group_by": ["town"],
    "columns": {"n": {"count": "*"}},
    "private_keys": True,
}
APPROXIMATE = {"epsilon": 2, "delta": "1e-7"}


def release(queries: dict[str, Any], mechanism: Any, **more: Any) -> dict[str, Any]:
    return {
        "title": "The same",
        "tables": ["people.yaml"],
        "budget": APPROXIMATE,
        "mechanism": mechanism,
        "queries": queries,
        "output": "out",
        **more,
    }


def releases() -> dict[str, dict[str, Any]]:
    """Return twenty releases by name."""
    both = {"counts": COUNTS, "sums": SUMS}
    found = {f"noise {i}": release(both, noise) for i, noise in enumerate(NOISES)}
    found["choices"] = release({"choices": CHOICES}, "auto")
    found["pure"] = release({"choices": CHOICES, **both}, "auto", budget={"epsilon": 1})
    found["rho"] = release(both, "auto", budget={"rho": "0.1", "delta": "1e-9"})
    found["private"] = release({"private": PRIVATE, **both}, "auto")
    found["changed"] = release(both, "laplace", budget={**APPROXIMATE, "neighbours": "replace"})
    found["optimal"] = release({"counts": {**COUNTS, "group_by": []}}, "optimal")
    found["emptied"] = release(
        {"counts": {**COUNTS, "columns": {"n": {"count": "*", "suppress_above": "30%"}}}}, "laplace"
    )
    found["weights"] = release({"counts": {**COUNTS, "share": "3"}, "sums": SUMS}, "gaussian")
    found["total"] = release({"counts": {**COUNTS, "group_by": []}}, "staircase")
    return found


def write_people(folder: Path) -> None:
    lines = ["id,sex,state,town,age,pay"]
    for i in range(6000):
        digest = hashlib.sha256(str(i).encode()).digest()
        a, b, c, d, e, f = digest[:6]
        pay = "" if f < 20 else f"{(d * 256 + e) / 50:.2f}"
        lines.append(f"{i // 2},{'FMX'[a % 3]},{b % 13:02},t{c % 5},{(d + e) % 120},{pay}")
    (folder / "people.csv").write_text("\n".join([*lines, ""]))


def publish(folder: Path) -> dict[str, Any]:
    """Publish all of them with the package that is on the path; return digests by file."""
    import yaml

    from dprelease.errors import DpReleaseError
    from dprelease.schema.load import read_declaration
    from tests.replay import Keyed

    run = runner()
    write_people(folder)
    (folder / "people.yaml").write_text(yaml.safe_dump(TABLE, sort_keys=False))
    found: dict[str, Any] = {}
    for name, declared in releases().items():
        path = folder / "release.yaml"
        path.write_text(yaml.safe_dump(declared, sort_keys=False))
        try:
            out = run(read_declaration(path), output=folder / f"out {name}", bits=Keyed(name))
        except DpReleaseError as error:
            found[name] = str(error)  # refused by both, in the same words
            continue
        for file in sorted(out.iterdir()):
            found[f"{name}/{file.name}"] = hashlib.sha256(file.read_bytes()).hexdigest()
            if file.suffix == ".parquet":
                found[f"{name}/{file.name} rows"] = rows_of(file)
    return found


def runner() -> Callable[..., Path]:
    """Return what runs a declaration, wherever the checkout on the path has it."""
    places = ("dprelease.release.runs", "dprelease.release")
    home = next(place for place in places if find_spec(place) and find_spec(f"{place}.pipeline"))
    run: Callable[..., Path] = import_module(f"{home}.pipeline").run
    return run


def rows_of(file: Path) -> str:
    """Return the digest of a table's columns and rows, without what is said beside them."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    held = pq.read_table(file)
    plain = pa.Table.from_arrays(held.combine_chunks().columns, names=held.column_names)
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, plain.schema) as stream:
        stream.write_table(plain)
    return hashlib.sha256(sink.getvalue()).hexdigest()


def made_by(checkout: Path) -> dict[str, Any]:
    """Return what a checkout publishes, made in a process of its own."""
    with TemporaryDirectory() as folder:
        done = subprocess.run(
            [sys.executable, str(Path(__file__)), "--publish", folder],
            env={**os.environ, "PYTHONPATH": str(checkout)},
            cwd=checkout,
            capture_output=True,
            text=True,
            timeout=1800,
            check=False,
        )
    if done.returncode:
        raise SystemExit(done.stderr)
    found: dict[str, Any] = json.loads(done.stdout)
    return found


def main(words: list[str]) -> int:
    if words[:1] == ["--publish"]:
        print(json.dumps(publish(Path(words[1]))))
        return 0
    old, new = (made_by(Path(word).resolve()) for word in words)
    differing = sorted(name for name in old | new if old.get(name) != new.get(name))
    print(f"{len(old)} files, {len(differing)} differ", *differing, sep="\n")
    return 1 if differing else 0


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
