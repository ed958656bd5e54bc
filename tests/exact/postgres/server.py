"""A PostgreSQL server for tests: on a socket in its own folder, run by an unprivileged user."""

from __future__ import annotations

import os
import shutil
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass
from glob import glob
from pathlib import Path
from tempfile import mkdtemp
from typing import Any

import pytest

from tests.processes import run, started

OWNER, READER = "keeper", "reader"
SECRET = "SECRET-4711"
"""The password of both: a canary, which may be nowhere but in the password file."""

WHERE = ("/usr/lib/postgresql/*/bin", "/usr/local/pgsql/bin")


def programs() -> Path:
    """Return the folder of the server's programs, or skip the test: Debian has them off the path."""
    pytest.importorskip("adbc_driver_postgresql", reason="the extra postgres is not installed")
    found = shutil.which("initdb")
    folders = [Path(found).resolve().parent] if found else []
    folders += [Path(path) for pattern in WHERE for path in sorted(glob(pattern), reverse=True)]
    for folder in folders:
        if all((folder / name).exists() for name in ("initdb", "postgres")):
            return folder
    pytest.skip("no PostgreSQL server is installed: there is no initdb (package postgresql)")


@dataclass(frozen=True)
class Server:
    """A server that runs: where its socket is."""

    folder: Path

    def address(self, database: str = "postgres", user: str = OWNER, more: str = "") -> str:
        """Return the address of a database, as a schema may say it."""
        return f"postgresql:///{database}?host={self.folder}&user={user}{more}"

    def link(self, database: str = "postgres", user: str = OWNER) -> Any:
        """Return a connection, not in a transaction."""
        from adbc_driver_postgresql import dbapi

        address = self.address(database, user, f"&password={SECRET}")
        return dbapi.connect(address, autocommit=True)

    def do(self, *statements: str, database: str = "postgres") -> None:
        """Run statements, each by itself."""
        with closing(self.link(database)) as link, link.cursor() as cursor:
            for statement in statements:
                cursor.execute(statement)

    def source(self, table: str, database: str = "postgres", user: str = OWNER) -> dict[str, str]:
        """Return the source of a table as a schema declares it."""
        return {"path": self.address(database, user), "table": table}


@contextmanager
def running_server() -> Iterator[Server]:
    """Yield a server, and end it, with all that it has stored."""
    found = programs()
    folder = Path(mkdtemp(prefix="dprelease-pg-"))
    options: dict[str, Any] = {"cwd": folder}
    if os.geteuid() == 0:  # the server refuses to run as root
        shutil.chown(folder, "nobody", "nogroup")
        options |= {"user": "nobody", "group": "nogroup", "extra_groups": []}
    try:
        word, data = folder / "word", folder / "data"
        word.write_text(SECRET)
        word.chmod(0o644)
        access = ["-U", OWNER, "-A", "scram-sha-256", f"--pwfile={word}"]
        form = ["-E", "UTF8", "--locale=C", "--no-sync", "-D", data]
        run([found / "initdb", *access, *form], capture_output=True, check=True, **options)
        word.unlink()
        quick = ["-c", "fsync=off", "-c", "listen_addresses=", "-k", folder]
        with (
            (folder / "log").open("wb") as log,
            started([found / "postgres", "-D", data, *quick], stderr=log, **options),
        ):
            server = Server(folder)
            wait_for(server)
            server.do(f"CREATE ROLE {READER} LOGIN PASSWORD '{SECRET}'")
            yield server
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def wait_for(server: Server) -> None:
    from adbc_driver_manager import dbapi

    for _ in range(600):
        try:
            server.link().close()
            return
        except dbapi.Error:
            time.sleep(0.05)
    raise TimeoutError("the server did not start")


def password_file(folder: Path) -> Path:
    """Return a file of passwords for every server of the tests, as PGPASSFILE names one."""
    path = folder / "pgpass"
    path.write_text(f"*:*:*:{OWNER}:{SECRET}\n*:*:*:{READER}:{SECRET}\n")
    path.chmod(0o600)
    return path
