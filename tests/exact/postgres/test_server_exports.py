"""Releases in tables of a server: all tables and the manifest in one transaction, or nothing."""

from __future__ import annotations

import json
import re
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

import dprelease
from dprelease.errors import OutputError
from dprelease.exports.databases.postgres_server import STATES, PostgresServer
from tests.exact.postgres.server import READER, SECRET, Server
from tests.exports.test_databases import VALUES, publish_release, write_all_types


def rows(server: Server, sql: str) -> list[tuple[Any, ...]]:
    with closing(server.link()) as link, link.cursor() as cursor:
        cursor.execute(sql)
        found: list[tuple[Any, ...]] = cursor.fetchall()
        return found


def schema(server: Server, name: str) -> str:
    server.do(f"DROP SCHEMA IF EXISTS {name} CASCADE", f"CREATE SCHEMA {name}")
    return name


def test_exported_release_is_read_back(server: Server, tmp_path: Path) -> None:
    folder, name = publish_release(tmp_path), schema(server, "read_back")
    found = dprelease.export_to_database(folder, server.address(), schema=name)
    assert found.tables == ("by_city", "all")
    release = dprelease.PublishedRelease(folder)
    for table in found.tables:
        wanted = [tuple(row.values()) for row in release.to_arrow(table).to_pylist()]
        found_rows = rows(server, f'SELECT * FROM {name}."{table}"')
        assert [list(map(_plain, row)) for row in found_rows] == [
            list(map(_plain, row)) for row in wanted
        ]
    ((digest, tables, manifest),) = rows(
        server, f"SELECT digest, tables, manifest FROM {name}.dprelease_releases"
    )
    assert digest == release.digest
    assert json.loads(tables) == ["by_city", "all"]
    assert manifest == (folder / "manifest.json").read_text()
    comment = f"SELECT col_description('{name}.by_city'::regclass, 3)"
    column = [c.name for c in release.columns("by_city")].index("pay") + 1
    ((label,),) = rows(server, comment.replace("3)", f"{column})"))
    assert label.startswith("Pay")


def test_existing_tables_are_replaced_on_request(server: Server, tmp_path: Path) -> None:
    folder, name = publish_release(tmp_path), schema(server, "replaced")
    address = server.address()
    dprelease.export_to_database(folder, address, schema=name)
    assert dprelease.export_to_database(folder, address, schema=name).tables == ()
    dprelease.export_to_database(folder, address, schema=name, overwrite=True)
    assert rows(server, f"SELECT count(*) FROM {name}.dprelease_releases") == [(1,)]
    third = publish_release(tmp_path / "third", lambda text: text.replace("  all:", "  mine:"))
    server.do(f"CREATE VIEW {name}.mine AS SELECT 1 AS a")
    with pytest.raises(OutputError, match="DP-EXPORT-012"):
        dprelease.export_to_database(third, address, schema=name, overwrite=True)
    assert len(rows(server, f"SELECT * FROM {name}.by_city")) == 3  # nothing was dropped


def test_failed_export_changes_nothing(
    server: Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder, name = publish_release(tmp_path), schema(server, "unchanged")
    whole = PostgresServer.run

    def fails(self: PostgresServer, sql: str, values: Any = ()) -> Any:
        return whole(self, "SELECT 1/0" if sql.startswith("INSERT") else sql, values)

    monkeypatch.setattr(PostgresServer, "run", fails)
    with pytest.raises(OutputError, match="DP-EXPORT-011"):
        dprelease.export_to_database(folder, server.address(), schema=name)
    sql = f"SELECT count(*) FROM pg_class WHERE relnamespace = '{name}'::regnamespace"
    assert rows(server, sql) == [(0,)]


def test_values_of_all_types_are_stored_exactly(server: Server, tmp_path: Path) -> None:
    name = schema(server, "all_types")
    write_all_types(PostgresServer(server.address(), name), tmp_path)
    found = rows(server, f"SELECT * FROM {name}.all_types")
    wanted = [tuple(values[i] for _, values in VALUES.values()) for i in range(3)]
    assert [list(map(_plain, row)) for row in found] == [list(map(_plain, row)) for row in wanted]


def _plain(value: Any) -> Any:
    """Return a value; decimals of the driver are texts."""
    from decimal import Decimal

    if isinstance(value, Decimal):
        return str(value.normalize())
    try:
        return str(Decimal(value).normalize()) if isinstance(value, str) else value
    except ArithmeticError:
        return value


def test_wrong_export_arguments_are_refused(
    server: Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = publish_release(tmp_path)
    words: dict[str, Any]
    for words, code in (
        ({"database": server.address(), "schema": "no_such_schema"}, "3F000"),
        ({"database": server.address("no_such_database")}, ""),
        ({"database": server.address(user=READER), "schema": schema(server, "forbidden")}, "42501"),
        ({"database": "postgresql://localhost:1/db"}, ""),
    ):
        wanted = re.escape(STATES.get(code, ""))
        with pytest.raises(OutputError, match=f"DP-EXPORT-011.*{wanted}") as caught:
            dprelease.export_to_database(folder, **words)
        assert SECRET not in str(caught.value)
    monkeypatch.setattr(PostgresServer, "longest_name", 5)
    with pytest.raises(OutputError, match=r"DP-EXPORT-013.*'by_city'"):
        dprelease.export_to_database(folder, server.address(), schema=schema(server, "cut_off"))
