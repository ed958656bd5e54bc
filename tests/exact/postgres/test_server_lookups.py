"""Correspondence tables on a real PostgreSQL server name the persons of rows there and elsewhere."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from dprelease.errors import DataError
from dprelease.exact.duckdb import Engine
from dprelease.exact.engines import open_engines
from dprelease.statements.layers import SOURCE
from tests.exact.build import ask, declare, exact
from tests.exact.postgres.server import Server

pytestmark = pytest.mark.audit

COLUMNS: dict[str, Any] = {
    "patient": {"type": "text"},
    "insurance": {"type": "integer"},
    "drug": {"type": "category", "values": ["x", "y"]},
}


@pytest.mark.parametrize("rows", ["server", "frame", "file"])
def test_lines_of_a_server_name_persons(rows: str, server: Server, tmp_path: Path) -> None:
    server.do(
        "DROP TABLE IF EXISTS held, ids",
        "CREATE TABLE held (insurance int8, drug text)",
        "CREATE TABLE ids (insurance numeric, patient varchar)",
        "INSERT INTO held VALUES (1, 'x'), (1, 'y'), (2, 'x'), (NULL, 'x')",
        "INSERT INTO ids VALUES (1, 'b'), (1, 'a'), (1, 'b'), (3, 'c'), (NULL, 'a')",
    )
    held = pa.table({"insurance": [1, 1, 2, None], "drug": ["x", "y", "x", "x"]})
    (tmp_path / "held.csv").write_text("insurance,drug\n1,x\n1,y\n2,x\n,x\n")
    source: Any = {"server": server.source("held"), "file": str(tmp_path / "held.csv")}.get(rows)
    lookup = {"source": server.source("ids"), "on": "insurance"}
    unit = {"id": "patient", "lookup": lookup, "max_groups": 1, "max_rows_per_group": 1}
    more = {} if source is None else {"source": source}
    declared = declare(COLUMNS, privacy_unit=unit, **more)
    frame = held if rows == "frame" else None
    with Engine.open(declared, frame) as engine:
        statement = f"SELECT patient, drug FROM {SOURCE}"
        found = engine._read_rows(lambda link: link.execute(statement).fetchall())
    assert Counter(found) == {("a", "x"): 1, ("a", "y"): 1, (None, "x"): 2}
    query = ask(declared, {"n": {"count": "*"}})
    assert exact(query, frame)["n"].tolist() == [1]
    with open_engines([query], {} if frame is None else {"t": frame}) as engines:
        assert engines["q"].run(query).vector("n").tolist() == [1]


def test_missing_tables_and_collations_are_refused(server: Server) -> None:
    server.do(
        "DROP TABLE IF EXISTS held, ids",
        "CREATE EXTENSION IF NOT EXISTS citext",
        "CREATE TABLE held (insurance int8, drug text)",
        "CREATE TABLE ids (insurance int8, patient citext)",
    )
    for table, code in (("ids", "DP-DATA-026"), ("nowhere", "DP-DATA-0")):
        lookup = {"source": server.source(table), "on": "insurance"}
        unit = {"id": "patient", "lookup": lookup, "max_rows": 1}
        declared = declare(COLUMNS, privacy_unit=unit, source=server.source("held"))
        with pytest.raises(DataError, match=code), Engine.open(declared):
            pass
