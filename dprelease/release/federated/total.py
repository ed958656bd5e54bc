"""The sum of all parties' messages: what is published of a federated release."""

from __future__ import annotations

import json
from collections.abc import Sequence
from fractions import Fraction
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn

import numpy as np

from dprelease.errors import BudgetError, Place
from dprelease.numerics.lattice import Integers
from dprelease.numerics.rounding import exact
from dprelease.release import manifest
from dprelease.release.federated.manifest import FORMAT

if TYPE_CHECKING:
    import pandas as pd


def federated_sum(folders: Sequence[str | Path], query: str | None = None) -> pd.DataFrame:
    """Return keys, sums and margins of error (95 %, `<column>_moe`) of all parties together.

    Whoever calls this sees every party's messages, and so has the guarantee of a single share
    alone. It is for parties that trust whoever sums, and a model of what secure aggregation
    computes: sums modulo 2^64, cell by cell. `attrs["dprelease"]` holds what was promised.

    Parameters
    ----------
    folders
        One folder of messages of each party.
    query
        The name of the query, where the release has several.

    Raises
    ------
    BudgetError
        DP-FED-003 unless there is one whole folder of every party, all of the same release.
    """
    paths = [Path(folder) for folder in folders]
    records = [_record(path) for path in paths]
    first = records[0] if records else {}
    for record in records:
        for name in ("declaration", "measurements"):
            if record[name] != first[name]:
                _refuse(f"their manifests have another {name}")
    if len({path.resolve() for path in paths}) != len(paths):
        _refuse("one folder stands there twice")
    if len(paths) != first.get("parties"):
        _refuse(f"{len(paths)} are given of {first.get('parties', 'all')}")
    names = [file["query"] for file in first["files"]]
    chosen = query or (names[0] if len(names) == 1 else "")
    if chosen not in names:
        _refuse(f"name one of the queries {', '.join(names)}")
    if len({_digest(record, chosen) for record in records}) != len(records):
        _refuse("two parties have the very same messages")
    return _summed(paths, records, chosen)


def _refuse(problem: str) -> NoReturn:
    raise BudgetError("DP-FED-003", place=Place(manifest.NAME), problem=problem)


def _record(path: Path) -> dict[str, Any]:
    held: Any = None
    try:
        held = json.loads((path / manifest.NAME).read_bytes())
    except (OSError, ValueError):
        held = None
    if (
        not isinstance(held, dict)
        or held.get("format") != FORMAT
        or held.get("digest") != manifest.digest_of(held)
    ):
        _refuse(f"{path.name} holds no messages, or others than were written")
    return held


def _digest(record: dict[str, Any], query: str) -> str:
    return next(str(file["sha256"]) for file in record["files"] if file["query"] == query)


def _summed(paths: Sequence[Path], records: Sequence[dict[str, Any]], query: str) -> pd.DataFrame:
    import pyarrow.parquet as pq

    columns = {m["column"]: m for m in records[0]["measurements"] if m["query"] == query}
    shown: pd.DataFrame | None = None
    totals: dict[str, Any] = {}
    for path, record in zip(paths, records, strict=True):
        file = path / f"{query}.parquet"
        if not file.is_file() or manifest.sha256(file.read_bytes()) != _digest(record, query):
            _refuse(f"a file of {path.name} is missing, or another one than was written")
        table = pq.read_table(file)
        if shown is None:
            keys = [name for name in table.column_names if name not in columns]
            shown = table.select(keys).to_pandas()
        for name in columns:
            values = table.column(name).to_numpy().view(np.uint64)
            totals[name] = totals[name] + values if name in totals else values.copy()
    assert shown is not None  # a release has two parties at least
    for name, held in columns.items():
        unit = exact(held["step"]) / held["refined"]
        shown[name] = _numbers(totals[name].view(np.int64), unit)
        shown[f"{name}_moe"] = float(exact(held["sum_margin_95"]))
    shown.attrs["dprelease"] = {"trust": records[0]["trust"], "words": records[0]["trust_words"]}
    return shown


def _numbers(sums: Integers, unit: Fraction) -> list[float]:
    return [float(value * unit) for value in sums.tolist()]
