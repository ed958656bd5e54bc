"""Signed entries: without a key, whoever can write the file can't forge entries.

From the first entry of kind `signers` on, every entry is signed by a key in the list before it; the
first list by one of its own keys. A signature covers the number of the entry, the digest of the
entry before, and its body, and so all entries before it.

The validity of a key is checked at the time of the entry, or at the latest time before it if that
is later: an expired key can't sign an entry that claims to be older than the last one.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from functools import lru_cache

from dprelease.errors import SignatureError
from dprelease.ledger.chain import Entry, signed_text
from dprelease.ledger.periods import moment_of
from dprelease.ledger.steps import SIGNERS
from dprelease.signatures.signers import Signers, signers_of
from dprelease.signatures.sshsig import ENTRIES, Signature, fingerprint

LIST = "signers"
"""Name in messages of a list that is in the ledger."""


def signers_of_entry(entry: Entry) -> Signers:
    """Return the list of a `signers` entry; raises SignatureError for an invalid text."""
    return signers_of(str(entry.body["signers"]), LIST)


def lasting_list(text: str) -> Signers:
    """Return the list of signers in a text that is to be stored in a ledger.

    Raises
    ------
    SignatureError
        DP-SIGN-007 for an invalid text, or one with times in local time: in another time zone an
        entry that counts here would have no valid signer, and the ledger would be damaged.
    """
    signers = signers_of(text, LIST)
    if any(line.is_local for line in signers.lines):
        problem = "a ledger is read in several time zones, and so its times end with Z"
        raise SignatureError("DP-SIGN-007", problem=problem)
    return signers


def problem_of(entry: Entry, signers: Signers, at: datetime | None) -> str | None:
    """Return why an entry has no valid signature at a time; None if it has one."""
    text = entry.body.get("signature")
    if not isinstance(text, str):
        return "it is not signed"
    signature = _valid_signature(text, signed_text(entry))
    if signature is None:
        return "its signature is none of it"
    verdict = signers.judge(signature.public, ENTRIES, at or moment_of(str(entry.body["time"])))
    if verdict.is_accepted:
        return None
    who = fingerprint(signature.public)
    return f"it is signed by {who}, {verdict.refusal or 'which is not one of the signers'}"


@lru_cache(maxsize=1 << 14)
def _valid_signature(armored: str, message: bytes) -> Signature | None:
    """Return a signature if it is valid; results are cached."""
    try:
        signature = Signature.from_armor(armored.encode())
    except ValueError:
        return None
    known = signature.namespace == ENTRIES and signature.holds(message)
    return signature if known else None


def outside_problem(entries: Sequence[Entry], signers: Signers) -> str | None:
    """Return the first contradiction to a list of signers that is kept outside the ledger.

    Whoever can write the file can replace the whole history with another list of signers. Only a
    comparison with the reader's own list detects that.
    """
    first = next((i for i, entry in enumerate(entries) if entry.kind == SIGNERS), None)
    if first is None:
        return "none of its entries is signed"
    at = None
    for entry in entries[first:]:
        now = moment_of(str(entry.body["time"]))
        at = now if at is None else max(now, at)
        problem = problem_of(entry, signers, at)
        if problem is not None:
            return f"entry {entry.number}: {problem}"
    return None
