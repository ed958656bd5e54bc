"""Files are asked for where the system has them in memory, and nobody waits for an answer."""

from __future__ import annotations

import errno
import os
from pathlib import Path
from typing import Any

import pytest

from dprelease.system.file_cache import PLACES, are_cached


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Return the places that are read, of files that the system has."""
    places: list[int] = []

    def read(_handle: int, _into: Any, at: int, flags: int) -> int:
        assert flags == os.RWF_NOWAIT
        places.append(at)
        return 1

    monkeypatch.setattr(os, "preadv", read)
    return places


def written(folder: Path, number: int, size: int = 1000) -> list[Path]:
    files = [folder / f"{i}.parquet" for i in range(number)]
    for file in files:
        file.write_bytes(bytes(size))
    return files


@pytest.mark.parametrize("number", [1, 2, 3, 31, 32, 33, 1000])
def test_a_few_places_of_a_few_files(number: int, tmp_path: Path, asked: list[int]) -> None:
    assert are_cached(written(tmp_path, number))
    assert PLACES // 2 < len(asked) <= 2 * PLACES
    assert set(asked) <= set(range(1000))
    if number == 1:
        assert asked == [1000 * i // PLACES for i in range(PLACES)]


def test_no_file_is_waited_for() -> None:
    assert are_cached([])


@pytest.mark.parametrize("number", [errno.EAGAIN, errno.EOPNOTSUPP, errno.EIO])
def test_what_the_system_does_not_have(
    number: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: object) -> int:
        raise OSError(number, "")

    monkeypatch.setattr(os, "preadv", refuse)
    assert not are_cached(written(tmp_path, 1))


def test_one_place_that_it_does_not_have(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(_handle: int, _into: Any, at: int, _flags: int) -> int:
        if at > 900:
            raise BlockingIOError
        return 1

    monkeypatch.setattr(os, "preadv", refuse)
    assert not are_cached(written(tmp_path, 3))


def test_another_system_than_linux(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delattr(os, "RWF_NOWAIT")
    assert not are_cached(written(tmp_path, 1))


def test_what_is_no_file_is_not_opened(tmp_path: Path, asked: list[int]) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    for path in (pipe, tmp_path, tmp_path / "none", Path("a\0b")):
        assert not are_cached([path])
    assert asked == []


def test_no_handle_is_left(tmp_path: Path) -> None:
    before = os.listdir("/proc/self/fd")
    are_cached(written(tmp_path, 3))
    assert os.listdir("/proc/self/fd") == before


def test_a_file_that_was_just_written(tmp_path: Path) -> None:
    files = written(tmp_path, 3, 1 << 20)
    handle = os.open(files[0], os.O_RDONLY)
    try:
        os.preadv(handle, [bytearray(1)], 0, os.RWF_NOWAIT)
    except OSError as problem:
        if problem.errno == errno.EOPNOTSUPP:
            pytest.skip("the file system of temporary files does not say what is in memory")
        raise
    finally:
        os.close(handle)
    assert are_cached(files)
