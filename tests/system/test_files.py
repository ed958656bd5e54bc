"""Limits and reasons in words."""

from __future__ import annotations

import errno
import os
from pathlib import Path

import pytest

from dprelease.system.files import TooLarge, read_file, reason_of, refuse_side_files, size_text

SIZES = {
    0: "0 bytes",
    1: "1 byte",
    1000: "1,000 bytes",
    1 << 10: "1 KiB",
    1536: "1,536 bytes",
    1 << 16: "64 KiB",
    (1 << 20) + 1: "1,048,577 bytes",
    24 << 20: "24 MiB",
    1 << 30: "1 GiB",
    1 << 60: "1,048,576 TiB",
}


@pytest.mark.parametrize("size", SIZES)
def test_sizes_in_words_are_exact(size: int) -> None:
    assert size_text(size) == SIZES[size]


@pytest.mark.parametrize("most", [3, 1 << 10, 1 << 16, (1 << 16) + 5])
def test_size_limit_is_exact(most: int, tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.write_bytes(b"x" * most)
    assert len(read_file(path, most)) == most
    path.write_bytes(b"x" * (most + 1))
    with pytest.raises(TooLarge) as caught:
        read_file(path, most)
    assert reason_of(caught.value) == f"it is larger than {size_text(most)}"


def test_reasons_in_the_middle_of_a_sentence() -> None:
    """Units and the names of encodings stay as they are written."""
    for number in errno.errorcode:
        words = os.strerror(number)
        assert reason_of(OSError(number, words)) == words[0].lower() + words[1:]
    assert reason_of(OSError(errno.EILSEQ, "its name is not UTF-8")) == "its name is not UTF-8"
    assert reason_of(OSError()) == "the system refused"
    assert reason_of(OSError(), "not readable") == "not readable"


def test_vanishing_journal_is_not_unreadable(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Another process removes its journal, and creates the next, between two checks of one."""
    journal = tmp_path / "l.sqlite-journal"
    journal.write_bytes(b"")
    true, answers = os.access, [False, True]

    def comes_and_goes(path: object, mode: int) -> bool:
        return answers.pop(0) if answers and str(path) == str(journal) else true(str(path), mode)

    monkeypatch.setattr(os, "access", comes_and_goes)
    refuse_side_files(tmp_path / "l.sqlite", ["-journal"])
    assert answers == []
    monkeypatch.setattr(os, "access", lambda *_: False)
    with pytest.raises(OSError, match="no right"):
        refuse_side_files(tmp_path / "l.sqlite", ["-journal"])
    journal.unlink()
    refuse_side_files(tmp_path / "l.sqlite", ["-journal"])
