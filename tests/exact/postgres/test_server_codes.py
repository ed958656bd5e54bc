"""Codes for missing values, and years of two digits, in tables of a real PostgreSQL server."""

from __future__ import annotations

import pytest

from dprelease.errors import DataError
from tests.exact.build import ask, declare, exact
from tests.exact.postgres.server import Server
from tests.exact.postgres.test_server_tables import create_source
from tests.exact.test_missing_codes import COLUMNS, NUMBERS, STORED, TEXTS, answers, check

pytestmark = pytest.mark.audit

STORES = {
    "texts": dict.fromkeys(STORED, "text"),
    "numbers": {
        **dict.fromkeys(STORED, "text"), "code": "int2", "age": "int8", "pay": "numeric(6,2)",
        "flag": "int4", "day": "date", "at": "timestamp",
    },
    "floats": {**dict.fromkeys(STORED, "text"), "code": "float8", "age": "float4", "pay": "float4"},
}  # fmt: skip


@pytest.mark.parametrize("store", STORES)
def test_missing_codes_on_a_server_are_read_as_in_pandas(store: str, server: Server) -> None:
    rows = TEXTS if store == "texts" else NUMBERS
    check(
        answers(declare(COLUMNS, source=create_source(server, STORES[store], rows.values.tolist())))
    )


def test_two_digit_years_use_the_pivot(server: Server) -> None:
    days = [["31.12.99"], ["01.02.03"], ["30.06.26"], ["29.02.00"]]
    column = {"type": "date", "format": "%d.%m.%y", "pivot": 2025}
    declared = declare({"d": column}, source=create_source(server, {"d": "text"}, days))
    for day, n in {"1999-12-31": 1, "1926-06-30": 1, "2000-02-29": 1, "2026-06-30": 0}.items():
        asked = ask(declared, {"n": {"count": "*"}}, where=f"d = DATE '{day}'")
        assert exact(asked, None)["n"].tolist() == [n]


def test_bytes_are_refused_with_advice_to_decode_them(server: Server) -> None:
    source = create_source(server, {"v": "bytea"}, [["VT"]])
    declared = declare({"v": {"type": "category", "values": ["VT"]}}, source=source)
    with pytest.raises(DataError, match=r"str\.decode"):
        exact(ask(declared, {"n": {"count": "*"}}, ["v"]), None)
