"""Releases that many tests read and none changes."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from pathlib import Path

import pytest

from dprelease.report.page import page_of
from tests.report.releases import publish, read_release


@pytest.fixture(scope="session")
def folder_of(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Path]:
    """Return what gives the folder of a release of a kind, made once."""
    return cache(lambda name: publish(tmp_path_factory.mktemp(name), name))


@pytest.fixture(scope="session")
def page_for(folder_of: Callable[[str], Path]) -> Callable[[str], bytes]:
    """Return what gives the report on a release of a kind, made once."""
    return cache(lambda name: page_of(read_release(folder_of(name))))
