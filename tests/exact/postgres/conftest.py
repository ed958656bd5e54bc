"""One server for all tests of this folder."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.exact.postgres.server import Server, password_file, running_server


@pytest.fixture(scope="session")
def postgres() -> Iterator[Server]:
    with running_server() as server:
        yield server


@pytest.fixture
def server(postgres: Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Server:
    """Return the server, whose password libpq finds in a file."""
    monkeypatch.setenv("PGPASSFILE", str(password_file(tmp_path)))
    return postgres
