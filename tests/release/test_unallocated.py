"""Rows with unknown codes count in every table of a family, under the part that is known."""

from __future__ import annotations

import random
from collections import Counter
from fractions import Fraction
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import yaml

import dprelease
from dprelease.exact.duckdb import Engine
from dprelease.ledger.account import Account
from dprelease.ledger.ledger import Ledger
from dprelease.query.resolve import resolve
from dprelease.schema.load import read_declaration

STATES = ("A", "B")
FEW = {f"{state.lower()}{i}": state for state in STATES for i in range(3)}
MANY = {f"{state.lower()}{i:03d}": state for state in STATES for i in range(60)}
ON = {"unallocated": True}
Row = dict[str, Any]


def rows(counties: dict[str, str], n: int = 300) -> list[Row]:
    """Return rows of declared, missing and unknown codes; some name another state than theirs."""
    draw = random.Random(5)
    codes, states = [*counties, *[None, "", "zz"] * 5], ["A", "B", "", None, "Q"]
    return [
        {
            "id": draw.randrange(n), "county": draw.choice(codes), "state": draw.choice(states),
            "sex": draw.choice(["f", "m", None, "?"]), "home": draw.randrange(9),
        }
        for _ in range(n)
    ]  # fmt: skip


def place(row: Row, counties: dict[str, str]) -> str:
    """Return the county of a row, or the part of what is known of it, taken one by one."""
    if row["county"] in counties:
        return str(row["county"])
    return f"{row['state']}_X" if row["state"] in STATES else "_X"


def write(folder: Path, counties: dict[str, str], queries: Row, **more: Any) -> Path:
    """Return a release file, written with its schema and its rows."""
    by_state: dict[str, list[str]] = {}
    for county, state in counties.items():
        by_state.setdefault(state, []).append(county)
    people = {
        "table": "people", "source": "people.parquet",
        "columns": {
            "id": {"type": "integer"},
            "state": {"type": "category", "values": [*STATES], **ON},
            "county": {"type": "category", "within": "state", "values": by_state, **ON},
            "sex": {"type": "category", "values": ["f", "m"], **ON},
            "home": {"type": "integer", "lower": 0, "upper": 8},
        },
        **more.pop("people", {}),
    }  # fmt: skip
    release = {
        "title": "t", "tables": ["people.yaml"], "budget": {"epsilon": 100, "delta": "1e-9"},
        "mechanism": "discrete_laplace", "queries": queries, "output": "out", **more,
    }  # fmt: skip
    types = {"id": pa.int64(), "home": pa.int64()}
    held = rows(counties)
    frame = {k: pa.array([row[k] for row in held], types.get(k, pa.string())) for k in held[0]}
    pq.write_table(pa.table(frame), folder / "people.parquet")
    for name, document in (("people", people), ("release", release)):
        (folder / f"{name}.yaml").write_text(yaml.safe_dump(document, sort_keys=False))
    return folder / "release.yaml"


N = {"n": {"count": "*"}}
QUERIES: dict[str, Row] = {
    "a family": {"hierarchy": ["state", "county"], "marginals": [[], ["sex"]], "consistent": True},
    "one table": {"group_by": ["county", "sex"]},
    "marginals": {"marginals": [[], ["county"], ["county", "sex"]]},
    "a condition": {"group_by": ["county"], "where": "county IS NOT NULL OR home < 9"},
    "private keys": {"group_by": ["county"], "private_keys": True},
}
LIMITS = {"privacy_unit": {"id": "id", "max_groups": 300, "max_rows_per_group": 300}}


@pytest.mark.each
@pytest.mark.parametrize("limits", [{}, LIMITS], ids=["rows", "ids"])
@pytest.mark.parametrize("counties", [FEW, MANY], ids=["few", "many"])
@pytest.mark.parametrize("asked", QUERIES)
def test_rows_with_unknown_codes_count_under_known_areas(
    tmp_path: Path, asked: str, counties: dict[str, str], limits: Row
) -> None:
    """Short lists of areas are compared, and long ones looked up in tables."""
    query = {"from": "people", **QUERIES[asked], "columns": N}
    queries = resolve(read_declaration(write(tmp_path, counties, {"q": query}, people=limits)))
    held = rows(counties)
    sexes = [row["sex"] if row["sex"] in ("f", "m") else "_X" for row in held]
    found = [place(row, counties) for row in held]
    above = {"A_X": "A", "B_X": "B", "_X": "_X", **counties}
    columns = {"county": found, "state": [above[one] for one in found], "sex": sexes}
    with Engine.open(queries[0].declared, None, queries=queries) as engine:
        engine.expect(queries)
        for query_ in queries:
            if query_.private is not None:
                names = engine.partitions(query_).names
                assert {one.split(":", 1)[1] for one in names} == {*found}
                continue
            keys = [key.column for key in query_.keys.keys]
            wanted = Counter(zip(*(columns[key] for key in keys), strict=True))
            vector = engine.run(query_).vector("n")
            assert int(vector.sum()) == len(held)
            for value, count in wanted.items():
                at = sum(
                    list(key.values).index(part) * stride
                    for part, key, stride in zip(
                        value, query_.keys.keys, query_.keys.strides, strict=True
                    )
                )
                assert vector[at] == count


