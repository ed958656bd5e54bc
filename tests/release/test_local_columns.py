"""Values mean the same in local and central releases: one table of columns for both."""

from __future__ import annotations

from typing import Any

import pandas as pd
import pytest
import yaml

from dprelease.errors import DpReleaseError
from dprelease.exact.duckdb import Engine
from dprelease.query.local_records import resolve_records
from dprelease.schema.load import declaration_from_texts
from tests.exact.build import ask, declare, exact

NUMBERS = [-1.0, 0.0, 0.5, 17.0, 17.5, 18.0, 18.25, 64.0, 65.0, 66.0, 1e300, None]
VALUES: dict[str, list[Any]] = {
    "row": [str(i) for i in range(len(NUMBERS))],
    "n": [int(x) if x is None or x < 1e300 else 99 for x in NUMBERS if x is not None] + [None],
    "x": NUMBERS,
    "text": [None if x is None else str(x) for x in NUMBERS],
    "c": ["a", "b", "", "A", "zz", None] * 2,
    "flag": [True, False, None] * 4,
    "day": ["2000-01-01", "2000-01-03", "1999-12-31", "2024-02-02", "no day", None] * 2,
}
STORED: dict[str, Any] = {
    "row": {"type": "category", "values": VALUES["row"], "fill": "0", "others": "0"},
    "n": {"type": "integer", "lower": 0, "upper": 70, "fill": 3},
    "x": {"type": "number", "lower": 0, "upper": 70, "step": 0.5, "fill": 0},
    "text": {"type": "number", "lower": 0, "upper": 70, "step": 0.5, "fill": 0},
    "c": {"type": "category", "values": ["a", "b"], "fill": "b", "others": "a"},
    "flag": {"type": "boolean", "fill": True},
    "day": {"type": "date", "lower": "2000-01-01", "upper": "2000-01-04", "fill": "2000-01-02"},
}
CUTS = {
    f"{of} {closed} {edges}": {"cut": of, "edges": edges, "closed": closed}
    for of in ("n", "x", "text")
    for closed in ("left", "right")
    for edges in ([0, 18, 65], [0.5, 17.5, 18.25, 65], [17, 18, 64])
}


def columns(name: str) -> dict[str, Any]:
    """Return the stored columns, and a cut if one is named; its ends take what is outside."""
    if name in STORED:
        return dict(STORED)
    labels = [f"band {i}" for i in range(len(CUTS[name]["edges"]) - 1)]
    ends = {"labels": labels, "fill": labels[-1], "others": labels[0]}
    return {**STORED, "cut": {**CUTS[name], **ends}}


@pytest.mark.share(0.4)
@pytest.mark.parametrize("name", [*list(STORED)[1:], *CUTS])
def test_local_records_and_central_queries_agree(name: str) -> None:
    """For each row: the cell that a central query counts it in, or the steps it adds."""
    found, frame = columns(name), pd.DataFrame(VALUES)
    column = "cut" if name in CUTS else name
    declared = declare(found)
    (part,) = resolve_records(local_declaration(found, column))
    with Engine.open(declared, frame) as engine:
        held = engine.records(part).vector(column)
    if column in ("n", "x", "text"):
        assert exact(ask(declared, {"v": {"sum": column}}, ["row"]), frame)["v"].tolist() == list(
            held
        )
        return
    cells = exact(ask(declared, {"v": {"count": "*"}}, ["row", column]), frame)["v"]
    cells = cells.reshape(len(frame), -1)
    assert cells.sum(axis=1).tolist() == [1] * len(frame)
    assert cells.argmax(axis=1).tolist() == list(held)


def test_cut_of_computed_column_is_refused() -> None:
    twice = {"type": "number", "lower": 0, "upper": 140, "expression": "x * 2", "fill": 0}
    band = {"cut": "twice", "edges": [0, 70, 140], "fill": "0-69", "others": "0-69"}
    for column in ("twice", "band"):
        with pytest.raises(DpReleaseError, match="DP-LOCAL-004"):
            resolve_records(local_declaration({**STORED, "twice": twice, "band": band}, column))


def local_declaration(found: dict[str, Any], column: str) -> Any:
    texts = {"t.yaml": yaml.safe_dump({"table": "t", "source": "t.csv", "columns": found})}
    release = {
        "title": "t", "tables": ["t.yaml"], "mode": "local", "output": "out",
        "budget": {"epsilon": 4, "neighbours": "replace"},
        "records": {"r": {"from": "t", "columns": {column: {}}}},
    }  # fmt: skip
    return declaration_from_texts(
        {"release.yaml": yaml.safe_dump(release), **texts}, "release.yaml"
    )
