"""Lists of signers: what each line says, and that OpenSSH reads it likewise."""

from __future__ import annotations

import json
import random
import time
from collections.abc import Iterator
from datetime import UTC, datetime
from itertools import islice
from pathlib import Path

import pytest

from dprelease.errors import SignatureError
from dprelease.signatures.signers import read_signers, signers_of
from dprelease.signatures.sshsig import MANIFESTS
from tests.signatures.keys import VECTORS, held, openssh, openssh_takes, public

KEY, OTHER = public(), public("id_locked")
ECDSA = public("id_ecdsa")
WHO = "me@office"
NOW = datetime.now(UTC)

ALLOWED = [
    f"{WHO} {KEY}",
    f'{WHO} {KEY} a comment, with = and "',
    f"# a comment\n\n{WHO} {OTHER}\n\n  {WHO}\t{KEY}  ",
    f"{WHO} {OTHER}\r\n{WHO} {KEY}\r\n",
    f'"{WHO}" {KEY}',
    f"you@office,{WHO} {KEY}",
    f"*@office {KEY}",
    f'{WHO} namespaces="{MANIFESTS}" {KEY}',
    f'{WHO} namespaces="git,dprelease-*" {KEY}',
    f'{WHO} namespaces="dprelease-manifes?" {KEY}',
    f'{WHO} NAMESPACES="{MANIFESTS}",Valid-After="20200101" {KEY}',
    f'{WHO} valid-after="20200101",valid-before="29991231" {KEY}',
    f'{WHO} valid-after="202001010000Z",valid-before="20991231235959" {KEY}',
    f'{WHO} namespaces="git" {KEY}\n{WHO} {KEY}',
    f"{WHO} {ECDSA}\n{WHO} {KEY}",
]
REFUSED = [
    f"{WHO} {OTHER}",
    f"{WHO} {ECDSA}",
    f'{WHO} namespaces="git" {KEY}',
    f'{WHO} namespaces="dprelease-ledger" {KEY}',
    f'{WHO} namespaces="dprelease-*,!{MANIFESTS}" {KEY}',
    f'{WHO} namespaces="!{MANIFESTS},dprelease-*" {KEY}',
    f'{WHO} namespaces="" {KEY}',
    f'{WHO} namespaces="dprelease.manifest" {KEY}',
    f'{WHO} namespaces="[d]prelease-manifest" {KEY}',
    f'{WHO} valid-after="29991231" {KEY}',
    f'{WHO} valid-before="20200101" {KEY}',
    f'{WHO} valid-before="202001010000Z" {KEY}',
    f'{WHO} valid-after="20200101",valid-before="20210101" {KEY}',
]
NO_LISTS = [
    ("", "no line names a key"),
    ("# nobody\n", "no line names a key"),
    (f"{WHO}", "principals"),
    (f"{KEY}", "must be followed"),
    (f"{WHO} ssh-ed25519", "must be followed"),
    (f"{WHO} ssh-ed25519 AAAA", "must be followed"),
    (f"{WHO} ssh-rsa {KEY.split()[1]}", "must be followed"),
    (f"{WHO} cert-authority {KEY}", "certificate authorities"),
    (f'{WHO} cert-authority,namespaces="git" {KEY}', "certificate authorities"),
    (f"{WHO} no-touch-required {KEY}", "not a known option"),
    (f"{WHO} namespaces=git {KEY}", "not a known option|comma"),
    (f'{WHO} namespaces="git",namespaces="x" {KEY}', "twice"),
    (f'{WHO} namespaces="git", {KEY}', "comma"),
    (f'{WHO} namespaces="git"valid-after="20200101" {KEY}', "comma"),
    (f'{WHO} namespaces="git {KEY}', "must be followed"),
    (f'{WHO} valid-after="2020" {KEY}', "YYYYMMDD"),
    (f'{WHO} valid-after="20201301" {KEY}', "YYYYMMDD"),
    (f'{WHO} valid-after="-2020101" {KEY}', "YYYYMMDD"),
    (f'{WHO} valid-after="20210101",valid-before="20200101" {KEY}', "not after"),
    (f'"{WHO} {KEY}', "principals"),
    (f"\0{WHO}", "principals"),
]


