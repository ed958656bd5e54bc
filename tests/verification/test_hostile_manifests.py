"""For any content of a folder, `verify` returns a report; other readers raise their own errors."""

from __future__ import annotations

import copy
import json
import os
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import dprelease
from dprelease.documents.encoding import NAME, sha256
from dprelease.errors import DpReleaseError
from dprelease.verification.verify import Report, verify
from tests.replay import Keyed
from tests.verification.forging import RELEASES, at, opinion, places, publish, read, seal, words

DEEP = 100_000


@pytest.fixture(autouse=True)
def single_accounting(monkeypatch: pytest.MonkeyPatch) -> None:
    """Compute no privacy cost twice."""
    monkeypatch.setattr("dprelease.verification.second_opinion.second_opinion", opinion)


@pytest.fixture(scope="module")
def published(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    return {kind: publish(tmp_path_factory.mktemp(kind), kind) for kind in RELEASES}


def codes(report: Report) -> set[str]:
    return {finding.code for finding in report.findings}


def verify_and_read(folder: Path) -> Report:
    """Return the report; let every other reader of manifests see the folder too."""
    with pytest.raises(DpReleaseError):  # one folder three times is no sum
        dprelease.federated_sum([folder, folder, folder])
    raised: Exception | None = None
    try:
        dprelease.local_estimate(folder, "city")
    except (DpReleaseError, ValueError) as error:
        raised = error
    # A ValueError names the columns that there are; it is none of a library below.
    assert not isinstance(raised, ValueError) or "name one of" in str(raised), repr(raised)
    report = verify(folder)
    json.dumps(report.to_json(), allow_nan=False)
    assert all(str(finding).replace("\n", " ").isprintable() for finding in report.findings)
    return report


DOCUMENTS = {
    "nothing": b"",
    "no object": b"[]\n",
    "a number": b"1e999\n",
    "not a number": b'{\n  "digest": NaN\n}\n',
    "infinite": b'{\n  "digest": -Infinity\n}\n',
    "more digits than Python reads": b"[" + b"9" * 5000 + b"]",
    "deep": b"[" * DEEP + b"]" * DEEP,
    "deep objects": b'{"a":' * DEEP + b"1" + b"}" * DEEP,
    "half a surrogate": b'{\n  "title": "\\ud800"\n}\n',
    "no UTF-8": b'{"title": "\xff"}',
    "UTF-16": '{"title": "x"}'.encode("utf-16"),
    "a mark of the order of bytes": b"\xef\xbb\xbf{}\n",
    "no text": bytes(range(256)) * 8,
}


@pytest.mark.parametrize("name", DOCUMENTS)
def test_invalid_manifest_documents_are_found(name: str, tmp_path: Path) -> None:
    (tmp_path / NAME).write_bytes(DOCUMENTS[name])
    assert codes(verify_and_read(tmp_path)) == {"DP-VERIFY-002"}


def test_manifests_that_are_no_files_are_found(tmp_path: Path) -> None:
    """Reading a pipe or a device would never end."""
    path = tmp_path / NAME
    for make in (path.mkdir, lambda: os.mkfifo(path), lambda: path.symlink_to("/dev/zero")):
        make()
        assert codes(verify_and_read(tmp_path)) == {"DP-VERIFY-001"}
        path.rmdir() if path.is_dir() else path.unlink()


@pytest.mark.parametrize("kind", RELEASES)
def test_duplicate_manifest_keys_are_found(
    kind: str, published: dict[str, Path], tmp_path: Path
) -> None:
    """Readers that take the first and readers that take the last would see two manifests."""
    folder = Path(shutil.copytree(published[kind], tmp_path / "copy"))
    raw = (folder / NAME).read_bytes()
    for at_ in (b'{\n  "title": "Another one",\n', b'{\n  "format": "none",\n'):
        (folder / NAME).write_bytes(at_ + raw.removeprefix(b"{\n"))
        assert codes(verify_and_read(folder)) == {"DP-VERIFY-002"}


@pytest.mark.parametrize("kind", RELEASES)
def test_unknown_manifest_formats_are_found(
    kind: str, published: dict[str, Path], tmp_path: Path
) -> None:
    folder = Path(shutil.copytree(published[kind], tmp_path / "copy"))
    record = read(folder)
    name = record["format"].rpartition("/")[0]
    for other in (f"{name}/2", f"{name}/99", "", None, 1, ["x"], {}, "\x1b[2J", "x" * 9999):
        seal(folder, {**record, "format": other})
        assert codes(verify_and_read(folder)) == {"DP-VERIFY-003"}, other


HOSTILE: tuple[Any, ...] = (
    None, True, 0, -1, 2**63, -(10**300), 0.5, 1e308, -1e308, "", "0", "1e999", "-1", "nan", "inf",
    "1/3", "\x00", "\x1b[2J", "../../etc/passwd", "x" * 300, "ſ𝟙", [], {}, [[]], {"": {}},
)  # fmt: skip


def _draw(bits: Keyed, n: int) -> int:
    return int(bits.words(1)[0]) % n


@pytest.mark.share(0.25)
@pytest.mark.parametrize("pairs", [12, pytest.param(400, marks=pytest.mark.audit)])
@pytest.mark.parametrize("kind", RELEASES)
def test_any_value_at_any_place_raises_no_error(
    kind: str, pairs: int, published: dict[str, Path], tmp_path: Path
) -> None:
    """Sealed again, so that it is read on; so many pairs of place and value of each kind."""
    folder = Path(shutil.copytree(published[kind], tmp_path / "copy"))
    record = read(folder)
    spots, bits = list(places(record)), Keyed(f"hostile {kind}")
    for _ in range(pairs):
        forged = copy.deepcopy(record)
        spot = spots[_draw(bits, len(spots))]
        at(forged, spot[:-1])[spot[-1]] = HOSTILE[_draw(bits, len(HOSTILE))]
        seal(folder, forged)
        try:
            verify_and_read(folder)
        except BaseException as error:  # say where, whatever it is
            raise AssertionError(words(spot), at(forged, spot)) from error


@pytest.mark.share(0.25)
@pytest.mark.parametrize("times", [2, pytest.param(6, marks=pytest.mark.audit)])
@pytest.mark.parametrize("kind", RELEASES)
def test_changed_bytes_raise_no_error(
    kind: str, times: int, published: dict[str, Path], tmp_path: Path
) -> None:
    """Flipped, cut, doubled: in the manifest, and in tables whose digests were made again."""
    folder = Path(shutil.copytree(published[kind], tmp_path / "copy"))
    record, bits = read(folder), Keyed(f"bytes {kind}")
    for path in sorted(folder.iterdir()):
        raw = path.read_bytes()
        for changed in _changed(raw, bits, times):
            path.write_bytes(changed)
            if path.name == NAME:
                assert not verify_and_read(folder).ok
                continue
            for file in record["files"]:
                if file["name"] == path.name:
                    file["sha256"] = sha256(changed)
            seal(folder, record)
            verify_and_read(folder)
        path.write_bytes(raw)


def _changed(raw: bytes, bits: Keyed, times: int) -> Iterator[bytes]:
    for _ in range(times):
        i, j = sorted((_draw(bits, len(raw)), _draw(bits, len(raw))))
        yield raw[:i] + bytes([raw[i] ^ (1 << _draw(bits, 8))]) + raw[i + 1 :]
        yield raw[:i] + raw[j + 1 :]
        yield raw[:j] + raw[i:]
    yield b""


TEXTS = {
    "no YAML": "{",
    "nothing": "",
    "deep": "[" * 5000,
    "aliases of aliases": "a: &a [x]\n" + "".join(
        f"{b}: &{b} [*{a}, *{a}, *{a}]\n" for a, b in zip("abcdefghijklmn", "bcdefghijklmno", strict=True)
    ),
    "an object of Python": "!!python/object/apply:os.system [ls]",
    "a huge number": "epsilon: 1e999999999",
    "no text": "\x00\x01",
    "half a surrogate": "title: \udc80",
}  # fmt: skip
EDITS = {
    "no number": ("epsilon: ", "epsilon: x"),
    "endless": ("epsilon: ", "epsilon: .inf"),
    "a huge number": ("epsilon: ", "epsilon: 1e308"),
    "another shape": ("p: 1.5", "p: x"),
    "a shape of words": ("alpha: 1", "alpha: one"),
    "words to `auto`": ("mechanism: auto", "mechanism: {name: auto, measure: x}"),
    "a table that is not there": ("people.yaml", "elsewhere.yaml"),
    "a folder above": ("people.yaml", "../people.yaml"),
}


@pytest.mark.parametrize("kind", RELEASES)
def test_invalid_declarations_are_found(
    kind: str, published: dict[str, Path], tmp_path: Path
) -> None:
    """With their digests made again."""
    folder = Path(shutil.copytree(published[kind], tmp_path / "copy"))
    record = read(folder)
    texts = record["declaration"]["texts"]
    edited = [texts["release.yaml"].replace(*edit) for edit in EDITS.values()]
    for name in ("release.yaml", "people.yaml"):
        for text in [*TEXTS.values(), *(edited if name == "release.yaml" else ())]:
            if text == texts[name]:
                continue
            forged = copy.deepcopy(record)
            forged["declaration"]["texts"][name] = text
            digest = sha256(text.encode("utf-8", "surrogatepass"))
            forged["declaration"]["sha256"][name] = digest
            try:
                seal(folder, forged)
            except UnicodeEncodeError:
                continue  # no manifest can hold it
            assert not verify_and_read(folder).ok, text[:80]


def test_file_names_outside_the_folder_are_not_opened(
    published: dict[str, Path], tmp_path: Path
) -> None:
    folder = Path(shutil.copytree(published["paid"], tmp_path / "copy"))
    record = read(folder)
    raw = (folder / "by_city.parquet").read_bytes()
    (tmp_path / "outside.parquet").write_bytes(raw)
    for name in (
        "../outside.parquet",
        "x" * 5000,
        "a\x00b",
        ".",
        "..",
        "",
        "/dev/zero",
        NAME,
    ):
        forged = copy.deepcopy(record)
        forged["files"][0]["name"] = name
        seal(folder, forged)
        assert "DP-VERIFY-004" in codes(verify_and_read(folder)), name
    seal(folder, record)
    (folder / "by_city.parquet").unlink()
    os.mkfifo(folder / "by_city.parquet")
    assert codes(verify_and_read(folder)) == {"DP-VERIFY-004", "DP-VERIFY-006"}
