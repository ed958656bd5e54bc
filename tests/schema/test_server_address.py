"""Addresses of servers: what they may contain; errors never quote them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from dprelease.errors import DataError, DpReleaseError
from dprelease.exact.postgres import server_link
from dprelease.schema.load import read_table
from tests.exact.build import ask, declare, exact

SECRET = "SECRET-4711"
COLUMNS: dict[str, Any] = {"n": {"type": "integer", "lower": 0, "upper": 9}}

TAKEN = [
    "postgresql://",
    "postgres:///census",
    "postgresql:///?service=census",
    "postgresql://steward@db.example:5432/census?sslmode=verify-full&sslrootcert=system",
    "postgresql://[2001:db8::1]:5433/census",
    "postgresql://one:5432,two:5432/census?target_session_attrs=standby",
    "postgresql:///census?host=%2Frun%2Fpostgresql&connect_timeout=5",
    "postgresql://user%40office@db.example/census",
]
REFUSED: dict[str, tuple[str, str]] = {
    "a password": (f"postgresql://steward:{SECRET}@db/census", "DP-SCHEMA-020"),
    "an empty one": ("postgresql://steward:@db/census", "DP-SCHEMA-020"),
    "one without a name": (f"postgresql://:{SECRET}@db/census", "DP-SCHEMA-020"),
    "one with a slash": (f"postgresql://steward:{SECRET}/x@db/census", "DP-SCHEMA-020"),
    "one with an at sign": (f"postgresql://steward:{SECRET}@x@db/census", "DP-SCHEMA-020"),
    "one with a mark": (f"postgresql://steward:x?{SECRET}@db/census", "DP-SCHEMA-021"),
    "behind the mark": (f"postgresql:///c?password={SECRET}", "DP-SCHEMA-020"),
    "spelled by numbers": (f"postgresql:///c?pass%77ord={SECRET}", "DP-SCHEMA-020"),
    "of a key": (f"postgresql:///c?sslpassword={SECRET}", "DP-SCHEMA-020"),
    "a file of passwords": (f"postgresql:///c?passfile={SECRET}", "DP-SCHEMA-021"),
    "options of the server": (f"postgresql:///c?options=-c%20role%3D{SECRET}", "DP-SCHEMA-021"),
    "no known key": (f"postgresql:///c?{SECRET}", "DP-SCHEMA-021"),
    "another scheme": (f"mysql://steward:{SECRET}@db/census", "DP-SCHEMA-011"),
    "another spelling": (f"PostgreSQL://steward:{SECRET}@db/census", "DP-SCHEMA-011"),
}
OTHERS: dict[str, dict[str, Any]] = {
    "no table": {"path": "postgresql:///c"},
    "a file": {"path": "c.parquet", "table": "t", "format": "postgres"},
    "a frame": {"frame": "f", "format": "postgres"},
    "another format": {"path": "postgresql:///c", "table": "t", "format": "parquet"},
    "a delimiter": {"path": "postgresql:///c", "table": "t", "delimiter": ";"},
    "an encoding": {"path": "postgresql:///c", "table": "t", "encoding": "latin-1"},
    "a sheet": {"path": "postgresql:///c", "table": "t", "sheet": "s"},
}


@pytest.mark.parametrize("path", TAKEN)
def test_addresses_without_secrets_are_accepted(path: str) -> None:
    declared = declare(COLUMNS, source={"path": path, "table": "office.people"})
    source = declared.table.source
    assert source is not None
    assert (source.kind, source.is_only_for_spark, source.is_folder) == ("postgres", False, False)


@pytest.mark.parametrize("case", REFUSED)
def test_refused_addresses_are_not_shown(case: str, tmp_path: Path) -> None:
    path, code = REFUSED[case]
    file = tmp_path / "people.yaml"
    file.write_text(
        f'table: people\nsource: {{path: "{path}", table: t}}\n'
        "columns: {n: {type: integer, lower: 0, upper: 9}}\n"
    )
    with pytest.raises(DpReleaseError, match=code) as caught:
        read_table(file)
    assert SECRET not in str(caught.value)
    assert SECRET not in repr(caught.value.to_json())


@pytest.mark.parametrize("case", OTHERS)
def test_sources_that_are_no_server(case: str) -> None:
    with pytest.raises(DpReleaseError, match=r"DP-SCHEMA-01[14]"):
        declare(COLUMNS, source=OTHERS[case])


def test_missing_driver_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    """It is told by name, with the extra that has it; no address is tried, and none is told."""
    monkeypatch.setattr(server_link, "DRIVER_PACKAGE", "no_such_driver")
    declared = declare(COLUMNS, source={"path": "postgresql:///?service=census", "table": "t"})
    with pytest.raises(DataError, match="DP-DATA-025") as caught:
        exact(ask(declared, {"n": {"sum": "n"}}), None)
    assert "no_such_driver" in str(caught.value)
    assert "pip install 'dprelease[postgres]'" in str(caught.value)


def test_frame_replaces_a_server(monkeypatch: pytest.MonkeyPatch) -> None:
    """No connection is made for a table whose rows the caller gives."""
    import pandas as pd

    monkeypatch.setattr(server_link, "DRIVER_PACKAGE", "no_such_driver")
    declared = declare(COLUMNS, source={"path": "postgresql:///?service=census", "table": "t"})
    found = exact(ask(declared, {"n": {"sum": "n"}}), pd.DataFrame({"n": [3, 4]}))
    assert found["n"].tolist() == [7]