PRINCIPALS = [
    WHO, "*", "*,!alice@o", f"*,!{WHO}", f"!{WHO}", "!*,*", "me@*", "?e@office", f"you@x,{WHO}",
    f'"{WHO}"', f'"{WHO},you@x"', 'me"@office', '"me@office', f"{WHO},!{WHO}", "**", "m*e,!zz",
    "!you@x,*@x,*@office", "*,!*@*", '"*"', ",", f"{WHO},", "!zz,??", "*,!?*", f'"{WHO}"x',
    "*,!,!?,!??*", f"{WHO},{'a' * 1022}", f"{WHO},{'a' * 1023}",
]  # fmt: skip
OPTIONS = [
    f'namespaces="{MANIFESTS}"', 'namespaces="*"', 'namespaces="git,dprelease-*"',
    'namespaces="git"', "namespaces=git", 'NameSpaces="*"', 'namespaces="*,!git"',
    f'namespaces="*,!{MANIFESTS}"', 'namespaces="!git"', 'namespaces="a b,*"',
    r'namespaces="a\"b,*"', 'namespaces="*\\"', r'namespaces="*\\"', r'namespaces="\x,*"',
    r'namespaces="x\\",valid-after="20200101"', 'namespaces=""', 'namespaces="a', 'namespaces ="*"',
    'namespaces="*"valid-after="20200101"', 'namespaces="*",namespaces="*"', 'namespaces="*" ',
    'namespaces="*",', ',namespaces="*"', 'namespaces="*",,valid-after="20200101"', ",",
    'valid-after="20200101"', 'valid-after="20200101z"', 'valid-after="20200101UTC"',
    'valid-after="202001010000utc"', 'valid-before="20200101"', 'valid-before="29990101"',
    'valid-after="19700101Z"', 'valid-after="19700101000001Z"', 'valid-after="19600101Z"',
    'valid-before="19600101Z"', 'valid-after="2020"', 'valid-after=""', 'valid-after="Z"',
    'valid-after="20200101 Z"', 'valid-before="20210101",valid-after="20210101"',
    'valid-after="20200101",valid-before="29980101"', "cert-authority", "restrict",
    'cert-authority,namespaces="*"', 'unknown="a b"',
]  # fmt: skip
PUBLIC = KEY.split()[1]
KEYS = [
    KEY, f"{KEY} comment", f"{KEY} # a comment", KEY.replace(" ", " \t"), OTHER, ECDSA,
    "ssh-ed25519", PUBLIC, f"ssh-rsa {PUBLIC}", f"SSH-ED25519 {PUBLIC}", KEY[:-1], f"{KEY}=",
    f"{KEY[:-1]}{chr(ord(KEY[-1]) + 1)}", KEY.replace(" ", "\v"), f"{KEY}\vx", f"{KEY}\r",
    "foo AAAAA2Zvbw==", f"{KEY[:30]} {KEY[30:]}", "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAAA==",
]  # fmt: skip
BETWEEN = [" ", "\t", "  ", "\r", "\v"]
NAMES = (WHO, "you@x", "zz", "ab")
"""Some of those that the principals above name."""
LINES = [
    *(f"{principals} {KEY}" for principals in PRINCIPALS),
    *(f"{WHO} {options} {KEY}" for options in OPTIONS),
    *(f"{WHO} {key}" for key in KEYS),
    *(f"{WHO}{between}{KEY}" for between in BETWEEN),
]


def taken(text: str, folder: Path) -> bool | None:
    """Return whether a list takes the key; None for what is no list."""
    try:
        verdict = signers_of(text, "allowed_signers").judge(held(folder).public, MANIFESTS, NOW)
    except SignatureError:
        return None
    return verdict.is_accepted


def test_each_line_is_judged_like_openssh(tmp_path: Path) -> None:
    """By the verdicts of `vectors`, over lines that differ in one place."""
    verdicts = json.loads((VECTORS / "allowed_signers.json").read_text())
    assert list(verdicts) == list(dict.fromkeys(LINES))
    for line, verdict in verdicts.items():
        for end in ("\n", "\r\n", ""):
            assert bool(taken(f"{line}{end}", tmp_path)) is verdict, line


def test_lists_unreadable_by_openssh_are_refused(tmp_path: Path) -> None:
    """It stops at a broken line, so nothing behind one counts."""
    broken = [line for line in LINES if taken(line, tmp_path) is None]
    assert len(broken) > 30
    for line in broken:
        assert taken(f"{line}\n{WHO} {KEY}\n", tmp_path) is None


def lists(seed: int) -> Iterator[str]:
    """Yield lists of lines at random."""
    chosen = random.Random(seed)
    while True:
        text = ""
        for _ in range(chosen.choice([1, 2, 3])):
            options = chosen.choice(OPTIONS) + " " if chosen.random() < 0.5 else ""
            line = f"{chosen.choice(PRINCIPALS)} {options}{chosen.choice(KEYS[:6])}"
            kept = ["# a comment", "", *[f"{chosen.choice(['', ' '])}{line}"] * 8]
            text += chosen.choice(kept) + chosen.choice(["\n", "\n", "\r\n"])
        yield text