@pytest.mark.parametrize("asked", ["a family", "one table", "private keys"])
def test_unallocated_rows_with_one_column_of_codes(tmp_path: Path, asked: str) -> None:
    """A code names a county, or a state of which the county is unknown, or nothing known."""
    levels: Row = {
        "code": {"type": "text"},
        "state": {
            "type": "category", "values": ["A", "B"], "expression": "upper(left(code, 1))", **ON,
        },
        "county": {
            "type": "category", "within": "state", "expression": "code", **ON,
            "values": {state: [c for c, one in FEW.items() if one == state] for state in STATES},
        },
        "sex": {"type": "category", "values": ["f", "m"], **ON},
    }  # fmt: skip
    query = {"from": "people", **QUERIES[asked], "columns": N}
    path = write(tmp_path, FEW, {"q": query}, people={"columns": levels})
    codes = [*FEW, "a", "B", "a9", "zz", None, ""] * 3
    table = pa.table({"code": pa.array(codes, pa.string()), "sex": ["f"] * len(codes)})
    pq.write_table(table, tmp_path / "people.parquet")
    found = [place({"county": c, "state": (c or "")[:1].upper()}, FEW) for c in codes]
    assert {"A_X", "B_X", "_X"} < {*found}
    *_, finest = resolve(read_declaration(path))
    with Engine.open(finest.declared, None, queries=[finest]) as engine:
        engine.expect([finest])
        if finest.private is not None:
            names = engine.partitions(finest).names
            assert {one.split(":", 1)[1] for one in names} == {*found}
            return
        vector = engine.run(finest).vector("n").reshape(-1, 3)[:, 0]
        county = finest.keys.keys[0]
        assert dict(zip(county.texts, vector.tolist(), strict=True)) == dict(Counter(found))


WHOLE = {
    "non_negative": True, "publish": {"records": True}, "zeros": [{"sex": "_X", "home": [8]}],
}  # fmt: skip
EXACT = {
    "non_negative": True, "invariants": [{"level": "state"}],
    "acknowledge": "invariants are published exactly",
}  # fmt: skip


@pytest.mark.parametrize("consistent", [True, WHOLE, EXACT], ids=["estimates", "records", "exact"])
def test_releases_with_unallocated_rows_verify(tmp_path: Path, consistent: Any) -> None:
    """Totals have all rows, the tables add up, and another reader gets the same numbers."""
    replaced = consistent is EXACT
    more: Row = (
        {"budget": {"epsilon": 90, "neighbours": "replace", "delta": "1e-9"}} if replaced else {}
    )
    if replaced:
        more |= {"ledger": "ledger.sqlite", "people": {"owner": "office"}}
    query = {
        "from": "people", "hierarchy": ["state", "county"], "columns": N, "consistent": consistent,
        "marginals": [[], ["sex"], ["home", "sex"]],
    }  # fmt: skip
    path = write(tmp_path, FEW, {"q": query}, **more)
    if replaced:
        names, held_by = ("count of rows by state, of people",), "office/people"
        amounts = (Fraction(500), Fraction(1, 10**4), None)
        found = Ledger(tmp_path / "ledger.sqlite")
        found.open_account(Account(held_by, "replace", "each row", *amounts, None, names))
    release = dprelease.read_release(path)
    release.run()
    assert dprelease.verify(tmp_path / "out").checked
    total = pq.read_table(tmp_path / "out" / "estimates" / "q_total.parquet")["n"].to_pylist()
    held, wide = rows(FEW), 20 if consistent is not WHOLE else 60
    assert abs(total[0] - len(held)) < wide
    wanted = Counter({**FEW, "A_X": "A", "B_X": "B", "_X": "_X"}[place(r, FEW)] for r in held)
    states = pq.read_table(tmp_path / "out" / "estimates" / "q_state.parquet").to_pylist()
    assert [row["state"] for row in states] == ["A", "B", "_X"]
    assert all(abs(row["n"] - wanted[row["state"]]) < wide for row in states)
    if consistent is WHOLE:
        people = pq.read_table(tmp_path / "out" / "records" / "q_invented.parquet")
        assert {"A_X", "B_X", "_X"} & {*people["county"].to_pylist()}
