"""Connections to DuckDB: settings, and closing."""

from __future__ import annotations

import os
from pathlib import Path

import duckdb
import pandas as pd
import pytest

from dprelease.errors import DataError
from dprelease.exact.connection import open_connection
from dprelease.exact.settings import DEFAULT_SETTINGS, Settings
from tests import processes

FRAME = pd.DataFrame({"n": [1]})
"""What a connection may not read by the name of a variable."""

LOCKED = (
    "autoinstall_known_extensions",
    "autoload_known_extensions",
    "python_enable_replacements",
    "enable_progress_bar",
)


def is_closed(link: duckdb.DuckDBPyConnection) -> bool:
    try:
        link.execute("SELECT 1")
    except duckdb.ConnectionException:
        return True
    return False


def value(link: duckdb.DuckDBPyConnection, name: str) -> object:
    ((found,),) = link.execute(f"SELECT current_setting('{name}')").fetchall()
    return found


@pytest.mark.parametrize("settings", [DEFAULT_SETTINGS, Settings("2 GB", 1)])
def test_connections_are_opened_with_locked_settings(settings: Settings, tmp_path: Path) -> None:
    with open_connection(tmp_path, settings) as link:
        assert not any(value(link, name) for name in LOCKED)
        assert value(link, "temp_directory") == str(tmp_path)
        assert value(link, "TimeZone") == "UTC"
        if settings is not DEFAULT_SETTINGS:
            assert value(link, "threads") == 1
        with pytest.raises(duckdb.CatalogException):
            link.execute("SELECT * FROM FRAME")


@pytest.mark.parametrize("problem", [None, KeyboardInterrupt, ValueError])
def test_connection_is_closed_when_its_block_ends(
    problem: type[BaseException] | None, tmp_path: Path
) -> None:
    links = []

    def use() -> None:
        with open_connection(tmp_path, DEFAULT_SETTINGS) as link:
            links.append(link)
            if problem is not None:
                raise problem

    if problem is None:
        use()
    else:
        with pytest.raises(problem):
            use()
    assert is_closed(links[0])


def test_invalid_duckdb_settings_are_refused(tmp_path: Path) -> None:
    with (
        pytest.raises(DataError, match="DP-ENGINE-004"),
        open_connection(tmp_path, Settings(memory_limit="much")),
    ):
        pass


@pytest.mark.filterwarnings("ignore:This process:DeprecationWarning")
def test_exit_of_a_fork_does_not_close_the_connection(tmp_path: Path) -> None:
    """Closing would wait for threads that don't exist in the child."""
    with open_connection(tmp_path, DEFAULT_SETTINGS) as link:
        child = os.fork()
        if child == 0:
            try:
                del link
            finally:
                os._exit(0)
        assert processes.ended(child) == 0
        assert not is_closed(link)


@pytest.mark.filterwarnings("ignore:This process:DeprecationWarning")
def test_fork_that_leaves_the_block_does_not_close(tmp_path: Path) -> None:
    child = -1
    with open_connection(tmp_path, DEFAULT_SETTINGS) as link:
        child = os.fork()
        if child != 0:
            assert processes.ended(child) == 0
            assert not is_closed(link)
    if child == 0:
        os._exit(0)
    assert is_closed(link)