@openssh
def test_lists_are_judged_like_openssh(tmp_path: Path) -> None:
    """It skips broken lines of others, for it asks about one name: such lists are none here."""
    message, signature = (VECTORS / "message.txt").read_bytes(), VECTORS / "message.txt.sig"
    path = tmp_path / "allowed_signers"
    found = ((text, taken(text, tmp_path)) for text in lists(5))
    for text, ours in islice(((t, o) for t, o in found if o is not None), 40):
        path.write_bytes(text.encode())
        words = (MANIFESTS, signature, message)
        assert any(openssh_takes(path, who, *words) for who in NAMES) is ours, text


@openssh
@pytest.mark.parametrize(("hour", "counts"), [(10, False), (11, True)])
@pytest.mark.parametrize("zone", ["", "Z"])
def test_local_times_are_standard_times(
    zone: str, hour: int, counts: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Noon of a summer's day in Berlin is 10:00 UTC, but 11:00 for OpenSSH."""
    monkeypatch.setenv("TZ", "Europe/Berlin")
    time.tzset()
    try:
        start = f"20260701{'11' if zone else '12'}0000{zone}"
        text = f'{WHO} valid-after="{start}" {KEY}\n'
        now = datetime(2026, 7, 1, hour, 30, tzinfo=UTC)
        verdict = signers_of(text, "allowed_signers").judge(held(tmp_path).public, MANIFESTS, now)
        assert verdict.is_accepted is counts
        path = tmp_path / "allowed_signers"
        path.write_text(text)
        message, signature = (VECTORS / "message.txt").read_bytes(), VECTORS / "message.txt.sig"
        moment = f"verify-time={now:%Y%m%d%H%M%S}Z"
        found = openssh_takes(path, WHO, MANIFESTS, signature, message, "-O", moment)
        assert found is counts
    finally:
        monkeypatch.undo()
        time.tzset()


def is_accepted(text: str, folder: Path) -> bool:
    verdict = signers_of(text, "allowed_signers").judge(held(folder).public, MANIFESTS, NOW)
    assert verdict.known or KEY.split()[1] not in text
    assert bool(verdict.refusal) == (verdict.known and not verdict.is_accepted)
    return verdict.is_accepted


@pytest.mark.parametrize("text", ALLOWED)
def test_keys_that_may_sign(text: str, tmp_path: Path) -> None:
    assert is_accepted(text, tmp_path)


@pytest.mark.parametrize("text", REFUSED)
def test_keys_that_may_not_sign(text: str, tmp_path: Path) -> None:
    assert not is_accepted(text, tmp_path)


@pytest.mark.parametrize(("line", "problem"), NO_LISTS)
def test_invalid_lists_name_the_line(line: str, problem: str, tmp_path: Path) -> None:
    """Whatever else is in it, and told with its line."""
    good = f"{WHO} {KEY}\n" if line and not line.startswith("#") else ""
    path = tmp_path / "allowed_signers"
    path.write_text(f"{good}{line}\n")
    with pytest.raises(SignatureError, match=problem) as caught:
        read_signers(path)
    assert caught.value.code == "DP-SIGN-007"
    assert caught.value.place.file == "allowed_signers"
    assert caught.value.place.line == (2 if good else None)


@openssh
def test_every_line_is_judged_like_openssh(tmp_path: Path) -> None:
    """Of every line above, but for what is refused here and followed there: authorities."""
    message, signature = (VECTORS / "message.txt").read_bytes(), VECTORS / "message.txt.sig"
    path = tmp_path / "allowed_signers"
    lines = [(text, True) for text in ALLOWED] + [(text, False) for text in REFUSED]
    lines += [(text, False) for text, _ in NO_LISTS]
    for text, expected in lines:
        path.write_text(f"{text}\n")
        taken = openssh_takes(path, WHO, MANIFESTS, signature, message)
        assert taken is expected, text


@pytest.mark.parametrize("kind", ["missing", "folder", "binary", "large"])
def test_files_without_a_list_are_refused(kind: str, tmp_path: Path) -> None:
    path = tmp_path / "allowed_signers"
    if kind == "folder":
        path.mkdir()
    elif kind != "missing":
        path.write_bytes(b"\xff\xfe\0" if kind == "binary" else b"#" * (2 << 20))
    with pytest.raises(SignatureError, match="DP-SIGN-008") as caught:
        read_signers(path)
    assert kind != "large" or "it is larger than 1 MiB" in caught.value.cause
